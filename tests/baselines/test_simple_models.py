"""What both classifiers of labelled deployment rows have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from supportmatch.baselines.cluster_labels import ClusterLabelClassifier
from supportmatch.baselines.erm import ErmClassifier
from supportmatch.baselines.pseudo_label import PseudoLabelClassifier
from supportmatch.baselines.simple_models import DeploymentBaseline
from supportmatch.config import ClusteringConfig
from supportmatch.data.synthetic import SyntheticSources, make_sources
from supportmatch.errors import ConfigError
from supportmatch.metrics import robust_accuracy

BOTH = pytest.mark.parametrize("kind", [ClusterLabelClassifier, PseudoLabelClassifier])
Kind = type[DeploymentBaseline]


def fit(kind: Kind, sources: SyntheticSources, **settings: Any) -> DeploymentBaseline:
    train = sources.train
    model = kind(subgroup_names=train.grid.subgroups, **settings)
    return model.fit(train.x, train.y, train.s, sources.deploy.x)


def robust(model: Any, sources: SyntheticSources) -> float:
    return robust_accuracy(sources.test.y, model.predict(sources.test.x), sources.test.s)


@BOTH
@pytest.mark.parametrize("model", ["linear", "boosted", "network"])
def test_a_missing_source_that_the_ordinary_classifier_misses_is_learnt(kind: Kind, model: str) -> None:
    sources = make_sources(class_distance=2.5)
    ordinary = ErmClassifier(epochs=20).fit(sources.train.x, sources.train.y, sources.train.s)
    score = robust(fit(kind, sources, model=model), sources)
    assert score > robust(ordinary, sources) + 0.08
    assert score > sources.bayes_accuracy - 0.06


@BOTH
def test_the_same_seed_gives_the_same_predictions(kind: Kind) -> None:
    sources = make_sources(n_train=30, n_deploy=30, n_test=5)
    one, same, other = (
        fit(kind, sources, model="network", epochs=1, random_state=seed).predict_proba(sources.test.x)
        for seed in (0, 0, 1)
    )
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


@BOTH
def test_without_deployment_rows_it_says_so(kind: Kind) -> None:
    train = make_sources(n_train=10).train
    with pytest.raises(ConfigError, match="learns from deployment rows, but there are none"):
        kind().fit(train.x, train.y, train.s)


@BOTH
def test_an_unknown_model_is_refused(kind: Kind) -> None:
    with pytest.raises(ConfigError, match="must be one of 'linear', 'boosted', 'network', but is 'forest'"):
        fit(kind, make_sources(n_train=10), model="forest")


@BOTH
def test_a_clone_has_the_same_settings(kind: Kind) -> None:
    model = kind(model="boosted", clustering=ClusteringConfig(top_u=3), widths=(3,), epochs=2, random_state=7)
    assert clone(model).get_params() == model.get_params()
