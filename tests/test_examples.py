"""The examples run and show what they say. `method_in_one_file.py`, the specification, has tests of its own."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
TESTED = {"quickstart", "tabular_adult", "colored_digits", "when_it_fails"}


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_example_is_tested() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == TESTED | {"method_in_one_file"}


def test_the_quickstart_is_short_and_far_above_an_ordinary_classifier(capsys: pytest.CaptureFixture[str]) -> None:
    assert len((FOLDER / "quickstart.py").read_text(encoding="utf-8").splitlines()) < 40
    robust = load("quickstart").main()
    assert robust["support-matching"] > robust["ordinary classifier"] + 0.03
    printed = capsys.readouterr().out
    assert "MISSING" in printed
    assert "best possible" in printed


def test_coloured_digits_run_with_few_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    robust = load("colored_digits").main(["--rows", "200", "--steps", "3", "--out", str(tmp_path / "model")])
    assert set(robust) == {"ordinary classifier", "cluster labels", "support-matching"}
    assert "4/purple" in capsys.readouterr().out
    assert (tmp_path / "model" / "model.safetensors").is_file()


@pytest.mark.slow
def test_on_adult_the_default_is_level_with_simple_things_and_the_example_says_which_are_better(
    capsys: pytest.CaptureFixture[str],
) -> None:
    robust = load("tabular_adult").main([])
    assert robust["support-matching"] > robust["ordinary classifier"] + 0.1
    assert robust["support-matching"] >= max(robust[name] for name in ("complete support", "pseudo-labels")) - 0.01
    assert "At least as good as support-matching here:" in capsys.readouterr().out


@pytest.mark.slow
def test_where_it_fails_the_example_shows_failures(capsys: pytest.CaptureFixture[str]) -> None:
    found = load("when_it_fails").main([])
    printed = capsys.readouterr().out
    assert "not identified" in printed
    hidden, lost, turned, identified = found.values()
    assert min(hidden["ordinary classifier"].values()) > 0.9  # no shortcut to be learned
    assert min(lost["ordinary classifier"].values()) > 0.9
    assert "labels contradict" in printed  # of the last table, whose verdict is "identified"
    assert all(min(accuracies.values()) < 0.5 for accuracies in turned.values())
    assert min(identified["support-matching"].values()) < 0.5
    assert min(identified["mixture clusters, trees"].values()) > 0.9
