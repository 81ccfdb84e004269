"""What holds whatever the method."""

import numpy as np
import pytest

from supportmatch.clustering import Clusters, cluster_deployment, plan_clusters
from supportmatch.clustering.quality import cluster_quality
from supportmatch.config import ClusteringConfig
from supportmatch.data.containers import Labeled, Unlabeled
from supportmatch.errors import ConfigError, DivergedError, SupportMatchWarning, TooFewDeploymentRowsError

METHODS = ["mixture", "kmeans", "rank-statistics", "factorised"]
ON_CODES = METHODS[:3]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore::supportmatch.errors.SupportMatchWarning")
def test_seen_sources_keep_their_own_ids(method, make_world, quick):
    train, deploy, truth = make_world()
    clusters = cluster_deployment(train, deploy, quick(method), seed=0)
    for k in train.support.seen_sources:
        assert (clusters.ids[truth == k] == k).mean() > 0.9


@pytest.mark.parametrize("method", ["mixture", "kmeans", "factorised"])
@pytest.mark.parametrize("missing", [(2,), (0, 2), ()])
def test_a_well_separated_missing_source_is_found(method, missing, make_world, quick):
    train, deploy, truth = make_world(missing)
    clusters = cluster_deployment(train, deploy, quick(method), seed=0)
    quality = cluster_quality(clusters.ids, truth, train.support)
    assert quality.accuracy > 0.9
    assert not missing or quality.missing_recall > 0.8


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_clusters(method, make_world, quick):
    train, deploy, _ = make_world()
    first, second = (cluster_deployment(train, deploy, quick(method, heads="boosted"), seed=3) for _ in range(2))
    np.testing.assert_array_equal(first.ids, second.ids)
    if first.probabilities is not None:
        np.testing.assert_array_equal(first.probabilities, second.probabilities)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore::supportmatch.errors.SupportMatchWarning")
def test_clusters_describe_every_deployment_row(method, make_world, quick):
    train, deploy, _ = make_world()
    clusters = cluster_deployment(train, deploy, quick(method), seed=0)
    assert clusters.ids.dtype == np.int64
    assert clusters.ids.shape == (len(deploy),)
    assert clusters.sizes.sum() == len(deploy)
    assert clusters.method == method
    assert (clusters.probabilities is None) == (method == "kmeans")
    if clusters.probabilities is not None:
        assert clusters.probabilities.shape == (len(deploy), clusters.n_clusters)
        np.testing.assert_allclose(clusters.probabilities.sum(axis=1), 1, atol=1e-5)
        np.testing.assert_array_equal(clusters.probabilities.argmax(axis=1), clusters.ids)


@pytest.mark.parametrize("method", ON_CODES)
@pytest.mark.filterwarnings("ignore::supportmatch.errors.SupportMatchWarning")
def test_more_clusters_than_sources_get_ids_beyond_the_grid(method, make_world, quick):
    train, deploy, _ = make_world()
    clusters = cluster_deployment(train, deploy, quick(method, n_clusters=6), seed=0)
    assert clusters.cluster_ids == (0, 1, 2, 3, 4, 5)
    assert set(clusters.ids) <= set(clusters.cluster_ids)


@pytest.mark.parametrize("method", ON_CODES)
@pytest.mark.filterwarnings("ignore::supportmatch.errors.SupportMatchWarning")
def test_fewer_clusters_than_sources_leave_the_last_missing_ids_unused(method, make_world, quick):
    train, deploy, _ = make_world(missing=(1, 2))
    clusters = cluster_deployment(train, deploy, quick(method, n_clusters=3), seed=0)
    assert clusters.cluster_ids == (0, 1, 3)
    assert set(clusters.ids) <= {0, 1, 3}
    assert clusters.sizes.sum() == len(deploy)


def test_fewer_clusters_than_seen_sources_are_refused(make_world, quick):
    train, deploy, _ = make_world()
    with pytest.raises(ConfigError, match="training shows 3 sources"):
        cluster_deployment(train, deploy, quick("mixture", n_clusters=2), seed=0)


@pytest.mark.parametrize("method", METHODS)
def test_fewer_rows_than_clusters_are_refused(method, make_world, quick):
    train, deploy, _ = make_world()
    with pytest.raises(TooFewDeploymentRowsError, match="3 rows, fewer than the 4 clusters"):
        cluster_deployment(train, Unlabeled(deploy.x[:3]), quick(method), seed=0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore::supportmatch.errors.SupportMatchWarning")
def test_a_handful_of_rows_is_divided_without_complaint_from_libraries(method, make_world, quick):
    train, deploy, _ = make_world(missing=(0, 2), n_each=2)
    assert len(cluster_deployment(train, Unlabeled(deploy.x[:4]), quick(method), seed=0).ids) == 4


def test_factorised_clusters_are_the_sources_and_no_other_number(make_world, quick):
    train, deploy, _ = make_world()
    with pytest.raises(ConfigError, match="4 sources themselves"):
        cluster_deployment(train, deploy, quick("factorised", n_clusters=5), seed=0)


@pytest.mark.parametrize("method", ["mixture", "factorised"])
def test_a_source_absent_at_deployment_is_named_in_a_warning(method, make_world, quick):
    train, deploy, truth = make_world(missing=())
    with pytest.warns(SupportMatchWarning, match="1 of 4 clusters have fewer than 8 of the 180 .*source 1/b: 0"):
        cluster_deployment(train, Unlabeled(deploy.x[truth != 3]), quick(method), seed=0)


def test_fewer_distinct_rows_than_clusters_are_reported_in_our_words(make_world, quick):
    train, deploy, _ = make_world()
    with pytest.warns(SupportMatchWarning, match="1 of 4 clusters have fewer than 8 of the 60 deployment rows"):
        cluster_deployment(train, Unlabeled(np.repeat(deploy.x[:3], 20, axis=0)), quick("kmeans"), seed=0)


def test_healthy_clusters_do_not_warn(make_world, quick, recwarn):
    train, deploy, _ = make_world()
    cluster_deployment(train, deploy, quick("mixture"), seed=0)
    assert not recwarn.list


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore::supportmatch.errors.SupportMatchWarning")
def test_progress_is_reported_to_the_end(method, make_world, quick):
    train, deploy, _ = make_world()
    seen: list[tuple[int, int]] = []
    cluster_deployment(train, deploy, quick(method), 0, lambda done, total: seen.append((done, total)))
    done, totals = zip(*seen, strict=True)
    assert list(done) == list(range(1, totals[0] + 1))
    assert set(totals) == {totals[0]}


def test_images_stored_as_bytes_or_as_fractions_have_the_same_clusters(quick):
    rng = np.random.default_rng(0)
    from supportmatch.sources import SourceGrid

    grid = SourceGrid((0, 1), ("a", "b"))
    ids = np.repeat(np.arange(4), 30)
    bright = np.where(np.arange(3) == (ids % 2)[:, None], 200, 30)[:, :, None, None] * np.ones((1, 1, 4, 4))
    bright[ids >= 2, :, :, :2] //= 8
    x = (bright + rng.integers(20, size=bright.shape)).astype(np.uint8)
    keep = ids != 2
    clusters = [
        cluster_deployment(
            Labeled(pixels[keep], y=ids[keep] // 2, s=ids[keep] % 2, grid=grid), Unlabeled(pixels), quick("mixture"), 0
        )
        for pixels in (x, (x / 255).astype(np.float32))
    ]
    np.testing.assert_array_equal(clusters[0].ids, clusters[1].ids)


def test_features_too_large_for_the_autoencoder_are_reported_as_divergence(make_world, quick):
    train, deploy, _ = make_world()
    huge = Labeled(train.x * 1e30, y=train.y, s=train.s, grid=train.grid)
    with pytest.raises(DivergedError, match="scale the features"):
        cluster_deployment(huge, Unlabeled(deploy.x * 1e30), quick("mixture"), seed=0)


def test_sizes_follow_the_order_of_the_ids_in_use():
    clusters = Clusters(np.array([3, 0, 3]), (0, 1, 3), None, "kmeans")
    assert clusters.sizes.tolist() == [1, 0, 2]


def test_by_default_there_is_a_cluster_for_every_source(make_world):
    train, _, _ = make_world(shape=(3, 2), missing=(1, 4))
    assert plan_clusters(train.support, ClusteringConfig().n_clusters) == (0, 1, 2, 3, 4, 5)
