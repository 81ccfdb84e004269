"""Coloured digits: the problem that the method was made for.

`python examples/colored_digits.py` trains on digits two and four of which no purple four has a label; a minute or two
on two cores. `--setting cmnist-ms` takes away everything purple, `cmnist-3digit` four of nine sources.
`--rows 300 --steps 10` shows in seconds that everything runs, and no more.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from supportmatch import ClusterLabelClassifier, ErmClassifier, SupportMatchingClassifier, load_problem
from supportmatch.config import PRESETS, default_config


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Train three methods, print accuracies by source, and return the robust accuracy of each."""
    parser = argparse.ArgumentParser(description="Support-matching on coloured digits.")
    parser.add_argument("--setting", choices=("cmnist-sb", "cmnist-ms", "cmnist-3digit"), default="cmnist-sb")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=PRESETS["images"].matching.steps)
    parser.add_argument("--rows", type=int, help="At most so many rows of either set.")
    parser.add_argument("--out", type=Path, help="Folder to save the model to.")
    options = parser.parse_args(arguments)

    problem = load_problem(options.setting, options.seed)
    rng = np.random.default_rng(options.seed)
    train, deploy = (rng.permutation(len(rows))[: options.rows] for rows in (problem.X_train, problem.X_deploy))
    labelled = problem.X_train[train], problem.y_train[train], problem.subgroup_train[train]

    config = default_config(images=True, n_sources=problem.grid.n_sources)  # a bag size that every source divides
    matching = config.matching.model_copy(update={"steps": options.steps})
    named: dict[str, Any] = {"subgroup_names": problem.subgroup_names, "class_names": problem.class_names}
    seeded = {**named, "random_state": options.seed}
    matched = SupportMatchingClassifier(**seeded, config=config.model_copy(update={"matching": matching}), verbose=True)
    methods: dict[str, Any] = {
        "ordinary classifier": ErmClassifier(**seeded),
        "cluster labels": ClusterLabelClassifier(**seeded),
        "support-matching": matched,
    }
    robust = {}
    for name, method in methods.items():
        method.fit(*labelled, problem.X_deploy[deploy])
        result = problem.score(method.predict(problem.X_test))
        robust[name] = result.robust_accuracy
        by_source = ", ".join(f"{source} {share.value:.2f}" for source, share in result.by_source.items())
        print(f"{name:<21}{result.robust_accuracy:.3f}   {by_source}", flush=True)
    print(f"\n{matched.audit_.to_text()}")
    if options.out is not None:
        matched.save(options.out)
    return robust


if __name__ == "__main__":
    main()
