"""Every method on every CelebA setting, on pictures drawn for the purpose: that it runs, not how well."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from supportmatch.bench.methods import METHODS
from supportmatch.cli import app
from supportmatch.data.celeba import make_celeba_folder
from supportmatch.data.problems import SETTINGS

FACES = [name for name in SETTINGS if name.startswith("celeba-")]


@pytest.mark.slow
def test_every_method_runs_on_every_celeba_setting(tmp_path: Path) -> None:
    pictures, out = make_celeba_folder(tmp_path / "celeba", n=64), tmp_path / "out"
    command = ["bench", "run", "--methods", "all", "--seeds", "0", "--budget", "smoke", "--workers", "2", "--quiet"]
    where = ["--setting", ",".join(FACES), "--data", str(pictures), "--out", str(out)]

    ended = CliRunner().invoke(app, [*command, *where])

    assert ended.exit_code == 0, ended.output
    listed = CliRunner().invoke(app, ["bench", "table", "--out", str(out), "--json"])
    rows = json.loads(listed.stdout)
    assert {(row["setting"], row["method"]) for row in rows} == {(s, m) for s in FACES for m in METHODS}
    for row in rows:
        refusal = METHODS[row["method"]].refusal(SETTINGS[row["setting"]])
        assert row["error"] == (None if refusal is None else f"refused: {refusal}")
        assert (row["robust_accuracy"] is None) == (refusal is not None)
