"""Making the problem from complete data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supportmatch.data.removal import (
    assign_subgroups,
    balance,
    drop_sources,
    named_source_ids,
    split,
    split_by_source,
    thin,
)
from supportmatch.errors import ConfigError, UnknownNameError
from supportmatch.sources import Ids, SourceGrid

SOURCES = st.lists(st.integers(0, 3), min_size=1, max_size=60).map(np.array)
PROPORTION = st.floats(0, 1)
SEED = st.integers(0, 2**32)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(st.integers(0, 200), PROPORTION, SEED)
def test_a_split_loses_no_row_and_repeats_none(n_rows: int, proportion: float, seed: int) -> None:
    first, rest = split(n_rows, proportion, rng(seed))
    assert sorted([*first, *rest]) == list(range(n_rows))
    assert len(first) == round(proportion * n_rows)


@given(SOURCES, PROPORTION, SEED)
def test_a_split_by_source_keeps_the_proportion_in_each_source(sources: Ids, proportion: float, seed: int) -> None:
    first, rest = split_by_source(sources, proportion, rng(seed))
    assert sorted([*first, *rest]) == list(range(len(sources)))
    for source in range(4):
        assert np.sum(sources[first] == source) == round(proportion * np.sum(sources == source))


@given(SOURCES, st.dictionaries(st.integers(0, 3), PROPORTION), SEED)
def test_thinning_keeps_the_listed_share_and_leaves_the_other_sources_alone(
    sources: Ids, kept: dict[int, float], seed: int
) -> None:
    rows = thin(sources, kept, rng(seed))
    assert (np.diff(rows) > 0).all()
    for source in range(4):
        assert np.sum(sources[rows] == source) == round(kept.get(source, 1.0) * np.sum(sources == source))


def test_a_proportion_of_one_keeps_every_row() -> None:
    sources = np.array([0, 1, 0, 1, 1])
    assert thin(sources, {0: 1.0, 1: 1.0}, rng()).tolist() == [0, 1, 2, 3, 4]


def test_thinning_chooses_by_chance() -> None:
    sources = np.zeros(1_000, dtype=np.int64)
    mean = thin(sources, {0: 0.5}, rng()).mean()
    assert mean == pytest.approx(500, abs=50)


@given(SOURCES, st.sets(st.integers(0, 3)))
def test_dropped_sources_are_gone_and_all_others_stay(sources: Ids, missing: set[int]) -> None:
    rows = drop_sources(sources, missing)
    assert rows.tolist() == [i for i, source in enumerate(sources) if source not in missing]


@given(st.integers(0, 50), st.sets(st.integers(0, 5), min_size=1), SEED)
def test_only_listed_subgroups_are_handed_out_and_every_row_gets_one(n: int, allowed: set[int], seed: int) -> None:
    s = assign_subgroups(n, sorted(allowed), rng(seed))
    assert len(s) == n
    assert set(s) <= allowed


def test_subgroups_are_handed_out_uniformly() -> None:
    counts = np.bincount(assign_subgroups(30_000, [0, 2, 3], rng()))
    assert counts[1] == 0
    assert counts[[0, 2, 3]] == pytest.approx([10_000] * 3, rel=0.03)


@given(SOURCES, SEED)
def test_balancing_cuts_every_source_to_the_smallest(sources: Ids, seed: int) -> None:
    rows = balance(sources, rng(seed))
    assert len(set(rows)) == len(rows)
    present, sizes = np.unique(sources, return_counts=True)
    kept, kept_sizes = np.unique(sources[rows], return_counts=True)
    assert kept.tolist() == present.tolist()
    assert set(kept_sizes) == {sizes.min()}


@pytest.mark.parametrize(
    "act",
    [
        lambda r: split(50, 0.3, r)[0],
        lambda r: split_by_source(np.arange(50) % 3, 0.3, r)[0],
        lambda r: thin(np.arange(50) % 3, {1: 0.5}, r),
        lambda r: assign_subgroups(50, [0, 1], r),
        lambda r: balance(np.arange(50) % 3, r),
    ],
)
def test_the_same_generator_state_gives_the_same_rows(act: Callable[[np.random.Generator], Ids]) -> None:
    assert act(rng(1)).tolist() == act(rng(1)).tolist()


@pytest.mark.parametrize("proportion", [-0.1, 1.1, float("nan")])
def test_a_proportion_outside_zero_to_one_is_refused(proportion: float) -> None:
    with pytest.raises(ConfigError, match="between 0 and 1"):
        split(10, proportion, rng())
    with pytest.raises(ConfigError, match="between 0 and 1"):
        thin(np.zeros(3, dtype=np.int64), {0: proportion}, rng())


def test_a_source_named_outside_the_grid_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="'red'"):
        named_source_ids(SourceGrid((2, 4), ("purple", "green")), [(2, "red")])


def test_naming_no_source_gives_no_id() -> None:
    assert named_source_ids(SourceGrid((2, 4), ("purple", "green")), []) == []
