"""The demonstration: an ordinary classifier fails on the source it never saw; support-matching is set beside it."""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supportmatch.audit import audit_sources
from supportmatch.baselines.complete_support import CompleteSupportClassifier
from supportmatch.baselines.erm import ErmClassifier
from supportmatch.checkpoint import new_folder
from supportmatch.clustering import Clusters
from supportmatch.clustering.quality import cluster_quality
from supportmatch.data.containers import Labeled
from supportmatch.data.inputs import FeatureReader
from supportmatch.data.problems import Problem, load_problem
from supportmatch.errors import SupportMatchWarning
from supportmatch.estimator import SupportMatchingClassifier
from supportmatch.metrics import Evaluation, evaluate
from supportmatch.report.figures import figure_accuracy, figure_history, figure_reconstructions, figure_sources
from supportmatch.sources import Support

METHODS = ("erm", "complete-support", "support-matching")


def run_demo(setting: str, seed: int, out: Path | None, *, overwrite: bool = False) -> dict[str, Any]:
    """Run one setting and return the result as one JSON-ready object; words and progress go to standard error."""
    if out is not None:
        # Refuse an existing folder before minutes of work, not after.
        with new_folder(out, overwrite=overwrite) as draft:
            return _run(setting, seed, draft)
    return _run(setting, seed, None)


def _run(setting: str, seed: int, draft: Path | None) -> dict[str, Any]:
    start = time.perf_counter()
    problem = load_problem(setting, seed)
    names: dict[str, Any] = {"subgroup_names": problem.subgroup_names, "class_names": problem.class_names}
    reader = FeatureReader.fit(problem.X_train, problem.X_deploy)
    train = reader.read_labeled(problem.X_train, problem.y_train, problem.subgroup_train, **names)
    audit = audit_sources(train, reader.read(problem.X_deploy, "deployment"))
    _say(f"\n{setting}, seed {seed}\n\n{audit.to_text()}\n")
    matching = SupportMatchingClassifier(**names, random_state=seed, verbose=True)
    methods: dict[str, Any] = {
        "erm": ErmClassifier(**names, random_state=seed, verbose=True),
        "complete-support": CompleteSupportClassifier(**names),
        "support-matching": matching,
    }
    evaluations, results = {}, {}
    for name, method in methods.items():
        begin = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", SupportMatchWarning)
            method.fit(problem.X_train, problem.y_train, problem.subgroup_train, problem.X_deploy)
        seconds = time.perf_counter() - begin
        evaluations[name] = _score(problem, method.predict(problem.X_test))
        notes = [str(w.message) for w in caught if issubclass(w.category, SupportMatchWarning)]
        results[name] = {**evaluations[name].to_json(), "seconds": round(seconds, 2), "warnings": notes}
        _say(f"{name} ({seconds:.0f} s)\n{evaluations[name].to_text()}\n")
        for note in notes:
            _say(f"warning: {note}\n")
    _say(_verdict(evaluations))
    result = {
        "setting": setting,
        "seed": seed,
        "seconds": round(time.perf_counter() - start, 2),
        "audit": audit.to_json(),
        "clustering": _score_clusters(problem, matching.clusters_, train.support),
        "methods": results,
    }
    if draft is not None:
        _draw(problem, train, matching, evaluations, draft)
        (draft / "result.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
        matching.save(draft / "model")
    return result


def _score(problem: Problem, predicted: NDArray[Any]) -> Evaluation:
    grid = problem.grid
    y, s = grid.class_ids(problem.y_test), grid.subgroup_ids(problem.subgroup_test)
    return evaluate(y, grid.class_ids(predicted), s, grid)


def _score_clusters(problem: Problem, clusters: Clusters, support: Support) -> dict[str, Any]:
    """Final scoring of the clusters with the deployment labels, which no method has seen."""
    grid, truth = problem.grid, problem.oracle
    sources = grid.source_ids(grid.class_ids(truth.y), grid.subgroup_ids(truth.subgroup))
    return cluster_quality(clusters.ids, sources, support).to_json()


def _draw(
    problem: Problem,
    train: Labeled,
    model: SupportMatchingClassifier,
    evaluations: dict[str, Evaluation],
    folder: Path,
) -> None:
    missing = frozenset(model.audit_.missing)
    figure_accuracy(evaluations, missing).savefig(folder / "accuracy.png", dpi=150)
    figure_history(model.history_).savefig(folder / "history.png", dpi=150)
    if isinstance(problem.X_test, np.ndarray):
        rows = model.reader_.read_labeled(
            problem.X_test,
            problem.y_test,
            problem.subgroup_test,
            subgroup_names=problem.subgroup_names,
            class_names=problem.class_names,
        )
        figure_sources(train, rows).savefig(folder / "sources.png", dpi=150)
        figure_reconstructions(model.encoder_, rows, missing).savefig(folder / "reconstructions.png", dpi=150)


def _verdict(evaluations: dict[str, Evaluation]) -> str:
    robust = {name: evaluation.robust_accuracy for name, evaluation in evaluations.items()}
    best = max(robust, key=lambda name: robust[name])
    line = ", ".join(f"{name} {value:.3f}" for name, value in robust.items())
    text = f"Robust accuracy (lowest over subgroups, {len(METHODS)} methods): {line}."
    if best != "support-matching":
        text += f" On this data the simpler {best} does at least as well: prefer it here."
    return text + "\n"


def _say(text: str) -> None:
    print(text, file=sys.stderr)
