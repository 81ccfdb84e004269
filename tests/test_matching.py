"""The loop of the game; which way each player is pulled is in `test_paper.py`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from supportmatch.bags import GroupedBags, TrainingBags
from supportmatch.config import (
    AutoencoderConfig,
    BagConfig,
    ClassifierConfig,
    Config,
    DiscriminatorConfig,
    MatchingConfig,
)
from supportmatch.data.containers import Labeled, Unlabeled
from supportmatch.data.synthetic import make_sources
from supportmatch.errors import ConfigError, DivergedError
from supportmatch.estimator import SupportMatchingClassifier
from supportmatch.history import History
from supportmatch.matching import EncoderPlayer, Game, match_supports, new_game, play_step, read_batch
from supportmatch.metrics import robust_accuracy
from supportmatch.sources import Ids

SOURCES = make_sources(n_train=20, n_deploy=20, n_test=1)
N_FEATURES = 6
TINY = Config(
    autoencoder=AutoencoderConfig(kind="mlp", widths=(8,), code_size=4),
    discriminator=DiscriminatorConfig(hidden_before=(8,), row_size=4, gate_size=4, hidden_after=()),
    matching=MatchingConfig(
        steps=4, learning_rate=1e-3, discriminator_learning_rate=1e-3, decay_from=1.0, averaging=0.9
    ),
)


def settings(**changes: Any) -> Config:
    return TINY.model_copy(update={"matching": TINY.matching.model_copy(update=changes)})


def bags_of(train: Labeled) -> tuple[TrainingBags, GroupedBags]:
    truth = train.grid.source_ids(SOURCES.oracle.y, SOURCES.oracle.subgroup)
    return TrainingBags.of(train, 2, 4, seed=0), GroupedBags(truth, 2, 4, seed=0)


def play(
    config: Config = TINY, *, seed: int = 0, train: Labeled = SOURCES.train, **networks: Any
) -> tuple[EncoderPlayer, History]:
    return match_supports(train, SOURCES.deploy, *bags_of(train), config, seed, **networks)


def weights_of(network: nn.Module) -> list[Tensor]:
    return [value.detach().clone() for value in network.state_dict().values()]


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def own_encoder() -> nn.Sequential:
    return nn.Sequential(nn.Linear(N_FEATURES, 5), nn.Tanh(), nn.Linear(5, 3))


def test_the_same_seed_gives_the_same_weights_and_history_to_the_last_bit() -> None:
    (one, first), (other, second) = play(), play()
    assert same(weights_of(one), weights_of(other))
    assert first == second


def test_the_weights_do_not_depend_on_torchs_global_generator() -> None:
    one, _ = play()
    torch.manual_seed(123)
    assert same(weights_of(one), weights_of(play()[0]))


def test_another_seed_gives_other_weights() -> None:
    assert not same(weights_of(play(seed=0)[0]), weights_of(play(seed=1)[0]))


def test_zero_steps_return_the_initial_weights_and_no_history() -> None:
    player, history = play(settings(steps=0))
    assert same(weights_of(player), weights_of(new_game(SOURCES.train, TINY, 0).player))
    assert history.rows == []


def test_the_history_has_every_term_of_every_step_and_the_total_is_their_weighted_sum() -> None:
    config = settings(reconstruction_weight=3.0, adversarial_weight=0.5, class_weight=2.0, norm_weight=0.0)
    _, history = play(config)
    assert history.column("step") == [0, 1, 2, 3]
    for row in history.rows:
        weighted = 3 * row["reconstruction"] + 0.5 * row["adversarial"] + 2 * row["class"] + row["subgroup"]
        assert row["total"] == pytest.approx(weighted, rel=1e-5)
        assert "norm" not in row  # a term that does not count is not computed
        assert 0 <= row["discriminator_accuracy"] <= 1


def test_progress_is_told_after_every_step() -> None:
    told: list[tuple[int, int]] = []
    play(report=lambda done, total: told.append((done, total)))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


def weights_after_every_step(config: Config) -> list[list[np.ndarray]]:
    game, bags = new_game(SOURCES.train, config, 0), bags_of(SOURCES.train)
    steps = []
    for step in range(config.matching.steps):
        game.set_pace(step)
        play_step(game, read_batch(SOURCES.train, SOURCES.deploy, *bags, step))
        steps.append([p.detach().double().numpy().copy() for p in game.player.parameters()])
    return steps


def test_the_weights_kept_are_the_bias_corrected_average_over_steps() -> None:
    decay = 0.9
    steps = weights_after_every_step(TINY)
    shares = np.array([decay ** (len(steps) - 1 - i) for i in range(len(steps))])
    kept, _ = play()
    for i, parameter in enumerate(kept.parameters()):
        expected = np.average([step[i] for step in steps], axis=0, weights=shares)
        np.testing.assert_allclose(parameter.detach().numpy(), expected, rtol=1e-5, atol=1e-6)


def test_without_averaging_the_last_weights_are_kept() -> None:
    config = settings(averaging=0.0)
    kept, _ = play(config)
    for parameter, last in zip(kept.parameters(), weights_after_every_step(config)[-1], strict=True):
        assert np.array_equal(parameter.detach().numpy(), last.astype(np.float32))


@contextmanager
def recorded_updates() -> Iterator[list[int]]:
    """Record which optimiser moves: numbered in the order of their first move."""
    order: list[int] = []
    numbers: dict[int, int] = {}
    handle = register_optimizer_step_post_hook(
        lambda optimiser, *_: order.append(numbers.setdefault(id(optimiser), len(numbers)))
    )
    try:
        yield order
    finally:
        handle.remove()


def test_the_discriminator_moves_k_times_before_each_move_of_the_encoder() -> None:
    discriminator, encoder = 0, 1
    with recorded_updates() as order:
        play(settings(steps=2, discriminator_updates=3))
    assert order == [discriminator, discriminator, discriminator, encoder] * 2


@dataclass(frozen=True, eq=False)
class RecordedBags(TrainingBags):
    drawn: list[Ids] = field(default_factory=list)

    def draw(self, step: int, update: int = 0) -> Ids:
        rows = super().draw(step, update)
        self.drawn.append(rows)
        return rows


def test_every_update_of_the_discriminator_sees_fresh_bags() -> None:
    train = SOURCES.train
    bags = RecordedBags(train.source_ids, train.support, 2, 4, seed=0)
    config = settings(steps=2, discriminator_updates=3)
    match_supports(train, SOURCES.deploy, bags, bags_of(train)[1], config, 0)
    assert len({rows.tobytes() for rows in bags.drawn}) == 2 * 3


def rates(game: Game) -> tuple[float, float]:
    return game.player_optimiser.param_groups[0]["lr"], game.discriminator_optimiser.param_groups[0]["lr"]


def test_step_sizes_are_constant_when_they_decay_from_the_end() -> None:
    game = new_game(SOURCES.train, settings(steps=10), 0)
    for step in range(10):
        game.set_pace(step)
        assert rates(game) == (1e-3, 1e-3)


def test_step_sizes_fall_linearly_to_zero_after_decay_from() -> None:
    config = settings(steps=10, decay_from=0.5, learning_rate=0.1, discriminator_learning_rate=0.2)
    game = new_game(SOURCES.train, config, 0)
    seen = []
    for step in range(11):
        game.set_pace(step)
        player_rate, discriminator_rate = rates(game)
        assert discriminator_rate == pytest.approx(2 * player_rate)
        seen.append(player_rate)
    assert seen == pytest.approx([0.1] * 6 + [0.08, 0.06, 0.04, 0.02, 0.0])


def test_step_sizes_may_fall_from_the_start() -> None:
    game = new_game(SOURCES.train, settings(steps=4, decay_from=0.0, learning_rate=0.1), 0)
    game.set_pace(1)
    assert rates(game)[0] == pytest.approx(0.075)


def test_a_loss_that_is_not_finite_stops_the_game_with_advice() -> None:
    train = Labeled(SOURCES.train.x * 1e30, y=SOURCES.train.y, s=SOURCES.train.s, grid=SOURCES.train.grid)
    with pytest.raises(DivergedError, match=r"at step 0: .*reconstruction.* is not finite\. Lower `learning_rate`"):
        play(train=train)


def test_steps_that_are_far_too_large_stop_the_game_at_the_step_they_break_it() -> None:
    with pytest.raises(DivergedError, match=r"diverged at step 1: "):
        play(settings(learning_rate=1e20))


def test_a_last_step_that_is_far_too_large_is_noticed_too() -> None:
    with pytest.raises(DivergedError):
        play(settings(learning_rate=1e38, steps=1))


def test_a_guided_start_learns_the_named_classes_and_then_lets_go() -> None:
    truth = np.asarray(SOURCES.oracle.y)
    free, guided = (settings(steps=120, learning_rate=1e-2, guided_steps=n) for n in (0, 60))
    same_game, told, misled = (
        play(config, guide=names)[1].column("class")
        for config, names in ((free, truth), (guided, truth), (guided, 1 - truth))
    )
    assert same_game == play(free)[1].column("class")  # without guided steps the names are not looked at
    assert told[0] != same_game[0]
    assert np.mean(told[50:60]) < np.mean(misled[50:60]) - 0.1
    assert np.mean(misled[100:]) < np.mean(misled[50:60]) / 2  # only training rows count from step 60 on


def test_a_users_encoder_without_a_decoder_trains_without_reconstruction() -> None:
    player, history = play(encoder=own_encoder())
    assert player.z_size == 2
    assert "reconstruction" not in history.rows[0]
    assert all(np.isfinite(history.column("total")))
    with pytest.raises(ConfigError, match="without a decoder"):
        player.decode(player.encode(torch.zeros(1, N_FEATURES)))


def test_a_users_encoder_and_decoder_train_with_reconstruction() -> None:
    player, history = play(encoder=own_encoder(), decoder=nn.Linear(3, N_FEATURES))
    assert all(value > 0 for value in history.column("reconstruction"))
    x = torch.zeros(2, N_FEATURES)
    assert player.decode(player.encode(x)).shape == x.shape


@pytest.mark.parametrize("frozen", [False, True])
def test_an_encoder_that_no_term_can_move_is_refused(frozen: bool) -> None:
    norm_weight = 1.0 if frozen else 0.0
    config = settings(adversarial_weight=0.0, class_weight=0.0, subgroup_weight=0.0, norm_weight=norm_weight)
    with pytest.raises(ConfigError):
        play(config, encoder=own_encoder().requires_grad_(not frozen))


def test_a_wholly_frozen_encoder_is_refused_although_the_predictors_could_move() -> None:
    with pytest.raises(ConfigError, match="can move the encoder"):
        play(settings(), encoder=own_encoder().requires_grad_(False))


def test_frozen_parameters_stay_frozen_and_the_others_move() -> None:
    encoder = own_encoder()
    encoder[0].requires_grad_(False)
    before = deepcopy(encoder)
    player, _ = play(settings(learning_rate=0.1), encoder=encoder)
    assert same(weights_of(player.encoder[0]), weights_of(before[0]))
    assert not same(weights_of(player.encoder[2]), weights_of(before[2]))


def test_a_layer_set_to_evaluation_stays_there() -> None:
    norm = nn.BatchNorm1d(N_FEATURES).requires_grad_(False).eval()
    before = weights_of(norm)
    player, _ = play(encoder=nn.Sequential(norm, nn.Linear(N_FEATURES, 3)))
    assert same(weights_of(player.encoder[0]), before)


def test_running_statistics_of_a_users_encoder_reach_the_kept_copy() -> None:
    player, _ = play(encoder=nn.Sequential(nn.BatchNorm1d(N_FEATURES), nn.Linear(N_FEATURES, 3)))
    norm = player.encoder[0]
    assert norm.num_batches_tracked == TINY.matching.steps
    assert norm.running_mean.abs().sum() > 0
    assert not norm.training


def test_an_encoder_that_returns_images_is_refused() -> None:
    images = Labeled(np.zeros((6, 3, 4, 4)), y=np.arange(6) % 2, s=np.arange(6) % 2, grid=SOURCES.train.grid)
    with pytest.raises(ConfigError, match=r"must return flat codes .* returned shape \(2, 5, 4, 4\)"):
        new_game(images, TINY, 0, encoder=nn.Conv2d(3, 5, 3, padding=1))


def test_a_decoder_whose_rows_have_another_shape_is_refused() -> None:
    with pytest.raises(ConfigError):
        play(encoder=own_encoder(), decoder=nn.Linear(3, 1))


def test_a_code_without_room_for_z_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"a code of 1 dimensions leaves none for z, because s~ takes 1"):
        play(encoder=nn.Linear(N_FEATURES, 1))


def test_images_are_matched_like_tables() -> None:
    rng = np.random.default_rng(0)
    train = Labeled(
        rng.integers(0, 256, (12, 3, 8, 8), dtype=np.uint8), y=np.arange(12) % 2, s=np.ones(12), grid=SOURCES.train.grid
    )
    deploy = Unlabeled(rng.integers(0, 256, (12, 3, 8, 8), dtype=np.uint8))
    config = TINY.model_copy(update={"autoencoder": AutoencoderConfig(widths=(4, 4), code_size=5)})
    bags = TrainingBags.of(train, 2, 4, seed=0), GroupedBags(np.arange(12) % 4, 2, 4, seed=0)
    player, history = match_supports(train, deploy, *bags, config, 0)
    code = player.encode(torch.zeros(2, 3, 8, 8))
    assert code.z.shape == (2, 4)
    assert ((code.side > 0) & (code.side < 1)).all()
    assert len(history.rows) == 4


LEARNING = Config(
    bags=BagConfig(n_bags=8, bag_size=8),
    autoencoder=AutoencoderConfig(kind="mlp", widths=(32,), code_size=8),
    discriminator=DiscriminatorConfig(hidden_before=(32,), row_size=32, gate_size=32, hidden_after=()),
    matching=MatchingConfig(
        steps=200,
        learning_rate=2e-3,
        discriminator_learning_rate=4e-3,
        decay_from=1.0,
        reconstruction_weight=1.0,
        norm_weight=0.1,
        averaging=0.98,
    ),
    classifier=ClassifierConfig(epochs=15, batch_size=128, learning_rate=2e-2),
)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_matching_recovers_a_missing_source_that_labels_alone_do_not(seed: int) -> None:
    # Overlapping classes (Bayes accuracy 0.89) make the subgroup, which is easy to read, worth using.
    sources = make_sources(class_distance=2.5, n_train=150, n_deploy=150, seed=seed)
    train, test, truth = sources.train, sources.test, sources.oracle
    scores = {}
    for weight in (0.0, 0.1):
        matching = LEARNING.matching.model_copy(update={"adversarial_weight": weight})
        config = LEARNING.model_copy(update={"matching": matching})
        model = SupportMatchingClassifier(config=config, random_state=seed).fit_with_oracle_bags(
            train.x, train.y, train.s, sources.deploy.x, y_deploy=truth.y, subgroup_deploy=truth.subgroup
        )
        scores[weight] = robust_accuracy(test.y, model.predict(test.x), test.s)
    assert scores[0.1] > 0.78
    assert scores[0.1] > scores[0.0] + 0.1
