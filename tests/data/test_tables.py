"""The table encoder: what it makes of columns, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from supportmatch.config import TableConfig
from supportmatch.data.containers import TableLayout
from supportmatch.data.tables import TableEncoder
from supportmatch.errors import (
    FeatureMismatchError,
    ModelFileError,
    NotFiniteError,
    ShapeError,
    SupportMatchWarning,
)

TRAIN = pd.DataFrame({"age": [20, 40, 60], "job": ["cook", "pilot", "cook"], "member": [True, False, True]})


def test_category_blocks_come_first_in_column_order_then_numbers() -> None:
    encoder = TableEncoder.fit(TRAIN)
    assert encoder.feature_names == ("job=cook", "job=pilot", "member=False", "member=True", "age")
    assert encoder.layout == TableLayout(blocks=((0, 2), (2, 4)), continuous=(4,))
    x = encoder.transform(TRAIN)
    assert x.dtype == np.float32
    assert x[:, :4].tolist() == [[1, 0, 0, 1], [0, 1, 1, 0], [1, 0, 0, 1]]
    assert x[:, 4] == pytest.approx([-np.sqrt(1.5), 0, np.sqrt(1.5)])


@pytest.mark.parametrize("dtype", ["object", "str", "string", "category"])
def test_every_way_to_hold_strings_is_categorical(dtype: Any) -> None:
    frame = pd.DataFrame({"job": pd.Series(["cook", "pilot"]).astype(dtype)})
    encoder = TableEncoder.fit(frame)
    assert encoder.feature_names == ("job=cook", "job=pilot")
    assert encoder.transform(pd.DataFrame({"job": ["pilot"]})).tolist() == [[0, 1]]


def test_a_category_column_of_numbers_is_one_hot() -> None:
    frame = pd.DataFrame({"zone": pd.Categorical([10, 9, 10])})
    assert TableEncoder.fit(frame).feature_names == ("zone=9", "zone=10")


def test_nullable_numbers_and_booleans_without_gaps_are_accepted() -> None:
    frame = pd.DataFrame({"n": pd.array([1, 3], dtype="Int64"), "b": pd.array([True, False], dtype="boolean")})
    assert TableEncoder.fit(frame).transform(frame).tolist() == [[0, 1, -1], [1, 0, 1]]


def test_categories_come_from_both_sets_but_means_from_training_alone() -> None:
    deploy = pd.DataFrame({"age": [90], "job": ["baker"], "member": [True]})
    encoder = TableEncoder.fit(TRAIN, deploy)
    assert encoder.feature_names[:3] == ("job=baker", "job=cook", "job=pilot")
    assert encoder.numeric == TableEncoder.fit(TRAIN).numeric


def test_columns_may_come_in_another_order() -> None:
    encoder = TableEncoder.fit(TRAIN, TRAIN[["job", "age", "member"]])
    assert np.array_equal(encoder.transform(TRAIN), encoder.transform(TRAIN[["member", "job", "age"]]))


def test_a_constant_column_becomes_zero() -> None:
    # The mean of seven times 0.1 is not 0.1, so that the standard deviation is not quite zero either.
    encoder = TableEncoder.fit(np.full((7, 1), 0.1))
    assert encoder.numeric[0].std == 1.0
    assert encoder.transform(np.full((7, 1), 0.1)) == pytest.approx(0, abs=1e-12)


@given(hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2), elements=st.integers(-1_000, 1_000)))
def test_an_array_of_numbers_is_standardised_column_by_column(x: Any) -> None:
    encoder = TableEncoder.fit(x)
    z = encoder.transform(x)
    assert encoder.layout == TableLayout.all_continuous(x.shape[1])
    assert z.mean(axis=0) == pytest.approx(0, abs=1e-4)
    assert z.std(axis=0) == pytest.approx((x.min(axis=0) != x.max(axis=0)).astype(float), abs=1e-3)


NAMES = st.text(max_size=3)


@given(
    st.lists(st.tuples(NAMES, st.floats(-1e6, 1e6), st.booleans()), min_size=1, max_size=8),
    st.lists(NAMES, min_size=3, max_size=3, unique=True),
)
def test_an_encoder_survives_json_exactly(rows: list[tuple[str, float, bool]], names: list[str]) -> None:
    frame = pd.DataFrame(rows, columns=names)
    encoder = TableEncoder.fit(frame)
    again = TableEncoder.from_json(encoder.to_json())
    assert again == encoder
    assert np.array_equal(again.transform(frame), encoder.transform(frame))


def test_a_broken_json_text_is_refused() -> None:
    for text in ("{", "{}", "[]", '{"categorical": [1], "numeric": []}'):
        with pytest.raises(ModelFileError, match="save the model again"):
            TableEncoder.from_json(text)


@pytest.mark.parametrize(
    "bad",
    [
        {"age": [1.0, np.nan], "job": ["cook", "pilot"]},
        {"age": pd.array([1, None], dtype="Int64"), "job": ["cook", "pilot"]},
        {"age": [1.0, 2.0], "job": ["cook", None], "extra": [1, 2]},
    ],
)
def test_missing_values_are_refused_with_their_column(bad: dict[str, Any]) -> None:
    frame = pd.DataFrame(bad)
    column = frame.columns[frame.isna().any()][0]
    with pytest.raises(NotFiniteError, match=f"missing values in column '{column}': fill them or drop"):
        TableEncoder.fit(frame)


def test_all_columns_with_missing_values_are_named_at_once() -> None:
    with pytest.raises(NotFiniteError, match="columns 'a', 'c'"):
        TableEncoder.fit(pd.DataFrame({"a": [None, 1.0], "b": [1, 2], "c": ["x", None]}))


def test_infinity_is_refused_with_its_column() -> None:
    with pytest.raises(NotFiniteError, match="infinity in column 'x1'"):
        TableEncoder.fit(np.array([[0.0, np.inf], [1.0, 2.0]]))


@pytest.mark.parametrize(
    ("deploy", "message"),
    [
        (TRAIN.drop(columns="job"), "lacks column 'job'"),
        (TRAIN.assign(wage=1), "has the extra column 'wage'"),
        (TRAIN.rename(columns={"job": "Job"}), "lacks column 'job' and has the extra column 'Job'"),
        (TRAIN.assign(age=["a", "b", "c"]), "'age' is numeric in the training table but categorical"),
        (TRAIN.assign(member=["yes", "no", "no"]), "'member' holds strings in one of"),
    ],
)
def test_deployment_columns_that_differ_are_named(deploy: pd.DataFrame, message: str) -> None:
    with pytest.raises(FeatureMismatchError, match=message):
        TableEncoder.fit(TRAIN, deploy)


def test_a_table_for_prediction_is_held_to_the_same_columns() -> None:
    encoder = TableEncoder.fit(TRAIN)
    with pytest.raises(FeatureMismatchError, match=r"the new table .* lacks column 'age'"):
        encoder.transform(TRAIN.drop(columns="age"))
    with pytest.raises(FeatureMismatchError, match=r"the deployment table .* lacks"):
        encoder.transform(np.zeros((1, 3)), "deployment")
    with pytest.raises(FeatureMismatchError, match=r"'age' was numeric .* convert it to numbers"):
        encoder.transform(TRAIN.assign(age="old"))


def test_a_category_never_seen_is_refused_with_its_column_and_value() -> None:
    with pytest.raises(FeatureMismatchError, match=r"column 'job' holds 'judge', .* fit again"):
        TableEncoder.fit(TRAIN).transform(TRAIN.assign(job="judge"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, "x"], "holds int and str"),
        ([True, "x"], "holds bool and str"),
        ([[1], [2]], "holds list"),
        (pd.Series([1, 2], dtype=object), "type object and holds int"),
        (pd.Categorical([1, "x"]), "type category and holds int and str"),
        (pd.to_datetime(["2020-01-01", "2020-01-02"]), "type datetime64"),
        ([1j, 2j], "type complex128"),
    ],
)
def test_columns_that_are_neither_numbers_nor_categories_of_one_kind_are_refused(values: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=f"column 'a' of the training table has .*{message}.*convert it"):
        TableEncoder.fit(pd.DataFrame({"a": values}))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.zeros(3), "reshape it"),
        (np.zeros((0, 3)), "check how it was read"),
        (np.array([["a"]]), "pass a DataFrame"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "rename them"),
    ],
)
def test_what_is_not_a_table_is_refused(table: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        TableEncoder.fit(table)


GAPS = pd.DataFrame({"age": [20.0, None, 60.0, 30.0], "job": ["cook", None, "cook", "pilot"]})
LENIENT = TableConfig(missing="own-category", unknown="ignore")


def test_missing_values_get_a_category_of_their_own_and_numbers_the_median_too() -> None:
    encoder = TableEncoder.fit(GAPS, config=LENIENT)
    assert encoder.feature_names == ("job=(missing)", "job=cook", "job=pilot", "age known", "age missing", "age")
    assert encoder.layout == TableLayout(blocks=((0, 3), (3, 5)), continuous=(5,))
    x = encoder.transform(GAPS)
    assert x[:, :5].tolist() == [[0, 1, 0, 1, 0], [1, 0, 0, 0, 1], [0, 1, 0, 1, 0], [0, 0, 1, 1, 0]]
    assert x[1, 5] == pytest.approx((30 - np.mean([20, 60, 30])) / np.std([20, 60, 30]), abs=1e-6)


def test_values_that_are_missing_for_the_first_time_are_filled_without_a_category() -> None:
    whole = GAPS.dropna()
    encoder = TableEncoder.fit(whole, config=LENIENT)
    assert encoder.feature_names == ("job=cook", "job=pilot", "age")
    x = encoder.transform(pd.DataFrame({"age": [None], "job": [None]}, dtype=object).astype({"age": float}))
    assert x[0, :2].tolist() == [0, 0]
    assert np.isfinite(x).all()


def test_unknown_values_are_none_of_the_known_ones_if_they_may_be() -> None:
    encoder = TableEncoder.fit(GAPS.dropna(), config=LENIENT)
    with pytest.warns(SupportMatchWarning, match=r"in 1 of 1 rows column 'job' holds a value .*'baker'"):
        assert encoder.transform(pd.DataFrame({"age": [30.0], "job": ["baker"]}))[0, :2].tolist() == [0, 0]


def test_names_are_compared_as_in_files_on_request() -> None:
    config = TableConfig(missing="own-category", text="as-in-files", missing_marks=("?",))
    train = pd.DataFrame({"age": [30.0, 50.0], "k": ["1", "2"], "b": ["true", None]})
    encoder = TableEncoder.fit(train, config=config)
    expected = encoder.transform(train)
    raw = pd.DataFrame({" age": [" 30 ", "50"], "k ": [1.0, 2.0], "b": np.array([True, None], dtype=object)})
    assert encoder.transform(raw).tolist() == expected.tolist()
    raw["b"] = [" TRUE", " ? "]
    assert encoder.transform(raw).tolist() == expected.tolist()
    assert TableEncoder.from_json(encoder.to_json()) == encoder


def test_rare_values_are_put_together_and_unknown_ones_join_them() -> None:
    jobs = pd.DataFrame({"job": [*"aaabbc", "d"]})
    encoder = TableEncoder.fit(jobs, config=TableConfig(max_categories=3))
    assert encoder.feature_names == ("job=a", "job=b", "job=(other)")
    assert encoder.transform(pd.DataFrame({"job": ["c", "d", "zzz", "a"]})).argmax(axis=1).tolist() == [2, 2, 2, 0]


def test_a_column_without_any_training_value_is_refused() -> None:
    with pytest.raises(NotFiniteError, match="no value at all"):
        TableEncoder.fit(pd.DataFrame({"age": [None, None]}, dtype=float), config=LENIENT)


@pytest.mark.parametrize("config", [TableConfig(), TableConfig(missing="own-category", max_categories=2)])
def test_the_policy_travels_with_the_encoder(config: TableConfig) -> None:
    encoder = TableEncoder.fit(GAPS.dropna(), config=config)
    assert TableEncoder.from_json(encoder.to_json()) == encoder
