"""One seed, many named and independent streams of random numbers.

Every stage asks for its own stream by name, so that a change in one stage (one more k-means start, say) does not
move the numbers of another. A stream is a pure function of the seed, the name and optional counters: bags of step
1,000 can be drawn without drawing those of the 999 steps before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from supportmatch.errors import ConfigError

if TYPE_CHECKING:
    import torch


def stream(seed: int, name: str, *counters: int) -> np.random.Generator:
    """Return the numpy generator that belongs to (seed, name, counters).

    >>> stream(0, "bags", 7).integers(100) == stream(0, "bags", 7).integers(100)
    np.True_
    >>> bool(stream(0, "bags", 7).integers(2**60) == stream(0, "clusters", 7).integers(2**60))
    False
    """
    # Counters go to the spawn key: in the entropy itself trailing zeros would not count.
    return np.random.default_rng(np.random.SeedSequence([crc32(name.encode()), seed], spawn_key=counters))


def check_seed(random_state: object) -> int:
    """Return the seed that a `random_state` stands for: a number itself; None or a `RandomState` give a fresh one."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    if isinstance(random_state, int | np.integer) and random_state >= 0:
        return int(random_state)
    raise ConfigError(f"`random_state` must be a whole number from 0 upwards, or None, but is {random_state!r}.")


def torch_stream(seed: int, name: str, *counters: int) -> torch.Generator:
    """Return the torch generator that belongs to (seed, name, counters)."""
    import torch

    return torch.Generator().manual_seed(int(stream(seed, name, *counters).integers(2**63 - 1)))


@contextmanager
def seeded_initialisation(seed: int, name: str) -> Iterator[None]:
    """Make torch's global generator, which layers initialise from, a function of (seed, name) inside the block."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(stream(seed, name).integers(2**63 - 1)))
        yield
