"""Soft pseudo-labels: two honest heads guess class and subgroup of deployment rows, a classifier learns from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from supportmatch.baselines.interface import Baseline
from supportmatch.baselines.simple_models import (
    Array,
    ModelKind,
    choose_kind,
    fit_lean_network,
    fit_simple_model,
    flatten_rows,
    judge_rows,
    require_deployment,
)
from supportmatch.clustering.codes import encode_images
from supportmatch.clustering.factorised import factorised_probabilities
from supportmatch.config import ClusteringConfig
from supportmatch.data.containers import Labeled, Unlabeled
from supportmatch.seeding import check_seed
from supportmatch.sources import Ids, Label, SourceGrid


class PseudoLabelClassifier(Baseline):
    """A classifier of deployment rows under soft labels P(y|x) P(s|x), with all pseudo-sources weighted equally.

    The class head learns only from subgroups that training shows with every class, the subgroup head only from classes
    with every subgroup (`supportmatch.clustering.factorised`), so neither learns a shortcut. Like
    `CompleteSupportClassifier` it needs what separates the classes to be the same in every subgroup.

    Args:
        subgroup_names: Every declared subgroup; by default those seen in training.
        class_names: Every class; by default those seen in training.
        model: `auto` is a network for images and linear for tables; `linear` is logistic regression (images pixel by
            pixel), `boosted` gradient-boosted trees (tables only; the heads are boosted too), `network` a lean network.
            Heads of images read autoencoder codes.
        widths: Of the network; None is (16, 32, 64, 128) for images, (35,) for tables.
        epochs: Of the network, over the deployment set; None is 5 for images, 30 for tables.
        clustering: The autoencoder whose codes the heads read (images); by default that of `factorised` clusters.
        random_state: The seed.
        verbose: Show progress.
    """

    def __init__(
        self,
        *,
        subgroup_names: Sequence[Label] | None = None,
        class_names: Sequence[Label] | None = None,
        model: Literal["auto"] | ModelKind = "auto",
        widths: tuple[int, ...] | None = None,
        epochs: int | None = None,
        clustering: ClusteringConfig | None = None,
        random_state: int | np.random.RandomState | None = 0,
        verbose: bool = False,
    ) -> None:
        self.subgroup_names = subgroup_names
        self.class_names = class_names
        self.model = model
        self.widths = widths
        self.epochs = epochs
        self.clustering = clustering
        self.random_state = random_state
        self.verbose = verbose

    def _learn(self, train: Labeled, deploy: Unlabeled | None) -> None:
        deploy = require_deployment(deploy)
        kind = choose_kind(self.model, train)
        seed = check_seed(self.random_state)
        heads = "boosted" if kind == "boosted" else "linear"
        readable = encode_images(train, deploy, self.clustering or ClusteringConfig(), seed)
        self.source_probabilities_ = factorised_probabilities(*readable, heads, seed)
        weights = balanced_class_weights(self.source_probabilities_, train.grid)
        if kind == "network":
            self.model_ = self._fit_network(deploy, weights, train.grid, seed)
            return
        # A soft label is one copy of the row for each class.
        copies = np.repeat(flatten_rows(deploy), train.grid.n_classes, axis=0)
        labels = np.tile(np.arange(train.grid.n_classes), len(deploy))
        self.model_ = fit_simple_model(kind, copies, labels, weights.reshape(-1))

    def _fit_network(self, deploy: Unlabeled, weights: Array, grid: SourceGrid, seed: int) -> torch.nn.Sequential:
        targets = torch.from_numpy(weights.astype(np.float32))

        def soft_cross_entropy(logits: Tensor, rows: Ids) -> Tensor:
            return -(targets[torch.from_numpy(rows)] * logits.log_softmax(dim=1)).sum(dim=1).mean()

        y, s = np.divmod(self.source_probabilities_.argmax(axis=1), grid.n_subgroups)
        return fit_lean_network(
            Labeled(deploy.x, deploy.layout, y=y, s=s, grid=grid),
            name="pseudo-labels",
            widths=self.widths,
            epochs=self.epochs,
            sampling="plain",
            seed=seed,
            verbose=self.verbose,
            loss_of=soft_cross_entropy,
        )

    def _judge(self, rows: Unlabeled) -> NDArray[np.float64]:
        return judge_rows(self.model_, rows)


def balanced_class_weights(source_probabilities: Array, grid: SourceGrid) -> Array:
    """Return how much each row counts for each class when every source has the same total; a row counts 1 on average.

    >>> grid = SourceGrid(classes=(2, 4), subgroups=("purple", "green"))
    >>> balanced_class_weights(np.array([[0.5, 0.5, 0, 0], [0.5, 0, 0, 0.5]]), grid).round(2)
    array([[1.  , 0.  ],
           [0.33, 0.67]])
    """
    total = source_probabilities.sum(axis=0)
    share = np.divide(source_probabilities, total, out=np.zeros_like(source_probabilities), where=total > 0)
    by_class = share.reshape(len(share), grid.n_classes, grid.n_subgroups).sum(axis=2)
    weights: Array = by_class * len(share) / np.count_nonzero(total)
    return weights
