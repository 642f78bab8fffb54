"""Plackett–Luce rankings, drawn for many queries at once, and the sums their gradients are made of.

One Gumbel variable per item would do, at a cost of n_draws · n_items. Here a place costs one uniform variable and a
search in the cumulated weights, skipping the items placed before, so that the cost is n_draws · k · log n_items.

Items are cumulated from the lightest to the heaviest. The stretches between placed items then keep their relative
precision, however much weight the placed items had: what lies above an item is at least as heavy as that item.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from isrr.parallel import over_queries
from isrr.scores.losses.discounts import discounts

# Weights are kept above this share of the heaviest: a score 690 below the best would vanish in double precision.
_LIGHTEST = -690.0


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

    def rewards(self, gain: Tensor) -> Tensor:
        """Discounted gain of each place, 0 where empty; from the gains drawn, shaped as `items`."""
        theta = discounts(self.items.shape[1], gain).view(1, -1, 1)
        return torch.where(self.filled, theta * gain, 0.0)


def draw(scores: Tensor, mask: Tensor, k: int, n_draws: int, generator: torch.Generator | None) -> Draws:
    """Draw the first k places of n_draws Plackett–Luce rankings of each query.

        P(item d next) = exp(score_d) / Σ over unplaced items of exp(score)
    """
    n_queries, n_items = scores.shape
    k = min(k, n_items)
    logits, order = scores.detach().double().masked_fill(~mask, -torch.inf).sort(dim=1)
    logits = (logits - logits[:, -1:]).clamp(min=_LIGHTEST).masked_fill(torch.isneginf(logits), -torch.inf)
    weights = logits.exp()
    noise = torch.rand(n_queries, k, n_draws, dtype=torch.float64, device=scores.device, generator=generator)
    place = place_on_host if scores.device.type == "cpu" else place_on_device
    found, mass = place(weights.cumsum(1), noise.mul_(1 - 1e-14))
    filled = (torch.arange(k, device=scores.device) < mask.sum(1, True)).unsqueeze(2)
    return Draws(
        items=at(order, found),
        filled=filled,
        mass=mass.masked_fill_(~filled, torch.inf),
        weights=torch.empty_like(weights).scatter_(1, order, weights),
    )


def place_on_host(upto: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """The item found at each place and the mass left before it, shaped as `uniforms`; a compiled loop.

    Args:
        upto: Cumulated weights of the items, from the lightest to the heaviest, (n_queries, n_items).
        uniforms: Noise in [0, 1), (n_queries, k, n_draws).
    """
    from isrr.scores.losses._kernels import place_items

    found, mass = torch.empty(uniforms.shape, dtype=torch.int64), torch.empty_like(uniforms)
    arrays = [tensor.numpy() for tensor in (upto, uniforms, found, mass)]
    starts = np.arange(len(upto) + 1) * (uniforms.shape[1] * uniforms.shape[2])
    over_queries(lambda start, stop: place_items(*arrays[:2], start, stop, *arrays[2:]), starts)
    return found, mass


def place_on_device(upto: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """As `place_on_host`, in tensor operations whose number depends on k alone."""
    n_queries, k, n_draws = uniforms.shape
    below = torch.nn.functional.pad(upto, (1, 0))
    # Placed items cut the cumulated weights into stretches, each from one of `begins` to one of `ends`.
    begins = torch.zeros(n_queries, k + 1, n_draws, dtype=upto.dtype, device=upto.device)
    ends = upto[:, -1].view(-1, 1, 1).expand(begins.shape).clone()
    mass = torch.empty_like(uniforms)
    found = torch.empty(uniforms.shape, dtype=torch.int64, device=upto.device)
    for place in range(k):
        upper = (ends[:, : place + 1] - begins[:, : place + 1]).cumsum(1)
        left = upper[:, place]
        target = uniforms[:, place] * left
        stretch = (target.unsqueeze(1) >= upper[:, :-1]).sum(1, keepdim=True)
        lower = torch.nn.functional.pad(upper[:, :-1], (0, 0, 1, 0)).gather(1, stretch).squeeze(1)
        target = begins.gather(1, stretch).squeeze(1) + (target - lower)
        item = torch.searchsorted(upto, target, right=True).clamp_(max=upto.shape[1] - 1)
        mass[:, place], found[:, place] = left, item
        _insert(ends[:, : place + 2], below.gather(1, item))
        _insert(begins[:, : place + 2], upto.gather(1, item))
    return found, mass


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


def _insert(ascending: Tensor, value: Tensor) -> None:
    """Insert into all but the last of the sorted values along axis 1, in place; the last is a spare."""
    kept = ascending[:, :-1].clone()
    ascending[:, :-1] = torch.minimum(kept, value.unsqueeze(1))
    ascending[:, -1] = value
    ascending[:, 1:] = torch.maximum(ascending[:, 1:], kept)
