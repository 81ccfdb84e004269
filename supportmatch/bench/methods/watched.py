"""What a fitted model leaves for figures: z early and late, reconstructions, attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from supportmatch.classifier import transform_rows
from supportmatch.data.containers import Rows
from supportmatch.data.problems import Problem
from supportmatch.estimator import SupportMatchingClassifier
from supportmatch.matching import EncoderPlayer, Game
from supportmatch.networks.encoders import SplitCode
from supportmatch.sources import Ids
from supportmatch.tensors import as_shown, read_rows

_SHOWN_IMAGES = 8
_SHOWN_BAGS = 2
_SHOWN_CODES = 1_000
_EARLY = 0.05  # of all steps: the paper shows z at 450 of 12,000


class WatchedClassifier(SupportMatchingClassifier):
    """Support-matching that remembers z of some test rows at an early step, and its last discriminator."""

    def look_at(self, problem: Problem) -> None:
        """Choose the rows to remember."""
        self.shown = problem
        self.seen_early: dict[str, NDArray[Any]] = {}

    def _watch(self, step: int, averaged: EncoderPlayer, game: Game) -> None:
        steps = self.config_.matching.steps
        if step + 1 == max(1, int(_EARLY * steps)):
            rows = self.reader_.read(self.shown.X_test[:_SHOWN_CODES])
            self.seen_early["z_early"] = transform_rows(averaged, rows)
            self.seen_early["early_step"] = np.array(step + 1)
        if step + 1 == steps:
            self.discriminator = game.discriminator


def arrays_to_show(model: WatchedClassifier, problem: Problem) -> dict[str, NDArray[Any]]:
    """Return z of test rows and, for images, reconstructions and attention: see `bench/figures.py`."""
    grid, player = problem.grid, model.encoder_
    test_y, test_s = problem.y_test[:_SHOWN_CODES], problem.subgroup_test[:_SHOWN_CODES]
    arrays: dict[str, NDArray[Any]] = {
        "z_late": model.transform(problem.X_test[:_SHOWN_CODES]),
        "test_sources": grid.source_ids(grid.class_ids(test_y), grid.subgroup_ids(test_s)),
    }
    deploy = model.reader_.read(problem.X_deploy)
    if not deploy.is_images:
        return arrays
    train = model.reader_.read(problem.X_train)
    bags = model.deploy_bags_.draw(0)[:_SHOWN_BAGS]
    arrays |= _reconstructions(player, train, np.arange(min(_SHOWN_IMAGES, len(train))), "train")
    arrays |= _reconstructions(player, deploy, bags[0][:_SHOWN_IMAGES], "deploy")
    weigh = getattr(model.discriminator, "attention_weights", None)
    if weigh is not None:
        x = read_rows(deploy, bags.reshape(-1))
        with torch.no_grad():
            arrays["attention_weights"] = weigh(player.encode(x).z.reshape(*bags.shape, -1)).numpy()
        arrays["attention_images"] = _as_bytes(x, deploy).reshape(*bags.shape, *x.shape[1:])
    return arrays


@torch.no_grad()
def _reconstructions(player: EncoderPlayer, rows: Rows, which: Ids, name: str) -> dict[str, NDArray[np.uint8]]:
    x = read_rows(rows, which)
    z, side = player.encode(x)
    panels = {
        "original": x,
        "full": player.decode(SplitCode(z, side)),
        "side_zeroed": player.decode(SplitCode(z, torch.zeros_like(side))),
        "z_zeroed": player.decode(SplitCode(torch.zeros_like(z), side)),
    }
    return {f"{name}_{panel}": _as_bytes(images, rows) for panel, images in panels.items()}


def _as_bytes(images: torch.Tensor, rows: Rows) -> NDArray[np.uint8]:
    return (as_shown(images, rows) * 255).round().byte().numpy()
