"""What a fitted model leaves for figures: z early and late, reconstructions, attention."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from supportmatch.classifier import transform_rows
from supportmatch.data.problems import Problem
from supportmatch.estimator import SupportMatchingClassifier
from supportmatch.matching import EncoderPlayer, Game
from supportmatch.report.shown import as_bytes, attention_of, reconstruct
from supportmatch.tensors import read_rows

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
    for name, rows, which in (
        ("train", train, np.arange(min(_SHOWN_IMAGES, len(train)))),
        ("deploy", deploy, bags[0][:_SHOWN_IMAGES]),
    ):
        arrays |= {f"{name}_{panel}": images for panel, images in reconstruct(player, rows, which).items()}
    weights = attention_of(model.discriminator, player, deploy, bags)
    if weights is not None:
        x = read_rows(deploy, bags.reshape(-1))
        arrays["attention_weights"] = weights
        arrays["attention_images"] = as_bytes(x, deploy).reshape(*bags.shape, *x.shape[1:])
    return arrays
