"""Colored MNIST as the appendix of the paper builds it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from supportmatch.data.colored_mnist import PALETTE, SETTINGS, load_colored_mnist, paint
from supportmatch.data.embedded import load_mnist_digits
from supportmatch.data.problems import Problem
from supportmatch.errors import UnknownNameError

load = cache(load_colored_mnist)


def counts(problem: Problem, part: str) -> NDArray[Any]:
    y, s = {
        "train": (problem.y_train, problem.subgroup_train),
        "deploy": (problem.oracle.y, problem.oracle.subgroup),
        "test": (problem.y_test, problem.subgroup_test),
    }[part]
    return problem.grid.count(problem.grid.class_ids(y), problem.grid.subgroup_ids(s))


def images(problem: Problem, part: str) -> NDArray[np.uint8]:
    x = {"train": problem.X_train, "deploy": problem.X_deploy, "test": problem.X_test}[part]
    assert isinstance(x, np.ndarray)
    return x


@pytest.mark.parametrize("setting", list(SETTINGS))
def test_a_digit_is_painted_in_exactly_its_colour_on_black(setting: str) -> None:
    problem = load(setting, 0)
    for part, names in (
        ("train", problem.subgroup_train),
        ("deploy", problem.oracle.subgroup),
        ("test", problem.subgroup_test),
    ):
        x = images(problem, part)
        assert x.shape == (len(names), 3, 32, 32)
        assert x.dtype == np.uint8
        assert not x[:, :, [0, 1, -2, -1]].any()  # the padding
        for colour in problem.subgroup_names:
            for channel, level in enumerate(PALETTE[str(colour)]):
                seen = x[names == colour, channel]
                assert set(np.unique(seen)) <= {0, level}


def test_painting_cuts_grey_at_one_half() -> None:
    grey = np.zeros((1, 28, 28), dtype=np.uint8)
    grey[0, 0, :3] = [127, 128, 255]
    image = paint(grey, np.array([PALETTE["blue"]], dtype=np.uint8))
    assert image[0, 2, 2, 2:5].tolist() == [0, 128, 128]
    assert np.count_nonzero(image) == 2


@pytest.mark.parametrize(
    ("setting", "missing"),
    [
        ("sb", {"4/purple"}),
        ("ms", {"2/purple", "4/purple"}),
        ("3digit", {"2/green", "2/blue", "4/blue", "6/green"}),
    ],
)
def test_training_lacks_exactly_the_sources_of_the_paper(setting: str, missing: set[str]) -> None:
    problem = load(setting, 0)
    empty = np.flatnonzero(counts(problem, "train").ravel() == 0)
    assert {problem.grid.source_name(int(source)) for source in empty} == missing
    assert (counts(problem, "deploy") > 0).all()


def test_subgroup_bias_has_the_sizes_of_the_paper() -> None:
    problem = load("sb", 0)
    assert counts(problem, "train").ravel() == pytest.approx([990, 298, 0, 970], rel=0.1)
    assert counts(problem, "deploy").ravel() == pytest.approx([1_390, 794, 389, 1_947], rel=0.1)


def test_the_missing_subgroup_paints_all_training_digits_green_and_throws_none_away() -> None:
    train = counts(load("ms", 0), "train")
    # 5,900 digits before the twos are thinned to 85 %: undoing the thinning gives all of them back.
    assert train[0, 1] / 0.85 + train[1, 1] == pytest.approx(5_900, abs=1)
    assert train[:, 0].tolist() == [0, 0]


def test_three_digits_are_split_but_not_thinned() -> None:
    problem = load("3digit", 0)
    assert len(problem.X_deploy) == 7_087
    seen = counts(problem, "train")
    assert seen[seen > 0] == pytest.approx([1_180] * 5, rel=0.1)


@pytest.mark.parametrize(
    ("setting", "per_digit"), [("sb", [1_032, 982]), ("ms", [1_032, 982]), ("3digit", [1_032, 982, 958])]
)
def test_the_test_set_is_the_whole_official_one_with_uniform_colours(setting: str, per_digit: list[int]) -> None:
    test = counts(load(setting, 0), "test")
    assert test.sum(axis=1).tolist() == per_digit
    assert test / test.sum(axis=1, keepdims=True) == pytest.approx(1 / test.shape[1], abs=0.06)


def test_no_digit_is_in_both_training_and_deployment() -> None:
    problem = load("sb", 0)

    def shapes(part: str) -> list[bytes]:
        return [np.packbits(image.any(axis=0)).tobytes() for image in images(problem, part)]

    digits = load_mnist_digits()
    pool = digits.train_images[np.isin(digits.train_labels, (2, 4))]
    assert len({np.packbits(image).tobytes() for image in pool > 127}) == len(pool)  # no two digits look the same
    assert not set(shapes("train")) & set(shapes("deploy"))


def test_colour_says_nothing_about_the_digit_before_thinning() -> None:
    deploy = counts(load("3digit", 0), "deploy")
    assert deploy / deploy.sum(axis=1, keepdims=True) == pytest.approx(1 / 3, abs=0.03)


def test_the_seed_decides_everything() -> None:
    first, again, other = load_colored_mnist("sb", 3), load_colored_mnist("sb", 3), load("sb", 0)
    for part in ("train", "deploy", "test"):
        assert np.array_equal(images(first, part), images(again, part))
    assert np.array_equal(first.oracle.subgroup, again.oracle.subgroup)
    assert not np.array_equal(first.subgroup_test, other.subgroup_test)


def test_names_are_digits_and_colours() -> None:
    problem = load("sb", 0)
    assert problem.class_names == (2, 4)
    assert problem.subgroup_names == ("purple", "green")
    assert set(problem.y_train.tolist()) == {2, 4}
    assert load("3digit", 0).subgroup_names == ("purple", "green", "blue")


def test_an_unknown_setting_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="choose one of sb, ms, 3digit"):
        load_colored_mnist("10digit", 0)
