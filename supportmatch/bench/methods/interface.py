"""What a method is to the runner: a name, a configuration known beforehand, and predictions for the test rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from numpy.typing import NDArray

from supportmatch.data.problems import Problem, Setting
from supportmatch.history import History

Budget = Literal["fast", "paper", "smoke"]
"""`fast`: the defaults, tuned for two cores. `paper`: as the authors ran it. `smoke`: a few steps, to see that it runs;
its scores mean nothing."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a method returns."""

    predicted: NDArray[Any]
    """Class names for `problem.X_test`."""
    details: dict[str, Any] = field(default_factory=dict)
    """What else was measured, fit for JSON: clusters, the last losses."""
    history: History | None = None
    """What happened step by step."""
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    """Numbers that figures are drawn from."""


class Method(ABC):
    """One way from a problem and a seed to predictions."""

    name: str
    summary: str
    """One sentence for people."""
    sees_deployment_labels: bool = False
    """An oracle: an upper bound, never a result."""

    @abstractmethod
    def configuration(self, setting: Setting, budget: Budget) -> dict[str, Any]:
        """Return every number that decides the run but data and seed, fit for JSON."""

    def refusal(self, setting: Setting) -> str | None:
        """Return why the method cannot be used on this setting, or None."""
        return None

    @abstractmethod
    def fit(self, problem: Problem, seed: int, configuration: dict[str, Any]) -> Outcome:
        """Train as `configuration` says and predict the test rows."""


def found_by_name(method: Method) -> tuple[Callable[[str], Method], tuple[str]]:
    """Return how a listed method is rebuilt in another process: what `__reduce__` should return."""
    from supportmatch.bench.methods import find_method

    return find_method, (method.name,)
