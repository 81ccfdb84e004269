"""From files nobody prepared to a model folder, predictions and measurements."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from typer.testing import CliRunner

from supportmatch import load
from supportmatch.cli import app
from supportmatch.errors import SupportMatchError, SupportMatchWarning
from supportmatch.export import PREPROCESSING, PROGRAM, encode_table
from supportmatch.fitting import CARD, CONFIG, PAGE, RECORD
from supportmatch.report.card import all_warnings
from supportmatch.report.content import ReportContent
from supportmatch.snapshots import CLUSTERS, FILE

WRITTEN = {PAGE, CARD, CONFIG, RECORD, "history.jsonl", "model.json", "model.safetensors", "report.json"}
FAST = "[matching]\nsteps = 20\n[clustering]\npretrain_steps = 5\n[classifier]\nepochs = 5\n"


def rows(n: int, seed: int, gaps: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    y, s, race = rng.integers(2, size=n), rng.integers(2, size=n), rng.integers(2, size=n)
    made = pd.DataFrame(
        {
            "Earns ?": np.where(y, " >50K", " <=50K"),
            "sex!": np.where(s, " Male", " Female"),
            "race": np.where(race, "A", "B"),
            "größe, cm": (rng.normal(170, 8, n) + 8 * s + 3 * y).round(1),
            "job": rng.choice([" cook", " pilot", " clerk"], n),
            "since": "2020-01-01",
            "weird<script>": rng.normal(size=n).round(2) + y,
        }
    )
    if gaps:
        made["größe, cm"] = made["größe, cm"].astype(object).where(rng.random(n) > 0.1, "?")
        made["job"] = made["job"].where(rng.random(n) > 0.1, " ?")
    return made


def biased(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[~((frame["Earns ?"] == " >50K") & (frame["sex!"] == " Female"))]


LABELS = ["Earns ?", "sex!"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    biased(rows(500, 0, gaps=True)).to_csv(folder / "train.csv", index=False)
    rows(400, 1, gaps=True).drop(columns=LABELS).to_csv(folder / "deploy.csv", index=False)
    rows(300, 2, gaps=True).to_csv(folder / "test.csv", index=False)
    (folder / "fast.toml").write_text(FAST)
    return folder


def run(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def ok(*arguments: str | Path) -> Any:
    result = run(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def refused(*arguments: str | Path) -> str:
    """Return the one sentence that a mistake gets."""
    result = run(*arguments)
    assert isinstance(result.exception, SupportMatchError), (result.output, result.exception)
    sentence = str(result.exception)
    assert "\n" not in sentence
    return sentence


def fit_options(files: Path, train: str = "train.csv", deploy: str = "deploy.csv") -> list[str | Path]:
    names = ["--label", "Earns ?", "--subgroup", "sex!", "--deploy", files / deploy, "--config", files / "fast.toml"]
    return ["fit", files / train, *names, "--quiet"]


@pytest.fixture(scope="module")
def model(files: Path) -> Path:
    out = files / "model"
    ok(*fit_options(files), "--test", files / "test.csv", "--out", out)
    return out


def test_a_fit_leaves_everything_that_belongs_to_the_model_and_nothing_else(files: Path, model: Path) -> None:
    assert {path.name for path in model.iterdir()} >= WRITTEN
    assert not list(files.glob(".*"))
    loaded = load(model)
    assert loaded.grid_.classes == ("<=50K", ">50K")
    assert loaded.config_.matching.steps == 20
    assert len((model / "history.jsonl").read_text().splitlines()) == 20
    page = (model / PAGE).read_text()
    assert "weird&lt;script&gt;" in page
    assert "weird<script>" not in page


def test_the_settings_of_a_model_can_be_used_again(files: Path, model: Path) -> None:
    again = files / "again"
    options = [option if option != files / "fast.toml" else model / CONFIG for option in fit_options(files)]
    ok(*options, "--out", again)
    assert (again / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()


def test_predictions_stand_beside_the_columns_as_they_were(files: Path, model: Path) -> None:
    out = files / "predicted.csv"
    ok("predict", model, files / "deploy.csv", "--out", out, "--quiet", "--overwrite")
    before, after = (pd.read_csv(path, dtype=str, keep_default_na=False) for path in (files / "deploy.csv", out))
    assert after[before.columns].equals(before)
    added = after.drop(columns=before.columns)
    assert list(added) == ["predicted Earns ?", "probability of <=50K", "probability of >50K"]
    assert set(added["predicted Earns ?"]) <= {"<=50K", ">50K"}
    total = added["probability of <=50K"].astype(float) + added["probability of >50K"].astype(float)
    assert total.to_numpy() == pytest.approx(1, abs=1e-5)


def test_a_file_in_pieces_is_predicted_like_the_whole(
    files: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ok("predict", model, files / "deploy.csv", "--out", files / "whole.parquet", "--quiet")
    monkeypatch.setattr("supportmatch.data.files._BLOCK_BYTES", 2_000)
    ok("predict", model, files / "deploy.csv", "--out", files / "pieces.parquet", "--quiet")
    whole, pieces = (pd.read_parquet(files / f"{name}.parquet") for name in ("whole", "pieces"))
    pd.testing.assert_frame_equal(whole, pieces)


def test_columns_that_do_not_fit_are_named_and_nothing_is_left(files: Path, model: Path) -> None:
    deploy = pd.read_csv(files / "deploy.csv")
    deploy.drop(columns=["job"]).to_csv(files / "lacks.csv", index=False)
    deploy.assign(bonus=1).to_csv(files / "new.csv", index=False)
    out = files / "never.csv"
    assert "lacks the column job" in refused("predict", model, files / "lacks.csv", "--out", out)
    assert "has the column bonus, which neither file had" in refused("predict", model, files / "new.csv", "--out", out)
    assert "drop it, or pass --allow-new-columns to carry it along" in refused(
        "predict", model, files / "new.csv", "--out", out
    )
    assert not out.exists()
    ok("predict", model, files / "new.csv", "--out", out, "--allow-new-columns", "--quiet")
    assert "bonus" in pd.read_csv(out).columns
    assert "exists and is not overwritten" in refused("predict", model, files / "deploy.csv", "--out", out)


def test_a_bad_value_far_down_a_file_leaves_nothing(files: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supportmatch.data.files._BLOCK_BYTES", 2_000)
    deploy = pd.read_csv(files / "deploy.csv", dtype=str)
    deploy.loc[390, "größe, cm"] = "tall"
    deploy.to_csv(files / "bad.csv", index=False)
    said = refused("predict", model, files / "bad.csv", "--out", files / "bad-out.csv", "--quiet")
    assert "'größe, cm'" in said
    assert "at least 1 value that is no number (tall)" in said
    assert not list(files.glob("*bad-out*")) + list(files.glob(".bad-out*"))


def test_unknown_categories_and_new_gaps_are_predicted(files: Path, model: Path) -> None:
    odd = pd.read_csv(files / "deploy.csv", dtype=str).head(3)
    odd["job"], odd["weird<script>"] = "astronaut", None
    odd.to_csv(files / "odd.csv", index=False)
    said = ok("predict", model, files / "odd.csv", "--out", files / "odd-out.csv", "--quiet").stderr
    assert "warning: in 3 of 3 rows" in said
    assert "column job holds a value that no row had at the fit" in said
    assert len(pd.read_csv(files / "odd-out.csv")) == 3


def test_the_same_rows_are_predicted_alike_however_their_file_writes_them(files: Path) -> None:
    rng = np.random.default_rng(0)
    y, s = rng.integers(2, size=400), rng.integers(2, size=400)
    typed = pd.DataFrame({"y": y, "s": s, "flag": (y + s) % 2 == 1, "x": rng.normal(size=400) + y})
    typed["code"] = pd.Categorical(rng.integers(3, size=400) + s)
    typed[~((y == 1) & (s == 1))].to_parquet(files / "typed-train.parquet")
    rows = typed.drop(columns=["y", "s"])
    rows.to_parquet(files / "typed.parquet")
    rows.to_csv(files / "typed.csv", index=False)
    rows.assign(code=rows["code"].astype(float)).to_csv(files / "typed-floats.csv", index=False)
    options = ["--label", "y", "--subgroup", "s", "--deploy", files / "typed.parquet", "--config", files / "fast.toml"]
    out = files / "typed-model"
    ok("fit", files / "typed-train.parquet", *options, "--categorical", "code", "--out", out, "--quiet")
    found = []
    for name in ("typed.parquet", "typed.csv", "typed-floats.csv"):
        target = files / f"{name}-predicted.csv"
        assert ok("predict", out, files / name, "--out", target, "--quiet").stderr == ""
        found.append(pd.read_csv(target)["probability of 1"])
    assert found[0].equals(found[1])
    assert found[0].equals(found[2])


def test_a_data_frame_is_predicted_like_the_file_it_was_read_from(files: Path, model: Path) -> None:
    ok("predict", model, files / "deploy.csv", "--out", files / "from_file.csv", "--overwrite")
    in_file = pd.read_csv(files / "from_file.csv")["probability of >50K"]
    frame = pd.read_csv(files / "deploy.csv")  # cells such as " cook" and " ?" as they stand in the file
    frame["größe, cm"] = frame["größe, cm"].astype(str)  # numbers as text, as they come from other programs
    features = [column["name"] for column in json.loads((model / RECORD).read_text())["columns"]]
    kept = frame[[name for name in frame.columns if name in features and name != "since"]]
    probabilities = load(model).predict_proba(kept)
    np.testing.assert_allclose(probabilities[:, 1], in_file, atol=1e-6)

    ok("export", model, "--out", files / "exported", "--overwrite")
    preprocessing = json.loads((files / "exported" / PREPROCESSING).read_text())
    as_read = kept.assign(**{"größe, cm": pd.to_numeric(kept["größe, cm"].str.strip(), errors="coerce")})
    inputs = map(torch.from_numpy, encode_table(as_read, preprocessing))
    exported = torch.export.load(files / "exported" / PROGRAM).module()(*inputs)
    np.testing.assert_allclose(exported[:, 1].detach(), in_file, atol=1e-5)


def test_values_that_no_row_had_are_warned_of_in_python_too(files: Path, model: Path) -> None:
    kept = pd.read_csv(files / "deploy.csv").drop(columns="since").assign(race="nonsense")
    with pytest.warns(SupportMatchWarning, match=r"in 400 of 400 rows column 'race' holds a value .*nonsense"):
        load(model).predict(kept)


def test_only_files_are_replaced_and_never_the_one_that_is_read(files: Path, model: Path) -> None:
    deploy, folder = files / "deploy.csv", files / "a folder"
    folder.mkdir()
    assert "not a regular file" in refused("predict", model, deploy, "--out", folder, "--overwrite")
    before = deploy.read_bytes()
    assert "is the file that is read" in refused("predict", model, deploy, "--out", deploy, "--overwrite")
    assert deploy.read_bytes() == before


def test_a_file_without_rows_leaves_nothing(files: Path, model: Path) -> None:
    pd.read_csv(files / "deploy.csv").head(0).to_csv(files / "none.csv", index=False)
    pd.read_csv(files / "deploy.csv").head(0).to_parquet(files / "none.parquet")
    for name in ("none.csv", "none.parquet"):
        assert "no rows" in refused("predict", model, files / name, "--out", files / "none-out.csv")
        assert not (files / "none-out.csv").exists()


def test_a_measured_file_may_hold_predictions_already(files: Path, model: Path) -> None:
    ok("predict", model, files / "test.csv", "--out", files / "again-out.csv", "--quiet")
    ok("evaluate", model, files / "again-out.csv", "--json")


def test_white_space_around_the_names_of_columns_does_not_matter(files: Path) -> None:
    what = ["audit", files / "train.csv", "--label", " Earns ? ", "--subgroup", " sex! "]
    assert json.loads(run(*what, "--json").stdout)["missing"] == [">50K/Female"]
    assert "Did you mean 'sex!'?" in refused("audit", files / "train.csv", "--label", "Earns ?", "--subgroup", "Sex")


def test_names_with_commas_can_be_given_and_the_next_command_gives_them(files: Path) -> None:
    frame = biased(rows(300, 0)).rename(columns={"sex!": "born, as"})
    frame["born, as"] = frame["born, as"].str.strip().map({"Male": "Doe, John", "Female": "Roe, Jane"})
    frame.to_csv(files / "commas.csv", index=False)
    what = ["audit", files / "commas.csv", "--label", "Earns ?", "--subgroup", '"born, as"']
    command = json.loads(run(*what, "--json").stdout)["next_command"]
    options = shlex.split(command)
    again = run(*what, "--subgroups", options[options.index("--subgroups") + 1])
    assert again.exit_code == 3
    assert "Doe, John" in again.output


def test_a_fit_of_no_steps_and_one_stopped_at_its_end_are_finished(files: Path, tmp_path: Path) -> None:
    none = tmp_path / "none.toml"
    none.write_text(FAST.replace("steps = 20", "steps = 0", 1))
    options = [option if option != files / "fast.toml" else none for option in fit_options(files)]
    ok(*options, "--out", tmp_path / "untrained")


def test_measuring_agrees_with_the_predictions(files: Path, model: Path) -> None:
    found = json.loads(ok("evaluate", model, files / "test.csv", "--json").stdout)
    ok("predict", model, files / "test.csv", "--out", files / "test-out.csv", "--quiet")
    out = pd.read_csv(files / "test-out.csv", skipinitialspace=True)
    right = out["Earns ?"].str.strip() == out["predicted Earns ?"]
    assert found["accuracy"] == pytest.approx(right.mean())
    assert found["robust_accuracy"] == pytest.approx(right.groupby(out["sex!"].str.strip()).mean().min())
    assert set(found["calibration"]["by_subgroup"]) == {"Female", "Male"}


def test_measuring_works_when_cells_are_empty_and_rows_lack_labels(files: Path, model: Path) -> None:
    some = pd.read_csv(files / "test.csv", dtype=str)
    some = some[~((some["Earns ?"] == " >50K") & (some["sex!"] == " Female"))]
    some.loc[some.index[:5], "Earns ?"] = None
    some.to_csv(files / "some.csv", index=False)
    result = ok("evaluate", model, files / "some.csv", "--json")
    assert "5 rows have no label" in result.stderr
    assert json.loads(result.stdout)["by_source"][">50K/Female"]["accuracy"] is None


def test_a_measurement_can_be_put_into_the_report_and_the_report_written_anew(files: Path, model: Path) -> None:
    copy = files / "unmeasured"
    ok(*fit_options(files), "--out", copy)
    before = (copy / PAGE).read_text()
    ok("evaluate", copy, files / "test.csv", "--update-report")
    after = (copy / PAGE).read_text()
    assert before != after
    assert "No simpler method was measured; fit with <code>--test</code> to have them measured." in after
    (copy / PAGE).unlink()
    ok("report", copy)
    assert (copy / PAGE).read_text() == after


def test_a_measurement_on_other_rows_keeps_the_comparison_and_says_on_which_rows_it_was_made(
    files: Path, model: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "model"
    shutil.copytree(model, copy)
    before = ReportContent.load(copy)
    rows(200, 7).to_csv(tmp_path / "later.csv", index=False)
    for _ in range(2):  # the second measurement replaces the first
        ok("evaluate", copy, tmp_path / "later.csv", "--update-report")
    after = ReportContent.load(copy)
    assert after.alternatives == before.alternatives
    assert [file["role"] for file in after.provenance["files"]] == ["training", "deployment", "test", "measured"]
    statement = "compared at the fit, on other rows (test.csv, n = 300) than those measured here"
    for page in (PAGE, CARD):
        assert statement in (copy / page).read_text().replace("\\", "")
    ok("evaluate", copy, files / "test.csv", "--update-report")
    again = ReportContent.load(copy)
    assert again.provenance["files"] == before.provenance["files"]
    assert again.evaluation == before.evaluation
    assert "compared at the fit" not in (copy / PAGE).read_text()


def test_rows_that_lack_a_missing_source_are_warned_of_when_they_are_measured(
    files: Path, model: Path, tmp_path: Path
) -> None:
    biased(rows(200, 7)).to_csv(tmp_path / "lacking.csv", index=False)
    said = ok("evaluate", model, tmp_path / "lacking.csv").stderr
    assert "warning: These rows include none of >50K/Female, so how well the model does there" in said


def test_the_report_shows_the_simple_things_beside_the_model(model: Path) -> None:
    content = json.loads((model / "report.json").read_text())
    names = [line["name"] for line in content["alternatives"]]
    rivals = ["ordinary classifier", "complete support", "pseudo-labels", "cluster labels", "pseudo-labels, boosted"]
    assert names == ["support-matching", "z alone", *rivals]
    assert [line["chosen"] for line in content["alternatives"]] == [True] + [False] * 6
    assert all(line["robust_accuracy"] is not None for line in content["alternatives"])


def test_rows_of_the_data_stay_out_of_the_report_unless_they_are_asked_for(files: Path, model: Path) -> None:
    assert ReportContent.load(model).attended_rows is None
    assert "only with <code>--show-examples</code>" in (model / PAGE).read_text()
    for option in ("--no-examples", "--show-examples"):  # the first was needed once, and still may be said
        ok(*fit_options(files), "--out", files / option, option)
    assert ReportContent.load(files / "--no-examples").attended_rows is None
    shown = ReportContent.load(files / "--show-examples").attended_rows
    assert shown is not None
    assert len(shown["rows"]) == 10
    assert "These are raw rows of the deployment file" in (files / "--show-examples" / PAGE).read_text()
    assert "--no-examples" not in " ".join(ok("fit", "--help").output.split())


def test_an_output_folder_that_exists_is_refused_before_any_work(files: Path, model: Path) -> None:
    began = time.perf_counter()
    assert "is not overwritten" in refused(*fit_options(files, train="no such.csv"), "--out", model)
    assert time.perf_counter() - began < 20
    other = files / "not ours"
    other.mkdir()
    (other / "thesis.txt").write_text("precious")
    assert "was not written by supportmatch" in refused(*fit_options(files), "--out", other, "--overwrite")
    assert (other / "thesis.txt").read_text() == "precious"


def spoil(files: Path, name: str, change: Any) -> str:
    frame = pd.read_csv(files / "train.csv", dtype=str, keep_default_na=False)
    change(frame).to_csv(files / name, index=False)
    return name


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: f.drop(columns=["Earns ?"]), "no label column 'Earns ?': its columns are sex!, race"),
        (lambda f: f.drop(columns=["sex!"]), "no subgroup column 'sex!'"),
        (lambda f: f[f["Earns ?"] == " <=50K"], "at least two classes"),
        (lambda f: f.assign(job=[*["3"] * (len(f) - 2), "x", "y"]), "column 'job' of the tables mixes"),
        (lambda f: f.head(0), "header but no rows"),
    ],
)
def test_a_mistake_in_the_training_file_is_one_sentence_and_leaves_nothing(files: Path, change: Any, said: str) -> None:
    out = files / "not made"
    assert said in refused(*fit_options(files, train=spoil(files, "spoilt.csv", change)), "--out", out)
    assert not out.exists()
    assert not list(files.glob(".*"))


def test_labels_in_the_deployment_file_are_ignored(files: Path) -> None:
    rows(400, 1, gaps=True).to_csv(files / "labelled-deploy.csv", index=False)
    shuffled = pd.read_csv(files / "labelled-deploy.csv", dtype=str)
    shuffled["Earns ?"] = shuffled["Earns ?"].sample(frac=1, random_state=0).to_numpy()
    shuffled.to_csv(files / "shuffled-deploy.csv", index=False)
    for name in ("labelled-deploy", "shuffled-deploy"):
        ok(*fit_options(files, deploy=f"{name}.csv"), "--out", files / name)
    first, second = (load(files / f"{name}-deploy") for name in ("labelled", "shuffled"))
    assert np.array_equal(*(m.transform(_features(files, m)) for m in (first, second)))


def _features(files: Path, model: Any) -> pd.DataFrame:
    encoder = model.reader_.table_encoder
    return pd.DataFrame(
        {c.name: [c.categories[0]] * 3 for c in encoder.categorical}
        | {c.name: [0.0, 1.0, 2.0] for c in encoder.numeric}
    )


def test_a_source_with_a_single_row_counts_as_seen_and_is_warned_about(files: Path) -> None:
    frame = rows(500, 0)
    lone = frame[(frame["Earns ?"] == " >50K") & (frame["sex!"] == " Female")].head(1)
    pd.concat([biased(frame), lone]).to_csv(files / "lone.csv", index=False)
    result = run("audit", files / "lone.csv", "--label", "Earns ?", "--subgroup", "sex!")
    assert result.exit_code == 0
    assert "Fewer than 20 training rows: >50K/Female (1)" in result.output
    ok(*fit_options(files, train="lone.csv"), "--out", files / "lone")


def test_training_that_lacks_nothing_is_said_to_need_an_ordinary_classifier(files: Path) -> None:
    rows(500, 0).to_csv(files / "complete.csv", index=False)
    out = files / "complete"
    said = ok(*fit_options(files, train="complete.csv"), "--out", out).stderr
    assert "warning: Training lacks no source, so there is nothing to match: use an ordinary classifier" in said
    assert (
        "Training lacks no source" in (out / PAGE).read_text().partition('class="warnings"')[2].partition("</div>")[0]
    )
    assert "Training lacks no source" in (out / CARD).read_text()


def test_a_web_page_in_the_place_of_any_file_is_one_sentence(files: Path, model: Path) -> None:
    page = files / "page.csv"
    page.write_text("<!doctype html><title>Not found</title>\n")
    said = f"{page} is a web page or XML, not a table: download the file itself."
    assert refused(*fit_options(files, train="page.csv"), "--out", files / "no") == said
    assert refused(*fit_options(files, deploy="page.csv"), "--out", files / "no") == said
    assert refused("predict", model, page, "--out", files / "no.csv") == said


def test_no_deployment_file_and_settings_that_do_not_exist_are_one_sentence(files: Path) -> None:
    train = ["fit", files / "train.csv", "--label", "Earns ?", "--subgroup", "sex!", "--out", files / "not made"]
    assert "there is no deployment file" in refused(*train)
    bad = files / "bad.toml"
    for text, said in (
        ("[matching]\nsteps = -3\n", "matching.steps"),
        ("[matching]\nstep = 3\n", "matching.step"),
        ("matching = [", "is not TOML"),
    ):
        bad.write_text(text)
        assert said in refused(*train, "--deploy", files / "deploy.csv", "--config", bad)
    assert "unknown preset" in refused(*train, "--deploy", files / "deploy.csv", "--preset", "magic")


def test_a_mistake_leaves_nothing_in_the_way_of_the_corrected_command(files: Path) -> None:
    out = files / "corrected"
    assert "convolutional" in refused(*fit_options(files), "--out", out, "--preset", "faces")
    assert not list(files.glob(".corrected*"))
    unfinished = files / ".corrected-unfinished"
    unfinished.mkdir()
    save_file({"ids": torch.zeros(1)}, unfinished / CLUSTERS, {"fingerprint": "another run"})
    assert "belongs to another run" in refused(*fit_options(files), "--out", out)
    assert unfinished.exists()
    ok(*fit_options(files), "--out", out, "--overwrite")
    assert not unfinished.exists()


def test_a_column_of_any_type_may_be_dropped(files: Path) -> None:
    for name in ("train", "deploy"):
        table = pa.Table.from_pandas(pd.read_csv(files / f"{name}.csv").astype(str), preserve_index=False)
        notes = pa.array(["note"] * len(table), pa.string_view())
        pa.parquet.write_table(table.append_column("note", notes), files / f"{name}-views.parquet")
    options = fit_options(files, train="train-views.parquet")
    ok(*[o if o != files / "deploy.csv" else files / "deploy-views.parquet" for o in options], "--out", files / "views")


def test_labels_in_the_deployment_file_are_warned_of_however_quiet(files: Path) -> None:
    shutil.copy(files / "test.csv", files / "with-labels.csv")
    options = [o if o != files / "deploy.csv" else files / "with-labels.csv" for o in fit_options(files)]
    result = json.loads(ok(*options, "--out", files / "labelled", "--json").stdout)
    said = result["warnings"]
    assert result["findings"] == list(ReportContent.load(files / "labelled").findings)
    assert said == list(all_warnings(ReportContent.load(files / "labelled")))  # the page says no more than the command
    assert [text.partition(", which is not used")[1] for text in said[:2]] == [", which is not used"] * 2


def test_output_that_cannot_be_is_refused_before_any_work(files: Path, model: Path) -> None:
    assert "is a file: choose another name" in refused(*fit_options(files), "--out", files / "train.csv" / "model")
    said = refused("predict", model, files / "deploy.csv", "--out", files / "predicted.csv.gz")
    assert "call it .csv or .parquet" in said


def test_a_setting_that_does_not_exist_is_answered_with_those_that_do(files: Path) -> None:
    (files / "typo.toml").write_text("[matching]\nstep = 3\n")
    said = refused(*[o if o != files / "fast.toml" else files / "typo.toml" for o in fit_options(files)], "--out", "q")
    assert "matching.step in" in said
    assert "choose one of steps, discriminator_updates" in said


def test_gaps_can_be_refused(files: Path) -> None:
    said = refused(*fit_options(files), "--out", files / "not made", "--missing", "refuse")
    assert "missing values in columns" in said
    assert "or fit with `--missing own-category`" in said


def test_three_classes_four_subgroups_of_two_columns_from_parquet_with_nulls(files: Path) -> None:
    rng = np.random.default_rng(0)

    def made(n: int) -> pd.DataFrame:
        y, s, t = rng.integers(3, size=n), rng.integers(2, size=n), rng.integers(2, size=n)
        x = rng.normal(size=(n, 2)) + np.c_[2 * y, 2 * s + t]
        frame = pd.DataFrame({"y": y, "s": s, "t": np.where(t, "old", "young"), "a": x[:, 0], "b": x[:, 1]})
        frame["c"] = pd.Categorical(rng.choice(["p", "q"], n))
        frame.loc[rng.random(n) < 0.1, ["a", "c"]] = None
        return frame

    train = made(600)
    train = train[~((train.y == 2) & (train.s == 1) & (train.t == "old"))]
    train.to_parquet(files / "train.parquet")
    made(600).drop(columns=["y", "s", "t"]).to_parquet(files / "deploy.parquet")
    what = ["--label", "y", "--subgroup", "s,t", "--deploy", files / "deploy.parquet"]
    audit = run("audit", files / "train.parquet", *what, "--json")
    assert audit.exit_code == 3
    assert json.loads(audit.stdout)["missing"] == ["2/1 & old"]
    one_by_one = [*what[:2], "--subgroup", "s", "--subgroup", "t", *what[4:]]
    assert run("audit", files / "train.parquet", *one_by_one, "--json").stdout == audit.stdout
    ok("fit", files / "train.parquet", *what, "--config", files / "fast.toml", "--out", files / "product", "--quiet")
    made(50).to_parquet(files / "test.parquet")
    found = json.loads(ok("evaluate", files / "product", files / "test.parquet", "--json").stdout)
    assert list(found["by_subgroup"]) == ["0 & old", "0 & young", "1 & old", "1 & young"]
    assert found["positive_class"] == "1"
    measure = ["evaluate", files / "product", files / "test.parquet"]
    assert (
        "TPR and TNR speak of class 1 against all others; choose another class with --positive" in ok(*measure).output
    )
    chosen = ok(*measure, "--positive", "2").output
    assert "positive class: 2" in chosen
    assert "choose another" not in chosen
    wrong = "there is no class '7' for --positive: the classes are 0, 1, 2."
    assert refused(*measure, "--positive", "7") == wrong
    assert refused("fit", files / "train.parquet", *what, "--positive", "7", "--out", files / "no product") == wrong


def pictures(folder: Path, n: int, seed: int, biased: bool) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    lines = []
    for i in range(n):
        y, s = (int(v) for v in rng.integers(2, size=2))
        if biased and y and not s:
            continue
        size, mode = int(rng.integers(20, 50)), ("RGB", "RGBA", "P")[i % 3]
        values = np.zeros((size, size + 5, 3), np.uint8)
        values[2 : -2 if y else size // 2, 3:-3, s] = 255
        (folder / "pics").mkdir(parents=True, exist_ok=True)
        name = f"pics/{seed}-{i}.png"
        Image.fromarray(values).convert(mode).save(folder / name)
        lines.append({"file": name, "shape": "tall" if y else "short", "colour": ("red", "green")[s]})
    return pd.DataFrame(lines)


def test_a_folder_of_pictures_of_mixed_size_and_mode(files: Path) -> None:
    folder = files / "images"
    pictures(folder, 80, 0, biased=True).to_csv(folder / "train.csv", index=False)
    pictures(folder, 60, 1, biased=False)[["file"]].to_csv(folder / "deploy.csv", index=False)
    pictures(folder, 20, 2, biased=False).to_csv(folder / "test.csv", index=False)
    what = ["--label", "shape", "--subgroup", "colour", "--deploy", folder / "deploy.csv", "--file-column", "file"]
    options = [*what, "--images", folder, "--image-size", "16", "--config", files / "fast.toml", "--quiet"]
    out = files / "image-model"
    ok("fit", folder / "train.csv", *options, "--out", out, "--test", folder / "test.csv")
    assert "data:image/png" not in (out / PAGE).read_text()
    ok("fit", folder / "train.csv", *options, "--out", files / "shown", "--show-examples")
    page = (files / "shown" / PAGE).read_text()
    assert page.count("data:image/png") >= 3
    assert page.count("before you hand this page on") == 2
    with_images = ["--images", folder]
    ok("predict", out, folder / "deploy.csv", "--out", files / "p.csv", *with_images, "--quiet")
    assert len(pd.read_csv(files / "p.csv")) == 60
    ok("evaluate", out, folder / "test.csv", *with_images)
    assert "pass --images" in refused("predict", out, folder / "deploy.csv", "--out", files / "q.csv")
    assert "belong together" in refused("fit", folder / "train.csv", *what, "--out", files / "q")
    bad = folder / next(iter(pd.read_csv(folder / "deploy.csv").file))
    bad.write_bytes(bad.read_bytes()[:40])
    assert "cannot be read" in refused("fit", folder / "train.csv", *options, "--out", files / "q")
    assert "resized to 16 x 16 pixels" in (out / CARD).read_text()
    ok("export", out, "--out", files / "exported-images")
    assert "resized to 16 x 16 pixels" in (files / "exported-images" / PREPROCESSING).read_text()
    escape = pd.DataFrame({"file": ["../../etc/passwd"]})
    escape.to_csv(folder / "escape.csv", index=False)
    assert "leads out of" in refused("predict", out, folder / "escape.csv", "--out", files / "q.csv", *with_images)


@pytest.mark.slow
def test_an_interrupted_fit_goes_on_to_the_same_model(files: Path, tmp_path: Path) -> None:
    slow = tmp_path / "slow.toml"
    slow.write_text("[matching]\nsteps = 1500\n[classifier]\nepochs = 2\n")
    options = [str(o) if o != files / "fast.toml" else str(slow) for o in fit_options(files)]
    command = [sys.executable, "-m", "supportmatch", *options, "--out", str(tmp_path / "model")]
    often = "import sys; from supportmatch import cli, snapshots; snapshots.Snapshots.__init__.__defaults__ = (0.1,)"
    first = subprocess.Popen(
        [sys.executable, "-c", f"{often}; sys.argv[0] = 'supportmatch'; cli.main()", *command[3:]],
        stderr=subprocess.PIPE,
        text=True,
    )
    unfinished = tmp_path / ".model-unfinished"
    while first.poll() is None and not (unfinished / FILE).exists():
        time.sleep(0.05)
    first.send_signal(signal.SIGINT)
    _, said = first.communicate(timeout=120)
    assert first.returncode == 130, said
    assert "The same command does the rest" in said
    assert not (tmp_path / "model").exists()
    assert unfinished.is_dir()
    subprocess.run(command, check=True, timeout=300)
    assert not unfinished.exists()
    assert json.loads((tmp_path / "model" / "report.json").read_text())["codes"] is not None
    shutil.move(tmp_path / "model", tmp_path / "resumed")
    subprocess.run(command, check=True, timeout=300)
    first_weights, second_weights = (
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("resumed", "model")
    )
    assert first_weights == second_weights


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mount"), reason="making a small disk needs root")
def test_a_full_disk_is_one_sentence_and_nothing_half_written_is_left(files: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], check=False).returncode:
        pytest.skip("this machine does not let us make a small disk")
    try:
        command = [sys.executable, "-m", "supportmatch", *map(str, fit_options(files)), "--out", str(disk / "model")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert "No space left on device" in done.stderr
        assert f"No space left on device for {disk}" in done.stderr
        assert "make room" in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
        assert not (disk / "model").exists()
    finally:
        subprocess.run(["umount", str(disk)], check=True)
