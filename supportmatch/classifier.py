"""The classifier y from z, and the training loop that comparisons share with it."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from supportmatch.bags import GroupedBags, PlainBags, TrainingBags
from supportmatch.config import ClassifierConfig
from supportmatch.data.containers import Labeled, Rows
from supportmatch.errors import DivergedError
from supportmatch.matching import EncoderPlayer
from supportmatch.networks.backbones import build_backbone
from supportmatch.progress import Report, silent
from supportmatch.seeding import seeded_initialisation
from supportmatch.sources import Ids
from supportmatch.tensors import as_ids, iterate_rows, read_rows, threads_for


class Standardise(nn.Module):
    """Shift and scale codes to mean 0 and deviation 1 as seen in training, so that step sizes need no tuning."""

    mean: Tensor
    scale: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("scale", torch.ones(size))

    def adapt(self, z: Float[Tensor, "rows z"]) -> None:
        """Learn mean and deviation; constant dimensions keep their scale."""
        self.mean.copy_(z.mean(dim=0))
        deviation = z.std(dim=0, correction=0)
        self.scale.copy_(torch.where(deviation > 1e-6, deviation, 1.0))

    def forward(self, z: Float[Tensor, "rows z"]) -> Float[Tensor, "rows z"]:
        """Standardise."""
        return (z - self.mean) / self.scale


def fit_classifier(
    player: EncoderPlayer, train: Labeled, config: ClassifierConfig, seed: int, report: Report = silent
) -> nn.Sequential:
    """Train the classifier on z of the training set, with samples balanced like Pi unless told otherwise."""
    z = transform_rows(player, train)
    network = build_classifier(z.shape[1], train.grid.n_classes, config, seed)
    standardise = network[0]
    assert isinstance(standardise, Standardise)
    standardise.adapt(torch.from_numpy(z))
    codes = Labeled(z, y=train.y, s=train.s, grid=train.grid)
    return train_network(network, codes, config, seed, report)


def build_classifier(z_size: int, n_classes: int, config: ClassifierConfig, seed: int = 0) -> nn.Sequential:
    """Return the untrained classifier: standardise, then linear or an MLP."""
    with seeded_initialisation(seed, "classifier"):
        return nn.Sequential(Standardise(z_size), *build_backbone((z_size,), n_classes, config.hidden))


Loss = Callable[[Tensor, Ids], Tensor]
"""From the logits of a batch and the numbers of its rows in the training set to the scalar that is minimised."""
NetworkT = TypeVar("NetworkT", bound=nn.Module)


def train_network(
    network: NetworkT,
    train: Labeled,
    config: ClassifierConfig,
    seed: int,
    report: Report = silent,
    loss_of: Loss | None = None,
) -> NetworkT:
    """Minimise a loss over batches with Adam; an epoch is as many rows as the training set has.

    The loss is cross-entropy unless another is given.
    """
    batches = batches_of(train, config, seed)
    n_steps = config.epochs * ceil(len(train) / config.batch_size)
    optimiser = torch.optim.Adam(network.parameters(), lr=config.learning_rate, fused=True)
    network.train()
    with threads_for(train):
        for step in range(n_steps):
            rows = batches.draw(step).reshape(-1)
            logits = network(read_rows(train, rows))
            loss = cross_entropy(logits, as_ids(train.y[rows])) if loss_of is None else loss_of(logits, rows)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            report(step + 1, n_steps)
    check_weights(network, n_steps, config.learning_rate)
    return network.eval()


def check_weights(network: nn.Module, n_steps: int, learning_rate: float) -> None:
    """Refuse a network whose training diverged."""
    if not all(weight.isfinite().all() for weight in network.parameters()):
        raise DivergedError(
            f"training a classifier diverged: its weights are not finite after {n_steps} steps at a learning rate of "
            f"{learning_rate}. Lower it, and check that features are on an ordinary scale."
        )


@torch.no_grad()
def transform_rows(player: EncoderPlayer, rows: Rows) -> NDArray[np.float32]:
    """Return z of every row."""
    device = player.class_predictor.weight.device
    with threads_for(rows):
        return np.concatenate([player.encode(batch.to(device)).z.cpu().numpy() for batch in iterate_rows(rows)])


@torch.no_grad()
def predict_rows(network: nn.Module, rows: Rows) -> NDArray[np.float64]:
    """Return class probabilities of every row (of codes or of raw features, whichever the network reads)."""
    # Of images small batches, which fit into the processor's cache, with channels last: convolutions are faster so.
    size, order = (256, torch.channels_last) if rows.is_images else (1_024, torch.contiguous_format)
    with threads_for(rows):
        batches = (batch.contiguous(memory_format=order) for batch in iterate_rows(rows, size))
        probabilities = [network(batch).double().softmax(dim=1).numpy() for batch in batches]
    return np.concatenate(probabilities)


def batches_of(train: Labeled, config: ClassifierConfig, seed: int) -> TrainingBags | GroupedBags | PlainBags:
    """Return the sampler of training batches that the configuration asks for."""
    size, purpose = config.batch_size, "classifier batches"
    if config.sampling == "pi":
        return TrainingBags.of(train, 1, size, seed, purpose)
    if config.sampling == "sources":
        return GroupedBags(train.source_ids, 1, size, seed, purpose)
    return PlainBags(len(train), 1, size, seed, purpose)
