"""One frozen model per stage: immutable, refusing unknown keys, documented field by field; and the presets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    model_validator,
)

from supportmatch.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class StageConfig(BaseModel):
    """The parent of every stage's settings."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


StageT = TypeVar("StageT", bound=StageConfig)


def checked(stage: type[StageT], **values: Any) -> StageT:
    """Build a stage's settings from arguments of a user; the first bad value becomes one sentence.

    >>> checked(ClassifierConfig, epochs=0)
    Traceback (most recent call last):
    supportmatch.errors.ConfigError: `epochs` is 0, but input should be greater than 0.
    """
    try:
        return stage(**values)
    except ValidationError as error:
        first = error.errors()[0]
        message = f"{first['msg'][0].lower()}{first['msg'][1:]}"
        raise ConfigError(f"`{first['loc'][0]}` is {first['input']!r}, but {message}.") from None


class TableConfig(StageConfig):
    """How columns become numbers, where cells are empty or hold what nobody has seen."""

    missing: Literal["refuse", "own-category"] = "refuse"
    """A cell without a value: an error, or a category of its own (a number becomes the median of training, and a
    category beside it says that it was missing)."""
    unknown: Literal["refuse", "ignore"] = "refuse"
    """A category that neither set had when the model was fitted: an error, or none of the known ones."""
    max_categories: PositiveInt | None = None
    """Of a column with more, the rarest are put together."""
    text: Literal["exact", "as-in-files"] = "exact"
    """How values of categorical columns are compared: as they are, or by their names in files: trimmed, `1.0` as `1`,
    `True` as `true`, numbers as text. `supportmatch fit` takes the latter, so that files and DataFrames of the same
    rows mean the same."""
    missing_marks: tuple[str, ...] = ()
    """Text that means missing, with `as-in-files`."""


class AutoencoderConfig(StageConfig):
    """The networks f, t (one encoder, split code) and g (decoder)."""

    kind: Literal["conv", "mlp"] = "conv"
    """Convolutional (images) or fully connected (tables, or flattened images)."""
    widths: tuple[PositiveInt, ...] = (16, 32, 64)
    """Channels of each down-sampling level (conv) or units of each hidden layer (mlp; may be empty)."""
    code_size: PositiveInt = 64
    """Size of the whole code, z and s~ together."""
    level_depth: Literal[1, 2] = 1
    """Convolutions per level: 2 adds the paper's 3x3 convolution before each strided one."""
    activation: Literal["gelu", "silu", "selu"] = "gelu"
    """Non-linearity after every hidden layer."""
    normalise: bool = False
    """GroupNorm with one group after every convolution (the paper's CelebA networks)."""
    activate_input: bool = False
    """Apply the activation to the raw input and the raw code first (the authors' Adult network)."""


class ClusteringConfig(StageConfig):
    """How the deployment set is divided, so that balanced bags can be drawn from it."""

    method: Literal["mixture", "factorised", "rank-statistics", "kmeans"] = "mixture"
    """`mixture`: semi-supervised Gaussian mixture on autoencoder codes. `factorised`: P(y|x)P(s|x) from two heads.
    `rank-statistics`: the paper's. `kmeans`: seeded by labelled centroids."""
    n_clusters: PositiveInt | None = None
    """K; by default |Y||S|. Any K from the number of seen sources upwards."""
    autoencoder: AutoencoderConfig = AutoencoderConfig(kind="mlp", widths=(256,), code_size=64)
    """The network whose codes are clustered (unused by `factorised`)."""
    pretrain_steps: PositiveInt = 100
    """Autoencoder updates on training and deployment rows together."""
    pretrain_batch: PositiveInt = 256
    """Rows per pre-training update."""
    pretrain_learning_rate: PositiveFloat = 1e-3
    """Adam step size of pre-training."""
    norm_weight: NonNegativeFloat = 1e-4
    """Weight of the mean code norm in pre-training."""
    head_steps: PositiveInt = 1_000
    """Updates of the rank-statistics head."""
    head_batch: PositiveInt = 256
    """Labelled rows per head update; unlabelled ones in proportion to the sets' sizes."""
    head_width: PositiveInt = 256
    """Hidden units of the rank-statistics head."""
    head_learning_rate: PositiveFloat = 1e-3
    """Adam step size of the head."""
    top_u: PositiveInt = 5
    """U: two rows count as alike when their U strongest code dimensions coincide."""
    supervised_pairs: bool = True
    """Add the pairwise term on labelled rows to the cross-entropy ("Cosine + BCE" in the paper, Table 3)."""
    heads: Literal["linear", "boosted"] = "linear"
    """Factorised heads: logistic regression or gradient boosting."""


class BagConfig(StageConfig):
    """The bags both players see."""

    n_bags: PositiveInt = 8
    """Bags drawn from either set at every step."""
    bag_size: PositiveInt = 16
    """Rows per bag; a multiple of the number of sources makes every bag exactly balanced."""
    balancing: Literal["clusters", "none"] = "clusters"
    """How deployment bags are drawn. (Oracle bags are a separate, loudly named path of the estimator.)"""


class DiscriminatorConfig(StageConfig):
    """The set-classifier h that tells deployment bags from training bags."""

    attention: Literal["gated", "dot-product", "instance"] = "gated"
    """Pooling over the bag; `instance` judges rows one by one (the ablation)."""
    hidden_before: tuple[PositiveInt, ...] = (256, 256)
    """Hidden layers applied to each row."""
    row_size: PositiveInt = 32
    """Size of a row's embedding, which the attention pools."""
    gate_size: PositiveInt = 128
    """Width of the gated attention."""
    hidden_after: tuple[PositiveInt, ...] = (256, 256)
    """Hidden layers applied to the pooled bag."""
    n_discriminators: PositiveInt = 1
    """Independent discriminators whose losses are averaged."""


class MatchingConfig(StageConfig):
    """The adversarial game between encoder and bag discriminator (paper, Eq. 7-8)."""

    steps: NonNegativeInt = 2_000
    """Encoder updates; each sees `n_bags` bags from either set."""
    discriminator_updates: PositiveInt = 1
    """Discriminator updates per encoder update."""
    learning_rate: PositiveFloat = 2e-3
    """Adam step size of the autoencoder and predictors."""
    discriminator_learning_rate: PositiveFloat = 1e-3
    """Adam step size of the discriminator."""
    decay_from: NonNegativeFloat = 0.5
    """Fraction of the steps after which step sizes fall linearly to zero; 1 means never."""
    reconstruction_weight: NonNegativeFloat = 100.0
    """Weight of the reconstruction error, averaged over the elements of a row."""
    adversarial_weight: NonNegativeFloat = 0.1
    """lambda_adv. Zero turns matching off: the ablation, not a bug."""
    class_weight: NonNegativeFloat = 1.0
    """lambda_y, of the linear class predictor on z."""
    subgroup_weight: NonNegativeFloat = 1.0
    """lambda_s, of the linear subgroup predictor on s~. With a single seen subgroup it still tells s~ what training
    rows have in common."""
    norm_weight: NonNegativeFloat = 1.0
    """Weight of the mean norm of z."""
    adversarial_loss: Literal["minimax", "non-saturating", "as-run"] = "non-saturating"
    """`minimax`: the encoder ascends the discriminator's loss, whose gradient vanishes when the discriminator is sure.
    `non-saturating`: it descends the loss with the sets exchanged. `as-run`: the authors' mixture, non-saturating on
    training bags and minimax on deployment bags. Without balancing, `minimax` did better on digits."""
    stop_gradient: bool = False
    """Keep the adversarial gradient from deployment codes, so that only training codes move."""
    guided_steps: NonNegativeInt = 0
    """For so many steps the class predictor also learns deployment rows, by the classes of their clusters, which are
    named without labels (`supportmatch.pairing`). Where there are more steps, the game goes on alone. The preset
    `images` is guided throughout."""
    side_channel: Literal["raw", "sigmoid", "binary"] = "sigmoid"
    """What s~ passes through: nothing, a sigmoid, or a sigmoid rounded with a straight-through gradient."""
    averaging: NonNegativeFloat = 0.995
    """Decay of the averaged encoder weights that are kept in the end; zero keeps the last ones."""

    @model_validator(mode="after")
    def _check(self) -> MatchingConfig:
        if self.averaging >= 1 or self.decay_from > 1:
            raise ConfigError(
                f"`averaging` must be below 1 and `decay_from` at most 1, but they are {self.averaging} and "
                f"{self.decay_from}."
            )
        return self


class ClassifierConfig(StageConfig):
    """The classifier y from z."""

    hidden: tuple[PositiveInt, ...] = ()
    """Hidden layers: none is linear; the paper uses one of 35 units (SELU) on tables."""
    epochs: PositiveInt = 60
    """Passes over as many rows as the training set has."""
    batch_size: PositiveInt = 256
    """Rows per update."""
    learning_rate: PositiveFloat = 1e-3
    """Adam step size."""
    sampling: Literal["pi", "sources", "plain"] = "pi"
    """`pi`: classes equal, subgroups equal within them, as in training bags. `sources`: every seen source equal (the
    authors' Adult runs). `plain`: as the rows are (their Colored MNIST runs)."""


class FinalConfig(StageConfig):
    """The classifier that predicts in the end."""

    learns_from: Literal["z", "deployment"] = "z"
    """`z`: the classifier on z of training rows has the last word, as in the paper. `deployment`: a network learns from
    the rows of both sets themselves, deployment rows labelled softly by their named clusters; where z agrees with
    nearly all of them, those of which it does not are left out."""
    widths: tuple[PositiveInt, ...] = (16, 32, 64, 128)
    """Of the network: channels of each level (images) or hidden units (tables)."""
    epochs: PositiveInt = 5
    """Passes over as many rows as both sets have."""
    batch_size: PositiveInt = 256
    """Rows per update."""
    learning_rate: PositiveFloat = 1e-3
    """Adam step size; it falls linearly to zero in the second half."""


class Config(StageConfig):
    """Every stage's settings."""

    table: TableConfig = TableConfig()
    clustering: ClusteringConfig = ClusteringConfig()
    bags: BagConfig = BagConfig()
    autoencoder: AutoencoderConfig = AutoencoderConfig()
    discriminator: DiscriminatorConfig = DiscriminatorConfig()
    matching: MatchingConfig = MatchingConfig()
    classifier: ClassifierConfig = ClassifierConfig()
    final: FinalConfig = FinalConfig()


_LEAN_TABLE = AutoencoderConfig(kind="mlp", widths=(), code_size=35, activation="selu", activate_input=True)
_LEAN_TABLE_DISCRIMINATOR = DiscriminatorConfig(hidden_before=(32,), row_size=32, gate_size=32, hidden_after=())
_PAPER_CONV = AutoencoderConfig(widths=(16, 32, 64, 128), code_size=128, level_depth=2)
_PAPER_FACES = AutoencoderConfig(
    widths=(32, 64, 128, 256, 512), code_size=128, level_depth=2, activation="silu", normalise=True
)


def _paper_ranks(pretrain_steps: int, head_steps: int) -> ClusteringConfig:
    """150 epochs over both sets, then 100 over the training set, in batches of 256."""
    return ClusteringConfig(
        method="rank-statistics",
        autoencoder=_PAPER_CONV,
        pretrain_steps=pretrain_steps,
        pretrain_learning_rate=3e-4,
        head_steps=head_steps,
    )


_PAPER_MNIST = MatchingConfig(
    steps=8_000,
    learning_rate=3e-4,
    discriminator_learning_rate=3e-4,
    adversarial_weight=0.1,
    adversarial_loss="as-run",
    side_channel="raw",
    decay_from=1.0,
    averaging=0.0,
)
_TABLE_MATCHING = MatchingConfig(
    steps=1_500,
    learning_rate=1e-3,
    decay_from=1.0,
    reconstruction_weight=1.0,
    adversarial_weight=0.3,
    class_weight=0.0,
    subgroup_weight=0.0,
    norm_weight=0.0,
    adversarial_loss="as-run",
    stop_gradient=True,
    side_channel="raw",
)

PRESETS: dict[str, Config] = {
    "images": Config(
        bags=BagConfig(n_bags=4),
        matching=MatchingConfig(steps=1_000, guided_steps=1_000),
        final=FinalConfig(learns_from="deployment", epochs=8),
    ),
    "tables": Config(
        clustering=ClusteringConfig(method="factorised", heads="boosted"),
        bags=BagConfig(n_bags=32, bag_size=8),
        autoencoder=_LEAN_TABLE,
        discriminator=_LEAN_TABLE_DISCRIMINATOR,
        matching=_TABLE_MATCHING.model_copy(update={"steps": 1_000}),
        final=FinalConfig(learns_from="deployment", widths=(35,), epochs=30),
    ),
    "lean-images": Config(),
    "lean-tables": Config(
        clustering=ClusteringConfig(method="factorised"),
        bags=BagConfig(n_bags=32, bag_size=8),
        autoencoder=_LEAN_TABLE,
        discriminator=_LEAN_TABLE_DISCRIMINATOR,
        matching=_TABLE_MATCHING,
    ),
    "paper-cmnist-sb": Config(
        clustering=_paper_ranks(4_050, 900),
        bags=BagConfig(n_bags=1, bag_size=256),
        autoencoder=_PAPER_CONV,
        matching=_PAPER_MNIST,
        classifier=ClassifierConfig(sampling="plain"),
    ),
    "paper-cmnist-ms": Config(
        clustering=_paper_ranks(5_550, 2_200),
        bags=BagConfig(n_bags=32, bag_size=8),
        autoencoder=_PAPER_CONV,
        discriminator=DiscriminatorConfig(n_discriminators=3),
        matching=_PAPER_MNIST.model_copy(update={"side_channel": "binary"}),
        classifier=ClassifierConfig(sampling="plain"),
    ),
    "paper-cmnist-3digit": Config(
        clustering=_paper_ranks(7_650, 2_400),
        bags=BagConfig(n_bags=4, bag_size=64),
        autoencoder=_PAPER_CONV,
        discriminator=DiscriminatorConfig(attention="dot-product", n_discriminators=10),
        matching=_PAPER_MNIST.model_copy(update={"steps": 12_000}),
        classifier=ClassifierConfig(sampling="plain"),
    ),
    "paper-adult": Config(
        clustering=ClusteringConfig(
            method="rank-statistics",
            autoencoder=_LEAN_TABLE,
            pretrain_steps=900,  # 100 epochs of 35,509 rows in batches of 4,000
            pretrain_batch=4_000,
            norm_weight=0.01,
            head_steps=1_500,  # 300 epochs
            head_batch=4_000,
            head_width=30,
        ),
        bags=BagConfig(n_bags=64, bag_size=8),
        autoencoder=_LEAN_TABLE,
        discriminator=_LEAN_TABLE_DISCRIMINATOR.model_copy(update={"gate_size": 128}),
        matching=_TABLE_MATCHING.model_copy(
            update={
                "steps": 5_000,
                "discriminator_updates": 3,
                "discriminator_learning_rate": 3e-4,
                "adversarial_weight": 1.0,
                "averaging": 0.0,
            }
        ),
        classifier=ClassifierConfig(sampling="sources"),
    ),
    "faces": Config(
        autoencoder=AutoencoderConfig(widths=(16, 32, 64, 128), code_size=96, activation="silu", normalise=True),
        discriminator=DiscriminatorConfig(hidden_before=(256,), row_size=256, gate_size=64, hidden_after=(256,)),
        matching=MatchingConfig(
            steps=1_000,  # 1,500 were no better
            learning_rate=1e-3,
            discriminator_learning_rate=3e-4,
            decay_from=1.0,
            reconstruction_weight=10.0,
            adversarial_weight=1.0,
            norm_weight=0.01,
            adversarial_loss="minimax",
        ),
    ),
    "paper-celeba": Config(
        clustering=ClusteringConfig(
            method="rank-statistics",
            autoencoder=_PAPER_FACES,
            pretrain_steps=5_740,  # 10 epochs of about 147,000 rows: 101,300 and, on average, 45,600 labelled ones
            pretrain_learning_rate=3e-4,
            head_steps=3_580,  # 20 epochs of the labelled rows
            top_u=8,
            supervised_pairs=False,
        ),
        bags=BagConfig(n_bags=32, bag_size=8),
        autoencoder=_PAPER_FACES,
        matching=_PAPER_MNIST.model_copy(update={"steps": 10_000, "reconstruction_weight": 1.0, "norm_weight": 0.01}),
        classifier=ClassifierConfig(sampling="plain"),
    ),
}
"""`images` and `tables` are the defaults, tuned for two CPU cores; `lean-images` and `lean-tables` are the paper's
method without a guided start and with the classifier on z, at a budget for two cores; `faces` is a lean recipe for
64 x 64 pictures there (with the default clustering, untuned). `paper-...` are the authors' settings as they were run
for the figures, which differ from the paper's own table (see docs/deviations.md); what was not recorded (clustering of
`paper-celeba`) is the table's."""


def preset(name: str) -> Config:
    """Return a named configuration.

    >>> preset("paper-cmnist-sb").matching.steps
    8000
    """
    if name not in PRESETS:
        raise ConfigError(f"unknown preset {name!r}: choose one of {', '.join(PRESETS)}.")
    return PRESETS[name]


def read_config(path: Path, start: Config) -> Config:
    """Return a configuration with what a TOML file changes: tables named like the stages, such as `[matching]`."""
    if not path.is_file():
        raise ConfigError(f"there is no file {path} with settings: check --config.")
    try:
        changes = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML ({error}): correct it.") from error
    try:
        return Config.model_validate(_merge(start.model_dump(), changes))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            stage: Any = Config.model_fields[str(first["loc"][0])].annotation if len(first["loc"]) > 1 else Config
            known = ", ".join(stage.model_fields)
            raise ConfigError(f"{where} in {path} is no setting: choose one of {known}.") from None
        raise ConfigError(f"{where} in {path} is {first['input']!r}, but {first['msg'].lower()}: correct it.") from None


def _merge(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    merged = dict(values)
    for name, change in changes.items():
        old = merged.get(name)
        merged[name] = _merge(old, change) if isinstance(old, dict) and isinstance(change, dict) else change
    return merged


def default_config(*, images: bool, n_sources: int) -> Config:
    """Return the default for this kind of rows, with a bag size that every source divides."""
    return fit_bags(PRESETS["images" if images else "tables"], n_sources)


def fit_bags(config: Config, n_sources: int) -> Config:
    """Return a configuration with the nearest bag size that every source divides."""
    size = n_sources * max(1, round(config.bags.bag_size / n_sources))
    return config.model_copy(update={"bags": config.bags.model_copy(update={"bag_size": size})})
