"""Policy gradient (REINFORCE) for Plackett–Luce rankings, and its placement variant.

With Z_j the weight of the items unplaced before place j,

    ∂/∂score_d log P(y)  =  1[d in y]  −  e^{score_d} Σ_{j ≤ rank(d)} 1 / Z_j,

sums over places up to k. The policy gradient weighs it with the DCG of the whole ranking; the placement variant weighs
each place's term with what that place can still change, R_j = Σ_{x ≥ j} θ_x gain(y_x), which leaves the expectation
alone and removes noise.

Singh and Joachims, "Policy Learning for Fairness in Ranking", NeurIPS 2019; Oosterhuis, SIGIR 2021.
"""

import torch
from torch import Generator, Tensor

from isrr.scores.losses.draws import Draws, add_at, at, draw


def policy_gradient(
    scores: Tensor, gains: Tensor, mask: Tensor, k: int, n_draws: int, generator: Generator | None = None
) -> Tensor:
    """Estimate the gradient of expected DCG@k with respect to the scores; arguments as in `isrr.scores.losses`."""
    draws = draw(scores, mask, k, n_draws, generator)
    dcg = draws.rewards(at(gains.double(), draws.items)).sum(1, True)
    return _weighed(draws, torch.where(draws.filled, dcg, 0.0)).to(scores.dtype)


def placement_policy_gradient(
    scores: Tensor, gains: Tensor, mask: Tensor, k: int, n_draws: int, generator: Generator | None = None
) -> Tensor:
    """As `policy_gradient`, each place weighed with the reward from there on."""
    draws = draw(scores, mask, k, n_draws, generator)
    reward = draws.rewards(at(gains.double(), draws.items))
    so_far = reward.cumsum(1)
    return _weighed(draws, so_far[:, -1:] - so_far + reward).to(scores.dtype)


def _weighed(draws: Draws, reward: Tensor) -> Tensor:
    """Mean over draws of Σ_j reward_j · ∇ log P(y_j | places before), (n_queries, n_items)."""
    losing = (reward / draws.mass).cumsum(1)
    own = reward + at(draws.weights, draws.items) * (losing[:, -1:] - losing)
    shared = draws.weights * losing[:, -1].sum(1, True)
    summed = add_at(own, draws.items, draws.weights.shape[1]) - shared
    return summed / draws.items.shape[2]
