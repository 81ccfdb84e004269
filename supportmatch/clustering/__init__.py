"""Divide the deployment set into clusters, so that balanced bags can be drawn from it without labels.

Every method numbers its K clusters in the same way (`Clusters.cluster_ids`, ascending):

- a *seen* source keeps its own source id, whatever K is: labelled rows tie the cluster to it;
- the other clusters take the ids of missing sources, lowest first. These are numbers, not claims: which unseen cluster
  is which missing source is not known, and balancing does not need it (paper, Sec. 4.3). Only `factorised` names them:
  there, no more than the subgroups without any training row are interchangeable;
- when K exceeds the number of sources, the rest are `n_sources .. K-1`.

So `cluster_ids` is `0 .. K-1` unless K is *below* the number of sources: then the highest missing sources have no
cluster of their own, and their ids stay unused.
"""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from supportmatch.config import ClusteringConfig
from supportmatch.data.containers import Labeled, Unlabeled
from supportmatch.errors import ConfigError, SupportMatchWarning, TooFewDeploymentRowsError
from supportmatch.progress import Report, silent
from supportmatch.sources import Ids, Support

__all__ = ["Clusters", "cluster_deployment", "plan_clusters", "smallest_healthy_size", "warn_of_dying_clusters"]


@dataclass(frozen=True, eq=False)
class Clusters:
    """The deployment set, divided."""

    ids: Ids
    """One cluster id per deployment row."""
    cluster_ids: tuple[int, ...]
    """The K ids in use, ascending; `supportmatch.clustering` says what they mean."""
    probabilities: NDArray[np.float64] | None
    """Rows x K; column j belongs to `cluster_ids[j]`. None for a method that only assigns."""
    method: str
    """How they were found."""

    @property
    def n_clusters(self) -> int:
        """K."""
        return len(self.cluster_ids)

    @cached_property
    def sizes(self) -> Ids:
        """Rows of each cluster, in the order of `cluster_ids`."""
        return np.bincount(np.searchsorted(self.cluster_ids, self.ids), minlength=self.n_clusters)


def plan_clusters(support: Support, n_clusters: int | None = None) -> tuple[int, ...]:
    """Return the ids that K clusters use; K is |Y||S| by default.

    >>> from supportmatch.sources import SourceGrid
    >>> grid = SourceGrid(classes=(2, 4), subgroups=("purple", "green"))
    >>> support = Support(grid, seen=((True, False), (False, True)))
    >>> plan_clusters(support), plan_clusters(support, 3), plan_clusters(support, 6)
    ((0, 1, 2, 3), (0, 1, 3), (0, 1, 2, 3, 4, 5))
    """
    seen, n_sources = support.seen_sources, support.grid.n_sources
    n_clusters = n_sources if n_clusters is None else n_clusters
    if n_clusters < len(seen):
        raise ConfigError(
            f"`n_clusters` is {n_clusters}, but training shows {len(seen)} sources and each keeps a cluster of its "
            f"own: use at least {len(seen)}, or leave it out to get one for each of the {n_sources} declared sources."
        )
    others = (*support.missing_sources, *range(n_sources, n_clusters))
    return tuple(sorted((*seen, *others[: n_clusters - len(seen)])))


def cluster_deployment(
    train: Labeled, deploy: Unlabeled, config: ClusteringConfig, seed: int, report: Report = silent
) -> Clusters:
    """Divide the deployment rows into K clusters with the help of the labelled training rows.

    Args:
        train: The labelled rows.
        deploy: The rows to divide.
        config: The method and its settings.
        seed: Same seed, same clusters.
        report: Called with (steps done, steps in all) as the work goes on.

    Returns:
        The clusters. A warning names every cluster that is empty or nearly so (`smallest_healthy_size`): it is often a
        missing source that was not found, and bags drawn from it repeat a handful of rows.
    """
    cluster_ids = plan_clusters(train.support, config.n_clusters)
    if len(deploy) < len(cluster_ids):
        raise TooFewDeploymentRowsError(
            f"the deployment set has {len(deploy)} rows, fewer than the {len(cluster_ids)} clusters it is divided "
            "into: collect more unlabelled rows."
        )
    columns, probabilities = _run_method(train, deploy, config, cluster_ids, seed, report)
    clusters = Clusters(np.array(cluster_ids)[columns], cluster_ids, probabilities, config.method)
    warn_of_dying_clusters(clusters, train.support)
    return clusters


def smallest_healthy_size(n_rows: int) -> int:
    """Return the rows below which a cluster is called dying: 8, or 0.5 % of a large deployment set.

    >>> smallest_healthy_size(100), smallest_healthy_size(10_000)
    (8, 50)
    """
    return max(8, n_rows // 200)


def _run_method(
    train: Labeled,
    deploy: Unlabeled,
    config: ClusteringConfig,
    cluster_ids: tuple[int, ...],
    seed: int,
    report: Report,
) -> tuple[Ids, NDArray[np.float64] | None]:
    """Return the column of `cluster_ids` each deployment row belongs to and, where there are any, probabilities."""
    # Methods are imported when they are needed: torch and scikit-learn cost seconds each.
    if config.method == "factorised":
        from supportmatch.clustering.factorised import factorised_probabilities

        if len(cluster_ids) != train.grid.n_sources:
            raise ConfigError(
                f"factorised clusters are the {train.grid.n_sources} sources themselves, but `n_clusters` is "
                f"{len(cluster_ids)}: leave it out, or choose another method."
            )
        probabilities = factorised_probabilities(train, deploy, config.heads, seed)
        report(1, 1)
        return probabilities.argmax(axis=1), probabilities

    from supportmatch.clustering.codes import learn_codes
    from supportmatch.tensors import threads_for

    total = config.pretrain_steps + (config.head_steps if config.method == "rank-statistics" else 1)
    done = itertools.count(1)

    def advance() -> None:
        report(next(done), total)

    with threads_for(train):
        train_codes, deploy_codes = learn_codes(train, deploy, config, seed, advance)
    labels = np.searchsorted(cluster_ids, train.source_ids)
    if config.method == "rank-statistics":
        from supportmatch.clustering.rank_statistics import rank_statistics_probabilities

        probabilities = rank_statistics_probabilities(
            train_codes, labels, deploy_codes, len(cluster_ids), config, seed, advance
        )
        return probabilities.argmax(axis=1), probabilities
    if config.method == "kmeans":
        from supportmatch.clustering.kmeans import seeded_kmeans

        columns = seeded_kmeans(train_codes, labels, deploy_codes, len(cluster_ids), seed)
        advance()
        return columns, None

    from supportmatch.clustering.mixture import mixture_probabilities

    probabilities = mixture_probabilities(train_codes, labels, deploy_codes, cluster_ids, train.support, seed)
    advance()
    return probabilities.argmax(axis=1), probabilities


def warn_of_dying_clusters(clusters: Clusters, support: Support) -> None:
    """Warn of clusters that are empty or nearly so."""
    n_rows = len(clusters.ids)
    enough = smallest_healthy_size(n_rows)
    dying = [
        f"{f'source {support.grid.source_name(k)}' if k in support.seen_sources else f'unseen cluster {k}'}: {size}"
        for k, size in zip(clusters.cluster_ids, clusters.sizes.tolist(), strict=True)
        if size < enough
    ]
    if dying:
        warnings.warn(
            f"{len(dying)} of {clusters.n_clusters} clusters have fewer than {enough} of the {n_rows} deployment rows "
            f"({'; '.join(dying)}). Either the source hardly occurs at deployment or it was not found: try another "
            "`method`, seed or `n_clusters`. Small clusters are kept; empty ones get no slots in bags.",
            SupportMatchWarning,
            stacklevel=3,
        )
