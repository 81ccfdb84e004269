"""Adult Income: the exact sizes that the paper's authors had."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest

from supportmatch.data.adult import CATEGORICAL, NUMERIC, load_adult_income
from supportmatch.data.problems import Features
from supportmatch.data.tables import TableEncoder
from supportmatch.errors import UnknownNameError

load = cache(load_adult_income)


def frame(x: Features) -> pd.DataFrame:
    assert isinstance(x, pd.DataFrame)
    return x


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("setting", "train"), [("sb", [[5_210, 8_395], [0, 3_816]]), ("ms", [[0, 8_395], [0, 3_816]])])
def test_every_source_has_the_size_of_the_paper(setting: str, train: list[list[int]], seed: int) -> None:
    problem = load(setting, seed)
    grid = problem.grid
    assert grid.count(grid.class_ids(problem.y_train), grid.subgroup_ids(problem.subgroup_train)).tolist() == train
    oracle = problem.oracle
    deploy = grid.count(grid.class_ids(oracle.y), grid.subgroup_ids(oracle.subgroup))
    assert deploy.tolist() == [[5_211, 8_395], [667, 3_815]]
    test = grid.count(grid.class_ids(problem.y_test), grid.subgroup_ids(problem.subgroup_test))
    assert test.tolist() == [[334, 334], [334, 334]]
    assert len(problem.X_train) == len(problem.y_train)
    assert len(problem.X_deploy) == len(oracle.y)
    assert len(problem.X_test) == len(problem.y_test)


def test_columns_are_categorical_first_then_numeric_and_tell_neither_sex_nor_income() -> None:
    x = frame(load("sb", 0).X_train)
    assert list(x.columns) == [*CATEGORICAL, *NUMERIC]
    assert set(x["native-country"]) == {"United-States", "not_United-States"}


@pytest.mark.parametrize("setting", ["sb", "ms"])
def test_encoding_gives_57_category_and_5_number_inputs(setting: str) -> None:
    problem = load(setting, 0)
    encoder = TableEncoder.fit(problem.X_train, problem.X_deploy)
    assert [stop - start for start, stop in encoder.layout.blocks] == [16, 7, 2, 14, 5, 6, 7]
    assert encoder.layout.continuous == (57, 58, 59, 60, 61)
    assert encoder.transform(problem.X_test).shape == (1_336, 62)


def test_both_settings_share_deployment_and_test_rows() -> None:
    sb, ms = load("sb", 0), load("ms", 0)
    assert frame(sb.X_deploy).equals(frame(ms.X_deploy))
    assert frame(sb.X_test).equals(frame(ms.X_test))
    assert frame(ms.X_train).equals(frame(sb.X_train)[sb.subgroup_train == "Male"].reset_index(drop=True))


def test_the_seed_decides_everything() -> None:
    first, again, other = load_adult_income("sb", 0), load("sb", 0), load("sb", 1)
    assert frame(first.X_train).equals(frame(again.X_train))
    assert np.array_equal(first.oracle.y, again.oracle.y)
    assert not frame(first.X_train).equals(frame(other.X_train))


def test_an_unknown_setting_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="choose one of sb, ms"):
        load_adult_income("race", 0)
