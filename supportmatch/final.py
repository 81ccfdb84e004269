"""The classifier that predicts in the end: a network of the rows of both sets, deployment rows with soft labels.

Once clusters of the deployment set have names (`supportmatch.pairing`), they are labels, and the plain thing to do with
labels is to train a classifier on them. z says what classes deployment rows have, too; where both say much the same,
the few rows of which they do not are left out. With a guided game z has learned from the same names, so agreement says
that the names can be learned, not that they are right.
"""

from __future__ import annotations

from math import ceil

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from supportmatch.bags import WeightedBags
from supportmatch.classifier import check_weights
from supportmatch.clustering import Clusters
from supportmatch.config import FinalConfig
from supportmatch.data.containers import Labeled, Unlabeled
from supportmatch.networks.backbones import build_backbone
from supportmatch.pairing import Pairing
from supportmatch.progress import Report, silent
from supportmatch.seeding import seeded_initialisation
from supportmatch.sources import Ids, SourceGrid
from supportmatch.tensors import read_rows, threads_for

Array = NDArray[np.float64]

MOSTLY_SAME = 0.95
"""Share of deployment rows of which clusters and z must say the same class for the others to be taken as errors."""

CONTRADICTED = 0.1
"""Accuracy that a final classifier may lack, in the worst seen source, of the classifier on z: labels of training rows
are true, so what contradicts them is wrong."""
_LEAST_STEPS = 200
"""However few rows there are: fewer leave the network near its initial weights."""


def name_softly(clusters: Clusters, pairing: Pairing, grid: SourceGrid) -> Array:
    """Return the probability of each source for each deployment row, from clusters and their names."""
    probabilities = np.zeros((len(clusters.ids), grid.n_sources))
    by_cluster = clusters.probabilities
    if by_cluster is None:
        by_cluster = np.eye(clusters.n_clusters)[np.searchsorted(clusters.cluster_ids, clusters.ids)]
    np.add.at(probabilities.T, list(pairing.sources), by_cluster.T)
    # A source that has not the weight of one row is absent: its share would go to rows of others.
    probabilities[:, probabilities.sum(axis=0) < 1] = 0.0
    return probabilities


def leave_out_disputed(sources: Array, same: NDArray[np.bool_]) -> Array:
    """Return the sources without rows that z gives another class, which are rows of zeros then.

    Of a source that z contradicts in half of its rows or more all are kept: it may be z that never learned it.

    >>> leave_out_disputed(np.eye(2)[[0, 0, 0, 1]], np.array([True, True, False, False])).sum(axis=1)
    array([1., 1., 0., 1.])
    """
    given = sources.argmax(axis=1)
    n_rows = np.bincount(given, minlength=sources.shape[1])
    n_same = np.bincount(given, same, minlength=sources.shape[1])
    left_out = ~same & (2 * n_same > n_rows)[given]
    kept: Array = sources * ~left_out[:, None]
    return kept


def same_class(sources: Array, by_z: Array) -> NDArray[np.bool_]:
    """Return which rows get the same class from their cluster as from z.

    Args:
        sources: Probabilities of sources, rows x sources.
        by_z: Probabilities of classes, rows x classes.

    >>> same_class(np.array([[0.8, 0.2, 0.0, 0.0], [0.0, 0.4, 0.3, 0.3]]), np.array([[0.9, 0.1], [0.9, 0.1]]))
    array([ True, False])
    """
    by_cluster = sources.reshape(len(sources), by_z.shape[1], -1).sum(axis=2)
    same: NDArray[np.bool_] = by_cluster.argmax(axis=1) == by_z.argmax(axis=1)
    return same


def balanced_class_weights(source_probabilities: Array, grid: SourceGrid) -> Array:
    """Return how much each row counts for each class; a row counts 1 on average.

    Classes have the same total, and within a class the sources that occur: as in training bags.

    >>> grid = SourceGrid(classes=(2, 4), subgroups=("purple", "green"))
    >>> balanced_class_weights(np.array([[0.5, 0.5, 0, 0], [0.5, 0, 0, 0.5]]), grid).round(2)
    array([[0.75, 0.  ],
           [0.25, 1.  ]])
    """
    total = source_probabilities.sum(axis=0)
    share = np.divide(source_probabilities, total, out=np.zeros_like(source_probabilities), where=total > 0)
    present = (total > 0).reshape(grid.n_classes, grid.n_subgroups)
    by_class = share.reshape(len(share), *present.shape).sum(axis=2) / np.maximum(present.sum(axis=1), 1)
    weights: Array = by_class * len(share) / np.count_nonzero(present.any(axis=1))
    return weights


def build_final(
    feature_shape: tuple[int, ...], n_classes: int, config: FinalConfig, *, trained: bool = False
) -> nn.Sequential:
    """Return the network, as it is to be trained or, for images, as it is after that: without batch norm.

    Small images get as many levels as they have room for.
    """
    if len(feature_shape) == 1:
        return build_backbone(feature_shape, n_classes, config.widths)
    channels, height, width = feature_shape
    layers: list[nn.Module] = []
    for level, c_out in enumerate(config.widths):
        kernel, padding, shrink = (5, 0, 4) if level == 0 else (3, 1, 0)
        if min(height, width) - shrink < 2:
            break
        layers.append(nn.Conv2d(channels, c_out, kernel, padding=padding))
        layers += [] if trained else [nn.BatchNorm2d(c_out)]
        layers += [nn.MaxPool2d(2), nn.LeakyReLU(0.01)]  # in this order the activation has a quarter of the work
        channels, height, width = c_out, (height - shrink) // 2, (width - shrink) // 2
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * height * width, n_classes))


def fold(network: nn.Sequential) -> nn.Sequential:
    """Return a trained network whose convolutions have their batch norm inside, which predicts several times faster."""
    layers: list[nn.Module] = []
    for layer in network.eval():
        if isinstance(layer, nn.BatchNorm2d):
            convolution = layers[-1]
            assert isinstance(convolution, nn.Conv2d)
            layers[-1] = fuse_conv_bn_eval(convolution, layer)
        else:
            layers.append(layer)
    return nn.Sequential(*layers).eval()


def fit_final(
    train: Labeled, deploy: Unlabeled, sources: Array, config: FinalConfig, seed: int, report: Report = silent
) -> nn.Sequential:
    """Train a network on the rows of both sets, every source drawn equally often.

    Args:
        train: Labelled rows.
        deploy: Unlabelled rows.
        sources: What sources the unlabelled rows are taken to be of, rows x sources; rows of zeros are left out.
        config: The network and how it learns.
        seed: Same seed, same network.
        report: Told about progress.
    """
    grid = train.grid
    weights = balanced_class_weights(np.concatenate([np.eye(grid.n_sources)[train.source_ids], sources]), grid)
    total = weights.sum(axis=1)
    targets = torch.from_numpy((weights / np.maximum(total, 1e-12)[:, None]).astype(np.float32))
    batches = WeightedBags(total, 1, config.batch_size, seed, "final batches")
    with seeded_initialisation(seed, "final classifier"):
        network = build_final(train.feature_shape, grid.n_classes, config)
    optimiser = torch.optim.Adam(network.parameters(), lr=config.learning_rate, fused=True)
    n_steps = max(_LEAST_STEPS, config.epochs * ceil(len(weights) / config.batch_size))
    network.train()
    with threads_for(train):
        for step in range(n_steps):
            rows = np.sort(batches.draw(step).reshape(-1))
            optimiser.param_groups[0]["lr"] = config.learning_rate * min(1.0, 2 * (1 - step / n_steps))
            log_probabilities = network(_read_either(train, deploy, rows)).log_softmax(dim=1)
            loss = -(targets[torch.from_numpy(rows)] * log_probabilities).sum(dim=1).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            report(step + 1, n_steps)
    check_weights(network, n_steps, config.learning_rate)
    return fold(network)


def _read_either(train: Labeled, deploy: Unlabeled, rows: Ids) -> torch.Tensor:
    """Read rows by their ascending numbers, those of the training set first: neither set is copied."""
    n_of_train = int(np.searchsorted(rows, len(train)))
    parts = [read_rows(train, rows[:n_of_train]), read_rows(deploy, rows[n_of_train:] - len(train))]
    return torch.cat(parts)
