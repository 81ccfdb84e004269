"""A fit that keeps what figures of it need."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supportmatch.classifier import transform_rows
from supportmatch.config import Config
from supportmatch.data.containers import Labeled, Rows, Unlabeled
from supportmatch.estimator import SupportMatchingClassifier
from supportmatch.matching import EncoderPlayer, Game
from supportmatch.sources import Ids

_EARLY = 0.05  # of all steps: the paper shows z at 450 of 12,000


class WatchedClassifier(SupportMatchingClassifier, ABC):
    """Support-matching that keeps the rows it read, its discriminator, and z of some rows at an early step."""

    train: Labeled
    deploy: Unlabeled
    discriminator: Any
    shown: dict[str, Rows]
    """The rows whose z is remembered."""
    early: dict[str, NDArray[np.float32]]
    """Their z at `early_step`; empty before it."""

    @abstractmethod
    def _choose_rows(self) -> dict[str, Rows]:
        """Return the rows whose z is remembered, once `train` and `deploy` are there."""

    @property
    def early_step(self) -> int:
        """The number of steps after which z is called early."""
        return max(1, int(_EARLY * self.config_.matching.steps))

    def _fit_stages(
        self,
        train: Labeled,
        deploy: Unlabeled,
        groups: Ids | None,
        config: Config | None = None,
        guide: Ids | None = None,
    ) -> SupportMatchingClassifier:
        self.train, self.deploy = train, deploy
        self.shown = self._choose_rows()
        self.early = self._snapshots.kept_codes() if self._snapshots else {}
        return super()._fit_stages(train, deploy, groups, config, guide)

    def _started(self, game: Game) -> None:
        self.discriminator = game.discriminator

    def _watch(self, step: int, averaged: EncoderPlayer, game: Game) -> None:
        if step + 1 == self.early_step:
            self.early = {name: transform_rows(averaged, rows) for name, rows in self.shown.items()}
            if self._snapshots:
                self._snapshots.keep_codes(self.early)
