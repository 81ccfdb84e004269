"""Tiny methods for the tests of the runner, and the command line with them: `python toy_methods.py bench run ...`.

Each run leaves a file in the folder `TOY_LOG` when it starts, named after its seed and process.
Below are also the made-up rows of the other tests.
"""

from __future__ import annotations

import hashlib
import os
import signal
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from supportmatch.bench.methods.interface import Budget, Method, Outcome
from supportmatch.data.problems import Problem, Setting
from supportmatch.history import History
from supportmatch.metrics import OVERALL


def made_up(method: str, seed: int, score: float | None, setting: str = "cmnist-sb", **fields: Any) -> dict[str, Any]:
    """A row in which every metric has the same artificial value."""
    return {
        "setting": setting,
        "method": method,
        "seed": seed,
        "budget": "fast",
        "sees_deployment_labels": method.endswith("-oracle"),
        **dict.fromkeys(OVERALL, score),
        "by_source": {},
        "by_subgroup": {},
        "details": {},
        "seconds": 10.0 + seed,
        "cpu_seconds": 9.0,
        "versions": {"supportmatch": "0"},
        "code": "0" * 12,
        "config": {"steps": 1},
        "data_hash": "made up",
        "config_hash": made_up_hash(setting, method, seed),
        "error": None,
        **fields,
    }


def made_up_hash(*parts: object) -> str:
    """Sixteen digits, as the runner makes them."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def wait_until(holds: Callable[[], bool], what: str, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.1)


class Guess(Method):
    """Predicts at random, after a while if `seconds` is set."""

    summary = "Guesses."

    def __init__(self, name: str = "guess", seconds: float = 0.0) -> None:
        self.name, self.seconds = name, seconds

    def configuration(self, setting: Setting, budget: Budget) -> dict[str, Any]:
        return {"seconds": self.seconds, "classes": list(setting.class_names)}

    def fit(self, problem: Problem, seed: int, configuration: dict[str, Any]) -> Outcome:
        if "TOY_LOG" in os.environ:
            (Path(os.environ["TOY_LOG"]) / f"{seed}-{os.getpid()}").touch()
        time.sleep(configuration["seconds"])
        rng = np.random.default_rng(seed)
        predicted = rng.choice(configuration["classes"], len(problem.y_test))
        history = History()
        history.append(0, total=1.5)
        details = {"share": np.float32(0.5), "undefined": float("nan")}
        return Outcome(predicted, details, history, {"codes": np.arange(3)})


class Waits(Guess):
    """Goes on when there is a file `go` in `TOY_LOG`."""

    def fit(self, problem: Problem, seed: int, configuration: dict[str, Any]) -> Outcome:
        outcome = super().fit(problem, seed, configuration)
        while not (Path(os.environ["TOY_LOG"]) / "go").exists():
            time.sleep(0.05)
        return outcome


class Broken(Guess):
    """Raises, as long as there is no file `mended` in `TOY_LOG`."""

    def fit(self, problem: Problem, seed: int, configuration: dict[str, Any]) -> Outcome:
        outcome = super().fit(problem, seed, configuration)
        if not (Path(os.environ["TOY_LOG"]) / "mended").exists():
            raise ArithmeticError("the numbers do not add up\nand more")
        return outcome


class Dies(Guess):
    """Is killed as the system kills when memory runs out."""

    def fit(self, problem: Problem, seed: int, configuration: dict[str, Any]) -> Outcome:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


class Warns(Guess):
    """Sees deployment labels, warns, and tells how many threads torch uses."""

    sees_deployment_labels = True

    def fit(self, problem: Problem, seed: int, configuration: dict[str, Any]) -> Outcome:
        import torch

        warnings.warn("a cluster is dying", stacklevel=1)
        outcome = super().fit(problem, seed, configuration)
        return replace(outcome, details={"threads": torch.get_num_threads()})


class Refuses(Guess):
    """Applies to no setting, unless `TOY_WILLING` is set."""

    def refusal(self, setting: Setting) -> str | None:
        return None if "TOY_WILLING" in os.environ else "this method needs every subgroup in training."


TOYS: dict[str, Method] = {
    method.name: method
    for method in (
        Guess(),
        Guess("slow", 1.0),
        Waits("waits"),
        Broken("broken"),
        Dies("dies"),
        Warns("warns"),
        Refuses("refuses"),
    )
}

if __name__ == "__main__":
    # A shell's background jobs ignore interrupts, and so would everything that a test started from one starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Workers import a method by its module, so take the toys from the module that they can find.
    import toy_methods

    from supportmatch.bench.methods import METHODS
    from supportmatch.cli import main

    METHODS.update(toy_methods.TOYS)
    main()
