"""Models for use without this package: torch.export and ONNX, with as much preprocessing inside as graphs can hold.

A graph turns numbers into class probabilities: one-hot blocks, fills, standardisation and the scaling of bytes are part
of it. What it cannot hold is the translation of text: that is written to `preprocessing.json`, which `encode_table`
applies.
"""

from __future__ import annotations

import inspect
import json
import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int, Shaped
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.export import ExportedProgram

from supportmatch.data.inputs import FeatureReader, Features
from supportmatch.data.tables import MISSING, OTHER, CategoricalColumn, NumericColumn, TableEncoder, name_of
from supportmatch.errors import ConfigError, SupportMatchWarning
from supportmatch.estimator import SupportMatchingClassifier
from supportmatch.networks.encoders import split_code
from supportmatch.output import new_folder
from supportmatch.seeding import stream
from supportmatch.sources import Label

SCHEMA = 1
PROGRAM, ONNX, PREPROCESSING, README = "model.pt2", "model.onnx", "preprocessing.json", "README.md"
LARGEST_DIFFERENCE = 1e-4
"""Between the probabilities of an exported model and those of `predict_proba`; beyond it nothing is exported."""

_ONNX_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
_NOISY_LOGGERS = ("onnx._internal.exporter._registration", "fx.experimental.symbolic_shapes")
_BATCH_SIZES = (1, 7, 256)
_Inputs = dict[str, NDArray[Any]]
_Run = Callable[[_Inputs], NDArray[Any]]


@dataclass(frozen=True)
class ExportSummary:
    """What was written, and how far it is from the model."""

    folder: Path
    files: tuple[str, ...]
    checked_on: str
    """The rows that predictions were compared on, in words."""
    program_difference: float
    """Largest difference between probabilities of `model.pt2` and of the model."""
    onnx_difference: float | None
    """The same of `model.onnx`; None if it was not asked for."""


def export_model(
    model: SupportMatchingClassifier,
    folder: Path,
    *,
    onnx: bool = False,
    overwrite: bool = False,
    rows: Features | None = None,
    prepared: str | None = None,
) -> ExportSummary:
    """Write `model.pt2`, on request `model.onnx`, and what is needed to use them, to a folder: complete or not at all.

    Everything written is loaded again and compared with `predict_proba`, on single rows and on batches.

    Args:
        model: A fitted estimator.
        folder: Where to write; an existing folder is refused unless `overwrite` is set.
        onnx: Write ONNX too and check it with onnxruntime; needs the extra `onnx`.
        overwrite: Replace a folder that this package wrote.
        rows: Features to compare predictions on (the first few are used, none are written); by default rows are made
            up from what the model knows about its columns or images.
        prepared: What was done to pictures before the model saw them, in words; images in arrays come as they are.
    """
    check_is_fitted(model)
    if onnx:
        _check_onnx_is_installed()
    reader, own = model.reader_, model.encoder is not None and model.final_ is None
    made_up = _make_up_rows(reader)
    compared = made_up if rows is None else _first(rows, max(_BATCH_SIZES))
    preprocessing = _describe(model, prepared)
    onnx_difference = None
    with new_folder(folder, overwrite=overwrite) as draft:
        # Never traced with a user's rows, so that no trace of them can end up in a file.
        program = _trace(_graph(model), _read_inputs(made_up, preprocessing), own_encoder=own)
        # Through memory: where the disk is full, torch's own writer ends the process.
        content = BytesIO()
        torch.export.save(program, content)
        (draft / PROGRAM).write_bytes(content.getvalue())
        program_difference = _largest_difference(model, compared, preprocessing, _run_program(draft / PROGRAM))
        _check_difference(program_difference, PROGRAM, reader)
        if onnx:
            _write_onnx(program, draft / ONNX)
            onnx_difference = _largest_difference(model, compared, preprocessing, _run_onnx(draft / ONNX))
            _check_difference(onnx_difference, ONNX, reader)
        _write_strict_json(preprocessing, draft / PREPROCESSING)
        summary = ExportSummary(
            folder=folder,
            files=(PROGRAM, *([ONNX] if onnx else []), PREPROCESSING, README),
            checked_on=f"{len(compared)} {'made-up rows' if rows is None else 'rows that were given'}",
            program_difference=program_difference,
            onnx_difference=onnx_difference,
        )
        (draft / README).write_text(_readme(preprocessing, summary), encoding="utf-8")
    return summary


def encode_table(frame: pd.DataFrame, preprocessing: dict[str, Any]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Turn a table into what an exported model takes: indices of categories, and numbers; either may have no columns.

    Needs numpy and pandas only, so it may be copied to wherever the model runs.

    Args:
        frame: The features, in any order; columns that the model does not know are ignored.
        preprocessing: The content of `preprocessing.json`.
    """
    if preprocessing["kind"] != "table":
        raise ValueError("this model takes images, not a table: pass it their stored values.")
    as_in_files = preprocessing["text"] == "as-in-files"
    if as_in_files:
        frame = frame.rename(columns=lambda name: name.strip() if isinstance(name, str) else name)
    columns = [column["name"] for part in ("categorical", "numeric") for column in preprocessing[part]]
    lacking = [name for name in columns if name not in frame.columns]
    if lacking:
        raise ValueError(f"the table lacks the columns {lacking}: add or rename columns.")
    categories = np.zeros((len(frame), len(preprocessing["categorical"])), np.int64)
    for i, column in enumerate(preprocessing["categorical"]):
        place = {value: index for index, value in enumerate(column["categories"])}
        codes, values = pd.factorize(frame[column["name"]])  # missing cells have the code -1
        if as_in_files:
            names = [name_of(value, preprocessing["missing_marks"]) for value in values]
            codes = np.array([*(-1 if name is None else i for i, name in enumerate(names)), -1])[codes]
            values = np.array(names, dtype=object)
        unlisted = [value for value in values if value is not None and value not in place]
        if unlisted and column["unlisted_index"] is None:
            raise ValueError(f"column {column['name']!r} holds {unlisted[:5]}, which the model does not know.")
        if (codes == -1).any() and column["missing_index"] is None:
            raise ValueError(f"column {column['name']!r} has missing values, for which the model was not fitted.")
        indices = [place.get(value, column["unlisted_index"]) for value in values]
        categories[:, i] = np.array([*indices, column["missing_index"] or 0], np.int64)[codes]
    numbers = np.zeros((len(frame), len(preprocessing["numeric"])), np.float32)
    for i, column in enumerate(preprocessing["numeric"]):
        values = frame[column["name"]]
        if not pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values):
            raise ValueError(f"column {column['name']!r} must hold numbers but has type {values.dtype}: convert it.")
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused as such
            numbers[:, i] = values.to_numpy(np.float64, na_value=np.nan)
        if np.isinf(numbers[:, i]).any():
            raise ValueError(f"column {column['name']!r} holds infinity, or numbers too large for float32.")
        if np.isnan(numbers[:, i]).any() and not column["missing_allowed"]:
            raise ValueError(f"column {column['name']!r} has missing values, for which the model was not fitted.")
    return categories, numbers


class ProbabilityGraph(nn.Module):
    """From rows as networks see them to class probabilities: the final classifier, or encoder, z, classifier."""

    def __init__(self, model: SupportMatchingClassifier) -> None:
        super().__init__()
        self.side = model.encoder_.side
        self.final = deepcopy(model.final_)
        if self.final is None:
            self.encoder = deepcopy(model.encoder_.encoder)
            self.classifier = deepcopy(model.classifier_)

    def forward(self, rows: Float[Tensor, "rows *features"]) -> Float[Tensor, "rows classes"]:
        """Return probabilities."""
        if self.final is not None:
            logits: Tensor = self.final(rows)
        else:
            logits = self.classifier(split_code(self.encoder(rows), self.side).z)
        return logits.softmax(dim=1)


class ImageGraph(nn.Module):
    """From images as they are stored to class probabilities."""

    def __init__(self, probabilities: ProbabilityGraph) -> None:
        super().__init__()
        self.probabilities = probabilities

    def forward(self, images: Shaped[Tensor, "rows channels height width"]) -> Float[Tensor, "rows classes"]:
        """Scale bytes like `tensors.read_rows` does, and predict."""
        pixels = images.float()
        if images.dtype == torch.uint8:
            pixels = pixels.div(255)
        elif images.dtype == torch.int8:
            pixels = pixels.add(0.5).div(127.5)
        probabilities: Tensor = self.probabilities(pixels)
        return probabilities


class TableGraph(nn.Module):
    """From indices of categories, and numbers, to class probabilities: `TableEncoder.transform` as tensor operations.

    Inputs are named by the arguments of `forward`, so every combination of them is a class of its own.
    """

    column: Tensor
    index: Tensor
    mean: Tensor
    std: Tensor
    fill: Tensor
    flagged: Tensor

    def __init__(self, table: TableEncoder, probabilities: ProbabilityGraph) -> None:
        super().__init__()
        self.probabilities = probabilities
        one_hot = [(i, j) for i, column in enumerate(table.categorical) for j in range(len(column.categories))]
        self.register_buffer("column", torch.tensor([i for i, _ in one_hot], dtype=torch.int64))
        self.register_buffer("index", torch.tensor([j for _, j in one_hot], dtype=torch.int64))
        # In double precision, as when the model was fitted.
        for name in ("mean", "std"):
            self.register_buffer(name, torch.tensor([getattr(n, name) for n in table.numeric], dtype=torch.float64))
        fill = [float("nan") if number.fill is None else number.fill for number in table.numeric]
        self.register_buffer("fill", torch.tensor(fill, dtype=torch.float64))
        flagged = [i for i, number in enumerate(table.numeric) if number.says_missing]
        self.register_buffer("flagged", torch.tensor(flagged, dtype=torch.int64))

    def one_hot(self, categories: Int[Tensor, "rows columns"]) -> Float[Tensor, "rows values"]:
        """Return the blocks of all categorical columns; an index that no category has gives zeros."""
        return (categories.index_select(1, self.column) == self.index).float()

    def standardise(self, numbers: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows features"]:
        """Return what tells which numbers were missing, then the numbers."""
        is_missing = numbers.isnan()
        values = torch.where(is_missing, self.fill, numbers.double())
        scaled = ((values - self.mean) / self.std).float()
        if not len(self.flagged):
            return scaled
        flags = is_missing.index_select(1, self.flagged)
        return torch.cat([torch.stack([~flags, flags], dim=2).flatten(1).float(), scaled], dim=1)


class CategoriesAndNumbersGraph(TableGraph):
    """The graph of a table with columns of both kinds."""

    def forward(
        self, categories: Int[Tensor, "rows categorical"], numbers: Float[Tensor, "rows numeric"]
    ) -> Float[Tensor, "rows classes"]:
        """Encode both and predict."""
        encoded = torch.cat([self.one_hot(categories), self.standardise(numbers)], dim=1)
        probabilities: Tensor = self.probabilities(encoded)
        return probabilities


class CategoriesGraph(TableGraph):
    """The graph of a table without numbers."""

    def forward(self, categories: Int[Tensor, "rows categorical"]) -> Float[Tensor, "rows classes"]:
        """Encode and predict."""
        probabilities: Tensor = self.probabilities(self.one_hot(categories))
        return probabilities


class NumbersGraph(TableGraph):
    """The graph of a table without categories."""

    def forward(self, numbers: Float[Tensor, "rows numeric"]) -> Float[Tensor, "rows classes"]:
        """Encode and predict."""
        probabilities: Tensor = self.probabilities(self.standardise(numbers))
        return probabilities


def _graph(model: SupportMatchingClassifier) -> nn.Module:
    """Return all that is exported as one network in evaluation mode."""
    probabilities, table = ProbabilityGraph(model), model.reader_.table_encoder
    graph: nn.Module
    if table is None:
        graph = ImageGraph(probabilities)
    elif table.categorical and table.numeric:
        graph = CategoriesAndNumbersGraph(table, probabilities)
    else:
        graph = (CategoriesGraph if table.categorical else NumbersGraph)(table, probabilities)
    return graph.eval().requires_grad_(False)


def _trace(graph: nn.Module, inputs: _Inputs, *, own_encoder: bool) -> ExportedProgram:
    """Return the program for any number of rows; of the rows and files that it was made with it keeps nothing."""
    n_rows = torch.export.Dim("rows", min=1)
    try:
        # When it fails torch prints whole graphs beside raising: those are not passed on.
        with _without_known_noise(), redirect_stderr(StringIO()) as said:
            program = torch.export.export(
                graph,
                tuple(torch.from_numpy(values) for values in inputs.values()),
                dynamic_shapes={name: {0: n_rows} for name in inputs},
                strict=False,
            )
    except Exception as error:
        if not own_encoder:
            raise
        raise ConfigError(
            f"torch.export cannot trace the encoder of yours ({_reason(error)}): let it consist of tensor "
            "operations, for any number of rows, whose course does not depend on values."
        ) from error
    sys.stderr.write(said.getvalue())
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    program.example_inputs = None
    return program


def _write_onnx(program: ExportedProgram, path: Path) -> None:
    inputs = program.graph_signature.user_inputs
    try:
        with _without_known_noise():
            converted = torch.onnx.export(
                program,
                dynamo=True,
                verbose=False,
                output_names=["probabilities"],
                # Only names the axis, which all inputs share.
                dynamic_shapes={name: {0: "rows"} if i == 0 else {} for i, name in enumerate(inputs)},
            )
            assert converted is not None
            content = converted.model_proto.SerializeToString()
    except Exception as error:
        raise ConfigError(
            f"the model cannot be written as ONNX ({_reason(error)}): export it without, and use {PROGRAM}."
        ) from error
    path.write_bytes(content)


def _run_program(path: Path) -> _Run:
    """Return the function from inputs to probabilities that a pt2 file holds."""
    with _without_known_noise():
        network = torch.export.load(path).module()

    def run(inputs: _Inputs) -> NDArray[Any]:
        probabilities: Tensor = network(*(torch.from_numpy(values) for values in inputs.values()))
        return probabilities.numpy()

    return run


def _run_onnx(path: Path) -> _Run:
    """Return the function from inputs to probabilities that an ONNX file holds."""
    session = import_module("onnxruntime").InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(inputs: _Inputs) -> NDArray[Any]:
        probabilities: NDArray[Any] = session.run(["probabilities"], inputs)[0]
        return probabilities

    return run


def _check_onnx_is_installed() -> None:
    lacking = [name for name in _ONNX_PACKAGES if find_spec(name) is None]
    if lacking:
        raise ConfigError(
            f"export to ONNX needs {', '.join(lacking)}, not installed here: run `pip install 'supportmatch[onnx]'`."
        )


@contextmanager
def _without_known_noise() -> Iterator[None]:
    """Silence what torch's exporters say about themselves, and nothing else."""

    def is_news(record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith(("torchvision is not installed", "Unable to find user code"))

    loggers = [logging.getLogger(f"torch.{name}") for name in _NOISY_LOGGERS]
    for logger in loggers:
        logger.addFilter(is_news)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning)
            yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_news)


def _largest_difference(
    model: SupportMatchingClassifier, rows: Features, preprocessing: dict[str, Any], run: _Run
) -> float:
    """Compare probabilities on batches of several sizes; what is not a number counts as infinitely far."""
    differences = []
    for size in _BATCH_SIZES:
        batch = _first(rows, size)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SupportMatchWarning)  # made-up rows hold values that are not known
            expected = model.predict_proba(batch)  # first, as it says what is wrong with rows that do not fit
        found = run(_read_inputs(batch, preprocessing))
        differences.append(np.abs(found - expected).max() if found.shape == expected.shape else np.inf)
    return float(np.nan_to_num(np.array(differences), nan=np.inf).max())


def _check_difference(difference: float, file: str, reader: FeatureReader) -> None:
    if difference <= LARGEST_DIFFERENCE:
        return
    numbers = reader.table_encoder.numeric if reader.table_encoder else ()
    coarse = [number.name for number in numbers if _is_coarse(number)]
    reason = (
        f"float32 is too coarse for the columns {coarse}, so shift or scale them before fitting"
        if coarse
        else "an encoder of yours must give the same codes every time; without one, please report this"
    )
    raise ConfigError(
        f"probabilities of {file} differ from those of the model by up to {difference:.2g}, where at most "
        f"{LARGEST_DIFFERENCE:g} is accepted: {reason}."
    )


def _is_coarse(number: NumericColumn) -> bool:
    """Whether rounding to float32 may be what moves ordinary values of a column, on the scale of the networks."""
    largest = np.float32(abs(number.mean) + 3 * number.std)
    return not np.isfinite(largest) or float(np.spacing(largest)) / number.std > LARGEST_DIFFERENCE / 10


def _first(rows: Features, n_rows: int) -> Features:
    return rows.iloc[:n_rows] if isinstance(rows, pd.DataFrame) else rows[:n_rows]


def _read_inputs(rows: Features, preprocessing: dict[str, Any]) -> _Inputs:
    """Return the inputs of the graph by name."""
    if preprocessing["kind"] == "images":
        return {"images": np.array(rows, preprocessing["inputs"][0]["type"], order="C")}
    if not isinstance(rows, pd.DataFrame):  # named like TableEncoder does
        rows = pd.DataFrame(np.asarray(rows, np.float64), columns=[f"x{i}" for i in range(np.shape(rows)[1])])
    categories, numbers = encode_table(rows, preprocessing)
    both: _Inputs = {"categories": categories, "numbers": numbers}
    return {description["name"]: both[description["name"]] for description in preprocessing["inputs"]}


def _make_up_rows(reader: FeatureReader) -> Features:
    """Return rows that the model accepts, with every peculiarity that it was fitted for."""
    rng, n_rows = stream(0, "rows to export with"), max(_BATCH_SIZES)
    table = reader.table_encoder
    if table is None:
        shape = (n_rows, *reader.feature_shape)
        if reader.is_bytes:
            return rng.integers(0, 256, shape, np.uint8)
        return rng.integers(-128, 128, shape, np.int8) if reader.is_signed_bytes else rng.random(shape, np.float32)
    columns: dict[str | int, Any] = {}
    for column in table.categorical:
        columns[column.name] = _make_up_categories(column, table, rng, n_rows)
    for number in table.numeric:
        values = rng.normal(number.mean, number.std, n_rows)
        columns[number.name] = np.where(rng.random(n_rows) < 0.1, np.nan, values) if number.fill is not None else values
    return pd.DataFrame(columns)


def _make_up_categories(
    column: CategoricalColumn, table: TableEncoder, rng: np.random.Generator, n_rows: int
) -> pd.Series[Any]:
    kind = type(column.categories[0])
    values: list[Label | None] = [value for value in column.categories if type(value) is kind]
    unlisted_index, missing_index = _fallbacks(column, table)
    if kind is str:
        values += ["(never seen before)"] if unlisted_index is not None else []
        values += [None] if missing_index is not None else []
    chosen = pd.Series([values[i] for i in rng.integers(len(values), size=n_rows)], dtype=object)
    return chosen if kind in (str, bool) else chosen.astype("category")


def _fallbacks(column: CategoricalColumn, table: TableEncoder) -> tuple[int | None, int | None]:
    """Return the indices that stand for values without one of their own, and for missing cells; None means refused."""
    unlisted: int | None = None
    if OTHER in column.categories:
        unlisted = column.categories.index(OTHER)
    elif table.config.unknown == "ignore":
        unlisted = len(column.categories)
    if table.config.missing == "refuse" or not isinstance(column.categories[0], str):
        return unlisted, None
    return unlisted, column.categories.index(MISSING) if MISSING in column.categories else unlisted


def _describe(model: SupportMatchingClassifier, prepared: str | None = None) -> dict[str, Any]:
    """Return what `preprocessing.json` holds."""
    reader, table, n_classes = model.reader_, model.reader_.table_encoder, model.grid_.n_classes
    start = {"schema": SCHEMA, "supportmatch": version("supportmatch")}
    end = {
        "output": {"name": "probabilities", "type": "float32", "shape": ["rows", n_classes]},
        "classes": list(model.grid_.classes),
    }
    if table is not None:
        inputs = [("categories", "int64", len(table.categorical)), ("numbers", "float32", len(table.numeric))]
        return {
            **start,
            "kind": "table",
            "text": table.config.text,
            "missing_marks": list(table.config.missing_marks),
            "inside_the_graph": _inside_a_table_graph(table, _networks(model)),
            "outside_the_graph": _outside_a_table_graph(table),
            "inputs": [{"name": name, "type": kind, "shape": ["rows", n]} for name, kind, n in inputs if n],
            **end,
            "categorical": [
                {
                    "name": column.name,
                    "categories": list(column.categories),
                    **dict(zip(("unlisted_index", "missing_index"), _fallbacks(column, table), strict=True)),
                }
                for column in table.categorical
            ],
            "numeric": [{"name": n.name, "missing_allowed": n.fill is not None} for n in table.numeric],
        }
    channels, height, width = reader.feature_shape
    kind, value_range, scaling = "float32", None, "Values are taken as they are."
    if reader.is_bytes:
        kind, value_range, scaling = "uint8", [0, 255], "Bytes are scaled to 0 to 1: value / 255."
    elif reader.is_signed_bytes:
        kind, value_range, scaling = "int8", [-128, 127], "Signed bytes are scaled to -1 to 1: (value + 0.5) / 127.5."
    scale = "" if value_range else " The scale of the values must be that of the images it was fitted on."
    reading = (
        "Reading image files, and everything that brought the training images to this number of channels, height and "
        "width, such as turning, cutting and resizing; nothing of it is known here."
    )
    if prepared is not None:
        reading = f"Reading image files. Those of training were {prepared} (bilinear), as `supportmatch predict` does."
    return {
        **start,
        "kind": "images",
        "inside_the_graph": [scaling, *_networks(model)],
        "outside_the_graph": [f"{reading}{scale}"],
        "inputs": [{"name": "images", "type": kind, "shape": ["rows", channels, height, width]}],
        **end,
        "channels": channels,
        "height": height,
        "width": width,
        "value_range": value_range,
    }


_SOFTMAX = "and the softmax that makes probabilities."


def _networks(model: SupportMatchingClassifier) -> tuple[str, ...]:
    if model.final_ is not None:
        return (f"The final classifier, {_SOFTMAX}",)
    return ("The encoder, and of its code the part z.", f"The classifier, {_SOFTMAX}")


def _inside_a_table_graph(table: TableEncoder, networks: Sequence[str]) -> list[str]:
    steps = []
    if table.categorical:
        steps.append("One-hot blocks from `categories`; an index that is no category's gives a block of zeros.")
    if any(number.says_missing for number in table.numeric):
        steps.append("For numeric columns in which values were missing: two features that say known and missing.")
    if any(number.fill is not None for number in table.numeric):
        steps.append("Missing `numbers` (NaN) are replaced by the median of training.")
    if table.numeric:
        steps.append("`numbers` are standardised by mean and deviation of training.")
    return [*steps, *networks]


def _outside_a_table_graph(table: TableEncoder) -> list[str]:
    steps = ["Reading files, trimming text and recognising marks of missing values such as `?`."]
    if table.config.text == "as-in-files":
        steps = [
            "Reading files. Names of columns are trimmed. Values of categorical columns are compared by the names that "
            "`name_of` (below) gives them: as trimmed text, with `1.0` as `1`, `True` as `true`, and the "
            "`missing_marks` as missing."
        ]
    if table.categorical:
        steps.append(
            "Values of categorical columns become indices, columns in the order of `categorical`: a value that is "
            "listed in `categories` becomes its place there, counted from 0; any other (rare ones are not listed where "
            f"`{OTHER}` is) becomes `unlisted_index`; a missing one becomes `missing_index`. Where these are null such "
            "a value must be refused; where they equal the number of categories they mean none of them."
        )
    if table.numeric:
        steps.append(
            "Numeric columns become float32 in the order of `numeric`; missing is NaN where `missing_allowed` is true, "
            "elsewhere it must be refused (the graph would answer NaN), as infinity must be."
        )
    return steps


def _write_strict_json(content: dict[str, Any], path: Path) -> None:
    try:
        text = json.dumps(content, indent=1, allow_nan=False)
    except ValueError as error:
        raise ConfigError("a class or category is infinite, which JSON cannot hold: give it a name.") from error
    path.write_text(f"{text}\n", encoding="utf-8")


def _readme(preprocessing: dict[str, Any], summary: ExportSummary) -> str:
    """Return the page that says what is in the folder and how to use it."""
    is_table, has_onnx = preprocessing["kind"] == "table", summary.onnx_difference is not None
    names = [description["name"] for description in preprocessing["inputs"]]
    tensors = ", ".join(f"torch.from_numpy({name})" for name in names)
    differences = f"{summary.program_difference:.1g} (`{PROGRAM}`)"
    if summary.onnx_difference is not None:
        differences += f" and {summary.onnx_difference:.1g} (`{ONNX}`)"
    lines = [
        "# An exported classifier",
        "",
        f"Written by supportmatch {preprocessing['supportmatch']}. For every row it gives the probabilities of the "
        f"classes {json.dumps(preprocessing['classes'], ensure_ascii=False)}, in this order.",
        "",
        f"- `{PROGRAM}`: a program of torch.export, made with torch {torch.__version__}",
        *[f"- `{ONNX}`: the same for ONNX runtimes"] * has_onnx,
        f"- `{PREPROCESSING}`: inputs, classes, and how to prepare rows",
        "",
        f"On {summary.checked_on}, one by one and in batches, probabilities differ from those of the model by at most "
        f"{differences}.",
        "",
        "## Inside the graph",
        "",
        *(f"- {step}" for step in preprocessing["inside_the_graph"]),
        "",
        "## Not inside the graph",
        "",
        *(f"- {step}" for step in preprocessing["outside_the_graph"]),
        "- What the model was fitted on, for whom it works and for whom not: see its report before using it.",
        "",
        "## Inputs and output",
        "",
        *(
            f"- `{array['name']}`: {array['type']}, {' x '.join(map(str, array['shape']))}"
            for array in (*preprocessing["inputs"], preprocessing["output"])
        ),
        "",
        "Any number of rows from 1 upwards may be passed at once.",
        "",
        "## Use",
        "",
        *(_code_to_prepare_a_table() if is_table else []),
        "With torch:" if is_table else "With torch, for an array `images`:",
        "",
        "```python",
        "import torch",
        "",
        f'model = torch.export.load("{PROGRAM}").module()',
        f"probabilities = model({tensors}).numpy()",
        "```",
        "",
    ]
    if has_onnx:
        lines += [
            "With onnxruntime:",
            "",
            "```python",
            "import onnxruntime",
            "",
            f'session = onnxruntime.InferenceSession("{ONNX}", providers=["CPUExecutionProvider"])',
            f"inputs = {{{', '.join(f'{chr(34)}{name}{chr(34)}: {name}' for name in names)}}}",
            "probabilities = session.run(None, inputs)[0]",
            "```",
            "",
        ]
    return "\n".join(lines)


def _code_to_prepare_a_table() -> list[str]:
    return [
        "For a DataFrame `frame` with the columns of training (those of arrays are called x0, x1, and so on); "
        "`encode_table` is the one of `supportmatch.export` and needs nothing else of it:",
        "",
        "```python",
        "from __future__ import annotations",
        "",
        "import json",
        "from collections.abc import Sequence",
        "from typing import Any",
        "",
        "import numpy as np",
        "import pandas as pd",
        "",
        "",
        *inspect.getsource(name_of).splitlines(),
        "",
        "",
        *inspect.getsource(encode_table).splitlines(),
        "",
        "",
        f'with open("{PREPROCESSING}", encoding="utf-8") as file:',
        "    preprocessing = json.load(file)",
        "categories, numbers = encode_table(frame, preprocessing)",
        "```",
        "",
    ]


def _reason(error: BaseException) -> str:
    """Return the first line of what started it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).strip().partition("\n")[0].removesuffix(".") or type(error).__name__
