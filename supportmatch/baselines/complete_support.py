"""The simplest thing a careful user would try: learn only from subgroups that training shows with every class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from supportmatch.data.containers import Rows
from supportmatch.data.inputs import FeatureReader, Features
from supportmatch.errors import ConfigError
from supportmatch.sources import Label


class CompleteSupportClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Class-balanced logistic regression on the subgroups whose classes are all present.

    Within such a subgroup the label cannot be read off the subgroup, so nothing spurious is learned. It works where
    what separates the classes is the same in every subgroup, and fails where an unseen subgroup looks different.

    Args:
        subgroup_names: Every declared subgroup; by default those seen in training.
        class_names: Every class; by default those seen in training.
    """

    def __init__(
        self, *, subgroup_names: Sequence[Label] | None = None, class_names: Sequence[Label] | None = None
    ) -> None:
        self.subgroup_names = subgroup_names
        self.class_names = class_names

    def fit(
        self,
        X: Features,
        y: Sequence[Label] | NDArray[Any],
        subgroup: Sequence[Label] | NDArray[Any],
        X_deploy: Features | None = None,
    ) -> CompleteSupportClassifier:
        """Train on labelled rows; of `X_deploy` only the names of categories are read, so that they can be encoded."""
        self.reader_ = FeatureReader.fit(X, X_deploy)
        train = self.reader_.read_labeled(
            X, y, subgroup, subgroup_names=self.subgroup_names, class_names=self.class_names
        )
        complete = [s for s in range(train.grid.n_subgroups) if train.support.is_complete_subgroup(s)]
        if not complete:
            raise ConfigError(
                "no subgroup occurs with every class in training, so there is none to learn from safely: use "
                "support-matching, or collect labels for the missing classes of one subgroup."
            )
        chosen = train.take(np.isin(train.s, complete))
        self.model_ = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced", max_iter=1_000))
        self.model_.fit(_flat(chosen), chosen.y)
        self.classes_ = np.array(train.grid.classes)
        return self

    def predict_proba(self, X: Features) -> NDArray[np.float64]:
        """Return class probabilities, rows x classes."""
        check_is_fitted(self, "model_")
        probabilities: NDArray[np.float64] = self.model_.predict_proba(_flat(self.reader_.read(X)))
        return probabilities

    def predict(self, X: Features) -> NDArray[Any]:
        """Return class names."""
        best = self.predict_proba(X).argmax(axis=1)
        names: NDArray[Any] = self.classes_[best]
        return names


def _flat(rows: Rows) -> NDArray[Any]:
    return rows.x.reshape(len(rows), -1)
