"""A Gaussian mixture in which labelled rows are pinned to their own component.

One full-covariance component per cluster, on autoencoder codes whitened so that the *labelled* sources are round:
directions that vary within known sources count less than those that tell sources apart. Labelled rows shape their own
component only; deployment rows shape all. Expectation-maximisation finds a local optimum, so there are several starts
and then a search that moves the least useful unseen component to where it helps most. Everything is judged by the mean
log-likelihood of the deployment codes; no deployment label is involved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from supportmatch.clustering.kmeans import labelled_centroids, move_centroids, sow_centroids, squared_distances
from supportmatch.seeding import stream
from supportmatch.sources import Ids, Support

Array = NDArray[np.float64]

_N_DIRECTIONS = 24
"""Principal directions kept of the codes."""
_WHITENING_RIDGE = 1e-3
_COVARIANCE_RIDGE = 1e-2
_N_STARTS = 8
_START_LLOYD, _START_EM = 8, 8
_N_SWEEPS, _MOVE_LLOYD, _MOVE_EM = 4, 3, 8
_MIN_GAIN = 2e-3
"""Mean log-likelihood by which a move must improve to be accepted."""
_FINAL_EM = 30
_TOLERANCE = 1e-5


def mixture_probabilities(
    train_codes: NDArray[Any],
    labels: Ids,
    deploy_codes: NDArray[Any],
    cluster_ids: tuple[int, ...],
    support: Support,
    seed: int,
) -> Array:
    """Return the probability of each cluster (columns, as `cluster_ids`) for each deployment row.

    Args:
        train_codes: Codes of the labelled rows.
        labels: The column of each labelled row.
        deploy_codes: Codes of the rows to divide.
        cluster_ids: The ids of the columns, ascending; those below the number of sources are cells of the grid.
        support: The grid, and which of its cells are labelled.
        seed: Decides the starts.
    """
    labelled, x = whiten_codes(train_codes, labels, deploy_codes)
    data = _Data.of(labelled, labels, x, len(cluster_ids))
    starts = _starts(data, support, cluster_ids, seed)
    fits = [_run_em(data, _nearest(data, start, _START_LLOYD), _START_EM) for start in starts]
    best = _relocate(data, max(fits, key=lambda fit: fit.score), seed)
    return _run_em(data, best.responsibilities, _FINAL_EM).responsibilities


def whiten_codes(train_codes: NDArray[Any], labels: Ids, deploy_codes: NDArray[Any]) -> tuple[Array, Array]:
    """Keep the main directions of all codes and make the pooled within-source covariance of labelled rows round."""
    codes = np.concatenate([train_codes, deploy_codes]).astype(np.float64)
    codes -= codes.mean(axis=0)
    values, directions = np.linalg.eigh(codes.T @ codes / len(codes))
    # Directions without spread (fewer rows than dimensions, dead units) carry nothing but rounding errors.
    codes = codes @ directions[:, values >= 1e-12 * values[-1]][:, -_N_DIRECTIONS:]
    codes /= codes.std() or 1.0
    labelled = codes[: len(labels)]
    centroids, _ = labelled_centroids(labelled, labels, int(labels.max()) + 1)
    spread = labelled - centroids[labels]
    within = spread.T @ spread / len(spread)
    factor = np.linalg.cholesky(within + _WHITENING_RIDGE * np.eye(len(within)))
    codes = np.linalg.solve(factor, codes.T).T
    return codes[: len(labels)], codes[len(labels) :]


@dataclass(frozen=True, eq=False)
class _Data:
    """Deployment codes, and what the M-step needs to know of the labelled ones."""

    x: Array
    seen: NDArray[np.bool_]
    centroids: Array
    counts: Array
    sums: Array
    moments: Array

    @classmethod
    def of(cls, labelled: Array, labels: Ids, x: Array, n_clusters: int) -> _Data:
        centroids, seen = labelled_centroids(labelled, labels, n_clusters)
        counts = np.bincount(labels, minlength=n_clusters).astype(np.float64)
        groups = [labelled[labels == k] for k in range(n_clusters)]
        moments = np.stack([group.T @ group for group in groups])
        return cls(x, seen, centroids, counts, centroids * counts[:, None], moments)


@dataclass(frozen=True, eq=False)
class _Fit:
    """A state of the mixture: who belongs where, and how well that explains the deployment codes."""

    responsibilities: Array
    log_joint: Array
    score: float

    @property
    def assigned(self) -> Ids:
        ids: Ids = self.responsibilities.argmax(axis=1)
        return ids


def _starts(data: _Data, support: Support, cluster_ids: tuple[int, ...], seed: int) -> list[Array]:
    """Return first centroids: k-means++ around the labelled ones, and additive ones where the grid allows it."""
    if data.seen.all():
        return [data.centroids]
    starts = [
        sow_centroids(data.centroids, ~data.seen, data.x, stream(seed, "mixture start", start))
        for start in range(_N_STARTS)
    ]
    additive = additive_centroids(data.centroids, data.seen, support, cluster_ids)
    if additive is not None:
        guessed = np.array(cluster_ids) < support.grid.n_sources
        starts.append(sow_centroids(additive, ~guessed, data.x, stream(seed, "mixture start", _N_STARTS)))
    return starts


def additive_centroids(
    centroids: Array, seen: NDArray[np.bool_], support: Support, cluster_ids: tuple[int, ...]
) -> Array | None:
    """Guess missing sources by mu(y, s) = a_y + b_s, fitted to the seen ones.

    Returns:
        Centroids (zero for clusters beyond the grid), or None when the seen sources do not determine the sum: some
        class or subgroup is not connected to the others through seen sources.
    """
    grid = support.grid
    y, s = np.divmod(np.minimum(cluster_ids, grid.n_sources - 1), grid.n_subgroups)
    design = np.concatenate([np.eye(grid.n_classes)[y], np.eye(grid.n_subgroups)[s]], axis=1)
    if np.linalg.matrix_rank(design[seen]) < grid.n_classes + grid.n_subgroups - 1:
        return None
    additive = design @ np.linalg.lstsq(design[seen], centroids[seen], rcond=None)[0]
    beyond = np.array(cluster_ids) >= grid.n_sources
    return np.where(seen[:, None], centroids, np.where(beyond[:, None], 0.0, additive))


def _nearest(data: _Data, centroids: Array, n_steps: int) -> Array:
    """Return one-hot responsibilities after Lloyd steps in which labelled centroids stay where they are."""
    centroids = move_centroids(centroids, ~data.seen, data.x, n_steps)
    one_hot: Array = np.eye(len(centroids))[squared_distances(data.x, centroids).argmin(axis=1)]
    return one_hot


def _run_em(data: _Data, responsibilities: Array, n_steps: int) -> _Fit:
    """Alternate M- and E-steps until the score settles."""
    score = -np.inf
    for _ in range(n_steps):
        log_joint = _log_joint(data, responsibilities)
        log_density = logsumexp(log_joint, axis=1, keepdims=True)
        responsibilities = np.exp(log_joint - log_density)
        last, score = score, float(log_density.mean())
        # Labelled rows and ridges count too, so the score may fall a little on the way: only standing still ends it.
        if abs(score - last) < _TOLERANCE:
            break
    return _Fit(responsibilities, log_joint, score)


def _log_joint(data: _Data, responsibilities: Array) -> Array:
    """M-step, then log of weight times density for each row and component."""
    n_rows, n_clusters = responsibilities.shape
    d = data.x.shape[1]
    taken = responsibilities.sum(axis=0)
    # Only deployment rows count towards the weights: training proportions say nothing about deployment.
    log_weights = np.log((taken + 1) / (n_rows + n_clusters))
    counts = np.maximum(data.counts + taken, 1e-9)[:, None]
    means = (data.sums + responsibilities.T @ data.x) / counts
    moments = data.moments + np.stack([(data.x * r[:, None]).T @ data.x for r in responsibilities.T])
    covariances = moments / counts[:, :, None] - means[:, :, None] * means[:, None, :] + _COVARIANCE_RIDGE * np.eye(d)
    factors = np.linalg.cholesky(covariances)
    inverses = np.linalg.inv(factors)
    log_dets = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
    scaled = data.x @ inverses.reshape(-1, d).T - (inverses @ means[:, :, None]).reshape(-1)
    distances = (scaled**2).reshape(n_rows, n_clusters, d).sum(axis=2)
    log_joint: Array = log_weights - log_dets - 0.5 * (distances + d * np.log(2 * np.pi))
    return log_joint


def _relocate(data: _Data, best: _Fit, seed: int) -> _Fit:
    """Move the unseen component that would be missed least to the component whose split helps most, while it helps."""
    unseen = np.flatnonzero(~data.seen)
    if not len(unseen):
        return best
    for sweep in range(_N_SWEEPS):
        costs = [-logsumexp(np.delete(best.log_joint, k, axis=1), axis=1).mean() for k in unseen]
        moved = int(unseen[np.argmin(costs)])
        centroids = _centroids(data, best)
        moves = [
            _run_em(data, _nearest(data, start, _MOVE_LLOYD), _MOVE_EM)
            for k in range(len(data.seen))
            if k != moved
            and (start := _split(data, best, centroids, k, moved, stream(seed, "mixture split", sweep, k))) is not None
        ]
        challenger = max(moves, key=lambda fit: fit.score, default=best)
        if challenger.score < best.score + _MIN_GAIN:
            break
        best = challenger
    return best


def _centroids(data: _Data, fit: _Fit) -> Array:
    """Return where components stand: seen ones at their labelled rows, the others at the rows they took."""
    taken = np.maximum(fit.responsibilities.sum(axis=0), 1e-9)[:, None]
    return np.where(data.seen[:, None], data.centroids, fit.responsibilities.T @ data.x / taken)


def _split(data: _Data, fit: _Fit, centroids: Array, k: int, moved: int, rng: np.random.Generator) -> Array | None:
    """Return centroids with component `moved` given one half of component `k`; None if there is nothing to split."""
    rows = data.x[fit.assigned == k]
    if len(rows) < 2:
        return None
    both = np.ones(2, dtype=np.bool_)
    halves = move_centroids(sow_centroids(np.zeros((2, rows.shape[1])), both, rows, rng), both, rows, _START_LLOYD)
    # The half nearer to the old centroid keeps the component: a labelled source must not lose its own rows.
    near = int(squared_distances(halves, centroids[[k]]).argmin())
    split = centroids.copy()
    split[moved] = halves[1 - near]
    if not data.seen[k]:
        split[k] = halves[near]
    return split
