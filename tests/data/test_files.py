"""Tables on disk: what is read, and what is said about files that are none."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from supportmatch.data import files
from supportmatch.data.files import as_numbers, names_of, open_table, take_rows
from supportmatch.errors import TableFileError


def write(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    return tmp_path / "table.csv"


def test_cells_and_names_are_trimmed_and_marks_mean_missing(csv: Path) -> None:
    file = open_table(write(csv, "\ufeffage, job ,zip\r\n 39, State-gov,007\r\n?, cook ,008\r\n40,,009\r\n"))
    assert file.names == ("age", "job", "zip")
    assert file.read().to_pydict() == {
        "age": ["39", None, "40"],
        "job": ["State-gov", "cook", None],
        "zip": ["007", "008", "009"],
    }


def test_what_means_missing_can_be_chosen(csv: Path) -> None:
    table = open_table(write(csv, "a,b\n?,-9\n1,2\n"), missing_marks=("", "-9")).read()
    assert table.to_pydict() == {"a": ["?", "1"], "b": [None, "2"]}


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(csv: Path, delimiter: str) -> None:
    text = delimiter.join(["a", '"b, or not"']) + "\n" + delimiter.join(["1", "2"]) + "\n"
    assert open_table(write(csv, text)).read().to_pydict() == {"a": ["1"], "b, or not": ["2"]}


def test_a_list_is_a_table_of_one_column(csv: Path) -> None:
    assert open_table(write(csv, "file\na.png\nb.png\n")).read().to_pydict() == {"file": ["a.png", "b.png"]}


def spelt(column: pa.ChunkedArray) -> list[str | None]:
    named = names_of(column)
    return [named.names[i] if i >= 0 else None for i in named.ids]


def test_what_rows_left_out_held_does_not_decide_what_a_column_is(csv: Path) -> None:
    table = open_table(write(csv, "a,b\n1,x\nword,y\n3,x\n")).read()
    assert as_numbers(table["a"]) is None
    kept = take_rows(table, np.array([0, 2]))
    numbers = as_numbers(kept["a"])
    assert numbers is not None
    assert numbers.to_pylist() == [1.0, 3.0]
    assert names_of(kept["b"]).names == ("x",)
    assert names_of(table["b"]).counts().tolist() == [2, 1]


def test_a_header_may_be_long_and_hold_line_ends_within_quotes(csv: Path) -> None:
    names = [f"embedding {i}" for i in range(9_000)]
    write(csv, ",".join(names) + "\n" + ",".join("1" for _ in names) + "\n")
    assert open_table(csv).read().shape == (1, 9_000)
    assert open_table(write(csv, 'a,"b\nc"\n1,2\n')).read().to_pydict() == {"a": ["1"], "b\nc": ["2"]}
    assert open_table(write(csv, "a,b\r1,2\r3,4\r")).read().to_pydict() == {"a": ["1", "3"], "b": ["2", "4"]}
    assert open_table(write(csv, "a,b\n1,2")).read().to_pydict() == {"a": ["1"], "b": ["2"]}


def test_a_compressed_csv_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv.gz", gzip.compress(b"a,b\n1,2\n"))
    assert open_table(path).read().to_pydict() == {"a": ["1"], "b": ["2"]}


def test_an_index_that_was_written_along_gets_a_name(csv: Path) -> None:
    pd.DataFrame({"a": [5]}).to_csv(csv)
    assert open_table(csv).names == ("(row name)", "a")


def test_parquet_is_known_by_its_content_and_keeps_its_types(tmp_path: Path) -> None:
    path = tmp_path / "misnamed.csv"
    pd.DataFrame({"n": [1, 2], "t": ["a", None]}).to_parquet(path)
    table = open_table(path).read()
    assert pa.types.is_int64(table.schema.field("n").type)
    assert table.to_pydict() == {"n": [1, 2], "t": ["a", None]}


def test_text_in_the_layout_of_views_is_text(tmp_path: Path) -> None:
    table = pa.table({"t": pa.array([" a", "?"], pa.string_view()), "b": pa.array([b"1", b"2"], pa.binary_view())})
    pa.parquet.write_table(table, tmp_path / "views.parquet")
    read = open_table(tmp_path / "views.parquet").read()
    assert [str(kind) for kind in read.schema.types] == [
        "dictionary<values=string, indices=int32, ordered=0>",
        "binary",
    ]
    assert read["t"].to_pylist() == ["a", None]


def test_an_open_quote_in_a_header_does_not_show_the_rows(csv: Path) -> None:
    with pytest.raises(TableFileError, match="opens a quote that is never closed") as caught:
        open_table(write(csv, 'u,"v\nsecret,1\nprivate,2\n'))
    assert "secret" not in str(caught.value)


def test_text_in_parquet_means_what_it_means_in_a_csv(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    words = pd.Series([" State-gov", "?", None], dtype="category")
    pd.DataFrame({"n": [1.5, None, 2], "t": [" cook ", "?", None], "c": words}).to_parquet(path)
    file = open_table(path)
    assert file.read().to_pydict() == {
        "n": [1.5, None, 2.0],
        "t": ["cook", None, None],
        "c": ["State-gov", None, None],
    }
    assert next(file.pieces(raw=True))["t"].to_pylist() == [" cook ", "?", None]


def test_pieces_are_the_whole_and_raw_ones_are_as_in_the_file(csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_BLOCK_BYTES", 64)
    write(csv, "a,b\n" + "".join(f" {i}, ?\n" for i in range(100)))
    file = open_table(csv)
    assert len(list(file.pieces())) > 3
    assert file.read()["a"].to_pylist() == [str(i) for i in range(100)]
    assert next(file.pieces(raw=True)).to_pydict()["b"][0] == " ?"


def test_a_word_after_many_numbers_is_still_read(csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_BLOCK_BYTES", 64)  # the word is in a later block than the first
    write(csv, "a,b\n" + "1,2\n" * 50 + "one,2\n")
    assert open_table(csv).read()["a"].to_pylist()[-1] == "one"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\n", "first line"),
        (b"a,b\n", "header but no rows"),
        (b"a,b\n1,2\n1\n", "Expected 2 columns"),
        (b"a,b\n1,\xff\n", "not UTF-8"),
        (b"caf\xe9,b\n1,2\n", "not UTF-8"),
        (b"\x89PNG\r\n\x1a\n\0\0\0", "not a text file"),
        (b"PK\x03\x04\x14\0\0\0", "unpack other archives"),
        (b"a,a\n1,2\n", "several columns named 'a'"),
        (b"a,,b\n1,2,3\n", "column 2"),
        (b"PAR1 and no more", "cannot be read as a table"),
    ],
)
def test_a_file_that_is_no_table_is_one_sentence(csv: Path, content: bytes, said: str) -> None:
    with pytest.raises(TableFileError) as caught:
        open_table(write(csv, content)).read()
    assert said in str(caught.value)
    assert str(csv) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"<!DOCTYPE html>\n<html>", b"\n\n  <HTML lang='en'>\n", b'\xef\xbb\xbf<?xml version="1.0"?>\n<a>\n']
)
def test_a_web_page_is_said_to_be_one(tmp_path: Path, content: bytes) -> None:
    for path in (write(tmp_path / "page.csv", content), write(tmp_path / "page.csv.gz", gzip.compress(content))):
        with pytest.raises(TableFileError, match="is a web page or XML, not a table: download the file itself"):
            open_table(path)


def test_a_missing_file_and_a_folder_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TableFileError, match="there is no file"):
        open_table(tmp_path / "no.csv")
    with pytest.raises(TableFileError, match="is a folder"):
        open_table(tmp_path)


def test_numbers_are_numbers_only_if_all_of_them_are() -> None:
    def found(*values: str | None) -> list[float | None] | None:
        numbers = as_numbers(pa.chunked_array([list(values)], pa.string()))
        return None if numbers is None else numbers.to_pylist()

    assert found("1", "-2.5", ".5", "3.", "1e-3", None) == [1, -2.5, 0.5, 3, 0.001, None]
    assert found("1", "0x10") is None
    assert found("1", "1,000") is None
    assert found(None, None) == [None, None]


def test_whole_floats_are_named_like_whole_numbers() -> None:
    assert spelt(pa.chunked_array([[1.0, float("nan"), 0.0]])) == ["1", None, "0"]
    assert spelt(pa.chunked_array([[True, False]])) == ["true", "false"]
    assert spelt(pa.chunked_array([["True", "FALSE", "2.0", "2.50"]])) == ["true", "false", "2", "2.50"]


def test_a_name_does_not_depend_on_the_values_around_it() -> None:
    for other in (2.0, 2.5, None):
        assert spelt(pa.chunked_array([[1e20, other]]))[0] == "1e+20"
    assert spelt(pa.chunked_array([pa.array([1.5, 2.0], pa.float16())])) == ["1.5", "2"]
