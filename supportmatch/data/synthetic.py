"""`make_sources`: data whose best possible answer is known.

A row is `[core block | spurious block | nuisance]`. The core block is the mean of its class plus Gaussian noise, the
spurious block the mean of its subgroup plus Gaussian noise, and the nuisance is noise alone. Means are the corners of
a regular simplex, all at the same distance, and the noise of a block is isotropic. Where sources are equally frequent
(as in the test set) the Bayes classifier is therefore the nearest class mean on the core block.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import ndtr

from supportmatch.data.containers import Labeled, Unlabeled
from supportmatch.data.problems import DeploymentTruth, Problem
from supportmatch.data.removal import drop_sources, named_source_ids, thin
from supportmatch.seeding import stream
from supportmatch.sources import Ids, SourceGrid

Source = tuple[int, int]


@dataclass(frozen=True, eq=False)
class SyntheticSources:
    """The three sets, and what the best classifier would do. Names of classes and subgroups are their ids."""

    train: Labeled
    deploy: Unlabeled
    test: Labeled
    oracle: DeploymentTruth
    """Labels of the deployment rows: for oracle rows and final scoring only, never for fitting."""
    bayes_accuracy: float
    """Expected accuracy of `bayes_predict` in every source: no classifier does better on a balanced set."""

    def bayes_predict(self, x: NDArray[np.floating]) -> Ids:
        """Return the class of the nearest class mean on the core block.

        The means are `d / sqrt(2)` times the unit vectors, so the nearest one is the largest coordinate.
        """
        nearest: Ids = x[:, : self.train.grid.n_classes].argmax(axis=1)
        return nearest

    def to_problem(self) -> Problem:
        """Return the same rows as a `Problem`."""
        grid = self.train.grid
        return Problem(
            name="synthetic",
            X_train=self.train.x,
            y_train=self.train.y,
            subgroup_train=self.train.s,
            X_deploy=self.deploy.x,
            X_test=self.test.x,
            y_test=self.test.y,
            subgroup_test=self.test.s,
            class_names=grid.classes,
            subgroup_names=grid.subgroups,
            oracle=self.oracle,
        )


def make_sources(
    *,
    n_classes: int = 2,
    n_subgroups: int = 2,
    missing: Iterable[Source] = ((1, 0),),
    deploy_kept: Mapping[Source, float] | None = None,
    n_train: int = 250,
    n_deploy: int = 250,
    n_test: int = 250,
    class_distance: float = 4.0,
    subgroup_distance: float = 8.0,
    core_noise: float = 1.0,
    spurious_noise: float = 1.0,
    n_nuisance: int = 2,
    seed: int = 0,
) -> SyntheticSources:
    """Draw a training set that lacks some sources, and deployment and test sets that have them all.

    By default the subgroup is easier to read than the class, which makes it the tempting shortcut.

    Args:
        n_classes: Number of classes, and width of the core block.
        n_subgroups: Number of subgroups, and width of the spurious block.
        missing: Sources (class id, subgroup id) without training rows.
        deploy_kept: Proportion of deployment rows retained, by source (class id, subgroup id); all if not listed.
        n_train: Training rows of each source that is not missing.
        n_deploy: Deployment rows of each source.
        n_test: Test rows of each source.
        class_distance: Distance between any two class means.
        subgroup_distance: Distance between any two subgroup means.
        core_noise: Standard deviation of the core block around its mean.
        spurious_noise: Standard deviation of the spurious block around its mean.
        n_nuisance: Columns of unit noise that say nothing.
        seed: Everything random is a function of it.

    >>> sources = make_sources(n_classes=2, class_distance=4.0, core_noise=1.0)
    >>> round(sources.bayes_accuracy, 4)  # the normal cdf at distance / (2 * noise) = 2
    0.9772
    """
    grid = SourceGrid(tuple(range(n_classes)), tuple(range(n_subgroups)))

    def draw(n_per_source: int, name: str) -> Labeled:
        rng = stream(seed, f"synthetic {name}")
        y, s = np.divmod(np.repeat(np.arange(grid.n_sources), n_per_source), n_subgroups)
        core = class_distance / np.sqrt(2) * np.eye(n_classes)[y] + core_noise * rng.normal(size=(len(y), n_classes))
        spurious = subgroup_distance / np.sqrt(2) * np.eye(n_subgroups)[s]
        spurious = spurious + spurious_noise * rng.normal(size=spurious.shape)
        x = np.hstack([core, spurious, rng.normal(size=(len(y), n_nuisance))])
        return Labeled(x, y=y, s=s, grid=grid).take(rng.permutation(len(y)))

    train = draw(n_train, "training")
    train = train.take(drop_sources(train.source_ids, named_source_ids(grid, missing)))
    deploy = draw(n_deploy, "deployment")
    kept = deploy_kept or {}
    kept_by_id = dict(zip(named_source_ids(grid, kept), kept.values(), strict=True))
    deploy = deploy.take(thin(deploy.source_ids, kept_by_id, stream(seed, "synthetic thinning")))
    return SyntheticSources(
        train=train,
        deploy=deploy.without_labels(),
        test=draw(n_test, "test"),
        oracle=DeploymentTruth(y=deploy.y, subgroup=deploy.s),
        bayes_accuracy=nearest_mean_accuracy(n_classes, class_distance / core_noise),
    )


def nearest_mean_accuracy(n_classes: int, distance: float) -> float:
    """Return how often the nearest of `n_classes` equidistant means is the right one under unit Gaussian noise.

    The coordinate of the true class must exceed all others: the integral of phi(t) Phi(t + d / sqrt(2))^(k - 1). With
    two classes this is Phi(d / 2).
    """
    shift = distance / np.sqrt(2)
    # Beyond ten standard deviations the integrand is below 1e-22; finite limits keep the rule on the bump.
    value, _ = quad(lambda t: np.exp(-(t**2) / 2) * ndtr(t + shift) ** (n_classes - 1), -10, 10)
    return float(value / np.sqrt(2 * np.pi))
