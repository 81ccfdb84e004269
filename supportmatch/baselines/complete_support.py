"""The simplest thing a careful user would try: learn only from subgroups that training shows with every class."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from supportmatch.baselines.interface import Baseline
from supportmatch.baselines.simple_models import (
    SIMPLE_KINDS,
    SimpleKind,
    balanced_weights,
    check_kind,
    fit_simple_model,
    flatten_rows,
    judge_rows,
)
from supportmatch.data.containers import Labeled, Unlabeled
from supportmatch.errors import ConfigError
from supportmatch.sources import Label


class CompleteSupportClassifier(Baseline):
    """A class-balanced model of the subgroups whose classes are all present. It does not use deployment rows.

    Within such a subgroup the label cannot be read off the subgroup, so nothing spurious is learned. It works where
    what separates the classes is the same in every subgroup, and fails where an unseen subgroup looks different.

    Args:
        subgroup_names: Every declared subgroup; by default those seen in training.
        class_names: Every class; by default those seen in training.
        model: `linear` is logistic regression (images pixel by pixel), `boosted` gradient-boosted trees (tables only).
    """

    def __init__(
        self,
        *,
        subgroup_names: Sequence[Label] | None = None,
        class_names: Sequence[Label] | None = None,
        model: SimpleKind = "linear",
    ) -> None:
        self.subgroup_names = subgroup_names
        self.class_names = class_names
        self.model = model

    def _learn(self, train: Labeled, deploy: Unlabeled | None) -> None:
        kind = check_kind(self.model, train, SIMPLE_KINDS)
        complete = [s for s in range(train.grid.n_subgroups) if train.support.is_complete_subgroup(s)]
        if not complete:
            raise ConfigError(
                "no subgroup occurs with every class in training, so there is none to learn from safely: use "
                "support-matching, or collect labels for the missing classes of one subgroup."
            )
        chosen = train.take(np.isin(train.s, complete))
        self.model_ = fit_simple_model(kind, flatten_rows(chosen), chosen.y, balanced_weights(chosen.y))

    def _judge(self, rows: Unlabeled) -> NDArray[np.float64]:
        return judge_rows(self.model_, rows)
