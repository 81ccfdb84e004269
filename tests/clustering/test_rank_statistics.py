import numpy as np
import pytest
import torch

from supportmatch.clustering import cluster_deployment
from supportmatch.clustering.rank_statistics import pairwise_loss, rank_signatures, same_pairs
from supportmatch.errors import ConfigError


def test_pseudo_labels_do_not_depend_on_sign_or_length_of_a_code():
    codes = torch.randn(50, 12)
    changed = codes * torch.randn(50, 1) * torch.randn(50, 12).sign()
    assert torch.equal(rank_signatures(codes, 4), rank_signatures(changed, 4))


def test_pseudo_labels_compare_sets_of_dimensions_not_their_order():
    signatures = rank_signatures(torch.tensor([[3.0, 2.0, 1.0], [2.0, 3.0, 1.0], [1.0, 2.0, 3.0]]), 2)
    assert same_pairs(signatures).tolist() == [[True, True, False], [True, True, False], [False, False, True]]


def test_pairwise_loss_equals_a_sum_over_pairs_by_hand():
    p = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]], dtype=torch.float64)
    alike = torch.tensor([[1, 1, 0], [1, 1, 0], [0, 0, 1]], dtype=torch.bool)
    terms = []
    for i in range(3):
        for j in range(3):
            same = sum(float(p[i, k] * p[j, k]) for k in range(2))
            terms.append(-np.log(same) if alike[i, j] else -np.log(1 - same))
    assert float(pairwise_loss(p, alike)) == pytest.approx(np.mean(terms))


def test_pairwise_loss_stays_finite_when_predictions_are_certain_and_wrong():
    p = torch.eye(2)[[0, 0, 1]].requires_grad_()
    loss = pairwise_loss(p, torch.tensor([[1, 0, 1], [0, 1, 1], [1, 1, 1]], dtype=torch.bool))
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(p.grad).all()


def test_pairwise_loss_is_least_when_alike_rows_share_a_cluster():
    alike = same_pairs(torch.tensor([0, 0, 1, 1]))
    together, apart = torch.eye(2)[[0, 0, 1, 1]], torch.eye(2)[[0, 1, 0, 1]]
    assert pairwise_loss(together, alike) == 0
    assert pairwise_loss(apart, alike) > 1


@pytest.mark.parametrize("supervised_pairs", [True, False])
@pytest.mark.filterwarnings("ignore::supportmatch.errors.SupportMatchWarning")
def test_the_head_learns_seen_sources_from_labels(supervised_pairs, make_world, quick):
    train, deploy, truth = make_world()
    config = quick("rank-statistics", supervised_pairs=supervised_pairs)
    clusters = cluster_deployment(train, deploy, config, seed=0)
    seen = truth != 2
    assert (clusters.ids[seen] == truth[seen]).mean() > 0.9


def test_comparing_all_dimensions_is_refused(make_world, quick):
    train, deploy, _ = make_world()
    with pytest.raises(ConfigError, match="all rows would count as alike"):
        cluster_deployment(train, deploy, quick("rank-statistics", top_u=8), seed=0)
