"""From what users hold (DataFrames, 2-D arrays, 4-D image arrays) to the containers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from supportmatch.config import TableConfig
from supportmatch.data.containers import (
    Labeled,
    TableLayout,
    Unlabeled,
    check_labeled,
    check_unlabeled,
)
from supportmatch.data.tables import TableEncoder
from supportmatch.errors import FeatureMismatchError, ShapeError
from supportmatch.sources import Label

Features = NDArray[Any] | pd.DataFrame


@dataclass(frozen=True)
class FeatureReader:
    """Reads features of one kind: tables through an encoder fitted once, images as they are."""

    table_encoder: TableEncoder | None
    """None for images."""
    feature_shape: tuple[int, ...]
    """Shape of one row as networks see it."""
    is_bytes: bool
    """Whether images are bytes (0 to 255), which are scaled to [0, 1]."""
    is_signed_bytes: bool = False
    """Whether images are signed bytes (-128 to 127), which are scaled to [-1, 1]."""

    @classmethod
    def fit(cls, X: Features, X_deploy: Features | None = None, table: TableConfig | None = None) -> FeatureReader:
        """Learn how to read rows like these."""
        if is_images(X):
            images = np.asarray(X)
            return cls(None, images.shape[1:], images.dtype == np.uint8, images.dtype == np.int8)
        if X_deploy is not None and is_images(X_deploy):
            raise FeatureMismatchError(
                "training rows are a table but deployment rows are images (a 4-D array): pass the same kind of rows."
            )
        encoder = TableEncoder.fit(X, X_deploy, table)
        return cls(encoder, (len(encoder.feature_names),), is_bytes=False)

    @property
    def layout(self) -> TableLayout | None:
        """Which columns of an encoded table are one-hot blocks; None for images."""
        return self.table_encoder.layout if self.table_encoder else None

    @property
    def n_features(self) -> int:
        """Columns of a table as it was given, or pixels times channels of an image."""
        return self.table_encoder.n_columns if self.table_encoder else int(np.prod(self.feature_shape))

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
        return check_labeled(
            self._read(X, "training"),
            y,
            subgroup,
            subgroup_names=subgroup_names,
            class_names=class_names,
            layout=self.layout,
        )

    def read(self, X: Features, what: str = "new", min_rows: int = 1) -> Unlabeled:
        """Return rows without labels, which must look like those of the training set."""
        return check_unlabeled(self._read(X, what), self, what, min_rows)

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
