"""The report as one HTML file that loads nothing: what the data looked like, what was done, what came of it.

A function per tab turns the content into sentences, tables and charts; `template.html.j2` says how they look. Strings
from data reach the page through Jinja's escaping only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from supportmatch.report.card import (
    METRIC_NAMES,
    RATE_NAMES,
    all_warnings,
    alternatives_sentence,
    calibration_sentence,
    clipped,
    config_text,
    data_sentence,
    end_of_game,
    how_to_measure,
    intended_use,
    interval_text,
    limits,
    listed,
    method,
    number,
    overall_metrics,
    proportion,
    undefined_numbers,
    verdict,
    worst_subgroup,
)
from supportmatch.report.content import ReportContent, Values

if TYPE_CHECKING:
    from jinja2 import Template

    from supportmatch.report.charts import Drawing, Look, Picture

TABS = {
    "overview": "Overview",
    "data": "Data",
    "training": "Training",
    "representation": "Representation",
    "results": "Results",
    "limits": "Limits",
    "repeat": "Repeat it",
}
"""Id of each section and what its tab is called."""

_MOST_ROWS = 150
"""Rows of a table on the page."""
_MOST_CELLS = 40
"""Columns of a table on the page."""
_MOST_BAGS = 4
_HEAT = 5
_CURVES = {
    "reconstruction": ("Reconstruction error", "How far decoded rows are from the rows themselves."),
    "class": ("Class loss", "How badly the class of training rows is told from z."),
    "adversarial": ("Adversarial loss", "What the encoder descends to hide which set a bag is from."),
    "discriminator_accuracy": (
        "Discriminator's accuracy",
        "Share of bags whose set is told right. Near the dashed line at 0.5 it only guesses.",
    ),
}
_LOG_CURVES = ("reconstruction", "class")
_PANELS = {
    "original": "Originals",
    "full": "Decoded from z and s~",
    "side_zeroed": "Decoded from z alone (s~ zeroed)",
    "z_zeroed": "Decoded from s~ alone (z zeroed)",
}
_SETS = {"train": "Training set", "deploy": "Deployment set"}


@dataclass(frozen=True)
class Cell:
    """A cell of a table."""

    text: str
    css: str = ""
    share: float | None = None
    """Draws a bar of that length, between 0 and 1."""
    span: tuple[float, float, float] | None = None
    """Draws low end, value and high end between 0 and 1."""
    tag: str = ""
    """A word or two set apart from the text."""


@dataclass(frozen=True)
class Table:
    """A table: the first cell of each row is its header."""

    key: str
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    numeric: tuple[int, ...] = ()
    """Which columns hold numbers."""
    note: str = ""


@dataclass(frozen=True)
class Figure:
    """A drawing or pictures under one caption."""

    key: str
    title: str
    caption: str
    drawing: Drawing | None = None
    pictures: tuple[tuple[str, Picture], ...] = ()
    """What each is called, and the picture."""


@dataclass(frozen=True)
class Tile:
    """A key number."""

    name: str
    value: str
    note: str
    css: str = ""


@dataclass(frozen=True)
class LegendEntry:
    """What a mark in a scatter stands for."""

    mark: str
    css: str
    name: str


def render_page(content: ReportContent) -> str:
    """Return the report as an HTML page that needs no other file and no network."""
    return _template().render(
        title=clipped(content.title),
        subtitle=_subtitle(content),
        tabs=TABS,
        n_series=range(1, 9),
        overview=_overview(content),
        data=_data(content),
        training=_training(content),
        representation=_representation(content),
        results=_results(content),
        limits={"use": intended_use(content), "passages": limits(content), "reasons": content.audit["reasons"]},
        repeat=_repeat(content),
    )


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"prose": _prose, "breakable": _breakable}
    return environment.from_string(
        files("supportmatch.report").joinpath("template.html.j2").read_text(encoding="utf-8")
    )


def _prose(text: str) -> Markup:
    """Escape a sentence; what stands in backticks becomes code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(clipped(text, 2_000)))))


def _breakable(text: str) -> Markup:
    """Escape a name; it may be broken after a slash."""
    return escape(text).replace("/", Markup("/<wbr>"))


def _subtitle(content: ReportContent) -> str:
    version = content.provenance.get("versions", {}).get("supportmatch")
    what = "Learned from " + ("a table" if content.kind == "table" else "images")
    parts = [what, f"supportmatch {version}" if version else "supportmatch", content.provenance.get("date")]
    return " · ".join(clipped(str(part)) for part in parts if part)


# Overview.


def _overview(content: ReportContent) -> Values:
    audit = content.audit
    n_sources = len(audit["classes"]) * len(audit["subgroups"])
    tiles = [*_measured_tiles(content)]
    tiles.append(
        Tile(
            "Missing sources",
            f"{len(audit['missing'])} of {n_sources}",
            f"Setting: {audit['setting']}",
            "bad" if audit["missing"] else "",
        )
    )
    if audit["missing"]:
        note = "By labels and deployment rows together"
        tiles.append(Tile("Classes in missing sources", audit["identifiability"], note, "words"))
    tiles.append(Tile("Training rows", number(audit["n_train"]), "with class and subgroup"))
    n_deploy = audit["n_deploy"]
    tiles.append(Tile("Deployment rows", "none" if n_deploy is None else number(n_deploy), "without labels"))
    if (end := end_of_game(content.history)) is not None:
        tiles.append(Tile("Discriminator at the end", f"{end:.2f}", "Share of bags told right; 0.5 is guessing"))
    return {
        "warnings": all_warnings(content),
        "findings": content.findings,
        "verdict": verdict(content),
        "tiles": tiles,
    }


def _measured_tiles(content: ReportContent) -> Iterable[Tile]:
    result = content.evaluation
    if result is None:
        yield Tile("Robust accuracy", "not measured", "Needs labelled rows: `supportmatch evaluate`", "words")
        return
    if (worst := worst_subgroup(result)) is not None:
        yield Tile(
            "Robust accuracy",
            proportion(result["robust_accuracy"]),
            f"95 % interval {interval_text(result['robust_accuracy_interval'])}; subgroup {clipped(worst, 60)}, n = "
            f"{number(result['by_subgroup'][worst]['n'])}",
            "main",
        )
    yield Tile(
        "Accuracy",
        proportion(result["accuracy"]),
        f"95 % interval {interval_text(result['accuracy_interval'])}; n = {number(result['n'])}",
    )
    present = {name: cell for name, cell in result["by_source"].items() if cell["n"]}
    name = min(present, key=lambda source: present[source]["accuracy"])
    cell = present[name]
    n_sources = len(result["by_source"])
    some = f" (over {len(present)} of {n_sources} sources)" if len(present) < n_sources else ""
    yield Tile(
        f"Lowest in a source{some}",
        proportion(cell["accuracy"]),
        f"95 % interval {interval_text(cell['interval'])}; {clipped(name, 60)}, n = {number(cell['n'])}",
    )


# Data.


def _data(content: ReportContent) -> Values:
    audit = content.audit
    return {
        "sentence": data_sentence(content),
        "sources": _heat_map(content),
        "reasons": audit["reasons"],
        "next_step": audit["next_step"],
        "findings": content.findings,
        "columns": _column_table(content),
        "no_columns": (
            "Images have no columns: their pixels are the features."
            if content.kind == "images"
            else "The columns were not kept with this report."
        ),
    }


def _heat_map(content: ReportContent) -> Table:
    audit = content.audit
    most = max(1, *(n for row in audit["counts"] for n in row))
    rows = []
    for name, counts in zip(audit["classes"], audit["counts"], strict=True):
        heat = [
            Cell(number(n), f"heat heat-{min(_HEAT - 1, int(_HEAT * sqrt(n / most)))}") if n else Cell("missing", "gap")
            for n in counts
        ]
        rows.append((Cell(str(name)), *heat, Cell(number(sum(counts)), "total")))
    totals = [sum(column) for column in zip(*audit["counts"], strict=True)]
    rows.append((Cell("All classes", "total"), *(Cell(number(n), "total") for n in [*totals, sum(totals)])))
    return _table(
        "sources",
        "Training rows in each source, class (down) by subgroup (across)",
        ["Class", *map(str, audit["subgroups"]), "All subgroups"],
        rows,
        numeric=range(1, len(audit["subgroups"]) + 2),
        note="The stronger the colour, the more rows. Striped cells marked “missing” have no training row at all.",
    )


def _column_table(content: ReportContent) -> Table | None:
    if not content.columns:
        return None
    rows = [
        (
            Cell(column["name"]),
            Cell(column["kind"], "muted" if column["kind"] == "dropped" else ""),
            Cell(number(column["n_values"])),
            Cell(f"{column['missing']:.1%}"),
            Cell(column.get("note") or "", "prose" if column.get("note") else ""),
        )
        for column in content.columns
    ]
    return _table(
        "columns",
        f"The {len(rows)} columns and what became of them",
        ["Column", "Kind", "Distinct values", "Empty", "Note"],
        rows,
        numeric=(2, 3),
    )


# Training.


def _training(content: ReportContent) -> Values:
    return {
        "method": method(content),
        "stages": _stage_table(content),
        "curves": _curves(content),
        "clusters": _cluster_table(content),
    }


def _stage_table(content: ReportContent) -> Table | None:
    if not content.stages:
        return None
    total = sum(seconds for _, seconds in content.stages)
    rows = [
        (Cell(name), Cell(_duration(seconds)), Cell("", share=seconds / total if total else 0.0))
        for name, seconds in content.stages
    ]
    rows.append((Cell("All stages", "total"), Cell(_duration(total), "total"), Cell("")))
    return _table("stages", "Stages", ["Stage", "Time", "Share of time"], rows, numeric=(1,))


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _curves(content: ReportContent) -> list[Figure]:
    from supportmatch.report.charts import draw_curve

    figures = []
    for name, (title, caption) in _CURVES.items():
        chance = 0.5 if name == "discriminator_accuracy" else None
        drawing = draw_curve(content.history, name, title, chance=chance, log=name in _LOG_CURVES)
        if drawing is not None:
            figures.append(Figure(f"curve-{name}", title, caption, drawing))
    return figures


def _cluster_table(content: ReportContent) -> Table | None:
    if content.clusters is None:
        return None
    names, sizes = content.clusters["names"], content.clusters["sizes"]
    total = sum(sizes)
    rows = [
        (Cell(name), Cell(number(size)), Cell(f"{size / max(1, total):.1%}"), Cell("", share=size / max(1, total)))
        for name, size in zip(names, sizes, strict=True)
    ]
    return _table(
        "clusters",
        f"{len(names)} clusters, by the method {clipped(str(content.clusters['method']), 60)}",
        ["Cluster", "Rows", "Share", "0 to 100 %"],
        rows,
        numeric=(1, 2),
        note="Clusters are named by what was found, not by labels of deployment rows, which the fit never sees.",
    )


# Representation.


def _representation(content: ReportContent) -> Values:
    return {
        "codes": _code_figures(content.codes, content.audit) if content.codes else None,
        "reconstructions": _reconstruction_figures(content.reconstructions) if content.reconstructions else [],
        "attention": _attention_figures(content.attention) if content.attention else [],
        "attended_rows": _attended_table(content.attended_rows) if content.attended_rows else None,
        "is_table": content.kind == "table",
        "n_deploy": content.audit["n_deploy"],
    }


def _code_figures(codes: Values, audit: Values) -> Values:
    from supportmatch.report.charts import Look, draw_points

    in_deployment, group, names = np.asarray(codes["set"]), np.asarray(codes["group"]), codes["names"]
    looks, few = _looks_of_groups(codes, audit), _has_few_sources(audit)
    of_set = [Look(0, 0), Look(1, 1, is_hollow=True)]
    early = codes.get("early_step")
    start = f"early (after {_steps(early)})" if early else "before matching"
    moments = {"before": start, "after": "after matching"}
    by_set: list[Figure] = []
    by_group: list[Figure] = []
    for moment, when in moments.items():
        points = np.asarray(codes[moment], dtype=np.float64)
        limits, apart = _limits_of(points), _distance_of_sets(points, in_deployment)
        n_outside = int(((points < limits[::2]) | (points > limits[1::2])).any(axis=1).sum())
        outside = f"Points outside of the frame: {n_outside}." if n_outside else ""
        n_train, n_deploy = int((in_deployment == 0).sum()), int((in_deployment == 1).sum())
        said = (
            f"{number(n_train)} training and {number(n_deploy)} deployment rows as points in the plane "
            f"({codes['method']} of z), {when}."
        )
        if apart is not None:
            said += f" The middles of both sets are {apart:.1f} standard deviations apart."
        for figures, what, values, kind, own in (
            (by_set, "by set", in_deployment, "set", of_set),
            (by_group, "by source or cluster" if few else "by class or cluster", group, "group", looks),
        ):
            title = f"{when[0].upper()}{when[1:]}, {what}"
            alt = f"{said} Coloured {what}."
            drawing = draw_points(points, values, f"codes-{moment}-{kind}", title, alt, limits, own)
            distance = ""
            if apart is not None:
                distance = (
                    f"{apart:.1f} standard deviations between the sets: so far apart are their middles, measured by "
                    "how widely rows of one set are spread; at 0 they coincide."
                )
            caption = f"{distance} {outside}".strip() if kind == "set" else outside
            figures.append(Figure(f"codes-{moment}-{kind}", title, caption, drawing))
    legend: dict[Look, list[str]] = {}
    for i in np.unique(group[group >= 0]).tolist():
        legend.setdefault(looks[i], []).append(str(names[i]))
    unknown = ["not known"] if (group < 0).any() else []
    return {
        "method": codes["method"],
        "by_set": by_set,
        "by_group": by_group,
        "set_legend": [_legend_entry(of_set[0], "Training set"), _legend_entry(of_set[1], "Deployment set")],
        "group_legend": [
            *(_legend_entry(look, listed(found, 3)) for look, found in [*legend.items()][:_MOST_CELLS]),
            *(LegendEntry("·", "muted", name) for name in unknown),
        ],
        "are_sources_told_apart": few,
        "heading": f"z {start if early else 'before'} and after matching",
    }


def _steps(n: int) -> str:
    return f"{number(n)} step{'' if n == 1 else 's'}"


def _looks_of_groups(codes: Values, audit: Values) -> list[Look]:
    """Return how each group of codes is drawn.

    A source has one colour and mark in both sets, or one for all of its class where sources are more than colours;
    marks of deployment rows are hollow, and those of clusters without labelled rows are grey as well, of shapes that
    no source has as long as there are any.
    """
    from supportmatch.report.charts import MARKERS, N_SERIES, Look

    n_subgroups, few = len(audit["subgroups"]), _has_few_sources(audit)
    present, sources = set(np.unique(codes["group"]).tolist()), codes["sources"]
    places = [(source if few else source // n_subgroups) % N_SERIES for source in sources]
    taken = {place for i, place in enumerate(places) if sources[i] >= 0 and i in present}
    free = [mark for mark in range(len(MARKERS)) if mark not in taken] or [*range(len(MARKERS))]
    looks, n_unseen = [], 0
    for source, place, of_deployment in zip(sources, places, codes["of_deployment"], strict=True):
        if source < 0:
            looks.append(Look(None, free[n_unseen % len(free)], is_hollow=True))
            n_unseen += 1
        else:
            looks.append(Look(place, place, is_hollow=of_deployment))
    return looks


def _has_few_sources(audit: Values) -> bool:
    from supportmatch.report.charts import N_SERIES

    return len(audit["classes"]) * len(audit["subgroups"]) <= N_SERIES


def _legend_entry(look: Look, name: str) -> LegendEntry:
    from supportmatch.report.charts import HOLLOW_MARKERS, MARKERS

    css = "muted" if look.colour is None else f"series-{look.colour + 1}"
    return LegendEntry((HOLLOW_MARKERS if look.is_hollow else MARKERS)[look.mark], css, clipped(name, 200))


def _limits_of(points: NDArray[Any]) -> tuple[float, float, float, float]:
    """Return ends of both axes that leave out far-off points."""
    if not len(points):
        return (0.0, 1.0, 0.0, 1.0)
    low, high = np.quantile(points, [0.01, 0.99], axis=0)
    margin = np.maximum((high - low) * 0.15, 1e-6)
    return (
        float(low[0] - margin[0]),
        float(high[0] + margin[0]),
        float(low[1] - margin[1]),
        float(high[1] + margin[1]),
    )


def _distance_of_sets(points: NDArray[Any], in_deployment: NDArray[Any]) -> float | None:
    """Return how far apart the means of both sets are, in standard deviations within them; None without both."""
    parts = [points[in_deployment == which] for which in (0, 1)]
    if min(map(len, parts)) < 2:
        return None
    within = sqrt(float(np.mean([part.var(axis=0).sum() for part in parts])))
    return float(np.linalg.norm(parts[0].mean(axis=0) - parts[1].mean(axis=0))) / within if within > 0 else None


def _reconstruction_figures(reconstructions: Values) -> list[Figure]:
    from supportmatch.report.charts import MOST_IMAGES, picture_strip

    figures = []
    for key, name in _SETS.items():
        panels = reconstructions.get(key) or {}
        pictures = []
        for panel, title in _PANELS.items():
            if panel in panels and len(panels[panel]):
                n = min(MOST_IMAGES, len(panels[panel]))
                pictures.append((title, picture_strip(panels[panel], f"{name}, {n} images. {title}.")))
        if pictures:
            figures.append(Figure(f"reconstructions-{key}", name, "", pictures=tuple(pictures)))
    return figures


def _attention_figures(attention: Values) -> list[Figure]:
    from supportmatch.report.charts import MOST_IN_BAG, picture_bag

    images, weights = attention["images"], np.asarray(attention["weights"], dtype=np.float64)
    if not weights.size:
        return []
    shown = weights[:_MOST_BAGS, :MOST_IN_BAG]
    largest = float(shown.max())
    figures = []
    for i, own in enumerate(shown):
        size = weights.shape[1]
        extent = f"{size} images" if len(own) == size else f"the first {len(own)} of {size} images"
        alt = (
            f"Deployment bag {i + 1}, {extent}, each in a frame as light as its weight. The largest weight is "
            f"{own.max():.3f}, of image {int(own.argmax()) + 1}; equal weights would be {1 / size:.3f}."
        )
        picture = picture_bag(images[i], own, largest, alt)
        caption = f"Largest weight {own.max():.3f}; equal weights would be {1 / size:.3f}."
        figures.append(Figure(f"attention-{i + 1}", f"Bag {i + 1}", caption, pictures=(("", picture),)))
    return figures


def _attended_table(attended: Values) -> Table:
    rows = [
        (Cell(f"{weight:.4f}"), *(Cell(str(value)) for value in row))
        for row, weight in zip(attended["rows"], attended["weights"], strict=True)
    ]
    return _table(
        "attended-rows",
        "The deployment rows that the discriminator attended to most",
        ["Weight", *attended["columns"]],
        rows,
        note=(
            "These are raw rows of the deployment file: remember that before you hand this page on. If the "
            "discriminator still tells the sets apart, it does so by rows like these."
        ),
    )


# Results.


def _results(content: ReportContent) -> Values:
    result = content.evaluation
    alternatives = {
        "alternatives": _alternatives_table(content),
        "comparison": alternatives_sentence(content),
    }
    if result is None:
        return {"measured": False, "sentence": how_to_measure(content), **alternatives}
    return {
        "measured": True,
        "sentence": (
            f"Measured on {number(result['n'])} labelled rows. The positive class, of which positive rate, "
            f"true-positive and true-negative rate speak, is {clipped(str(result['positive_class']))}. Intervals are "
            "95 %: Wilson's within a source or subgroup, bootstrap percentiles for the accuracies over all rows, and "
            "percentiles of the posterior for ratios, differences and HGR."
        ),
        "overall": _overall_table(result),
        "by_source": _source_table(result, set(content.audit["missing"])),
        "by_subgroup": _subgroup_table(result),
        "by_pair": _pair_table(result),
        "undefined": undefined_numbers(result),
        "calibration": _calibration(result),
        **alternatives,
    }


def _overall_table(result: Values) -> Table:
    rows = [
        (
            Cell(m.name),
            Cell(proportion(m.value)),
            Cell(interval_text(m.interval)),
            Cell(number(m.n)),
            Cell(m.meaning, "prose"),
        )
        for m in overall_metrics(result)
    ]
    return _table(
        "overall", "Over all rows", ["Number", "Value", "95 % interval", "n", "Meaning"], rows, numeric=(1, 2, 3)
    )


def _source_table(result: Values, missing: set[str]) -> Table:
    rows = [
        (
            Cell(name, tag="missing in training" if name in missing else ""),
            Cell(proportion(cell["accuracy"])),
            Cell(interval_text(cell["interval"])),
            Cell(number(cell["n"])),
            Cell("", span=_span(cell["accuracy"], cell["interval"])),
        )
        for name, cell in sorted(result["by_source"].items(), key=lambda item: item[0] not in missing)
    ]
    return _table(
        "by-source",
        "Accuracy in each source",
        ["Source", "Accuracy", "95 % interval", "n", "0 to 1"],
        rows,
        numeric=(1, 2, 3),
    )


def _subgroup_table(result: Values) -> Table:
    rows = [
        (
            Cell(title),
            Cell(name),
            Cell(proportion(rates[rate])),
            Cell(interval_text(rates[f"{rate}_interval"])),
            Cell(number(rates[f"{rate}_n"])),
            Cell("", span=_span(rates[rate], rates[f"{rate}_interval"])),
        )
        for rate, title in RATE_NAMES.items()
        for name, rates in result["by_subgroup"].items()
    ]
    return _table(
        "by-subgroup",
        "Rates in each subgroup",
        ["Rate", "Subgroup", "Value", "95 % interval", "n", "0 to 1"],
        rows,
        numeric=(2, 3, 4),
    )


def _pair_table(result: Values) -> Table | None:
    """Return ratios and differences of every two subgroups; with two subgroups they are the overall ones."""
    if len(result["by_pair"]) < 2:
        return None
    names = list(next(iter(result["by_pair"].values())))
    rows = [
        (Cell(pair), *(Cell(proportion(values[name])) for name in names)) for pair, values in result["by_pair"].items()
    ]
    return _table(
        "by-pair",
        "Each two subgroups",
        ["Pair", *(METRIC_NAMES[n] for n in names)],
        rows,
        numeric=range(1, len(names) + 1),
    )


def _calibration(result: Values) -> Values | None:
    calibration = result.get("calibration")
    if calibration is None:
        return None
    from supportmatch.report.charts import draw_calibration

    drawing = draw_calibration(calibration.get("bins", ()))
    figure = None
    if drawing is not None:
        caption = "On the dashed line, stated probabilities are right. The larger a point, the more rows."
        figure = Figure("calibration", "Calibration", caption, drawing)
    by_subgroup = calibration.get("by_subgroup") or {}
    rows = [
        (Cell(name), Cell(proportion(value)), Cell(number(result["by_subgroup"][name]["n"])))
        for name, value in by_subgroup.items()
    ]
    table = _table("calibration-by-subgroup", "Calibration error", ["Subgroup", "Error", "n"], rows, numeric=(1, 2))
    return {"sentence": calibration_sentence(result), "figure": figure, "table": table if rows else None}


def _alternatives_table(content: ReportContent) -> Table | None:
    if not content.alternatives:
        return None
    rows = [
        (
            Cell(other["name"], tag="chosen" if other.get("chosen") else ""),
            Cell(_or_not_measured(other.get("robust_accuracy"))),
            Cell(_or_not_measured(other.get("accuracy"))),
            Cell(other.get("what") or "", "prose"),
        )
        for other in content.alternatives
    ]
    return _table(
        "alternatives",
        "What was chosen, beside the rest",
        ["Method", "Robust accuracy", "Accuracy", "What it is"],
        rows,
        numeric=(1, 2),
    )


def _or_not_measured(value: float | None) -> str:
    return "not measured" if value is None else proportion(value)


def _span(value: float | None, interval: Sequence[float] | None) -> tuple[float, float, float] | None:
    return None if value is None or interval is None else (interval[0], value, interval[1])


# Repeat it.


def _repeat(content: ReportContent) -> Values:
    origin = content.provenance
    rows = [
        (
            Cell(str(file.get("role", ""))),
            Cell(str(file.get("name", ""))),
            Cell(number(file.get("rows"))),
            Cell(file.get("sha256") or "not known", "hash"),
        )
        for file in origin.get("files", ())
    ]
    return {
        "command": origin.get("command"),
        "seed": origin.get("seed"),
        "date": origin.get("date"),
        "versions": origin.get("versions") or {},
        "files": _table("files", "Files that were read", ["File", "Name", "Rows", "SHA-256"], rows, numeric=(2,))
        if rows
        else None,
        "config": config_text(content.config) if content.config else "",
    }


def _table(
    key: str,
    caption: str,
    head: Sequence[object],
    rows: Sequence[Sequence[Cell]],
    *,
    numeric: Iterable[int] = (),
    note: str = "",
) -> Table:
    """Return a table that a page can hold: what is too much is left out, and the note says so."""
    notes = [note] if note else []
    if len(rows) > _MOST_ROWS:
        notes.append(f"{len(rows) - _MOST_ROWS} more rows are not shown.")
    if len(head) > _MOST_CELLS:
        notes.append(f"{len(head) - _MOST_CELLS} more columns are not shown.")
    kept = tuple(
        tuple(replace(cell, text=clipped(str(cell.text))) for cell in row[:_MOST_CELLS]) for row in rows[:_MOST_ROWS]
    )
    shown = tuple(clipped(str(name)) for name in head[:_MOST_CELLS])
    return Table(f"table-{key}", caption, shown, kept, tuple(numeric), " ".join(notes))
