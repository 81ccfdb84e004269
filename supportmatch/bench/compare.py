"""Medians and quartiles of rows, and the authors' beside them. A row is what one run left: a plain dict."""

from __future__ import annotations

import csv
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from math import isnan, nan
from typing import Any, Literal, cast, get_args

import numpy as np

from supportmatch.bench.methods import METHODS, Budget
from supportmatch.bench.remarks import REMARKS
from supportmatch.bench.runs import is_refused
from supportmatch.bench.store import Row
from supportmatch.data.problems import SETTINGS
from supportmatch.errors import ConfigError, UnknownNameError
from supportmatch.metrics import OVERALL

Cell = tuple[str, str, str]
"""Setting, method and budget."""
Verdict = Literal["in or above", "agrees", "above", "below", "no result", "not judged", ""]

ORACLE_MARK = "†"
ORACLE_NOTE = f"{ORACLE_MARK} sees deployment labels: an upper bound, never a result."
UNEXPLAINED = "unexplained"
AGREEMENT = 0.03
"""How far the median of a baseline may lie from the authors' and still agree with it."""
AUTHORS_CLUSTERING = {
    "cmnist-sb": (0.964, 0.064),
    "cmnist-ms": (0.884, 0.048),
    "cmnist-3digit": (0.827, 0.055),
    "adult-sb": (0.697, 0.003),
    "adult-ms": (0.604, 0.008),
}
"""Clustering accuracy of the authors' rank statistics on the deployment set: mean and standard deviation over seeds."""

_AUTHORS_COLUMNS = {
    "accuracy": "acc",
    "robust_accuracy": "robust",
    "hgr": "hgr",
    "positive_rate_ratio": "pr_ratio",
    "tpr_ratio": "tpr_ratio",
    "tnr_ratio": "tnr_ratio",
}
_AUTHORS_NAMES = {
    "ours-rank": "ours-clustering",  # the authors clustered by rank statistics
    "erm-plain": "erm",  # their ERM on Adult seems to have been sampled so
    "dro-plain": "dro",
    "gdro-plain": "gdro",
    "gdro-small-step": "gdro",
    "lff-published": "lff",
}


@dataclass(frozen=True)
class Spread:
    """Where some values lie; NaN where there are none, or where it was not recorded."""

    n: int
    median: float
    q1: float = nan
    q3: float = nan
    mean: float = nan
    min: float = nan

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Summarise values.

        >>> Spread.of([0.0, 0.25, 0.5, 0.75, 1.0])
        Spread(n=5, median=0.5, q1=0.25, q3=0.75, mean=0.5, min=0.0)
        """
        if not len(values):
            return cls(0, nan)
        q1, median, q3 = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
        return cls(len(values), median, q1, q3, float(np.mean(values)), float(min(values)))

    def to_text(self, *, with_min: bool = False) -> str:
        """Return `median [q1, q3] (min)`, without what is unknown; `-` without values.

        >>> Spread.of([0.5, 0.7]).to_text(with_min=True), Spread(3, 0.5).to_text(), Spread.of([]).to_text()
        ('0.600 [0.550, 0.650] (0.500)', '0.500', '-')
        """
        if isnan(self.median):
            return "-"
        quartiles = "" if isnan(self.q1) else f" [{self.q1:.3f}, {self.q3:.3f}]"
        return f"{self.median:.3f}{quartiles}" + (f" ({self.min:.3f})" if with_min and not isnan(self.min) else "")

    def to_json(self) -> dict[str, Any]:
        """Return plain values; NaN becomes null."""
        return {name: None if isnan(value) else value for name, value in asdict(self).items()}


Authors = Mapping[tuple[str, str, str], Spread]
"""By setting, method and metric."""


@dataclass(frozen=True)
class Summary:
    """One metric of one method on one setting, over seeds."""

    setting: str
    method: str
    budget: str
    sees_deployment_labels: bool
    spread: Spread
    """Over the runs in which the metric is defined."""
    failed: int
    """Runs that ended in an error."""
    undefined: int
    """Runs that ended well but for which the metric cannot be computed."""
    cpu_seconds: float
    """Median over the runs that ended well; NaN without any."""

    @property
    def label(self) -> str:
        """Name for tables and figures: oracles and budgets other than `fast` are marked."""
        mark = f" {ORACLE_MARK}" if self.sees_deployment_labels else ""
        return f"{self.method}{mark}" + ("" if self.budget == "fast" else f" [{self.budget}]")

    @property
    def runs(self) -> str:
        """How many values there are, and what became of the other runs."""
        lost = [f"{n} {what}" for n, what in ((self.failed, "failed"), (self.undefined, "undefined")) if n]
        return f"{self.spread.n}" + (f" ({', '.join(lost)})" if lost else "")


@dataclass(frozen=True)
class Comparison:
    """Ours beside the authors'."""

    ours: Summary
    theirs: Spread | None
    """None where the authors' files have no such cell."""
    verdict: Verdict
    """Of the matching methods: `in or above` the authors' quartiles, or `below` the lower one. Of the others: whether
    the medians agree. Empty where the authors have no such cell."""
    remark: str
    """Why ours differs, or `unexplained`; empty where it does not."""

    def to_json(self) -> dict[str, Any]:
        """Return plain values that `json.dumps` accepts."""
        return {
            "setting": self.ours.setting,
            "method": self.ours.method,
            "budget": self.ours.budget,
            "sees_deployment_labels": self.ours.sees_deployment_labels,
            "ours": self.ours.spread.to_json(),
            "failed": self.ours.failed,
            "undefined": self.ours.undefined,
            "cpu_seconds": None if isnan(self.ours.cpu_seconds) else self.ours.cpu_seconds,
            "authors": None if self.theirs is None else self.theirs.to_json(),
            "verdict": self.verdict,
            "remark": self.remark,
        }


@dataclass(frozen=True)
class Comparisons:
    """Lines of one table."""

    metric: str
    lines: tuple[Comparison, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain values that `json.dumps` accepts."""
        return {"metric": self.metric, "lines": [line.to_json() for line in self.lines]}

    def to_text(self) -> str:
        """Return a plain table; remarks follow their line."""
        if not self.lines:
            return "There is nothing to compare: no row is of a setting and method that the authors published."
        head, *texts = text_table([self._head(), *(_cells(line) for line in self.lines)]).splitlines()
        lines = [f"{self.metric.replace('_', ' ')}: median [quartiles] (minimum) over seeds", head]
        for text, line in zip(texts, self.lines, strict=True):
            lines += [text, *([f"    {line.remark}"] if line.remark else [])]
        return "\n".join([*lines, *([ORACLE_NOTE] if self._has_oracle else [])])

    def to_markdown(self) -> str:
        """Return a table in Markdown with numbered remarks; the setting is a column only if there are several."""
        rows, remarks = self.numbered()
        several = len({line.ours.setting for line in self.lines}) > 1
        parts = [markdown_table([row if several else row[1:] for row in rows])]
        if remarks:
            parts.append("\n".join(f"{number}. {remark}" for number, remark in enumerate(remarks, start=1)))
        return "\n\n".join([*parts, *([ORACLE_NOTE] if self._has_oracle else [])])

    def numbered(self) -> tuple[list[list[str]], list[str]]:
        """Return the table, its head first, in which remarks are numbers, and the remarks."""
        remarks = list(dict.fromkeys(line.remark for line in self.lines if line.remark))
        rows = [[*self._head(), "remark"]]
        for line in self.lines:
            rows.append([*_cells(line), f"({remarks.index(line.remark) + 1})" if line.remark else ""])
        return rows, remarks

    @property
    def _has_oracle(self) -> bool:
        return any(line.ours.sees_deployment_labels for line in self.lines)

    def _head(self) -> list[str]:
        ours = ["setting", "method", "n", self.metric.replace("_", " ")]
        return [*ours, "authors' n", "authors'", "verdict", "CPU seconds"]


def read_authors() -> dict[tuple[str, str, str], Spread]:
    """Return what the authors published, by setting, method and metric; `AUTHORS.md` says where it is from.

    >>> read_authors()["cmnist-sb", "erm", "robust_accuracy"].median
    0.5121
    """
    found: dict[tuple[str, str, str], Spread] = {}
    with files("supportmatch.bench").joinpath("authors.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            for metric, column in _AUTHORS_COLUMNS.items():
                values = {
                    name: float(row.get(f"{column}_{name}") or nan) for name in ("median", "q1", "q3", "mean", "min")
                }
                if not isnan(values["median"]):
                    found[row["setting"], row["method"], metric] = Spread(int(row["n"]), **values)
    return found


def authors_method(method: str) -> str:
    """Return the authors' name of the method that one of ours stands beside."""
    return _AUTHORS_NAMES.get(method, method)


def variants_of(rows: Iterable[Row]) -> dict[Cell, dict[str, list[Row]]]:
    """Group the rows of each cell that differ by seed alone, under a short name of their configuration and data."""
    cells: dict[Cell, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        text = json.dumps([row.get("config"), row.get("data_hash")], sort_keys=True)
        variant = hashlib.sha256(text.encode()).hexdigest()[:6]
        cells[row["setting"], row["method"], row["budget"]][variant].append(row)
    return cells


def leave_out_other_configurations(rows: Iterable[Row]) -> tuple[list[Row], str]:
    """Where a cell has rows of several configurations, keep those of the present one, if there are any.

    Returns:
        The rows to use, without refused runs, and one sentence on those of other configurations; empty without any.
    """
    kept: list[Row] = []
    n_left_out = 0
    mixed, earlier = [], []
    for cell, variants in variants_of(row for row in rows if not is_refused(row)).items():
        own = [row for variant in variants.values() for row in variant]
        wanted = present_configuration(cell)
        present = [row for row in own if wanted is not None and row.get("config") == wanted]
        kept += present or own
        if wanted is not None and not present:
            earlier.append(" ".join(cell))
        if present and len(present) < len(own):
            n_left_out += len(own) - len(present)
            mixed.append(" ".join(cell))
    notes = []
    if mixed:
        notes.append(
            f"{n_left_out} rows of other configurations than the present one are left out: {', '.join(mixed)}."
        )
    if earlier:
        notes.append(f"Only rows of other configurations than the present one: {', '.join(earlier)}.")
    return kept, " ".join(notes)


def present_configuration(cell: Cell) -> Row | None:
    """Return what a row of the cell would have as `config` if it were made now; None if it could not be made."""
    setting, method, budget = cell
    if setting not in SETTINGS or method not in METHODS or budget not in get_args(Budget):
        return None
    configuration = METHODS[method].configuration(SETTINGS[setting], cast(Budget, budget))
    present: Row = json.loads(json.dumps(configuration))  # as rows are read
    return present


def cells_of(rows: Iterable[Row]) -> dict[Cell, list[Row]]:
    """Group rows by setting, method and budget, in the order of tables and figures; refused runs are left out."""
    cells: dict[Cell, list[Row]] = {}
    for cell, variants in variants_of(row for row in rows if not is_refused(row)).items():
        cells[cell] = sorted((row for own in variants.values() for row in own), key=lambda row: int(row["seed"]))
        n_seeds = len({row["seed"] for row in cells[cell]})
        if len(variants) > 1 or n_seeds < len(cells[cell]):
            names = (
                ", ".join(f"{row['config_hash']} (seed {row['seed']})" for row in own) for own in variants.values()
            )
            raise ConfigError(
                f"{', '.join(cell)} has rows of {len(variants)} configurations for {n_seeds} seeds "
                f"({len(cells[cell])} rows), which are not to be mixed: keep one row per seed, all of one "
                f"configuration, and remove the others from `runs/` and `rows.jsonl`: {'; or '.join(names)}."
            )
    settings, methods, budgets = list(SETTINGS), list(METHODS), get_args(Budget)

    def place(cell: Cell) -> tuple[Any, ...]:
        return tuple(_place(order, name) for order, name in zip((settings, methods, budgets), cell, strict=True))

    return {cell: cells[cell] for cell in sorted(cells, key=place)}


def metric_values(rows: Iterable[Row], metric: str) -> list[float]:
    """Return the metric of every row that has it."""
    return [float(row[metric]) for row in rows if not row.get("error") and row.get(metric) is not None]


def median_cpu_seconds(rows: Iterable[Row]) -> float:
    """Return the median work of the runs that ended well: wall time where processor time was not recorded."""
    ended = [row for row in rows if not row.get("error")]
    return Spread.of([float(row["cpu_seconds"] or row["seconds"]) for row in ended]).median


def summarise(rows: Iterable[Row], metric: str) -> list[Summary]:
    """Summarise one metric over seeds, per setting, method and budget."""
    if metric not in OVERALL:
        raise UnknownNameError(f"unknown metric {metric!r}: choose one of {', '.join(OVERALL)}.")
    return [_summarise_cell(cell, own, metric) for cell, own in cells_of(rows).items()]


def _summarise_cell(cell: Cell, rows: Sequence[Row], metric: str) -> Summary:
    values = metric_values(rows, metric)
    failed = sum(bool(row.get("error")) for row in rows)
    return Summary(
        *cell,
        sees_deployment_labels=any(row["sees_deployment_labels"] for row in rows),
        spread=Spread.of(values),
        failed=failed,
        undefined=len(rows) - failed - len(values),
        cpu_seconds=median_cpu_seconds(rows),
    )


def compare_with_authors(
    rows: Iterable[Row], metric: str = "robust_accuracy", authors: Authors | None = None, *, every: bool = False
) -> Comparisons:
    """Set ours beside the authors': one line per cell of theirs that we ran.

    Args:
        rows: What the runs left.
        metric: A metric with published quartiles: `accuracy` or `robust_accuracy`.
        authors: What to compare with; what they published by default.
        every: Whether to list also what the authors have no figure for.
    """
    if metric not in ("accuracy", "robust_accuracy"):
        raise UnknownNameError(
            f"cannot compare {metric!r}: the authors' quartiles are known for accuracy and robust_accuracy; choose one."
        )
    authors = read_authors() if authors is None else authors
    lines = []
    for ours in summarise(rows, metric):
        theirs = authors.get((ours.setting, authors_method(ours.method), metric))
        if theirs is None and not every:
            continue
        verdict = _judge(ours, theirs)
        remark = ""
        if verdict in {"below", "above"}:
            remark = REMARKS.get((ours.setting, ours.method, ours.budget), UNEXPLAINED)
        lines.append(Comparison(ours, theirs, verdict, remark))
    return Comparisons(metric, tuple(lines))


def _judge(ours: Summary, theirs: Spread | None) -> Verdict:
    if theirs is None:
        return ""
    if not ours.spread.n:
        return "no result"
    if ours.budget == "smoke" or ours.failed > ours.spread.n:
        return "not judged"  # a few steps, to see that it runs; or what is left may be the lucky ones
    median = round(ours.spread.median, 4)  # the authors' figures have four digits
    if ours.method.startswith("ours-"):
        return "in or above" if median >= theirs.q1 else "below"
    if round(abs(median - theirs.median), 4) <= AGREEMENT:
        return "agrees"
    return "above" if median > theirs.median else "below"


def medians_markdown(rows: Iterable[Row], metrics: Sequence[str], authors: Authors | None = None) -> str:
    """Return a table of medians, one line per method and one column per metric, the authors' in brackets."""
    authors = read_authors() if authors is None else authors
    rows = list(rows)
    table = [["method", *(metric_title(metric) for metric in metrics)]]
    for cell, own in cells_of(rows).items():
        texts = []
        for metric in metrics:
            ours = _summarise_cell(cell, own, metric).spread.median
            theirs = authors.get((cell[0], authors_method(cell[1]), metric))
            texts.append(("-" if isnan(ours) else f"{ours:.3f}") + (f" ({theirs.median:.3f})" if theirs else ""))
        table.append([_summarise_cell(cell, own, metrics[0]).label, *texts])
    return markdown_table(table)


def clusters_markdown(rows: Iterable[Row]) -> str:
    """Return a table of how well the deployment set was clustered; empty without clustered methods."""
    table = [["method", "n", "accuracy", "recall of missing sources", "clusters with rows", "authors' accuracy"]]
    for cell, own in cells_of(rows).items():
        found = [row["details"]["clustering"] for row in own if clustering_of(row)]
        if not found:
            continue
        mean, deviation = AUTHORS_CLUSTERING.get(cell[0], (nan, nan))
        theirs = "" if isnan(mean) or cell[1] != "ours-rank" else f"{mean:.3f} ± {deviation:.3f}"
        recalls = [part["missing_recall"] for part in found if part.get("missing_recall") is not None]
        table.append(
            [
                _summarise_cell(cell, own, "accuracy").label,
                str(len(found)),
                Spread.of([part["accuracy"] for part in found]).to_text(with_min=True),
                Spread.of(recalls).to_text(with_min=True),
                ", ".join(map(str, sorted({len(part["sizes"]) for part in found}))),
                theirs,
            ]
        )
    return markdown_table(table) if len(table) > 1 else ""


def clustering_of(row: Row) -> Mapping[str, Any] | None:
    """Return how well the run clustered the deployment set, or None if it did not."""
    found: Mapping[str, Any] | None = (row.get("details") or {}).get("clustering")
    return found or None


def metric_title(metric: str) -> str:
    """Return a short name for people.

    >>> metric_title("robust_accuracy"), metric_title("tpr_ratio"), metric_title("positive_rate_difference")
    ('robust accuracy', 'TPR ratio', 'PR difference')
    """
    words = metric.replace("positive_rate", "PR").replace("tpr", "TPR").replace("tnr", "TNR").replace("hgr", "HGR")
    return words.replace("_", " ")


def shown_metrics(setting: str) -> tuple[str, ...]:
    """Return the metrics that are shown for a setting: with more than two subgroups also the largest differences."""
    binary = setting not in SETTINGS or len(SETTINGS[setting].subgroup_names) == 2
    return tuple(metric for metric in OVERALL if not (binary and metric.endswith("_difference")))


def text_table(rows: Sequence[Sequence[object]]) -> str:
    """Return columns that line up, also when they do not go to a terminal.

    >>> print(text_table([["method", "n"], ["erm", 30]]))
    method  n
    erm     30
    """
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown; the first row is its head.

    >>> print(markdown_table([["a", "b"], ["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])


def _cells(line: Comparison) -> list[str]:
    ours, theirs = line.ours, line.theirs
    return [
        ours.setting,
        ours.label,
        ours.runs,
        ours.spread.to_text(with_min=True),
        str(theirs.n) if theirs else "-",
        theirs.to_text() if theirs else "-",
        line.verdict,
        "-" if isnan(ours.cpu_seconds) else f"{ours.cpu_seconds:.0f}",
    ]


def _place(order: Sequence[str], name: str) -> tuple[int, str]:
    return (order.index(name) if name in order else len(order), name)
