"""Several processes that train together do what one does, and end together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from supportmatch import SupportMatchingClassifier, load_problem
from supportmatch.config import default_config
from supportmatch.errors import ConfigError
from supportmatch.ranks import ALONE, Ranks, joined

TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
LAUNCHED = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default"}
STEPS = 20

FIT_AND_SHOW = f"""
import json, sys
import torch
from supportmatch import SupportMatchingClassifier, load_problem
from supportmatch.config import default_config
from supportmatch.ranks import joined

torch.set_num_threads(1)
problem = load_problem("synthetic", 0)
config = default_config(images=False, n_sources=problem.grid.n_sources)
matching = config.matching.model_copy(update={{"steps": {STEPS}, "discriminator_updates": 2}})
bags = config.bags.model_copy(update={{"n_bags": 7}})  # shared unevenly
config = config.model_copy(update={{"matching": matching, "bags": bags}})
model = SupportMatchingClassifier(
    subgroup_names=problem.subgroup_names, class_names=problem.class_names, config=config
)
with joined() as model._ranks:
    model.fit(problem.X_train, problem.y_train, problem.subgroup_train, problem.X_deploy)
    if model._ranks.is_first:
        weights = [parameter.flatten().tolist() for parameter in model.encoder_.parameters()]
        result = {{"size": model._ranks.size, "history": model.history_.rows, "weights": weights}}
        open(sys.argv[1], "w").write(json.dumps(result))
"""

FIT_SLOWLY = """
import functools, os, sys, time
import supportmatch.fitting
from supportmatch import cli
from supportmatch.snapshots import Snapshots

class Slow(Snapshots):
    def after_step(self, step, *others, **named):
        time.sleep(0.02)  # so that there is time to end a process
        super().after_step(step, *others, **named)
        name = "first" if self.writes else "second"
        open(os.path.join(os.environ["STEPS_OF"], name), "w").write(f"{os.getpid()} {step}")

supportmatch.fitting.Snapshots = functools.partial(Slow, every=0.1)
cli.main()
"""


def test_bags_are_dealt_out_whole_and_all() -> None:
    bags = np.arange(21).reshape(7, 3)
    parts = [Ranks(rank, 3).own(bags) for rank in range(3)]
    assert [len(part) for part in parts] == [3, 2, 2]
    assert sorted(np.concatenate(parts)[:, 0].tolist()) == bags[:, 0].tolist()


def test_more_processes_than_bags_are_refused() -> None:
    Ranks(0, 4).check(4)
    with pytest.raises(ConfigError, match="5 processes cannot share 4 bags"):
        Ranks(0, 5).check(4)


def test_without_torchrun_a_process_is_alone() -> None:
    with joined() as ranks:
        assert ranks == ALONE
    assert ranks.average({"loss": 1.5}, 1.0) == {"loss": 1.5}
    assert ranks.tell(np.array([2, 1]), 2).tolist() == [2, 1]
    assert not ranks.any(False)
    weight = torch.nn.Parameter(torch.ones(2))
    weight.sum().backward()
    ranks.average_gradients([weight], 1.0)
    assert weight.grad is not None
    assert weight.grad.tolist() == [1, 1]


def test_two_processes_have_the_losses_and_weights_of_one(tmp_path: Path) -> None:
    script = tmp_path / "fit.py"
    script.write_text(FIT_AND_SHOW)
    results = []
    for name, launcher in (("one", (sys.executable,)), ("two", TORCHRUN)):
        subprocess.run([*launcher, str(script), str(tmp_path / name)], check=True, env=LAUNCHED, timeout=300)
        results.append(json.loads((tmp_path / name).read_text()))
    one, two = results
    assert (one["size"], two["size"]) == (1, 2)
    assert len(one["history"]) == len(two["history"]) == STEPS
    for mine, theirs in zip(one["history"], two["history"], strict=True):
        assert theirs == pytest.approx(mine, rel=1e-4, abs=1e-6)
    for own, other in zip(one["weights"], two["weights"], strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-3, atol=1e-5)


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    problem = load_problem("synthetic", 0)
    for name, rows, columns in (
        ("train", problem.X_train, {"label": problem.y_train, "group": problem.subgroup_train}),
        ("deploy", problem.X_deploy, {}),
    ):
        table = {**{f"x{i}": rows[:, i] for i in range(rows.shape[1])}, **columns}
        lines = [",".join(map(str, row)) for row in zip(*table.values(), strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join([",".join(table), *lines]) + "\n")
    (tmp_path / "settings.toml").write_text("[matching]\nsteps = 400\n[classifier]\nepochs = 1\n")
    (tmp_path / "slow.py").write_text(FIT_SLOWLY)
    names = ",".join(map(str, problem.subgroup_names))
    options = ["--label", "label", "--subgroup", "group", "--subgroups", names, "--deploy", "deploy.csv"]
    return ["fit", "train.csv", *options, "--config", "settings.toml", "--out", "model", "--quiet"]


@contextmanager
def started(tmp_path: Path, command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Start two processes and wait until both are in the middle of the game, with a snapshot taken."""
    process = subprocess.Popen(
        [*TORCHRUN, str(tmp_path / "slow.py"), *command],
        cwd=tmp_path,
        env={**LAUNCHED, "STEPS_OF": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        end = time.monotonic() + 120
        while not (tmp_path / ".model-unfinished" / "game.safetensors").exists() or not (tmp_path / "second").exists():
            assert process.poll() is None, process.stderr and process.stderr.read()
            assert time.monotonic() < end
            time.sleep(0.05)
        yield process
    finally:
        process.kill()


def pid_of(tmp_path: Path, name: str) -> int:
    path, end = tmp_path / name, time.monotonic() + 60
    while not (path.exists() and (text := path.read_text())):  # it is written after the snapshot
        assert time.monotonic() < end
        time.sleep(0.01)
    return int(text.split()[0])


@pytest.mark.parametrize("victim", ["first", "second"])
def test_a_process_that_dies_ends_the_others_with_a_sentence_and_the_run_can_go_on(
    tmp_path: Path, command: list[str], victim: str
) -> None:
    with started(tmp_path, command) as process:
        os.kill(pid_of(tmp_path, victim), signal.SIGKILL)
        _, said = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "another of the 2 processes of this training has ended" in said
    assert "The same command goes on from the last snapshot" in said
    assert not (tmp_path / "model").exists()
    assert (tmp_path / ".model-unfinished" / "game.safetensors").exists()

    alone = [sys.executable, "-m", "supportmatch", *[word for word in command if word != "--quiet"]]
    resumed = subprocess.run(
        alone, check=False, cwd=tmp_path, env=LAUNCHED, capture_output=True, text=True, timeout=300
    )
    assert resumed.returncode == 0, resumed.stderr
    assert "Going on from" in resumed.stdout
    history = (tmp_path / "model" / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in history] == list(range(400))
    assert not (tmp_path / ".model-unfinished").exists()


def test_a_signal_stops_all_processes_after_the_same_step(tmp_path: Path, command: list[str]) -> None:
    with started(tmp_path, command) as process:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "The same command does the rest" in said
    steps = [(tmp_path / name).read_text().split()[1] for name in ("first", "second")]
    assert steps[0] == steps[1]


def test_the_estimator_is_alone_unless_told() -> None:
    problem = load_problem("synthetic", 0)
    config = default_config(images=False, n_sources=problem.grid.n_sources)
    assert SupportMatchingClassifier(config=config)._ranks == ALONE
