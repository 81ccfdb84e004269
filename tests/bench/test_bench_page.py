"""The page of a folder of results holds every table and figure, and loads nothing."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from supportmatch.bench.page import PAGE, render_bench_page, write_bench_page
from supportmatch.bench.store import Store
from supportmatch.cli import app
from supportmatch.errors import ConfigError

COMMITTED = Path(__file__).parents[2] / "benchmarks" / "experiments"


def test_the_page_shows_every_method_with_the_remarks_and_figures_of_its_setting() -> None:
    rows = [row for row in Store(COMMITTED).rows() if row["setting"] == "adult-ms"]
    page = render_bench_page(rows)
    for method in {row["method"] for row in rows if not (row["error"] or "").startswith("refused")}:
        assert method in page
    assert page.count("data:image/png;base64,") == 2
    assert "The authors clustered by rank statistics" in page or "the authors clustered by rank statistics" in page
    assert all(alt for alt in re.findall(r'<img [^>]*alt="([^"]*)"', page))
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    assert len(page) < 5_000_000


def test_the_command_writes_it_beside_the_rows(tmp_path: Path) -> None:
    lines = (COMMITTED / "rows.jsonl").read_text().splitlines()
    (tmp_path / "rows.jsonl").write_text("\n".join(line for line in lines if '"adult-sb"' in line) + "\n")
    result = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert result.exit_code == 0, result.exception
    assert "<script" not in (tmp_path / PAGE).read_text()


def test_a_folder_without_results_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there are no results"):
        write_bench_page(tmp_path)
    shutil.rmtree(tmp_path)
