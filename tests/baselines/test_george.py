"""GEORGE: deployment rows get labels from two heads and join the training set."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from supportmatch.baselines.erm import ErmClassifier
from supportmatch.baselines.george import GeorgeClassifier, name_sources
from supportmatch.baselines.simple_models import join_sets
from supportmatch.config import ClusteringConfig
from supportmatch.data.containers import Labeled, Unlabeled
from supportmatch.data.synthetic import SyntheticSources, make_sources
from supportmatch.errors import ConfigError
from supportmatch.metrics import robust_accuracy
from supportmatch.sources import SourceGrid

MISSING_SUBGROUP = ((0, 0), (1, 0))
HEADS = ClusteringConfig(method="factorised")


@pytest.mark.parametrize("missing", [((1, 0),), MISSING_SUBGROUP])
def test_deployment_rows_get_the_right_names(missing: tuple[tuple[int, int], ...]) -> None:
    sources = make_sources(missing=missing, n_train=150)
    found = name_sources(sources.train, sources.deploy, HEADS, seed=0).ids
    assert np.mean(found == _true_sources(sources)) > 0.9


def test_joined_rows_keep_their_order_and_the_labels_of_their_clusters() -> None:
    sources = make_sources(n_train=20, n_deploy=30)
    train, deploy = sources.train, sources.deploy
    clusters = name_sources(train, deploy, HEADS, seed=0)
    union = join_sets(train, deploy, clusters.ids)
    assert np.array_equal(union.x, np.concatenate([train.x, deploy.x]))
    assert np.array_equal(union.source_ids, np.concatenate([train.source_ids, clusters.ids]))


@pytest.mark.parametrize("missing", [((1, 0),), MISSING_SUBGROUP])
def test_a_source_that_training_lacks_is_learnt_from_deployment(missing: tuple[tuple[int, int], ...]) -> None:
    sources = make_sources(missing=missing, n_train=150)
    train, test = sources.train, sources.test
    model = GeorgeClassifier(epochs=60, subgroup_names=(0, 1)).fit(train.x, train.y, train.s, sources.deploy.x)
    score = robust_accuracy(test.y, model.predict(test.x), test.s)
    assert score > sources.bayes_accuracy - 0.06
    assert (model.q_ > 0).all()
    if missing == ((1, 0),):
        ordinary = ErmClassifier(epochs=60).fit(train.x, train.y, train.s)
        assert score > robust_accuracy(test.y, ordinary.predict(test.x), test.s) + 0.05


def test_images_are_named_by_their_codes() -> None:
    rng = np.random.default_rng(0)
    grid = SourceGrid((0, 1), (0, 1))
    y, s = np.divmod(np.arange(240) % 4, 2)
    x = rng.integers(0, 60, (240, 2, 8, 8), dtype=np.uint8)
    x[y == 1, :, :4] += 120  # the class is where it is bright, the subgroup in which channel
    x[np.arange(240), s, 4:] += 120
    seen = (np.arange(240) < 120) & ~((y == 1) & (s == 0))
    train, deploy = Labeled(x[seen], y=y[seen], s=s[seen], grid=grid), Unlabeled(x[120:])
    clusters = name_sources(train, deploy, HEADS, seed=0)
    assert np.mean(clusters.ids == grid.source_ids(y, s)[120:]) > 0.9
    model = GeorgeClassifier(widths=(4,), epochs=2).fit(train.x, train.y, train.s, deploy.x)
    assert model.predict_proba(x).shape == (240, 2)


@pytest.mark.filterwarnings("ignore:.*clusters have fewer than")
def test_a_subgroup_that_neither_set_shows_is_refused() -> None:
    train = make_sources(missing=MISSING_SUBGROUP, n_train=100).train
    with pytest.raises(ConfigError, match=r"gave no deployment row to subgroup 0, which training lacks too.*: check"):
        GeorgeClassifier(subgroup_names=(0, 1)).fit(train.x, train.y, train.s, train.x)


def test_clusters_without_names_are_refused() -> None:
    train = make_sources(n_train=20).train
    model = GeorgeClassifier(clustering=ClusteringConfig(method="mixture"))
    with pytest.raises(ConfigError, match=r"clusters that are sources, but .* is 'mixture'.*: use 'factorised'"):
        model.fit(train.x, train.y, train.s, train.x)


def test_fitting_without_deployment_rows_is_refused() -> None:
    train = make_sources(n_train=5).train
    with pytest.raises(ConfigError, match="pass `X_deploy`"):
        GeorgeClassifier().fit(train.x, train.y, train.s)


def test_copies_keep_every_argument_and_predict_the_same() -> None:
    sources = make_sources(n_train=20, n_deploy=20, n_test=5)
    train = sources.train
    model = GeorgeClassifier(epochs=2, step_size=0.3, widths=(8,))
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.get_params().items() >= {"groups": "sources", "sampling": "plain", "step_size": 0.3}.items()
    one, same = (
        each.fit(train.x, train.y, train.s, sources.deploy.x).predict_proba(sources.test.x) for each in (model, copy)
    )
    assert np.array_equal(one, same)


def _true_sources(sources: SyntheticSources) -> np.ndarray:
    return sources.train.grid.source_ids(sources.oracle.y, sources.oracle.subgroup)
