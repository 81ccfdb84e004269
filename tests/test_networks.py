"""Shapes and refusals of the networks; what the discriminator may know is in `test_paper.py`."""

from __future__ import annotations

import pytest
import torch
from jaxtyping import TypeCheckError
from torch import nn

from supportmatch.config import AutoencoderConfig, DiscriminatorConfig
from supportmatch.errors import ConfigError
from supportmatch.networks.backbones import build_backbone
from supportmatch.networks.discriminators import SetDiscriminator, build_discriminator
from supportmatch.networks.encoders import build_decoder, build_encoder, pass_side_channel, split_code

TINY = DiscriminatorConfig(hidden_before=(6,), row_size=4, gate_size=3, hidden_after=(5,))


def kinds_of(network: nn.Module) -> list[type[nn.Module]]:
    return [type(layer) for layer in network.modules()]


@pytest.mark.parametrize(
    ("config", "shape"),
    [
        (AutoencoderConfig(widths=(4, 8), code_size=5), (3, 8, 8)),
        (AutoencoderConfig(widths=(4, 8, 16), code_size=5), (3, 32, 16)),
        (AutoencoderConfig(widths=(4,), code_size=5), (1, 2, 6)),
        (AutoencoderConfig(widths=(4, 8), code_size=5, level_depth=2), (3, 8, 8)),
        (AutoencoderConfig(widths=(4, 8), code_size=5, level_depth=2, normalise=True, activation="silu"), (2, 4, 12)),
        (AutoencoderConfig(widths=(4, 8), code_size=5, normalise=True), (3, 8, 8)),
        (AutoencoderConfig(kind="mlp", widths=(7,), code_size=5), (9,)),
        (AutoencoderConfig(kind="mlp", widths=(), code_size=5), (9,)),
        (AutoencoderConfig(kind="mlp", widths=(7, 6), code_size=5, activation="selu", activate_input=True), (9,)),
        (AutoencoderConfig(kind="mlp", widths=(7,), code_size=5), (3, 5, 7)),
    ],
)
def test_an_autoencoder_goes_from_rows_to_flat_codes_and_back(
    config: AutoencoderConfig, shape: tuple[int, ...]
) -> None:
    x = torch.rand(2, *shape)
    code = build_encoder(config, shape)(x)
    assert code.shape == (2, 5)
    assert build_decoder(config, shape)(code).shape == x.shape


def test_a_level_of_depth_two_has_twice_the_convolutions() -> None:
    shallow, deep = (build_encoder(AutoencoderConfig(widths=(4, 8), level_depth=depth), (3, 8, 8)) for depth in (1, 2))
    assert kinds_of(shallow).count(nn.Conv2d) == 2
    assert kinds_of(deep).count(nn.Conv2d) == 4


@pytest.mark.parametrize("build", [build_encoder, build_decoder])
def test_only_a_normalised_autoencoder_has_group_norm(build) -> None:
    plain, normalised = (AutoencoderConfig(widths=(4, 8), normalise=on) for on in (False, True))
    assert nn.GroupNorm not in kinds_of(build(plain, (3, 8, 8)))
    assert nn.GroupNorm in kinds_of(build(normalised, (3, 8, 8)))


def test_the_raw_input_is_activated_only_when_asked() -> None:
    plain, activated = (
        build_encoder(AutoencoderConfig(kind="mlp", widths=(), activation="selu", activate_input=on), (4,))
        for on in (False, True)
    )
    assert nn.SELU not in kinds_of(plain)
    assert nn.SELU in kinds_of(activated)


def test_the_last_layers_are_free_to_take_any_value() -> None:
    for config, shape in (
        (AutoencoderConfig(widths=(4, 8)), (3, 8, 8)),
        (AutoencoderConfig(widths=(4, 8), level_depth=2), (3, 8, 8)),
        (AutoencoderConfig(kind="mlp", widths=(4,)), (6,)),
    ):
        assert isinstance(build_encoder(config, shape)[-1], nn.Linear)
        tail = [layer for layer in build_decoder(config, shape) if not isinstance(layer, nn.Unflatten)][-1]
        assert isinstance(tail, nn.Linear | nn.Conv2d | nn.ConvTranspose2d)


@pytest.mark.parametrize("shape", [(3, 10, 8), (3, 8, 10), (12,)])
@pytest.mark.parametrize("build", [build_encoder, build_decoder])
def test_an_image_size_that_cannot_be_halved_often_enough_is_refused(build, shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match=r"2 levels needs .* multiples of 4, but a row has shape .*: pad or resize"):
        build(AutoencoderConfig(widths=(4, 8)), shape)


def test_the_side_channel_is_raw_squashed_or_rounded() -> None:
    side = torch.tensor([[-2.0], [0.3]])
    assert torch.equal(pass_side_channel(side, "raw"), side)
    assert torch.equal(pass_side_channel(side, "sigmoid"), side.sigmoid())
    assert pass_side_channel(side, "binary").tolist() == [[0.0], [1.0]]


def test_rounding_lets_the_gradient_of_the_sigmoid_through() -> None:
    gradients = []
    for kind in ("sigmoid", "binary"):
        side = torch.tensor([[-2.0], [0.3]], requires_grad=True)
        pass_side_channel(side, kind).sum().backward()
        gradients.append(side.grad)
    assert torch.allclose(*gradients)


@pytest.mark.parametrize("attention", ["gated", "dot-product"])
def test_attention_weights_are_shares_of_their_bag(attention: str) -> None:
    network = SetDiscriminator(5, TINY.model_copy(update={"attention": attention}))
    weights = network.attention_weights(torch.randn(3, 7, 5))
    assert weights.shape == (3, 7)
    assert (weights >= 0).all()
    assert torch.allclose(weights.sum(dim=1), torch.ones(3))


@pytest.mark.parametrize(
    ("attention", "n_discriminators", "n_logits"),
    [("gated", 1, 3), ("dot-product", 1, 3), ("instance", 1, 21), ("gated", 4, 12), ("instance", 2, 42)],
)
def test_a_set_discriminator_gives_one_logit_per_bag_and_an_instance_discriminator_one_per_row(
    attention: str, n_discriminators: int, n_logits: int
) -> None:
    config = TINY.model_copy(update={"attention": attention, "n_discriminators": n_discriminators})
    assert build_discriminator(5, config)(torch.randn(3, 7, 5)).shape == (n_logits,)


def test_the_members_of_an_ensemble_start_from_different_weights() -> None:
    logits = build_discriminator(5, TINY.model_copy(update={"n_discriminators": 2}))(torch.randn(1, 7, 5))
    assert logits[0] != logits[1]


@pytest.mark.parametrize("n_hidden", [0, 1, 2])
def test_a_discriminator_may_have_any_number_of_hidden_layers(n_hidden: int) -> None:
    config = TINY.model_copy(update={"hidden_before": (6,) * n_hidden, "hidden_after": (5,) * n_hidden})
    assert build_discriminator(4, config)(torch.randn(2, 3, 4)).shape == (2,)


@pytest.mark.parametrize(
    ("shape", "widths"), [((6,), ()), ((6,), (4,)), ((6,), (4, 3)), ((3, 32, 32), (4, 4, 4, 4)), ((1, 9, 12), (4, 4))]
)
def test_a_backbone_gives_one_logit_per_class(shape: tuple[int, ...], widths: tuple[int, ...]) -> None:
    assert build_backbone(shape, 3, widths)(torch.rand(2, *shape)).shape == (2, 3)


def test_the_authors_network_for_tables_has_two_linear_layers_in_a_row() -> None:
    layers = build_backbone((62,), 2, (35,), linear_width=35)
    assert [type(layer).__name__ for layer in layers] == ["Linear", "SELU", "Linear", "Linear"]
    assert layers(torch.rand(3, 62)).shape == (3, 2)
    with pytest.raises(ConfigError, match="`linear_width` is for tables"):
        build_backbone((3, 32, 32), 2, (4,), linear_width=35)


def test_images_too_small_for_their_backbone_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"too small for 3 poolings: use fewer widths"):
        build_backbone((3, 8, 8), 2, (4, 4, 4))


def test_shapes_in_signatures_are_checked_under_test() -> None:
    with pytest.raises(TypeCheckError):
        split_code(torch.zeros(2, 3, 4), 1)
