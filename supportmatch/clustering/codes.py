"""Codes to cluster: an autoencoder trained on both sets together, then frozen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from supportmatch.config import ClusteringConfig
from supportmatch.data.containers import Labeled, Unlabeled
from supportmatch.errors import DivergedError
from supportmatch.losses import norm_penalty, reconstruction_error
from supportmatch.networks.encoders import build_decoder, build_encoder
from supportmatch.seeding import seeded_initialisation, stream

_ENCODE_BATCH = 2_048
"""Rows encoded at a time: only bounds memory."""


def learn_codes(
    train: Labeled, deploy: Unlabeled, config: ClusteringConfig, seed: int, advance: Callable[[], None]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Pre-train an autoencoder on the rows of both sets and return the codes of each.

    Labels are not used: the codes describe what the rows look like, missing sources included.
    """
    with seeded_initialisation(seed, "clustering autoencoder"):
        encoder = build_encoder(config.autoencoder, train.feature_shape)
        decoder = build_decoder(config.autoencoder, train.feature_shape)
    optimiser = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=config.pretrain_learning_rate)
    n_train, n_rows = len(train), len(train) + len(deploy)
    rng = stream(seed, "clustering pre-training")
    for _ in range(config.pretrain_steps):
        rows = rng.choice(n_rows, min(config.pretrain_batch, n_rows), replace=False)
        x = _as_batch(np.concatenate([train.x[rows[rows < n_train]], deploy.x[rows[rows >= n_train] - n_train]]))
        code = encoder(x)
        loss = reconstruction_error(decoder(code), x, train.layout) + config.norm_weight * norm_penalty(code)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        advance()
    codes = _encode(encoder, train.x), _encode(encoder, deploy.x)
    if not all(np.isfinite(part).all() for part in codes):
        raise DivergedError(
            "the autoencoder of the clustering stage diverged, so its codes are not finite: lower "
            "`pretrain_learning_rate`, or scale the features."
        )
    return codes


@torch.no_grad()
def _encode(encoder: nn.Module, x: NDArray[Any]) -> NDArray[np.float32]:
    parts = [encoder(_as_batch(x[start : start + _ENCODE_BATCH])) for start in range(0, len(x), _ENCODE_BATCH)]
    codes: NDArray[np.float32] = torch.cat(parts).numpy()
    return codes


def _as_batch(x: NDArray[Any]) -> Tensor:
    """Read rows as floats; images stored as bytes become 0-1."""
    return torch.from_numpy(x).float() / 255 if x.dtype == np.uint8 else torch.from_numpy(x)
