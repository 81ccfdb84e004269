"""The command `supportmatch bench`. Heavy libraries are imported inside commands, so that `--help` answers at once."""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from supportmatch.errors import ConfigError, UnknownNameError

if TYPE_CHECKING:
    from supportmatch.bench.executors import Executor
    from supportmatch.bench.runner import Listener
    from supportmatch.bench.runs import Run
    from supportmatch.bench.store import Row, Store

app = typer.Typer(help="Repeat the experiments: settings x methods x seeds, resumable.", no_args_is_help=True)


class BudgetName(str, Enum):
    """How much training a run gets."""

    FAST = "fast"
    PAPER = "paper"
    SMOKE = "smoke"


class ExecutorName(str, Enum):
    """Where runs are executed."""

    LOCAL = "local"
    RAY = "ray"


class ComparedMetric(str, Enum):
    """Metrics whose quartiles the authors published."""

    ROBUST_ACCURACY = "robust_accuracy"
    ACCURACY = "accuracy"


Out = Annotated[Path, typer.Option("--out", help="Folder of the results.", show_default=False)]
Settings = Annotated[
    list[str], typer.Option("--setting", help='Settings, repeatable or with commas, or "all" that need no folder.')
]
Methods = Annotated[list[str], typer.Option("--methods", help='Methods, repeatable or with commas, or "all".')]
Seeds = Annotated[str, typer.Option("--seeds", help="Seeds, like 0-29 or 0,3,5-7.")]
Budget = Annotated[BudgetName, typer.Option("--budget", help="Smoke is a few steps, to see that everything runs.")]
Data = Annotated[
    Path | None, typer.Option("--data", resolve_path=True, help="Folder of data that is not embedded (CelebA).")
]
OnlySettings = Annotated[list[str] | None, typer.Option("--setting", help="Only these, repeatable or with commas.")]
OnlyMethods = Annotated[list[str] | None, typer.Option("--methods", help="Only these, repeatable or with commas.")]


@app.command()
def run(
    setting: Settings,
    methods: Methods,
    seeds: Seeds,
    out: Out,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Runs at a time: 1, or what the Ray cluster holds.")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Of each run: cores // workers, or 1 on Ray.")] = None,
    budget: Budget = BudgetName.FAST,
    data: Data = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Do failed runs again.")] = False,
    executor: Annotated[ExecutorName, typer.Option(help="Where runs are executed.")] = ExecutorName.LOCAL,
    address: Annotated[str | None, typer.Option(help="Address of a running Ray cluster, like host:6379.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Report nothing but mistakes.")] = False,
) -> None:
    """Do every run that has no row yet; the exit code is 1 if some failed. The same command resumes a stopped one."""
    from supportmatch.bench.runner import sweep
    from supportmatch.bench.runs import is_failed, is_refused
    from supportmatch.bench.store import Store

    if address is not None and executor is not ExecutorName.RAY:
        raise ConfigError("`--address` is of use only with `--executor ray`: add it, or leave the address out.")
    runs = _select(setting, methods, seeds, budget, data)
    store = Store(out)
    try:
        with _announcer(quiet) as listen, _make_executor(executor, workers, threads, address) as chosen:
            rows = sweep(runs, store, chosen, retry_failed=retry_failed, listen=listen)
    except KeyboardInterrupt:
        typer.echo("supportmatch: stopped; finished runs are kept, and the same command does the rest.", err=True)
        raise typer.Exit(130) from None
    n_failed, n_refused = sum(map(is_failed, rows)), sum(map(is_refused, rows))
    if not quiet:
        fine = len(rows) - n_failed - n_refused
        typer.echo(f"{len(rows)} runs in {out}: {fine} done, {n_refused} refused, {n_failed} failed.", err=True)
        if n_failed:
            typer.echo(
                "The `error` of each is in `supportmatch bench table --json`; its folder has a traceback.", err=True
            )
    if n_failed:
        raise typer.Exit(1)


@app.command()
def status(
    out: Out,
    setting: Settings = ["all"],  # noqa: B006  # typer makes a list of its own
    methods: Methods = ["all"],  # noqa: B006
    seeds: Seeds = "0-29",
    budget: Budget = BudgetName.FAST,
    data: Data = None,
) -> None:
    """Count, for each setting and method, which runs are done, failed, refused, running or missing."""
    from supportmatch.bench.store import Store

    store = Store(out)
    counts: dict[tuple[str, str], dict[str, int]] = {}
    states = ("done", "failed", "refused", "running", "missing")
    for one in _select(setting, methods, seeds, budget, data):
        own = counts.setdefault((one.spec.setting, one.spec.method), dict.fromkeys(states, 0))
        own[_state(store, one)] += 1
    _show(["setting", "method", *states], ([*names, *own.values()] for names, own in counts.items()))


@app.command()
def table(
    out: Out,
    setting: OnlySettings = None,
    methods: OnlyMethods = None,
    metric: Annotated[str, typer.Option(help="The score to summarise.")] = "robust_accuracy",
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as one JSON list and nothing else.")] = False,
    full: Annotated[bool, typer.Option("--full", help="With --json: keep each run's configuration.")] = False,
) -> None:
    """Show the results: for each setting and method the median [quartiles] (minimum) over seeds."""
    from supportmatch.bench.compare import ORACLE_NOTE
    from supportmatch.metrics import OVERALL

    if metric not in OVERALL:
        raise UnknownNameError(f"unknown metric {metric!r}: choose one of {', '.join(OVERALL)}.")
    rows = find_rows(out, setting, methods)
    if as_json:
        typer.echo(json.dumps([row if full else _without_config(row) for row in rows]))
        return
    header = ["setting", "method", "budget", "config", "n", f"{metric}: median [q1, q3] (min)", "seconds", "failed"]
    _show(header, [_summarise(own, metric) for own in _by_variant(rows)])
    if any(row["sees_deployment_labels"] for row in rows):
        typer.echo(ORACLE_NOTE)


@app.command()
def pack(out: Out) -> None:
    """Gather all rows into one file, rows.jsonl, to keep them without their folders."""
    from supportmatch.bench.store import PACKED, Store

    find_rows(out)
    typer.echo(f"{Store(out).pack()} rows are in {out / PACKED}")


@app.command()
def plot(
    out: Out,
    figures: Annotated[Path, typer.Option("--figures", help="Folder for the figures.", show_default=False)],
    setting: OnlySettings = None,
    methods: OnlyMethods = None,
    kind: Annotated[list[str] | None, typer.Option("--kind", help="Only these kinds of figure, repeatable.")] = None,
) -> None:
    """Draw the results: boxes, clusters, curves, representation, reconstructions and attention."""
    from supportmatch.bench.figures import KINDS, plot_all
    from supportmatch.bench.store import Store

    rows, store = find_rows(out, setting, methods), Store(out)
    folders = {row["config_hash"]: store.run_folder(row["config_hash"]) for row in rows}
    for written in plot_all(rows, folders, figures, kind or KINDS):
        typer.echo(f"{written.path}: {written.alt}")


@app.command()
def compare(
    out: Out,
    setting: OnlySettings = None,
    methods: OnlyMethods = None,
    metric: Annotated[ComparedMetric, typer.Option(help="The score to compare.")] = ComparedMetric.ROBUST_ACCURACY,
    every: Annotated[bool, typer.Option("--all", help="List also what the authors have no figure for.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Set the results beside those that the paper's authors published, and say where they differ and why."""
    from supportmatch.bench.compare import compare_with_authors

    found = compare_with_authors(find_rows(out, setting, methods), metric.value, every=every)
    typer.echo(json.dumps(found.to_json()) if as_json else found.to_text())


def find_rows(out: Path, settings: list[str] | None = None, methods: list[str] | None = None) -> list[Row]:
    """Return the rows in a folder, of the named settings and methods only if some are named."""
    from supportmatch.bench.store import Store

    rows = Store(out).rows()
    if not rows:
        raise ConfigError(f"there are no results in {out}: make some with `supportmatch bench run --out {out}`.")
    for what, names in (("setting", settings), ("method", methods)):
        if names:
            known = sorted({row[what] for row in rows})
            chosen = _split(names)
            for name in chosen:
                if name not in known:
                    raise UnknownNameError(f"no results of {what} {name!r} in {out}: there are {', '.join(known)}.")
            rows = [row for row in rows if row[what] in chosen]
    return rows


def _select(settings: list[str], methods: list[str], seeds: str, budget: BudgetName, data: Path | None) -> list[Run]:
    """Return the runs that the options name; a mistake in any of them is raised before anything runs."""
    from supportmatch.bench.methods import METHODS, find_method
    from supportmatch.bench.runs import parse_seeds, plan_runs
    from supportmatch.data.problems import SETTINGS, find_setting

    embedded = [name for name, known in SETTINGS.items() if not known.needs_folder]
    return plan_runs(
        [find_setting(name) for name in _split(settings, everything=embedded)],
        [find_method(name) for name in _split(methods, everything=METHODS)],
        parse_seeds(seeds),
        budget=budget.value,
        folder=data,
    )


def _split(names: Sequence[str], everything: Iterable[str] = ()) -> list[str]:
    """Return each name once, in the order given; "all" stands for everything."""
    single = [part.strip() for name in names for part in name.split(",")]
    return list(dict.fromkeys(known for name in single for known in (everything if name == "all" else [name])))


def _make_executor(name: ExecutorName, workers: int | None, threads: int | None, address: str | None) -> Executor:
    from supportmatch.bench.executors import LocalExecutor, RayExecutor

    if name is ExecutorName.RAY:
        return RayExecutor(address, workers, threads or 1)
    workers = workers or 1
    return LocalExecutor(workers, threads or max(1, (os.cpu_count() or 1) // workers))


@contextmanager
def _announcer(quiet: bool) -> Iterator[Listener]:
    """Yield who hears of finished runs: a bar with time left on a terminal, otherwise one line per run."""
    from supportmatch.bench.runner import ignore
    from supportmatch.progress import progress_bar

    if quiet:
        yield ignore
    elif sys.stderr.isatty():
        with progress_bar("runs", enabled=True) as report:
            yield lambda row, done, total: report(done, total)
    else:
        yield _announce


def _announce(row: Row, done: int, total: int) -> None:
    score, error = row["robust_accuracy"], row["error"]
    said = error if error is not None else f"robust accuracy {'undefined' if score is None else f'{score:.4f}'}"
    took = "" if row["seconds"] is None else f" ({row['seconds']:.1f} s)"
    typer.echo(f"[{done}/{total}] {row['setting']} {row['method']} seed {row['seed']}: {said}{took}", err=True)


def _state(store: Store, one: Run) -> str:
    from supportmatch.bench.runs import is_failed, is_refused

    row = store.find(one.spec.config_hash)
    if row is None:
        return "running" if store.is_running(one.spec.config_hash) else "missing"
    return "failed" if is_failed(row) else "refused" if is_refused(row) else "done"


def _without_config(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != "config"}


def _by_variant(rows: list[Row]) -> Iterable[list[Row]]:
    """Group rows that differ by seed alone: other configurations, data or budgets are not to be averaged."""
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["setting"], row["method"], row["budget"], _variant(row)].append(row)
    return groups.values()


def _variant(row: Row) -> str:
    """Return a short name of a configuration on some data."""
    from hashlib import sha256

    return sha256(json.dumps([row["config"], row["data_hash"]], sort_keys=True).encode()).hexdigest()[:6]


def _summarise(rows: list[Row], metric: str) -> list[Any]:
    """Return one line of the table."""
    import numpy as np

    from supportmatch.bench.compare import ORACLE_MARK
    from supportmatch.bench.runs import is_failed, is_refused

    first = rows[0]
    values = [row[metric] for row in rows if row[metric] is not None]
    took = [row["seconds"] for row in rows if row["error"] is None]
    if values:
        q1, median, q3 = np.quantile(values, (0.25, 0.5, 0.75))
        scores = f"{median:.3f} [{q1:.3f}, {q3:.3f}] ({min(values):.3f})"
    else:
        scores = "refused" if any(map(is_refused, rows)) else "-"
    return [
        first["setting"],
        first["method"] + (f" {ORACLE_MARK}" if first["sees_deployment_labels"] else ""),
        first["budget"],
        _variant(first),
        len(values),
        scores,
        f"{np.median(took):.1f}" if took else "-",
        sum(map(is_failed, rows)),
    ]


def _show(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print columns that line up, also when the output is not a terminal."""
    cells = [[str(cell) for cell in line] for line in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
