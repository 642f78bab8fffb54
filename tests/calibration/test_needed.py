"""Numbers of judged queries that calibration treats alike."""

import math

import pytest

from isrr.calibration.needed import spans
from isrr.calibration.path import SET_ASIDE_FROM, n_set_aside
from isrr.calibration.request import Request
from isrr.promises import Promise


@pytest.mark.parametrize("validated", [False, True])
@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_a_span_holds_the_numbers_that_calibration_floors_alike(share, validated):
    request = Request((Promise("ndcg", 5, at_least=share, of="deterministic"),))
    in_order = spans(request, validated=validated)
    assert [span.first for span in in_order] == [2, *(span.last + 1 for span in in_order[:-1])]
    assert in_order[-1].last == math.inf
    for n_judged in range(2, 8_000):
        (span,) = [span for span in in_order if span.first <= n_judged <= span.last]
        assert span.floor == request.floor_for(n_judged - n_set_aside(n_judged, request, validated=validated))
        assert span.learns == (validated or n_judged >= SET_ASIDE_FROM)
    assert len({(span.floor, span.learns) for span in in_order}) == len(in_order) - validated


def test_spans_reach_as_far_as_the_floor_changes():
    request = Request((Promise("ndcg", 5, at_least=0.9999, of="deterministic"),))
    last = spans(request)[-1]
    assert last.first > 200_000
    assert last.floor == request.floor_for(10**15) < spans(request)[-2].floor
