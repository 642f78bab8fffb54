"""Counting false certificates of rankers with a floor of 80 %, the highest that `calibrate` chooses by itself.

With a floor, losses are stretched before they are tested, most of all where the promise is close to the floor. The
promise counted here is one that a ranker just breaks: 95 % and 97 % of the order by score. Queries are drawn with
replacement from a pool on which its risk is known: lists under a ranker with that floor, and the worst that the floor
allows, where every query keeps 80 % or all.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq

from counts import COUNTS
from evidence_kinds import KINDS
from isrr import GPLRanker, Queries, evaluate
from isrr.calibration.certify import Tested
from isrr.promises import Promise
from isrr.ranker.scale import scale_of

pytestmark = pytest.mark.guarantee

COUNT, FLOOR, N_POOL = COUNTS["certificates, any kind of promise"], 0.8, 1_200


def lists(share):
    """Values of a ranker whose temperature is such that it keeps this share, and of the order by score."""
    rng = np.random.default_rng(20230)
    relevance = rng.choice(5, N_POOL * 20, p=[0.5, 0.25, 0.15, 0.07, 0.03])
    scores = relevance + rng.normal(scale=1.2, size=relevance.size)
    queries = Queries.from_arrays(scores=scores, relevance=relevance, group=[20] * N_POOL)
    base = GPLRanker(floor=FLOOR, **scale_of(queries))

    def values(temperature):
        grid = [GPLRanker.deterministic(5), replace(base, temperature=float(temperature))]
        return evaluate(queries, grid, ["ndcg@5"])["ndcg@5"].T

    def beyond(temperature):
        reference, kept = values(temperature)
        return kept.mean() / reference.mean() - share

    return values(brentq(beyond, 0.02, 5.0, xtol=1e-4))[::-1]


def worst(share):
    """As many queries keep no more than the floor as the promised share allows, and the others lose nothing."""
    least = np.arange(N_POOL) < round(N_POOL * (1 - share) / (1 - FLOOR))
    return np.where(least, FLOOR, 1.0), np.ones(N_POOL)


@pytest.mark.parametrize("population", [lists, worst])
@pytest.mark.parametrize("share", [0.95, 0.97])
@pytest.mark.parametrize("n", [60, 100])
def test_a_promise_on_a_floor_of_80_percent_is_false_at_most_delta_often(population, share, n):
    values, reference = population(share)
    promise = Promise("ndcg", 5, at_least=values.mean() / reference.mean() + 1e-5, of="deterministic")
    rankers = [GPLRanker(floor=FLOOR)]
    rng, wrong = np.random.default_rng([20230, n]), 0
    for _ in range(COUNT.repeats):
        drawn = rng.integers(N_POOL, size=n)
        both = np.column_stack([reference, values])[drawn]
        sample = Tested.of(promise, None, KINDS["betting"], both, reference[drawn], rankers)
        wrong += int(sample.holds(COUNT.delta)[0])
    assert COUNT.tolerates(wrong)
