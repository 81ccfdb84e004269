"""The same game on other hardware, as far as a processor can show it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from supportmatch import Hardware, SupportMatchingClassifier, load_problem
from supportmatch.config import default_config
from supportmatch.errors import ConfigError

PROBLEM = load_problem("synthetic", 0)

COMPILE = """
import torch
from supportmatch import Hardware, SupportMatchingClassifier, load_problem
from supportmatch.config import default_config

torch.set_num_threads(1)
problem = load_problem("synthetic", 0)
start = default_config(images=False, n_sources=problem.grid.n_sources)
config = start.model_copy(update={"matching": start.matching.model_copy(update={"steps": 5})})
names = dict(subgroup_names=problem.subgroup_names, class_names=problem.class_names, config=config)
data = (problem.X_train, problem.y_train, problem.subgroup_train, problem.X_deploy)
plain, compiled = (
    SupportMatchingClassifier(**names, hardware=Hardware(compile=wanted)).fit(*data) for wanted in (False, True)
)
for one, other in zip(plain.history_.rows, compiled.history_.rows, strict=True):
    assert all(abs(one[name] - other[name]) < 1e-4 for name in one), (one, other)
assert (plain.predict(problem.X_test) == compiled.predict(problem.X_test)).mean() > 0.99
"""


def fitted(steps: int = 30, **hardware: Any) -> SupportMatchingClassifier:
    start = default_config(images=False, n_sources=PROBLEM.grid.n_sources)
    config = start.model_copy(update={"matching": start.matching.model_copy(update={"steps": steps})})
    model = SupportMatchingClassifier(
        subgroup_names=PROBLEM.subgroup_names,
        class_names=PROBLEM.class_names,
        config=config,
        hardware=Hardware(**hardware),
    )
    return model.fit(PROBLEM.X_train, PROBLEM.y_train, PROBLEM.subgroup_train, PROBLEM.X_deploy)


@pytest.mark.skipif(torch.cuda.is_available(), reason="auto is a GPU here")
def test_without_a_gpu_auto_is_the_processor() -> None:
    assert fitted(device="auto").history_.rows == fitted(device="cpu").history_.rows


def test_mixed_precision_plays_nearly_the_same_game_with_full_precision_weights() -> None:
    full, mixed = fitted(), fitted(precision="bfloat16")
    assert {weight.dtype for weight in mixed.encoder_.parameters()} == {torch.float32}
    assert mixed.history_.rows != full.history_.rows
    for name in ("total", "reconstruction", "discriminator"):
        ours, theirs = np.array(mixed.history_.column(name)), np.array(full.history_.column(name))
        np.testing.assert_allclose(ours, theirs, rtol=0.1, atol=0.02)
    agree = mixed.predict(PROBLEM.X_test) == full.predict(PROBLEM.X_test)
    assert agree.mean() > 0.9


@pytest.mark.parametrize("device", ["abacus", "cuda:99"])
def test_a_device_that_is_not_there_is_one_sentence(device: str) -> None:
    with pytest.raises(ConfigError, match=rf"device '{device}' cannot be used .*choose another, or auto"):
        fitted(device=device)


def test_an_encoder_on_another_device_is_followed_there() -> None:
    model = fitted(steps=1)
    model.encoder_.to("meta")  # holds no values, so that only the way there can be tried
    with pytest.raises(NotImplementedError, match="meta"):
        model.transform(PROBLEM.X_test)


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["", "no-such-compiler"])
def test_compiled_networks_play_the_same_game_and_none_are_needed(compiler: str, tmp_path: Any) -> None:
    import os

    changed = {"CXX": compiler} if compiler else {}
    environment = {**os.environ, **changed, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", COMPILE], check=True, env=environment, timeout=600)
