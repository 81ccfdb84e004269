"""Empirical risk minimisation: the ordinary classifier, trained on rows balanced like Pi."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from supportmatch.classifier import predict_rows, train_network
from supportmatch.config import ClassifierConfig
from supportmatch.data.inputs import FeatureReader, Features
from supportmatch.networks.backbones import build_backbone
from supportmatch.progress import progress_bar
from supportmatch.seeding import check_seed, seeded_initialisation
from supportmatch.sources import Label


class ErmClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
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
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.subgroup_names = subgroup_names
        self.class_names = class_names
        self.widths = widths
        self.epochs = epochs
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Features,
        y: Sequence[Label] | NDArray[Any],
        subgroup: Sequence[Label] | NDArray[Any],
        X_deploy: Features | None = None,
    ) -> ErmClassifier:
        """Train on labelled rows; of `X_deploy` only the names of categories are read, so that they can be encoded."""
        self.reader_ = FeatureReader.fit(X, X_deploy)
        train = self.reader_.read_labeled(
            X, y, subgroup, subgroup_names=self.subgroup_names, class_names=self.class_names
        )
        widths = self.widths if self.widths is not None else ((16, 32, 64, 128) if train.is_images else (35,))
        config = ClassifierConfig(epochs=self.epochs if self.epochs is not None else (10 if train.is_images else 60))
        seed = check_seed(self.random_state)
        with seeded_initialisation(seed, "erm"):
            network = build_backbone(train.feature_shape, train.grid.n_classes, widths)
        with progress_bar("ERM", enabled=self.verbose) as report:
            self.network_ = train_network(network, train, config, seed, report)
        self.classes_ = np.array(train.grid.classes)
        return self

    def predict_proba(self, X: Features) -> NDArray[np.float64]:
        """Return class probabilities, rows x classes."""
        check_is_fitted(self, "network_")
        return predict_rows(self.network_, self.reader_.read(X))

    def predict(self, X: Features) -> NDArray[Any]:
        """Return class names."""
        best = self.predict_proba(X).argmax(axis=1)
        names: NDArray[Any] = self.classes_[best]
        return names
