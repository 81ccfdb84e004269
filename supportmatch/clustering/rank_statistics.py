"""The paper's clustering (Sec. 4.3): rank statistics of frozen codes tell which deployment rows belong together.

A head on frozen codes learns seen sources from labels and everything else from pairs: two deployment rows count as
alike when the U code dimensions of largest magnitude are the same ones. After "AutoNovel" (Han et al., 2020), as the
paper's authors ran it: one head for all clusters, frozen encoder, no augmentation. Nothing keeps a small missing source
from being absorbed by a larger one, so clusters can die; the user is warned when they do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy, cross_entropy

from supportmatch.config import ClusteringConfig
from supportmatch.errors import ConfigError
from supportmatch.seeding import seeded_initialisation, torch_stream
from supportmatch.sources import Ids


def rank_statistics_probabilities(
    train_codes: NDArray[Any],
    labels: Ids,
    deploy_codes: NDArray[Any],
    n_clusters: int,
    config: ClusteringConfig,
    seed: int,
    advance: Callable[[], None],
) -> NDArray[np.float64]:
    """Train the head and return the probability of each of the K columns for each deployment row."""
    if config.top_u >= train_codes.shape[1]:
        raise ConfigError(
            f"`top_u` is {config.top_u}, but codes have {train_codes.shape[1]} dimensions, so all rows would count as "
            "alike: use a smaller `top_u` or a larger `code_size`."
        )
    train_z, train_k = torch.from_numpy(train_codes), torch.from_numpy(labels)
    deploy_z = torch.from_numpy(deploy_codes)
    signatures = rank_signatures(deploy_z, config.top_u)
    n_labelled = min(config.head_batch, len(train_z))
    n_unlabelled = max(1, round(n_labelled * len(deploy_z) / len(train_z)))
    with seeded_initialisation(seed, "rank-statistics head"):
        head = nn.Sequential(
            nn.Linear(train_z.shape[1], config.head_width), nn.SELU(), nn.Linear(config.head_width, n_clusters)
        )
    optimiser = torch.optim.Adam(head.parameters(), lr=config.head_learning_rate)
    generator = torch_stream(seed, "rank-statistics batches")
    for _ in range(config.head_steps):
        some = torch.randint(len(train_z), (n_labelled,), generator=generator)
        others = torch.randint(len(deploy_z), (n_unlabelled,), generator=generator)
        logits, k = head(train_z[some]), train_k[some]
        loss = cross_entropy(logits, k)
        if config.supervised_pairs:
            loss = loss + pairwise_loss(logits.softmax(dim=1), same_pairs(k))
        loss = loss + pairwise_loss(head(deploy_z[others]).softmax(dim=1), same_pairs(signatures[others]))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        advance()
    with torch.no_grad():
        probabilities: NDArray[np.float64] = head(deploy_z).softmax(dim=1).double().numpy()
    return probabilities


def rank_signatures(codes: Float[Tensor, "rows code"], top_u: int) -> Int[Tensor, " rows"]:
    """Number the sets of the `top_u` dimensions of largest magnitude: equal numbers, equal sets.

    The order within the set, the sign of a dimension and the length of the code play no part.

    >>> rank_signatures(torch.tensor([[5.0, -4.0, 0.0, 1.0], [0.4, 0.5, 0.1, 0.0], [0.0, 1.0, 2.0, 0.0]]), 2).tolist()
    [0, 0, 1]
    """
    top = codes.abs().topk(top_u, dim=1).indices.sort(dim=1).values
    signatures: Tensor = torch.unique(top, dim=0, return_inverse=True)[1]
    return signatures


def same_pairs(ids: Int[Tensor, " rows"]) -> Bool[Tensor, "rows rows"]:
    """Return for each pair of rows, a row with itself included, whether their ids agree."""
    return ids[:, None] == ids[None, :]


def pairwise_loss(probabilities: Float[Tensor, "rows clusters"], alike: Bool[Tensor, "rows rows"]) -> Float[Tensor, ""]:
    """Binary cross-entropy between the similarity of two rows' predictions and whether the rows are alike.

    The similarity is the plain dot product of the two probability vectors: the chance that both rows fall into one
    cluster. The paper calls it "cosine", but the authors did not normalise it. The mean is over all ordered pairs.
    """
    similarity = (probabilities @ probabilities.T).clamp(0, 1)  # rounding can step outside
    return binary_cross_entropy(similarity, alike.to(similarity.dtype))
