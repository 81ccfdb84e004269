"""The terms of the objective, one pure function each: tensors in, scalar out.

The signs are decided here and nowhere else. The discriminator's logit is positive for *deployment*; the discriminator
descends `discrimination_loss`, the encoder descends `adversarial_loss`.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import log_softmax, mse_loss, softplus

from supportmatch.data.containers import TableLayout


def discrimination_loss(
    train_logits: Float[Tensor, " train"], deploy_logits: Float[Tensor, " deploy"]
) -> Float[Tensor, ""]:
    """Cross-entropy of telling deployment bags (label 1) from training bags (label 0)."""
    return softplus(train_logits).mean() + softplus(-deploy_logits).mean()


def adversarial_loss(
    train_logits: Float[Tensor, " train"], deploy_logits: Float[Tensor, " deploy"], kind: str = "minimax"
) -> Float[Tensor, ""]:
    """What the encoder descends to hide where bags come from (paper, Eq. 7-8).

    `minimax` is the discriminator's loss with the sign turned. `non-saturating` is the discriminator's loss with the
    sets exchanged, which has the same equilibrium but whose gradient does not vanish when the discriminator is sure.
    `as-run` is what the authors ran: non-saturating on training bags, and minimax on deployment bags.
    """
    if kind == "minimax":
        return -discrimination_loss(train_logits, deploy_logits)
    if kind == "non-saturating":
        return discrimination_loss(deploy_logits, train_logits)
    return softplus(-train_logits).mean() - softplus(-deploy_logits).mean()


def reconstruction_error(
    reconstruction: Float[Tensor, "rows *features"], x: Float[Tensor, "rows *features"], layout: TableLayout | None
) -> Float[Tensor, ""]:
    """Error per element: squared for images and numbers, cross-entropy for each one-hot block of a table."""
    if layout is None or not layout.blocks:
        return mse_loss(reconstruction, x)
    total = x.new_zeros(())
    for start, stop in layout.blocks:
        total = total - (x[:, start:stop] * log_softmax(reconstruction[:, start:stop], dim=1)).sum()
    numbers = list(layout.continuous)
    total = total + (reconstruction[:, numbers] - x[:, numbers]).square().sum()
    error: Tensor = total / x.numel()
    return error


def norm_penalty(z: Float[Tensor, "rows z"]) -> Float[Tensor, ""]:
    """Mean length of the codes: keeps the encoder from running away from the discriminator."""
    lengths: Tensor = torch.linalg.vector_norm(z, dim=1)
    return lengths.mean()
