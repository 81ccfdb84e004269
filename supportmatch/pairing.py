"""Which unseen cluster is which missing source, decided without labels.

Balancing bags needs clusters but not their names; a classifier trained on clusters needs at least their classes. The
right names are taken to be the *simple* ones: with them a handful of rows per cluster is enough to learn both the class
and the subgroup of the rest, by ridge regression on features that nobody trained (random convolutions of images, the
standardised columns of tables). Naming two clusters the wrong way round makes the class an exclusive-or of shape and
colour, which takes many more rows to learn; with many rows everything is learnable, so there must be few.

It is an assumption about the data, not a fact: where a class looks different in each subgroup it can be wrong, and a
small `Pairing.margin` says that it may be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, permutations, product
from math import comb, inf, perm

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import avg_pool2d, conv2d

from supportmatch.clustering import Clusters
from supportmatch.data.containers import Unlabeled
from supportmatch.errors import ConfigError, ShapeError, TooFewDeploymentRowsError
from supportmatch.seeding import stream, torch_stream
from supportmatch.sources import Ids, Support
from supportmatch.tensors import read_rows

Array = NDArray[np.float64]

_MAX_CANDIDATES = 5_040
"""Seven missing sources; scoring that many takes seconds, and the next step up would take minutes."""
_ROWS_PER_CLUSTER = 100
"""Rows that stand for a cluster: enough to measure an accuracy, few enough for one kernel matrix."""
_FEW = 2
"""Rows per cluster to learn from. Fewer tell simple from complicated better: with 8 three digits are hardly told."""
_N_DRAWS = 60
"""Times that few rows are drawn, over all random networks together."""
_N_NETWORKS = 3
_N_FILTERS = 64
_RIDGE = 0.1
"""Relative to the mean square of the features."""


@dataclass(frozen=True)
class Pairing:
    """The source that each cluster is taken to be, and how clear the choice was."""

    cluster_ids: tuple[int, ...]
    """The clusters, as in `Clusters.cluster_ids`."""
    sources: tuple[int, ...]
    """The source id of each cluster. Seen sources keep their own."""
    scores: dict[tuple[int, ...], float]
    """Every candidate for `sources` with its score, best first: the mean accuracy with which class and subgroup are
    learnt from a few rows."""
    margin: float
    """How far the best score is above that of any candidate giving some row another *class*; infinite without one."""

    def source_ids(self, ids: Ids) -> Ids:
        """Return the source id of rows from their cluster ids."""
        sources: Ids = np.array(self.sources)[np.searchsorted(self.cluster_ids, ids)]
        return sources


def pair_clusters(clusters: Clusters, deploy: Unlabeled, support: Support, seed: int) -> Pairing:
    """Name the unseen clusters after the missing sources, in the way that makes class and subgroup simplest.

    Every missing source gets one cluster. Where there are more unseen clusters than missing sources, each of the rest
    may be any source, also a seen one that was divided; where there are fewer, some sources get none. Clusters by
    `factorised` have names already and keep them.

    Args:
        clusters: The deployment set, divided.
        deploy: The same rows.
        support: Which sources training has seen.
        seed: Same seed, same scores.
    """
    if len(clusters.ids) != len(deploy):
        raise ShapeError(
            f"there are {len(clusters.ids)} cluster ids for {len(deploy)} deployment rows: pair the rows that were "
            "clustered."
        )
    if clusters.sizes.max() <= _FEW:
        raise TooFewDeploymentRowsError(
            f"no cluster has more than {clusters.sizes.max()} deployment rows, so none is left to judge by when "
            f"{_FEW} are learnt from: collect more unlabelled rows."
        )
    candidates = _list_candidates(clusters, support)
    judge = _Simplicity(clusters, deploy, seed)
    n_subgroups = support.grid.n_subgroups

    def split(candidate: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the classes and the subgroups of the clusters that have rows."""
        ids = np.array(candidate)[judge.columns]
        return tuple((ids // n_subgroups).tolist()), tuple((ids % n_subgroups).tolist())

    accuracy = cache(judge.accuracy)  # candidates share their classes, or their subgroups, with many others
    scored = {candidate: float(np.mean([accuracy(labels) for labels in split(candidate)])) for candidate in candidates}
    scores = dict(sorted(scored.items(), key=lambda item: -item[1]))
    best = next(iter(scores))
    rivals = [score for candidate, score in scores.items() if split(candidate)[0] != split(best)[0]]
    return Pairing(clusters.cluster_ids, best, scores, scores[best] - max(rivals, default=-inf))


def _list_candidates(clusters: Clusters, support: Support) -> list[tuple[int, ...]]:
    """Return every way to give a source to each cluster."""
    if clusters.method == "factorised":
        return [clusters.cluster_ids]
    missing, n_sources = support.missing_sources, support.grid.n_sources
    unseen = [k for k in clusters.cluster_ids if k not in support.seen_sources]
    has_spare = len(unseen) > len(missing)
    n_ways = _count_covers(n_sources, len(missing), len(unseen)) if has_spare else perm(len(missing), len(unseen))
    if n_ways > _MAX_CANDIDATES:
        raise ConfigError(
            f"there are {n_ways} ways to pair {len(unseen)} unseen clusters with {len(missing)} missing sources, more "
            f"than the {_MAX_CANDIDATES} that are tried: use fewer clusters, or 'factorised' ones, which have names."
        )
    ways = (
        [way for way in product(range(n_sources), repeat=len(unseen)) if set(way) >= set(missing)]
        if has_spare
        else permutations(missing, len(unseen))
    )
    named = [dict(zip(unseen, way, strict=True)) for way in ways]
    return [tuple(names.get(k, k) for k in clusters.cluster_ids) for names in named]


def _count_covers(n_sources: int, n_missing: int, n_clusters: int) -> int:
    """Count the ways to give each cluster any source so that every missing one is given (inclusion and exclusion).

    >>> _count_covers(n_sources=4, n_missing=1, n_clusters=2)  # 16 ways less the 9 without the missing source
    7
    """
    return sum((-1) ** j * comb(n_missing, j) * (n_sources - j) ** n_clusters for j in range(n_missing + 1))


class _Simplicity:
    """Judges labellings of clusters by how well they are learnt from a few rows.

    Ridge regression is linear in its targets. So *clusters* are regressed once for each draw of few rows, and any
    labelling of them is then a sum of columns.
    """

    def __init__(self, clusters: Clusters, deploy: Unlabeled, seed: int) -> None:
        rng = stream(seed, "pairing rows")
        self.columns = np.flatnonzero(clusters.sizes)
        """Positions of the clusters that have rows: only they can be judged."""
        members = [np.flatnonzero(clusters.ids == clusters.cluster_ids[j]) for j in self.columns]
        chosen = [rng.permutation(rows)[:_ROWS_PER_CLUSTER] for rows in members]
        labels = np.repeat(np.arange(len(chosen)), [len(rows) for rows in chosen])
        sample = Unlabeled(deploy.x[np.concatenate(chosen)], deploy.layout)
        kernels = [_kernel(features) for features in _untrained_features(sample, seed)]
        true, predicted = zip(
            *(_learn_from_few(kernels[draw % len(kernels)], labels, rng) for draw in range(_N_DRAWS)), strict=True
        )
        self._true: Ids = np.concatenate(true)
        self._predicted: Array = np.concatenate(predicted)

    def accuracy(self, labels: tuple[int, ...]) -> float:
        """Return the share of held-out rows whose label is found; one label for each of `columns`."""
        _, dense = np.unique(labels, return_inverse=True)
        found = (self._predicted @ np.eye(dense.max() + 1)[dense]).argmax(axis=1)
        return float(np.mean(found == dense[self._true]))


def _learn_from_few(kernel: Array, labels: Ids, rng: np.random.Generator) -> tuple[Ids, Array]:
    """Return the clusters of rows that were held out, and the regression's scores for each cluster."""
    shuffled = rng.permutation(len(labels))
    by_label = shuffled[np.argsort(labels[shuffled], kind="stable")]
    starts = np.searchsorted(labels[by_label], np.arange(labels.max() + 2))
    few = np.concatenate([by_label[a : min(a + _FEW, b)] for a, b in pairwise(starts)])
    rest = np.setdiff1d(shuffled, few)
    targets = np.eye(labels.max() + 1)[labels[few]]
    mean = targets.mean(axis=0)
    weights = np.linalg.solve(kernel[np.ix_(few, few)] + _RIDGE * np.eye(len(few)), targets - mean)
    return labels[rest], kernel[np.ix_(rest, few)] @ weights + mean


def _untrained_features(rows: Unlabeled, seed: int) -> Iterator[NDArray[np.float32]]:
    """Yield descriptions of the rows: of images by random convolutions, of tables by their standardised columns."""
    if not rows.is_images:
        deviation = rows.x.std(axis=0)
        yield np.divide(rows.x, np.where(deviation > 0, deviation, 1), dtype=np.float32)
        return
    images = read_rows(rows, slice(None))
    for network in range(_N_NETWORKS):
        generator = torch_stream(seed, "pairing features", network)
        filters = torch.randn(_N_FILTERS, images.shape[1], 5, 5, generator=generator)
        edges = conv2d(images, filters, stride=2, padding=2).abs()
        yield avg_pool2d(edges, 2, ceil_mode=True).flatten(1).numpy()


def _kernel(features: NDArray[np.float32]) -> Array:
    """Return the inner products of centred features, at a mean square of one."""
    centred = features - features.mean(axis=0)
    kernel: Array = (centred @ centred.T).astype(np.float64)
    mean_square = np.trace(kernel) / len(kernel)
    return kernel / mean_square if mean_square > 0 else kernel
