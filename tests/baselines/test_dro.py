"""DRO: only what is lost beyond the threshold counts, squared."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone

from supportmatch.baselines.dro import DroClassifier, excess_loss
from supportmatch.data.synthetic import make_sources
from supportmatch.errors import ConfigError
from supportmatch.metrics import robust_accuracy


def test_losses_below_the_threshold_count_nothing_and_the_excess_is_squared() -> None:
    assert float(excess_loss(torch.tensor([0.2, 0.5, 1.5]), 0.5)) == pytest.approx((0 + 0 + 1.0) / 3)


def test_without_a_threshold_it_is_the_mean_squared_loss() -> None:
    losses = torch.rand(20)
    torch.testing.assert_close(excess_loss(losses, 0.0), losses.square().mean())


def test_the_gradient_grows_with_the_excess() -> None:
    losses = torch.tensor([0.05, 0.2, 0.4], requires_grad=True)
    excess_loss(losses, 0.1).backward()
    torch.testing.assert_close(losses.grad, 2 * torch.tensor([0.0, 0.1, 0.3]) / 3)


def test_separable_classes_are_learnt_when_every_source_is_seen() -> None:
    sources = make_sources(missing=(), class_distance=10.0, n_train=40, n_test=50)
    train, test = sources.train, sources.test
    model = DroClassifier(epochs=150).fit(train.x, train.y, train.s)
    assert robust_accuracy(test.y, model.predict(test.x), test.s) > 0.97


def test_a_threshold_above_every_loss_never_learns() -> None:
    sources = make_sources(missing=(), n_train=10)
    train = sources.train
    short, long = (
        DroClassifier(eta=50.0, epochs=epochs).fit(train.x, train.y, train.s).predict_proba(train.x)
        for epochs in (1, 30)
    )
    assert np.array_equal(short, long)


@pytest.mark.parametrize("eta", [-0.1, float("nan")])
def test_a_threshold_that_is_no_threshold_is_refused(eta: float) -> None:
    train = make_sources(n_train=5).train
    with pytest.raises(ConfigError, match="must not be negative"):
        DroClassifier(eta=eta).fit(train.x, train.y, train.s)


def test_copies_keep_own_and_shared_arguments_and_predict_the_same() -> None:
    sources = make_sources(n_train=10, n_test=5)
    train = sources.train
    model = DroClassifier(eta=0.3, epochs=2, batch_size=16, random_state=3)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.get_params().items() >= {"eta": 0.3, "epochs": 2, "batch_size": 16, "random_state": 3}.items()
    one, same, other = (
        each.fit(train.x, train.y, train.s).predict_proba(sources.test.x)
        for each in (model, copy, clone(model).set_params(eta=0.0))
    )
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_an_argument_that_nobody_takes_is_refused() -> None:
    with pytest.raises(TypeError, match="etta"):
        DroClassifier(etta=0.1)
