import numpy as np
import pytest

from supportmatch.clustering.mixture import additive_centroids, mixture_probabilities, whiten_codes
from supportmatch.clustering.quality import cluster_quality


def divide(train, deploy, cluster_ids=None, seed=0):
    cluster_ids = cluster_ids or tuple(range(train.grid.n_sources))
    labels = np.searchsorted(cluster_ids, train.source_ids)
    return mixture_probabilities(train.x, labels, deploy.x, cluster_ids, train.support, seed)


@pytest.mark.parametrize("missing", [(2,), (0, 2), (1, 2), (), (1, 2, 5, 7)])
def test_missing_sources_are_found_on_plain_blobs(missing, make_world):
    shape = (3, 3) if 5 in missing else (2, 2)
    train, deploy, truth = make_world(missing, shape)
    ids = divide(train, deploy).argmax(axis=1)
    assert cluster_quality(ids, truth, train.support).accuracy > 0.98
    for k in train.support.seen_sources:
        assert (ids[truth == k] == k).mean() > 0.95


def test_a_rare_missing_source_is_found(make_world):
    train, deploy, truth = make_world(n_each=200)
    keep = (truth != 2) | (np.cumsum(truth == 2) <= 15)
    ids = divide(train, type(deploy)(deploy.x[keep])).argmax(axis=1)
    assert cluster_quality(ids, truth[keep], train.support).missing_recall > 0.9


def test_whitening_makes_labelled_sources_round(make_world):
    train, deploy, _ = make_world(n_each=500)
    stretched = train.x * [1, 1, 9, 0.1, 3, 1]
    labelled, _ = whiten_codes(stretched, train.source_ids, deploy.x * [1, 1, 9, 0.1, 3, 1])
    within = labelled - np.stack([labelled[train.source_ids == k].mean(axis=0) for k in train.source_ids])
    np.testing.assert_allclose(np.diag(np.cov(within.T))[1:], 1, rtol=0.2)


def test_directions_that_vary_within_sources_do_not_mislead(make_world):
    train, deploy, truth = make_world(n_each=150)
    loud = [1, 1, 30, 1, 1, 1]
    ids = divide(type(train)(train.x * loud, y=train.y, s=train.s, grid=train.grid), type(deploy)(deploy.x * loud))
    assert cluster_quality(ids.argmax(axis=1), truth, train.support).accuracy > 0.95


@pytest.mark.parametrize("n_rows", [1, 2, 5, 20])
def test_fewer_rows_than_dimensions_are_no_obstacle(n_rows, make_world):
    train, deploy, _ = make_world(n_each=2)
    probabilities = divide(train, type(deploy)(deploy.x[:n_rows]))
    assert probabilities.shape == (min(n_rows, len(deploy)), 4)
    assert np.isfinite(probabilities).all()


def test_constant_codes_are_no_obstacle(make_world):
    train, deploy, _ = make_world()
    flat = type(train)(train.x * 0, y=train.y, s=train.s, grid=train.grid)
    assert np.isfinite(divide(flat, type(deploy)(deploy.x * 0))).all()


def test_additive_centroids_complete_the_parallelogram(make_world):
    train, _, _ = make_world(missing=(2,))
    corners = np.array([[0.0, 0], [0, 5], [9, 9], [3, 5]])
    seen = np.array([True, True, False, True])
    additive = additive_centroids(corners, seen, train.support, (0, 1, 2, 3))
    np.testing.assert_allclose(additive, [[0, 0], [0, 5], [3, 0], [3, 5]], atol=1e-9)


def test_a_subgroup_never_seen_has_no_additive_guess(make_world):
    train, _, _ = make_world(missing=(0, 2))
    seen = np.array([False, True, False, True])
    assert additive_centroids(np.zeros((4, 2)), seen, train.support, (0, 1, 2, 3)) is None


def test_sources_that_are_not_connected_have_no_additive_guess(make_world):
    train, _, _ = make_world(missing=(1, 2))
    seen = np.array([True, False, False, True])
    assert additive_centroids(np.zeros((4, 2)), seen, train.support, (0, 1, 2, 3)) is None
