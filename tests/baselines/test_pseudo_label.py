"""Soft pseudo-labels: honest heads label the deployment set."""

from __future__ import annotations

from typing import Any

import numpy as np

from supportmatch.baselines.pseudo_label import PseudoLabelClassifier
from supportmatch.data.synthetic import SyntheticSources, make_sources
from supportmatch.final import balanced_class_weights
from supportmatch.metrics import robust_accuracy
from supportmatch.sources import SourceGrid


def _fit(sources: SyntheticSources, **settings: Any) -> PseudoLabelClassifier:
    train = sources.train
    model = PseudoLabelClassifier(subgroup_names=train.grid.subgroups, **settings)
    return model.fit(train.x, train.y, train.s, sources.deploy.x)


def _robust(model: Any, sources: SyntheticSources) -> float:
    return robust_accuracy(sources.test.y, model.predict(sources.test.x), sources.test.s)


def test_it_learns_a_missing_subgroup() -> None:
    sources = make_sources(missing=((0, 0), (1, 0)), class_distance=6.0)
    assert _robust(_fit(sources), sources) > 0.95


def test_three_classes_are_learnt_too() -> None:
    sources = make_sources(n_classes=3, missing=((2, 0),), class_distance=6.0)
    assert _robust(_fit(sources), sources) > 0.95


def test_every_source_has_the_same_total_weight() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet([8.0, 1.0, 2.0, 0.2], size=500)
    weights = balanced_class_weights(p, SourceGrid((0, 1), ("a", "b")))
    np.testing.assert_allclose(weights.sum(axis=0), [250, 250])
    hard = np.eye(4)[np.repeat([0, 1, 2, 3], [300, 120, 79, 1])]
    per_row = balanced_class_weights(hard, SourceGrid((0, 1), ("a", "b"))).sum(axis=1)
    np.testing.assert_allclose([per_row[hard[:, k] == 1].sum() for k in range(4)], 125)


def test_a_source_that_no_row_may_be_leaves_its_weight_to_its_class() -> None:
    p = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
    weights = balanced_class_weights(p, SourceGrid((0, 1), ("a", "b")))
    np.testing.assert_allclose(weights, [[1, 0], [0, 1]])


def test_images_are_labelled_through_their_codes() -> None:
    rng = np.random.default_rng(0)
    y, s = np.arange(200) % 2, np.arange(200) // 2 % 2
    x = rng.integers(0, 60, (200, 2, 8, 8), dtype=np.uint8)
    x[y == 1, 0, :4] += np.uint8(190)
    x[s == 1, 1] += np.uint8(120)
    keep = ~((y == 1) & (s == 0))
    model = PseudoLabelClassifier(widths=(8,), epochs=60).fit(x[keep], y[keep], s[keep], x)
    assert model.source_probabilities_.shape == (200, 4)
    assert robust_accuracy(y, model.predict(x), s) > 0.95
