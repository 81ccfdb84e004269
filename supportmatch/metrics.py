"""How good predictions are, for whom, and how sure we can be: robust accuracy, per-source table, ratios, HGR.

Every number here is a function of one table of counts, class x subgroup x predicted class. Resampling rows with
replacement is then the same as drawing that table from a multinomial, which makes the bootstrap one vectorised call.

Three kinds of interval, all 95 %:

- Proportions within one source or subgroup (accuracy, positive rate, TPR, TNR) get Wilson's score interval. These cells
  can be small and near 0 or 1, where a bootstrap collapses to a point: 20 right of 20 would read [1, 1].
- Accuracy and robust accuracy get a bootstrap percentile interval, or Wilson's where that is a point.
- Ratios, differences and HGR compare such cells, so a bootstrap would collapse there too. They get percentiles of draws
  from the posterior of the table, in which each source with rows starts with one row more, spread evenly over the
  predicted classes (with two classes half a row each, the prior of Jeffreys). 20 right of 20 then may be 19 of 20.

A number that cannot be computed is NaN with a reason, never 0 or 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isnan, nan, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supportmatch.errors import ConfigError, ShapeError
from supportmatch.seeding import stream
from supportmatch.sources import Ids, Label, SourceGrid

Interval = tuple[float, float]
Floats = NDArray[np.float64]

LEVEL = 0.95
RATES = ("positive_rate", "tpr", "tnr")
OVERALL = (
    "accuracy",
    "robust_accuracy",
    *(f"{rate}_ratio" for rate in RATES),
    *(f"{rate}_difference" for rate in RATES),
    "hgr",
)


def accuracy(y_true: Ids, y_pred: Ids) -> float:
    """Return the share of rows whose class is predicted; NaN without rows.

    >>> accuracy(np.array([0, 1, 1, 0]), np.array([0, 1, 0, 0]))
    0.75
    """
    return float(np.mean(y_true == y_pred)) if len(y_true) else nan


def robust_accuracy(y_true: Ids, y_pred: Ids, s: Ids) -> float:
    """Return the lowest accuracy within a subgroup, over every subgroup that has rows; NaN without rows.

    >>> robust_accuracy(np.array([0, 1, 1, 0]), np.array([0, 1, 0, 0]), s=np.array([0, 0, 1, 1]))
    0.5
    """
    return min((accuracy(y_true[s == i], y_pred[s == i]) for i in np.unique(s)), default=nan)


def hgr_correlation(a: Ids, b: Ids) -> float:
    """Return the Hirschfeld-Gebelein-Renyi maximal correlation of two discrete variables, between 0 and 1.

    It is the second singular value of P(a, b) / sqrt(P(a) P(b)) over the values that occur; if either variable takes
    two values it equals Cramer's V. A constant depends on nothing, so by our definition the result is then 0.0. (The
    library the paper's authors used returned 1.0 in that case.)

    >>> round(hgr_correlation(np.array([0, 0, 1, 1]), np.array([5, 5, 3, 3])), 6)
    1.0
    >>> hgr_correlation(np.array([0, 0, 1, 1]), np.array([2, 2, 2, 2]))
    0.0
    """
    if np.shape(a) != np.shape(b):
        raise ShapeError(f"both variables need one value per row, but have shapes {np.shape(a)} and {np.shape(b)}.")
    a_values, a_ids = np.unique(a, return_inverse=True)
    b_values, b_ids = np.unique(b, return_inverse=True)
    shape = (len(a_values), len(b_values))
    return hgr_of_counts(np.bincount(a_ids * shape[1] + b_ids, minlength=shape[0] * shape[1]).reshape(shape))


def hgr_of_counts(counts: Ids) -> float:
    """Return the maximal correlation of the two axes of a table of counts."""
    return float(_hgr(counts)) if min(counts.shape) > 1 else 0.0


@dataclass(frozen=True)
class Proportion:
    """So many hits out of n rows.

    >>> Proportion(hits=9, n=10).value
    0.9
    >>> Proportion(hits=0, n=0).value
    nan
    """

    hits: int
    n: int

    @property
    def value(self) -> float:
        """The share of hits; NaN without rows."""
        return self.hits / self.n if self.n else nan

    @property
    def interval(self) -> Interval:
        """Wilson's score interval; NaN without rows.

        >>> [round(bound, 3) for bound in Proportion(hits=20, n=20).interval]
        [0.839, 1.0]
        """
        if not self.n:
            return (nan, nan)
        z2 = NormalDist().inv_cdf((1 + LEVEL) / 2) ** 2
        centre = (self.hits + z2 / 2) / (self.n + z2)
        half = sqrt(z2 * (self.hits * (self.n - self.hits) / self.n + z2 / 4)) / (self.n + z2)
        # Rounding must not push the value outside its own interval when every row, or none, is a hit.
        return (min(max(0.0, centre - half), self.value), max(min(1.0, centre + half), self.value))


@dataclass(frozen=True)
class Evaluation:
    """Everything measured on one set of labelled predictions."""

    grid: SourceGrid
    positive: int
    """Class id of the positive class; the rates are one-vs-rest for it."""
    n: int
    """Number of rows."""
    accuracy: float
    robust_accuracy: float
    """Lowest accuracy over the subgroups that have rows."""
    positive_rate_ratio: float
    """Lowest ratio, smaller rate over larger, over the pairs of subgroups for which it is defined."""
    tpr_ratio: float
    tnr_ratio: float
    positive_rate_difference: float
    """Largest absolute difference over the pairs of subgroups for which it is defined."""
    tpr_difference: float
    tnr_difference: float
    hgr: float
    """Maximal correlation of predicted class and subgroup."""
    intervals: dict[str, Interval]
    """95 % interval of each number above: of bootstrap resamples, or of draws from the posterior."""
    by_source: dict[str, Proportion]
    """Accuracy in each source, keyed `class/subgroup`."""
    by_subgroup: dict[str, dict[str, Proportion]]
    """`accuracy`, `positive_rate`, `tpr` and `tnr` in each subgroup."""
    by_pair: dict[str, dict[str, float]]
    """Ratio and difference of each rate, keyed `subgroup vs subgroup`."""
    undefined: dict[str, str]
    """Why a number is NaN: name of the number -> reason."""

    @property
    def worst_subgroup(self) -> str:
        """Name of the subgroup that sets the robust accuracy (the first, if several do)."""
        present = {name: rates["accuracy"].value for name, rates in self.by_subgroup.items() if rates["accuracy"].n}
        return min(present, key=lambda name: present[name])

    @property
    def n_empty_subgroups(self) -> int:
        """How many declared subgroups have no row, so that nothing is known of them."""
        return sum(not rates["accuracy"].n for rates in self.by_subgroup.values())

    def to_json(self) -> dict[str, Any]:
        """Return plain values that `json.dumps` accepts; whatever is undefined is None."""
        overall: dict[str, Any] = {}
        for name in OVERALL:
            overall[name] = _none_if_nan(getattr(self, name))
            overall[f"{name}_interval"] = _json_interval(self.intervals[name])
        by_subgroup: dict[str, dict[str, Any]] = {}
        for subgroup, rates in self.by_subgroup.items():
            by_subgroup[subgroup] = {"n": rates["accuracy"].n}
            for rate, share in rates.items():
                by_subgroup[subgroup][rate] = _none_if_nan(share.value)
                by_subgroup[subgroup][f"{rate}_n"] = share.n
                by_subgroup[subgroup][f"{rate}_interval"] = _json_interval(share.interval)
        return {
            "n": self.n,
            "positive_class": self.grid.classes[self.positive],
            **overall,
            "by_source": {
                source: {
                    "n": share.n,
                    "correct": share.hits,
                    "accuracy": _none_if_nan(share.value),
                    "interval": _json_interval(share.interval),
                }
                for source, share in self.by_source.items()
            },
            "by_subgroup": by_subgroup,
            "by_pair": {
                pair: {name: _none_if_nan(value) for name, value in values.items()}
                for pair, values in self.by_pair.items()
            },
            "undefined": dict(self.undefined),
        }

    def to_text(self) -> str:
        """Return a plain table in which n and a 95 % interval stand beside every number."""
        n_behind = {rate: sum(rates[rate].n for rates in self.by_subgroup.values()) for rate in RATES}
        rows = []
        for name in OVERALL:
            n = n_behind.get(name.removesuffix("_ratio").removesuffix("_difference"), self.n)
            label = name.replace("_", " ")
            if name == "robust_accuracy":  # its evidence is the rows of one subgroup only
                n, label = self.by_subgroup[self.worst_subgroup]["accuracy"].n, f"{label} ({self.worst_subgroup})"
                if self.n_empty_subgroups:
                    n_subgroups = len(self.by_subgroup)
                    label += f", of {n_subgroups - self.n_empty_subgroups} of {n_subgroups} subgroups"
            rows.append((label, getattr(self, name), self.intervals[name], n))
        sources = [
            (f"accuracy, {name}", share.value, share.interval, share.n) for name, share in self.by_source.items()
        ]
        subgroups = [
            (f"{rate.replace('_', ' ')}, {subgroup}", share.value, share.interval, share.n)
            for subgroup, rates in self.by_subgroup.items()
            for rate, share in rates.items()
        ]
        width = max(len(label) for label, *_ in (*rows, *sources, *subgroups))
        lines = [
            f"{self.n} rows; positive class: {self.grid.classes[self.positive]}",
            f"{'':{width}}  {'value':>9}  {'95 % interval':>16}  {'n':>7}",
        ]
        for title, block in (("Overall", rows), ("By source", sources), ("By subgroup", subgroups)):
            lines.append(title)
            for label, value, (low, high), n in block:
                shown = "undefined" if isnan(value) else f"{value:.3f}"
                between = "-" if isnan(low) else f"[{low:.3f}, {high:.3f}]"
                lines.append(f"{label:{width}}  {shown:>9}  {between:>16}  {n:>7}")
        if self.undefined:
            lines += ["Undefined", *(f"{name}: {reason}" for name, reason in self.undefined.items())]
        return "\n".join(lines)


def evaluate(
    y_true: Ids,
    y_pred: Ids,
    s: Ids,
    grid: SourceGrid,
    *,
    positive: int = 1,
    n_bootstrap: int = 1000,
    seed: int = 0,
) -> Evaluation:
    """Measure predictions over all rows, within every source and within every subgroup.

    Ratios and differences run over the pairs of subgroups for which they are defined; pairs that are not are listed in
    `undefined`, and so are subgroups and sources without rows. The percentile interval of a minimum leans towards
    lower values, the more so the more subgroups are nearly tied: read that of robust accuracy as cautious.

    Args:
        y_true: Class id of each row.
        y_pred: Predicted class id of each row.
        s: Subgroup id of each row.
        grid: The declared classes and subgroups.
        positive: Id of the class that positive rate, TPR and TNR speak about; with more classes, one-vs-rest.
        n_bootstrap: Number of resamples and of draws; 0 leaves these intervals undefined.
        seed: Seed of both.

    >>> grid = SourceGrid(classes=(2, 4), subgroups=("purple", "green"))
    >>> y, s = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])
    >>> result = evaluate(y, np.array([0, 1, 1, 1]), s, grid)
    >>> result.accuracy, round(result.robust_accuracy, 3), result.worst_subgroup
    (0.75, 0.667, 'green')
    >>> result.undefined["by_source[4/purple].accuracy"]
    'no rows of class 4 in subgroup purple'
    """
    y_true = _check_ids(y_true, "y_true", grid.n_classes)
    y_pred = _check_ids(y_pred, "y_pred", grid.n_classes)
    s = _check_ids(s, "s", grid.n_subgroups)
    if not len(y_true) == len(y_pred) == len(s) > 0:
        raise ShapeError(
            f"y_true, y_pred and s must be equally long and not empty, but have {len(y_true)}, {len(y_pred)} and "
            f"{len(s)} rows: check that all come from the same rows."
        )
    if not 0 <= positive < grid.n_classes:
        raise ConfigError(f"`positive` must be a class id in 0..{grid.n_classes - 1}, but is {positive}.")
    if n_bootstrap < 0:
        raise ConfigError(f"`n_bootstrap` must not be negative, but is {n_bootstrap}.")

    cells = np.bincount(grid.source_ids(y_true, s) * grid.n_classes + y_pred, minlength=grid.n_sources * grid.n_classes)
    table = cells.reshape(grid.n_classes, grid.n_subgroups, grid.n_classes)
    rng = stream(seed, "metrics")
    resampled = _overall(_resample(table, n_bootstrap, rng), positive)
    drawn = _overall(_draw(table, n_bootstrap, rng), positive)
    resampled |= {name: drawn[name] for name in OVERALL if name not in ("accuracy", "robust_accuracy")}
    overall = {name: float(value) for name, value in _overall(table, positive).items()}
    intervals = {name: _percentiles(draws, overall[name]) for name, draws in resampled.items()}

    correct = np.einsum("ysy->ys", table).ravel().tolist()
    rows = table.sum(axis=-1).ravel().tolist()
    by_source = {grid.source_name(i): Proportion(correct[i], rows[i]) for i in range(grid.n_sources)}
    shares = _subgroup_counts(table, positive)
    by_subgroup = {
        str(name): {rate: Proportion(int(hits[i]), int(n[i])) for rate, (hits, n) in shares.items()}
        for i, name in enumerate(grid.subgroups)
    }
    accuracies = [rates["accuracy"] for rates in by_subgroup.values() if rates["accuracy"].n]
    worst = min(accuracies, key=lambda share: (share.value, share.n))
    for metric, share in (("accuracy", Proportion(sum(correct), sum(rows))), ("robust_accuracy", worst)):
        if intervals[metric][0] == intervals[metric][1]:  # all right, or all wrong: resamples know no doubt
            intervals[metric] = share.interval
    if len(accuracies) == 1:
        intervals["hgr"] = (nan, nan)  # 0 by definition, which is no estimate
    ratios_and_differences = {rate: _compare_pairs(_divide(*shares[rate])) for rate in RATES}
    by_pair = {
        f"{a} vs {b}": {
            f"{rate}_{how}": float(values[i])
            for rate, compared in ratios_and_differences.items()
            for how, values in zip(("ratio", "difference"), compared, strict=True)
        }
        for i, (a, b) in enumerate(combinations(grid.subgroups, 2))
    }
    return Evaluation(
        grid=grid,
        positive=positive,
        n=len(y_true),
        **overall,
        intervals=intervals,
        by_source=by_source,
        by_subgroup=by_subgroup,
        by_pair=by_pair,
        undefined=_reasons(grid, positive, overall, intervals, n_bootstrap, by_source, by_subgroup, by_pair),
    )


def evaluate_names(
    predicted: Sequence[Label] | NDArray[Any],
    y: Sequence[Label] | NDArray[Any],
    subgroup: Sequence[Label] | NDArray[Any],
    grid: SourceGrid,
) -> Evaluation:
    """Measure predictions given as names rather than ids; see `evaluate`."""
    return evaluate(grid.class_ids(y), grid.class_ids(predicted), grid.subgroup_ids(subgroup), grid)


def calibration_of(
    y_true: Ids, probabilities: Floats, s: Ids, subgroups: Sequence[str], *, n_bins: int = 10
) -> dict[str, Any]:
    """Measure whether predictions made with confidence p are right in a share p of cases.

    The expected calibration error is the mean gap of confidence and accuracy over bins of confidence, weighted by
    their rows. Without rows it is None.

    Args:
        y_true: Class id of each row.
        probabilities: Rows x classes.
        s: Subgroup id of each row.
        subgroups: Names of the subgroups.
        n_bins: Bins of equal width between 0 and 1.

    >>> found = calibration_of(np.array([0, 1]), np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([0, 1]), ["a", "b"])
    >>> found["ece"], found["by_subgroup"]
    (0.4, {'a': 0.1, 'b': 0.9})
    """
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == y_true
    place = np.minimum((confidence * n_bins).astype(np.int64), n_bins - 1)
    rows = np.bincount(place, minlength=n_bins)
    hits, trust = (np.bincount(place, weights, minlength=n_bins) for weights in (right, confidence))

    def error(chosen: NDArray[np.bool_]) -> float | None:
        if not chosen.any():
            return None
        gaps = np.bincount(place[chosen], (right - confidence)[chosen], minlength=n_bins)
        return round(float(np.abs(gaps).sum() / chosen.sum()), 6)

    return {
        "ece": error(np.ones(len(y_true), bool)),
        "by_subgroup": {name: error(s == i) for i, name in enumerate(subgroups)},
        "bins": [
            {"confidence": float(trust[i] / rows[i]), "accuracy": float(hits[i] / rows[i]), "n": int(rows[i])}
            for i in np.flatnonzero(rows)
        ],
    }


def normalised_mutual_information(counts: NDArray[Any]) -> float:
    """Return the mutual information of the two axes of a table of counts over the mean of their entropies.

    >>> normalised_mutual_information(np.array([[5, 0], [0, 5]])), normalised_mutual_information(np.ones((2, 2)))
    (1.0, 0.0)
    """
    joint = counts / counts.sum()
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    mean_entropy = (_entropy(rows) + _entropy(columns)) / 2
    shared = _entropy(rows) + _entropy(columns) - _entropy(joint.reshape(-1))
    return min(1.0, max(0.0, shared / mean_entropy)) if mean_entropy > 0 else 0.0


def _entropy(p: Floats) -> float:
    positive = p[p > 0]
    return float(-(positive * np.log(positive)).sum())


def _check_ids(ids: Ids, what: str, upper: int) -> Ids:
    array = np.asarray(ids)
    if array.ndim != 1 or not (np.issubdtype(array.dtype, np.integer) or array.dtype == np.bool_ or not array.size):
        raise ShapeError(
            f"{what} must be one row of integer ids, but has shape {array.shape} and holds {array.dtype}: translate "
            "names with `SourceGrid.class_ids` or `SourceGrid.subgroup_ids`."
        )
    if array.size and (array.min() < 0 or array.max() >= upper):
        raise ShapeError(f"{what} ids must lie in 0..{upper - 1}, but they span {array.min()}..{array.max()}.")
    return array.astype(np.int64)


# Below, a table may carry leading axes: `...` x class x subgroup x predicted class.


def _overall(table: NDArray[Any], positive: int) -> dict[str, Floats]:
    """Return every number of `OVERALL` for each table."""
    counts = _subgroup_counts(table, positive)
    hits, n = counts["accuracy"]
    values = {
        "accuracy": _divide(hits.sum(axis=-1), n.sum(axis=-1)),
        "robust_accuracy": np.fmin.reduce(_divide(hits, n), axis=-1),  # fmin skips NaN unless all are NaN
    }
    compared = {rate: _compare_pairs(_divide(*counts[rate])) for rate in RATES}
    values |= {f"{rate}_ratio": np.fmin.reduce(ratio, axis=-1) for rate, (ratio, _) in compared.items()}
    values |= {f"{rate}_difference": np.fmax.reduce(gap, axis=-1) for rate, (_, gap) in compared.items()}
    values["hgr"] = _hgr(table.sum(axis=-3))
    return values


def _subgroup_counts(table: NDArray[Any], positive: int) -> dict[str, tuple[NDArray[Any], NDArray[Any]]]:
    """Return (hits, rows) per subgroup for accuracy and each rate."""
    n = table.sum(axis=(-3, -1))
    n_positive = table[..., positive, :, :].sum(axis=-1)
    predicted_positive = table[..., positive].sum(axis=-2)
    true_positive = table[..., positive, :, positive]
    true_negative = (n - n_positive) - (predicted_positive - true_positive)
    return {
        "accuracy": (np.einsum("...ysy->...s", table), n),
        "positive_rate": (predicted_positive, n),
        "tpr": (true_positive, n_positive),
        "tnr": (true_negative, n - n_positive),
    }


def _compare_pairs(rates: Floats) -> tuple[Floats, Floats]:
    """Return ratio (smaller over larger) and absolute difference of each pair of subgroups, NaN where undefined."""
    first, second = np.triu_indices(rates.shape[-1], k=1)
    low = np.minimum(rates[..., first], rates[..., second])
    high = np.maximum(rates[..., first], rates[..., second])
    return _divide(low, high), high - low


def _hgr(table: NDArray[Any]) -> Floats:
    """Return the second singular value for each table `...` x a x b.

    Values that do not occur are rows or columns of zeros and leave it unchanged; a constant variable gives 0.
    """
    expected = np.sqrt(table.sum(axis=-1, keepdims=True) * table.sum(axis=-2, keepdims=True))
    scaled = np.divide(table, expected, out=np.zeros(table.shape), where=expected > 0)
    return np.clip(np.linalg.svd(scaled, compute_uv=False)[..., 1], 0.0, 1.0)


def _divide(a: NDArray[Any], b: NDArray[Any]) -> Floats:
    """Divide, with NaN wherever the denominator is not positive."""
    quotient: Floats = np.divide(a, b, out=np.full(np.shape(b), nan), where=b > 0)
    return quotient


def _resample(table: Ids, n_bootstrap: int, rng: np.random.Generator) -> Ids:
    """Return the tables of `n_bootstrap` samples of as many rows, drawn with replacement."""
    flat = table.ravel()
    filled = np.flatnonzero(flat)  # so that rounding can never put a row into an empty cell
    tables = np.zeros((n_bootstrap, flat.size), dtype=np.int64)
    tables[:, filled] = rng.multinomial(flat.sum(), flat[filled] / flat.sum(), size=n_bootstrap)
    return tables.reshape(n_bootstrap, *table.shape)


def _draw(table: Ids, n_draws: int, rng: np.random.Generator) -> Floats:
    """Return tables drawn from the posterior of the shares of cells; sources without rows stay empty.

    Gamma variables are drawn, whose shares have a Dirichlet distribution: all numbers here are made of shares alone.
    """
    has_rows = table.sum(axis=-1, keepdims=True) > 0
    return rng.standard_gamma(np.where(has_rows, table + 1 / table.shape[-1], 0.0), size=(n_draws, *table.shape))


def _percentiles(draws: Floats, estimate: float) -> Interval:
    """Return the percentile interval of the draws in which the number is defined, widened to hold the estimate.

    An estimate at the end of its range (a ratio of 1, a dependence of 0) can lie beyond all of its draws.
    """
    defined = draws[~np.isnan(draws)]
    if isnan(estimate) or not defined.size:
        return (nan, nan)
    low, high = np.quantile(defined, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    return (min(low, estimate), max(high, estimate))


def _reasons(
    grid: SourceGrid,
    positive: int,
    overall: dict[str, float],
    intervals: dict[str, Interval],
    n_bootstrap: int,
    by_source: dict[str, Proportion],
    by_subgroup: dict[str, dict[str, Proportion]],
    by_pair: dict[str, dict[str, float]],
) -> dict[str, str]:
    """Say of every NaN why it is one; the interval of an undefined number goes without saying."""
    reasons: dict[str, str] = {}
    name = grid.classes[positive]
    lacking = {
        "accuracy": "no rows of",
        "positive_rate": "no rows of",
        "tpr": f"no rows of class {name} in",
        "tnr": f"no rows outside class {name} in",
    }
    for metric, value in overall.items():
        if isnan(value):
            reasons[metric] = "undefined for every pair of subgroups"
        elif isnan(intervals[metric][0]):
            reasons[f"{metric}_interval"] = (
                "all rows are of one subgroup" if n_bootstrap else "no bootstrap was asked for"
            )
    for i, (source, share) in enumerate(by_source.items()):
        if not share.n:
            y, s = divmod(i, grid.n_subgroups)
            reasons[f"by_source[{source}].accuracy"] = (
                f"no rows of class {grid.classes[y]} in subgroup {grid.subgroups[s]}"
            )
    for subgroup, rates in by_subgroup.items():
        for rate, share in rates.items():
            if not share.n:
                reasons[f"by_subgroup[{subgroup}].{rate}"] = f"{lacking[rate]} subgroup {subgroup}"
    for pair, values in by_pair.items():
        for metric, value in values.items():
            if isnan(value):
                # A difference is undefined only if a rate is; a ratio also if both rates are 0.
                both_zero = metric.endswith("_ratio") and not isnan(values[metric.replace("_ratio", "_difference")])
                reasons[f"by_pair[{pair}].{metric}"] = (
                    "the rate is 0 in both subgroups" if both_zero else "the rate is undefined in at least one subgroup"
                )
    return reasons


def _none_if_nan(value: float) -> float | None:
    return None if isnan(value) else value


def _json_interval(interval: Interval) -> list[float] | None:
    return None if isnan(interval[0]) else list(interval)
