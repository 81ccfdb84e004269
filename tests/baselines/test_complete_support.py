"""Learning only from subgroups with complete classes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from supportmatch.baselines.complete_support import CompleteSupportClassifier
from supportmatch.data.synthetic import make_sources
from supportmatch.errors import ConfigError


def test_it_does_well_where_class_and_subgroup_act_separately() -> None:
    sources = make_sources(missing=((1, 0),))
    model = CompleteSupportClassifier().fit(sources.train.x, sources.train.y, sources.train.s)
    hit = model.predict(sources.test.x) == sources.test.y
    assert min(hit[sources.test.s == s].mean() for s in (0, 1)) > 0.9


def test_rows_of_incomplete_subgroups_change_nothing() -> None:
    train = make_sources(missing=((1, 0),)).train
    complete = train.s == 1
    x = train.x.copy()
    x[~complete] *= -7
    rows = np.vstack([train.x[complete], np.zeros((1, train.x.shape[1]))])
    models = [CompleteSupportClassifier() for _ in range(2)]
    # The table encoder scales by all training rows, which logistic regression on standardised rows does not notice.
    predicted = [
        model.fit(features, train.y, train.s).predict(rows)
        for model, features in zip(models, (train.x, x), strict=True)
    ]
    np.testing.assert_array_equal(*predicted)


def test_without_a_complete_subgroup_it_says_so() -> None:
    train = make_sources(missing=((1, 0), (0, 1))).train
    with pytest.raises(ConfigError, match="no subgroup occurs with every class"):
        CompleteSupportClassifier().fit(train.x, train.y, train.s)


def test_boosted_trees_learn_a_class_that_no_line_separates() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, 2))
    y, s = (x[:, 0] * x[:, 1] > 0).astype(int), np.arange(800) % 2
    linear, boosted = (
        CompleteSupportClassifier(model=model).fit(x[:600], y[:600], s[:600]).predict(x[600:]) == y[600:]
        for model in ("linear", "boosted")
    )
    assert linear.mean() < 0.7
    assert boosted.mean() > 0.9


@pytest.mark.parametrize("model", ["linear", "boosted"])
def test_classes_count_equally_whatever_their_frequency(model: str) -> None:
    y = np.repeat([0, 1], [90, 10])
    fitted = CompleteSupportClassifier(model=model).fit(np.ones((100, 1)), y, np.arange(100) % 2)
    assert fitted.predict_proba(np.ones((1, 1)))[0, 1] == pytest.approx(0.5, abs=1e-3)


def test_boosted_trees_refuse_images() -> None:
    images = np.zeros((8, 1, 4, 4), dtype=np.uint8)
    y, s = np.arange(8) % 2, np.arange(8) // 4
    assert CompleteSupportClassifier().fit(images, y, s).predict(images).shape == (8,)
    with pytest.raises(ConfigError, match="boosted trees read tables and these rows are images"):
        CompleteSupportClassifier(model="boosted").fit(images, y, s)


@pytest.mark.parametrize("model", ["network", "auto", "forest"])
def test_other_models_are_refused(model: str) -> None:
    train = make_sources(n_train=10).train
    with pytest.raises(ConfigError, match=f"must be one of 'linear', 'boosted', but is '{model}'"):
        CompleteSupportClassifier(model=model).fit(train.x, train.y, train.s)


def test_a_clone_has_the_same_settings() -> None:
    model = CompleteSupportClassifier(subgroup_names=("a", "b"), class_names=(0, 1), model="boosted")
    assert clone(model).get_params() == model.get_params()
