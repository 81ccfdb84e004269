"""Clusters as labels: missing sources are learnt from the deployment set itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from supportmatch.baselines.cluster_labels import ClusterLabelClassifier
from supportmatch.config import AutoencoderConfig, ClusteringConfig
from supportmatch.data.synthetic import SyntheticSources, make_sources
from supportmatch.errors import ConfigError
from supportmatch.metrics import robust_accuracy

_QUICK_MIXTURE = ClusteringConfig(
    autoencoder=AutoencoderConfig(kind="mlp", widths=(32,), code_size=8), pretrain_learning_rate=1e-2
)


def _fit(sources: SyntheticSources, **settings: Any) -> ClusterLabelClassifier:
    train = sources.train
    model = ClusterLabelClassifier(subgroup_names=train.grid.subgroups, **settings)
    return model.fit(train.x, train.y, train.s, sources.deploy.x)


def _robust(model: Any, sources: SyntheticSources) -> float:
    return robust_accuracy(sources.test.y, model.predict(sources.test.x), sources.test.s)


def test_clusters_without_names_are_paired_first() -> None:
    sources = make_sources(missing=((0, 0), (1, 0)), class_distance=6.0)
    model = _fit(sources, clustering=_QUICK_MIXTURE)
    assert model.clusters_.method == "mixture"
    assert len(model.pairing_.scores) == 2
    assert _robust(model, sources) > 0.95


def test_tables_are_clustered_by_their_heads() -> None:
    assert _fit(make_sources(n_deploy=40)).clusters_.method == "factorised"


def test_stripes_in_a_colour_that_training_lacks_are_recognised() -> None:
    x, y, s = _striped_images(600)
    x_test, y_test, s_test = _striped_images(200, seed=1)
    keep = s == 1
    model = ClusterLabelClassifier(subgroup_names=(0, 1), widths=(8, 16), epochs=10)
    model.fit(x[keep], y[keep], s[keep], x)
    assert model.clusters_.method == "mixture"
    assert robust_accuracy(y_test, model.predict(x_test), s_test) > 0.95


def _striped_images(n_rows: int, seed: int = 0) -> tuple[NDArray[np.uint8], NDArray[Any], NDArray[Any]]:
    """Return noisy images with a bar that lies (class 0) or stands (1), in the first (subgroup 0) or last channel."""
    rng = np.random.default_rng(seed)
    y, s = rng.integers(2, size=n_rows), rng.integers(2, size=n_rows)
    x = rng.integers(0, 60, (n_rows, 3, 12, 12), dtype=np.uint8)
    for i, (stands, subgroup) in enumerate(zip(y, s, strict=True)):
        at = rng.integers(4, 7)
        bar = x[i, 2 * subgroup].T if stands else x[i, 2 * subgroup]
        bar[at : at + 2] += np.uint8(190)
    return x, y, s


@pytest.mark.parametrize("model", ["linear", "network"])  # boosted trees overfit so few rows, weighted or not
def test_every_source_counts_equally_whatever_its_frequency(model: str) -> None:
    sources = make_sources(class_distance=2.5, n_train=500, n_deploy=500, deploy_kept={(1, 0): 0.15, (1, 1): 0.15})
    train, test = sources.train, sources.test
    keep = (train.y == 0) | (np.arange(len(train)) % 7 == 0)
    fitted = ClusterLabelClassifier(model=model)
    fitted.fit(train.x[keep], train.y[keep], train.s[keep], sources.deploy.x)
    hit = fitted.predict(test.x) == test.y
    assert hit[test.y == 1].mean() > 0.75  # 0.64 when all rows count alike


def test_boosted_trees_refuse_images() -> None:
    x, y, s = _striped_images(40)
    with pytest.raises(ConfigError, match="boosted trees read tables"):
        ClusterLabelClassifier(model="boosted").fit(x, y, s, x)
