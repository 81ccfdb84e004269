"""The plain models that several comparisons are made of: linear, boosted trees, a lean network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from supportmatch.baselines.interface import Baseline
from supportmatch.classifier import Loss, predict_rows, train_network
from supportmatch.config import ClassifierConfig, ClusteringConfig, checked
from supportmatch.data.containers import Labeled, Rows, Unlabeled
from supportmatch.errors import ConfigError
from supportmatch.networks.backbones import build_backbone
from supportmatch.progress import progress_bar
from supportmatch.seeding import seeded_initialisation
from supportmatch.sources import Ids, Label

Array = NDArray[np.float64]
SimpleKind = Literal["linear", "boosted"]
ModelKind = Literal["linear", "boosted", "network"]
KindT = TypeVar("KindT", bound=str)

SIMPLE_KINDS: tuple[SimpleKind, ...] = ("linear", "boosted")
_MODEL_KINDS: tuple[ModelKind, ...] = (*SIMPLE_KINDS, "network")


def choose_kind(model: str, rows: Rows) -> ModelKind:
    """Return the kind of model that a setting means for these rows: `auto` is a network for images, else linear."""
    if model == "auto":
        return "network" if rows.is_images else "linear"
    return check_kind(model, rows, _MODEL_KINDS)


def check_kind(model: str, rows: Rows, allowed: tuple[KindT, ...]) -> KindT:
    """Return the kind of model, or say why it cannot be had."""
    if model not in allowed:
        raise ConfigError(f"`model` must be one of {', '.join(map(repr, allowed))}, but is {model!r}.")
    if model == "boosted" and rows.is_images:
        raise ConfigError("`model` is 'boosted', but boosted trees read tables and these rows are images: use another.")
    return allowed[allowed.index(model)]


def require_deployment(deploy: Unlabeled | None) -> Unlabeled:
    """Return the deployment rows, or say that the method cannot do without them."""
    if deploy is None:
        raise ConfigError("this method learns from deployment rows, but there are none: pass `X_deploy` to `fit`.")
    return deploy


def join_sets(train: Labeled, deploy: Unlabeled, source_ids: Ids) -> Labeled:
    """Return the training rows and, after them, the deployment rows with the sources that a method gave them."""
    y, s = np.divmod(source_ids, train.grid.n_subgroups)
    x = np.concatenate([train.x, deploy.x])
    return Labeled(x, train.layout, y=np.concatenate([train.y, y]), s=np.concatenate([train.s, s]), grid=train.grid)


def balanced_weights(groups: Ids) -> Array:
    """Return weights with mean 1 that give every group with rows the same total.

    >>> balanced_weights(np.array([0, 0, 0, 7]))
    array([0.66666667, 0.66666667, 0.66666667, 2.        ])
    """
    _, dense, counts = np.unique(groups, return_inverse=True, return_counts=True)
    return len(groups) / (len(counts) * counts[dense.reshape(-1)].astype(np.float64))


def flatten_rows(rows: Rows) -> NDArray[Any]:
    """Return rows as a table of single precision, images pixel by pixel."""
    return rows.x.reshape(len(rows), -1).astype(np.float32, copy=False)


def fit_simple_model(kind: SimpleKind, x: NDArray[Any], y: Ids, weights: Array) -> Any:
    """Train logistic regression on standardised columns, or gradient-boosted trees, on weighted rows."""
    if kind == "boosted":
        return HistGradientBoostingClassifier(early_stopping=False, random_state=0).fit(x, y, sample_weight=weights)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1_000))
    return model.fit(x, y, logisticregression__sample_weight=weights)


def judge_rows(model: Any, rows: Unlabeled) -> Array:
    """Return class probabilities by a model of either function above."""
    if isinstance(model, nn.Module):
        return predict_rows(model, rows)
    return np.asarray(model.predict_proba(flatten_rows(rows)), dtype=np.float64)


class DeploymentBaseline(Baseline):
    """A plain model of deployment rows that a method has labelled; a subclass says how.

    Args:
        subgroup_names: Every declared subgroup; by default those seen in training.
        class_names: Every class; by default those seen in training.
        model: `auto` is a network for images and linear for tables; `linear` is logistic regression (images pixel by
            pixel), `boosted` gradient-boosted trees (tables only), `network` a lean network.
        clustering: How the deployment set is divided, and the autoencoder whose codes that reads (images); by default
            as for support-matching.
        widths: Of the network; None is (16, 32, 64, 128) for images, (35,) for tables.
        epochs: Of the network; None is 5 for images, 30 for tables.
        batch_size: Of the network: rows per update; None is 256.
        learning_rate: Of the network: Adam step size; None is 1e-3.
        random_state: The seed.
        verbose: Show progress.
    """

    model_: Any

    def __init__(
        self,
        *,
        subgroup_names: Sequence[Label] | None = None,
        class_names: Sequence[Label] | None = None,
        model: Literal["auto"] | ModelKind = "auto",
        clustering: ClusteringConfig | None = None,
        widths: tuple[int, ...] | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        random_state: int | np.random.RandomState | None = 0,
        verbose: bool = False,
    ) -> None:
        self.subgroup_names = subgroup_names
        self.class_names = class_names
        self.model = model
        self.clustering = clustering
        self.widths = widths
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.random_state = random_state
        self.verbose = verbose

    def _fit_network(
        self, rows: Labeled, name: str, sampling: Literal["sources", "plain"], seed: int, loss_of: Loss | None = None
    ) -> nn.Sequential:
        """Train a lean network from rows to classes.

        Args:
            rows: What to learn from.
            name: Of the method, for the progress bar and the stream of random numbers.
            sampling: `sources` draws every source equally, `plain` all rows.
            seed: Same seed, same network.
            loss_of: Another loss than cross-entropy.
        """
        widths = self.widths if self.widths is not None else ((16, 32, 64, 128) if rows.is_images else (35,))
        chosen = {"batch_size": self.batch_size, "learning_rate": self.learning_rate}
        config = checked(
            ClassifierConfig,
            epochs=self.epochs if self.epochs is not None else (5 if rows.is_images else 30),
            sampling=sampling,
            **{field: value for field, value in chosen.items() if value is not None},
        )
        with seeded_initialisation(seed, name):
            network = build_backbone(rows.feature_shape, rows.grid.n_classes, widths)
        with progress_bar(name, enabled=self.verbose) as report:
            return train_network(network, rows, config, seed, report, loss_of)

    def _judge(self, rows: Unlabeled) -> Array:
        return judge_rows(self.model_, rows)
