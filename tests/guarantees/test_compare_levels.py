"""Counting false proofs against production: along a path, one candidate, five, twenty, and settings of a knob.

Differences are even, or those of many small gains and a few disasters. Their mean is exactly zero
less a hair, so that every proof of "at least as good" is false.
"""

import numpy as np
import pytest

from counts import COUNTS
from isrr import GPLRanker, Promise, Queries, calibrate, certify
from isrr.calibration.compare import Compared, compared, judged
from isrr.outcome.findings import Estimate
from isrr.risk import betting

pytestmark = pytest.mark.guarantee

COUNT, PROMISE = COUNTS["comparisons at the boundary"], Promise.parse("ndcg@5 >= 100% of production")
KINDS = pytest.mark.parametrize(("n", "disasters"), [(50, 0.05), (300, 0.05), (1_000, 0.0)])


def drawn(rng, n, disasters, leads):
    """Values of candidates, (n, n_candidates), and of production, (n,); a true lead of 0 is a hair less."""
    production = rng.uniform(0.45, 0.6, n)
    spread = 0.05 if disasters else 0.25
    lost = 0.4 * (rng.random((n, len(leads))) < disasters)
    difference = 0.4 * disasters - lost + rng.uniform(-spread, spread, lost.shape) + leads - 1e-5
    return production[:, None] + difference, production


def pvalues(draws):
    """The p-values that `compared` gives every candidate of all repetitions, computed side by side."""
    loss = PROMISE.loss()
    columns = [loss.of(values, production) for values, production in draws]
    return np.split(betting.pvalue(np.hstack(columns), loss.level, loss.prior), len(columns))


def verdict(pvalues):
    """What is said of candidates with these p-values; all that is measured beside them is left at 0."""
    unmeasured = 0, 0.0, 0.0, Estimate.around(0.0, 0.0), 0, 0, 0
    rows = [
        Compared(str(i), PROMISE, None, *unmeasured, pvalue, 1.0, pvalue, None, 0.0)
        for i, pvalue in enumerate(pvalues.tolist())
    ]
    return judged(rows, 1 - COUNT.delta)


@KINDS
def test_p_values_are_those_of_a_comparison(n, disasters):
    draw = drawn(np.random.default_rng(20229), n, disasters, (0.0, 0.1, -0.1))
    values, production = draw
    for column, pvalue in zip(values.T, pvalues([draw])[0], strict=True):
        assert compared("new", PROMISE, None, column, production, COUNT.delta).pvalue == pytest.approx(pvalue)


@KINDS
@pytest.mark.parametrize("leads", [(0.0,), (0.0, 0.1, 0.1, -0.1, -0.1), (0.0,) * 20], ids=["one", "five", "twenty"])
def test_candidates_at_the_boundary_are_proven_at_most_delta_often(n, disasters, leads):
    rng, at_boundary = np.random.default_rng([20230, n]), {str(i) for i, lead in enumerate(leads) if lead == 0.0}
    draws = [drawn(rng, n, disasters, leads) for _ in range(COUNT.repeats)]
    wrong = sum(bool(at_boundary & set(verdict(each).proven)) for each in pvalues(draws))
    assert COUNT.tolerates(wrong)


def test_twenty_candidates_without_holm_would_be_proven_too_often(monkeypatch):
    monkeypatch.setattr("isrr.calibration.compare.holm", lambda p, delta: np.flatnonzero(np.asarray(p) <= 4 * delta))
    rng = np.random.default_rng(20231)
    wrong = sum(bool(verdict(each).proven) for each in pvalues([drawn(rng, 300, 0.05, (0.0,) * 20) for _ in range(60)]))
    assert wrong > 60 * 3 * COUNT.delta


@KINDS
def test_a_knob_at_the_boundary_is_certified_at_most_delta_often(n, disasters, monkeypatch):
    monkeypatch.setattr("isrr.calibration.certify.Tested.queries_needed", lambda *_, **__: None)
    rng, wrong = np.random.default_rng([20232, n]), 0
    for _ in range(COUNT.repeats):
        values, production = drawn(rng, n, disasters, (0.05, 0.02, 0.0, 0.05))
        certified = certify(values, PROMISE, 1 - COUNT.delta, reference=production).certified
        wrong += "2" in certified
    assert COUNT.tolerates(wrong)


def test_a_path_against_production_is_certified_at_most_delta_often():
    """The population is a pool of short lists; production keeps exactly what the ranker does, and a hair more."""
    from isrr import evaluate

    rng = np.random.default_rng(20233)
    relevance = rng.choice(3, (500, 4), p=[0.5, 0.3, 0.2])
    relevance[(relevance == 0).all(axis=1), 0] = 1
    scores, now = (relevance + rng.normal(scale=s, size=relevance.shape) for s in (1.0, 1.2))

    def table(rows, ids):
        return Queries.from_arrays(
            scores=scores[rows].ravel(), relevance=relevance[rows].ravel(), query_ids=np.repeat(ids, 4),
            values={"now": now[rows].ravel()},
        )  # fmt: skip

    path = [GPLRanker(k=3, temperature=t) for t in (0.2, 0.5, 0.8)]
    pool = table(np.arange(500), np.arange(500))
    kept = evaluate(pool, path, ["ndcg"])["ndcg"].mean(axis=0)
    production = evaluate(pool.with_scores(pool.values["now"]), [GPLRanker.deterministic(3)], ["ndcg"])["ndcg"].mean()
    promise = Promise("ndcg", 3, at_least=float(kept[1] / production) + 1e-5, of="production")
    wrong = certified = 0
    for _ in range(COUNT.repeats):
        rows = rng.integers(0, 500, 200)
        queries = table(rows, rng.integers(0, 2**60, 200))
        outcome = calibrate(queries, promise, 1 - COUNT.delta, path=path, reference="now")
        certified += not outcome.abstained
        wrong += not outcome.abstained and outcome.curve[1].certified
    assert COUNT.tolerates(wrong)
    assert certified > wrong
