"""Autoencoders whose code is split into z (the class, we hope) and s~ (the rest that reconstruction needs)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from math import ceil, log2, prod
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from supportmatch.config import AutoencoderConfig
from supportmatch.errors import ConfigError

_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"gelu": nn.GELU, "silu": nn.SiLU, "selu": nn.SELU}


class SplitCode(NamedTuple):
    """The two parts of a code."""

    z: Float[Tensor, "rows z"]
    """The representation that is matched and classified."""
    side: Float[Tensor, "rows side"]
    """s~, which the decoder needs to restore the row and the discriminator never sees."""


def side_size(n_subgroups: int) -> int:
    """Return the dimensions of s~: enough bits to number the subgroups (paper, Table 3, note 2).

    >>> [side_size(n) for n in (2, 3, 4, 5)]
    [1, 2, 2, 3]
    """
    return ceil(log2(n_subgroups))


def split_code(code: Float[Tensor, "rows code"], side: int) -> SplitCode:
    """Split a code: s~ is its first `side` dimensions, z the remaining ones."""
    return SplitCode(z=code[:, side:], side=code[:, :side])


def join_code(z: Float[Tensor, "rows z"], side: Float[Tensor, "rows side"]) -> Float[Tensor, "rows code"]:
    """Undo `split_code`."""
    return torch.cat([side, z], dim=1)


def pass_side_channel(side: Float[Tensor, "rows side"], kind: str) -> Float[Tensor, "rows side"]:
    """Apply the non-linearity of s~ that the decoder and the subgroup predictor see.

    `binary` rounds forwards and lets the gradient of the sigmoid through backwards (straight-through estimator).
    """
    if kind == "raw":
        return side
    soft = side.sigmoid()
    return soft if kind == "sigmoid" else soft + (soft.round() - soft).detach()


def build_encoder(config: AutoencoderConfig, feature_shape: tuple[int, ...]) -> nn.Sequential:
    """Return the network from rows to codes."""
    act = _ACTIVATIONS[config.activation]
    layers: list[nn.Module] = []
    if config.kind == "mlp":
        sizes = (prod(feature_shape), *config.widths)
        layers += [nn.Flatten()] + ([act()] if config.activate_input else [])
        for n_in, n_out in itertools.pairwise(sizes):
            layers += [nn.Linear(n_in, n_out), act()]
        return nn.Sequential(*layers, nn.Linear(sizes[-1], config.code_size))
    channels, height, width = _check_image(config, feature_shape)
    for c_out in config.widths:
        if config.level_depth == 2:
            layers += [nn.Conv2d(channels, c_out, 3, padding=1), *_norm(config, c_out), act()]
        c_in = c_out if config.level_depth == 2 else channels
        layers += [nn.Conv2d(c_in, c_out, 4, stride=2, padding=1), *_norm(config, c_out), act()]
        channels, height, width = c_out, height // 2, width // 2
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * height * width, config.code_size))


def build_decoder(config: AutoencoderConfig, feature_shape: tuple[int, ...]) -> nn.Sequential:
    """Return the network from codes back to rows: the encoder mirrored."""
    act = _ACTIVATIONS[config.activation]
    layers: list[nn.Module] = []
    if config.kind == "mlp":
        sizes = (config.code_size, *reversed(config.widths))
        layers += [act()] if config.activate_input else []
        for n_in, n_out in itertools.pairwise(sizes):
            layers += [nn.Linear(n_in, n_out), act()]
        return nn.Sequential(*layers, nn.Linear(sizes[-1], prod(feature_shape)), nn.Unflatten(1, feature_shape))
    n_channels, height, width = _check_image(config, feature_shape)
    height, width = height >> len(config.widths), width >> len(config.widths)
    top = config.widths[-1]
    layers += [nn.Linear(config.code_size, top * height * width), nn.Unflatten(1, (top, height, width))]
    layers += [] if config.level_depth == 2 else [act()]
    ladder = (*reversed(config.widths), n_channels)
    for level, (c_in, c_out) in enumerate(itertools.pairwise(ladder), start=1):
        if config.level_depth == 2:
            layers += [nn.ConvTranspose2d(c_in, c_in, 4, stride=2, padding=1), *_norm(config, c_in), act()]
            layers += [nn.Conv2d(c_in, c_out, 3, padding=1), *_norm(config, c_out), act()]
        else:
            layers += [nn.ConvTranspose2d(c_in, c_out, 4, stride=2, padding=1)]
            layers += [*_norm(config, c_out), act()] if level < len(config.widths) else []
    if config.level_depth == 2:
        layers.append(nn.Conv2d(n_channels, n_channels, 1))
    return nn.Sequential(*layers)


def _norm(config: AutoencoderConfig, channels: int) -> list[nn.Module]:
    return [nn.GroupNorm(1, channels)] if config.normalise else []


def _check_image(config: AutoencoderConfig, feature_shape: tuple[int, ...]) -> tuple[int, int, int]:
    factor = 2 ** len(config.widths)
    if len(feature_shape) != 3 or feature_shape[1] % factor or feature_shape[2] % factor:
        raise ConfigError(
            f"a convolutional autoencoder with {len(config.widths)} levels needs images whose height and width are "
            f"multiples of {factor}, but a row has shape {feature_shape}: pad or resize, or use fewer `widths`."
        )
    channels, height, width = feature_shape
    return channels, height, width
