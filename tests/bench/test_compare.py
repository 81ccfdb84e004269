"""Medians, verdicts and the generated page, on made-up rows; the authors' figures are the real ones."""

from __future__ import annotations

import importlib.util
import json
from math import isnan
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from toy_methods import made_up
from typer.testing import CliRunner

from supportmatch.bench.cli import app
from supportmatch.bench.compare import (
    Spread,
    clusters_markdown,
    compare_with_authors,
    leave_out_other_configurations,
    medians_markdown,
    read_authors,
    shown_metrics,
    summarise,
)
from supportmatch.bench.methods import METHODS
from supportmatch.bench.remarks import REMARKS
from supportmatch.bench.store import Store
from supportmatch.data.problems import SETTINGS
from supportmatch.errors import ConfigError, UnknownNameError

ROOT = Path(__file__).parents[2]


def broken(method: str, seed: int, error: str = "DivergedError: made up", **fields: Any) -> dict[str, Any]:
    return made_up(method, seed, None, error=error, seconds=None, **fields)


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("experiments", ROOT / "benchmarks" / "experiments.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_a_cell_is_summarised_over_the_seeds_that_have_a_value() -> None:
    rows = [made_up("erm", seed, score) for seed, score in enumerate([0.5, 0.1, 0.9, 0.3, 0.7])]
    undefined = made_up("erm", 6, 0.5) | {"robust_accuracy": None}
    (found,) = summarise([*rows, broken("erm", 5), undefined], "robust_accuracy")
    assert found.spread == Spread(n=5, median=0.5, q1=pytest.approx(0.3), q3=pytest.approx(0.7), mean=0.5, min=0.1)
    assert (found.failed, found.undefined, found.runs) == (1, 1, "5 (1 failed, 1 undefined)")
    assert found.cpu_seconds == 9.0
    imported = made_up("erm", 7, 0.5, cpu_seconds=None, seconds=30.0)
    assert summarise([imported, broken("erm", 8)], "hgr")[0].cpu_seconds == 30.0  # the failed run does not count


def test_one_seed_is_its_own_median_and_none_at_all_is_a_dash() -> None:
    (single,) = summarise([made_up("erm", 0, 0.625)], "hgr")
    assert single.spread.to_text(with_min=True) == "0.625 [0.625, 0.625] (0.625)"
    (nothing,) = summarise([broken("erm", 0)], "hgr")
    assert (nothing.spread.n, nothing.spread.to_text(with_min=True)) == (0, "-")
    assert isnan(nothing.cpu_seconds)


def test_a_refusal_is_neither_a_result_nor_a_failure() -> None:
    assert summarise([broken("gdro", 0, "refused: one subgroup only")], "accuracy") == []


def test_settings_methods_and_budgets_have_a_fixed_order() -> None:
    names = [("adult-sb", "erm"), ("cmnist-sb", "my-own"), ("cmnist-sb", "erm"), ("cmnist-sb", "ours-clustering")]
    rows = [made_up(method, 0, 0.5, setting) for setting, method in names]
    rows.append(made_up("erm", 0, 0.5, budget="paper"))
    assert [(found.setting, found.label) for found in summarise(rows, "accuracy")] == [
        ("cmnist-sb", "ours-clustering"),
        ("cmnist-sb", "erm"),
        ("cmnist-sb", "erm [paper]"),
        ("cmnist-sb", "my-own"),
        ("adult-sb", "erm"),
    ]


@pytest.mark.parametrize(
    "second",
    [made_up("erm", 0, 0.6), made_up("erm", 1, 0.6, config={"steps": 2}), made_up("erm", 1, 0.6, data_hash="")],
)
def test_rows_that_must_not_be_mixed_are_refused_and_named(second: dict[str, Any]) -> None:
    first = made_up("erm", 0, 0.5)
    with pytest.raises(ConfigError, match=r"cmnist-sb, erm, fast has rows of .* configurations") as caught:
        summarise([first, second], "accuracy")
    assert all(row["config_hash"] in str(caught.value) for row in (first, second))
    kept, note = leave_out_other_configurations([first, second])  # none is the present one
    assert kept == [first, second]
    assert note == "Only rows of other configurations than the present one: cmnist-sb erm fast."


def test_rows_of_the_present_configuration_are_kept_and_others_left_out_where_both_are_there() -> None:
    present = METHODS["erm"].configuration(SETTINGS["cmnist-sb"], "fast")
    new = [made_up("erm", seed, 0.5, config=present) for seed in range(2)]
    old = [made_up("erm", seed, 0.1) for seed in range(3)]
    alone = [made_up("dro", 0, 0.1), made_up("erm", 0, 0.1, budget="paper")]  # old, but there is nothing newer
    refused = broken("gdro", 0, "refused: made up")
    kept, note = leave_out_other_configurations([*old, *new, *alone, refused])
    assert kept == [*new, *alone]
    assert note == (
        "3 rows of other configurations than the present one are left out: cmnist-sb erm fast. "
        "Only rows of other configurations than the present one: cmnist-sb dro fast, cmnist-sb erm paper."
    )
    assert summarise(kept, "accuracy")[0].spread.n == 2


def test_an_unknown_metric_is_named_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"'f1'.*robust_accuracy"):
        summarise([], "f1")
    with pytest.raises(UnknownNameError, match=r"'hgr'.*quartiles"):
        compare_with_authors([], "hgr")


def test_the_authors_figures_are_the_same_in_the_package_and_in_the_benchmarks() -> None:
    copies = [ROOT / "benchmarks" / "authors.csv", ROOT / "supportmatch" / "bench" / "authors.csv"]
    assert copies[0].read_bytes() == copies[1].read_bytes()


def test_the_authors_figures_are_read_with_gaps() -> None:
    authors = read_authors()
    assert authors["cmnist-sb", "ours-clustering", "robust_accuracy"] == Spread(
        30, 0.992, 0.9878, 0.9941, 0.9855, 0.9292
    )
    assert ("cmnist-3digit", "erm", "tpr_ratio") not in authors
    assert authors["adult-ms", "erm", "tnr_ratio"].to_text() == "0.925"  # a median without quartiles
    for (setting, method, metric), theirs in authors.items():
        assert setting in SETTINGS
        assert method in METHODS
        assert theirs.n >= 5
        if "accuracy" in metric:
            assert theirs.min <= theirs.q1 <= theirs.median <= theirs.q3


@pytest.mark.parametrize(
    ("method", "score", "verdict"),
    [
        ("ours-clustering", 0.99, "in or above"),
        ("ours-clustering", 0.8, "in or above"),
        ("ours-clustering", 0.79995, "in or above"),  # equal at the authors' four digits
        ("ours-clustering", 0.7998, "below"),
        ("erm", 0.93, "agrees"),
        ("erm", 0.87, "agrees"),
        ("erm", 0.9302, "above"),
        ("erm", 0.8698, "below"),
    ],
)
def test_a_matching_method_must_reach_the_lower_quartile_and_a_baseline_the_median(
    method: str, score: float, verdict: str
) -> None:
    theirs = Spread(30, median=0.9, q1=0.8, q3=0.95)
    rows = [made_up(method, seed, score) for seed in range(3)]
    (line,) = compare_with_authors(rows, authors={("cmnist-sb", method, "robust_accuracy"): theirs}).lines
    assert line.verdict == verdict


def test_what_cannot_be_judged_is_not() -> None:
    smoke, failed = made_up("erm", 0, 0.1, budget="smoke"), broken("erm", 0)
    assert [line.verdict for line in compare_with_authors([failed, smoke]).lines] == ["no result", "not judged"]


def test_the_authors_clustering_stands_beside_our_default_and_our_rank_statistics() -> None:
    lines = compare_with_authors([made_up("ours-clustering", 0, 0.99), made_up("ours-rank", 0, 0.5)]).lines
    assert [(line.ours.method, line.theirs and line.theirs.median, line.verdict) for line in lines] == [
        ("ours-clustering", 0.992, "in or above"),
        ("ours-rank", 0.992, "below"),
    ]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("erm-plain", "erm"), ("dro-plain", "dro"), ("gdro-small-step", "gdro"), ("lff-published", "lff")],
)
def test_a_version_of_a_baseline_stands_beside_the_same_figure_of_the_authors(ours: str, theirs: str) -> None:
    assert ours in METHODS
    version, plain = (compare_with_authors([made_up(name, 0, 0.5)]).lines[0] for name in (ours, theirs))
    assert version.theirs == plain.theirs is not None


def test_what_the_authors_did_not_run_is_listed_only_on_request() -> None:
    rows = [made_up("pseudo-label", 0, 0.7, "adult-sb"), made_up("erm", 0, 0.76, "celeba-no-smiling-female")]
    assert [line.ours.setting for line in compare_with_authors(rows).lines] == ["celeba-no-smiling-female"]
    listed = compare_with_authors(rows, every=True)
    assert [line.ours.method for line in listed.lines] == ["pseudo-label", "erm"]
    assert (listed.lines[0].theirs, listed.lines[0].verdict) == (None, "")
    assert "nothing to compare" in compare_with_authors(rows[:1]).to_text()


def test_a_difference_is_explained_or_said_to_be_unexplained_and_agreement_needs_no_remark() -> None:
    known = made_up("ours-oracle", 0, 0.3, "cmnist-3digit")
    rows = [known, made_up("ours-oracle", 0, 0.3), made_up("ours-oracle", 0, 0.999, "cmnist-ms")]
    remarks = {line.ours.setting: line.remark for line in compare_with_authors(rows).lines}
    assert remarks == {
        "cmnist-3digit": REMARKS["cmnist-3digit", "ours-oracle", "fast"],
        "cmnist-sb": "unexplained",
        "cmnist-ms": "",
    }


@pytest.mark.parametrize("metric", ["robust_accuracy", "accuracy"])
def test_a_remark_is_about_one_budget_and_both_accuracies(metric: str) -> None:
    rows = [made_up("ours-oracle", 0, 0.3, "cmnist-3digit", budget=budget) for budget in ("fast", "paper")]
    fast, paper = compare_with_authors(rows, metric).lines
    assert (fast.remark, paper.remark) == (REMARKS["cmnist-3digit", "ours-oracle", "fast"], "unexplained")


def test_a_remark_that_several_lines_share_stands_once_below_the_table() -> None:
    rows = [made_up(method, 0, 0.3, "cmnist-3digit") for method in ("ours-oracle", "ours-unbalanced", "ours-kmeans")]
    table = compare_with_authors(rows, every=True).to_markdown()
    remark = REMARKS["cmnist-3digit", "ours-oracle", "fast"]
    assert table.count(remark) == 1
    assert f"\n1. {remark}\n" in table
    assert table.count("| (1) |") == 2


def test_runs_that_mostly_failed_are_not_judged_by_the_rest() -> None:
    good, failed = made_up("ours-clustering", 0, 0.999), {"robust_accuracy": None, "error": "DivergedError: made up"}
    rows = [good, *(made_up("ours-clustering", seed, 0.999) | failed for seed in (1, 2))]
    assert [line.verdict for line in compare_with_authors(rows).lines] == ["not judged"]
    assert [line.verdict for line in compare_with_authors(rows[:2]).lines] == ["in or above"]


def test_every_committed_row_was_made_with_the_present_configuration() -> None:
    assert leave_out_other_configurations(Store(load_script().ROWS).rows())[1] == ""


def test_every_committed_difference_has_a_remark_and_every_remark_a_difference() -> None:
    rows = Store(load_script().ROWS).rows()
    differing = {
        (line.ours.setting, line.ours.method, line.ours.budget): line.remark
        for metric in ("robust_accuracy", "accuracy")
        for line in compare_with_authors(rows, metric).lines
        if line.remark
    }
    assert differing == REMARKS


@pytest.mark.parametrize("form", ["to_text", "to_markdown"])
def test_oracles_are_marked_in_every_table(form: str) -> None:
    ours, oracle = made_up("ours-clustering", 0, 0.99), made_up("ours-oracle", 0, 0.99)
    text = getattr(compare_with_authors([ours, oracle]), form)()
    assert "ours-oracle †" in text
    assert "ours-clustering †" not in text
    assert text.endswith("† sees deployment labels: an upper bound, never a result.")
    assert "†" not in getattr(compare_with_authors([ours]), form)()
    assert "| ours-oracle † |" in medians_markdown([oracle], ["accuracy"])


def test_a_table_names_settings_only_when_there_are_several() -> None:
    rows = [made_up("erm", 0, 0.5), made_up("erm", 0, 0.6, "adult-sb")]
    both = compare_with_authors(rows)
    assert both.to_markdown().splitlines()[2].startswith("| cmnist-sb | erm | 1 | 0.500 [0.500, 0.500] (0.500) | 30 |")
    single = compare_with_authors(rows[1:])
    assert single.to_markdown().splitlines()[2].startswith("| erm | 1 | 0.600")


def test_the_json_is_strict_even_without_a_single_value() -> None:
    found = compare_with_authors([broken("erm", 0), made_up("pseudo-label", 0, 0.5)], every=True)
    failed, unknown = json.loads(json.dumps(found.to_json(), allow_nan=False))["lines"]
    assert (failed["ours"]["median"], failed["failed"], failed["authors"]["median"]) == (None, 1, 0.5121)
    assert unknown["authors"] is None


def test_medians_show_the_authors_in_brackets_and_differences_for_three_subgroups_only() -> None:
    assert "tpr_difference" in shown_metrics("cmnist-3digit")
    assert "tpr_difference" not in shown_metrics("cmnist-sb")
    table = medians_markdown([made_up("erm", 0, 0.5, "cmnist-3digit")], ["accuracy", "tpr_ratio"])
    assert table.splitlines() == [
        "| method | accuracy | TPR ratio |",
        "|---|---|---|",
        "| erm | 0.500 (0.559) | 0.500 |",
    ]


def test_clusters_are_tabled_for_methods_that_have_them() -> None:
    part = {"accuracy": 0.75, "missing_recall": None, "sizes": {"0": 3, "1": 1}, "recall": {}, "missing": []}
    rows = [made_up("ours-rank", 0, 0.5, details={"clustering": part}), made_up("erm", 0, 0.5), broken("ours-rank", 1)]
    (line,) = clusters_markdown(rows).splitlines()[2:]
    assert line == "| ours-rank | 1 | 0.750 [0.750, 0.750] (0.750) | - | 2 | 0.964 ± 0.064 |"
    assert clusters_markdown([made_up("erm", 0, 0.5)]) == ""


def test_the_commands_read_a_folder_of_results(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for row in (made_up("ours-oracle", 0, 0.999), made_up("pseudo-label", 0, 0.5)):
        store.write(row, {}, {})
    runner = CliRunner()
    shown = runner.invoke(app, ["compare", "--out", str(tmp_path)], catch_exceptions=False)
    assert "ours-oracle †" in shown.stdout
    assert "pseudo-label" not in shown.stdout
    assert "Only rows of other configurations" in shown.stderr
    everything = ["compare", "--out", str(tmp_path), "--all", "--json", "--metric", "accuracy"]
    result = json.loads(runner.invoke(app, everything, catch_exceptions=False).stdout)
    assert [line["method"] for line in result["lines"]] == ["ours-oracle", "pseudo-label"]
    drawing = ["plot", "--out", str(tmp_path), "--figures", str(tmp_path / "figures"), "--setting", "cmnist-sb"]
    assert "Box plots for cmnist-sb" in runner.invoke(app, drawing, catch_exceptions=False).output
    assert (tmp_path / "figures" / "boxes-cmnist-sb.png").exists()
    unknown = runner.invoke(app, [*drawing, "--kind", "pie"])
    assert isinstance(unknown.exception, UnknownNameError)


def test_the_page_has_a_place_for_every_setting_and_is_filled_by_the_script() -> None:
    script = load_script()
    page = script.PAGE.read_text(encoding="utf-8")
    refused = broken("gdro", 0, "refused: made up")
    rows = [made_up("ours-oracle", 0, 0.999), broken("erm", 1), refused, made_up("erm", 0, 0.6, "adult-sb")]
    figures = {"boxes-cmnist-sb.png": "made-up words", "curves-cmnist-sb-erm.png": "more"}
    parts = script.generated_parts(rows, figures)
    places = {found["name"] for found in script._PART.finditer(page)}
    assert places == parts.keys() - {"results:synthetic", "figures:synthetic", "overview", "default", "scores"}
    (overview,) = script._PART.finditer(script.README.read_text(encoding="utf-8"))
    assert overview["name"] == "overview"
    assert "| 0.600 [0.600, 0.600], 1 | - | - | - | - |" in parts["overview"]
    filled = script.fill(page, parts)
    assert script.fill(filled, parts) == filled
    assert "| ours-oracle † | 1 | 0.999" in filled
    assert "![made-up words](figures/boxes-cmnist-sb.png)\n\n![more]" in filled
    assert "Not applicable: `gdro`: made up" in parts["results:cmnist-sb"]
    assert "earlier settings than the present defaults: `ours-oracle`, `erm`." in parts["results:cmnist-sb"]
    assert "Failed: cmnist-sb, erm, seed 1: DivergedError: made up" in parts["provenance"]
    assert parts["results:cmnist-ms"] == "No rows of this setting are committed."


def test_budgets_are_compared_on_the_seeds_that_both_have() -> None:
    fast = [made_up("erm", seed, score) for seed, score in enumerate([0.5, 0.6, 0.7])]
    paper = [made_up("erm", seed, score, budget="paper") for seed, score in ((1, 0.61), (2, 0.66), (3, 0.1))]
    alone = made_up("dro", 0, 0.5, budget="paper")
    lines = load_script().compare_budgets([*fast, *paper, alone]).splitlines()
    assert lines[0] == "| setting | method | n | fast | paper | largest difference on a seed |"
    assert lines[2:] == ["| cmnist-sb | erm | 2 | 0.650 | 0.635 | 0.040 |"]


def test_the_generated_parts_of_the_page_are_what_the_committed_rows_say() -> None:
    script = load_script()
    rows = Store(script.ROWS).rows()
    assert rows
    from supportmatch.bench.figures import figure_boxes, figure_clusters, read_index

    index = read_index(script.FIGURES)
    for setting in {row["setting"] for row in rows}:  # of stale figures the words are stale too
        assert index[f"boxes-{setting}.png"] == figure_boxes(rows, setting).alt
        assert index[f"clusters-{setting}.png"] == figure_clusters(rows, setting).alt
    parts = script.generated_parts(rows, index)
    for path in script.PAGES:
        page = path.read_text(encoding="utf-8")
        assert page == script.fill(page, parts)
