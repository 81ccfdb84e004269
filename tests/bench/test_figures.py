"""Figures show what they say: made-up rows and arrays, no display, and no comparison of pixels."""

from __future__ import annotations

import io
import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import PathPatch
from toy_methods import made_up, made_up_hash

from supportmatch.bench.figures import (
    Illustration,
    figure_attention,
    figure_boxes,
    figure_clusters,
    figure_learning_curves,
    figure_reconstruction_grid,
    figure_representation,
    plot_all,
    read_index,
)
from supportmatch.errors import ConfigError, ShapeError
from supportmatch.history import History

AUTHORS_COLOUR = "#d55e00"


def clustered(seed: int, sizes: list[int], recall: list[float | None], setting: str = "cmnist-sb") -> dict[str, Any]:
    names = ["2/purple", "2/green", "4/purple", "4/green"]
    part = {
        "accuracy": 0.75,
        "recall": dict(zip(names, recall, strict=True)),
        "missing": ["4/purple"],
        "sizes": {str(k): n for k, n in enumerate(sizes)},
    }
    return made_up("ours-clustering", seed, 0.9, setting, details={"clustering": part})


def made_up_history(n_steps: int = 100) -> History:
    history = History()
    for step in range(n_steps):
        history.append(step, reconstruction=1 / (step + 1), adversarial=-1.0, discriminator_accuracy=0.5)
    return history


def made_up_arrays(n: int = 30, images: Any = np.uint8) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    panels = ("original", "full", "side_zeroed", "z_zeroed")
    scale = 255 if images is np.uint8 else 1.0
    return {
        "z_early": rng.normal(size=(n, 5)).astype(np.float16),
        "z_late": rng.normal(size=(n, 5)).astype(np.float16),
        "test_sources": np.arange(n) % 4,
        "early_step": np.array(7),
        **{f"{s}_{p}": (rng.random((10, 3, 8, 8)) * scale).astype(images) for s in ("train", "deploy") for p in panels},
        "attention_images": (np.full((2, 4, 3, 8, 8), 0.25) * scale).astype(images),
        "attention_weights": np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.2, 0.2, 0.2]]),
    }


def render(illustration: Illustration) -> bytes:
    file = io.BytesIO()
    illustration.figure.savefig(file, format="png", dpi=40)
    assert file.getvalue().startswith(b"\x89PNG")
    return file.getvalue()


def boxes(axis: Any) -> list[Any]:
    return [patch for patch in axis.patches if isinstance(patch, PathPatch)]


def authors_lines(axis: Any) -> list[list[float]]:
    return [list(line.get_xdata()) for line in axis.lines if to_hex(line.get_color()) == AUTHORS_COLOUR]


def test_each_method_has_a_box_in_each_panel_with_a_dot_for_each_seed() -> None:
    rows = [made_up(method, seed, 0.5 + 0.1 * seed) for method in ("erm", "pseudo-label") for seed in range(3)]
    drawn = figure_boxes(rows, "cmnist-sb")
    titles = [axis.get_xlabel() for axis in drawn.figure.axes]
    assert titles == ["accuracy", "robust accuracy", "PR ratio", "TPR ratio", "TNR ratio", "HGR"]
    for axis in drawn.figure.axes:
        assert len(boxes(axis)) == 2
        dots = [list(line.get_xdata()) for line in axis.lines if line.get_marker() == "o"]
        assert dots == [[0.5, 0.6, 0.7]] * 2
    labels = [label.get_text() for label in drawn.figure.axes[0].get_yticklabels()]
    assert labels == ["erm", "pseudo-label"]
    assert "erm 0.600" in drawn.alt
    assert "†" not in drawn.alt
    render(drawn)
    sizes = {label.get_fontsize() for axis in drawn.figure.axes[::3] for label in axis.get_yticklabels()}
    assert sizes == {10.0}


def test_three_subgroups_also_show_the_largest_differences() -> None:
    drawn = figure_boxes([made_up("erm", 0, 0.5, "cmnist-3digit")], "cmnist-3digit")
    titles = [axis.get_xlabel() for axis in drawn.figure.axes]
    assert len(titles) == 9
    assert "TPR ratio (lowest over pairs)" in titles
    assert "TNR difference (largest over pairs)" in titles


def test_the_authors_stand_beside_ours_with_quartiles_only_where_known() -> None:
    accuracy, hgr = figure_boxes(
        [made_up("erm", 0, 0.5), made_up("pseudo-label", 0, 0.5)], "cmnist-sb", ["accuracy", "hgr"]
    ).figure.axes
    assert authors_lines(accuracy) == [[0.7504, 0.7625], [0.753]]
    assert authors_lines(hgr) == [[0.5652]]
    (alone,) = figure_boxes([made_up("erm", 0, 0.5)], "cmnist-sb", ["accuracy"], authors={}).figure.axes
    assert authors_lines(alone) == []


def test_oracles_are_hatched_named_and_explained() -> None:
    rows = [made_up("ours-clustering", 0, 0.9), made_up("ours-oracle", 0, 0.9)]
    drawn = figure_boxes(rows, "cmnist-sb", ["accuracy"])
    (axis,) = drawn.figure.axes
    assert [bool(box.get_hatch()) for box in boxes(axis)] == [False, True]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["ours-clustering", "ours-oracle †"]
    (legend,) = drawn.figure.legends
    assert any("sees deployment labels" in text.get_text() for text in legend.get_texts())
    assert "ours-oracle † 0.900" in drawn.alt
    assert drawn.alt.endswith("† sees deployment labels: an upper bound, never a result.")


def test_failed_runs_and_undefined_metrics_leave_gaps_that_are_said() -> None:
    failed = [made_up("dro", seed, None, error="made up", seconds=None) for seed in range(2)]
    undefined = made_up("erm", 0, 0.5) | {"tpr_ratio": None}
    drawn = figure_boxes([undefined, *failed], "cmnist-sb", ["accuracy", "tpr_ratio"])
    assert [len(boxes(axis)) for axis in drawn.figure.axes] == [1, 0]
    labels = [label.get_text() for label in drawn.figure.axes[0].get_yticklabels()]
    assert labels == ["erm", "dro\n(2 failed)"]
    assert "dro none" in drawn.alt
    render(drawn)


def test_a_setting_without_rows_cannot_be_drawn() -> None:
    with pytest.raises(ConfigError, match="no rows of 'adult-sb'"):
        figure_boxes([made_up("erm", 0, 0.5)], "adult-sb")
    with pytest.raises(ConfigError, match="no clusters of 'cmnist-sb'"):
        figure_clusters([made_up("erm", 0, 0.5)], "cmnist-sb")


def test_clusters_are_sorted_by_size_and_empty_ones_and_missing_sources_are_seen() -> None:
    rows = [clustered(0, [10, 40, 20], [1.0, 0.5, 0.2, None]), clustered(1, [30, 20, 40, 10], [0.8, 0.7, 0.4, None])]
    drawn = figure_clusters(rows, "cmnist-sb")
    sizes, recall = drawn.figure.axes
    assert [bar.get_height() for bar in sizes.patches] == [40, 25, 15, 5]  # medians of 40 20 10 0 and 40 30 20 10
    assert [bar.get_height() for bar in recall.patches] == pytest.approx([0.9, 0.6, 0.3, 0.0])
    assert [label.get_text() for label in recall.get_xticklabels()][2] == "4\npurple\n(missing)"
    assert "ours-clustering 0.750" in drawn.alt
    render(drawn)


def test_curves_have_a_line_per_seed_and_keep_a_constant_where_it_is() -> None:
    drawn = figure_learning_curves({0: made_up_history(), 5: made_up_history(3)}, "made up")
    names = [axis.get_title() for axis in drawn.figure.axes]
    assert names == ["reconstruction", "adversarial", "discriminator accuracy"]
    first, second = drawn.figure.axes[1].lines
    assert [first.get_label(), second.get_label()] == ["seed 0", "seed 5"]
    np.testing.assert_allclose(first.get_ydata(), -1.0)
    assert len(second.get_xdata()) == 3
    assert "seeds 0, 5." in drawn.alt
    (legend,) = drawn.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["seed 0", "seed 5"]
    render(drawn)


def test_curves_of_many_seeds_are_grey_with_their_median_over_the_seeds_that_got_there() -> None:
    histories = {
        seed: History([{"step": step, "adversarial": float(seed)} for step in range(10 if seed < 9 else 5)])
        for seed in range(11)
    }
    drawn = figure_learning_curves(histories, "made up")
    (axis,) = drawn.figure.axes
    *seeds, median = axis.lines
    assert {line.get_color() for line in seeds} == {"0.7"}
    assert (len(seeds), median.get_color(), drawn.figure.legends) == (11, "black", [])
    np.testing.assert_allclose(median.get_ydata(), [5.0] * 5 + [4.0] * 5)
    assert "black: their median" in drawn.figure.get_suptitle()
    assert figure_learning_curves({seed: histories[seed] for seed in range(9)}).figure.legends
    render(drawn)


def title_fits(illustration: Illustration) -> bool:
    figure = illustration.figure
    figure.draw_without_rendering()
    (above,) = (text.get_window_extent() for text in figure.texts if text.get_text() == figure.get_suptitle())
    is_free = not any(above.overlaps(axis.title.get_window_extent()) for axis in figure.axes if axis.get_title())
    return bool(is_free and figure.bbox.x0 <= above.x0 and above.x1 <= figure.bbox.x1)


@pytest.mark.parametrize("n_seeds", [1, 9, 30])
def test_titles_are_neither_clipped_nor_on_top_of_each_other(n_seeds: int) -> None:
    title = "cmnist-3digit, ours-clustering, paper, † sees deployment labels, seed 0"
    histories = {seed: made_up_history() for seed in range(n_seeds)}
    single = {0: History([{"step": step, "adversarial": 1.0} for step in range(3)])}
    assert title_fits(figure_learning_curves(histories, title))
    assert title_fits(figure_learning_curves(single, title))
    assert title_fits(figure_attention(made_up_arrays(), title))


def test_curves_show_what_there_is_and_refuse_what_there_is_not() -> None:
    only = History([{"step": 0, "reconstruction": 1.0}, {"step": 1, "reconstruction": 0.5}])
    assert len(figure_learning_curves({0: only}).figure.axes) == 1
    with pytest.raises(ConfigError, match="nothing to draw"):
        figure_learning_curves({0: History([{"step": 0, "total": 1.0}])})


def test_without_umap_z_is_shown_by_pca_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)  # as if it were not installed
    arrays = made_up_arrays()
    drawn = figure_representation(arrays, ["a", "b", "c", "d"], "made up")
    assert [axis.get_title() for axis in drawn.figure.axes] == ["step 7 (PCA)", "last step (PCA)"]
    early = drawn.figure.axes[0]
    points = np.concatenate([part.get_offsets() for part in early.collections])
    assert [part.get_label() for part in early.collections] == ["a", "b", "c", "d"]
    assert points.shape == (30, 2)
    spread = np.linalg.svd(arrays["z_early"] - arrays["z_early"].mean(axis=0).astype(float), compute_uv=False)[:2]
    np.testing.assert_allclose(np.sqrt((points**2).sum(axis=0)), spread, rtol=1e-2)
    assert "by PCA" in drawn.alt
    render(drawn)


@pytest.mark.slow  # its functions are compiled at first use
@pytest.mark.skipif(find_spec("umap") is None, reason="umap-learn is not installed")
def test_umap_is_used_where_it_is_installed_and_repeats_itself() -> None:
    first, second = (figure_representation(made_up_arrays()).figure.axes for _ in range(2))
    assert first[1].get_title() == "last step (UMAP)"
    for one, other in zip(first[1].collections, second[1].collections, strict=True):
        np.testing.assert_array_equal(one.get_offsets(), other.get_offsets())


def test_codes_and_sources_must_be_of_the_same_rows() -> None:
    with pytest.raises(ShapeError, match="30, 30 and 29"):
        figure_representation(made_up_arrays() | {"test_sources": np.arange(29)})


@pytest.mark.parametrize("images", [np.uint8, np.float32])
def test_reconstructions_have_four_columns_for_each_set_and_at_most_eight_lines(images: Any) -> None:
    arrays = made_up_arrays(images=images)
    drawn = figure_reconstruction_grid(arrays, "made up")
    assert [axis.get_title() for axis in drawn.figure.axes] == ["original", "full", "s~ zeroed", "z zeroed"] * 2
    shown = drawn.figure.axes[4].images[0].get_array()
    assert shown.shape == (8 * 8, 8, 3)
    expected = arrays["deploy_original"][0].transpose(1, 2, 0) / (255 if images is np.uint8 else 1)
    np.testing.assert_allclose(shown[:8], expected, atol=1e-6)
    render(drawn)


def test_grey_images_are_shown_in_grey() -> None:
    arrays = {name: value[:, :1] for name, value in made_up_arrays().items() if name[:5] in ("train", "deplo")}
    shown = figure_reconstruction_grid(arrays).figure.axes[0].images[0].get_array()
    np.testing.assert_array_equal(shown[..., 0], shown[..., 2])


@pytest.mark.parametrize("images", [np.uint8, np.float32])
def test_the_frame_of_an_image_is_as_light_as_its_attention(images: Any) -> None:
    drawn = figure_attention(made_up_arrays(images=images))
    assert len(drawn.figure.axes) == 2
    shown = drawn.figure.axes[0].images[0].get_array()
    assert shown.shape == (16, 4 * 16, 3)  # 8 pixels and a border of 4 on either side
    np.testing.assert_allclose(shown[2, [2, 18, 34, 50], 0], [0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(shown[8, [8, 24, 40, 56], 0], 0.25, atol=0.01)  # the images themselves
    assert "largest weight is 0.400" in drawn.alt
    render(drawn)
    with pytest.raises(ShapeError, match="attention_weights"):
        figure_attention(made_up_arrays() | {"attention_weights": np.ones((2, 3))})


def write_run(folder: Path, arrays: dict[str, Any]) -> Path:
    folder.mkdir()
    (folder / "history.jsonl").write_text(made_up_history(10).to_jsonl())
    np.savez(folder / "arrays.npz", **arrays)
    return folder


def test_everything_that_rows_and_folders_allow_is_written_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)
    rows = [clustered(seed, [1, 2], [1.0, 1.0, 1.0, 1.0]) for seed in (1, 0)]
    rows += [made_up("ours-clustering", 0, 0.5, "adult-sb"), made_up("erm", 0, 0.5, "adult-sb")]
    table = {name: made_up_arrays()[name] for name in ("z_early", "z_late", "test_sources", "early_step")}
    folders = {
        made_up_hash("cmnist-sb", "ours-clustering", 0): write_run(tmp_path / "a", made_up_arrays()),
        made_up_hash("cmnist-sb", "ours-clustering", 1): write_run(tmp_path / "b", made_up_arrays()),
        made_up_hash("adult-sb", "ours-clustering", 0): write_run(tmp_path / "c", table),
        made_up_hash("adult-sb", "erm", 0): tmp_path / "absent",
    }
    out = tmp_path / "figures"
    written = plot_all(rows, folders, out)
    names = [item.path.name for item in written]
    assert names == [
        "boxes-cmnist-sb.png",
        "clusters-cmnist-sb.png",
        "boxes-adult-sb.png",
        "curves-cmnist-sb-ours-clustering.png",
        "representation-cmnist-sb-ours-clustering-seed0.png",
        "reconstructions-cmnist-sb-ours-clustering-seed0.png",
        "attention-cmnist-sb-ours-clustering-seed0.png",
        "curves-adult-sb-ours-clustering.png",
        "representation-adult-sb-ours-clustering-seed0.png",
    ]
    assert sorted(path.name for path in out.iterdir()) == sorted([*names, "figures.json"])  # and no draft is left
    assert all(item.path.read_bytes().startswith(b"\x89PNG") and item.alt for item in written)
    assert read_index(out) == {item.path.name: item.alt for item in written}


def test_oracles_are_marked_in_figures_of_single_runs(tmp_path: Path) -> None:
    folders = {
        made_up_hash("cmnist-sb", method, 0): write_run(tmp_path / method, {})
        for method in ("ours-oracle", "ours-clustering")
    }
    rows = [made_up("ours-oracle", 0, 0.9), made_up("ours-clustering", 0, 0.9)]
    ours, oracle = plot_all(rows, folders, tmp_path / "figures", ["curves"])
    assert "† sees deployment labels" in oracle.alt
    assert "†" not in ours.alt


def test_only_the_kinds_asked_for_are_drawn_and_older_words_are_kept(tmp_path: Path) -> None:
    (tmp_path / "curves-old.png").write_bytes(b"made up")
    (tmp_path / "figures.json").write_text(json.dumps({"curves-old.png": "old", "gone.png": "no such file"}))
    rows = [clustered(0, [1, 2], [1.0, 1.0, 1.0, 1.0])]
    (only,) = plot_all(rows, {}, tmp_path, ["clusters"])
    assert only.path.name == "clusters-cmnist-sb.png"
    assert read_index(tmp_path).keys() == {"curves-old.png", "clusters-cmnist-sb.png"}


def test_a_figure_that_cannot_be_finished_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [made_up("erm", 0, 0.5)]
    plot_all(rows, {}, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def fail(*_: Any) -> None:
        raise OSError("made up: the disk is full")

    monkeypatch.setattr("supportmatch.bench.store.os.replace", fail)
    with pytest.raises(OSError, match="disk is full"):
        plot_all([made_up("erm", 0, 0.9)], {}, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
