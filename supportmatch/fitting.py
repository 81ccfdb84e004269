"""From files to a model folder: read, audit, match, and write everything that belongs to the model.

The folder is complete or absent. While `fit` works it keeps what it needs to go on after an interruption in a folder
beside the final one, `.NAME-unfinished`, which vanishes when the model is there.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import tomli_w
from numpy.typing import NDArray

from supportmatch.baselines.cluster_labels import ClusterLabelClassifier
from supportmatch.baselines.complete_support import CompleteSupportClassifier
from supportmatch.baselines.erm import ErmClassifier
from supportmatch.baselines.interface import Baseline
from supportmatch.baselines.pseudo_label import PseudoLabelClassifier
from supportmatch.checkpoint import write_model
from supportmatch.classifier import transform_rows
from supportmatch.config import Config, TableConfig, default_config, preset, read_config
from supportmatch.data.columns import MANY_CATEGORIES, Column, ColumnPlan, Labels, Roles, read_labels
from supportmatch.data.containers import Rows
from supportmatch.data.files import open_table, take_rows
from supportmatch.data.images import PREPARED, SIDE, open_images
from supportmatch.data.inputs import Features
from supportmatch.errors import (
    ConfigError,
    ModelFileError,
    ProcessLostError,
    StoppedError,
    SupportMatchError,
    SupportMatchWarning,
)
from supportmatch.estimator import SupportMatchingClassifier
from supportmatch.final import MOSTLY_SAME
from supportmatch.hardware import HERE, Hardware
from supportmatch.inspection import TableAudit, TablePair, TableSource
from supportmatch.metrics import Evaluation, calibration_of, evaluate
from supportmatch.output import check_free, new_folder, write_atomically
from supportmatch.progress import Report, progress_bar
from supportmatch.ranks import ALONE, Ranks
from supportmatch.report.card import all_warnings, render_card
from supportmatch.report.content import MEASURED, TEST, ReportContent
from supportmatch.report.page import render_page
from supportmatch.report.shown import as_bytes, attention_of, reconstruct
from supportmatch.report.watched import WatchedClassifier
from supportmatch.seeding import stream
from supportmatch.snapshots import Snapshots
from supportmatch.sources import SourceGrid
from supportmatch.tensors import read_rows

RECORD, CONFIG, PAGE, CARD = "fit.json", "config.toml", "report.html", "MODEL_CARD.md"
RECORD_SCHEMA = 1
_SHOWN_CODES, _SHOWN_IMAGES, _SHOWN_BAGS, _SHOWN_ROWS = 600, 8, 2, 10
_WEIGHED_BAGS = 20
_MOST_VALUES = 10**9
"""Features times rows of both sets, beyond which simple things that hold all rows in memory are not tried."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class FitRequest:
    """What `supportmatch fit` was asked for."""

    source: TableSource
    out: Path
    images: Path | None = None
    """Folder of the pictures that the file column names."""
    side: int = SIDE
    """Pixels of a side that pictures are resized to."""
    test: Path | None = None
    """Labelled rows to measure the model on once it is fitted; they have no part in fitting."""
    positive: str | None = None
    """The class that rates such as TPR speak of; None: the second."""
    preset: str | None = None
    """Name of the settings to start from; None: the default for this kind of rows."""
    settings: Path | None = None
    """TOML file with what differs from there."""
    missing: str | None = None
    """`TableConfig.missing`; None: what the settings say, else a category of their own."""
    seed: int = 0
    overwrite: bool = False
    show_examples: bool = False
    """Whether the report shows some rows or pictures of the data, as they are."""
    progress: bool = False
    hardware: Hardware = HERE
    command: str = ""
    """How it was asked for, to be repeated."""


@dataclass(frozen=True)
class FitRecord:
    """How a model folder came about: what `predict` and `evaluate` need to read files in the same way."""

    label: str
    subgroup: tuple[str, ...]
    columns: tuple[Column, ...]
    missing_marks: tuple[str, ...]
    file_column: str | None
    side: int
    known_columns: tuple[str, ...]
    """Every column of either file."""

    @property
    def roles(self) -> Roles:
        """Which columns hold the class and the subgroup."""
        return Roles(self.label, self.subgroup)

    @property
    def plan(self) -> ColumnPlan:
        """What becomes of the columns."""
        return ColumnPlan(self.columns)

    def save(self, folder: Path) -> None:
        """Write the record into a model folder."""
        text = json.dumps({"schema": RECORD_SCHEMA, **asdict(self)}, indent=1)
        (folder / RECORD).write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> FitRecord:
        """Read the record of a model folder."""
        path = folder / RECORD
        if not path.is_file():
            raise ModelFileError(
                f"{folder} has no {RECORD}, so it was not written by `supportmatch fit`: name such a folder, or load "
                "the model in Python."
            )
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            if values.pop("schema") != RECORD_SCHEMA:
                raise ValueError("another schema")
            lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
            columns = tuple(Column(**column) for column in values["columns"])
            return cls(**{**values, **lists, "columns": columns})
        except (ValueError, KeyError, TypeError) as error:
            raise ModelFileError(f"{path} cannot be read ({error}): restore it, or fit again.") from error


@dataclass(frozen=True, eq=False)
class FittedFolder:
    """What `fit_files` left."""

    folder: Path
    model: SupportMatchingClassifier
    evaluation: Evaluation | None
    warnings: tuple[str, ...]
    """All that must be read first, as in the report."""
    findings: tuple[str, ...]
    """What the audit found odd about the columns."""
    seconds: float


def fit_files(request: FitRequest, say: Say = lambda text: None, ranks: Ranks = ALONE) -> FittedFolder | None:
    """Read the files, say what they show, fit, and write the model folder.

    Args:
        request: What to fit.
        say: Told what there is to read meanwhile.
        ranks: The processes that do it together. The first writes the folder; the others return None.
    """
    began = time.perf_counter()
    out = request.out.resolve()
    check_free(out, request.overwrite)
    if request.source.deploy is None:
        raise ConfigError(
            "there is no deployment file, and without unlabelled rows nothing can be matched: pass --deploy FILE with "
            "rows from where the model will be used."
        )
    pair = request.source.open()
    audit = pair.audit()
    positive = positive_id(pair.labels.grid, request.positive)
    say(audit.to_text())
    test = _read_test(request, pair, audit) if request.test else None
    train_rows, deploy_rows = _features(request, pair, audit)
    labels, grid = pair.labels, pair.labels.grid
    names: dict[str, Any] = {"subgroup_names": grid.subgroups, "class_names": grid.classes}
    config = _resolve(request, labels)
    model = _WatchedFit(
        **names, config=config, random_state=request.seed, hardware=request.hardware, verbose=request.progress
    )
    fingerprint = _fingerprint(request, config, train_rows, deploy_rows, labels)
    unfinished = out.with_name(f".{out.name}-unfinished")
    model._ranks = ranks
    model._snapshots = Snapshots(unfinished, fingerprint, writes=ranks.is_first, replaces=request.overwrite)
    if model._snapshots.exists:
        say(f"Going on from {unfinished}.")
    read = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SupportMatchWarning)
        _fit(model, train_rows, labels, deploy_rows)
    if not ranks.is_first:
        return None
    said = tuple(str(warning.message) for warning in caught if issubclass(warning.category, SupportMatchWarning))
    said = (*pair.label_findings(), *said)
    fitted = time.perf_counter()
    evaluation: Evaluation | None = None
    measured: dict[str, Any] | None = None
    alternatives: tuple[dict[str, Any], ...] = ()
    if test is not None:
        evaluation, measured = measure(model.predict_proba(test[0]), test[1], positive)
        with progress_bar("simple rivals", enabled=request.progress) as report:
            alternatives = _alternatives(model, test, report)
    record = FitRecord(
        request.source.roles.label,
        request.source.roles.subgroup,
        audit.plan.columns if audit.plan else (),
        request.source.missing_marks,
        request.source.file_column,
        request.side,
        tuple(dict.fromkeys([*pair.train_file.names, *(pair.deploy_file.names if pair.deploy_file else ())])),
    )
    stages = (("reading", read - began), ("fitting", fitted - read), ("measuring", time.perf_counter() - fitted))
    content = _content(request, pair, audit, model, said, measured, alternatives, stages)
    with new_folder(out, overwrite=request.overwrite) as draft:
        write_model(model, draft)
        record.save(draft)
        (draft / CONFIG).write_text(config_to_toml(model.config_), encoding="utf-8")
        content.save(draft)
        write_pages(content, draft)
    shutil.rmtree(unfinished, ignore_errors=True)
    return FittedFolder(out, model, evaluation, all_warnings(content), audit.findings, time.perf_counter() - began)


def _fit(model: _WatchedFit, train: Features, labels: Labels, deploy: Features) -> None:
    """Fit a model with snapshots, which stay for another try if they can be of use."""
    assert model._snapshots is not None
    snapshots, ranks, grid = model._snapshots, model._ranks, labels.grid
    ranks.agree(int(snapshots.fingerprint[:15], 16), "the data and the settings")
    was_there = snapshots.folder.exists()
    try:
        with _stopped_by_signals(snapshots, ranks):
            model.fit(train, np.array(grid.classes)[labels.y], np.array(grid.subgroups)[labels.s], deploy)
    except (StoppedError, ProcessLostError):
        raise
    except SupportMatchError:
        if ranks.is_first and not was_there:  # another try needs other settings or rows
            shutil.rmtree(snapshots.folder, ignore_errors=True)
        raise


def write_pages(content: ReportContent, folder: Path) -> None:
    """Write the report and the model card into a folder that is there."""
    write_atomically(folder / PAGE, render_page(content).encode())
    write_atomically(folder / CARD, render_card(content).encode())


def remeasured(content: ReportContent, path: Path, measured: dict[str, Any]) -> ReportContent:
    """Return a report with another measurement in the place of the one that it shows.

    The file that was measured on at the fit stays among the files, because the alternatives rest on it.
    """
    files = [file for file in content.provenance.get("files", ()) if file["role"] != MEASURED]
    digest = hash_file(path)
    if not any(file["role"] == TEST and file.get("sha256") == digest for file in files):
        files.append({"role": MEASURED, "name": path.name, "rows": measured["n"], "sha256": digest})
    return replace(content, evaluation=measured, provenance={**content.provenance, "files": files})


def positive_id(grid: SourceGrid, name: str | None) -> int:
    """Return the id of the class that rates speak of: the named one, or the second."""
    if name is None:
        return 1
    known = [str(known) for known in grid.classes]
    if name.strip() not in known:
        raise ConfigError(f"there is no class {name!r} for --positive: the classes are {', '.join(known)}.")
    return known.index(name.strip())


def measure(probabilities: NDArray[np.float64], labels: Labels, positive: int = 1) -> tuple[Evaluation, dict[str, Any]]:
    """Measure predictions of labelled rows; the second result has the calibration too, ready for JSON."""
    grid = labels.grid
    found = evaluate(labels.y, probabilities.argmax(axis=1), labels.s, grid, positive=positive)
    calibration = calibration_of(labels.y, probabilities, labels.s, [str(name) for name in grid.subgroups])
    return found, {**found.to_json(), "calibration": calibration}


def config_to_toml(config: Config) -> str:
    """Write a configuration; what is None is left out, as TOML has no word for it."""
    return tomli_w.dumps(config.model_dump(mode="json", exclude_none=True))


class _WatchedFit(WatchedClassifier):
    """Support-matching that remembers z of some rows of both sets."""

    def _choose_rows(self) -> dict[str, Rows]:
        rng = stream(self.seed_, "shown rows")
        sets: dict[str, Rows] = {"train": self.train, "deploy": self.deploy}
        self.chosen = {
            name: np.sort(rng.choice(len(rows), min(len(rows), _SHOWN_CODES), replace=False))
            for name, rows in sets.items()
        }
        return {name: Rows(rows.x[self.chosen[name]], rows.layout) for name, rows in sets.items()}


def _features(request: FitRequest, pair: TablePair, audit: TableAudit) -> tuple[Features, Features]:
    """Return training and deployment rows as the estimator takes them."""
    assert pair.deploy is not None
    tables = ((pair.train, str(request.source.train)), (pair.deploy, str(request.source.deploy)))
    train, deploy = (read_features(table, where, audit.plan, request) for table, where in tables)
    return train, deploy


def read_features(table: pa.Table, where: str, plan: ColumnPlan | None, request: FitRequest) -> Features:
    """Return the rows of a table, or the pictures it names."""
    if plan is not None:
        return to_frame(plan.select(table, where))
    assert request.images is not None
    assert request.source.file_column is not None
    paths = picture_paths(table, request.source.file_column, request.images)
    with progress_bar("pictures", enabled=request.progress) as report:
        return open_images(paths, side=request.side, report=report)


def picture_paths(table: pa.Table, column: str, folder: Path) -> list[Path]:
    """Return the files that a column names, which must not lie outside of the folder."""
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {folder} with the pictures: check --images.")
    names = table[column].cast(pa.string()).to_pylist()
    root = folder.resolve()
    paths = []
    for name in names:
        if not name:
            raise ConfigError(f"column {column} has rows without a file name: fill them in, or drop the rows.")
        if "\0" in name:
            raise ConfigError(f"{name!r} in column {column} is no file name: correct it.")
        path = (root / name).resolve()
        if not path.is_relative_to(root):
            raise ConfigError(f"{name!r} in column {column} leads out of {folder}: use paths within the folder.")
        paths.append(path)
    return paths


def to_frame(table: pa.Table) -> pd.DataFrame:
    """Return a table of floats and text for the estimator."""
    frame: pd.DataFrame = table.to_pandas(strings_to_categorical=False)
    return frame


def _read_test(request: FitRequest, pair: TablePair, audit: TableAudit) -> tuple[Features, Labels]:
    assert request.test is not None
    where = str(request.test)
    table = open_table(request.test, request.source.missing_marks).read()
    labels = read_labels(table, request.source.roles, where, grid=pair.labels.grid)
    return read_features(take_rows(table, labels.rows), where, audit.plan, request), labels


def _resolve(request: FitRequest, labels: Labels) -> Config:
    images = request.source.file_column is not None
    config = (
        preset(request.preset)
        if request.preset is not None
        else default_config(images=images, n_sources=labels.grid.n_sources)
    )
    if not images:
        table = TableConfig(
            missing="own-category",
            unknown="ignore",
            max_categories=MANY_CATEGORIES,
            text="as-in-files",
            missing_marks=request.source.missing_marks,
        )
        config = config.model_copy(update={"table": table})
    if request.settings is not None:
        config = read_config(request.settings, config)
    if request.missing is not None:
        table = TableConfig.model_validate({**config.table.model_dump(), "missing": request.missing})
        config = config.model_copy(update={"table": table})
    return config


def _alternatives(model: _WatchedFit, test: tuple[Features, Labels], report: Report) -> tuple[dict[str, Any], ...]:
    """Measure the simple things that a careful user would try, beside the model and on the rows that it saw."""
    rows, labels = test
    seed, clustering = model.seed_, model.config_.clustering
    rivals: list[tuple[str, str, Baseline]] = [
        ("ordinary classifier", "a network trained on the labelled rows", ErmClassifier(random_state=seed)),
        (
            "complete support",
            "logistic regression on the subgroups that have every class",
            CompleteSupportClassifier(),
        ),
        (
            "pseudo-labels",
            "an ordinary classifier of the deployment rows, whose classes and subgroups other classifiers guessed",
            PseudoLabelClassifier(random_state=seed),
        ),
        (
            "cluster labels",
            "an ordinary classifier of both sets, with deployment rows labelled by their clusters",
            ClusterLabelClassifier(random_state=seed, clustering=clustering),
        ),
    ]
    if not model.train.is_images:
        boosted = PseudoLabelClassifier(random_state=seed, model="boosted")
        rivals.append(("pseudo-labels, boosted", "the same with gradient-boosted trees", boosted))
    own = _scores(model.predict(rows), labels)
    found = [{"name": "support-matching", "what": "the model in this folder", **own, "chosen": True}]
    if model.final_ is not None:
        by_z = np.array(model.grid_.classes)[model.judge_by_z(rows).argmax(axis=1)]
        found.append(
            {
                "name": "z alone",
                "what": "the classifier on z of training rows",
                **_scores(by_z, labels),
                "chosen": False,
            }
        )
    n_values = model.train.x.size + model.deploy.x.size
    for done, (name, what, rival) in enumerate(rivals, start=1):
        note = ""
        try:
            if n_values > _MOST_VALUES and isinstance(rival, CompleteSupportClassifier | ClusterLabelClassifier):
                raise ConfigError("it holds all rows in memory at once, and these are too many.")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SupportMatchWarning)
                rival.fit_rows(model.reader_, model.train, model.deploy)
            scores = _scores(rival.predict(rows), labels)
        except SupportMatchError as error:
            note, scores = f"; not possible here: {error}", {"robust_accuracy": None, "accuracy": None}
        found.append({"name": name, "what": what + note, **scores, "chosen": False})
        report(done, len(rivals))
    return tuple(found)


def _scores(predicted: NDArray[Any], labels: Labels) -> dict[str, float | None]:
    result = evaluate(labels.y, labels.grid.class_ids(predicted), labels.s, labels.grid, n_bootstrap=0)
    return {"robust_accuracy": result.robust_accuracy, "accuracy": result.accuracy}


def _content(
    request: FitRequest,
    pair: TablePair,
    audit: TableAudit,
    model: _WatchedFit,
    said: Sequence[str],
    measured: dict[str, Any] | None,
    alternatives: Sequence[dict[str, Any]],
    stages: Sequence[tuple[str, float]],
) -> ReportContent:
    """Gather what the report shows."""
    grid, history = pair.labels.grid, model.history_.rows
    clusters = None
    if hasattr(model, "clusters_"):
        found = model.clusters_
        clusters = {"method": found.method, "names": _cluster_names(model), "sizes": found.sizes.tolist()}
        if model.final_ is not None:
            clusters["final"] = _say_final(model)
    images = request.source.file_column is not None
    bags = model.deploy_bags_.draw(0)[:_SHOWN_BAGS]
    reconstructions = attention = attended = None
    if images and request.show_examples:
        which = np.arange(min(_SHOWN_IMAGES, len(model.train)))
        reconstructions = {
            "train": reconstruct(model.encoder_, model.train, which),
            "deploy": reconstruct(model.encoder_, model.deploy, bags[0][:_SHOWN_IMAGES]),
        }
        weights = attention_of(model.discriminator, model.encoder_, model.deploy, bags)
        if weights is not None:
            pictures = as_bytes(read_rows(model.deploy, bags.reshape(-1)), model.deploy)
            attention = {"images": pictures.reshape(*bags.shape, *pictures.shape[1:]), "weights": weights}
    if not images and request.show_examples:
        attended = _most_attended(model, pair, audit)
    return ReportContent(
        title=f"{request.source.roles.label} by {', '.join(request.source.roles.subgroup)}",
        kind="images" if images else "table",
        audit=audit.sources.to_json(),
        columns=tuple(asdict(column) for column in audit.plan.columns) if audit.plan else (),
        findings=audit.findings,
        warnings=tuple(said),
        config=model.config_.model_dump(mode="json"),
        stages=tuple(stages),
        history=tuple(history),
        clusters=clusters,
        codes=_codes(model, grid),
        reconstructions=reconstructions,
        attention=attention,
        attended_rows=attended,
        evaluation=measured,
        alternatives=tuple(alternatives),
        provenance={
            "command": request.command,
            "seed": request.seed,
            "prepared": PREPARED.format(side=request.side) if images else None,
            "versions": {name: version(name) for name in ("supportmatch", "torch", "numpy", "scikit-learn", "pyarrow")},
            "files": [
                {"role": role, "name": path.name, "rows": rows, "sha256": hash_file(path)}
                for role, path, rows in (
                    ("training", request.source.train, pair.train.num_rows),
                    ("deployment", request.source.deploy, 0 if pair.deploy is None else pair.deploy.num_rows),
                    (TEST, request.test, None if measured is None else measured["n"]),
                )
                if path is not None
            ],
            "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        },
    )


def _say_final(model: _WatchedFit) -> str:
    """Say what predicts in the end, and what it learned from."""
    corroborated = model.agreement_ >= MOSTLY_SAME
    return (
        "A network of the features themselves has the last word. It learned from labelled rows and from deployment "
        "rows, every source equally often; deployment rows were given the classes of their clusters"
        + (", and left out where z says another" if corroborated else "")
        + f" (for {model.agreement_:.1%} of deployment rows both say the same class"
        + (", though z has learned from the same names)." if model.config_.matching.guided_steps else ").")
    )


def _codes(model: _WatchedFit, grid: Any) -> dict[str, Any] | None:
    """Return z of some rows in the plane, early and late, by principal components."""
    if not model.early:
        return None  # there was no early step
    late = {name: transform_rows(model.encoder_, rows) for name, rows in model.shown.items()}
    sources = model.train.source_ids[model.chosen["train"]]
    names = [f"training {grid.source_name(k)}" for k in range(grid.n_sources)]
    group, sources_of_names = [*sources], [*range(grid.n_sources)]
    if hasattr(model, "clusters_"):
        found = model.clusters_
        names += [f"deployment {name}" for name in _cluster_names(model)]
        places = np.searchsorted(found.cluster_ids, found.ids[model.chosen["deploy"]])
        group += (grid.n_sources + places).tolist()
        seen = model.train.support.seen_sources
        sources_of_names += [int(k) if k in seen else -1 for k in found.cluster_ids]
    else:
        sources_of_names.append(-1)
        names.append("deployment")
        group += [grid.n_sources] * len(model.chosen["deploy"])
    sizes = [len(model.chosen[name]) for name in ("train", "deploy")]
    return {
        "before": _plane(np.concatenate([model.early["train"], model.early["deploy"]])),
        "after": _plane(np.concatenate([late["train"], late["deploy"]])),
        "set": np.repeat(np.array([0, 1], np.int8), sizes),
        "group": np.array(group, np.int64),
        "names": names,
        "sources": sources_of_names,
        "of_deployment": [i >= grid.n_sources for i in range(len(names))],
        "method": "PCA",
        "early_step": model.early_step,
    }


def _cluster_names(model: _WatchedFit) -> list[str]:
    """Name clusters by the seen source they are tied to, or by a number."""
    grid, seen = model.train.grid, model.train.support.seen_sources
    return [grid.source_name(k) if k in seen else f"unseen cluster {k}" for k in model.clusters_.cluster_ids]


def _plane(z: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the first two principal components, with signs that do not depend on the linear algebra library."""
    centred = z - z.mean(axis=0)
    _, _, directions = np.linalg.svd(centred.astype(np.float64), full_matrices=False)
    first = directions[:2]
    first = first * np.sign(first[np.arange(len(first)), np.abs(first).argmax(axis=1)])[:, None]
    plane = centred @ first.T
    if plane.shape[1] < 2:
        plane = np.hstack([plane, np.zeros((len(plane), 2 - plane.shape[1]))])
    return np.asarray(plane, dtype=np.float32)


def _most_attended(model: _WatchedFit, pair: TablePair, audit: TableAudit) -> dict[str, Any] | None:
    """Return the deployment rows that the discriminator weighs most, averaged over the bags they are in."""
    assert pair.deploy is not None
    assert audit.plan is not None
    bags = np.concatenate([model.deploy_bags_.draw(step) for step in range(_WEIGHED_BAGS)])
    weights = attention_of(model.discriminator, model.encoder_, model.deploy, bags)
    if weights is None:
        return None
    rows, where = np.unique(bags, return_inverse=True)
    mean = np.bincount(where.reshape(-1), weights.reshape(-1)) / np.bincount(where.reshape(-1))
    order = np.argsort(-mean, kind="stable")[:_SHOWN_ROWS]
    features = pair.deploy.select([column.name for column in audit.plan.features])
    table = audit.plan.select(features.take(pa.array(rows[order])), "deployment")
    return {
        "columns": list(table.column_names),
        "rows": [[_as_text(value) for value in row.values()] for row in table.to_pylist()],
        "weights": [float(weight) for weight in mean[order]],
    }


def _as_text(value: Any) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _fingerprint(request: FitRequest, config: Config, train: Features, deploy: Features, labels: Labels) -> str:
    """Tell configuration, seed, version and data of a fit from any other."""
    digest = hashlib.sha256(f"{version('supportmatch')} {request.seed} {config.model_dump_json()}".encode())
    digest.update(json.dumps([labels.grid.classes, labels.grid.subgroups]).encode())
    for ids in (labels.y, labels.s):
        digest.update(ids.tobytes())
    for rows in (train, deploy):
        if isinstance(rows, pd.DataFrame):
            digest.update(pd.util.hash_pandas_object(rows, index=False).to_numpy().tobytes())
            digest.update(json.dumps(list(rows.columns)).encode())
        else:
            digest.update(f"{rows.shape} {getattr(rows, 'filename', '')}".encode())  # its name changes with the files
    return digest.hexdigest()[:32]


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def _stopped_by_signals(snapshots: Snapshots, ranks: Ranks) -> Iterator[None]:
    """Let SIGINT and SIGTERM end the fit after a step, with a snapshot; a second one ends at once.

    Of several processes each hears of the end twice, from the terminal and from `torchrun`, which is no impatience.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        if ranks.size > 1:
            pass
        elif not snapshots.stop_requested:
            os.write(2, b"\nStopping at the next step; once more to stop at once.\n")
        else:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        snapshots.stop_requested = True

    try:
        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread, which alone hears signals
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
