"""Group DRO: weights follow losses, and only training batches move them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone

from supportmatch.baselines.group_dro import GroupDroClassifier, GroupWeights
from supportmatch.data.synthetic import make_sources
from supportmatch.errors import ConfigError
from supportmatch.metrics import accuracy, robust_accuracy


def test_one_batch_moves_the_weights_as_published() -> None:
    weights = GroupWeights(np.array([4, 100]), step_size=0.5, adjustment=0.6)
    loss = weights.weigh(torch.tensor([1.0, 3.0, 0.5]), torch.tensor([0, 0, 1]))
    raw = 0.5 * np.exp(0.5 * np.array([2.0 + 0.6 / np.sqrt(4), 0.5 + 0.6 / np.sqrt(100)]))
    q = raw / raw.sum()
    np.testing.assert_allclose(weights.q, q)
    assert float(loss) == pytest.approx(q @ [2.0, 0.5])


def test_weights_are_constants_to_the_gradient() -> None:
    weights = GroupWeights(np.array([2, 2]), step_size=1.0)
    losses = torch.tensor([1.0, 3.0, 0.5], requires_grad=True)
    weights.weigh(losses, torch.tensor([0, 0, 1])).backward()
    q = weights.q.float()
    torch.testing.assert_close(losses.grad, torch.stack([q[0] / 2, q[0] / 2, q[1]]))


def test_a_group_outside_the_batch_keeps_its_share_of_the_others() -> None:
    weights = GroupWeights(np.array([5, 5, 5]), step_size=1.0)
    loss = weights.weigh(torch.tensor([2.0]), torch.tensor([1]))
    assert weights.q.sum() == pytest.approx(1)
    assert weights.q[0] == weights.q[2] < weights.q[1]
    assert float(loss) == pytest.approx(2 * float(weights.q[1]))


def test_weights_concentrate_on_the_worse_group_and_return_when_it_improves() -> None:
    weights = GroupWeights(np.array([5, 5]), step_size=0.1)
    for _ in range(100):
        weights.weigh(torch.tensor([0.1, 1.0]), torch.tensor([0, 1]))
    assert weights.q[1] > 0.99
    for _ in range(200):
        weights.weigh(torch.tensor([1.0, 0.1]), torch.tensor([0, 1]))
    assert weights.q[0] > 0.99


def test_a_dominating_step_size_tracks_the_largest_loss() -> None:
    weights = GroupWeights(np.array([5, 5, 5]), step_size=1e9)
    loss = weights.weigh(torch.tensor([0.3, 0.7, 0.5]), torch.tensor([0, 1, 2]))
    assert float(loss) == pytest.approx(0.7)
    assert torch.isfinite(weights.q).all()


def test_without_memory_the_worst_group_of_each_batch_has_all_the_weight() -> None:
    weights = GroupWeights(np.array([5, 5, 5]), step_size="worst")
    first = weights.weigh(torch.tensor([1.0, 3.0, 2.0]), torch.tensor([0, 1, 1]))
    assert first.item() == 2.5
    assert weights.q.tolist() == [0, 1, 0]
    assert weights.weigh(torch.tensor([0.5, 0.1]), torch.tensor([2, 0])).item() == 0.5
    assert weights.q.tolist() == [0, 0, 1]


def test_groups_without_rows_have_no_weight() -> None:
    weights = GroupWeights(np.array([5, 0, 5]), step_size=1.0, adjustment=1.0)
    assert weights.q.tolist() == pytest.approx([0.5, 0, 0.5])


def test_the_adjustment_favours_the_smaller_group() -> None:
    weights = GroupWeights(np.array([5, 500]), step_size=1.0, adjustment=2.0)
    weights.weigh(torch.tensor([1.0, 1.0]), torch.tensor([0, 1]))
    assert weights.q[0] > 0.6


def test_the_harder_subgroup_gets_the_weight_and_does_better_for_it() -> None:
    train, test = (_subgroups_that_disagree(seed) for seed in (0, 1))
    equal, worst = (
        GroupDroClassifier(epochs=60, widths=(), learning_rate=0.02, step_size=step).fit(*train) for step in (0.0, 0.1)
    )
    assert equal.q_.tolist() == pytest.approx([0.5, 0.5])
    assert worst.q_[1] > 0.6
    x, y, s = test
    before, after = (accuracy(y[s == 1], model.predict(x[s == 1])) for model in (equal, worst))
    assert after > before + 0.03


def test_sources_that_occur_can_be_the_groups() -> None:
    train = make_sources(n_train=20).train
    model = GroupDroClassifier(epochs=2, groups="sources").fit(train.x, train.y, train.s)
    assert model.q_.shape == (4,)
    assert model.q_[2] == 0
    assert (model.q_[[0, 1, 3]] > 0).all()


def test_separable_classes_are_learnt_when_every_source_is_seen() -> None:
    sources = make_sources(missing=(), class_distance=10.0, n_train=40, n_test=50)
    train, test = sources.train, sources.test
    model = GroupDroClassifier(epochs=150).fit(train.x, train.y, train.s)
    assert robust_accuracy(test.y, model.predict(test.x), test.s) > 0.97


@pytest.mark.parametrize("groups", ["subgroups", "sources"])
def test_a_subgroup_without_rows_is_refused(groups: str) -> None:
    train = make_sources(missing=((0, 0), (1, 0)), n_train=5).train
    with pytest.raises(ConfigError, match="a loss for every declared subgroup, but 0 has no labelled row"):
        GroupDroClassifier(groups=groups, subgroup_names=(0, 1)).fit(train.x, train.y, train.s)


@pytest.mark.parametrize(
    "wrong",
    [
        {"groups": "classes"},
        {"step_size": -1.0},
        {"step_size": "slow"},
        {"step_size": float("inf")},
        {"adjustment": -1.0},
    ],
)
def test_senseless_arguments_are_refused(wrong: dict[str, object]) -> None:
    train = make_sources(n_train=5).train
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        GroupDroClassifier(**wrong).fit(train.x, train.y, train.s)


def test_copies_keep_every_argument_and_predict_the_same() -> None:
    sources = make_sources(n_train=10, n_test=5)
    train = sources.train
    model = GroupDroClassifier(groups="sources", step_size=0.5, adjustment=1.0, epochs=2, sampling="plain")
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.get_params().items() >= {"groups": "sources", "step_size": 0.5, "sampling": "plain"}.items()
    one, same = (each.fit(train.x, train.y, train.s).predict_proba(sources.test.x) for each in (model, copy))
    assert np.array_equal(one, same)


def _subgroups_that_disagree(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows whose first column tells the class in one subgroup and misleads a little in the other.

    The other subgroup has only the second, noisier column, so a linear rule must choose whom to serve.
    """
    rng = np.random.default_rng(seed)
    y, s = rng.integers(2, size=1_000), np.arange(1_000) % 2
    sign = 2.0 * y - 1
    first = np.where(s == 0, 2 * sign, -0.5 * sign) + rng.normal(size=1_000)
    second = np.where(s == 0, 0.0, sign) + rng.normal(size=1_000)
    return np.column_stack([first, second]), y, s
