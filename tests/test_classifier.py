"""The classifier y from z, on codes that are simply the features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from supportmatch.classifier import Standardise, build_classifier, fit_classifier, predict_rows, transform_rows
from supportmatch.config import ClassifierConfig
from supportmatch.data.containers import Labeled, Rows
from supportmatch.matching import EncoderPlayer
from supportmatch.sources import SourceGrid

GRID = SourceGrid(classes=(0, 1), subgroups=("purple", "green"))
COUNTS = {(0, 0): 60, (0, 1): 30, (1, 1): 10}
FIT = ClassifierConfig(epochs=100, batch_size=64, learning_rate=0.03)


def player_of(code_size: int) -> EncoderPlayer:
    """Return a player whose code is the row itself: the first feature is s~, the others are z."""
    return EncoderPlayer(
        nn.Identity(), None, code_size=code_size, n_classes=2, n_subgroups=2, side_channel="raw"
    ).eval()


def codes_of(z: np.ndarray, y: np.ndarray, s: np.ndarray | None = None) -> Labeled:
    x = np.column_stack([np.zeros(len(z)), z])
    return Labeled(x, y=y, s=np.zeros(len(z)) if s is None else s, grid=GRID)


def fit_and_predict(train: Labeled, **changes: Any) -> np.ndarray:
    player = player_of(train.x.shape[1])
    network = fit_classifier(player, train, FIT.model_copy(update=changes), seed=0)
    return predict_rows(network, Rows(transform_rows(player, train)))


@pytest.mark.parametrize(
    ("sampling", "share_of_class_1", "share_among_green"),
    [
        ("pi", 1 / 2, 2 / 3),  # classes equal; the half of class 0 is half purple, half green
        ("sources", 1 / 3, 1 / 2),  # the three seen sources equal
        ("plain", 1 / 10, 1 / 4),  # 10 of 100 rows, 10 of 40 green ones
    ],
)
def test_batches_are_balanced_as_the_sampling_says(
    sampling: str, share_of_class_1: float, share_among_green: float
) -> None:
    y, s = np.repeat(list(COUNTS), list(COUNTS.values()), axis=0).T
    nothing_to_see = fit_and_predict(codes_of(np.zeros((100, 1)), y, s), sampling=sampling)
    assert nothing_to_see[:, 1] == pytest.approx(share_of_class_1, abs=0.06)
    subgroup_to_see = fit_and_predict(codes_of(s[:, None], y, s), sampling=sampling)
    assert subgroup_to_see[s == 1, 1] == pytest.approx(share_among_green, abs=0.06)
    assert subgroup_to_see[s == 0, 1].max() < 0.15


def test_probabilities_sum_to_one() -> None:
    rng = np.random.default_rng(0)
    probabilities = fit_and_predict(codes_of(rng.normal(size=(40, 3)), rng.integers(2, size=40)), epochs=2)
    assert probabilities.shape == (40, 2)
    assert probabilities.dtype == np.float64
    assert (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)


def test_a_hidden_layer_learns_what_a_linear_classifier_cannot() -> None:
    z = np.random.default_rng(0).choice([-1.0, 1.0], size=(80, 2))
    y = (z.prod(axis=1) > 0).astype(np.int64)
    scores = [(fit_and_predict(codes_of(z, y), hidden=hidden).argmax(axis=1) == y).mean() for hidden in ((), (16,))]
    assert scores[0] < 0.8
    assert scores[1] == 1.0


def test_the_same_seed_gives_the_same_classifier() -> None:
    rng = np.random.default_rng(0)
    train = codes_of(rng.normal(size=(40, 3)), rng.integers(2, size=40))
    assert np.array_equal(fit_and_predict(train, epochs=2), fit_and_predict(train, epochs=2))


def test_the_scale_of_codes_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(40, 3)), rng.integers(2, size=40)
    one, other = (fit_and_predict(codes_of(scaled, y), epochs=5) for scaled in (z, 1_000 * z + 500))
    np.testing.assert_allclose(one, other, atol=1e-3)


def test_standardised_codes_have_mean_zero_and_deviation_one() -> None:
    layer = Standardise(3)
    z = torch.randn(50, 3) * torch.tensor([1.0, 100.0, 0.01]) + 5
    layer.adapt(z)
    out = layer(z)
    assert torch.allclose(out.mean(dim=0), torch.zeros(3), atol=1e-4)
    assert torch.allclose(out.std(dim=0, correction=0), torch.ones(3), atol=1e-4)


def test_constant_dimensions_are_shifted_but_not_scaled() -> None:
    layer = Standardise(2)
    z = torch.column_stack([torch.full((50,), 0.1), torch.randn(50)])
    layer.adapt(z)
    assert layer.scale[0] == 1.0
    assert layer(z)[:, 0].abs().max() < 1e-6
    assert torch.isfinite(layer(z + 3)).all()


def test_before_it_has_adapted_nothing_is_changed() -> None:
    z = torch.randn(4, 3)
    assert torch.equal(Standardise(3)(z), z)


def test_the_classifier_is_linear_by_default_and_ready_to_predict_when_fitted() -> None:
    layers = [type(layer) for layer in build_classifier(3, 2, ClassifierConfig())]
    assert layers == [Standardise, nn.Linear]
    train = codes_of(np.eye(4), np.array([0, 1, 0, 1]))
    assert not fit_classifier(player_of(5), train, ClassifierConfig(epochs=1), seed=0).training


def test_fitting_the_classifier_leaves_the_encoder_alone() -> None:
    encoder = nn.Linear(3, 3)
    before = encoder.weight.detach().clone()
    player = EncoderPlayer(encoder, None, code_size=3, n_classes=2, n_subgroups=2, side_channel="raw")
    fit_classifier(player, codes_of(np.eye(4)[:, :2], np.array([0, 1, 0, 1])), ClassifierConfig(epochs=1), seed=0)
    assert torch.equal(encoder.weight, before)


def test_rows_are_transformed_in_order_over_many_batches() -> None:
    x = np.arange(2_500 * 2, dtype=np.float32).reshape(2_500, 2)
    assert np.array_equal(transform_rows(player_of(2), Rows(x)), x[:, 1:])


def test_progress_is_told_up_to_the_end() -> None:
    told: list[tuple[int, int]] = []
    train = codes_of(np.eye(4), np.array([0, 1, 0, 1]))
    config = ClassifierConfig(epochs=3, batch_size=2)
    fit_classifier(player_of(5), train, config, seed=0, report=lambda done, total: told.append((done, total)))
    assert told[-1] == (6, 6)
