"""`Problem`: a training set, a deployment set without labels and a test set, under one name and one seed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supportmatch.data.containers import Labeled
from supportmatch.data.inputs import Features
from supportmatch.errors import UnknownNameError
from supportmatch.metrics import Evaluation, evaluate_names
from supportmatch.sources import Ids, Label, SourceGrid

PROBLEMS: dict[str, str] = {
    "cmnist-sb": "Colored MNIST, digits 2 and 4 in purple and green; training has no purple fours (subgroup bias).",
    "cmnist-ms": "Colored MNIST, digits 2 and 4 in purple and green; training has nothing purple (missing subgroup).",
    "cmnist-3digit": "Colored MNIST, digits 2, 4 and 6 in purple, green and blue; training lacks four of nine sources.",
    "adult-sb": "Adult Income by sex; training has no women who earn more than 50K (subgroup bias).",
    "adult-ms": "Adult Income by sex; training has no women at all (missing subgroup).",
    "synthetic": "Gaussian blocks for class and subgroup with a known Bayes accuracy; one source is missing.",
}
"""What `load_problem` can load."""


@dataclass(frozen=True, eq=False)
class DeploymentTruth:
    """Class and subgroup names of the deployment rows: for oracle rows and final scoring only, never for fitting."""

    y: NDArray[Any]
    subgroup: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything a method may see, what it is scored on, and (apart, in `oracle`) what it must not see.

    Features are raw: images as uint8, tables as DataFrames. Labels are names.
    """

    name: str
    X_train: Features
    y_train: NDArray[Any]
    subgroup_train: NDArray[Any]
    X_deploy: Features
    X_test: Features
    y_test: NDArray[Any]
    subgroup_test: NDArray[Any]
    class_names: tuple[Label, ...]
    subgroup_names: tuple[Label, ...]
    oracle: DeploymentTruth
    """Labels of the deployment rows: for oracle rows and final scoring only, never for fitting."""

    @cached_property
    def grid(self) -> SourceGrid:
        """The declared classes and subgroups."""
        return SourceGrid(self.class_names, self.subgroup_names)

    @property
    def oracle_sources(self) -> Ids:
        """True source ids of the deployment rows: for oracle rows and final scoring only, never for fitting."""
        grid = self.grid
        return grid.source_ids(grid.class_ids(self.oracle.y), grid.subgroup_ids(self.oracle.subgroup))

    def score(self, predicted: NDArray[Any]) -> Evaluation:
        """Measure class names predicted for the test set."""
        return evaluate_names(predicted, self.y_test, self.subgroup_test, self.grid)

    @classmethod
    def from_labeled(cls, name: str, train: Labeled, deploy: Labeled, test: Labeled) -> Problem:
        """Make a problem from three labelled sets on one grid; the labels of `deploy` go to the oracle."""
        grid = train.grid
        return cls(
            name=name,
            X_train=train.x,
            y_train=_names(grid.classes, train.y),
            subgroup_train=_names(grid.subgroups, train.s),
            X_deploy=deploy.x,
            X_test=test.x,
            y_test=_names(grid.classes, test.y),
            subgroup_test=_names(grid.subgroups, test.s),
            class_names=grid.classes,
            subgroup_names=grid.subgroups,
            oracle=DeploymentTruth(y=_names(grid.classes, deploy.y), subgroup=_names(grid.subgroups, deploy.s)),
        )


def load_problem(name: str, seed: int = 0) -> Problem:
    """Build a problem; the same name and seed give the same rows in the same order.

    >>> problem = load_problem("adult-sb", seed=0)
    >>> len(problem.y_train), len(problem.X_deploy), len(problem.y_test)
    (17421, 18088, 1336)
    """
    # The data sets build on `Problem`, so they are imported when asked for.
    from supportmatch.data.adult import load_adult_income
    from supportmatch.data.colored_mnist import load_colored_mnist
    from supportmatch.data.synthetic import make_sources

    if name not in PROBLEMS:
        raise UnknownNameError(f"unknown problem {name!r}: choose one of {', '.join(PROBLEMS)}.")
    family, _, setting = name.partition("-")
    if family == "cmnist":
        return load_colored_mnist(setting, seed)
    if family == "adult":
        return load_adult_income(setting, seed)
    return make_sources(seed=seed).to_problem()


def _names(known: tuple[Label, ...], ids: Ids) -> NDArray[Any]:
    return np.array(known)[ids]
