"""The ordinary classifier: good where labels are, and fooled where they are missing."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from torch import nn

from supportmatch.baselines.erm import ErmClassifier
from supportmatch.data.synthetic import make_sources
from supportmatch.errors import ConfigError, DivergedError, FeatureMismatchError, NotFiniteError
from supportmatch.metrics import accuracy, robust_accuracy


def test_separable_classes_are_learnt_when_every_source_is_seen() -> None:
    sources = make_sources(missing=(), class_distance=10.0, n_train=40, n_test=50)
    train, test = sources.train, sources.test
    model = ErmClassifier(epochs=150).fit(train.x, train.y, train.s)
    assert robust_accuracy(test.y, model.predict(test.x), test.s) > 0.97


@pytest.mark.parametrize("seed", [0, 1])
def test_a_missing_source_is_mistaken_for_the_other_class_of_its_subgroup(seed: int) -> None:
    sources = make_sources(class_distance=2.5, n_train=150, n_test=250, seed=seed)
    train, test = sources.train, sources.test
    guess = ErmClassifier(random_state=seed).fit(train.x, train.y, train.s).predict(test.x)
    is_missing = (test.y == 1) & (test.s == 0)
    assert accuracy(test.y[is_missing], guess[is_missing]) < 0.5
    assert robust_accuracy(test.y, guess, test.s) < sources.bayes_accuracy - 0.15
    assert accuracy(test.y[test.s == 1], guess[test.s == 1]) > sources.bayes_accuracy - 0.06


def test_classes_are_balanced_in_batches_whatever_their_frequency() -> None:
    y = np.repeat([0, 1], [90, 10])
    model = ErmClassifier(epochs=60).fit(np.ones((100, 1)), y, np.arange(100) % 2)
    assert model.predict_proba(np.ones((1, 1)))[0, 1] == pytest.approx(0.5, abs=0.06)


def test_names_come_back_as_given_and_probabilities_follow_their_order() -> None:
    sources = make_sources(missing=(), n_train=10)
    y, s = np.array(["two", "four"])[sources.train.y], np.array(["purple", "green"])[sources.train.s]
    model = ErmClassifier(epochs=1, class_names=("two", "four")).fit(sources.train.x, y, s)
    assert model.classes_.tolist() == ["two", "four"]
    probabilities = model.predict_proba(sources.train.x)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert np.array_equal(model.predict(sources.train.x), model.classes_[probabilities.argmax(axis=1)])


def test_images_are_classified_too() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(32) % 2
    x = rng.integers(0, 100, (32, 1, 12, 12), dtype=np.uint8) + (155 * y[:, None, None, None]).astype(np.uint8)
    model = ErmClassifier(widths=(4, 4), epochs=20).fit(x, y, rng.integers(2, size=32))
    assert model.predict_proba(x).shape == (32, 2)
    with pytest.raises(FeatureMismatchError):
        model.predict(x[:, :, :10])


def test_the_same_seed_gives_the_same_predictions() -> None:
    sources = make_sources(n_train=10, n_test=5)
    train = sources.train
    one, same, other = (
        ErmClassifier(epochs=1, random_state=seed).fit(train.x, train.y, train.s).predict_proba(sources.test.x)
        for seed in (0, 0, 1)
    )
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_no_hidden_layer_is_a_linear_classifier() -> None:
    sources = make_sources(n_train=10)
    train = sources.train
    model = ErmClassifier(widths=(), epochs=1).fit(train.x, train.y, train.s)
    assert [type(layer) for layer in model.network_] == [nn.Linear]


def test_predicting_before_fitting_is_refused() -> None:
    with pytest.raises(NotFittedError):
        ErmClassifier().predict(np.zeros((1, 2)))


def test_missing_values_are_refused() -> None:
    with pytest.raises(NotFiniteError):
        ErmClassifier().fit(np.array([[np.nan], [1.0]]), [0, 1], [0, 1])


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"epochs": 0}, r"`epochs` is 0, but input should be greater than 0\.$"),
        ({"sampling": "foo"}, r"`sampling` is 'foo', but input should be 'pi', 'sources' or 'plain'\.$"),
        ({"widths": (0,)}, r"`widths` are units or channels, at least 1 each, but they are \(0,\)\.$"),
        ({"linear_width": 0}, r"`linear_width` is None or at least 1, but is 0\.$"),
    ],
)
def test_senseless_settings_get_one_sentence(wrong: dict[str, object], sentence: str) -> None:
    train = make_sources(n_train=5).train
    with pytest.raises(ConfigError, match=sentence):
        ErmClassifier(**wrong).fit(train.x, train.y, train.s)


def test_training_that_diverges_is_said_not_hidden() -> None:
    train = make_sources(n_train=20).train
    with pytest.raises(DivergedError, match=r"diverged.*learning rate of 1e\+30"):
        ErmClassifier(learning_rate=1e30, epochs=5).fit(train.x, train.y, train.s)
