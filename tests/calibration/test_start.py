"""Before anything is judged: promises that hold by construction, and promises that need no labels."""

import re
from dataclasses import replace

import numpy as np
import pytest

import isrr
from isrr import GPLRanker, Promise, PromiseError, Queries, calibrate, evaluate, start
from isrr.reporting.page import report

PROMISE = "ndcg@5 >= 95% of deterministic"


def test_a_start_keeps_its_promise_on_every_query(judged, tmp_path):
    unjudged = replace(judged, relevance=None)
    made = start(unjudged, PROMISE)
    assert made == start(judged, PROMISE)  # relevance is not looked at
    values = evaluate(judged, [GPLRanker.deterministic(), made.ranker], ["ndcg"])["ndcg"]
    counted = ~np.isnan(values[:, 0])
    assert (values[counted, 1] >= (0.95 - 1e-6) * values[counted, 0]).all()
    assert made.moved > 0.02
    assert made.shown > 2 * made.shown_before
    assert "every query keeps at least 95 % of its NDCG@5 in the order by score" in str(made)
    made.save(tmp_path / "ranker.json")
    assert isrr.load(tmp_path / "ranker.json") == made
    found = isrr.check(made, judged)
    assert found.promises[0].verdict == "kept"
    assert found.fairness_gain > 0.02


@pytest.mark.parametrize("measure", ["rr@5", "hit(rel=2)@3"])
def test_a_start_protects_the_first_relevant_item(judged, measure):
    outcome = start(judged, f"{measure} >= 90% of deterministic")
    reference, kept = evaluate(judged, [GPLRanker.deterministic(outcome.ranker.k), outcome.ranker], [measure])[
        measure
    ].T
    counted = ~np.isnan(reference)
    assert (kept[counted] >= (0.9 - 1e-6) * reference[counted]).all()
    assert outcome.moved > 0.02


def test_a_start_moves_four_fifths_of_what_its_floor_lets_it_whatever_the_scores(judged):
    queries = judged.with_scores(np.sinh(2.0 * judged.scores))  # some far above the spread of their query
    made = start(queries, PROMISE)
    first = GPLRanker.deterministic().exposure(queries)

    def moved(temperature):
        exposure = replace(made.ranker, temperature=temperature).exposure(queries)
        return np.abs(exposure - first).sum() / 2 / first.sum()

    temperatures = made.ranker.temperature * np.geomspace(1.0, 100.0, 40)
    assert made.moved == pytest.approx(0.8 * max(map(moved, temperatures)), rel=0.02)
    assert moved(0.97 * made.ranker.temperature) < made.moved


def test_a_start_says_that_it_promises_a_mean_and_how_many_lists_change(judged):
    made = start(judged, PROMISE)
    lists, order = made.ranker.sample(judged, 2_000), GPLRanker.deterministic().sample(judged)
    changed = (lists != order).any(axis=2).mean()
    assert changed > 3 * made.moved  # a list changes by little
    assert made.quality.changed.value == pytest.approx(changed, abs=0.01)
    headline = str(made).splitlines()[0]
    share = f"{100 * made.quality.changed.value:.1f} %"
    assert headline.endswith(f"at least 95 % of its NDCG@5 on average over its lists; {share} of the lists change")
    assert "stays in place, weighted by position (kept@5)" in str(made)
    page = report(made, judged).html
    assert "it has in the order by score, on average over its lists." in page
    assert "Lists that change" in page


@pytest.mark.parametrize("scale", [1.0, 0.01])
def test_an_exploring_start_is_as_hot_as_moves_two_fifths_of_the_exposure(judged, scale):
    spread = np.repeat(np.random.default_rng(20230).normal(scale=9.0, size=len(judged)), judged.n_items)
    queries = judged.with_scores(scale * (judged.scores + spread))  # lists apart from each other
    made = start(queries, PROMISE, explore=True)
    assert (made.ranker.anchor, made.ranker.floor) == (0.8, 0.95)
    draws = replace(made.ranker, anchor=0.0, floor=0.0)
    first = GPLRanker.deterministic().exposure(queries)
    assert np.abs(draws.exposure(queries) - first).sum() / 2 / first.sum() == pytest.approx(0.4, abs=0.01)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("ndcg@5 >= 0.7", "needs judged queries; without them, only a share of the order by score can be promised"),
        ("normalized_disparity@5 <= 0.5", "needs judged queries; without them, only a share of the order by score"),
        ("ap@5 >= 95% of deterministic", "needs judged queries; without them, only a share of the order by score"),
        ("exposure(new)@5 >= 20%", "needs no labels, but a test: certify it by `isrr calibrate` on the same table"),
        ("exposure(ours)@5 >= 150% of deterministic", "needs no labels, but a test: certify it by `isrr calibrate`"),
        ("kept@5 >= 0.8", "needs no labels, but a test: certify it by `isrr calibrate` on the same table"),
        (
            "clicks@5 >= 95% of deterministic",
            "needs clicks; start with 'ndcg@5 >= 95% of deterministic' and `explore=True`",
        ),
    ],
)
def test_what_takes_labels_or_a_test_cannot_be_started_with(judged, text, remedy):
    with pytest.raises(PromiseError, match=re.escape(f"'{text}' {remedy}")):
        start(judged, text)


def test_discount_and_gain_say_what_a_start_promises(judged):
    made = start(judged, PROMISE, gain="linear", discount="reciprocal")
    assert made.promises == (Promise.parse(PROMISE, gain="linear", discount="reciprocal"),)
    assert made.ranker.floor_weights == (tuple(1 / np.arange(1, 6)),)
    assert made.promises != start(judged, PROMISE).promises


def test_shares_of_exposure_are_certified_on_unjudged_queries(judged):
    unjudged = replace(judged, relevance=None)
    outcome = calibrate(unjudged, "exposure(ours)@5 >= 40%")
    assert isinstance(outcome, isrr.Certificate)
    assert outcome.utility_name == "exposure kept in place@5"
    with pytest.raises(isrr.DataError, match="unjudged"):
        calibrate(unjudged, "exposure(ours)@5 >= 40% of merit")


@pytest.mark.parametrize("floor", [None, 0.8])
def test_a_certificate_says_what_every_query_keeps_and_keeps_it(judged, floor):
    outcome = calibrate(judged, "ndcg@5 >= 90% of deterministic", floor=floor)
    kept = 0.3 if floor is None else floor
    assert outcome.ranker.floor == kept
    assert f"every query keeps at least {100 * kept:g} %" in str(outcome)
    values = evaluate(judged, [GPLRanker.deterministic(), outcome.ranker], ["ndcg"])["ndcg"]
    counted = ~np.isnan(values[:, 0])
    assert (values[counted, 1] >= (kept - 1e-6) * values[counted, 0]).all()


def test_a_floor_is_about_the_promised_metric_and_needs_values_that_are_not_negative():
    precision, value = Promise("precision", 5, at_least=0.9, of="deterministic"), Promise(
        "value(margin)", 5, at_least=0.9, of="deterministic", bound=(-1.0, 1.0)
    )  # fmt: skip
    flat = GPLRanker(floor=0.5, floor_weights=((0.2,) * 5,))
    assert precision.floored(flat)
    assert not precision.floored(GPLRanker(floor=0.5))  # promised for discounted positions
    assert not value.floored(GPLRanker(floor=0.5))
    assert Promise("ndcg", 5, at_least=0.9, of="deterministic").loss(0.5).stretch == pytest.approx(0.9 / 0.4, rel=1e-4)


def test_few_queries_certify_more_with_the_default_floor_than_without():
    rng = np.random.default_rng(20230)
    relevance = rng.choice(4, (60, 15), p=[0.5, 0.3, 0.15, 0.05])
    scores = relevance + rng.normal(size=relevance.shape)
    queries = Queries.from_arrays(scores=scores.ravel(), relevance=relevance.ravel(), group=[15] * 60)
    with_floor, without = (calibrate(queries, "ndcg@5 >= 90% of deterministic", floor=f) for f in (None, 0.0))
    assert not with_floor.abstained
    assert without.abstained or with_floor.fairness_gain.value > without.fairness_gain.value


def test_queries_of_one_item_each_are_refused():
    queries = Queries.from_arrays(scores=[2.0, 1.0, 0.5], query_ids=[1, 2, 3], item_ids=[7, 7, 7])
    with pytest.raises(isrr.DataError, match=r"every query has a single item, .* are the columns of queries and items"):
        start(queries, "ndcg@5 >= 90% of deterministic")
