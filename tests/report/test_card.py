"""The card says in Markdown what the page says, and strings from data stay text."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from supportmatch.audit import audit_counts
from supportmatch.metrics import evaluate
from supportmatch.report.card import config_text, limits, render_card, verdict
from supportmatch.sources import SourceGrid

make_content = runpy.run_path(str(Path(__file__).with_name("test_content.py")))["make_content"]


def section(card: str, heading: str) -> str:
    """Return what stands below a heading."""
    return card.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_a_card_has_every_section_in_order() -> None:
    headings = re.findall(r"^## (.+)$", render_card(make_content()), re.MULTILINE)
    assert headings == [
        "Warnings",
        "Intended use",
        "Data",
        "Method",
        "Results",
        "Limits and harms",
        "How to repeat it",
    ]


def test_the_sources_table_marks_what_is_missing() -> None:
    content = make_content()
    table = section(render_card(content), "Data")
    two, four = content.audit["counts"]
    assert "| class | purple | green |" in table
    assert f"| two | {two[0]} | {two[1]} |" in table
    assert f"| four | 0 (missing) | {four[1]} |" in table


def test_results_come_with_n_and_intervals() -> None:
    content = make_content()
    results = section(render_card(content), "Results")
    for name, cell in content.evaluation["by_source"].items():
        mark = r" \(missing in training\)" if name == "four/purple" else ""
        low, high = cell["interval"]
        line = rf"\| {name}{mark} \| {cell['accuracy']:.3f} \| {low:.3f} to {high:.3f} \| {cell['n']} \|"
        assert re.search(line, results)
    assert re.search(r"\| Robust accuracy \((purple|green)\) \| 0\.\d+ \| 0\.\d+ to \d\.\d+ \| \d+ \|", results)
    assert "Expected calibration error 0.050" in results
    assert "matching (chosen)" in results


def test_undefined_numbers_come_with_reasons() -> None:
    grid = SourceGrid(("two", "four"), ("purple", "green"))
    y, s = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])
    results = section(render_card(make_content(evaluation=evaluate(y, y, s, grid).to_json())), "Results")
    assert "no rows of class four in subgroup purple" in results
    assert "| undefined | undefined | 0 |" in results


def test_sources_below_chance_and_subgroups_without_rows_are_warned_of() -> None:
    grid = SourceGrid(("two", "four"), ("purple", "green"))
    y, s = np.repeat([0, 1], 40), np.tile([0, 1], 40)
    swapped = np.where(s == 0, 1 - y, y)
    warned = section(render_card(make_content(evaluation=evaluate(y, swapped, s, grid).to_json())), "Warnings")
    assert "In two/purple, four/purple the model is right less often than by guessing (50%)" in warned
    green = s == 1
    only_green = evaluate(y[green], y[green], s[green], grid)
    warned = section(render_card(make_content(evaluation=only_green.to_json())), "Warnings")
    assert "none of subgroup purple, so nothing is known of it" in warned
    assert "robust accuracy (green), of 1 of 2 subgroups" in only_green.to_text()


def test_without_an_evaluation_it_says_that_nothing_was_measured() -> None:
    card = render_card(make_content(evaluation=None))
    assert "has not been measured" in section(card, "Results")
    assert "run `supportmatch evaluate`" in section(card, "Results")


def test_a_card_without_most_parts_still_says_what_can_be_said() -> None:
    lacking = dict.fromkeys(("clusters", "codes", "reconstructions", "attention", "evaluation"))
    empty = {"findings": (), "warnings": (), "history": (), "stages": (), "alternatives": ()}
    card = render_card(make_content(**lacking, **empty, config={}, provenance={}))
    assert "## Warnings" not in card
    assert "It was not kept with this report" in section(card, "Method")
    assert "\n\n\n" not in card


def test_names_from_data_cannot_become_markup() -> None:
    attack = "a|b <script>alert(1)</script> [x](http://evil) *b* `c\n# d"
    grid = SourceGrid((attack, "four"), ("purple", "green"))
    card = render_card(make_content("table", grid=grid, title=attack, findings=(attack,), config={}))
    assert not re.search(r"(?<!\\)<", card)
    assert not re.search(r"(?<!\\)\]\(", card)
    assert "\n# d" not in card
    rows = [line for line in section(card, "Data").splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {4}


def test_a_fence_in_a_command_cannot_end_its_block() -> None:
    provenance = {**make_content().provenance, "command": "supportmatch fit '```\n# not a heading'"}
    card = render_card(make_content(provenance=provenance))
    assert "````sh\nsupportmatch fit '```\n# not a heading'\n````" in card


def test_settings_can_be_read_back_as_toml() -> None:
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has none")
    config = make_content().config
    read = tomllib.loads(config_text(config))

    def without_nothing(values: dict[str, object]) -> dict[str, object]:
        kept = {name: value for name, value in values.items() if value is not None}
        return {name: without_nothing(value) if isinstance(value, dict) else value for name, value in kept.items()}

    assert read == without_nothing(config)


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ([[9, 9], [9, 9]], "no source is missing"),
        ([[9, 9], [0, 9]], "provided that the missing sources occur"),
        ([[9, 0], [0, 9]], "Nothing in the data determines the classes in there"),
        ([[9, 0], [9, 0]], "Nothing in the data determines the classes in there"),
    ],
)
def test_the_verdict_is_as_sure_as_the_audit(counts: list[list[int]], words: str) -> None:
    grid = SourceGrid(("two", "four"), ("purple", "green"))
    content = make_content(audit=audit_counts(np.array(counts), grid, 900).to_json())
    assert words in verdict(content)[0]


def test_the_verdict_names_the_missing_source_where_accuracy_is_lowest() -> None:
    grid = SourceGrid(("a", "b", "c"), ("x", "y"))
    audit = audit_counts(np.array([[9, 9], [0, 9], [0, 9]]), grid, 900).to_json()
    y, s = np.repeat([0, 1, 2], 20), np.tile([0, 1], 30)
    wrong = np.where((y == 2) & (s == 0), 0, y)
    content = make_content(audit=audit, evaluation=evaluate(y, wrong, s, grid).to_json())
    assert "Of the sources that training never showed, c/x has the lowest: 0.000" in verdict(content)[1]


def test_limits_apply_where_the_data_are_an_instance_of_them() -> None:
    applying = {passage.heading for passage in limits(make_content()) if passage.applies}
    assert applying == {"The deployment set must contain the missing sources"}
    applying = {passage.heading for passage in limits(make_content(evaluation=None)) if passage.applies}
    assert "It measures and mitigates; it does not certify" in applying


def test_words_about_people_are_careful() -> None:
    card = render_card(make_content()).lower()
    assert not re.search(r"\b(unbiased|debias\w*|solved|fair|guarantee\w*)\b", card)
