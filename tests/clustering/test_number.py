from __future__ import annotations

import numpy as np
import pytest

from supportmatch import make_sources
from supportmatch.clustering.number import count_apart, estimate_n_clusters
from supportmatch.config import AutoencoderConfig, ClusteringConfig

CONFIG = ClusteringConfig(
    autoencoder=AutoencoderConfig(kind="mlp", widths=(16,), code_size=4),
    pretrain_steps=300,
    pretrain_learning_rate=5e-3,
)


def test_components_that_overlap_through_others_are_one() -> None:
    p = np.array([[0.9, 0.1, 0.0, 0.0], [0.1, 0.8, 0.1, 0.0], [0.0, 0.1, 0.9, 0.0], [0.0, 0.0, 0.0, 1.0]])
    assert count_apart(p, 0.05) == 2


def test_a_small_component_that_is_apart_counts_and_one_without_rows_does_not() -> None:
    p = np.eye(4)[np.repeat([0, 1, 2], [500, 497, 3])]
    assert count_apart(p, 0.01) == 3


@pytest.mark.parametrize("n_subgroups", [2, 3])
def test_kinds_that_are_apart_are_counted_with_an_interval_that_holds_their_number(n_subgroups: int) -> None:
    sources = make_sources(
        n_subgroups=n_subgroups, missing=[(1, 0)], class_distance=12.0, subgroup_distance=16.0, seed=0
    )
    found = estimate_n_clusters(sources.train, sources.deploy, CONFIG, seed=0)
    assert found.low <= 2 * n_subgroups <= found.high
    assert abs(found.best - 2 * n_subgroups) <= 1
    assert found == estimate_n_clusters(sources.train, sources.deploy, CONFIG, seed=0)
