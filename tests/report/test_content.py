"""What a report knows comes back from disk as it was, or one sentence says why not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from supportmatch.audit import audit_counts
from supportmatch.config import default_config
from supportmatch.data.columns import Column
from supportmatch.errors import ModelFileError
from supportmatch.metrics import evaluate
from supportmatch.report.content import ARRAYS, MOST_ROWS, VALUES, ReportContent, thin_history
from supportmatch.sources import SourceGrid

GRID = SourceGrid(classes=("two", "four"), subgroups=("purple", "green"))


def make_content(kind: str = "images", grid: SourceGrid = GRID, **changes: Any) -> ReportContent:
    """Return a report of a made-up fit; the last class lacks the first subgroup. Other tests use it, too."""
    rng = np.random.default_rng(0)
    counts = rng.integers(300, 900, (grid.n_classes, grid.n_subgroups))
    counts[-1, 0] = 0
    y, s = rng.integers(0, grid.n_classes, 800), rng.integers(0, grid.n_subgroups, 800)
    evaluation = evaluate(y, np.where(rng.random(800) < 0.95, y, 0), s, grid, n_bootstrap=50).to_json()
    bins = [{"confidence": c, "accuracy": c - 0.05, "n": 100} for c in (0.55, 0.75, 0.95)]
    subgroups = {str(name): 0.04 for name in grid.subgroups}
    sources = [grid.source_name(i) for i in range(grid.n_sources)]
    images = kind == "images"

    def pictures(*shape: int) -> Any:
        return rng.integers(0, 256, (*shape, 3, 8, 8), dtype=np.uint8)

    panels = ("original", "full", "side_zeroed", "z_zeroed")
    weights = rng.dirichlet(np.ones(16), 2)
    values: dict[str, Any] = {
        "title": "Twos and fours in two colours",
        "kind": kind,
        "audit": audit_counts(counts, grid, 4_000).to_json(),
        "columns": () if images else (asdict(Column("age", "numeric", "", 70, 0.01)), asdict(Column("id", "dropped"))),
        "findings": ("Column age is distributed very differently in the two files.",),
        "warnings": ("1 of 4 clusters has fewer than 20 rows.",),
        "config": default_config(images=images, n_sources=grid.n_sources).model_dump(mode="json"),
        "stages": (("reading", 0.4), ("clustering", 12.5), ("matching", 95.0), ("classifier", 3.2)),
        "history": tuple(
            {"step": i, "reconstruction": 1 / (i + 1), "class": 2 / (i + 1), "discriminator_accuracy": 0.6}
            for i in range(60)
        ),
        "clusters": {"method": "mixture", "names": sources, "sizes": [1_000] * len(sources)},
        "codes": {
            "before": rng.normal(size=(60, 2)).astype(np.float32),
            "after": rng.normal(size=(60, 2)).astype(np.float32),
            "set": np.repeat([0, 1], 30).astype(np.int8),
            "group": rng.integers(-1, len(sources), 60),
            "names": sources,
            "sources": [*range(len(sources) - 1), -1],
            "of_deployment": [i % 2 == 1 for i in range(len(sources))],
            "method": "PCA",
        },
        "reconstructions": {s: {p: pictures(4) for p in panels} for s in ("train", "deploy")} if images else None,
        "attention": {"images": pictures(2, 16), "weights": weights} if images else None,
        "attended_rows": None if images else {"columns": ["age"], "rows": [["39"], ["52"]], "weights": [0.2, 0.1]},
        "evaluation": {**evaluation, "calibration": {"ece": 0.05, "bins": bins, "by_subgroup": subgroups}},
        "alternatives": (
            {"name": "matching", "what": "this model", "robust_accuracy": 0.93, "accuracy": 0.95, "chosen": True},
            {"name": "erm", "what": "ordinary", "robust_accuracy": 0.51, "accuracy": 0.75, "chosen": False},
        ),
        "provenance": {
            "command": "supportmatch fit train.csv --label digit --subgroup colour --deploy deploy.csv --out model",
            "seed": 0,
            "versions": {"supportmatch": "0.2.0", "torch": "2.13.0"},
            "files": [{"role": "training", "name": "train.csv", "rows": 1_500, "sha256": "ab" * 32}],
            "date": "2026-11-20",
        },
    }
    return ReportContent(**{**values, **changes})


def assert_same(one: Any, other: Any) -> None:
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    else:
        assert one == other
        assert type(one) is type(other)


@pytest.mark.parametrize("kind", ["images", "table"])
def test_what_was_saved_is_loaded_field_by_field(kind: str, tmp_path: Path) -> None:
    content = make_content(kind)
    content.save(tmp_path)
    loaded = ReportContent.load(tmp_path)
    for field in fields(ReportContent):
        assert_same(getattr(content, field.name), getattr(loaded, field.name))


def test_a_report_of_which_most_parts_are_lacking_comes_back_too(tmp_path: Path) -> None:
    lacking = dict.fromkeys(("clusters", "codes", "reconstructions", "attention", "evaluation"))
    content = make_content(**lacking, history=(), stages=(), alternatives=(), config={}, provenance={})
    content.save(tmp_path)
    loaded = ReportContent.load(tmp_path)
    for field in fields(ReportContent):
        assert_same(getattr(content, field.name), getattr(loaded, field.name))


def test_a_second_save_replaces_the_first(tmp_path: Path) -> None:
    make_content().save(tmp_path)
    make_content("table", title="another").save(tmp_path)
    assert ReportContent.load(tmp_path).title == "another"
    assert sorted(path.name for path in tmp_path.iterdir()) == [VALUES, ARRAYS]


def test_numbers_of_numpy_and_views_of_arrays_can_be_saved(tmp_path: Path) -> None:
    codes = make_content().codes
    assert codes is not None
    turned = {**codes, "before": codes["before"][::-1].T.T}
    make_content(codes=turned, stages=(("reading", np.float64(0.5)),), config={"n": np.int64(3)}).save(tmp_path)
    loaded = ReportContent.load(tmp_path)
    assert loaded.codes is not None
    np.testing.assert_array_equal(loaded.codes["before"], turned["before"])
    assert loaded.stages == (("reading", 0.5),)
    assert loaded.config == {"n": 3}


def test_a_long_history_is_averaged_so_that_at_most_500_rows_are_left() -> None:
    content = make_content(history=tuple({"step": i, "discriminator_accuracy": float(i % 2)} for i in range(12_345)))
    assert MOST_ROWS / 2 < len(content.history) <= MOST_ROWS
    assert all(row["discriminator_accuracy"] == pytest.approx(0.5, abs=0.03) for row in content.history)
    steps = [row["step"] for row in content.history]
    assert steps == sorted(steps)
    assert 0 <= steps[0] < steps[-1] <= 12_344


def test_a_short_history_is_kept_as_it_is() -> None:
    rows = [{"step": i, "total": float(i)} for i in range(MOST_ROWS)]
    assert list(thin_history(rows)) == rows


def test_rows_without_a_quantity_do_not_count_in_its_average() -> None:
    thinned = thin_history([{"step": 0, "class": 4.0}, {"step": 1}, {"step": 2, "class": 2.0}, {"step": 3}], most=1)
    assert thinned == ({"step": 1.5, "class": 3.0},)


@pytest.mark.parametrize("name", [VALUES, ARRAYS])
def test_a_folder_that_lacks_a_file_is_refused_and_the_file_is_named(name: str, tmp_path: Path) -> None:
    make_content().save(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(ModelFileError, match=f"lacks {name}"):
        ReportContent.load(tmp_path)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _edit(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        values = json.loads((folder / VALUES).read_text())
        change(values)
        (folder / VALUES).write_text(json.dumps(values))

    return apply


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: _cut(folder / VALUES),
        lambda folder: _cut(folder / ARRAYS),
        lambda folder: (folder / ARRAYS).write_bytes(b""),
        lambda folder: (folder / VALUES).write_bytes(b"\xff\xfe"),
        lambda folder: (folder / VALUES).write_text("[]"),
        _edit(lambda values: values.pop("audit")),
        _edit(lambda values: values["audit"].pop("counts")),
        _edit(lambda values: values.update(audit=3)),
        _edit(lambda values: values.update(stages=[1])),
        _edit(lambda values: values.update(history=5)),
        _edit(lambda values: values.update(codes=None)),
        _edit(lambda values: values.update(schema=99)),
        _edit(lambda values: values["arrays"].pop("codes.before")),
    ],
)
def test_damaged_files_are_one_clear_error(damage: Callable[[Path], None], tmp_path: Path) -> None:
    make_content().save(tmp_path)
    damage(tmp_path)
    with pytest.raises(ModelFileError, match="damaged or of another version"):
        ReportContent.load(tmp_path)


def test_files_of_two_different_reports_are_not_mixed(tmp_path: Path) -> None:
    make_content().save(tmp_path)
    old = (tmp_path / ARRAYS).read_bytes()
    replace(make_content(), attention=None).save(tmp_path)
    (tmp_path / ARRAYS).write_bytes(old)
    with pytest.raises(ModelFileError, match="do not belong together"):
        ReportContent.load(tmp_path)


def test_importing_it_loads_neither_torch_nor_matplotlib() -> None:
    code = (
        "import sys, supportmatch.report.content, supportmatch.report.card, supportmatch.report.page;"
        "print([m for m in ('torch', 'matplotlib', 'sklearn', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
