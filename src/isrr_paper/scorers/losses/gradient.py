"""The gradient of expected DCG under Plackett–Luce, from drawn rankings: PL-Rank and policy gradients.

With Z_j the weight of the items unplaced before place j, a drawn ranking adds to item d

    credit_{rank(d)}  +  e^{score_d} Σ_{j ≤ rank(d)} (pull · gain_d θ_j − blame_j) / Z_j,

sums over places up to k, credit only if it is placed. Items not placed share their sums over j, so a ranking costs k,
not n_items. Estimators differ in which part of the ranking's DCG is credit and blame, and whether there is a pull.
With R_j = Σ_{x ≥ j} θ_x gain(y_x) for a drawn ranking y,

    PL-Rank-3        credit R_{rank(d)+1}, blame R_j, and a pull: little noise per drawn ranking
    policy gradient  credit and blame R_1, the DCG of the whole ranking, on ∂ log P(y) (REINFORCE)
    placement        credit and blame R_j, what that place can still change: the same expectation with less noise

Oosterhuis, "Learning-to-Rank at the Speed of Sampling: Plackett-Luce Gradient Estimation With Minimal Computational
Complexity", SIGIR 2022. Singh and Joachims, "Policy Learning for Fairness in Ranking", NeurIPS 2019; Oosterhuis, SIGIR
2021.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from isrr.gains import discount
from isrr.parallel import over_queries
from isrr_paper.scorers._loss_kernels import sum_gradients
from isrr_paper.scorers.losses.draws import LIGHTEST, add_at, at, discounts, draw, refuse_divergence, uniforms


class Part(IntEnum):
    """Part of a ranking's DCG, as seen from a place: what comes later, that and the place's own, or all of it."""

    LATER = 1
    FROM_HERE = 2
    WHOLE = 3


class Rule(NamedTuple):
    """How an estimator weighs a drawn ranking: pull is 1 or 0, credit and blame are parts of its DCG."""

    pull: int
    credit: Part
    blame: Part


PL_RANK_3 = Rule(pull=1, credit=Part.LATER, blame=Part.FROM_HERE)
POLICY = Rule(pull=0, credit=Part.WHOLE, blame=Part.WHOLE)
PLACEMENT = Rule(pull=0, credit=Part.FROM_HERE, blame=Part.FROM_HERE)


def expected_dcg_gradient(
    scores: Tensor, gains: Tensor, mask: Tensor, k: int, n_draws: int, generator: Generator | None, rule: Rule
) -> Tensor:
    """Estimate the gradient of expected DCG@k by a rule; arguments as in `isrr_paper.scorers.losses`."""
    estimate = on_host if scores.device.type == "cpu" else on_device
    return estimate(scores.detach(), gains, mask, min(k, scores.shape[1]), n_draws, generator, rule).to(scores.dtype)


def on_host(
    scores: Tensor, gains: Tensor, mask: Tensor, k: int, n_draws: int, generator: Generator | None, rule: Rule
) -> Tensor:
    """One compiled loop over queries, draws and places, on several threads."""
    refuse_divergence(scores[mask])
    noise = uniforms(scores, k, n_draws, generator).numpy()
    summed = torch.zeros(scores.shape, dtype=torch.float64)
    columns = scores.double().numpy(), gains.double().numpy(), mask.numpy(), discount(k), noise, tuple(map(int, rule))
    starts = np.arange(len(scores) + 1) * (1 + k * n_draws // 4)  # blocks of some milliseconds
    over_queries(lambda start, stop: sum_gradients(*columns, LIGHTEST, start, stop, summed.numpy()), starts)
    return summed / n_draws


def on_device(
    scores: Tensor, gains: Tensor, mask: Tensor, k: int, n_draws: int, generator: Generator | None, rule: Rule
) -> Tensor:
    """Return the same gradient by tensor operations on all queries and draws at once."""
    draws = draw(scores, mask, k, n_draws, generator)
    gains = gains.double()
    gain, weight = at(gains, draws.items), at(draws.weights, draws.items)
    position_discount = discounts(k, gain).view(1, -1, 1)
    reward = torch.where(draws.filled, position_discount * gain, 0.0)
    so_far, chance = reward.cumsum(1), 1.0 / draws.mass
    later = so_far[:, -1:] - so_far
    parts = {Part.LATER: later, Part.FROM_HERE: later + reward, Part.WHOLE: so_far[:, -1:]}
    placed, lost = rule.pull * position_discount * chance, parts[rule.blame] * chance
    placing, losing = _down_to(draws.weights, draws.mass, placed, lost)

    # What leader i (axis 1) shares with unplaced items although it is placed: places j (axis 2) after its own.
    place = torch.arange(k, device=scores.device)
    wrongly = (place[None, :] > place[:, None]).unsqueeze(2) & (draws.mass[:, None] >= weight[:, :, None] / 2)
    taken_off = (wrongly * (gain[:, :, None] * placed[:, None] - lost[:, None])).sum(2)
    own = torch.where(draws.filled, parts[rule.credit] - weight * taken_off, 0.0)
    shared = draws.weights * (gains * placing - losing)
    return (shared + add_at(own, draws.items, scores.shape[1])) / n_draws


def _down_to(weights: Tensor, mass: Tensor, *terms: Tensor) -> list[Tensor]:
    """Sums of the terms, over draws and places, where the mass left is at least half an item's weight.

    An item that is not placed weighs no more than the mass left, so it misses nothing; for a placed one, terms too
    large to be taken off again are left out. (n_queries, n_items) each
    """
    falling, order = mass.flatten(1).sort(dim=1, descending=True)
    how_many = torch.searchsorted(-falling, weights / -2, right=True)
    sums = (torch.nn.functional.pad(term.flatten(1).gather(1, order).cumsum(1), (1, 0)) for term in terms)
    return [upto.gather(1, how_many) for upto in sums]
