"""PL-Rank-3: the gradient of expected DCG under Plackett–Luce, with little noise per drawn ranking.

For a drawn ranking y, with Z_j the weight of the items unplaced before place j and R_j = Σ_{x ≥ j} θ_x gain(y_x),

    ∂/∂score_d  =  E[ R_{rank(d)+1}  +  e^{score_d} Σ_{j ≤ rank(d)} (gain_d θ_j − R_j) / Z_j ],        j ≤ k.

Oosterhuis, "Learning-to-Rank at the Speed of Sampling: Plackett-Luce Gradient Estimation With Minimal Computational
Complexity", SIGIR 2022.
"""

from torch import Generator, Tensor

from isrr.scores.losses.gradient import Part, Rule, expected_dcg_gradient

PL_RANK_3 = Rule(pull=1, credit=Part.LATER, blame=Part.FROM_HERE)


def plrank(
    scores: Tensor, gains: Tensor, mask: Tensor, k: int, n_draws: int, generator: Generator | None = None
) -> Tensor:
    """Estimate the gradient of expected DCG@k with respect to the scores; arguments as in `isrr.scores.losses`."""
    return expected_dcg_gradient(scores, gains, mask, k, n_draws, generator, PL_RANK_3)
