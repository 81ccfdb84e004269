"""Naming clusters without labels: simple names win."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from supportmatch.clustering import Clusters, plan_clusters
from supportmatch.data.containers import Unlabeled
from supportmatch.data.problems import find_setting, load_problem
from supportmatch.data.synthetic import SyntheticSources, make_sources
from supportmatch.errors import ConfigError, ShapeError, TooFewDeploymentRowsError
from supportmatch.pairing import Pairing, pair_clusters
from supportmatch.sources import Ids, Support


def _scramble(source_ids: Ids, support: Support, rng: np.random.Generator) -> tuple[Clusters, tuple[int, ...]]:
    """Return true clusters with the missing sources' numbers exchanged, and the true source of each number."""
    missing = np.array(support.missing_sources)
    true = np.arange(support.grid.n_sources)
    true[missing] = rng.permutation(missing)
    return _clusters(np.argsort(true)[source_ids], support), tuple(true.tolist())


def _clusters(ids: Ids, support: Support, n_clusters: int | None = None, method: str = "mixture") -> Clusters:
    return Clusters(ids, plan_clusters(support, n_clusters), None, method)


def _true_ids(sources: SyntheticSources) -> Ids:
    return sources.train.grid.source_ids(sources.oracle.y, sources.oracle.subgroup)


def _pair(sources: SyntheticSources, clusters: Clusters, seed: int = 0) -> Pairing:
    return pair_clusters(clusters, sources.deploy, sources.train.support, seed)


def test_one_missing_source_is_the_one_unseen_cluster() -> None:
    sources = make_sources(missing=((1, 0),), n_deploy=30)
    pairing = _pair(sources, _clusters(_true_ids(sources), sources.train.support))
    assert pairing.sources == pairing.cluster_ids == (0, 1, 2, 3)
    assert len(pairing.scores) == 1
    assert pairing.margin == inf


@pytest.mark.parametrize("swapped", [False, True])
def test_a_missing_subgroup_in_a_table_is_paired_with_its_classes(swapped: bool) -> None:
    sources = make_sources(missing=((0, 0), (1, 0)), n_deploy=60)
    truth = np.array([2, 1, 0, 3] if swapped else [0, 1, 2, 3])
    pairing = _pair(sources, _clusters(truth[_true_ids(sources)], sources.train.support))
    assert pairing.sources == tuple(truth)
    assert len(pairing.scores) == 2
    assert pairing.margin > 0.05


@pytest.mark.parametrize(("name", "n_candidates"), [("cmnist-ms", 2), ("cmnist-3digit", 24)])
def test_digits_are_paired_whatever_the_numbers_of_their_clusters(name: str, n_candidates: int) -> None:
    problem, support = load_problem(name, seed=0), find_setting(name).support
    rng = np.random.default_rng(0)
    rows = rng.choice(len(problem.X_deploy), 700, replace=False)
    deploy = Unlabeled(np.asarray(problem.X_deploy)[rows])
    for seed in range(2):
        clusters, truth = _scramble(problem.oracle_sources[rows], support, rng)
        pairing = pair_clusters(clusters, deploy, support, seed)
        assert pairing.sources == truth
        assert len(pairing.scores) == n_candidates
        assert next(iter(pairing.scores)) == truth
        assert pairing.margin > 0.03
        np.testing.assert_array_equal(pairing.source_ids(clusters.ids), problem.oracle_sources[rows])


def test_subgroups_of_one_class_are_told_apart_where_other_classes_show_them() -> None:
    sources = make_sources(n_subgroups=3, missing=((1, 1), (1, 2)), n_deploy=60)
    clusters, truth = _clusters(np.array([0, 1, 2, 3, 5, 4])[_true_ids(sources)], sources.train.support), (5, 4)
    pairing = _pair(sources, clusters)
    assert pairing.sources[4:] == truth
    assert pairing.margin == inf  # the other candidate gives no row another class


def test_seen_sources_keep_their_names_in_every_candidate() -> None:
    sources = make_sources(n_classes=3, missing=((0, 0), (1, 0), (2, 1)), n_deploy=20)
    support = sources.train.support
    pairing = _pair(sources, _clusters(_true_ids(sources), support))
    assert len(pairing.scores) == 6
    assert all(candidate[k] == k for candidate in pairing.scores for k in support.seen_sources)
    assert list(pairing.scores.values()) == sorted(pairing.scores.values(), reverse=True)


def test_factorised_clusters_keep_their_names() -> None:
    sources = make_sources(missing=((0, 0), (1, 0)), n_deploy=30)
    swapped = np.array([2, 1, 0, 3])[_true_ids(sources)]
    pairing = _pair(sources, _clusters(swapped, sources.train.support, method="factorised"))
    assert pairing.sources == (0, 1, 2, 3)
    assert pairing.margin == inf


@pytest.mark.parametrize("halved", [0, 1, 2, 3])
def test_a_cluster_too_many_gets_the_source_that_it_is_a_part_of(halved: int) -> None:
    sources = make_sources(missing=((1, 0),), n_deploy=60)
    ids = _true_ids(sources)
    ids[np.flatnonzero(ids == halved)[::2]] = 4
    pairing = _pair(sources, _clusters(ids, sources.train.support, n_clusters=5))
    assert pairing.sources == (0, 1, 2, 3, halved)


def test_with_a_cluster_too_few_the_others_are_still_paired() -> None:
    sources = make_sources(n_classes=3, missing=((0, 0), (1, 0)), n_deploy=60)
    ids = _true_ids(sources)
    ids[ids == 0] = 4  # a cluster that swallowed a missing source
    ids[ids == 2] = 0
    pairing = _pair(sources, _clusters(ids, sources.train.support, n_clusters=5))
    assert pairing.cluster_ids == (0, 1, 3, 4, 5)
    assert pairing.sources == (2, 1, 3, 4, 5)


def test_an_empty_cluster_is_no_rival() -> None:
    sources = make_sources(missing=((0, 0), (1, 0)), n_deploy=60)
    ids = _true_ids(sources)
    ids[ids == 2] = 3
    pairing = _pair(sources, _clusters(ids, sources.train.support))
    assert set(pairing.sources) == {0, 1, 2, 3}
    assert np.isfinite(pairing.margin)


def test_rows_that_are_all_alike_leave_no_margin() -> None:
    support = make_sources(missing=((0, 0), (1, 0)), n_train=2).train.support
    pairing = pair_clusters(_clusters(np.arange(40) % 4, support), Unlabeled(np.ones((40, 3))), support, seed=0)
    assert pairing.margin == pytest.approx(0)


def test_the_same_seed_gives_the_same_scores() -> None:
    sources = make_sources(missing=((0, 0), (1, 0)), n_deploy=30)
    clusters = _clusters(_true_ids(sources), sources.train.support)
    one, same, other = (_pair(sources, clusters, seed) for seed in (0, 0, 1))
    assert one == same
    assert one.scores != other.scores


def test_too_many_ways_are_refused() -> None:
    sources = make_sources(n_classes=8, missing=[(y, 0) for y in range(8)], n_deploy=5)
    with pytest.raises(ConfigError, match="40320 ways to pair 8 unseen clusters with 8 missing sources"):
        _pair(sources, _clusters(_true_ids(sources), sources.train.support))


def test_clusters_of_other_rows_are_refused() -> None:
    sources = make_sources(n_deploy=5)
    clusters = _clusters(_true_ids(sources)[:-1], sources.train.support)
    with pytest.raises(ShapeError, match="19 cluster ids for 20 deployment rows"):
        _pair(sources, clusters)


def test_two_rows_per_cluster_are_refused() -> None:
    sources = make_sources(n_deploy=2)
    with pytest.raises(TooFewDeploymentRowsError, match="no cluster has more than 2 deployment rows"):
        _pair(sources, _clusters(_true_ids(sources), sources.train.support))


def test_with_nothing_missing_every_cluster_is_its_own_source() -> None:
    sources = make_sources(missing=(), n_deploy=5)
    pairing = _pair(sources, _clusters(_true_ids(sources), sources.train.support))
    assert list(pairing.scores) == [(0, 1, 2, 3)]
