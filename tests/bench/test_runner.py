"""Sweeps do every run once, whatever is killed, and a run is known by what decides it."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy_methods import TOYS, wait_until

from supportmatch.bench.executors import LocalExecutor
from supportmatch.bench.methods import METHODS
from supportmatch.bench.methods.interface import Method
from supportmatch.bench.runner import sweep
from supportmatch.bench.runs import Run, RunSpec, is_failed, is_refused, parse_seeds, plan_runs
from supportmatch.bench.store import Row, Store
from supportmatch.data.problems import SETTINGS, find_setting
from supportmatch.errors import ConfigError, DataFolderError
from supportmatch.metrics import OVERALL

HERE = Path(__file__).parent
SPEC = RunSpec("synthetic", "guess", 0, "smoke", {"steps": 3, "inner": {"a": 1.0, "b": None}}, "abc")


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which every run leaves a file when it starts."""
    folder = tmp_path / "log"
    folder.mkdir()
    monkeypatch.setenv("TOY_LOG", str(folder))
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    return folder


def plan(*methods: Method, seeds: str = "0") -> list[Run]:
    return plan_runs([find_setting("synthetic")], methods, parse_seeds(seeds), budget="smoke")


def run_all(runs: list[Run], folder: Path, workers: int = 1, **options: Any) -> list[Row]:
    with LocalExecutor(workers, threads=1) as executor:
        return sweep(runs, Store(folder), executor, **options)


def scores(rows: list[Row]) -> list[list[Any]]:
    names = ("config_hash", "seed", "error", "by_source", "by_subgroup", "details", *OVERALL)
    return [[row[name] for name in names] for row in rows]


def start_sweep(out: Path, method: str, seeds: str, workers: int = 2) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        str(HERE / "toy_methods.py"),
        "bench",
        "run",
        "--setting",
        "synthetic",
        "--out",
        str(out),
    ]
    command += ["--methods", method, "--seeds", seeds, "--budget", "smoke", "--threads", "1", "--workers", str(workers)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)


def starts(log: Path) -> Counter[int]:
    """Count how often the run of each seed was started."""
    return Counter(int(path.name.partition("-")[0]) for path in log.glob("*-*"))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/status")  # a zombie computes nothing; whoever starts processes here may be slow to reap
    try:
        return "State:\tZ" not in status.read_text()
    except FileNotFoundError:
        return not Path("/proc/self").exists()


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("0", [0]), ("0-3", [0, 1, 2, 3]), ("0,3,5-7", [0, 3, 5, 6, 7]), (" 2 , 1-2", [1, 2]), ("7-7", [7])],
)
def test_seeds_are_numbers_and_ranges(text: str, seeds: list[int]) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "a", "3-1", "-1", "1,,2", "0-", "1.5", "0..3", "0-" + "9" * 5000])
def test_other_seeds_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match="like 0-29"):
        parse_seeds(text)


@pytest.mark.parametrize("text", ["0-10000", "0-3000000000", "0-6000,6000-12000", "1-999999999999999999"])
def test_too_many_seeds_are_refused_before_they_fill_the_memory(text: str) -> None:
    with pytest.raises(ConfigError, match=f"'{text}' asks for more than 10,000 seeds: ask for fewer, like 0-29"):
        parse_seeds(text)
    assert len(parse_seeds("0-9999,5-8")) == 10_000


def test_every_part_of_a_run_but_the_folder_changes_its_hash() -> None:
    others = {
        "setting": "adult-sb",
        "method": "erm",
        "seed": 1,
        "budget": "fast",
        "configuration": {"steps": 3, "inner": {"a": 1.0, "b": 2}},
        "data_hash": "abd",
    }
    assert {field.name for field in fields(RunSpec)} == {*others, "folder"}
    hashes = {replace(SPEC, **{name: value}).config_hash for name, value in others.items()}
    assert len(hashes | {SPEC.config_hash}) == len(others) + 1
    assert replace(SPEC, folder=Path("elsewhere")).config_hash == SPEC.config_hash
    assert len(SPEC.config_hash) == 16


def test_the_hash_does_not_depend_on_the_order_of_keys() -> None:
    shuffled = {"inner": {"b": None, "a": 1.0}, "steps": 3}
    assert replace(SPEC, configuration=shuffled).config_hash == SPEC.config_hash


def test_a_configuration_that_is_not_json_is_refused() -> None:
    with pytest.raises(ConfigError, match="guess on synthetic is not JSON"):
        _ = replace(SPEC, configuration={"rate": float("nan")}).config_hash


@pytest.mark.parametrize("name", METHODS)
def test_every_method_can_be_sent_to_a_worker_and_has_a_configuration_for_every_setting(name: str) -> None:
    method = pickle.loads(pickle.dumps(METHODS[name]))
    for setting in SETTINGS.values():
        spec = RunSpec(setting.name, name, 0, "fast", method.configuration(setting, "fast"), "")
        assert spec == replace(spec, configuration=METHODS[name].configuration(setting, "fast"))
        assert spec.config_hash


def test_a_setting_without_its_folder_is_refused() -> None:
    setting = find_setting("celeba-no-smiling-female")
    with pytest.raises(DataFolderError, match=r"pass `--data DIR`.*img_align_celeba"):
        plan_runs([setting], [TOYS["guess"]], [0])


def test_one_failing_run_is_a_row_and_the_others_go_on(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = plan(TOYS["broken"], TOYS["dies"], TOYS["refuses"], TOYS["warns"])
    heard: list[tuple[str, int, int]] = []
    rows = run_all(runs, tmp_path, workers=2, listen=lambda row, *counts: heard.append((row["method"], *counts)))
    assert sorted(heard, key=lambda one: one[1]) == [(name, i, 4) for i, (name, *_) in enumerate(heard, start=1)]
    assert {name for name, *_ in heard} == {"broken", "dies", "refuses", "warns"}
    broken, dead, refused, fine = rows

    assert broken["error"] == "ArithmeticError: the numbers do not add up"
    assert "toy_methods.py" in (Store(tmp_path).run_folder(broken["config_hash"]) / "traceback.txt").read_text()
    assert "SIGKILL" in dead["error"]
    assert refused["error"] == "refused: this method needs every subgroup in training."
    assert [is_failed(row) for row in rows] == [True, True, False, False]
    assert is_refused(refused)
    assert all(row[score] is None for row in (broken, dead, refused) for score in OVERALL)

    assert set(fine) == set(broken) == set(dead) == set(refused)
    assert fine["error"] is None
    assert fine["robust_accuracy"] == min(fine["by_subgroup"].values())
    assert set(fine["by_source"]) == {"0/0", "0/1", "1/0", "1/1"}
    assert set(fine["confusion"]) == set(fine["by_source"])
    for source, counts in fine["confusion"].items():
        assert list(counts) == ["0", "1"]
        assert counts[source[0]] / sum(counts.values()) == fine["by_source"][source]
    assert broken["confusion"] == refused["confusion"] == {}
    assert fine["warnings"] == ["a cluster is dying"]
    assert fine["sees_deployment_labels"] is True
    assert fine["details"] == {"threads": 1}  # as torch counts them
    assert 50 < fine["peak_memory_mb"] < 5000
    assert fine["config"] == runs[3].spec.configuration
    folder = Store(tmp_path).run_folder(fine["config_hash"])
    with np.load(folder / "arrays.npz", allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["codes"], [0, 1, 2])
    assert (folder / "history.jsonl").read_text() == '{"step": 0, "total": 1.5}\n'

    # The second time nothing is left to do; asked to, a sweep tries what failed again, and only that.
    assert run_all(runs, tmp_path) == rows
    assert len(list(log.iterdir())) == 2
    (log / "mended").touch()
    again = run_all([runs[0], runs[3]], tmp_path, retry_failed=True)
    assert again[0]["error"] is None
    assert again[1] == fine
    monkeypatch.setenv("TOY_WILLING", "yes")  # and what is no longer refused is done without asking
    assert run_all([runs[2]], tmp_path)[0]["error"] is None


def test_a_run_that_has_a_row_is_done_again_only_on_request(log: Path, tmp_path: Path) -> None:
    runs = plan(TOYS["guess"], TOYS["refuses"])
    first = run_all(runs, tmp_path)
    for row, run in zip(first, runs, strict=True):
        Store(tmp_path).write({**row, "code": "older"}, run.spec.identity, {"arrays.npz": b"older"})
    assert [row["code"] for row in run_all(runs, tmp_path, retry_failed=True)] == ["older", "older"]
    assert starts(log) == {0: 1}
    again = run_all(runs, tmp_path, redo=True)
    assert starts(log) == {0: 2}
    assert scores(again) == scores(first)
    assert [row["code"] for row in again] == [row["code"] for row in first]
    assert (Store(tmp_path).run_folder(again[0]["config_hash"]) / "arrays.npz").read_bytes() != b"older"


def test_one_and_two_workers_make_the_same_rows_and_packed_rows_are_not_made_again(log: Path, tmp_path: Path) -> None:
    runs = plan(TOYS["guess"], seeds="0-1")
    one, two = (run_all(runs, tmp_path / str(workers), workers=workers) for workers in (1, 2))
    assert scores(one) == scores(two)
    assert one[0]["details"] == {"share": 0.5, "undefined": None}
    assert starts(log) == {0: 2, 1: 2}
    Store(tmp_path / "1").pack()
    (tmp_path / "kept").mkdir()
    (tmp_path / "1" / "rows.jsonl").rename(tmp_path / "kept" / "rows.jsonl")
    assert run_all(runs, tmp_path / "kept") == one
    assert starts(log) == {0: 2, 1: 2}


def test_a_real_method_leaves_a_row_with_scores(tmp_path: Path) -> None:
    (row,) = run_all(plan(METHODS["erm"]), tmp_path)
    assert row["error"] is None
    assert 0 <= row["robust_accuracy"] <= row["accuracy"] <= 1
    assert row["cpu_seconds"] > 0


def test_a_sweep_that_is_killed_leaves_no_orphans_and_the_next_one_does_the_rest(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    killed = start_sweep(out, "slow", "0-3")
    wait_until(lambda: len(Store(out).rows()) >= 1 and len(list(log.iterdir())) >= 3, "a row and a run at work")
    killed.kill()
    killed.communicate()
    kept = Store(out).rows()
    workers = [int(path.name.partition("-")[2]) for path in log.iterdir()]
    wait_until(lambda: not any(map(is_alive, workers)), "the workers to notice")

    resumed = start_sweep(out, "slow", "0-3")
    _, said = resumed.communicate()
    assert resumed.returncode == 0, said
    rows = Store(out).rows()
    assert [row["seed"] for row in rows] == [0, 1, 2, 3]
    assert all(row in rows for row in kept)  # as they were, not made again
    assert all(starts(log)[row["seed"]] == 1 for row in kept)


def test_two_sweeps_at_once_share_the_work(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    both = [start_sweep(out, "slow", "0-3", workers=1) for _ in range(2)]
    for one in both:
        _, said = one.communicate()
        assert one.returncode == 0, said
        assert "4 runs" in said  # each waited for what the other did
    assert starts(log) == dict.fromkeys(range(4), 1)
    assert [row["seed"] for row in Store(out).rows()] == [0, 1, 2, 3]


def test_a_run_whose_sweep_was_killed_is_taken_over_by_a_sweep_that_waits_for_it(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = start_sweep(out, "waits", "0", workers=1)
    wait_until(lambda: len(list(log.iterdir())) == 1, "the run to start")
    second = start_sweep(out, "waits", "0", workers=1)
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(3)  # it has nothing to do but does not give up
    first.kill()
    first.communicate()
    (log / "go").touch()
    _, said = second.communicate()
    assert second.returncode == 0, said
    assert len(Store(out).rows()) == 1
    assert starts(log) == {0: 2}


def test_an_interrupted_sweep_stops_its_workers_and_says_how_to_go_on(log: Path, tmp_path: Path) -> None:
    running = start_sweep(tmp_path / "out", "waits", "0-1")
    wait_until(lambda: len(list(log.iterdir())) >= 1, "a run at work")
    workers = [int(path.name.partition("-")[2]) for path in log.iterdir()]
    os.killpg(running.pid, signal.SIGINT)  # to all of them, as a terminal does
    _, said = running.communicate()
    assert running.returncode == 130
    assert said.splitlines()[-1] == "supportmatch: stopped; finished runs are kept, and the same command does the rest."
    assert "Traceback" not in said
    assert not any(map(is_alive, workers))


def test_a_run_on_other_data_than_it_was_planned_with_is_a_row_with_an_error(tmp_path: Path) -> None:
    from supportmatch.data.celeba import make_celeba_folder

    folder = make_celeba_folder(tmp_path / "faces", n=40)
    (run,) = plan_runs([find_setting("celeba-no-smiling-female")], [METHODS["erm"]], [0], budget="smoke", folder=folder)
    next((folder / "img_align_celeba").glob("*.jpg")).unlink()
    row = run.execute(threads=1).row
    assert row["error"].startswith("DataFolderError: the data is not what the run was planned with")
    assert row["robust_accuracy"] is None
