"""The set-discriminator h: one logit per bag, positive for deployment.

The bag is an axis that only pooling touches, so the order of rows in a bag cannot matter. Logits come in the order of
the bags; ensembles and the instance-wise ablation give several for each.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from supportmatch.config import DiscriminatorConfig


class GatedAttention(nn.Module):
    """Gated attention pooling (Ilse et al., 2018): weights from tanh(V h) * sigmoid(U h)."""

    def __init__(self, row_size: int, gate_size: int) -> None:
        super().__init__()
        self.content = nn.Linear(row_size, gate_size, bias=False)
        self.gate = nn.Linear(row_size, gate_size, bias=False)
        self.score = nn.Linear(gate_size, 1, bias=False)
        for layer in (self.content, self.gate, self.score):
            nn.init.xavier_normal_(layer.weight)

    def weights(self, rows: Float[Tensor, "bags size row"]) -> Float[Tensor, "bags size"]:
        """Return the share of each row; the shares of a bag sum to one."""
        scores: Tensor = self.score(self.content(rows).tanh() * self.gate(rows).sigmoid())
        return scores.squeeze(-1).softmax(dim=1)

    def forward(self, rows: Float[Tensor, "bags size row"]) -> Float[Tensor, "bags row"]:
        """Return the weighted mean of each bag."""
        return (self.weights(rows).unsqueeze(1) @ rows).squeeze(1)


class DotProductAttention(nn.Module):
    """Scaled dot-product attention (Vaswani et al., 2017) with the bag mean as the only query."""

    def __init__(self, row_size: int) -> None:
        super().__init__()
        self.query = nn.Linear(row_size, row_size)
        self.key = nn.Linear(row_size, row_size)
        self.value = nn.Linear(row_size, row_size)
        self.out = nn.Linear(row_size, row_size)

    def weights(self, rows: Float[Tensor, "bags size row"]) -> Float[Tensor, "bags size"]:
        """Return the share of each row; the shares of a bag sum to one."""
        query = self.query(rows.mean(dim=1))
        scores: Tensor = (self.key(rows) @ query.unsqueeze(2)).squeeze(2) / rows.shape[-1] ** 0.5
        return scores.softmax(dim=1)

    def forward(self, rows: Float[Tensor, "bags size row"]) -> Float[Tensor, "bags row"]:
        """Return the pooled bag."""
        pooled: Tensor = self.out((self.weights(rows).unsqueeze(1) @ self.value(rows)).squeeze(1))
        return pooled.relu()


class SetDiscriminator(nn.Module):
    """Embed each row, pool the bag by attention, judge the pooled bag."""

    def __init__(self, z_size: int, config: DiscriminatorConfig) -> None:
        super().__init__()
        self.embed = _mlp((z_size, *config.hidden_before, config.row_size), nn.GELU, activate_last=True)
        self.attention: GatedAttention | DotProductAttention = (
            GatedAttention(config.row_size, config.gate_size)
            if config.attention == "gated"
            else DotProductAttention(config.row_size)
        )
        self.judge = _mlp((config.row_size, *config.hidden_after, 1), nn.SELU)

    def attention_weights(self, z: Float[Tensor, "bags size z"]) -> Float[Tensor, "bags size"]:
        """Return how much each row of a bag contributes to its verdict."""
        return self.attention.weights(self.embed(z))

    def forward(self, z: Float[Tensor, "bags size z"]) -> Float[Tensor, " bags"]:
        """Return one logit per bag."""
        logits: Tensor = self.judge(self.attention(self.embed(z)))
        return logits.squeeze(-1)


class InstanceDiscriminator(nn.Module):
    """Judge rows one by one, blind to the bag: the paper's ablation."""

    def __init__(self, z_size: int, config: DiscriminatorConfig) -> None:
        super().__init__()
        self.embed = _mlp((z_size, *config.hidden_before, config.row_size), nn.GELU, activate_last=True)
        self.judge = _mlp((config.row_size, *config.hidden_after, 1), nn.SELU)

    def forward(self, z: Float[Tensor, "bags size z"]) -> Float[Tensor, " logits"]:
        """Return one logit per row."""
        logits: Tensor = self.judge(self.embed(z))
        return logits.flatten()


class DiscriminatorEnsemble(nn.Module):
    """Several discriminators; the mean of a loss over all their logits is the mean of their losses."""

    def __init__(self, members: list[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, z: Float[Tensor, "bags size z"]) -> Float[Tensor, " logits"]:
        """Return the logits of every member, those of the first bag first."""
        return torch.stack([member(z) for member in self.members], dim=-1).flatten()


def build_discriminator(z_size: int, config: DiscriminatorConfig) -> nn.Module:
    """Return the discriminator (or the ensemble) that the settings ask for."""
    kind = InstanceDiscriminator if config.attention == "instance" else SetDiscriminator
    members: list[nn.Module] = [kind(z_size, config) for _ in range(config.n_discriminators)]
    return members[0] if len(members) == 1 else DiscriminatorEnsemble(members)


def _mlp(sizes: tuple[int, ...], activation: type[nn.Module], activate_last: bool = False) -> nn.Sequential:
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(sizes):
        layers += [nn.Linear(n_in, n_out), activation()]
    return nn.Sequential(*(layers if activate_last else layers[:-1]))
