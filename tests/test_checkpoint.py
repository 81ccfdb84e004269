"""Model folders: exact, complete or absent, and never a pickle."""

from __future__ import annotations

import io
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from supportmatch import output
from supportmatch.checkpoint import HISTORY, MODEL, WEIGHTS, load_model
from supportmatch.config import (
    AutoencoderConfig,
    BagConfig,
    ClassifierConfig,
    ClusteringConfig,
    Config,
    DiscriminatorConfig,
    MatchingConfig,
)
from supportmatch.data.synthetic import make_sources
from supportmatch.errors import ConfigError, ModelFileError, SupportMatchWarning
from supportmatch.estimator import SupportMatchingClassifier
from supportmatch.output import MARK

SOURCES = make_sources(n_train=15, n_deploy=15, n_test=10)
X, Y, S = SOURCES.train.x, np.array(["no", "yes"])[SOURCES.train.y], SOURCES.train.s
X_DEPLOY, X_TEST = SOURCES.deploy.x, SOURCES.test.x
N_FEATURES = X.shape[1]
TINY = Config(
    clustering=ClusteringConfig(method="factorised"),
    bags=BagConfig(n_bags=2, bag_size=8),
    autoencoder=AutoencoderConfig(kind="mlp", widths=(8,), code_size=4),
    discriminator=DiscriminatorConfig(hidden_before=(8,), row_size=4, gate_size=4, hidden_after=()),
    matching=MatchingConfig(steps=3),
    classifier=ClassifierConfig(epochs=2, batch_size=32),
)


def as_frame(x: np.ndarray) -> pd.DataFrame:
    frame = pd.DataFrame(x[:, :3].astype(np.float64) / 3, columns=["core", "other", "shade"])
    return frame.assign(job=np.where(x[:, 3] > 3, "cook", "pilot"), old=x[:, 5] > 0)


def as_images(x: np.ndarray) -> np.ndarray:
    levels = np.clip(100 + 15 * x[:, :3], 0, 255).astype(np.uint8)
    return np.ascontiguousarray(np.broadcast_to(levels[:, :, None, None], (len(x), 3, 4, 4)))


def own_encoder() -> nn.Sequential:
    """Return a network with weights and with buffers."""
    return nn.Sequential(nn.Linear(N_FEATURES, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))


@pytest.fixture(scope="module")
def model() -> SupportMatchingClassifier:
    return SupportMatchingClassifier(config=TINY).fit(X, Y, S, X_DEPLOY)


@pytest.fixture
def folder(model: SupportMatchingClassifier, tmp_path: Path) -> Path:
    model.save(tmp_path / "model")
    return tmp_path / "model"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def check_round_trip(model: SupportMatchingClassifier, folder: Path, rows: Any, **networks: Any) -> None:
    model.save(folder)
    loaded = load_model(folder, **networks)
    assert np.array_equal(loaded.predict_proba(rows), model.predict_proba(rows))
    assert np.array_equal(loaded.transform(rows), model.transform(rows))
    assert np.array_equal(loaded.predict(rows), model.predict(rows))


def test_a_model_of_arrays_predicts_the_same_to_the_last_bit(model: SupportMatchingClassifier, tmp_path: Path) -> None:
    check_round_trip(model, tmp_path / "model", X_TEST)


def test_a_model_of_tables_predicts_the_same_to_the_last_bit(tmp_path: Path) -> None:
    model = SupportMatchingClassifier(config=TINY).fit(as_frame(X), Y, S, as_frame(X_DEPLOY))
    check_round_trip(model, tmp_path / "model", as_frame(X_TEST))


@pytest.mark.parametrize("level_depth", [1, 2])
def test_a_model_of_images_predicts_the_same_to_the_last_bit(tmp_path: Path, level_depth: int) -> None:
    networks = AutoencoderConfig(widths=(4, 4), code_size=4, level_depth=level_depth, normalise=level_depth == 2)
    config = TINY.model_copy(update={"autoencoder": networks})
    model = SupportMatchingClassifier(config=config).fit(as_images(X), Y, S, as_images(X_DEPLOY))
    check_round_trip(model, tmp_path / "model", as_images(X_TEST))


@pytest.mark.parametrize("with_decoder", [False, True])
def test_a_model_with_networks_of_your_own_predicts_the_same_when_they_are_passed_again(
    tmp_path: Path, with_decoder: bool
) -> None:
    def networks() -> dict[str, nn.Module]:
        return {"encoder": own_encoder()} | ({"decoder": nn.Linear(3, N_FEATURES)} if with_decoder else {})

    model = SupportMatchingClassifier(config=TINY, **networks()).fit(X, Y, S, X_DEPLOY)
    check_round_trip(model, tmp_path / "model", X_TEST, **networks())
    with pytest.raises(ConfigError, match="pass the same networks"):
        load_model(tmp_path / "model")


def test_networks_that_the_model_did_not_have_are_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="saved without an encoder"):
        load_model(folder, encoder=own_encoder())


def test_a_model_without_matching_can_be_kept_too(tmp_path: Path) -> None:
    with pytest.warns(SupportMatchWarning):
        model = SupportMatchingClassifier(config=TINY).fit(X, Y)
    check_round_trip(model, tmp_path / "model", X_TEST)


@pytest.mark.parametrize("classes", [("no", "yes"), (2, 4), (False, True), (0.5, 1.5)])
def test_what_is_known_about_the_model_comes_back(tmp_path: Path, classes: tuple[Any, Any]) -> None:
    model = SupportMatchingClassifier(config=TINY, random_state=3)
    model.fit(X, np.array(classes)[SOURCES.train.y], S, X_DEPLOY).save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.classes_.tolist() == list(classes)
    assert loaded.classes_.dtype == model.classes_.dtype
    assert (loaded.grid_, loaded.config_, loaded.history_) == (model.grid_, model.config_, model.history_)
    assert (loaded.random_state, loaded.n_features_in_) == (3, N_FEATURES)


def test_a_loaded_model_can_be_saved_again(folder: Path, tmp_path: Path) -> None:
    load_model(folder).save(tmp_path / "again")
    assert contents(tmp_path / "again")[WEIGHTS] == contents(folder)[WEIGHTS]
    assert np.array_equal(
        load_model(tmp_path / "again").predict_proba(X_TEST), load_model(folder).predict_proba(X_TEST)
    )


def test_a_model_saved_again_still_has_its_audit(folder: Path, tmp_path: Path) -> None:
    load_model(folder).save(tmp_path / "again")
    first, again = (json.loads(contents(path)[MODEL])["audit"] for path in (folder, tmp_path / "again"))
    assert first is not None
    assert again == first


def test_a_folder_may_be_named_by_a_string(model: SupportMatchingClassifier, tmp_path: Path) -> None:
    model.save(str(tmp_path / "model"))
    assert load_model(str(tmp_path / "model")).classes_.tolist() == ["no", "yes"]


def test_parent_folders_are_made(model: SupportMatchingClassifier, tmp_path: Path) -> None:
    model.save(tmp_path / "runs" / "today" / "model")
    assert sorted(contents(tmp_path / "runs" / "today" / "model")) == sorted([WEIGHTS, MODEL, HISTORY, MARK])


def test_an_existing_folder_is_refused_and_left_untouched(model: SupportMatchingClassifier, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    with pytest.raises(ModelFileError, match="exists and is not overwritten: choose another folder"):
        model.save(folder)
    assert contents(folder) == {"thesis.txt": b"years of work"}
    assert list(tmp_path.iterdir()) == [folder]


def test_overwriting_replaces_the_whole_folder(folder: Path) -> None:
    (folder / "stale.txt").write_text("from the model before")
    other = SupportMatchingClassifier(config=TINY, random_state=1).fit(X, Y, S, X_DEPLOY)
    other.save(folder, overwrite=True)
    assert sorted(contents(folder)) == sorted([WEIGHTS, MODEL, HISTORY, MARK])
    assert np.array_equal(load_model(folder).predict_proba(X_TEST), other.predict_proba(X_TEST))
    assert list(folder.parent.iterdir()) == [folder]


def break_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    def write_half(path: Path, content: bytes) -> None:
        path.write_text("half of it")
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_bytes", write_half)


def test_a_failure_while_writing_leaves_nothing_behind(
    model: SupportMatchingClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_writing(monkeypatch)
    with pytest.raises(OSError, match="no space left"):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_failure_while_overwriting_leaves_the_old_model(
    model: SupportMatchingClassifier, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(folder)
    break_writing(monkeypatch)
    with pytest.raises(OSError, match="no space left"):
        model.save(folder, overwrite=True)
    assert contents(folder) == before
    assert list(folder.parent.iterdir()) == [folder]


def test_a_failure_while_renaming_leaves_the_old_model(
    model: SupportMatchingClassifier, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, replace = contents(folder), output.os.replace

    def refuse_the_final_name(source: Path, target: Path) -> None:
        if Path(target) == folder:  # once: putting the old model back is allowed
            monkeypatch.setattr(output.os, "replace", replace)
            raise PermissionError("the name is taken")
        replace(source, target)

    monkeypatch.setattr(output.os, "replace", refuse_the_final_name)
    with pytest.raises(PermissionError):
        model.save(folder, overwrite=True)
    assert contents(folder) == before
    assert list(folder.parent.iterdir()) == [folder]


@pytest.mark.parametrize("member", [WEIGHTS, MODEL, HISTORY])
def test_a_folder_that_lacks_a_member_is_refused(folder: Path, member: str) -> None:
    (folder / member).unlink()
    with pytest.raises(ModelFileError, match=f"lacks {member}: check the path"):
        load_model(folder)


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="not a model folder"):
        load_model(tmp_path / "nowhere")


@pytest.mark.parametrize("schema", [0, 2, "1", None])
def test_another_schema_is_refused(folder: Path, schema: Any) -> None:
    rewrite(folder, lambda description: description.update(schema=schema))
    with pytest.raises(ModelFileError, match="load it with the version that wrote it"):
        load_model(folder)


def rewrite(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    description = json.loads((folder / MODEL).read_text())
    change(description)
    (folder / MODEL).write_text(json.dumps(description))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda d: d.pop("config"), id="no config"),
        pytest.param(lambda d: d["config"].update(colour="red"), id="unknown setting"),
        pytest.param(lambda d: d["config"]["matching"].update(averaging=2), id="setting out of range"),
        pytest.param(lambda d: d.update(grid=None), id="no grid"),
        pytest.param(lambda d: d["grid"].update(classes=["no"]), id="one class"),
        pytest.param(lambda d: d["grid"].update(classes=["no", "yes", "maybe"]), id="another class"),
        pytest.param(lambda d: d["grid"].update(subgroups=[1, 1]), id="repeated subgroup"),
        pytest.param(lambda d: d.update(feature_shape=[7]), id="other shape"),
        pytest.param(lambda d: d.update(feature_shape=["wide"]), id="shape of words"),
        pytest.param(lambda d: d.update(table_encoder="{}"), id="empty table encoder"),
        pytest.param(lambda d: d.update(table_encoder=None), id="no table encoder"),
        pytest.param(lambda d: d.update(table_encoder={"categorical": []}), id="table encoder of another type"),
        pytest.param(lambda d: d.update(code_size=9), id="other code size"),
        pytest.param(lambda d: d.update(code_size=1), id="code size without z"),
        pytest.param(lambda d: d.update(random_state="lucky"), id="seed of words"),
    ],
)
def test_an_altered_description_is_refused(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    rewrite(folder, change)
    with pytest.raises(ModelFileError):
        load_model(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "not json"])
def test_a_description_that_is_not_a_json_object_is_refused(folder: Path, text: str) -> None:
    (folder / MODEL).write_text(text)
    with pytest.raises(ModelFileError):
        load_model(folder)


def test_a_truncated_history_is_refused(folder: Path) -> None:
    (folder / HISTORY).write_text('{"step": 0, "tot')
    with pytest.raises(ModelFileError):
        load_model(folder)


@pytest.mark.parametrize("kept", [0, 4, 100, -1])
def test_truncated_weights_are_refused(folder: Path, kept: int) -> None:
    whole = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(whole[:kept])
    with pytest.raises(ModelFileError, match="does not hold this model's weights"):
        load_model(folder)


def test_weights_of_another_model_are_refused(folder: Path, tmp_path: Path) -> None:
    networks = TINY.autoencoder.model_copy(update={"code_size": 5})
    config = TINY.model_copy(update={"autoencoder": networks})
    SupportMatchingClassifier(config=config).fit(X, Y, S, X_DEPLOY).save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / WEIGHTS, folder / WEIGHTS)
    with pytest.raises(ModelFileError, match="does not hold this model's weights"):
        load_model(folder)


def test_weights_with_a_part_missing_are_refused(folder: Path) -> None:
    weights = load_file(folder / WEIGHTS)
    save_file({name: value for name, value in weights.items() if not name.startswith("classifier")}, folder / WEIGHTS)
    with pytest.raises(ModelFileError):
        load_model(folder)


def test_pickled_weights_are_refused(folder: Path) -> None:
    buffer = io.BytesIO()
    torch.save({"encoder.weight": torch.zeros(2)}, buffer)
    (folder / WEIGHTS).write_bytes(buffer.getvalue())
    with pytest.raises(ModelFileError):
        load_model(folder)


def test_no_pickle_is_written_or_read(
    model: SupportMatchingClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("pickle was used")

    for name in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(torch, "save", refuse)
    monkeypatch.setattr(torch, "load", refuse)
    model.save(tmp_path / "model")
    assert np.array_equal(load_model(tmp_path / "model").predict_proba(X_TEST), model.predict_proba(X_TEST))


def test_a_folder_that_is_not_ours_is_never_replaced(model: SupportMatchingClassifier, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("years of work")
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "home", tmp_path / "home" / "..", tmp_path / "file"):
        with pytest.raises(ModelFileError, match="was not written by supportmatch"):
            model.save(path, overwrite=True)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "home", "thesis.txt"]


def test_an_empty_folder_may_be_filled(model: SupportMatchingClassifier, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    model.save(tmp_path / "empty", overwrite=True)
    assert (tmp_path / "empty" / MODEL).is_file()


def test_an_interrupt_while_renaming_leaves_the_old_model(
    model: SupportMatchingClassifier, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, replace = contents(folder), output.os.replace

    def interrupt_once(source: Path, target: Path) -> None:
        if Path(target) == folder:
            monkeypatch.setattr(output.os, "replace", replace)
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(output.os, "replace", interrupt_once)
    with pytest.raises(KeyboardInterrupt):
        model.save(folder, overwrite=True)
    assert contents(folder) == before


def test_a_loaded_model_can_be_fitted_again_with_matching(tmp_path: Path) -> None:
    with pytest.warns(SupportMatchWarning):
        SupportMatchingClassifier(config=TINY).fit(X, Y).save(tmp_path / "model")
    again = load_model(tmp_path / "model").fit(X, Y, S, X_DEPLOY)
    expected = SupportMatchingClassifier(config=TINY).fit(X, Y, S, X_DEPLOY)
    np.testing.assert_array_equal(again.predict_proba(X), expected.predict_proba(X))
