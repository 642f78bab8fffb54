"""Plackett–Luce rankings, drawn for many queries at once, and the sums their gradients are made of.

One Gumbel variable per item would do, at a cost of n_draws · n_items. Here a place costs one uniform variable and a
search in the cumulated weights, skipping the items placed before, so that the cost is n_draws · k · log n_items.

Items are cumulated from the lightest to the heaviest. The stretches between placed items then keep their relative
precision, however much weight the placed items had: what lies above an item is at least as heavy as that item.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from isrr.gains import discount
from isrr.parallel import over_queries
from isrr_paper.paper_errors import ScorerError
from isrr_paper.scorers._loss_kernels import position_items

# Weights are kept above this share of the heaviest: a score 690 below the best would vanish in double precision.
LIGHTEST = -690.0


@dataclass(frozen=True)
class Draws:
    """Rankings drawn per query, k places each; a list shorter than k leaves its last places empty.

    Attributes:
        items: Item at each place, (n_queries, k, n_draws); any where empty.
        filled: Whether the place holds an item, (n_queries, k, 1).
        mass: Weight of the items not yet placed when the place was drawn, shaped as `items`; infinite where empty.
        weights: exp(score − largest score), 0 at the padding, (n_queries, n_items).
    """

    items: Tensor
    filled: Tensor
    mass: Tensor
    weights: Tensor


def draw(scores: Tensor, mask: Tensor, k: int, n_draws: int, generator: torch.Generator | None) -> Draws:
    """Draw the first k places of n_draws Plackett–Luce rankings of each query.

    P(item d next) = exp(score_d) / Σ over unplaced items of exp(score)
    """
    k = min(k, scores.shape[1])
    rising, order = scores.detach().double().masked_fill(~mask, -torch.inf).sort(dim=1)
    below_best = (rising - rising[:, -1:]).clamp(min=LIGHTEST)
    weights = below_best.masked_fill(torch.isneginf(rising), -torch.inf).exp()
    place = place_on_host if scores.device.type == "cpu" else place_on_device
    placed, mass = place(weights.cumsum(1), uniforms(scores, k, n_draws, generator))
    filled = (torch.arange(k, device=scores.device) < mask.sum(1, True)).unsqueeze(2)
    return Draws(
        items=at(order, placed),
        filled=filled,
        mass=mass.masked_fill_(~filled, torch.inf),
        weights=torch.empty_like(weights).scatter_(1, order, weights),
    )


def uniforms(scores: Tensor, k: int, n_draws: int, generator: torch.Generator | None) -> Tensor:
    """Noise in [0, 1), (n_queries, k, n_draws), so far below 1 that rounding never makes it 1."""
    shape = len(scores), k, n_draws
    noise = torch.rand(shape, dtype=torch.float64, device=scores.device, generator=generator)
    return noise.mul_(1 - 1e-14)


def refuse_divergence(values: Tensor) -> None:
    """Raise where values are not finite: a net gone astray, which compiled loops must not see."""
    if not torch.isfinite(values).all():
        raise ScorerError("training diverged: scores are no longer finite; a lower learning_rate may help")


def place_on_host(upto: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Return the item at each position and the mass left before it, in a compiled loop.

    Args:
        upto: Cumulated weights of the items, from the lightest to the heaviest, (n_queries, n_items).
        noise: Uniform in [0, 1), (n_queries, k, n_draws).
    """
    refuse_divergence(upto)
    placed, mass = torch.empty(noise.shape, dtype=torch.int64), torch.empty_like(noise)
    columns, results = (upto.numpy(), noise.numpy()), (placed.numpy(), mass.numpy())
    starts = np.arange(len(upto) + 1) * (1 + noise[0].numel() // 8)  # blocks of some milliseconds
    over_queries(lambda start, stop: position_items(*columns, start, stop, *results), starts)
    return placed, mass


def place_on_device(upto: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """As `place_on_host`, in tensor operations whose number depends on k alone."""
    n_queries, k, n_draws = noise.shape
    below = torch.nn.functional.pad(upto, (1, 0))
    # Placed items cut the cumulated weights into stretches, each from one of `begins` to one of `ends`.
    begins = torch.zeros(n_queries, k + 1, n_draws, dtype=upto.dtype, device=upto.device)
    ends = upto[:, -1].view(-1, 1, 1).expand(begins.shape).clone()
    mass = torch.empty_like(noise)
    placed = torch.empty(noise.shape, dtype=torch.int64, device=upto.device)
    for place in range(k):
        upper = (ends[:, : place + 1] - begins[:, : place + 1]).cumsum(1)
        left = upper[:, place]
        target = noise[:, place] * left
        stretch = (target.unsqueeze(1) >= upper[:, :-1]).sum(1, keepdim=True)
        lower = torch.nn.functional.pad(upper[:, :-1], (0, 0, 1, 0)).gather(1, stretch).squeeze(1)
        target = begins.gather(1, stretch).squeeze(1) + (target - lower)
        item = torch.searchsorted(upto, target, right=True).clamp_(max=upto.shape[1] - 1)
        mass[:, place], placed[:, place] = left, item
        _insert(ends[:, : place + 2], below.gather(1, item))
        _insert(begins[:, : place + 2], upto.gather(1, item))
    return placed, mass


def at(values: Tensor, items: Tensor) -> Tensor:
    """Per-item values, (n_queries, n_items), at the items drawn, (n_queries, k, n_draws)."""
    return values.gather(1, items.flatten(1)).view(items.shape)


def add_at(values: Tensor, items: Tensor, n_items: int) -> Tensor:
    """Sum values over the draws and places of each item, (n_queries, n_items).

    Sums are taken in whole numbers, to 52 bits of the largest possible: they do not depend on the order of addition,
    which a GPU leaves open.
    """
    unit = values.abs().amax().clamp(min=1e-300) * (2.0**-52 * items[0].numel())
    sums = torch.zeros(len(items), n_items, dtype=torch.int64, device=items.device)
    sums.scatter_add_(1, items.flatten(1), (values / unit).round_().long().flatten(1))
    return sums.double() * unit


def discounts(k: int, like: Tensor) -> Tensor:
    """θ of the first k places, (k,), in the precision and on the device of a tensor.

    They are held on the device: sending them at each step would make the host wait for it.
    """
    return _discounts(1 << max(6, (k - 1).bit_length()), like.dtype, like.device)[:k]


@lru_cache(maxsize=64)
def _discounts(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.as_tensor(discount(size), dtype=dtype, device=device)


def _insert(ascending: Tensor, value: Tensor) -> None:
    """Insert into all but the last of the sorted values along axis 1, in place; the last is a spare."""
    before = ascending[:, :-1].clone()
    ascending[:, :-1] = torch.minimum(before, value.unsqueeze(1))
    ascending[:, -1] = value
    ascending[:, 1:] = torch.maximum(ascending[:, 1:], before)
