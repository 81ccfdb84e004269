"""Soft pseudo-labels: two honest heads guess class and subgroup of deployment rows, a classifier learns from them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from supportmatch.baselines.simple_models import (
    Array,
    DeploymentBaseline,
    choose_kind,
    fit_simple_model,
    flatten_rows,
    require_deployment,
)
from supportmatch.clustering.codes import encode_images
from supportmatch.clustering.factorised import factorised_probabilities
from supportmatch.config import ClusteringConfig
from supportmatch.data.containers import Labeled, Unlabeled
from supportmatch.final import balanced_class_weights
from supportmatch.seeding import check_seed
from supportmatch.sources import Ids, SourceGrid


class PseudoLabelClassifier(DeploymentBaseline):
    """A classifier of deployment rows under soft labels P(y|x) P(s|x), with all pseudo-sources weighted equally.

    The class head learns only from subgroups that training shows with every class, the subgroup head only from classes
    with every subgroup (`supportmatch.clustering.factorised`), so neither learns a shortcut. Like
    `CompleteSupportClassifier` it needs what separates the classes to be the same in every subgroup.

    The arguments are those of `DeploymentBaseline`; with `boosted` the heads are boosted too,
    and of `clustering` only the autoencoder is used.
    """

    def _learn(self, train: Labeled, deploy: Unlabeled | None) -> None:
        deploy = require_deployment(deploy)
        kind = choose_kind(self.model, train)
        seed = check_seed(self.random_state)
        heads = "boosted" if kind == "boosted" else "linear"
        readable = encode_images(train, deploy, self.clustering or ClusteringConfig(), seed)
        self.source_probabilities_ = factorised_probabilities(*readable, heads, seed)
        weights = balanced_class_weights(self.source_probabilities_, train.grid)
        if kind == "network":
            self.model_ = self._fit_softly(deploy, weights, train.grid, seed)
            return
        # A soft label is one copy of the row for each class.
        copies = np.repeat(flatten_rows(deploy), train.grid.n_classes, axis=0)
        labels = np.tile(np.arange(train.grid.n_classes), len(deploy))
        self.model_ = fit_simple_model(kind, copies, labels, weights.reshape(-1))

    def _fit_softly(self, deploy: Unlabeled, weights: Array, grid: SourceGrid, seed: int) -> torch.nn.Sequential:
        targets = torch.from_numpy(weights.astype(np.float32))

        def soft_cross_entropy(logits: Tensor, rows: Ids) -> Tensor:
            return -(targets[torch.from_numpy(rows)] * logits.log_softmax(dim=1)).sum(dim=1).mean()

        y, s = np.divmod(self.source_probabilities_.argmax(axis=1), grid.n_subgroups)
        labeled = Labeled(deploy.x, deploy.layout, y=y, s=s, grid=grid)
        return self._fit_network(labeled, "pseudo-labels", "plain", seed, soft_cross_entropy)
