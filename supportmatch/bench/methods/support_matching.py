"""The paper's method and its ablations: each is the default configuration with one thing changed.

(Without balancing two are: see `_unbalanced`.)

What trains is imported when it is needed, so that commands that only list or plan answer at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from supportmatch.bench.methods.interface import Budget, Method, Outcome, found_by_name
from supportmatch.config import PRESETS, ClusteringConfig, Config, default_config, fit_bags
from supportmatch.data.problems import Problem, Setting
from supportmatch.sources import Ids

Change = Callable[[Config, Setting, Budget], Config]

_PAPER_PRESET = {
    "cmnist-sb": "paper-cmnist-sb",
    "cmnist-ms": "paper-cmnist-ms",
    "cmnist-3digit": "paper-cmnist-3digit",
    "adult-sb": "paper-adult",
    "adult-ms": "paper-adult",
}


@dataclass(frozen=True)
class SupportMatching(Method):
    """Support-matching with one change."""

    name: str
    summary: str
    change: Change = lambda config, setting, budget: config
    sees_deployment_labels: bool = False
    refuses: Callable[[Setting], str | None] = lambda setting: None

    def __reduce__(self) -> tuple[Callable[[str], Method], tuple[str]]:
        """Travel to other processes by name, because functions made on the spot cannot."""
        return found_by_name(self)

    def configuration(self, setting: Setting, budget: Budget) -> dict[str, Any]:
        """Return the resolved `Config`, as rows record it."""
        return recorded(self.change(starting_point(setting, budget), setting, budget))

    def refusal(self, setting: Setting) -> str | None:
        """Return why the change makes no sense here."""
        return self.refuses(setting)

    def fit(self, problem: Problem, seed: int, configuration: dict[str, Any]) -> Outcome:
        """Fit, predict, and keep what figures need."""
        from supportmatch.bench.methods.watched import WatchedOnTest, arrays_to_show

        config = Config.model_validate(configuration)
        model = WatchedOnTest(
            subgroup_names=problem.subgroup_names, class_names=problem.class_names, random_state=seed, config=config
        )
        model.look_at(problem)
        data = (problem.X_train, problem.y_train, problem.subgroup_train, problem.X_deploy)
        if self.sees_deployment_labels:
            truth = problem.oracle
            model.fit_with_oracle_bags(*data, y_deploy=truth.y, subgroup_deploy=truth.subgroup)
        else:
            model.fit(*data)
        last = model.history_.rows[-50:]
        details: dict[str, Any] = {"last_steps": {k: float(np.mean([row[k] for row in last])) for k in last[0]}}
        if hasattr(model, "clusters_"):
            details["clustering"] = score_clusters(problem, model.clusters_.ids)
        if model.final_ is not None:
            by_z = np.array(model.grid_.classes)[model.judge_by_z(problem.X_test).argmax(axis=1)]
            details["z_alone"] = problem.score(by_z).to_json()["robust_accuracy"]
            details["agreement"] = model.agreement_
        return Outcome(model.predict(problem.X_test), details, model.history_, arrays_to_show(model))


def recorded(config: Config) -> dict[str, Any]:
    """Return what decides a run; how gaps in tables are filled has no part, since the settings have none."""
    # Named only where they are used, so that rows from before there were such settings stay rows of the same run.
    unused: dict[str, Any] = {} if config.matching.guided_steps else {"matching": {"guided_steps"}}
    if config.final.learns_from == "z":
        unused["final"] = True
    return config.model_dump(mode="json", exclude={"table": True, **unused})


def our_clustering(setting: Setting, budget: Budget) -> ClusteringConfig:
    """Return our default clustering, also where the paper's preset has rank statistics (that is `ours-rank`)."""
    return starting_point(setting, "smoke" if budget == "smoke" else "fast").clustering


def score_clusters(problem: Problem, ids: Ids) -> dict[str, Any]:
    """Compare clusters with the true sources, after the fact."""
    from supportmatch.clustering.quality import cluster_quality

    grid = problem.grid
    support = grid.support(grid.class_ids(problem.y_train), grid.subgroup_ids(problem.subgroup_train))
    return cluster_quality(ids, problem.oracle_sources, support).to_json()


def starting_point(setting: Setting, budget: Budget) -> Config:
    """Return the configuration that a method changes one thing of."""
    if budget == "paper" and setting.name in _PAPER_PRESET:
        return PRESETS[_PAPER_PRESET[setting.name]]
    if setting.family == "celeba":
        config = PRESETS["paper-celeba" if budget == "paper" else "faces"]
    else:
        config = fit_bags(PRESETS["lean-images" if setting.kind == "images" else "lean-tables"], setting.grid.n_sources)
    if budget == "smoke":
        config = _with(config, matching={"steps": 3}, clustering={"pretrain_steps": 3}, classifier={"epochs": 1})
    return config


def _with(config: Config, **stages: Mapping[str, Any]) -> Config:
    """Return the configuration with some fields of some stages changed, checked anew."""
    values = config.model_dump()
    for stage, fields in stages.items():
        values[stage] |= fields
    return Config.model_validate(values)


def _clustered_by(method: str) -> Change:
    """Cluster with another method on the codes that suit the rows, with lean heads unless the budget is the paper's."""

    def change(config: Config, setting: Setting, budget: Budget) -> Config:
        clustering = config.clustering if setting.kind == "images" else PRESETS["paper-adult"].clustering
        fields: dict[str, Any] = {"method": method}
        if budget != "paper":  # on tables the authors' pairs of 4,000 rows take minutes a run
            fields |= {"head_batch": 256, "head_steps": 1_000}
        if budget == "smoke":
            fields |= {"head_steps": 3, "pretrain_steps": 3}
        return _with(config, clustering=clustering.model_dump() | fields)

    return change


def _unbalanced(config: Config, setting: Setting, budget: Budget) -> Config:
    """Draw deployment bags as the rows come.

    The non-saturating loss goes on pulling until the shares of sources match too, and without balancing they should
    not: minimax, which lets go of a discriminator that is sure, did better (benchmarks/trials).
    """
    bags: dict[str, Any] = {"balancing": "none"}
    if setting.family == "adult" and budget == "paper":  # the authors then drew fewer, larger bags
        bags |= {"n_bags": 16, "bag_size": 32}
    lets_go = {"adversarial_loss": "minimax"} if config.matching.adversarial_loss == "non-saturating" else {}
    return _with(config, bags=bags, matching=lets_go)


def _instance(change: Change = lambda config, setting, budget: config) -> Change:
    return lambda config, setting, budget: _with(
        change(config, setting, budget), discriminator={"attention": "instance"}
    )


def _our_clustering(config: Config, setting: Setting, budget: Budget) -> Config:
    return _with(config, clustering=our_clustering(setting, budget).model_dump())


def _k_clusters(k: int) -> Change:
    return lambda config, setting, budget: _with(_our_clustering(config, setting, budget), clustering={"n_clusters": k})


def _refuse_k(k: int) -> Callable[[Setting], str | None]:
    def refuses(setting: Setting) -> str | None:
        if setting.kind == "table":
            return "on tables the clusters are the sources themselves (factorised heads), so K cannot differ from them."
        if setting.grid.n_sources >= k:
            return f"{setting.name} has {setting.grid.n_sources} sources, so {k} clusters are not more than sources."
        return None

    return refuses


def _refuse_faces(setting: Setting) -> str | None:
    return "faces have a preset of their own, which `ours-clustering` has." if setting.family == "celeba" else None


def _refuse_tables(reason: str) -> Callable[[Setting], str | None]:
    return lambda setting: reason if setting.kind == "table" else None


def _default(config: Config, setting: Setting, budget: Budget) -> Config:
    """Return what `fit` does when nothing is said."""
    config = default_config(images=setting.kind == "images", n_sources=setting.grid.n_sources)
    return (
        config
        if budget != "smoke"
        else _with(
            config,
            matching={"steps": 3},
            clustering={"pretrain_steps": 3},
            classifier={"epochs": 1},
            final={"epochs": 1},
        )
    )


OURS: tuple[Method, ...] = (
    SupportMatching(
        "supportmatch",
        "What `fit` does by default: a guided game (digits), then a classifier of the rows of both sets.",
        _default,
        refuses=_refuse_faces,
    ),
    *(
        SupportMatching(
            f"supportmatch-k{k}",
            f"The default with {k} clusters for four sources.",
            lambda config, setting, budget, k=k: _with(_default(config, setting, budget), clustering={"n_clusters": k}),  # type: ignore[misc]
            refuses=lambda setting, k=k: _refuse_faces(setting) or _refuse_k(k)(setting),  # type: ignore[misc]
        )
        for k in (6, 8)
    ),
    SupportMatching("ours-clustering", "Support-matching; bags balanced by our default clustering.", _our_clustering),
    SupportMatching(
        "ours-rank",
        "Support-matching; bags balanced by the paper's clustering (rank statistics).",
        _clustered_by("rank-statistics"),
    ),
    SupportMatching(
        "ours-unbalanced", "Support-matching; deployment bags drawn as the rows come, minimax on digits.", _unbalanced
    ),
    SupportMatching(
        "ours-oracle", "Support-matching; bags balanced by true deployment labels.", sees_deployment_labels=True
    ),
    SupportMatching("ours-kmeans", "Support-matching; bags balanced by k-means.", _clustered_by("kmeans")),
    *(
        SupportMatching(
            f"ours-clustering-k{k}",
            f"Support-matching; {k} clusters for four sources.",
            _k_clusters(k),
            refuses=_refuse_k(k),
        )
        for k in (6, 8)
    ),
    SupportMatching(
        "ours-dot-product",
        "Support-matching; dot-product attention in the discriminator.",
        lambda config, setting, budget: _with(
            _our_clustering(config, setting, budget), discriminator={"attention": "dot-product"}
        ),
    ),
    SupportMatching(
        "ours-stop-gradient",
        "Support-matching; the adversary moves training codes only.",
        lambda config, setting, budget: _with(
            _our_clustering(config, setting, budget), matching={"stop_gradient": True}
        ),
        refuses=_refuse_tables("on tables this is what ours-clustering does."),
    ),
    SupportMatching(
        "ours-mlp-head",
        "Support-matching; the classifier on z that the paper describes for tables.",
        lambda config, setting, budget: _with(_our_clustering(config, setting, budget), classifier={"hidden": (35,)}),
        refuses=lambda setting: "the paper's classifier on images is linear." if setting.kind == "images" else None,
    ),
    SupportMatching(
        "instance-clustering", "The discriminator judges rows one by one; our clustering.", _instance(_our_clustering)
    ),
    SupportMatching(
        "instance-unbalanced",
        "The discriminator judges rows one by one; no balancing, minimax on digits.",
        _instance(_unbalanced),
    ),
    SupportMatching(
        "instance-oracle",
        "The discriminator judges rows one by one; bags balanced by true deployment labels.",
        _instance(),
        sees_deployment_labels=True,
    ),
)
"""Support-matching and its ablations."""
