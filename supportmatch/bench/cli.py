"""The command `supportmatch bench`. Heavy libraries are imported inside commands, so that `--help` answers at once."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from supportmatch.errors import ConfigError, UnknownNameError

if TYPE_CHECKING:
    from supportmatch.bench.compare import Cell
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
Selected = Annotated[list[str] | None, typer.Option(help="As for `run`; all if only the others are given.")]
SelectedSeeds = Annotated[str | None, typer.Option(help="As for `run`; 0-29 if only the others are given.")]
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
    redo: Annotated[
        bool, typer.Option("--redo", help="Do all again, also what has a row: for code that changes results.")
    ] = False,
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
            rows = sweep(runs, store, chosen, retry_failed=retry_failed, redo=redo, listen=listen)
    except KeyboardInterrupt:
        rest = "all again" if redo else "the rest"
        typer.echo(f"supportmatch: stopped; finished runs are kept, and the same command does {rest}.", err=True)
        raise typer.Exit(130) from None
    n_failed, n_refused = sum(map(is_failed, rows)), sum(map(is_refused, rows))
    if not quiet:
        fine = len(rows) - n_failed - n_refused
        typer.echo(f"{len(rows)} runs in {out}: {fine} done, {n_refused} refused, {n_failed} failed.", err=True)
        if n_failed:
            typer.echo(
                f"The `error` of each is in `supportmatch bench table --json --out {shlex.quote(str(out))}`, and its "
                "folder may have a traceback; the same command with `--retry-failed` does them again.",
                err=True,
            )
    if n_failed:
        raise typer.Exit(1)


@app.command()
def status(
    out: Out,
    setting: Selected = None,
    methods: Selected = None,
    seeds: SelectedSeeds = None,
    budget: Annotated[
        BudgetName | None, typer.Option(help="Fast, unless neither settings, methods nor seeds are given.")
    ] = None,
    data: Data = None,
) -> None:
    """Count which runs are done, failed, refused, running or missing, and which were made by older code.

    Without settings, methods and seeds to look for it counts what is there.
    """
    from supportmatch.bench.compare import text_table
    from supportmatch.bench.runs import code_hash
    from supportmatch.bench.store import Store

    store = Store(out)
    if not out.exists():
        raise _nothing_in(out)
    found: list[tuple[Cell, str, Row | None]]
    if setting or methods or seeds:
        runs = _select(setting or ["all"], methods or ["all"], seeds or "0-29", budget or BudgetName.FAST, data)
        rows = [store.find(one.spec.config_hash) for one in runs]
        found = [
            ((one.spec.setting, one.spec.method, one.spec.budget), _state(row) if row else _future(store, one), row)
            for one, row in zip(runs, rows, strict=True)
        ]
    else:
        found = [
            ((row["setting"], row["method"], row["budget"]), _state(row), row)
            for row in find_rows(out)
            if budget is None or row["budget"] == budget.value
        ]
    columns = ("done", "failed", "refused", "running", "missing", "older code")
    counts: dict[Cell, dict[str, int]] = {}
    for cell, state, row in found:
        own = counts.setdefault(cell, dict.fromkeys(columns, 0))
        own[state] += 1
        own["older code"] += row is not None and row.get("code") != code_hash()
    lines = [[*cell, *own.values()] for cell, own in counts.items()]
    typer.echo(text_table([["setting", "method", "budget", *columns], *lines]))


@app.command()
def table(
    out: Out,
    setting: OnlySettings = None,
    methods: OnlyMethods = None,
    metric: Annotated[str, typer.Option(help="The score to summarise.")] = "robust_accuracy",
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as one JSON list and nothing else.")] = False,
    full: Annotated[bool, typer.Option("--full", help="With --json: keep each run's configuration.")] = False,
) -> None:
    """Show the results: for each setting and method the median, the quartiles and the minimum over seeds."""
    from supportmatch.bench.compare import ORACLE_NOTE, text_table, variants_of
    from supportmatch.metrics import OVERALL

    if metric not in OVERALL:
        raise UnknownNameError(f"unknown metric {metric!r}: choose one of {', '.join(OVERALL)}.")
    rows = find_rows(out, setting, methods)
    if as_json:
        typer.echo(json.dumps([row if full else _without_config(row) for row in rows]))
        return
    header = ["setting", "method", "budget", "config", "n", f"{metric}: median [q1, q3] (min)", "CPU seconds", "failed"]
    lines = [_summarise(variant, own, metric) for cell in variants_of(rows).values() for variant, own in cell.items()]
    typer.echo(text_table([header, *lines]))
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

    rows, store = _find_comparable(out, setting, methods), Store(out)
    folders = {row["config_hash"]: store.run_folder(row["config_hash"]) for row in rows}
    drawn = plot_all(rows, folders, figures, kind or KINDS)
    for written in drawn:
        typer.echo(f"{written.path}: {written.alt}")
    if not drawn:
        raise ConfigError(
            f"nothing could be drawn: {', '.join(kind or KINDS)} need what our methods leave in folders of runs, "
            f"and {out / 'runs'} has none of that."
        )


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

    found = compare_with_authors(_find_comparable(out, setting, methods), metric.value, every=every)
    typer.echo(json.dumps(found.to_json()) if as_json else found.to_text())


def find_rows(out: Path, settings: list[str] | None = None, methods: list[str] | None = None) -> list[Row]:
    """Return the rows in a folder, of the named settings and methods only if some are named."""
    from supportmatch.bench.store import Store

    rows = Store(out).rows()
    if not rows:
        raise _nothing_in(out)
    for what, names in (("setting", settings), ("method", methods)):
        if names:
            known = sorted({row[what] for row in rows})
            chosen = _split(names)
            for name in chosen:
                if name not in known:
                    raise UnknownNameError(f"no results of {what} {name!r} in {out}: there are {', '.join(known)}.")
            rows = [row for row in rows if row[what] in chosen]
    return rows


def _find_comparable(out: Path, settings: list[str] | None, methods: list[str] | None) -> list[Row]:
    """Return the rows of one configuration in each cell, and say on stderr how many others there are."""
    from supportmatch.bench.compare import leave_out_other_configurations

    rows, note = leave_out_other_configurations(find_rows(out, settings, methods))
    if note:
        typer.echo(f"supportmatch: {note}", err=True)
    return rows


def _nothing_in(out: Path) -> ConfigError:
    command = f"supportmatch bench run --setting cmnist-sb --methods erm --seeds 0-4 --out {shlex.quote(str(out))}"
    return ConfigError(f"there are no results in {out}: make some, for example with `{command}`.")


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
    single = [stripped for name in names for part in name.split(",") if (stripped := part.strip())]
    if not single:
        raise ConfigError(f"there is no name in {', '.join(map(repr, names))}: write at least one, or leave it out.")
    return list(dict.fromkeys(known for name in single for known in (everything if name == "all" else [name])))


def _make_executor(name: ExecutorName, workers: int | None, threads: int | None, address: str | None) -> Executor:
    from supportmatch.bench.executors import LocalExecutor, RayExecutor

    if name is ExecutorName.RAY:
        return RayExecutor(address, workers, threads or 1)
    workers = workers or 1
    return LocalExecutor(workers, threads or max(1, _n_cores() // workers))


def _n_cores() -> int:
    """Return how many cores this process may use, which can be fewer than there are."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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


def _state(row: Row) -> str:
    from supportmatch.bench.runs import is_failed, is_refused

    return "failed" if is_failed(row) else "refused" if is_refused(row) else "done"


def _future(store: Store, one: Run) -> str:
    """Return the state of a run that has no row."""
    if one.refusal is not None:
        return "refused"
    return "running" if store.is_running(one.spec.config_hash) else "missing"


def _without_config(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != "config"}


def _summarise(variant: str, rows: list[Row], metric: str) -> list[Any]:
    """Return one line of the table."""
    from supportmatch.bench.compare import ORACLE_MARK, Spread, median_cpu_seconds, metric_values
    from supportmatch.bench.runs import is_failed, is_refused

    first = rows[0]
    scores = Spread.of(metric_values(rows, metric))
    seconds = median_cpu_seconds(rows)
    return [
        first["setting"],
        first["method"] + (f" {ORACLE_MARK}" if first["sees_deployment_labels"] else ""),
        first["budget"],
        variant,
        scores.n,
        "refused" if not scores.n and any(map(is_refused, rows)) else scores.to_text(with_min=True),
        "-" if isnan(seconds) else f"{seconds:.1f}",
        sum(map(is_failed, rows)),
    ]
