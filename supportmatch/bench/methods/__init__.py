"""Every method by name: `METHODS["erm"].fit(problem, seed, configuration)` returns predictions."""

from __future__ import annotations

from supportmatch.bench.methods.comparisons import COMPARISONS
from supportmatch.bench.methods.interface import Budget, Method, Outcome
from supportmatch.bench.methods.support_matching import OURS
from supportmatch.errors import UnknownNameError

__all__ = ["METHODS", "Budget", "Method", "Outcome", "find_method"]

METHODS: dict[str, Method] = {method.name: method for method in (*OURS, *COMPARISONS)}
"""What the runner can run."""


def find_method(name: str) -> Method:
    """Return the method of that name.

    >>> find_method("gdro").summary
    'Group DRO over subgroups (Sagawa et al. 2020).'
    """
    if name not in METHODS:
        raise UnknownNameError(f"unknown method {name!r}: choose one of {', '.join(METHODS)}.")
    return METHODS[name]
