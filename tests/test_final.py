from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from supportmatch import SupportMatchingClassifier, load, make_sources, preset
from supportmatch.bags import WeightedBags
from supportmatch.classifier import predict_rows
from supportmatch.clustering import Clusters
from supportmatch.config import Config, FinalConfig, default_config
from supportmatch.data.containers import Unlabeled
from supportmatch.errors import ConfigError, SupportMatchWarning
from supportmatch.final import balanced_class_weights, build_final, fit_final, fold, leave_out_disputed, name_softly
from supportmatch.pairing import Pairing
from supportmatch.sources import SourceGrid

GRID = SourceGrid(classes=(2, 4), subgroups=("purple", "green"))


def named(*sources: int) -> Pairing:
    return Pairing(tuple(range(len(sources))), sources, {sources: 1.0}, 1.0)


def quick(steps: int = 20) -> Config:
    config = default_config(images=False, n_sources=4)
    return config.model_copy(
        update={
            "matching": config.matching.model_copy(update={"steps": steps}),
            "clustering": config.clustering.model_copy(update={"heads": "linear"}),
        }
    )


def test_rows_are_drawn_in_proportion_to_their_weights_and_never_without_one() -> None:
    weights = np.array([0.0, 1.0, 3.0, 0.0])
    bags = WeightedBags(weights, 10, 400, seed=0, purpose="test")
    drawn = np.bincount(np.concatenate([bags.draw(step).reshape(-1) for step in range(5)]), minlength=4)
    assert drawn[[0, 3]].tolist() == [0, 0]
    assert drawn[2] / drawn[1] == pytest.approx(3, rel=0.05)
    np.testing.assert_array_equal(bags.draw(3), bags.draw(3))
    assert (bags.draw(3) != bags.draw(4)).any()


def test_clusters_of_the_same_name_are_one_source() -> None:
    p = np.tile([[0.5, 0.2, 0.2, 0.0, 0.1], [0.0, 0.0, 0.0, 1.0, 0.0]], (9, 1))
    clusters = Clusters(p.argmax(axis=1), (0, 1, 2, 3, 4), p, "mixture")
    sources = name_softly(clusters, named(0, 1, 2, 3, 2), GRID)
    np.testing.assert_allclose(sources[:2], [[0.5, 0.2, 0.3, 0], [0, 0, 0, 1]])


def test_clusters_without_probabilities_name_rows_for_certain() -> None:
    clusters = Clusters(np.array([3, 0]), (0, 1, 2, 3), None, "kmeans")
    np.testing.assert_array_equal(name_softly(clusters, named(0, 1, 3, 2), GRID), np.eye(4)[[2, 0]])


def test_rows_without_a_source_are_left_out() -> None:
    problem = make_sources(seed=0)
    train, deploy = problem.train, problem.deploy
    truth = np.eye(4)[train.grid.source_ids(problem.oracle.y, problem.oracle.subgroup)]
    wrong = np.random.default_rng(0).random(len(truth)) < 0.3
    believed, config = truth * ~wrong[:, None], FinalConfig(widths=(16,), epochs=2)
    network = fit_final(train, deploy, believed, config, seed=0)
    spoilt = np.where(wrong[:, None], np.float32(1e9), deploy.x)  # would be seen if a single one were read
    again = fit_final(train, Unlabeled(spoilt), believed, config, seed=0)
    np.testing.assert_array_equal(predict_rows(network, train), predict_rows(again, train))


def test_a_source_that_z_contradicts_as_a_whole_is_kept() -> None:
    sources = np.eye(4)[np.repeat([0, 1, 2, 3], [485, 485, 15, 15])]
    same = np.ones(1_000, bool)
    same[[0, 1, *range(970, 985)]] = False  # two rows of a large source, and all of a rare one
    kept = leave_out_disputed(sources, same).sum(axis=1)
    assert kept[:3].tolist() == [0, 0, 1]
    assert kept[970:985].all()


def test_a_source_without_rows_gets_no_share_and_its_class_stays_as_frequent() -> None:
    p = np.full((100, 4), 1e-6)
    p[np.arange(100), np.repeat([0, 1, 2, 3], [50, 30, 20, 0])] = 1
    clusters = Clusters(p.argmax(axis=1), (0, 1, 2, 3), p, "mixture")
    sources = name_softly(clusters, named(0, 1, 2, 3), GRID)
    assert not sources[:, 3].any()
    weights = balanced_class_weights(sources, GRID)
    np.testing.assert_allclose(weights.sum(axis=0), 50, rtol=1e-3)
    assert weights[0].sum() < weights[-1].sum() < 3


def test_restarts_keep_one_game_and_say_what_was_seen_of_each() -> None:
    problem = make_sources(seed=0)
    train, truth = problem.train, problem.oracle
    model = SupportMatchingClassifier(class_names=[0, 1], subgroup_names=[0, 1], config=quick())
    model.fit(train.x, train.y, train.s, problem.deploy.x, restarts=2)
    assert [len(seen) for seen in model.restarts_.values()] == [2, 2]
    model.fit_with_oracle_bags(
        train.x, train.y, train.s, problem.deploy.x, y_deploy=truth.y, subgroup_deploy=truth.subgroup
    )
    assert not hasattr(model, "restarts_")
    with pytest.raises(ConfigError, match="at least 1, but is 0"):
        model.fit(train.x, train.y, train.s, problem.deploy.x, restarts=0)


@pytest.mark.parametrize(("side", "levels"), [(8, 2), (16, 3), (32, 4), (64, 4)])
def test_small_pictures_get_as_many_levels_as_they_have_room_for(side: int, levels: int) -> None:
    network = build_final((3, side, side), 2, FinalConfig())
    assert sum(type(layer).__name__ == "Conv2d" for layer in network) == levels


def test_a_folded_network_predicts_as_the_trained_one() -> None:
    torch.manual_seed(0)
    network = build_final((3, 32, 32), 2, FinalConfig())
    x = torch.rand(64, 3, 32, 32)
    network.train()(x)  # batch norm has seen something
    folded = fold(network)
    torch.testing.assert_close(folded(x), network.eval()(x), rtol=1e-3, atol=1e-5)
    loaded = build_final((3, 32, 32), 2, FinalConfig(), trained=True)
    loaded.load_state_dict(folded.state_dict())
    torch.testing.assert_close(loaded(x), folded(x))


def test_the_final_classifier_learns_the_missing_source_from_the_deployment_set() -> None:
    problem = make_sources(seed=0)
    train, deploy, test = problem.train, problem.deploy, problem.test
    truth = np.eye(4)[train.grid.source_ids(problem.oracle.y, problem.oracle.subgroup)]
    config = FinalConfig(widths=(16,), epochs=20, learning_rate=1e-2)
    network = fit_final(train, deploy, truth, config, seed=0)
    right = predict_rows(network, test).argmax(axis=1) == test.y
    assert min(right[test.source_ids == k].mean() for k in range(4)) > 0.85
    again = fit_final(train, deploy, truth, config, seed=0)
    np.testing.assert_array_equal(predict_rows(network, test), predict_rows(again, test))


def test_a_saved_model_predicts_with_its_final_classifier(tmp_path: Path) -> None:
    problem = make_sources(seed=0)
    train = problem.train
    model = SupportMatchingClassifier(class_names=[0, 1], subgroup_names=[0, 1], config=quick())
    model.fit(train.x, train.y, train.s, problem.deploy.x)
    assert model.final_ is not None
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(train.x), model.predict_proba(train.x))
    assert (model.predict_proba(train.x) != model.judge_by_z(train.x)).any()


def test_a_model_from_before_there_was_a_final_classifier_is_read(tmp_path: Path) -> None:
    problem = make_sources(seed=0)
    train = problem.train
    config = preset("lean-tables").model_copy(update={"matching": quick().matching})
    model = SupportMatchingClassifier(class_names=[0, 1], subgroup_names=[0, 1], config=config)
    model.fit(train.x, train.y, train.s, problem.deploy.x)
    model.save(tmp_path / "model")
    path = tmp_path / "model" / "model.json"
    description = json.loads(path.read_text())
    del description["has_final"], description["config"]["final"], description["config"]["matching"]["guided_steps"]
    path.write_text(json.dumps(description))
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(train.x), model.predict_proba(train.x))


def test_the_presets_of_the_paper_leave_the_last_word_to_z() -> None:
    for name in ("paper-cmnist-sb", "paper-adult", "lean-images", "lean-tables"):
        assert preset(name).final.learns_from == "z"
        assert preset(name).matching.guided_steps == 0


def test_an_encoder_of_ones_own_keeps_the_last_word() -> None:
    from torch import nn

    problem = make_sources(seed=0)
    train = problem.train
    encoder = nn.Sequential(nn.Linear(train.x.shape[1], 8))
    model = SupportMatchingClassifier(class_names=[0, 1], subgroup_names=[0, 1], encoder=encoder)
    assert model._resolve(train).final.learns_from == "z"


def test_clusters_that_cannot_be_named_leave_a_model_on_z_and_a_warning() -> None:
    problem = make_sources(seed=0)
    train = problem.train
    start = quick()
    clustering = start.clustering.model_copy(update={"method": "kmeans", "pretrain_steps": 3, "n_clusters": 40})
    config = start.model_copy(update={"clustering": clustering})
    model = SupportMatchingClassifier(class_names=[0, 1], subgroup_names=[0, 1], config=config)
    with pytest.warns(SupportMatchWarning) as caught:
        model.fit(train.x, train.y, train.s, problem.deploy.x)
    assert any("the clusters stay without names" in str(warning.message) for warning in caught)
    assert model.final_ is None
    assert model.pairing_ is None
    np.testing.assert_array_equal(model.predict_proba(train.x), model.judge_by_z(train.x))
