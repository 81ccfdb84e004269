from __future__ import annotations

import json
import subprocess
import sys
from math import isnan, nan, sqrt

import numpy as np
import pytest
from fairlearn.metrics import (
    MetricFrame,
    demographic_parity_difference,
    demographic_parity_ratio,
    selection_rate,
    true_negative_rate,
    true_positive_rate,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from scipy.stats.contingency import association
from sklearn.metrics import accuracy_score

from supportmatch.errors import ConfigError, ShapeError
from supportmatch.metrics import (
    OVERALL,
    RATES,
    Evaluation,
    Proportion,
    accuracy,
    calibration_of,
    evaluate,
    hgr_correlation,
    robust_accuracy,
)
from supportmatch.sources import Ids, SourceGrid

GRID = SourceGrid(classes=("no", "yes"), subgroups=("a", "b"))
BIG = SourceGrid(classes=(2, 4, 6), subgroups=("purple", "green", "blue"))

quick = settings(deadline=None, max_examples=50)
big_rows = st.lists(st.tuples(*[st.integers(0, 2)] * 3), min_size=1, max_size=40).map(
    lambda rows: tuple(np.array(rows, dtype=np.int64).T)
)
Rows = tuple[Ids, Ids, Ids]


def small_example() -> Rows:
    """Four rows of each subgroup, two per class; a wrongly gets one `no`, b wrongly gets one `yes`."""
    s = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    y = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    p = np.array([0, 0, 1, 0, 1, 0, 1, 1])
    return y, p, s


def random_rows(seed: int, n: int, n_classes: int, n_subgroups: int) -> Rows:
    rng = np.random.default_rng(seed)
    return rng.integers(n_classes, size=n), rng.integers(n_classes, size=n), rng.integers(n_subgroups, size=n)


def plain(result: Evaluation) -> dict[str, float]:
    return {name: getattr(result, name) for name in OVERALL}


def test_a_small_example_agrees_with_arithmetic_by_hand() -> None:
    y, p, s = small_example()
    result = evaluate(y, p, s, GRID)
    assert result.accuracy == accuracy(y, p) == 6 / 8
    assert result.robust_accuracy == robust_accuracy(y, p, s) == 3 / 4
    assert result.worst_subgroup == "a"  # a tie goes to the first
    rates = {name: {rate: share.value for rate, share in rates.items()} for name, rates in result.by_subgroup.items()}
    assert rates["a"] == {"accuracy": 0.75, "positive_rate": 0.25, "tpr": 0.5, "tnr": 1.0}
    assert rates["b"] == {"accuracy": 0.75, "positive_rate": 0.75, "tpr": 1.0, "tnr": 0.5}
    assert result.positive_rate_ratio == pytest.approx(1 / 3)
    assert result.positive_rate_difference == 0.5
    assert result.tpr_ratio == result.tnr_ratio == result.tpr_difference == result.tnr_difference == 0.5
    assert result.hgr == pytest.approx(0.5)  # phi of the table [[3, 1], [1, 3]]
    assert result.by_source["no/b"] == Proportion(hits=1, n=2)
    assert result.undefined == {}


def test_robust_accuracy_looks_at_every_subgroup_not_only_the_first_two() -> None:
    s = np.array([0, 1, 2, 2])
    y = np.array([0, 1, 0, 1])
    assert robust_accuracy(y, np.array([0, 1, 1, 1]), s) == 0.5


def test_the_tiny_functions_are_nan_without_rows() -> None:
    none = np.array([], dtype=np.int64)
    assert isnan(accuracy(none, none))
    assert isnan(robust_accuracy(none, none, none))


@quick
@given(big_rows)
def test_robust_accuracy_is_no_higher_than_accuracy_in_any_subgroup(rows: Rows) -> None:
    result = evaluate(*rows, BIG, n_bootstrap=0)
    present = [rates["accuracy"].value for rates in result.by_subgroup.values() if rates["accuracy"].n]
    assert result.robust_accuracy == min(present)
    assert result.robust_accuracy <= result.accuracy + 1e-12
    assert result.robust_accuracy == robust_accuracy(*rows)


@quick
@given(big_rows)
def test_every_number_lies_between_zero_and_one_or_is_nan_with_a_reason(rows: Rows) -> None:
    result = evaluate(*rows, BIG, n_bootstrap=20)
    numbers = plain(result)
    numbers |= {f"by_source[{name}].accuracy": share.value for name, share in result.by_source.items()}
    for group, rates in result.by_subgroup.items():
        numbers |= {f"by_subgroup[{group}].{rate}": share.value for rate, share in rates.items()}
    for pair, values in result.by_pair.items():
        numbers |= {f"by_pair[{pair}].{name}": value for name, value in values.items()}
    for name, value in numbers.items():
        assert name in result.undefined if isnan(value) else 0 <= value <= 1 and name not in result.undefined


@quick
@given(big_rows, st.permutations(range(3)))
def test_relabelling_subgroups_leaves_every_number_as_it_was(rows: Rows, order: list[int]) -> None:
    y, p, s = rows
    renamed = SourceGrid(BIG.classes, tuple(np.array(BIG.subgroups)[np.argsort(order)].tolist()))
    before = evaluate(y, p, s, BIG, n_bootstrap=0)
    after = evaluate(y, p, np.array(order)[s], renamed, n_bootstrap=0)
    assert plain(after) == pytest.approx(plain(before), abs=1e-7, nan_ok=True)
    assert after.by_source == before.by_source
    assert after.by_subgroup == before.by_subgroup


@quick
@given(big_rows, st.integers(0, 100))
def test_the_order_of_rows_does_not_matter_even_to_the_intervals(rows: Rows, seed: int) -> None:
    y, p, s = rows
    order = np.random.default_rng(seed).permutation(len(y))
    before = evaluate(y, p, s, BIG, n_bootstrap=10)
    after = evaluate(y[order], p[order], s[order], BIG, n_bootstrap=10)
    assert after.to_json() == before.to_json()


@quick
@given(big_rows)
def test_each_headline_ratio_is_the_lowest_and_difference_the_largest_of_the_pairs(rows: Rows) -> None:
    result = evaluate(*rows, BIG, n_bootstrap=0)
    for rate in RATES:
        ratios = [v[f"{rate}_ratio"] for v in result.by_pair.values() if not isnan(v[f"{rate}_ratio"])]
        gaps = [v[f"{rate}_difference"] for v in result.by_pair.values() if not isnan(v[f"{rate}_difference"])]
        assert getattr(result, f"{rate}_ratio") == pytest.approx(min(ratios, default=nan), nan_ok=True)
        assert getattr(result, f"{rate}_difference") == pytest.approx(max(gaps, default=nan), nan_ok=True)


def test_an_empty_source_is_nan_with_a_reason() -> None:
    result = evaluate(np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([0, 1, 1]), GRID)
    assert isnan(result.by_source["yes/a"].value)
    assert isnan(result.by_source["yes/a"].interval[0])
    assert result.undefined["by_source[yes/a].accuracy"] == "no rows of class yes in subgroup a"
    assert result.undefined["by_subgroup[a].tpr"] == "no rows of class yes in subgroup a"
    assert isnan(result.tpr_ratio)
    assert isnan(result.tpr_difference)
    assert "tpr_ratio" in result.undefined
    assert not isnan(result.tnr_ratio)


def test_a_subgroup_without_rows_is_listed_and_the_others_still_count() -> None:
    y, p, s = small_example()
    grid = SourceGrid(GRID.classes, ("a", "b", "c"))
    result = evaluate(y, p, s, grid)
    assert plain(result) == pytest.approx(plain(evaluate(y, p, s, GRID)))
    assert result.undefined["by_subgroup[c].accuracy"] == "no rows of subgroup c"
    assert result.undefined["by_pair[a vs c].tnr_ratio"] == "the rate is undefined in at least one subgroup"


def test_a_ratio_of_two_zero_rates_is_undefined_but_their_difference_is_zero() -> None:
    y, s = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    result = evaluate(y, np.zeros(4, dtype=np.int64), s, GRID)
    assert isnan(result.positive_rate_ratio)
    assert result.positive_rate_difference == 0
    assert result.undefined["by_pair[a vs b].positive_rate_ratio"] == "the rate is 0 in both subgroups"


def test_with_more_classes_the_rates_are_one_vs_rest_for_the_positive_class() -> None:
    y, p, s = random_rows(0, 200, 3, 3)
    for positive in range(3):
        several = evaluate(y, p, s, BIG, positive=positive, n_bootstrap=0)
        binary = evaluate(
            (y == positive).astype(np.int64),
            (p == positive).astype(np.int64),
            s,
            SourceGrid(("rest", "it"), BIG.subgroups),
            n_bootstrap=0,
        )
        for rate in RATES:
            assert {k: v[rate] for k, v in several.by_subgroup.items()} == {
                k: v[rate] for k, v in binary.by_subgroup.items()
            }


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_subgroups", [2, 4])
def test_metrics_agree_with_fairlearn_where_both_are_defined(seed: int, n_subgroups: int) -> None:
    y, p, s = random_rows(seed, 300, 2, n_subgroups)
    result = evaluate(y, p, s, SourceGrid((0, 1), tuple(range(n_subgroups))), n_bootstrap=0)
    metrics = {
        "accuracy": accuracy_score,
        "positive_rate": selection_rate,
        "tpr": true_positive_rate,
        "tnr": true_negative_rate,
    }
    frame = MetricFrame(metrics=metrics, y_true=y, y_pred=p, sensitive_features=s)
    assert result.accuracy == pytest.approx(frame.overall["accuracy"])
    assert result.robust_accuracy == pytest.approx(frame.group_min()["accuracy"])
    for i in range(n_subgroups):
        ours = {rate: share.value for rate, share in result.by_subgroup[str(i)].items()}
        assert ours == pytest.approx(frame.by_group.loc[i].to_dict())
    for rate in RATES:
        assert getattr(result, f"{rate}_ratio") == pytest.approx(frame.ratio()[rate])
        assert getattr(result, f"{rate}_difference") == pytest.approx(frame.difference()[rate])
    assert result.positive_rate_ratio == pytest.approx(demographic_parity_ratio(y, p, sensitive_features=s))
    assert result.positive_rate_difference == pytest.approx(demographic_parity_difference(y, p, sensitive_features=s))


@quick
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 3)), min_size=1, max_size=60))
def test_hgr_lies_between_zero_and_one_and_is_symmetric(pairs: list[tuple[int, int]]) -> None:
    a, b = np.array(pairs).T
    assert 0 <= hgr_correlation(a, b) <= 1
    assert hgr_correlation(a, b) == pytest.approx(hgr_correlation(b, a), abs=1e-7)


@quick
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
)
def test_hgr_is_zero_when_the_table_is_a_product_of_its_margins(rows: list[int], columns: list[int]) -> None:
    table = np.outer(rows, columns)
    a, b = np.divmod(np.repeat(np.arange(table.size), table.ravel()), len(columns))
    assert hgr_correlation(a, b) == pytest.approx(0, abs=1e-7)


@quick
@given(st.lists(st.integers(0, 4), min_size=2, max_size=40).filter(lambda ids: len(set(ids)) > 1))
def test_hgr_is_one_for_a_bijection(ids: list[int]) -> None:
    a = np.array(ids)
    assert hgr_correlation(a, 10 - 2 * a) == pytest.approx(1)


def test_hgr_equals_cramers_v_when_one_variable_has_two_values() -> None:
    a, _, b = random_rows(1, 50, 2, 4)
    table = np.histogram2d(a, b, bins=(2, 4))[0].astype(np.int64)
    assert hgr_correlation(a, b) == pytest.approx(association(table, method="cramer"))


def test_hgr_of_a_constant_is_zero_also_inside_an_evaluation() -> None:
    y, s = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    constant = np.ones(4, dtype=np.int64)
    assert hgr_correlation(constant, s) == hgr_correlation(s, constant) == 0
    assert evaluate(y, constant, s, GRID).hgr == pytest.approx(0, abs=1e-7)
    assert evaluate(y, y, constant, GRID).hgr == pytest.approx(0, abs=1e-7)


@quick
@given(big_rows)
def test_hgr_in_an_evaluation_is_that_of_predictions_and_subgroups(rows: Rows) -> None:
    assert evaluate(*rows, BIG, n_bootstrap=0).hgr == pytest.approx(hgr_correlation(rows[1], rows[2]), abs=1e-7)


@quick
@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_of_a_proportion_is_wilsons(counts: tuple[int, int]) -> None:
    share = Proportion(*counts)
    theirs = binomtest(*counts).proportion_ci(method="wilson")
    assert share.interval == pytest.approx((theirs.low, theirs.high), abs=1e-9)
    assert share.interval[0] <= share.value <= share.interval[1]


def test_the_bootstrap_interval_of_accuracy_is_close_to_the_normal_one() -> None:
    y, _, s = random_rows(2, 2000, 2, 2)
    p = np.where(np.arange(2000) < 1600, y, 1 - y)
    low, high = evaluate(y, p, s, GRID, n_bootstrap=4000).intervals["accuracy"]
    half = 1.96 * sqrt(0.8 * 0.2 / 2000)
    assert (low, high) == pytest.approx((0.8 - half, 0.8 + half), abs=0.002)


def test_the_bootstrap_is_the_same_as_resampling_rows() -> None:
    y, p, s = random_rows(3, 120, 2, 2)
    rng = np.random.default_rng(0)
    draws = [robust_accuracy(y[i], p[i], s[i]) for i in rng.integers(120, size=(2000, 120))]
    ours = evaluate(y, p, s, GRID, n_bootstrap=2000).intervals["robust_accuracy"]
    assert ours == pytest.approx(np.quantile(draws, [0.025, 0.975]).tolist(), abs=0.02)


def test_intervals_hold_their_estimates_and_a_perfect_result_keeps_its_doubt() -> None:
    y, s = np.repeat([0, 1], 45), np.tile([0, 1], 45)
    found = evaluate(y, y, s, GRID)
    for name, (low, high) in found.intervals.items():
        assert low <= getattr(found, name) <= high, name
    assert found.intervals["robust_accuracy"] == Proportion(45, 45).interval
    assert found.intervals["accuracy"] == Proportion(90, 90).interval
    assert evaluate(y, 1 - y, s, GRID).intervals["robust_accuracy"] == Proportion(0, 45).interval


@quick
@given(big_rows)
def test_no_interval_is_a_point_or_leaves_out_its_estimate(rows: Rows) -> None:
    found = evaluate(*rows, BIG, n_bootstrap=200)
    shares = [share for rates in found.by_subgroup.values() for share in rates.values() if share.n]
    values = [(getattr(found, name), *found.intervals[name]) for name in OVERALL]
    for value, low, high in [*values, *((share.value, *share.interval) for share in shares)]:
        assert (isnan(low) and isnan(high)) or (0 <= low <= value <= high <= 1 and low < high)
    for name, (low, _) in found.intervals.items():
        assert isnan(low) == (isnan(getattr(found, name)) or f"{name}_interval" in found.undefined)


def test_a_ratio_of_rates_without_an_error_keeps_the_doubt_of_its_rows() -> None:
    widths = []
    for n in (20, 200, 2000):
        y, s = np.repeat([0, 1], 2 * n), np.tile([0, 1], 2 * n)
        found = evaluate(y, y, s, GRID, n_bootstrap=4000)
        low, high = found.intervals["tpr_ratio"]
        assert high == found.tpr_ratio == 1
        assert found.intervals["tpr_difference"] == pytest.approx((0, 1 - low), abs=0.02)
        widths.append(high - low)
    assert 0.05 < widths[0] < 0.2
    assert widths == pytest.approx([widths[0], widths[0] / 10, widths[0] / 100], rel=0.3)


def test_draws_from_the_posterior_are_like_resamples_where_both_know_doubt() -> None:
    y, p, s = random_rows(3, 400, 2, 2)
    rng = np.random.default_rng(0)
    draws = [evaluate(y[i], p[i], s[i], GRID, n_bootstrap=0).tpr_difference for i in rng.integers(400, size=(500, 400))]
    ours = evaluate(y, p, s, GRID, n_bootstrap=4000).intervals["tpr_difference"]
    assert ours == pytest.approx(np.quantile(draws, [0.025, 0.975]).tolist(), abs=0.03)


def test_the_dependence_on_a_single_subgroup_has_no_interval_but_a_reason() -> None:
    found = evaluate(np.array([0, 1, 1]), np.array([0, 1, 0]), np.zeros(3, np.int64), GRID)
    assert found.hgr == 0
    assert isnan(found.intervals["hgr"][0])
    assert found.undefined["hgr_interval"] == "all rows are of one subgroup"


def test_the_seed_decides_the_intervals_and_nothing_else() -> None:
    rows = random_rows(4, 80, 2, 2)
    first, again, other = (evaluate(*rows, GRID, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert first.intervals != other.intervals
    assert plain(first) == plain(other)


def test_without_bootstrap_the_intervals_are_undefined_with_a_reason() -> None:
    result = evaluate(*small_example(), GRID, n_bootstrap=0)
    assert all(isnan(low) and isnan(high) for low, high in result.intervals.values())
    assert result.undefined["robust_accuracy_interval"] == "no bootstrap was asked for"


def test_json_has_the_agreed_keys_and_none_for_whatever_is_undefined() -> None:
    result = evaluate(np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([0, 1, 1]), GRID)
    record = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert record["accuracy"] == pytest.approx(2 / 3)
    assert len(record["robust_accuracy_interval"]) == len(record["accuracy_interval"]) == 2
    assert record["by_source"]["no/b"] == {
        "n": 1,
        "correct": 0,
        "accuracy": 0.0,
        "interval": pytest.approx([0, 0.793], abs=1e-3),
    }
    assert record["by_source"]["yes/a"] == {"n": 0, "correct": 0, "accuracy": None, "interval": None}
    assert {"n", "accuracy", "positive_rate", "tpr", "tnr"} <= set(record["by_subgroup"]["a"])
    assert record["by_subgroup"]["a"]["tpr"] is None
    assert record["tpr_ratio"] is record["tpr_ratio_interval"] is None
    assert set(OVERALL) <= set(record)
    assert record["undefined"] == result.undefined


def test_text_puts_n_and_an_interval_beside_every_number() -> None:
    result = evaluate(np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([0, 1, 1]), GRID)
    text = result.to_text()
    rows = [line for line in text.splitlines() if line.startswith("accuracy")]
    assert len(rows) == 1 + 4 + 2
    for row in rows:
        assert row.split()[-1].isdigit()
        assert "[" in row or "undefined" in row
    assert "no rows of class yes in subgroup a" in text


@pytest.mark.parametrize(
    ("y", "p", "s"),
    [
        ([0, 1], [0], [0, 1]),
        ([], [], []),
        ([0, 1], [0, 2], [0, 1]),
        ([0, 1], [0, 1], [0, -1]),
        ([0, 1], [0.2, 0.9], [0, 1]),
        ([[0, 1]], [[0, 1]], [[0, 1]]),
    ],
)
def test_ids_that_do_not_fit_are_refused(y: list[int], p: list[int], s: list[int]) -> None:
    with pytest.raises(ShapeError):
        evaluate(np.array(y), np.array(p), np.array(s), GRID)


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match="positive"):
        evaluate(*small_example(), GRID, positive=2)
    with pytest.raises(ConfigError, match="n_bootstrap"):
        evaluate(*small_example(), GRID, n_bootstrap=-1)
    with pytest.raises(ShapeError):
        hgr_correlation(np.array([0, 1]), np.array([0]))


def test_neither_metrics_nor_audit_imports_torch_or_sklearn() -> None:
    code = "import sys, supportmatch.metrics, supportmatch.audit; print({'torch', 'sklearn'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_perfect_trust_that_is_always_right_is_calibrated_and_always_wrong_is_not() -> None:
    y, s = np.array([0, 1, 1, 0]), np.array([0, 0, 1, 1])
    sure = np.eye(2)[y]
    assert calibration_of(y, sure, s, ["a", "b"])["ece"] == 0.0
    assert calibration_of(1 - y, sure, s, ["a", "b"])["ece"] == 1.0


def test_calibration_of_a_subgroup_is_that_of_its_rows_alone_and_none_without_rows() -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(0.5, 1, 4000)
    probabilities = np.stack([p, 1 - p], axis=1)
    y = (rng.random(4000) > p).astype(np.int64)  # right in a share p of cases
    s = np.repeat([0, 1], 2000)
    y[s == 1] = 1  # always wrong
    found = calibration_of(y, probabilities, s, ["a", "b", "c"])
    assert found["by_subgroup"]["a"] < 0.04
    assert found["by_subgroup"]["b"] == pytest.approx(p[s == 1].mean(), abs=1e-5)
    assert found["by_subgroup"]["c"] is None
    assert sum(part["n"] for part in found["bins"]) == 4000
