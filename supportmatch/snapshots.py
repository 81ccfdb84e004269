"""Snapshots of a game: everything that is needed to go on exactly where it stopped.

Bags are pure functions of (seed, step), so a snapshot holds the networks, their averages, the optimisers, the number of
the step and what happened so far, in one safetensors file that is replaced as a whole.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from supportmatch.errors import ModelFileError, StoppedError
from supportmatch.history import History

if TYPE_CHECKING:
    from supportmatch.matching import Game

FILE = "game.safetensors"
EVERY_SECONDS = 20.0


class Snapshots:
    """Takes snapshots into a folder now and then, and one at the end of the step in which a stop is asked for.

    Args:
        folder: Where the file is kept.
        fingerprint: Tells configuration, data and version; a snapshot with another one is refused.
        every: Seconds between two snapshots.
    """

    def __init__(self, folder: Path, fingerprint: str, every: float = EVERY_SECONDS) -> None:
        self.folder, self.fingerprint, self.every = folder, fingerprint, every
        self.stop_requested = False
        self._latest = time.monotonic()

    @property
    def exists(self) -> bool:
        """Whether there is a snapshot to go on from."""
        return (self.folder / FILE).exists()

    def restore(self, game: Game, average: nn.Module) -> tuple[int, History]:
        """Bring networks and optimisers to where the snapshot was taken; return the next step and the history.

        Without a snapshot nothing changes, and the next step is the first.
        """
        path = self.folder / FILE
        if not path.exists():
            return 0, History()
        try:
            with safe_open(path, framework="pt") as file:
                notes = file.metadata() or {}
                if notes.get("fingerprint") != self.fingerprint:
                    raise ModelFileError(
                        f"{path} belongs to another run (other data, configuration or version): delete "
                        f"{self.folder} to start anew, or repeat the command that it was made by."
                    )
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
            for name, network in (("player", game.player), ("average", average), ("discriminator", game.discriminator)):
                network.load_state_dict(_below(tensors, name))
            for name, optimiser in _optimisers(game).items():
                _load_optimiser(optimiser, _below(tensors, name))
            columns = {name: tensors[f"history.{name}"].tolist() for name in json.loads(notes["columns"])}
            rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        except (SafetensorError, RuntimeError, KeyError) as error:
            raise ModelFileError(f"{path} is damaged ({error}): delete {self.folder} to start anew.") from error
        history = History()
        for row in rows:
            history.append(int(row.pop("step")), **row)
        return int(notes["next_step"]), history

    def after_step(self, step: int, game: Game, average: nn.Module, history: History) -> None:
        """Take a snapshot if it is time, or if a stop was asked for, which then ends the game."""
        if not self.stop_requested and time.monotonic() - self._latest < self.every:
            return
        self._take(step, game, average, history)
        self._latest = time.monotonic()
        if self.stop_requested:
            raise StoppedError(f"stopped after step {step + 1}; what was done is kept in {self.folder}.")

    def _take(self, step: int, game: Game, average: nn.Module, history: History) -> None:
        tensors: dict[str, Tensor] = {}
        for name, network in (("player", game.player), ("average", average), ("discriminator", game.discriminator)):
            tensors |= {f"{name}.{key}": value for key, value in network.state_dict().items()}
        for name, optimiser in _optimisers(game).items():
            for index, values in optimiser.state_dict()["state"].items():
                tensors |= {f"{name}.{index}.{key}": torch.as_tensor(value) for key, value in values.items()}
        for name in history.rows[0]:
            tensors[f"history.{name}"] = torch.tensor(history.column(name), dtype=torch.float64)
        columns = json.dumps(list(history.rows[0]))  # in their order, which the file does not keep
        notes = {"fingerprint": self.fingerprint, "next_step": json.dumps(step + 1), "columns": columns}
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.folder / f"{FILE}.part"
        save_file({name: value.detach().clone().contiguous() for name, value in tensors.items()}, draft, notes)
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(draft, self.folder / FILE)


def _optimisers(game: Game) -> dict[str, torch.optim.Optimizer]:
    return {"player_optimiser": game.player_optimiser, "discriminator_optimiser": game.discriminator_optimiser}


def _below(tensors: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    prefix = f"{name}."
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}


def _load_optimiser(optimiser: torch.optim.Optimizer, values: dict[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in values.items():
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = value
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
