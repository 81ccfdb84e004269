"""Files and folders that are whole or absent: they are written under another name and renamed when they are done."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from supportmatch.errors import ModelFileError

MARK = ".supportmatch"
"""File that tells our folders from everything else."""


@contextmanager
def new_folder(folder: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a draft folder that takes its final name when the block ends well, and vanishes when it does not.

    With `overwrite` an existing folder is replaced, but only one that this package wrote: it must bear our mark.
    """
    folder = folder.resolve()
    check_free(folder, overwrite)
    with _with_parents(folder):
        draft = _draft_of(folder)
        draft.mkdir()
        try:
            yield draft
            mark = "This folder was written by supportmatch, which may replace it.\n"
            (draft / MARK).write_text(mark, encoding="utf-8")
            check_free(folder, overwrite)  # again: the block may have taken minutes
            _swap(draft, folder)
        except OSError as error:
            _say_where(error, folder)
            raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield the name of a draft file that takes its final name when the block ends well, or vanishes."""
    with _with_parents(path):
        draft = _draft_of(path)
        try:
            yield draft
            os.replace(draft, path)
        except OSError as error:
            _say_where(error, path)
            raise
        finally:
            draft.unlink(missing_ok=True)


def check_free(folder: Path, overwrite: bool) -> None:
    """Refuse to take a name that is in use by anything but an empty folder or, on request, one of ours."""
    above = next((parent for parent in folder.parents if parent.exists()), None)
    if above is not None and not above.is_dir():
        raise ModelFileError(f"{folder} cannot be a folder, because {above} is a file: choose another name.")
    if not folder.exists():
        return
    if not overwrite:
        raise ModelFileError(f"{folder} exists and is not overwritten: choose another folder, or pass --overwrite.")
    if not folder.is_dir() or (any(folder.iterdir()) and not (folder / MARK).is_file()):
        raise ModelFileError(f"{folder} was not written by supportmatch and is not overwritten: choose another folder.")


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file that is whole or absent for every reader and after a power cut; it may replace another."""
    with new_file(path) as draft, draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    flush_folder(path.parent)


def flush_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _say_where(error: OSError, path: Path) -> None:
    """Name what could not be written, if the system does not: of a full disk it names no file."""
    if error.filename is None and error.errno is not None:
        error.filename = str(path)


def _draft_of(path: Path) -> Path:
    return path.with_name(f".{path.name}-{uuid4().hex[:12]}")


@contextmanager
def _with_parents(path: Path) -> Iterator[None]:
    """Make the folders above a path; if the block fails, those that were made and are empty go again."""
    made = [folder for folder in path.parents if not folder.exists()]  # the innermost first
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):
            for folder in made:
                folder.rmdir()
        raise


def _swap(draft: Path, folder: Path) -> None:
    """Give the draft its final name; what had the name before goes only once the draft stands."""
    if not folder.exists():
        os.replace(draft, folder)
        return
    old = draft.with_name(f"{draft.name}-old")
    os.replace(folder, old)
    try:
        os.replace(draft, folder)
    except BaseException:  # also an interrupt: the old folder must come back
        os.replace(old, folder)
        raise
    shutil.rmtree(old)
