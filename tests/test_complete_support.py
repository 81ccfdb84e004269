"""Learning only from subgroups with complete classes."""

from __future__ import annotations

import numpy as np
import pytest

from supportmatch.baselines.complete_support import CompleteSupportClassifier
from supportmatch.data.synthetic import make_sources
from supportmatch.errors import ConfigError


def test_it_does_well_where_class_and_subgroup_act_separately() -> None:
    sources = make_sources(missing=((1, 0),))
    model = CompleteSupportClassifier().fit(sources.train.x, sources.train.y, sources.train.s)
    hit = model.predict(sources.test.x) == sources.test.y
    assert min(hit[sources.test.s == s].mean() for s in (0, 1)) > 0.9


def test_rows_of_incomplete_subgroups_change_nothing() -> None:
    train = make_sources(missing=((1, 0),)).train
    complete = train.s == 1
    x = train.x.copy()
    x[~complete] *= -7
    rows = np.vstack([train.x[complete], np.zeros((1, train.x.shape[1]))])
    models = [CompleteSupportClassifier() for _ in range(2)]
    # The table encoder scales by all training rows, which logistic regression on standardised rows does not notice.
    predicted = [
        model.fit(features, train.y, train.s).predict(rows)
        for model, features in zip(models, (train.x, x), strict=True)
    ]
    np.testing.assert_array_equal(*predicted)


def test_without_a_complete_subgroup_it_says_so() -> None:
    train = make_sources(missing=((1, 0), (0, 1))).train
    with pytest.raises(ConfigError, match="no subgroup occurs with every class"):
        CompleteSupportClassifier().fit(train.x, train.y, train.s)
