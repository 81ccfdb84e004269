"""`SupportMatchingClassifier`: the figure of the paper as `fit()`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from supportmatch.audit import audit_sources
from supportmatch.bags import DeploymentBags, GroupedBags, PlainBags, TrainingBags, describe_balance
from supportmatch.classifier import fit_classifier, predict_rows, transform_rows
from supportmatch.clustering import Clusters, cluster_deployment, warn_of_dying_clusters
from supportmatch.config import Config, FinalConfig, TableConfig, default_config, preset
from supportmatch.data.containers import Labeled, Rows, Unlabeled
from supportmatch.data.inputs import FeatureReader, Features
from supportmatch.errors import ConfigError, ShapeError, SupportMatchWarning, TooFewDeploymentRowsError
from supportmatch.final import (
    CONTRADICTED,
    MOSTLY_SAME,
    balanced_class_weights,
    fit_final,
    leave_out_disputed,
    name_softly,
    same_class,
)
from supportmatch.hardware import HERE, Hardware
from supportmatch.matching import EncoderPlayer, Game, match_supports, new_game
from supportmatch.metrics import Evaluation, evaluate_names
from supportmatch.pairing import Pairing, pair_clusters
from supportmatch.progress import Report, progress_bar
from supportmatch.ranks import ALONE, Ranks
from supportmatch.seeding import check_seed, stream
from supportmatch.selection import doubts_about, names_other_classes, simplicity, worst_source_accuracy
from supportmatch.snapshots import Snapshots
from supportmatch.sources import Ids, Label

if TYPE_CHECKING:
    from torch import nn

Names = Sequence[Label] | NDArray[Any]

_NO_SUBGROUPS = ("given", "not given")
"""Stands for the declared subgroups when `fit(X, y)` is called without any."""


class SupportMatchingClassifier(ClassifierMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier for subgroups that the labels never showed.

    Fit it on labelled rows, their subgroups, and unlabelled rows from where it will be used. `predict` then needs rows
    alone. Everything in between stays on the object: `audit_`, `clusters_`, `pairing_`, `agreement_`, `restarts_` and
    `deploy_bags_` (these five are not saved with the model), `history_`, `encoder_`, `classifier_` (on z), and
    `final_`, the network that predicts, or None where the classifier on z does.

    Args:
        subgroup_names: Every subgroup expected at deployment, also those without training rows. By default those that
            occur in training, which is wrong if a whole subgroup is missing.
        class_names: Every class; by default those that occur in training.
        config: "auto" (by the kind of rows), the name of a preset, or a `Config`.
        encoder: Your own network from rows to flat codes (rows, code), instead of the built one. With config "auto" the
            classifier on its codes then has the last word.
        decoder: Your own network from codes to rows. An encoder of yours without one trains without reconstruction.
        hardware: Device and precision of the game; by default a GPU if there is one.
        random_state: The seed. The same seed, software and machine give the same model.
        verbose: Show progress.
    """

    def __init__(
        self,
        *,
        subgroup_names: Sequence[Label] | None = None,
        class_names: Sequence[Label] | None = None,
        config: str | Config = "auto",
        encoder: nn.Module | None = None,
        decoder: nn.Module | None = None,
        hardware: Hardware | None = None,
        random_state: int | np.random.RandomState | None = 0,
        verbose: bool = False,
    ) -> None:
        self.subgroup_names = subgroup_names
        self.class_names = class_names
        self.config = config
        self.encoder = encoder
        self.decoder = decoder
        self.hardware = hardware
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Features,
        y: Names,
        subgroup: Names | None = None,
        X_deploy: Features | None = None,
        *,
        restarts: int = 1,
    ) -> SupportMatchingClassifier:
        """Cluster the deployment rows, match supports, and train the classifier.

        Args:
            X: Labelled rows: a DataFrame, a 2-D array, or images (rows, channels, height, width).
            y: Their classes.
            subgroup: Their subgroups.
            X_deploy: Unlabelled rows. Without them (or without subgroups) nothing can be matched: an ordinary
                autoencoder and classifier are trained, and a warning says so.
            restarts: Games to play from other initial weights, each as long as one. The one that the others agree with
                most is kept, of those that are no exclusive-or of class and subgroup as far as that can be seen
                (`restarts_` has what was seen of each).
        """
        self._forget()
        self._restarts = self._check_restarts(restarts)
        if subgroup is None or X_deploy is None:
            return self._fit_without_matching(X, y, subgroup)
        train, deploy = self._read(X, y, subgroup, X_deploy)
        if self.config_.bags.balancing == "none":
            return self._fit_stages(train, deploy, None)
        ids, classes = None, None
        if self._ranks.is_first:
            self.clusters_ = self._divide(train, deploy)
            self.pairing_ = self._name_clusters(train, deploy)
            ids, classes = self.clusters_.ids, np.full(len(deploy), -1)
            if self.pairing_ is not None:
                sources = self.pairing_.source_ids(ids)
                classes = sources // train.grid.n_subgroups
                if self.clusters_.n_clusters > train.grid.n_sources:  # some sources are in several clusters
                    ids = sources
        ids, classes = self._ranks.tell(ids, len(deploy)), self._ranks.tell(classes, len(deploy))
        return self._fit_stages(train, deploy, ids, guide=None if classes[0] < 0 else classes)

    def fit_with_oracle_bags(
        self, X: Features, y: Names, subgroup: Names, X_deploy: Features, *, y_deploy: Names, subgroup_deploy: Names
    ) -> SupportMatchingClassifier:
        """Fit with deployment bags balanced by *true* labels: an upper bound for experiments, never a result.

        The labels of deployment rows are used for drawing bags and for nothing else.
        """
        self._forget()
        train, deploy = self._read(X, y, subgroup, X_deploy)
        true_y, true_s = train.grid.class_ids(y_deploy), train.grid.subgroup_ids(subgroup_deploy)
        if not len(true_y) == len(true_s) == len(deploy):
            raise ShapeError(
                f"there are {len(deploy)} deployment rows but {len(true_y)} oracle classes and {len(true_s)} subgroups."
            )
        return self._fit_stages(train, deploy, train.grid.source_ids(true_y, true_s))

    def predict_proba(self, X: Features) -> NDArray[np.float64]:
        """Return class probabilities, rows x classes in the order of `classes_`."""
        check_is_fitted(self)
        return self.judge_by_z(X) if self.final_ is None else predict_rows(self.final_, self.reader_.read(X))

    def judge_by_z(self, X: Features) -> NDArray[np.float64]:
        """Return class probabilities by the classifier on z, whichever has the last word."""
        z = self.transform(X)
        return predict_rows(self.classifier_, Rows(z))

    def _z_of(self, rows: Rows) -> NDArray[np.float32]:
        return transform_rows(self.encoder_, rows)

    def predict(self, X: Features) -> NDArray[Any]:
        """Return the most probable class of each row."""
        best = self.predict_proba(X).argmax(axis=1)
        names: NDArray[Any] = self.classes_[best]
        return names

    def transform(self, X: Features) -> NDArray[np.float32]:
        """Return z, the representation in which supports are matched."""
        check_is_fitted(self)
        return self._z_of(self.reader_.read(X))

    def evaluate(self, X: Features, y: Names, subgroup: Names) -> Evaluation:
        """Measure predictions on labelled rows: per source, per subgroup, robust accuracy, with intervals."""
        check_is_fitted(self)
        if self.grid_.subgroups == _NO_SUBGROUPS:
            raise ConfigError("the model was fitted without subgroups, so it knows none to measure by: see `metrics`.")
        return evaluate_names(self.predict(X), y, subgroup, self.grid_)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the fitted model to a folder: safetensors and JSON, complete or not at all."""
        from supportmatch.checkpoint import save_model

        check_is_fitted(self)
        save_model(self, Path(folder), overwrite=overwrite)

    def _fit_without_matching(self, X: Features, y: Names, subgroup: Names | None) -> SupportMatchingClassifier:
        lacking = "`X_deploy`" if subgroup is not None else "`subgroup` or without `X_deploy`"
        warnings.warn(
            f"fit was called without {lacking}, so supports are not matched: this is an ordinary classifier, and says "
            "nothing about sources that training lacks. Pass `subgroup` and `X_deploy` to match.",
            SupportMatchWarning,
            stacklevel=3,
        )
        names = self.subgroup_names if subgroup is not None else _NO_SUBGROUPS
        given = subgroup if subgroup is not None else np.full(len(np.asarray(y)), _NO_SUBGROUPS[0])
        self.reader_ = FeatureReader.fit(X, None, self._table_config())
        train = self.reader_.read_labeled(X, y, given, subgroup_names=names, class_names=self.class_names)
        if subgroup is not None:
            self.audit_ = audit_sources(train)
        self.config_ = self._resolve(train)
        settings = self.config_.matching.model_copy(update={"adversarial_weight": 0.0, "subgroup_weight": 0.0})
        unmatched = self.config_.model_copy(update={"matching": settings})
        return self._fit_stages(train, Unlabeled(train.x, train.layout), None, unmatched)

    def _read(self, X: Features, y: Names, subgroup: Names, X_deploy: Features) -> tuple[Labeled, Unlabeled]:
        """Pass the gate and settle the configuration."""
        self.reader_ = FeatureReader.fit(X, X_deploy, self._table_config())
        train = self.reader_.read_labeled(
            X, y, subgroup, subgroup_names=self.subgroup_names, class_names=self.class_names
        )
        self.config_ = self._resolve(train)
        # One bag must not consist of repetitions, and every source needs a few rows to be found at all.
        min_rows = max(self.config_.bags.bag_size, 5 * train.grid.n_sources)
        deploy = self.reader_.read(X_deploy, "deployment", min_rows)
        # What does not fit the rows or the machine is refused now instead of after minutes of clustering.
        (self.hardware or HERE).choose_device()
        self._ranks.check(self.config_.bags.n_bags)
        new_game(train, self.config_, self.seed_, encoder=self.encoder, decoder=self.decoder)
        self.audit_ = audit_sources(train, deploy)
        return train, deploy

    def _divide(self, train: Labeled, deploy: Unlabeled) -> Clusters:
        """Divide the deployment set into clusters, or take those that an interrupted run has found."""
        kept = self._snapshots.kept_clusters() if self._snapshots else None
        if kept is not None:
            warn_of_dying_clusters(kept, train.support)
            return kept
        with self._stage("clustering") as report:
            clusters = cluster_deployment(train, deploy, self.config_.clustering, self.seed_, report)
        if self._snapshots:
            self._snapshots.keep_clusters(clusters)
        return clusters

    def _name_clusters(self, train: Labeled, deploy: Unlabeled) -> Pairing | None:
        """Name the clusters after sources where the settings want names and there are any to be had."""
        if not (self.config_.matching.guided_steps or self.config_.final.learns_from == "deployment"):
            return None
        try:
            return pair_clusters(self.clusters_, deploy, train.support, self.seed_)
        except (ConfigError, TooFewDeploymentRowsError) as error:
            warnings.warn(
                f"the clusters stay without names, so the game is not guided and the classifier on z has the last word "
                f"(the preset `lean-images` has more steps for such a game): {error}",
                SupportMatchWarning,
                stacklevel=3,
            )
            return None

    @contextmanager
    def _stage(self, name: str) -> Iterator[Report]:
        """Show a stage's progress, and let it be stopped."""
        with progress_bar(name, enabled=self.verbose) as report:
            yield self._snapshots.stoppable(name, report) if self._snapshots else report

    def _fit_stages(
        self,
        train: Labeled,
        deploy: Unlabeled,
        groups: Ids | None,
        config: Config | None = None,
        guide: Ids | None = None,
    ) -> SupportMatchingClassifier:
        """Draw bags, match supports, train the classifier."""
        config = config or self.config_
        bags, seed = config.bags, self.seed_
        train_bags = TrainingBags.of(train, bags.n_bags, bags.bag_size, seed)
        deploy_bags: DeploymentBags = PlainBags(len(deploy), bags.n_bags, bags.bag_size, seed)
        self.bag_notes_ = [describe_balance(bags.bag_size, train.grid.n_sources, "training sources")]
        if groups is not None:
            deploy_bags = GroupedBags(groups, bags.n_bags, bags.bag_size, seed)
            self.bag_notes_.append(describe_balance(bags.bag_size, len(np.unique(groups)), "deployment groups"))
        self.deploy_bags_ = deploy_bags
        runs = []
        for restart in range(self._restarts):
            own_seed = seed if restart == 0 else int(stream(seed, "restart", restart).integers(2**31))
            name = "matching" if self._restarts == 1 else f"matching {restart + 1} of {self._restarts}"
            with progress_bar(name, enabled=self.verbose) as report:
                player, history = match_supports(
                    train,
                    deploy,
                    train_bags,
                    deploy_bags,
                    config,
                    own_seed,
                    encoder=self.encoder,
                    decoder=self.decoder,
                    report=report,
                    watch=self._watch,
                    started=self._started,
                    snapshots=self._snapshots,
                    guide=guide,
                    ranks=self._ranks,
                    hardware=self.hardware or HERE,
                )
            if not self._ranks.is_first:
                continue
            with self._stage("classifier") as report:
                classifier = fit_classifier(player, train, config.classifier, own_seed, report)
            runs.append((player, history, classifier))
        if not runs:
            return self
        best = 0 if len(runs) == 1 else self._choose_run([run[0::2] for run in runs], train, deploy)
        self.encoder_, self.history_, self.classifier_ = runs[best]
        self.final_: nn.Sequential | None = None
        pairing = vars(self).get("pairing_")
        if pairing is not None and config.final.learns_from == "deployment":
            self._fit_final(train, deploy, pairing)
        self.grid_ = train.grid
        return self

    def _choose_run(self, runs: Sequence[tuple[EncoderPlayer, nn.Module]], train: Labeled, deploy: Unlabeled) -> int:
        """Return the restart to go on with: natural as far as can be seen, then agreed with most."""
        by_z = [predict_rows(head, Rows(transform_rows(player, deploy))).argmax(axis=1) for player, head in runs]
        accord = np.array([[np.mean(a == b) for b in by_z] for a in by_z])
        natural = np.ones(len(runs), bool)
        pairing = vars(self).get("pairing_")  # neither without clusters nor with oracle bags
        if pairing is not None and self.clusters_.method != "factorised":
            n_subgroups = train.grid.n_subgroups
            subgroups = pairing.source_ids(self.clusters_.ids) % n_subgroups
            named = [simplicity(classes, subgroups, deploy, train.support, self.seed_) for classes in by_z]
            natural = np.array([name is None or not names_other_classes(name, n_subgroups) for name in named])
        self.restarts_ = {"agreement": accord.mean(axis=1).tolist(), "natural": natural.tolist()}
        return int(np.argmax(natural + accord.mean(axis=1)))

    def _fit_final(self, train: Labeled, deploy: Unlabeled, pairing: Pairing) -> None:
        """Train the classifier of the rows of both sets, and say what speaks against it."""
        sources = name_softly(self.clusters_, pairing, train.grid)
        by_z = predict_rows(self.classifier_, Rows(self._z_of(deploy)))
        same = same_class(sources, by_z)
        self.agreement_ = float(same.mean())
        believed = leave_out_disputed(sources, same) if self.agreement_ >= MOSTLY_SAME else sources
        with self._stage("final classifier") as report:
            final = fit_final(train, deploy, believed, self.config_.final, self.seed_, report)
        predicted = predict_rows(final, deploy)
        named = None
        if self.clusters_.method != "factorised":  # whose names are not a matter of what is simple
            subgroups = sources.argmax(axis=1) % train.grid.n_subgroups
            named = simplicity(predicted.argmax(axis=1), subgroups, deploy, train.support, self.seed_)
        labels = balanced_class_weights(sources, train.grid)
        labels /= np.maximum(labels.sum(axis=1, keepdims=True), 1e-12)  # as if classes were equally frequent
        for doubt in doubts_about(named, labels, train.grid.n_subgroups):
            warnings.warn(doubt, SupportMatchWarning, stacklevel=4)
        seen = [
            worst_source_accuracy(predicted, train)
            for predicted in (predict_rows(final, train), predict_rows(self.classifier_, Rows(self._z_of(train))))
        ]
        if seen[0] < seen[1] - CONTRADICTED:
            warnings.warn(
                f"labels contradict the classes that clusters were given: a classifier that learns from both is right "
                f"in {seen[0]:.2f} of the rows of some seen source, the one on z in {seen[1]:.2f}. A class may look "
                "different in another subgroup, and then nothing here is to be relied on for missing sources. The "
                "classifier on z has the last word.",
                SupportMatchWarning,
                stacklevel=4,
            )
            return
        self.final_ = final

    _snapshots: Snapshots | None = None
    """Where `fit` keeps what it needs to go on after an interruption."""
    _ranks: Ranks = ALONE
    """The processes that fit this model together; only the first ends with a model."""

    def _started(self, game: Game) -> None:
        """Look at the game before its first step."""

    def _watch(self, step: int, averaged: EncoderPlayer, game: Game) -> None:
        """Look at the game after every step: for experiments that show how z came about."""

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "grid_")  # the last thing that a fit sets

    @property
    def classes_(self) -> NDArray[Any]:
        """Class names, in the order of the columns of `predict_proba`."""
        return np.array(self.grid_.classes)

    @property
    def n_features_in_(self) -> int:
        """Columns of a table as it was given, or pixels times channels of an image."""
        return self.reader_.n_features

    def _forget(self) -> None:
        """Drop all that an earlier fit left, so that a refused one cannot leave a mixture of both."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)
        self._restarts = 1
        self.seed_ = check_seed(self.random_state)

    def _check_restarts(self, restarts: int) -> int:
        if not isinstance(restarts, int | np.integer) or restarts < 1:
            raise ConfigError(f"`restarts` counts games, at least 1, but is {restarts!r}.")
        if restarts > 1 and self._snapshots is not None:
            raise ConfigError("`restarts` cannot be resumed after an interruption: fit without snapshots.")
        return int(restarts)

    def _table_config(self) -> TableConfig:
        """Return how columns become numbers, which must be known before the rows that decide the rest are read."""
        return self.config.table if isinstance(self.config, Config) else TableConfig()

    def _resolve(self, train: Labeled) -> Config:
        if isinstance(self.config, Config):
            return self.config
        if self.config == "auto":
            config = default_config(images=train.is_images, n_sources=train.grid.n_sources)
            return config if self.encoder is None else config.model_copy(update={"final": FinalConfig()})
        if not isinstance(self.config, str):
            raise ConfigError(f"`config` must be 'auto', a preset's name or a Config, but is {self.config!r}.")
        return preset(self.config)
