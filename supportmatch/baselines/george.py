"""GEORGE as the paper adapts it: label the deployment set, then train group DRO on both sets (Sohoni et al., 2020)."""

from __future__ import annotations

from typing import Any, Literal

from supportmatch.baselines.group_dro import GroupDroClassifier
from supportmatch.baselines.simple_models import join_sets, require_deployment
from supportmatch.clustering import Clusters, cluster_deployment
from supportmatch.clustering.codes import encode_images
from supportmatch.config import ClusteringConfig
from supportmatch.data.containers import Labeled, Unlabeled
from supportmatch.seeding import check_seed


class GeorgeClassifier(GroupDroClassifier):
    """Believes what two heads say of the deployment rows, and trains group DRO on them and the training set together.

    One head tells the class and one the subgroup of every deployment row (`factorised` clusters: P(y|x) P(s|x), so
    that classes keep their names). The joined rows go to `GroupDroClassifier`. On images the heads read the codes of an
    autoencoder trained on both sets. It works in the missing-subgroup setting too, where deployment rows fill the
    group. Everything hangs on the heads: labels they get wrong are learnt as if they were right.

    Args:
        groups: `"sources"` that occur among the joined rows, or `"subgroups"`.
        sampling: As for `NetworkBaseline`; by default rows as they are, as the paper's authors did.
        **network: The other arguments of `GroupDroClassifier`.

    After `fit`, `clusters_` holds the source ids given to the deployment rows.
    """

    clusters_: Clusters

    def __init__(
        self,
        *,
        groups: Literal["subgroups", "sources"] = "sources",
        sampling: Literal["pi", "sources", "plain"] = "plain",
        **network: Any,
    ) -> None:
        super().__init__(groups=groups, sampling=sampling, **network)

    def _learn(self, train: Labeled, deploy: Unlabeled | None) -> None:
        deploy = require_deployment(deploy)
        self.clusters_ = name_sources(train, deploy, check_seed(self.random_state))
        super()._learn(join_sets(train, deploy, self.clusters_.ids), None)


def name_sources(train: Labeled, deploy: Unlabeled, seed: int) -> Clusters:
    """Return the most probable source of every deployment row, from a class head and a subgroup head."""
    config = ClusteringConfig(method="factorised")
    return cluster_deployment(*encode_images(train, deploy, config, seed), config, seed)
