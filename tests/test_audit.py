from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import normalized_mutual_info_score

from supportmatch.audit import SourceAudit, audit_sources
from supportmatch.data.containers import Labeled, Unlabeled
from supportmatch.errors import MissingClassError
from supportmatch.metrics import hgr_correlation
from supportmatch.sources import SourceGrid

TWO = SourceGrid(classes=(2, 4), subgroups=("purple", "green"))
THREE = SourceGrid(classes=(2, 4, 6), subgroups=("purple", "green", "blue"))
ANCHORED = ((990, 298), (0, 970))
CONFOUNDED = ((990, 0), (0, 970))
UNSEEN = ((0, 298), (0, 970))
Counts = tuple[tuple[int, ...], ...]


def training_set(counts: Counts, grid: SourceGrid) -> Labeled:
    table = np.array(counts)
    y, s = np.divmod(np.repeat(np.arange(table.size), table.ravel()), table.shape[1])
    return Labeled(np.zeros((len(y), 1)), y=y, s=s, grid=grid)


def deployment_set(n: int = 1000) -> Unlabeled:
    return Unlabeled(np.zeros((n, 1)))


def audit(counts: Counts, grid: SourceGrid = TWO) -> SourceAudit:
    return audit_sources(training_set(counts, grid), deployment_set())


def test_with_every_source_seen_ordinary_training_is_advised() -> None:
    result = audit(((100, 100), (100, 100)))
    assert (result.setting, result.identifiability, result.missing) == ("complete", "identified", ())
    assert "Train ordinarily" in result.next_step
    assert result.warnings == ()


def test_a_complete_class_anchors_the_subgroup_and_the_missing_class_follows_by_elimination() -> None:
    result = audit(ANCHORED)
    assert (result.setting, result.identifiability) == ("subgroup bias", "identified")
    assert result.missing == ("4/purple",)
    assert "class 2 with every subgroup" in result.reasons[0]
    assert "can only be of that class" in result.reasons[1]


def test_several_missing_sources_of_one_class_are_still_told_by_elimination() -> None:
    assert audit(((50, 50, 50), (50, 0, 0), (50, 50, 50)), THREE).identifiability == "identified"


def test_an_anchor_needs_separability_once_two_classes_lack_sources() -> None:
    result = audit(((50, 50, 50), (50, 0, 50), (50, 0, 50)), THREE)
    assert result.identifiability == "identified if separable"
    assert "class 2 with every subgroup" in result.reasons[0]
    assert "no interaction" in result.reasons[1]


def test_the_three_digit_setting_of_the_paper_is_identified_if_separable() -> None:
    result = audit(((50, 0, 0), (50, 50, 0), (50, 0, 50)), THREE)
    assert (result.setting, result.identifiability) == ("subgroup bias", "identified if separable")
    assert result.missing == ("2/green", "2/blue", "4/blue", "6/green")
    assert "no class with every subgroup" in result.reasons[0]


def test_each_class_with_its_own_subgroup_is_confounded() -> None:
    result = audit(CONFOUNDED)
    assert (result.setting, result.identifiability) == ("subgroup bias", "not identified")
    assert "confounded" in result.reasons[0]
    assert "Do not trust" in result.reasons[0]
    assert result.hgr == pytest.approx(1)
    assert result.nmi == pytest.approx(1)


def test_the_source_advised_for_labelling_links_the_parts() -> None:
    result = audit(CONFOUNDED)
    assert "4/purple" in result.next_step
    assert audit(((990, 0), (30, 970))).identifiability == "identified"


def test_a_long_chain_of_shared_subgroups_is_connected() -> None:
    n = 6
    grid = SourceGrid(tuple(range(n)), tuple(range(n)))
    chain = np.eye(n, dtype=int) + np.eye(n, k=1, dtype=int)
    assert audit(tuple(map(tuple, (30 * chain).tolist())), grid).identifiability == "identified if separable"


def test_an_unseen_subgroup_leaves_the_pairing_of_its_classes_open() -> None:
    result = audit(UNSEEN)
    assert (result.setting, result.identifiability) == ("missing subgroup", "not identified")
    assert "swaps classes" in result.reasons[0]
    assert len(result.reasons) == 1
    assert (result.hgr, result.nmi) == (0, 0)
    assert any("only one subgroup" in warning for warning in result.warnings)


def test_confounding_among_the_seen_subgroups_is_told_beside_an_unseen_one() -> None:
    result = audit(((50, 0, 0), (0, 50, 0), (50, 0, 0)), THREE)
    assert (result.setting, result.identifiability) == ("missing subgroup", "not identified")
    assert "confounded" in result.reasons[0]
    assert "subgroup blue" in result.reasons[1]


@settings(deadline=None, max_examples=60)
@given(arrays(np.int64, (3, 3), elements=st.integers(0, 2)).filter(lambda table: bool(table.any(axis=1).all())))
def test_the_verdict_follows_from_which_sources_are_seen(table: np.ndarray) -> None:
    result = audit(tuple(map(tuple, table.tolist())), THREE)
    assert len(result.missing) == (table == 0).sum()
    assert (result.setting == "complete") == bool(table.all())
    assert (result.setting == "missing subgroup") == bool((~table.any(axis=0)).any())
    if result.setting == "missing subgroup":
        assert result.identifiability == "not identified"
    assert (result.identifiability == "identified") == ((table == 0).any(axis=1).sum() <= 1)
    assert 0 <= result.nmi <= 1
    assert result.reasons
    assert result.next_step


@settings(deadline=None, max_examples=60)
@given(
    arrays(np.int64, (3, 3), elements=st.integers(0, 2)).filter(lambda table: bool(table.any(axis=1).all())),
    st.permutations(range(3)),
    st.permutations(range(3)),
)
def test_the_order_in_which_names_are_declared_does_not_change_the_verdict(
    table: np.ndarray, rows: list[int], columns: list[int]
) -> None:
    before = audit(tuple(map(tuple, table.tolist())), THREE)
    after = audit(tuple(map(tuple, table[rows][:, columns].tolist())), THREE)
    assert (before.setting, before.identifiability) == (after.setting, after.identifiability)
    assert before.nmi == pytest.approx(after.nmi, abs=1e-9)


def test_dependence_agrees_with_sklearn_and_with_our_metric() -> None:
    train = training_set(((50, 10, 0), (5, 40, 9), (8, 0, 30)), THREE)
    result = audit_sources(train)
    assert result.nmi == pytest.approx(normalized_mutual_info_score(train.y, train.s))
    assert result.hgr == hgr_correlation(train.y, train.s)


def test_a_missing_class_is_refused_since_no_deployment_set_can_name_it() -> None:
    with pytest.raises(MissingClassError, match="class 4"):
        audit(((50, 50), (0, 0)))


def test_sources_with_few_rows_are_warned_about_but_count_as_seen() -> None:
    result = audit(((100, 100), (5, 100)))
    assert result.setting == "complete"
    assert any("4/purple (5)" in warning for warning in result.warnings)


def test_heavy_class_imbalance_is_warned_about() -> None:
    assert any("Class 2 has 800" in warning for warning in audit(((400, 400), (40, 40))).warnings)


def test_a_small_deployment_set_is_warned_about() -> None:
    result = audit_sources(training_set(ANCHORED, TWO), deployment_set(60))
    assert result.n_deploy == 60
    assert any("60 rows for 4 declared sources" in warning for warning in result.warnings)


def test_without_a_deployment_set_the_next_step_is_to_collect_one_if_sources_are_missing() -> None:
    result = audit_sources(training_set(ANCHORED, TWO))
    assert result.n_deploy is None
    assert result.next_step.startswith("Collect unlabelled rows")
    assert not audit_sources(training_set(((30, 30), (30, 30)), TWO)).next_step.startswith("Collect")


def test_text_marks_missing_sources_and_ends_with_the_next_step() -> None:
    lines = audit(ANCHORED).to_text().splitlines()
    assert lines[1].split() == ["purple", "green"]
    assert lines[3].split() == ["4", "MISSING", "970"]
    assert "Setting: subgroup bias (1 of 4 sources missing)" in lines
    assert "Verdict: identified" in lines
    assert any(line.startswith("Next: ") for line in lines)


@pytest.mark.parametrize("counts", [ANCHORED, CONFOUNDED, UNSEEN])
def test_json_carries_the_whole_audit(counts: Counts) -> None:
    result = audit(counts)
    record = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert record["counts"] == [list(row) for row in counts]
    assert record["missing"] == list(result.missing)
    assert record["identifiability"] == result.identifiability
    assert record["n_train"] == sum(map(sum, counts))
    assert record["subgroups"] == ["purple", "green"]


@pytest.mark.parametrize("counts", [((30, 30), (30, 30)), ANCHORED, CONFOUNDED, UNSEEN])
def test_the_audit_promises_nothing_about_people(counts: Counts) -> None:
    text = audit(counts).to_text().lower()
    assert not any(word in text for word in ("unbiased", "fair", "solved", "guarantee"))
