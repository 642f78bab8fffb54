"""From judged queries to an outcome: the same whatever order they come in, or one line on why there is none."""

from dataclasses import replace

import numpy as np
import pytest

import isrr
from isrr import Certificate, DataError, GPLRanker, Metric, PromiseError, Queries, calibrate
from isrr.calibration.certify import Tested, certify
from isrr.promises import Promise
from isrr.risk.evidence import NAMED
from isrr.risk.select import NAMED as SELECTIONS
from isrr_paper.further_evidence import POINTWISE
from isrr_paper.paths import paper_path

PROMISE = "ndcg@5 >= 90% of deterministic"


def measured_on(queries, promise, ranker, evidence):
    """One ranker as it is tested on queries."""
    values = isrr.evaluate(queries, [GPLRanker.deterministic(), ranker], [promise.measure])[promise.measure]
    return Tested.of(promise, None, evidence, values, values[:, 0], [ranker])


def test_the_order_of_queries_and_rows_changes_no_bit(judged):
    outcome = calibrate(judged, PROMISE)
    turned = np.random.default_rng(20231).permutation(len(judged))
    assert calibrate(judged[turned], PROMISE) == outcome
    rows = np.random.default_rng(20232).permutation(judged.n_rows)
    shuffled = Queries.from_arrays(
        scores=judged.scores[rows],
        relevance=judged.relevance[rows],
        query_ids=np.repeat(judged.query_ids, judged.n_items)[rows],
    )
    assert calibrate(shuffled, PROMISE) == outcome


@pytest.mark.parametrize("evidence", NAMED)
def test_the_whole_delta_is_spent_on_a_single_test(judged, evidence):
    delta, promise, between = 0.1, Promise("ndcg", 5, at_least=0.5), 0
    measured = measured_on(judged[:200], promise, GPLRanker(temperature=0.6), NAMED[evidence])
    for shortfall in np.linspace(0.01, 0.1, 91):
        sample = replace(measured, promise=promise.at(float(measured.measured()[0] - shortfall)))
        pvalue = float(sample.pvalue([0], delta)[0])
        assert sample.holds(delta)[0] == (pvalue <= delta)
        certified = certify([sample], SELECTIONS["fixed_sequence"], delta)[0]
        assert certified == (pvalue <= delta)
        between += delta / 2 < pvalue <= delta
    assert between  # what half of delta would not certify


def test_a_floor_of_exactly_the_target_keeps_it_by_definition(judged):
    promise, few = Promise.parse("ndcg@5 >= 90% of deterministic"), judged[:12]
    ranker = GPLRanker(temperature=2.0, floor=0.9)
    assert promise.kept_by_definition(ranker)
    assert not promise.kept_by_definition(replace(ranker, floor=0.9 - 1e-9))
    outcome = calibrate(few, promise, path=[ranker])
    assert isinstance(outcome, Certificate)
    assert outcome.ranker == ranker
    sample = measured_on(few, promise, ranker, NAMED["betting"])
    assert sample.holds(0.05, 0.9)[0]
    assert not sample.holds(0.05, 0.9 + 1e-9)[0]


def test_the_paper_s_procedure_is_there_and_says_what_it_lacks(judged):
    asked = {"path": paper_path(judged, 5), "evidence": "hoeffding_bentkus", "selection": POINTWISE}
    outcome = calibrate(judged, "ndcg@5 >= 0.45", **asked)
    assert outcome.tests[0].evidence == "hoeffding_bentkus"
    assert len(outcome.curve) == 22
    assert "no guarantee over the path" in str(outcome)


def table(**columns):
    return Queries.from_arrays(**({"scores": [2, 1, 2, 1], "relevance": [1, 0, 0, 1], "group": [2, 2]} | columns))


@pytest.mark.parametrize(
    ("queries", "promise", "options", "error", "said"),
    [
        (table(), PROMISE, {"confidence": 95}, PromiseError, "did you mean 0.95"),
        (table(), PROMISE, {"confidence": 0.0}, PromiseError, r"confidence must lie in \(0, 1\)"),
        (table(), "ndcg@5 >= 70", {}, PromiseError, "write 0.7"),
        (table(), "ndcg@5 >= 1", {}, PromiseError, "cannot be tested"),
        (table(), "ndcg@5 >= 100% of deterministic", {}, PromiseError, "no random ranker can keep it"),
        (table(), "map@5 >= 0.3", {}, PromiseError, "'map' cannot be promised; did you mean ap"),
        (table(), "ndcg >= 0.3", {}, PromiseError, "how many positions count; expected @ and a number"),
        (table(), "ndcg@5 <= 0.3", {}, PromiseError, "did you mean 'ndcg@5 >= 0.3'"),
        (table(), "disparity@5 <= 0.3", {}, PromiseError, "has no natural bound; expected 'with bound B'"),
        (table(), [], {}, PromiseError, "no promise; expected"),
        (table(), "ndcg@5 >= 95%", {}, PromiseError, "percent of what"),
        (table(), "ndcg@5.5 >= 0.9", {}, PromiseError, "whole number of positions"),
        (table(), "ndcg@5 >= 0.95 of deterministic", {}, PromiseError, "did you mean 'ndcg@5 >= 95% of deterministic'"),
        (table(), "value(margin)@5 >= 3", {}, PromiseError, "value.margin. has no natural bound"),
        (table(), "value(margin)@5 >= 3 with bound 9", {}, DataError, "margin"),
        (table(), "exposure(new)@5 >= 20%", {}, DataError, "no item groups"),
        (table(), PROMISE, {"confidance": 0.9}, TypeError, "confidance"),
        (table(), PROMISE, {"path": "magic"}, PromiseError, "unknown path 'magic'"),
        (table(), PROMISE, {"evidence": "magic"}, PromiseError, "unknown evidence 'magic'"),
        (table(), PROMISE, {"selection": "magic"}, PromiseError, "unknown selection 'magic'"),
        (table(), PROMISE, {"n_analyses": 0}, PromiseError, "n_analyses must be"),
        (table(), PROMISE, {"n_analyses": 1.5}, PromiseError, "n_analyses must be a whole number"),
        (table(), PROMISE, {"sample": 100.0}, PromiseError, "`sample=` must be a whole number ≥ 1, got 100.0"),
        (table(), PROMISE, {"path": [GPLRanker(k=3)]}, PromiseError, "with k = 5, as promised"),
        (table(relevance=None), PROMISE, {}, DataError, "unjudged"),
        (table(scores=None), PROMISE, {}, DataError, "no scores"),
        (table(relevance=[0, 0, 0, 0]), PROMISE, {}, DataError, "no query has a relevant item"),
        (table(scores=[1, 1, 1, 1]), PROMISE, {}, DataError, "all scores are equal"),
        (table(group=[4]), PROMISE, {}, DataError, "there is one query"),
        (table(group=[1, 1, 1, 1]), PROMISE, {}, DataError, "every query has a single item"),
        (table(), "disparity@5 <= 0.1 with bound 0.2", {"path": [GPLRanker()]}, PromiseError, "declared bound"),
    ],
)  # fmt: skip
def test_what_cannot_be_calibrated_is_refused_in_one_line(queries, promise, options, error, said):
    with pytest.raises(error, match=said) as refusal:
        calibrate(queries, promise, **options)
    assert "\n" not in str(refusal.value)


def test_a_gain_too_small_to_be_squared_is_refused(judged):
    tiny = Queries.from_arrays(scores=judged.scores, relevance=judged.relevance * 1e-165, group=judged.n_items)
    with pytest.raises(DataError, match="a gain of 1e-165 is too small to compute with: multiply the relevance"):
        calibrate(tiny, Promise.parse("normalized_disparity@5 <= 0.5", gain="linear"))


def test_a_grade_too_large_for_a_gain_is_refused(judged):
    relevance = np.where(np.arange(judged.n_rows) == 7, 1_100, judged.relevance)
    queries = Queries.from_arrays(scores=judged.scores, relevance=relevance, group=judged.n_items)
    with pytest.raises(DataError, match="a relevance of 1100 is too large"):
        calibrate(queries, PROMISE)


def test_a_target_below_zero_is_kept_by_definition_by_nobody(judged):
    profit = Metric("profit", lambda queries: np.full(queries.n_rows, -0.9))
    for selection in ("fixed_sequence", "holm"):
        outcome = calibrate(judged, Promise(profit, 1, at_least=-0.3, bound=(-1.0, 1.0)), selection=selection)
        assert outcome.abstained
        assert outcome.tests[0].level < -0.9


@pytest.mark.parametrize("below", [1e-7, 6e-7])
def test_a_floor_next_to_the_target_leaves_nothing_to_test_with(judged, below):
    outcome = calibrate(judged, "ndcg@5 >= 90% of deterministic", floor=0.9 - below)
    assert outcome.abstained
    assert outcome.tests[0].pvalue == 1.0


def test_gain_and_discount_mean_what_they_mean_on_the_command_line(judged):
    worth = {"gain": "linear", "discount": "reciprocal"}
    promise = Promise.parse(PROMISE, **worth)
    outcome = calibrate(judged, PROMISE, **worth)
    assert outcome == calibrate(judged, promise)
    assert outcome != calibrate(judged, PROMISE)
    assert isrr.plan(judged[:60], PROMISE, **worth) == isrr.plan(judged[:60], promise)
    several = [PROMISE, "precision@5 >= 80% of deterministic"]
    assert calibrate(judged, several, gain="linear").promises == tuple(Promise.parse(p, gain="linear") for p in several)
    own = calibrate(judged, PROMISE, gain=np.sqrt)
    assert own.promises[0].metric.gain is np.sqrt
    for run in (calibrate, isrr.plan, isrr.start):
        with pytest.raises(PromiseError, match=r"`gain=` is for promises given as text; expected Promise\.parse"):
            run(judged, promise, gain="linear")
        with pytest.raises(ValueError, match="gain must be one of exponential, linear, equal"):
            run(judged, PROMISE, gain="cubic")


@pytest.mark.parametrize("judge", ["model", "both"])
def test_grades_of_a_model_warn_of_absolute_promises_and_say_what_relative_ones_mean(judged, tmp_path, judge):
    absolute, relative, share = "ndcg@5 >= 0.6", PROMISE, "exposure(ours)@5 >= 30%"
    who = {"model": "a model", "both": "people and a model"}[judge]
    for outcome in (calibrate(judged, absolute, judged_by=judge), calibrate(judged, "ndcg@5 >= 0.9", judged_by=judge)):
        (warning,) = (warning for warning in outcome.warnings if "model" in warning)
        assert warning.startswith(f"grades come from {who}, and '{outcome.promises[0]}' promises a level of them")
        assert "overstated NDCG@5 by 15–31 % on TREC data" in warning
        assert f"judged by    {who}" in str(outcome)
        assert f"warning      {warning}" in str(outcome)
        outcome.save(tmp_path / "ranker.json")
        assert isrr.load(tmp_path / "ranker.json").provenance.judged_by == judge
    for promise in (relative, [relative, share], share):
        outcome = calibrate(judged, promise, judged_by=judge)
        assert not [warning for warning in outcome.warnings if "model" in warning]
        assert f"judged by    {who}" in str(outcome)
        sentence = f"note         grades come from {who}, and they measure both sides of '{relative}'"
        assert (sentence in str(outcome)) == (promise != share)


def test_who_judged_is_recorded_and_said_only_where_it_is_known(judged):
    plain, by_people = calibrate(judged, PROMISE), calibrate(judged, PROMISE, judged_by="people")
    assert plain.provenance.judged_by is None
    assert "judged by" not in str(plain)
    assert str(by_people).count("judged by    people") == 1
    assert (by_people.warnings, by_people.ranker) == (plain.warnings, plain.ranker)
    with pytest.raises(PromiseError, match=r"`judged_by=` must be people, model or both, got 'gpt'"):
        calibrate(judged, PROMISE, judged_by="gpt")
