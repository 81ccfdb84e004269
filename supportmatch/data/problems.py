"""`Problem`: a training set, a deployment set without labels and a test set, under one name and one seed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from supportmatch.data.containers import Labeled
from supportmatch.data.inputs import Features
from supportmatch.errors import UnknownNameError
from supportmatch.metrics import Evaluation, evaluate_names
from supportmatch.sources import Ids, Label, SourceGrid, Support


@dataclass(frozen=True, eq=False)
class DeploymentTruth:
    """Class and subgroup names of the deployment rows: for oracle rows and final scoring only, never for fitting."""

    y: NDArray[Any]
    subgroup: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything a method may see, what it is scored on, and (apart, in `oracle`) what it must not see.

    Features are raw: images as bytes, tables as DataFrames. Labels are names.
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


@dataclass(frozen=True)
class Setting:
    """One experiment's data: which classes, which subgroups, which sources training lacks, and where rows come from."""

    name: str
    """How commands call it; the part before the first hyphen is the family of data."""
    summary: str
    """One sentence for people."""
    kind: Literal["images", "table"]
    """What a row is."""
    class_names: tuple[Label, ...]
    subgroup_names: tuple[Label, ...]
    missing: tuple[tuple[Label, Label], ...]
    """The sources (class, subgroup) without a single training row."""
    needs_folder: bool = False
    """Whether the data is not embedded, so that the user must say where it is."""

    @property
    def family(self) -> str:
        """The data set that the setting is a version of."""
        return self.name.partition("-")[0]

    @property
    def grid(self) -> SourceGrid:
        """The declared classes and subgroups."""
        return SourceGrid(self.class_names, self.subgroup_names)

    @property
    def support(self) -> Support:
        """Which sources training shows."""
        seen = tuple(tuple((y, s) not in self.missing for s in self.subgroup_names) for y in self.class_names)
        return Support(self.grid, seen)

    @property
    def has_missing_subgroup(self) -> bool:
        """Whether training lacks some subgroup altogether."""
        return any(not any(column) for column in zip(*self.support.seen, strict=True))

    def load(self, seed: int, folder: Path | None = None) -> Problem:
        """Build the problem; the same seed (and folder) gives the same rows in the same order."""
        # The data sets build on `Problem`, so they are imported when asked for.
        version = self.name.partition("-")[2]
        if self.family == "cmnist":
            from supportmatch.data.colored_mnist import load_colored_mnist

            return load_colored_mnist(version, seed)
        if self.family == "adult":
            from supportmatch.data.adult import load_adult_income

            return load_adult_income(version, seed)
        if self.family == "celeba":
            from supportmatch.data.celeba import load_celeba

            return load_celeba(self, seed, folder)
        from supportmatch.data.synthetic import make_sources

        return make_sources(seed=seed).to_problem()

    def data_hash(self, folder: Path | None = None) -> str:
        """Return a short hash of the files that rows are made from: other files, other hash. Cheap: reads no images."""
        if self.family == "celeba":
            from supportmatch.data.celeba import hash_folder

            return hash_folder(folder)
        from supportmatch.data.embedded import hash_embedded

        return hash_embedded(self.family)


_DIGITS: dict[str, Any] = {"kind": "images", "class_names": (2, 4), "subgroup_names": ("purple", "green")}
_ADULT: dict[str, Any] = {"kind": "table", "class_names": ("<=50K", ">50K"), "subgroup_names": ("Female", "Male")}
_FACES: dict[str, Any] = {
    "kind": "images",
    "class_names": ("not smiling", "smiling"),
    "subgroup_names": ("female", "male"),
    "needs_folder": True,
}


def _faces(missing_class: str, missing_subgroup: str) -> Setting:
    name = f"celeba-no-{missing_class.replace('not ', 'non')}-{missing_subgroup}"
    summary = (
        f"CelebA faces, smiling or not; training has no {missing_class} {missing_subgroup}s (subgroup bias; "
        "bring your own copy, which is for non-commercial research only and must not be redistributed)."
    )
    return Setting(name, summary, missing=((missing_class, missing_subgroup),), **_FACES)


SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting(
            "cmnist-sb",
            "Colored MNIST, digits 2 and 4 in purple and green; training has no purple fours (subgroup bias).",
            missing=((4, "purple"),),
            **_DIGITS,
        ),
        Setting(
            "cmnist-ms",
            "Colored MNIST, digits 2 and 4 in purple and green; training has nothing purple (missing subgroup).",
            missing=((2, "purple"), (4, "purple")),
            **_DIGITS,
        ),
        Setting(
            "cmnist-3digit",
            "Colored MNIST, digits 2, 4 and 6 in purple, green and blue; training lacks four of nine sources.",
            kind="images",
            class_names=(2, 4, 6),
            subgroup_names=("purple", "green", "blue"),
            missing=((2, "green"), (2, "blue"), (4, "blue"), (6, "green")),
        ),
        Setting(
            "adult-sb",
            "Adult Income by sex; training has no women who earn more than 50K (subgroup bias).",
            missing=((">50K", "Female"),),
            **_ADULT,
        ),
        Setting(
            "adult-ms",
            "Adult Income by sex; training has no women at all (missing subgroup).",
            missing=(("<=50K", "Female"), (">50K", "Female")),
            **_ADULT,
        ),
        _faces("smiling", "female"),
        _faces("smiling", "male"),
        _faces("not smiling", "female"),
        _faces("not smiling", "male"),
        Setting(
            "synthetic",
            "Gaussian blocks for class and subgroup with a known Bayes accuracy; one source is missing.",
            kind="table",
            class_names=(0, 1),
            subgroup_names=(0, 1),
            missing=((1, 0),),
        ),
    )
}
"""Every setting of the paper, and a synthetic one, by name."""


def find_setting(name: str) -> Setting:
    """Return the setting of that name."""
    if name not in SETTINGS:
        raise UnknownNameError(f"unknown setting {name!r}: choose one of {', '.join(SETTINGS)}.")
    return SETTINGS[name]


def load_problem(name: str, seed: int = 0, folder: Path | None = None) -> Problem:
    """Build a problem; the same name and seed give the same rows in the same order.

    Args:
        name: One of `SETTINGS`.
        seed: Chooses the split, and colours where there are any.
        folder: Where the data is, for settings that need it (`Setting.needs_folder`). CelebA is for non-commercial
            research only and must not be redistributed; `supportmatch.data.celeba` says what the folder must hold.

    >>> problem = load_problem("adult-sb", seed=0)
    >>> len(problem.y_train), len(problem.X_deploy), len(problem.y_test)
    (17421, 18088, 1336)
    """
    return find_setting(name).load(seed, folder)


def _names(known: tuple[Label, ...], ids: Ids) -> NDArray[Any]:
    return np.array(known)[ids]
