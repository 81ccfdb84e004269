"""What files show before anything is trained: sources, columns, leaks, drift, and the command to go on with.

It loads neither pandas nor torch, so that it answers at once.
"""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from supportmatch.audit import SourceAudit, audit_counts
from supportmatch.data.columns import (
    Choices,
    Column,
    ColumnPlan,
    Labels,
    Roles,
    did_you_mean,
    plan_columns,
    read_labels,
)
from supportmatch.data.files import MISSING_MARKS, TableFile, as_numbers, names_of, open_table, take_rows
from supportmatch.errors import ConfigError, TableFileError
from supportmatch.sources import Ids

LEAK = 0.95
"""A column that explains this share of what the most frequent name leaves open looks like the label or subgroup."""
DRIFT = 0.5
"""Total variation between training and deployment, over a column's values, from which drift is reported."""

_BINS, _ROWS_FOR_BINS = 50, 100_000


@dataclass(frozen=True)
class TableAudit:
    """The audit of a training file and, if there is one, a deployment file."""

    sources: SourceAudit
    plan: ColumnPlan | None
    """What becomes of the columns; None for images."""
    findings: tuple[str, ...]
    """What else the user should know: differing columns, leaks, drift, rows left out."""
    command: str
    """The exact command to go on with; empty if there is nothing to match."""

    @property
    def exit_code(self) -> int:
        """0 if training shows every source, 3 if some are missing."""
        return 3 if self.sources.missing else 0

    def to_json(self) -> dict[str, Any]:
        """Return plain values that `json.dumps` accepts."""
        return {
            **self.sources.to_json(),
            "columns": [asdict(column) for column in self.plan.columns] if self.plan else [],
            "findings": list(self.findings),
            "next_command": self.command,
        }

    def to_text(self) -> str:
        """Return everything as text for a terminal."""
        parts = [self.sources.to_text()]
        if self.plan:
            parts.append(f"Columns\n{self.plan.to_text()}")
        if self.findings:
            bullets = (fill(text, 100, initial_indent="- ", subsequent_indent="  ") for text in self.findings)
            parts.append("\n".join(["Worth a look", *bullets]))
        if self.command:
            parts.append(f"Go on with\n  {self.command}")
        return "\n\n".join(parts)


@dataclass(frozen=True)
class TableSource:
    """Where a user's rows are and how to read them: what `audit` and `fit` have in common."""

    train: Path
    roles: Roles
    deploy: Path | None = None
    subgroup_names: tuple[tuple[str, ...] | None, ...] | None = None
    """Declared values of each subgroup column."""
    choices: Choices = field(default_factory=Choices)
    missing_marks: tuple[str, ...] = MISSING_MARKS
    file_column: str | None = None
    """For images: the column with file names, which is then the only feature."""

    def open(self) -> TablePair:
        """Read both files and the labels."""
        train_file = open_table(self.train, self.missing_marks)
        self.roles.check(train_file.names, str(self.train))
        deploy_file = None
        if self.deploy is not None:
            deploy_file = open_table(self.deploy, self.missing_marks)
            if self.deploy.resolve() == self.train.resolve():
                raise ConfigError(
                    f"{self.train} is given both as training and as deployment file: the deployment file must hold "
                    "other rows, from where the model will be used."
                )
        train = train_file.read()
        labels = read_labels(train, self.roles, str(self.train), subgroup_names=self.subgroup_names)
        if labels.n_without:
            train = take_rows(train, labels.rows)
        deploy = deploy_file.read() if deploy_file else None
        return TablePair(self, train_file, train, labels, deploy_file, deploy)


@dataclass(frozen=True, eq=False)
class TablePair:
    """Both files in memory."""

    source: TableSource
    train_file: TableFile
    train: pa.Table
    """The training rows that have a label and a subgroup."""
    labels: Labels
    deploy_file: TableFile | None
    deploy: pa.Table | None
    """All columns of the deployment file: also those that must not be used."""

    @property
    def features_of_deploy(self) -> pa.Table | None:
        """The deployment rows without label and subgroup columns, should the file have any."""
        if self.deploy is None:
            return None
        return self.deploy.drop_columns([n for n in self.source.roles.columns if n in self.deploy.column_names])

    def plan(self) -> ColumnPlan | None:
        """Find out what becomes of the columns; None for images."""
        if self.source.file_column is not None:
            for path, table in ((self.source.train, self.train), (self.source.deploy, self.deploy)):
                if table is not None and self.source.file_column not in table.column_names:
                    raise TableFileError(
                        f"{path} has no column {self.source.file_column!r} with the names of the pictures: its columns "
                        f"are {', '.join(table.column_names)}."
                        f"{did_you_mean(self.source.file_column, table.column_names)}"
                    )
            return None
        return plan_columns(self.train, self.features_of_deploy, self.source.roles, self.source.choices)

    def audit(self, options: Sequence[str] | None = None) -> TableAudit:
        """Judge sources and columns.

        Args:
            options: What names files and columns, to be repeated in the next command; without them there is none.
        """
        plan = self.plan()
        counts = self.labels.grid.count(self.labels.y, self.labels.s)
        n_deploy = None if self.deploy is None else self.deploy.num_rows
        sources = audit_counts(counts, self.labels.grid, n_deploy)
        findings = [*self.label_findings(), *(_column_findings(self, plan) if plan else [])]
        return TableAudit(sources, plan, tuple(findings), self._next_command(sources, options))

    def label_findings(self) -> list[str]:
        """Say which rows lack labels, and which labels of deployment rows are not used."""
        found, roles = [], self.source.roles
        if self.labels.n_without:
            found.append(
                f"{self.labels.n_without} training rows have no {roles.label} or no {' or '.join(roles.subgroup)} and "
                "are left out."
            )
        if self.deploy is None:
            return found
        for name in roles.columns:
            if name in self.deploy.column_names:
                what = "label" if name == roles.label else "subgroup"
                found.append(
                    f"The deployment file has the {what} column {name}, which is not used. (To measure a model on "
                    "labelled rows, pass them to `supportmatch evaluate`.)"
                )
        return found

    def _next_command(self, sources: SourceAudit, given: Sequence[str] | None) -> str:
        if not sources.missing or given is None:
            return ""
        options = list(given)
        if self.source.subgroup_names is None:
            options += _declare(self.source.roles, self.labels)
        if self.source.deploy is None:
            options += ["--deploy", "DEPLOY.csv"]
        return shlex.join(["supportmatch", "fit", str(self.source.train), *options, "--out", "model"])


def _declare(roles: Roles, labels: Labels) -> list[str]:
    """Return the option that declares the subgroups as they were found."""
    if len(roles.subgroup) > 1:
        return []
    return ["--subgroups", join_names(map(str, labels.grid.subgroups))]


def join_names(names: Iterable[str]) -> str:
    """Write names as an option takes them: with commas between them, in quotes where they hold one.

    >>> join_names(["Male", "Doe, Jane"])
    'Male,"Doe, Jane"'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(names)
    return text.getvalue()


def _column_findings(pair: TablePair, plan: ColumnPlan) -> list[str]:
    found = [
        f"Column {column.name} is {column.note}, so it is dropped."
        for column in plan.columns
        if column.note.startswith("not in the")
    ]
    for column in plan.features:
        train = pair.train[column.name]
        deploy = None if pair.deploy is None else pair.deploy[column.name]
        bins, deploy_bins, names = _bin(column, train, deploy)
        found += _leaks(pair, column, bins)
        if deploy is not None and deploy_bins is not None:
            found += _drift(column, train, deploy, bins, deploy_bins, names)
    return found


def _bin(
    column: Column, train: pa.ChunkedArray, deploy: pa.ChunkedArray | None
) -> tuple[Ids, Ids | None, list[str] | None]:
    """Return the values of both sets as small ids (0 for missing), and what they stand for if they are categories."""
    if column.kind == "numeric":
        values = [_floats(part) for part in (train, deploy) if part is not None]
        some = values[0][:: max(1, len(values[0]) // _ROWS_FOR_BINS)]
        known = some[~np.isnan(some)]
        edges = np.unique(np.quantile(known, np.linspace(0, 1, _BINS + 1)[1:-1])) if len(known) else np.array([])
        ids = [np.where(np.isnan(part), 0, np.searchsorted(edges, part, side="right") + 1) for part in values]
        return ids[0], ids[1] if deploy is not None else None, None
    named = names_of(*(part for part in (train, deploy) if part is not None))
    found = named.ids + 1
    return found[: len(train)], found[len(train) :] if deploy is not None else None, list(named.names)


def _leaks(pair: TablePair, column: Column, bins: Ids) -> list[str]:
    """Say whether a column tells the label, or the subgroup, nearly without error.

    The label is judged within subgroups and the reverse, because in training each tells something of the other.
    """
    labels, grid, roles = pair.labels, pair.labels.grid, pair.source.roles
    sources = grid.source_ids(labels.y, labels.s)
    joint = np.bincount(bins * grid.n_sources + sources, minlength=(int(bins.max()) + 1) * grid.n_sources)
    joint = joint.reshape(-1, grid.n_classes, grid.n_subgroups)
    if np.count_nonzero(joint.any(axis=(1, 2))) > len(bins) / 5:  # then nearly every bin has a row or two
        return []
    found = []
    if _explained(joint) >= LEAK:
        found.append(
            f"Column {column.name} tells the label nearly without error: if it is a copy of {roles.label}, or comes "
            f"after it in time, leave it out with --drop {shlex.quote(column.name)}."
        )
    if _explained(joint.transpose(0, 2, 1)) >= LEAK:
        found.append(
            f"Column {column.name} tells the subgroup nearly without error: if it is a copy of "
            f"{' or '.join(roles.subgroup)}, consider --drop {shlex.quote(column.name)}."
        )
    return found


def _explained(joint: NDArray[np.int64]) -> float:
    """Return which share of the errors of guessing the most frequent name vanishes when the bin is known.

    Args:
        joint: How many rows there are of each bin, name, and group within which names are guessed.
    """
    guessed = joint.sum(axis=0).max(axis=0)
    errors = int((joint.sum(axis=(0, 1)) - guessed).sum())
    right = int((joint.max(axis=1).sum(axis=0) - guessed).sum())
    return right / errors if errors else 0.0


def _drift(
    column: Column,
    train: pa.ChunkedArray,
    deploy: pa.ChunkedArray,
    bins: Ids,
    deploy_bins: Ids,
    names: list[str] | None,
) -> list[str]:
    """Say where the two files differ more than missing sources are likely to explain."""
    n = max(bins.max(), deploy_bins.max()) + 1
    before, after = (np.bincount(ids, minlength=n) / len(ids) for ids in (bins, deploy_bins))
    if abs(before[0] - after[0]) > 0.3:
        return [
            f"Column {column.name} has no value in {before[0]:.0%} of the training rows but in {after[0]:.0%} of the "
            "deployment rows: were both collected in the same way?"
        ]
    if names is None:
        known, known_after = (part[~np.isnan(part)] for part in map(_floats, (train, deploy)))
        if not len(known) or not len(known_after):
            return []
        outside = float(np.mean((known_after < known.min()) | (known_after > known.max())))
        if outside > DRIFT:
            low, high = np.quantile(known, [0.01, 0.99])
            return [
                f"Column {column.name} lies between {low:g} and {high:g} in training, but {outside:.0%} of the "
                "deployment rows are outside of all training values: is it in another unit?"
            ]
    else:
        new = [name for name, b, a in zip(names, before[1:], after[1:], strict=True) if not b and a]
        share = float(after[1:][before[1:] == 0].sum())
        if share > DRIFT:
            return [
                f"Column {column.name} holds values in {share:.0%} of the deployment rows that training never has "
                f"({', '.join(new[:3])}): are they written differently?"
            ]
    distance = float(np.abs(before - after).sum() / 2)
    # Of many values small samples differ much by chance alone.
    if distance > DRIFT and n <= min(len(bins), len(deploy_bins)) / 10:
        return [
            f"Column {column.name} is distributed very differently in the two files (total variation {distance:.2f}): "
            "missing sources may explain it, but another origin of the rows would as well."
        ]
    return []


def _floats(column: pa.ChunkedArray) -> NDArray[np.float64]:
    numbers = as_numbers(column)
    assert numbers is not None  # the plan says that the column is numeric
    return np.asarray(pc.fill_null(numbers, float("nan")).to_numpy(), np.float64)
