"""Promises about single lists, from calibration to the watch over them: all say how many lists fall short."""

import numpy as np
import pytest
from msgspec import structs

from isrr import (
    GPLRanker,
    Monitor,
    Promise,
    PromiseError,
    Queries,
    calibrate,
    certify,
    check,
    compare,
    evaluate,
    load,
    plan,
    report,
    start,
)
from isrr.data.production import with_production
from isrr.errors import DataError
from isrr.reporting import words

TEXT = "ndcg@5 >= 80% of deterministic in 90% of lists"
SHORT = "of the lists fall short of 80 % of what the order by score gives (NDCG@5)"


def judged(n_queries, seed):
    rng = np.random.default_rng(seed)
    relevance = rng.choice(4, n_queries * 12, p=[0.55, 0.25, 0.15, 0.05])
    scores, now = (relevance + rng.normal(size=relevance.size) for _ in range(2))
    return Queries.from_arrays(
        scores=scores,
        relevance=relevance,
        query_ids=np.repeat([f"q{seed}-{q}" for q in range(n_queries)], 12),
        item_ids=np.arange(relevance.size),
        segments=np.repeat(rng.choice(["web", "app"], n_queries), 12),
        values={"now": now},
    )


@pytest.fixture(scope="module")
def queries():
    return judged(900, 1)


@pytest.fixture(scope="module")
def certified(queries):
    outcome = calibrate(queries, TEXT)
    assert not outcome.abstained
    return outcome


def share(queries, ranker, promise):
    return evaluate(queries, [ranker], [promise.measure]).mean(promise.measure)[0]


def test_a_certificate_says_how_many_lists_fall_short_and_survives_a_file(certified, tmp_path):
    (test,) = certified.tests
    assert f"{100 * test.measured:.1f} % of the lists keep 80 % of what the order by score gives" in str(certified)
    assert f"{100 * (1 - test.measured):.1f} % fall short (promised: 90 %)" in str(certified)
    assert certified.ranker.floor == 0.0
    assert not certified.ranker.is_deterministic
    assert certified.utility_name == "NDCG@5"
    certified.save(tmp_path / "ranker.json")
    assert load(tmp_path / "ranker.json") == certified
    assert words.verdict(certified).endswith("at least 90 % of the lists keep 80 % of what the order by score gives "
                                             "(NDCG@5).")  # fmt: skip


def test_the_share_holds_on_other_queries_and_check_says_how_many_fall_short(certified):
    others, (promise,) = judged(2_000, 2), certified.promises
    assert share(others, certified.ranker, promise) >= 0.9
    (kept,) = check(certified, others).promises
    assert kept.verdict == "kept"
    assert kept.value.value == pytest.approx(share(others, certified.ranker, promise))
    assert kept.shortfall == f"{100 * (1 - kept.value.value):.1f} % {SHORT}"
    assert f"kept, measured {kept.in_its_units}; {kept.shortfall}" in str(check(certified, others))


def test_what_is_promised_of_lists_is_rarer_than_of_their_mean(queries):
    mean, lists = (calibrate(queries, text, path="temperature") for text in ("ndcg@5 >= 95% of deterministic", TEXT))
    assert lists.ranker.temperature < mean.ranker.temperature


@pytest.mark.parametrize(
    "text",
    [
        "ndcg@5 >= 90% of production in 60% of lists",
        "ndcg@5 >= 0.4 in 80% of lists",
        "rr@5 >= 50% of deterministic in 90% of lists",
        "hit@3 >= 1 in 80% of lists",
        "ap@5 >= 50% of deterministic in 80% of lists",
        "dcg@5 >= 2 in 80% of lists",
        "kept@5 >= 0.5 in 80% of lists",
        "ndcg@5 >= 70% of deterministic in 80% of lists per segment",
    ],
)
def test_any_metric_of_a_list_may_be_promised(queries, text):
    outcome = calibrate(queries, text, reference="now" if "production" in text else None)
    assert not outcome.abstained, outcome
    others, (promise,) = with_production(judged(2_000, 3), "now"), outcome.promises
    assert share(others, outcome.ranker, promise) >= promise.target - 0.01
    assert str(promise) == text


def test_production_has_to_be_given(queries):
    with pytest.raises(DataError, match="of production"):
        calibrate(queries, "ndcg@5 >= 90% of production in 60% of lists")


def test_the_report_says_how_many_lists_fall_short(certified, queries):
    html = report(certified, queries).html.replace("\N{NO-BREAK SPACE}", " ")
    measured = certified.tests[0].measured
    assert "Lists that fall short of 80 % of what the order by score gives (NDCG@5)" in html
    assert f"{100 * (1 - measured):.1f} %" in html
    assert "The promise is about the share of lists over queries and their random lists." in html
    assert "The 90 % in the promise is the share of lists that keep 80 %" in html


def test_two_equal_percentages_are_told_apart():
    outcome = calibrate(judged(900, 1), TEXT, 0.9)
    assert words.which_is_which(outcome).startswith("Two different 90s. The 90 % in the promise is the share of lists")
    assert "The 90 % confidence is how sure that is" in words.which_is_which(outcome)


def line(certificate, query, top, by_score, session):
    return {
        "time": 0.0, "certificate": certificate.id, "status": "valid", "query_id": query, "session": session,
        "top": top, "deterministic": by_score,
    }  # fmt: skip


@pytest.mark.parametrize(("text", "good"), [(TEXT, 0.75), ("ndcg@5 >= 0.9 in 90% of lists", 0.5)])
def test_the_monitor_counts_the_served_lists_that_are_good(certified, text, good):
    (test,) = certified.tests
    promise = Promise.parse(text)
    tests = (structs.replace(test, promise=promise, level=None),)
    outcome = structs.replace(certified, promises=(promise,), tests=tests)
    judgments = Queries.from_arrays(relevance=[2, 1, 0], query_ids=["q"] * 3, item_ids=["a", "b", "c"])
    lists = ["abc", "bac", "acb", "cab"]  # NDCG@3 is 1, .797, .964 and .659
    served = [line(outcome, "q", list(top), ["a", "c", "b"], session) for session, top in enumerate(lists)]
    monitor = Monitor(outcome)
    monitor.update(served, judgments)
    assert monitor.kept == [good]
    assert f"{100 * good:.1f} % of lists, promised ≥ 90.0 %; {100 - 100 * good:.1f} % of the lists fall" in str(monitor)


def test_comparing_counts_the_queries_on_which_the_new_list_falls_short(queries):
    now = queries.with_scores(queries.in_caller_order(queries.column("now")))
    (row,) = compare(queries, now, "ndcg@5 >= 80% of production in 60% of lists").rows
    new, old = (evaluate(part, [GPLRanker.deterministic()], ["ndcg"])["ndcg"][:, 0] for part in (queries, now))
    below = np.nanmean(np.where(np.isnan(new), np.nan, new < 0.8 * old - 1e-9))
    assert row.mean == pytest.approx(np.nanmean(new))
    assert row.production == pytest.approx(np.nanmean(old))
    assert row.shortfall == f"{100 * below:.1f} % of the lists fall short of 80 % of what production gives (NDCG@5)"
    assert row.pvalue < 0.05 < row.pvalue_worse


def test_a_plan_says_how_many_queries_lists_need(queries):
    planned = plan(queries, TEXT)
    assert 0 < planned.queries_needed < 900
    assert planned.milestones


def test_where_lists_cannot_be_told_apart_a_promise_about_them_is_refused(queries):
    with pytest.raises(PromiseError, match="about single lists, and values are means over them"):
        certify(np.full((50, 2), 0.9), "ndcg@5 >= 0.5 in 90% of lists")
    with pytest.raises(PromiseError, match="without them, only a share of the order by score can be promised"):
        start(queries, TEXT)
