"""The page says everything the report knows, in one safe file that everyone can read."""

from __future__ import annotations

import base64
import io
import itertools
import re
import runpy
from dataclasses import asdict, dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from supportmatch.audit import audit_counts
from supportmatch.data.columns import Column
from supportmatch.metrics import evaluate
from supportmatch.report.charts import (
    N_SERIES,
    Look,
    draw_calibration,
    draw_curve,
    draw_points,
    picture_bag,
    picture_strip,
)
from supportmatch.report.page import TABS, render_page
from supportmatch.sources import SourceGrid

make_content = runpy.run_path(str(Path(__file__).with_name("test_content.py")))["make_content"]

VOID = {"meta", "link", "img", "br", "input", "hr", "wbr"}
ATTACK = "<script>alert('x')</script>\"&<img src=x onerror=alert(1)>"


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    def all(self, tag: str, **attributes: str) -> list[Element]:
        found = []
        for child in self.children:
            if isinstance(child, Element):
                if child.tag == tag and attributes.items() <= child.attributes.items():
                    found.append(child)
                found += child.all(tag, **attributes)
        return found

    def walk(self) -> list[Element]:
        below = [child for child in self.children if isinstance(child, Element)]
        return [self, *itertools.chain.from_iterable(child.walk() for child in below)]

    @property
    def text(self) -> str:
        parts = [child if isinstance(child, str) else child.text for child in self.children]
        return " ".join("".join(parts).split())


class Reader(HTMLParser):
    """Reads a page as a tree, and fails where elements do not close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"{tag} closes {self.open[-1].tag}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def read(page: str) -> Element:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == [reader.root], "something is not closed"
    return reader.root


def by_id(root: Element, name: str) -> Element:
    (found,) = [element for element in root.walk() if element.attributes.get("id") == name]
    return found


def sections_of(content: Any) -> dict[str, str]:
    root = read(render_page(content))
    return {name: by_id(root, name).text for name in TABS}


@pytest.fixture(scope="module", params=["images", "table"])
def page(request: pytest.FixtureRequest) -> str:
    return render_page(make_content(request.param))


# What is there.


@pytest.mark.parametrize("kind", ["images", "table"])
def test_every_tab_leads_to_a_section_with_a_heading(kind: str) -> None:
    root = read(render_page(make_content(kind)))
    links = by_id(root, "tabs").all("a")
    assert [link.attributes["href"] for link in links] == [f"#{name}" for name in TABS]
    for name in TABS:
        section = by_id(root, name)
        assert len(section.all("h2")) == 1
        assert "hidden" not in section.attributes, "without JavaScript everything is visible"


def test_an_image_report_has_every_figure_and_table() -> None:
    root = read(render_page(make_content("images")))
    ids = {element.attributes.get("id") for element in root.walk()}
    tables = ["sources", "stages", "clusters", "by-source", "by-subgroup", "overall", "alternatives", "files"]
    curves = [f"curve-{name}" for name in ("reconstruction", "class", "discriminator_accuracy")]
    codes = [f"codes-{when}-{what}" for when in ("before", "after") for what in ("set", "group")]
    pictures = ["reconstructions-train", "reconstructions-deploy", "attention-1", "attention-2"]
    assert {f"table-{name}" for name in (*tables, "calibration-by-subgroup")} <= ids
    assert {f"figure-{name}" for name in (*curves, *codes, *pictures, "calibration")} <= ids
    assert len(by_id(root, "representation").all("img")) == 2 * 4 + 2


def test_codes_of_an_early_step_are_not_called_before_matching() -> None:
    codes = make_content().codes
    assert "Before matching, by set" in sections_of(make_content())["representation"]
    text = sections_of(make_content(codes={**codes, "early_step": 75}))["representation"]
    assert "Early (after 75 steps), by set" in text
    assert "z early (after 75 steps) and after matching" in text
    assert "Before matching, by set" not in text


def scatter(grid: SourceGrid) -> tuple[list[str], str]:
    """Return the legend and the drawing of the scatter by source, of a fit with a cluster for each source and more."""
    sources = [grid.source_name(k) for k in range(grid.n_sources)]
    names = [*(f"training {s}" for s in sources), *(f"deployment {s}" for s in sources), "unseen 1", "unseen 2"]
    group = np.arange(len(names)).repeat(5)
    codes = {
        "before": np.random.default_rng(0).normal(size=(len(group), 2)),
        "after": np.random.default_rng(1).normal(size=(len(group), 2)),
        "set": (group >= grid.n_sources).astype(int),
        "group": group,
        "names": names,
        "sources": [*range(grid.n_sources), *range(grid.n_sources), -1, -1],
        "of_deployment": [i >= grid.n_sources for i in range(len(names))],
        "method": "PCA",
    }
    root = read(render_page(make_content(grid=grid, codes=codes)))
    (_, legend) = by_id(root, "representation").all("ul", **{"class": "legend"})
    entries = [f"{li.all('span')[0].attributes['class'].split()[1]} {li.text}" for li in legend.all("li")]
    return entries, by_id(root, "figure-codes-after-group").text


def test_a_source_has_one_colour_in_both_sets_filled_in_training_and_hollow_in_deployment() -> None:
    entries, said = scatter(SourceGrid(("two", "four"), ("purple", "green")))
    assert entries == [
        "series-1 ●training two/purple",
        "series-2 ■training two/green",
        "series-3 ▲training four/purple",
        "series-4 ◆training four/green",
        "series-1 ○deployment two/purple",
        "series-2 □deployment two/green",
        "series-3 △deployment four/purple",
        "series-4 ◇deployment four/green",
        "muted ▽unseen 1",
        "muted ✙unseen 2",
    ]
    assert "by source or cluster" in said


def test_more_sources_than_colours_are_coloured_by_class() -> None:
    entries, said = scatter(SourceGrid(("two", "four"), tuple("abcde")))
    assert [entry.split()[0] for entry in entries] == ["series-1", "series-2", "series-1", "series-2", "muted", "muted"]
    assert entries[0] == "series-1 ●training two/a, training two/b, training two/c and 2 more"
    assert "by class or cluster" in said


def test_hollow_marks_have_an_outline_in_the_colour_of_the_page() -> None:
    points, group = np.random.default_rng(0).normal(size=(20, 2)), np.zeros(20, int)
    svg = draw_points(points, group, "p", "Points", "Many points.", (-3, 3, -3, 3), [Look(2, 0, is_hollow=True)]).svg
    assert re.search(r'style="fill-opacity: 0; stroke: var\(--series-3\)', svg)
    assert "fill: var(--series" not in svg


def test_a_table_report_has_columns_and_the_most_attended_rows() -> None:
    root = read(render_page(make_content("table")))
    columns, attended = by_id(root, "table-columns"), by_id(root, "table-attended-rows")
    assert [th.text for th in columns.all("th", scope="row")] == ["age", "id"]
    assert [row.text for row in attended.all("tr")] == ["Weightage", "0.200039", "0.100052"]
    assert "Rows of a table are not pictures" in by_id(root, "representation").text


def test_sizes_of_clusters_are_bars_of_their_share_of_all_rows() -> None:
    content = make_content(clusters={"method": "mixture", "names": ["a", "b"], "sizes": [300, 100]})
    bars = [
        span.attributes["style"]
        for span in by_id(read(render_page(content)), "table-clusters").all("span", style="width: 75.0%")
    ]
    assert bars == ["width: 75.0%"]


def test_empty_cells_are_spoken_of_only_if_there_are_any() -> None:
    config = make_content("table").config
    config = {**config, "table": {**config["table"], "missing": "own-category"}}
    for missing in (0.0, 0.1):
        columns = (asdict(Column("age", "numeric", "", 70, missing)),)
        text = sections_of(make_content("table", columns=columns, config=config))["training"]
        assert ("Of empty cells" in text) == (missing > 0)


def test_a_missing_source_is_marked_in_words_and_by_a_pattern() -> None:
    table = by_id(read(render_page(make_content())), "table-sources")
    gaps = [cell for cell in table.all("td") if "gap" in cell.attributes.get("class", "").split()]
    assert [cell.text for cell in gaps] == ["missing"]
    assert re.search(r"td\.gap \{ background: repeating-linear-gradient", render_page(make_content()))


def test_totals_of_the_heat_map_are_those_of_the_audit() -> None:
    content = make_content()
    last = by_id(read(render_page(content)), "table-sources").all("tr")[-1]
    assert last.children[-1].text == f"{content.audit['n_train']:,}"  # type: ignore[union-attr]


def test_the_overview_gives_robust_accuracy_with_interval_and_n() -> None:
    content = make_content()
    result = content.evaluation
    text = sections_of(content)["overview"]
    low, high = result["robust_accuracy_interval"]
    assert f"{result['robust_accuracy']:.3f}" in text
    assert f"{low:.3f} to {high:.3f}" in text
    assert re.search(r"subgroup (purple|green), n = \d+", text)


def test_without_an_evaluation_the_page_says_that_nothing_was_measured_and_how_to() -> None:
    sections = sections_of(make_content(evaluation=None))
    for name in ("overview", "results"):
        assert "has not been measured" in sections[name]
        assert "supportmatch evaluate" in sections[name]
        assert "four/purple" in sections[name]


def test_rows_that_lack_the_missing_source_leave_it_unknown() -> None:
    grid = SourceGrid(("two", "four"), ("purple", "green"))
    y, s = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])
    content = make_content(evaluation=evaluate(y, y, s, grid).to_json())
    overview = by_id(read(render_page(content)), "overview")
    assert overview.text.count("These rows include none of four/purple") == 1
    assert "still unknown" in overview.all("div", role="note")[0].text
    assert "Lowest in a source (over 3 of 4 sources)" in overview.text
    assert "Lowest in a source (over" not in sections_of(make_content())["overview"]


def test_warnings_come_before_everything_else_in_the_overview() -> None:
    section = by_id(read(render_page(make_content())), "overview")
    elements = [child for child in section.children if isinstance(child, Element)]
    assert elements[0].tag == "h2"
    assert elements[1].attributes["class"] == "warnings"
    assert "1 of 4 clusters has fewer than 20 rows." in elements[1].text


def test_an_unidentified_problem_and_an_undecided_game_are_warned_about() -> None:
    grid = SourceGrid(("two", "four"), ("purple", "green"))
    audit = audit_counts(np.array([[0, 500], [0, 500]]), grid, 4_000).to_json()
    history = tuple({"step": i, "discriminator_accuracy": 0.95} for i in range(100))
    section = by_id(read(render_page(make_content(audit=audit, history=history, warnings=()))), "overview")
    warnings = section.all("div", role="note")[0].text
    assert "not identified by the data" in warnings
    assert "still right about 95% of the bags" in warnings
    assert "Training has only one subgroup" in warnings


def test_limits_say_which_of_them_apply() -> None:
    grid = SourceGrid(("two", "four"), ("purple", "green"))
    audit = audit_counts(np.array([[0, 500], [0, 500]]), grid, 4_000).to_json()
    limits = by_id(read(render_page(make_content(audit=audit))), "limits")
    marked = [term.text.removesuffix("applies here") for term in limits.all("dt") if "applies here" in term.text]
    assert "A wholly missing subgroup is a gamble" in marked
    assert "It cannot invent classes" not in marked
    assert "It cannot invent classes" in limits.text


def test_what_was_done_is_told_from_the_configuration() -> None:
    text = sections_of(make_content())["training"]
    assert "1,000 steps" in text
    assert "4 bags of 16 rows" in text
    assert "4 clusters by a Gaussian mixture" in text
    assert "1 min 35 s" in text


def test_undefined_numbers_are_listed_with_reasons() -> None:
    grid = SourceGrid(("two", "four"), ("purple", "green"))
    y, s = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])
    text = sections_of(make_content(evaluation=evaluate(y, y, s, grid).to_json()))["results"]
    assert "Accuracy for four/purple, True-positive rate for purple: no rows of class four in subgroup purple." in text
    assert "undefined" in text


def test_every_rate_stands_beside_its_n_and_interval() -> None:
    content = make_content()
    rows = [row.text for row in by_id(read(render_page(content)), "table-by-subgroup").all("tr")]
    for name, rates in content.evaluation["by_subgroup"].items():
        low, high = rates["tpr_interval"]
        expected = f"True-positive rate{name}{rates['tpr']:.3f}{low:.3f} to {high:.3f}{rates['tpr_n']}"
        assert expected in rows


def test_calibration_errors_stand_beside_their_n() -> None:
    content = make_content()
    root = read(render_page(content))
    n = {name: rates["n"] for name, rates in content.evaluation["by_subgroup"].items()}
    rows = [row.text for row in by_id(root, "table-calibration-by-subgroup").all("tr")]
    assert rows[1:] == [f"{name}0.040{n[name]}" for name in n]
    assert f"largest in subgroup purple, 0.040 (n = {n['purple']})" in by_id(root, "results").text


def test_the_distance_of_the_sets_is_explained_where_it_is_printed() -> None:
    text = by_id(read(render_page(make_content())), "figure-codes-after-set").text
    assert re.search(r"\d\.\d standard deviations between the sets: so far apart are their middles", text)


def test_with_three_subgroups_every_pair_is_compared() -> None:
    grid = SourceGrid(("no", "yes"), ("a", "b", "c"))
    table = by_id(read(render_page(make_content(grid=grid))), "table-by-pair")
    assert [th.text for th in table.all("th", scope="row")] == ["a vs b", "a vs c", "b vs c"]


def test_the_choice_stands_beside_the_alternatives_and_better_ones_are_named() -> None:
    better = (
        {"name": "matching", "what": "", "robust_accuracy": 0.9, "accuracy": 0.95, "chosen": True},
        {"name": "logistic", "what": "simple", "robust_accuracy": 0.93, "accuracy": 0.95, "chosen": False},
        {"name": "other", "what": "broken", "robust_accuracy": None, "accuracy": None, "chosen": False},
    )
    root = read(render_page(make_content(alternatives=better)))
    table = by_id(root, "table-alternatives")
    assert [row.text.count("chosen") for row in table.all("tr")] == [0, 1, 0, 0]
    assert "logistic (0.930) reached at least the robust accuracy of matching" in by_id(root, "results").text
    assert by_id(root, "overview").text.count("logistic (0.930) reached") == 1
    assert "logistic (0.930) reached" in root.all("div", role="note")[0].text, (
        "that something simpler does better is a warning"
    )
    assert "not measured" in table.text


def test_command_files_versions_and_settings_are_there_to_repeat_it() -> None:
    content = make_content()
    text = sections_of(content)["repeat"]
    assert content.provenance["command"] in text
    assert "ab" * 32 in text
    assert "torch 2.13.0" in text
    assert '[clustering] method = "mixture"' in text


def test_alternatives_measured_on_other_rows_say_so_and_still_warn() -> None:
    better = (
        {"name": "matching", "what": "", "robust_accuracy": 0.9, "accuracy": 0.95, "chosen": True},
        {"name": "logistic", "what": "simple", "robust_accuracy": 0.93, "accuracy": 0.95, "chosen": False},
    )
    files = [{"role": "test", "name": "t.csv", "rows": 70}, {"role": "measured", "name": "m.csv", "rows": 50}]
    root = read(render_page(make_content(alternatives=better, provenance={"files": files})))
    warning = root.all("div", role="note")[0].text
    assert "at the fit, on other rows (t.csv, n = 70) than those measured here. On those rows logistic" in warning
    assert "(t.csv, n = 70)" in by_id(root, "results").text
    text = sections_of(make_content(alternatives=()))["results"]
    assert "No simpler method was measured; fit with --test to have them measured" in text


def test_whatever_is_lacking_is_said_in_a_sentence() -> None:
    lacking = dict.fromkeys(("clusters", "codes", "reconstructions", "attention", "evaluation"))
    empty = {"findings": (), "warnings": (), "history": (), "stages": (), "alternatives": ()}
    root = read(render_page(make_content(**lacking, **empty, config={}, provenance={})))
    sentences = [p.text for p in root.all("p") if "lacking" in p.attributes.get("class", "").split()]
    for part in ("curves", "clusters", "z cannot", "reconstructions", "attention", "measured", "Versions", "command"):
        assert any(part in sentence for sentence in sentences), part
    assert "There were no warnings." in by_id(root, "overview").text
    assert "The seed was not kept." in by_id(root, "repeat").text


def test_a_fit_without_a_deployment_set_can_be_shown() -> None:
    grid = SourceGrid(("two", "four"), ("purple", "green"))
    audit = audit_counts(np.array([[300, 500], [0, 500]]), grid).to_json()
    lacking = dict.fromkeys(("clusters", "attention"))
    sections = sections_of(make_content(audit=audit, **lacking))
    assert "supports were not matched" in sections["training"]
    assert "Without a deployment set there is no discriminator." in sections["representation"]


def test_words_about_people_are_careful(page: str) -> None:
    text = read(page).text.lower()
    assert not re.search(r"\b(unbiased|debias\w*|solved|fair|guarantee\w*)\b", text)


# One safe file.


def test_names_from_data_cannot_become_markup() -> None:
    grid = SourceGrid((ATTACK, "four"), (f"{ATTACK}2", "green"))
    honest = read(render_page(make_content("table")))
    content = make_content(
        "table",
        grid=grid,
        title=ATTACK,
        columns=(asdict(Column(ATTACK, "numeric", ATTACK)),),
        findings=(f"{ATTACK} `{ATTACK}`",),
        warnings=(ATTACK,),
        stages=((ATTACK, 1.0),),
        clusters={"method": ATTACK, "names": [ATTACK], "sizes": [3]},
        codes={**make_content().codes, "names": [ATTACK] * 4, "method": ATTACK},
        config={ATTACK: ATTACK},
        attended_rows={"columns": [ATTACK], "rows": [[ATTACK]], "weights": [1.0]},
        alternatives=({"name": ATTACK, "what": ATTACK, "robust_accuracy": 0.5, "accuracy": 0.5, "chosen": True},),
        provenance={
            "command": f"supportmatch fit '{ATTACK}'",
            "seed": 0,
            "versions": {ATTACK: ATTACK},
            "files": [{"role": ATTACK, "name": ATTACK, "rows": 1, "sha256": ATTACK}],
            "date": ATTACK,
        },
    )
    text = render_page(content)
    attacked = read(text)
    assert ATTACK not in text
    assert "<script>alert" not in text
    assert len(attacked.all("script")) == len(honest.all("script"))
    assert not attacked.all("img")
    assert not [e for e in attacked.walk() for name in e.attributes if name.startswith("on")]
    assert ATTACK in by_id(attacked, "table-columns").text


def test_nothing_is_loaded_from_anywhere(page: str) -> None:
    root = read(page)
    for element in root.walk():
        for name, value in element.attributes.items():
            if name in ("src", "href", "xlink:href", "srcset", "action", "data", "poster"):
                assert value.startswith(("#", "data:")), (element.tag, name, value)
            assert "http:" not in value, (element.tag, name)
            assert "https:" not in value, (element.tag, name)
    style = "".join(element.text for element in root.all("style"))
    assert "@import" not in style
    assert "@font-face" not in style
    assert "url(" not in style
    assert not root.all("iframe") + root.all("object") + root.all("embed")
    policies = [meta.attributes for meta in root.all("meta") if "http-equiv" in meta.attributes]
    assert policies == [
        {
            "http-equiv": "Content-Security-Policy",
            "content": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:",
        }
    ]


def test_large_inputs_stay_under_five_megabytes() -> None:
    rng = np.random.default_rng(0)
    grid = SourceGrid(tuple(f"class {i}" for i in range(12)), tuple(f"subgroup {i}" for i in range(60)))
    sources = [grid.source_name(i) for i in range(grid.n_sources)]

    def noise(*shape: int) -> Any:
        return rng.integers(0, 256, shape, dtype=np.uint8)

    n = 20_000
    content = make_content(
        "images",
        grid=grid,
        columns=tuple(asdict(Column(f"column {i} " + "x" * 500, "numeric", "y" * 500)) for i in range(5_000)),
        findings=tuple(f"finding {i}" for i in range(100)),
        history=tuple(
            {"step": i, **{k: float(rng.random()) for k in ("reconstruction", "class", "discriminator_accuracy")}}
            for i in range(20_000)
        ),
        codes={
            "before": rng.normal(size=(n, 2)).astype(np.float32),
            "after": rng.normal(size=(n, 2)).astype(np.float32),
            "set": rng.integers(0, 2, n).astype(np.int8),
            "group": rng.integers(0, len(sources), n),
            "names": sources,
            "sources": [*range(len(sources))],
            "of_deployment": [False] * len(sources),
            "method": "UMAP",
        },
        reconstructions={
            s: {p: noise(12, 3, 200, 180) for p in ("original", "full", "side_zeroed", "z_zeroed")}
            for s in ("train", "deploy")
        },
        attention={"images": noise(8, 64, 3, 96, 96), "weights": rng.dirichlet(np.ones(64), 8)},
        attended_rows={
            "columns": [f"column {i}" for i in range(500)],
            "rows": [["value" * 100] * 500] * 300,
            "weights": [0.1] * 300,
        },
    )
    text = render_page(content)
    assert len(text.encode()) < 5_000_000
    root = read(text)
    assert "more rows are not shown" in by_id(root, "table-columns").text
    assert "more columns are not shown" in by_id(root, "table-attended-rows").text
    assert "image/png" in text


def test_the_same_content_gives_the_same_page() -> None:
    assert render_page(make_content()) == render_page(make_content())


# For everyone.


def test_every_picture_and_drawing_is_described(page: str) -> None:
    root = read(page)
    ids = {element.attributes["id"]: element for element in root.walk() if "id" in element.attributes}
    drawings = root.all("svg")
    assert drawings
    for drawing in drawings:
        assert drawing.attributes["role"] == "img"
        title, description = (ids[name] for name in drawing.attributes["aria-labelledby"].split())
        assert title.tag == "title"
        assert len(title.text) > 5
        assert len(description.text) > 40
    for picture in root.all("img"):
        assert len(picture.attributes["alt"]) > 20


def test_ids_are_unique_and_every_reference_has_its_end(page: str) -> None:
    elements = read(page).walk()
    ids = [element.attributes["id"] for element in elements if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    for element in elements:
        for name in ("aria-labelledby", "aria-controls", "aria-describedby"):
            assert set(element.attributes.get(name, "").split()) <= set(ids)
        if element.attributes.get("href", "").startswith("#"):
            assert element.attributes["href"][1:] in ids
        for reference in re.findall(r"url\(#([^)]+)\)", " ".join(element.attributes.values())):
            assert reference in ids


def test_tables_have_captions_and_headers_and_scroll_by_keyboard(page: str) -> None:
    tables = read(page).all("div", **{"class": "table"})
    assert len(tables) >= 8
    for table in tables:
        (box,) = table.all("div", role="region")
        assert box.attributes["tabindex"] == "0"
        assert table.all("caption")[0].text
        assert all(th.attributes.get("scope") in ("col", "row") for th in table.all("th"))
        assert all(th.text for th in table.all("th", scope="col"))
        width = len(table.all("th", scope="col"))
        for row in table.all("tr"):
            assert len(row.all("th")) + len(row.all("td")) == width


def test_headings_do_not_skip_a_level(page: str) -> None:
    levels = [int(e.tag[1]) for e in read(page).walk() if re.fullmatch(r"h[1-6]", e.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


Theme = dict[str, str]


def themes_of(page: str) -> dict[str, Theme]:
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]  # type: ignore[index]
    found = {
        "light": r":root \{([^}]*)\}",
        "dark by choice": r':root\[data-theme="dark"\] \{([^}]*)\}',
        "dark by preference": r':root:not\(\[data-theme="light"\]\) \{([^}]*)\}',
    }
    return {
        name: dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", re.search(pattern, style)[1]))  # type: ignore[index]
        for name, pattern in found.items()
    }


THEMES = themes_of(render_page(make_content()))


def linear(colour: str) -> Any:
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    low, high = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def blend(colour: str, background: str, opacity: float) -> str:
    channels = [
        round(opacity * int(colour[i : i + 2], 16) + (1 - opacity) * int(background[i : i + 2], 16)) for i in (1, 3, 5)
    ]
    return "#" + "".join(f"{channel:02x}" for channel in channels)


def test_contrast_is_computed_as_wcag_does() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


def test_dark_is_the_same_by_choice_and_by_preference() -> None:
    assert THEMES["dark by choice"] == THEMES["dark by preference"]
    assert THEMES["dark by choice"].keys() == THEMES["light"].keys()


@pytest.mark.parametrize("theme", ["light", "dark by choice"])
@pytest.mark.parametrize(
    ("text", "backgrounds"),
    [
        ("text", ["page", "surface", "warn-soft", "accent-soft", *(f"heat-{i}" for i in range(5))]),
        ("muted", ["page", "surface", "accent-soft"]),
        ("accent", ["page", "surface", "accent-soft"]),
        ("warn", ["page", "surface", "warn-soft"]),
    ],
)
def test_text_has_a_contrast_of_4_5(theme: str, text: str, backgrounds: list[str]) -> None:
    colours = THEMES[theme]
    for background in backgrounds:
        assert contrast(colours[text], colours[background]) >= 4.5, background


@pytest.mark.parametrize("theme", ["light", "dark by choice"])
def test_marks_and_patterns_have_a_contrast_of_3(theme: str) -> None:
    colours = THEMES[theme]
    for i in range(1, N_SERIES + 1):
        for background in ("page", "surface"):
            point = blend(colours[f"series-{i}"], colours[background], 0.85)
            assert contrast(point, colours[background]) >= 3, (i, background)
    assert contrast(colours["stripe"], colours["warn-soft"]) >= 3


# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
_COLOUR_VISIONS = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def lab(rgb: Any) -> Any:
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(rgb, 0, 1) / [0.9505, 1.0, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("theme", ["light", "dark by choice"])
@pytest.mark.parametrize("vision", _COLOUR_VISIONS)
def test_series_can_be_told_apart_with_any_colour_vision(theme: str, vision: str) -> None:
    seen = [lab(np.array(_COLOUR_VISIONS[vision]) @ linear(THEMES[theme][f"series-{i + 1}"])) for i in range(N_SERIES)]
    for (i, one), (j, other) in itertools.combinations(enumerate(seen, start=1), 2):
        assert np.linalg.norm(one - other) > 15, (i, j)


# Charts.


def test_drawings_take_all_colours_from_the_page() -> None:
    rng = np.random.default_rng(0)
    rows = [{"step": i, "class": float(rng.random() + 0.1)} for i in range(100)]
    bins = [{"confidence": 0.6, "accuracy": 0.5, "n": 10}, {"confidence": None, "accuracy": None, "n": 0}]
    drawings = [
        draw_curve(rows, "class", "Class loss", chance=0.5),
        draw_curve(rows, "class", "Class loss", log=True),
        draw_points(rng.normal(size=(99, 2)), rng.integers(-1, 20, 99), "p", "Points", "Many points.", (-3, 3, -3, 3)),
        draw_calibration(bins),
    ]
    for drawing in drawings:
        assert drawing is not None
        assert not re.search(r"#[0-9a-f]{6}\b(?!\))|font-family|http|<style|<metadata", drawing.svg)
        assert "currentColor" in drawing.svg or "var(--series-1)" in drawing.svg
        root = read(drawing.svg)
        assert root.all("svg")[0].attributes.keys() == {"viewbox", "role", "class", "aria-labelledby"}


def test_no_group_of_points_covers_the_others() -> None:
    points, group = np.random.default_rng(0).normal(size=(100, 2)), np.repeat([0, 1], 50)
    svg = draw_points(points, group, "p", "Points", "Many points.", (-3, 3, -3, 3)).svg
    colours = re.findall(r'<g [^>]*style="fill: var\(--series-(\d)\)', svg)
    assert colours == ["1", "2"] * 5


def test_far_off_points_do_not_squeeze_the_rest_and_are_counted() -> None:
    codes = make_content().codes
    before = np.random.default_rng(0).random((600, 2)).astype(np.float32)
    before[0] = 1_000
    many = {"before": before, "after": before, "set": np.repeat([0, 1], 300), "group": np.zeros(600, int)}
    text = sections_of(make_content(codes={**codes, **many}))["representation"]
    assert "Points outside of the frame: 1." in text


def test_a_curve_that_nobody_recorded_is_not_drawn() -> None:
    assert draw_curve([{"step": 0, "total": 1.0}], "class", "Class loss") is None
    assert draw_curve([], "class", "Class loss") is None
    assert draw_calibration([{"confidence": 0.5, "accuracy": 0.5, "n": 0}]) is None


@pytest.mark.parametrize("values", [[0.5], [0.0, 0.0], [1e-9, 1e9], [0.3, float("nan"), 0.1], [-1.0, 2.0]])
def test_odd_curves_can_be_drawn(values: list[float]) -> None:
    rows = [{"step": i, "class": value} for i, value in enumerate(values)]
    drawing = draw_curve(rows, "class", "Class loss", log=True)
    assert drawing is not None
    assert "nan" not in drawing.svg


@pytest.mark.parametrize("shape", [(1, 1, 8, 8), (3, 2, 8, 9), (20, 3, 28, 28), (5, 4, 200, 100), (2, 3, 1, 300)])
def test_images_of_any_shape_become_a_small_strip(shape: tuple[int, ...]) -> None:
    picture = picture_strip(np.full(shape, 200, np.uint8), "alt")
    image = Image.open(io.BytesIO(base64.b64decode(picture.src.partition(",")[2])))
    assert image.size == (picture.width, picture.height)
    assert picture.height <= 64
    assert picture.width <= 8 * 65
    assert np.asarray(image)[0, 0].tolist() == [200, 200, 200]


def test_frames_are_as_light_as_their_weights() -> None:
    images = np.full((5, 3, 8, 8), 77, np.uint8)
    picture = picture_bag(images, np.array([0.0, 0.1, 0.2, 0.3, 0.4]), 0.4, "alt")
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(picture.src.partition(",")[2]))))
    tile = pixels.shape[1] // 5
    assert [int(pixels[2, i * tile + 2, 0]) for i in range(5)] == [0, 63, 127, 191, 255]
    assert pixels[tile // 2, tile // 2].tolist() == [77, 77, 77]


def test_a_bag_without_any_attention_has_black_frames() -> None:
    picture = picture_bag(np.full((4, 1, 8, 8), 9, np.uint8), np.zeros(4), 0.0, "alt")
    assert picture.src.startswith("data:image/png;base64,")
