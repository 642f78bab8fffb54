"""PL-Rank-3: the gradient of expected DCG under Plackett–Luce, with little noise per drawn ranking.

For a drawn ranking y, with Z_j the weight of the items unplaced before place j and R_j = Σ_{x ≥ j} θ_x gain(y_x),

    ∂/∂score_d  =  E[ R_{rank(d)+1}  +  e^{score_d} Σ_{j ≤ rank(d)} (gain_d θ_j − R_j) / Z_j ],

sums over places up to k. Items not placed share their sums over j, so a ranking costs k, not n_items.

Oosterhuis, "Learning-to-Rank at the Speed of Sampling: Plackett-Luce Gradient Estimation With Minimal Computational
Complexity", SIGIR 2022.
"""

import torch
from torch import Generator, Tensor

from isrr.scores.losses.draws import add_at, draw, reward_to_go


def plrank(
    scores: Tensor, gains: Tensor, mask: Tensor, k: int, n_draws: int, generator: Generator | None = None
) -> Tensor:
    """Estimate the gradient of expected DCG@k with respect to the scores; arguments as in `isrr.scores.losses`."""
    draws = draw(scores, mask, k, n_draws, generator)
    gains = gains.double()
    theta = draws.theta
    gain, weight = draws.of(gains), draws.of(draws.weights)
    ahead = reward_to_go(theta * gain)
    after = torch.nn.functional.pad(ahead[1:], (0, 0, 0, 0, 0, 1))
    chance = torch.where(draws.filled, 1.0 / draws.mass, 0.0)
    placing = (theta * chance).cumsum(0)
    losing = (ahead * chance).cumsum(0)

    shared = draws.weights * (gains * placing[-1].sum(1, True) - losing[-1].sum(1, True))
    own = after + weight * (gain * (placing - placing[-1]) - (losing - losing[-1]))
    summed = shared + add_at(own, draws.items, scores.shape[1])
    return (summed / n_draws).to(scores.dtype)
