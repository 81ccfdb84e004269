"""Every real setting goes through the whole method: a few steps only, so nothing is said about how well."""

from __future__ import annotations

import pytest

from supportmatch.config import default_config
from supportmatch.data.problems import load_problem
from supportmatch.estimator import SupportMatchingClassifier


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "verdict"),
    [
        ("cmnist-ms", "not identified"),
        ("cmnist-3digit", "identified if separable"),
        ("adult-ms", "not identified"),
    ],
)
def test_a_setting_runs_from_raw_rows_to_a_score_and_says_what_can_be_identified(setting: str, verdict: str) -> None:
    problem = load_problem(setting, seed=1)
    config = default_config(images=setting.startswith("cmnist"), n_sources=problem.grid.n_sources)
    config = config.model_copy(update={"matching": config.matching.model_copy(update={"steps": 20})})
    model = SupportMatchingClassifier(
        subgroup_names=problem.subgroup_names, class_names=problem.class_names, config=config, random_state=1
    )
    model.fit(problem.X_train, problem.y_train, problem.subgroup_train, problem.X_deploy)
    assert model.audit_.identifiability == verdict
    assert len(model.clusters_.sizes) == problem.grid.n_sources
    assert min(model.clusters_.sizes) > 0
    result = problem.score(model.predict(problem.X_test))
    assert result.accuracy > 1.2 / problem.grid.n_classes
    assert result.undefined == {}


def test_bags_of_the_default_are_exactly_balanced_whatever_the_number_of_sources() -> None:
    for n_sources in (4, 6, 9, 10, 25):
        for images in (True, False):
            assert default_config(images=images, n_sources=n_sources).bags.bag_size % n_sources == 0
