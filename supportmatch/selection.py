"""Scores of a finished run that need no deployment label, and the doubts that follow from them.

None of them proves a run right. `docs/explanation/choosing.md` has how each went with true robust accuracy over short
runs of every setting.

| score | means something for |
|---|---|
| `bag_accuracy` | matching: 0.5 if a fresh discriminator finds no difference. Wrong solutions match as well |
| `reconstruction` | images: whether z and s~ hold the rows. Blind to which is which |
| `worst_source_accuracy` | whether seen sources are right. Says nothing of missing ones |
| `dependence` | how much z tells of class (high is good) and subgroup (low is good) on training rows |
| `entropy` | how unsure predictions on deployment rows are; sure does not mean right |
| `same_class` of `supportmatch.final` | whether two ways to the classes end alike: clusters and z, or two restarts |
| `simplicity` | pictures, and tables whose classes are apart: whether the classes found are the simple ones |
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from supportmatch.bags import DeploymentBags, TrainingBags
from supportmatch.clustering import Clusters
from supportmatch.config import DiscriminatorConfig
from supportmatch.data.containers import Labeled, Rows, Unlabeled
from supportmatch.errors import ConfigError, TooFewDeploymentRowsError
from supportmatch.losses import discrimination_loss
from supportmatch.matching import EncoderPlayer
from supportmatch.metrics import normalised_mutual_information
from supportmatch.networks.discriminators import build_discriminator
from supportmatch.pairing import Pairing, pair_clusters
from supportmatch.seeding import seeded_initialisation
from supportmatch.sources import Ids, Support
from supportmatch.tensors import iterate_rows, one_thread, threads_for

Array = NDArray[np.float64]

UNCLEAR = 0.02
"""Margin of names below which it is said that they may be wrong."""
UNSURE = 0.9
"""Share of its greatest possible value from which on the entropy of labels says that nothing is known."""


def bag_accuracy(
    z_train: NDArray[np.float32],
    z_deploy: NDArray[np.float32],
    bags: tuple[TrainingBags, DeploymentBags],
    config: DiscriminatorConfig,
    seed: int,
    n_steps: int = 300,
) -> float:
    """Return how often a fresh discriminator tells bags of frozen z apart (the paper's choice of models).

    It learns from the bags of the first steps and is judged on those of later ones.
    """
    z = [torch.from_numpy(part) for part in (z_train, z_deploy)]
    n_judged = max(20, n_steps // 5)
    with seeded_initialisation(seed, "fresh discriminator"), one_thread():
        discriminator = build_discriminator(z_train.shape[1], config)
        optimiser = torch.optim.Adam(discriminator.parameters(), lr=1e-3, fused=True)
        right: list[float] = []
        for step in range(n_steps + n_judged):
            logits = [
                discriminator(part[torch.from_numpy(sampler.draw(step))]) for part, sampler in zip(z, bags, strict=True)
            ]
            if step >= n_steps:
                right += [float((logits[0] < 0).float().mean()), float((logits[1] > 0).float().mean())]
                continue
            optimiser.zero_grad()
            discrimination_loss(*logits).backward()
            optimiser.step()
    return float(np.mean(right))


@torch.no_grad()
def reconstruction(player: EncoderPlayer, rows: Rows) -> float:
    """Return the mean squared error of decoded rows; NaN without a decoder."""
    if player.decoder is None:
        return float("nan")
    with threads_for(rows):
        errors = [(player.decode(player.encode(x)) - x).square().mean().item() * len(x) for x in iterate_rows(rows)]
    return sum(errors) / len(rows)


def worst_source_accuracy(probabilities: Array, train: Labeled) -> float:
    """Return the lowest accuracy in a seen source, of predictions for training rows."""
    right = probabilities.argmax(axis=1) == train.y
    return min(float(right[train.source_ids == k].mean()) for k in train.support.seen_sources)


def dependence(z: NDArray[np.float32], ids: Ids) -> float:
    """Return the normalised mutual information of ids and their guesses from z, held out: 0 none, 1 full."""
    if len(np.unique(ids)) < 2:
        return float("nan")
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    guessed = cross_val_predict(model, z, ids, cv=folds)
    counts = np.zeros((ids.max() + 1,) * 2)
    np.add.at(counts, (ids, guessed), 1)
    return normalised_mutual_information(counts)


def entropy(probabilities: Array) -> float:
    """Return the mean entropy of predictions over its greatest possible value.

    >>> round(entropy(np.array([[0.5, 0.5]])), 6), round(entropy(np.array([[1.0, 0.0]])), 6)
    (1.0, 0.0)
    """
    p = np.clip(probabilities, 1e-12, 1)
    return float(abs(-(p * np.log(p)).sum(axis=1).mean()) / np.log(p.shape[1]))


def simplicity(classes: Ids, subgroups: Ids, deploy: Unlabeled, support: Support, seed: int) -> Pairing | None:
    """Name the classes that a run gave to deployment rows once more, by what is simplest to learn.

    A run that ended in an exclusive-or of class and subgroup gives the rows of missing sources each other's classes:
    then other names than its own are simpler.

    Args:
        classes: Class ids that the run predicts for deployment rows.
        subgroups: Their subgroup ids, from clusters.
        deploy: The rows.
        support: What training has seen.
        seed: Same seed, same scores.

    Returns:
        The names, where `sources[j] == cluster_ids[j]` if they are the run's own; None where there is nothing to judge:
        fewer than two missing sources, too few rows, or too many ways to name them.
    """
    ids = classes * support.grid.n_subgroups + subgroups
    found = Clusters(ids, tuple(range(support.grid.n_sources)), None, "predictions")
    if len(support.missing_sources) < 2:
        return None
    try:
        return pair_clusters(found, deploy, support, seed)
    except (ConfigError, TooFewDeploymentRowsError):
        return None


def names_other_classes(named: Pairing, n_subgroups: int) -> bool:
    """Tell whether the simplest names give some rows another class than the run did; other subgroups do not matter."""
    pairs = zip(named.cluster_ids, named.sources, strict=True)
    return any(own // n_subgroups != simplest // n_subgroups for own, simplest in pairs)


def doubts_about(named: Pairing | None, labels: Array, n_subgroups: int) -> Sequence[str]:
    """Return a sentence for everything that speaks against a run.

    Args:
        named: What `simplicity` returned.
        labels: Probabilities of classes with which deployment rows are learned from, as if classes were equally
            frequent.
        n_subgroups: How many subgroups there are.
    """
    said = []
    if named is not None and names_other_classes(named, n_subgroups):
        said.append(
            "other classes for the missing sources would be simpler to learn than those that were found: the solution "
            "may be an exclusive-or of class and subgroup, and wrong wherever training has no labels. Measure before "
            "you use it, try another seed, or label some rows of the missing sources."
        )
    elif named is not None and named.margin < UNCLEAR:
        said.append(
            f"which unseen rows are which class is unclear: other names for them are nearly as simple (margin "
            f"{named.margin:.3f}). Measure before you use the model, or label some rows of the missing sources."
        )
    if entropy(labels) > UNSURE:
        said.append(
            "the classes of deployment rows are hardly better than guesses: they cannot be told from the features. "
            "Check that the features are the right ones."
        )
    return said
