"""Predictions for whole files, piece by piece: class and probability columns beside the columns that were there."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from supportmatch.checkpoint import load_model
from supportmatch.data.columns import read_labels
from supportmatch.data.files import TableFile, open_table, take_rows
from supportmatch.data.images import decode_all
from supportmatch.data.tables import OTHER
from supportmatch.errors import ConfigError, SupportMatchWarning, TableFileError
from supportmatch.estimator import SupportMatchingClassifier
from supportmatch.fitting import FitRecord, measure, picture_paths, positive_id, to_frame
from supportmatch.metrics import Evaluation
from supportmatch.output import new_file
from supportmatch.progress import Report, silent

_COMPRESSED = (".bz2", ".gz", ".xz", ".zip", ".zst")
_PICTURES = 256  # decoded at a time


@dataclass(frozen=True)
class LoadedFolder:
    """A model folder that `fit` wrote."""

    model: SupportMatchingClassifier
    record: FitRecord
    unknown: Counter[str] = field(default_factory=Counter)
    """By categorical column, rows seen so far whose value neither set had at the fit; "" counts all rows."""

    @classmethod
    def load(cls, folder: str | Path) -> LoadedFolder:
        """Read a model folder."""
        record = FitRecord.load(Path(folder))
        return cls(load_model(folder), record)

    @property
    def new_columns(self) -> tuple[str, ...]:
        """Names of the columns that predictions add: the class, and the probability of each."""
        label = self.record.label
        return (f"predicted {label}", *(f"probability of {name}" for name in self.model.grid_.classes))

    def open(self, path: str | Path, *, allow_new: bool = False, add_columns: bool = True) -> TableFile:
        """Open a file of rows to predict, or say which of its columns do not fit.

        Args:
            path: The file.
            allow_new: Whether it may have columns that no file had at the fit.
            add_columns: Whether predictions will be added, so that their columns must not be there yet.
        """
        file = open_table(path, self.record.missing_marks)
        needed = (
            (self.record.file_column,)
            if self.record.file_column is not None
            else tuple(column.name for column in self.record.plan.features)
        )
        lacking = [name for name in needed if name not in file.names]
        new = [name for name in file.names if name not in self.record.known_columns]
        if lacking:
            them = _them(lacking)
            raise TableFileError(
                f"{path} lacks the column{'s' * (len(lacking) > 1)} {', '.join(lacking)}, which the model reads (it "
                f"has {', '.join(file.names[:20])}): add {them}, or fit again without {them}."
            )
        taken = [name for name in self.new_columns if name in file.names]
        if taken and add_columns:
            raise TableFileError(
                f"{path} already has the column{'s' * (len(taken) > 1)} {', '.join(taken)}: rename or drop "
                f"{_them(taken)}."
            )
        if new and not allow_new:
            raise TableFileError(
                f"{path} has the column{'s' * (len(new) > 1)} {', '.join(new)}, which neither file had when the model "
                f"was fitted: drop {_them(new)}, or pass --allow-new-columns to carry {_them(new)} along unused."
            )
        return file

    def probabilities(self, piece: pa.Table, where: str, images: Path | None = None) -> NDArray[np.float64]:
        """Return the class probabilities of some rows of a file."""
        if self.record.file_column is None:
            features = self.record.plan.select(piece, where)
            self._count_unknown(features)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SupportMatchWarning)  # said once for the whole file
                return self.model.predict_proba(to_frame(features))
        if images is None:
            raise ConfigError("the model reads pictures: pass --images with the folder that they are in.")
        paths = picture_paths(piece, self.record.file_column, images)
        parts = []
        for start in range(0, len(paths), _PICTURES):
            chosen = paths[start : start + _PICTURES]
            parts.append(self.model.predict_proba(np.stack(list(decode_all(chosen, self.record.side)))))
        return np.concatenate(parts)

    def warn_of_unknown(self, where: Path) -> None:
        """Warn once for each column with values that are unknown to the model, and start counting anew."""
        n_rows = self.unknown.pop("", 0)
        for name, n in sorted(self.unknown.items()):
            warnings.warn(
                f"in {n} of {n_rows} rows of {where} column {name} holds a value that no row had at the fit, so it "
                "tells the model nothing there: is it written differently?",
                SupportMatchWarning,
                stacklevel=3,
            )
        self.unknown.clear()

    def _count_unknown(self, features: pa.Table) -> None:
        self.unknown[""] += features.num_rows
        encoder = self.model.reader_.table_encoder
        assert encoder is not None
        for column in encoder.categorical:
            if OTHER not in column.categories:
                values = features[str(column.name)].drop_null()
                known = pc.is_in(values, value_set=pa.array(column.categories, pa.string()))
                n_unknown = len(values) - (pc.sum(known).as_py() or 0)
                if n_unknown:
                    self.unknown[str(column.name)] += n_unknown


def predict_file(
    folder: LoadedFolder,
    path: str | Path,
    out: str | Path,
    *,
    images: Path | None = None,
    allow_new: bool = False,
    overwrite: bool = False,
    report: Report = silent,
) -> int:
    """Write a file's rows with predictions to another file (Parquet if so named, else CSV); return how many.

    The file is complete or absent, and memory does not grow with it. Other columns are carried along as they are.
    """
    source, target = Path(path), Path(out).resolve()
    if target.exists() and not overwrite:
        raise ConfigError(f"{target} exists and is not overwritten: choose another name or pass --overwrite.")
    if target.exists() and not target.is_file():
        raise ConfigError(f"{target} is not a regular file and is not replaced: choose another name.")
    if target == source.resolve():
        raise ConfigError(f"{target} is the file that is read and is not replaced: choose another name.")
    if target.suffix in _COMPRESSED:
        raise ConfigError(f"{target.name} names a compressed file, but CSV is written plain: call it .csv or .parquet.")
    file = folder.open(source, allow_new=allow_new)
    n_rows = 0
    with new_file(target) as draft:
        as_parquet = target.suffix == ".parquet"
        for n in _write(_with_predictions(folder, file, images, as_parquet=as_parquet), draft, as_parquet):
            n_rows += n
            report(n_rows, 0)
        if not n_rows:
            raise TableFileError(f"{source} has a header but no rows: check how it was written.")
    folder.warn_of_unknown(source)
    return n_rows


def evaluate_file(
    folder: LoadedFolder, path: str | Path, *, images: Path | None = None, positive: str | None = None
) -> tuple[Evaluation, dict[str, Any], int]:
    """Measure a model on a file with labels; the last result counts rows that lack a label or subgroup.

    Args:
        folder: The model.
        path: The file.
        images: Folder of the pictures that it names.
        positive: The class that rates such as TPR speak of; None: the second.
    """
    chosen = positive_id(folder.model.grid_, positive)
    file = folder.open(path, allow_new=True, add_columns=False)
    folder.record.roles.check(file.names, str(path))
    table = file.read()
    labels = read_labels(table, folder.record.roles, str(path), grid=folder.model.grid_)
    rows = take_rows(table, labels.rows)
    probabilities = folder.probabilities(rows, str(path), images)
    folder.warn_of_unknown(Path(path))
    return (*measure(probabilities, labels, chosen), labels.n_without)


def _them(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"


def _with_predictions(
    folder: LoadedFolder, file: TableFile, images: Path | None, *, as_parquet: bool
) -> Iterator[pa.Table]:
    if any(pa.types.is_nested(kind) for kind in _kinds(file)) and not as_parquet:
        raise TableFileError(f"{file.path} has nested columns, which a CSV cannot hold: write to a .parquet file.")
    classes = pa.array([str(name) for name in folder.model.grid_.classes])
    label, *names = folder.new_columns
    for raw in file.pieces(raw=True):
        probabilities = folder.probabilities(file.trim(raw), str(file.path), images)
        found = raw.append_column(label, classes.take(pa.array(probabilities.argmax(axis=1))))
        for j, name in enumerate(names):
            found = found.append_column(name, pa.array(probabilities[:, j].round(6)))
        yield found


def _kinds(file: TableFile) -> list[pa.DataType]:
    return [] if file.delimiter is not None else list(pa.parquet.read_schema(file.path).types)


def _write(pieces: Iterable[pa.Table], draft: Path, as_parquet: bool) -> Iterator[int]:
    writer: Any = None
    try:
        for piece in pieces:
            if writer is None:
                writer = (
                    pa.parquet.ParquetWriter(draft, piece.schema)
                    if as_parquet
                    else pa.csv.CSVWriter(
                        draft, piece.schema, write_options=pa.csv.WriteOptions(quoting_style="needed")
                    )
                )
            writer.write_table(piece)
            yield piece.num_rows
    finally:
        if writer is not None:
            writer.close()
