"""Colored MNIST: classes are digits, subgroups are colours (paper, appendix 'Dataset Construction').

The digits are padded to 32 x 32, binarised and painted on black, so each pixel is black or exactly the colour. The
official training part becomes training and deployment set, the official test part the test set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from supportmatch.data.containers import Labeled
from supportmatch.data.embedded import load_mnist_digits
from supportmatch.data.problems import Problem
from supportmatch.data.removal import assign_subgroups, named_source_ids, split, thin
from supportmatch.errors import UnknownNameError
from supportmatch.seeding import stream
from supportmatch.sources import SourceGrid

PALETTE: dict[str, tuple[int, int, int]] = {"purple": (255, 0, 255), "green": (0, 255, 0), "blue": (0, 0, 128)}
"""Red, green and blue of each colour."""

_PADDING = 2  # 28 -> 32
_INK_ABOVE = 127  # grey / 255 > 0.5

Kept = Mapping[tuple[int, str], float]


@dataclass(frozen=True)
class Setting:
    """How one version of Colored MNIST is made."""

    digits: tuple[int, ...]
    colours: tuple[str, ...]
    deploy_share: float
    """Share of the official training part that becomes the deployment set."""
    train_colours: tuple[str, ...]
    """Colours that training digits are painted with; a colour left out is a missing subgroup."""
    train_kept: Kept
    """Proportion retained of each (digit, colour) in training; all if not listed."""
    deploy_kept: Kept = field(default_factory=dict)
    """Proportion retained of each (digit, colour) at deployment; all if not listed."""


SETTINGS: dict[str, Setting] = {
    "sb": Setting(
        digits=(2, 4),
        colours=("purple", "green"),
        deploy_share=0.6667,
        train_colours=("purple", "green"),
        train_kept={(2, "purple"): 1.0, (2, "green"): 0.3, (4, "purple"): 0.0, (4, "green"): 1.0},
        deploy_kept={(2, "purple"): 0.7, (2, "green"): 0.4, (4, "purple"): 0.2, (4, "green"): 1.0},
    ),
    "ms": Setting(
        digits=(2, 4),
        colours=("purple", "green"),
        deploy_share=0.5,
        train_colours=("green",),
        train_kept={(2, "green"): 0.85, (4, "green"): 1.0},
        deploy_kept={(2, "purple"): 0.7, (2, "green"): 0.6, (4, "purple"): 0.4, (4, "green"): 1.0},
    ),
    "3digit": Setting(
        digits=(2, 4, 6),
        colours=("purple", "green", "blue"),
        deploy_share=0.4,
        train_colours=("purple", "green", "blue"),
        train_kept={(2, "green"): 0.0, (2, "blue"): 0.0, (4, "blue"): 0.0, (6, "green"): 0.0},
    ),
}
"""Subgroup bias (sb), missing subgroup (ms) and the three-digit version with four missing sources (3digit)."""


def load_colored_mnist(setting: str, seed: int) -> Problem:
    """Build Colored MNIST, a pure function of the setting (`"sb"`, `"ms"` or `"3digit"`) and the seed.

    >>> load_colored_mnist("sb", seed=0).X_train.shape[1:]
    (3, 32, 32)
    """
    if setting not in SETTINGS:
        raise UnknownNameError(f"unknown Colored MNIST setting {setting!r}: choose one of {', '.join(SETTINGS)}.")
    recipe = SETTINGS[setting]
    grid = SourceGrid(recipe.digits, recipe.colours)
    rng = stream(seed, f"colored mnist {setting}")
    data = load_mnist_digits()

    pool = np.isin(data.train_labels, recipe.digits)
    images, digits = data.train_images[pool], data.train_labels[pool]
    in_deploy, in_train = split(len(digits), recipe.deploy_share, rng)
    is_test = np.isin(data.test_labels, recipe.digits)
    return Problem.from_labeled(
        f"cmnist-{setting}",
        train=_colour(images[in_train], digits[in_train], recipe.train_colours, recipe.train_kept, grid, rng),
        deploy=_colour(images[in_deploy], digits[in_deploy], recipe.colours, recipe.deploy_kept, grid, rng),
        test=_colour(data.test_images[is_test], data.test_labels[is_test], recipe.colours, {}, grid, rng),
    )


def paint(grey: NDArray[np.uint8], colours: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Pad grey images (rows, 28, 28) to 32 x 32, binarise them and give each its RGB colour (rows, 3)."""
    margin = (_PADDING, _PADDING)
    ink = np.pad(grey, ((0, 0), margin, margin)) > _INK_ABOVE
    return ink[:, None] * colours[:, :, None, None]


def _colour(
    grey: NDArray[np.uint8],
    digits: NDArray[np.uint8],
    colours: tuple[str, ...],
    kept: Kept,
    grid: SourceGrid,
    rng: np.random.Generator,
) -> Labeled:
    """Give each digit one of the colours by chance, thin the sources, and paint what is left."""
    y = grid.class_ids(digits)
    s = assign_subgroups(len(y), grid.subgroup_ids(colours).tolist(), rng)
    rows = thin(grid.source_ids(y, s), dict(zip(named_source_ids(grid, kept), kept.values(), strict=True)), rng)
    y, s = y[rows], s[rows]
    rgb = np.array([PALETTE[str(name)] for name in grid.subgroups], dtype=np.uint8)
    return Labeled(paint(grey[rows], rgb[s]), y=y, s=s, grid=grid)
