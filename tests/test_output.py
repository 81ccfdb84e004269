"""What is written is whole or absent, and a failure leaves nothing behind."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from supportmatch.cli import _explain
from supportmatch.errors import ModelFileError
from supportmatch.output import new_file, new_folder, write_atomically


def test_a_folder_that_appears_during_the_work_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with pytest.raises(ModelFileError), new_folder(target):  # noqa: PT012
        target.mkdir()
        (target / "precious").write_text("mine")
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "precious"]


@pytest.mark.parametrize("make", [new_file, new_folder])
def test_parents_are_made_and_go_again_when_the_work_fails(
    tmp_path: Path, make: Callable[[Path], AbstractContextManager[Path]]
) -> None:
    target = tmp_path / "there" / "a" / "b" / "out"
    (tmp_path / "there").mkdir()
    with pytest.raises(RuntimeError), make(target):
        raise RuntimeError("the disk is on fire")
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]
    with make(target) as draft:
        if make is new_file:
            draft.write_text("done")
    assert target.exists()


@pytest.mark.parametrize("make", [new_file, new_folder])
def test_a_full_disk_is_said_with_the_path_that_did_not_fit(
    tmp_path: Path, make: Callable[[Path], AbstractContextManager[Path]]
) -> None:
    with pytest.raises(OSError, match="No space left") as caught, make(tmp_path / "out"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert _explain(caught.value) == (
        f"No space left on device for {tmp_path / 'out'}: make room, then run the same command again."
    )


def test_parents_that_others_use_meanwhile_stay(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), new_file(tmp_path / "a" / "b" / "out"):  # noqa: PT012
        (tmp_path / "a" / "precious").write_text("mine")
        raise RuntimeError
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "precious"]


def test_a_file_is_replaced_as_a_whole_or_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"first")
    with pytest.raises(RuntimeError), new_file(path) as draft:  # noqa: PT012
        draft.write_bytes(b"sec")
        raise RuntimeError
    assert path.read_bytes() == b"first"
    write_atomically(path, b"second")
    assert path.read_bytes() == b"second"
    assert list(tmp_path.iterdir()) == [path]
