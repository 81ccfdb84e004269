"""The command line: answers at once, refuses clearly, and shows what the paper claims."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import supportmatch
from supportmatch.output import MARK


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "supportmatch", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def demo(setting: str, out: Path) -> dict[str, Any]:
    done = run("demo", "--setting", setting, "--json", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert "MISSING" in done.stderr  # words and tables go to standard error
    result: dict[str, Any] = json.loads(done.stdout)  # and standard output holds one object, nothing else
    return result


def test_the_version_is_that_of_the_package() -> None:
    assert run("--version").stdout.strip() == f"supportmatch {supportmatch.__version__}"


def test_an_unknown_setting_is_refused_with_the_known_ones() -> None:
    done = run("demo", "--setting", "cmnist")
    assert done.returncode == 2
    assert "cmnist-sb" in done.stderr


def test_an_existing_folder_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    done = run("demo", "--setting", "adult-sb", "--out", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "exists and is not overwritten" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_impatience_does_not_break_into_the_end_of_a_stopped_command() -> None:
    code = (
        "import atexit, sys, time; from supportmatch import cli, inspection\n"
        "atexit.register(time.sleep, 1)\n"  # libraries tidy up at the end, too
        "inspection.TableSource.open = lambda self: (print('at work', flush=True), time.sleep(60))\n"
        "sys.argv[1:] = ['audit', 'train.csv', '--label', 'y', '--subgroup', 's']\n"
        "cli.main()"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "at work\n"
    process.send_signal(signal.SIGINT)
    said = process.stderr.readline()
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
    _, rest = process.communicate(timeout=60)
    assert "stopped, with nothing half-written" in said
    assert rest == ""
    assert process.returncode == 130


@pytest.mark.slow
def test_on_digits_the_ordinary_classifier_fails_and_support_matching_does_not(tmp_path: Path) -> None:
    result = demo("cmnist-sb", tmp_path / "out")
    assert result["audit"]["missing"] == ["4/purple"]
    assert result["clustering"]["accuracy"] >= 0.97
    assert result["methods"]["erm"]["robust_accuracy"] < 0.6
    assert result["methods"]["erm"]["by_source"]["4/purple"]["accuracy"] < 0.1
    assert result["methods"]["support-matching"]["robust_accuracy"] >= 0.96
    names = {path.name for path in (tmp_path / "out").iterdir()}
    figures = {"sources.png", "accuracy.png", "history.png", "reconstructions.png"}
    assert names == figures | {"result.json", "model", MARK}
    assert result == json.loads((tmp_path / "out" / "result.json").read_text())


@pytest.mark.slow
def test_on_adult_support_matching_is_far_above_the_ordinary_classifier(tmp_path: Path) -> None:
    result = demo("adult-sb", tmp_path / "out")
    assert result.keys() >= {"setting", "seed", "seconds", "audit", "methods"}
    robust = {name: method["robust_accuracy"] for name, method in result["methods"].items()}
    assert robust["support-matching"] > robust["erm"] + 0.1
