"""Problems by name."""

from __future__ import annotations

from dataclasses import fields
from functools import cache

import numpy as np
import pytest

from supportmatch.data.problems import PROBLEMS, DeploymentTruth, Problem, load_problem
from supportmatch.errors import UnknownNameError

load = cache(load_problem)

ALL = pytest.mark.parametrize("name", list(PROBLEMS))


@ALL
def test_every_listed_problem_loads_and_fits_together(name: str) -> None:
    problem = load(name, 0)
    assert problem.name == name
    assert len(problem.X_train) == len(problem.y_train) == len(problem.subgroup_train)
    assert len(problem.X_test) == len(problem.y_test) == len(problem.subgroup_test)
    assert len(problem.X_deploy) == len(problem.oracle.y) == len(problem.oracle.subgroup)
    assert problem.X_train.shape[1:] == problem.X_deploy.shape[1:] == problem.X_test.shape[1:]


@ALL
def test_training_has_every_class_and_lacks_a_source_that_deployment_and_test_have(name: str) -> None:
    problem = load(name, 0)
    grid = problem.grid
    train = grid.count(grid.class_ids(problem.y_train), grid.subgroup_ids(problem.subgroup_train))
    deploy = grid.count(grid.class_ids(problem.oracle.y), grid.subgroup_ids(problem.oracle.subgroup))
    test = grid.count(grid.class_ids(problem.y_test), grid.subgroup_ids(problem.subgroup_test))
    assert train.any(axis=1).all()
    assert (train == 0).any()
    assert deploy.all()
    assert test.all()


@ALL
def test_the_grid_is_the_declared_names(name: str) -> None:
    problem = load(name, 0)
    assert (problem.grid.classes, problem.grid.subgroups) == (problem.class_names, problem.subgroup_names)


def test_deployment_labels_live_in_the_oracle_and_nowhere_else() -> None:
    assert {field.name for field in fields(Problem) if "deploy" in field.name} == {"X_deploy"}
    assert {field.name for field in fields(DeploymentTruth)} == {"y", "subgroup"}


def test_seeds_give_different_problems() -> None:
    assert not np.array_equal(load("synthetic", 0).X_train, load("synthetic", 1).X_train)


def test_an_unknown_problem_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown problem 'mnist': choose one of cmnist-sb, .*, synthetic"):
        load_problem("mnist", 0)
