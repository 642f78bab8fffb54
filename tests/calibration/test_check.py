"""Whether a promise holds on new judged queries is told of what was promised, and of nothing else."""

from dataclasses import replace

import numpy as np
import pytest

from isrr import Promise, calibrate, check

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
