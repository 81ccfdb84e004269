"""Why matching fails on three digits: two trials whose rows are in `matching.jsonl`.

    python benchmarks/trials/three_digits.py guided-start --seed 1            # by the names of clusters
    python benchmarks/trials/three_digits.py guided-start --seed 1 --oracle   # by true labels
    python benchmarks/trials/three_digits.py authors-network --seed 1 --steps 4500

`guided-start`: for the first 300 steps the class predictor also learns deployment rows, by the classes of their
clusters (paired without labels) or by their true classes; then the game goes on as always. `authors-network`: the
authors' networks and game with bags balanced by true labels, fewer but larger steps than their 12,000 of 3e-4, scored
every 250 steps.
"""

from __future__ import annotations

import argparse
import json
import time
from copy import deepcopy
from typing import Any

import numpy as np
import torch

from supportmatch import SupportMatchingClassifier, load_problem, preset
from supportmatch.classifier import fit_classifier, predict_rows, transform_rows
from supportmatch.config import Config, default_config
from supportmatch.data.containers import Labeled, Rows, Unlabeled
from supportmatch.matching import EncoderPlayer, Game
from supportmatch.sources import Ids

SETTING = "cmnist-3digit"
GUIDED_STEPS = 300


class Trial(SupportMatchingClassifier):
    """Support-matching that can be guided at the start and scored on the way."""

    def prepare(self, seed: int, *, guide: str | None = None, score_every: int | None = None) -> Trial:
        """Say what to do besides fitting."""
        self.problem = load_problem(SETTING, seed=seed)
        self.guide, self.score_every, self.began = guide, score_every, time.process_time()
        return self

    def _fit_stages(
        self,
        train: Labeled,
        deploy: Unlabeled,
        groups: Ids | None,
        config: Config | None = None,
        guide: Ids | None = None,
    ) -> SupportMatchingClassifier:
        self.train = train
        if self.guide == "oracle":
            guide = train.grid.class_ids(self.problem.oracle.y)
        return super()._fit_stages(train, deploy, groups, config, guide)

    def _watch(self, step: int, averaged: EncoderPlayer, game: Game) -> None:
        if self.score_every and (step + 1) % self.score_every == 0:
            player = deepcopy(averaged).eval()
            head = fit_classifier(player, self.train, self.config_.classifier, self.seed_)
            z = transform_rows(player, self.reader_.read(self.problem.X_test))
            names = np.array(self.train.grid.classes)[predict_rows(head, Rows(z)).argmax(axis=1)]
            print(json.dumps({"step": step + 1, **self.score(names)}), flush=True)

    def score(self, predicted: Any) -> dict[str, Any]:
        """Measure predictions of the test set."""
        found = self.problem.score(predicted).to_json()
        return {
            "robust": found["robust_accuracy"],
            "by_source": {name: part["accuracy"] for name, part in found["by_source"].items()},
            "seconds": round(time.process_time() - self.began),
        }


def main() -> None:
    """Read the command line, fit, print one row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trial", choices=["guided-start", "authors-network"])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--oracle", action="store_true", help="true labels instead of clusters")
    parser.add_argument("--steps", type=int, default=4_500, help="of the authors' game")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    of_authors = chosen.trial == "authors-network"
    changes: dict[str, Any]
    guide: str | None
    if of_authors:
        config = preset("paper-cmnist-3digit")
        changes = {
            "steps": chosen.steps,
            "learning_rate": 1e-3,
            "discriminator_learning_rate": 1e-3,
            "decay_from": 0.5,
            "averaging": 0.995,
        }
        guide = None
    else:
        config = default_config(images=True, n_sources=9)
        changes = {"guided_steps": GUIDED_STEPS, "steps": 2_000}
        guide = "oracle" if chosen.oracle else "clusters"
    config = config.model_copy(update={"matching": config.matching.model_copy(update=changes)})
    problem = load_problem(SETTING, seed=chosen.seed)
    model = Trial(
        subgroup_names=problem.subgroup_names,
        class_names=problem.class_names,
        random_state=chosen.seed,
        config=config,
    ).prepare(chosen.seed, guide=guide, score_every=250 if of_authors else None)
    data = (problem.X_train, problem.y_train, problem.subgroup_train, problem.X_deploy)
    if of_authors or chosen.oracle:
        model.fit_with_oracle_bags(*data, y_deploy=problem.oracle.y, subgroup_deploy=problem.oracle.subgroup)
    else:
        model.fit(*data)
    last = model.history_.rows[-50:]
    row = {
        "trial": f"3digit-{chosen.trial}" + ("-oracle" if chosen.oracle else ""),
        "setting": SETTING,
        "seed": chosen.seed,
        "oracle": of_authors or chosen.oracle,
        **model.score(model.predict(problem.X_test)),
        "last": {name: float(np.mean([step[name] for step in last])) for name in last[0]},
        "config": model.config_.model_dump(mode="json"),
    }
    print(json.dumps(row))


if __name__ == "__main__":
    main()
