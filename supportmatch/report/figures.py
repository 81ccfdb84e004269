"""Figures as matplotlib `Figure`s, made without a display."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray

from supportmatch.data.containers import Labeled
from supportmatch.history import History
from supportmatch.matching import EncoderPlayer
from supportmatch.metrics import Evaluation
from supportmatch.networks.encoders import SplitCode
from supportmatch.tensors import as_shown, read_rows

_COLOURS = ("#9aa0a6", "#e8a33d", "#3465a4", "#4e9a5b")


def figure_reconstructions(
    player: EncoderPlayer, rows: Labeled, missing: frozenset[str], per_source: int = 4
) -> Figure:
    """Show examples of every source: original, full reconstruction, s~ zeroed, z zeroed (the paper's Fig. 8).

    Where matching worked, the third column has lost the subgroup and the fourth the class.
    """
    grid = rows.grid
    present = [k for k in range(grid.n_sources) if (rows.source_ids == k).any()]
    chosen = [np.flatnonzero(rows.source_ids == k)[:per_source] for k in present]
    titles = ("original", "full", "s~ zeroed", "z zeroed")
    figure = Figure(figsize=(1.2 * per_source * len(titles) * 0.55, 0.75 * len(present) + 0.6), layout="constrained")
    axes = figure.subplots(len(present), len(titles), squeeze=False)
    for source, which, line in zip(present, chosen, axes, strict=True):
        x = read_rows(rows, which)
        with torch.no_grad():
            z, side = player.encode(x)
            panels = [
                x,
                player.decode(SplitCode(z, side)),
                player.decode(SplitCode(z, torch.zeros_like(side))),
                player.decode(SplitCode(torch.zeros_like(z), side)),
            ]
        name = grid.source_name(source)
        line[0].set_ylabel(f"{name} (missing)" if name in missing else name, rotation=0, ha="right", va="center")
        for axis, panel, title in zip(line, panels, titles, strict=True):
            axis.imshow(_strip(as_shown(panel, rows).numpy()), interpolation="nearest")
            axis.set(xticks=[], yticks=[])
            if source == present[0]:
                axis.set_title(title, fontsize=10)
    return figure


def figure_sources(train: Labeled, world: Labeled, per_source: int = 3) -> Figure:
    """Show the problem: examples of every source in training, with gaps, beside the world it will be used in."""
    grid = train.grid
    figure = Figure(figsize=(2.6 * grid.n_subgroups * 2, 1.0 * grid.n_classes + 0.9), layout="constrained")
    titles = ("training set (labelled)", "deployment set (no labels)")
    parts = figure.subfigures(1, 2, squeeze=False, wspace=0.06)
    for part, rows, title in zip(parts.flat, (train, world), titles, strict=True):
        part.suptitle(title, fontsize=11)
        axes = part.subplots(grid.n_classes, grid.n_subgroups, squeeze=False)
        for source, axis in enumerate(axes.flat):
            which = np.flatnonzero(rows.source_ids == source)[:per_source]
            blank = np.full((per_source, *rows.feature_shape), 0.92)
            axis.imshow(
                _strip(as_shown(read_rows(rows, which), rows).numpy() if len(which) else blank), interpolation="nearest"
            )
            if not len(which):
                axis.text(0.5, 0.5, "none", ha="center", va="center", color="0.4", transform=axis.transAxes)
            axis.set(xticks=[], yticks=[])
            axis.set_xlabel(grid.source_name(source), fontsize=9)
    return figure


def figure_accuracy(evaluations: Mapping[str, Evaluation], missing: frozenset[str]) -> Figure:
    """Compare methods: accuracy of every source and robust accuracy, with 95 % intervals; missing sources marked."""
    first = next(iter(evaluations.values())).to_json()
    names = list(first["by_source"])
    labels = [f"{name}\n(missing)" if name in missing else name for name in names] + ["robust\naccuracy"]
    figure = Figure(figsize=(1.5 + 1.1 * len(labels), 3.2), layout="constrained")
    axis = figure.subplots()
    width = 0.8 / len(evaluations)
    for i, (method, evaluation) in enumerate(evaluations.items()):
        result = evaluation.to_json()
        cells = [result["by_source"][name] for name in names]
        heights = np.array([cell["accuracy"] for cell in cells] + [result["robust_accuracy"]], dtype=float)
        spans = [cell["interval"] for cell in cells] + [result["robust_accuracy_interval"]]
        span = np.array([pair or (np.nan, np.nan) for pair in spans], dtype=float).T
        errors = np.clip(np.vstack([heights - span[0], span[1] - heights]), 0, None)
        where = np.arange(len(labels)) + (i - (len(evaluations) - 1) / 2) * width
        axis.bar(where, heights, width * 0.95, yerr=errors, label=method, color=_COLOURS[i % len(_COLOURS)], capsize=2)
    axis.axvline(len(names) - 0.5, color="0.7", linewidth=0.8)
    axis.set(xticks=np.arange(len(labels)), ylim=(0, 1.05), ylabel="accuracy")
    axis.set_xticklabels(labels)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, ncols=len(evaluations), loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure


def figure_history(history: History) -> Figure:
    """Show reconstruction and class losses, and how well the discriminator tells the two sets apart."""
    figure = Figure(figsize=(8, 2.4), layout="constrained")
    names = [n for n in ("reconstruction", "class", "discriminator_accuracy") if n in history.rows[0]]
    for axis, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        values = np.array(history.column(name))
        window = max(1, len(values) // 50)
        smooth = np.convolve(values, np.ones(window) / window, mode="valid")
        axis.plot(np.arange(len(smooth)) + window // 2, smooth, color=_COLOURS[2], linewidth=1.2)
        axis.set(title=name.replace("_", " "), xlabel="step")
        axis.spines[["top", "right"]].set_visible(False)
        if name == "discriminator_accuracy":
            axis.axhline(0.5, color="0.6", linewidth=0.8, linestyle="--")
            axis.set(ylim=(0, 1))
        else:
            axis.set_yscale("log")
    return figure


def _strip(images: NDArray[Any]) -> NDArray[Any]:
    """Put images side by side, channels last."""
    strip = np.concatenate(list(images.transpose(0, 2, 3, 1)), axis=1)
    return strip if strip.shape[-1] == 3 else strip[..., 0]
