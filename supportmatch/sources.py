"""Sources: the cells of classes x subgroups, which of them training has seen, and Pi.

Ids are positions: class `y` and subgroup `s` are rows and columns of the grid, and source `(y, s)` has the id
`y * n_subgroups + s`. Names appear only at the edges (input, tables, messages).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from supportmatch.errors import TooFewClassesError, TooFewSubgroupsError, UnknownNameError

Label = str | int | float | bool
Ids = NDArray[np.int64]


@dataclass(frozen=True)
class SourceGrid:
    """The declared classes and subgroups.

    Subgroups are *declared*, never inferred from training rows: in the missing-subgroup setting inference would
    silently shrink the set.

    >>> grid = SourceGrid(classes=("two", "four"), subgroups=("purple", "green"))
    >>> grid.n_sources, grid.source_name(2)
    (4, 'four/purple')
    """

    classes: tuple[Label, ...]
    subgroups: tuple[Label, ...]

    def __post_init__(self) -> None:
        if len(self.classes) < 2:
            raise TooFewClassesError(
                f"classification needs at least two classes, but got {list(self.classes)}: check the label column."
            )
        if len(self.subgroups) < 2:
            raise TooFewSubgroupsError(
                f"the set of subgroups must have at least two members, but got {list(self.subgroups)}: declare every "
                "subgroup expected at deployment with `subgroup_names`, also those without training rows."
            )
        for what, names in (("class", self.classes), ("subgroup", self.subgroups)):
            if len(set(names)) != len(names):
                raise UnknownNameError(f"{what} names must differ, but got {list(names)}: remove the repetition.")

    @property
    def n_classes(self) -> int:
        """Size of Y."""
        return len(self.classes)

    @property
    def n_subgroups(self) -> int:
        """Size of S."""
        return len(self.subgroups)

    @property
    def n_sources(self) -> int:
        """Size of Y x S."""
        return self.n_classes * self.n_subgroups

    def source_ids(self, y: Ids, s: Ids) -> Ids:
        """Return the source id of each (class id, subgroup id) pair."""
        return y * self.n_subgroups + s

    def source_name(self, source: int) -> str:
        """Return `class/subgroup` of a source id."""
        y, s = divmod(source, self.n_subgroups)
        return f"{self.classes[y]}/{self.subgroups[s]}"

    def class_ids(self, names: Sequence[Label] | NDArray[np.generic]) -> Ids:
        """Translate class names to ids."""
        return _to_ids(names, self.classes, "class")

    def subgroup_ids(self, names: Sequence[Label] | NDArray[np.generic]) -> Ids:
        """Translate subgroup names to ids."""
        return _to_ids(names, self.subgroups, "subgroup")

    def count(self, y: Ids, s: Ids) -> Ids:
        """Return the table of counts, classes x subgroups."""
        return np.bincount(self.source_ids(y, s), minlength=self.n_sources).reshape(self.n_classes, self.n_subgroups)

    def support(self, y: Ids, s: Ids) -> Support:
        """Return which sources occur among the labelled rows."""
        return Support.of_counts(self, self.count(y, s))


@dataclass(frozen=True)
class Support:
    """The sources that occur in the training set: S_tr(y) for every class, and Pi built on it."""

    grid: SourceGrid
    seen: tuple[tuple[bool, ...], ...]

    @cached_property
    def table(self) -> NDArray[np.bool_]:
        """`seen` as an array, classes x subgroups."""
        return np.array(self.seen)

    def subgroups_of(self, y: int) -> frozenset[int]:
        """Return S_tr(y), the subgroups with which class `y` occurs in training."""
        return frozenset(np.flatnonzero(self.table[y]).tolist())

    @classmethod
    def of_counts(cls, grid: SourceGrid, counts: Ids) -> Support:
        """Return the support that a table of rows per source, classes x subgroups, shows."""
        return cls(grid, tuple(tuple(row) for row in (counts > 0).tolist()))

    def is_complete_class(self, y: int) -> bool:
        """Tell whether class `y` occurs with every subgroup."""
        return bool(self.table[y].all())

    def is_complete_subgroup(self, s: int) -> bool:
        """Tell whether subgroup `s` occurs with every class."""
        return bool(self.table[:, s].all())

    def pi(self, s: int, y: int) -> frozenset[int]:
        """Return Pi(s, y): the training subgroups that stand for deployment source (s, y) (paper, Eq. 2).

        >>> grid = SourceGrid(classes=(2, 4), subgroups=("purple", "green"))
        >>> support = Support(grid, seen=((True, True), (False, True)))
        >>> sorted(support.pi(s=0, y=1))  # purple fours are stood for by green fours, never by purple twos
        [1]
        """
        return frozenset({s}) if self.is_complete_class(y) else self.subgroups_of(y)

    @cached_property
    def seen_sources(self) -> tuple[int, ...]:
        """Ids of the sources with training rows."""
        return tuple(np.flatnonzero(self.table).tolist())

    @cached_property
    def missing_sources(self) -> tuple[int, ...]:
        """Ids of the sources without training rows."""
        return tuple(np.flatnonzero(~self.table).tolist())

    @cached_property
    def missing_subgroups(self) -> tuple[int, ...]:
        """Ids of the subgroups without any training row."""
        return tuple(np.flatnonzero(~self.table.any(axis=0)).tolist())


def _to_ids(names: Sequence[Label] | NDArray[np.generic], known: tuple[Label, ...], what: str) -> Ids:
    """Translate names to positions in `known`; refuse any name that was not declared."""
    values, inverse = np.unique(np.asarray(names), return_inverse=True)
    position = {name: i for i, name in enumerate(known)}
    plain = [value.item() if isinstance(value, np.generic) else value for value in values]
    unknown = [value for value in plain if value not in position]
    if unknown:
        raise UnknownNameError(
            f"unknown {what} {', '.join(map(repr, unknown[:5]))} (declared: {', '.join(map(repr, known))}): declare it "
            f"in `{what}_names` or correct the column."
        )
    return np.array([position[value] for value in plain], dtype=np.int64)[inverse.reshape(-1)]
