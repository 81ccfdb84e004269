"""Several processes that train one model together, started by `torchrun`: each plays with its share of the bags.

All draw the same bags, which are functions of (seed, step), and keep the same weights, because gradients are averaged
over all bags before anybody moves. What cannot be shared (files, clusters, the classifier) is the work of the first.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch.nn import Parameter

from supportmatch.errors import ConfigError, ProcessLostError
from supportmatch.sources import Ids

_PATIENCE = timedelta(days=1)
"""How long the others wait for the first process, which alone clusters."""


@dataclass(frozen=True)
class Ranks:
    """This process among those that train together."""

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and talks."""
        return self.rank == 0

    def check(self, n_bags: int) -> None:
        """Refuse more processes than there are bags."""
        if self.size > n_bags:
            raise ConfigError(
                f"{self.size} processes cannot share {n_bags} bags: start at most {n_bags}, or raise `bags.n_bags`."
            )

    def own(self, bags: Ids) -> Ids:
        """Return the bags of this process, which are dealt out as evenly as possible."""
        return bags[self.rank :: self.size]

    def average_gradients(self, parameters: Iterable[Parameter], share: float) -> None:
        """Replace gradients of own bags by those of all bags.

        Args:
            parameters: In the same order everywhere.
            share: Of the bags that are this process's own.
        """
        if self.size == 1:
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        together = torch.cat([gradient.reshape(-1) for gradient in gradients]).mul_(share)
        with _explained():
            dist.all_reduce(together)
        for gradient, part in zip(gradients, together.split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))

    def average(self, values: Mapping[str, float], share: float) -> dict[str, float]:
        """Return means over all bags of what was measured on own bags."""
        if self.size == 1:
            return dict(values)
        together = torch.tensor(list(values.values()), dtype=torch.float64) * share
        with _explained():
            dist.all_reduce(together)
        return dict(zip(values, together.tolist(), strict=True))

    def any(self, wish: bool) -> bool:
        """Tell whether any of the processes wishes something."""
        return wish if self.size == 1 else self.average({"wish": float(wish)}, 1.0)["wish"] > 0

    def agree(self, value: int, what: str) -> None:
        """Refuse to go on unless every process has the same value."""
        if self.size == 1:
            return
        values = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        with _explained():
            dist.all_gather(values, torch.tensor([value]))
        found = [int(other) for other in values]
        if len(set(found)) > 1:
            raise ConfigError(
                f"the processes disagree about {what} ({', '.join(map(str, found))}): they must see the same files and "
                "the same output folder."
            )

    def tell(self, ids: Ids | None, n_rows: int) -> Ids:
        """Hand what the first process found, one id per row, to all."""
        if self.size == 1:
            assert ids is not None
            return ids
        heard = torch.zeros(n_rows, dtype=torch.int64) if ids is None else torch.from_numpy(ids.astype(np.int64))
        with _explained():
            dist.broadcast(heard, 0)
        found: NDArray[np.int64] = heard.numpy()
        return found


ALONE = Ranks()


@contextmanager
def joined() -> Iterator[Ranks]:
    """Join the processes that `torchrun` started; alone if it started none."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        yield ALONE
        return
    # Small messages travel between processors, gradients between GPUs where there are any.
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, timeout=_PATIENCE)
    try:
        yield Ranks(dist.get_rank(), dist.get_world_size())
        # Nobody leaves before the first is done: `torchrun` ends all when one that has left early ends badly.
        with _explained():
            dist.barrier()
    finally:
        dist.destroy_process_group()


@contextmanager
def _explained() -> Iterator[None]:
    """Turn the words of a broken connection into a sentence."""
    try:
        yield
    except RuntimeError as error:
        raise ProcessLostError(
            f"another of the {dist.get_world_size()} processes of this training has ended, so process "
            f"{dist.get_rank()} cannot go on: look for its message. The same command goes on from the last snapshot. "
            f"({str(error).partition(chr(10))[0]})"
        ) from error
