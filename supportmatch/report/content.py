"""Everything that a report tells of one model, as plain values and arrays; made once, shown as often as one likes.

It loads neither torch nor matplotlib, and is kept beside the model as `report.json` and `report.safetensors`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from supportmatch.audit import SourceAudit
from supportmatch.errors import ModelFileError
from supportmatch.output import write_atomically

SCHEMA = 1
VALUES, ARRAYS = "report.json", "report.safetensors"
TEST, MEASURED = "test", "measured"
"""Roles of files: measured on at the fit, as the alternatives were, and measured on later."""
MOST_ROWS = 500
"""Rows of history that are kept; more are averaged in blocks."""

Values = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class ReportContent:
    """What the page and the card show. Parts that a fit does not have are None or empty."""

    title: str
    kind: Literal["table", "images"]
    audit: Values
    """What `SourceAudit.to_json` returned."""
    columns: tuple[Values, ...]
    """Each `data.columns.Column` as a dict; empty for images."""
    findings: tuple[str, ...]
    """What else the audit of the files found worth a look."""
    warnings: tuple[str, ...]
    """What was warned about while fitting."""
    config: Values
    """The resolved configuration."""
    stages: tuple[tuple[str, float], ...]
    """Name and seconds of each stage."""
    history: tuple[dict[str, float], ...]
    """Rows of `history.jsonl`; thinned to `MOST_ROWS` when there are more."""
    clusters: Values | None
    """`method`, `names` and `sizes` of the clusters of the deployment set."""
    codes: Values | None
    """z of some rows in the plane: `before` and `after` (n, 2), `set` (0 training, 1 deployment), `group` (an index of
    `names`; negative where it is not known), `names`, and the `method` of projection. Beside `names` stand `sources`,
    the source that a group is or is tied to (-1 for none), and `of_deployment`. If `before` is not the very
    beginning, `early_step` says after how many steps it was."""
    reconstructions: Values | None
    """For `train` and `deploy`: byte images (n, C, H, W) named `original`, `full`, `side_zeroed`, `z_zeroed`."""
    attention: Values | None
    """Byte `images` of deployment bags (bags, size, C, H, W) and the discriminator's `weights` (bags, size)."""
    attended_rows: Values | None
    """`columns`, `rows` and `weights` of the deployment rows that the discriminator attended to most."""
    evaluation: Values | None
    """What `Evaluation.to_json` returned, perhaps with `calibration`; of the file `measured` if there is one, else of
    `test`."""
    alternatives: tuple[Values, ...]
    """`name`, `what`, `robust_accuracy`, `accuracy` and `chosen` of what was compared, on the file `test`."""
    provenance: Values
    """`command`, `seed`, `versions`, `files` (role, name, rows, sha256), `date`, and how pictures were `prepared`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "history", thin_history(self.history))

    def save(self, folder: str | Path) -> None:
        """Write both files to a folder; files that are there are replaced."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        arrays: Arrays = {}
        values = {field.name: _take_arrays(getattr(self, field.name), field.name, arrays) for field in fields(self)}
        shapes = {name: list(array.shape) for name, array in arrays.items()}
        text = json.dumps({"schema": SCHEMA, "arrays": shapes, **values}, indent=1, default=_plain)
        write_atomically(folder / ARRAYS, save(arrays))
        write_atomically(folder / VALUES, text.encode())

    @classmethod
    def load(cls, folder: str | Path) -> ReportContent:
        """Read what `save` wrote."""
        folder = Path(folder)
        if lacking := [name for name in (VALUES, ARRAYS) if not (folder / name).is_file()]:
            raise ModelFileError(f"{folder} holds no report, it lacks {' and '.join(lacking)}: check the path.")
        try:
            values = json.loads((folder / VALUES).read_text(encoding="utf-8"))
            arrays = load((folder / ARRAYS).read_bytes())
            return cls._of_files(values, arrays)
        # A damaged file can be wrong in every way that reading it presumes it is not.
        except (SafetensorError, AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
            raise ModelFileError(
                f"the report in {folder} is damaged or of another version ({error}): restore {VALUES} and {ARRAYS}, or "
                "fit again."
            ) from error

    @classmethod
    def _of_files(cls, values: Values, arrays: Arrays) -> ReportContent:
        if values["schema"] != SCHEMA:
            raise ValueError(f"schema {values['schema']!r}, but this version reads {SCHEMA}")
        shapes = {name: list(array.shape) for name, array in arrays.items()}
        if shapes != values["arrays"]:
            raise ValueError("its two files do not belong together")
        for name, array in arrays.items():
            *path, last = name.split(".")
            place = values
            for part in path:
                place = place[part]
            place[last] = array
        SourceAudit.from_json(values["audit"])
        for name in ("columns", "findings", "warnings", "history", "alternatives"):
            values[name] = tuple(values[name])
        values["stages"] = tuple((str(name), float(seconds)) for name, seconds in values["stages"])
        return cls(**{field.name: values[field.name] for field in fields(cls)})


def thin_history(rows: Sequence[Mapping[str, float]], most: int = MOST_ROWS) -> tuple[dict[str, float], ...]:
    """Average consecutive rows in blocks, so that at most so many are left.

    Averages, not picks: the discriminator's accuracy in single steps is mostly chance.

    >>> thin_history([{"step": 0, "total": 4.0}, {"step": 1, "total": 2.0}, {"step": 2, "total": 1.0}], most=2)
    ({'step': 0.5, 'total': 3.0}, {'step': 2, 'total': 1.0})
    """
    block = -(-len(rows) // most)
    if block <= 1:
        return tuple(dict(row) for row in rows)
    return tuple(_average(rows[start : start + block]) for start in range(0, len(rows), block))


def _average(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    if len(rows) == 1:
        return dict(rows[0])
    names = dict.fromkeys(name for row in rows for name, value in row.items() if value is not None)
    return {name: float(np.mean([row[name] for row in rows if row.get(name) is not None])) for name in names}


def _take_arrays(value: Any, name: str, arrays: Arrays) -> Any:
    """Return the value without the arrays in it, which go to `arrays` under their dotted names."""
    if not isinstance(value, dict):
        return value
    kept = {}
    for key, part in value.items():
        if isinstance(part, np.ndarray):
            arrays[f"{name}.{key}"] = np.ascontiguousarray(part)
        else:
            kept[key] = _take_arrays(part, f"{name}.{key}", arrays)
    return kept


def _plain(value: object) -> object:
    """Return NumPy's numbers as Python's."""
    if isinstance(value, np.generic):
        return cast(object, value.item())
    raise TypeError(f"a report holds plain values and arrays, but got {type(value).__name__}.")
