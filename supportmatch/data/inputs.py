"""From what users hold (DataFrames, 2-D arrays, 4-D image arrays) to the containers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from supportmatch.data.containers import Labeled, Unlabeled, check_labeled, check_unlabeled
from supportmatch.data.tables import TableEncoder
from supportmatch.errors import FeatureMismatchError, ShapeError
from supportmatch.sources import Label

Features = NDArray[Any] | pd.DataFrame


@dataclass(frozen=True)
class FeatureReader:
    """Reads features of one kind: tables through an encoder fitted once, images as they are."""

    table_encoder: TableEncoder | None
    """None for images."""

    @classmethod
    def fit(cls, X: Features, X_deploy: Features | None = None) -> FeatureReader:
        """Learn how to read rows like these."""
        if is_images(X):
            return cls(table_encoder=None)
        if X_deploy is not None and is_images(X_deploy):
            raise FeatureMismatchError(
                "training rows are a table but deployment rows are images (a 4-D array): pass the same kind of rows."
            )
        return cls(TableEncoder.fit(X, X_deploy))

    def read_labeled(
        self,
        X: Features,
        y: Sequence[Label] | NDArray[Any],
        subgroup: Sequence[Label] | NDArray[Any],
        *,
        subgroup_names: Sequence[Label] | None,
        class_names: Sequence[Label] | None,
    ) -> Labeled:
        """Return a training set."""
        layout = self.table_encoder.layout if self.table_encoder else None
        x = self._read(X, "training")
        return check_labeled(x, y, subgroup, subgroup_names=subgroup_names, class_names=class_names, layout=layout)

    def read_unlabeled(self, X: Features, like: Labeled, what: str, min_rows: int = 1) -> Unlabeled:
        """Return rows without labels that look like those of the training set."""
        return check_unlabeled(self._read(X, what), like, min_rows)

    def read(self, X: Features, feature_shape: tuple[int, ...], what: str) -> Unlabeled:
        """Return rows to predict on, whose shape must be that of the training rows."""
        layout = self.table_encoder.layout if self.table_encoder else None
        rows = Unlabeled(self._read(X, what), layout)
        if rows.feature_shape != feature_shape:
            raise FeatureMismatchError(
                f"the model was trained on rows of shape {feature_shape}, but a {what} row has shape "
                f"{rows.feature_shape}: use the same columns or image size."
            )
        return rows

    def _read(self, X: Features, what: str) -> NDArray[Any]:
        if self.table_encoder:
            return self.table_encoder.transform(X, what)
        if not is_images(X):
            raise FeatureMismatchError(
                f"training rows are images (a 4-D array), but the {what} rows have shape {np.shape(X)}: pass the same "
                "kind of rows."
            )
        return np.asarray(X)


def is_images(X: Features) -> bool:
    """Tell images (4-D arrays) from tables; refuse what is neither."""
    if isinstance(X, pd.DataFrame):
        return False
    ndim = np.ndim(X)
    if ndim not in (2, 4):
        raise ShapeError(
            f"features must be a DataFrame, a 2-D array or a 4-D array of images (rows, channels, height, width), but "
            f"the array has shape {np.shape(X)}: reshape it."
        )
    return ndim == 4
