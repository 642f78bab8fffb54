"""Counting false certificates: exactly at the boundary no evidence certifies more often than delta.

Repetitions run along the grid axis: column j is the j-th calibration sample.
"""

import numpy as np
import pytest

from counts import COUNTS
from evidence_kinds import KINDS, VALID
from isrr.risk import betting

pytestmark = pytest.mark.guarantee

REPEATS, DELTA, _ = COUNT = COUNTS["every kind of evidence"]
SEED = 20230
LAWS = {
    "coin .3": (0.3, lambda rng, shape: (rng.random(shape) < 0.3).astype(float)),
    "coin .02": (0.02, lambda rng, shape: (rng.random(shape) < 0.02).astype(float)),
    "coin .98": (0.98, lambda rng, shape: (rng.random(shape) < 0.98).astype(float)),
    "beta .2 .5": (0.2 / 0.7, lambda rng, shape: rng.beta(0.2, 0.5, shape)),
    "uniform": (0.5, lambda rng, shape: rng.random(shape)),
}


def holds(wrong):
    """Whether the count is compatible with a rate of at most delta."""
    assert np.size(wrong) == REPEATS
    return np.sum(wrong) <= COUNT.most


def rejects(name, losses, alpha):
    if name == "betting":  # one pass instead of a root: the same bits, as tests/risk shows
        return betting.certifies(losses, alpha, DELTA)
    return KINDS[name].pvalue(losses, alpha, DELTA, 0.25) <= DELTA


@pytest.mark.parametrize("n", [50, 200, 1000])
@pytest.mark.parametrize("law", LAWS)
def test_a_risk_of_exactly_alpha_is_certified_at_most_delta_often(law, n):
    alpha, draw = LAWS[law]
    losses = draw(np.random.default_rng(SEED + n), (n, REPEATS))
    for name in VALID:
        assert holds(rejects(name, losses, alpha)), name


@pytest.mark.parametrize("law", ["coin .3", "beta .2 .5", "uniform"])
def test_betting_spends_nearly_all_of_delta(law):
    alpha, draw = LAWS[law]
    losses = draw(np.random.default_rng(SEED), (1000, REPEATS))
    assert rejects("betting", losses, alpha).mean() > 0.03


def test_betting_keeps_its_level_with_losses_below_zero():
    losses = 1 - np.random.default_rng(SEED).exponential(0.7, (200, REPEATS))  # mean 0.3, at most 1
    assert holds(rejects("betting", losses, 0.3))
    assert holds(rejects("wsr", losses, 0.3))


def test_betting_keeps_its_level_with_any_prior():
    losses = LAWS["beta .2 .5"][1](np.random.default_rng(SEED), (200, REPEATS))
    for prior_deviation in (0.01, 0.05, 0.5):
        assert holds(betting.certifies(losses, 0.2 / 0.7, DELTA, prior_deviation))


@pytest.mark.parametrize("name", VALID)
def test_a_risk_far_below_alpha_is_certified(name):
    losses = np.random.default_rng(SEED).beta(2, 5, (1000, 200))  # deviation 0.16
    alpha = 2 / 7 + 12 * 0.16 / np.sqrt(1000)
    assert rejects(name, losses, alpha).mean() > 0.99


@pytest.mark.parametrize("name", VALID)
def test_bounds_cover_the_risk(name):
    losses = LAWS["beta .2 .5"][1](np.random.default_rng(SEED), (60, REPEATS))
    assert holds(KINDS[name].upper_bound(losses, DELTA, 0.25) <= 0.2 / 0.7)


def test_counting_catches_the_normal_approximation():
    alpha, draw = LAWS["coin .02"]
    assert not holds(rejects("normal_approximation", draw(np.random.default_rng(SEED), (50, REPEATS)), alpha))


def test_counting_catches_an_order_that_knows_the_losses():
    alpha, draw = LAWS["coin .3"]
    losses = np.sort(draw(np.random.default_rng(SEED), (200, REPEATS)), axis=0)
    assert not holds(rejects("betting", losses, alpha))


def test_counting_catches_conditional_means_in_arrival_order():
    rng = np.random.default_rng(SEED)
    risk = np.r_[np.full(200, 0.2), np.full(200, 0.7)][:, None]  # 0.45 on average, the level tested
    arrived = (rng.random((400, REPEATS)) < risk).astype(float)
    assert not holds(rejects("betting", arrived, 0.45))
    assert holds(rejects("betting", rng.permuted(arrived, axis=0), 0.45))
