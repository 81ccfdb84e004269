"""What the game is played on: device, precision, and whether networks are compiled. No part of a model's settings.

Only the game leaves the processor, and what it returns is back there; clusters and classifiers are made on it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Literal

from supportmatch.config import StageConfig
from supportmatch.errors import ConfigError

if TYPE_CHECKING:
    import torch
    from torch import nn


class Hardware(StageConfig):
    """How the machine is used. Results differ between devices and precisions by rounding, which training amplifies."""

    device: str = "auto"
    """`cpu`, `cuda`, `cuda:1`, `mps`, or `auto`: a GPU if there is one. Of several processes each takes a GPU of its
    own."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """`bfloat16`: networks compute in mixed precision, weights and losses stay float32. It pays on GPUs, and on
    processors with instructions for it."""
    compile: bool = False
    """Compile the networks (`torch.compile`), which takes a while at the start and is kept for later runs by torch.
    Without a C++ compiler it changes nothing."""

    def choose_device(self) -> torch.device:
        """Return the device, or say that it is not there."""
        import torch

        if self.device in ("auto", "cuda") and torch.cuda.is_available():
            return torch.device("cuda", _local_rank())
        if self.device == "auto":
            return torch.device("cpu")
        try:
            device = torch.device(self.device)
            torch.zeros(1, device=device)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            reason = str(error).partition("\n")[0]
            raise ConfigError(f"device {self.device!r} cannot be used ({reason}): choose another, or auto.") from error
        return device

    def autocast(self, device: torch.device) -> AbstractContextManager[object]:
        """Return the block in which networks compute."""
        import torch

        if self.precision == "float32":
            return nullcontext()
        # Both players move inside the block, so weights rounded before a move must not be kept for after it.
        return torch.autocast(device.type, torch.bfloat16, cache_enabled=False)

    @contextmanager
    def compiled(self, *networks: nn.Module | None) -> Iterator[None]:
        """Compile networks for the block, if that was asked for and can be done."""
        if not self.compile:
            yield
            return
        import torch._dynamo

        for network in networks:
            if network is not None:
                network.compile()
        with torch._dynamo.config.patch(suppress_errors=True):
            yield


def _local_rank() -> int:
    import torch

    return int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count()


HERE = Hardware()
"""A GPU if there is one, in full precision."""
