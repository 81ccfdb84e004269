"""The demonstration: an ordinary classifier fails on the source it never saw; support-matching is set beside it."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from supportmatch.audit import audit_sources
from supportmatch.baselines.complete_support import CompleteSupportClassifier
from supportmatch.baselines.erm import ErmClassifier
from supportmatch.clustering.quality import cluster_quality
from supportmatch.data.containers import Labeled
from supportmatch.data.inputs import FeatureReader
from supportmatch.data.problems import Problem, load_problem
from supportmatch.errors import SupportMatchWarning
from supportmatch.estimator import SupportMatchingClassifier
from supportmatch.metrics import Evaluation
from supportmatch.output import new_folder
from supportmatch.report.figures import figure_accuracy, figure_history, figure_reconstructions, figure_sources

Say = Callable[[str], None]


def run_demo(setting: str, seed: int, out: Path | None, say: Say, *, overwrite: bool = False) -> dict[str, Any]:
    """Run one setting, say what happens in words, and return the result as one JSON-ready object."""
    if out is not None:
        # Refuse an existing folder before minutes of work, not after.
        with new_folder(out, overwrite=overwrite) as draft:
            return _run(setting, seed, draft, say)
    return _run(setting, seed, None, say)


def _run(setting: str, seed: int, draft: Path | None, say: Say) -> dict[str, Any]:
    start = time.perf_counter()
    problem = load_problem(setting, seed)
    names: dict[str, Any] = {"subgroup_names": problem.subgroup_names, "class_names": problem.class_names}
    reader = FeatureReader.fit(problem.X_train, problem.X_deploy)
    train = reader.read_labeled(problem.X_train, problem.y_train, problem.subgroup_train, **names)
    audit = audit_sources(train, reader.read(problem.X_deploy, "deployment"))
    say(f"\n{setting}, seed {seed}\n\n{audit.to_text()}\n")
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
        evaluations[name] = problem.score(method.predict(problem.X_test))
        notes = []
        for warning in caught:
            if issubclass(warning.category, SupportMatchWarning):
                notes.append(str(warning.message))
            else:
                warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
        results[name] = {**evaluations[name].to_json(), "seconds": round(seconds, 2), "warnings": notes}
        say(f"{name} ({seconds:.0f} s)\n{evaluations[name].to_text()}\n")
        for note in notes:
            say(f"warning: {note}\n")
    say("Bags: " + "; ".join(matching.bag_notes_))
    say(_verdict(evaluations))
    result = {
        "setting": setting,
        "seed": seed,
        "seconds": round(time.perf_counter() - start, 2),
        "audit": audit.to_json(),
        # Final scoring with the deployment labels, which no method has seen.
        "clustering": cluster_quality(matching.clusters_.ids, problem.oracle_sources, train.support).to_json(),
        "methods": results,
    }
    if draft is not None:
        _draw(problem, train, matching, evaluations, draft)
        (draft / "result.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
        matching.save(draft / "model")
    return result


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
        names: dict[str, Any] = {"subgroup_names": problem.subgroup_names, "class_names": problem.class_names}
        truth, read = problem.oracle, model.reader_.read_labeled
        # True names only sort the pictures that are shown.
        world = read(problem.X_deploy, truth.y, truth.subgroup, **names)
        test = read(problem.X_test, problem.y_test, problem.subgroup_test, **names)
        figure_sources(train, world).savefig(folder / "sources.png", dpi=150)
        figure_reconstructions(model.encoder_, test, missing).savefig(folder / "reconstructions.png", dpi=150)


def _verdict(evaluations: dict[str, Evaluation]) -> str:
    robust = {name: evaluation.robust_accuracy for name, evaluation in evaluations.items()}
    best = max(robust, key=lambda name: robust[name])
    line = ", ".join(f"{name} {value:.3f}" for name, value in robust.items())
    text = f"Robust accuracy (the lowest over subgroups): {line}."
    if best != "support-matching":
        text += f" On this data the simpler {best} does at least as well: prefer it here."
    return text + "\n"
