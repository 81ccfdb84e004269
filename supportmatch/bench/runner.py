"""Sweeps: do every run that has no row yet. A killed sweep loses only what was at work; sweeps may share a folder."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

from filelock import FileLock

from supportmatch.bench.executors import Executor
from supportmatch.bench.runs import REFUSED, Result, Run, is_failed, is_refused
from supportmatch.bench.store import Row, Store, try_lock

Listener = Callable[[Row, int, int], None]
"""Hears of each run that has ended: its row, how many are done, and how many there are to do."""

POLL_SECONDS = 0.5
"""How often a sweep looks at runs that another sweep has locked, and at the size of a cluster."""


def ignore(row: Row, done: int, total: int) -> None:
    """Hear nothing."""


def sweep(
    runs: Sequence[Run],
    store: Store,
    executor: Executor,
    *,
    retry_failed: bool = False,
    redo: bool = False,
    listen: Listener = ignore,
) -> list[Row]:
    """Do the runs that have no row yet and return the rows of all.

    A failed run counts as done unless `retry_failed` is set, and no run does if `redo` is set. A run that another sweep
    is doing is waited for, and done here if that sweep dies. Use it inside the `with` block of its executor.
    """
    found = [store.find(run.spec.config_hash) for run in runs]
    to_repeat = {row["config_hash"]: row for row in found if row and (redo or (retry_failed and is_failed(row)))}
    return _Sweep(runs, store, executor, to_repeat, listen).work()


class _Sweep:
    def __init__(
        self, runs: Sequence[Run], store: Store, executor: Executor, to_repeat: Mapping[str, Row], listen: Listener
    ) -> None:
        self.runs, self.store, self.executor, self.listen = runs, store, executor, listen
        self.to_repeat = to_repeat
        self.waiting = deque(run for run in runs if not self._is_settled(run, store.find(run.spec.config_hash)))
        self.locks: dict[str, FileLock] = {}
        self.done, self.total = 0, len(self.waiting)

    def work(self) -> list[Row]:
        """Keep the executor busy until nothing is left."""
        try:
            while self.waiting or self.locks:
                while self.executor.has_room() and (run := self._claim()):
                    self.executor.submit(run)
                if self.waiting or self.locks:
                    for run, result in self.executor.finished(POLL_SECONDS):
                        self._keep(run, result)
        finally:
            for lock in self.locks.values():
                lock.release()
        rows = (self.store.find(run.spec.config_hash) for run in self.runs)
        return [row for row in rows if row is not None]

    def _claim(self) -> Run | None:
        """Return a run to do, with its lock taken; runs that others have locked go to the back of the queue."""
        for _ in range(len(self.waiting)):
            run = self.waiting.popleft()
            config_hash = run.spec.config_hash
            lock = self.store.lock(config_hash)
            if not try_lock(lock):
                self.waiting.append(run)
                continue
            self.locks[config_hash] = lock
            row = self.store.find(config_hash)  # again, now that nobody else can be at it
            if row is not None and self._is_settled(run, row):
                self._release(row)
            elif (refusal := run.refusal) is not None:
                self._keep(run, run.fail(f"{REFUSED}{refusal}"))
            else:
                return run
        return None

    def _is_settled(self, run: Run, row: Row | None) -> bool:
        if row is None:
            return False
        if is_refused(row) and run.refusal is None:
            return False
        # A row that is not the one seen at the start is news from another sweep, which has just done the run again.
        return self.to_repeat.get(row["config_hash"]) != row

    def _keep(self, run: Run, result: Result) -> None:
        self.store.write(result.row, run.spec.identity, result.files)
        self._release(result.row)

    def _release(self, row: Row) -> None:
        self.locks.pop(row["config_hash"]).release()
        self.done += 1
        self.listen(row, self.done, self.total)
