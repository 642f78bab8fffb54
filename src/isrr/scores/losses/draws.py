"""Plackett–Luce rankings, drawn for many queries at once, and the sums their gradients are made of.

One Gumbel variable per item would do, at a cost of n_draws · n_items. Here a position costs one uniform variable and a
search in the cumulated weights, skipping the items placed before, so that the cost is n_draws · k · log n_items.

Items are cumulated from the lightest to the heaviest. The stretches between placed items then keep their relative
precision, however much weight the placed items had: what lies above an item is at least as heavy as that item.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from isrr.scores.losses.discounts import discounts

# Weights are kept above this share of the heaviest: a score 690 below the best would vanish in double precision.
_LIGHTEST = -690.0


@dataclass(frozen=True)
class Draws:
    """Rankings drawn per query, k places each; a list shorter than k leaves its last places empty.

    Attributes:
        items: Item at each place, (k, n_queries, n_draws); 0 where empty.
        filled: Whether the place holds an item, (k, n_queries, 1).
        mass: Weight of the items not yet placed when the place was drawn, (k, n_queries, n_draws); 1 where empty.
        weights: exp(score − largest score), 0 at the padding, (n_queries, n_items).
    """

    items: Tensor
    filled: Tensor
    mass: Tensor
    weights: Tensor

    @property
    def theta(self) -> Tensor:
        """Discount of each place, (k, 1, 1)."""
        return discounts(len(self.items), self.mass).view(-1, 1, 1)

    def of(self, values: Tensor) -> Tensor:
        """Per-item values, (n_queries, n_items), at the items drawn, 0 at empty places; shaped as `items`."""
        return torch.where(self.filled, at(values, self.items), 0.0)


def draw(scores: Tensor, mask: Tensor, k: int, n_draws: int, generator: torch.Generator | None) -> Draws:
    """Draw the first k places of n_draws Plackett–Luce rankings of each query.

        P(item d next) = exp(score_d) / Σ over unplaced items of exp(score)
    """
    n_queries, n_items = scores.shape
    k = min(k, n_items)
    logits = scores.detach().double().masked_fill(~mask, -torch.inf)
    logits, order = logits.sort(dim=1)
    logits = (logits - logits[:, -1:]).clamp(min=_LIGHTEST).masked_fill(torch.isneginf(logits), -torch.inf)
    weights = logits.exp()
    upto = weights.cumsum(1)
    below = torch.nn.functional.pad(upto, (1, 0))
    uniforms = torch.rand(
        k, n_queries, n_draws, dtype=torch.float64, device=scores.device, generator=generator
    ) * (1 - 1e-14)

    # Placed items cut the cumulated weights into stretches: one ends at each of `ends`, one begins at each of `starts`.
    starts = torch.zeros(k + 1, n_queries, n_draws, dtype=torch.float64, device=scores.device)
    ends = upto[:, -1].view(1, -1, 1).expand(k + 1, n_queries, n_draws).clone()
    mass = torch.empty_like(uniforms)
    items = torch.empty(k, n_queries, n_draws, dtype=torch.int64, device=scores.device)
    for place in range(k):
        upper = (ends[: place + 1] - starts[: place + 1]).cumsum(0)
        mass[place] = upper[-1]
        target = uniforms[place] * upper[-1]
        stretch = (target >= upper[:-1]).sum(0, keepdim=True)
        lower = torch.nn.functional.pad(upper[:-1], (0, 0, 0, 0, 1, 0)).gather(0, stretch)[0]
        target = starts.gather(0, stretch)[0] + (target - lower)
        found = torch.searchsorted(upto, target, right=True).clamp(max=n_items - 1)
        items[place] = order.gather(1, found)
        _insert(ends[: place + 2], below.gather(1, found))
        _insert(starts[: place + 2], upto.gather(1, found))

    filled = torch.arange(k, device=scores.device).view(-1, 1, 1) < mask.sum(1).view(1, -1, 1)
    return Draws(
        items=items.masked_fill(~filled, 0),
        filled=filled,
        mass=mass.masked_fill(~filled, 1.0),
        weights=torch.empty_like(weights).scatter_(1, order, weights),
    )


def at(values: Tensor, items: Tensor) -> Tensor:
    """Per-item values, (n_queries, n_items), at items (k, n_queries, n_draws)."""
    k, n_queries, n_draws = items.shape
    flat = items.transpose(0, 1).reshape(n_queries, k * n_draws)
    return values.gather(1, flat).view(n_queries, k, n_draws).transpose(0, 1)


def add_at(values: Tensor, items: Tensor, n_items: int) -> Tensor:
    """Sum values over the draws and places of each item, (n_queries, n_items).

    Sums are taken in whole numbers, to 52 bits of the largest term: they do not depend on the order of addition, which
    a GPU leaves open.
    """
    k, n_queries, n_draws = items.shape
    unit = values.abs().amax().clamp(min=1e-300) * (2.0**-52 * k * n_draws)
    whole = (values / unit).round().long().transpose(0, 1).reshape(n_queries, k * n_draws)
    flat = items.transpose(0, 1).reshape(n_queries, k * n_draws)
    sums = torch.zeros(n_queries, n_items, dtype=torch.int64, device=items.device)
    return sums.scatter_add_(1, flat, whole).double() * unit


def reward_to_go(rewards: Tensor) -> Tensor:
    """Σ of the rewards from each place to the last, along the first axis."""
    return rewards.flip(0).cumsum(0).flip(0)


def _insert(ascending: Tensor, value: Tensor) -> None:
    """Insert into all but the last of the sorted values along the first axis, in place; the last is a spare."""
    kept = ascending[:-1].clone()
    ascending[-1] = torch.maximum(kept[-1], value)
    torch.minimum(kept, value, out=ascending[:-1])
    if len(kept) > 1:
        torch.maximum(ascending[1:-1], kept[:-1], out=ascending[1:-1])
