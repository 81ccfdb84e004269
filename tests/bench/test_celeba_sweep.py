"""Every method on every CelebA setting, on pictures drawn for the purpose: that it runs, not how well."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from supportmatch.bench.methods import METHODS
from supportmatch.bench.runs import plan_runs
from supportmatch.cli import app
from supportmatch.data.celeba import make_celeba_folder
from supportmatch.data.problems import SETTINGS

PICTURES = 64
FACES = [setting for setting in SETTINGS.values() if setting.family == "celeba"]


@pytest.mark.slow
@pytest.mark.parametrize("setting", FACES, ids=lambda setting: setting.name)
def test_every_method_runs_on_every_celeba_setting(setting, tmp_path: Path) -> None:
    folder = make_celeba_folder(tmp_path / "celeba", n=PICTURES)
    for run in plan_runs([setting], METHODS.values(), [0], budget="smoke", folder=folder):
        if run.refusal is None:
            row = run.execute(threads=2).row
            assert row["error"] is None, row
            assert 0 <= row["robust_accuracy"] <= row["accuracy"] <= 1
        else:
            for_others = [name for name in METHODS if name.startswith("supportmatch") or name.endswith("-boosted")]
            assert run.method.name in ("ours-mlp-head", *for_others)


@pytest.mark.slow
def test_the_command_reads_faces_from_a_folder(tmp_path: Path) -> None:
    folder, out = make_celeba_folder(tmp_path / "celeba", n=PICTURES), str(tmp_path / "out")
    what = ["--setting", FACES[0].name, "--methods", "erm,ours-clustering", "--seeds", "0", "--budget", "smoke"]

    ended = CliRunner().invoke(app, ["bench", "run", *what, "--data", str(folder), "--out", out, "--workers", "2"])

    assert ended.exit_code == 0, ended.output
    rows = json.loads(CliRunner().invoke(app, ["bench", "table", "--out", out, "--json"]).stdout)
    assert [(row["method"], row["error"]) for row in rows] == [("erm", None), ("ours-clustering", None)]
