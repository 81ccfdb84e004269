"""Which scores without labels go with true robust accuracy: many short runs of each setting, good and bad.

    python benchmarks/trials/scores.py --settings cmnist-ms adult-sb --seeds 100-109 --out scores.jsonl

`python benchmarks/experiments.py --text-only` puts the correlations into docs/explanation/choosing.md.

A run is the paper's game at a third of the lean budget, with or without a guided start in turns, so that some go wrong;
what is scored is the classifier on z. True labels are used for the column `robust` alone. Seeds from 100 upwards keep
those of the published tables untouched.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from supportmatch import SupportMatchingClassifier
from supportmatch.bags import GroupedBags, TrainingBags
from supportmatch.bench.runs import parse_seeds
from supportmatch.classifier import predict_rows, transform_rows
from supportmatch.config import PRESETS, Config, fit_bags
from supportmatch.data.containers import Labeled, Rows, Unlabeled
from supportmatch.data.problems import find_setting
from supportmatch.final import name_softly, same_class
from supportmatch.pairing import pair_clusters
from supportmatch.selection import (
    bag_accuracy,
    dependence,
    entropy,
    reconstruction,
    simplicity,
    worst_source_accuracy,
)
from supportmatch.sources import Ids


class Scored(SupportMatchingClassifier):
    """Support-matching that keeps what it read."""

    def _fit_stages(
        self,
        train: Labeled,
        deploy: Unlabeled,
        groups: Ids | None,
        config: Config | None = None,
        guide: Ids | None = None,
    ) -> SupportMatchingClassifier:
        self.train, self.deploy, self.groups = train, deploy, groups
        return super()._fit_stages(train, deploy, groups, config, guide)


def score_run(setting_name: str, seed: int) -> dict[str, Any]:
    """Fit once, and return every score beside the truth."""
    setting = find_setting(setting_name)
    problem = setting.load(seed)
    images = setting.kind == "images"
    lean = fit_bags(PRESETS["lean-images" if images else "lean-tables"], setting.grid.n_sources)
    guided = 100 if images and seed % 2 else 0
    changes = {"steps": 600 if images else 500, "guided_steps": guided}
    config = lean.model_copy(
        update={
            "matching": lean.matching.model_copy(update=changes),
            "bags": lean.bags.model_copy(update={"n_bags": 4 if images else lean.bags.n_bags}),
        }
    )
    names: dict[str, Any] = {"subgroup_names": problem.subgroup_names, "class_names": problem.class_names}
    model = Scored(**names, random_state=seed, config=config)
    data = (problem.X_train, problem.y_train, problem.subgroup_train, problem.X_deploy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(*data)
        again = SupportMatchingClassifier(**names, random_state=seed + 1_000, config=config).fit(*data)
    train, deploy, player, support = model.train, model.deploy, model.encoder_, model.train.support
    z_train, z_deploy = transform_rows(player, train), transform_rows(player, deploy)
    p_train, p_deploy = (predict_rows(model.classifier_, Rows(z)) for z in (z_train, z_deploy))
    pairing = pair_clusters(model.clusters_, deploy, support, seed)
    sources = name_softly(model.clusters_, pairing, train.grid)
    assert model.groups is not None
    bags = config.bags
    samplers = (
        TrainingBags.of(train, bags.n_bags, bags.bag_size, seed, "scores"),
        GroupedBags(model.groups, bags.n_bags, bags.bag_size, seed, "scores"),
    )
    subgroups = sources.argmax(axis=1) % train.grid.n_subgroups
    named = simplicity(p_deploy.argmax(axis=1), subgroups, deploy, support, seed)
    own = None
    if named is not None:
        others = [score for name, score in named.scores.items() if name != named.cluster_ids]
        own = named.scores[named.cluster_ids] - max(others)
    result = problem.score(model.predict(problem.X_test))
    row = {
        "setting": setting_name,
        "seed": seed,
        "guided_steps": guided,
        "robust": result.robust_accuracy,
        "bag_accuracy": bag_accuracy(z_train, z_deploy, samplers, config.discriminator, seed),
        "reconstruction": reconstruction(player, deploy),
        "training_accuracy": float(np.mean(p_train.argmax(axis=1) == train.y)),
        "worst_source": worst_source_accuracy(p_train, train),
        "class_in_z": dependence(z_train, train.y),
        "subgroup_in_z": dependence(z_train, train.s),
        "entropy": entropy(p_deploy),
        "agreement": float(same_class(sources, p_deploy).mean()),
        "restart_agreement": float(np.mean(again.predict(problem.X_deploy) == model.predict(problem.X_deploy))),
        "simplicity": own,
    }
    return {name: None if isinstance(value, float) and not np.isfinite(value) else value for name, value in row.items()}


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", nargs="+", required=True)
    parser.add_argument("--seeds", type=parse_seeds, required=True)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    for seed in asked.seeds:
        for setting in asked.settings:
            row = score_run(setting, seed)
            with asked.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print({name: round(v, 3) if isinstance(v, float) else v for name, v in row.items()}, flush=True)


if __name__ == "__main__":
    main()
