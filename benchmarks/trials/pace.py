"""How few steps are enough on digits: support-matching with other numbers of bags and steps.

    python benchmarks/trials/pace.py --trials 4x16-2000 --settings cmnist-sb cmnist-ms --seeds 100-102 --out pace.jsonl

A trial is named BAGSxSIZE-STEPS, and ends in `-unbalanced` or `-oracle` where deployment bags are drawn so, or in
`-guidedSTEPS` where clusters guide the class predictor for so many steps. Seeds from
100 upwards keep those of the published tables untouched. Rows are added to the file as they come.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

from supportmatch.bench.methods import METHODS
from supportmatch.bench.methods.support_matching import recorded, score_clusters
from supportmatch.bench.runs import parse_seeds
from supportmatch.config import Config
from supportmatch.data.problems import find_setting
from supportmatch.estimator import SupportMatchingClassifier


def run_trial(name: str, setting_name: str, seed: int) -> dict[str, object]:
    """Fit once and return the row."""
    shape, steps, *draws = name.split("-")
    guided = int(draws.pop().removeprefix("guided")) if draws and draws[-1].startswith("guided") else 0
    n_bags, bag_size = map(int, shape.split("x"))
    setting = find_setting(setting_name)
    method = METHODS[f"ours-{draws[0] if draws else 'clustering'}"]
    config = Config.model_validate(method.configuration(setting, "fast"))
    bags = config.bags.model_copy(update={"n_bags": n_bags, "bag_size": bag_size})
    matching = config.matching.model_copy(update={"steps": int(steps), "guided_steps": guided})
    config = config.model_copy(update={"bags": bags, "matching": matching})
    problem = setting.load(seed)
    model = SupportMatchingClassifier(
        subgroup_names=problem.subgroup_names, class_names=problem.class_names, random_state=seed, config=config
    )
    began, cpu = time.perf_counter(), time.process_time()
    data = (problem.X_train, problem.y_train, problem.subgroup_train, problem.X_deploy)
    if method.sees_deployment_labels:
        model.fit_with_oracle_bags(*data, y_deploy=problem.oracle.y, subgroup_deploy=problem.oracle.subgroup)
    else:
        model.fit(*data)
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu
    scores = problem.score(model.predict(problem.X_test)).to_json()
    last = model.history_.rows[-50:]
    return {
        "trial": name,
        "setting": setting_name,
        "seed": seed,
        "robust": scores["robust_accuracy"],
        "by_source": {source: cell["accuracy"] for source, cell in scores["by_source"].items()},
        "last": {key: float(np.mean([row[key] for row in last])) for key in last[0]},
        "oracle": method.sees_deployment_labels,
        "method": method.name,
        "clustering": score_clusters(problem, model.clusters_.ids) if hasattr(model, "clusters_") else None,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu_seconds, 1),
        "threads": torch.get_num_threads(),
        "config": recorded(config),
    }


def main() -> None:
    """Run the trials that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", nargs="+", required=True)
    parser.add_argument("--settings", nargs="+", required=True)
    parser.add_argument("--seeds", type=parse_seeds, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    for seed in asked.seeds:
        for setting in asked.settings:
            for name in asked.trials:
                row = run_trial(name, setting, seed)
                with asked.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                print(name, setting, seed, f"{row['robust']:.3f}", f"{row['seconds']} s", flush=True)


if __name__ == "__main__":
    main()
