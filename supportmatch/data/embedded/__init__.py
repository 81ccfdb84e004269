"""Real data that travels with the package: MNIST digits 2, 4 and 6, and the Adult census table.

Each ``.xz`` file holds one JSON line (names, types and shapes of the arrays) followed by the raw bytes of the arrays,
so that reading needs neither pickle nor a network. ``ORIGINS.md`` and ``LICENCES.md`` next to this file say where the
data comes from and under which terms; ``python tools/embed_data.py`` rebuilds it.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["AdultTable", "MnistDigits", "hash_embedded", "load_adult", "load_mnist_digits"]

_FOLDER = Path(__file__).resolve().parent
_MISSING = "?"


@dataclass(frozen=True, eq=False)
class MnistDigits:
    """The MNIST digits 2, 4 and 6 in their official order.

    Attributes:
        train_images: Images of the official training part, uint8 of shape (17718, 28, 28).
        train_labels: The digit each training image shows, uint8.
        test_images: Images of the official test part, uint8 of shape (2972, 28, 28).
        test_labels: The digit each test image shows, uint8.
    """

    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.uint8]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class AdultTable:
    """Rows of the Adult census table, those of ``adult.data`` first, then those of ``adult.test``.

    Attributes:
        columns: The 14 features by their official name; categorical ones hold str (missing values are ``"?"``),
            numeric ones int64.
        income: ``"<=50K"`` or ``">50K"`` for each row.
        n_train: How many of the first rows come from ``adult.data``.
    """

    columns: dict[str, NDArray[Any]]
    income: NDArray[np.str_]
    n_train: int

    def __len__(self) -> int:
        return len(self.income)

    def complete(self) -> AdultTable:
        """Return the rows without missing values, in the same order."""
        is_complete = np.ones(len(self), dtype=bool)
        for values in self.columns.values():
            if values.dtype.kind == "U":
                is_complete &= values != _MISSING
        return AdultTable(
            columns={name: values[is_complete] for name, values in self.columns.items()},
            income=self.income[is_complete],
            n_train=int(is_complete[: self.n_train].sum()),
        )


def _read_arrays(name: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read the arrays of one embedded file and its JSON line."""
    path = _FOLDER / name
    try:
        content = lzma.decompress(path.read_bytes())
    except (OSError, lzma.LZMAError) as error:
        raise RuntimeError(
            f"The embedded data file {name} cannot be read ({error}); install supportmatch again or, in a source "
            "checkout, run python tools/embed_data.py."
        ) from error
    offset = content.index(b"\n") + 1
    header: dict[str, Any] = json.loads(content[:offset])
    arrays: dict[str, NDArray[Any]] = {}
    for entry in header["arrays"]:
        dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
        count = math.prod(shape)
        # A copy is writable, which torch asks of the arrays it wraps.
        arrays[entry["name"]] = np.frombuffer(content, dtype, count, offset).reshape(shape).copy()
        offset += count * dtype.itemsize
    return arrays, header


def load_mnist_digits() -> MnistDigits:
    """Load the MNIST digits 2, 4 and 6.

    Returns:
        Images and digits of the official training and test parts.

    Example:
        >>> digits = load_mnist_digits()
        >>> digits.train_images.shape, digits.test_images.shape
        ((17718, 28, 28), (2972, 28, 28))
    """
    arrays, _ = _read_arrays("mnist_246.xz")
    return MnistDigits(**arrays)


def load_adult() -> AdultTable:
    """Load the whole Adult census table, rows with missing values included.

    Returns:
        The table with its 14 features and the income.

    Example:
        >>> adult = load_adult()
        >>> len(adult), len(adult.complete())
        (48842, 45222)
    """
    arrays, header = _read_arrays("adult.xz")
    columns: dict[str, NDArray[Any]] = {}
    for name, stored in arrays.items():
        category_names = header["categories"].get(name)
        columns[name] = stored.astype(np.int64) if category_names is None else np.array(category_names)[stored]
    income = columns.pop("income")
    return AdultTable(columns=columns, income=income, n_train=header["n_train"])


def hash_embedded(family: str) -> str:
    """Return a short hash of the embedded file behind a family of settings; "synthetic" has none.

    >>> len(hash_embedded("adult"))
    16
    """
    files = {"cmnist": "mnist_246.xz", "adult": "adult.xz"}
    content = (_FOLDER / files[family]).read_bytes() if family in files else family.encode()
    return hashlib.sha256(content).hexdigest()[:16]
