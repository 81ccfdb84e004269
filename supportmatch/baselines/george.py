"""GEORGE as the paper adapts it: label the deployment set, then train group DRO on both sets (Sohoni et al., 2020)."""

from __future__ import annotations

from typing import Any, Literal

from supportmatch.baselines.group_dro import GroupDroClassifier
from supportmatch.baselines.simple_models import join_sets, require_deployment
from supportmatch.clustering import Clusters, cluster_deployment
from supportmatch.clustering.codes import encode_images
from supportmatch.config import ClusteringConfig
from supportmatch.data.containers import Labeled, Unlabeled
from supportmatch.errors import ConfigError
from supportmatch.seeding import check_seed


class GeorgeClassifier(GroupDroClassifier):
    """Believes what two heads say of the deployment rows, and trains group DRO on them and the training set together.

    The idea is the one of the paper's appendix, the heads are ours: logistic regressions (the paper trains neural heads
    with a pairwise loss on unlabelled rows too), the class head learns only from subgroups with every class and the
    subgroup head only from classes with every subgroup, and a subgroup without training rows is told by its novelty.
    Groups are sources, as the appendix says; the authors' runs used subgroups.

    One head tells the class and one the subgroup of every deployment row (`factorised` clusters: P(y|x) P(s|x), so
    that classes keep their names). The joined rows go to `GroupDroClassifier`. On images the heads read the codes of an
    autoencoder trained on both sets. It works in the missing-subgroup setting too, where deployment rows fill the
    group. Everything hangs on the heads: labels they get wrong are learnt as if they were right.

    Args:
        groups: `"sources"` that occur among the joined rows, or `"subgroups"`.
        sampling: As for `NetworkBaseline`; by default rows as they are, as the paper's authors did.
        clustering: The autoencoder of images and the kind of heads; by default as for `factorised` clusters.
        **network: The other arguments of `GroupDroClassifier`.

    After `fit`, `clusters_` holds the source ids given to the deployment rows.
    """

    clusters_: Clusters

    def __init__(
        self,
        *,
        groups: Literal["subgroups", "sources"] = "sources",
        sampling: Literal["pi", "sources", "plain"] = "plain",
        clustering: ClusteringConfig | None = None,
        **network: Any,
    ) -> None:
        super().__init__(groups=groups, sampling=sampling, **network)
        self.clustering = clustering

    def _learn(self, train: Labeled, deploy: Unlabeled | None) -> None:
        deploy = require_deployment(deploy)
        config = self.clustering if self.clustering is not None else ClusteringConfig(method="factorised")
        if config.method != "factorised":
            raise ConfigError(
                f"GEORGE needs clusters that are sources, but `clustering.method` is {config.method!r}, whose clusters "
                "have no names: use 'factorised', or `ClusterLabelClassifier`, which names them."
            )
        self.clusters_ = name_sources(train, deploy, config, check_seed(self.random_state))
        lost = [s for s in train.support.missing_subgroups if s not in self.clusters_.ids % train.grid.n_subgroups]
        if lost:
            names = ", ".join(repr(train.grid.subgroups[s]) for s in lost)
            raise ConfigError(
                f"the heads gave no deployment row to subgroup {names}, which training lacks too, so group DRO has "
                "nothing to learn it from: check that it occurs among the deployment rows and looks different."
            )
        super()._learn(join_sets(train, deploy, self.clusters_.ids), None)


def name_sources(train: Labeled, deploy: Unlabeled, config: ClusteringConfig, seed: int) -> Clusters:
    """Return the most probable source of every deployment row, from a class head and a subgroup head."""
    return cluster_deployment(*encode_images(train, deploy, config, seed), config, seed)
