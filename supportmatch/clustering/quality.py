"""How good clusters are, judged by true labels: for scoring finished runs only, never for making choices in them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isnan
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from supportmatch.errors import ShapeError
from supportmatch.metrics import normalised_mutual_information
from supportmatch.sources import Ids, Support


@dataclass(frozen=True)
class ClusterQuality:
    """Scores of clusters against the true sources of the same rows."""

    accuracy: float
    """Share of rows whose cluster is matched to their source, under the best one-to-one matching (Hungarian)."""
    nmi: float
    """Normalised mutual information of clusters and sources."""
    recall: dict[str, float]
    """For each source, the share of its rows in its matched cluster; NaN for a source without rows."""
    missing: tuple[str, ...]
    """Names of the sources that training lacks."""
    sizes: dict[int, int]
    """Rows of each cluster that has any."""

    @property
    def missing_recall(self) -> float:
        """Mean recall of the missing sources that occur; NaN when there are none."""
        values = [self.recall[name] for name in self.missing if not isnan(self.recall[name])]
        return float(np.mean(values)) if values else float("nan")

    def to_json(self) -> dict[str, Any]:
        """Return plain values; NaN becomes null."""
        recall = {name: None if isnan(value) else value for name, value in self.recall.items()}
        missing_recall = None if isnan(self.missing_recall) else self.missing_recall
        sizes = {str(k): n for k, n in self.sizes.items()}
        return asdict(self) | {
            "recall": recall,
            "missing": list(self.missing),
            "sizes": sizes,
            "missing_recall": missing_recall,
        }


def cluster_quality(ids: Ids, true_source_ids: Ids, support: Support) -> ClusterQuality:
    """Score clusters against the truth.

    It takes true deployment labels, so it is for scoring only: no part of the method may depend on it.

    Args:
        ids: A cluster id per row; any numbers.
        true_source_ids: The true source id per row.
        support: The grid, and which sources training has seen.
    """
    if ids.shape != true_source_ids.shape or ids.ndim != 1 or not len(ids):
        raise ShapeError(
            f"there must be one cluster id and one true source id per row, but the shapes are {ids.shape} and "
            f"{true_source_ids.shape}: score the rows that were clustered."
        )
    values, columns = np.unique(ids, return_inverse=True)
    table = np.zeros((support.grid.n_sources, len(values)), dtype=np.int64)
    np.add.at(table, (true_source_ids, columns.reshape(-1)), 1)
    sources, matched = linear_sum_assignment(table, maximize=True)
    hits = np.zeros(support.grid.n_sources)
    hits[sources] = table[sources, matched]
    totals = table.sum(axis=1)
    recall = np.divide(hits, totals, out=np.full(len(hits), np.nan), where=totals > 0)
    name = support.grid.source_name
    return ClusterQuality(
        accuracy=float(hits.sum() / len(ids)),
        nmi=normalised_mutual_information(table),
        recall={name(k): float(value) for k, value in enumerate(recall)},
        missing=tuple(name(k) for k in support.missing_sources),
        sizes=dict(zip(values.tolist(), table.sum(axis=0).tolist(), strict=True)),
    )
