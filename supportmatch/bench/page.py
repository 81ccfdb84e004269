"""The results of a folder of runs as one page that loads nothing."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from supportmatch.bench.compare import (
    ORACLE_NOTE,
    clustering_of,
    compare_with_authors,
    leave_out_other_configurations,
)
from supportmatch.bench.figures import Illustration, figure_boxes, figure_clusters
from supportmatch.bench.store import Row, Store
from supportmatch.data.problems import SETTINGS
from supportmatch.errors import ConfigError
from supportmatch.output import write_atomically

PAGE = "report.html"


def write_bench_page(folder: Path) -> Path:
    """Write the page of a folder of results into it and return its path."""
    rows, note = leave_out_other_configurations(Store(folder).rows())
    if not rows:
        raise ConfigError(f"there are no results in {folder}: make some with `supportmatch bench run`.")
    path = folder / PAGE
    write_atomically(path, render_bench_page(rows, note).encode())
    return path


def render_bench_page(rows: Sequence[Row], note: str = "") -> str:
    """Return the page: for each setting the table beside the authors' figures, box plots and clusters."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    source = files("supportmatch.bench").joinpath("page.html.j2").read_text(encoding="utf-8")
    names = [name for name in SETTINGS if any(row["setting"] == name for row in rows)]
    return environment.from_string(source).render(
        settings=[_describe(name, [row for row in rows if row["setting"] == name]) for name in names],
        n_rows=len(rows),
        oracle_note=ORACLE_NOTE,
        note=note,
    )


def _describe(setting: str, rows: Sequence[Row]) -> dict[str, Any]:
    (head, *lines), remarks = compare_with_authors(rows, every=True).numbered()
    illustrations = [figure_boxes(rows, setting)]
    if any(clustering_of(row) for row in rows):
        illustrations.append(figure_clusters(rows, setting))
    return {
        "name": setting,
        "summary": SETTINGS[setting].summary,
        "head": head[1:],
        "rows": [line[1:] for line in lines],
        "remarks": remarks,
        "pictures": [{"alt": one.alt, "data": _as_base64(one)} for one in illustrations],
    }


def _as_base64(illustration: Illustration) -> str:
    buffer = io.BytesIO()
    illustration.figure.savefig(buffer, format="png", dpi=90, metadata={"Software": None})
    return base64.b64encode(buffer.getvalue()).decode()
