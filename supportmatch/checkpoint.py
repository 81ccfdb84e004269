"""Model folders: weights as safetensors, everything else as JSON, no pickle.

A folder is written beside its final name and renamed, so it is complete or absent.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import nn

from supportmatch.audit import SourceAudit
from supportmatch.classifier import build_classifier
from supportmatch.config import Config
from supportmatch.data.inputs import FeatureReader
from supportmatch.data.tables import TableEncoder
from supportmatch.errors import ConfigError, ModelFileError
from supportmatch.estimator import SupportMatchingClassifier
from supportmatch.final import build_final
from supportmatch.history import History
from supportmatch.matching import EncoderPlayer
from supportmatch.networks.encoders import build_decoder, build_encoder
from supportmatch.output import new_folder
from supportmatch.sources import Label, SourceGrid

if TYPE_CHECKING:
    from torch import Tensor

SCHEMA = 1
WEIGHTS, MODEL, HISTORY = "model.safetensors", "model.json", "history.jsonl"
OWN = ("an encoder", "a decoder")


def save_model(model: SupportMatchingClassifier, folder: Path, *, overwrite: bool = False) -> None:
    """Write a fitted estimator; an existing folder is refused unless `overwrite` is set."""
    with new_folder(folder, overwrite=overwrite) as draft:
        write_model(model, draft)


def write_model(model: SupportMatchingClassifier, folder: Path) -> None:
    """Write the files of a fitted estimator into a folder that is there."""
    encoder = model.reader_.table_encoder
    description = {
        "schema": SCHEMA,
        "supportmatch": version("supportmatch"),
        "config": model.config_.model_dump(mode="json"),
        "grid": asdict(model.grid_),
        "feature_shape": model.reader_.feature_shape,
        "is_bytes": model.reader_.is_bytes,
        "is_signed_bytes": model.reader_.is_signed_bytes,
        "table_encoder": encoder.to_json() if encoder else None,
        "own_encoder": model.encoder is not None,
        "own_decoder": model.decoder is not None,
        "has_final": model.final_ is not None,
        "code_size": model.encoder_.z_size + model.encoder_.side,
        "random_state": model.seed_,
        "subgroup_names": _listed(model.subgroup_names),
        "class_names": _listed(model.class_names),
        "bag_notes": model.bag_notes_,
        "audit": model.audit_.to_json() if hasattr(model, "audit_") else None,
    }
    weights: dict[str, Tensor] = {}
    for part, network in _networks(model).items():
        weights |= {f"{part}.{name}": value.contiguous() for name, value in network.state_dict().items()}
    (folder / WEIGHTS).write_bytes(save(weights))
    (folder / MODEL).write_text(json.dumps(description, indent=1), encoding="utf-8")
    (folder / HISTORY).write_text(model.history_.to_jsonl(), encoding="utf-8")


def load_model(
    folder: str | Path, *, encoder: nn.Module | None = None, decoder: nn.Module | None = None
) -> SupportMatchingClassifier:
    """Read what `save_model` wrote. A model with a user's own encoder or decoder needs them passed again."""
    folder = Path(folder)
    description = _read_description(folder)
    own = bool(description.get("own_encoder")), bool(description.get("own_decoder"))
    if own != (encoder is not None, decoder is not None):
        words = [f"with{'' if is_own else 'out'} {what} of your own" for is_own, what in zip(own, OWN, strict=True)]
        raise ConfigError(f"the model was saved {' and '.join(words)}: pass the same networks to `load`.")
    try:
        model = _rebuild(description, deepcopy(encoder), deepcopy(decoder))
        with (folder / HISTORY).open(encoding="utf-8") as lines:
            model.history_ = History.from_jsonl(lines)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"{folder} does not describe a model ({error}): restore its files.") from error
    _load_weights(folder / WEIGHTS, _networks(model))
    return model


def _networks(model: SupportMatchingClassifier) -> dict[str, nn.Module]:
    """Return the networks of a model by the names of their weights."""
    networks: dict[str, nn.Module] = {"encoder": model.encoder_, "classifier": model.classifier_}
    return networks if model.final_ is None else {**networks, "final": model.final_}


def _listed(names: Sequence[Label] | None) -> list[Label] | None:
    """Return declared names as JSON can hold them."""
    return None if names is None else [name.item() if isinstance(name, np.generic) else name for name in names]


def _rebuild(
    description: dict[str, Any], encoder: nn.Module | None, decoder: nn.Module | None
) -> SupportMatchingClassifier:
    """Return the estimator that a description tells of, with initial weights."""
    config = Config.model_validate(description["config"])
    grid = SourceGrid(tuple(description["grid"]["classes"]), tuple(description["grid"]["subgroups"]))
    shape = tuple(int(size) for size in description["feature_shape"])
    table = description["table_encoder"]
    if (table is None) != (len(shape) == 3):
        raise ValueError("tables have a table encoder, images have none")
    model = SupportMatchingClassifier(
        subgroup_names=description["subgroup_names"],
        class_names=description["class_names"],
        config=config,
        encoder=encoder,
        decoder=decoder,
        random_state=int(description["random_state"]),
    )
    if encoder is None:
        encoder = build_encoder(config.autoencoder, shape)
        decoder = decoder if decoder is not None else build_decoder(config.autoencoder, shape)
    model.encoder_ = EncoderPlayer(
        encoder,
        decoder,
        code_size=int(description["code_size"]),
        n_classes=grid.n_classes,
        n_subgroups=grid.n_subgroups,
        side_channel=config.matching.side_channel,
    ).eval()
    model.classifier_ = build_classifier(model.encoder_.z_size, grid.n_classes, config.classifier).eval()
    has_final = bool(description.get("has_final"))  # absent from models of 0.1.0
    model.final_ = build_final(shape, grid.n_classes, config.final, trained=True).eval() if has_final else None
    model.reader_ = FeatureReader(
        TableEncoder.from_json(table) if table else None,
        shape,
        bool(description["is_bytes"]),
        bool(description.get("is_signed_bytes")),  # absent from models of 0.1.0
    )
    model.config_, model.grid_, model.seed_ = config, grid, int(description["random_state"])
    model.bag_notes_ = [str(note) for note in description["bag_notes"]]
    if description["audit"] is not None:
        model.audit_ = SourceAudit.from_json(description["audit"])
    return model


def _read_description(folder: Path) -> dict[str, Any]:
    lacking = [name for name in (MODEL, WEIGHTS, HISTORY) if not (folder / name).is_file()]
    if lacking:
        raise ModelFileError(f"{folder} is not a model folder, it lacks {', '.join(lacking)}: check the path.")
    try:
        description = json.loads((folder / MODEL).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelFileError(f"{folder / MODEL} is not JSON ({error}): restore the file.") from error
    if not isinstance(description, dict) or description.get("schema") != SCHEMA:
        seen = description.get("schema") if isinstance(description, dict) else None
        raise ModelFileError(
            f"{folder / MODEL} has schema {seen!r}, but this version reads {SCHEMA}: load it with the version that "
            "wrote it."
        )
    return description


def _load_weights(path: Path, networks: dict[str, nn.Module]) -> None:
    try:
        weights = load_file(path)
        for part, network in networks.items():
            prefix = f"{part}."
            own = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
            network.load_state_dict(own)
    except (SafetensorError, RuntimeError) as error:
        raise ModelFileError(f"{path} does not hold this model's weights ({error}): restore the file.") from error
