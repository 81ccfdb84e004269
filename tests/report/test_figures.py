"""Figures show what they say, on tiny data and without a display."""

from __future__ import annotations

import io

import numpy as np
import pytest

from supportmatch.bags import PlainBags, TrainingBags
from supportmatch.config import AutoencoderConfig, Config, MatchingConfig
from supportmatch.data.containers import Labeled, Unlabeled
from supportmatch.history import History
from supportmatch.matching import EncoderPlayer, match_supports
from supportmatch.metrics import evaluate
from supportmatch.report.figures import figure_accuracy, figure_history, figure_reconstructions, figure_sources
from supportmatch.sources import SourceGrid

GRID = SourceGrid(classes=(2, 4), subgroups=("purple", "green"))
MISSING = frozenset({"4/purple"})


def images(n_channels: int, *, missing: bool) -> Labeled:
    rng = np.random.default_rng(0)
    y, s = np.divmod(np.repeat([0, 1, 3] if missing else [0, 1, 2, 3], 4), 2)
    return Labeled(rng.integers(0, 256, (len(y), n_channels, 16, 16), dtype=np.uint8), y=y, s=s, grid=GRID)


def train_a_little(rows: Labeled) -> tuple[EncoderPlayer, History]:
    config = Config(autoencoder=AutoencoderConfig(widths=(4,), code_size=6), matching=MatchingConfig(steps=2))
    deploy = Unlabeled(rows.x)
    return match_supports(rows, deploy, TrainingBags.of(rows, 1, 4, 0), PlainBags(len(deploy), 1, 4, 0), config, 0)


@pytest.mark.parametrize("n_channels", [1, 3])
def test_reconstructions_have_a_line_per_source_and_four_columns(n_channels: int) -> None:
    player, _ = train_a_little(images(n_channels, missing=True))
    figure = figure_reconstructions(player, images(n_channels, missing=False), MISSING, per_source=2)
    assert len(figure.axes) == 4 * 4
    titles = [axis.get_title() for axis in figure.axes if axis.get_title()]
    assert titles == ["original", "full", "s~ zeroed", "z zeroed"]
    labels = [axis.get_ylabel() for axis in figure.axes if axis.get_ylabel()]
    assert labels == ["2/purple", "2/green", "4/purple (missing)", "4/green"]


def test_the_problem_is_shown_with_a_gap_where_training_has_none() -> None:
    figure = figure_sources(images(3, missing=True), images(3, missing=False))
    gaps = [axis.get_xlabel() for axis in figure.axes if axis.texts]
    assert gaps == ["4/purple"]


def test_accuracy_is_drawn_for_every_source_and_method_with_the_missing_one_marked() -> None:
    rows = images(3, missing=False)
    results = {name: evaluate(rows.y, np.zeros_like(rows.y), rows.s, GRID) for name in ("erm", "ours")}
    figure = figure_accuracy(results, MISSING)
    (axis,) = figure.axes
    assert [label.get_text() for label in axis.get_xticklabels()][2] == "4/purple\n(missing)"
    heights = [bar.get_height() for bar in axis.patches]
    assert heights[:5] == [1.0, 1.0, 0.0, 0.0, 0.5]


def test_a_history_can_be_drawn_and_written_as_png() -> None:
    _, history = train_a_little(images(3, missing=True))
    file = io.BytesIO()
    figure_history(history).savefig(file, format="png")
    assert file.getvalue().startswith(b"\x89PNG")
