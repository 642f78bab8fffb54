"""Counting false proofs against production: along a path, one candidate, five, twenty, and settings of a knob.

Differences are those of a skewed population: many small gains and a few disasters, with a mean of exactly zero less a
hair, so that every proof of "at least as good" is false.
"""

import numpy as np
import pytest

from counts import COUNTS
from isrr import GPLRanker, Promise, Queries, calibrate, certify
from isrr.calibration.compare import compared, judged

pytestmark = pytest.mark.guarantee

COUNT, PROMISE = COUNTS["comparisons at the boundary"], Promise.parse("ndcg@5 >= 100% of production")
SIZES = pytest.mark.parametrize("n", [50, 300])


def drawn(rng, n, lead=0.0):
    """Values of a candidate and of production on n queries; the true lead is less than nothing by a hair."""
    production = rng.uniform(0.5, 0.7, n)
    disaster = rng.random(n) < 0.05
    difference = np.where(disaster, -0.38, 0.02) + rng.uniform(-0.05, 0.05, n) + lead - 1e-5
    return production + difference, production


def verdict(rng, n, leads):
    """What is said of candidates with these true leads over one production."""
    rows = []
    production = drawn(rng, n)[1]
    for i, lead in enumerate(leads):
        values, own = drawn(rng, n, lead)
        values = production + (values - own)
        rows.append(compared(str(i), PROMISE, None, values, production, COUNT.delta / len(leads)))
    return judged(rows, 1 - COUNT.delta)


@SIZES
@pytest.mark.parametrize("leads", [(0.0,), (0.0, 0.1, 0.1, -0.1, -0.1), (0.0,) * 20], ids=["one", "five", "twenty"])
def test_candidates_at_the_boundary_are_proven_at_most_delta_often(n, leads, monkeypatch):
    monkeypatch.setattr("isrr.calibration.compare.randomisation_pvalue", lambda lead: 1.0)
    monkeypatch.setattr("isrr.calibration.certify.Tested.queries_needed", lambda *_, **__: None)
    rng, wrong = np.random.default_rng([20230, n]), 0
    for _ in range(COUNT.repeats if len(leads) < 20 else 60):
        found = verdict(rng, n, leads)
        at_boundary = [str(i) for i, lead in enumerate(leads) if lead == 0.0]
        wrong += any(name in found.proven for name in at_boundary)
    assert wrong <= COUNT.most


def test_twenty_candidates_without_holm_would_be_proven_too_often(monkeypatch):
    monkeypatch.setattr("isrr.calibration.compare.holm", lambda p, delta: np.flatnonzero(np.asarray(p) <= 4 * delta))
    monkeypatch.setattr("isrr.calibration.compare.randomisation_pvalue", lambda lead: 1.0)
    monkeypatch.setattr("isrr.calibration.certify.Tested.queries_needed", lambda *_, **__: None)
    rng, wrong = np.random.default_rng(20231), 0
    for _ in range(60):
        wrong += bool(verdict(rng, 300, (0.0,) * 20).proven)
    assert wrong > 60 * 3 * COUNT.delta


@SIZES
def test_a_knob_at_the_boundary_is_certified_at_most_delta_often(n, monkeypatch):
    monkeypatch.setattr("isrr.calibration.certify.Tested.queries_needed", lambda *_, **__: None)
    rng, wrong = np.random.default_rng([20232, n]), 0
    for _ in range(COUNT.repeats):
        columns, production = [], drawn(rng, n)[1]
        for lead in (0.05, 0.02, 0.0, 0.05):
            values, own = drawn(rng, n, lead)
            columns.append(production + (values - own))
        found = certify(np.transpose(columns), PROMISE, 1 - COUNT.delta, reference=production)
        wrong += "2" in found.certified
    assert wrong <= COUNT.most


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
    assert wrong <= COUNT.most
    assert certified > wrong
