"""Synthetic sources: the Bayes answer is known, so it can be checked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from supportmatch.data.containers import Labeled, Unlabeled
from supportmatch.data.synthetic import make_sources, nearest_mean_accuracy
from supportmatch.errors import UnknownNameError


@given(st.floats(0, 20))
def test_two_classes_give_the_normal_cdf_at_half_the_distance(distance: float) -> None:
    assert nearest_mean_accuracy(2, distance) == pytest.approx(ndtr(distance / 2), abs=1e-8)


@given(st.integers(2, 10))
def test_classes_at_one_place_are_guessed(n_classes: int) -> None:
    assert nearest_mean_accuracy(n_classes, 0.0) == pytest.approx(1 / n_classes, abs=1e-8)


@pytest.mark.parametrize(("n_classes", "distance", "noise"), [(2, 2.0, 1.0), (3, 3.0, 1.5), (4, 2.5, 0.8)])
def test_the_bayes_classifier_reaches_the_stated_accuracy_in_every_subgroup(
    n_classes: int, distance: float, noise: float
) -> None:
    sources = make_sources(
        n_classes=n_classes, missing=(), class_distance=distance, core_noise=noise, n_train=1, n_deploy=1, n_test=20_000
    )
    right = sources.bayes_predict(sources.test.x) == sources.test.y
    for s in range(2):
        assert right[sources.test.s == s].mean() == pytest.approx(sources.bayes_accuracy, abs=0.01)


def test_means_are_equidistant_and_noise_has_the_stated_size() -> None:
    sources = make_sources(
        n_classes=3, n_subgroups=3, class_distance=5.0, subgroup_distance=7.0, core_noise=0.5, spurious_noise=2.0,
        n_test=10_000, missing=(),
    )  # fmt: skip
    test = sources.test
    for ids, columns, distance, noise in ((test.y, slice(0, 3), 5, 0.5), (test.s, slice(3, 6), 7, 2.0)):
        means = np.array([test.x[ids == i, columns].mean(axis=0) for i in range(3)])
        for i in range(3):
            assert np.linalg.norm(means[i] - means[i - 1]) == pytest.approx(distance, rel=0.02)
            assert test.x[ids == i, columns].std(axis=0) == pytest.approx(noise, rel=0.02)


def test_missing_sources_are_missing_from_training_only() -> None:
    sources = make_sources(n_classes=3, n_subgroups=2, missing=[(0, 1), (2, 0)], n_train=5, n_deploy=7, n_test=9)
    grid = sources.train.grid
    assert sources.train.counts.tolist() == [[5, 0], [5, 5], [0, 5]]
    assert grid.count(sources.oracle.y, sources.oracle.subgroup).tolist() == [[7, 7]] * 3
    assert sources.test.counts.tolist() == [[9, 9]] * 3


def test_deployment_sources_can_be_made_rare() -> None:
    sources = make_sources(deploy_kept={(1, 0): 0.1}, n_deploy=100)
    assert sources.train.grid.count(sources.oracle.y, sources.oracle.subgroup).tolist() == [[100, 100], [10, 100]]
    assert len(sources.deploy) == 310


def test_the_deployment_set_has_no_labels() -> None:
    sources = make_sources()
    assert type(sources.deploy) is Unlabeled
    assert isinstance(sources.train, Labeled)


def test_the_deployment_truth_belongs_to_its_rows() -> None:
    sources = make_sources(class_distance=50.0, subgroup_distance=50.0)
    assert np.array_equal(sources.deploy.x[:, :2].argmax(axis=1), sources.oracle.y)
    assert np.array_equal(sources.deploy.x[:, 2:4].argmax(axis=1), sources.oracle.subgroup)


def test_the_seed_decides_everything_and_sizes_of_one_set_do_not_move_another() -> None:
    first, again, other = make_sources(seed=1), make_sources(seed=1, n_train=10), make_sources(seed=2)
    assert np.array_equal(first.deploy.x, again.deploy.x)
    assert np.array_equal(first.test.x, again.test.x)
    assert not np.array_equal(first.test.x, other.test.x)


def test_a_missing_source_outside_the_grid_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown class 5"):
        make_sources(missing=[(5, 0)])
