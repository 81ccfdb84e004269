"""A small world of blobs: the class moves one axis, the subgroup another."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from supportmatch.config import AutoencoderConfig, ClusteringConfig
from supportmatch.data.containers import Labeled, Unlabeled
from supportmatch.sources import Ids, SourceGrid

World = tuple[Labeled, Unlabeled, Ids]


@pytest.fixture
def make_world() -> Callable[..., World]:
    """Return a maker of (training set without some sources, deployment set with all, its true source ids)."""

    def make(
        missing: tuple[int, ...] = (2,), shape: tuple[int, int] = (2, 2), n_each: int = 60, gap: float = 8
    ) -> World:
        grid = SourceGrid(tuple(range(shape[0])), tuple("abcdef"[: shape[1]]))
        rng = np.random.default_rng(0)

        def draw(sources: Ids) -> np.ndarray:
            y, s = np.divmod(sources, grid.n_subgroups)
            x = rng.normal(size=(len(sources), 6))
            x[:, 0] += gap * y
            x[:, 1] += gap * s
            return x

        seen = [k for k in range(grid.n_sources) if k not in missing]
        train_ids = rng.permutation(np.repeat(seen, n_each))
        deploy_ids = rng.permutation(np.repeat(np.arange(grid.n_sources), n_each))
        y, s = np.divmod(train_ids, grid.n_subgroups)
        return Labeled(draw(train_ids), y=y, s=s, grid=grid), Unlabeled(draw(deploy_ids)), deploy_ids

    return make


@pytest.fixture
def quick() -> Callable[..., ClusteringConfig]:
    """Return settings that train in a fraction of a second."""

    def make(method: str, **settings: object) -> ClusteringConfig:
        small = AutoencoderConfig(kind="mlp", widths=(16,), code_size=8)
        # By hand, so that each test may override any of them.
        chosen = {"autoencoder": small, "pretrain_steps": 80, "pretrain_batch": 64, "pretrain_learning_rate": 1e-2}
        chosen |= {"head_steps": 80, "head_batch": 64, "head_learning_rate": 1e-2, "top_u": 2}
        return ClusteringConfig.model_validate({"method": method, **chosen, **settings})

    return make
