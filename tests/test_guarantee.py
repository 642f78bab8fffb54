"""Promises: read as they are written, and refused in words that speak of the target."""

import pytest

from isrr import Guarantee, GuaranteeError


@pytest.mark.parametrize("per", [None, "segment"])
@pytest.mark.parametrize(
    "text", ["ndcg@5 >= 0.7", "ndcg@10 >= 95% of deterministic", "normalized_disparity@5 <= 50% of deterministic"]
)
def test_a_promise_is_read_as_it_is_printed(text, per):
    promise = Guarantee.parse(text, per=per)
    assert Guarantee.parse(str(promise)) == promise


def test_a_promise_in_every_segment_may_be_asked_for_twice():
    assert Guarantee.parse("ndcg@5 >= 0.7 per segment", per="segment").per == "segment"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ndcg@5 >= 0.9999999", "'ndcg@5 >= 0.9999999' cannot be tested: .* known to 1e-06, .* from 1; lower it"),
        ("normalized_disparity@5 <= 5e-7", "'normalized_disparity@5 <= 5e-07' cannot be .* from 0; raise it"),
        ("normalized_disparity@5 <= 0.00005% of deterministic", "cannot be tested: .* from 0; raise it"),
    ],
)
def test_a_target_too_near_its_limit_is_refused_at_once(text, said):
    with pytest.raises(GuaranteeError, match=said):
        Guarantee.parse(text)


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
    with pytest.raises(GuaranteeError, match=r"several promises; give each by itself: a list .*, -g repeated"):
        Guarantee.parse(text)


def test_a_comma_in_a_number_is_not_several_promises():
    with pytest.raises(GuaranteeError, match="cannot read the promise 'ndcg@5 >= 0,7'; write for example"):
        Guarantee.parse("ndcg@5 >= 0,7")
