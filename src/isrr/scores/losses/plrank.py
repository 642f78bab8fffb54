"""PL-Rank-3: the gradient of expected DCG under Plackett–Luce, with little noise per drawn ranking.

For a drawn ranking y, with Z_j the weight of the items unplaced before place j and R_j = Σ_{x ≥ j} θ_x gain(y_x),

    ∂/∂score_d  =  E[ R_{rank(d)+1}  +  e^{score_d} Σ_{j ≤ rank(d)} (gain_d θ_j − R_j) / Z_j ],

sums over places up to k. Items not placed share their sums over j, so a ranking costs k, not n_items.

Oosterhuis, "Learning-to-Rank at the Speed of Sampling: Plackett-Luce Gradient Estimation With Minimal Computational
Complexity", SIGIR 2022.
"""

from torch import Generator, Tensor

from isrr.scores.losses.discounts import discounts
from isrr.scores.losses.draws import add_at, at, draw


def plrank(
    scores: Tensor, gains: Tensor, mask: Tensor, k: int, n_draws: int, generator: Generator | None = None
) -> Tensor:
    """Estimate the gradient of expected DCG@k with respect to the scores; arguments as in `isrr.scores.losses`."""
    draws = draw(scores, mask, k, n_draws, generator)
    gains = gains.double()
    gain, weight = at(gains, draws.items), at(draws.weights, draws.items)
    reward, chance = draws.rewards(gain), 1.0 / draws.mass
    so_far = reward.cumsum(1)
    after = so_far[:, -1:] - so_far
    placing = (chance * discounts(chance.shape[1], chance).view(1, -1, 1)).cumsum(1)
    losing = (chance * (after + reward)).cumsum(1)
    all_placing, all_losing = placing[:, -1:], losing[:, -1:]

    shared = draws.weights * (gains * all_placing.sum(2) - all_losing.sum(2))
    own = after + weight * (gain * (placing - all_placing) - (losing - all_losing))
    summed = shared + add_at(own, draws.items, scores.shape[1])
    return (summed / n_draws).to(scores.dtype)
