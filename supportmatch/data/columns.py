"""Which column of a table is what: label, subgroup, number, category, or of no use; without pandas or torch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import product
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from supportmatch.data.files import ROW_NAME, Named, as_numbers, is_number, is_number_with_comma, names_of
from supportmatch.errors import ConfigError, TableFileError, UnknownNameError
from supportmatch.sources import Ids, SourceGrid

Kind = Literal["numeric", "categorical", "dropped"]

JOINT = " & "
"""Stands between the names of a subgroup that is a product, as in `Female & Black`."""
MANY_CATEGORIES = 100
"""A categorical column with more values is said to have many."""

MOST_NAMES = 100
"""A column with more values is neither label nor subgroup."""

_PANDAS_INDEX = r"__index_level_\d+__"
_FEW_ROWS = 50  # below, nothing is said about columns in which every row has its own value
_DATE = r"^\d{4}-\d{1,2}-\d{1,2}([ T].*)?$|^\d{1,2}[./]\d{1,2}[./]\d{2,4}$"


@dataclass(frozen=True)
class Roles:
    """Which columns hold the class and the subgroup; several subgroup columns make a product."""

    label: str
    subgroup: tuple[str, ...]

    def check(self, names: Sequence[str], where: str) -> None:
        """Raise unless the columns are there and differ."""
        for what, column in (("label", self.label), *(("subgroup", name) for name in self.subgroup)):
            if column not in names:
                raise TableFileError(
                    f"{where} has no {what} column {column!r}: its columns are {_listed(names)}."
                    f"{did_you_mean(column, names)} Correct the name, or check that the file is a table whose first "
                    "line names the columns."
                )
        if len({self.label, *self.subgroup}) <= len(self.subgroup):
            raise ConfigError(
                f"label ({self.label}) and subgroup ({', '.join(self.subgroup)}) must be different columns: name them "
                "again."
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """All of them."""
        return (self.label, *self.subgroup)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return a question after the nearest of some names, to be added to a sentence; nothing if none is near.

    >>> did_you_mean("Incom", ["age", "income"]), did_you_mean("zip", ["age", "income"])
    (" Did you mean 'income'?", '')
    """
    known = {other.lower(): other for other in names}
    nearest = get_close_matches(name.lower(), known, n=1)
    return f" Did you mean {known[nearest[0]]!r}?" if nearest else ""


@dataclass(frozen=True, eq=False)
class Labels:
    """Classes and subgroups of the rows that have both."""

    grid: SourceGrid
    y: Ids
    s: Ids
    rows: Ids
    """Which rows of the table these are."""
    n_without: int
    """Rows that were left out because their label or subgroup is missing."""


def read_labels(
    table: pa.Table,
    roles: Roles,
    where: str,
    *,
    subgroup_names: Sequence[Sequence[str] | None] | None = None,
    class_names: Sequence[str] | None = None,
    grid: SourceGrid | None = None,
) -> Labels:
    """Translate the label and subgroup columns of a table.

    Args:
        table: What was read.
        roles: Which columns hold them.
        where: The file, for messages.
        subgroup_names: The declared values of each subgroup column; None stands for those that occur.
        class_names: The declared classes; by default those that occur.
        grid: The declared classes and subgroups of a fitted model, instead of the two above.
    """
    roles.check(table.column_names, where)
    columns = [names_of(table[name]) for name in roles.columns]
    rows = np.flatnonzero(~np.logical_or.reduce([column.is_missing for column in columns]))
    if not len(rows):
        raise TableFileError(f"no row of {where} has both {roles.label} and {', '.join(roles.subgroup)}: fill them in.")
    for name, column in zip(roles.columns, columns, strict=True):
        if len(column.names) > MOST_NAMES:
            raise TableFileError(
                f"column {name} of {where} has {len(column.names)} different values, more than the {MOST_NAMES} that a "
                "label or subgroup may have: name another column, or put its values into groups."
            )
    if len(rows) < table.num_rows:
        columns = [Named(column.ids[rows], column.names) for column in columns]
    label, *parts = columns
    if grid is None:
        declared = subgroup_names or [None] * len(parts)
        if len(declared) != len(parts):
            raise ConfigError(f"subgroups of {len(declared)} columns are declared, but there are {len(parts)} columns.")
        values = [
            tuple(names) if names is not None else _occurring(part) for names, part in zip(declared, parts, strict=True)
        ]
        for column_name, names, part in zip(roles.subgroup, values, parts, strict=True):
            unknown = sorted(set(_occurring(part)) - set(names))
            if unknown:
                raise UnknownNameError(
                    f"column {column_name} of {where} holds {_listed(unknown)}, but the declared subgroups are "
                    f"{_listed(names)}: declare every subgroup, or correct the rows."
                )
        grid = SourceGrid(
            tuple(class_names) if class_names is not None else _occurring(label),
            tuple(JOINT.join(names) for names in product(*values)),
        )
    subgroup = f"column {JOINT.join(roles.subgroup)} of {where}"
    return Labels(
        grid,
        _ids(label, [str(name) for name in grid.classes], f"column {roles.label} of {where}", "classes"),
        _ids(_joined(parts), [str(name) for name in grid.subgroups], subgroup, "subgroups"),
        rows,
        table.num_rows - len(rows),
    )


@dataclass(frozen=True)
class Column:
    """A column and what becomes of it."""

    name: str
    kind: Kind
    note: str = ""
    """Why it is dropped, or what to know about it."""
    n_values: int = 0
    """Distinct values in both files."""
    missing: float = 0.0
    """Share of rows without a value, in both files."""


@dataclass(frozen=True)
class Choices:
    """What the user decides about columns; the rest is found."""

    numeric: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()

    def check(self, names: Iterable[str]) -> None:
        """Raise if a name is none of the columns or is given twice."""
        known, chosen = set(names), [*self.numeric, *self.categorical, *self.drop]
        unknown = [name for name in chosen if name not in known]
        if unknown:
            raise ConfigError(
                f"there is no column {_listed(unknown)} to choose: the columns are {_listed(sorted(known))}."
                f"{did_you_mean(unknown[0], sorted(known))}"
            )
        twice = sorted({name for name in chosen if chosen.count(name) > 1})
        if twice:
            raise ConfigError(f"column {_listed(twice)} is given two kinds: choose one of numeric, categorical, drop.")


@dataclass(frozen=True)
class ColumnPlan:
    """What becomes of every column that is neither label nor subgroup."""

    columns: tuple[Column, ...]

    @property
    def features(self) -> tuple[Column, ...]:
        """The columns that a model sees."""
        return tuple(column for column in self.columns if column.kind != "dropped")

    def select(self, table: pa.Table, where: str) -> pa.Table:
        """Return the features of a table: numbers as floats, categories as text that is held once per name.

        Args:
            table: Has at least the columns of `features`.
            where: The file, for messages.
        """
        lacking = [column.name for column in self.features if column.name not in table.column_names]
        if lacking:
            them = "it" if len(lacking) == 1 else "them"
            raise TableFileError(
                f"{where} lacks the column{'s' * (len(lacking) > 1)} {_listed(lacking)}, which the model reads: add "
                f"{them}, or fit again without {them}."
            )
        chosen: dict[str, pa.ChunkedArray | pa.Array] = {}
        for column in self.features:
            values = table[column.name]
            if column.kind == "categorical":
                chosen[column.name] = names_of(values).to_arrow()
                continue
            numbers = as_numbers(values)
            if numbers is None:
                # The table may be a piece of the file.
                found = _say_what_is_no_number(column.name, names_of(values), where, "at least ")
                raise TableFileError(f"{found}: correct them, or leave the cells empty.")
            _refuse_infinity(column.name, numbers, where)
            chosen[column.name] = numbers
        return pa.table(chosen)

    def to_text(self) -> str:
        """Return a table of the columns."""
        lines = [("column", "kind", "values", "missing", "")]
        for column in self.columns:
            share = f"{column.missing:.1%}" if column.missing else "-"
            lines.append((_on_one_line(column.name), column.kind, str(column.n_values), share, column.note))
        widths = [max(len(line[i]) for line in lines) for i in range(4)]
        return "\n".join(
            "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[4]]).rstrip()
            for line in lines
        )


def _on_one_line(name: str) -> str:
    r"""Return a name as a terminal can show it: line ends and other marks of control as Python writes them.

    >>> print(_on_one_line("two\nlines"))
    two\nlines
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def plan_columns(
    train: pa.Table,
    deploy: pa.Table | None,
    roles: Roles,
    choices: Choices = Choices(),
    *,
    max_categories: int = MANY_CATEGORIES,
) -> ColumnPlan:
    """Find out what kind of feature every column is.

    A column is numeric if all its values are numbers, else categorical. Dropped are columns that only one file has,
    that never vary, that hold dates, and in which every row has a value of its own, unless the user chose a kind. A
    column in which most but not all values are numbers is refused: it is likely a number with odd marks for missing.
    So is one of numbers with commas, which may be decimal or stand between thousands.

    Args:
        train: Labelled rows.
        deploy: Unlabelled rows, if any.
        roles: Columns that are no features.
        choices: What the user decided.
        max_categories: Beyond it a note says that rare values are put together.
    """
    names = [name for name in train.column_names if name not in roles.columns]
    only_deploy = [n for n in deploy.column_names if n not in train.column_names] if deploy is not None else []
    choices.check([*names, *only_deploy])
    columns, mistakes = [], []
    for name in names:
        if name in choices.drop:
            columns.append(Column(name, "dropped", "as you asked"))
        elif deploy is not None and name not in deploy.column_names:
            columns.append(Column(name, "dropped", "not in the deployment file"))
        else:
            parts = [table[name] for table in (train, deploy) if table is not None]
            try:
                columns.append(_judge(name, parts, choices, max_categories))
            except TableFileError as error:
                mistakes.append(str(error))
    if mistakes:
        raise TableFileError(" ".join(mistakes))
    columns += [Column(name, "dropped", "not in the training file") for name in only_deploy]
    if not any(column.kind != "dropped" for column in columns):
        reasons = "; ".join(f"{column.name}: {column.note}" for column in columns)
        raise TableFileError(
            f"no column is left to learn from ({reasons or 'there is no other column'}): add features."
        )
    return ColumnPlan(tuple(columns))


def _judge(name: str, parts: list[pa.ChunkedArray], choices: Choices, max_categories: int) -> Column:
    """Return what becomes of a column that both files have."""
    total = sum(len(part) for part in parts)
    missing = sum(part.null_count for part in parts) / total
    kinds = [part.type for part in parts]
    if not all(_is_plain(kind) or _is_time(kind) for kind in kinds):
        return Column(name, "dropped", f"holds {kinds[0]}, neither numbers nor names", 0, missing)
    numbers: list[pa.ChunkedArray] | None = None
    if name not in choices.categorical:
        numbers = [part for part in map(as_numbers, parts) if part is not None]
        numbers = numbers if len(numbers) == len(parts) else None
    is_chosen = name in (*choices.numeric, *choices.categorical)
    if numbers is not None:
        for part in numbers:
            _refuse_infinity(name, part, "the tables")
        every = pa.chunked_array([chunk for part in numbers for chunk in part.chunks], pa.float64())
        n_values = pc.count_distinct(every, mode="only_valid").as_py()
        useless = "" if n_values else "no values"
        if n_values and not is_chosen:
            useless = _say_why_numbers_are_useless(name, parts, numbers, n_values)
        return Column(name, "dropped" if useless else "numeric", useless, n_values, missing)
    named = names_of(*parts)
    if name in choices.numeric:
        raise TableFileError(_not_numbers(name, named, "the tables"))
    n_values = len(named.names)
    useless = "" if n_values else "no values"
    if n_values and not is_chosen:
        useless = _say_why_useless(name, named, parts)
    if useless:
        return Column(name, "dropped", useless, n_values, missing)
    note = f"rare values are put together, {max_categories - 1} are kept" if n_values > max_categories else ""
    return Column(name, "categorical", note, n_values, missing)


def _say_why_numbers_are_useless(
    name: str, parts: Sequence[pa.ChunkedArray], numbers: Sequence[pa.ChunkedArray], n_values: int
) -> str:
    """Return why nothing can be learnt from a column of numbers, or nothing."""
    if _is_row_name(name):
        return "names of the rows"
    if n_values == 1 and not any(part.null_count for part in numbers):
        return f"always {names_of(parts[0].slice(0, 1)).names[0]!r}"
    return "numbers the rows" if all(map(_counts_rows, numbers)) else ""


def _say_why_useless(name: str, named: Named, parts: Sequence[pa.ChunkedArray]) -> str:
    """Return why nothing can be learnt from a column of names, or nothing; refuse numbers that are mixed with words."""
    if _is_row_name(name):
        return "names of the rows"
    counts = named.counts()
    if len(named.names) == 1 and counts.sum() == len(named.ids):
        return f"always {named.names[0]!r}"
    names = pa.array(named.names, pa.string())
    if any(_is_time(part.type) for part in parts) or pc.all(pc.match_substring_regex(names, _DATE)).as_py():
        return "dates: turn them into numbers if they matter"
    like_numbers = pc.or_(is_number(names), is_number_with_comma(names)).to_numpy(zero_copy_only=False)
    if counts[like_numbers].sum() >= 0.5 * counts.sum():
        raise TableFileError(_not_numbers(name, named, "the tables"))
    if any(map(_tells_rows_apart, parts)):  # in either file: names of rows often start anew in the other
        return "nearly every row has a value of its own"
    return ""


def _is_row_name(name: str) -> bool:
    return name == ROW_NAME or re.fullmatch(_PANDAS_INDEX, name) is not None


def _tells_rows_apart(column: pa.ChunkedArray) -> bool:
    n_there = len(column) - column.null_count
    return n_there >= _FEW_ROWS and bool(len(names_of(column).names) > 0.9 * n_there)


def _is_plain(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    tests = ("integer", "floating", "decimal", "boolean", "string", "large_string", "null")
    return any(getattr(pa.types, f"is_{test}")(kind) for test in tests)


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(kind))


def _counts_rows(column: pa.ChunkedArray) -> bool:
    """Tell whether numbers are those of an index: every one from the first to the last, in any order."""
    if len(column) < _FEW_ROWS or column.null_count:
        return False
    ends = pc.min_max(column).as_py()
    if ends["max"] - ends["min"] != len(column) - 1:
        return False
    return bool(np.all(np.diff(np.sort(column.to_numpy())) == 1))


def _refuse_infinity(name: str, numbers: pa.ChunkedArray, where: str) -> None:
    if pc.any(pc.is_inf(numbers), min_count=0).as_py():
        raise TableFileError(f"column {name!r} of {where} holds infinity: leave the cell empty or put a number there.")


def _not_numbers(name: str, named: Named, where: str) -> str:
    return (
        f"{_say_what_is_no_number(name, named, where)}: correct them (numbers have a decimal point, and nothing "
        f"between thousands), list marks that mean missing with --missing-values, or choose --categorical {name!r} or "
        f"--drop {name!r}."
    )


def _say_what_is_no_number(name: str, named: Named, where: str, at_least: str = "") -> str:
    odd = ~is_number(pa.array(named.names, pa.string())).to_numpy(zero_copy_only=False).astype(bool)
    counts = named.counts()
    n_numbers, n_odd = int(counts[~odd].sum()), int(counts[odd].sum())
    examples = "; ".join(named.names[i] for i in np.flatnonzero(odd)[:3])
    found = f"mixes {at_least}{n_numbers} number{'s' * (n_numbers > 1)} with" if n_numbers else "holds"
    odd_values = "value that is no number" if n_odd == 1 else "values that are no numbers"
    return f"column {name!r} of {where} {found} {at_least}{n_odd} {odd_values} ({examples})"


def _occurring(column: Named) -> tuple[str, ...]:
    """Return the names that rows have, in order of the alphabet."""
    return tuple(sorted(name for name, n in zip(column.names, column.counts().tolist(), strict=True) if n))


def _joined(columns: Sequence[Named]) -> Named:
    """Return the product of columns without missing names."""
    first, *others = columns
    for column in others:
        names = tuple(JOINT.join(pair) for pair in product(first.names, column.names))
        first = Named(first.ids * len(column.names) + column.ids, names)
    return first


def _ids(column: Named, names: Sequence[str], where: str, what: str) -> Ids:
    unknown = sorted(set(_occurring(column)) - set(names))
    if unknown:
        raise UnknownNameError(
            f"{where} holds {_listed(unknown)}, but the {what} are {_listed(names)}: correct the rows."
        )
    place = {name: position for position, name in enumerate(names)}
    return np.array([place.get(name, -1) for name in column.names], dtype=np.int64)[column.ids]


def _listed(names: Iterable[object], most: int = 12) -> str:
    named = [name if len(name) <= 60 else f"{name[:57]}..." for name in map(str, names)]
    rest = f" and {len(named) - most} more" if len(named) > most else ""
    return ", ".join(named[:most]) + rest
