"""Soft pseudo-labels: honest heads label the deployment set."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from supportmatch.baselines.erm import ErmClassifier
from supportmatch.baselines.pseudo_label import PseudoLabelClassifier, balanced_class_weights
from supportmatch.data.synthetic import SyntheticSources, make_sources
from supportmatch.errors import ConfigError
from supportmatch.metrics import robust_accuracy
from supportmatch.sources import SourceGrid


def _fit(sources: SyntheticSources, **settings: Any) -> PseudoLabelClassifier:
    train = sources.train
    model = PseudoLabelClassifier(subgroup_names=train.grid.subgroups, **settings)
    return model.fit(train.x, train.y, train.s, sources.deploy.x)


def _robust(model: Any, sources: SyntheticSources) -> float:
    return robust_accuracy(sources.test.y, model.predict(sources.test.x), sources.test.s)


@pytest.mark.parametrize("model", ["linear", "boosted", "network"])
def test_it_learns_a_missing_source_that_the_ordinary_classifier_misses(model: str) -> None:
    sources = make_sources(class_distance=2.5)
    ordinary = ErmClassifier(epochs=20).fit(sources.train.x, sources.train.y, sources.train.s)
    score = _robust(_fit(sources, model=model), sources)
    assert score > _robust(ordinary, sources) + 0.08
    assert score > sources.bayes_accuracy - 0.06


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


def test_a_source_that_no_row_may_be_takes_no_weight_from_the_others() -> None:
    p = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
    weights = balanced_class_weights(p, SourceGrid((0, 1), ("a", "b")))
    np.testing.assert_allclose(weights, [[4 / 3, 0], [0, 2 / 3]])


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


def test_the_same_seed_gives_the_same_predictions() -> None:
    sources = make_sources(n_train=30, n_deploy=30, n_test=5)
    one, same, other = (
        _fit(sources, model="network", epochs=1, random_state=seed).predict_proba(sources.test.x) for seed in (0, 0, 1)
    )
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_without_deployment_rows_it_says_so() -> None:
    train = make_sources(n_train=10).train
    with pytest.raises(ConfigError, match="learns from deployment rows, but there are none"):
        PseudoLabelClassifier().fit(train.x, train.y, train.s)


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be one of 'linear', 'boosted', 'network', but is 'forest'"):
        _fit(make_sources(n_train=10), model="forest")


def test_a_clone_has_the_same_settings() -> None:
    model = PseudoLabelClassifier(model="boosted", widths=(3,), epochs=2, random_state=7)
    assert clone(model).get_params() == model.get_params()
