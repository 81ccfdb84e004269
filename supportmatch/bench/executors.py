"""Where runs are executed: in processes of this machine, or on a Ray cluster. Either way one fresh process per run.

Both executors take runs one by one and hand back results as they come; neither touches the disk. Nothing heavy is
imported here, because a worker must set its number of threads before NumPy and torch are loaded.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import threading
import time
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import connection, get_context, parent_process, resource_tracker
from typing import TYPE_CHECKING, Any

from supportmatch.errors import ConfigError, SupportMatchWarning

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

    from supportmatch.bench.runs import Result, Run

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Executor(ABC):
    """Takes runs and gives back results; leaving its `with` block ends whatever is still at work."""

    threads: int
    """Threads that each run may use."""

    @abstractmethod
    def has_room(self) -> bool:
        """Tell whether another run would start at once."""

    @abstractmethod
    def submit(self, run: Run) -> None:
        """Start a run."""

    @abstractmethod
    def finished(self, timeout: float) -> list[tuple[Run, Result]]:
        """Wait up to `timeout` seconds for a run to end; return those that did."""

    @abstractmethod
    def stop(self) -> None:
        """End every run that is still at work."""

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


@dataclass(eq=False)
class _Worker:
    process: SpawnProcess
    results: Connection
    start: float

    @classmethod
    def start_on(cls, payload: bytes, threads: int) -> _Worker:
        context = get_context("spawn")
        results, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(theirs, payload, threads))
        # Ctrl-C reaches the whole group, but it is for the sweep to end its workers: they are born deaf to it.
        resource_tracker.ensure_running()  # on its way up it would unblock the signal
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()  # so that the end of the process is the end of the pipe
        return cls(process, results, time.perf_counter())

    def poll(self) -> Result | str | None:
        """Return the result, or what went wrong, or None while it is at work."""
        has_ended = not self.process.is_alive()  # asked first: a result may arrive between the two questions
        if not has_ended and not self.results.poll():
            return None
        try:
            answer: Result | str = self.results.recv() if self.results.poll() else self._say_why_dead()
        except (EOFError, OSError):
            answer = self._say_why_dead()
        self.process.join()
        self.results.close()
        return answer

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.results.close()

    def _say_why_dead(self) -> str:
        self.process.join()
        code = self.process.exitcode or 0
        if code < 0:
            how = f"was ended by {signal.Signals(-code).name}"
            how += " (the system may have run out of memory)" if -code == signal.SIGKILL else ""
        else:
            how = f"ended with exit code {code}"
        return f"WorkerDied: the worker process {how} before the run was done."


class LocalExecutor(Executor):
    """Runs on this machine, `workers` at a time."""

    def __init__(self, workers: int = 1, threads: int = 1) -> None:
        self.workers, self.threads = workers, threads
        self._at_work: dict[_Worker, Run] = {}

    def has_room(self) -> bool:
        """Tell whether fewer runs are at work than there are workers."""
        return len(self._at_work) < self.workers

    def submit(self, run: Run) -> None:
        """Start a run in a process of its own."""
        self._at_work[_Worker.start_on(pickle.dumps(run), self.threads)] = run

    def finished(self, timeout: float) -> list[tuple[Run, Result]]:
        """Wait up to `timeout` seconds for a process to end; return the results of those that did."""
        _wait(self._at_work, timeout)
        ended = []
        for worker, run in list(self._at_work.items()):
            answer = worker.poll()
            if answer is not None:
                del self._at_work[worker]
                ended.append((run, _as_result(run, answer, self.threads, time.perf_counter() - worker.start)))
        return ended

    def stop(self) -> None:
        """Kill the processes that are still at work."""
        while self._at_work:
            self._at_work.popitem()[0].kill()


class RayExecutor(Executor):
    """Runs on a Ray cluster, as many at a time as it has room for, unless `workers` says fewer.

    A run whose node or Ray worker is lost starts again elsewhere. Results travel through Ray: no shared file system is
    needed, but every node needs supportmatch, and the data folder of settings whose data is not embedded.
    """

    def __init__(self, address: str | None = None, workers: int | None = None, threads: int = 1) -> None:
        self.workers, self.threads = workers, threads
        try:
            self._ray: Any = import_module("ray")
        except ImportError as error:
            raise ConfigError("Ray is not installed: run `pip install 'supportmatch[ray]'`.") from error
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anyone
        alone = {"include_dashboard": False} if address is None else {}
        try:
            _knock(address)
            self._ray.init(address=address, log_to_driver=False, logging_level="ERROR", **alone)
        except (OSError, RuntimeError, ValueError) as error:
            where = f"the Ray cluster at {address}" if address else "Ray"
            reason = str(error).partition("\n")[0]
            raise ConfigError(f"cannot connect to {where} ({reason}): check `ray status` and the address.") from error
        nodes = [node for node in self._ray.nodes() if node["Alive"]]
        largest = int(max((node["Resources"].get("CPU", 0) for node in nodes), default=0))
        if threads > largest:
            warnings.warn(
                f"each run asks for {threads} threads, but no node of the cluster has more than {largest} CPUs, so "
                "runs wait until a larger one joins: ask for fewer with --threads.",
                SupportMatchWarning,
                stacklevel=2,
            )
        # The run itself gets a process of its own below the Ray worker: one that dies of the run is a failed run, while
        # a lost worker or node is no fault of the run, which is tried again as often as that happens.
        self._task = self._ray.remote(num_cpus=threads, max_retries=-1)(_run_apart)
        self._at_work: dict[Any, Run] = {}

    def has_room(self) -> bool:
        """Tell whether the cluster, as it is now, has room for another run."""
        # One at least: it lets a cluster that grows on demand know of the demand.
        room = max(1, int(self._ray.cluster_resources().get("CPU", 0) // self.threads))
        return len(self._at_work) < (room if self.workers is None else min(room, self.workers))

    def submit(self, run: Run) -> None:
        """Hand a run to the cluster."""
        self._at_work[self._task.remote(pickle.dumps(run), self.threads)] = run

    def finished(self, timeout: float) -> list[tuple[Run, Result]]:
        """Wait up to `timeout` seconds for a run to end; return the results of those that did."""
        if not self._at_work:
            time.sleep(timeout)
            return []
        ready, _ = self._ray.wait(list(self._at_work), num_returns=1, timeout=timeout)
        return [(run, self._fetch(reference, run)) for reference in ready for run in [self._at_work.pop(reference)]]

    def stop(self) -> None:
        """Leave the cluster, which ends what is still at work for us."""
        self._ray.shutdown()
        self._at_work.clear()

    def _fetch(self, reference: Any, run: Run) -> Result:
        from supportmatch.bench.runs import describe

        try:
            answer, seconds = self._ray.get(reference)
        except Exception as error:
            answer, seconds = describe(error), None
        return _as_result(run, answer, self.threads, seconds)


def _knock(address: str | None) -> None:
    """Raise an `OSError` if nobody listens at `host:port`: Ray itself would go on trying for many minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


def _run_apart(payload: bytes, threads: int) -> tuple[Result | str, float]:
    """Run in a fresh process and wait for it; return the result, or what went wrong, and how long it took."""
    worker = _Worker.start_on(payload, threads)
    try:
        while (answer := worker.poll()) is None:
            _wait([worker], timeout=60)
        return answer, time.perf_counter() - worker.start
    finally:
        if worker.process.is_alive():
            worker.kill()


def _wait(workers: Any, timeout: float) -> None:
    waited_for = [source for worker in workers for source in (worker.results, worker.process.sentinel)]
    if waited_for:
        connection.wait(waited_for, timeout)
    else:
        time.sleep(timeout)


def _as_result(run: Run, answer: Result | str, threads: int, seconds: float | None) -> Result:
    return run.fail(answer, threads=threads, seconds=seconds) if isinstance(answer, str) else answer


def _work(results: Connection, payload: bytes, threads: int) -> None:
    """Do the run: the life of a worker process."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    try:
        run: Run = pickle.loads(payload)  # may import NumPy and torch, which read the variables once
        answer: Result | str = run.execute(threads)
    except Exception as error:  # `execute` catches its own; this is a method that cannot be imported here
        answer = f"{type(error).__name__}: {error}"
    results.send(answer)


def _die_with_parent() -> None:
    """End this process at once when the one that started it is gone, so that no orphan keeps computing."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
