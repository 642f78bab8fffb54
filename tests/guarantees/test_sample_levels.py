"""Counting false certificates of promises that a sample of a table is tested on, exactly at the boundary.

A population of 100,000 queries is the table; its ids are new in each repetition, and so is the sample of 1,000. What
the ranker keeps in the whole population is known, and promised with a hair more.
"""

import numpy as np
import pytest

from counts import COUNTS
from isrr import GPLRanker, Promise, Queries, calibrate, evaluate
from isrr.data.sample import digests, in_sample, table_key
from isrr.risk import betting

pytestmark = pytest.mark.guarantee

COUNT, N_POPULATION, SAMPLE, N_WHOLE = COUNTS["samples of a table"], 100_000, 1_000, 2
RANKER = GPLRanker(k=3, temperature=0.8)


@pytest.fixture(scope="module")
def population():
    """Scores and grades of lists of four items, and the NDCG that the ranker has on each."""
    rng = np.random.default_rng(20230)
    relevance = rng.choice(3, (N_POPULATION, 4), p=[0.5, 0.3, 0.2])
    relevance[(relevance == 0).all(axis=1), 0] = 1
    scores = relevance + rng.normal(scale=1.2, size=relevance.shape)
    ndcg = evaluate(table(scores, relevance, np.arange(N_POPULATION)), [RANKER], ["ndcg"])["ndcg"][:, 0]
    return scores, relevance, ndcg


def table(scores, relevance, ids):
    return Queries.from_arrays(scores=scores.ravel(), relevance=relevance.ravel(), query_ids=np.repeat(ids, 4))


@pytest.mark.parametrize(("repeats", "biased"), [(COUNT.repeats, False), (40, True)])
def test_a_sample_certifies_what_the_table_just_breaks_at_most_delta_often(population, repeats, biased):
    (scores, relevance, ndcg), ids = population, np.arange(N_POPULATION)
    rng, promise, wrong = np.random.default_rng(20231), Promise("ndcg", 3, at_least=float(ndcg.mean()) + 1e-5), 0
    for repetition in range(repeats):
        key = f"{rng.integers(2**62):016x}"  # that of other ids
        if biased:  # a sample that prefers what is good for the ranker
            chosen = rng.choice(N_POPULATION, SAMPLE, replace=False, p=ndcg / ndcg.sum())
        else:
            chosen = np.flatnonzero(in_sample(digests(ids, key), SAMPLE))
        drawn = rng.permutation(chosen)  # as the hash of ids is
        losses = promise.loss().of(ndcg[drawn, None], ndcg[drawn])
        certified = betting.certifies(losses, promise.loss().level, COUNT.delta, promise.loss().prior)
        wrong += int(certified[0])
        if repetition < N_WHOLE and not biased:
            others = rng.integers(0, 2**62, N_POPULATION)
            chosen = np.flatnonzero(in_sample(digests(others, table_key(digests(others))), SAMPLE))
            outcome = calibrate(
                table(scores, relevance, others), promise, 1 - COUNT.delta, path=[RANKER], sample=SAMPLE
            )
            assert outcome.tests[0].measured == pytest.approx(ndcg[chosen].mean(), abs=1e-9)
            assert (outcome.provenance.n_table, outcome.provenance.n_judged) == (N_POPULATION, SAMPLE)
    assert wrong > COUNT.most * repeats / COUNT.repeats if biased else COUNT.tolerates(wrong)
