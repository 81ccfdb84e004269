"""Census rows, and the simple things that the default has to be held against.

`python examples/tabular_adult.py` takes about a minute on two cores. Training has no woman who earns more than 50,000
(`--setting adult-ms`: no woman at all). Here one of the simple things is better still: the last line says which.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from supportmatch import (
    ClusterLabelClassifier,
    CompleteSupportClassifier,
    ErmClassifier,
    PseudoLabelClassifier,
    SupportMatchingClassifier,
    load_problem,
    preset,
)


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Train every method, print accuracies by source, and return the robust accuracy of each."""
    parser = argparse.ArgumentParser(description="Support-matching beside simple things, on Adult.")
    parser.add_argument("--setting", choices=("adult-sb", "adult-ms"), default="adult-sb")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, help="Fewer steps, to see that everything runs.")
    options = parser.parse_args(arguments)

    problem = load_problem(options.setting, options.seed)
    config = preset("tables")
    if options.steps is not None:
        config = config.model_copy(
            update={"matching": config.matching.model_copy(update={"steps": options.steps})},
        )
    named: dict[str, Any] = {"subgroup_names": problem.subgroup_names, "class_names": problem.class_names}
    seeded = {**named, "random_state": options.seed}
    methods: dict[str, Any] = {
        "ordinary classifier": ErmClassifier(**seeded),
        "complete support": CompleteSupportClassifier(**named),
        "pseudo-labels": PseudoLabelClassifier(**seeded),
        "pseudo-labels, boosted": PseudoLabelClassifier(**seeded, model="boosted"),
        "cluster labels": ClusterLabelClassifier(**seeded),
        "support-matching": SupportMatchingClassifier(**seeded, config=config),
    }
    robust = {}
    for name, method in methods.items():
        method.fit(problem.X_train, problem.y_train, problem.subgroup_train, problem.X_deploy)
        result = problem.score(method.predict(problem.X_test))
        robust[name] = result.robust_accuracy
        by_source = ", ".join(f"{source} {share.value:.2f}" for source, share in result.by_source.items())
        print(f"{name:<24}{result.robust_accuracy:.3f}   {by_source}", flush=True)
    better = [name for name, value in robust.items() if value >= robust["support-matching"]]
    better.remove("support-matching")
    print(f"\nAt least as good as support-matching here: {', '.join(better) or 'nothing'}.")
    return robust


if __name__ == "__main__":
    main()
