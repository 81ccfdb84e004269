"""Clusters as labels: divide the deployment set, name the clusters, and train an ordinary classifier on them."""

from __future__ import annotations

from supportmatch.baselines.simple_models import (
    DeploymentBaseline,
    balanced_weights,
    choose_kind,
    fit_simple_model,
    flatten_rows,
    join_sets,
    require_deployment,
)
from supportmatch.clustering import cluster_deployment
from supportmatch.config import default_config
from supportmatch.data.containers import Labeled, Unlabeled
from supportmatch.pairing import pair_clusters
from supportmatch.progress import progress_bar
from supportmatch.seeding import check_seed


class ClusterLabelClassifier(DeploymentBaseline):
    """A classifier of training rows and of deployment rows labelled by their clusters, every source drawn equally.

    It is as good as the clusters and their names (`clusters_`, `pairing_`): no adversary, nothing to tune, and nothing
    to fall back on where either is wrong.

    The arguments are those of `DeploymentBaseline`.
    """

    def _learn(self, train: Labeled, deploy: Unlabeled | None) -> None:
        deploy = require_deployment(deploy)
        kind = choose_kind(self.model, train)
        seed = check_seed(self.random_state)
        default = default_config(images=train.is_images, n_sources=train.grid.n_sources)
        clustering = self.clustering if self.clustering is not None else default.clustering
        with progress_bar("clustering", enabled=self.verbose) as report:
            self.clusters_ = cluster_deployment(train, deploy, clustering, seed, report)
        self.pairing_ = pair_clusters(self.clusters_, deploy, train.support, seed)
        both = join_sets(train, deploy, self.pairing_.source_ids(self.clusters_.ids))
        if kind == "network":
            self.model_ = self._fit_network(both, "cluster labels", "sources", seed)
        else:
            self.model_ = fit_simple_model(kind, flatten_rows(both), both.y, balanced_weights(both.source_ids))
