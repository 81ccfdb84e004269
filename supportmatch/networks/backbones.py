"""Classifiers straight from rows: the networks of the comparisons."""

from __future__ import annotations

from itertools import pairwise

from torch import nn

from supportmatch.errors import ConfigError


def build_backbone(
    feature_shape: tuple[int, ...], n_classes: int, widths: tuple[int, ...], linear_width: int | None = None
) -> nn.Sequential:
    """Return a classifier of images (one convolution, batch norm and pooling per width) or of tables (an MLP).

    The paper's are `widths=(64, 128, 256, 512)` for 32 x 32 images and `(35,)` for tables. The authors' network for
    tables has one more layer before the last, without non-linearity: `linear_width=35`.
    """
    if any(width < 1 for width in widths):
        raise ConfigError(f"`widths` are units or channels, at least 1 each, but they are {widths}.")
    if linear_width is not None and linear_width < 1:
        raise ConfigError(f"`linear_width` is None or at least 1, but is {linear_width}.")
    layers: list[nn.Module] = []
    if len(feature_shape) == 1:
        sizes = (feature_shape[0], *widths)
        for n_in, n_out in pairwise(sizes):
            layers += [nn.Linear(n_in, n_out), nn.SELU()]
        if linear_width is not None:
            layers.append(nn.Linear(sizes[-1], linear_width))
        return nn.Sequential(*layers, nn.Linear(linear_width or sizes[-1], n_classes))
    if linear_width is not None:
        raise ConfigError("`linear_width` is for tables, but these rows are images: leave it out.")
    channels, height, width = feature_shape
    for stage, c_out in enumerate(widths):
        # The first kernel is 5x5 without padding, as in the paper; pooling then halves what is left.
        kernel, padding = (5, 0) if stage == 0 else (3, 1)
        layers += [nn.Conv2d(channels, c_out, kernel, padding=padding), nn.BatchNorm2d(c_out), nn.LeakyReLU(0.01)]
        layers += [nn.MaxPool2d(2)]
        shrink = 4 if stage == 0 else 0
        channels, height, width = c_out, (height - shrink) // 2, (width - shrink) // 2
    if height < 1 or width < 1:
        raise ConfigError(
            f"images of shape {feature_shape} are too small for {len(widths)} poolings: use fewer widths."
        )
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * height * width, n_classes))
