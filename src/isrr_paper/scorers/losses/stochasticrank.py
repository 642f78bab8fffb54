"""StochasticRank: the gradient of expected DCG when noise is added to the scores, by conditioning on one coordinate.

Given the noisy scores of all other items, b₁ > b₂ > …, DCG is a step function of item d's noisy score: passing the p-th
of them changes it by (θ_p − θ_{p+1})(gain_d − gain_p). The noise of d alone is integrated out, f being its density:

    ∂/∂score_d  =  E[ Σ_{p ≤ k} (θ_p − θ_{p+1}) (gain_d − gain_p) f(b_p − score_d) ],        θ_{k+1} = 0.

The others of an unplaced item are the leading k; those of a placed one leave it out, so k + 1 are drawn. With Gumbel
noise the ranking is Plackett–Luce and the leading noisy scores are −log of exponential arrival times.

Ustimenko and Prokhorenkova, "StochasticRank: Global Optimization of Scale-Free Discrete Functions", ICML 2020.
"""

from typing import Literal

import torch
from torch import Generator, Tensor

from isrr_paper.scorers.losses.draws import add_at, at, discounts, draw

Noise = Literal["gumbel", "normal"]
# Densities held at once: what a core's cache holds, what a GPU's memory holds.
_AT_ONCE = {"cpu": 1 << 20, "cuda": 1 << 28}


def stochasticrank(
    scores: Tensor, gains: Tensor, mask: Tensor, k: int, n_draws: int, generator: Generator | None, noise: Noise
) -> Tensor:
    """Estimate the gradient of expected DCG@k under standard noise; arguments as in `isrr_paper.scorers.losses`."""
    leading = _gumbel_leaders if noise == "gumbel" else _normal_leaders
    scores = scores.detach() - scores.detach().masked_fill(~mask, -torch.inf).amax(1, True)
    at_once = max(1, _AT_ONCE[scores.device.type] // (scores.numel() * k))
    summed = torch.zeros(scores.shape, dtype=torch.float64, device=scores.device)
    for first in range(0, n_draws, at_once):
        items, noisy = leading(scores, mask, k + 1, min(at_once, n_draws - first), generator)
        summed += _conditioned(scores, gains, items, noisy, k, noise)
    return torch.where(mask, summed / n_draws, 0.0).to(scores.dtype)


def _conditioned(scores: Tensor, gains: Tensor, items: Tensor, noisy: Tensor, k: int, noise: Noise) -> Tensor:
    """Sum over draws of the conditional gradient.

    The leaders, their items and noisy scores, are (n_queries, k + 1, n_draws), or fewer where lists are shorter.
    """
    places = items.shape[1]
    discount = torch.nn.functional.pad(discounts(k, scores), (0, 2))
    step = (discount[:-1] - discount[1:])[:places].view(1, -1, 1)
    gain, score = at(gains, items), at(scores, items)

    density = _density(scores[:, :, None] - noisy[:, None, :k].flatten(2), noise)
    weights = torch.stack([step[:, :k].expand_as(gain[:, :k]), step[:, :k] * gain[:, :k]], dim=-1)
    total, passed = torch.bmm(density, weights.flatten(1, 2)).unbind(-1)
    unplaced = gains * total - passed

    # What an unplaced item passes differs from what leader i passes: from place i on, the next leader stands there.
    change = (gain[:, :, None] - gain[:, None]) * _density(score[:, :, None] - noisy[:, None], noise)
    change = torch.nn.functional.pad(change, (0, 0, 0, 1))
    place = torch.arange(places, device=scores.device)
    from_here = (place >= place[:, None]).unsqueeze(2) * step
    own = (from_here * (change[:, :, 1:] - change[:, :, :-1])).sum(2)
    return unplaced.double() + add_at(own.double(), items, scores.shape[1])


def _density(x: Tensor, noise: Noise) -> Tensor:
    """Density of the noise at −x, 0 where x is infinite; x is overwritten."""
    if noise == "gumbel":
        return x.sub_(x.exp()).exp_()
    return x.square_().mul_(-0.5).exp_().mul_((2 * torch.pi) ** -0.5)


def _gumbel_leaders(
    scores: Tensor, mask: Tensor, places: int, n_draws: int, generator: Generator | None
) -> tuple[Tensor, Tensor]:
    draws = draw(scores, mask, places, n_draws, generator)
    waits = torch.empty_like(draws.mass).exponential_(generator=generator)
    arrival = (waits / draws.mass).cumsum(1)
    noisy = torch.where(draws.filled, -arrival.log(), torch.inf)
    return draws.items, noisy.to(scores.dtype)


def _normal_leaders(
    scores: Tensor, mask: Tensor, places: int, n_draws: int, generator: Generator | None
) -> tuple[Tensor, Tensor]:
    n_queries, n_items = scores.shape
    noise = torch.randn(n_queries, n_draws, n_items, dtype=scores.dtype, device=scores.device, generator=generator)
    noisy = torch.where(mask[:, None], noise.add_(scores[:, None]), -torch.inf)
    values, items = noisy.topk(min(places, n_items), dim=2)
    values = torch.where(torch.isneginf(values), torch.inf, values)
    return items.transpose(1, 2), values.transpose(1, 2)
