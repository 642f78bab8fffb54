"""What a reader believes: which certified ranker is used, and what every outcome says of NDCG and of single lists."""

from dataclasses import replace

import numpy as np
import pytest

from isrr import Certificate, GPLRanker, Queries, calibrate, check, evaluate, metric
from isrr.calibration import certify
from isrr.calibration import quality as quality_module
from isrr.calibration.quality import measured_quality, quality_values
from isrr.outcome.text import quality_rows, written
from isrr.promises import promises
from isrr.reporting.page import report

MARKET = ["exposure(new)@10 >= 20%", "value(margin)@10 >= 95% of deterministic with bound 25"]
MARGIN = "value(margin)@5 >= 90% of deterministic with bound 25"


def market(n_queries, seed):
    """30 items per query, a fifth of them new and under-scored by half a grade, and a margin that knows nothing."""
    rng = np.random.default_rng(seed)
    grades = rng.choice(5, (n_queries, 30), p=[0.5, 0.25, 0.15, 0.07, 0.03])
    new = rng.random(grades.shape) < 0.2
    scores = grades - 0.5 * new + rng.normal(scale=2.0, size=grades.shape)
    margin = np.minimum(rng.lognormal(1.0, 0.8, grades.shape), 25.0)
    return Queries.from_arrays(
        scores=scores.ravel(),
        relevance=grades.ravel(),
        query_ids=np.repeat(np.arange(n_queries) + 100_000 * seed, 30),
        item_groups=np.where(new, "new", "known").ravel().astype(object),
        values={"margin": margin.ravel()},
    )


@pytest.fixture(scope="module")
def offers():
    return market(800, 20230)


@pytest.fixture(scope="module")
def certificate(offers):
    outcome = calibrate(offers, MARKET)
    assert isinstance(outcome, Certificate)
    return outcome


def test_a_margin_and_a_share_leave_ndcg_nearly_whole(certificate):
    fresh = market(2_000, 7)
    before, after = evaluate(fresh, [GPLRanker.deterministic(10), certificate.ranker], ["ndcg"]).mean("ndcg")
    assert after >= 0.85 * before
    quality = certificate.quality
    assert quality.remaining.low <= after / before <= quality.remaining.high
    assert f"{quality.remaining.in_percent} of NDCG@10 remains" in str(certificate)
    assert "nothing is promised about it" in str(certificate)


def test_quality_is_the_same_whatever_is_drawn_together(offers, certificate, monkeypatch):
    measure = metric("ndcg").at(10)
    whole = quality_values(offers, certificate.ranker, measure)
    monkeypatch.setattr(quality_module, "POSITIONS", 32 * 10 * 7)  # seven queries
    np.testing.assert_array_equal(quality_values(offers, certificate.ranker, measure), whole)


@pytest.mark.parametrize(
    ("texts", "best"),
    [
        (["ndcg@5 >= 50% of deterministic"], 3),
        (["clicks@5 >= 95% of deterministic"], 3),
        (["kept@5 >= 0.1", "exposure(new)@5 >= 1%"], 3),
        (["exposure(new)@5 >= 1%"], 0),
        (["normalized_disparity@5 <= 90% of deterministic", "exposure(new)@5 >= 1%"], 0),
        ([MARGIN], 2),
        ([MARGIN, "exposure(new)@5 >= 1%"], 2),
        ([MARGIN, "ndcg@5 >= 50% of deterministic"], 3),
    ],
)
def test_the_fairest_is_used_where_relevance_is_promised_and_a_near_one_elsewhere(texts, best):
    utility, disparity = np.array([0.99, 0.97, 0.96, 0.5]), np.array([0.9, 0.8, 0.7, 0.6])
    cost = certify.cost_of(promises(texts), utility, disparity, remaining=utility)
    assert np.argmin(cost) == best


def test_where_no_ranker_keeps_enough_the_closest_is_used_and_a_warning_stands_first(offers):
    path = [GPLRanker(k=5, temperature=t, deviation=2.0) for t in (0.8, 1.2, 2.0)]
    outcome = calibrate(offers, MARGIN.replace("90%", "50%"), path=path)
    assert all(point.certified for point in outcome.curve)
    assert outcome.ranker == path[0]
    left = outcome.quality.remaining
    assert left.value < 0.9
    _, first, *rest = str(outcome).splitlines()
    said = f"only {100 * left.value:.1f} % of NDCG@5 remains, and nothing is promised about it"
    assert first.startswith(f"warning      {said}")
    assert "promise 'ndcg@5 >= 95% of deterministic' too" in first
    assert not any(said in line for line in rest)
    assert outcome.warnings[0].startswith(said)
    assert any(warning.startswith("only ") for warning in check(outcome, market(500, 7)).warnings)
    with_relevance = calibrate(offers, [MARGIN.replace("90%", "50%"), "ndcg@5 >= 30% of deterministic"], path=path)
    assert not any("nothing is promised" in line for line in str(with_relevance).splitlines())


def test_without_grades_it_is_kept_that_is_named(offers):
    unjudged = replace(offers, relevance=None)
    for promised in (MARKET, ["exposure(new)@10 >= 15%"]):
        outcome = calibrate(unjudged, promised)
        text = outcome.text(verbose=True)
        assert "stays in place, weighted by position (kept@10); nothing is promised about it" in text
        assert "lose more than half of it; " in text
        assert "NDCG" not in text
        assert "weighted by position (kept@10)" in str(check(outcome, replace(market(500, 7), relevance=None)))
    assert calibrate(unjudged, MARKET).quality.remaining.value >= 0.95


def test_much_quality_given_away_is_said_unless_a_promise_limits_it(offers):
    low = calibrate(offers, "ndcg@10 >= 0.3")
    assert low.quality.remaining.value < 0.9
    assert "\nquality      " in str(low)
    assert "\nquality      " not in str(calibrate(offers, ["ndcg@10 >= 0.3", "ndcg@10 >= 80% of deterministic"]))


def test_grades_without_a_relevant_item_count_as_none(offers):
    nothing = replace(offers, relevance=np.zeros(offers.n_rows))
    quality = measured_quality(nothing, GPLRanker(k=5), promises("exposure(new)@5 >= 5%"))
    assert quality.measure == "kept@5"


def test_the_lists_that_lose_half_are_those_drawn(offers):
    ranker = GPLRanker(k=10, temperature=1.0, deviation=2.0)
    quality = measured_quality(offers, ranker, promises("ndcg@10 >= 0.5"))
    gains = 2.0**offers.relevance - 1
    discount = 1 / np.log2(np.arange(2, 12))
    halved, changed = [], []
    for q in range(len(offers)):
        query = offers[q : q + 1]
        lists, (order,) = ranker.sample(query, 32)[0], GPLRanker.deterministic(10).sample(query)[0]
        worth = (gains[offers.offsets[q] + lists] * discount).sum(axis=1)
        reference = gains[offers.offsets[q] + order] @ discount
        if gains[offers.offsets[q] : offers.offsets[q + 1]].any():
            halved.append((worth < reference / 2 - 1e-9).mean())
            changed.append((lists != order).any(axis=1).mean())
    assert quality.halved.value == pytest.approx(np.mean(halved), abs=1e-12)
    assert quality.changed.value == pytest.approx(np.mean(changed), abs=1e-12)
    error = np.std(halved) / np.sqrt(len(halved) - 1)
    assert quality.halved.high - quality.halved.value == pytest.approx(1.96 * error, rel=1e-6)
    means = evaluate(offers, [GPLRanker.deterministic(10), ranker], ["ndcg"]).mean("ndcg")
    assert (quality.before.value, quality.after.value) == pytest.approx(tuple(means))


def test_a_check_measures_the_same_as_a_certificate_on_the_same_queries(offers):
    outcome = calibrate(offers, MARKET, path=[GPLRanker(k=10, temperature=0.2, deviation=2.0, boost={"new": 0.5})])
    measured = check(outcome, offers)
    assert measured.quality == outcome.quality
    rows = quality_rows(outcome.quality, outcome.utility_name, promised=False)
    assert all(line in str(measured) for line in written(rows))


def test_the_page_shows_what_remains_and_how_many_lists_lose_half(certificate, offers):
    page = report(certificate, offers).html
    assert "NDCG@10 that remains" in page
    assert "Lists that lose more than half of their NDCG@10" in page


def test_quality_does_not_depend_on_the_order_of_rows(certificate, offers):
    shuffled = np.random.default_rng(20230).permutation(offers.n_rows)
    rows = {"scores": offers.scores, "relevance": offers.relevance, "item_groups": offers.item_groups}
    ids = np.repeat(offers.query_ids, offers.n_items)
    again = Queries.from_arrays(
        query_ids=ids[shuffled],
        values={"margin": offers.column("margin")[shuffled]},
        **{name: column[shuffled] for name, column in rows.items()},
    )
    assert calibrate(again, MARKET) == certificate
