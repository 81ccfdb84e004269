"""Each term of the objective against a reference written by hand or in numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from supportmatch.data.containers import TableLayout
from supportmatch.losses import adversarial_loss, discrimination_loss, norm_penalty, reconstruction_error

TRAIN, DEPLOY = torch.tensor([-2.0, 0.5, 1.0]), torch.tensor([3.0, -0.25])
LAYOUT = TableLayout(blocks=((0, 3), (3, 5)), continuous=(5, 6))


def surprise(p: np.ndarray) -> float:
    return float(-np.log(p).mean())


def p_deploy(logits: Tensor) -> np.ndarray:
    return 1 / (1 + np.exp(-logits.double().numpy()))


def table_rows(n: int) -> Tensor:
    one_hot = [torch.eye(3)[torch.randint(3, (n,))], torch.eye(2)[torch.randint(2, (n,))]]
    return torch.cat([*one_hot, torch.randn(n, 2)], dim=1)


def test_discrimination_is_the_cross_entropy_of_naming_the_set() -> None:
    expected = surprise(1 - p_deploy(TRAIN)) + surprise(p_deploy(DEPLOY))
    assert discrimination_loss(TRAIN, DEPLOY).item() == pytest.approx(expected, rel=1e-6)


def test_an_undecided_discriminator_loses_two_bits() -> None:
    assert discrimination_loss(torch.zeros(4), torch.zeros(2)).item() == pytest.approx(2 * np.log(2))


def test_a_sure_and_right_discriminator_loses_nothing_and_a_sure_and_wrong_one_stays_finite() -> None:
    sure = torch.full((3,), 1e4)
    assert discrimination_loss(-sure, sure).item() == 0.0
    assert discrimination_loss(sure, -sure).item() == pytest.approx(2e4)


def test_the_minimax_loss_is_the_discriminators_with_the_sign_turned() -> None:
    assert adversarial_loss(TRAIN, DEPLOY).item() == -discrimination_loss(TRAIN, DEPLOY).item()


def test_the_non_saturating_loss_is_the_discriminators_with_the_sets_exchanged() -> None:
    expected = surprise(p_deploy(TRAIN)) + surprise(1 - p_deploy(DEPLOY))
    assert adversarial_loss(TRAIN, DEPLOY, kind="non-saturating").item() == pytest.approx(expected, rel=1e-6)


def test_a_sure_discriminator_stops_the_minimax_encoder_but_not_the_other() -> None:
    for kind, pull in (("minimax", 0.0), ("non-saturating", 1.0)):
        train, deploy = torch.full((1,), -1e3, requires_grad=True), torch.full((1,), 1e3, requires_grad=True)
        on_train, on_deploy = torch.autograd.grad(adversarial_loss(train, deploy, kind), (train, deploy))
        assert (on_train.item(), on_deploy.item()) == pytest.approx((-pull, pull))


def test_the_loss_as_run_is_non_saturating_on_training_bags_only() -> None:
    expected = surprise(p_deploy(TRAIN)) - surprise(p_deploy(DEPLOY))
    assert adversarial_loss(TRAIN, DEPLOY, kind="as-run").item() == pytest.approx(expected, rel=1e-6)


def test_either_set_counts_the_same_however_many_bags_it_has() -> None:
    doubled = discrimination_loss(TRAIN.repeat(5), DEPLOY)
    assert doubled.item() == pytest.approx(discrimination_loss(TRAIN, DEPLOY).item())


@pytest.mark.parametrize("layout", [None, TableLayout.all_continuous(7)])
def test_without_one_hot_blocks_reconstruction_is_the_mean_squared_error(layout: TableLayout | None) -> None:
    x, guess = torch.randn(5, 7), torch.randn(5, 7)
    expected = ((x - guess).numpy() ** 2).mean()
    assert reconstruction_error(guess, x, layout).item() == pytest.approx(expected, rel=1e-5)


def test_reconstruction_of_images_is_the_mean_squared_error() -> None:
    x, guess = torch.rand(2, 3, 4, 4), torch.rand(2, 3, 4, 4)
    assert reconstruction_error(guess, x, None).item() == pytest.approx(((x - guess).numpy() ** 2).mean(), rel=1e-5)


def test_reconstruction_of_a_mixed_table_is_cross_entropy_per_block_plus_squared_error_per_element() -> None:
    x, guess = table_rows(6), torch.randn(6, 7)
    a, b = x.double().numpy(), guess.double().numpy()
    total = ((a[:, 5:] - b[:, 5:]) ** 2).sum()
    for start, stop in LAYOUT.blocks:
        p = np.exp(b[:, start:stop]) / np.exp(b[:, start:stop]).sum(axis=1, keepdims=True)
        total -= np.log(p[a[:, start:stop] == 1]).sum()
    assert reconstruction_error(guess, x, LAYOUT).item() == pytest.approx(total / a.size, rel=1e-5)


def test_perfect_logits_and_numbers_reconstruct_a_mixed_table_without_error() -> None:
    x = table_rows(6)
    perfect = torch.cat([100 * x[:, :5], x[:, 5:]], dim=1)
    assert reconstruction_error(perfect, x, LAYOUT).item() == pytest.approx(0.0, abs=1e-6)


def test_logits_of_a_block_may_be_shifted_freely_but_numbers_may_not() -> None:
    x, guess = table_rows(6), torch.randn(6, 7)
    error = reconstruction_error(guess, x, LAYOUT).item()
    shift = torch.tensor([5.0, 5.0, 5.0, 0, 0, 0, 0])
    assert reconstruction_error(guess + shift, x, LAYOUT).item() == pytest.approx(error, rel=1e-5)
    moved = reconstruction_error(guess + shift.flip(0), x, LAYOUT).item()
    assert moved != pytest.approx(error, rel=1e-3)


def test_a_table_of_categories_alone_needs_no_numbers() -> None:
    x = torch.tensor([[1.0, 0.0]])
    error = reconstruction_error(torch.zeros(1, 2), x, TableLayout(blocks=((0, 2),), continuous=()))
    assert error.item() == pytest.approx(np.log(2) / 2)


def test_the_norm_penalty_is_the_mean_length_of_codes() -> None:
    z = torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, 1.0]])
    assert norm_penalty(z).item() == pytest.approx(2.0)


def test_the_norm_penalty_has_a_finite_gradient_at_a_code_of_zeros() -> None:
    z = torch.zeros(2, 3, requires_grad=True)
    norm_penalty(z).backward()
    assert z.grad is not None
    assert torch.isfinite(z.grad).all()
