"""`SupportMatchingClassifier` from the outside, on rows small enough to fit in a moment."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import RobustScaler
from sklearn.utils.validation import check_is_fitted
from torch import nn

from supportmatch.config import (
    AutoencoderConfig,
    BagConfig,
    ClassifierConfig,
    ClusteringConfig,
    Config,
    DiscriminatorConfig,
    MatchingConfig,
    TableConfig,
    default_config,
)
from supportmatch.data.synthetic import make_sources
from supportmatch.errors import (
    ConfigError,
    FeatureMismatchError,
    MissingClassError,
    NotFiniteError,
    ShapeError,
    SupportMatchWarning,
    TooFewClassesError,
    TooFewDeploymentRowsError,
    TooFewSubgroupsError,
    UnknownNameError,
)
from supportmatch.estimator import SupportMatchingClassifier

SOURCES = make_sources(n_train=25, n_deploy=25, n_test=10)
X, Y, S = SOURCES.train.x, SOURCES.train.y, SOURCES.train.s
X_DEPLOY, X_TEST = SOURCES.deploy.x, SOURCES.test.x
N_FEATURES = X.shape[1]
TINY = Config(
    clustering=ClusteringConfig(method="factorised"),
    bags=BagConfig(n_bags=2, bag_size=8),
    autoencoder=AutoencoderConfig(kind="mlp", widths=(8,), code_size=4),
    discriminator=DiscriminatorConfig(hidden_before=(8,), row_size=4, gate_size=4, hidden_after=()),
    matching=MatchingConfig(steps=3),
    classifier=ClassifierConfig(epochs=2, batch_size=32),
)
KMEANS = ClusteringConfig(
    method="kmeans", autoencoder=AutoencoderConfig(kind="mlp", widths=(), code_size=4), pretrain_steps=20
)


def model_of(**parameters: Any) -> SupportMatchingClassifier:
    return SupportMatchingClassifier(**{"config": TINY, **parameters})


def with_settings(**stages: Any) -> Config:
    return TINY.model_copy(update=stages)


def as_frame(x: np.ndarray) -> pd.DataFrame:
    """Return numbers and categories: strings, a categorical and a boolean."""
    frame = pd.DataFrame(x[:, :3].astype(np.float64), columns=["core", "other", "shade"])
    frame["job"] = np.where(x[:, 3] > 3, "cook", "pilot")
    frame["town"] = pd.Categorical(np.where(x[:, 4] > 0, "north", "south"))
    frame["old"] = x[:, 5] > 0
    return frame


def as_images(x: np.ndarray) -> np.ndarray:
    """Return 3 x 4 x 4 images in bytes, whose channels show the first columns."""
    levels = np.clip(100 + 15 * x[:, :3], 0, 255).astype(np.uint8)
    return np.ascontiguousarray(np.broadcast_to(levels[:, :, None, None], (len(x), 3, 4, 4)))


@pytest.fixture(scope="module")
def fitted() -> SupportMatchingClassifier:
    return model_of().fit(X, Y, S, X_DEPLOY)


def check_outputs(model: SupportMatchingClassifier, rows: Any, n_rows: int) -> None:
    probabilities = model.predict_proba(rows)
    assert probabilities.shape == (n_rows, len(model.classes_))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert np.array_equal(model.predict(rows), model.classes_[probabilities.argmax(axis=1)])
    z = model.transform(rows)
    assert z.shape == (n_rows, model.encoder_.z_size)
    assert np.isfinite(z).all()


def test_arrays_are_fitted_and_predicted(fitted: SupportMatchingClassifier) -> None:
    check_outputs(fitted, X_TEST, 40)
    assert fitted.transform(X_TEST).shape == (40, 3)


def test_every_intermediate_result_stays_on_the_object(fitted: SupportMatchingClassifier) -> None:
    assert fitted.audit_.missing == ("1/0",)
    assert fitted.clusters_.ids.shape == (100,)
    assert len(fitted.history_.rows) == 3
    assert fitted.bag_notes_ == ["8 slots over 4 training sources: 2 each", "8 slots over 4 deployment groups: 2 each"]
    assert fitted.config_ == TINY
    assert fitted.n_features_in_ == N_FEATURES


def test_tables_with_categories_are_fitted_and_predicted() -> None:
    model = model_of().fit(as_frame(X), Y, S, as_frame(X_DEPLOY))
    check_outputs(model, as_frame(X_TEST), 40)
    shuffled = as_frame(X_TEST)[["old", "town", "job", "shade", "other", "core"]]
    assert np.array_equal(model.predict_proba(shuffled), model.predict_proba(as_frame(X_TEST)))


def test_the_number_of_features_is_that_of_the_columns_given() -> None:
    assert model_of().fit(as_frame(X), Y, S, as_frame(X_DEPLOY)).n_features_in_ == 6


def test_a_pipeline_passes_deployment_rows_through_its_steps() -> None:
    with config_context(enable_metadata_routing=True):
        matcher = model_of().set_fit_request(subgroup=True, X_deploy=True)
        pipeline = Pipeline([("scale", RobustScaler()), ("match", matcher)], transform_input=["X_deploy"])
        pipeline.fit(X, Y, subgroup=S, X_deploy=X_DEPLOY)
        found = pipeline.predict_proba(X_TEST)
    scaler = RobustScaler().fit(X)
    alone = model_of().fit(scaler.transform(X), Y, S, scaler.transform(X_DEPLOY))
    np.testing.assert_array_equal(found, alone.predict_proba(scaler.transform(X_TEST)))


def test_embeddings_of_a_frozen_backbone_are_a_table_like_any_other() -> None:
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(48, 6)).requires_grad_(False)

    def embed(x: np.ndarray) -> np.ndarray:
        return backbone(torch.from_numpy(as_images(x)).float() / 255).numpy()

    model = model_of().fit(embed(X), Y, S, embed(X_DEPLOY))
    check_outputs(model, embed(X_TEST), 40)


def test_images_in_bytes_are_fitted_and_predicted() -> None:
    config = with_settings(autoencoder=AutoencoderConfig(widths=(4, 4), code_size=4))
    model = model_of(config=config).fit(as_images(X), Y, S, as_images(X_DEPLOY))
    check_outputs(model, as_images(X_TEST), 40)


def test_the_default_configuration_follows_the_kind_of_rows() -> None:
    model = SupportMatchingClassifier(config="auto")
    with pytest.raises(TooFewDeploymentRowsError):
        model.fit(X, Y, S, X_DEPLOY[:3])
    assert model.config_.autoencoder.kind == "mlp"
    with pytest.raises(TooFewDeploymentRowsError):
        model.fit(as_images(X), Y, S, as_images(X_DEPLOY[:3]))
    assert model.config_.autoencoder.kind == "conv"


@pytest.mark.parametrize(
    ("classes", "subgroups"),
    [
        (np.array(["no", "yes"]), np.array(["purple", "green"])),
        (np.array([2, 4]), np.array([7, 3])),
        (np.array([False, True]), np.array([True, False])),
        (np.array(["no", "yes"], dtype=object), np.array([0.5, 1.5])),
    ],
)
def test_names_come_back_as_they_were_given(classes: np.ndarray, subgroups: np.ndarray) -> None:
    model = model_of().fit(X, classes[Y], subgroups[S], X_DEPLOY)
    assert set(model.predict(X_TEST).tolist()) <= set(classes.tolist())
    assert {type(name) for name in model.predict(X_TEST).tolist()} == {type(classes.tolist()[0])}
    assert model.classes_.tolist() == sorted(classes.tolist())
    assert sorted(model.grid_.subgroups) == sorted(subgroups.tolist())


def test_labels_may_be_lists_or_columns_of_a_table() -> None:
    frame = as_frame(X).assign(y=np.array(["no", "yes"])[Y], s=S)
    lists = model_of().fit(as_frame(X), frame["y"].tolist(), frame["s"].tolist(), as_frame(X_DEPLOY))
    columns = model_of().fit(as_frame(X), frame["y"], frame["s"], as_frame(X_DEPLOY))
    assert np.array_equal(lists.predict_proba(as_frame(X_TEST)), columns.predict_proba(as_frame(X_TEST)))


def test_declared_classes_keep_their_order() -> None:
    model = model_of(class_names=(1, 0)).fit(X, Y, S, X_DEPLOY)
    assert model.classes_.tolist() == [1, 0]
    assert np.array_equal(model.predict(X_TEST), np.array([1, 0])[model.predict_proba(X_TEST).argmax(axis=1)])


def test_labels_alone_give_an_ordinary_classifier_and_a_warning() -> None:
    with pytest.warns(
        SupportMatchWarning, match=r"without `subgroup` or without `X_deploy`, so supports are not match"
    ):
        model = model_of().fit(X, Y)
    check_outputs(model, X_TEST, 40)
    assert "adversarial" not in model.history_.rows[0]
    with pytest.raises(ConfigError, match="without subgroups"):
        model.evaluate(X_TEST, SOURCES.test.y, SOURCES.test.s)


def test_no_deployment_rows_give_an_ordinary_classifier_and_a_warning() -> None:
    with pytest.warns(SupportMatchWarning, match=r"without `X_deploy`, so supports are not matched"):
        model = model_of().fit(X, Y, S)
    check_outputs(model, X_TEST, 40)
    assert model.grid_.subgroups == (0, 1)


def test_the_warning_points_to_the_line_that_called_fit() -> None:
    with pytest.warns(SupportMatchWarning) as caught:
        model_of().fit(X, Y)
    assert caught[0].filename == __file__


BROKEN = np.where(np.arange(N_FEATURES) == 2, np.nan, X)


@pytest.mark.parametrize(
    ("parameters", "arguments", "error", "advice"),
    [
        ({}, (X[:, 0], Y, S, X_DEPLOY), ShapeError, "reshape it"),
        ({}, (X[:, None], Y, S, X_DEPLOY), ShapeError, "reshape it"),
        ({}, (X, Y, S, X_DEPLOY[0]), ShapeError, "reshape it"),
        ({}, (X[:0], Y[:0], S[:0], X_DEPLOY), ShapeError, "check how it was read"),
        ({}, (X, Y[:-1], S, X_DEPLOY), ShapeError, "`y` must hold one name for each of the 75 rows"),
        ({}, (X, Y, S[:, None], X_DEPLOY), ShapeError, "`subgroup` must hold one name for each of the 75 rows"),
        ({}, (BROKEN, Y, S, X_DEPLOY), NotFiniteError, "training table holds missing values in column 'x2': fill"),
        ({}, (X, Y, S, np.full_like(X_DEPLOY, np.inf)), NotFiniteError, "deployment table holds infinity .* fill"),
        ({}, (X, np.where(Y == 0, np.nan, Y), S, X_DEPLOY), NotFiniteError, "drop the rows without a y"),
        ({"subgroup_names": (0, 2)}, (X, Y, S, X_DEPLOY), UnknownNameError, "unknown subgroup 1 .*declare it in `sub"),
        ({"class_names": (0, 2)}, (X, Y, S, X_DEPLOY), UnknownNameError, "unknown class 1 .*declare it in `class_nam"),
        ({"class_names": (0, 1, 2)}, (X, Y, S, X_DEPLOY), MissingClassError, "class 2 .*add labels for them or drop"),
        ({}, (X, Y, np.ones_like(S), X_DEPLOY), TooFewSubgroupsError, "declare every subgroup .* `subgroup_names`"),
        ({}, (X, np.ones_like(Y), S, X_DEPLOY), TooFewClassesError, "check the label column"),
        ({}, (X, Y, S, X_DEPLOY[:19]), TooFewDeploymentRowsError, "has 19 rows, but at least 20 .*: collect more"),
        ({}, (X, Y, S, X_DEPLOY[:, :4]), FeatureMismatchError, "lacks columns 'x4', 'x5': rename, add or drop"),
        ({}, (X, Y, S, as_images(X_DEPLOY)), FeatureMismatchError, "pass the same kind of rows"),
        ({}, (as_images(X), Y, S, X_DEPLOY), FeatureMismatchError, "pass the same kind of rows"),
        ({}, (as_images(X), Y, S, as_images(X_DEPLOY)[:, :, :2]), FeatureMismatchError, "same columns or image size"),
        ({}, (as_images(X), Y, S, as_images(X_DEPLOY) / 255), FeatureMismatchError, "both as uint8"),
        ({"config": "paper"}, (X, Y, S, X_DEPLOY), ConfigError, "unknown preset 'paper': choose one of"),
        ({"encoder": nn.Linear(N_FEATURES, 1)}, (X, Y, S, X_DEPLOY), ConfigError, "leaves none for z"),
    ],
)
def test_each_mistake_has_its_own_error_and_says_what_to_do(
    parameters: dict[str, Any], arguments: tuple[Any, ...], error: type[ValueError], advice: str
) -> None:
    with pytest.raises(error, match=advice):
        model_of(**parameters).fit(*arguments)


def test_new_rows_must_look_like_the_training_rows(fitted: SupportMatchingClassifier) -> None:
    with pytest.raises(FeatureMismatchError, match=r"new table .* lacks column 'x5'"):
        fitted.predict(X_TEST[:, :5])
    with pytest.raises(NotFiniteError, match="new table"):
        fitted.predict(np.full_like(X_TEST, np.nan))
    with pytest.raises(ShapeError):
        fitted.predict(X_TEST[0])


def test_a_category_that_neither_set_showed_is_refused() -> None:
    model = model_of().fit(as_frame(X), Y, S, as_frame(X_DEPLOY))
    with pytest.raises(FeatureMismatchError, match="column 'job' holds 'baker'"):
        model.predict(as_frame(X_TEST).assign(job="baker"))


def test_images_on_another_scale_than_in_training_are_refused() -> None:
    model = model_of().fit(as_images(X), Y, S, as_images(X_DEPLOY))
    with pytest.raises(FeatureMismatchError):
        model.predict(as_images(X_TEST).astype(np.float64))


def test_clones_have_the_same_parameters_and_nothing_fitted(fitted: SupportMatchingClassifier) -> None:
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(X_TEST)


def test_parameters_can_be_read_and_set() -> None:
    model = SupportMatchingClassifier(random_state=3)
    names = {"subgroup_names", "class_names", "config", "encoder", "decoder", "hardware", "random_state", "verbose"}
    assert set(model.get_params()) == names
    assert model.set_params(random_state=5, config="tables").get_params()["random_state"] == 5
    assert model.config == "tables"


@pytest.mark.parametrize("method", ["predict", "predict_proba", "transform"])
def test_nothing_can_be_predicted_before_fitting(method: str) -> None:
    with pytest.raises(NotFittedError):
        getattr(model_of(), method)(X_TEST)


def test_a_model_that_was_not_fitted_cannot_be_saved(tmp_path) -> None:
    with pytest.raises(NotFittedError):
        model_of().save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_the_same_seed_gives_the_same_predictions_and_another_seed_others(fitted: SupportMatchingClassifier) -> None:
    expected = fitted.predict_proba(X_TEST)
    assert np.array_equal(model_of().fit(X, Y, S, X_DEPLOY).predict_proba(X_TEST), expected)
    assert not np.array_equal(model_of(random_state=1).fit(X, Y, S, X_DEPLOY).predict_proba(X_TEST), expected)


def test_fitting_twice_gives_the_same_model_as_fitting_once() -> None:
    model = model_of().fit(X, Y, S, X_DEPLOY)
    once = model.predict_proba(X_TEST)
    assert np.array_equal(model.fit(X, Y, S, X_DEPLOY).predict_proba(X_TEST), once)


def test_predictions_of_a_row_do_not_depend_on_its_neighbours(fitted: SupportMatchingClassifier) -> None:
    alone = np.concatenate([fitted.predict_proba(X_TEST[[i]]) for i in range(5)])
    np.testing.assert_allclose(alone, fitted.predict_proba(X_TEST)[:5], rtol=1e-5)


def oracle(**changes: Any) -> dict[str, Any]:
    return {"y_deploy": SOURCES.oracle.y, "subgroup_deploy": SOURCES.oracle.subgroup, **changes}


def test_oracle_bags_are_a_path_of_their_own() -> None:
    model = model_of().fit_with_oracle_bags(X, Y, S, X_DEPLOY, **oracle())
    check_outputs(model, X_TEST, 40)
    assert not hasattr(model, "clusters_")
    assert model.bag_notes_[1] == "8 slots over 4 deployment groups: 2 each"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        (oracle(y_deploy=SOURCES.oracle.y[:-1], subgroup_deploy=SOURCES.oracle.subgroup[:-1]), ShapeError),
        (oracle(y_deploy=SOURCES.oracle.y[:-1]), ShapeError),
        (oracle(subgroup_deploy=SOURCES.oracle.subgroup[:1]), ShapeError),
        (oracle(y_deploy=SOURCES.oracle.y + 1), UnknownNameError),
    ],
)
def test_oracle_labels_must_belong_to_the_deployment_rows(changes: dict[str, Any], error: type[ValueError]) -> None:
    with pytest.raises(error):
        model_of().fit_with_oracle_bags(X, Y, S, X_DEPLOY, **changes)


@pytest.mark.parametrize("name", ["y_deploy", "subgroup_deploy"])
def test_deployment_labels_cannot_be_passed_to_fit(name: str) -> None:
    with pytest.raises(TypeError, match=name):
        model_of().fit(X, Y, S, X_DEPLOY, **{name: oracle()[name]})


def test_bags_may_be_drawn_without_balancing() -> None:
    config = with_settings(bags=BagConfig(n_bags=2, bag_size=8, balancing="none"))
    model = model_of(config=config).fit(X, Y, S, X_DEPLOY)
    check_outputs(model, X_TEST, 40)
    assert not hasattr(model, "clusters_")
    assert len(model.bag_notes_) == 1


def test_a_second_fit_leaves_nothing_of_the_first() -> None:
    model = model_of().fit(X, Y, S, X_DEPLOY)
    with pytest.warns(SupportMatchWarning):
        model.fit(X, Y)
    assert not hasattr(model, "clusters_")
    assert not hasattr(model, "audit_")


def test_there_may_be_more_clusters_than_sources() -> None:
    config = with_settings(clustering=KMEANS.model_copy(update={"n_clusters": 6}))
    model = model_of(config=config).fit(X, Y, S, X_DEPLOY)
    check_outputs(model, X_TEST, 40)
    assert model.clusters_.n_clusters == 6
    assert "6 deployment groups" in model.bag_notes_[1]


def test_fewer_clusters_than_seen_sources_are_refused() -> None:
    config = with_settings(clustering=KMEANS.model_copy(update={"n_clusters": 2}))
    with pytest.raises(ConfigError, match="use at least 3"):
        model_of(config=config).fit(X, Y, S, X_DEPLOY)


def test_a_bag_size_that_does_not_divide_is_stated() -> None:
    config = with_settings(bags=BagConfig(n_bags=2, bag_size=10))
    model = model_of(config=config).fit(X, Y, S, X_DEPLOY)
    assert all("2 each, and 2 more in random turns" in note for note in model.bag_notes_)


def test_a_subgroup_without_any_training_row_is_declared_by_name() -> None:
    purple = S == 0
    names = ("green", "purple")
    rows, y = X[~purple], Y[~purple]
    model = model_of(subgroup_names=names).fit(rows, y, np.full(len(y), "green"), X_DEPLOY)
    check_outputs(model, X_TEST, 40)
    assert model.grid_.subgroups == names
    assert model.audit_.missing == ("0/purple", "1/purple")


def own_encoder() -> nn.Sequential:
    return nn.Sequential(nn.Linear(N_FEATURES, 5), nn.Tanh(), nn.Linear(5, 3))


def test_a_users_encoder_gives_the_codes() -> None:
    model = model_of(encoder=own_encoder()).fit(X, Y, S, X_DEPLOY)
    assert model.transform(X_TEST).shape == (40, 2)
    assert "reconstruction" not in model.history_.rows[0]


def test_fitting_leaves_the_networks_passed_as_parameters_alone() -> None:
    encoder, decoder = own_encoder(), nn.Linear(3, N_FEATURES)
    before = [value.clone() for value in (*encoder.state_dict().values(), *decoder.state_dict().values())]
    model = model_of(encoder=encoder, decoder=decoder).fit(X, Y, S, X_DEPLOY)
    after = [*encoder.state_dict().values(), *decoder.state_dict().values()]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    once = model.predict_proba(X_TEST)
    assert np.array_equal(model.fit(X, Y, S, X_DEPLOY).predict_proba(X_TEST), once)


def test_progress_is_not_shown_where_there_is_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    model_of(verbose=True).fit(X, Y, S, X_DEPLOY)
    shown = capfd.readouterr()
    assert (shown.out, shown.err.strip()) == ("", "")


def test_a_refused_second_fit_leaves_no_mixture_of_two_models() -> None:
    model = model_of().fit(X, Y, S, X_DEPLOY)
    with pytest.raises(TooFewDeploymentRowsError):
        model.fit(2 * X, Y, S, X_DEPLOY[:3])
    with pytest.raises(NotFittedError):
        model.predict(X_TEST)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)


def test_evaluate_measures_by_name(fitted: SupportMatchingClassifier) -> None:
    result = fitted.evaluate(X_TEST, SOURCES.test.y, SOURCES.test.s)
    assert result.accuracy == pytest.approx(np.mean(fitted.predict(X_TEST) == SOURCES.test.y))


@pytest.mark.parametrize("kind", [list, lambda names: np.array(names, dtype=object)])
def test_labels_of_mixed_types_are_refused(kind: Any) -> None:
    with pytest.raises(ShapeError, match="mixes names"):
        model_of().fit(X, kind([*Y[:-1].tolist(), "one"]), S, X_DEPLOY)


@pytest.mark.parametrize("kind", [list, lambda names: pd.Series(names, dtype="string")])
@pytest.mark.parametrize("nothing", [np.nan, None, pd.NA])
def test_labels_that_are_missing_are_refused_and_never_become_a_class(kind: Any, nothing: Any) -> None:
    names = [*np.where(Y[:-1] == 0, "low", "high").tolist(), nothing]
    with pytest.raises(NotFiniteError, match="missing values"):
        model_of().fit(X, kind(names), S, X_DEPLOY)


def test_images_in_whole_numbers_other_than_bytes_are_refused() -> None:
    with pytest.raises(ShapeError, match="uint8"):
        model_of().fit(as_images(X).astype(np.int64), Y, S, as_images(X_DEPLOY))


def test_without_a_deployment_set_the_audit_is_still_there() -> None:
    with pytest.warns(SupportMatchWarning):
        model = model_of().fit(X, Y, S)
    assert model.audit_.missing


def test_gaps_in_a_table_are_refused_unless_the_configuration_says_what_they_are() -> None:
    rng = np.random.default_rng(0)
    y, s = rng.integers(2, size=200), rng.integers(2, size=200)
    rows = pd.DataFrame({"a": rng.normal(size=200) + y, "b": rng.choice(["p", "q", None], 200)})
    rows.loc[::7, "a"] = np.nan
    names = {"subgroup_names": [0, 1], "class_names": [0, 1]}
    with pytest.raises(NotFiniteError, match="missing values"):
        SupportMatchingClassifier(**names).fit(rows, y, s, rows)
    start = default_config(images=False, n_sources=4)
    config = start.model_copy(
        update={
            "table": TableConfig(missing="own-category"),
            "matching": start.matching.model_copy(update={"steps": 3}),
        }
    )
    model = SupportMatchingClassifier(**names, config=config).fit(rows, y, s, rows)
    assert np.isfinite(model.predict_proba(rows)).all()
