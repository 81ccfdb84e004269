"""Adult Income: classes are income bands, subgroups are the two sexes the census recorded (paper, 'Adult Income').

The table has 45,222 complete rows. Sex and income are not features, `fnlwgt` (a census weight) is dropped, and
`native-country` is reduced to United-States or not: 62 inputs once encoded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from supportmatch.data.embedded import load_adult
from supportmatch.data.problems import DeploymentTruth, Problem
from supportmatch.data.removal import balance, drop_sources, named_source_ids, split_by_source
from supportmatch.errors import UnknownNameError
from supportmatch.seeding import stream
from supportmatch.sources import SourceGrid

GRID = SourceGrid(classes=("<=50K", ">50K"), subgroups=("Female", "Male"))

CATEGORICAL = ("education", "marital-status", "native-country", "occupation", "race", "relationship", "workclass")
NUMERIC = ("age", "capital-gain", "capital-loss", "education-num", "hours-per-week")

MISSING: dict[str, tuple[tuple[str, str], ...]] = {
    "sb": ((">50K", "Female"),),
    "ms": (("<=50K", "Female"), (">50K", "Female")),
}
"""The sources (class, subgroup) that training lacks: subgroup bias (sb), missing subgroup (ms)."""

_LABELLED_SHARE = 0.4  # of all rows, before sources are removed
_DEPLOY_SHARE = 2 / 3  # of the other rows; the last third is cut down to a balanced test set


def load_adult_income(setting: str, seed: int) -> Problem:
    """Build Adult Income, a pure function of the setting (`"sb"` or `"ms"`) and the seed.

    Both settings share the same split. The deployment set keeps the natural proportions of the four sources; the
    test set has equally many rows of each, so that predicting one class for all scores one half.
    """
    if setting not in MISSING:
        raise UnknownNameError(f"unknown Adult setting {setting!r}: choose one of {', '.join(MISSING)}.")
    table = load_adult().complete()
    features = _features(table.columns)
    y, subgroup = table.income, table.columns["sex"]
    sources = GRID.source_ids(GRID.class_ids(y), GRID.subgroup_ids(subgroup))

    rng = stream(seed, "adult split")
    rest, labelled = split_by_source(sources, 1 - _LABELLED_SHARE, rng)
    in_deploy, in_test = split_by_source(sources[rest], _DEPLOY_SHARE, rng)
    deploy, test = rest[in_deploy], rest[in_test]
    test = test[balance(sources[test], rng)]
    train = labelled[drop_sources(sources[labelled], named_source_ids(GRID, MISSING[setting]))]

    return Problem(
        name=f"adult-{setting}",
        X_train=features.iloc[train].reset_index(drop=True),
        y_train=y[train],
        subgroup_train=subgroup[train],
        X_deploy=features.iloc[deploy].reset_index(drop=True),
        X_test=features.iloc[test].reset_index(drop=True),
        y_test=y[test],
        subgroup_test=subgroup[test],
        class_names=GRID.classes,
        subgroup_names=GRID.subgroups,
        oracle=DeploymentTruth(y=y[deploy], subgroup=subgroup[deploy]),
    )


def _features(columns: dict[str, NDArray[Any]]) -> pd.DataFrame:
    """Return the feature columns in the order of the paper's authors: categorical first, then numeric."""
    is_us = columns["native-country"] == "United-States"
    country = np.where(is_us, "United-States", "not_United-States")
    return pd.DataFrame({name: columns[name] for name in (*CATEGORICAL, *NUMERIC)} | {"native-country": country})
