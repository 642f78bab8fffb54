"""LambdaLoss with the weights of NDCG-Loss2, for the order the scores give now. Nothing is drawn.

    loss = Σ over pairs with gain_i > gain_j of  δ(|rank_i − rank_j|) (gain_i − gain_j) log₂(1 + e^{score_j − score_i})
    δ(m) = θ_m − θ_{m+1},        θ_j = 0 beyond k

so that, with a cut at k, only items at most k ranks apart pull at each other: in sorted order, a band.

Wang et al., "The LambdaLoss Framework for Ranking Metric Optimization", CIKM 2018.
"""

from math import log

import torch
from torch import Generator, Tensor

from isrr_paper.scorers.losses.draws import discounts


def lambdaloss(
    scores: Tensor, gains: Tensor, mask: Tensor, k: int, n_draws: int, generator: Generator | None
) -> Tensor:
    """Return the direction that lowers the loss fastest; draws and generator are unused.

    All pairs at once, or those within the band. A `k` of at least the longest list leaves nothing cut.
    """
    dtype = scores.dtype
    scores = scores.detach().double() if scores.device.type == "cpu" else scores.detach()
    n_items = scores.shape[1]
    order = scores.masked_fill(~mask, -torch.inf).sort(dim=1, descending=True, stable=True).indices
    score, gain, inside = scores.gather(1, order), gains.to(scores.dtype).gather(1, order), mask.gather(1, order)
    reach = min(k, n_items - 1)
    if 2 * reach + 1 < n_items:
        step = _steps(k, reach, scores)
        weight = torch.cat([step.flip(0), step.new_zeros(1), step])
        other_score, other_gain, other_inside = (
            torch.nn.functional.pad(values, (reach, reach)).unfold(1, 2 * reach + 1, 1)
            for values in (score, gain, inside)
        )
    else:
        rank = torch.arange(n_items, device=scores.device)
        step = torch.nn.functional.pad(_steps(k, n_items - 1, scores), (1, 0))
        weight = step[(rank - rank[:, None]).abs()]
        other_score, other_gain, other_inside = score[:, None], gain[:, None], inside[:, None]
    gap = gain[:, :, None] - other_gain
    losing = torch.sigmoid((other_score - score[:, :, None]) * gap.sign())
    pull = (weight * gap * losing * other_inside).sum(2) * inside
    return torch.empty_like(pull).scatter_(1, order, pull).to(dtype) / log(2)


def _steps(k: int, reach: int, like: Tensor) -> Tensor:
    """δ of the distance between two ranks, for distances 1 … reach."""
    shown = min(k, reach + 1)
    discount = torch.nn.functional.pad(discounts(shown, like), (0, reach + 1 - shown))
    return discount[:-1] - discount[1:]
