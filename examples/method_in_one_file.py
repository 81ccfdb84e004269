"""Support-matching in one file: the method section of the paper as code that runs.

Run `python examples/method_in_one_file.py` (some ten seconds on one core). It needs torch and numpy only, and it is the
specification: `tests/test_specification.py` checks that the package computes the same losses, step by step.

The problem is Colored MNIST in miniature. A row shows a digit (class y: two, four) in a colour (subgroup s: purple,
green), and colour is easier to read than shape. Training has labels but no purple four at all; the deployment set has
all four sources (y, s) but no labels. A classifier learns from training that purple means two.

Three results are printed: a plain classifier, the whole method, and the method without its adversarial term, because
the rest of it (reconstruction of both sets, the side channel s~, short codes, balance) helps on its own here.
"""

from __future__ import annotations

from copy import deepcopy
from math import ceil, log2

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss, softplus

Ids = NDArray[np.int64]
Table = NDArray[np.float32]

CLASSES, SUBGROUPS = ("two", "four"), ("purple", "green")
N_Y, N_S = len(CLASSES), len(SUBGROUPS)
MISSING = (1, 0)  # the purple four
WEIGHTS = {"reconstruction": 1.0, "adversarial": 1.0, "class": 1.0, "subgroup": 1.0, "norm": 1.0}
STEPS, N_BAGS, BAG_SIZE, CODE_SIZE, LEARNING_RATE, AVERAGING = 400, 8, 16, 16, 3e-3, 0.99


# --- The data: shape, colour, noise. Sources are numbered y * |S| + s. ------------------------------------------------


def make_rows(n_per_source: int, rng: np.random.Generator) -> tuple[Table, Ids, Ids]:
    """Draw rows of every source: shape in the first two columns, colour (twice as far apart) in the next two."""
    y, s = np.divmod(np.repeat(np.arange(N_Y * N_S), n_per_source), N_S)
    means = np.hstack([2.8 * np.eye(N_Y)[y], 5.6 * np.eye(N_S)[s], np.zeros((len(y), 2))])
    return (means + rng.normal(size=means.shape)).astype(np.float32), y, s


# --- Bags (Sec. "Realization", rules 1-3; appendix, sampling function pi) ---------------------------------------------


def draw_rows(groups: Ids, wanted: Ids, rng: np.random.Generator) -> Ids:
    """Return a random row of each wanted group."""
    rows = np.empty_like(wanted)
    for group in np.unique(wanted):
        here = wanted == group
        rows[here] = rng.choice(np.flatnonzero(groups == group), int(here.sum()))
    return rows


def draw_training_bags(
    sources: Ids, seen: NDArray[np.bool_], n_bags: int, bag_size: int, rng: np.random.Generator
) -> Ids:
    """Return rows, bags x slots: one slot per source in turn, those of missing sources refilled as Pi says (Eq. 2).

    The slot of a missing (s, y) goes to (s', y), with s' uniform over S_tr(y): always the same class, so that classes
    stay equal (rule 2) and subgroups are equal wherever that is possible (rule 3).
    """
    n_sources, n_s = seen.size, seen.shape[1]
    y, s = np.divmod(np.tile(np.arange(n_sources), (n_bags, bag_size // n_sources)), n_s)
    for a_class, row in enumerate(seen):
        holes = (y == a_class) & ~row[s]
        s[holes] = rng.choice(np.flatnonzero(row), int(holes.sum()))
    return draw_rows(sources, y * n_s + s, rng)


def draw_deployment_bags(clusters: Ids, n_bags: int, bag_size: int, rng: np.random.Generator) -> Ids:
    """Return rows, bags x slots, with equal shares of every cluster: "perfect bags" (rule 1)."""
    names = np.unique(clusters)
    return draw_rows(clusters, np.tile(names, (n_bags, bag_size // len(names))), rng)


def cluster_deployment(x: Table, sources: Ids, x_deploy: Table, n_sources: int, rng: np.random.Generator) -> Ids:
    """Divide the deployment set by k-means: centroids of seen sources stay pinned where the labels put them.

    The paper clusters with rank statistics; all that bags need from it is an id per row, which has no meaning.
    """
    pinned = np.array([x[sources == k].mean(axis=0) for k in np.unique(sources)])
    best, ids = np.inf, np.zeros(len(x_deploy), dtype=np.int64)
    for _ in range(10):  # starts: free centroids on random rows; the tightest clustering is kept
        centroids = np.vstack([pinned, x_deploy[rng.choice(len(x_deploy), n_sources - len(pinned), replace=False)]])
        for _ in range(20):
            distances = ((x_deploy[:, None] - centroids) ** 2).sum(axis=2)
            nearest = distances.argmin(axis=1)
            for k in range(len(pinned), n_sources):
                centroids[k] = x_deploy[nearest == k].mean(axis=0) if (nearest == k).any() else centroids[k]
        if distances.min(axis=1).sum() < best:
            best, ids = distances.min(axis=1).sum(), nearest
    return ids


# --- The networks (Sec. "Realization") --------------------------------------------------------------------------------


class EncoderPlayer(nn.Module):
    """Encoders f (to z) and t (to s~) in one network, decoder g, and the linear predictors l_y and l_s."""

    def __init__(self, n_features: int, hidden: int, code_size: int, n_y: int, n_s: int) -> None:
        super().__init__()
        self.side = ceil(log2(n_s))  # s~ takes just enough dimensions to number the subgroups (Table 3, note 2)
        self.encoder = nn.Sequential(nn.Linear(n_features, hidden), nn.GELU(), nn.Linear(hidden, code_size))
        self.decoder = nn.Sequential(nn.Linear(code_size, hidden), nn.GELU(), nn.Linear(hidden, n_features))
        self.class_predictor = nn.Linear(code_size - self.side, n_y)
        self.subgroup_predictor = nn.Linear(self.side, n_s)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return z = f(x) and s~ = t(x): the code is s~ first, then z."""
        code = self.encoder(x)
        return code[:, self.side :], code[:, : self.side].sigmoid()


class SetDiscriminator(nn.Module):
    """h: one logit per bag, positive for deployment. Rows meet in a weighted mean only, so order cannot matter."""

    def __init__(self, z_size: int, hidden: int, row_size: int) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(z_size, hidden), nn.GELU(), nn.Linear(hidden, row_size), nn.GELU())
        self.content = nn.Linear(row_size, hidden, bias=False)
        self.gate = nn.Linear(row_size, hidden, bias=False)
        self.score = nn.Linear(hidden, 1, bias=False)
        self.judge = nn.Sequential(nn.Linear(row_size, hidden), nn.SELU(), nn.Linear(hidden, 1))

    def forward(self, z: Tensor) -> Tensor:
        """Map bags x slots x z to one logit per bag."""
        rows = self.embed(z)
        attention = self.score(self.content(rows).tanh() * self.gate(rows).sigmoid()).softmax(dim=1)  # Ilse et al.
        logits: Tensor = self.judge((attention * rows).sum(dim=1)).squeeze(-1)
        return logits


# --- The game (Eq. 7 and 8) -------------------------------------------------------------------------------------------


def discrimination_loss(h: nn.Module, z: Tensor, n_bags: int) -> Tensor:
    """Cross-entropy of h: training bags (the first half of the rows) are 0, deployment bags 1."""
    train, deploy = z.reshape(2, n_bags, -1, z.shape[1])
    return softplus(h(train)).mean() + softplus(-h(deploy)).mean()


class Game:
    """min over f, t, g, l_y, l_s and max over h of L_enc (Eq. 8), each side with its own Adam."""

    def __init__(self, player: EncoderPlayer, h: nn.Module, learning_rate: float, weights: dict[str, float]) -> None:
        self.player, self.h, self.weights = player, h, weights
        self.player_adam = torch.optim.Adam(player.parameters(), lr=learning_rate)
        self.h_adam = torch.optim.Adam(h.parameters(), lr=learning_rate)

    def play_step(self, x: Tensor, y: Tensor, s: Tensor, n_bags: int) -> dict[str, float]:
        """Encode the rows of all bags once (training first), then let both sides move; y and s are of training rows."""
        player, n_train = self.player, len(y)
        z, side = player.encode(x)

        told = discrimination_loss(self.h, z.detach(), n_bags)  # h learns from codes as they are
        self.h_adam.zero_grad()
        told.backward()
        self.h_adam.step()

        terms = {  # L_enc (Eq. 7); the gradient flows through the codes of both sets
            "reconstruction": mse_loss(player.decoder(torch.cat([side, z], dim=1)), x),
            "adversarial": -discrimination_loss(self.h, z, n_bags),
            "class": cross_entropy(player.class_predictor(z[:n_train]), y),
            "subgroup": cross_entropy(player.subgroup_predictor(side[:n_train]), s),
            "norm": z.norm(dim=1).mean(),  # appendix, "Training procedure": keeps f from running away from h
        }
        total = torch.stack([self.weights[name] * term for name, term in terms.items()]).sum()
        self.player_adam.zero_grad()
        total.backward()
        self.player_adam.step()
        return {"discriminator": told.item(), "total": total.item(), **{k: v.item() for k, v in terms.items()}}


@torch.no_grad()
def update_average(average: nn.Module, current: nn.Module, decay: float, step: int) -> None:
    """Exponential average of the weights, corrected for its start: step 0 copies, later steps blend."""
    share = (1 - decay) / (1 - decay ** (step + 1))
    for kept, new in zip(average.parameters(), current.parameters(), strict=True):
        kept.lerp_(new, share)


def match_supports(
    x: Table,
    y: Ids,
    s: Ids,
    seen: NDArray[np.bool_],
    x_deploy: Table,
    clusters: Ids,
    weights: dict[str, float],
    rng: np.random.Generator,
) -> EncoderPlayer:
    """Play the game and return the averaged encoder side."""
    player = EncoderPlayer(x.shape[1], 64, CODE_SIZE, N_Y, N_S)
    game = Game(player, SetDiscriminator(CODE_SIZE - player.side, 64, 32), LEARNING_RATE, weights)
    average = deepcopy(player)
    for step in range(STEPS):
        rows = draw_training_bags(y * N_S + s, seen, N_BAGS, BAG_SIZE, rng).reshape(-1)
        deploy_rows = draw_deployment_bags(clusters, N_BAGS, BAG_SIZE, rng).reshape(-1)
        both = torch.from_numpy(np.concatenate([x[rows], x_deploy[deploy_rows]]))
        game.play_step(both, torch.from_numpy(y[rows]), torch.from_numpy(s[rows]), N_BAGS)
        update_average(average, player, AVERAGING, step)
    return average


# --- Classifiers and the measure --------------------------------------------------------------------------------------


def fit_classifier(network: nn.Module, x: Tensor, y: Ids, batches: list[Ids]) -> nn.Module:
    """Minimise the cross-entropy of y over the given batches of rows."""
    adam = torch.optim.Adam(network.parameters(), lr=1e-2)
    for rows in batches:
        loss = cross_entropy(network(x[rows]), torch.from_numpy(y[rows]))
        adam.zero_grad()
        loss.backward()
        adam.step()
    return network


def subgroup_accuracies(right: NDArray[np.bool_], s: Ids) -> list[float]:
    """Return the accuracy within each subgroup; the robust accuracy is the lowest of them."""
    return [float(right[s == a_subgroup].mean()) for a_subgroup in range(N_S)]


@torch.no_grad()
def report(name: str, logits: Tensor, y: Ids, s: Ids) -> float:
    """Print how often each source and subgroup is classified correctly; return the robust accuracy."""
    right: NDArray[np.bool_] = logits.argmax(dim=1).numpy() == y
    by_source = [
        f"{SUBGROUPS[b]} {CLASSES[a]} {right[(y == a) & (s == b)].mean():.2f}" for a in range(N_Y) for b in range(N_S)
    ]
    by_subgroup = subgroup_accuracies(right, s)
    print(f"{name:>17}: {', '.join(by_source)}")
    print(f"{'':>19}{', '.join(f'{b} {a:.2f}' for b, a in zip(SUBGROUPS, by_subgroup, strict=True))}", end="; ")
    print(f"robust accuracy {min(by_subgroup):.2f}")
    return min(by_subgroup)


def main(seed: int = 0) -> dict[str, float]:
    """Train and test the three classifiers; print their accuracies and return the robust ones by name."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    x, y, s = make_rows(250, rng)
    kept = (y != MISSING[0]) | (s != MISSING[1])
    x, y, s = x[kept], y[kept], s[kept]
    x_deploy = make_rows(250, rng)[0]  # its labels are thrown away
    x_test, y_test, s_test = make_rows(500, rng)
    sources = y * N_S + s
    seen = np.isin(np.arange(N_Y * N_S), sources).reshape(N_Y, N_S)

    print(f"Training has no {SUBGROUPS[MISSING[1]]} {CLASSES[MISSING[0]]}; accuracy on all four sources:")
    plain = nn.Sequential(nn.Linear(x.shape[1], 64), nn.GELU(), nn.Linear(64, N_Y))
    fit_classifier(plain, torch.from_numpy(x), y, [rng.choice(len(y), 256) for _ in range(300)])
    name = "plain classifier"
    robust = {name: report(name, plain(torch.from_numpy(x_test)), y_test, s_test)}

    clusters = cluster_deployment(x, sources, x_deploy, N_Y * N_S, rng)
    for name, weights in {"without matching": {**WEIGHTS, "adversarial": 0.0}, "support-matching": WEIGHTS}.items():
        player = match_supports(x, y, s, seen, x_deploy, clusters, weights, rng)
        with torch.no_grad():
            z, z_test = player.encode(torch.from_numpy(x))[0], player.encode(torch.from_numpy(x_test))[0]
        mean, scale = z.mean(dim=0), z.std(dim=0).clamp(min=1e-6)
        balanced = [draw_training_bags(sources, seen, 1, 256, rng)[0] for _ in range(300)]
        linear = fit_classifier(nn.Linear(z.shape[1], N_Y), (z - mean) / scale, y, balanced)
        robust[name] = report(name, linear((z_test - mean) / scale), y_test, s_test)
    return robust


if __name__ == "__main__":
    torch.set_num_threads(1)  # the networks are too small to share
    main()
