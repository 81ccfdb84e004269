"""What a fitted model leaves for figures: z early and late, reconstructions, attention."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from supportmatch.data.containers import Rows
from supportmatch.data.problems import Problem
from supportmatch.report.shown import as_bytes, attention_of, reconstruct
from supportmatch.report.watched import WatchedClassifier
from supportmatch.tensors import read_rows

_SHOWN_IMAGES = 8
_SHOWN_BAGS = 2
_SHOWN_CODES = 1_000


class WatchedOnTest(WatchedClassifier):
    """Support-matching that remembers z of some test rows."""

    def look_at(self, problem: Problem) -> None:
        """Choose the problem whose test rows to remember."""
        self.problem = problem

    def _choose_rows(self) -> dict[str, Rows]:
        return {"test": self.reader_.read(self.problem.X_test[:_SHOWN_CODES])}


def arrays_to_show(model: WatchedOnTest) -> dict[str, NDArray[Any]]:
    """Return z of test rows and, for images, reconstructions and attention: see `bench/figures.py`."""
    problem, train, deploy, player = model.problem, model.train, model.deploy, model.encoder_
    test_y, test_s = problem.y_test[:_SHOWN_CODES], problem.subgroup_test[:_SHOWN_CODES]
    grid = problem.grid
    arrays: dict[str, NDArray[Any]] = {
        "z_late": model.transform(problem.X_test[:_SHOWN_CODES]),
        "test_sources": grid.source_ids(grid.class_ids(test_y), grid.subgroup_ids(test_s)),
    }
    if model.early:
        arrays |= {"z_early": model.early["test"], "early_step": np.array(model.early_step)}
    if not deploy.is_images:
        return arrays
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
