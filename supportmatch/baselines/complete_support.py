"""The simplest thing a careful user would try: learn only from subgroups that training shows with every class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from supportmatch.baselines.interface import Baseline
from supportmatch.data.containers import Labeled, Rows, Unlabeled
from supportmatch.errors import ConfigError
from supportmatch.sources import Label


class CompleteSupportClassifier(Baseline):
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

    def _learn(self, train: Labeled) -> None:
        complete = [s for s in range(train.grid.n_subgroups) if train.support.is_complete_subgroup(s)]
        if not complete:
            raise ConfigError(
                "no subgroup occurs with every class in training, so there is none to learn from safely: use "
                "support-matching, or collect labels for the missing classes of one subgroup."
            )
        chosen = train.take(np.isin(train.s, complete))
        self.model_ = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced", max_iter=1_000))
        self.model_.fit(_flat(chosen), chosen.y)

    def _judge(self, rows: Unlabeled) -> NDArray[np.float64]:
        probabilities: NDArray[np.float64] = self.model_.predict_proba(_flat(rows))
        return probabilities


def _flat(rows: Rows) -> NDArray[Any]:
    return rows.x.reshape(len(rows), -1)
