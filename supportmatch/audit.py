"""What the labels show before anything is trained: which sources are missing, and what can be told without them.

The verdict treats the sources seen in training as a graph: classes on one side, subgroups on the other, an edge for
every source with rows. How far labels reach beyond those sources follows from its shape:

- Every source is seen, or all missing sources belong to one class: `identified`. Deployment rows that resemble no seen
  source can then only be of that class, and the other classes show what the subgroups look like.
- The graph is connected: `identified if separable`. As in a two-way layout without interaction, the effects of class
  and subgroup can be told apart from a connected design, provided they act separately on the features.
- The graph falls apart, or a subgroup has no training row at all: `not identified`. Other readings of the deployment
  set fit the labels equally well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from supportmatch.errors import MissingClassError
from supportmatch.metrics import hgr_of_counts, normalised_mutual_information
from supportmatch.sources import Ids, SourceGrid, Support

if TYPE_CHECKING:
    from supportmatch.data.containers import Labeled, Unlabeled

Setting = Literal["complete", "subgroup bias", "missing subgroup"]
Identifiability = Literal["identified", "identified if separable", "not identified"]

FEW_TRAINING_ROWS = 20
"""A seen source with fewer training rows is warned about."""
FEW_DEPLOYMENT_ROWS = 50
"""A deployment set with fewer rows per declared source is warned about."""
HEAVY_IMBALANCE = 10
"""A class this many times larger than another is warned about."""


@dataclass(frozen=True)
class SourceAudit:
    """Which sources training has seen, and what follows."""

    grid: SourceGrid
    counts: tuple[tuple[int, ...], ...]
    """Training rows per source, classes x subgroups."""
    n_train: int
    n_deploy: int | None
    """Deployment rows; None if no deployment set was given."""
    missing: tuple[str, ...]
    """Names of the sources without training rows, `class/subgroup`."""
    setting: Setting
    """`missing subgroup`: a declared subgroup has no training row. `subgroup bias`: sources are missing otherwise."""
    hgr: float
    """Maximal correlation of class and subgroup in training; 0.0 if training has only one subgroup."""
    nmi: float
    """Mutual information of class and subgroup in training over the mean of their entropies, between 0 and 1."""
    identifiability: Identifiability
    """Whether labels and deployment set together determine the classes within the missing sources."""
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    next_step: str

    def to_json(self) -> dict[str, Any]:
        """Return plain values that `json.dumps` accepts."""
        return {
            "classes": list(self.grid.classes),
            "subgroups": list(self.grid.subgroups),
            "counts": [list(row) for row in self.counts],
            "n_train": self.n_train,
            "n_deploy": self.n_deploy,
            "missing": list(self.missing),
            "setting": self.setting,
            "hgr": self.hgr,
            "nmi": self.nmi,
            "identifiability": self.identifiability,
            "reasons": list(self.reasons),
            "warnings": list(self.warnings),
            "next_step": self.next_step,
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> SourceAudit:
        """Read what `to_json` returned."""
        grid = SourceGrid(tuple(values["classes"]), tuple(values["subgroups"]))
        others = {name: value for name, value in values.items() if name not in ("classes", "subgroups")}
        frozen = {name: tuple(value) for name, value in others.items() if isinstance(value, list)}
        counts = tuple(tuple(row) for row in values["counts"])
        return cls(**{**others, **frozen, "grid": grid, "counts": counts})

    def to_text(self) -> str:
        """Return the table of counts, with missing sources marked, and the verdict in words."""
        table = [["", *map(str, self.grid.subgroups)]]
        for name, row in zip(self.grid.classes, self.counts, strict=True):
            table.append([str(name), *(str(n) if n else "MISSING" for n in row)])
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        n_deploy = "no deployment set" if self.n_deploy is None else f"{self.n_deploy} deployment rows"
        lines = [
            f"{self.n_train} training rows by class (down) and subgroup (across); {n_deploy}",
            *(
                "  ".join(
                    [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]
                )
                for row in table
            ),
            f"Setting: {self.setting} ({len(self.missing)} of {self.grid.n_sources} sources missing)",
            f"Dependence of class and subgroup in training (0 none, 1 full): HGR {self.hgr:.2f}, "
            f"normalised mutual information {self.nmi:.2f}",
            f"Verdict: {self.identifiability}",
            *(_bullet(reason) for reason in self.reasons),
        ]
        if self.warnings:
            lines += ["Warnings", *(_bullet(warning) for warning in self.warnings)]
        return "\n".join([*lines, fill(f"Next: {self.next_step}", 100)])


def audit_sources(train: Labeled, deploy: Unlabeled | None = None) -> SourceAudit:
    """Tell which sources training lacks, which setting that makes, and what can be identified.

    The deployment set has no labels, so that it contains the missing sources is an assumption no audit can check.

    >>> from supportmatch import Labeled
    >>> grid = SourceGrid(classes=(2, 4), subgroups=("purple", "green"))
    >>> y, s = np.array([0, 0, 1]), np.array([0, 1, 1])
    >>> audit = audit_sources(Labeled(np.zeros((3, 1)), y=y, s=s, grid=grid))
    >>> audit.setting, audit.missing, audit.identifiability
    ('subgroup bias', ('4/purple',), 'identified')
    """
    return audit_counts(train.counts, train.grid, None if deploy is None else len(deploy))


def audit_counts(counts: Ids, grid: SourceGrid, n_deploy: int | None = None) -> SourceAudit:
    """Tell the same from the number of training rows in each source, classes x subgroups."""
    support = Support.of_counts(grid, counts)
    absent = np.flatnonzero(~support.table.any(axis=1))
    if len(absent):
        raise MissingClassError(
            f"training has no rows of class {_list(grid.classes[y] for y in absent)}. Missing *subgroups* can be "
            "recovered from deployment data, missing *classes* cannot: add labels for them or do not declare them."
        )
    setting: Setting = "complete"
    if support.missing_sources:
        setting = "missing subgroup" if support.missing_subgroups else "subgroup bias"
    verdict, reasons, next_step = _judge(support)
    if support.missing_sources and n_deploy is None:
        next_step = f"Collect unlabelled rows in which the missing sources occur. Then: {next_step}"
    return SourceAudit(
        grid=grid,
        counts=tuple(tuple(row) for row in counts.tolist()),
        n_train=int(counts.sum()),
        n_deploy=n_deploy,
        missing=tuple(map(grid.source_name, support.missing_sources)),
        setting=setting,
        hgr=hgr_of_counts(counts),
        nmi=normalised_mutual_information(counts),
        identifiability=verdict,
        reasons=reasons,
        warnings=_warn(counts, support, n_deploy),
        next_step=next_step,
    )


def _judge(support: Support) -> tuple[Identifiability, tuple[str, ...], str]:
    """Return verdict, reasons and next step."""
    grid, table = support.grid, support.table
    missing = _list(map(grid.source_name, support.missing_sources))
    incomplete = [y for y in range(grid.n_classes) if not support.is_complete_class(y)]
    anchors = [grid.classes[y] for y in range(grid.n_classes) if support.is_complete_class(y)]
    measure = f"measure the accuracy in each source on some labelled rows that include {missing}"
    anchored = f"Training shows class {_list(anchors)} with every subgroup, and so which variation is the subgroup."

    if not incomplete:
        reason = "Training shows every class with every subgroup, so labels alone tell both apart in every source."
        step = (
            "Train ordinarily: there is no missing source to match. If class and subgroup depend on each other, weight "
            "the sources equally, and measure the accuracy in each."
        )
        return "identified", (reason,), step

    if len(incomplete) == 1:
        eliminated = (
            f"All missing sources are of class {grid.classes[incomplete[0]]}, so deployment rows that resemble no seen "
            "source can only be of that class. This presumes that the missing sources occur in the deployment set and "
            "can be told from the seen ones by their features."
        )
        return "identified", (anchored, eliminated), f"Match the supports with the deployment set, then {measure}."

    parts = _connected_parts(support)
    reasons: list[str] = []
    step = ""
    if len(parts) > 1:
        described = "; ".join(
            f"class {_list(grid.classes[y] for y in part)} with subgroup "
            f"{_list(grid.subgroups[s] for s in np.flatnonzero(table[part].any(axis=0)))}"
            for part in parts
        )
        reasons.append(
            f"The seen sources fall into {len(parts)} parts that share no class and no subgroup ({described}). Between "
            "the parts class and subgroup are confounded: from the labels, either can explain any difference in the "
            "features. Do not trust predictions for the missing sources."
        )
        links = [_link(support, parts[0], part) for part in parts[1:]]
        step = f"Label some rows of {_list(links)}, which would link the parts, and audit again. "
    if support.missing_subgroups:
        unseen = _list(grid.subgroups[s] for s in support.missing_subgroups)
        reasons.append(
            f"Training has no row of subgroup {unseen}, so neither labels nor deployment set determine which class is "
            "which in there: an 'unnatural' solution that swaps classes within an unseen subgroup fits equally well. "
            "Only the preference of networks for simple solutions decides between them."
        )
        step += (
            f"Label some rows of subgroup {unseen} if at all possible. If not, match the supports with several seeds, "
            f"do not rely on agreement between them, and before any use {measure}."
        )
    if reasons:
        return "not identified", tuple(reasons), step.strip()

    if anchors:
        reasons.append(anchored)
    else:
        reasons.append(
            "Training shows no class with every subgroup, but the seen sources are linked: one can go from any class "
            "to any subgroup through sources that share a class or a subgroup."
        )
    reasons.append(
        f"Missing sources belong to {len(incomplete)} classes ({missing}), so unfamiliar deployment rows could be of "
        "any of these. They are told apart only if class and subgroup act separately on the features (no interaction), "
        "so that what a subgroup looks like in one class carries over to another."
    )
    step = f"Match the supports with the deployment set, then {measure}: that tests whether separability holds."
    return "identified if separable", tuple(reasons), step


def _connected_parts(support: Support) -> list[list[int]]:
    """Return the classes of each connected part of the graph of seen sources."""
    reach = support.table @ support.table.T  # classes that share a subgroup
    for _ in range(support.grid.n_classes.bit_length()):  # each doubles how far one can go
        reach = reach @ reach
    return [list(part) for part in sorted({tuple(np.flatnonzero(row).tolist()) for row in reach})]


def _link(support: Support, one: list[int], other: list[int]) -> str:
    """Return a missing source that would join two parts."""
    subgroup = int(np.flatnonzero(support.table[one].any(axis=0))[0])
    return support.grid.source_name(other[0] * support.grid.n_subgroups + subgroup)


def _warn(counts: Ids, support: Support, n_deploy: int | None) -> tuple[str, ...]:
    """Return what the user should know although it does not change the verdict."""
    grid, warnings = support.grid, []
    few = [i for i in support.seen_sources if counts.flat[i] < FEW_TRAINING_ROWS]
    if few:
        listed = _list(f"{grid.source_name(i)} ({counts.flat[i]})" for i in few)
        warnings.append(
            f"Fewer than {FEW_TRAINING_ROWS} training rows: {listed}. They count as seen, but show little of the "
            "source; check that they are not labelling errors."
        )
    of_class = counts.sum(axis=1)
    if of_class.max() >= HEAVY_IMBALANCE * of_class.min():
        large, small = int(of_class.argmax()), int(of_class.argmin())
        warnings.append(
            f"Class {grid.classes[large]} has {of_class[large]} training rows, class {grid.classes[small]} only "
            f"{of_class[small]}: read the accuracy in each source, not the overall accuracy."
        )
    if np.count_nonzero(counts.any(axis=0)) == 1:
        warnings.append(
            "Training has only one subgroup: its dependence on the class cannot be seen (0 is a definition here), and "
            "labels say nothing about what a subgroup looks like."
        )
    if n_deploy is not None and n_deploy < FEW_DEPLOYMENT_ROWS * grid.n_sources:
        warnings.append(
            f"The deployment set has {n_deploy} rows for {grid.n_sources} declared sources; with fewer than "
            f"{FEW_DEPLOYMENT_ROWS} per source, a missing source may be too rare to be found."
        )
    return tuple(warnings)


def _list(names: Iterable[object]) -> str:
    return ", ".join(map(str, names))


def _bullet(text: str) -> str:
    return fill(text, 100, initial_indent="- ", subsequent_indent="  ")
