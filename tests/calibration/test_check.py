"""Whether a promise holds on new judged queries is told of what was promised, and of nothing else."""

from dataclasses import replace

import numpy as np
import pytest

from isrr import GPLRanker, Promise, Queries, calibrate, check, evaluate
from isrr.calibration.check import LEAST_TO_TELL

PROMISE = Promise.parse("ndcg@5 >= 80% of deterministic", per="segment")


@pytest.mark.parametrize(
    ("now", "judged_of", "not_promised", "missing"),
    [
        ({"mobile": "mobile", "desktop": "desktop"}, ["desktop", "mobile"], [], []),
        ({"mobile": "mobile", "desktop": "watch"}, ["mobile"], ["watch"], ["desktop"]),
        ({"mobile": "watch", "desktop": "watch"}, [], ["watch"], ["desktop", "mobile"]),
    ],
)
def test_segments_that_were_promised_are_judged_and_missed_and_others_are_neither(
    judged, now, judged_of, not_promised, missing
):
    outcome = calibrate(judged, PROMISE, path="temperature")
    found = check(outcome, replace(judged, segments=np.array([now[segment] for segment in judged.segments], object)))
    assert [kept.segment for kept in found.promises] == judged_of
    assert [kept.segment for kept in found.segments] == not_promised
    assert all(f"not promised {PROMISE} in segment {segment!r}: measured" in str(found) for segment in not_promised)
    assert [[segment for segment in ("desktop", "mobile") if repr(segment) in said] for said in found.warnings] == [
        [segment] for segment in missing
    ]


@pytest.mark.parametrize("floor", [0.0, 0.5, 0.7])
def test_the_least_that_a_query_keeps_stands_beside_the_floor(judged, floor):
    outcome = calibrate(judged, "ndcg@5 >= 80% of deterministic", path="temperature", floor=floor)
    found = check(outcome, judged)
    ndcg = evaluate(judged, [outcome.ranker.deterministic(5), outcome.ranker], ["ndcg"])["ndcg"]
    some = ndcg[:, 0] > 0
    least = (ndcg[some, 1] / ndcg[some, 0]).min()
    if floor:
        assert found.lowest == pytest.approx(least)
        assert found.lowest >= floor - 1e-6
        assert f"(guaranteed: {100 * floor:.1f} %)" in str(found)
    else:
        assert found.lowest is None
        assert "every query" not in str(found)


@pytest.mark.parametrize("unit", [1.0, 1e7, 1e9, 1e40])
def test_shares_of_groups_are_shares_whatever_the_unit_of_relevance(unit):
    rng = np.random.default_rng(20230)
    queries = Queries.from_arrays(
        scores=rng.normal(size=400),
        relevance=unit * rng.integers(0, 4, 400),
        group=[5] * 80,
        item_groups=rng.choice(["large", "small"], 400),
    )
    promise = Promise.parse("ndcg@5 >= 70% of deterministic", gain="linear")
    found = check(calibrate(queries, promise, path=[GPLRanker(temperature=0.5)]), queries)
    assert {group.group for group in found.groups} == {"large", "small"}
    for shares in zip(*((group.deterministic, group.ranker, group.gain) for group in found.groups), strict=True):
        assert sum(shares) == pytest.approx(1.0)
        assert min(shares) > 0.2


@pytest.mark.parametrize(("n_queries", "told"), [(2, False), (LEAST_TO_TELL - 1, False), (LEAST_TO_TELL, True)])
def test_few_queries_are_too_few_to_tell(judged, n_queries, told):
    outcome = calibrate(judged, "ndcg@5 >= 70% of deterministic", path="temperature")
    found = check(outcome, judged[:n_queries])
    assert (found.promises[0].verdict != "too few to say") == told


def test_measures_of_others_are_shown_on_demand(judged):
    measured = check(calibrate(judged, "ndcg@5 >= 80% of deterministic"), judged)
    loss, _ = measured.beside["expected_exposure_loss"]
    assert "expected exposure loss" not in str(measured)
    assert f"expected exposure loss {loss.value:.4f}" in measured.text(verbose=True)


def test_what_speaks_against_the_judgments_is_said(judged):
    outcome = calibrate(judged, ["ndcg@5 >= 80% of deterministic", "hit(rel=4)@5 >= 1% of deterministic"])
    assert check(outcome, judged).warnings == ()
    copies = replace(judged, query_ids=np.array([f"{name} again" for name in judged.query_ids], object))
    twice = Queries.concatenate([judged, copies])
    assert any("repeated queries: 700 of 1,400" in said for said in check(outcome, twice).warnings)
    swapped = replace(judged, scores=judged.relevance, relevance=np.logaddexp(0.0, judged.scores))
    assert any("swapped" in said for said in check(outcome, swapped).warnings)
    low = replace(judged, relevance=np.minimum(judged.relevance, 3.0))
    assert any(said.startswith("no query counts, so 'hit(rel=4)@5") for said in check(outcome, low).warnings)
