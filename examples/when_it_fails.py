"""Four tables on which matching fails or is of no use, and what the audit says of each.

`python examples/when_it_fails.py` takes about a minute on one core. Rows are synthetic, so the answer is known. Of each
table it prints the audit's verdict, which counts labels and sees no features; the share of the deployment rows in each
cluster; what was warned of; and the accuracy in each source of an ordinary classifier, of the default, and of two that
learn from clusters.

`docs/explanation/when_it_fails.md` says what to do about it.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supportmatch import (
    ClusterLabelClassifier,
    ErmClassifier,
    Problem,
    SupportMatchingClassifier,
    SupportMatchWarning,
    make_sources,
    preset,
)
from supportmatch.config import ClusteringConfig

Rows = NDArray[np.float64]
ByMethod = dict[str, dict[str, float]]

CLASS_COLUMNS = [0, 1]
MISSING = ((1, 0),)  # class 1 in subgroup 0
MISSING_SUBGROUP = ((0, 0), (1, 0))


def hide_subgroup(seed: int) -> Problem:
    """Make a table in which no column tells the subgroup."""
    return make_sources(missing=MISSING, subgroup_distance=0.0, seed=seed).to_problem()


def lose_subgroup(seed: int) -> Problem:
    """Make a table without any labelled row of subgroup 0."""
    return make_sources(missing=MISSING_SUBGROUP, seed=seed).to_problem()


def turn_classes(problem: Problem) -> Problem:
    """Let the class show itself the other way round in subgroup 0: an interaction of class and subgroup."""

    def turn(x: Any, subgroup: NDArray[Any]) -> Rows:
        turned: Rows = np.array(x)
        here = subgroup == 0
        turned[np.ix_(here, CLASS_COLUMNS)] = turned[np.ix_(here, CLASS_COLUMNS[::-1])]
        return turned

    return replace(
        problem,
        X_train=turn(problem.X_train, problem.subgroup_train),
        X_deploy=turn(problem.X_deploy, problem.oracle.subgroup),  # of the rows as they are; no method sees labels
        X_test=turn(problem.X_test, problem.subgroup_test),
    )


def try_methods(problem: Problem, seed: int, steps: int | None) -> ByMethod:
    """Print what is said beforehand and what happens; return the accuracy in each source by method."""
    config = preset("tables")
    if steps is not None:
        config = config.model_copy(update={"matching": config.matching.model_copy(update={"steps": steps})})
    named: dict[str, Any] = {"subgroup_names": problem.subgroup_names, "random_state": seed}
    mixture = ClusteringConfig(method="mixture")
    matched = SupportMatchingClassifier(**named, config=config)
    methods: dict[str, Any] = {
        "ordinary classifier": ErmClassifier(**named),
        "support-matching": matched,
        "cluster labels": ClusterLabelClassifier(**named),
        "mixture clusters, trees": ClusterLabelClassifier(**named, clustering=mixture, model="boosted"),
    }
    found: ByMethod = {}
    for name, method in methods.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", SupportMatchWarning)
            method.fit(problem.X_train, problem.y_train, problem.subgroup_train, problem.X_deploy)
        for warning in caught:
            print(f"  {name} warns: {warning.message}")
        result = problem.score(method.predict(problem.X_test))
        found[name] = {source: share.value for source, share in result.by_source.items()}
    audit, sizes = matched.audit_, matched.clusters_.sizes
    print(f"  the audit: {audit.setting}, {audit.identifiability}; missing {', '.join(audit.missing)}")
    print(f"  clusters:  {', '.join(f'{share:.2f}' for share in sizes / sizes.sum())} of the deployment rows")
    for name, accuracies in found.items():
        shown = ", ".join(f"{source} {value:.2f}" for source, value in accuracies.items())
        print(f"  {name:<24} {shown}", flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> dict[str, ByMethod]:
    """Go through the tables; return the accuracy in each source by method and table."""
    parser = argparse.ArgumentParser(description="Where matching fails, and what the audit says.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, help="Fewer steps, to see that everything runs.")
    options = parser.parse_args(arguments)
    found: dict[str, ByMethod] = {}

    def show(title: str, problem: Problem) -> None:
        print(f"\n{title}")
        found[title] = try_methods(problem, options.seed, options.steps)

    print("Accuracy in each source, class/subgroup.")
    show("The subgroup cannot be seen: nothing to hide, nothing to gain", hide_subgroup(options.seed))
    show("A whole subgroup is missing: hit or miss, try other seeds", lose_subgroup(options.seed))
    show("The same, and the class looks different in it", turn_classes(lose_subgroup(options.seed)))
    one_missing = make_sources(missing=MISSING, seed=options.seed).to_problem()
    show("One source is missing, and the class looks different in its subgroup", turn_classes(one_missing))
    return found


if __name__ == "__main__":
    main()
