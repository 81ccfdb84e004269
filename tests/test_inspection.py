"""The audit of files: leaks, drift, differing columns, and the next command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from supportmatch.data.columns import Choices, Roles
from supportmatch.errors import ConfigError, MissingClassError
from supportmatch.inspection import TableAudit, TableSource

N = 400


def frame(seed: int = 0, **columns: Any) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    y, s = rng.integers(2, size=N), rng.integers(2, size=N)
    made = {
        "income": np.where(y, "high", "low"),
        "sex": np.where(s, "m", "f"),
        "age": (rng.normal(40, 10, N) + 5 * y).round(1),
        "job": rng.choice(["cook", "pilot", "clerk"], N),
    }
    return pd.DataFrame(made | {name: make(y, s, rng) for name, make in columns.items()})


def biased(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[~((rows.income == "high") & (rows.sex == "f"))]


def audit(folder: Path, train: pd.DataFrame, deploy: pd.DataFrame | None = None, **how: Any) -> TableAudit:
    train.to_csv(folder / "train.csv", index=False)
    path = None
    if deploy is not None:
        path = folder / "deploy.csv"
        deploy.to_csv(path, index=False)
    return TableSource(folder / "train.csv", Roles("income", ("sex",)), path, **how).open().audit([])


def unlabelled(seed: int = 1, **columns: Any) -> pd.DataFrame:
    return frame(seed, **columns).drop(columns=["income", "sex"])


def test_a_healthy_pair_of_files_has_no_findings_and_a_missing_source_has_the_next_command(tmp_path: Path) -> None:
    found = audit(tmp_path, biased(frame()), unlabelled())
    assert found.findings == ()
    assert (found.sources.missing, found.exit_code) == (("high/f",), 3)
    assert found.command.startswith(f"supportmatch fit {tmp_path}/train.csv")
    assert "--subgroups f,m" in found.command
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["columns"][0]["name"] == "age"


def test_complete_training_needs_no_command(tmp_path: Path) -> None:
    found = audit(tmp_path, frame())
    assert (found.exit_code, found.command) == (0, "")


def test_without_a_deployment_file_the_command_asks_for_one(tmp_path: Path) -> None:
    assert "--deploy DEPLOY.csv" in audit(tmp_path, biased(frame())).command


def test_a_declared_subgroup_without_rows_is_a_missing_subgroup(tmp_path: Path) -> None:
    men = frame().query("sex == 'm'")
    found = audit(tmp_path, men, unlabelled(), subgroup_names=(("f", "m"),))
    assert found.sources.setting == "missing subgroup"


def findings(found: TableAudit) -> str:
    return " ".join(found.findings)


def test_a_copy_of_the_label_and_of_the_subgroup_are_leaks(tmp_path: Path) -> None:
    copies = {"grade": lambda y, s, rng: np.where(y, "A", "B"), "title": lambda y, s, rng: np.where(s, "Mr", "Ms")}
    said = findings(audit(tmp_path, biased(frame(**copies)), unlabelled(**copies)))
    assert "Column grade tells the label nearly without error" in said
    assert "Column title tells the subgroup nearly without error" in said
    assert "Column grade tells the subgroup" not in said
    assert "job" not in said


def test_a_number_that_gives_the_label_away_is_a_leak(tmp_path: Path) -> None:
    pay = {"pay": lambda y, s, rng: (rng.normal(0, 1, len(y)) + 20 * y).round(1)}
    assert "Column pay tells the label" in findings(audit(tmp_path, frame(**pay)))


def test_other_units_new_words_and_missing_values_are_drift(tmp_path: Path) -> None:
    def columns(weight: float, word: str, share: float) -> dict[str, Any]:
        return {
            "weight": lambda y, s, rng: (rng.normal(70, 10, len(y)) * weight).round(),
            "town": lambda y, s, rng: rng.choice([word, word.upper()], len(y)),
            "note": lambda y, s, rng: np.where(rng.random(len(y)) < share, None, rng.choice(["p", "q"], len(y))),
        }

    said = findings(audit(tmp_path, frame(**columns(1, "rome", 0.0)), unlabelled(**columns(2.2, "paris", 0.6))))
    assert "Column weight lies between" in said
    assert "another unit" in said
    assert "Column town holds values in 100% of the deployment rows that training never has" in said
    assert "Column note has no value in 0% of the training rows but in" in said
    assert "age" not in said


def test_labels_in_the_deployment_file_are_said_and_not_used(tmp_path: Path) -> None:
    said = findings(audit(tmp_path, biased(frame()), frame(1)))
    assert "has the label column income, which is not used" in said
    assert "has the subgroup column sex, which is not used" in said


def test_rows_without_a_label_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = frame()
    rows.loc[:9, "income"] = None
    found = audit(tmp_path, rows)
    assert found.sources.n_train == N - 10
    assert "10 training rows have no income or no sex" in findings(found)


def test_differing_columns_are_said(tmp_path: Path) -> None:
    said = findings(audit(tmp_path, frame().assign(extra="12345678" * 50), unlabelled().assign(other=1)))
    assert "Column extra is not in the deployment file, so it is dropped." in said
    assert "Column other is not in the training file, so it is dropped." in said


def test_the_same_file_twice_is_refused(tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ConfigError, match="both as training and as deployment"):
        TableSource(tmp_path / "t.csv", Roles("income", ("sex",)), tmp_path / "t.csv").open()


def test_one_class_only_is_one_sentence(tmp_path: Path) -> None:
    from supportmatch.errors import TooFewClassesError

    with pytest.raises((TooFewClassesError, MissingClassError), match="at least two classes"):
        audit(tmp_path, frame().query("income == 'low'"))


def test_choices_reach_the_plan(tmp_path: Path) -> None:
    found = audit(tmp_path, frame(), choices=Choices(drop=("age",)))
    assert found.plan is not None
    assert [column.kind for column in found.plan.columns] == ["dropped", "categorical"]


def test_the_command_loads_nothing_heavy(tmp_path: Path) -> None:
    biased(frame()).to_csv(tmp_path / "train.csv", index=False)
    code = f"""
import runpy, sys
sys.argv = ["supportmatch", "audit", {str(tmp_path / "train.csv")!r}, "--label", "income", "--subgroup", "sex"]
try:
    runpy.run_module("supportmatch", run_name="__main__", alter_sys=True)
except SystemExit as stop:
    assert stop.code == 3, stop.code
found = [m for m in ("torch", "sklearn", "pandas", "scipy", "matplotlib", "PIL") if m in sys.modules]
import pyarrow as pa
assert pa.lib._pandas_api.have_pandas  # the command leaves Arrow as it was
print(found)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
