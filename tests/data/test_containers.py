"""The gate: each mistake has its own error type, and a message that says what to do."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from supportmatch.data.containers import Labeled, Rows, TableLayout, Unlabeled, check_labeled, check_unlabeled
from supportmatch.errors import (
    FeatureMismatchError,
    MissingClassError,
    NotFiniteError,
    ShapeError,
    SupportMatchError,
    TooFewClassesError,
    TooFewDeploymentRowsError,
    TooFewSubgroupsError,
    UnknownNameError,
)
from supportmatch.sources import SourceGrid

X = np.arange(12.0).reshape(4, 3)
Y = ["cat", "cat", "dog", "dog"]
S = ["day", "night", "day", "night"]
IMAGES = np.zeros((4, 3, 8, 8), dtype=np.uint8)


def test_a_good_training_set_passes_and_keeps_its_counts() -> None:
    train = check_labeled(X, Y, S)
    assert train.grid == SourceGrid(("cat", "dog"), ("day", "night"))
    assert train.counts.tolist() == [[1, 1], [1, 1]]
    assert train.source_ids.tolist() == [0, 1, 2, 3]
    assert train.x.dtype == np.float32
    assert train.layout == TableLayout.all_continuous(3)


def test_a_declared_subgroup_without_rows_is_kept_as_missing() -> None:
    train = check_labeled(X, Y, ["day"] * 4, subgroup_names=["day", "night"])
    assert train.support.missing_subgroups == (1,)


def test_images_stay_uint8() -> None:
    train = check_labeled(IMAGES, Y, S)
    assert train.is_images
    assert train.x.dtype == np.uint8
    assert train.layout is None


@pytest.mark.parametrize("shape", [(4,), (4, 3, 2), (4, 1, 2, 3, 4)])
def test_features_of_an_odd_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="reshape it"):
        check_labeled(np.zeros(shape), Y, S)


def test_empty_features_are_refused() -> None:
    with pytest.raises(ShapeError, match="check how it was read"):
        Rows(np.zeros((0, 3)))


def test_features_that_are_text_are_refused() -> None:
    with pytest.raises(ShapeError, match="encode the columns"):
        check_labeled(np.array([["a"]] * 4), Y, S)


@pytest.mark.parametrize(("y", "subgroup", "which"), [(Y[:3], S, "`y`"), (Y, S[:3], "`subgroup`")])
def test_labels_that_do_not_match_the_rows_are_refused(y: list[str], subgroup: list[str], which: str) -> None:
    with pytest.raises(ShapeError, match=f"{which} must hold one name for each of the 4 rows.*same rows"):
        check_labeled(X, y, subgroup)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_feature_that_is_not_finite_is_refused_with_its_row(value: float) -> None:
    x = X.copy()
    x[2, 1] = value
    with pytest.raises(NotFiniteError, match=r"1 rows hold NaN or infinity \(the first is row 2\): fill or drop"):
        check_labeled(x, Y, S)


@pytest.mark.parametrize("missing", [None, np.nan])
def test_a_missing_label_is_refused(missing: Any) -> None:
    with pytest.raises(NotFiniteError, match="`subgroup` holds missing values: drop the rows"):
        check_labeled(X, Y, np.array(["day", missing, "day", "night"], dtype=object))


def test_a_subgroup_that_was_not_declared_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown subgroup 'dusk' \(declared: 'day', 'night'\): declare it"):
        check_labeled(X, Y, ["day", "night", "dusk", "day"], subgroup_names=["day", "night"])


def test_a_class_that_was_not_declared_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown class 'dog'"):
        check_labeled(X, Y, S, class_names=["cat", "bird"])


def test_a_declared_class_without_rows_is_refused() -> None:
    with pytest.raises(MissingClassError, match=r"no rows of class 'bird'.*add labels for them or drop them"):
        check_labeled(X, Y, S, class_names=["cat", "dog", "bird"])


def test_a_single_class_is_refused() -> None:
    with pytest.raises(TooFewClassesError, match="check the label column"):
        check_labeled(X, ["cat"] * 4, S)


def test_a_single_subgroup_is_refused() -> None:
    with pytest.raises(TooFewSubgroupsError, match="declare every subgroup expected at deployment"):
        check_labeled(X, Y, ["day"] * 4)


def test_a_deployment_set_that_is_too_small_is_refused() -> None:
    with pytest.raises(TooFewDeploymentRowsError, match=r"has 4 rows, but at least 10 are needed.*collect more"):
        check_unlabeled(X, like=check_labeled(X, Y, S), min_rows=10)


def test_deployment_features_of_another_width_are_refused() -> None:
    with pytest.raises(FeatureMismatchError, match=r"shape \(2,\) where training has \(3,\): use the same columns"):
        check_unlabeled(X[:, :2], like=check_labeled(X, Y, S))


def test_a_deployment_table_for_training_images_is_refused() -> None:
    with pytest.raises(FeatureMismatchError, match="image size"):
        check_unlabeled(X, like=check_labeled(IMAGES, Y, S))


def test_deployment_images_on_another_scale_are_refused() -> None:
    with pytest.raises(FeatureMismatchError, match="pass both as uint8"):
        check_unlabeled(IMAGES.astype(np.float32), like=check_labeled(IMAGES, Y, S))


def test_deployment_rows_are_validated_as_well() -> None:
    with pytest.raises(NotFiniteError):
        check_unlabeled(np.full((4, 3), np.nan), like=check_labeled(X, Y, S))


def test_a_deployment_set_shares_the_layout_of_training() -> None:
    layout = TableLayout(blocks=((0, 2),), continuous=(2,))
    train = check_labeled(X, Y, S, layout=layout)
    assert check_unlabeled(X, like=train).layout == layout


def test_ids_outside_the_grid_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"y ids must lie in 0\.\.1"):
        Labeled(X, y=np.array([0, 1, 2, 0]), s=np.zeros(4, int), grid=SourceGrid((0, 1), (0, 1)))


def test_every_error_is_a_value_error() -> None:
    assert issubclass(SupportMatchError, ValueError)


def test_unlabeled_cannot_hold_labels() -> None:
    assert {field.name for field in dataclasses.fields(Unlabeled)} == {"x", "layout"}
    with pytest.raises(TypeError):
        Unlabeled(X, y=np.zeros(4))  # type: ignore[call-arg]


def test_labels_cannot_be_put_on_unlabeled_afterwards() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Unlabeled(X).y = np.zeros(4)  # type: ignore[attr-defined]


def test_labeled_is_not_an_unlabeled() -> None:
    train = check_labeled(X, Y, S)
    assert not isinstance(train, Unlabeled)
    assert not hasattr(train.without_labels(), "y")
    assert not hasattr(train.without_labels(), "s")


def test_taking_rows_takes_their_labels() -> None:
    part = check_labeled(X, Y, S).take(np.array([3, 0]))
    assert part.x[:, 0].tolist() == [9, 0]
    assert part.source_ids.tolist() == [3, 0]
