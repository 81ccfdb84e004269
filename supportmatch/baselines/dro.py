"""Distributionally robust optimisation without subgroup labels (Hashimoto et al., 2018)."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cross_entropy

from supportmatch.baselines.erm import NetworkBaseline, single_backbone
from supportmatch.data.containers import Labeled, Unlabeled
from supportmatch.errors import ConfigError
from supportmatch.sources import Ids
from supportmatch.tensors import as_ids


class DroClassifier(NetworkBaseline):
    """Minimises the squared excess of each row's cross-entropy over a threshold, so that hard rows count most.

    It is the dual of the worst case over all shifts of a given size (chi-squared), whoever the rows belong to. Rows
    that are learnt better than the threshold count nothing.

    Args:
        eta: The threshold. The paper's authors chose from 0.01, 0.1, 0.3 and 1.0, and took 0.5 for three digits. Above
            the loss of an untrained network (log of the number of classes: 0.69 for two) little is learnt, if anything.
        **network: The arguments of `NetworkBaseline`.
    """

    def __init__(self, *, eta: float = 0.1, **network: Any) -> None:
        super().__init__(**network)
        self.eta = eta

    def _learn(self, train: Labeled, deploy: Unlabeled | None) -> None:
        if not self.eta >= 0:
            raise ConfigError(f"`eta` is a threshold on losses and must not be negative, but is {self.eta}: use 0.1.")

        def loss_of(logits: Tensor, rows: Ids) -> Tensor:
            return excess_loss(cross_entropy(logits, as_ids(train.y[rows]), reduction="none"), self.eta)

        self.network_ = self._train(train, loss_of, single_backbone)


def excess_loss(losses: Float[Tensor, " rows"], eta: float) -> Float[Tensor, ""]:
    """Return the mean of `max(0, loss - eta)` squared."""
    return (losses - eta).relu().square().mean()
