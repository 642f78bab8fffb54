"""Promises: read as they are written, tested by one affine loss, and refused in words that speak of the target."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isrr import GPLRanker, Metric, Promise, PromiseError
from isrr.promises import EXAMPLES, INEXACTNESS, OF_LISTS, move_together, objectives


@pytest.mark.parametrize("per", [None, "segment"])
@pytest.mark.parametrize(
    "text", [*EXAMPLES.values(), "ndcg@5 >= 0.7", "exposure(new sellers)@10 <= 120% of deterministic",
             "exposure(new)@3 >= 80% of merit", OF_LISTS, "dcg@3 >= 2.5 in 75.5% of lists",
             "exposure(new)@10 >= 20% in 90% of lists", "value(margin)@5 >= 101% of production in 60% of lists"]
)  # fmt: skip
def test_a_promise_is_read_as_it_is_printed(text, per):
    promise = Promise.parse(text, per=per)
    assert Promise.parse(str(promise)) == promise
    assert Promise.read(promise.document()) == promise
    assert str(promise).removesuffix(" per segment") == text


def test_a_promise_in_every_segment_may_be_asked_for_twice():
    assert Promise.parse("ndcg@5 >= 0.7 per segment", per="segment").per == "segment"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ndcg@5 >= 0.9999999", "'ndcg@5 >= 0.9999999' cannot be tested: .* known to 1e-06, .* from 1; lower it"),
        ("normalized_disparity@5 <= 5e-7", "'normalized_disparity@5 <= 5e-07' cannot be .* from 0; raise it"),
        ("normalized_disparity@5 <= 0.00005% of deterministic", "cannot be tested: .* from 0; raise it"),
    ],
)
def test_a_target_too_near_its_limit_is_refused_at_once(text, said):
    with pytest.raises(PromiseError, match=said):
        Promise.parse(text)


@pytest.mark.parametrize("text", ["exposure(new)@10 >= 150% of deterministic", "exposure(new)@10 >= 100% of merit"])
def test_a_group_may_be_promised_more_than_the_order_by_score_gives_it(text):
    promise, ranker = Promise.parse(text), GPLRanker(floor=0.7)
    assert Promise.parse(str(promise)) == promise
    assert promise.alpha == pytest.approx(1 / (1 + promise.target))
    low, high = promise.target_range
    assert low < promise.target < high
    assert not promise.kept_by_definition(GPLRanker.deterministic())
    assert not promise.kept_by_definition(ranker)
    stretched = promise.loss(ranker.floor).of(np.array([[0.7]]), np.ones(1))
    assert stretched[0, 0] == pytest.approx(1.0, abs=1e-5)  # the largest difference that the floor allows


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("exposure(new)@10 >= 150%", "did you mean 1.5%, or 150% of deterministic?"),
        ("exposure(new)@10 >= 20", "did you mean 20%, or 2000% of deterministic?"),
        ("exposure(new)@10 >= 100%", r"the target must lie in \(0, 1\); lower it"),
        ("exposure(new)@10 <= 100%", "it always holds"),
        ("exposure(new)@10 >= 0% of deterministic", r"must lie in \(0, inf\); raise it"),
        ("exposure(new)@10 >= 200000000% of deterministic", "no further from inf; lower it"),
        ("ndcg@10 >= 100% of deterministic", "no random ranker can keep it"),
        ("ndcg@10 >= 150% of deterministic", "no random ranker can keep it"),
        ("kept@10 >= 110% of deterministic", "no random ranker can keep it"),
        ("normalized_disparity@10 <= 120% of deterministic", "it always holds"),
    ],
)
def test_what_nothing_attains_or_everything_keeps_is_refused_with_the_reason(text, said):
    with pytest.raises(PromiseError, match="cannot be tested: .*" + said):
        Promise.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "ndcg@5 >= 0.7, disparity@5 <= 0.2",
        "ndcg@5 >= 0.7 and normalized_disparity@5 <= 0.2",
        "ndcg@5 >= 0.7; ndcg@10 >= 0.7",
        "ndcg@5 >= 0.7 ndcg@10 >= 0.7",
        "ndcg@5 >= 0.7, disparity <= 0.2",
    ],
)
def test_several_promises_in_one_text_are_asked_for_one_by_one(text):
    with pytest.raises(PromiseError, match=r"several promises; expected one at a time: a list .*, -p repeated"):
        Promise.parse(text)


def test_a_comma_in_a_number_is_not_several_promises():
    with pytest.raises(PromiseError, match="cannot read the promise 'ndcg@5 >= 0,7'; promises look like this: ndcg@5"):
        Promise.parse("ndcg@5 >= 0,7")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("ndcg >= 95% of deterministic", "'ndcg >= 95% of deterministic' says nothing of how many positions count"),
        ("exposure(new) >= 20%", "expected @ and a number, as in 'ndcg@5 >= 95% of deterministic'"),
        ("ndcg@5 > 95% of deterministic", "'ndcg@5 > 95% of deterministic': expected >= or <=, as in"),
        ("mrr@10 >= 0.3", "'mrr' cannot be promised; did you mean rr?"),
    ],
)
def test_what_nearly_reads_as_a_promise_gets_one_hint_instead_of_the_list(text, hint):
    with pytest.raises(PromiseError) as refusal:
        Promise.parse(text)
    assert hint in str(refusal.value)
    assert EXAMPLES["dcg"] not in str(refusal.value)


def test_what_cannot_be_read_lists_what_can_be_promised():
    for text in ("more fairness", "ndcg 5 >= 3", "fairness@5 >= 0.3"):
        with pytest.raises(PromiseError) as refusal:
            Promise.parse(text)
        assert all(example in str(refusal.value) for example in EXAMPLES.values())


PROMISES = [
    Promise("ndcg", 5, at_least=0.7),
    Promise("ndcg", 5, at_least=0.9, of="deterministic"),
    Promise("value(margin)", 3, at_least=0.9, of="deterministic", bound=(-2.0, 7.0)),
    Promise("value(margin)", 3, at_least=1.0, bound=40.0),
    Promise("exposure(new)", 10, at_most=0.3),
    Promise("exposure(new)", 10, at_most=1.2, of="deterministic"),
    Promise("exposure(new)", 10, at_least=0.8, of="merit"),
    Promise("normalized_disparity", 5, at_most=0.5, of="deterministic"),
    Promise("disparity", 5, at_most=2.0, bound=9.0),
]


@pytest.mark.parametrize("promise", PROMISES, ids=str)
@settings(max_examples=100, deadline=None)
@given(share=st.floats(0, 1), other=st.floats(0, 1))
def test_a_loss_lies_in_the_unit_interval_and_is_within_alpha_exactly_when_the_promise_is_kept(promise, share, other):
    low, high = promise.range
    value, reference = low + share * (high - low), low + other * (high - low)
    loss = promise.loss().of(np.array([[value]]), np.array([reference]))[0, 0]
    assert -1e-12 <= loss <= 1
    wanted = promise.target if promise.of is None else promise.target * reference
    slack = (value - wanted if promise.at_least is not None else wanted - value) / (high - low)
    if abs(slack) > 1e-9:
        assert (loss <= promise.alpha) == (slack > 0)
    affine = promise.loss()
    assert loss == pytest.approx(min(affine.a * value + affine.b * reference + affine.c, 1.0))


@pytest.mark.parametrize("promise", PROMISES, ids=str)
def test_the_worst_loss_is_one(promise):
    low, high = promise.range
    worst = [low, high] if promise.at_least is not None else [high, low]
    assert promise.loss().of(np.array([worst[:1]]), np.array(worst[1:]))[0, 0] == pytest.approx(1.0)


def test_losses_beyond_one_are_rounded_where_exposure_is_inexact_and_refused_where_a_bound_is_broken():
    promise = Promise("group_disparity", 5, at_most=0.5)
    almost = promise.loss().of(np.array([[1.0 + INEXACTNESS / 2]]), np.zeros(1))
    assert almost.max() == 1.0
    with pytest.raises(PromiseError, match=r"a query has a loss of 1\.01; group_disparity lies outside its bounds"):
        promise.loss().of(np.array([[1.01]]), np.zeros(1))
    floored = Promise("ndcg", 5, at_least=0.9, of="deterministic")
    with pytest.raises(PromiseError, match="ndcg lies outside its bounds"):
        floored.loss(np.array([0.9 - 1e-6, 0.0])).of(np.array([[0.95, -0.8]]), np.ones(1))


@pytest.mark.parametrize("text", ["ndcg@5 >= 0.6", "ndcg@5 >= 90% of deterministic", "normalized_disparity@5 <= 0.4"])
def test_configurations_may_be_tested_at_targets_of_their_own(text):
    promise, targets = Promise.parse(text), np.array([0.3, 0.55, 0.8])
    values, reference = np.random.default_rng(20230).random((2, 40, 3))
    together = promise.loss(target=targets).of(values, reference[:, 0])
    for c, target in enumerate(targets.tolist()):
        alone = promise.at(target)
        np.testing.assert_array_equal(together[:, [c]], alone.loss().of(values[:, [c]], reference[:, 0]))
        assert promise.loss(target=targets).level[c] == alone.loss().level
        assert promise.loss(0.2, targets).stretch[c] == alone.loss(0.2).stretch


@pytest.mark.parametrize(
    ("promise", "kept"),
    [
        (Promise("ndcg", 5, at_least=0.9, of="deterministic"), True),
        (Promise("ndcg", 5, at_least=0.9), False),
        (Promise("exposure(new)", 5, at_most=1.1, of="deterministic"), True),
        (Promise("exposure(new)", 5, at_most=0.9, of="deterministic"), False),
        (Promise("normalized_disparity", 5, at_most=0.9, of="deterministic"), False),
        (Promise("value(margin)", 5, at_least=0.9, of="deterministic", bound=(-1.0, 1.0)), False),
        (Promise("exposure(new)", 5, at_least=0.9, of="merit"), False),
    ],
    ids=str,
)
def test_the_order_by_score_keeps_what_is_promised_relative_to_it(promise, kept):
    assert promise.kept_by_definition(GPLRanker.deterministic()) == kept
    assert not promise.kept_by_definition(GPLRanker(temperature=0.1))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Promise("ndcg", 5), "either at_least or at_most"),
        (lambda: Promise("ndcg", 5, at_least=0.5, at_most=0.6), "either at_least or at_most"),
        (lambda: Promise("ndcg", 5, at_most=0.5), "ndcg is promised with at_least"),
        (lambda: Promise("disparity", 5, at_least=0.5, bound=1.0), "disparity is promised with at_most"),
        (lambda: Promise("ndcg", 5.5, at_least=0.5), "expected a whole number of positions"),
        (lambda: Promise("ndcg", True, at_least=0.5), "expected a whole number of positions"),
        (lambda: Promise("ndcg", 10_001, at_least=0.5), "ndcg@10001: expected .* k from 1 to 10,000"),
        (lambda: Promise("ndcg", 5, at_least=0.5, of="merit"), "ndcg cannot be compared with merit"),
        (lambda: Promise("ndcg", 5, at_least=0.5, of="random"), "share of deterministic or merit"),
        (lambda: Promise("ndcg", 5, at_least=0.5, bound=3.0), "always lies between 0 and 1"),
        (lambda: Promise("dcg", 5, at_least=0.5), "largest value an item can have"),
        (lambda: Promise("dcg", 5, at_least=0.5, bound=-1.0), "bound must be a positive number"),
        (lambda: Promise("ndcg", 5, at_least=float("nan")), "cannot be tested"),
    ],
)
def test_a_promise_that_makes_no_sense_is_refused(make, said):
    with pytest.raises(PromiseError, match=said):
        make()


def test_a_metric_of_one_s_own_is_promised_parsed_and_read_back():
    margin = Metric("margin", value=lambda queries: queries.column("margin"), columns=("value:margin",))
    promise = Promise(margin, k=10, at_least=0.95, of="deterministic", bound=5.0)
    assert Promise.parse(str(promise), metrics=[margin]) == promise
    assert Promise.read(promise.document(), [margin]) == promise
    stranger = Promise.read(promise.document())
    assert str(stranger) == str(promise)
    with pytest.raises(PromiseError, match="'margin' is a custom metric"):
        stranger.metric.value(None)


def test_promises_move_together_where_all_are_safest_at_one_end():
    utility, fairness, share = (
        Promise.parse(EXAMPLES[name]) for name in ("ndcg", "normalized_disparity", "exposure(GROUP)")
    )
    assert move_together([utility, Promise.parse("precision@5 >= 0.3")])
    assert move_together([fairness])
    assert not move_together([utility, fairness])
    assert not move_together([share])


def test_what_is_reported_beside_a_promise():
    assert [str(m) for m in objectives([Promise.parse("precision@10 >= 0.3")])] == ["precision@10", "disparity@10"]
    assert [str(m) for m in objectives([Promise.parse("exposure(new)@10 >= 20%")])] == ["ndcg@10", "disparity@10"]
    unjudged = objectives([Promise.parse("exposure(new)@10 >= 20%")], judged=False)
    assert [str(m) for m in unjudged] == ["kept@10", "disparity@10"]
    assert unjudged[1].metric.gain == "equal"


def test_a_promise_about_lists_is_one_about_the_share_of_good_lists():
    promise = Promise("ndcg", 5, at_least=0.8, of="deterministic", in_lists=0.9)
    assert promise == Promise.parse(OF_LISTS)
    assert promise != Promise("ndcg", 5, at_least=0.8, of="production", in_lists=0.9)
    assert (promise.target, promise.in_lists, promise.of, promise.compared_with) == (0.9, 0.9, None, "deterministic")
    assert (promise.lists.target, str(promise.base_measure)) == (0.8, "ndcg@5")
    assert str(promise.at(0.95)) == "ndcg@5 >= 80% of deterministic in 95% of lists"
    assert promise.alpha == pytest.approx(0.1)
    assert promise.in_words == "at least 90 % of the lists keep 80 % of what the order by score gives (NDCG@5)"
    assert Promise.parse("ndcg@5 >= 0.7 in 60% of lists").in_words == "at least 60 % of the lists reach 0.7 (NDCG@5)"
    assert promise.kept_so_far(0.905).startswith("90.5 % of lists, promised ≥ 90.0 %; 9.5 % of the lists fall short of")


def test_only_the_order_by_score_keeps_a_promise_about_lists_by_definition():
    order, floored = GPLRanker.deterministic(5), GPLRanker(5, floor=0.95)
    promise = Promise.parse(OF_LISTS)
    assert promise.kept_by_definition(order)
    assert not promise.kept_by_definition(floored)
    assert not promise.can_be_floored
    for text in ("ndcg@5 >= 0.7 in 60% of lists", "ndcg@5 >= 100% of production in 60% of lists"):
        assert not Promise.parse(text).kept_by_definition(order)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("disparity@5 <= 0.2 in 90% of lists", "disparity is measured over many lists, and a single list has none"),
        ("group_disparity@5 <= 50% of deterministic in 90% of lists", "is measured over many lists"),
        ("clicks@5 >= 95% of deterministic in 90% of lists", "clicks is measured over many lists"),
        ("exposure(old)@5 <= 20% in 90% of lists", r"expected at least so much exposure\(old\), not at most"),
        ("exposure(old)@5 >= 90% of merit in 90% of lists", "not with merit"),
        ("dcg@5 >= 3 with bound 15 in 90% of lists", "needs no bound"),
        ("ndcg@5 >= 0.7 in 0.9 of lists", "has a percent sign; expected, say, 'in 90% of lists'"),
        ("ndcg@5 >= 0.7 in 9000% of lists", r"must lie in \(0, 1\), got 90; did you mean 0.9\?"),
        ("ndcg@5 >= 0.7 in 100% of lists", r"must lie in \(0, 1\), got 1$"),
        ("ndcg@5 >= 0.7 in 99.99999% of lists", "known to 1e-06"),
        ("ndcg@5 >= 120% of deterministic in 90% of lists", r"must lie in \(0, 1\], got 1.2"),
        ("ndcg@5 >= 7 in 90% of lists", r"must lie in \(0, 1\], got 7"),
        ("ndcg@5 >= 80% in 90% of lists", "percent of what"),
        ("ndcg@0 >= 0.5 in 90% of lists", "expected a whole number of positions"),
    ],
)
def test_what_cannot_be_said_of_a_single_list_is_refused(text, said):
    with pytest.raises(PromiseError, match=said):
        Promise.parse(text)
