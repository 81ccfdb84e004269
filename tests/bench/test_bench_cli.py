"""`supportmatch bench`: mistakes get one sentence before anything runs, and output for machines is nothing but JSON."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from supportmatch import cli
from supportmatch.bench.cli import ExecutorName, _make_executor
from supportmatch.bench.methods import METHODS
from supportmatch.bench.runs import plan_runs
from supportmatch.bench.store import Store, try_lock
from supportmatch.data.problems import find_setting

RUN = ("run", "--setting", "synthetic", "--methods", "erm", "--seeds", "0")
STATUS_HEAD = ("setting", "method", "budget", "done", "failed", "refused", "running", "missing")
SELECTION = ("--setting", "synthetic", "--methods", "erm,erm-plain", "--seeds", "0-2")


class Bench:
    """The command, in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.capsys, self.monkeypatch = capsys, monkeypatch

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self.monkeypatch.setattr(sys, "argv", ["supportmatch", "bench", *arguments])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        out, err = self.capsys.readouterr()
        return int(stop.value.code or 0), out, err


@pytest.fixture
def bench(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(capsys, monkeypatch)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Return a folder with rows as the runner writes them: three fine ones, a failure and a refusal."""
    store = Store(tmp_path / "results")
    methods = [METHODS["erm"], METHODS["erm-plain"]]
    runs = plan_runs([find_setting("synthetic")], methods, [0, 1, 2])
    for number, run in enumerate(runs[:5]):
        error = {3: "ValueError: no luck", 4: "refused: not here."}.get(number)
        row = run.fail(error or "", threads=1, seconds=2.0).row
        if error is None:
            row |= {"error": None, "robust_accuracy": 0.5 + number / 10, "accuracy": 0.9, "hgr": 0.1}
        store.write(row, run.spec.identity, {})
    return store.folder


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--setting", "mnist"), "unknown setting 'mnist': choose one of cmnist-sb, "),
        (("--setting", "synthetic,mnist"), "unknown setting 'mnist': choose one of cmnist-sb, "),
        (("--methods", "magic"), "unknown method 'magic': choose one of "),
        (("--seeds", "3-1"), "cannot read seeds from '3-1': write numbers and ranges, like 0-29 or 0,3,5-7."),
        (
            ("--setting", "celeba-no-smiling-male"),
            "CelebA may not be redistributed, so you must say where it is: pass `--data DIR`",
        ),
        (("--seeds", "0-3000000000"), "'0-3000000000' asks for more than 10,000 seeds: ask for fewer, like 0-29"),
        (("--address", "here:6379"), "`--address` is of use only with `--executor ray`"),
    ],
)
def test_a_mistake_gets_one_sentence_before_anything_runs(
    bench: Bench, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    code, out, err = bench(*RUN, *arguments, "--out", str(tmp_path / "out"))
    assert (code, out) == (2, "")
    assert err.startswith(f"supportmatch: {said}")
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_without_ray_the_sentence_says_what_to_install(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    code, _, err = bench(*RUN, "--executor", "ray", "--out", str(tmp_path / "out"))
    assert code == 2
    assert err == "supportmatch: Ray is not installed: run `pip install 'supportmatch[ray]'`.\n"


def test_a_ray_cluster_that_is_not_there_is_one_sentence_at_once(bench: Bench, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # but nobody listens
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, _, err = bench(*RUN, "--executor", "ray", "--address", address, "--out", str(tmp_path / "out"))
    assert code == 2
    assert err.startswith(f"supportmatch: cannot connect to the Ray cluster at {address} (")
    assert err.count("\n") == 1


def test_all_settings_are_those_that_need_no_folder(bench: Bench, tmp_path: Path) -> None:
    code, out, _ = bench("status", "--methods", "erm-plain", "--seeds", "0-1", "--out", str(tmp_path))
    assert code == 0
    names = [line.split()[0] for line in out.splitlines()[1:]]
    assert names == ["cmnist-sb", "cmnist-ms", "cmnist-3digit", "adult-sb", "adult-ms", "synthetic"]
    assert all(line.split()[1:] == ["erm-plain", "fast", *"000020"] for line in out.splitlines()[1:])


def test_a_comma_too_many_does_no_harm(bench: Bench, tmp_path: Path) -> None:
    _, out, _ = bench(
        "status", "--setting", "synthetic,", "--methods", ",erm, ,", "--seeds", "0", "--out", str(tmp_path)
    )
    assert [line.split()[:2] for line in out.splitlines()[1:]] == [["synthetic", "erm"]]
    code, _, err = bench("status", "--methods", " , ", "--out", str(tmp_path))
    assert (code, err) == (2, "supportmatch: there is no name in ' , ': write at least one, or leave it out.\n")


def test_a_run_is_announced_and_the_second_time_there_is_nothing_to_do(bench: Bench, tmp_path: Path) -> None:
    arguments = (*RUN, "--budget", "smoke", "--threads", "1", "--out", str(tmp_path / "out"))
    code, out, err = bench(*arguments)
    assert (code, out) == (0, "")
    first, summary = err.splitlines()
    assert first.startswith("[1/1] synthetic erm seed 0: robust accuracy 0.")
    assert summary.endswith("1 done, 0 refused, 0 failed.")
    assert bench(*arguments)[2] == summary + "\n"
    assert bench(*arguments, "--quiet") == (0, "", "")
    assert bench(*arguments, "--redo")[2].startswith("[1/1] synthetic erm seed 0: ")


def test_earlier_failures_in_the_selection_make_the_exit_code_one(bench: Bench, results: Path) -> None:
    code, _, err = bench("run", *SELECTION[:2], "--methods", "erm-plain", "--seeds", "0", "--out", str(results))
    assert code == 1
    summary, hint = err.splitlines()
    assert summary.endswith("0 done, 0 refused, 1 failed.")
    assert f"`supportmatch bench table --json --out {results}`" in hint
    assert "`--retry-failed`" in hint


def test_the_status_counts_every_run_once(bench: Bench, results: Path) -> None:
    store = Store(results)
    last = plan_runs([find_setting("synthetic")], [METHODS["erm-plain"]], [2])[0]
    assert bench("status", *SELECTION, "--out", str(results))[1].splitlines()[-1].split()[3:] == [*"011010"]
    lock = store.lock(last.spec.config_hash)
    assert try_lock(lock)
    lines = bench("status", *SELECTION, "--out", str(results))[1].splitlines()
    assert lines[0].split() == [*STATUS_HEAD, "older", "code"]
    assert lines[1].split() == ["synthetic", "erm", "fast", *"300000"]
    assert lines[2].split() == ["synthetic", "erm-plain", "fast", *"011100"]


def test_without_a_selection_the_status_counts_what_is_there(bench: Bench, results: Path) -> None:
    store = Store(results)
    row = next(row for row in store.rows() if row["method"] == "erm")
    store.write({**row, "code": "older"}, {}, {})
    store.write({**row, "budget": "paper", "config_hash": "f" * 16}, {}, {})
    lines = bench("status", "--out", str(results))[1].splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["synthetic", "erm", "fast", *"300001"],
        ["synthetic", "erm", "paper", *"100000"],
        ["synthetic", "erm-plain", "fast", *"011000"],
    ]
    assert len(bench("status", "--budget", "paper", "--out", str(results))[1].splitlines()) == 2


def test_what_will_be_refused_is_not_missing(bench: Bench, tmp_path: Path) -> None:
    selection = ("--setting", "adult-ms", "--methods", "gdro", "--seeds", "0-1")
    assert bench("status", *selection, "--out", str(tmp_path))[1].splitlines()[1].split()[3:] == [*"002000"]


def test_the_help_says_what_the_table_shows(bench: Bench) -> None:
    assert "quartiles" in bench("table", "--help")[1]


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system has no affinity")
def test_runs_share_the_cores_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(100, 300, 2)))
    assert _make_executor(ExecutorName.LOCAL, 3, None, None).threads == 33


def test_the_table_summarises_seeds(bench: Bench, results: Path) -> None:
    code, out, err = bench("table", "--out", str(results))
    assert (code, err) == (0, "")
    _, erm, simple = out.splitlines()
    assert "3  0.600 [0.550, 0.650] (0.500)" in erm
    assert erm.split()[-2:] == ["2.0", "0"]
    assert simple.split()[-3:] == ["refused", "-", "1"]
    assert "0.900 [0.900, 0.900] (0.900)" in bench("table", "--metric", "accuracy", "--out", str(results))[1]


def test_rows_of_another_configuration_are_not_averaged_with_the_rest(bench: Bench, results: Path) -> None:
    store = Store(results)
    row = next(row for row in store.rows() if row["method"] == "erm")
    other: dict[str, Any] = {**row, "config": {"epochs": 1}, "config_hash": "f" * 16, "robust_accuracy": 0.1}
    store.write(other, {}, {})
    out = bench("table", "--methods", "erm", "--out", str(results))[1]
    assert "3  0.600 [0.550, 0.650] (0.500)" in out
    assert "1  0.100 [0.100, 0.100] (0.100)" in out


def test_json_is_all_there_is_on_standard_output(bench: Bench, results: Path) -> None:
    rows = json.loads(bench("table", "--json", "--out", str(results))[1])
    assert len(rows) == 5
    needed = {"setting", "method", "seed", "accuracy", "robust_accuracy", "hgr", "seconds", "config_hash", "error"}
    assert all(row.keys() >= needed and "config" not in row for row in rows)
    assert [(row["method"], row["seed"]) for row in rows] == sorted((row["method"], row["seed"]) for row in rows)
    full = json.loads(bench("table", "--json", "--full", "--methods", "erm", "--out", str(results))[1])
    assert len(full) == 3
    assert all(row["config"] for row in full)


def test_packed_rows_make_the_same_table_without_folders(bench: Bench, results: Path, tmp_path: Path) -> None:
    before = bench("table", "--json", "--full", "--out", str(results))[1]
    code, out, _ = bench("pack", "--out", str(results))
    assert code == 0
    assert out.startswith("5 rows are in ")
    (results / "rows.jsonl").rename(tmp_path / "rows.jsonl")
    assert bench("table", "--json", "--full", "--out", str(tmp_path))[1] == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--metric", "f1"), "unknown metric 'f1': choose one of accuracy, robust_accuracy, "),
        (("--setting", "adult-sb"), "no results of setting 'adult-sb' in "),
        (("--methods", "gdro"), "no results of method 'gdro' in "),
    ],
)
def test_a_table_of_what_is_not_there_is_refused(
    bench: Bench, results: Path, arguments: tuple[str, ...], said: str
) -> None:
    code, out, err = bench("table", *arguments, "--json", "--out", str(results))
    assert (code, out) == (2, "")
    assert err.startswith(f"supportmatch: {said}")
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", [("table",), ("pack",), ("status",), ("status", *SELECTION)])
def test_a_folder_without_results_is_refused_and_not_made(
    bench: Bench, tmp_path: Path, command: tuple[str, ...]
) -> None:
    code, _, err = bench(*command, "--out", str(tmp_path / "nowhere"))
    assert code == 2
    assert "there are no results in" in err
    assert not (tmp_path / "nowhere").exists()


def test_figures_in_place_of_a_file_are_refused_in_one_sentence(bench: Bench, results: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("file", "file/below"):
        code, _, err = bench("plot", "--out", str(results), "--figures", str(tmp_path / name))
        assert code == 2
        assert err.startswith(f"supportmatch: {tmp_path / name} is, or is below, a file, but figures need a folder: ")
        assert err.count("\n") == 1


def test_rows_of_older_configurations_do_not_block_a_comparison(bench: Bench, results: Path) -> None:
    store = Store(results)
    row = next(row for row in store.rows() if row["method"] == "erm")
    store.write({**row, "config": {"epochs": 1}, "config_hash": "f" * 16, "robust_accuracy": 0.1}, {}, {})
    code, out, err = bench("compare", "--all", "--methods", "erm", "--out", str(results))
    assert code == 0
    assert "0.600 [0.550, 0.650] (0.500)" in out
    assert err == (
        "supportmatch: 1 rows of other configurations than the present one are left out: synthetic erm fast.\n"
    )


def test_a_torn_row_is_one_sentence(bench: Bench, results: Path) -> None:
    path = next((results / "runs").iterdir()) / "row.json"
    path.write_text(path.read_text()[:20])
    for command in (("table",), ("status", *SELECTION)):
        code, _, err = bench(*command, "--out", str(results))
        assert code == 2
        assert str(path) in err
        assert err.count("\n") == 1


def test_a_plot_of_what_runs_did_not_leave_says_so(bench: Bench, results: Path, tmp_path: Path) -> None:
    figures = str(tmp_path / "figures")
    code, _, err = bench("plot", "--out", str(results), "--figures", figures, "--kind", "curves")
    assert code == 2
    assert "nothing could be drawn" in err
