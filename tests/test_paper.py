"""The claims of the paper as tests: Pi, the rules of bags, both propositions, the two players, the split code."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import ceil, log, log2

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chisquare, norm
from sklearn.mixture import GaussianMixture
from torch import Tensor, nn
from torch.nn.functional import softplus

from supportmatch.bags import GroupedBags, TrainingBags
from supportmatch.config import AutoencoderConfig, Config, DiscriminatorConfig, MatchingConfig
from supportmatch.data.containers import Labeled
from supportmatch.losses import adversarial_loss, discrimination_loss
from supportmatch.matching import Batch, Game, new_game, step_discriminator, step_encoder
from supportmatch.networks.discriminators import build_discriminator
from supportmatch.networks.encoders import SplitCode, join_code, pass_side_channel, side_size, split_code
from supportmatch.sources import Ids, SourceGrid, Support

Seen = tuple[tuple[bool, ...], ...]
PURPLE, GREEN, TWO, FOUR = 0, 1, 0, 1
NO_PURPLE_FOUR: Seen = ((True, True), (False, True))
NO_PURPLE: Seen = ((False, True), (False, True))
THREE_BY_THREE: Seen = ((True, False, True), (True, True, True), (False, True, False))
some_examples = settings(deadline=None, max_examples=60)


def support_of(seen: Seen) -> Support:
    return Support(SourceGrid(tuple(range(len(seen))), tuple(range(len(seen[0])))), seen)


# --- Pi (Eq. 2, and the example of the appendix) ----------------------------------------------------------------------


def test_purple_fours_are_stood_for_by_green_fours_and_every_other_source_by_itself() -> None:
    support = Support(SourceGrid(classes=(2, 4), subgroups=("purple", "green")), NO_PURPLE_FOUR)
    assert support.pi(PURPLE, TWO) == {PURPLE}
    assert support.pi(GREEN, TWO) == {GREEN}
    assert support.pi(PURPLE, FOUR) == {GREEN}
    assert support.pi(GREEN, FOUR) == {GREEN}


# --- The rules of bags (Sec. "Realization") ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Setup:
    """A support and bags drawn under it, as source ids."""

    support: Support
    bag_size: int
    seed: int

    @property
    def sampler(self) -> TrainingBags:
        # Sources of very different sizes, so that balance cannot come by itself.
        source_ids = np.concatenate([np.full(2 + 5 * i, k) for i, k in enumerate(self.support.seen_sources)])
        return TrainingBags(source_ids, self.support, n_bags=3, bag_size=self.bag_size, seed=self.seed)

    def counts(self, step: int) -> Ids:
        """Return how often each source occurs in each bag of a step: bags x classes x subgroups."""
        sampler, grid = self.sampler, self.support.grid
        bags = sampler.source_ids[sampler.draw(step)]
        shape = (grid.n_classes, grid.n_subgroups)
        return np.stack([np.bincount(bag, minlength=grid.n_sources).reshape(shape) for bag in bags])


@st.composite
def setups(draw: st.DrawFn, divisible: bool = False) -> Setup:
    """Draw a grid of 2-4 classes by 2-4 subgroups in which every class has a training row, and a bag size."""
    n_classes, n_subgroups = draw(st.integers(2, 4)), draw(st.integers(2, 4))
    row = st.tuples(*[st.booleans()] * n_subgroups).filter(any)
    seen = draw(st.tuples(*[row] * n_classes))
    size = draw(st.integers(1, 4)) * n_classes * n_subgroups if divisible else draw(st.integers(1, 50))
    return Setup(support_of(seen), size, draw(st.integers(0, 2**31)))


@some_examples
@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.integers(1, 50), st.integers(0, 2**31))
def test_rule_1_deployment_bags_have_equal_shares_of_every_group(groups: list[int], size: int, seed: int) -> None:
    ids = np.array(groups)
    for bag in GroupedBags(ids, n_bags=3, bag_size=size, seed=seed).draw(0):
        counts = [int((ids[bag] == group).sum()) for group in set(groups)]
        assert sum(counts) == size
        assert max(counts) - min(counts) <= (size % len(counts) > 0)


@some_examples
@given(setups())
def test_rule_2_training_bags_have_equal_shares_of_every_class(setup: Setup) -> None:
    by_class = setup.counts(step=0).sum(axis=2)
    assert (by_class.sum(axis=1) == setup.bag_size).all()
    spread = by_class.max(axis=1) - by_class.min(axis=1)
    assert (spread <= (setup.bag_size % setup.support.grid.n_classes > 0)).all()


@some_examples
@given(setups(divisible=True))
def test_rule_3_subgroups_are_equal_within_classes_of_full_support(setup: Setup) -> None:
    counts, support = setup.counts(step=0), setup.support
    share = setup.bag_size // support.grid.n_sources
    for y in range(support.grid.n_classes):
        if support.is_complete_class(y):
            assert (counts[:, y] == share).all()


@some_examples
@given(setups(divisible=True))
def test_rule_3_slots_of_missing_sources_are_filled_from_their_own_class(setup: Setup) -> None:
    counts, support = setup.counts(step=0), setup.support
    share = setup.bag_size // support.grid.n_sources
    assert (counts[:, ~support.table] == 0).all()
    assert (counts[:, support.table] >= share).all()  # what is seen keeps its own slots
    extra = (counts - share * support.table).sum(axis=2)
    assert (extra == share * (~support.table).sum(axis=1)).all()  # and each class keeps the slots of its missing ones


@pytest.mark.parametrize("bag_size", [24, 22])
def test_rule_3_slots_of_missing_sources_are_filled_uniformly_in_the_long_run(bag_size: int) -> None:
    seen: Seen = ((True, False, True, True), (True, True, True, True), (False, True, False, True))
    setup = Setup(support_of(seen), bag_size, seed=0)
    counts = np.sum([setup.counts(step) for step in range(400)], axis=(0, 1))  # of 1,200 bags
    for y, row in enumerate(setup.support.table):
        np.testing.assert_allclose(counts[y][row], 1_200 * bag_size / 3 / row.sum(), rtol=0.03)
        if bag_size == 24 and not row.all():
            stand_ins = counts[y][row] - 1_200 * 2  # every seen source has two slots of its own
            assert chisquare(stand_ins).pvalue > 0.01


def test_rows_of_a_source_are_drawn_uniformly_in_the_long_run() -> None:
    sampler = Setup(support_of(NO_PURPLE_FOUR), bag_size=16, seed=0).sampler
    drawn = np.bincount(np.concatenate([sampler.draw(step).reshape(-1) for step in range(300)]))
    for source in sampler.support.seen_sources:
        assert chisquare(drawn[sampler.source_ids == source]).pvalue > 0.01


@some_examples
@given(setups(), st.permutations(range(5)))
def test_bags_are_functions_of_seed_and_step_whatever_was_drawn_before(setup: Setup, order: list[int]) -> None:
    for make in (lambda: setup.sampler, lambda: GroupedBags(np.arange(30) % 7, 3, setup.bag_size, setup.seed)):
        in_turn, sampler = [make().draw(step) for step in range(5)], make()
        for step in order:
            sampler.draw(step, update=1)
            np.testing.assert_array_equal(sampler.draw(step), in_turn[step])


def test_steps_updates_and_seeds_have_bags_of_their_own() -> None:
    sampler = Setup(support_of(NO_PURPLE_FOUR), bag_size=32, seed=0).sampler
    other = Setup(support_of(NO_PURPLE_FOUR), bag_size=32, seed=1).sampler
    draws = [sampler.draw(0), sampler.draw(1), sampler.draw(0, update=1), other.draw(0)]
    assert len({draw.tobytes() for draw in draws}) == len(draws)


# --- Proposition 1, where everything can be counted -------------------------------------------------------------------


def set_partitions(n: int) -> Ids:
    """Return every way to divide n things into unnamed blocks: one row of block ids each."""
    rows: list[list[int]] = [[]]
    for _ in range(n):
        rows = [[*row, block] for row in rows for block in range(max(row, default=-1) + 2)]
    return np.array(rows)


@dataclass(frozen=True)
class Encoders:
    """Every deterministic encoder of x = (y, s, nuisance), for equally likely x: which x share a code is all it is."""

    support: Support
    n_nuisance: int = 1

    @property
    def q(self) -> NDArray[np.float64]:
        """P(f(x) = z | s, y): encoders x classes x subgroups x codes. Training differs in prevalence only."""
        grid = self.support.grid
        n_inputs = grid.n_sources * self.n_nuisance
        one_hot = np.eye(n_inputs)[set_partitions(n_inputs)]
        return one_hot.reshape(-1, grid.n_classes, grid.n_subgroups, self.n_nuisance, n_inputs).mean(axis=3)

    def objective(self) -> NDArray[np.float64]:
        """L(f) of Eq. 3 with total variation as the distance."""
        q, grid = self.q, self.support.grid
        total = np.zeros(len(q))
        for y, s in product(range(grid.n_classes), range(grid.n_subgroups)):
            p = q[:, y, sorted(self.support.pi(s, y))].mean(axis=1)
            total += np.abs(p - q[:, y, s]).sum(axis=1) / 2
        return total

    def objective_balanced_by_subgroup(self) -> NDArray[np.float64]:
        """The incorrect procedure of the appendix: a missing (s, y) is stood for by the same s in other classes."""
        q, grid, seen = self.q, self.support.grid, self.support.table
        total = np.zeros(len(q))
        for y, s in product(range(grid.n_classes), range(grid.n_subgroups)):
            stand_ins = [y] if self.support.is_complete_subgroup(s) else np.flatnonzero(seen[:, s])
            p = q[:, stand_ins, s].mean(axis=1)
            total += np.abs(p - q[:, y, s]).sum(axis=1) / 2
        return total

    def keeps_the_class(self) -> NDArray[np.bool_]:
        """The constraint of Eq. 4, I(f(X); Y) = I(X; Y), which is H(Y) because x determines y."""
        n_classes = self.support.grid.n_classes
        joint = self.q.mean(axis=2) / n_classes  # encoders x classes x codes
        independent = joint.sum(axis=1, keepdims=True) / n_classes
        ratio = np.divide(joint, independent, out=np.ones_like(joint), where=joint > 0)
        return np.isclose((joint * np.log(ratio)).sum(axis=(1, 2)), log(n_classes))


def is_uniform(given: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell for which encoders P(v | z) = 1 / n_v wherever z occurs, from P(z | v) and equally likely v (axis 1)."""
    return np.isclose(given, given.mean(axis=1, keepdims=True)).all(axis=(1, 2))


PROBLEMS = [Encoders(support_of(NO_PURPLE_FOUR), n_nuisance=2), Encoders(support_of(THREE_BY_THREE))]


@pytest.mark.parametrize("encoders", [*PROBLEMS, Encoders(support_of(NO_PURPLE), n_nuisance=2)])
def test_proposition_1_a_perfect_encoder_cannot_tell_the_subgroup_in_classes_with_missing_sources(
    encoders: Encoders,
) -> None:
    q, matched, support = encoders.q, np.isclose(encoders.objective(), 0), encoders.support
    perfect = matched & encoders.keeps_the_class()
    assert perfect.any()
    for y in range(support.grid.n_classes):
        if not support.is_complete_class(y):
            assert is_uniform(q[matched, y]).all()
            assert not is_uniform(q[encoders.keeps_the_class(), y]).all()  # so the objective is what does it


@pytest.mark.parametrize("encoders", PROBLEMS)
def test_proposition_1_promises_nothing_for_classes_with_full_support(encoders: Encoders) -> None:
    perfect = np.isclose(encoders.objective(), 0) & encoders.keeps_the_class()
    complete = next(y for y in range(encoders.support.grid.n_classes) if encoders.support.is_complete_class(y))
    assert not is_uniform(encoders.q[perfect, complete]).all()


@pytest.mark.parametrize("encoders", PROBLEMS)
def test_balancing_by_subgroup_instead_makes_the_encoder_lose_the_class(encoders: Encoders) -> None:
    matched = np.isclose(encoders.objective_balanced_by_subgroup(), 0)
    assert matched.any()
    assert not (matched & encoders.keeps_the_class()).any()
    for s in range(encoders.support.grid.n_subgroups):
        if not encoders.support.is_complete_subgroup(s):
            assert is_uniform(encoders.q[matched, :, s]).all()


def test_rows_one_by_one_can_match_without_invariance_where_bags_cannot() -> None:
    # Two of four subgroups are missing in class 1. Merging each missing one with one that is seen gives training and
    # deployment rows the same distribution; but the number of stand-ins varies between training bags, and that shows.
    encoders = Encoders(support_of(((True,) * 4, (True, True, False, False))))
    q, keeps = encoders.q, encoders.keeps_the_class()
    seen_mean = q[:, 1, :2].mean(axis=1)
    rows_match = keeps & np.isclose(q[:, 1].mean(axis=1), seen_mean).all(axis=1)
    assert not is_uniform(q[rows_match, 1]).all()

    deploy_bag = q[:, 1].sum(axis=1)  # one slot per subgroup; how many rows have each code
    training_bags = [q[:, 1, [0, 1, first, second]].sum(axis=1) for first in range(2) for second in range(2)]
    bags_match = keeps & np.all([np.isclose(bag, deploy_bag).all(axis=1) for bag in training_bags], axis=0)
    assert bags_match.any()
    assert is_uniform(q[bags_match, 1]).all()


# --- Proposition 2: what clusters instead of labels cost --------------------------------------------------------------


@pytest.mark.slow
def test_proposition_2_the_error_of_the_objective_falls_with_the_root_of_the_number_of_rows() -> None:
    # q is a mixture of four Gaussians, one for each source; purple fours, the fourth, are stood for by the third.
    means, scales, prevalence = np.array([-6.0, -2.0, 2.0, 6.0]), np.array([1.0, 0.8, 0.9, 1.1]), [0.3, 0.2, 0.3, 0.2]
    z = np.linspace(-14, 14, 2_001)
    p = norm.pdf(z[:, None], means[[0, 1, 2, 2]] + 0.5, scales[[0, 1, 2, 2]])

    def objective(q: NDArray[np.float64]) -> float:
        return float(np.abs(p - q).sum() / 2 * (z[1] - z[0]))

    exact = objective(norm.pdf(z[:, None], means, scales))
    sizes, rng = np.array([250, 1_000, 4_000, 16_000]), np.random.default_rng(0)
    errors = np.zeros((len(sizes), 40))
    for i, repeat in np.ndindex(errors.shape):
        source = rng.choice(4, sizes[i], p=prevalence)
        rows = rng.normal(means[source], scales[source])[:, None]
        # Starting at the true means fixes which component is which source: the proposition asks only that a map exists.
        fitted = GaussianMixture(4, means_init=means[:, None], tol=1e-4, max_iter=1_000).fit(rows)
        deviations = np.sqrt(fitted.covariances_[:, 0, 0])
        errors[i, repeat] = abs(objective(norm.pdf(z[:, None], fitted.means_[:, 0], deviations)) - exact)
    slope = np.polyfit(np.log(sizes), np.log(errors.mean(axis=1)), 1)[0]
    assert -0.65 < slope < -0.35


# --- The discriminator is a function of sets (appendix, "Details of the attention mechanism") -------------------------

Z_SIZE, N_BAGS, BAG_SIZE = 5, 4, 6
SMALL = DiscriminatorConfig(hidden_before=(16,), row_size=8, gate_size=8, hidden_after=(16,))
SET_DISCRIMINATORS = {
    "gated": SMALL,
    "dot-product": SMALL.model_copy(update={"attention": "dot-product"}),
    "ensemble": SMALL.model_copy(update={"n_discriminators": 3}),
    "dot-product ensemble": SMALL.model_copy(update={"attention": "dot-product", "n_discriminators": 2}),
}
ALL_DISCRIMINATORS = {**SET_DISCRIMINATORS, "instance": SMALL.model_copy(update={"attention": "instance"})}
each_set_discriminator = pytest.mark.parametrize("config", SET_DISCRIMINATORS.values(), ids=SET_DISCRIMINATORS)
each_discriminator = pytest.mark.parametrize("config", ALL_DISCRIMINATORS.values(), ids=ALL_DISCRIMINATORS)


def shuffled_slots() -> Tensor:
    """Return an order of slots for each bag."""
    return torch.stack([torch.randperm(BAG_SIZE) for _ in range(N_BAGS)])


def reorder(z: Tensor, order: Tensor) -> Tensor:
    return torch.gather(z, 1, order[:, :, None].expand(-1, -1, z.shape[2]))


@each_set_discriminator
def test_the_order_of_rows_in_a_bag_does_not_matter(config: DiscriminatorConfig) -> None:
    h = build_discriminator(Z_SIZE, config)
    for _ in range(10):
        z = torch.randn(N_BAGS, BAG_SIZE, Z_SIZE)
        torch.testing.assert_close(h(reorder(z, shuffled_slots())), h(z))


@each_set_discriminator
def test_but_the_rows_in_a_bag_do_matter(config: DiscriminatorConfig) -> None:
    h, z = build_discriminator(Z_SIZE, config), torch.randn(N_BAGS, BAG_SIZE, Z_SIZE)
    changed = z.clone()
    changed[:, 0] += 1
    assert not torch.isclose(h(changed), h(z)).any()


def test_the_instance_discriminator_judges_each_row_wherever_it_stands() -> None:
    h = build_discriminator(Z_SIZE, ALL_DISCRIMINATORS["instance"])
    z, order = torch.randn(N_BAGS, BAG_SIZE, Z_SIZE), shuffled_slots()
    logits = h(z).reshape(N_BAGS, BAG_SIZE)
    torch.testing.assert_close(h(reorder(z, order)).reshape(N_BAGS, BAG_SIZE), torch.gather(logits, 1, order))


# --- The two players (Eq. 7 and 8) ------------------------------------------------------------------------------------

N_ROWS = N_BAGS * BAG_SIZE
WEIGHT_NAMES = ("reconstruction", "adversarial", "class", "subgroup", "norm")
each_adversarial_loss = pytest.mark.parametrize("kind", ["minimax", "non-saturating", "as-run"])
logit_lists = st.lists(st.floats(-5, 5, width=32), min_size=1, max_size=8)


def game_with(
    only: str = "adversarial", discriminator: DiscriminatorConfig = SMALL, n_subgroups: int = 2, **matching: object
) -> Game:
    """Return a new game in which one term alone has a weight, for codes with a z of `Z_SIZE` dimensions."""
    y, s = np.divmod(np.arange(2 * n_subgroups), n_subgroups)
    grid = SourceGrid((0, 1), tuple(range(n_subgroups)))
    train = Labeled(np.random.default_rng(0).normal(size=(len(y), 7)), y=y, s=s, grid=grid)
    weights = {f"{name}_weight": float(name == only) for name in WEIGHT_NAMES}
    config = Config(
        autoencoder=AutoencoderConfig(kind="mlp", widths=(8,), code_size=Z_SIZE + side_size(n_subgroups)),
        discriminator=discriminator,
        matching=MatchingConfig.model_validate({**weights, **matching}),
    )
    return new_game(train, config, seed=0)


def random_step(game: Game) -> tuple[Batch, SplitCode]:
    """Return rows of both sets with codes that are leaves, so that `.grad` shows what reaches them."""
    n_subgroups = game.player.subgroup_predictor.out_features
    x, y, s = torch.randn(2 * N_ROWS, 7), torch.randint(2, (N_ROWS,)), torch.randint(n_subgroups, (N_ROWS,))
    code = SplitCode(torch.randn(2 * N_ROWS, Z_SIZE), torch.randn(2 * N_ROWS, game.player.side))
    return Batch(x, y, s, N_BAGS), SplitCode(*(part.requires_grad_() for part in code))


def judge(h: nn.Module, z: Tensor) -> tuple[Tensor, Tensor]:
    train, deploy = z.reshape(2, N_BAGS, BAG_SIZE, Z_SIZE)
    return h(train), h(deploy)


def is_untouched(code: Tensor) -> bool:
    return code.grad is None or not code.grad.any()


@given(logit_lists, logit_lists)
@some_examples
def test_the_discriminator_minimises_the_cross_entropy_with_deployment_as_one(a: list[float], b: list[float]) -> None:
    train, deploy = torch.tensor(a), torch.tensor(b)
    expected = -(1 - train.sigmoid()).log().mean() - deploy.sigmoid().log().mean()
    torch.testing.assert_close(discrimination_loss(train, deploy), expected, rtol=1e-4, atol=1e-4)


@each_adversarial_loss
@some_examples
@given(a=logit_lists, b=logit_lists)
def test_the_two_players_pull_every_logit_opposite_ways(kind: str, a: list[float], b: list[float]) -> None:
    train, deploy = torch.tensor(a, requires_grad=True), torch.tensor(b, requires_grad=True)
    h_on_train, h_on_deploy = torch.autograd.grad(discrimination_loss(train, deploy), (train, deploy))
    f_on_train, f_on_deploy = torch.autograd.grad(adversarial_loss(train, deploy, kind), (train, deploy))
    assert (h_on_train > 0).all()  # who descends moves against the gradient: h pushes training logits down
    assert (h_on_deploy < 0).all()
    assert (f_on_train < 0).all()  # and the encoder pushes them up
    assert (f_on_deploy > 0).all()


def test_as_run_is_non_saturating_on_training_bags_and_minimax_on_deployment_bags() -> None:
    train, deploy = torch.randn(4), torch.randn(4)
    expected = softplus(-train).mean() - softplus(-deploy).mean()
    torch.testing.assert_close(adversarial_loss(train, deploy, "as-run"), expected)
    torch.testing.assert_close(adversarial_loss(train, deploy), -discrimination_loss(train, deploy))


@each_discriminator
def test_a_step_of_the_discriminator_makes_it_tell_the_same_codes_better(config: DiscriminatorConfig) -> None:
    for _ in range(5):
        game = game_with(discriminator=config, discriminator_learning_rate=1e-4)
        z = torch.randn(2 * N_ROWS, Z_SIZE, requires_grad=True)
        before = step_discriminator(game, z, N_BAGS)["discriminator"]
        assert discrimination_loss(*judge(game.discriminator, z)).item() < before
        assert is_untouched(z)


@each_adversarial_loss
@pytest.mark.parametrize("attention", ["gated", "dot-product", "instance"])
def test_the_encoder_moves_training_codes_towards_deployment_and_deployment_codes_towards_training(
    kind: str, attention: str
) -> None:
    game = game_with(discriminator=ALL_DISCRIMINATORS[attention], adversarial_loss=kind)
    batch, code = random_step(game)
    train, deploy = judge(game.discriminator, code.z)
    step_encoder(game, batch, code)
    assert code.z.grad is not None
    moved = code.z.detach() - 0.1 * code.z.grad
    train_moved, deploy_moved = judge(game.discriminator, moved)
    assert (train_moved > train).all()
    assert (deploy_moved < deploy).all()


def test_a_step_of_the_encoder_leaves_the_discriminator_where_it_is() -> None:
    game = game_with()
    before = [weight.clone() for weight in game.discriminator.parameters()]
    step_encoder(game, *random_step(game))
    assert all(torch.equal(a, b) for a, b in zip(before, game.discriminator.parameters(), strict=True))


@each_adversarial_loss
def test_stop_gradient_keeps_the_adversarial_term_from_deployment_codes_only(kind: str) -> None:
    for stop in (False, True):
        game = game_with(stop_gradient=stop, adversarial_loss=kind)
        batch, code = random_step(game)
        step_encoder(game, batch, code)
        assert code.z.grad is not None
        assert code.z.grad[:N_ROWS].any(dim=1).all()
        assert bool(code.z.grad[N_ROWS:].any()) is not stop


# --- The split of the code into z and s~ ------------------------------------------------------------------------------


@given(st.integers(2, 1_000))
def test_s_has_just_enough_bits_to_number_the_subgroups(n_subgroups: int) -> None:
    assert side_size(n_subgroups) == ceil(log2(n_subgroups))
    assert 2 ** (side_size(n_subgroups) - 1) < n_subgroups <= 2 ** side_size(n_subgroups)


@some_examples
@given(st.integers(0, 5), st.integers(1, 4), st.integers(1, 6))
def test_splitting_and_joining_a_code_gives_it_back(rows: int, side: int, z_size: int) -> None:
    code = torch.randn(rows, side + z_size)
    parts = split_code(code, side)
    assert parts.z.shape == (rows, z_size)
    assert parts.side.shape == (rows, side)
    assert torch.equal(join_code(*parts), code)


@pytest.mark.parametrize("n_subgroups", [2, 3, 5])
def test_the_discriminator_never_sees_s(n_subgroups: int) -> None:
    game = game_with(n_subgroups=n_subgroups)
    with torch.no_grad():
        x = torch.randn(2 * N_ROWS, 7)
        before = game.player.encode(x)
        game.player.encoder[-1].bias[: game.player.side] += 3  # the part of the encoder that is t alone
        after = game.player.encode(x)
    assert not torch.isclose(before.side, after.side).any()
    assert torch.equal(before.z, after.z)

    batch, code = random_step(game)
    changed = SplitCode(code.z.detach().clone().requires_grad_(), (code.side.detach() + 3).requires_grad_())
    values = [step_encoder(game, batch, either)["adversarial"] for either in (code, changed)]
    assert values[0] == values[1]
    assert code.z.grad is not None
    assert changed.z.grad is not None
    assert torch.equal(code.z.grad, changed.z.grad)
    assert is_untouched(code.side)


def test_the_class_predictor_reads_z_of_training_rows_and_nothing_else() -> None:
    game = game_with(only="class")
    batch, code = random_step(game)
    step_encoder(game, batch, code)
    assert code.z.grad is not None
    assert code.z.grad[:N_ROWS].any(dim=1).all()
    assert not code.z.grad[N_ROWS:].any()
    assert is_untouched(code.side)


def test_the_subgroup_predictor_reads_s_of_training_rows_and_nothing_else() -> None:
    game = game_with(only="subgroup", n_subgroups=3)
    batch, code = random_step(game)
    step_encoder(game, batch, code)
    assert code.side.grad is not None
    assert code.side.grad[:N_ROWS].any(dim=1).all()
    assert not code.side.grad[N_ROWS:].any()
    assert is_untouched(code.z)


def test_reconstruction_reads_both_parts_of_both_sets() -> None:
    game = game_with(only="reconstruction")
    batch, code = random_step(game)
    step_encoder(game, batch, code)
    for part in code:
        assert part.grad is not None
        assert part.grad.any(dim=1).all()


@some_examples
@given(st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=20))
def test_a_binary_s_is_zero_or_one_forwards_and_a_sigmoid_backwards(values: list[float]) -> None:
    side = torch.tensor(values)[:, None].requires_grad_()
    binary = pass_side_channel(side, "binary")
    assert torch.equal(binary, (side.sigmoid() > 0.5).float())
    (through,) = torch.autograd.grad(binary.sum(), side)
    (of_sigmoid,) = torch.autograd.grad(pass_side_channel(side, "sigmoid").sum(), side)
    assert torch.equal(through, of_sigmoid)
    assert pass_side_channel(side, "raw") is side
