"""Charts and pictures for the page: inline SVG that takes the page's colours, and small PNG files within it.

Matplotlib draws with sentinel colours, which become `currentColor` and the page's own variables, so that one drawing
fits light, dark and print. No text of the user ever gets into a drawing: names are in the page around it.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, floor, isfinite, log10
from typing import Any, Final
from xml.etree import ElementTree as ET

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullFormatter, StrMethodFormatter
from numpy.typing import NDArray
from PIL import Image

N_SERIES = 8
"""Colours that a theme has."""
MARKERS: Final = ("●", "■", "▲", "◆", "▼", "✚", "★", "✖")
"""How the page writes the marks of `draw_points`."""
HOLLOW_MARKERS: Final = ("○", "□", "△", "◇", "▽", "✙", "☆", "✕")
"""The same for hollow marks."""
_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "*", "X")
_INK, _GRID, _MUTED = "#010203", "#010204", "#010205"
_SERIES = tuple(f"#0102{i + 16:02x}" for i in range(N_SERIES))
_COLOURS = {_INK: "currentColor", _GRID: "var(--grid)", _MUTED: "var(--muted)"} | {
    colour: f"var(--series-{i + 1})" for i, colour in enumerate(_SERIES)
}
_STYLE = {
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.7,
    "lines.solid_capstyle": "round",
    "text.color": _INK,
    "text.parse_math": False,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
}
_SIZE = (3.7, 2.4)
_WIDE = 5
"""A range from which a logarithmic axis is clearer."""
_SMOOTHING = 25
"""A curve is smoothed over this fraction of its points."""
MOST_POINTS = 1_200
"""Points of a scatter."""
_TURNS = 5
"""Groups are drawn in so many turns, so that the last does not cover the rest."""
MOST_IMAGES = 8
"""Images in a strip."""
MOST_IN_BAG = 32
"""Images of a bag."""
_MOST_PIXELS, _MOST_PIXELS_IN_BAG = 64, 48
_COARSE = 16


@dataclass(frozen=True)
class Look:
    """How a group of points is drawn."""

    colour: int | None
    """Which of the theme's colours; None is grey."""
    mark: int
    is_hollow: bool = False


@dataclass(frozen=True)
class Drawing:
    """An SVG element, with title and description for who cannot see it."""

    svg: str
    alt: str


@dataclass(frozen=True)
class Picture:
    """A PNG file as a data URI."""

    src: str
    alt: str
    width: int
    height: int
    is_coarse: bool = False
    """Whether its pixels are to be seen as squares when it is enlarged."""


def draw_curve(
    rows: Sequence[Mapping[str, float]], name: str, title: str, *, chance: float | None = None, log: bool = False
) -> Drawing | None:
    """Draw a quantity over steps: every value faintly, a moving average on top. None if no row has it.

    Args:
        rows: The history.
        name: Of the quantity.
        title: What to call it.
        chance: Draw a dashed line here, on an axis from 0 to 1.
        log: Draw on a logarithmic axis, if all values are positive and some are many times as large as others.
    """
    found = [(row["step"], row[name]) for row in rows if row.get(name) is not None and isfinite(row[name])]
    if not found:
        return None
    steps, values = np.array(found, dtype=float).T
    window = max(1, len(values) // _SMOOTHING)
    kernel = np.ones(window) / window
    smooth = np.convolve(steps, kernel, mode="valid"), np.convolve(values, kernel, mode="valid")
    with rc_context(_STYLE):
        figure, axis = _blank()
        if window > 1:
            axis.plot(steps, values, color=_SERIES[0], alpha=0.3, linewidth=0.7)
        axis.plot(*smooth, color=_SERIES[0], linewidth=1.8)
        if len(values) == 1:
            axis.plot(steps, values, "o", color=_SERIES[0])
        axis.set_xlabel("step")
        axis.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        if chance is not None:
            axis.axhline(chance, color=_INK, linewidth=1, linestyle=(0, (4, 3)))
            axis.set_ylim(0, 1)
        elif log and 0 < values.min() < values.max() / _WIDE:
            _log_axis(axis, float(values.min()), float(values.max()))
        else:
            axis.yaxis.set_major_locator(MaxNLocator(5))
        start, end = float(smooth[1][0]), float(smooth[1][-1])
        alt = f"{title} over {steps[-1]:,.0f} steps: {start:.3g} at the start, {end:.3g} at the end (moving averages)."
        if chance is not None:
            alt += f" A dashed line marks {chance:g}, which guessing gives."
        return _drawing(figure, f"curve-{name}", title, alt)


def draw_points(
    points: NDArray[Any],
    group: NDArray[Any],
    key: str,
    title: str,
    alt: str,
    limits: tuple[float, float, float, float],
    looks: Sequence[Look] = (),
) -> Drawing:
    """Draw rows in the plane, with colour and mark by group; negative groups are small and grey.

    Args:
        points: (n, 2).
        group: A number for each.
        key: What makes ids unique in the page.
        title: The drawing's title.
        alt: The same in words.
        limits: Ends of both axes.
        looks: That of each group; by default each has its own colour and mark.
    """
    chosen = spread(len(points), MOST_POINTS)
    points, group = points[chosen], group[chosen]
    with rc_context(_STYLE | {"axes.grid": False}):
        figure, axis = _blank((3.4, 2.9))
        values = np.unique(group).tolist()
        for turn, value in product(range(_TURNS), values):
            own = points[group == value][turn::_TURNS]
            if value < 0:
                axis.plot(*own.T, ".", color=_MUTED, markersize=3.2, markeredgewidth=0, alpha=0.85)
                continue
            look = looks[value] if looks else Look(value % N_SERIES, mark_of(value))
            colour = _MUTED if look.colour is None else _SERIES[look.colour]
            hollow = {"markerfacecolor": "none", "markeredgewidth": 0.8} if look.is_hollow else {"markeredgewidth": 0}
            axis.plot(*own.T, _MARKERS[look.mark], color=colour, markersize=3.2, alpha=0.85, **hollow)
        axis.set(xlim=limits[:2], ylim=limits[2:], xticks=[], yticks=[])
        axis.spines[["top", "right"]].set_visible(True)
        for spine in axis.spines.values():
            spine.set_color(_GRID)
        return _drawing(figure, key, title, alt)


def draw_calibration(bins: Sequence[Mapping[str, float]]) -> Drawing | None:
    """Draw the share of right predictions over the stated probability; None without a bin that has rows."""
    filled = [b for b in bins if b["n"] and b["confidence"] is not None and b["accuracy"] is not None]
    if not filled:
        return None
    confidence, accuracy, n = np.array([[b["confidence"], b["accuracy"], b["n"]] for b in filled], dtype=float).T
    with rc_context(_STYLE):
        figure, axis = _blank((3.4, 2.9))
        axis.plot([0, 1], [0, 1], color=_INK, linewidth=1, linestyle=(0, (4, 3)))
        axis.plot(confidence, accuracy, color=_SERIES[0], linewidth=1.2)
        axis.scatter(confidence, accuracy, s=14 + 90 * n / n.max(), color=_SERIES[0], linewidths=0, zorder=3)
        low = max(0.0, floor(10 * min(confidence.min(), accuracy.min())) / 10 - 0.1)
        axis.set(xlim=(low, 1.02), ylim=(low, 1.02), xlabel="stated probability", ylabel="share right")
        axis.xaxis.set_major_locator(MaxNLocator(5))
        axis.yaxis.set_major_locator(MaxNLocator(5))
        off = int(np.abs(confidence - accuracy).argmax())
        alt = (
            f"Share of right predictions over stated probability in {len(filled)} bins; a dashed diagonal marks where "
            f"both are equal. They differ most at a stated probability of {confidence[off]:.2f}, where "
            f"{accuracy[off]:.2f} are right."
        )
        return _drawing(figure, "calibration", "Calibration", alt)


def picture_strip(images: NDArray[Any], alt: str) -> Picture:
    """Put the first images side by side.

    Args:
        images: Bytes (n, C, H, W).
        alt: The same in words.
    """
    shown = _channels_last(images[:MOST_IMAGES])
    gap = np.full((len(shown), shown.shape[1], 1, 3), 128, np.uint8)
    return _png(np.concatenate([*np.concatenate([shown, gap], axis=2)], axis=1)[:, :-1], alt, shown.shape[1])


def picture_bag(images: NDArray[Any], weights: NDArray[Any], largest: float, alt: str) -> Picture:
    """Show a bag: the lighter an image's frame, the larger its weight.

    Args:
        images: Bytes (size, C, H, W).
        weights: One for each.
        largest: The weight that is white.
        alt: The same in words.
    """
    shown = _channels_last(images[:MOST_IN_BAG], _MOST_PIXELS_IN_BAG)
    n, height, width, _ = shown.shape
    frame = max(3, height // 9)
    lightness = np.clip(weights[:n] / largest * 255 if largest > 0 else np.zeros(n), 0, 255).astype(np.uint8)
    tiles = np.full((n, height + 2 * frame + 2, width + 2 * frame + 2, 3), 128, np.uint8)
    tiles[:, 1:-1, 1:-1] = lightness[:, None, None, None]
    inner = frame + 1
    tiles[:, inner:-inner, inner:-inner] = shown
    per_line = min(8, n)
    blank = np.full((-n % per_line, *tiles.shape[1:]), 128, np.uint8)
    tiles = np.concatenate([tiles, blank])
    lines = [np.concatenate([*tiles[start : start + per_line]], axis=1) for start in range(0, len(tiles), per_line)]
    return _png(np.concatenate(lines), alt, height)


def mark_of(group: int) -> int:
    """Return which mark a group has; when colours repeat, marks are shifted, so that both together do not.

    >>> mark_of(0), mark_of(7), mark_of(8)
    (0, 7, 1)
    """
    return (group + group // N_SERIES) % len(_MARKERS)


def spread(n: int, most: int) -> NDArray[np.int64]:
    """Return at most so many of n positions, evenly spread.

    >>> spread(3, 10).tolist(), spread(9, 3).tolist()
    ([0, 1, 2], [0, 4, 8])
    """
    return np.unique(np.linspace(0, max(0, n - 1), min(n, most)).round().astype(np.int64))


def _blank(size: tuple[float, float] = _SIZE) -> tuple[Any, Any]:
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots()


def _log_axis(axis: Any, low: float, high: float) -> None:
    """Make the axis logarithmic, with a few round numbers written out."""
    axis.set_yscale("log")
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    steps = (1,) if len(decades) > 4 else (1, 2, 5)
    ticks = [step * 10.0**power for power in decades for step in steps]
    if len(decades) > 8:
        ticks = ticks[:: ceil(len(ticks) / 6)]
    axis.set_ylim(low / 1.15, high * 1.15)
    axis.yaxis.set_major_locator(FixedLocator([tick for tick in ticks if low / 1.15 <= tick <= high * 1.15]))
    axis.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())


def _drawing(figure: Any, key: str, title: str, alt: str) -> Drawing:
    """Turn a figure into an element of an HTML page."""
    file = io.StringIO()
    with rc_context({"svg.hashsalt": key}):
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return Drawing(_clean_svg(file.getvalue(), key, title, alt), alt)


def _clean_svg(text: str, key: str, title: str, alt: str) -> str:
    """Drop what a page does not need, make ids unique, and put the page's colours in the place of sentinels."""
    root = ET.fromstring(text)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {name.rpartition("}")[2]: value for name, value in element.attrib.items()}
        element.text, element.tail = (part if part and part.strip() else None for part in (element.text, element.tail))
    for parent in [*root.iter()]:
        for child in [*parent]:
            if child.tag in ("metadata", "style"):
                parent.remove(child)
    for element in root.iter():
        _hoist_style(element)
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    for element in root.iter():
        name = element.attrib.pop("id", None)
        if name in used:
            element.set("id", f"{key}-{name}")
        for attribute, value in element.attrib.items():
            element.set(attribute, _clean_value(attribute, value, key))
        if element.get("transform", "").startswith("rotate(-0 "):
            del element.attrib["transform"]
    _prune(root)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib |= {"role": "img", "class": "chart", "aria-labelledby": f"{key}-title {key}-desc"}
    for place, (tag, words) in enumerate((("title", title), ("desc", alt))):
        element = ET.Element(tag, {"id": f"{key}-{tag}"})
        element.text = words
        root.insert(place, element)
    return ET.tostring(root, encoding="unicode")


def _clean_value(attribute: str, value: str, key: str) -> str:
    if attribute == "href":
        return value.replace("#", f"#{key}-")
    if attribute in ("d", "x", "y"):
        return re.sub(r"-?\d+\.\d{2,}", lambda found: f"{float(found[0]):.1f}", " ".join(value.split()))
    value = value.replace("url(#", f"url(#{key}-")
    if attribute == "style":
        value = re.sub(r"font-family:[^;]+;? ?", "", value)
        value = re.sub(r"#[0-9a-f]{6}", lambda found: _COLOURS.get(found[0], found[0]), value)
    return value


def _prune(element: ET.Element) -> None:
    """Drop groups that hold nothing."""
    for child in [*element]:
        _prune(child)
        if child.tag in ("g", "defs") and not len(child):
            element.remove(child)


def _hoist_style(element: ET.Element) -> None:
    """Say once what all points of a group have in common."""
    children = [*element]
    if len(children) > 1 and all(child.tag == "use" for child in children):
        styles = {child.get("style") for child in children}
        if len(styles) == 1:
            element.set("style", styles.pop() or "")
            for child in children:
                child.attrib.pop("style", None)


def _channels_last(images: NDArray[Any], most: int = _MOST_PIXELS) -> NDArray[np.uint8]:
    """Return bytes (n, H, W, 3), no side longer than `most`; of one or two channels the first is shown as grey."""
    n_channels = images.shape[1]
    colour = images[:, :3] if n_channels >= 3 else np.repeat(images[:, :1], 3, axis=1)
    last = np.ascontiguousarray(colour.transpose(0, 2, 3, 1).astype(np.uint8))
    _, height, width, _ = last.shape
    if max(height, width) <= most:
        return last
    scale = most / max(height, width)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return np.stack([np.asarray(Image.fromarray(image).resize(size, Image.Resampling.LANCZOS)) for image in last])


def _png(pixels: NDArray[np.uint8], alt: str, tile: int) -> Picture:
    """Encode pixels; `tile` is the height of one image in them."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="png", optimize=True)
    src = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"
    return Picture(src, alt, pixels.shape[1], pixels.shape[0], is_coarse=tile <= _COARSE)
