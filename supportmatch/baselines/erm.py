"""Empirical risk minimisation: the ordinary classifier, trained on rows balanced like Pi."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from supportmatch.baselines.interface import Baseline
from supportmatch.classifier import predict_rows, train_network
from supportmatch.config import ClassifierConfig
from supportmatch.data.containers import Labeled, Unlabeled
from supportmatch.networks.backbones import build_backbone
from supportmatch.progress import progress_bar
from supportmatch.seeding import check_seed, seeded_initialisation
from supportmatch.sources import Label


class ErmClassifier(Baseline):
    """Cross-entropy on training rows alone, with the same balanced sampling as support-matching.

    Args:
        subgroup_names: Every declared subgroup; by default those seen in training.
        class_names: Every class; by default those seen in training.
        widths: Channels per stage (images) or hidden units (tables). None is lean: (16, 32, 64, 128) for images, (35,)
            for tables. The paper's are (64, 128, 256, 512) and (35,).
        epochs: Passes over the training set. None is lean: 10 for images, 60 (the paper's) for tables.
        random_state: The seed.
        verbose: Show progress.
    """

    def __init__(
        self,
        *,
        subgroup_names: Sequence[Label] | None = None,
        class_names: Sequence[Label] | None = None,
        widths: tuple[int, ...] | None = None,
        epochs: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
        verbose: bool = False,
    ) -> None:
        self.subgroup_names = subgroup_names
        self.class_names = class_names
        self.widths = widths
        self.epochs = epochs
        self.random_state = random_state
        self.verbose = verbose

    def _learn(self, train: Labeled) -> None:
        widths = self.widths if self.widths is not None else ((16, 32, 64, 128) if train.is_images else (35,))
        config = ClassifierConfig(epochs=self.epochs if self.epochs is not None else (10 if train.is_images else 60))
        seed = check_seed(self.random_state)
        with seeded_initialisation(seed, "erm"):
            network = build_backbone(train.feature_shape, train.grid.n_classes, widths)
        with progress_bar("ERM", enabled=self.verbose) as report:
            self.network_ = train_network(network, train, config, seed, report)

    def _judge(self, rows: Unlabeled) -> NDArray[np.float64]:
        return predict_rows(self.network_, rows)
