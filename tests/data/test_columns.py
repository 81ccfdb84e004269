"""Which column is what, and what is refused."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from supportmatch.data.columns import Choices, Column, ColumnPlan, Roles, plan_columns, read_labels
from supportmatch.errors import ConfigError, TableFileError, UnknownNameError
from supportmatch.sources import SourceGrid

ROLES = Roles("y", ("s",))
N = 60


def table(**columns: Any) -> pa.Table:
    return pa.table({"y": ["a", "b"] * (N // 2), "s": ["u", "v"] * (N // 2), **columns})


def plan(*tables: pa.Table, **choices: tuple[str, ...]) -> dict[str, Column]:
    train, *deploy = tables
    found = plan_columns(train, deploy[0] if deploy else None, ROLES, Choices(**choices))
    return {column.name: column for column in found.columns}


NUMBERS = [str(i % 7) for i in range(N)]
WORDS = ["red", "green", "blue"] * (N // 3)


def test_numbers_are_numeric_and_words_are_categorical() -> None:
    found = plan(table(n=NUMBERS, w=WORDS))
    assert (found["n"].kind, found["n"].n_values, found["w"].kind, found["w"].n_values) == (
        "numeric",
        7,
        "categorical",
        3,
    )


def test_label_and_subgroup_are_no_features() -> None:
    assert plan(table(n=NUMBERS)).keys() == {"n"}


@pytest.mark.parametrize(
    ("values", "note"),
    [
        (["same"] * N, "always 'same'"),
        ([None] * N, "no values"),
        ([str(i) for i in range(N)], "numbers the rows"),
        ([f"name {i}" for i in range(N)], "nearly every row has a value of its own"),
        (["2024-01-02", "2023-12-31"] * (N // 2), "dates"),
        ([datetime.date(2024, 1, 2), datetime.date(2023, 1, 2)] * (N // 2), "dates"),
        ([[1, 2], [3]] * (N // 2), "neither numbers nor names"),
    ],
)
def test_columns_of_no_use_are_dropped_with_a_reason(values: list[Any], note: str) -> None:
    found = plan(table(x=values, n=NUMBERS))["x"]
    assert found.kind == "dropped"
    assert note in found.note


def test_names_of_rows_are_no_features_in_whatever_order_and_file() -> None:
    shuffled = np.random.default_rng(0).permutation(N) + 1_000
    texts = [f"id {i}" for i in range(N)]  # start anew in the other file
    columns = {"(row name)": NUMBERS, "__index_level_0__": NUMBERS, "pid": shuffled, "id": texts, "n": NUMBERS}
    found = plan(table(**columns), table(**columns))
    assert [name for name, column in found.items() if column.kind != "dropped"] == ["n"]
    assert found["(row name)"].note == found["__index_level_0__"].note == "names of the rows"


def test_infinity_is_refused_before_anything_is_fitted() -> None:
    with pytest.raises(TableFileError, match="column 'n' of the tables holds infinity"):
        plan(table(n=["1", "inf"] * (N // 2)))


def test_a_column_that_varies_only_at_deployment_is_kept() -> None:
    assert plan(table(w=["red"] * N, n=NUMBERS), table(w=WORDS, n=NUMBERS))["w"].kind == "categorical"


def test_columns_of_one_file_only_are_dropped() -> None:
    found = plan(table(n=NUMBERS, only_train=WORDS), table(n=NUMBERS, only_deploy=WORDS))
    assert found["only_train"].note == "not in the deployment file"
    assert found["only_deploy"].note == "not in the training file"


def test_the_user_decides_over_what_is_found() -> None:
    found = plan(
        table(n=NUMBERS, i=[str(i) for i in range(N)], w=WORDS), categorical=("n",), numeric=("i",), drop=("w",)
    )
    assert [found[name].kind for name in "niw"] == ["categorical", "numeric", "dropped"]
    with pytest.raises(ConfigError, match="no column zip"):
        plan(table(n=NUMBERS), drop=("zip",))
    with pytest.raises(ConfigError, match="Did you mean 'zipcode'"):
        plan(table(zipcode=WORDS), drop=("zip code",))
    with pytest.raises(ConfigError, match="two kinds"):
        plan(table(n=NUMBERS), drop=("n",), numeric=("n",))


def test_numbers_mixed_with_words_are_refused_with_examples_until_the_user_decides() -> None:
    mixed = [*NUMBERS[:-2], "unknown", "n.a."]
    with pytest.raises(
        TableFileError, match=r"'age' .* 58 numbers with 2 values that are no numbers \(unknown; n.a.\)"
    ):
        plan(table(age=mixed))
    assert plan(table(age=mixed), categorical=("age",))["age"].kind == "categorical"
    with pytest.raises(TableFileError, match="'w'"):
        plan(table(w=WORDS), numeric=("w",))


def test_numbers_with_commas_are_no_categories() -> None:
    with pytest.raises(TableFileError, match=r"'p' of the tables holds \d+ values .* \(1,5; 2,5.*decimal point"):
        plan(table(p=["1,5", "2,5"] * (N // 2)))
    with pytest.raises(TableFileError, match="nothing between thousands"):
        plan(table(p=["1,234.5", "20"] * (N // 2)))
    assert plan(table(p=["1,5", "2,5"] * (N // 2)), categorical=("p",))["p"].kind == "categorical"


def test_all_mixed_columns_are_named_at_once() -> None:
    mixed = [*NUMBERS[:-1], "x"]
    with pytest.raises(TableFileError) as caught:
        plan(table(p=mixed, q=mixed))
    assert "'p'" in str(caught.value)
    assert "'q'" in str(caught.value)


def test_without_features_nothing_can_be_learnt() -> None:
    with pytest.raises(TableFileError, match="no column is left"):
        plan(table())


def test_features_are_selected_in_the_order_of_the_plan_as_floats_and_text() -> None:
    chosen = ColumnPlan((Column("n", "numeric"), Column("z", "categorical"), Column("d", "dropped")))
    found = chosen.select(pa.table({"z": [7, None], "n": ["1", None]}), "file")
    assert found.to_pydict() == {"n": [1.0, None], "z": ["7", None]}
    with pytest.raises(TableFileError, match="file lacks the column z"):
        chosen.select(pa.table({"n": ["1"]}), "file")
    with pytest.raises(TableFileError, match="infinity"):
        chosen.select(pa.table({"z": ["a"], "n": ["inf"]}), "file")
    with pytest.raises(TableFileError, match="mixes at least 1 number with at least 1 value that is no number"):
        chosen.select(pa.table({"z": ["a", "b"], "n": ["1", "x"]}), "file")


def test_labels_are_read_and_rows_without_are_counted() -> None:
    rows = pa.table({"y": ["1", "0", None, "1"], "s": ["u", "v", "u", None]})
    found = read_labels(rows, ROLES, "file")
    assert (found.grid.classes, found.grid.subgroups) == (("0", "1"), ("u", "v"))
    assert (found.y.tolist(), found.s.tolist(), found.rows.tolist(), found.n_without) == ([1, 0], [0, 1], [0, 1], 2)


def test_whole_floats_as_other_programs_write_them_are_the_same_class() -> None:
    found = read_labels(pa.table({"y": [1.0, 0.0, None], "s": ["u", "v", "u"]}), ROLES, "file")
    assert found.grid.classes == ("0", "1")


def test_a_column_of_many_values_is_neither_label_nor_subgroup() -> None:
    rows = pa.table({"y": [str(i) for i in range(500)], "s": ["u", "v"] * 250})
    with pytest.raises(TableFileError, match="column y of file has 500 different values"):
        read_labels(rows, ROLES, "file")


def test_several_subgroup_columns_make_a_product_of_declared_names() -> None:
    rows = pa.table({"y": ["0", "1"], "s": ["f", "m"], "t": ["p", "p"]})
    found = read_labels(rows, Roles("y", ("s", "t")), "file", subgroup_names=(None, ("p", "q")))
    assert found.grid.subgroups == ("f & p", "f & q", "m & p", "m & q")
    assert found.s.tolist() == [0, 2]


def test_names_that_were_not_declared_are_refused() -> None:
    rows = pa.table({"y": ["0", "1"], "s": ["f", "x"]})
    with pytest.raises(UnknownNameError, match="column s of file holds x"):
        read_labels(rows, ROLES, "file", subgroup_names=(("f", "m"),))
    with pytest.raises(UnknownNameError, match="column y of file holds 1"):
        read_labels(rows, ROLES, "file", grid=SourceGrid(("0", "2"), ("f", "x")))


def test_missing_roles_name_the_columns_that_there_are() -> None:
    with pytest.raises(TableFileError, match=r"no label column 'income': its columns are y, s"):
        Roles("income", ("s",)).check(["y", "s"], "file")
    with pytest.raises(TableFileError, match="no subgroup column 'sex'"):
        Roles("y", ("sex",)).check(["y", "s"], "file")
    with pytest.raises(TableFileError, match=r"its columns are Income, s\. Did you mean 'Income'\? Correct"):
        Roles("incme", ("s",)).check(["Income", "s"], "file")
    with pytest.raises(ConfigError, match="different columns"):
        Roles("y", ("y",)).check(["y", "s"], "file")
    with pytest.raises(TableFileError, match="no row of file has both"):
        read_labels(pa.table({"y": [None], "s": ["a"]}), ROLES, "file")


def test_ids_fit_the_grid() -> None:
    found = read_labels(table(), ROLES, "file")
    assert np.array_equal(found.grid.source_ids(found.y, found.s), [0, 3] * (N // 2))
