"""Compiled loops of the paper's further tests."""

import math

import numpy as np
from numba import njit

BET_SHARE = 0.99  # of the largest bet that cannot lose everything


@njit(cache=True, nogil=True, error_model="numpy")
def plugin_log_wealth(losses, alpha, scale, log_wealth):
    # losses      (n_queries, n_grid)  in canonical order
    # alpha       (n_grid,)            risk level tested
    # scale       scalar               √(2·log(1/delta)/n): what a bet is worth at deviation 1
    # log_wealth  (n_grid,)            out: largest log-wealth on the way
    n_queries, n_grid = losses.shape
    total = np.full(n_grid, 0.5)
    squares = np.full(n_grid, 0.25)
    wealth = np.zeros(n_grid)
    log_wealth[:] = 0.0
    for t in range(n_queries):
        for j in range(n_grid):
            x = losses[t, j]
            bet = min(scale / math.sqrt(squares[j] / (t + 1.0)), BET_SHARE)
            wealth[j] += math.log1p(bet * (alpha[j] - x))
            log_wealth[j] = max(log_wealth[j], wealth[j])
            total[j] += x
            squares[j] += (x - total[j] / (t + 2.0)) ** 2
