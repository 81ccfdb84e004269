"""The package and `examples/method_in_one_file.py` are the same method: equal losses, weights and bags."""

from __future__ import annotations

import importlib.util
import sys
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from supportmatch.bags import GroupedBags, TrainingBags
from supportmatch.config import AutoencoderConfig, Config, DiscriminatorConfig, MatchingConfig
from supportmatch.data.containers import Labeled
from supportmatch.data.synthetic import SyntheticSources, make_sources
from supportmatch.matching import match_supports, new_game, play_step, read_batch

FILE = Path(__file__).parent.parent / "examples" / "method_in_one_file.py"
N_STEPS, N_BAGS, HIDDEN, CODE_SIZE = 20, 4, 24, 10
WEIGHTS = {"reconstruction": 2.0, "adversarial": 0.7, "class": 1.3, "subgroup": 0.9, "norm": 0.2}  # all different
CONFIG = Config(
    autoencoder=AutoencoderConfig(kind="mlp", widths=(HIDDEN,), code_size=CODE_SIZE),
    discriminator=DiscriminatorConfig(hidden_before=(HIDDEN,), row_size=6, gate_size=HIDDEN, hidden_after=(HIDDEN,)),
    matching=MatchingConfig(
        steps=N_STEPS,
        learning_rate=3e-3,
        discriminator_learning_rate=3e-3,
        averaging=0.9,
        decay_from=1.0,  # the method as the paper has it, whatever our defaults are
        adversarial_loss="minimax",
        stop_gradient=False,
        side_channel="sigmoid",
        **{f"{name}_weight": weight for name, weight in WEIGHTS.items()},
    ),
)


@pytest.fixture(scope="module")
def method() -> ModuleType:
    spec = importlib.util.spec_from_file_location("method_in_one_file", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=[(2, 2, ((1, 0),)), (3, 3, ((0, 1), (2, 0), (2, 2)))], ids=["2x2", "3x3"])
def sources(request: pytest.FixtureRequest) -> SyntheticSources:
    n_classes, n_subgroups, missing = request.param
    return make_sources(n_classes=n_classes, n_subgroups=n_subgroups, missing=missing, n_train=20, n_deploy=20)


def bags_of(sources: SyntheticSources) -> tuple[TrainingBags, GroupedBags]:
    size = 2 * sources.train.grid.n_sources
    groups = sources.train.grid.source_ids(sources.oracle.y, sources.oracle.subgroup)
    return TrainingBags.of(sources.train, N_BAGS, size, seed=5), GroupedBags(groups, N_BAGS, size, seed=5)


def copy_weights(source: nn.Module, into: nn.Module) -> None:
    with torch.no_grad():
        for theirs, ours in zip(source.parameters(), into.parameters(), strict=True):
            assert theirs.shape == ours.shape
            ours.copy_(theirs)


def specified_game(method: ModuleType, train: Labeled, player: nn.Module, discriminator: nn.Module) -> Any:
    """Build the specification's game with the weights of the package's."""
    grid = train.grid
    own = method.EncoderPlayer(train.x.shape[1], HIDDEN, CODE_SIZE, grid.n_classes, grid.n_subgroups)
    h = method.SetDiscriminator(CODE_SIZE - own.side, HIDDEN, CONFIG.discriminator.row_size)
    copy_weights(player, own)
    copy_weights(discriminator, h)
    return method.Game(own, h, CONFIG.matching.learning_rate, WEIGHTS)


def test_package_and_specification_have_the_same_losses_for_twenty_steps(
    method: ModuleType, sources: SyntheticSources
) -> None:
    game = new_game(sources.train, CONFIG, seed=3)
    specified = specified_game(method, sources.train, game.player, game.discriminator)
    for step in range(N_STEPS):
        batch = read_batch(sources.train, sources.deploy, *bags_of(sources), step)
        ours = play_step(game, batch)
        theirs = specified.play_step(batch.x, batch.y, batch.s, batch.n_bags)
        assert theirs.keys() == ours.keys() - {"discriminator_accuracy"}
        for name, value in theirs.items():
            assert ours[name] == pytest.approx(value, rel=1e-4), (step, name)


def test_package_and_specification_end_with_the_same_averaged_weights(
    method: ModuleType, sources: SyntheticSources
) -> None:
    start = new_game(sources.train, CONFIG, seed=3)
    specified = specified_game(method, sources.train, start.player, start.discriminator)
    average = deepcopy(specified.player)
    losses = []
    for step in range(N_STEPS):
        batch = read_batch(sources.train, sources.deploy, *bags_of(sources), step)
        losses.append(specified.play_step(batch.x, batch.y, batch.s, batch.n_bags)["total"])
        method.update_average(average, specified.player, CONFIG.matching.averaging, step)
    kept, history = match_supports(sources.train, sources.deploy, *bags_of(sources), CONFIG, seed=3)
    assert history.column("total") == pytest.approx(losses, rel=1e-4)
    for ours, theirs in zip(kept.parameters(), average.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


def test_package_and_specification_fill_bags_with_the_same_sources_on_average(
    method: ModuleType, sources: SyntheticSources
) -> None:
    train, (ours, deployed) = sources.train, bags_of(sources)
    rng, n_draws = np.random.default_rng(0), 300
    theirs = [
        method.draw_training_bags(train.source_ids, train.support.table, N_BAGS, ours.bag_size, rng)
        for _ in range(n_draws)
    ]
    shares = [
        np.bincount(train.source_ids[np.stack(draws)].reshape(-1), minlength=train.grid.n_sources)
        / np.stack(draws).size
        for draws in (theirs, [ours.draw(step) for step in range(n_draws)])
    ]
    np.testing.assert_allclose(shares[0], shares[1], atol=0.01)
    rows = method.draw_deployment_bags(deployed.groups, N_BAGS, deployed.bag_size, rng)
    for bag in np.concatenate([deployed.groups[rows], deployed.groups[deployed.draw(0)]]):
        assert np.bincount(bag).tolist() == [2] * train.grid.n_sources


def test_the_example_classifies_purple_fours_that_no_label_showed(
    method: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    robust = method.main(seed=0)
    assert robust["support-matching"] > robust["plain classifier"] + 0.2
    assert robust["support-matching"] > robust["without matching"]
    assert robust["support-matching"] > 0.9
    assert "Training has no purple four" in capsys.readouterr().out
