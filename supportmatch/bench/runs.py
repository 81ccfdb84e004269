"""One run: what decides it, how it is executed, and the row that it leaves.

A row is flat JSON: `setting`, `method`, `seed`, `budget`, `sees_deployment_labels`, every score of
`supportmatch.metrics.OVERALL`, `by_source` and `by_subgroup` (name -> accuracy), `confusion` (name of a source -> class
-> how many test rows of the source were predicted to be of that class), `details` (what else the method measured),
`seconds` and `cpu_seconds` of fitting, predicting and collecting what figures need, `threads`, `peak_memory_mb`,
`warnings`, `versions`, `machine`, `code` (a hash of the package's source), `config_hash`, `data_hash`, `config` and
`error`. The error is None or one sentence; scores are None and tables empty beside an error. An error that starts with
"refused: " means that the method does not apply to the setting. A row that was not made by this runner has `imported`,
which says where it comes from. Rows of older code may lack `confusion`.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import platform
import re
import resource
import sys
import time
import traceback
import warnings
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import supportmatch
from supportmatch.bench.methods.interface import Budget, Method, Outcome
from supportmatch.bench.store import ARRAYS, HISTORY, TRACEBACK, Row
from supportmatch.data.problems import Problem, Setting, find_setting
from supportmatch.errors import ConfigError, DataFolderError
from supportmatch.metrics import OVERALL

REFUSED = "refused: "
MOST_SEEDS = 10_000
"""That can be asked for at once."""
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")


@dataclass(frozen=True)
class RunSpec:
    """Everything that decides a run."""

    setting: str
    method: str
    seed: int
    budget: Budget
    configuration: Mapping[str, Any]
    """The method's settings, every one written out."""
    data_hash: str
    """Tells the files that rows are made from."""
    folder: Path | None = None
    """Where the data is; it may differ between machines, so it is not part of the identity."""

    @property
    def identity(self) -> dict[str, Any]:
        """All but the folder."""
        return {name: value for name, value in vars(self).items() if name in _IDENTITY}

    @cached_property
    def config_hash(self) -> str:
        """Sixteen hexadecimal digits that tell this run from any other."""
        try:
            text = json.dumps(self.identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"the configuration of {self.method} on {self.setting} is not JSON ({error}).") from error
        return hashlib.sha256(text.encode()).hexdigest()[:16]


_IDENTITY = ("setting", "method", "seed", "budget", "configuration", "data_hash")


@dataclass(frozen=True)
class Result:
    """What a run leaves: its row, and files that belong beside it."""

    row: Row
    files: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """A run and the method that does it."""

    spec: RunSpec
    method: Method

    @property
    def refusal(self) -> str | None:
        """Why the method cannot be used on the setting, or None."""
        return self.method.refusal(find_setting(self.spec.setting))

    def execute(self, threads: int) -> Result:
        """Fit, predict and score; an exception becomes a row with an error. `threads` is what the process was given."""
        files: dict[str, bytes] = {}
        measured: Row = {}
        code_hash()  # cached: of the source as it was loaded, not as it may be when the run ends
        start, cpu_start = time.perf_counter(), time.process_time()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                setting = find_setting(self.spec.setting)
                found = setting.data_hash(self.spec.folder)
                if found != self.spec.data_hash:
                    raise DataFolderError(
                        f"the data is not what the run was planned with (its hash is {found}, not "
                        f"{self.spec.data_hash}): have the same files on every machine, or plan again."
                    )
                problem = setting.load(self.spec.seed, self.spec.folder)
                start, cpu_start = time.perf_counter(), time.process_time()
                outcome = self.method.fit(problem, self.spec.seed, dict(self.spec.configuration))
                took = _took(start, cpu_start)
                scored = problem.score(outcome.predicted).to_json()
                measured = {
                    **{name: scored[name] for name in OVERALL},
                    **{by: _accuracies(scored[by]) for by in ("by_source", "by_subgroup")},
                    "confusion": _confusion(problem, outcome.predicted),
                    "details": _plain(outcome.details),
                    **took,
                }
                files = _pack_files(outcome)
            except Exception as error:
                measured = {"error": describe(error), **_took(start, cpu_start)}
                files = {TRACEBACK: traceback.format_exc().encode()}
        seen = sorted({str(warning.message) for warning in caught})
        return Result({**self._row(threads), **measured, "warnings": seen, "peak_memory_mb": _peak_memory_mb()}, files)

    def fail(self, error: str, *, threads: int | None = None, seconds: float | None = None) -> Result:
        """Return the row of a run that could not be executed to its end."""
        return Result({**self._row(threads), "error": error, "seconds": seconds})

    def _row(self, threads: int | None) -> Row:
        """Return every field of a row; what only a finished run can tell is None or empty."""
        spec = self.spec
        return {
            "setting": spec.setting,
            "method": spec.method,
            "seed": spec.seed,
            "budget": spec.budget,
            "sees_deployment_labels": self.method.sees_deployment_labels,
            **dict.fromkeys(OVERALL),
            "by_source": {},
            "by_subgroup": {},
            "confusion": {},
            "details": {},
            "seconds": None,
            "cpu_seconds": None,
            "threads": threads,
            "peak_memory_mb": None,
            "warnings": [],
            "versions": _versions(),
            "machine": f"{platform.machine()} {platform.system()}",
            "code": code_hash(),
            "config_hash": spec.config_hash,
            "data_hash": spec.data_hash,
            "config": dict(spec.configuration),
            "error": None,
        }


def plan_runs(
    settings: Iterable[Setting],
    methods: Iterable[Method],
    seeds: Iterable[int],
    *,
    budget: Budget = "fast",
    folder: Path | None = None,
) -> list[Run]:
    """Return a run for every setting, method and seed; the folder is for settings whose data is not embedded."""
    settings, methods, seeds = list(settings), list(methods), list(seeds)
    runs = []
    for setting in settings:
        own_folder = folder if setting.needs_folder else None
        data_hash = setting.data_hash(own_folder)
        for method in methods:
            configuration = method.configuration(setting, budget)
            runs += [
                Run(RunSpec(setting.name, method.name, seed, budget, configuration, data_hash, own_folder), method)
                for seed in seeds
            ]
    return runs


def parse_seeds(text: str) -> list[int]:
    """Read seeds and ranges of seeds.

    >>> parse_seeds("0,3,5-7")
    [0, 3, 5, 6, 7]
    """
    seeds: set[int] = set()
    for part in text.split(","):
        matched = _RANGE.fullmatch(part.strip())
        first, last = (int(matched[1]), int(matched[2] or matched[1])) if matched else (1, 0)
        if first > last:
            raise ConfigError(f"cannot read seeds from {text!r}: write numbers and ranges, like 0-29 or 0,3,5-7.")
        seeds.update(range(first, last + 1)[: MOST_SEEDS + 1])
        if len(seeds) > MOST_SEEDS:
            raise ConfigError(f"{text!r} asks for more than {MOST_SEEDS:,} seeds: ask for fewer, like 0-29 or 0,3,5-7.")
    return sorted(seeds)


def is_refused(row: Row) -> bool:
    """Tell whether the method does not apply to the setting."""
    return str(row["error"]).startswith(REFUSED)


def is_failed(row: Row) -> bool:
    """Tell whether the run broke; a refusal is no failure."""
    return row["error"] is not None and not is_refused(row)


def describe(error: BaseException) -> str:
    """Return the type of an error and the first line of what it says."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}".removesuffix(": ")


@cache
def code_hash() -> str:
    """Return a short hash of the package's source, to tell which code made a row."""
    digest = hashlib.sha256()
    for path in sorted(Path(supportmatch.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _versions() -> dict[str, str]:
    packages = {name: version(name) for name in ("supportmatch", "torch", "numpy", "scikit-learn")}
    return {**packages, "python": platform.python_version()}


def _took(start: float, cpu_start: float) -> Row:
    """Return both clocks: other work on the machine disturbs the first, hardly the second."""
    return {
        "seconds": round(time.perf_counter() - start, 3),
        "cpu_seconds": round(time.process_time() - cpu_start, 3),
    }


def _peak_memory_mb() -> int:
    status = Path("/proc/self/status")
    if status.exists():  # on Linux `ru_maxrss` also counts the process that started this one
        matched = re.search(r"VmHWM:\s*(\d+) kB", status.read_text())
        if matched:
            return round(int(matched[1]) / 1024)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1024**2 if sys.platform == "darwin" else 1024))


def _accuracies(by_name: Mapping[str, Mapping[str, Any]]) -> dict[str, float | None]:
    return {name: cell["accuracy"] for name, cell in by_name.items()}


def _confusion(problem: Problem, predicted: NDArray[Any]) -> dict[str, dict[str, int]]:
    grid = problem.grid
    sources = grid.source_ids(grid.class_ids(problem.y_test), grid.subgroup_ids(problem.subgroup_test))
    counts = np.zeros((grid.n_sources, grid.n_classes), dtype=int)
    np.add.at(counts, (sources, grid.class_ids(predicted)), 1)
    classes = [str(name) for name in grid.classes]
    return {grid.source_name(i): dict(zip(classes, own, strict=True)) for i, own in enumerate(counts.tolist())}


def _plain(value: Any) -> Any:
    """Return what JSON can hold: no NumPy types, None for what is not finite."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"details of a run must be fit for JSON, but hold a {type(value).__name__}")


def _pack_files(outcome: Outcome) -> dict[str, bytes]:
    files = {}
    if outcome.history is not None:
        files[HISTORY] = outcome.history.to_jsonl().encode()
    if outcome.arrays:
        files[ARRAYS] = _pack_arrays(outcome.arrays)
    return files


def _pack_arrays(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return what `np.load` reads as `.npz`; unlike `np.savez` of older NumPy, never with pickle inside."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)
    return buffer.getvalue()
