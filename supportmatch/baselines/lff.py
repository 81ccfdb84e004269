"""Learning from failure: a second network learns from what a deliberately biased one gets wrong (Nam et al., 2020)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from supportmatch.baselines.erm import NetworkBaseline
from supportmatch.data.containers import Labeled, Unlabeled
from supportmatch.errors import ConfigError
from supportmatch.sources import Ids
from supportmatch.tensors import as_ids


class LffClassifier(NetworkBaseline):
    """Weighs rows by how much harder they are for a biased network than for the one that is kept.

    Two networks see the same batches. The biased one minimises generalised cross-entropy, which favours what is easy,
    shortcuts first. The other minimises cross-entropy with the weights `b / (b + d)`, where b and d are moving averages
    of the row's cross-entropy in the biased network and in itself.

    **One change, on by default** (`calibrate`). As published, the method predicts the *opposite* class where labels are
    in part chance. Generalised cross-entropy ignores rare labels, so the biased network is nearly sure everywhere. Of
    100 alike rows of which 90 are of one class, these 90 then have b near 0 and weigh nothing; the second network
    unlearns them, their d grows and their weights fall further, until it predicts the class of the 10 others. On Adult
    this ends far below chance (robust accuracy 0.18 to 0.27 over ten seeds of both settings; the paper's authors have
    0.21 and 0.25).

    So b is read off the biased network at the temperature, never below one, that fits its probabilities to the labels.
    Then d equal to b, a weight of one half for all, is the only balance among rows that cannot be told apart, and the
    second network returns to it from anywhere; rows that only a shortcut gets wrong still weigh about one. The
    published code also divides b and d each by its largest value in the class. That lifts d while the second network is
    undecided, and can hold it there, so it is left out: the weights are those of the published formula.

    Args:
        q: Exponent of generalised cross-entropy, above 0 and up to 1: how strongly the biased network prefers what it
            already gets right.
        alpha: Share of the old value in the moving averages, from 0 to below 1; the first loss is taken as it is.
        calibrate: Soften the biased network as told above; False is the method as published, with the division.
        **network: The arguments of `NetworkBaseline`.

    After `fit`, `biased_network_` and its `temperature_` are kept for inspection.
    """

    biased_network_: nn.Sequential
    temperature_: float

    def __init__(self, *, q: float = 0.7, alpha: float = 0.7, calibrate: bool = True, **network: Any) -> None:
        super().__init__(**network)
        self.q = q
        self.alpha = alpha
        self.calibrate = calibrate

    def _learn(self, train: Labeled, deploy: Unlabeled | None) -> None:
        if not (0 < self.q <= 1 and 0 <= self.alpha < 1):
            raise ConfigError(
                f"`q` must lie above 0 and up to 1, and `alpha` from 0 to below 1, but they are {self.q} and "
                f"{self.alpha}: the published values are 0.7 and 0.7."
            )
        y = as_ids(train.y)
        biased_losses, own_losses = (LossAverages(y, train.grid.n_classes, self.alpha) for _ in range(2))
        temperature = Temperature()

        def loss_of(logits: Tensor, rows: Ids) -> Tensor:
            which = as_ids(rows)
            biased, own = logits.chunk(2, dim=1)
            if self.calibrate:
                temperature.fit_step(biased.detach(), y[which])
            own_loss = cross_entropy(own, y[which], reduction="none")
            biased_losses.update(which, cross_entropy(biased.detach() / temperature.value, y[which], reduction="none"))
            own_losses.update(which, own_loss.detach())
            if self.calibrate:
                weights = relative_difficulty(biased_losses.values[which], own_losses.values[which])
            else:
                weights = relative_difficulty(biased_losses.relative(which), own_losses.relative(which))
            return generalised_cross_entropy(biased, y[which], self.q).mean() + (weights * own_loss).mean()

        networks = self._train(train, loss_of, _BiasedAndOwn)
        self.biased_network_, self.network_, self.temperature_ = networks.biased, networks.own, temperature.value


class LossAverages:
    """A moving average of the loss of every training row.

    Args:
        y: Class ids of the training rows.
        n_classes: Number of classes.
        alpha: Share of the old value.
    """

    def __init__(self, y: Int[Tensor, " rows"], n_classes: int, alpha: float) -> None:
        self._y, self._n_classes, self._alpha = y, n_classes, alpha
        self.values = torch.full(y.shape, torch.nan)
        """The averages, NaN for rows that were never drawn."""

    def update(self, rows: Int[Tensor, " batch"], losses: Float[Tensor, " batch"]) -> None:
        """Take in the losses of some rows. A row that was drawn twice is moved once: both its losses are the same."""
        old = self.values[rows]
        self.values[rows] = torch.where(old.isnan(), losses, self._alpha * old + (1 - self._alpha) * losses)

    def relative(self, rows: Int[Tensor, " batch"]) -> Float[Tensor, " batch"]:
        """Return averages as parts of the largest one in the row's class."""
        largest = torch.zeros(self._n_classes).scatter_reduce(0, self._y, self.values.nan_to_num(0.0), "amax")
        return self.values[rows] / largest[self._y[rows]].clamp(min=1e-12)


class Temperature:
    """What logits must be divided by so that their probabilities fit the labels: one number, never below one."""

    def __init__(self, learning_rate: float = 0.01) -> None:
        self._log = torch.zeros((), requires_grad=True)
        self._optimiser = torch.optim.Adam([self._log], lr=learning_rate)

    @property
    def value(self) -> float:
        """The temperature."""
        return float(self._log.detach().exp())

    def fit_step(self, logits: Float[Tensor, "rows classes"], y: Int[Tensor, " rows"]) -> None:
        """Take one step towards the temperature of least cross-entropy."""
        self._optimiser.zero_grad()
        cross_entropy(logits * (-self._log).exp(), y).backward()
        self._optimiser.step()
        with torch.no_grad():
            self._log.clamp_(min=0)


def generalised_cross_entropy(
    logits: Float[Tensor, "rows classes"], y: Int[Tensor, " rows"], q: float
) -> Float[Tensor, " rows"]:
    """Return `(1 - p_y^q) / q`, whose gradient is that of cross-entropy times `p_y^q`."""
    log_p = -cross_entropy(logits, y, reduction="none")
    return (1 - (q * log_p).exp()) / q


def relative_difficulty(biased: Float[Tensor, " rows"], own: Float[Tensor, " rows"]) -> Float[Tensor, " rows"]:
    """Return `b / (b + d)`: near one for rows that only the biased network finds hard, a half where both agree."""
    return biased / (biased + own + 1e-8)


class _BiasedAndOwn(nn.Module):
    """Both networks side by side. Adam treats parameters one by one, so one optimiser serves both."""

    def __init__(self, backbone: Callable[[], nn.Sequential]) -> None:
        super().__init__()
        self.own, self.biased = backbone(), backbone()

    def forward(self, x: Float[Tensor, "rows *shape"]) -> Float[Tensor, "rows both"]:
        """Return the logits of the biased network, then those of the other."""
        return torch.cat([self.biased(x), self.own(x)], dim=1)
