"""Tiny methods for the tests of the runner, and the command line with them: `python toy_methods.py bench run ...`.

Each run leaves a file in the folder `TOY_LOG` when it starts, named after its seed and process.
"""

from __future__ import annotations

import os
import signal
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from supportmatch.bench.methods.interface import Budget, Method, Outcome
from supportmatch.data.problems import Problem, Setting
from supportmatch.history import History


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
    # Workers import a method by its module, so take the toys from the module that they can find.
    import toy_methods

    from supportmatch.bench.methods import METHODS
    from supportmatch.cli import main

    METHODS.update(toy_methods.TOYS)
    main()
