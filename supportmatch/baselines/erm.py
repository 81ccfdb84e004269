"""Empirical risk minimisation: the ordinary classifier; and what every comparison that trains a network shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from inspect import signature
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import nn

from supportmatch.baselines.interface import Baseline
from supportmatch.classifier import Loss, NetworkT, predict_rows, train_network
from supportmatch.config import ClassifierConfig, checked
from supportmatch.data.containers import Labeled, Unlabeled
from supportmatch.networks.backbones import build_backbone
from supportmatch.progress import progress_bar
from supportmatch.seeding import check_seed, seeded_initialisation
from supportmatch.sources import Label


class NetworkBaseline(Baseline):
    """A network from rows to classes, trained batch by batch; a subclass says which loss is minimised.

    A subclass with arguments of its own takes the shared ones as `**network` and hands them on.

    Args:
        subgroup_names: Every declared subgroup; by default those seen in training.
        class_names: Every class; by default those seen in training.
        widths: Channels per stage (images) or hidden units (tables). None is lean: (16, 32, 64, 128) for images, (35,)
            for tables. The paper's are (64, 128, 256, 512) and (35,).
        linear_width: Tables only: units of a further layer before the last, without non-linearity. The paper's authors
            had one of 35; None is no such layer.
        epochs: An epoch draws as many rows as the training set has. None is lean: 10 for images, 60 (the paper's) for
            tables.
        batch_size: Rows per update.
        learning_rate: Adam step size.
        sampling: `"pi"` balances batches like training bags (the paper's hierarchical balanced sampling), `"sources"`
            draws equally from every seen source, `"plain"` takes rows as they are.
        random_state: The seed.
        verbose: Show progress.
    """

    network_: nn.Sequential

    def __init__(
        self,
        *,
        subgroup_names: Sequence[Label] | None = None,
        class_names: Sequence[Label] | None = None,
        widths: tuple[int, ...] | None = None,
        linear_width: int | None = None,
        epochs: int | None = None,
        batch_size: int = 256,
        learning_rate: float = 1e-3,
        sampling: Literal["pi", "sources", "plain"] = "pi",
        random_state: int | np.random.RandomState | None = 0,
        verbose: bool = False,
    ) -> None:
        self.subgroup_names = subgroup_names
        self.class_names = class_names
        self.widths = widths
        self.linear_width = linear_width
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.sampling = sampling
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def _get_param_names(cls) -> list[str]:
        # scikit-learn reads only the last constructor, but a method's own arguments come on top of the shared ones.
        constructors = [kind.__init__ for kind in cls.__mro__ if issubclass(kind, NetworkBaseline)]
        arguments = [a for constructor in constructors for a in signature(constructor).parameters.values()]
        return sorted({a.name for a in arguments if a.kind is a.KEYWORD_ONLY})

    def _train(
        self,
        train: Labeled,
        loss_of: Loss | None,
        build: Callable[[Callable[[], nn.Sequential]], NetworkT],
    ) -> NetworkT:
        """Return a network that minimises the loss; `build` gets a function that makes a backbone, and calls it."""
        widths = self.widths if self.widths is not None else ((16, 32, 64, 128) if train.is_images else (35,))
        config = checked(
            ClassifierConfig,
            epochs=self.epochs if self.epochs is not None else (10 if train.is_images else 60),
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            sampling=self.sampling,
        )
        seed = check_seed(self.random_state)
        backbone = partial(build_backbone, train.feature_shape, train.grid.n_classes, widths, self.linear_width)
        with seeded_initialisation(seed, "erm"):  # one stream for all: comparisons start from the same weights
            network = build(backbone)
        with progress_bar(type(self).__name__.removesuffix("Classifier"), enabled=self.verbose) as report:
            return train_network(network, train, config, seed, report, loss_of)

    def _judge(self, rows: Unlabeled) -> NDArray[np.float64]:
        return predict_rows(self.network_, rows)


def single_backbone(backbone: Callable[[], nn.Sequential]) -> nn.Sequential:
    """Return the network of methods that train just one."""
    return backbone()


class ErmClassifier(NetworkBaseline):
    """Cross-entropy on training rows alone, with the same balanced sampling as support-matching.

    The arguments are those of `NetworkBaseline`.
    """

    def _learn(self, train: Labeled, deploy: Unlabeled | None) -> None:
        self.network_ = self._train(train, None, single_backbone)
