"""Tables on disk: CSV and Parquet, whole or piece by piece, without pandas or torch.

Text is trimmed, and marks such as `?` become missing. All cells of a CSV are text; whether a column is made of numbers
is decided from all of its values (`as_numbers`), never from the first block, so that a file means the same whole or in
pieces. Parquet keeps the types it brings, and its text means what the same text in a CSV would.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from supportmatch.errors import TableFileError
from supportmatch.sources import Ids

MISSING_MARKS = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL")
"""Text that counts as missing unless the user says otherwise."""

ROW_NAME = "(row name)"
"""The first column of a CSV if it has no name: an index that was written along."""

_PARQUET_MAGIC = b"PAR1"
_DELIMITERS = ",;\t|"
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^[+-]?(inf|Inf|INF|infinity|Infinity)$"
_BLOCK_BYTES = 1 << 22
_WEB_PAGES, _MOST_BLANK_BYTES = (b"<!doctype", b"<html", b"<?xml"), 1 << 16
_MOST_HEADER_BYTES = 1 << 24
_PIECE_ROWS, _LARGE_PIECE_ROWS = 1 << 16, 1 << 20
_TEXT = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True)
class TableFile:
    """A CSV or Parquet file whose header has been read."""

    path: Path
    names: tuple[str, ...]
    """Column names, trimmed."""
    delimiter: str | None
    """None for Parquet."""
    header_lines: int
    """Lines of a CSV that its header takes, more than one if names hold line ends."""
    missing_marks: tuple[str, ...]

    def read(self) -> pa.Table:
        """Return all rows; text is held once per distinct value (as Arrow's dictionaries)."""
        pieces = list(self.pieces())
        if not pieces:
            raise TableFileError(f"{self.path} has a header but no rows: check how it was written.")
        return pa.concat_tables(pieces, promote_options="permissive").unify_dictionaries()

    def pieces(self, raw: bool = False) -> Iterator[pa.Table]:
        """Yield the rows in order, a piece at a time, in memory that does not grow with the file.

        Args:
            raw: Leave text as it stands in the file, neither trimmed nor with missing marks applied.
        """
        try:
            if self.delimiter is None:
                text = (
                    [] if raw else [field.name for field in pa.parquet.read_schema(self.path) if _is_text(field.type)]
                )
                with pa.parquet.ParquetFile(self.path, read_dictionary=text) as file:
                    for batch in file.iter_batches(batch_size=_PIECE_ROWS if raw else _LARGE_PIECE_ROWS):
                        piece = pa.Table.from_batches([batch]).rename_columns(list(self.names))
                        yield piece if raw else self.trim(_without_views(piece))
                return
            kind = pa.string() if raw else _TEXT
            with _open_csv(self.path, self.delimiter, len(self.names), self.header_lines, kind) as reader:
                for batch in reader:
                    piece = pa.Table.from_batches([batch]).rename_columns(list(self.names))
                    yield piece if raw else self.trim(piece)
        except (pa.ArrowInvalid, pa.ArrowKeyError, OSError) as error:
            raise _explain(self.path, error) from error

    def trim(self, piece: pa.Table) -> pa.Table:
        """Trim text and make missing marks null."""
        marks = pa.array(self.missing_marks, pa.string())

        def clean(values: pa.Array) -> pa.Array:
            trimmed = pc.utf8_trim_whitespace(values)
            return pc.if_else(pc.is_in(trimmed, value_set=marks), pa.scalar(None, pa.string()), trimmed)

        columns = [_map_text(column, clean) if _is_text(column.type) else column for column in piece.columns]
        return pa.table(columns, names=piece.column_names)


def open_table(path: str | Path, missing_marks: Sequence[str] = MISSING_MARKS) -> TableFile:
    """Look at a file's first bytes and header, and say what is wrong if it is no table.

    Args:
        path: A CSV (comma, semicolon, tab or bar; optionally compressed) or Parquet file; the content decides, not the
            name.
        missing_marks: Text that counts as missing.
    """
    path = Path(path)
    if not path.exists():
        raise TableFileError(f"there is no file {path}: check the path.")
    if path.is_dir():
        raise TableFileError(f"{path} is a folder, but a CSV or Parquet file is needed: name the file in it.")
    if not path.stat().st_size:
        raise TableFileError(f"{path} is empty: check how it was written.")
    try:
        with path.open("rb") as file:
            is_parquet = file.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC
        if is_parquet:
            names, delimiter, header_lines = list(pa.parquet.read_schema(path).names), None, 0
        else:
            _refuse_web_page(path)
            names, delimiter, header_lines = _read_header(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise _explain(path, error) from error
    names = [name.strip() for name in names]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise TableFileError(
            f"{path} has several columns named {', '.join(map(repr, repeated))}: give every column its own name."
        )
    unnamed = [position for position, name in enumerate(names, start=1) if not name]
    if len(unnamed) == 1 and unnamed[0] == 1:
        names[0] = ROW_NAME  # an index that was written along
    elif unnamed:
        raise TableFileError(f"column {unnamed[0]} of {path} has no name: the first line must name every column.")
    return TableFile(path, tuple(names), delimiter, header_lines, tuple(missing_marks))


def take_rows(table: pa.Table, rows: Ids) -> pa.Table:
    """Return some rows of a table that was read."""
    taken = table.take(pa.array(rows))
    # What no row holds any more must not tell whether a column is made of numbers.
    columns = [
        _map_text(column, lambda values: values) if _is_text(column.type) else column for column in taken.columns
    ]
    return pa.table(columns, names=taken.column_names)


def as_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Return a column as floats if every value that is there is a number, else None.

    >>> as_numbers(pa.chunked_array([["1", None, "-2.5e3"]])).to_pylist()
    [1.0, None, -2500.0]
    >>> as_numbers(pa.chunked_array([["1", "one"]])) is None
    True
    """
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.float64(), safe=False)
    if pa.types.is_floating(kind):
        numbers = column.cast(pa.float64(), safe=False)
        return pc.if_else(pc.is_nan(numbers), pa.scalar(None, pa.float64()), numbers)
    if not _is_text(kind):
        return None
    text = _encoded(column)
    values = _dictionary(text)
    if not pc.all(is_number(values), min_count=0).as_py():
        return None
    numbers = values.cast(pa.float64())
    return pa.chunked_array([numbers.take(chunk.indices) for chunk in text.chunks], pa.float64())


def is_number(text: pa.Array) -> pa.Array:
    """Tell of each text whether it is a number; missing stays missing."""
    return pc.match_substring_regex(text, _NUMBER)


def is_number_with_comma(text: pa.Array) -> pa.Array:
    """Tell of each text whether it is a number but for commas, as in `39,5` and `1,234`; missing stays missing."""
    return pc.match_substring_regex(text, r"^[+-]?[\d.]*\d(,\d+)+(\.\d+)?$")


@dataclass(frozen=True, eq=False)
class Named:
    """A column as names of classes, subgroups or categories."""

    ids: Ids
    """The position of each row's name in `names`; -1 where it is missing."""
    names: tuple[str, ...]
    """The names that occur, each once."""

    @property
    def is_missing(self) -> NDArray[np.bool_]:
        """Which rows have no name."""
        return self.ids < 0

    def counts(self) -> Ids:
        """Return how many rows have each name."""
        return np.bincount(self.ids + 1, minlength=len(self.names) + 1)[1:]

    def to_arrow(self) -> pa.DictionaryArray:
        """Return the column as Arrow holds it."""
        ids = pa.array(self.ids.astype(np.int32), mask=self.is_missing)
        return pa.DictionaryArray.from_arrays(ids, pa.array(self.names, pa.string()))


def names_of(*columns: pa.ChunkedArray) -> Named:
    """Return columns, one after the other, as names, spelt the way in which they are compared.

    Programs write the same name in several ways: `1` as `1.0`, once a column has a missing value, and `true` as `True`.
    Here they are one, value by value, so that a name does not depend on the values around it.

    >>> named = names_of(pa.chunked_array([[1.0, None, 2.5]]), pa.chunked_array([["1.0", "True", "1.10"]]))
    >>> named.ids.tolist(), named.names
    ([0, -1, 1, 0, 2, 3], ('1', '2.5', 'true', '1.10'))
    """
    text = pa.chunked_array([chunk for column in columns for chunk in _as_text(column).chunks], _TEXT)
    text = _map_text(text, _spell_alike)
    ids = pc.fill_null(pa.chunked_array([chunk.indices for chunk in text.chunks], pa.int32()), -1).to_numpy()
    return Named(ids.astype(np.int64), tuple(_dictionary(text).to_pylist()))


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column as encoded text."""
    if _is_text(column.type):
        return _encoded(column)
    if pa.types.is_floating(column.type):
        numbers = column.cast(pa.float64())
        column = pc.if_else(pc.is_nan(numbers), pa.scalar(None, pa.float64()), numbers)
    return column.cast(pa.string()).dictionary_encode()


def _spell_alike(text: pa.Array) -> pa.Array:
    text = pc.replace_substring_regex(text, pattern=r"^([+-]?\d+)\.0+$", replacement=r"\1")
    for name in ("true", "false"):
        text = pc.if_else(pc.is_in(text, value_set=pa.array([name.capitalize(), name.upper()])), name, text)
    return text


def _encoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return text with one dictionary for all of it."""
    if pa.types.is_dictionary(column.type):
        return (column if column.type == _TEXT else column.cast(_TEXT)).unify_dictionaries()
    return column.cast(pa.string()).dictionary_encode().unify_dictionaries()


def _dictionary(encoded: pa.ChunkedArray) -> pa.Array:
    return encoded.chunk(0).dictionary if encoded.num_chunks else pa.array([], pa.string())


def _map_text(column: pa.ChunkedArray, change: Callable[[pa.Array], pa.Array]) -> pa.ChunkedArray:
    """Change each distinct text, once; what no row holds is dropped."""
    text = _encoded(column)
    if not text.num_chunks:
        return text
    old = _dictionary(text)
    used = np.zeros(len(old), dtype=bool)
    for chunk in text.chunks:
        used[chunk.indices.drop_null().to_numpy()] = True
    changed = pc.if_else(pa.array(used), change(old), pa.scalar(None, pa.string()))
    new = pc.unique(changed).drop_null()
    place = pc.index_in(changed, value_set=new)  # null stays null
    return pa.chunked_array([pa.DictionaryArray.from_arrays(place.take(chunk.indices), new) for chunk in text.chunks])


def _without_views(piece: pa.Table) -> pa.Table:
    """Return text and bytes in the layout that Arrow's functions know."""
    for position, field in enumerate(piece.schema):
        plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(field.type)
        if plain is not None:
            piece = piece.set_column(position, field.name, piece.column(position).cast(plain))
    return piece


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind))


def _refuse_web_page(path: Path) -> None:
    """Say so if a file begins as a web page, which a link to a table often leads to."""
    with pa.input_stream(str(path), compression="detect") as stream:
        start = stream.read(_MOST_BLANK_BYTES).removeprefix(codecs.BOM_UTF8).lstrip().lower()
    if start.startswith(_WEB_PAGES):
        raise TableFileError(f"{path} is a web page or XML, not a table: download the file itself.")


def _read_header(path: Path) -> tuple[list[str], str, int]:
    """Return the column names of a CSV, its delimiter, and how many lines the names take."""
    header, n_lines = b"", 0
    with pa.input_stream(str(path), compression="detect") as stream:
        rest = b""
        while not n_lines or header.count(b'"') % 2:  # a line end within quotes belongs to a name
            line, end, rest = rest.partition(b"\n")
            header, n_lines = header + line + end, n_lines + bool(end)
            if end:
                continue
            rest = stream.read(1 << 16)
            if b"\0" in rest:
                raise TableFileError(
                    f"{path} is not a text file: a table must be Parquet, or CSV as UTF-8, plain or compressed as its "
                    "ending (.gz, .bz2, .zst) says; unpack other archives first."
                )
            if not rest or len(header) > _MOST_HEADER_BYTES:
                break
    if header.count(b'"') % 2:
        raise TableFileError(f"the header of {path} opens a quote that is never closed: close it, or take it out.")
    try:
        text = header.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise TableFileError(f"{path} is not UTF-8 text: save it as 'CSV UTF-8'.") from error
    if not text.strip():
        raise TableFileError(f"the first line of {path} is empty, but it must name the columns: check the file.")
    delimiter = max(_DELIMITERS, key=re.sub(r'"[^"]*"', "", text).count)
    try:
        names = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error as error:
        raise TableFileError(
            f"the header of {path} cannot be read ({error}): end lines with a line feed and close every quote."
        ) from error
    return names, delimiter, max(1, n_lines)


def _open_csv(
    path: Path, delimiter: str, n_columns: int, header_lines: int, kind: pa.DataType
) -> pa.csv.CSVStreamingReader:
    """Open a CSV behind its header, for reading every cell as text of some kind."""
    positions = [str(i) for i in range(n_columns)]
    return pa.csv.open_csv(
        path,
        read_options=pa.csv.ReadOptions(block_size=_BLOCK_BYTES, column_names=positions, skip_rows=header_lines),
        parse_options=pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(column_types=dict.fromkeys(positions, kind)),
    )


def _explain(path: Path, error: Exception) -> TableFileError:
    """Turn Arrow's words into a sentence."""
    reason = str(error).partition("\n")[0].removesuffix(".")
    if "Expected" in reason and "columns, got" in reason:
        return TableFileError(
            f"{path} is damaged or not a CSV ({reason[:160]}): every line must have as many cells as the first."
        )
    if "Empty CSV" in reason:
        return TableFileError(f"{path} has a header but no rows: check how it was written.")
    if "UTF8" in reason or "UTF-8" in reason:
        return TableFileError(f"{path} is not UTF-8 text: save it as 'CSV UTF-8'.")
    return TableFileError(
        f"{path} cannot be read as a table ({reason[:200]}): restore it, or save it as CSV or Parquet."
    )
