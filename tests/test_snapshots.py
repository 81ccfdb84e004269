"""A game that was stopped goes on exactly as if it had not been."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from supportmatch import SupportMatchingClassifier, load_problem
from supportmatch.clustering import cluster_deployment as find
from supportmatch.config import AutoencoderConfig, BagConfig, ClusteringConfig, Config, default_config
from supportmatch.errors import ModelFileError, StoppedError, SupportMatchWarning
from supportmatch.matching import EncoderPlayer, Game
from supportmatch.networks.encoders import build_decoder, build_encoder
from supportmatch.progress import Report
from supportmatch.snapshots import CLUSTERS, FILE, Snapshots

STEPS = 30


def config(**matching: Any) -> Config:
    start = default_config(images=False, n_sources=4)
    changed = start.matching.model_copy(update={"steps": STEPS, "decay_from": 0.5, **matching})
    return start.model_copy(update={"matching": changed})


class Stopping(SupportMatchingClassifier):
    stop_after: int | None = None

    def _watch(self, step: int, averaged: EncoderPlayer, game: Game) -> None:
        if step == self.stop_after and self._snapshots is not None:
            self._snapshots.stop_requested = True


def test_a_stopped_game_goes_on_with_networks_laid_out_in_their_own_way(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y, s = np.repeat([0, 0, 1], 20), np.tile([0, 1, 1], 20)
    pictures = rng.integers(0, 256, (60 + 80, 3, 16, 16), dtype=np.uint8)
    network = AutoencoderConfig(widths=(4, 8), code_size=8)
    encoder, decoder = (
        build(network, (3, 16, 16)).to(memory_format=torch.channels_last) for build in (build_encoder, build_decoder)
    )
    small = {"autoencoder": network, "bags": BagConfig(n_bags=2, bag_size=4)}
    clustering = ClusteringConfig(method="kmeans", pretrain_steps=2)

    def fit(snapshots: Snapshots | None = None, stop_after: int | None = None) -> Stopping:
        settings = config(guided_steps=10).model_copy(update={**small, "clustering": clustering})
        model = Stopping(subgroup_names=[0, 1], config=settings, encoder=encoder, decoder=decoder)
        model._snapshots, model.stop_after = snapshots, stop_after
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SupportMatchWarning)  # clusters of noise
            return model.fit(pictures[:60], y, s, pictures[60:])  # type: ignore[return-value]

    whole = fit()
    for stop in (3, 17):
        with pytest.raises(StoppedError):
            fit(Snapshots(tmp_path, "run"), stop)
    resumed = fit(Snapshots(tmp_path, "run"))
    assert all(torch.equal(a, b) for a, b in zip(weights(whole), weights(resumed), strict=True))
    assert resumed.history_.to_jsonl() == whole.history_.to_jsonl()


def fitted(snapshots: Snapshots | None = None, stop_after: int | None = None, **matching: Any) -> Stopping:
    problem = load_problem("synthetic", 0)
    model = Stopping(subgroup_names=problem.subgroup_names, class_names=problem.class_names, config=config(**matching))
    model._snapshots, model.stop_after = snapshots, stop_after
    return model.fit(problem.X_train, problem.y_train, problem.subgroup_train, problem.X_deploy)  # type: ignore[return-value]


def weights(model: SupportMatchingClassifier) -> list[torch.Tensor]:
    return [*model.encoder_.state_dict().values(), *model.classifier_.state_dict().values()]


@pytest.mark.parametrize("stops", [(0,), (STEPS - 1,), (3, 17)])
def test_a_stopped_game_goes_on_to_the_same_weights_and_history(tmp_path: Path, stops: tuple[int, ...]) -> None:
    whole = fitted(discriminator_updates=2)
    for stop in stops:
        with pytest.raises(StoppedError, match=f"stopped after step {stop + 1}"):
            fitted(Snapshots(tmp_path, "run"), stop, discriminator_updates=2)
    resumed = fitted(Snapshots(tmp_path, "run"), discriminator_updates=2)
    assert all(torch.equal(a, b) for a, b in zip(weights(whole), weights(resumed), strict=True))
    assert resumed.history_.to_jsonl() == whole.history_.to_jsonl()


def test_what_figures_show_of_an_early_step_survives_a_stop(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path, "run")
    assert snapshots.kept_codes() == {}
    snapshots.keep_codes({"train": np.ones((2, 3), np.float32)})
    assert Snapshots(tmp_path, "run").kept_codes()["train"].tolist() == [[1, 1, 1], [1, 1, 1]]


def test_a_stop_at_the_end_of_a_stage_waits_for_what_it_found(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path, "run")
    snapshots.stop_requested = True
    snapshots.stoppable("clustering", lambda done, total: None)(3, 3)
    with pytest.raises(StoppedError, match="stopped at the stage clustering"):
        snapshots.stoppable("clustering", lambda done, total: None)(2, 3)


def test_snapshots_are_taken_now_and_then(tmp_path: Path) -> None:
    fitted(Snapshots(tmp_path, "run", every=0.0))
    assert {path.name for path in tmp_path.iterdir()} == {CLUSTERS, FILE}
    again = fitted(Snapshots(tmp_path, "run"))  # the snapshot after the last step leaves nothing to do
    assert len(again.history_.rows) == STEPS


def test_a_snapshot_of_another_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoppedError):
        fitted(Snapshots(tmp_path, "run"), 3)
    with pytest.raises(ModelFileError, match="belongs to another run"):
        fitted(Snapshots(tmp_path, "other"))


def test_a_damaged_snapshot_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(StoppedError):
        fitted(Snapshots(tmp_path, "run"), 3)
    for name in (FILE, CLUSTERS):
        path = tmp_path / name
        path.write_bytes(path.read_bytes()[:1000])
        with pytest.raises(ModelFileError, match=f"{name} is damaged"):
            fitted(Snapshots(tmp_path, "run"))


@pytest.mark.parametrize(("stage", "kept"), [("clustering", "nothing is kept yet"), ("classifier", "is kept in")])
def test_other_stages_stop_as_well_and_what_was_done_before_is_kept(
    tmp_path: Path, stage: str, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping = Snapshots(tmp_path, "run")
    stop_at = stopping.stoppable

    def ask_to_stop(name: str, report: Report) -> Report:
        listen = stop_at(name, report)

        def stop_halfway(done: int, total: int) -> None:
            stopping.stop_requested = name == stage
            listen(0, total)

        return stop_halfway

    monkeypatch.setattr(stopping, "stoppable", ask_to_stop)
    with pytest.raises(StoppedError, match=f"at the stage {stage}; .*{kept}"):
        fitted(stopping)
    monkeypatch.setattr("supportmatch.estimator.cluster_deployment", forbidden if stage == "classifier" else find)
    resumed = fitted(Snapshots(tmp_path, "run"))
    monkeypatch.undo()
    whole = fitted()
    assert np.array_equal(resumed.clusters_.ids, whole.clusters_.ids)
    assert resumed.clusters_.method == whole.clusters_.method
    assert all(torch.equal(a, b) for a, b in zip(weights(whole), weights(resumed), strict=True))


def forbidden(*arguments: Any) -> None:
    raise AssertionError("clusters that were kept are not to be found again")
