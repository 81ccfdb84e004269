import numpy as np
import pytest

from supportmatch.clustering import factorised
from supportmatch.clustering.factorised import factorised_probabilities, honest_rows, novelty
from supportmatch.clustering.quality import cluster_quality
from supportmatch.errors import SupportMatchWarning


def test_heads_never_learn_from_incomplete_support(make_world):
    train, _, _ = make_world(missing=(2,))  # class 1 lacks subgroup a
    y_rows, s_rows = honest_rows(train)
    assert set(train.s[y_rows]) == {1}
    assert set(train.y[s_rows]) == {0}


def test_each_head_is_given_its_honest_rows_only(make_world, monkeypatch):
    train, deploy, _ = make_world(missing=(2,))
    given = []

    def record(x, ids, n_ids, x_deploy, heads, random_state):
        given.append(len(x))
        return np.full((len(x_deploy), n_ids), 1 / n_ids)

    monkeypatch.setattr(factorised, "_predict_head", record)
    factorised_probabilities(train, deploy, "linear", seed=0)
    assert given == [int((train.s == 1).sum()), int((train.y == 0).sum())]


def test_with_nothing_missing_all_rows_are_honest(make_world):
    y_rows, s_rows = honest_rows(make_world(missing=())[0])
    assert y_rows.all()
    assert s_rows.all()


def test_a_class_is_complete_among_subgroups_that_occur(make_world):
    train, _, _ = make_world(missing=(0, 3, 2), shape=(2, 3))  # subgroup a never occurs, and 0/c is missing too
    y_rows, s_rows = honest_rows(train)
    assert set(train.s[y_rows]) == {1}
    assert set(train.y[s_rows]) == {1}


def test_without_any_complete_class_all_rows_are_used_and_a_warning_says_so(make_world):
    train, _, _ = make_world(missing=(1, 2, 5, 7), shape=(3, 3))
    with pytest.warns(SupportMatchWarning, match="the subgroup head .* learns from all rows"):
        y_rows, s_rows = honest_rows(train)
    assert s_rows.all()
    assert set(train.s[y_rows]) == {0}


def test_without_any_complete_subgroup_all_rows_are_used_and_a_warning_says_so(make_world):
    train, _, _ = make_world(missing=(1, 2))
    with (
        pytest.warns(SupportMatchWarning, match="the class head .* learns from all rows"),
        pytest.warns(SupportMatchWarning, match="the subgroup head"),
    ):
        y_rows, _ = honest_rows(train)
    assert y_rows.all()


@pytest.mark.parametrize("heads", ["linear", "boosted"])
@pytest.mark.parametrize("missing", [(2,), (0, 2)])
def test_both_kinds_of_heads_find_the_sources(heads, missing, make_world):
    train, deploy, truth = make_world(missing, n_each=150)
    probabilities = factorised_probabilities(train, deploy, heads, seed=0)
    # A few hundred rows are little for boosting to estimate a density ratio from.
    assert (probabilities.argmax(axis=1) == truth).mean() > (0.75 if heads == "boosted" and 0 in missing else 0.9)


def test_the_new_part_of_deployment_is_told_from_the_seen_part(make_world):
    train, deploy, truth = make_world(missing=(0, 2), n_each=200)
    new = novelty(train.x.astype(float), deploy.x.astype(float), "linear", 0)
    assert new[truth % 2 == 0].mean() > 0.8
    assert new[truth % 2 == 1].mean() < 0.2


def test_several_missing_subgroups_share_what_is_new_with_a_warning(make_world):
    train, deploy, truth = make_world(missing=(0, 1, 3, 4), shape=(2, 3), n_each=150, gap=12)
    with pytest.warns(SupportMatchWarning, match="2 subgroups have no training rows"):
        probabilities = factorised_probabilities(train, deploy, "linear", seed=0)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    ids = probabilities.argmax(axis=1)
    assert set(ids) == set(range(6))
    assert (ids // 3 == truth // 3).mean() > 0.9  # the class is known even where the subgroup is a guess
    assert ((ids % 3 == 2) == (truth % 3 == 2)).mean() > 0.9


def test_images_are_read_as_flat_pixels(make_world):
    train, deploy, truth = make_world()
    square = type(train)(train.x[:, :, None, None], y=train.y, s=train.s, grid=train.grid)
    probabilities = factorised_probabilities(square, type(deploy)(deploy.x[:, :, None, None]), "linear", seed=0)
    assert cluster_quality(probabilities.argmax(axis=1), truth, train.support).accuracy > 0.9
