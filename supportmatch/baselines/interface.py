"""What every comparison shares: it reads labelled rows like the estimator does, and predicts names from rows alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from supportmatch.data.containers import Labeled, Unlabeled
from supportmatch.data.inputs import FeatureReader, Features
from supportmatch.sources import Label

BaselineT = TypeVar("BaselineT", bound="Baseline")
Names = Sequence[Label] | NDArray[Any]


class Baseline(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier of labelled rows; a subclass says how rows are learned from and judged."""

    subgroup_names: Sequence[Label] | None
    class_names: Sequence[Label] | None

    @abstractmethod
    def _learn(self, train: Labeled, deploy: Unlabeled | None) -> None:
        """Learn from the training set, and from unlabelled deployment rows if the method uses them."""

    @abstractmethod
    def _judge(self, rows: Unlabeled) -> NDArray[np.float64]:
        """Return class probabilities, rows x classes."""

    def fit(self: BaselineT, X: Features, y: Names, subgroup: Names, X_deploy: Features | None = None) -> BaselineT:
        """Train on labelled rows, and on unlabelled ones where the method can use them.

        Methods that cannot (see their description) read no more of `X_deploy` than the names of categories.
        """
        reader = FeatureReader.fit(X, X_deploy)
        train = reader.read_labeled(X, y, subgroup, subgroup_names=self.subgroup_names, class_names=self.class_names)
        return self.fit_rows(reader, train, None if X_deploy is None else reader.read(X_deploy, "deployment"))

    def fit_rows(self: BaselineT, reader: FeatureReader, train: Labeled, deploy: Unlabeled | None) -> BaselineT:
        """Train on rows that were read before, so that a comparison sees exactly what another method saw.

        Args:
            reader: How they were read, and how rows to predict will be.
            train: The labelled rows.
            deploy: The unlabelled rows, for methods that use them.
        """
        self._learn(train, deploy)
        self.reader_, self.classes_ = reader, np.array(train.grid.classes)
        return self

    @property
    def n_features_in_(self) -> int:
        """Columns of a table as it was given, or pixels times channels of an image."""
        return self.reader_.n_features

    def predict_proba(self, X: Features) -> NDArray[np.float64]:
        """Return class probabilities, rows x classes in the order of `classes_`."""
        check_is_fitted(self, "reader_")
        return self._judge(self.reader_.read(X))

    def predict(self, X: Features) -> NDArray[Any]:
        """Return the most probable class of each row."""
        best = self.predict_proba(X).argmax(axis=1)
        names: NDArray[Any] = self.classes_[best]
        return names
