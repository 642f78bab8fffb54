"""Counting false certificates on data that would mislead a naive procedure, and again with the guard taken away.

* Rows sorted by relevance within a query, scores rounded, no item ids: whoever breaks ties by row knows the labels.
* Every judged query copied five times, under fresh ids.
* Ids chosen so that hard queries are set aside, which a public hash of the ids would allow.
* Relevance in other units: click-through rates, or revenue.
* A check on so few queries that no interval means anything.

The population is a finite pool, drawn from with replacement, each draw under a fresh id. The promise is one that the
tested ranker just does not keep on the pool, found by enumerating its lists, so that every certificate is false.
"""

from dataclasses import replace

import numpy as np
import pytest

import isrr
from counts import COUNTS
from isrr import GPLRanker, Promise, Queries, calibrate, evaluate
from isrr.calibration.check import LEAST_TO_TELL, _kept
from isrr.calibration.judged import repeats
from isrr.calibration.path import n_set_aside
from isrr.calibration.request import Request
from isrr.data.sample import canonical_order
from isrr.risk import betting
from truth import Truth

pytestmark = pytest.mark.guarantee

N, K, N_ITEMS = 200, 3, 6
REPEATS, DELTA, _ = COUNT = COUNTS["misleading data"]
NDCG = Promise("ndcg", K, at_least=0.5)
COLD, WARM = (GPLRanker(k=K, temperature=t) for t in (1e-3, 0.5))  # cold: items of equal scores share their positions


@pytest.fixture(scope="module")
def pool():
    """300 lists of six items by falling relevance, scores rounded to halves: (scores, relevance), (300, 6) each."""
    rng = np.random.default_rng(20230)
    relevance = -np.sort(-rng.integers(0, 4, (300, N_ITEMS)), axis=1) + 0.0
    relevance[:, 0] = np.maximum(relevance[:, 0], 1.0)
    return (2 * relevance / 3 + rng.normal(size=relevance.shape)).round(0) / 2, relevance


def queries_of(scores, relevance, ids):
    return Queries.from_arrays(
        scores=scores.ravel(), relevance=relevance.ravel(), query_ids=np.repeat(ids, scores.shape[1])
    )


def ndcg_of(queries, ranker):
    return evaluate(queries, [ranker], [NDCG.measure])[NDCG.measure][:, 0]


def just_broken(pool, ranker):
    """A promise that the ranker does not keep on the pool, but for very little."""
    return NDCG.at(float(Truth(queries_of(*pool, np.arange(len(pool[0])))).level(NDCG, ranker)) + 1e-4)


def certified(promise, values):
    """In which columns the promise is certified from NDCG in the order given, (n_queries, n_columns)."""
    losses = promise.loss().of(values, values[:, 0])
    return betting.certifies(losses, promise.loss().level, DELTA, promise.loss().prior)


def by_key(queries):
    return canonical_order(queries.keys, queries.scores_fingerprint)


def test_rows_sorted_by_relevance_do_not_leak_through_ties(pool):
    rng, promise, by_score = np.random.default_rng(20231), just_broken(pool, COLD), GPLRanker.deterministic(K)
    rows, ids = rng.integers(0, len(pool[0]), N * REPEATS), rng.integers(0, 2**60, N * REPEATS)
    queries = queries_of(pool[0][rows], pool[1][rows], ids)
    wrong = certified(promise, ndcg_of(queries, by_score).reshape(REPEATS, N).T)
    assert DELTA / 4 * REPEATS < wrong.sum() <= COUNT.most
    first = queries[:N]
    outcome = calibrate(first, promise, 1 - DELTA, path=[by_score])
    assert outcome.abstained != certified(promise, ndcg_of(first, by_score)[by_key(first), None])[0]
    assert outcome.provenance.tied_share > 0.5
    assert any("another item shares" in warning for warning in outcome.warnings)
    leaking = replace(queries, tie_order=np.arange(queries.n_rows))
    assert certified(promise, ndcg_of(leaking, by_score).reshape(REPEATS, N).T).mean() > 0.99


def test_copies_counted_once_are_false_at_most_delta_often(pool):
    rng, promise, n, wrong, plain = np.random.default_rng(20232), just_broken(pool, WARM), N // 5, [], []
    for repetition in range(REPEATS):
        rows = rng.integers(0, len(pool[0]), n)
        scores = pool[0][rows] + rng.normal(scale=1e-9, size=(n, N_ITEMS))  # no two lists are equal by chance
        queries = queries_of(
            np.tile(scores, (5, 1)), np.tile(pool[1][rows], (5, 1)), rng.choice(2**60, 5 * n, replace=False)
        )
        distinct = queries[~repeats(queries)]
        wrong.append(ndcg_of(distinct, WARM)[by_key(distinct)])
        plain.append(ndcg_of(queries, WARM)[by_key(queries)])
        if repetition < 3:
            for counted, values in ((True, wrong[-1]), (False, plain[-1])):
                outcome = calibrate(queries, promise, 1 - DELTA, path=[WARM], distinct=counted)
                assert outcome.abstained != certified(promise, values[:, None])[0]
                assert outcome.provenance.n_repeated == 4 * n
                assert any("repeated queries" in warning for warning in outcome.warnings) != counted
    assert certified(promise, np.transpose(wrong)).sum() <= COUNT.most
    assert certified(promise, np.transpose(plain)).sum() > COUNT.most  # five copies are not five queries


def test_whoever_picks_ids_does_not_pick_what_is_tested(pool):
    rng, promise = np.random.default_rng(20233), just_broken(pool, WARM)
    n_aside = n_set_aside(N, Request((promise,), path="front"), validated=False)
    ndcg, wrong, unkeyed = ndcg_of(queries_of(*pool, np.arange(len(pool[0]))), WARM), [], []
    for _ in range(REPEATS):
        rows, ids = rng.integers(0, len(pool[0]), N), rng.integers(0, 2**60, N)
        hardest = np.argsort(ndcg[rows])
        rows = rows[hardest]
        named = replace(queries_of(pool[0][rows], pool[1][rows], ids), scores=None)
        ids = ids[canonical_order(named.keys, named.scores_fingerprint)]  # the hardest first, as far as ids tell
        queries = queries_of(pool[0][rows], pool[1][rows], ids)
        wrong.append(ndcg[rows[by_key(queries)[n_aside:]]])
        unkeyed.append(rng.permutation(ndcg[rows[n_aside:]]))
    outcome = calibrate(queries, promise, path="front")
    assert outcome.provenance.n_set_aside == n_aside
    assert certified(promise, np.transpose(wrong)).sum() <= COUNT.most
    assert certified(promise, np.transpose(unkeyed)).mean() > 0.9


@pytest.mark.parametrize("scale", [1e-4, 3e-4, 1.0 / 3.0, 100.0, 1e7])
@pytest.mark.parametrize("text", ["ndcg@3 >= 90% of deterministic", "normalized_disparity@3 <= 0.5"])
def test_units_of_relevance_change_neither_the_ranker_nor_the_gain(pool, text, scale):
    promise = Promise.parse(text, gain="linear")
    plain, scaled = (queries_of(pool[0], pool[1] * unit, np.arange(len(pool[0]))) for unit in (1.0, scale))
    expected, found = (calibrate(queries, promise) for queries in (plain, scaled))
    assert found.abstained == expected.abstained
    assert found.ranker.temperature == pytest.approx(expected.ranker.temperature, rel=1e-9)
    assert found.fairness_gain.value == pytest.approx(expected.fairness_gain.value, abs=5e-5)
    assert found.fairness_gain.low == pytest.approx(expected.fairness_gain.low, abs=5e-5)
    checked = [isrr.check(outcome, queries) for outcome, queries in ((expected, plain), (found, scaled))]
    assert checked[0].promises[0].verdict == checked[1].promises[0].verdict
    values = [found.promises[0].value for found in checked]
    assert values[0].value == pytest.approx(values[1].value, abs=5e-5)


def test_a_kept_promise_is_called_broken_at_most_one_time_in_twenty(pool, monkeypatch):
    rng, queries = np.random.default_rng(20234), queries_of(*pool, np.arange(len(pool[0])))
    values = ndcg_of(queries, WARM)
    promise = NDCG.at(float(Truth(queries).level(NDCG, WARM)) - 1e-8)

    def broken(n, repeats=400):
        samples = values[rng.integers(0, values.size, (repeats, n))]
        verdicts = [_kept(promise, None, each, each).verdict for each in samples]
        return verdicts.count("broken") / repeats

    assert broken(LEAST_TO_TELL) < 0.05
    assert broken(2) == 0.0
    monkeypatch.setattr("isrr.calibration.check.LEAST_TO_TELL", 0)
    assert broken(2) > 0.1  # without that limit
