"""What figures show of a fitted model: reconstructions and attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from supportmatch.data.containers import Rows
from supportmatch.matching import EncoderPlayer
from supportmatch.networks.encoders import SplitCode
from supportmatch.sources import Ids
from supportmatch.tensors import as_shown, read_rows


@torch.no_grad()
def reconstruct(player: EncoderPlayer, rows: Rows, which: Ids) -> dict[str, NDArray[np.uint8]]:
    """Return images as they are, decoded from the whole code, from z alone, and from s~ alone."""
    x = read_rows(rows, which)
    z, side = player.encode(x)
    panels = {
        "original": x,
        "full": player.decode(SplitCode(z, side)),
        "side_zeroed": player.decode(SplitCode(z, torch.zeros_like(side))),
        "z_zeroed": player.decode(SplitCode(torch.zeros_like(z), side)),
    }
    return {panel: as_bytes(images, rows) for panel, images in panels.items()}


@torch.no_grad()
def attention_of(discriminator: nn.Module, player: EncoderPlayer, rows: Rows, bags: Ids) -> NDArray[Any] | None:
    """Return the weight of every row of the bags, or None if the discriminator does not weigh rows."""
    weigh = getattr(discriminator, "attention_weights", None)
    if weigh is None:
        return None
    z = player.encode(read_rows(rows, bags.reshape(-1))).z
    weights: NDArray[Any] = weigh(z.reshape(*bags.shape, -1)).numpy()
    return weights


def as_bytes(images: torch.Tensor, rows: Rows) -> NDArray[np.uint8]:
    """Return images on the scale of `rows` as bytes to be shown."""
    return (as_shown(images, rows) * 255).round().byte().numpy()
