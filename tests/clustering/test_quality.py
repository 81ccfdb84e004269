import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import normalized_mutual_info_score

from supportmatch.clustering.quality import cluster_quality
from supportmatch.errors import ShapeError
from supportmatch.sources import SourceGrid, Support

SUPPORT = Support(SourceGrid((2, 4), ("purple", "green")), seen=((True, True), (False, True)))


@given(st.permutations(range(6)), st.integers(0, 10))
def test_accuracy_does_not_depend_on_how_clusters_are_numbered(order, seed):
    rng = np.random.default_rng(seed)
    ids, truth = rng.integers(6, size=80), rng.integers(4, size=80)
    renamed = np.array(order)[ids] * 7
    first, second = (cluster_quality(k, truth, SUPPORT) for k in (ids, renamed))
    assert first.accuracy == second.accuracy
    assert first.nmi == pytest.approx(second.nmi)


def test_perfect_clusters_score_one():
    truth = np.array([0, 1, 2, 3, 3])
    quality = cluster_quality(3 - truth, truth, SUPPORT)
    assert (quality.accuracy, quality.missing_recall) == (1, 1)
    assert quality.nmi == pytest.approx(1)
    assert quality.sizes == {0: 2, 1: 1, 2: 1, 3: 1}


def test_recall_counts_rows_in_the_matched_cluster():
    truth = np.array([0, 0, 0, 0, 1, 1, 2, 2, 3, 3])
    ids = np.array([0, 0, 0, 1, 1, 1, 2, 0, 3, 3])
    quality = cluster_quality(ids, truth, SUPPORT)
    assert quality.recall == {"2/purple": 0.75, "2/green": 1.0, "4/purple": 0.5, "4/green": 1.0}
    assert quality.accuracy == 0.8
    assert quality.missing_recall == 0.5


def test_a_source_merged_into_another_has_recall_zero():
    truth = np.array([0, 0, 1, 1, 2, 3, 3])
    quality = cluster_quality(np.array([0, 0, 1, 1, 3, 3, 3]), truth, SUPPORT)
    assert quality.missing_recall == 0
    assert quality.accuracy == pytest.approx(6 / 7)


def test_a_source_without_rows_has_an_undefined_recall_and_null_in_json():
    quality = cluster_quality(np.array([0, 1, 3]), np.array([0, 1, 3]), SUPPORT)
    assert np.isnan(quality.missing_recall)
    written = json.loads(json.dumps(quality.to_json(), allow_nan=False))
    assert written["recall"]["4/purple"] is None
    assert written["missing_recall"] is None
    assert written["missing"] == ["4/purple"]


def test_mutual_information_agrees_with_scikit_learn():
    rng = np.random.default_rng(0)
    truth = rng.integers(4, size=300)
    ids = np.where(rng.random(300) < 0.7, truth, rng.integers(5, size=300))
    expected = normalized_mutual_info_score(truth, ids)
    assert cluster_quality(ids, truth, SUPPORT).nmi == pytest.approx(expected)


def test_scores_of_other_rows_are_refused():
    with pytest.raises(ShapeError, match="score the rows that were clustered"):
        cluster_quality(np.zeros(3, dtype=np.int64), np.zeros(4, dtype=np.int64), SUPPORT)
