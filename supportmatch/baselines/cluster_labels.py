"""Clusters as labels: divide the deployment set, name the clusters, and train an ordinary classifier on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from supportmatch.baselines.interface import Baseline
from supportmatch.baselines.simple_models import (
    ModelKind,
    balanced_weights,
    choose_kind,
    fit_lean_network,
    fit_simple_model,
    flatten_rows,
    join_sets,
    judge_rows,
    require_deployment,
)
from supportmatch.clustering import cluster_deployment
from supportmatch.config import ClusteringConfig, default_config
from supportmatch.data.containers import Labeled, Unlabeled
from supportmatch.pairing import pair_clusters
from supportmatch.progress import progress_bar
from supportmatch.seeding import check_seed
from supportmatch.sources import Label


class ClusterLabelClassifier(Baseline):
    """A classifier of training rows and of deployment rows labelled by their clusters, every source drawn equally.

    It is as good as the clusters and their names (`clusters_`, `pairing_`): no adversary, nothing to tune, and nothing
    to fall back on where either is wrong.

    Args:
        subgroup_names: Every declared subgroup; by default those seen in training.
        class_names: Every class; by default those seen in training.
        model: `auto` is a network for images and linear for tables; `linear` is logistic regression (images pixel by
            pixel), `boosted` gradient-boosted trees (tables only), `network` a lean network.
        clustering: How the deployment set is divided; by default as for support-matching.
        widths: Of the network; None is (16, 32, 64, 128) for images, (35,) for tables.
        epochs: Of the network, over both sets; None is 5 for images, 30 for tables.
        random_state: The seed.
        verbose: Show progress.
    """

    def __init__(
        self,
        *,
        subgroup_names: Sequence[Label] | None = None,
        class_names: Sequence[Label] | None = None,
        model: Literal["auto"] | ModelKind = "auto",
        clustering: ClusteringConfig | None = None,
        widths: tuple[int, ...] | None = None,
        epochs: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
        verbose: bool = False,
    ) -> None:
        self.subgroup_names = subgroup_names
        self.class_names = class_names
        self.model = model
        self.clustering = clustering
        self.widths = widths
        self.epochs = epochs
        self.random_state = random_state
        self.verbose = verbose

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
            self.model_ = fit_lean_network(
                both,
                name="cluster labels",
                widths=self.widths,
                epochs=self.epochs,
                sampling="sources",
                seed=seed,
                verbose=self.verbose,
            )
        else:
            self.model_ = fit_simple_model(kind, flatten_rows(both), both.y, balanced_weights(both.source_ids))

    def _judge(self, rows: Unlabeled) -> NDArray[np.float64]:
        return judge_rows(self.model_, rows)
