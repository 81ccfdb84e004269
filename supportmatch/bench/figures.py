"""The figures of the experiments, made without a display, each with the same in words for who cannot see it."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from math import ceil, isnan
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from supportmatch.bench.compare import (
    ORACLE_MARK,
    ORACLE_NOTE,
    Authors,
    Cell,
    Summary,
    authors_method,
    cells_of,
    clustering_of,
    metric_title,
    metric_values,
    read_authors,
    shown_metrics,
    summarise,
)
from supportmatch.bench.store import ARRAYS, HISTORY, Row
from supportmatch.data.problems import SETTINGS
from supportmatch.errors import ConfigError, ShapeError, UnknownNameError
from supportmatch.history import History
from supportmatch.output import write_atomically

Arrays = Mapping[str, NDArray[Any]]

KINDS = ("boxes", "clusters", "curves", "representation", "reconstructions", "attention")
"""What can be drawn; file names start with it."""

# Okabe and Ito's colours, which people with any colour vision can tell apart.
_BLUE, _ORANGE = "#0072B2", "#D55E00"
_COLOURS = (_BLUE, _ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C8C8C", "#F0E442")
_MARKERS = "o^sDvP*Xd"
_FONT = 10
_CURVES = ("reconstruction", "adversarial", "discriminator_accuracy")
_PANELS = {"original": "original", "full": "full", "side_zeroed": "s~ zeroed", "z_zeroed": "z zeroed"}
_SETS = {"train": "training set", "deploy": "deployment set"}
_SHOWN_CODES = 2_000
_SHOWN_IMAGES = 8
_SHOWN_IN_BAG = 32
_INDEX = "figures.json"


@dataclass(frozen=True)
class Illustration:
    """A figure and the same in words."""

    figure: Figure
    alt: str


@dataclass(frozen=True)
class Written:
    """A figure on disk."""

    path: Path
    alt: str


def figure_boxes(
    rows: Iterable[Row], setting: str, metrics: Sequence[str] | None = None, authors: Authors | None = None
) -> Illustration:
    """Compare methods on one setting, as the paper's box plots do: a row per method, a panel per metric.

    Boxes are quartiles, whiskers reach the extremes, dots are our seeds. The authors' median (a diamond) and quartiles
    (a line) are drawn below ours where they are known. Rows that see deployment labels are hatched. With more than two
    subgroups ratios are the lowest and differences the largest over pairs.
    """
    own = [row for row in rows if row["setting"] == setting]
    metrics = shown_metrics(setting) if metrics is None else metrics
    authors = read_authors() if authors is None else authors
    cells = cells_of(own)
    if not cells:
        raise ConfigError(f"there are no rows of {setting!r} to draw: run it first.")
    columns = min(3, len(metrics))
    n_lines = ceil(len(metrics) / columns)
    figure = Figure(figsize=(2.2 + 3.4 * columns, n_lines * (0.9 + 0.28 * len(cells)) + 0.8), layout="constrained")
    axes = figure.subplots(n_lines, columns, sharey=True, squeeze=False)
    for axis, metric in zip(axes.flat, metrics, strict=False):
        _draw_boxes(axis, cells, metric, authors)
    for axis in axes.flat[len(metrics) :]:
        axis.remove()
    summaries = summarise(own, metrics[0])
    axes[0, 0].set_yticks(range(len(cells)), [_row_label(summary) for summary in summaries])
    axes[0, 0].set_ylim(len(cells) - 0.4, -0.6)
    figure.suptitle(setting, fontsize=_FONT + 2)
    figure.legend(handles=_box_legend(), loc="outside lower center", ncols=4, fontsize=_FONT, frameon=False)
    return Illustration(figure, _describe_boxes(setting, metrics, own))


def _draw_boxes(axis: Any, cells: Mapping[Cell, list[Row]], metric: str, authors: Authors) -> None:
    for place, ((setting, method, _), own) in enumerate(cells.items()):
        values = metric_values(own, metric)
        if values:
            oracle = any(row["sees_deployment_labels"] for row in own)
            axis.boxplot(
                values,
                positions=[place - 0.12],
                orientation="horizontal",
                widths=0.42,
                whis=(0, 100),
                showfliers=False,
                patch_artist=True,
                manage_ticks=False,
                boxprops={"facecolor": "0.9" if oracle else "#9ecae1", "hatch": "xxx" if oracle else ""},
                medianprops={"color": "black", "linewidth": 1.6},
            )
            axis.plot(values, [place - 0.12] * len(values), "o", color=_BLUE, markersize=3, alpha=0.8, zorder=3)
        theirs = authors.get((setting, authors_method(method), metric))
        if theirs is not None:
            if not isnan(theirs.q1):
                axis.plot([theirs.q1, theirs.q3], [place + 0.28] * 2, color=_ORANGE, linewidth=2.5, zorder=3)
            axis.plot(theirs.median, place + 0.28, "D", color=_ORANGE, markersize=5, zorder=4)
    axis.set_xlabel(_panel_title(metric, next(iter(cells))[0]), fontsize=_FONT)
    axis.tick_params(axis="x", labelsize=_FONT - 1)
    axis.tick_params(axis="y", labelsize=_FONT)
    axis.grid(axis="x", color="0.9")
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def _panel_title(metric: str, setting: str) -> str:
    several = setting in SETTINGS and len(SETTINGS[setting].subgroup_names) > 2
    over = {"ratio": " (lowest over pairs)", "difference": " (largest over pairs)"} if several else {}
    return metric_title(metric) + over.get(metric.rpartition("_")[2], "")


def _row_label(summary: Summary) -> str:
    return summary.label + (f"\n({summary.failed} failed)" if summary.failed else "")


def _box_legend() -> list[Any]:
    return [
        Patch(facecolor="#9ecae1", edgecolor="black", label="ours: quartiles and extremes"),
        Line2D([], [], marker="o", linestyle="", color=_BLUE, markersize=4, label="one seed"),
        Line2D([], [], marker="D", color=_ORANGE, markersize=5, label="authors: median, quartiles"),
        Patch(facecolor="0.9", edgecolor="black", hatch="xxx", label=f"{ORACLE_MARK} oracle: sees deployment labels"),
    ]


def _describe_boxes(setting: str, metrics: Sequence[str], rows: Sequence[Row]) -> str:
    metric = "robust_accuracy" if "robust_accuracy" in metrics else metrics[0]
    summaries = summarise(rows, metric)
    medians = [
        f"{summary.label} {summary.spread.median:.3f}" if summary.spread.n else f"{summary.label} none"
        for summary in summaries
    ]
    note = f" {ORACLE_NOTE}" if any(summary.sees_deployment_labels for summary in summaries) else ""
    shown = ", ".join(metric_title(metric) for metric in metrics)
    return (
        f"Box plots for {setting}, one row per method: {shown}. "
        f"Median {metric_title(metric)}: {', '.join(medians)}.{note}"
    )


def figure_clusters(rows: Iterable[Row], setting: str) -> Illustration:
    """Show, for each clustered method, how large its clusters are and how much of each source its cluster holds.

    Clusters are sorted by size within a seed. Bars are medians over seeds, dots are seeds.
    """
    own = [row for row in rows if row["setting"] == setting and clustering_of(row)]
    cells = cells_of(own)
    if not cells:
        raise ConfigError(f"there are no clusters of {setting!r} to draw: run a method that clusters.")
    figure = Figure(figsize=(11, 2.3 * len(cells) + 0.5), layout="constrained")
    figure.suptitle(f"{setting}: clusters of the deployment set", fontsize=_FONT + 2)
    axes = figure.subplots(len(cells), 2, squeeze=False, width_ratios=(2, 3))
    said = []
    for (sizes_axis, recall_axis), summary, cell_rows in zip(
        axes, summarise(own, "accuracy"), cells.values(), strict=True
    ):
        found = [part for row in cell_rows if (part := clustering_of(row))]
        sizes = _sorted_sizes(found)
        _bars(sizes_axis, [str(rank + 1) for rank in range(sizes.shape[1])], sizes)
        sizes_axis.set_ylabel(f"{summary.label}\nrows", fontsize=_FONT)
        names = list(found[0]["recall"])
        recall = np.array([[part["recall"][name] for name in names] for part in found], dtype=float)
        missing = found[0].get("missing", ())
        labels = [name.replace("/", "\n") + ("\n(missing)" if name in missing else "") for name in names]
        _bars(recall_axis, labels, recall)
        recall_axis.set_ylim(0, 1.05)
        accuracy = float(np.median([part["accuracy"] for part in found]))
        said.append(f"{summary.label} {accuracy:.3f}")
        recall_axis.set_title(f"clustering accuracy: median {accuracy:.3f}", fontsize=_FONT)
        recall_axis.set_ylabel("recall", fontsize=_FONT)
    axes[0, 0].set_title("rows per cluster, largest first", fontsize=_FONT)
    alt = f"Cluster sizes and recall per source for {setting}. Median clustering accuracy: {', '.join(said)}."
    return Illustration(figure, alt)


def _sorted_sizes(found: Sequence[Mapping[str, Any]]) -> NDArray[Any]:
    """Return cluster sizes, seeds x ranks; a cluster without rows is 0."""
    width = max(max(len(part["sizes"]), len(part["recall"])) for part in found)
    ordered = [sorted(part["sizes"].values(), reverse=True) for part in found]
    return np.array([sizes + [0] * (width - len(sizes)) for sizes in ordered], dtype=float)


def _bars(axis: Any, labels: Sequence[str], values: NDArray[Any]) -> None:
    """Draw the median of each column as a bar and every value as a dot; a column without values stays empty."""
    middle = [float(np.median(column[~np.isnan(column)])) if (~np.isnan(column)).any() else 0.0 for column in values.T]
    axis.bar(range(len(labels)), middle, color="#9ecae1", edgecolor="black", linewidth=0.6)
    for place, column in enumerate(values.T):
        axis.plot([place] * len(column), column, "o", color=_BLUE, markersize=3, alpha=0.8)
    axis.set_xticks(range(len(labels)), labels, fontsize=_FONT - 1)
    axis.tick_params(axis="y", labelsize=_FONT - 1)
    axis.spines[["top", "right"]].set_visible(False)


def figure_learning_curves(histories: Mapping[int, History], title: str = "") -> Illustration:
    """Show reconstruction loss, adversarial loss and discriminator accuracy by step, smoothed, a line per seed.

    More seeds than can be told apart by colour are grey, with their median in black.
    """
    names = [name for name in _CURVES if any(name in row for history in histories.values() for row in history.rows)]
    if not names:
        raise ConfigError(f"there is nothing to draw: no history has any of {', '.join(_CURVES)}.")
    figure = Figure(figsize=(max(7.5, 3.6 * len(names)), 3.2), layout="constrained")
    is_crowd = len(histories) > len(_COLOURS)
    crowd = [f"grey: {len(histories)} seeds, black: their median"] if is_crowd else []
    figure.suptitle("\n".join([title, *crowd]).strip(), fontsize=_FONT + 1)
    last = []
    for axis, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        curves = {seed: _smooth(history, name) for seed, history in histories.items()}
        for place, (seed, curve) in enumerate(curves.items()):
            if is_crowd:
                axis.plot(*curve, color="0.7", linewidth=0.6)
            else:
                axis.plot(*curve, color=_COLOURS[place], linewidth=1.3, label=f"seed {seed}")
        if is_crowd:
            axis.plot(*_median_curve(list(curves.values())), color="black", linewidth=1.6)
        ends = [float(values[-1]) for _, values in curves.values() if len(values)]
        last.append(f"{name.replace('_', ' ')} {np.median(ends):.3g}")
        axis.set_title(name.replace("_", " "), fontsize=_FONT)
        axis.set_xlabel("step", fontsize=_FONT)
        axis.tick_params(which="both", labelsize=_FONT - 1)
        axis.spines[["top", "right"]].set_visible(False)
        if name == "discriminator_accuracy":
            axis.axhline(0.5, color="0.5", linewidth=0.8, linestyle="--")
            axis.set_ylim(0, 1)
        elif name == "reconstruction":
            axis.set_yscale("log")
    if not is_crowd:
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center", fontsize=_FONT - 1, frameon=False)
    subject = f" of {title}" if title else ""
    alt = f"Learning curves{subject}; seeds {', '.join(map(str, histories))}. Medians at the end: {', '.join(last)}."
    return Illustration(figure, alt)


def _smooth(history: History, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the middles of a moving window of a fiftieth of all rows, and the means in it."""
    rows = [row for row in history.rows if row.get(name) is not None]
    if not rows:
        return np.empty(0), np.empty(0)
    steps, values = np.array([[row["step"], row[name]] for row in rows], dtype=float).T
    window = max(1, len(values) // 50)
    kernel = np.ones(window) / window
    return np.convolve(steps, kernel, mode="valid"), np.convolve(values, kernel, mode="valid")


def _median_curve(curves: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the median at each step of the longest curve, over the curves that reach it."""
    curves = [curve for curve in curves if len(curve[0])]
    longest = max((steps for steps, _ in curves), key=lambda steps: float(steps[-1]))
    reached = [np.interp(longest, steps, values, left=np.nan, right=np.nan) for steps, values in curves]
    return longest, np.nanmedian(reached, axis=0)


def figure_representation(arrays: Arrays, names: Sequence[str] | None = None, title: str = "") -> Illustration:
    """Show z of test rows in the plane, early and late in training, coloured by source.

    By UMAP if `umap-learn` is installed, otherwise by PCA; the title says which. The same arrays
    give the same picture.

    Args:
        arrays: `z_early`, `z_late`, `test_sources` and `early_step`.
        names: What the ids in `test_sources` stand for; the ids themselves by default.
        title: What the figure is of.
    """
    sources = np.asarray(arrays["test_sources"])
    codes = [np.asarray(arrays[name], dtype=np.float32) for name in ("z_early", "z_late")]
    if any(len(z) != len(sources) for z in codes):
        raise ShapeError(
            f"z_early, z_late and test_sources need one entry per row, but have {len(codes[0])}, {len(codes[1])} and "
            f"{len(sources)}."
        )
    chosen = np.unique(np.linspace(0, len(sources) - 1, min(len(sources), _SHOWN_CODES)).astype(int))
    sources = sources[chosen]
    figure = Figure(figsize=(9, 4.4), layout="constrained")
    when = (f"step {int(arrays['early_step'])}", "last step")
    for axis, z, moment in zip(figure.subplots(1, 2), codes, when, strict=True):
        points, how = _embed(z[chosen])
        for place, source in enumerate(np.unique(sources)):
            own = points[sources == source]
            style = {"color": _COLOURS[place % len(_COLOURS)], "marker": _MARKERS[place % len(_MARKERS)]}
            label = str(source) if names is None else names[int(source)]
            axis.scatter(own[:, 0], own[:, 1], s=9, linewidths=0, alpha=0.7, label=label, **style)
        axis.set(xticks=[], yticks=[])
        axis.set_title(f"{moment} ({how})", fontsize=_FONT)
    figure.suptitle(title, fontsize=_FONT + 2)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", fontsize=_FONT, markerscale=2, frameon=False)
    subject = f" of {title}" if title else ""
    alt = f"z of {len(sources)} test rows{subject} in the plane by {how}, at {when[0]} and at the {when[1]}, by source."
    return Illustration(figure, alt)


def _embed(z: NDArray[Any]) -> tuple[NDArray[Any], str]:
    """Return rows as points in the plane, and the name of the way."""
    try:
        with warnings.catch_warnings():
            # Said at import, of a part that is not used here.
            warnings.filterwarnings("ignore", "Tensorflow not installed", ImportWarning)
            umap = import_module("umap")
    except ImportError:
        centred = z - z.mean(axis=0)
        _, _, directions = np.linalg.svd(centred, full_matrices=False)
        return centred @ directions[:2].T, "PCA"
    # With a seed UMAP is sequential anyway; asking for one job keeps it from warning about that.
    plane = umap.UMAP(n_neighbors=min(25, len(z) - 1), random_state=0, n_jobs=1)
    return np.asarray(plane.fit_transform(z)), "UMAP"


def figure_reconstruction_grid(arrays: Arrays, title: str = "") -> Illustration:
    """Show training and deployment images, a line each: original, full, s~ zeroed, z zeroed."""
    n_rows = min(_SHOWN_IMAGES, *(len(arrays[f"{where}_original"]) for where in _SETS))
    figure = Figure(figsize=(9, 0.55 * n_rows + 1.1), layout="constrained")
    figure.suptitle(title, fontsize=_FONT + 2)
    for part, (where, name) in zip(figure.subfigures(1, 2, squeeze=False).flat, _SETS.items(), strict=True):
        part.suptitle(name, fontsize=_FONT)
        for axis, (panel, label) in zip(part.subplots(1, len(_PANELS)), _PANELS.items(), strict=True):
            images = _channels_last(arrays[f"{where}_{panel}"][:n_rows])
            axis.imshow(np.concatenate(list(images), axis=0), interpolation="nearest", aspect="equal")
            axis.set(xticks=[], yticks=[])
            axis.set_title(label, fontsize=_FONT)
    alt = (
        f"{n_rows} images of the training set and {n_rows} of the deployment set{f' of {title}' if title else ''}: "
        "original, full reconstruction, with s~ zeroed, with z zeroed."
    )
    return Illustration(figure, alt)


def figure_attention(arrays: Arrays, title: str = "") -> Illustration:
    """Show deployment bags, a line each; the lighter an image's frame, the more the discriminator attends to it."""
    weights = np.asarray(arrays["attention_weights"], dtype=float)
    bags = np.asarray(arrays["attention_images"])
    if bags.shape[:2] != weights.shape:
        raise ShapeError(f"attention_weights has shape {weights.shape}, but there are {bags.shape[:2]} images.")
    size = min(_SHOWN_IN_BAG, bags.shape[1])
    per_line = min(16, size)
    lines = ceil(size / per_line)
    figure = Figure(figsize=(9, len(bags) * (0.6 * lines + 0.25) + 0.7), layout="constrained")
    largest = float(weights[:, :size].max())
    figure.suptitle(
        f"{title}\nattention within deployment bags: white frame = {largest:.3f}, black = 0".strip(), fontsize=_FONT
    )
    for number, (axis, images, own) in enumerate(
        zip(figure.subplots(len(bags), 1, squeeze=False)[:, 0], bags, weights, strict=True), start=1
    ):
        framed = _frame(_channels_last(images[:size]), own[:size] / largest)
        blank = np.full((lines * per_line - size, *framed.shape[1:]), 0.5)
        tiles = np.concatenate([framed, blank]).reshape(lines, per_line, *framed.shape[1:])
        axis.imshow(np.concatenate([np.concatenate(list(line), axis=1) for line in tiles]), interpolation="nearest")
        axis.set(xticks=[], yticks=[])
        shown = "" if size == bags.shape[1] else f", first {size} of {bags.shape[1]}"
        axis.set_ylabel(f"bag {number}{shown}", fontsize=_FONT)
    alt = (
        f"{len(bags)} deployment bags of {bags.shape[1]} images{f' of {title}' if title else ''}, each image framed in "
        f"a grey as light as its attention weight; the largest weight is {largest:.3f}."
    )
    return Illustration(figure, alt)


def _channels_last(images: NDArray[Any]) -> NDArray[Any]:
    """Return (n, H, W, 3) between 0 and 1, of bytes or floats."""
    scaled = images / 255.0 if images.dtype == np.uint8 else np.clip(images, 0.0, 1.0)
    last = scaled.transpose(0, 2, 3, 1)
    return np.asarray(np.broadcast_to(last, (*last.shape[:3], 3)), dtype=float)


def _frame(images: NDArray[Any], lightness: NDArray[Any], width: int = 3) -> NDArray[Any]:
    """Put a grey frame around each image, and a thin mid-grey line around that to tell neighbours apart."""
    n, height, breadth, _ = images.shape
    outer = width + 1
    framed = np.full((n, height + 2 * outer, breadth + 2 * outer, 3), 0.5)
    framed[:, 1:-1, 1:-1] = lightness[:, None, None, None]
    framed[:, outer:-outer, outer:-outer] = images
    return framed


def plot_all(
    rows: Sequence[Row], run_folders: Mapping[str, Path], out: Path, kinds: Collection[str] = KINDS
) -> list[Written]:
    """Draw everything that the rows and the folders of their runs allow, as PNG files with an index of words.

    Box plots and clusters need rows only. Learning curves of each method show all its seeds; z, reconstructions and
    attention those of its lowest seed, so that nobody chooses a pretty one. `figures.json` in the folder keeps the
    words of figures drawn before, too, as long as their files are there.

    Args:
        rows: What the runs left.
        run_folders: Where the files of a run are, by its `config_hash`; runs without a folder are left out.
        out: The folder to write to.
        kinds: Which of `KINDS` to draw.
    """
    if unknown := sorted(set(kinds) - set(KINDS)):
        raise UnknownNameError(f"unknown kind of figure {unknown[0]!r}: choose among {', '.join(KINDS)}.")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise ConfigError(f"{out} is, or is below, a file, but figures need a folder: choose another name.") from error
    written = []
    for kind, name, draw in _plan(rows, run_folders):
        if kind in kinds:
            illustration, path = draw(), out / f"{kind}-{name}.png"
            _save(illustration, path)
            written.append(Written(path, illustration.alt))
    index = {**read_index(out), **{item.path.name: item.alt for item in written}}
    text = json.dumps(dict(sorted(index.items())), indent=1, ensure_ascii=False) + "\n"
    write_atomically(out / _INDEX, text.encode())
    return written


def read_index(folder: Path) -> dict[str, str]:
    """Return the words of every figure in a folder, by file name."""
    path = folder / _INDEX
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {name: alt for name, alt in known.items() if (folder / name).exists()}


_Plan = Iterator[tuple[str, str, Callable[[], Illustration]]]


def _plan(rows: Sequence[Row], run_folders: Mapping[str, Path]) -> _Plan:
    """Yield the kind and name of each possible figure, and how to draw it."""
    cells = cells_of(rows)
    for setting in dict.fromkeys(cell[0] for cell in cells):
        yield "boxes", setting, partial(figure_boxes, rows, setting)
        if any(clustering_of(row) for row in rows if row["setting"] == setting):
            yield "clusters", setting, partial(figure_clusters, rows, setting)
    for (setting, method, budget), own in cells.items():
        folders = {
            row["seed"]: run_folders[row["config_hash"]]
            for row in own
            if not row["error"] and row["config_hash"] in run_folders
        }
        parts = [setting, method, *([] if budget == "fast" else [budget])]
        mark = [f"{ORACLE_MARK} sees deployment labels"] if own[0]["sees_deployment_labels"] else []
        yield from _plan_runs("-".join(parts), ", ".join([*parts, *mark]), setting, folders)


def _plan_runs(name: str, title: str, setting: str, folders: Mapping[int, Path]) -> _Plan:
    """Yield the figures of the runs of one cell."""
    histories = {
        seed: History.from_jsonl((folder / HISTORY).read_text(encoding="utf-8").splitlines())
        for seed, folder in folders.items()
        if (folder / HISTORY).exists()
    }
    if any(curve in row for history in histories.values() for row in history.rows for curve in _CURVES):
        yield "curves", name, partial(figure_learning_curves, histories, title)
    seed = next((seed for seed, folder in folders.items() if (folder / ARRAYS).exists()), None)
    if seed is None:
        return
    with np.load(folders[seed] / ARRAYS, allow_pickle=False) as file:
        arrays = dict(file)
    title, name = f"{title}, seed {seed}", f"{name}-seed{seed}"
    if arrays.keys() >= {"z_early", "z_late", "test_sources", "early_step"}:
        grid = SETTINGS[setting].grid if setting in SETTINGS else None
        names = None if grid is None else [grid.source_name(source) for source in range(grid.n_sources)]
        yield "representation", name, partial(figure_representation, arrays, names, title)
    if arrays.keys() >= {f"{where}_{panel}" for where in _SETS for panel in _PANELS}:
        yield "reconstructions", name, partial(figure_reconstruction_grid, arrays, title)
    if arrays.keys() >= {"attention_images", "attention_weights"}:
        yield "attention", name, partial(figure_attention, arrays, title)


def _save(illustration: Illustration, path: Path) -> None:
    """Write a PNG file that is whole or absent and carries its own description."""
    buffer = io.BytesIO()
    illustration.figure.savefig(
        buffer, format="png", dpi=130, metadata={"Description": illustration.alt, "Software": None}
    )
    write_atomically(path, buffer.getvalue())
