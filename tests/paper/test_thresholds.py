"""Thresholds of positions, and the grids that are searched."""

import numpy as np
import pytest

from isrr.ranker.gpl import expand
from isrr_paper.paths import quantile_grid, uniform_grid

ELIGIBILITY = np.random.default_rng(20230).dirichlet(np.full(40, 0.3))


def test_each_threshold_is_the_decay_times_the_one_before():
    assert expand(0.8, 0.5, 1).tolist() == [0.8]
    long = expand(0.7, 0.9, 12)
    assert long[0] == 0.7
    assert (long[1:] == 0.9 * long[:-1]).all()
    for k in range(1, 12):
        assert (expand(0.7, 0.9, k) == long[:k]).all()


def test_a_uniform_grid_goes_in_equal_steps_from_zero_to_the_largest_eligibility():
    grid = uniform_grid(ELIGIBILITY, 21)
    assert (grid[0], grid[-1], grid.size) == (0.0, ELIGIBILITY.max(), 21)
    np.testing.assert_allclose(np.diff(grid), ELIGIBILITY.max() / 20)


def test_a_quantile_grid_admits_equally_many_more_items_from_step_to_step():
    grid = quantile_grid(ELIGIBILITY, 41)
    assert (grid[0], grid[-1]) == (0.0, ELIGIBILITY.max())
    admitted = [(ELIGIBILITY >= threshold).sum() for threshold in grid]
    assert admitted == [40, *range(40, 0, -1)]
    assert quantile_grid(np.full(9, 0.1), 41).tolist() == [0.0, pytest.approx(0.1)]
