"""From stored rows to batches of floats. Images stay bytes in memory and are scaled batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from supportmatch.data.containers import Rows
from supportmatch.sources import Ids


def read_rows(rows: Rows, which: Ids | slice) -> Tensor:
    """Return the chosen rows as a float tensor; bytes become [0, 1], signed bytes [-1, 1]."""
    batch = torch.from_numpy(np.ascontiguousarray(rows.x[which]))
    if rows.is_signed_bytes:
        return batch.float().add_(0.5).div_(127.5)
    return batch.float().div_(255) if rows.is_bytes else batch


def as_shown(images: Tensor, rows: Rows) -> Tensor:
    """Return images on the scale of `rows` as they are shown: clipped to [0, 1]."""
    return ((images + 1) / 2 if rows.is_signed_bytes else images).clamp(0, 1)


def iterate_rows(rows: Rows, batch_size: int = 1_024) -> Iterator[Tensor]:
    """Yield all rows in order, as float batches."""
    for start in range(0, len(rows), batch_size):
        yield read_rows(rows, slice(start, start + batch_size))


@contextmanager
def one_thread() -> Iterator[None]:
    """Use a single thread inside the block: for small networks waiting for a second one costs more than it brings."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def threads_for(rows: Rows) -> AbstractContextManager[None]:
    """Return the block to train in: all threads for images, one for tables and codes."""
    return nullcontext() if rows.is_images else one_thread()


def as_ids(ids: NDArray[Any]) -> Tensor:
    """Return ids as the tensor that cross-entropy wants."""
    return torch.from_numpy(np.ascontiguousarray(ids, dtype=np.int64))
