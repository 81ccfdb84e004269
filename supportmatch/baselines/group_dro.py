"""Group DRO: the worst group decides (Sagawa et al., 2020)."""

from __future__ import annotations

from math import inf
from numbers import Real
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from supportmatch.baselines.erm import NetworkBaseline, single_backbone
from supportmatch.data.containers import Labeled, Unlabeled
from supportmatch.errors import ConfigError
from supportmatch.sources import Ids
from supportmatch.tensors import as_ids


class GroupDroClassifier(NetworkBaseline):
    """Minimises a weighted sum of the groups' losses whose weights grow with the losses.

    After every training batch the weight of each group in it is multiplied by `exp(step_size * loss)`, and weights are
    made to sum to one: the harder a group, the more it counts. Test rows never touch the weights. A subgroup that is
    all of one class is soon easy and ignored, so where the class looks alike in all subgroups this can help with a
    missing source; a shortcut that was learnt before the weights moved may stay.

    A subgroup that is declared but has no training row is refused: a group without rows has no loss.

    Args:
        groups: `"subgroups"` (as the paper's authors ran it) or `"sources"`, those that occur.
        step_size: How fast weights follow losses. `"worst"` has no memory: the worst group of each batch has all the
            weight (what the paper's authors ran on digits and Adult).
        adjustment: C of the generalisation adjustment: `C / sqrt(n)` is added to the loss that moves the weight of a
            group of n training rows, because small groups are fitted better than they generalise.
        **network: The arguments of `NetworkBaseline`.

    After `fit`, `q_` holds the weights, ordered like subgroup ids or source ids; a source without rows has zero.
    """

    q_: NDArray[np.float64]

    def __init__(
        self,
        *,
        groups: Literal["subgroups", "sources"] = "subgroups",
        step_size: float | Literal["worst"] = 0.01,
        adjustment: float = 0.0,
        **network: Any,
    ) -> None:
        super().__init__(**network)
        self.groups = groups
        self.step_size = step_size
        self.adjustment = adjustment

    def _learn(self, train: Labeled, deploy: Unlabeled | None) -> None:
        missing = [repr(train.grid.subgroups[s]) for s in train.support.missing_subgroups]
        if missing:
            raise ConfigError(
                f"group DRO needs a loss for every declared subgroup, but {', '.join(missing)} has no labelled row: "
                "add some, or use support-matching, which needs none."
            )
        if self.groups not in ("subgroups", "sources"):
            raise ConfigError(f"`groups` must be 'subgroups' or 'sources', but is {self.groups!r}.")
        is_number = isinstance(self.step_size, Real) and 0 <= self.step_size < inf
        if not (is_number or self.step_size == "worst"):
            raise ConfigError(f"`step_size` must be 'worst' or a number not below 0, but is {self.step_size!r}.")
        if not self.adjustment >= 0:
            raise ConfigError(f"`adjustment` must not be negative, but is {self.adjustment}.")
        group_ids = train.s if self.groups == "subgroups" else train.source_ids
        n_groups = train.grid.n_subgroups if self.groups == "subgroups" else train.grid.n_sources
        weights = GroupWeights(np.bincount(group_ids, minlength=n_groups), self.step_size, self.adjustment)

        def loss_of(logits: Tensor, rows: Ids) -> Tensor:
            losses = cross_entropy(logits, as_ids(train.y[rows]), reduction="none")
            return weights.weigh(losses, as_ids(group_ids[rows]))

        self.network_ = self._train(train, loss_of, single_backbone)
        self.q_ = weights.q.numpy()


class GroupWeights:
    """The weights q of the groups, uniform over those with rows at first, and moved by every batch that is weighed.

    Args:
        sizes: Training rows of each group.
        step_size: How fast weights follow losses; "worst" puts all weight on the worst group of the latest batch.
        adjustment: C; `C / sqrt(size)` is added to a group's loss whenever weights move, in the batch or not.
    """

    def __init__(self, sizes: NDArray[np.int64], step_size: float | Literal["worst"], adjustment: float = 0.0) -> None:
        n_rows = torch.from_numpy(sizes).double()
        self._step_size = step_size
        self._adjustment = adjustment / n_rows.clamp(min=1).sqrt()
        # In logarithms, so that a large step neither overflows nor loses a group for good.
        self._log_q = (n_rows > 0).double().log().log_softmax(dim=0)

    @property
    def q(self) -> Float[Tensor, " groups"]:
        """The weights; they sum to one."""
        return self._log_q.exp()

    def weigh(self, losses: Float[Tensor, " rows"], groups: Int[Tensor, " rows"]) -> Float[Tensor, ""]:
        """Move the weights by the mean loss of each group in the batch, and return the weighted sum of those means."""
        present, position, n_rows = groups.unique(return_inverse=True, return_counts=True)
        means = losses.new_zeros(len(present)).index_add(0, position, losses) / n_rows
        push = self._adjustment.index_add(0, present, means.detach().double())
        if self._step_size == "worst":
            worst = present[push[present].argmax()]
            self._log_q = torch.full_like(self._log_q, -torch.inf).index_fill(0, worst, 0.0)
        else:
            self._log_q = (self._log_q + self._step_size * push).log_softmax(dim=0)
        weighted: Tensor = self.q[present].to(means.dtype) @ means
        return weighted
