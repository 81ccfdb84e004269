"""Progress of long work: each stage reports `(done, total)`; who listens is decided by the caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[int, int], None]


def silent(done: int, total: int) -> None:
    """Listen to nothing."""


@contextmanager
def progress_bar(stage: str, *, enabled: bool) -> Iterator[Report]:
    """Show a bar with time left on standard error while a stage runs; nothing when it is not a terminal."""
    if not enabled:
        yield silent
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<14}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # Steps may take minutes each, so speed is judged over an hour instead of the last half minute.
    with Progress(
        *columns,
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        speed_estimate_period=3_600,
    ) as bar:
        task = bar.add_task(stage, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
