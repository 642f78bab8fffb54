"""Training losses for scorers, as batched functions of scores.

Each takes padded queries, (n_queries, n_items), and returns the direction in which the scores should move: the gradient
of a utility to be raised, zero at the padding. `gradient_of` finds one by its name in `LOSSES`.

    scores     (n_queries, n_items)  raw scores of the net
    gains      (n_queries, n_items)  gain of each item; divided by the ideal DCG, the utility is NDCG
    mask       (n_queries, n_items)  True at items, False at padding
    k          how many places count
    n_draws    rankings drawn per query, where any are drawn
    generator  where the noise comes from; the same seed gives the same gradient
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Generator, Tensor

    Gradient = Callable[[Tensor, Tensor, Tensor, int, int, Generator | None], Tensor]

LOSSES = (
    "lambdaloss",
    "plrank",
    "policy-gradient",
    "placement-policy-gradient",
    "stochasticrank",
    "stochasticrank-normal",
)


def gradient_of(loss: str) -> "Gradient":
    """The gradient function of a loss, by name; one of `LOSSES`."""
    from functools import partial

    from isrr.scores.losses.gradient import PL_RANK_3, PLACEMENT, POLICY, expected_dcg_gradient
    from isrr.scores.losses.lambdaloss import lambdaloss
    from isrr.scores.losses.stochasticrank import stochasticrank

    named: dict[str, Gradient] = {
        "lambdaloss": lambdaloss,
        "plrank": partial(expected_dcg_gradient, rule=PL_RANK_3),
        "policy-gradient": partial(expected_dcg_gradient, rule=POLICY),
        "placement-policy-gradient": partial(expected_dcg_gradient, rule=PLACEMENT),
        "stochasticrank": stochasticrank,
        "stochasticrank-normal": partial(stochasticrank, noise="normal"),
    }
    return named[loss]
