"""What can be asked for: utility or fairness, of items, groups or segments, several at once, in several looks."""

from dataclasses import replace

import numpy as np
import pytest

import isrr
from isrr import Abstention, Certificate, DataError, GPLRanker, Queries, calibrate, check
from isrr.calibration.request import Request
from isrr.data.sample import canonical_order
from isrr.gains import ideal_dcg
from isrr.promises import Promise

PROMISE = "ndcg@5 >= 90% of deterministic"


def test_promising_fairness_maximises_utility(judged):
    strict = calibrate(judged, "normalized_disparity@5 <= 60% of deterministic")
    loose = calibrate(judged, "normalized_disparity@5 <= 80% of deterministic")
    assert loose.utility.value > strict.utility.value
    assert strict.disparity.value < loose.disparity.value
    declared = calibrate(judged, Promise("disparity", 5, at_most=2.0, bound=600.0))
    assert isinstance(declared, Certificate | Abstention)


def test_several_promises_hold_together(judged):
    outcome = calibrate(judged, ["ndcg@5 >= 0.4", "normalized_disparity@5 <= 0.6"])
    assert isinstance(outcome, Certificate)
    assert len(outcome.tests) == 2
    assert all(test.pvalue <= 0.05 for test in outcome.tests)


def test_a_promise_per_segment_is_tested_in_each(judged):
    outcome = calibrate(judged, Promise.parse(PROMISE, per="segment"))
    assert {test.segment for test in outcome.tests} == {"mobile", "desktop"}
    assert "in segment 'mobile': kept" in str(isrr.check(outcome, judged))
    assert sum(test.n_queries for test in outcome.tests) == outcome.provenance.n_queries
    with pytest.raises(DataError, match="segment for each query"):
        calibrate(Queries.from_arrays(scores=[1, 2, 3, 1], relevance=[0, 1, 1, 0], group=[2, 2]),
                  Promise.parse(PROMISE, per="segment"))  # fmt: skip


@pytest.mark.parametrize("why", ["set aside", "nothing relevant"])
def test_a_segment_without_a_query_to_test_on_is_refused(judged, why):
    first = judged.query_ids[canonical_order(judged.keys, judged.scores_fingerprint)[0]]
    ids = np.repeat(judged.query_ids, judged.n_items)
    rare = ids == first if why == "set aside" else np.isin(ids, judged.query_ids[:30])
    relevance = np.where(rare, 0, judged.relevance) if why == "nothing relevant" else judged.relevance
    queries = Queries.from_arrays(
        scores=judged.scores, relevance=relevance, query_ids=ids, segments=np.where(rare, "rare", "usual")
    )
    with pytest.raises(DataError, match="segment 'rare' has no query to test on"):
        calibrate(queries, Promise.parse(PROMISE, per="segment"))


def test_promises_on_groups_and_on_utility_are_kept_together():
    rng = np.random.default_rng(20230)
    sizes = rng.integers(8, 21, 900)
    groups = rng.choice(["favoured", "other", "small"], sizes.sum(), p=[0.55, 0.3, 0.15])
    relevance = rng.choice(4, sizes.sum(), p=[0.5, 0.3, 0.15, 0.05])
    scores = relevance + 0.5 * (groups == "favoured") + rng.normal(size=sizes.sum())
    queries = Queries.from_arrays(scores=scores, relevance=relevance, group=sizes, item_groups=groups)
    both = calibrate(queries, ["group_disparity@5 <= 0.12", "ndcg@5 >= 85% of deterministic"])
    assert isinstance(both, Certificate)
    alone = calibrate(queries, "group_disparity@5 <= 0.12")
    assert isinstance(alone, Certificate)
    assert alone.utility.value > both.utility.value


def test_a_promise_on_groups(judged):
    outcome = calibrate(
        judged, "group_disparity@5 <= 0.2", path=[GPLRanker(temperature=2.0), GPLRanker(temperature=0.5)]
    )
    assert isinstance(outcome, Certificate)
    with pytest.raises(DataError, match="no item groups"):
        calibrate(Queries.from_arrays(scores=judged.scores, relevance=judged.relevance, group=judged.n_items),
                  "group_disparity@5 <= 0.2", path=[GPLRanker()])  # fmt: skip


def test_planned_attempts_split_delta(judged):
    assert Request((Promise.parse(PROMISE),), n_analyses=3).delta == pytest.approx(0.05 / 3)
    once, thrice = (calibrate(judged, PROMISE, path=[GPLRanker(temperature=0.3)], n_analyses=n) for n in (1, 3))
    assert thrice.tests[0].bound > once.tests[0].bound


@pytest.mark.parametrize(("n_items", "k"), [(8, 3), (4, 2)])
def test_disparity_between_groups_is_tested_on_plain_data(n_items, k):
    rng = np.random.default_rng(0)  # rounding lifts the largest possible loss of some query above 1
    relevance = rng.integers(0, 2, n_items * 10_000)
    queries = Queries.from_arrays(
        scores=rng.normal(size=relevance.size) + relevance,
        relevance=relevance,
        group=[n_items] * 10_000,
        item_groups=rng.choice(["a", "b"], relevance.size),
    )
    assert not calibrate(queries, f"group_disparity@{k} <= 0.4", path="temperature").abstained


def test_values_near_a_declared_bound_are_warned_of():
    rng = np.random.default_rng(20230)
    queries = Queries.from_arrays(
        scores=rng.normal(size=500), relevance=rng.integers(0, 3, 500), group=[5] * 100,
        values={"margin": rng.uniform(0, 1, 500)},
    )  # fmt: skip
    most = float(queries.values["margin"].max())
    path = [GPLRanker(k=1, temperature=0.5)]
    for bound, warned in ((most / 0.95, True), (most / 0.8, False)):
        outcome = calibrate(queries, Promise.parse(f"value(margin)@1 >= 0.1 with bound {bound}"), path=path)
        assert outcome.provenance.near_bound == pytest.approx(most / bound)
        assert any("of the declared bound" in said for said in outcome.warnings) == warned


def test_values_capped_at_their_bound_are_not_warned_of():
    rng = np.random.default_rng(20230)
    margin, other = rng.lognormal(0, 1, 500), rng.uniform(0, 1, 500)
    margin = np.minimum(margin, np.quantile(margin, 0.99))
    queries = Queries.from_arrays(
        scores=rng.normal(size=500), relevance=rng.integers(0, 3, 500), group=[5] * 100,
        values={"margin": margin, "other": other},
    )  # fmt: skip
    capped = Promise.parse("value(margin)@1 >= 0.1", bound=float(margin.max()))
    near = Promise.parse("value(other)@1 >= 0.1", bound=float(other.max()) / 0.95)
    path = [GPLRanker(k=1, temperature=0.5)]
    assert not any("declared bound" in said for said in calibrate(queries, capped, path=path).warnings)
    both = calibrate(queries, [capped, near], path=path)
    assert both.provenance.near_bound == pytest.approx(0.95)
    assert any("reach 95% of the declared bound" in said for said in both.warnings)


def test_queries_without_a_relevant_item_are_passed_over(judged):
    empty = np.repeat(np.arange(len(judged)) < 150, judged.n_items)
    queries = replace(judged, relevance=np.where(empty, 0.0, judged.relevance))
    outcome = calibrate(queries, PROMISE, path="temperature")
    assert outcome.provenance.n_skipped > 140
    assert check(outcome, queries).n_skipped == (ideal_dcg(queries) == 0).sum() >= 150


@pytest.mark.parametrize(
    ("n_tested", "shares", "floor"),
    [
        (36, [0.95], 0.8), (37, [0.95], 0.7),  # 36 · (1 − 0.95) is 1.8
        (80, [0.95], 0.7), (81, [0.95], 0.6), (150, [0.95], 0.6), (151, [0.95], 0.5),
        (300, [0.95], 0.5), (301, [0.95], 0.4), (500, [0.95], 0.4), (501, [0.95], 0.3), (10**9, [0.95], 0.3),
        (60, [0.97], 0.8), (60, [0.9], 0.6), (60, [0.9, 0.97], 0.765),
        (10, [0.9], 0.765), (60, [0.5], 0.3), (12, [0.5], 0.425), (10**9, [0.2], 0.17),
    ],
)  # fmt: skip
def test_the_floor_follows_from_how_much_the_tested_queries_may_lose_in_all(n_tested, shares, floor):
    promises = tuple(Promise("ndcg", 5, at_least=share, of="deterministic") for share in shares)
    assert Request(promises).floor_for(n_tested) == pytest.approx(floor)
    assert Request(promises, floor=0.1).floor_for(n_tested) == 0.1
    assert Request((*promises, Promise.parse("ndcg@5 >= 0.4"))).floor_for(n_tested) == pytest.approx(floor)
    assert Request((*promises, Promise.parse("normalized_disparity@5 <= 0.5"))).floor_for(n_tested) == 0.0


def test_a_share_that_is_to_grow_leaves_the_floor_to_the_promise_of_utility():
    growth = Promise.parse("exposure(new)@5 >= 150% of deterministic")
    utility = Promise.parse("ndcg@5 >= 80% of deterministic")
    for n_tested in (30, 300, 3_000):
        assert Request((growth, utility)).floor_for(n_tested) == Request((utility,)).floor_for(n_tested)
        assert Request((growth,)).floor_for(n_tested) == 0.0


def test_a_certificate_has_the_floor_of_its_tested_queries(judged):
    request = Request((Promise.parse("ndcg@5 >= 97% of deterministic"),))
    for queries in (judged, judged[:250]):
        outcome = calibrate(queries, request.promises)
        n_tested = len(queries) - outcome.provenance.n_set_aside
        assert outcome.ranker.floor == request.floor_for(n_tested) > 0
