import numpy as np

from supportmatch.clustering.kmeans import labelled_centroids, move_centroids, seeded_kmeans, sow_centroids


def test_labelled_centroids_are_the_means_of_labelled_rows():
    codes = np.array([[0.0, 2], [2, 2], [5, 5]])
    centroids, seen = labelled_centroids(codes, np.array([2, 2, 0]), 3)
    assert centroids.tolist() == [[5, 5], [0, 0], [1, 2]]
    assert seen.tolist() == [True, False, True]


def test_sown_centroids_leave_labelled_ones_in_place_and_avoid_them():
    codes = np.repeat([[0.0, 0.0], [50.0, 0.0]], 20, axis=0)
    sown = sow_centroids(np.zeros((2, 2)), np.array([False, True]), codes, np.random.default_rng(0))
    assert sown.tolist() == [[0, 0], [50, 0]]


def test_sowing_among_identical_rows_does_not_fail():
    sown = sow_centroids(np.ones((3, 2)), np.array([False, True, True]), np.ones((5, 2)), np.random.default_rng(0))
    assert (sown == 1).all()


def test_only_free_centroids_move():
    codes = np.array([[1.0], [2.0], [9.0]])
    moved = move_centroids(np.array([[0.0], [8.0], [99.0]]), np.array([False, True, True]), codes, 3)
    assert moved.tolist() == [[0], [9], [99]]


def test_a_cluster_starts_from_its_source(make_world):
    train, deploy, truth = make_world(missing=())
    ids = seeded_kmeans(train.x, train.source_ids, deploy.x, 4, seed=0)
    assert (ids == truth).mean() > 0.95
