"""Shape checks on every call of the package under test, and the same random numbers in every test."""

from __future__ import annotations

from jaxtyping import install_import_hook

# Before anything imports them: in the modules that handle tensors beartype checks every annotation, shapes included.
_TENSOR_MODULES = [
    f"supportmatch.{name}"
    for name in ("networks", "losses", "matching", "classifier", "clustering.rank_statistics", "pairing")
]
install_import_hook(_TENSOR_MODULES, "beartype.beartype")

import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402


@pytest.fixture(autouse=True)
def _seed_everything() -> None:
    np.random.seed(0)  # noqa: NPY002  # also what third-party code draws from
    torch.manual_seed(0)
    torch.set_num_threads(1)  # tiny networks: waiting for a second thread costs more than it brings
