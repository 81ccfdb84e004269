# Every target does its own set-up in .venv; from a fresh clone `make demo` or `make test` is all there is to type.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ready

.PHONY: setup demo test slow check docs bench experiments clean

setup: $(STAMP)

# constraints.txt pins the versions that were tested together, torch among them.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt setuptools
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-build-isolation -e '.[dev]'
	touch $(STAMP)

demo: setup
	$(BIN)/supportmatch demo --out demo-output --overwrite

# Two processes with one thread each: small networks gain nothing from a second thread.
test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

slow: setup
	$(BIN)/python -m pytest -m slow

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: setup
	$(BIN)/sphinx-build -W -n --keep-going -q -b html docs docs/_build

# How fast: let the machine rest meanwhile.
bench: setup
	$(BIN)/python benchmarks/speed.py

# What the committed rows lack for seeds 0-4: hours.
experiments: setup
	$(BIN)/supportmatch bench run --setting all --methods all --seeds 0-4 --out benchmarks/experiments --workers 2

clean:
	rm -rf .venv demo-output docs/_build build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
