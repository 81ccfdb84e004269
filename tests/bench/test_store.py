"""Results on disk are complete or absent, and a file that is not a row is named."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from toy_methods import made_up_hash

from supportmatch.bench.store import ARRAYS, PACKED, ROW, ResultFileError, Store, try_lock

HASH = "00112233aabbccdd"


def make_row(config_hash: str = HASH, **values: Any) -> dict[str, Any]:
    row = {"setting": "synthetic", "method": "guess", "seed": 0, "budget": "smoke", "error": None}
    return {**row, "config_hash": config_hash, **values}


def write(store: Store, row: dict[str, Any], **files: bytes) -> None:
    store.write(row, {"seed": row["seed"]}, files)


def test_a_row_is_found_again_with_its_configuration_and_files_beside_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.find(HASH) is None
    store.write(make_row(), {"seed": 0}, {ARRAYS: b"numbers"})
    assert store.find(HASH) == make_row()
    assert store.rows() == [make_row()]
    folder = store.run_folder(HASH)
    assert {path.name for path in folder.iterdir()} == {ROW, "config.json", ARRAYS}
    assert json.loads((folder / "config.json").read_text()) == {"seed": 0}
    assert (folder / ARRAYS).read_bytes() == b"numbers"


def test_a_second_writing_replaces_the_first_and_leaves_nothing_else(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(make_row(error="ValueError: no"), {}, {"traceback.txt": b"where"})
    store.write(make_row(), {}, {})
    assert store.rows() == [make_row()]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [HASH]
    assert not (store.run_folder(HASH) / "traceback.txt").exists()


def test_a_run_that_is_written_again_and_again_never_vanishes_for_a_reader(tmp_path: Path) -> None:
    store = Store(tmp_path)
    fine, failed = make_row(), make_row(error="ValueError: no")

    def write_often() -> None:
        for _ in range(20):
            store.write(failed, {}, {"traceback.txt": b"where"})
            store.write(fine, {}, {ARRAYS: b"numbers"})

    write(store, fine)
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write_often)
        seen = []
        while not writing.done():
            seen += [store.find(HASH), *store.rows()]
            assert len(store.rows()) == 1
    writing.result()
    assert all(row in (fine, failed) for row in seen)
    assert failed in seen
    assert {path.name for path in store.run_folder(HASH).iterdir()} == {ROW, "config.json", ARRAYS}


KILLED_HALF_WAY = """
import os, signal, sys
from pathlib import Path
from supportmatch.bench.store import Store
os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)  # dies with one file half written
row = {"config_hash": sys.argv[2]}
Store(Path(sys.argv[1])).write(row, {}, {"history.jsonl": b"{}"})
"""


def test_a_writer_that_is_killed_half_way_leaves_no_row(tmp_path: Path) -> None:
    be_killed(tmp_path)
    (draft,) = (tmp_path / "runs").iterdir()
    assert list(draft.iterdir())  # half a folder
    assert Store(tmp_path).rows() == []
    assert Store(tmp_path).find(HASH) is None
    write(Store(tmp_path), make_row())
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [HASH]  # the next writer clears it away


def test_a_writer_that_is_killed_while_it_writes_again_leaves_the_old_row(tmp_path: Path) -> None:
    store = Store(tmp_path)
    write(store, make_row())
    be_killed(tmp_path)
    assert store.rows() == [store.find(HASH)] == [make_row()]
    write(store, make_row(error="new"))
    assert {path.name for path in store.run_folder(HASH).iterdir()} == {ROW, "config.json"}


def be_killed(folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED_HALF_WAY, str(folder), HASH], check=False)
    assert done.returncode == -signal.SIGKILL


def test_packed_rows_stand_in_for_folders_and_folders_win(tmp_path: Path) -> None:
    store = Store(tmp_path)
    b, c, d, e = (made_up_hash(name) for name in "bcde")
    rows = [
        make_row(b, setting="b", seed=1),
        make_row(c, setting="a", method="x", seed=10),
        make_row(d, setting="a", method="x", seed=9),
        make_row(e, setting="a", method="w", seed=11),
    ]
    for row in rows:
        write(store, row)
    assert store.pack() == 4
    assert [row["config_hash"] for row in store.rows()] == [e, d, c, b]
    packed = Store(tmp_path / "elsewhere")
    packed.folder.mkdir()
    (packed.folder / PACKED).write_bytes((tmp_path / PACKED).read_bytes())
    assert packed.rows() == store.rows()
    assert packed.find(d) == rows[2]
    new = make_row(d, setting="a", method="x", seed=9, error="new")
    write(packed, new)
    assert packed.find(d) == packed.rows()[1] == new
    assert packed.pack() == 4
    assert [json.loads(line)["error"] for line in (packed.folder / PACKED).read_text().splitlines()].count("new") == 1


@pytest.mark.parametrize("text", ["", '{"setting": "synth', "[]", '{"seed": 0}'])
def test_a_torn_or_foreign_row_is_named_in_one_sentence(tmp_path: Path, text: str) -> None:
    store = Store(tmp_path)
    write(store, make_row())
    path = store.run_folder(HASH) / ROW
    path.write_text(text)
    for read in (store.rows, lambda: store.find(HASH)):
        with pytest.raises(ResultFileError) as caught:
            read()
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_torn_line_of_packed_rows_is_named_by_its_number(tmp_path: Path) -> None:
    (tmp_path / PACKED).write_text(json.dumps(make_row()) + '\n{"setting"')
    with pytest.raises(ResultFileError, match=r"line 2 of .*rows\.jsonl is torn"):
        Store(tmp_path).rows()


def test_a_row_in_the_wrong_folder_is_named(tmp_path: Path) -> None:
    store = Store(tmp_path)
    write(store, make_row())
    os.rename(store.run_folder(HASH), store.run_folder("feed" * 4))
    with pytest.raises(ResultFileError, match=f"belongs to run {HASH}"):
        store.rows()


def test_what_is_no_run_is_passed_over(tmp_path: Path) -> None:
    store = Store(tmp_path)
    write(store, make_row())
    store.pack()
    (tmp_path / PACKED).write_text(f"\n{(tmp_path / PACKED).read_text()}  \n\n")
    runs = tmp_path / "runs"
    (runs / "README.txt").touch()
    (runs / "copy of a run").mkdir()
    (runs / ("feed" * 4)).mkdir()  # it lacks a row
    (runs / ("beef" * 4)).touch()
    assert store.rows() == [make_row()]
    assert store.find("feed" * 4) is None
    assert store.find("beef" * 4) is None
    write(store, make_row("feed" * 4))
    assert len(store.rows()) == 2
    (store.run_folder(HASH) / ROW).unlink()
    assert make_row() in Store(tmp_path).rows()  # as it was packed


def test_a_file_in_place_of_the_results_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ResultFileError, match="results need a folder"):
        Store(tmp_path / "file")
    with pytest.raises(ResultFileError, match="file is a file, but results need a folder: choose another name"):
        Store(tmp_path / "file" / "deeper")


def test_what_is_not_json_is_refused_and_leaves_no_row(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write(Store(tmp_path), make_row(accuracy=float("nan")))
    assert Store(tmp_path).rows() == []


def test_a_lock_is_held_once_and_shows_as_running(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert not store.is_running(HASH)
    lock = store.lock(HASH)
    assert try_lock(lock)
    assert not try_lock(store.lock(HASH))
    assert store.is_running(HASH)
    lock.release()
    assert not store.is_running(HASH)
    assert try_lock(store.lock(HASH))
