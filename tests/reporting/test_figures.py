"""Pictures appear whole or not at all."""

import resource
from contextlib import contextmanager

import numpy as np
import pytest

import isrr
from isrr.reporting.exposure_ledger import Account
from isrr.reporting.figures import exposure_over_time, tradeoff
from isrr_paper.drawings import threshold_curves

pytest.importorskip("matplotlib")


@contextmanager
def room_for(n_bytes):
    """No file may grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def draw_thresholds(file, _):
    curve = {"mean": [0.4, 0.2], "deviation": [0.1, 0.1], "deterministic": 0.2, "plackett_luce": 0.4}
    threshold_curves({"thresholds": [0.0, 0.5], "risk": curve, "disparity": curve}, "made up", file)


def draw_exposure(file, _):
    account = Account(("a",), np.ones(1), np.ones(1), np.array([0.0, 86_400.0]), np.array([0.2, 0.1]))
    exposure_over_time({"item": account}, file)


def draw_tradeoff(file, judged):
    outcome = isrr.calibrate(judged, "ndcg@5 >= 90% of deterministic", path="temperature")
    tradeoff(outcome, file)


@pytest.mark.parametrize("suffix", ["png", "svg"])
@pytest.mark.parametrize("draw", [draw_thresholds, draw_exposure, draw_tradeoff])
def test_a_disk_that_is_full_leaves_the_old_picture_whole(draw, suffix, many_queries, tmp_path):
    file = tmp_path / f"picture.{suffix}"
    draw(file, many_queries)
    before = file.read_bytes()
    with room_for(4_000), pytest.raises(OSError, match="picture"):
        draw(file, many_queries)
    assert file.read_bytes() == before
    draw(file, many_queries)
    assert file.read_bytes() == before
    assert not list(tmp_path.glob(".*"))
