"""Snapshots of a fit: everything that is needed to go on exactly where it stopped.

The clusters are kept once they are found. Bags are pure functions of (seed, step), so a snapshot of the game holds the
networks, their averages, the optimisers, the number of the step and what happened so far, in one safetensors file that
is replaced as a whole.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from supportmatch.clustering import Clusters
from supportmatch.errors import ModelFileError, StoppedError
from supportmatch.history import History
from supportmatch.output import write_atomically
from supportmatch.progress import Report

if TYPE_CHECKING:
    from supportmatch.matching import Game

FILE, CLUSTERS, CODES = "game.safetensors", "clusters.safetensors", "codes.safetensors"
EVERY_SECONDS = 20.0


class Snapshots:
    """Takes snapshots into a folder now and then, at the end of the game, and in the step in which a stop is asked for.

    Args:
        folder: Where the file is kept.
        fingerprint: Tells configuration, data and version; a snapshot with another one is refused.
        every: Seconds between two snapshots.
        writes: Whether snapshots are taken. Of several processes that train together one does; all read them.
        replaces: Whether snapshots of another run are passed over, and replaced, instead of refused.
    """

    def __init__(
        self,
        folder: Path,
        fingerprint: str,
        every: float = EVERY_SECONDS,
        *,
        writes: bool = True,
        replaces: bool = False,
    ) -> None:
        self.folder, self.fingerprint, self.every = folder, fingerprint, every
        self.writes, self.replaces = writes, replaces
        self.stop_requested = False
        self._latest = time.monotonic()

    @property
    def exists(self) -> bool:
        """Whether there is anything to go on from."""
        return any(self._notes(name) is not None for name in (FILE, CLUSTERS))

    def stoppable(self, stage: str, report: Report) -> Report:
        """Return a listener to a stage that ends it when a stop is asked for."""

        def listen(done: int, total: int) -> None:
            report(done, total)
            if self.stop_requested and done < total:  # what is done is worth keeping
                kept = f"what was done before is kept in {self.folder}" if self.exists else "nothing is kept yet"
                raise StoppedError(f"stopped at the stage {stage}; {kept}. The same command does the rest.")

        return listen

    def keep_codes(self, codes: dict[str, NDArray[np.float32]]) -> None:
        """Keep what figures show of an early step."""
        self._replace(CODES, {name: torch.from_numpy(z) for name, z in codes.items()}, {})

    def kept_codes(self) -> dict[str, NDArray[np.float32]]:
        """Return what an earlier run kept for figures; empty if it did not get so far."""
        kept = self._read(CODES)
        return {name: z.numpy() for name, z in kept[1].items()} if kept is not None else {}

    def keep_clusters(self, clusters: Clusters) -> None:
        """Keep the clusters for a later run."""
        tensors = {"ids": torch.from_numpy(clusters.ids), "cluster_ids": torch.tensor(clusters.cluster_ids)}
        if clusters.probabilities is not None:
            tensors["probabilities"] = torch.from_numpy(clusters.probabilities)
        self._replace(CLUSTERS, tensors, {"method": clusters.method})

    def kept_clusters(self) -> Clusters | None:
        """Return the clusters that an earlier run found, if it got so far."""
        kept = self._read(CLUSTERS)
        if kept is None:
            return None
        notes, tensors = kept
        probabilities = tensors["probabilities"].numpy() if "probabilities" in tensors else None
        return Clusters(tensors["ids"].numpy(), tuple(tensors["cluster_ids"].tolist()), probabilities, notes["method"])

    def restore(self, game: Game, average: nn.Module) -> tuple[int, History]:
        """Bring networks and optimisers to where the snapshot was taken; return the next step and the history.

        Without a snapshot nothing changes, and the next step is the first.
        """
        kept = self._read(FILE)
        if kept is None:
            return 0, History()
        notes, tensors = kept
        try:
            for name, network in (("player", game.player), ("average", average), ("discriminator", game.discriminator)):
                network.load_state_dict(_below(tensors, name))
            for name, optimiser in _optimisers(game).items():
                _load_optimiser(optimiser, _below(tensors, name))
            columns = {name: tensors[f"history.{name}"].tolist() for name in json.loads(notes["columns"])}
            rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        except (RuntimeError, KeyError) as error:
            raise self._damaged(FILE, error) from error
        history = History()
        for row in rows:
            history.append(int(row.pop("step")), **row)
        return int(notes["next_step"]), history

    def after_step(self, step: int, game: Game, average: nn.Module, history: History, *, stop: bool) -> None:
        """Take a snapshot if it is time, after the last step, or if the game is to stop, which then ends it."""
        is_last = step + 1 == game.config.steps
        if not (is_last or stop) and time.monotonic() - self._latest < self.every:
            return
        self._take(step, game, average, history)
        self._latest = time.monotonic()
        if stop:
            raise StoppedError(
                f"stopped after step {step + 1}; what was done is kept in {self.folder}. The same command does the "
                "rest."
            )

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
        self._replace(FILE, tensors, {"next_step": json.dumps(step + 1), "columns": columns})

    def _replace(self, name: str, tensors: dict[str, Tensor], notes: dict[str, str]) -> None:
        if not self.writes:
            return
        content = save(
            {key: value.contiguous() for key, value in tensors.items()}, {**notes, "fingerprint": self.fingerprint}
        )
        write_atomically(self.folder / name, content)

    def _notes(self, name: str) -> dict[str, str] | None:
        """Return what a file says of itself; None if it is not there or is to be replaced."""
        path = self.folder / name
        if not path.exists():
            return None
        try:
            with safe_open(path, framework="pt") as file:
                notes: dict[str, str] = file.metadata() or {}
        except SafetensorError as error:
            if self.replaces:
                return None
            raise self._damaged(name, error) from error
        if notes.get("fingerprint") == self.fingerprint:
            return notes
        if self.replaces:
            return None
        raise ModelFileError(
            f"{path} belongs to another run (other data, configuration or version): delete {self.folder} to start "
            "anew, overwrite it, or repeat the command that it was made by."
        )

    def _read(self, name: str) -> tuple[dict[str, str], dict[str, Tensor]] | None:
        notes = self._notes(name)
        if notes is None:
            return None
        with safe_open(self.folder / name, framework="pt") as file:
            return notes, {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a mapping

    def _damaged(self, name: str, error: Exception) -> ModelFileError:
        return ModelFileError(f"{self.folder / name} is damaged ({error}): delete {self.folder} to start anew.")


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
    weights = optimiser.param_groups[0]["params"]
    for number, moments in state.items():
        for name, value in moments.items():
            if value.shape == weights[number].shape:
                # Laid out in memory like the weight itself: the fused optimiser takes that for granted.
                moments[name] = torch.empty_like(weights[number]).copy_(value)
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
