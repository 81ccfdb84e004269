"""How many kinds of rows the deployment set has, when nobody knows: more clusters than enough, put together again.

A mixture with too many components cuts kinds of rows into pieces, and pieces of one kind run into each other: rows of
one have some chance of belonging to the other. Kinds that are apart hardly do. So components that overlap are counted
as one (Hennig, 2010, merges Gaussian components by the same chances). Small ones are kept: a rare kind is one, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from supportmatch.clustering.codes import learn_codes
from supportmatch.clustering.mixture import mixture_probabilities
from supportmatch.config import ClusteringConfig
from supportmatch.data.containers import Labeled, Unlabeled
from supportmatch.seeding import stream
from supportmatch.tensors import threads_for

_OVERLAPS = (0.007, 0.01, 0.014)
"""Mean chance of rows of one component to belong to another, from which on both are one; the middle one counts."""
_SPARE = 4
"""Components more than declared sources."""
_N_RUNS = 3


@dataclass(frozen=True)
class ClusterCount:
    """An estimate of the number of clusters."""

    best: int
    """The median over runs."""
    low: int
    high: int
    """The least and the most over runs and over what counts as overlap: where they differ, the number is unclear."""


def estimate_n_clusters(train: Labeled, deploy: Unlabeled, config: ClusteringConfig, seed: int) -> ClusterCount:
    """Estimate the number of kinds of rows in the deployment set, which are apart in the codes of an autoencoder.

    It can find up to four kinds more than declared sources, and not fewer than training shows. For images, and tables
    whose kinds are apart; where classes overlap, so do clusters, and the estimate is too low.

    Args:
        train: The labelled rows.
        deploy: The rows to divide.
        config: The autoencoder and its training.
        seed: Same seed, same estimate.
    """
    from supportmatch.clustering import plan_clusters

    cluster_ids = plan_clusters(train.support, train.grid.n_sources + _SPARE)
    labels = np.searchsorted(cluster_ids, train.source_ids)
    counts = []
    for run in range(_N_RUNS):
        own_seed = int(stream(seed, "number of clusters", run).integers(2**31))
        with threads_for(train):
            train_codes, deploy_codes = learn_codes(train, deploy, config, own_seed, lambda: None)
        p = mixture_probabilities(train_codes, labels, deploy_codes, cluster_ids, train.support, own_seed)
        counts.append([count_apart(p, overlap) for overlap in _OVERLAPS])
    seen = len(train.support.seen_sources)
    best = max(seen, int(np.median([count[1] for count in counts])))
    return ClusterCount(best, min(best, np.min(counts).item()), max(best, np.max(counts).item()))


def count_apart(probabilities: NDArray[np.float64], overlap: float) -> int:
    """Count components after those that overlap have been put together.

    >>> p = np.array([[0.97, 0.03, 0.0], [0.04, 0.96, 0.0], [0.0, 0.0, 1.0]])
    >>> count_apart(p, 0.01), count_apart(p, 0.5)
    (2, 3)
    """
    assigned = probabilities.argmax(axis=1)
    taken = np.unique(assigned)
    chances = np.array([probabilities[assigned == k][:, taken].mean(axis=0) for k in taken])
    return int(connected_components(np.maximum(chances, chances.T) > overlap, directed=False)[0])
