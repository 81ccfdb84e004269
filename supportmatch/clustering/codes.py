"""Codes to cluster: an autoencoder trained on both sets together, then frozen."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from supportmatch.config import ClusteringConfig
from supportmatch.data.containers import Labeled, Rows, Unlabeled
from supportmatch.errors import DivergedError
from supportmatch.losses import norm_penalty, reconstruction_error
from supportmatch.networks.encoders import build_decoder, build_encoder
from supportmatch.seeding import seeded_initialisation, stream
from supportmatch.tensors import iterate_rows, read_rows


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
        x = torch.cat([read_rows(train, rows[rows < n_train]), read_rows(deploy, rows[rows >= n_train] - n_train)])
        code = encoder(x)
        loss = reconstruction_error(decoder(code), x, train.layout) + config.norm_weight * norm_penalty(code)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        advance()
    codes = _encode(encoder, train), _encode(encoder, deploy)
    if not all(np.isfinite(part).all() for part in codes):
        raise DivergedError(
            "the autoencoder of the clustering stage diverged, so its codes are not finite: lower "
            "`pretrain_learning_rate`, or scale the features."
        )
    return codes


@torch.no_grad()
def _encode(encoder: nn.Module, rows: Rows) -> NDArray[np.float32]:
    codes: NDArray[np.float32] = torch.cat([encoder(batch) for batch in iterate_rows(rows)]).numpy()
    return codes


def encode_images(train: Labeled, deploy: Unlabeled, config: ClusteringConfig, seed: int) -> tuple[Labeled, Unlabeled]:
    """Return both sets as codes, which linear heads can read; tables are returned as they are."""
    if not train.is_images:
        return train, deploy
    codes, deploy_codes = learn_codes(train, deploy, config, seed, lambda: None)
    return Labeled(codes, y=train.y, s=train.s, grid=train.grid), Unlabeled(deploy_codes)
