"""From stored rows to batches of floats. Images stay `uint8` in memory and are scaled batch by batch."""

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
    """Return the chosen rows as a float tensor; bytes 0-255 become 0-1."""
    batch = torch.from_numpy(np.ascontiguousarray(rows.x[which]))
    return batch.float().div_(255) if rows.is_bytes else batch


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
