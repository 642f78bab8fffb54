"""Promoted items and missing scores that were filled in leave the certificate where it is, and are named."""

from pathlib import Path

import numpy as np
import pytest

from isrr import Abstention, Queries, calibrate
from isrr_paper.further_evidence import BONFERRONI
from isrr_paper.letor import read_letor

DATA = Path(__file__).parents[3] / "shared" / "data" / "nfcorpus"
PROMISE = "ndcg@5 >= 95% of deterministic"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"the real data sets are not at {DATA.parent}")


def first_by_score(file, n_items=25):
    """The first items of each query by its first feature."""
    found = read_letor(file)
    scores = found.features[:, 0].astype(np.float64)
    query = np.repeat(np.arange(len(found)), found.n_items)
    order = np.lexsort((-scores, query))
    rows = order[np.arange(order.size) - np.repeat(found.offsets[:-1], found.n_items) < n_items]
    return Queries.from_arrays(scores=scores[rows], relevance=found.relevance[rows], query_ids=query[rows])


@pytest.fixture(scope="module")
def pool():
    judged, validation = first_by_score(DATA / "train.txt.gz"), first_by_score(DATA / "vali.txt.gz")
    return judged[:2_000], validation


def certified(parts, scores=None):
    judged, validation = parts if scores is None else [p.with_scores(s) for p, s in zip(parts, scores, strict=True)]
    validation = Queries.from_arrays(
        scores=validation.scores,
        relevance=validation.relevance,
        query_ids=np.repeat([f"v{query}" for query in range(len(validation))], validation.n_items),
    )
    return calibrate(judged, PROMISE, validation=validation)


@pytest.fixture(scope="module")
def plain(pool):
    return certified(pool)


def promoted(parts, number):
    """The best items of so many queries, of both parts together, at +1,000."""
    tops = [part.offsets[:-1] + part.by_score[part.offsets[:-1]] for part in parts]
    chosen = np.random.default_rng(1).permutation(sum(map(len, tops)))[:number]
    scores = [part.scores.copy() for part in parts]
    scores[0][tops[0][chosen[chosen < len(tops[0])]]] += 1_000
    scores[1][tops[1][chosen[chosen >= len(tops[0])] - len(tops[0])]] += 1_000
    return scores, int((chosen < len(tops[0])).sum())


@pytest.mark.parametrize("number", [1, 4, 16, 200])
def test_promoted_items_leave_the_certificate_within_two_points(pool, plain, number):
    scores, n_judged = promoted(pool, number)
    outcome = certified(pool, scores)
    assert outcome.fairness_gain.value == pytest.approx(plain.fairness_gain.value, abs=0.02)
    told = [warning for warning in outcome.warnings if "spreads above" in warning]
    lie = "score lies" if n_judged == 1 else "scores lie"
    assert [warning.startswith(f"{n_judged} {lie} more than 100 spreads above") for warning in told] == [True]
    assert not [warning for warning in plain.warnings if "spreads" in warning]


@pytest.mark.parametrize("number", [1, 4, 16])  # 200 would put other items first in a tenth of the queries
def test_promoted_items_from_anywhere_leave_it_within_two_points(pool, plain, number):
    n_judged, rows = pool[0].n_rows, sum(part.n_rows for part in pool)
    scores = np.concatenate([part.scores for part in pool])
    scores[np.random.default_rng(1).choice(rows, number, replace=False)] += 1_000
    outcome = certified(pool, (scores[:n_judged], scores[n_judged:]))
    assert outcome.fairness_gain.value == pytest.approx(plain.fairness_gain.value, abs=0.02)


@pytest.mark.parametrize("filled", [-100.0, -1e9])
def test_missing_scores_that_were_filled_in_leave_it_within_two_points(pool, plain, filled):
    rng = np.random.default_rng(2)
    outcome = certified(pool, [np.where(rng.random(p.n_rows) < 0.004, filled, p.scores) for p in pool])
    assert outcome.fairness_gain.value == pytest.approx(plain.fairness_gain.value, abs=0.02)
    if filled < -1e6:
        assert any("below their query's median: missing scores filled in?" in said for said in outcome.warnings)


def test_promoted_items_among_queries_set_aside_end_no_path(pool):
    """Without validation queries, four promoted items used to turn a certificate into an abstention."""
    outcome = calibrate(pool[0].with_scores(promoted(pool, 5)[0][0])[:400], PROMISE)
    assert outcome
    assert outcome.fairness_gain.value > 0.1


def test_reason_and_limit_of_an_abstention_agree(pool):
    for promise, selection in (("ndcg@5 >= 0.9", "fixed_sequence"), ("ndcg@5 >= 0.47", BONFERRONI)):
        outcome = calibrate(pool[0][:300], promise, selection=selection)
        assert isinstance(outcome, Abstention)
        for test in outcome.tests:
            assert ("limit " in str(outcome)) == (test.level is not None)
            assert test.level is None or test.level < test.promise.target
