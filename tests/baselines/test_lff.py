"""Learning from failure: what the biased network gets wrong weighs most, unless it is wrong by chance."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch.nn.functional import cross_entropy

from supportmatch.baselines.erm import ErmClassifier
from supportmatch.baselines.lff import (
    LffClassifier,
    LossAverages,
    Temperature,
    generalised_cross_entropy,
    relative_difficulty,
)
from supportmatch.data.synthetic import make_sources
from supportmatch.errors import ConfigError
from supportmatch.metrics import accuracy, robust_accuracy


def test_generalised_cross_entropy_follows_its_formula() -> None:
    logits, y = torch.tensor([[1.0, 3.0], [1.0, 1.0]]).log(), torch.tensor([1, 0])
    expected = [(1 - 0.75**0.7) / 0.7, (1 - 0.5**0.7) / 0.7]
    torch.testing.assert_close(generalised_cross_entropy(logits, y, 0.7), torch.tensor(expected))


def test_its_gradient_is_that_of_cross_entropy_times_the_probability_to_the_q() -> None:
    logits, y = torch.randn(6, 3, requires_grad=True), torch.randint(3, (6,))
    (plain,) = torch.autograd.grad(cross_entropy(logits, y, reduction="sum"), logits)
    (general,) = torch.autograd.grad(generalised_cross_entropy(logits, y, 0.7).sum(), logits)
    p_y = logits.detach().softmax(dim=1).gather(1, y[:, None])
    torch.testing.assert_close(general, p_y**0.7 * plain)


def test_averages_start_at_the_first_loss_and_then_move_by_a_share() -> None:
    averages = LossAverages(torch.tensor([0, 0, 1]), 2, alpha=0.7)
    averages.update(torch.tensor([0, 2]), torch.tensor([1.0, 4.0]))
    averages.update(torch.tensor([0]), torch.tensor([2.0]))
    torch.testing.assert_close(averages.values, torch.tensor([1.3, torch.nan, 4.0]), equal_nan=True)


def test_a_row_drawn_twice_in_a_batch_is_moved_once() -> None:
    averages = LossAverages(torch.tensor([0]), 1, alpha=0.5)
    averages.update(torch.tensor([0]), torch.tensor([1.0]))
    averages.update(torch.tensor([0, 0]), torch.tensor([3.0, 3.0]))
    assert averages.values.tolist() == [2.0]


def test_averages_are_told_as_parts_of_the_largest_of_the_class() -> None:
    averages = LossAverages(torch.tensor([0, 0, 1, 1]), 2, alpha=0.7)
    averages.update(torch.arange(4), torch.tensor([1.0, 4.0, 0.5, 0.1]))
    torch.testing.assert_close(averages.relative(torch.tensor([0, 1, 3])), torch.tensor([0.25, 1.0, 0.2]))


def test_rows_that_only_the_biased_network_gets_wrong_weigh_most() -> None:
    weights = relative_difficulty(torch.tensor([1.0, 0.5, 0.01, 0.0]), torch.tensor([0.01, 0.5, 1.0, 0.0]))
    torch.testing.assert_close(weights, torch.tensor([1 / 1.01, 0.5, 0.01 / 1.01, 0.0]))


def test_the_temperature_undoes_overconfidence_but_never_sharpens() -> None:
    logits = torch.tensor([[1.0, 9.0]]).log().repeat(10, 1)  # sure to 90 %
    chance = torch.tensor([1] * 9 + [0])
    too_sure, too_shy = Temperature(), Temperature()
    for _ in range(400):
        too_sure.fit_step(3 * logits, chance)
        too_shy.fit_step(logits / 3, chance)
    assert too_sure.value == pytest.approx(3, rel=0.02)
    assert too_shy.value == 1


@pytest.mark.parametrize("seed", [0, 1])
def test_rare_rows_that_break_a_shortcut_are_learnt_better_than_by_the_ordinary_classifier(seed: int) -> None:
    sources = make_sources(missing=(), class_distance=3.0, subgroup_distance=10.0, n_train=300, n_test=150, seed=seed)
    train, test = sources.train, sources.test
    breaks = train.y != train.s
    train = train.take(np.concatenate([np.flatnonzero(~breaks), np.flatnonzero(breaks)[:30]]))
    guess, ordinary = (
        model.fit(train.x, train.y, train.s).predict(test.x)
        for model in (kind(sampling="plain", epochs=100, random_state=seed) for kind in (LffClassifier, ErmClassifier))
    )
    rare = test.y != test.s
    assert accuracy(test.y[rare], guess[rare]) > accuracy(test.y[rare], ordinary[rare]) + 0.08
    assert robust_accuracy(test.y, guess, test.s) > robust_accuracy(test.y, ordinary, test.s)


def test_labels_that_are_wrong_by_chance_do_not_turn_predictions_around() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 2))
    y = (x[:, 0] > 0).astype(np.int64)
    noisy = np.where(rng.random(500) < 0.2, 1 - y, y)
    published, ours = (
        LffClassifier(calibrate=calibrate, epochs=100).fit(x, noisy, rng.integers(2, size=500))
        for calibrate in (False, True)
    )
    assert accuracy(y, published.predict(x)) < 0.5  # why the change was made
    assert accuracy(y, ours.predict(x)) > 0.8
    assert published.temperature_ == 1 < ours.temperature_


@pytest.mark.parametrize("wrong", [{"q": 0.0}, {"q": 1.5}, {"alpha": 1.0}, {"alpha": -0.1}])
def test_exponents_and_shares_outside_their_range_are_refused(wrong: dict[str, float]) -> None:
    train = make_sources(n_train=5).train
    with pytest.raises(ConfigError, match=f"`{next(iter(wrong))}`"):
        LffClassifier(**wrong).fit(train.x, train.y, train.s)


def test_the_two_networks_differ_and_images_are_classified_too() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(32) % 2
    x = rng.integers(0, 100, (32, 1, 12, 12), dtype=np.uint8) + (155 * y[:, None, None, None]).astype(np.uint8)
    model = LffClassifier(widths=(4, 4), epochs=2).fit(x, y, rng.integers(2, size=32))
    assert model.predict_proba(x).shape == (32, 2)
    assert not torch.equal(model.network_[0].weight, model.biased_network_[0].weight)


def test_copies_keep_every_argument_and_predict_the_same() -> None:
    sources = make_sources(n_train=10, n_test=5)
    train = sources.train
    model = LffClassifier(q=0.5, alpha=0.9, calibrate=False, epochs=2, random_state=1)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.get_params().items() >= {"q": 0.5, "alpha": 0.9, "calibrate": False, "epochs": 2}.items()
    one, same = (each.fit(train.x, train.y, train.s).predict_proba(sources.test.x) for each in (model, copy))
    assert np.array_equal(one, same)
