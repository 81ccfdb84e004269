"""Tables: a DataFrame (or a 2-D array of numbers) -> a float32 matrix and its layout.

Categorical columns (strings, categories, booleans) become one-hot blocks and come first, numeric columns are
standardised and follow. An encoder is fitted once, on features only, and refuses whatever it cannot encode.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from supportmatch.data.containers import TableLayout
from supportmatch.errors import FeatureMismatchError, ModelFileError, NotFiniteError, ShapeError
from supportmatch.sources import Label

Table = pd.DataFrame | NDArray[Any]
ColumnName = str | int


@dataclass(frozen=True)
class CategoricalColumn:
    """A column that becomes a one-hot block."""

    name: ColumnName
    categories: tuple[Label, ...]


@dataclass(frozen=True)
class NumericColumn:
    """A column that is standardised."""

    name: ColumnName
    mean: float
    std: float


@dataclass(frozen=True)
class TableEncoder:
    """How to turn a table into numbers.

    >>> train = pd.DataFrame({"age": [30, 50], "job": ["cook", "pilot"]})
    >>> deploy = pd.DataFrame({"age": [40], "job": ["baker"]})
    >>> encoder = TableEncoder.fit(train, deploy)
    >>> encoder.feature_names
    ('job=baker', 'job=cook', 'job=pilot', 'age')
    >>> encoder.transform(train).tolist()
    [[0.0, 1.0, 0.0, -1.0], [0.0, 0.0, 1.0, 1.0]]
    """

    categorical: tuple[CategoricalColumn, ...]
    numeric: tuple[NumericColumn, ...]

    @classmethod
    def fit(cls, train: Table, deploy: Table | None = None) -> TableEncoder:
        """Learn the encoding.

        Means and standard deviations come from the training rows. Categories come from training and deployment rows
        together, since a missing subgroup may bring values that training never showed.

        Args:
            train: Features of the training set.
            deploy: Features of the deployment set, with the same columns in any order.
        """
        frames = [_to_frame(train, "training")]
        if deploy is not None:
            frames.append(_to_frame(deploy, "deployment"))
            _check_same_columns(list(frames[0].columns), frames[1], "deployment")
        categorical, numeric = [], []
        for name in frames[0].columns:
            columns = [frame[name] for frame in frames]
            if len({_is_categorical(column) for column in columns}) > 1:
                raise FeatureMismatchError(
                    f"column {name!r} is {_kind(columns[0])} in the training table but {_kind(columns[1])} in the "
                    "deployment table: read both in the same way."
                )
            if _is_categorical(columns[0]):
                categorical.append(CategoricalColumn(name, _categories(columns)))
            else:
                numeric.append(_standardisation(name, columns[0].to_numpy(np.float64)))
        return cls(tuple(categorical), tuple(numeric))

    def transform(self, table: Table, what: str = "new") -> NDArray[np.float32]:
        """Encode a table with the columns seen by `fit`, in any order.

        Args:
            table: Features.
            what: What to call the table in error messages.
        """
        frame = _to_frame(table, what)
        _check_same_columns([*(c.name for c in self.categorical), *(n.name for n in self.numeric)], frame, what)
        blocks: list[NDArray[np.floating]] = [_one_hot(frame[column.name], column) for column in self.categorical]
        for number in self.numeric:
            values = frame[number.name]
            if _is_categorical(values):
                raise FeatureMismatchError(
                    f"column {number.name!r} was numeric when the encoder was fitted but is {_kind(values)} in the "
                    f"{what} table: convert it to numbers."
                )
            blocks.append(((values.to_numpy(np.float64) - number.mean) / number.std)[:, None])
        return np.hstack(blocks, dtype=np.float32, casting="same_kind")

    @cached_property
    def layout(self) -> TableLayout:
        """Which encoded columns are one-hot blocks and which are numbers."""
        edges = np.cumsum([0, *(len(column.categories) for column in self.categorical)]).tolist()
        return TableLayout(
            blocks=tuple(pairwise(edges)),
            continuous=tuple(range(edges[-1], edges[-1] + len(self.numeric))),
        )

    @property
    def n_columns(self) -> int:
        """Columns of the table as it was given."""
        return len(self.categorical) + len(self.numeric)

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """A name for each encoded column."""
        one_hot = [f"{column.name}={value}" for column in self.categorical for value in column.categories]
        return (*one_hot, *(str(column.name) for column in self.numeric))

    def to_json(self) -> str:
        """Write the encoder as JSON; `from_json` gives back an equal one."""
        return json.dumps(
            {
                "categorical": [[column.name, list(column.categories)] for column in self.categorical],
                "numeric": [[column.name, column.mean, column.std] for column in self.numeric],
            }
        )

    @classmethod
    def from_json(cls, text: str) -> TableEncoder:
        """Read what `to_json` wrote."""
        try:
            content = json.loads(text)
            return cls(
                categorical=tuple(CategoricalColumn(name, tuple(values)) for name, values in content["categorical"]),
                numeric=tuple(NumericColumn(name, mean, std) for name, mean, std in content["numeric"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise ModelFileError(
                f"the table encoder cannot be read ({error!r}): save the model again, or restore the file."
            ) from error


def _to_frame(table: Table, what: str) -> pd.DataFrame:
    """Return the table as a DataFrame in which every column can be encoded, or say what is wrong with it."""
    if isinstance(table, pd.DataFrame):
        frame = table
    else:
        array = np.asarray(table)
        if array.ndim != 2:
            raise ShapeError(
                f"the {what} table must be (rows, features), but the array has shape {array.shape}: reshape it."
            )
        if array.dtype.kind not in "biuf":
            raise ShapeError(
                f"the {what} table must hold numbers, but the array holds {array.dtype}: pass a DataFrame, whose "
                "columns may be categorical."
            )
        # As numbers, also when they are booleans: an array has one kind of column.
        frame = pd.DataFrame(array.astype(np.float64), columns=[f"x{i}" for i in range(array.shape[1])])
    if 0 in frame.shape:
        raise ShapeError(f"the {what} table must not be empty, but its shape is {frame.shape}: check how it was read.")
    names = list(frame.columns)
    if len(set(names)) != len(names) or not all(isinstance(name, str | int) for name in names):
        raise ShapeError(f"the {what} table must have distinct columns named by strings, but has {names}: rename them.")
    _refuse_values("missing values", frame.isna(), what)
    for name in names:
        _check_kind(frame[name], what)
    _refuse_values("infinity", frame.select_dtypes("number").astype(np.float64).isin([np.inf, -np.inf]), what)
    return frame


def _refuse_values(values: str, found: pd.DataFrame, what: str) -> None:
    columns = [name for name in found.columns if found[name].any()]
    if columns:
        raise NotFiniteError(
            f"the {what} table holds {values} in {_listed(columns)}: fill them or drop the rows or columns."
        )


def _check_kind(column: pd.Series[Any], what: str) -> None:
    """Refuse columns that are neither numbers nor categories of one kind."""
    if not _is_categorical(column):
        if not types.is_numeric_dtype(column.dtype) or types.is_complex_dtype(column.dtype):
            raise ShapeError(
                f"column {column.name!r} of the {what} table has type {column.dtype}: convert it to numbers or strings."
            )
        return
    kinds = sorted({type(value).__name__ for value in column.astype(object)})
    allowed = {"str", "bool", "int", "float"} if isinstance(column.dtype, pd.CategoricalDtype) else {"str", "bool"}
    if len(kinds) > 1 or not allowed.issuperset(kinds):
        raise ShapeError(
            f"column {column.name!r} of the {what} table has type {column.dtype} and holds {' and '.join(kinds)}: "
            "convert it to numbers, or all of it to strings."
        )


def _check_same_columns(expected: Sequence[ColumnName], frame: pd.DataFrame, what: str) -> None:
    lacking = [name for name in expected if name not in frame.columns]
    extra = [name for name in frame.columns if name not in set(expected)]
    if lacking or extra:
        differences = [f"lacks {_listed(lacking)}"] * bool(lacking) + [f"has the extra {_listed(extra)}"] * bool(extra)
        raise FeatureMismatchError(
            f"the {what} table must have the columns of the training table, but it {' and '.join(differences)}: "
            "rename, add or drop columns until they agree."
        )


def _is_categorical(column: pd.Series[Any]) -> bool:
    dtype = column.dtype
    return (
        isinstance(dtype, pd.CategoricalDtype)
        or types.is_bool_dtype(dtype)
        or types.is_string_dtype(dtype)
        or types.is_object_dtype(dtype)
    )


def _kind(column: pd.Series[Any]) -> str:
    return "categorical" if _is_categorical(column) else "numeric"


def _distinct(column: pd.Series[Any]) -> list[Label]:
    """Return the values that occur, without numpy's scalar types."""
    return [value.item() if isinstance(value, np.generic) else value for value in column.astype(object).unique()]


def _categories(columns: list[pd.Series[Any]]) -> tuple[Label, ...]:
    values = {value for column in columns for value in _distinct(column)}
    if len({isinstance(value, str) for value in values}) > 1:
        raise FeatureMismatchError(
            f"column {columns[0].name!r} holds strings in one of the training and deployment tables but not in the "
            "other: read both in the same way."
        )
    return tuple(sorted(values))


def _standardisation(name: ColumnName, values: NDArray[np.float64]) -> NumericColumn:
    # The std of a constant column may be a rounding error instead of zero.
    is_constant = values.min() == values.max()
    return NumericColumn(name, float(values.mean()), 1.0 if is_constant else float(values.std()))


def _one_hot(values: pd.Series[Any], column: CategoricalColumn) -> NDArray[np.float32]:
    position = {value: i for i, value in enumerate(column.categories)}
    unseen = [value for value in _distinct(values) if value not in position]
    if unseen:
        raise FeatureMismatchError(
            f"column {column.name!r} holds {', '.join(map(repr, unseen[:5]))}, which neither training nor deployment "
            f"rows had (known: {', '.join(map(repr, column.categories[:20]))}): correct the values, or fit again with "
            "rows that have them."
        )
    ids = values.astype(object).map(position).to_numpy(np.int64)
    return np.eye(len(column.categories), dtype=np.float32)[ids]


def _listed(names: Sequence[ColumnName]) -> str:
    return f"column{'s' * (len(names) > 1)} {', '.join(map(repr, names))}"
