"""Settings and problems by name."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from supportmatch.data.celeba import make_celeba_folder
from supportmatch.data.inputs import is_images
from supportmatch.data.problems import SETTINGS, DeploymentTruth, Problem, find_setting, load_problem
from supportmatch.errors import UnknownNameError
from supportmatch.sources import Support

ALL = pytest.mark.parametrize("name", list(SETTINGS))


@pytest.fixture(scope="module")
def faces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_celeba_folder(tmp_path_factory.mktemp("faces"))


@cache
def load(name: str, seed: int, folder: Path) -> Problem:
    return load_problem(name, seed, folder if SETTINGS[name].needs_folder else None)


def training_support(problem: Problem) -> Support:
    grid = problem.grid
    return grid.support(grid.class_ids(problem.y_train), grid.subgroup_ids(problem.subgroup_train))


@ALL
def test_every_listed_problem_loads_and_fits_together(name: str, faces: Path) -> None:
    problem = load(name, 0, faces)
    assert problem.name == name
    assert len(problem.X_train) == len(problem.y_train) == len(problem.subgroup_train)
    assert len(problem.X_test) == len(problem.y_test) == len(problem.subgroup_test)
    assert len(problem.X_deploy) == len(problem.oracle.y) == len(problem.oracle.subgroup)
    assert problem.X_train.shape[1:] == problem.X_deploy.shape[1:] == problem.X_test.shape[1:]


@ALL
def test_a_setting_says_what_its_data_holds(name: str, faces: Path) -> None:
    setting, problem = SETTINGS[name], load(name, 0, faces)
    assert (setting.class_names, setting.subgroup_names) == (problem.class_names, problem.subgroup_names)
    assert setting.grid == problem.grid
    assert (setting.kind == "images") == is_images(problem.X_train)
    seen = training_support(problem)
    assert setting.support == seen
    assert {(setting.grid.class_ids([y])[0], setting.grid.subgroup_ids([s])[0]) for y, s in setting.missing} == set(
        zip(*np.nonzero(~seen.table), strict=True)
    )
    assert setting.has_missing_subgroup == bool(seen.missing_subgroups) == name.endswith("-ms")


@ALL
def test_training_has_every_class_and_lacks_a_source_that_deployment_and_test_have(name: str, faces: Path) -> None:
    problem = load(name, 0, faces)
    grid, train = problem.grid, training_support(problem).table
    test = grid.count(grid.class_ids(problem.y_test), grid.subgroup_ids(problem.subgroup_test))
    assert train.any(axis=1).all()
    assert not train.all()
    assert set(problem.oracle_sources.tolist()) == set(range(grid.n_sources))
    assert test.all()


@ALL
def test_the_grid_is_the_declared_names(name: str, faces: Path) -> None:
    problem = load(name, 0, faces)
    assert (problem.grid.classes, problem.grid.subgroups) == (problem.class_names, problem.subgroup_names)


@ALL
def test_a_setting_is_found_by_its_name_and_described_in_one_sentence(name: str) -> None:
    setting = find_setting(name)
    assert setting.name == name
    assert setting.summary.endswith(".")
    assert ". " not in setting.summary


@ALL
def test_the_hash_of_the_data_is_that_of_its_family(name: str, faces: Path) -> None:
    setting = SETTINGS[name]
    digest = setting.data_hash(faces)
    same = {other for other, known in SETTINGS.items() if known.data_hash(faces) == digest}
    assert same == {other for other, known in SETTINGS.items() if known.family == setting.family}


def test_settings_that_need_a_folder_state_the_licence() -> None:
    bring_your_own = [setting for setting in SETTINGS.values() if setting.needs_folder]
    assert len(bring_your_own) == 4
    for setting in bring_your_own:
        assert "non-commercial research only and must not be redistributed" in setting.summary


def test_deployment_labels_live_in_the_oracle_and_nowhere_else() -> None:
    assert {field.name for field in fields(Problem) if "deploy" in field.name} == {"X_deploy"}
    assert {field.name for field in fields(DeploymentTruth)} == {"y", "subgroup"}


def test_seeds_give_different_problems() -> None:
    assert not np.array_equal(load_problem("synthetic", 0).X_train, load_problem("synthetic", 1).X_train)


def test_an_unknown_setting_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown setting 'mnist': choose one of cmnist-sb, .*, synthetic"):
        load_problem("mnist", 0)
