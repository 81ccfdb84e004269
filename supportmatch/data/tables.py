"""Tables: a DataFrame (or a 2-D array of numbers) -> a float32 matrix and its layout.

Categorical columns (strings, categories, booleans) become one-hot blocks and come first, numeric columns are
standardised and follow. An encoder is fitted once, on features only, and refuses whatever it cannot encode.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pandas.api import types

from supportmatch.config import TableConfig
from supportmatch.data.containers import TableLayout
from supportmatch.data.files import as_numbers
from supportmatch.errors import FeatureMismatchError, ModelFileError, NotFiniteError, ShapeError, SupportMatchWarning
from supportmatch.sources import Label

Table = pd.DataFrame | NDArray[Any]
ColumnName = str | int


MISSING = "(missing)"
"""The category of cells without a value."""
OTHER = "(other)"
"""The category that rare values share."""


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
    fill: float | None = None
    """What stands for a missing value; None if there must be none."""
    says_missing: bool = False
    """Whether a one-hot block tells which values were missing."""


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
    config: TableConfig = field(default_factory=TableConfig)

    @classmethod
    def fit(cls, train: Table, deploy: Table | None = None, config: TableConfig | None = None) -> TableEncoder:
        """Learn the encoding.

        Means and standard deviations come from the training rows. Categories come from training and deployment rows
        together, since a missing subgroup may bring values that training never showed.

        Args:
            train: Features of the training set.
            deploy: Features of the deployment set, with the same columns in any order.
            config: What to do with missing, unknown and rare values.
        """
        config = config or TableConfig()
        frames = [_to_frame(train, "training", config)]
        if deploy is not None:
            frames.append(_to_frame(deploy, "deployment", config))
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
                categorical.append(CategoricalColumn(name, _categories(columns, config.max_categories)))
            else:
                numeric.append(_standardisation(name, columns, config))
        return cls(tuple(categorical), tuple(numeric), config)

    def transform(self, table: Table, what: str = "new") -> NDArray[np.float32]:
        """Encode a table with the columns seen by `fit`, in any order.

        Args:
            table: Features.
            what: What to call the table in error messages.
        """
        frame = _to_frame(table, what, self.config, {column.name for column in self.categorical})
        _check_same_columns([*(c.name for c in self.categorical), *(n.name for n in self.numeric)], frame, what)
        encoded = np.zeros((len(frame), len(self.feature_names)), dtype=np.float32)
        for categorical, (start, stop) in zip(self.categorical, self.layout.blocks, strict=False):
            into = encoded[:, start:stop]
            _put_one_hot(frame[categorical.name], categorical, into, ignore=self.config.unknown == "ignore")
        indicators = iter(self.layout.blocks[len(self.categorical) :])
        for place, number in zip(self.layout.continuous, self.numeric, strict=True):
            column = frame[number.name]
            if _is_categorical(column):
                raise FeatureMismatchError(
                    f"column {number.name!r} was numeric when the encoder was fitted but is {_kind(column)} in the "
                    f"{what} table: convert it to numbers."
                )
            values = column.to_numpy(np.float64, na_value=np.nan)
            if number.fill is not None:
                is_missing = np.isnan(values)
                values = np.where(is_missing, number.fill, values)
                if number.says_missing:
                    start, stop = next(indicators)
                    encoded[:, start:stop] = np.stack([~is_missing, is_missing], axis=1)
            encoded[:, place] = (values - number.mean) / number.std
        return encoded

    @cached_property
    def layout(self) -> TableLayout:
        """Which encoded columns are one-hot blocks and which are numbers."""
        n_indicators = sum(number.says_missing for number in self.numeric)
        edges = np.cumsum([0, *(len(column.categories) for column in self.categorical), *[2] * n_indicators]).tolist()
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
        indicators = [f"{n.name} {state}" for n in self.numeric if n.says_missing for state in ("known", "missing")]
        return (*one_hot, *indicators, *(str(column.name) for column in self.numeric))

    def to_json(self) -> str:
        """Write the encoder as JSON; `from_json` gives back an equal one."""
        return json.dumps(
            {
                "categorical": [[column.name, list(column.categories)] for column in self.categorical],
                "numeric": [[c.name, c.mean, c.std, c.fill, c.says_missing] for c in self.numeric],
                "config": self.config.model_dump(mode="json"),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> TableEncoder:
        """Read what `to_json` wrote."""
        try:
            content = json.loads(text)
            return cls(
                categorical=tuple(CategoricalColumn(name, tuple(values)) for name, values in content["categorical"]),
                numeric=tuple(NumericColumn(*values) for values in content["numeric"]),
                config=TableConfig.model_validate(content.get("config", {})),  # models of 0.1.0 have none
            )
        except (ValueError, KeyError, TypeError) as error:
            raise ModelFileError(
                f"the table encoder cannot be read ({error!r}): save the model again, or restore the file."
            ) from error


def name_of(value: Any, missing_marks: Sequence[str]) -> str | None:
    """Return how files name a category, in which `1.0` is `1` and `True` is `true`; None if it is missing.

    >>> [name_of(value, ["?"]) for value in (" 1.0", 1, 1.0, True, "TRUE", "1.10", " ? ")]
    ['1', '1', '1', 'true', 'true', '1.10', None]
    """
    text = str(value).strip()
    if text in missing_marks:
        return None
    if text in ("True", "TRUE", "False", "FALSE"):
        return text.lower()
    whole, point, zeros = text.partition(".")
    is_whole = point and zeros and not zeros.strip("0") and whole.removeprefix("-").removeprefix("+").isdigit()
    return whole if is_whole else text


def _as_in_files(frame: pd.DataFrame, marks: Sequence[str], categorical: Collection[ColumnName] | None) -> pd.DataFrame:
    """Name columns and categories as files do; text in columns that are to be numeric becomes numbers.

    Args:
        frame: The table.
        marks: Text that means missing.
        categorical: The columns that hold categories; None: those that look like it.
    """
    frame = frame.rename(columns=lambda name: name.strip() if isinstance(name, str) else name)
    if frame.columns.has_duplicates:
        return frame  # refused later
    changed = {}
    for name in frame.columns:
        looks_categorical = _is_categorical(frame[name])
        if looks_categorical if categorical is None else name in categorical:
            codes, values = pd.factorize(frame[name])  # missing cells have the code -1
            names = np.array([*(name_of(value, marks) for value in values), None], dtype=object)
            changed[name] = pd.Series(names[codes], index=frame.index, dtype=object)
        elif looks_categorical:
            text = [None if value is None else name_of(value, marks) for value in frame[name].astype(object)]
            numbers = as_numbers(pa.chunked_array([pa.array(text, pa.string())]))
            if numbers is not None:
                changed[name] = pd.Series(numbers.to_numpy(), index=frame.index)
    return frame.assign(**{str(name): column for name, column in changed.items()})


def _to_frame(
    table: Table, what: str, config: TableConfig, categorical: Collection[ColumnName] | None = None
) -> pd.DataFrame:
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
    if config.text == "as-in-files":
        frame = _as_in_files(frame, config.missing_marks, categorical)
        names = list(frame.columns)
    if config.missing == "refuse":
        way_out = "; or fit with `--missing own-category` (in Python `TableConfig(missing='own-category')`)"
        _refuse_values("missing values", [name for name in names if frame[name].isna().any()], what, way_out)
    else:
        frame = frame.copy(deep=False)
        for name in names:
            if _is_categorical(frame[name]) and frame[name].isna().any():
                frame[name] = _with_missing_named(frame[name])
    for name in names:
        _check_kind(frame[name], what)
    _refuse_values("infinity", [name for name in names if _is_infinite(frame[name]).any()], what)
    return frame


def _with_missing_named(column: pd.Series[Any]) -> pd.Series[Any]:
    if isinstance(column.dtype, pd.CategoricalDtype):  # stays one, as text for every row takes much room
        known = column if MISSING in column.cat.categories else column.cat.add_categories([MISSING])
        return known.fillna(MISSING)
    return column.astype(object).where(column.notna(), MISSING)


def _is_infinite(column: pd.Series[Any]) -> NDArray[np.bool_]:
    if not types.is_numeric_dtype(column.dtype) or types.is_bool_dtype(column.dtype):
        return np.zeros(1, dtype=bool)
    found: NDArray[np.bool_] = np.isinf(column.to_numpy(np.float64, na_value=np.nan))
    return found


def _refuse_values(values: str, columns: Sequence[ColumnName], what: str, way_out: str = "") -> None:
    if columns:
        raise NotFiniteError(
            f"the {what} table holds {values} in {_listed(columns)}: fill them or drop the rows or columns{way_out}."
        )


def _check_kind(column: pd.Series[Any], what: str) -> None:
    """Refuse columns that are neither numbers nor categories of one kind."""
    if not _is_categorical(column):
        if not types.is_numeric_dtype(column.dtype) or types.is_complex_dtype(column.dtype):
            raise ShapeError(
                f"column {column.name!r} of the {what} table has type {column.dtype}: convert it to numbers or strings."
            )
        return
    values = column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else column.astype(object)
    kinds = sorted({type(value).__name__ for value in values})
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
    found = column.unique() if isinstance(column.dtype, pd.CategoricalDtype) else column.astype(object).unique()
    return [value.item() if isinstance(value, np.generic) else value for value in found]


def _categories(columns: list[pd.Series[Any]], most: int | None) -> tuple[Label, ...]:
    values = {value for column in columns for value in _distinct(column)}
    if len({isinstance(value, str) for value in values}) > 1:
        raise FeatureMismatchError(
            f"column {columns[0].name!r} holds strings in one of the training and deployment tables but not in the "
            "other: read both in the same way."
        )
    if most is not None and len(values) > most:
        counts = pd.concat([column.astype(object) for column in columns]).value_counts()
        frequent = counts.sort_index(kind="stable").sort_values(ascending=False, kind="stable").index[: most - 1]
        return (*sorted(set(frequent.tolist()) - {OTHER}), OTHER)
    return tuple(sorted(values))


def _standardisation(name: ColumnName, columns: list[pd.Series[Any]], config: TableConfig) -> NumericColumn:
    values = columns[0].to_numpy(np.float64, na_value=np.nan)
    fill, says_missing = None, False
    if config.missing == "own-category":
        says_missing = any(bool(column.isna().any()) for column in columns)
        values = values[~np.isnan(values)]
        if not len(values):
            raise NotFiniteError(f"column {name!r} has no value at all in the training table: drop it.")
        fill = float(np.median(values))
    # The std of a constant column may be a rounding error instead of zero, and that of tiny numbers zero.
    std = 0.0 if values.min() == values.max() else float(values.std())
    return NumericColumn(name, float(values.mean()), std or 1.0, fill, says_missing)


def _put_one_hot(values: pd.Series[Any], column: CategoricalColumn, into: NDArray[np.float32], *, ignore: bool) -> None:
    """Set the indicator of each row's category, if it has a known one."""
    n = len(column.categories)
    codes, found = pd.factorize(values)
    place = {category: index for index, category in enumerate(column.categories)}
    other = n - 1 if OTHER in place else n
    ids = np.array([place.get(value, other) for value in found], dtype=np.int64)
    unseen = [value for value, index in zip(found, ids, strict=True) if index == n and value != MISSING]
    if unseen and not ignore:
        raise FeatureMismatchError(
            f"column {column.name!r} holds {', '.join(map(repr, unseen[:5]))}, which neither training nor "
            f"deployment rows had (known: {', '.join(map(repr, column.categories[:20]))}): correct the values, or "
            "fit again with rows that have them."
        )
    if unseen:
        warnings.warn(
            f"in {int((ids[codes] == n).sum())} of {len(values)} rows column {column.name!r} holds a value that no row "
            f"had at the fit ({', '.join(map(repr, unseen[:5]))}), so it tells the model nothing there: is it written "
            "differently?",
            SupportMatchWarning,
            stacklevel=5,
        )
    of_row = ids[codes]
    rows = np.flatnonzero(of_row < n)
    into[rows, of_row[rows]] = 1


def _listed(names: Sequence[ColumnName]) -> str:
    return f"column{'s' * (len(names) > 1)} {', '.join(map(repr, names))}"
