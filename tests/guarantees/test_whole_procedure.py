"""Counting false certificates of `calibrate` as people call it: nothing set but the promise and the confidence.

The population is a finite pool of short lists, drawn from with replacement, each draw under a fresh id; what a chosen
ranker keeps on it is found by enumerating its lists (`truth.py`). The level promised is one that the ranker of some
temperature just keeps: wherever the path comes from, it crosses that level in small steps, and what is certified beyond
it is false. From 300 queries on a share is set aside, score map and family are learned from it, and the others are
tested on.

What is told of a decision afterwards (bounds, a curve, how many queries would have been enough) takes longer than the
decision itself. It is left out in all but the first repetitions, which check that it changes nothing.
"""

from dataclasses import replace

import numpy as np
import pytest

import isrr.calibration.outcome
from counts import COUNTS
from isrr import GPLRanker, Queries, calibrate
from isrr.calibration.certify import certify
from isrr.calibration.outcome import Findings
from isrr.promises import Promise
from truth import Truth

pytestmark = pytest.mark.guarantee

K, N_ITEMS, N_WHOLE = 2, 3, 8
BY_DEFAULT, OTHERS = COUNTS["calibration by default"], COUNTS["calibration by default, other promises"]
DELTA = BY_DEFAULT.delta


@pytest.fixture(scope="module")
def pool():
    """240 lists of three items, one in eight without a relevant one, in segments and groups."""
    rng, n = np.random.default_rng(20230), 240
    relevance = rng.permuted(np.tile([2, 1, 0], (n, 1)), axis=1)
    relevance[rng.random(n) < 1 / 8] = 0
    return Queries.from_arrays(
        scores=(relevance + rng.normal(scale=2.0, size=relevance.shape)).ravel(),
        relevance=relevance.ravel(),
        group=np.full(n, N_ITEMS),
        segments=np.repeat(rng.choice(["many", "few"], n, p=[0.7, 0.3]), N_ITEMS),
        item_groups=rng.choice(["large", "small"], relevance.size, p=[0.7, 0.3]),
    )


def drawn(pool, n, rng):
    """Queries drawn from the pool, under fresh ids."""
    queries = rng.integers(0, len(pool), n)
    rows = (pool.offsets[queries][:, None] + np.arange(N_ITEMS)).ravel()
    return Queries.from_arrays(
        scores=pool.scores[rows],
        relevance=pool.relevance[rows],
        query_ids=np.repeat(rng.integers(0, 2**60, n), N_ITEMS),
        segments=np.repeat(pool.segments[queries], N_ITEMS),
        item_groups=pool.item_groups[rows],
    )


def hurting(pool, promise, temperature):
    """The promise at the level that the ranker of this temperature just keeps."""
    return promise.at(float(Truth(pool).level(promise, GPLRanker(k=K, temperature=temperature))))


def decided(queries, promises):
    """The ranker that a calibration chooses; None where it abstains."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Findings, "outcome", lambda self, *_: self)
        findings = calibrate(queries, promises, 1 - DELTA)
    return None if findings.chosen is None else findings.ranker


def false_certificates(pool, promises, n, count):
    """How many calibrations promise what their ranker does not keep on the pool, and how many promise anything."""
    rng, truth, wrong, certified = np.random.default_rng([20230, n]), Truth(pool), 0, 0
    for repetition in range(count.repeats):
        queries = drawn(pool, n, rng)
        ranker = decided(queries, promises)
        if repetition < N_WHOLE:
            outcome = calibrate(queries, promises, 1 - DELTA)
            assert ranker == (None if outcome.abstained else outcome.ranker)
        if ranker is not None:
            certified += 1
            wrong += any(truth.breaks(promise, ranker) for promise in promises)
    return wrong, certified


UTILITY = Promise("ndcg", K, at_least=0.5)
FAIRNESS = Promise("normalized_disparity", K, at_most=0.5)


def test_a_default_calibration_is_false_at_most_delta_often(pool):
    wrong, certified = false_certificates(pool, [hurting(pool, UTILITY, 1.6)], n=300, count=BY_DEFAULT)
    assert DELTA / 4 * BY_DEFAULT.repeats < wrong <= BY_DEFAULT.most  # the promise does hurt
    assert certified > BY_DEFAULT.repeats / 2


def test_the_count_catches_a_calibration_whose_level_is_too_large(pool, monkeypatch):
    def certify_too_much(tested, selection, delta):
        return certify(tested, selection, 4 * delta)

    monkeypatch.setattr(isrr.calibration.outcome, "certify", certify_too_much)
    wrong, _ = false_certificates(pool, [hurting(pool, UTILITY, 1.6)], n=300, count=OTHERS)
    assert wrong > OTHERS.most


@pytest.mark.parametrize(
    "promises",
    [
        [(replace(UTILITY, of="deterministic"), 1.6)],
        [(replace(UTILITY, empty_query="zero"), 2.5)],
        [(replace(UTILITY, per="segment"), 2.5)],
        [(FAIRNESS, 0.5)],
        [(Promise("group_disparity", K, at_most=0.5), 0.5)],
        [(UTILITY, 2.5), (FAIRNESS, 0.8)],
    ],
    ids=["relative", "empty as zero", "per segment", "fairness", "groups", "both"],
)
def test_every_kind_of_promise_is_false_at_most_delta_often_by_default(pool, promises):
    asked = [hurting(pool, promise, temperature) for promise, temperature in promises]
    wrong, certified = false_certificates(pool, asked, n=400, count=OTHERS)
    assert wrong <= OTHERS.most
    assert certified > OTHERS.repeats / 2
