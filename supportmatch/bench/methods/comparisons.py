"""Every other method: an estimator of `supportmatch.baselines` with its parameters spelt out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from supportmatch.bench.methods.interface import Budget, Method, Outcome, found_by_name
from supportmatch.bench.methods.support_matching import our_clustering, score_clusters, starting_point
from supportmatch.config import ClusteringConfig
from supportmatch.data.problems import Problem, Setting

if TYPE_CHECKING:
    from supportmatch.baselines.interface import Baseline
    from supportmatch.data.inputs import Features

_NOT_SETTINGS = {"subgroup_names", "class_names", "random_state", "verbose"}

Parameters = Callable[[Setting, Budget], dict[str, Any]]


@dataclass(frozen=True)
class Comparison(Method):
    """One estimator, trained on the labelled rows or (oracles) on deployment rows with their true labels as well."""

    name: str
    summary: str
    estimator: str
    """Module and class within `supportmatch.baselines`."""
    parameters: Parameters
    only_tables: bool = False
    needs_all_subgroups: bool = False
    sees_deployment_labels: bool = False

    def __reduce__(self) -> tuple[Callable[[str], Method], tuple[str]]:
        """Travel to other processes by name, because functions made on the spot cannot."""
        return found_by_name(self)

    def configuration(self, setting: Setting, budget: Budget) -> dict[str, Any]:
        """Return the estimator's parameters; those left None have no part in the run."""
        parameters = self._class()(**self.parameters(setting, budget)).get_params(deep=False)
        used = {k: v for k, v in parameters.items() if k not in _NOT_SETTINGS and v is not None}
        return {"estimator": self.estimator, **{k: _plain(v) for k, v in used.items()}}

    def refusal(self, setting: Setting) -> str | None:
        """Return why the method cannot work here."""
        if self.only_tables and setting.kind != "table":
            return "gradient boosting is for tables."
        if self.needs_all_subgroups and setting.has_missing_subgroup:
            return "training lacks a whole subgroup, and a group without rows has no loss to minimise the worst of."
        return None

    def fit(self, problem: Problem, seed: int, configuration: dict[str, Any]) -> Outcome:
        """Train and predict."""
        known = {k: tuple(v) if isinstance(v, list) else v for k, v in configuration.items() if k != "estimator"}
        if "clustering" in known:
            known["clustering"] = ClusteringConfig.model_validate(known["clustering"])
        model = self._class()(**known, subgroup_names=problem.subgroup_names, class_names=problem.class_names)
        if "random_state" in model.get_params(deep=False):
            model.set_params(random_state=seed)
        model.fit(*(_with_true_labels(problem) if self.sees_deployment_labels else _as_given(problem)))
        details: dict[str, Any] = {}
        if hasattr(model, "q_"):
            details["group_weights"] = model.q_.tolist()
        if hasattr(model, "clusters_"):
            details["clustering"] = score_clusters(problem, model.clusters_.ids)
        if hasattr(model, "pairing_"):
            names = problem.grid.source_name
            details["pairing"] = {
                "margin": model.pairing_.margin,
                "sources": {
                    str(k): names(source)
                    for k, source in zip(model.pairing_.cluster_ids, model.pairing_.sources, strict=True)
                },
            }
        return Outcome(model.predict(problem.X_test), details)

    def _class(self) -> Callable[..., Baseline]:
        module, _, name = self.estimator.partition(".")
        found: Callable[..., Baseline] = getattr(import_module(f"supportmatch.baselines.{module}"), name)
        return found


def _plain(value: Any) -> Any:
    if isinstance(value, ClusteringConfig):
        return value.model_dump(mode="json")
    return list(value) if isinstance(value, tuple) else value


def _fixed(**values: Any) -> Parameters:
    return lambda setting, budget: values


def _network(**values: Any) -> Parameters:
    """Return the width and epochs of the budget, and what else is given."""

    def parameters(setting: Setting, budget: Budget) -> dict[str, Any]:
        if budget == "smoke":
            return {"widths": (4, 8), "epochs": 1, **values}
        if setting.kind == "table":
            as_run = {"linear_width": 35} if budget == "paper" else {}
            return {"widths": (35,), "epochs": 60, **as_run, **values}
        if budget == "paper":
            widths = (64, 128, 128, 256, 512) if setting.family == "celeba" else (64, 128, 256, 512)
            return {"widths": widths, "epochs": 60, **values}
        if setting.family == "celeba":
            return {"widths": (16, 32, 32, 64, 128), "epochs": 5, **values}
        return {"widths": (16, 32, 64, 128), "epochs": 10, **values}

    return parameters


def _dro(setting: Setting, budget: Budget) -> dict[str, Any]:
    """Return the eta that the paper's figures show."""
    return _network(eta=0.5 if setting.name == "cmnist-3digit" else 0.1)(setting, budget)


def _small_batches(**values: Any) -> Parameters:
    """Return what `_network` does; with the paper's budget in batches of 64, as the authors' rows record."""
    return lambda setting, budget: _network(**values, **({"batch_size": 64} if budget == "paper" else {}))(
        setting, budget
    )


def _gdro(setting: Setting, budget: Budget) -> dict[str, Any]:
    """Return Sagawa et al.'s method; with the paper's budget what the authors ran on digits and Adult."""
    if setting.family == "celeba":
        return _network()(setting, budget)
    return _small_batches(**({"step_size": "worst"} if budget == "paper" else {}))(setting, budget)


def _on_deployment(setting: Setting, budget: Budget) -> dict[str, Any]:
    """Return a network for images, trained half as long since it sees more rows, and a linear model for tables."""
    if setting.kind == "table":
        return {"model": "linear"}
    values = _network()(setting, budget)
    epochs = (values["epochs"] + 1) // 2
    return {"model": "network", **values, "epochs": epochs, "batch_size": 256, "learning_rate": 1e-3}


def _with_heads(parameters: Parameters) -> Parameters:
    """Add how factorised heads are trained and, for images, the autoencoder whose codes they read."""

    def with_heads(setting: Setting, budget: Budget) -> dict[str, Any]:
        codes = starting_point(setting, budget).clustering
        return {**parameters(setting, budget), "clustering": codes.model_copy(update={"method": "factorised"})}

    return with_heads


def _on_clusters(setting: Setting, budget: Budget) -> dict[str, Any]:
    return {**_on_deployment(setting, budget), "clustering": our_clustering(setting, budget)}


def _as_given(problem: Problem) -> tuple[Features, NDArray[Any], NDArray[Any], Features]:
    return problem.X_train, problem.y_train, problem.subgroup_train, problem.X_deploy


def _with_true_labels(problem: Problem) -> tuple[Features, NDArray[Any], NDArray[Any], Features]:
    """Add the deployment rows and their true labels to the training set: for oracles only."""
    import pandas as pd

    train, deploy = problem.X_train, problem.X_deploy
    both: Features
    if isinstance(train, pd.DataFrame) and isinstance(deploy, pd.DataFrame):
        both = pd.concat([train, deploy], ignore_index=True)
    else:
        both = np.concatenate([np.asarray(train), np.asarray(deploy)])
    y = np.concatenate([problem.y_train, problem.oracle.y])
    subgroup = np.concatenate([problem.subgroup_train, problem.oracle.subgroup])
    return both, y, subgroup, deploy


COMPARISONS: tuple[Method, ...] = (
    Comparison("erm", "Cross-entropy on the training set, sampled like Pi.", "erm.ErmClassifier", _network()),
    Comparison(
        "erm-plain",
        "Cross-entropy on the training set as the rows come.",
        "erm.ErmClassifier",
        _network(sampling="plain"),
    ),
    Comparison("dro", "Distributionally robust optimisation (Hashimoto et al. 2018).", "dro.DroClassifier", _dro),
    Comparison(
        "dro-plain",
        "DRO on the training set as the rows come.",
        "dro.DroClassifier",
        lambda setting, budget: {**_dro(setting, budget), "sampling": "plain"},
    ),
    Comparison(
        "gdro",
        "Group DRO over subgroups (Sagawa et al. 2020).",
        "group_dro.GroupDroClassifier",
        _gdro,
        needs_all_subgroups=True,
    ),
    Comparison(
        "gdro-plain",
        "Group DRO over subgroups on the training set as the rows come.",
        "group_dro.GroupDroClassifier",
        _network(sampling="plain"),
        needs_all_subgroups=True,
    ),
    Comparison(
        "gdro-small-step",
        "Group DRO over subgroups whose weights hardly move (step size 0.001).",
        "group_dro.GroupDroClassifier",
        _network(step_size=0.001),
        needs_all_subgroups=True,
    ),
    Comparison(
        "lff",
        "Learning from failure (Nam et al. 2020), its biased network calibrated.",
        "lff.LffClassifier",
        _small_batches(),
    ),
    Comparison(
        "lff-published", "Learning from failure as published.", "lff.LffClassifier", _small_batches(calibrate=False)
    ),
    Comparison(
        "george",
        "GEORGE adapted: factorised labels for the deployment set, then group DRO.",
        "george.GeorgeClassifier",
        _with_heads(_network()),
    ),
    Comparison(
        "erm-label-oracle",
        "Cross-entropy on training and truly labelled deployment rows, as they come.",
        "erm.ErmClassifier",
        _network(sampling="plain"),
        sees_deployment_labels=True,
    ),
    Comparison(
        "gdro-label-oracle",
        "Group DRO on training and truly labelled deployment rows.",
        "group_dro.GroupDroClassifier",
        _network(sampling="plain"),
        sees_deployment_labels=True,
    ),
    Comparison(
        "balanced-label-oracle",
        "Cross-entropy on training and truly labelled deployment rows, every source equally often.",
        "erm.ErmClassifier",
        _network(sampling="sources"),
        sees_deployment_labels=True,
    ),
    Comparison(
        "erm-complete-support",
        "Logistic regression on the subgroups that training shows with every class.",
        "complete_support.CompleteSupportClassifier",
        _fixed(),
    ),
    Comparison(
        "pseudo-label",
        "Factorised heads label the deployment set; a balanced classifier is trained on it.",
        "pseudo_label.PseudoLabelClassifier",
        _with_heads(_on_deployment),
    ),
    Comparison(
        "cluster-labels",
        "Clusters are paired with classes without labels; a classifier is trained on them.",
        "cluster_labels.ClusterLabelClassifier",
        _on_clusters,
    ),
    Comparison(
        "erm-complete-support-boosted",
        "As erm-complete-support, with gradient boosting.",
        "complete_support.CompleteSupportClassifier",
        _fixed(model="boosted"),
        only_tables=True,
    ),
    Comparison(
        "pseudo-label-boosted",
        "As pseudo-label, with gradient boosting.",
        "pseudo_label.PseudoLabelClassifier",
        _with_heads(_fixed(model="boosted")),
        only_tables=True,
    ),
    Comparison(
        "cluster-labels-boosted",
        "As cluster-labels, with gradient boosting.",
        "cluster_labels.ClusterLabelClassifier",
        lambda setting, budget: {**_on_clusters(setting, budget), "model": "boosted"},
        only_tables=True,
    ),
)
"""Baselines, oracles, and the simple things a careful user would try first."""
