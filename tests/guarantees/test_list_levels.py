"""Counting false certificates about single lists, on a pool whose lists are enumerated.

Queries are drawn with replacement, under ids of their own so that noise differs. The true share of good lists of a
ranker is then the mean over the pool of the share that enumeration gives, and a promise of a hair more is broken.
"""

from itertools import permutations

import numpy as np
import pytest

from counts import COUNTS
from isrr import GPLRanker, Promise, Queries, calibrate, evaluate
from isrr.data.production import with_production
from isrr.metrics import lists
from isrr.risk import betting

pytestmark = pytest.mark.guarantee

COUNT, N_POOL, N_ITEMS, K, TEMPERATURE, N_WHOLE = COUNTS["certificates about lists"], 400, 4, 2, 0.6, 3
RNG = np.random.default_rng(20230)
RELEVANCE = RNG.choice(3, (N_POOL, N_ITEMS), p=[0.5, 0.3, 0.2])
RELEVANCE[(RELEVANCE == 0).all(axis=1), 0] = 1
SCORES, NOW = (RELEVANCE + RNG.normal(size=RELEVANCE.shape) for _ in range(2))
GAINS, DISCOUNTS = 2.0**RELEVANCE - 1.0, 1 / np.log2([2, 3])


def ndcg(order):
    """NDCG@2 of each query in an order given by the first two items, (2,) or (n_pool, 2)."""
    worth = np.take_along_axis(GAINS, np.broadcast_to(order, (N_POOL, K)), axis=1) @ DISCOUNTS
    return worth / (-np.sort(-GAINS)[:, :K] @ DISCOUNTS)


def rr(order):
    """RR@2 of the same."""
    relevant = np.take_along_axis(RELEVANCE > 0, np.broadcast_to(order, (N_POOL, K)), axis=1)
    return np.where(relevant[:, 0], 1.0, np.where(relevant[:, 1], 0.5, 0.0))


def share_of_good_lists(worth, least):
    """The chance that a list drawn at this temperature is worth at least so much, (n_pool,)."""
    weights, share = np.exp(SCORES / TEMPERATURE), np.zeros(N_POOL)
    for i, j in permutations(range(N_ITEMS), K):
        rest = weights.sum(axis=1) - weights[:, i]
        chance = weights[:, i] / weights.sum(axis=1) * weights[:, j] / rest
        share += chance * (worth([i, j]) >= least - 1e-9)
    return share


ORDERS = {"deterministic": np.argsort(-SCORES)[:, :K], "production": np.argsort(-NOW)[:, :K]}
PROMISED = [(ndcg, 0.8, "deterministic"), (ndcg, 0.9, "production"), (ndcg, 0.5, None), (rr, 0.8, "deterministic")]


def false_certificates(worth, target, of, n=150):
    """How many of the calibrations on n queries certify a share of lists that is a hair too large.

    The lists of all repetitions are drawn side by side; the first few are calibrated too.
    """
    least = target * worth(ORDERS[of]) if of else np.full(N_POOL, target)
    exact = float(share_of_good_lists(worth, least).mean())
    promise = Promise(worth.__name__, K, at_least=target, of=of, in_lists=exact + 1e-5)
    ranker, rng = GPLRanker(K, temperature=TEMPERATURE), np.random.default_rng([20230, n])
    rows, ids = rng.integers(N_POOL, size=COUNT.repeats * n), rng.integers(2**62, size=COUNT.repeats * n)

    def queries(chosen):
        table = Queries.from_arrays(
            scores=SCORES[rows[chosen]].ravel(),
            relevance=RELEVANCE[rows[chosen]].ravel(),
            query_ids=np.repeat(ids[chosen], N_ITEMS),
            values={"now": NOW[rows[chosen]].ravel()},
        )
        return with_production(table, "now") if of == "production" else table

    shares = evaluate(queries(slice(None)), [ranker], [promise.measure])[promise.measure].reshape(-1, n).T
    loss = promise.loss()
    certified = betting.certifies(loss.of(shares, shares[:, 0]), loss.level, COUNT.delta, loss.prior)
    for repetition in range(N_WHOLE):
        part = slice(repetition * n, repetition * n + n)
        outcome = calibrate(queries(part), promise, 1 - COUNT.delta, path=[ranker])
        assert outcome.tests[0].measured == pytest.approx(shares[:, repetition].mean(), abs=1e-12)
    return int(certified.sum())


@pytest.mark.parametrize(("worth", "target", "of"), PROMISED)
def test_a_share_of_lists_that_is_a_hair_too_large_is_certified_at_most_delta_often(worth, target, of):
    assert COUNT.tolerates(false_certificates(worth, target, of))


def test_the_count_notices_lists_that_are_called_good_too_readily(monkeypatch):
    monkeypatch.setattr(lists, "ROUNDING", 0.05)
    assert not COUNT.tolerates(false_certificates(ndcg, 0.8, "deterministic"))
