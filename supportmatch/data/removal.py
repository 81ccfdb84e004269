"""Make the problem from complete data: split, thin, drop sources, hand out subgroups, balance.

Every function takes source ids (or a number of rows) and returns row positions or ids, so that images and tables are
treated alike. All are pure functions of their arguments and the state of the generator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from supportmatch.errors import ConfigError
from supportmatch.sources import Ids, Label, SourceGrid

RowPositions = NDArray[np.int64]


def named_source_ids(grid: SourceGrid, sources: Iterable[tuple[Label, Label]]) -> list[int]:
    """Translate (class name, subgroup name) pairs to source ids.

    >>> named_source_ids(SourceGrid((2, 4), ("purple", "green")), [(4, "purple"), (2, "green")])
    [2, 1]
    """
    pairs = list(sources)
    y, s = grid.class_ids([name for name, _ in pairs]), grid.subgroup_ids([name for _, name in pairs])
    return [int(source) for source in grid.source_ids(y, s)]


def split(n_rows: int, proportion: float, rng: np.random.Generator) -> tuple[RowPositions, RowPositions]:
    """Cut a random permutation of the rows in two.

    Args:
        n_rows: How many rows there are.
        proportion: Share of the rows in the first part, which has `round(proportion * n_rows)` of them.
        rng: Where the permutation comes from.

    Returns:
        The positions of the first part (the deployment set, say) and of the rest (the training set).
    """
    order = rng.permutation(n_rows)
    n_first = _share(n_rows, proportion)
    return order[:n_first], order[n_first:]


def split_by_source(source_ids: Ids, proportion: float, rng: np.random.Generator) -> tuple[RowPositions, RowPositions]:
    """Cut a random permutation of the rows in two, each source in the same proportion.

    Args:
        source_ids: The source of each row.
        proportion: Share of each source in the first part; a source of n rows gives `round(proportion * n)`.
        rng: Where the permutation comes from.

    Returns:
        The positions of the first part and of the rest, both in random order.
    """
    order = rng.permutation(len(source_ids))
    shuffled = source_ids[order]
    in_first = np.zeros(len(order), dtype=bool)
    for source in np.unique(source_ids):
        members = np.flatnonzero(shuffled == source)
        in_first[members[: _share(len(members), proportion)]] = True
    return order[in_first], order[~in_first]


def thin(source_ids: Ids, kept: Mapping[int, float], rng: np.random.Generator) -> RowPositions:
    """Keep a random share of the listed sources, and all rows of the others.

    A source of n rows keeps `round(p * n)`. The paper's authors kept `round(p * (n - 1))`, so that p = 1.0 lost one
    row; here p = 1.0 keeps them all.

    Args:
        source_ids: The source of each row.
        kept: Proportion retained, by source id.
        rng: Chooses the rows that stay.

    Returns:
        The positions that stay, ascending.
    """
    stays = np.ones(len(source_ids), dtype=bool)
    for source, proportion in kept.items():
        members = rng.permutation(np.flatnonzero(source_ids == source))
        stays[members[_share(len(members), proportion) :]] = False
    return np.flatnonzero(stays)


def drop_sources(source_ids: Ids, missing: Iterable[int]) -> RowPositions:
    """Return the positions of the rows whose source is not among the missing ones, ascending.

    >>> drop_sources(np.array([0, 1, 2, 1]), missing=[1]).tolist()
    [0, 2]
    """
    return np.flatnonzero(~np.isin(source_ids, list(missing)))


def assign_subgroups(n_rows: int, subgroups: Sequence[int], rng: np.random.Generator) -> Ids:
    """Draw a subgroup for each row, independently and uniformly among those listed.

    To make a missing subgroup where subgroups are ours to choose (colours of digits), leave it out of the list: no
    row is thrown away.
    """
    return np.asarray(subgroups, dtype=np.int64)[rng.integers(len(subgroups), size=n_rows)]


def balance(source_ids: Ids, rng: np.random.Generator) -> RowPositions:
    """Cut every source that occurs to the size of the smallest, by a random choice of rows.

    Returns:
        The positions that stay, ascending.
    """
    sources, sizes = np.unique(source_ids, return_counts=True)
    members = [rng.permutation(np.flatnonzero(source_ids == source))[: sizes.min()] for source in sources]
    return np.sort(np.concatenate(members))


def _share(n_rows: int, proportion: float) -> int:
    if not 0 <= proportion <= 1:
        raise ConfigError(f"a proportion of rows must lie between 0 and 1, but got {proportion}: correct it.")
    return round(proportion * n_rows)
