"""Bags: small balanced sets of rows, drawn as pure functions of (seed, step).

Training bags realise Pi: classes are always equal; within a class with full support subgroups are equal; the slots of a
missing source are filled from its own class, uniformly over S_tr(y). Deployment bags are drawn equally from groups
(clusters, or true sources for the oracle), or plainly.

A bag size that is not a multiple of the number of cells gives the remaining slots to cells in random turns: no two
classes differ by more than one slot in a bag, and the balance is exact on average. `describe_balance` states it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from supportmatch.data.containers import Labeled
from supportmatch.errors import ConfigError
from supportmatch.seeding import stream
from supportmatch.sources import Ids, Support


@dataclass(frozen=True, eq=False)
class TrainingBags:
    """Draws training bags that realise Pi."""

    source_ids: Ids
    support: Support
    n_bags: int
    bag_size: int
    seed: int
    purpose: str = "training bags"
    """Names the stream of random numbers."""

    @classmethod
    def of(cls, train: Labeled, n_bags: int, bag_size: int, seed: int, purpose: str = "training bags") -> TrainingBags:
        """Return the sampler of a training set."""
        return cls(train.source_ids, train.support, n_bags, bag_size, seed, purpose)

    @cached_property
    def _rows(self) -> _RowsByGroup:
        return _RowsByGroup(self.source_ids, self.support.grid.n_sources)

    @cached_property
    def _substitutes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Seen sources of each class, padded to |S| columns, and how many there are."""
        grid = self.support.grid
        table = np.zeros((grid.n_classes, grid.n_subgroups), dtype=np.int64)
        for y in range(grid.n_classes):
            seen = sorted(self.support.subgroups_of(y))
            table[y, : len(seen)] = [y * grid.n_subgroups + s for s in seen]
        return table, self.support.table.sum(axis=1)

    def draw(self, step: int, update: int = 0) -> Ids:
        """Return row indices, bags x slots, of one step (and of one of its discriminator updates)."""
        grid = self.support.grid
        rng = stream(self.seed, self.purpose, step, update)
        sources = _balanced_cells(self.n_bags, self.bag_size, grid.n_classes, grid.n_subgroups, rng)
        missing = ~self.support.table.reshape(-1)[sources]
        table, n_seen = self._substitutes
        y = sources[missing] // grid.n_subgroups
        sources[missing] = table[y, rng.integers(n_seen[y])]
        return self._rows.draw(sources, rng)


@dataclass(frozen=True, eq=False)
class GroupedBags:
    """Draws deployment bags with equal shares of every group that has rows."""

    groups: Ids
    n_bags: int
    bag_size: int
    seed: int
    purpose: str = "deployment bags"
    """Names the stream of random numbers."""

    @cached_property
    def _rows(self) -> _RowsByGroup:
        _, dense = np.unique(self.groups, return_inverse=True)
        return _RowsByGroup(dense.reshape(-1), int(dense.max()) + 1)

    def draw(self, step: int, update: int = 0) -> Ids:
        """Return row indices, bags x slots, of one step (and of one of its discriminator updates)."""
        rng = stream(self.seed, self.purpose, step, update)
        return self._rows.draw(_balanced_cells(self.n_bags, self.bag_size, len(self._rows.sizes), 1, rng), rng)


@dataclass(frozen=True, eq=False)
class PlainBags:
    """Draws deployment bags without balancing: rows as they come, none twice in a step where there are enough."""

    n_rows: int
    n_bags: int
    bag_size: int
    seed: int
    purpose: str = "deployment bags"
    """Names the stream of random numbers."""

    def draw(self, step: int, update: int = 0) -> Ids:
        """Return row indices, bags x slots, of one step (and of one of its discriminator updates)."""
        rng = stream(self.seed, self.purpose, step, update)
        n_slots = self.n_bags * self.bag_size
        rows = rng.choice(self.n_rows, n_slots, replace=n_slots > self.n_rows)
        return rows.reshape(self.n_bags, self.bag_size)


@dataclass(frozen=True, eq=False)
class WeightedBags:
    """Draws rows with probabilities in proportion to their weights, with replacement."""

    weights: NDArray[np.float64]
    n_bags: int
    bag_size: int
    seed: int
    purpose: str
    """Names the stream of random numbers."""

    @cached_property
    def _cumulative(self) -> NDArray[np.float64]:
        summed = np.cumsum(self.weights)
        shares: NDArray[np.float64] = summed / summed[-1]
        return shares

    def draw(self, step: int, update: int = 0) -> Ids:
        """Return row indices, bags x slots, of one step."""
        rng = stream(self.seed, self.purpose, step, update)
        # Side "right", so that a row without weight is never drawn.
        return np.searchsorted(self._cumulative, rng.random((self.n_bags, self.bag_size)), side="right")


DeploymentBags = GroupedBags | PlainBags


def describe_balance(bag_size: int, n_cells: int, what: str) -> str:
    """Say in one sentence how a bag's slots are shared out.

    >>> describe_balance(18, 4, "sources")
    '18 slots over 4 sources: 4 each, and 2 more in random turns (equal on average, not in every bag)'
    >>> describe_balance(16, 4, "sources")
    '16 slots over 4 sources: 4 each'
    """
    whole, rest = divmod(bag_size, n_cells)
    text = f"{bag_size} slots over {n_cells} {what}: {whole} each"
    return text + (f", and {rest} more in random turns (equal on average, not in every bag)" if rest else "")


@dataclass(frozen=True, eq=False)
class _RowsByGroup:
    """Rows sorted by group, so that one vectorised call draws from any mix of groups."""

    groups: Ids
    n_groups: int

    @cached_property
    def order(self) -> Ids:
        return np.argsort(self.groups, kind="stable")

    @cached_property
    def sizes(self) -> Ids:
        return np.bincount(self.groups, minlength=self.n_groups)

    @cached_property
    def starts(self) -> Ids:
        return np.cumsum(self.sizes) - self.sizes

    def draw(self, wanted: Ids, rng: np.random.Generator) -> Ids:
        """Return one row, with replacement, for each wanted group."""
        if (self.sizes[wanted] == 0).any():
            raise ConfigError("a bag was asked to draw from a group without rows: this is a bug, please report it.")
        rows: Ids = self.order[self.starts[wanted] + rng.integers(self.sizes[wanted])]
        return rows


def _balanced_cells(n_bags: int, bag_size: int, n_classes: int, n_subgroups: int, rng: np.random.Generator) -> Ids:
    """Return cell ids (class-major), bags x slots, shared as equally as the bag size allows."""
    n_cells = n_classes * n_subgroups
    whole, rest = divmod(bag_size, n_cells)
    cells = np.tile(np.arange(n_cells), (n_bags, whole))
    if not rest:
        return cells
    # Classes take turns, and within a class subgroups do: whatever the remainder, classes differ by one at most.
    class_turn = rng.permuted(np.tile(np.arange(n_classes), (n_bags, 1)), axis=1)
    subgroup_turn = rng.permuted(np.tile(np.arange(n_subgroups), (n_bags, n_classes, 1)), axis=2)
    turn = subgroup_turn * n_classes + class_turn[:, :, None]
    return np.concatenate([cells, np.argsort(turn.reshape(n_bags, -1), axis=1)[:, :rest]], axis=1)
