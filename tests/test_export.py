"""Exported models: the same probabilities without the package, and folders that are complete or absent."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from supportmatch import export
from supportmatch.checkpoint import load_model
from supportmatch.config import (
    AutoencoderConfig,
    BagConfig,
    ClassifierConfig,
    Config,
    DiscriminatorConfig,
    MatchingConfig,
    TableConfig,
)
from supportmatch.data.synthetic import make_sources
from supportmatch.errors import ConfigError, FeatureMismatchError, ModelFileError, SupportMatchWarning
from supportmatch.estimator import SupportMatchingClassifier
from supportmatch.export import ONNX, PREPROCESSING, PROGRAM, README, ExportSummary, encode_table, export_model
from supportmatch.output import MARK

# Rows with values that no row had at the fit are exported on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.*that no row had at the fit:supportmatch.errors.SupportMatchWarning")

SOURCES = make_sources(n_train=15, n_deploy=15, n_test=10)
X, Y, S, X_DEPLOY = SOURCES.train.x, np.array(["no", "yes"])[SOURCES.train.y], SOURCES.train.s, SOURCES.deploy.x
TINY = Config(
    table=TableConfig(missing="own-category", unknown="ignore", max_categories=4),
    bags=BagConfig(n_bags=2, bag_size=8, balancing="none"),
    autoencoder=AutoencoderConfig(kind="mlp", widths=(8,), code_size=4),
    discriminator=DiscriminatorConfig(hidden_before=(8,), row_size=4, gate_size=4, hidden_after=()),
    matching=MatchingConfig(steps=3),
    classifier=ClassifierConfig(epochs=2, batch_size=32),
)
STRICT = TINY.model_copy(update={"table": TableConfig()})
KINDS = ["table", "categories", "numbers", "array", "uint8", "int8", "float"]
BATCH_SIZES = [1, 7, 1_000]


def as_frame(x: np.ndarray, seed: int = 0) -> pd.DataFrame:
    """Return columns of every kind; those that may miss values do, and `town` has more values than are kept."""
    rng, n = np.random.default_rng(seed), len(x)
    age, pay = np.round(40 + 5 * x[:, 0].astype(np.float64)), np.exp(9 + x[:, 1].astype(np.float64))
    job = pd.Series(np.where(x[:, 3] > 3, "cook", "pilot"), dtype=object).where(rng.random(n) > 0.2)
    return pd.DataFrame(
        {
            "pay": np.where(rng.random(n) < 0.2, np.nan, pay),
            "job": job,
            "age": age,
            "town": rng.choice(["Ulm", "Bonn", "Rome", "Oslo", "Lima", "Baku"], n, p=[0.4, 0.3, 0.2, 0.04, 0.03, 0.03]),
            "old": x[:, 5] > 0,
            "zone": pd.Categorical(rng.integers(1, 4, n)),
            'a | "quoted" `name` é': x[:, 2].astype(np.float64),
            7: rng.normal(size=n),
        }
    )


def strange_frame(n: int, seed: int = 1) -> pd.DataFrame:
    """Return rows with all that predictions must cope with: missing, rare and unknown values, columns in disorder."""
    rng = np.random.default_rng(seed)
    frame = as_frame(rng.normal(size=(n, X.shape[1])).astype(np.float32) * 3, seed)
    frame["job"] = rng.choice(np.array(["cook", "pilot", "baker", None]), n)
    frame["town"] = rng.choice(np.array(["Ulm", "Oslo", "Atlantis", None]), n)
    frame["zone"] = pd.Categorical(rng.integers(1, 9, n))
    frame["age"] = np.where(rng.random(n) < 0.3, np.nan, frame["age"])  # no value was missing in training
    return frame[list(frame.columns[::-1])]


def as_images(x: np.ndarray, kind: str) -> np.ndarray:
    levels = np.clip(100 + 15 * x[:, :3], 0, 255)
    images: np.ndarray = np.clip(levels[:, :, None, None] + np.arange(16).reshape(4, 4), 0, 255)
    if kind == "float":
        return images / np.float32(100)
    return images.astype(np.uint8) if kind == "uint8" else (images - 128).astype(np.int8)


def rows_of(kind: str, x: np.ndarray) -> Any:
    frame = as_frame(x)
    numeric = [name for name in frame.columns if name not in ("job", "town", "old", "zone")]
    if kind in ("uint8", "int8", "float"):
        return as_images(x, kind)
    return {"table": frame, "categories": frame[["job", "town", "old"]], "numbers": frame[numeric], "array": x}[kind]


def new_rows(kind: str, n: int) -> Any:
    strange = strange_frame(n)
    x = np.random.default_rng(2).normal(size=(n, X.shape[1])).astype(np.float32) * 3
    if kind == "table":
        return strange
    return strange[list(rows_of(kind, X[:1]).columns)] if kind in ("categories", "numbers") else rows_of(kind, x)


def config_of(kind: str) -> Config:
    if kind not in ("uint8", "int8", "float"):
        return TINY
    conv = AutoencoderConfig(widths=(4, 4), code_size=4, level_depth=2, normalise=True)
    return TINY.model_copy(update={"autoencoder": conv})


_FITTED: dict[str, SupportMatchingClassifier] = {}


def fitted(kind: str) -> SupportMatchingClassifier:
    if kind not in _FITTED:
        model = SupportMatchingClassifier(config=config_of(kind))
        _FITTED[kind] = model.fit(rows_of(kind, X), Y, S, rows_of(kind, X_DEPLOY))
    return _FITTED[kind]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return what exports a model of a kind once, and names the folder."""
    parent = tmp_path_factory.mktemp("exported")

    def folder_of(kind: str) -> Path:
        folder = parent / kind
        if not folder.exists():
            export_model(fitted(kind), folder)
        return folder

    return folder_of


def read_preprocessing(folder: Path) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    content: dict[str, Any] = json.loads((folder / PREPROCESSING).read_text(), parse_constant=refuse)
    return content


def inputs_of(kind: str, rows: Any, folder: Path) -> dict[str, np.ndarray]:
    """Return what a graph takes, by name, as somebody without the package would make it."""
    preprocessing = read_preprocessing(folder)
    if preprocessing["kind"] == "images":
        return {"images": rows.astype(preprocessing["inputs"][0]["type"])}
    frame = pd.DataFrame(rows, columns=[f"x{i}" for i in range(rows.shape[1])]) if kind == "array" else rows
    categories, numbers = encode_table(frame, preprocessing)
    both: dict[str, np.ndarray] = {"categories": categories, "numbers": numbers}
    return {description["name"]: both[description["name"]] for description in preprocessing["inputs"]}


def run_program(folder: Path, inputs: dict[str, np.ndarray]) -> np.ndarray:
    program = torch.export.load(folder / PROGRAM)
    probabilities: Tensor = program.module()(*(torch.from_numpy(values) for values in inputs.values()))
    return probabilities.numpy()


def assert_same(model: SupportMatchingClassifier, rows: Any, probabilities: np.ndarray) -> None:
    expected = model.predict_proba(rows)
    assert probabilities.dtype == np.float32
    assert probabilities.shape == expected.shape
    np.testing.assert_allclose(probabilities, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_gives_the_same_probabilities_for_any_number_of_rows(
    kind: str, exported: Callable[[str], Path]
) -> None:
    folder = exported(kind)
    for n in BATCH_SIZES:
        rows = new_rows(kind, n)
        assert_same(fitted(kind), rows, run_program(folder, inputs_of(kind, rows, folder)))


@pytest.mark.parametrize("kind", KINDS)
def test_an_onnx_model_gives_the_same_probabilities_for_any_number_of_rows(kind: str, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    folder = tmp_path / "model"
    summary = export_model(fitted(kind), folder, onnx=True)
    assert summary.files == (PROGRAM, ONNX, PREPROCESSING, README)
    assert sorted(path.name for path in folder.iterdir()) == sorted([*summary.files, MARK])
    assert summary.onnx_difference is not None
    assert summary.onnx_difference <= 1e-5
    session = onnxruntime.InferenceSession(folder / ONNX, providers=["CPUExecutionProvider"])
    described = read_preprocessing(folder)
    assert [i.name for i in session.get_inputs()] == [i["name"] for i in described["inputs"]]
    assert [i.shape for i in session.get_inputs()] == [i["shape"] for i in described["inputs"]]
    assert [(o.name, o.shape) for o in session.get_outputs()] == [("probabilities", ["rows", 2])]
    for n in BATCH_SIZES:
        rows = new_rows(kind, n)
        (probabilities,) = session.run(None, inputs_of(kind, rows, folder))
        assert_same(fitted(kind), rows, probabilities)


def test_the_summary_says_what_was_written_and_how_close_it_is(tmp_path: Path) -> None:
    summary = export_model(fitted("table"), tmp_path / "model")
    assert summary == ExportSummary(
        folder=tmp_path / "model",
        files=(PROGRAM, PREPROCESSING, README),
        checked_on="256 made-up rows",
        program_difference=summary.program_difference,
        onnx_difference=None,
    )
    assert summary.program_difference <= 1e-6
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == sorted([*summary.files, MARK])


@pytest.mark.parametrize("kind", ["table", "array", "int8"])
def test_predictions_can_be_compared_on_rows_of_your_own(kind: str, tmp_path: Path) -> None:
    summary = export_model(fitted(kind), tmp_path / "model", rows=new_rows(kind, 30))
    assert summary.checked_on == "30 rows that were given"
    assert summary.program_difference <= 1e-5


@pytest.mark.parametrize(("kind", "other"), [("table", "numbers"), ("uint8", "int8"), ("int8", "table")])
def test_rows_that_the_model_refuses_are_refused_in_its_words(tmp_path: Path, kind: str, other: str) -> None:
    with pytest.raises(FeatureMismatchError):
        export_model(fitted(kind), tmp_path / "model", rows=new_rows(other, 30))
    assert list(tmp_path.iterdir()) == []


def test_no_row_file_name_or_pickle_is_in_a_program(exported: Callable[[str], Path]) -> None:
    with zipfile.ZipFile(exported("table") / PROGRAM) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    assert [content for name, content in contents.items() if "sample_inputs" in name] == [b""]
    for content in contents.values():
        assert b".py" not in content
        assert not content.startswith((b"PK", b"\x80\x02", b"\x80\x04"))


def test_what_becomes_of_missing_rare_and_unknown_values_is_written_down(exported: Callable[[str], Path]) -> None:
    preprocessing = read_preprocessing(exported("table"))
    by_name = {column["name"]: column for column in preprocessing["categorical"]}
    assert by_name["job"]["categories"] == ["(missing)", "cook", "pilot"]
    assert (by_name["job"]["missing_index"], by_name["job"]["unlisted_index"]) == (0, 3)
    assert by_name["town"]["categories"] == ["Bonn", "Rome", "Ulm", "(other)"]
    assert (by_name["town"]["missing_index"], by_name["town"]["unlisted_index"]) == (3, 3)
    assert by_name["old"]["categories"] == [False, True]
    assert (by_name["old"]["missing_index"], by_name["old"]["unlisted_index"]) == (None, 2)
    assert [column["missing_allowed"] for column in preprocessing["numeric"]] == [True] * 4
    assert [column["name"] for column in preprocessing["numeric"]][-1] == 7
    assert preprocessing["classes"] == ["no", "yes"]


@pytest.mark.parametrize(
    ("kind", "stored_as", "value_range"),
    [("uint8", "uint8", [0, 255]), ("int8", "int8", [-128, 127]), ("float", "float32", None)],
)
def test_size_channels_and_value_range_of_images_are_written_down(
    kind: str, stored_as: str, value_range: list[int] | None, exported: Callable[[str], Path]
) -> None:
    preprocessing = read_preprocessing(exported(kind))
    assert [preprocessing[name] for name in ("channels", "height", "width")] == [3, 4, 4]
    assert preprocessing["value_range"] == value_range
    assert preprocessing["inputs"] == [{"name": "images", "type": stored_as, "shape": ["rows", 3, 4, 4]}]


@pytest.mark.parametrize(("kind", "names"), [("numbers", ["numbers"]), ("categories", ["categories"])])
def test_an_input_without_columns_is_dropped(kind: str, names: list[str], exported: Callable[[str], Path]) -> None:
    assert [description["name"] for description in read_preprocessing(exported(kind))["inputs"]] == names


RUN_READMES = """
import os, re, sys
import numpy as np, pandas as pd
sys.modules["supportmatch"] = None
for folder in sys.argv[1:]:
    os.chdir(folder)
    names = {}
    if os.path.exists("../images.npy"):
        names["images"] = np.load("../images.npy")
    else:
        names["frame"] = pd.read_pickle("../frame.pkl")
    with open("README.md", encoding="utf-8") as file:
        blocks = re.findall("```python\\n(.*?)```", file.read(), re.DOTALL)
    for i, block in enumerate(blocks):
        exec(block, names)
        if "probabilities" in names:
            np.save(f"../{i}.npy", names.pop("probabilities"))
"""


@pytest.mark.slow
def test_the_code_in_the_readme_runs_without_the_package(tmp_path: Path) -> None:
    has_onnx = all(find_spec(name) is not None for name in ("onnx", "onnxscript", "onnxruntime"))
    kinds = ["table", "categories", "numbers", "uint8"]
    rows = {kind: new_rows(kind, 5) for kind in kinds}
    for kind in kinds:
        export_model(fitted(kind), tmp_path / kind / "model", onnx=has_onnx)
        if kind == "uint8":
            np.save(tmp_path / kind / "images.npy", rows[kind])
        else:
            rows[kind].to_pickle(tmp_path / kind / "frame.pkl")
    folders = [tmp_path / kind / "model" for kind in kinds]
    subprocess.run([sys.executable, "-c", RUN_READMES, *folders], check=True)
    for kind in kinds:
        results = sorted((tmp_path / kind).glob("[0-9].npy"))
        assert len(results) == 1 + has_onnx
        for result in results:
            assert_same(fitted(kind), rows[kind], np.load(result))


@pytest.mark.parametrize("kind", ["table", "numbers", "int8", "float"])
def test_the_readme_says_what_is_inside_the_graph_and_what_is_not(kind: str, exported: Callable[[str], Path]) -> None:
    text, preprocessing = (exported(kind) / README).read_text(encoding="utf-8"), read_preprocessing(exported(kind))
    inside, outside = text.split("## Not inside the graph")
    assert all(step in inside for step in preprocessing["inside_the_graph"])
    assert all(step in outside for step in preprocessing["outside_the_graph"])
    assert ("median" in inside) == (kind in ("table", "numbers"))
    assert ("Values of categorical columns" in outside) == (kind == "table")


def test_a_loaded_model_can_be_exported(tmp_path: Path) -> None:
    fitted("table").save(tmp_path / "model")
    export_model(load_model(tmp_path / "model"), tmp_path / "exported")
    rows = new_rows("table", 7)
    assert_same(
        fitted("table"), rows, run_program(tmp_path / "exported", inputs_of("table", rows, tmp_path / "exported"))
    )


@pytest.mark.parametrize("classes", [(2, 4), (False, True), (0.5, 1.5)])
def test_a_model_without_matching_and_any_kind_of_class_can_be_exported(
    tmp_path: Path, classes: tuple[Any, Any]
) -> None:
    with pytest.warns(SupportMatchWarning):
        model = SupportMatchingClassifier(config=STRICT).fit(X, np.array(classes)[SOURCES.train.y])
    export_model(model, tmp_path / "model")
    assert read_preprocessing(tmp_path / "model")["classes"] == list(classes)


def test_exporting_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    model = fitted("table")
    before = {name: value.clone() for name, value in model.encoder_.state_dict().items()}
    needs_gradient = [weight.requires_grad for weight in model.encoder_.parameters()]
    export_model(model, tmp_path / "model")
    assert all(torch.equal(value, before[name]) for name, value in model.encoder_.state_dict().items())
    assert [weight.requires_grad for weight in model.encoder_.parameters()] == needs_gradient


# Encoding without the package


def strict_preprocessing(tmp_path: Path) -> tuple[SupportMatchingClassifier, dict[str, Any]]:
    train, deploy = (as_frame(x).drop(columns=["pay", "job"]) for x in (X, X_DEPLOY))
    model = SupportMatchingClassifier(config=STRICT).fit(train, Y, S, deploy)
    export_model(model, tmp_path / "strict")
    return model, read_preprocessing(tmp_path / "strict")


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("town", "Atlantis", "'town' holds .'Atlantis'., which the model does not know"),
        ("town", None, "'town' has missing values"),
        ("age", np.nan, "'age' has missing values"),
        ("age", np.inf, "'age' holds infinity"),
        ("age", 1e39, "too large for float32"),
        ("age", "old", "'age' must hold numbers"),
        ("age", True, "'age' must hold numbers"),
    ],
)
def test_values_that_the_model_refuses_are_refused_without_the_package_too(
    tmp_path: Path, column: str, value: Any, problem: str
) -> None:
    model, preprocessing = strict_preprocessing(tmp_path)
    frame = as_frame(X).drop(columns=["pay", "job"])
    kind = object if isinstance(value, str) or value is None else type(value)
    frame[column] = pd.Series([value] * len(frame), dtype=kind)
    with pytest.raises(ValueError, match=problem):
        encode_table(frame, preprocessing)
    if value != 1e39:  # which the model takes, as it is standardised in double precision
        with pytest.raises(ValueError):  # noqa: PT011
            model.predict_proba(frame)


def test_a_table_that_lacks_columns_is_refused_and_further_ones_are_ignored(tmp_path: Path) -> None:
    _, preprocessing = strict_preprocessing(tmp_path)
    frame = as_frame(X)
    with pytest.raises(ValueError, match=r"lacks the columns \['town', 'age'\]"):
        encode_table(frame.drop(columns=["town", "age"]), preprocessing)
    categories, numbers = encode_table(frame.assign(id=1), preprocessing)
    assert np.array_equal(categories, encode_table(frame, preprocessing)[0])
    assert np.array_equal(numbers, encode_table(frame, preprocessing)[1])


def test_a_table_for_a_model_of_images_is_refused(exported: Callable[[str], Path]) -> None:
    with pytest.raises(ValueError, match="takes images, not a table"):
        encode_table(as_frame(X), read_preprocessing(exported("uint8")))


@pytest.mark.parametrize("dtype", ["object", "str", "string", "category"])
def test_every_way_to_hold_strings_gives_the_same_indices(dtype: Any, exported: Callable[[str], Path]) -> None:
    preprocessing, frame = read_preprocessing(exported("table")), strange_frame(50)
    expected = encode_table(frame, preprocessing)[0]
    assert np.array_equal(encode_table(frame.assign(job=frame["job"].astype(dtype)), preprocessing)[0], expected)


def test_nullable_numbers_are_read(exported: Callable[[str], Path]) -> None:
    preprocessing, frame = read_preprocessing(exported("table")), strange_frame(50)
    expected = encode_table(frame, preprocessing)[1]
    found = encode_table(frame.assign(age=frame["age"].astype("Int64")), preprocessing)[1]
    np.testing.assert_array_equal(found, expected)


# Encoders of one's own


class Own(nn.Module):
    """Turns numbers into codes, with a peculiarity."""

    def __init__(self, n_in: int, peculiarity: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n_in, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.Linear(5, 3))
        self.peculiarity = peculiarity

    def forward(self, rows: Tensor) -> Tensor:
        codes: Tensor = self.layers(self.peculiarity(rows))
        return codes


def plain(rows: Tensor) -> Tensor:
    return rows


def branching(rows: Tensor) -> Tensor:
    return rows + 1 if rows.mean() > 0 else rows


def through_numpy(rows: Tensor) -> Tensor:
    return torch.from_numpy(rows.numpy() * 2)


def fixed_size(rows: Tensor) -> Tensor:
    return rows + torch.zeros(len(rows), 1) if len(rows) != 256 else rows.reshape(256, -1)


def random(rows: Tensor) -> Tensor:
    return rows + torch.randn_like(rows)


def fit_own(peculiarity: Callable[[Tensor], Tensor]) -> SupportMatchingClassifier:
    model = SupportMatchingClassifier(config=STRICT, encoder=Own(X.shape[1], peculiarity))
    return model.fit(X, Y, S, X_DEPLOY)


def test_an_encoder_of_your_own_is_exported(tmp_path: Path) -> None:
    model = fit_own(plain)
    export_model(model, tmp_path / "model")
    for n in BATCH_SIZES:
        rows = new_rows("array", n)
        assert_same(model, rows, run_program(tmp_path / "model", inputs_of("array", rows, tmp_path / "model")))


@pytest.mark.parametrize("peculiarity", [branching, through_numpy, fixed_size])
def test_an_encoder_that_cannot_be_traced_is_refused_in_one_sentence(
    tmp_path: Path, peculiarity: Callable[[Tensor], Tensor], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match=r"torch\.export cannot trace the encoder of yours") as caught:
        export_model(fit_own(peculiarity), tmp_path / "model")
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_an_encoder_that_is_random_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must give the same codes every time"):
        export_model(fit_own(random), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_an_operation_that_onnx_lacks_is_named_in_one_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    with pytest.raises(ConfigError, match=r"cannot be written as ONNX \(.*bessel_j0.*\): export it without") as caught:
        export_model(fit_own(torch.special.bessel_j0), tmp_path / "model", onnx=True)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


# What can go wrong


def test_a_column_that_float32_cannot_tell_apart_is_refused_by_name(tmp_path: Path) -> None:
    moments, deploy_moments = (
        pd.DataFrame({"moment": 1.7e12 + 50 * x[:, 0].astype(np.float64), "other": x[:, 1].astype(np.float64)})
        for x in (X, X_DEPLOY)
    )
    model = SupportMatchingClassifier(config=STRICT).fit(moments, Y, S, deploy_moments)
    with pytest.raises(ConfigError, match=r"float32 is too coarse for the columns \['moment'\]"):
        export_model(model, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_an_infinite_class_is_refused_because_json_has_none(tmp_path: Path) -> None:
    model = SupportMatchingClassifier(config=STRICT)
    model.fit(X, np.array([0.0, np.inf])[SOURCES.train.y], S, X_DEPLOY)
    with pytest.raises(ConfigError, match="which JSON cannot hold"):
        export_model(model, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_the_lacking_extra_is_named_before_anything_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"run `pip install 'supportmatch\[onnx\]'`"):
        export_model(fitted("table"), tmp_path / "new" / "model", onnx=True)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_while_converting_to_onnx_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("no such operator.\nDetails follow")

    monkeypatch.setattr(export, "find_spec", lambda name: True)
    monkeypatch.setattr(torch.onnx, "export", fail)
    with pytest.raises(ConfigError, match=r"cannot be written as ONNX \(no such operator\): export it without"):
        export_model(fitted("table"), tmp_path / "model", onnx=True)
    assert list(tmp_path.iterdir()) == []


def test_an_onnx_model_that_differs_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "find_spec", lambda name: True)
    monkeypatch.setattr(export, "_write_onnx", lambda program, path: path.write_bytes(b""))
    half = np.float32(0.5)
    monkeypatch.setattr(export, "_run_onnx", lambda path: lambda inputs: np.full((len(inputs["numbers"]), 2), half))
    with pytest.raises(ConfigError, match=r"probabilities of model\.onnx differ from those of the model by up to"):
        export_model(fitted("table"), tmp_path / "model", onnx=True)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_bytes = Path.write_bytes

    def write_half(path: Path, content: bytes) -> int:
        write_bytes(path, content[: len(content) // 2])
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_bytes", write_half)
    with pytest.raises(OSError, match="no space left"):
        export_model(fitted("table"), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_replaced_on_request_only(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    export_model(fitted("numbers"), folder)
    before = (folder / PROGRAM).read_bytes()
    with pytest.raises(ModelFileError, match="exists and is not overwritten"):
        export_model(fitted("uint8"), folder)
    assert (folder / PROGRAM).read_bytes() == before
    export_model(fitted("uint8"), folder, overwrite=True)
    assert read_preprocessing(folder)["kind"] == "images"
    assert list(tmp_path.iterdir()) == [folder]


def test_a_model_that_was_not_fitted_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not fitted"):
        export_model(SupportMatchingClassifier(), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
