"""Training losses for scorers, as batched functions of scores.

Each takes padded queries, (n_queries, n_items), and returns the direction in which the scores should move: the gradient
of a utility to be raised, zero at the padding. `GRADIENTS` has them by name.

    scores     (n_queries, n_items)  raw scores of the net
    gains      (n_queries, n_items)  gain of each item; divided by the ideal DCG, the utility is NDCG
    mask       (n_queries, n_items)  True at items, False at padding
    k          how many places count
    n_draws    rankings drawn per query, where any are drawn
    generator  where the noise comes from; the same seed gives the same gradient
"""

from collections.abc import Callable
from functools import partial

from torch import Generator, Tensor

from isrr_paper.scorers.losses import gradient, lambdaloss, stochasticrank

Gradient = Callable[[Tensor, Tensor, Tensor, int, int, Generator | None], Tensor]
GRADIENTS: dict[str, Gradient] = {
    "lambdaloss": lambdaloss.lambdaloss,
    "plrank": partial(gradient.expected_dcg_gradient, rule=gradient.PL_RANK_3),
    "policy-gradient": partial(gradient.expected_dcg_gradient, rule=gradient.POLICY),
    "placement-policy-gradient": partial(gradient.expected_dcg_gradient, rule=gradient.PLACEMENT),
    "stochasticrank": partial(stochasticrank.stochasticrank, noise="gumbel"),
    "stochasticrank-normal": partial(stochasticrank.stochasticrank, noise="normal"),
}
