"""The band holds for all configurations together: one shape fixed beforehand, one reach for all of them."""

import numpy as np
import pytest
from scipy.stats import binomtest

from counts import COUNTS
from isrr.calibration.certify import KeptSample
from isrr.explore.band import declared_stops, expected_half_width, simultaneous
from isrr.promises.promise import Promise
from isrr.risk import betting

pytestmark = pytest.mark.guarantee

DELTA = 0.05


def correlated(rng, shape, weight):
    """Uniform-ish noise in [−1, 1] that configurations (last axis) share in part."""
    own, common = rng.uniform(-1, 1, shape), rng.uniform(-1, 1, (*shape[:-1], 1))
    return weight * common + (1 - weight) * own


def test_all_bounds_of_the_band_hold_together():
    count, n, n_grid = COUNTS["all bounds of a band"], 150, 10
    repeats = count.repeats
    rng = np.random.default_rng(20230)
    risk = np.linspace(0.3, 0.6, n_grid)
    pilot = risk + 0.3 * correlated(rng, (repeats, 400, n_grid), 0.3)
    centre, width = pilot.mean(axis=1), expected_half_width(pilot.std(axis=1), n, 1.0)
    losses = risk + 0.3 * correlated(rng, (n, repeats, n_grid), 0.3)
    alone = betting.upper_bound(losses.reshape(n, -1), DELTA).reshape(repeats, n_grid)
    band = np.stack([simultaneous(*row) for row in zip(alone, centre, width, strict=True)])
    broken = int((risk > band).any(axis=1).sum())
    looked = int((risk > alone).any(axis=1).sum())
    assert broken <= count.most
    assert binomtest(looked, repeats, DELTA, alternative="greater").pvalue < 1e-6  # bounds that hold alone do not
    assert (band - risk).mean() < 2.2 * (alone - risk).mean()  # not kept by being far away


def test_a_band_whose_shape_saw_the_calibration_queries_breaks():
    n, n_grid, repeats = 100, 12, 1_000
    rng = np.random.default_rng(20231)
    losses = 0.5 + 0.4 * rng.uniform(-1, 1, (n, repeats, n_grid))
    alone = betting.upper_bound(losses.reshape(n, -1), DELTA).reshape(repeats, n_grid)
    own_mean = losses.mean(axis=0)
    width = expected_half_width(losses.std(axis=0), n, 1.0)
    band = np.stack([simultaneous(*row) for row in zip(alone, own_mean, width, strict=True)])
    broken = int((band < 0.5).any(axis=1).sum())
    assert binomtest(broken, repeats, DELTA, alternative="greater").pvalue < 1e-6


def test_kept_shares_hold_together():
    count, n, n_grid, steps = COUNTS["kept shares of a band"], 500, 6, 10_000
    repeats = count.repeats
    promise = Promise.parse("ndcg@5 >= 95% of deterministic")
    rng = np.random.default_rng(20232)
    shares = np.linspace(0.97, 0.7, n_grid)

    def drawn(size):
        reference = rng.uniform(0.3, 0.9, size)
        values = reference[:, None] * (shares + 0.69 * correlated(rng, (size, n_grid), 0.1))
        return KeptSample(promise, None, "betting", np.zeros(n_grid, bool), values, reference, np.zeros(n_grid))

    broken, looked, slack = 0, 0, 0.0
    for _ in range(repeats):
        pilot = drawn(100)
        found = drawn(n)
        alone = found.strongest(DELTA, steps) / steps
        width = expected_half_width(pilot.deviation(), n, float(pilot.reference.mean()))
        band = 1 - simultaneous(1 - alone, 1 - pilot.measured(), width)
        broken += bool((shares < band).any())
        looked += bool((shares < alone).any())
        slack += float((shares - band).mean() / (shares - alone).mean()) / repeats
    assert broken <= count.most
    assert binomtest(looked, repeats, DELTA, alternative="greater").pvalue < 1e-6
    assert slack < 4  # not kept by being far away


def test_declared_stops_know_nothing_of_the_data():
    relative = declared_stops(Promise.parse("ndcg@5 >= 93% of deterministic"))
    assert 0.93 in [promise.target for promise in relative]
    assert [promise.target for promise in relative] == sorted(promise.target for promise in relative)
    for text in ("ndcg@5 >= 0.98", "normalized_disparity@5 <= 0.02", "normalized_disparity@5 <= 50% of deterministic"):
        promise = Promise.parse(text)
        assert promise in declared_stops(promise)
