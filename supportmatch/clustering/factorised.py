"""Clusters as P(y|x) P(s|x) from two heads, each trained where labels are honest (after the paper's GEORGE).

A class head trained on all rows of biased training data learns the subgroup as a shortcut, and the other way round. So
the class head sees only subgroups that occur with every class, and the subgroup head only classes that occur with every
subgroup. A subgroup without any training row cannot be learnt from labels at all; it is found by positive-unlabelled
learning: training rows are a sample of the seen subgroups, and whatever deployment has in excess of them is new.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from supportmatch.data.containers import Labeled, Rows, Unlabeled
from supportmatch.errors import SupportMatchWarning
from supportmatch.seeding import stream
from supportmatch.sources import Ids

Array = NDArray[np.float64]

_NOISE_QUANTILE = 0.25
"""Quantile of the density ratio taken as its lower bound: the minimum itself is noise."""
_N_FOLDS = 3


def factorised_probabilities(train: Labeled, deploy: Unlabeled, heads: str, seed: int) -> Array:
    """Return the probability of each source (columns are source ids) for each deployment row."""
    x, x_deploy = _scaled_features(train, deploy)
    random_state = int(stream(seed, "factorised heads").integers(2**31))
    y_rows, s_rows = honest_rows(train)
    p_y = _predict_head(x[y_rows], train.y[y_rows], train.grid.n_classes, x_deploy, heads, random_state)
    p_s = _predict_head(x[s_rows], train.s[s_rows], train.grid.n_subgroups, x_deploy, heads, random_state)
    missing = train.support.missing_subgroups
    if missing:
        novel = novelty(x, x_deploy, heads, random_state)
        p_s = (1 - novel)[:, None] * p_s
        p_s[:, missing] = novel[:, None] * _share_novel(x_deploy, novel, p_y, len(missing), random_state)
    return (p_y[:, :, None] * p_s[:, None, :]).reshape(len(x_deploy), -1)


def honest_rows(train: Labeled) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the rows that the class head and the subgroup head may learn from.

    Completeness of a class is judged among the subgroups that occur at all. Where no subgroup (or class) is complete,
    all rows are used and a warning says so.
    """
    support = train.support
    occurring = np.asarray(support.table.any(axis=0))
    whole_subgroups = np.array([support.is_complete_subgroup(s) for s in range(train.grid.n_subgroups)])
    whole_classes = np.array([bool(row[occurring].all()) for row in support.table])
    if not whole_subgroups.any():
        _warn_incomplete(head="class", unit="subgroup")
        whole_subgroups = occurring
    if not whole_classes.any():
        _warn_incomplete(head="subgroup", unit="class")
        whole_classes = np.ones_like(whole_classes)
    return whole_subgroups[train.s], whole_classes[train.y]


def novelty(x: Array, x_deploy: Array, heads: str, random_state: int) -> Array:
    """Return for each deployment row the probability that its subgroup has no training rows.

    Deployment is a mixture `pi p_seen + (1 - pi) p_new`, so the density ratio `deployment / training` is at least pi
    and reaches it where nothing is new: pi is read off a low quantile of the ratio on deployment rows, and the chance
    of being new is `1 - pi / ratio`. It assumes that seen subgroups look alike in both sets; sources that are thinned
    in one of them blur it.
    """
    both = np.concatenate([x, x_deploy])
    is_deploy = np.repeat([0, 1], [len(x), len(x_deploy)])
    p_deploy = np.empty(len(both))
    # A head is sure of the rows it learnt from, new or not, so each row is judged by one that has not seen it.
    folds = StratifiedKFold(min(_N_FOLDS, len(x), len(x_deploy)), shuffle=True, random_state=random_state)
    for learn, judge in folds.split(both, is_deploy):
        p_deploy[judge] = _predict_head(both[learn], is_deploy[learn], 2, both[judge], heads, random_state)[:, 1]
    p_deploy = p_deploy[len(x) :]
    ratio = p_deploy / np.maximum(1 - p_deploy, 1e-9) * (len(x) / len(x_deploy))
    pi = min(1.0, float(np.quantile(ratio, _NOISE_QUANTILE)))
    return 1 - np.minimum(1.0, pi / np.maximum(ratio, 1e-9))


def _share_novel(x_deploy: Array, novel: Array, p_y: Array, n_missing: int, random_state: int) -> Array:
    """Share what is new among the missing subgroups: k-means on the probably new rows, class means taken out."""
    if n_missing == 1:
        return np.ones((len(x_deploy), 1))
    warnings.warn(
        f"{n_missing} subgroups have no training rows. What is new at deployment is divided among them by k-means, "
        "which cannot know which is which and may divide it along something else: inspect the clusters.",
        SupportMatchWarning,
        stacklevel=4,
    )
    likely = novel > 0.5 if (novel > 0.5).sum() >= n_missing else np.ones_like(novel, dtype=np.bool_)
    weights = p_y * likely[:, None]
    class_means = weights.T @ x_deploy / np.maximum(weights.sum(axis=0), 1e-9)[:, None]
    residuals = x_deploy - p_y @ class_means
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than subgroups
        kmeans = KMeans(n_missing, n_init=3, random_state=random_state).fit(residuals[likely])
    shares: Array = np.eye(n_missing)[kmeans.predict(residuals)]
    return shares


def _predict_head(x: Array, ids: Ids, n_ids: int, x_deploy: Array, heads: str, random_state: int) -> Array:
    """Train a head at the natural prior and return its probabilities for all `n_ids`, zero for those without rows."""
    present = np.unique(ids)
    probabilities = np.zeros((len(x_deploy), n_ids))
    if len(present) == 1:
        probabilities[:, present] = 1.0
        return probabilities
    if heads == "boosted":
        head: Any = HistGradientBoostingClassifier(early_stopping=False, random_state=random_state)
    else:
        head = LogisticRegression(max_iter=300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # argmax does not need the last digits
        probabilities[:, present] = head.fit(x, ids).predict_proba(x_deploy)
    return probabilities


def _scaled_features(train: Rows, deploy: Rows) -> tuple[Array, Array]:
    """Return both sets as flat standardised features."""
    x = np.concatenate([part.x.reshape(len(part), -1) for part in (train, deploy)]).astype(np.float64)
    x = StandardScaler().fit_transform(x)
    return x[: len(train)], x[len(train) :]


def _warn_incomplete(head: str, unit: str) -> None:
    warnings.warn(
        f"no {unit} occurs with every {head} in training, so the {head} head of the factorised clusters learns from "
        "all rows and may use shortcuts: compare with another clustering method.",
        SupportMatchWarning,
        stacklevel=5,
    )
