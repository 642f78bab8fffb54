"""LambdaLoss with the weights of NDCG-Loss2, for the order the scores give now. Nothing is drawn.

    loss = Σ over pairs with gain_i > gain_j of  δ(|rank_i − rank_j|) · (gain_i − gain_j) · log₂(1 + e^{score_j − score_i})
    δ(m) = θ_m − θ_{m+1},        θ_j = 0 beyond k

so that, with a cut at k, only items at most k ranks apart pull at each other: in sorted order, a band.

Wang et al., "The LambdaLoss Framework for Ranking Metric Optimization", CIKM 2018.
"""

from math import log

import torch
from torch import Generator, Tensor

from isrr.scores.losses.discounts import discounts


def lambdaloss(
    scores: Tensor, gains: Tensor, mask: Tensor, k: int, n_draws: int = 0, generator: Generator | None = None
) -> Tensor:
    """The direction that lowers the loss fastest; arguments as in `isrr.scores.losses`, draws and generator unused.

    A `k` of at least the longest list leaves nothing cut.
    """
    n_items = scores.shape[1]
    keys = scores.detach().masked_fill(~mask, -torch.inf)
    order = keys.sort(dim=1, descending=True, stable=True).indices
    score, gain = scores.detach().gather(1, order), gains.to(scores.dtype).gather(1, order)
    inside = mask.gather(1, order)
    reach = min(k, n_items - 1)
    if 2 * reach + 1 < n_items:
        weight = _weights(k, reach, scores)
        other_score, other_gain, other_inside = (
            torch.nn.functional.pad(values, (reach, reach)).unfold(1, 2 * reach + 1, 1)
            for values in (score, gain, inside)
        )
    else:
        ranks = torch.arange(n_items, device=scores.device)
        weight = _weights(k, n_items - 1, scores)[n_items - 1 + ranks[None, :] - ranks[:, None]]
        other_score, other_gain, other_inside = score[:, None], gain[:, None], inside[:, None]
    gap = gain[:, :, None] - other_gain
    losing = torch.sigmoid((other_score - score[:, :, None]) * gap.sign())
    pull = (weight * gap * losing * other_inside).sum(2) * (inside / log(2))
    return torch.empty_like(pull).scatter_(1, order, pull)


def _weights(k: int, reach: int, like: Tensor) -> Tensor:
    """δ of the distance between ranks, for distances −reach … reach, (2 reach + 1,); 0 at 0."""
    shown = min(k, reach + 1)
    theta = torch.nn.functional.pad(discounts(shown, like), (0, reach + 1 - shown))
    step = theta[:-1] - theta[1:]
    return torch.cat([step.flip(0), step.new_zeros(1), step])
