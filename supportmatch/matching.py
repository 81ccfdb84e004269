"""The min-max game: an encoder that hides where bags come from, and a discriminator that tells.

`match_supports` is the loop. One step draws bags from both sets, encodes them once, lets the discriminator learn from
the detached codes (`step_discriminator`), and then moves the encoder, decoder and predictors (`step_encoder`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from supportmatch.bags import DeploymentBags, TrainingBags
from supportmatch.config import Config, MatchingConfig
from supportmatch.data.containers import Labeled, TableLayout, Unlabeled
from supportmatch.errors import ConfigError, DivergedError
from supportmatch.hardware import HERE, Hardware
from supportmatch.history import History
from supportmatch.losses import adversarial_loss, discrimination_loss, norm_penalty, reconstruction_error
from supportmatch.networks.discriminators import build_discriminator
from supportmatch.networks.encoders import (
    SplitCode,
    build_decoder,
    build_encoder,
    join_code,
    pass_side_channel,
    side_size,
    split_code,
)
from supportmatch.progress import Report, silent
from supportmatch.ranks import ALONE, Ranks
from supportmatch.seeding import seeded_initialisation
from supportmatch.snapshots import Snapshots
from supportmatch.sources import Ids
from supportmatch.tensors import as_ids, read_rows, threads_for


class EncoderPlayer(nn.Module):
    """The side of the game that makes codes: encoder f and t, decoder g, predictors l_y and l_s."""

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module | None,
        *,
        code_size: int,
        n_classes: int,
        n_subgroups: int,
        side_channel: str,
    ) -> None:
        super().__init__()
        self.side = side_size(n_subgroups)
        self.side_channel = side_channel
        if code_size <= self.side:
            raise ConfigError(
                f"a code of {code_size} dimensions leaves none for z, because s~ takes {self.side}: use a larger one."
            )
        self.encoder = encoder
        self.decoder = decoder
        self.class_predictor = nn.Linear(code_size - self.side, n_classes)
        self.subgroup_predictor = nn.Linear(self.side, n_subgroups)

    @property
    def z_size(self) -> int:
        """Dimensions of z."""
        return self.class_predictor.in_features

    def encode(self, x: Float[Tensor, "rows *features"]) -> SplitCode:
        """Return z and s~ (after its non-linearity) of each row."""
        z, side = split_code(self.encoder(x).float(), self.side)
        return SplitCode(z, pass_side_channel(side, self.side_channel))

    def decode(self, code: SplitCode) -> Float[Tensor, "rows *features"]:
        """Return the rows that a code stands for."""
        if self.decoder is None:
            raise ConfigError("this model was trained without a decoder, so codes cannot be turned back into rows.")
        rows: Tensor = self.decoder(join_code(*code))
        return rows.float()


@dataclass(frozen=True)
class Batch:
    """What both players see in one step; rows of training bags first, then of deployment bags."""

    x: Float[Tensor, "rows *features"]
    y: Int[Tensor, " train"]
    s: Int[Tensor, " train"]
    n_bags: int
    share: float = 1.0
    """Of the bags of this step, where several processes share them."""
    guide: Int[Tensor, " deploy"] | None = None
    """Classes that deployment rows are taken to have, while the start is guided."""

    def to(self, device: torch.device) -> Batch:
        """Return the batch on a device."""
        guide = None if self.guide is None else self.guide.to(device)
        return replace(self, x=self.x.to(device), y=self.y.to(device), s=self.s.to(device), guide=guide)


@dataclass
class Game:
    """The two players, their optimisers and the rules."""

    player: EncoderPlayer
    discriminator: nn.Module
    config: MatchingConfig
    layout: TableLayout | None
    ranks: Ranks = ALONE
    """The processes that share the bags."""

    def __post_init__(self) -> None:
        # Plain parameters only: a user's frozen backbone stays frozen.
        trainable = [p for p in self.player.parameters() if p.requires_grad]
        self.player_optimiser = torch.optim.Adam(trainable, lr=self.config.learning_rate, fused=True)
        self.discriminator_optimiser = torch.optim.Adam(
            self.discriminator.parameters(), lr=self.config.discriminator_learning_rate, fused=True
        )

    def move(self, optimiser: torch.optim.Optimizer, share: float) -> None:
        """Make a step along the gradients, averaged over the bags of all processes."""
        self.ranks.average_gradients(optimiser.param_groups[0]["params"], share)
        optimiser.step()

    def set_pace(self, step: int) -> None:
        """Let both step sizes fall linearly to zero after `decay_from` of the steps."""
        config = self.config
        left = 1.0 if config.decay_from == 1 else (1 - step / config.steps) / (1 - config.decay_from)
        for optimiser, rate in (
            (self.player_optimiser, config.learning_rate),
            (self.discriminator_optimiser, config.discriminator_learning_rate),
        ):
            optimiser.param_groups[0]["lr"] = rate * min(1.0, left)


def step_discriminator(game: Game, z: Float[Tensor, "rows z"], n_bags: int, share: float = 1.0) -> dict[str, float]:
    """Move the discriminator towards telling the two sets apart; codes are taken as they are."""
    train_logits, deploy_logits = _judge(game.discriminator, z.detach(), n_bags)
    loss = discrimination_loss(train_logits, deploy_logits)
    game.discriminator_optimiser.zero_grad()
    loss.backward()
    game.move(game.discriminator_optimiser, share)
    n_right = torch.count_nonzero(train_logits < 0) + torch.count_nonzero(deploy_logits > 0)
    accuracy = n_right.item() / (len(train_logits) + len(deploy_logits))
    return {"discriminator": loss.item(), "discriminator_accuracy": accuracy}


def step_encoder(game: Game, batch: Batch, code: SplitCode) -> dict[str, float]:
    """Move encoder, decoder and predictors: reconstruct, predict, and hide the origin of bags."""
    config, player, n_train = game.config, game.player, len(batch.y)
    z, side = code
    terms: dict[str, tuple[float, Tensor]] = {}  # only those that count, each with its weight
    if player.decoder is not None and config.reconstruction_weight:
        error = reconstruction_error(player.decode(code), batch.x, game.layout)
        terms["reconstruction"] = (config.reconstruction_weight, error)
    if config.adversarial_weight:
        judged = torch.cat([z[:n_train], z[n_train:].detach()]) if config.stop_gradient else z
        with _taken_as_it_is(game.discriminator):
            logits = _judge(game.discriminator, judged, batch.n_bags)
        terms["adversarial"] = (config.adversarial_weight, adversarial_loss(*logits, kind=config.adversarial_loss))
    if config.class_weight:
        error = cross_entropy(player.class_predictor(z[:n_train]), batch.y)
        if batch.guide is not None:
            error = (error + cross_entropy(player.class_predictor(z[n_train:]), batch.guide)) / 2
        terms["class"] = (config.class_weight, error)
    if config.subgroup_weight:
        terms["subgroup"] = (config.subgroup_weight, cross_entropy(player.subgroup_predictor(side[:n_train]), batch.s))
    if config.norm_weight:
        terms["norm"] = (config.norm_weight, norm_penalty(z))
    moving = [(weight, term) for weight, term in terms.values() if term.requires_grad]
    if not (z.requires_grad and moving):
        raise ConfigError(
            "no term of the objective can move the encoder: give it a decoder or parameters that are not frozen, or "
            "raise `class_weight` or `adversarial_weight`."
        )
    game.player_optimiser.zero_grad()
    # The gradient of the weighted sum, without the sum.
    torch.autograd.backward([term for _, term in moving], [term.new_tensor(weight) for weight, term in moving])
    game.move(game.player_optimiser, batch.share)
    values = {name: term.item() for name, (_, term) in terms.items()}
    return {"total": sum(weight * values[name] for name, (weight, _) in terms.items()), **values}


def play_step(game: Game, batch: Batch) -> dict[str, float]:
    """Encode once, then let both players move."""
    code = game.player.encode(batch.x)
    told = step_discriminator(game, code.z, batch.n_bags, batch.share) if game.config.adversarial_weight else {}
    return {**told, **step_encoder(game, batch, code)}


Watch = Callable[[int, EncoderPlayer, Game], None]
"""Looks at the step just made, the averaged encoder side, and the game; it must change nothing."""


def match_supports(
    train: Labeled,
    deploy: Unlabeled,
    train_bags: TrainingBags,
    deploy_bags: DeploymentBags,
    config: Config,
    seed: int,
    *,
    encoder: nn.Module | None = None,
    decoder: nn.Module | None = None,
    report: Report = silent,
    watch: Watch | None = None,
    started: Callable[[Game], None] | None = None,
    snapshots: Snapshots | None = None,
    guide: Ids | None = None,
    ranks: Ranks = ALONE,
    hardware: Hardware = HERE,
) -> tuple[EncoderPlayer, History]:
    """Play the game and return the encoder side (averaged weights) and what happened.

    Args:
        train: The labelled training set.
        deploy: The unlabelled deployment set.
        train_bags: Draws training bags.
        deploy_bags: Draws deployment bags.
        config: Every stage's settings; `autoencoder`, `discriminator` and `matching` are read.
        seed: Decides initial weights (bags carry their own seed).
        encoder: A user's network from rows to flat codes, instead of the built one.
        decoder: A user's network from codes to rows. A user's encoder without a decoder trains without reconstruction.
        report: Told about progress.
        watch: Shown both players after every step.
        started: Shown the game before the first step.
        snapshots: Goes on from the snapshot it has, if any, and takes new ones.
        guide: The class that each deployment row is taken to have during the first `guided_steps`.
        ranks: The processes that share the bags of every step. All return the same weights.
        hardware: What the game is played on; what is returned is on the processor.
    """
    ranks.check(train_bags.n_bags)
    device = hardware.choose_device()
    game = new_game(train, config, seed, encoder=encoder, decoder=decoder, ranks=ranks, device=device)
    settings = config.matching
    averaged = AveragedPlayer(game.player, settings.averaging)
    average = averaged.player
    first_step, history = snapshots.restore(game, average) if snapshots else (0, History())
    ranks.agree(first_step, "the step to go on from")
    if started is not None:
        started(game)
    player, discriminator = game.player, game.discriminator
    with (
        threads_for(train),
        hardware.compiled(player.encoder, player.decoder, discriminator),
        hardware.autocast(device),
    ):
        for step in range(first_step, settings.steps):
            game.set_pace(step)
            for update in range(1, settings.discriminator_updates if settings.adversarial_weight else 1):
                extra = read_batch(train, deploy, train_bags, deploy_bags, step, update, ranks).to(device)
                with torch.no_grad():
                    z = game.player.encode(extra.x).z
                step_discriminator(game, z, extra.n_bags, extra.share)
            names = guide if step < settings.guided_steps else None
            batch = read_batch(train, deploy, train_bags, deploy_bags, step, ranks=ranks, guide=names).to(device)
            values = ranks.average(play_step(game, batch), batch.share)
            _check_finite(values, step)
            history.append(step, **values)
            averaged.update(step)
            report(step + 1, settings.steps)
            if watch is not None:
                watch(step, average, game)
            if snapshots is not None:
                # Asked for once: a signal that arrives after this answer waits for the next step, in all processes.
                stop = ranks.any(snapshots.stop_requested)
                snapshots.after_step(step, game, average, history, stop=stop)
    if not all(p.isfinite().all() for p in average.parameters()):
        _check_finite({"weight": float("nan")}, settings.steps - 1)
    game.discriminator.cpu()
    return average.cpu().eval(), history


def new_game(
    train: Labeled,
    config: Config,
    seed: int,
    *,
    encoder: nn.Module | None = None,
    decoder: nn.Module | None = None,
    ranks: Ranks = ALONE,
    device: torch.device | None = None,
) -> Game:
    """Set up both players with initial weights that depend on the seed alone, wherever they are to play."""
    with seeded_initialisation(seed, "matching networks"):
        # Copies: a user's networks are parameters of the estimator, which fitting must not change.
        encoder, decoder = deepcopy(encoder), deepcopy(decoder)
        if encoder is None:
            encoder = build_encoder(config.autoencoder, train.feature_shape)
            decoder = decoder if decoder is not None else build_decoder(config.autoencoder, train.feature_shape)
        player = EncoderPlayer(
            encoder,
            decoder,
            code_size=_code_size(encoder, train),
            n_classes=train.grid.n_classes,
            n_subgroups=train.grid.n_subgroups,
            side_channel=config.matching.side_channel,
        )
        _check_decoder(player, train)
        discriminator = build_discriminator(player.z_size, config.discriminator)
    return Game(player.to(device), discriminator.to(device), config.matching, train.layout, ranks)


def read_batch(
    train: Labeled,
    deploy: Unlabeled,
    train_bags: TrainingBags,
    deploy_bags: DeploymentBags,
    step: int,
    update: int = 0,
    ranks: Ranks = ALONE,
    guide: Ids | None = None,
) -> Batch:
    """Draw the bags of one step (and discriminator update) and read the rows of this process's own."""
    own = ranks.own(train_bags.draw(step, update))
    train_rows = own.reshape(-1)
    deploy_rows = ranks.own(deploy_bags.draw(step, update)).reshape(-1)
    x = torch.cat([read_rows(train, train_rows), read_rows(deploy, deploy_rows)])
    share = len(own) / train_bags.n_bags
    named = None if guide is None else as_ids(guide[deploy_rows])
    return Batch(x, as_ids(train.y[train_rows]), as_ids(train.s[train_rows]), len(own), share, named)


def _judge(discriminator: nn.Module, z: Float[Tensor, "rows z"], n_bags: int) -> tuple[Tensor, Tensor]:
    """Return the logits of training bags and of deployment bags; both sets have the same number of equal bags."""
    train_logits, deploy_logits = discriminator(z.reshape(2 * n_bags, -1, z.shape[1])).float().chunk(2)
    return train_logits, deploy_logits


@contextmanager
def _taken_as_it_is(network: nn.Module) -> Iterator[None]:
    """Spare the gradients of a network's own weights inside the block, where only those of its input are wanted."""
    weights = list(network.parameters())
    for weight in weights:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in weights:
            weight.requires_grad_(True)


def _code_size(encoder: nn.Module, train: Labeled) -> int:
    """Try the encoder on two rows, to learn the size of its codes."""
    with torch.no_grad():
        # A copy, because switching a network to evaluation and back would forget which of its layers were there.
        code = deepcopy(encoder).eval()(read_rows(train, np.arange(min(2, len(train)))))
    if code.ndim != 2:
        raise ConfigError(f"an encoder must return flat codes (rows, code), but returned shape {tuple(code.shape)}.")
    return int(code.shape[1])


def _check_decoder(player: EncoderPlayer, train: Labeled) -> None:
    if player.decoder is None:
        return
    with torch.no_grad():
        copy = deepcopy(player).eval()
        x = read_rows(train, np.arange(min(2, len(train))))
        rows = copy.decode(copy.encode(x))
    if rows.shape != x.shape:
        raise ConfigError(f"a decoder must return rows of shape {tuple(x.shape)}, but returned {tuple(rows.shape)}.")


class AveragedPlayer:
    """A copy of the encoder side whose weights are the bias-corrected exponential average over the steps."""

    def __init__(self, player: EncoderPlayer, decay: float) -> None:
        self.player, self.decay = deepcopy(player), decay
        # Listed once: walking through the modules takes longer than the averaging.
        self._kept: list[Tensor] = list(self.player.parameters())
        self._current: list[Tensor] = list(player.parameters())
        self._buffers = list(zip(self.player.buffers(), player.buffers(), strict=True))

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Blend in the present weights; the first step copies them."""
        share = (1 - self.decay) / (1 - self.decay ** (step + 1))
        torch._foreach_lerp_(self._kept, self._current, share)
        for kept, buffer in self._buffers:
            kept.copy_(buffer)


def _check_finite(values: dict[str, float], step: int) -> None:
    broken = [name for name, value in values.items() if not isfinite(value)]
    if broken:
        raise DivergedError(
            f"matching diverged at step {step}: {', '.join(broken)} is not finite. Lower `learning_rate` and "
            "`discriminator_learning_rate`, or raise `norm_weight`; check that features are on an ordinary scale."
        )
