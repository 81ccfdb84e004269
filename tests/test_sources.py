"""The grid of sources, and Pi as the appendix of the paper spells it out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supportmatch.errors import TooFewClassesError, TooFewSubgroupsError, UnknownNameError
from supportmatch.sources import SourceGrid, Support

GRID = SourceGrid(classes=(2, 4), subgroups=("purple", "green"))
PURPLE, GREEN = 0, 1


Seen = tuple[tuple[bool, ...], ...]


def seen_tables() -> st.SearchStrategy[Seen]:
    """Draw which sources training has, such that every class has at least one subgroup."""

    def build(sizes: tuple[int, int]) -> st.SearchStrategy[Seen]:
        n_classes, n_subgroups = sizes
        row = st.tuples(*[st.booleans()] * n_subgroups).filter(any)
        return st.tuples(*[row] * n_classes)

    return st.tuples(st.integers(2, 4), st.integers(2, 4)).flatmap(build)


def support_of(seen: Seen) -> Support:
    return Support(SourceGrid(tuple(range(len(seen))), tuple(range(len(seen[0])))), seen)


def test_pi_is_the_table_of_the_appendix_when_purple_fours_are_missing() -> None:
    support = Support(GRID, seen=((True, True), (False, True)))
    assert support.pi(PURPLE, y=0) == {PURPLE}
    assert support.pi(GREEN, y=0) == {GREEN}
    assert support.pi(PURPLE, y=1) == {GREEN}
    assert support.pi(GREEN, y=1) == {GREEN}


def test_pi_is_always_green_when_everything_purple_is_missing() -> None:
    support = Support(GRID, seen=((False, True), (False, True)))
    assert {support.pi(s, y) for s in range(2) for y in range(2)} == {frozenset({GREEN})}
    assert support.missing_subgroups == (PURPLE,)


@given(seen_tables())
def test_pi_only_names_subgroups_that_training_has_for_that_class(seen: Seen) -> None:
    support = support_of(seen)
    for y in range(support.grid.n_classes):
        for s in range(support.grid.n_subgroups):
            assert support.pi(s, y)
            assert support.pi(s, y) <= support.subgroups_of(y)


@given(seen_tables())
def test_every_source_is_either_seen_or_missing(seen: Seen) -> None:
    support = support_of(seen)
    assert sorted(support.seen_sources + support.missing_sources) == list(range(support.grid.n_sources))


@given(st.lists(st.tuples(st.sampled_from([2, 4]), st.sampled_from(["purple", "green"])), min_size=1))
def test_names_survive_the_way_to_ids_and_back(rows: list[tuple[int, str]]) -> None:
    y = GRID.class_ids([digit for digit, _ in rows])
    s = GRID.subgroup_ids([colour for _, colour in rows])
    names = [GRID.source_name(int(source)) for source in GRID.source_ids(y, s)]
    assert names == [f"{digit}/{colour}" for digit, colour in rows]


def test_source_ids_count_through_the_subgroups_of_one_class_first() -> None:
    assert [GRID.source_name(source) for source in range(4)] == ["2/purple", "2/green", "4/purple", "4/green"]


def test_counts_form_a_table_of_classes_by_subgroups() -> None:
    assert GRID.count(np.array([0, 0, 1]), np.array([0, 1, 1])).tolist() == [[1, 1], [0, 1]]
    assert GRID.support(np.array([0, 0, 1]), np.array([0, 1, 1])).seen == ((True, True), (False, True))


def test_numpy_names_are_understood() -> None:
    assert GRID.class_ids(np.array([4, 2], dtype=np.uint8)).tolist() == [1, 0]
    assert GRID.subgroup_ids(np.array(["green", "purple"], dtype=object)).tolist() == [1, 0]


def test_a_name_that_was_not_declared_is_refused_with_the_declared_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown subgroup 'red' \(declared: 'purple', 'green'\): declare it"):
        GRID.subgroup_ids(["red"])
    with pytest.raises(UnknownNameError, match="unknown class 7"):
        GRID.class_ids([7])


def test_a_grid_needs_two_classes_and_two_different_subgroups() -> None:
    with pytest.raises(TooFewClassesError, match="check the label column"):
        SourceGrid((1,), ("a", "b"))
    with pytest.raises(TooFewSubgroupsError, match="declare every subgroup"):
        SourceGrid((1, 2), ("a",))
    with pytest.raises(UnknownNameError, match="remove the repetition"):
        SourceGrid((1, 2), ("a", "a"))
