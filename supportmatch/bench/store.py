"""Results on disk: one folder per run, named by what decides the run, and one file of packed rows.

A run exists if its folder has a row. A new folder is written beside its final name, flushed and renamed. An existing
one is never moved, and its row is replaced last: readers always find a whole row, the old or the new. Everything is
JSON, text or plain NumPy arrays; there is no pickle.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

from filelock import FileLock

from supportmatch.errors import ResultFileError
from supportmatch.output import flush_folder, write_atomically

Row = dict[str, Any]
"""What is known of one run; see `supportmatch.bench.runs` for its fields."""

ROW, CONFIG, HISTORY, ARRAYS, TRACEBACK = "row.json", "config.json", "history.jsonl", "arrays.npz", "traceback.txt"
PACKED = "rows.jsonl"
_RUN = re.compile(r"[0-9a-f]{16}")
_NEEDED = {"setting", "method", "seed", "budget", "config_hash", "error"}


class Store:
    """The results in one folder; several processes may write to it at once if each holds the lock of its run."""

    def __init__(self, folder: Path) -> None:
        for part in (folder, *folder.parents):
            if part.exists() and not part.is_dir():
                raise ResultFileError(f"{part} is a file, but results need a folder: choose another name.")
        self.folder = folder

    def run_folder(self, config_hash: str) -> Path:
        """Return where the files of a run are, or will be."""
        return self.folder / "runs" / config_hash

    def find(self, config_hash: str) -> Row | None:
        """Return the row of one run, or None if it has not been made."""
        return _read_folder(self.run_folder(config_hash)) or self._packed.get(config_hash)

    def rows(self) -> list[Row]:
        """Return every row, sorted by setting, method and seed; what a run's folder says wins over a packed row."""
        runs = self.folder / "runs"
        # Other names are drafts of a writer at work or of one that was killed, or what the system leaves in folders.
        folders = [path for path in runs.iterdir() if _RUN.fullmatch(path.name)] if runs.is_dir() else []
        own = {row["config_hash"]: row for row in map(_read_folder, folders) if row is not None}
        return sorted({**_read_packed(self.folder / PACKED), **own}.values(), key=_sort_key)

    def write(self, row: Row, config: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
        """Write a run's folder, replacing an older one; hold the lock of the run."""
        folder = self.run_folder(row["config_hash"])
        others = {**files, CONFIG: to_json(config).encode()}
        last = to_json(row).encode()
        folder.parent.mkdir(parents=True, exist_ok=True)
        for stale in folder.parent.glob(f".{folder.name}-*"):  # of a writer that was killed: we have its lock
            shutil.rmtree(stale)
        is_new = not folder.exists()
        place = folder.with_name(f".{folder.name}-{uuid4().hex[:12]}") if is_new else folder
        place.mkdir(exist_ok=True)
        for name, content in others.items():
            write_atomically(place / name, content)
        for path in list(place.iterdir()):  # of the earlier run, or of a writer that was killed
            if path.is_file() and path.name not in (ROW, *others):
                path.unlink()
        write_atomically(place / ROW, last)
        if is_new:
            os.replace(place, folder)
            flush_folder(folder.parent)

    def pack(self) -> int:
        """Write every row to one file, so that rows can be kept without folders; return how many there are."""
        rows = self.rows()
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.folder / PACKED, "".join(to_json(row) for row in rows).encode())
        return len(rows)

    def lock(self, config_hash: str) -> FileLock:
        """Return the lock of one run; the system frees it when its owner dies."""
        folder = self.folder / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        return FileLock(folder / f"{config_hash}.lock")

    def is_running(self, config_hash: str) -> bool:
        """Tell whether some sweep holds the lock of the run."""
        if not (self.folder / "locks" / f"{config_hash}.lock").exists():
            return False
        lock = self.lock(config_hash)
        if not try_lock(lock):
            return True
        lock.release()
        return False

    @cached_property
    def _packed(self) -> dict[str, Row]:
        return _read_packed(self.folder / PACKED)


def try_lock(lock: FileLock) -> bool:
    """Take a lock if it is free; tell whether it is ours now."""
    try:
        lock.acquire(blocking=False)
    except TimeoutError:
        return False
    return True


def to_json(value: Mapping[str, Any]) -> str:
    """Return one line of strict JSON."""
    return json.dumps(value, allow_nan=False) + "\n"


def _read_folder(folder: Path) -> Row | None:
    path = folder / ROW
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    row = _read_row(text, str(path))
    if row["config_hash"] != folder.name:
        raise ResultFileError(f"{path} belongs to run {row['config_hash']}, not to its folder: remove the folder.")
    return row


def _read_packed(path: Path) -> dict[str, Row]:
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    rows = [_read_row(line, f"line {number} of {path}") for number, line in enumerate(lines, start=1) if line.strip()]
    return {row["config_hash"]: row for row in rows}


def _read_row(text: str, where: str) -> Row:
    try:
        row = json.loads(text)
    except ValueError as error:
        raise ResultFileError(f"{where} is torn or not JSON ({error}): remove it and run again.") from error
    if not isinstance(row, dict) or not row.keys() >= _NEEDED:
        raise ResultFileError(f"{where} is not a row, which has {', '.join(sorted(_NEEDED))}: remove it.")
    return row


def _sort_key(row: Row) -> tuple[Any, ...]:
    return row["setting"], row["method"], row["seed"], row["budget"], row["config_hash"]
