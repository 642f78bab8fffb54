"""Policy gradient (REINFORCE) for Plackett–Luce rankings, and its placement variant.

With Z_j the weight of the items unplaced before place j,

    ∂/∂score_d log P(y)  =  1[d in y]  −  e^{score_d} Σ_{j ≤ rank(d)} 1 / Z_j,        j ≤ k.

The policy gradient weighs it with the DCG of the whole ranking; the placement variant weighs each place's term with
what that place can still change, R_j = Σ_{x ≥ j} θ_x gain(y_x), which leaves the expectation alone and removes noise.

Singh and Joachims, "Policy Learning for Fairness in Ranking", NeurIPS 2019; Oosterhuis, SIGIR 2021.
"""

from torch import Generator, Tensor

from isrr.scores.losses.gradient import Part, Rule, expected_dcg_gradient

POLICY = Rule(pull=0, credit=Part.WHOLE, blame=Part.WHOLE)
PLACEMENT = Rule(pull=0, credit=Part.FROM_HERE, blame=Part.FROM_HERE)


def policy_gradient(
    scores: Tensor, gains: Tensor, mask: Tensor, k: int, n_draws: int, generator: Generator | None = None
) -> Tensor:
    """Estimate the gradient of expected DCG@k with respect to the scores; arguments as in `isrr.scores.losses`."""
    return expected_dcg_gradient(scores, gains, mask, k, n_draws, generator, POLICY)


def placement_policy_gradient(
    scores: Tensor, gains: Tensor, mask: Tensor, k: int, n_draws: int, generator: Generator | None = None
) -> Tensor:
    """As `policy_gradient`, each place weighed with the reward from there on."""
    return expected_dcg_gradient(scores, gains, mask, k, n_draws, generator, PLACEMENT)
