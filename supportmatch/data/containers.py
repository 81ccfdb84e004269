"""`Labeled` and `Unlabeled`: the one gate where input is validated; everything inside may trust them.

`Unlabeled` has no field for labels at all, so a leak of deployment labels is a type error, not a slip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from supportmatch.errors import (
    FeatureMismatchError,
    MissingClassError,
    NotFiniteError,
    ShapeError,
    TooFewDeploymentRowsError,
)
from supportmatch.sources import Ids, Label, SourceGrid, Support


@dataclass(frozen=True)
class TableLayout:
    """Which columns of an encoded table are one-hot blocks and which are plain numbers."""

    blocks: tuple[tuple[int, int], ...]
    """Half-open column ranges, one per categorical feature."""
    continuous: tuple[int, ...]
    """Columns that hold a number each."""

    @classmethod
    def all_continuous(cls, n_features: int) -> TableLayout:
        """Return the layout of a table of plain numbers."""
        return cls(blocks=(), continuous=tuple(range(n_features)))


@dataclass(frozen=True, eq=False)
class Rows:
    """Features of either set: a table `(rows, features)` or images `(rows, channels, height, width)`.

    Images may be float, `uint8` (0 to 255, scaled to [0, 1] when a batch is read) or `int8` (-128 to 127, scaled to
    [-1, 1]); tables are float32.
    """

    x: NDArray[Any]
    layout: TableLayout | None = None

    def __post_init__(self) -> None:
        x = np.asarray(self.x)
        if x.ndim not in (2, 4):
            raise ShapeError(
                f"features must be a table (rows, features) or images (rows, channels, height, width), but the array "
                f"has shape {x.shape}: reshape it."
            )
        if 0 in x.shape:
            raise ShapeError(f"features must not be empty, but the array has shape {x.shape}: check how it was read.")
        in_bytes = x.ndim == 4 and x.dtype in (np.uint8, np.int8)
        if x.ndim == 4 and not in_bytes and not np.issubdtype(x.dtype, np.floating):
            raise ShapeError(
                "images must be uint8 (0 to 255, scaled to [0, 1]), int8 (-128 to 127, scaled to [-1, 1]) or floats "
                f"(taken as they are), but the array holds {x.dtype}: convert it."
            )
        if not in_bytes:
            if x.dtype != np.bool_ and not np.issubdtype(x.dtype, np.number):
                raise ShapeError(
                    f"features must be numbers, but the array holds {x.dtype}: pass a DataFrame with categories, or "
                    "encode the columns."
                )
            x = np.ascontiguousarray(x, dtype=np.float32)
            finite = np.isfinite(x)
            if not finite.all():
                rows = np.flatnonzero(~finite.reshape(len(x), -1).all(axis=1))
                raise NotFiniteError(
                    f"features must be finite, but {len(rows)} rows hold NaN or infinity (the first is row {rows[0]}): "
                    "fill or drop them."
                )
        layout = self.layout
        if x.ndim == 2 and layout is None:
            layout = TableLayout.all_continuous(x.shape[1])
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "layout", layout)

    def __len__(self) -> int:
        return len(self.x)

    @property
    def is_images(self) -> bool:
        """Whether the rows are images."""
        return self.x.ndim == 4

    @property
    def is_bytes(self) -> bool:
        """Whether the rows are images in bytes (0 to 255), which are scaled to [0, 1] when read."""
        return self.x.dtype == np.uint8

    @property
    def is_signed_bytes(self) -> bool:
        """Whether the rows are images in signed bytes (-128 to 127), which are scaled to [-1, 1] when read."""
        return self.x.dtype == np.int8

    @property
    def feature_shape(self) -> tuple[int, ...]:
        """Shape of one row."""
        return self.x.shape[1:]


@dataclass(frozen=True, eq=False)
class Unlabeled(Rows):
    """Rows without any label: what the deployment set is made of."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Labeled(Rows):
    """Rows with class ids `y` and subgroup ids `s` on a declared grid."""

    y: Ids
    s: Ids
    grid: SourceGrid

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, upper in (("y", self.grid.n_classes), ("s", self.grid.n_subgroups)):
            ids = np.asarray(getattr(self, name), dtype=np.int64)
            if ids.shape != (len(self.x),):
                raise ShapeError(
                    f"there must be one {name} for each of the {len(self.x)} rows, but {name} has shape {ids.shape}: "
                    "check that both come from the same rows."
                )
            if len(ids) and (ids.min() < 0 or ids.max() >= upper):
                raise ShapeError(f"{name} ids must lie in 0..{upper - 1}, but they span {ids.min()}..{ids.max()}.")
            object.__setattr__(self, name, ids)

    @cached_property
    def source_ids(self) -> Ids:
        """Source id of each row."""
        return self.grid.source_ids(self.y, self.s)

    @cached_property
    def counts(self) -> Ids:
        """Rows per source, classes x subgroups."""
        return self.grid.count(self.y, self.s)

    @cached_property
    def support(self) -> Support:
        """Which sources occur."""
        return self.grid.support(self.y, self.s)

    def take(self, rows: NDArray[Any]) -> Labeled:
        """Return the chosen rows (indices or a mask)."""
        return Labeled(self.x[rows], self.layout, y=self.y[rows], s=self.s[rows], grid=self.grid)

    def without_labels(self) -> Unlabeled:
        """Return the same rows with the labels gone."""
        return Unlabeled(self.x, self.layout)


def check_labeled(
    x: NDArray[Any],
    y: Sequence[Label] | NDArray[Any],
    subgroup: Sequence[Label] | NDArray[Any],
    *,
    subgroup_names: Sequence[Label] | None = None,
    class_names: Sequence[Label] | None = None,
    layout: TableLayout | None = None,
) -> Labeled:
    """Turn user arrays into a training set, or say what is wrong with them.

    Args:
        x: A table or images.
        y: One class name per row.
        subgroup: One subgroup name per row.
        subgroup_names: Every subgroup expected at deployment; by default those that occur in `subgroup`.
        class_names: Every class; by default those that occur in `y`. A declared class without rows is refused.
        layout: Which columns of a table are one-hot blocks.
    """
    y_array = _check_names(y, "y", len(x))
    s_array = _check_names(subgroup, "subgroup", len(x))
    classes = tuple(_plain(class_names) if class_names is not None else _plain(np.unique(y_array)))
    subgroups = tuple(_plain(subgroup_names) if subgroup_names is not None else _plain(np.unique(s_array)))
    grid = SourceGrid(classes, subgroups)
    train = Labeled(x, layout, y=grid.class_ids(y_array), s=grid.subgroup_ids(s_array), grid=grid)
    absent = [classes[i] for i in np.flatnonzero(train.counts.sum(axis=1) == 0)]
    if absent:
        raise MissingClassError(
            f"training has no rows of class {', '.join(map(repr, absent))} (declared classes: "
            f"{', '.join(map(repr, classes))}). Missing *subgroups* can be recovered from deployment data, missing "
            "*classes* cannot: add labels for them or drop them from `class_names`."
        )
    return train


class RowKind(Protocol):
    """Whatever knows what training rows look like: the rows themselves, or a reader fitted on them."""

    @property
    def feature_shape(self) -> tuple[int, ...]:
        """Shape of one row."""

    @property
    def is_bytes(self) -> bool:
        """Whether rows are images in bytes (0 to 255)."""

    @property
    def is_signed_bytes(self) -> bool:
        """Whether rows are images in signed bytes (-128 to 127)."""

    @property
    def layout(self) -> TableLayout | None:
        """Which columns of a table are one-hot blocks."""


def check_unlabeled(x: NDArray[Any], like: RowKind, what: str = "deployment", min_rows: int = 1) -> Unlabeled:
    """Turn user features into rows without labels that have the shape and scale of the training rows."""
    rows = Unlabeled(x, like.layout)
    if rows.feature_shape != like.feature_shape:
        raise FeatureMismatchError(
            f"{what} features must have the shape of training features, but one row has shape {rows.feature_shape} "
            f"where training has {like.feature_shape}: use the same columns or image size."
        )
    if _storage(rows) != _storage(like):
        raise FeatureMismatchError(
            f"{what} images are {_storage(rows)} where training images are {_storage(like)}, so their scales differ: "
            "pass both as uint8 (0 to 255), both as int8, or both as floats on one scale."
        )
    if len(rows) < min_rows:
        raise TooFewDeploymentRowsError(
            f"the deployment set has {len(rows)} rows, but at least {min_rows} are needed to draw balanced bags from "
            "it: collect more unlabelled rows or use fewer or smaller bags."
        )
    return rows


def _storage(rows: RowKind) -> str:
    return "bytes (uint8)" if rows.is_bytes else "signed bytes (int8)" if rows.is_signed_bytes else "floats"


def _plain(names: Sequence[Label] | NDArray[Any]) -> list[Label]:
    """Strip numpy scalar types, so that names can be compared and written as JSON."""
    return [name.item() if isinstance(name, np.generic) else name for name in names]


def _check_names(names: Sequence[Label] | NDArray[Any], what: str, n_rows: int) -> NDArray[Any]:
    # Not np.asarray at once: it would turn a list that mixes numbers, words and NaN into words.
    array = np.asarray(names, dtype=None if hasattr(names, "dtype") else object)
    if array.shape != (n_rows,):
        raise ShapeError(
            f"`{what}` must hold one name for each of the {n_rows} rows, but has shape {array.shape}: check that both "
            "come from the same rows."
        )
    if pd.isna(array).any():
        raise NotFiniteError(f"`{what}` holds missing values: drop the rows without a {what}, or name them.")
    kinds = sorted({type(name).__name__ for name in array.tolist()})
    if len(kinds) > 1:
        raise ShapeError(f"`{what}` mixes names of the types {' and '.join(kinds)}: use one type, strings for example.")
    return np.array(array.tolist())
