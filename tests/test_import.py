"""Importing must stay light: torch and scikit-learn cost seconds each."""

from __future__ import annotations

import subprocess
import sys

import pytest

import supportmatch

HEAVY = ("torch", "sklearn")


def run_python(code: str) -> str:
    """Run code in a fresh interpreter and return what it printed last."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_importing_the_package_loads_neither_torch_nor_scikit_learn() -> None:
    assert run_python(f"import sys, supportmatch; print([m for m in {HEAVY} if m in sys.modules])") == "[]"


def test_asking_the_command_line_for_help_loads_neither_torch_nor_scikit_learn() -> None:
    code = f"""
import runpy, sys
sys.argv = ["supportmatch", "--help"]
try:
    runpy.run_module("supportmatch", run_name="__main__", alter_sys=True)
except SystemExit as stop:
    assert not stop.code, stop.code
print([m for m in {HEAVY} if m in sys.modules])
"""
    assert run_python(code) == "[]"


@pytest.mark.parametrize("name", supportmatch.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(supportmatch, name) is not None


def test_public_names_are_listed_once_in_order_and_each_has_a_home() -> None:
    assert supportmatch.__all__ == sorted(set(supportmatch.__all__))
    assert set(supportmatch.__all__) == set(supportmatch._HOMES)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"'supportmatch' has no attribute 'make_fair'"):
        _ = supportmatch.make_fair
    assert not hasattr(supportmatch, "__wrapped__")
