"""k-means whose first centroids are those of the labelled sources."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from supportmatch.seeding import stream
from supportmatch.sources import Ids

_N_STARTS = 8


def seeded_kmeans(
    train_codes: NDArray[Any], labels: Ids, deploy_codes: NDArray[Any], n_clusters: int, seed: int
) -> Ids:
    """Return a column in 0..K-1 for each deployment row.

    Seen sources start at their labelled centroids and the others are sown by k-means++ around those; of several starts
    the tightest result wins. Only deployment codes move centroids, as in the authors' early runs, so a centroid may
    leave its source: in the end each seen source is given the cluster that most of its labelled rows fall into (one to
    one).
    """
    deploy_codes = deploy_codes.astype(np.float64)
    centroids, seen = labelled_centroids(train_codes, labels, n_clusters)
    starts = [
        sow_centroids(centroids, ~seen, deploy_codes, stream(seed, "k-means", start)) for start in range(_N_STARTS)
    ]
    with warnings.catch_warnings():
        # Fewer distinct rows than clusters: reported to the user as an empty cluster, in our words.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fits = [KMeans(n_clusters, init=start, n_init=1).fit(deploy_codes) for start in starts]
    best = min(fits, key=lambda fit: float(fit.inertia_))
    return _renumber(best.labels_, best.predict(train_codes.astype(np.float64)), labels, n_clusters)


def _renumber(clusters: Ids, train_clusters: Ids, labels: Ids, n_clusters: int) -> Ids:
    """Rename clusters so that column k is the one that agrees best with the labelled rows of column k."""
    agreement = np.zeros((n_clusters, n_clusters))
    np.add.at(agreement, (train_clusters, labels), 1)
    before, after = linear_sum_assignment(agreement, maximize=True)
    renamed: Ids = after[np.argsort(before)][clusters]
    return renamed


def labelled_centroids(
    codes: NDArray[Any], labels: Ids, n_clusters: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the mean code of each column (zero where no row is labelled) and which columns have one."""
    counts = np.bincount(labels, minlength=n_clusters)
    sums = np.eye(n_clusters)[labels].T @ codes
    return sums / np.maximum(counts, 1)[:, None], counts > 0


def sow_centroids(
    centroids: NDArray[np.float64], free: NDArray[np.bool_], codes: NDArray[Any], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return the centroids with the free ones sown by k-means++.

    Each is put on a row, drawn in proportion to its squared distance from the nearest centroid so far.
    """
    sown = centroids.copy()
    nearest = squared_distances(codes, sown[~free]).min(axis=1, initial=np.inf)
    for k in np.flatnonzero(free):
        weights = nearest if 0 < nearest.sum() < np.inf else np.ones(len(codes))
        sown[k] = codes[rng.choice(len(codes), p=weights / weights.sum())]
        nearest = np.minimum(nearest, squared_distances(codes, sown[[k]])[:, 0])
    return sown


def move_centroids(
    centroids: NDArray[np.float64], free: NDArray[np.bool_], codes: NDArray[Any], n_steps: int
) -> NDArray[np.float64]:
    """Take Lloyd steps: each free centroid moves to the mean of the rows nearest to it, or stays if there are none."""
    for _ in range(n_steps):
        means, filled = labelled_centroids(codes, squared_distances(codes, centroids).argmin(axis=1), len(centroids))
        centroids = np.where((free & filled)[:, None], means, centroids)
    return centroids


def squared_distances(codes: NDArray[Any], centroids: NDArray[Any]) -> NDArray[Any]:
    """Return squared Euclidean distances, rows x centroids."""
    distances: NDArray[Any] = (codes**2).sum(axis=1)[:, None] - 2 * codes @ centroids.T + (centroids**2).sum(axis=1)
    return distances.clip(min=0)
