"""Betting against "the risk is at least alpha": the digital-option hedge, the default evidence.

A gambler starts with wealth 1 and bets, query after query, that losses stay below alpha. If the risk is at
least alpha no strategy grows in expectation, so wealth ever reaches 1/delta with probability at most delta
(Ville), and reaching it certifies risk < alpha. Only "losses are at most 1" is used: they may be negative.
The strategy is the delta-hedge of a digital option that pays 1/delta when the Gaussian test rejects:

    W₀ = 1,  p = δ·Wₜ₋₁,  d = Φ⁻¹(p)
    b = min( φ(d) / (p·σₜ₋₁·√(n−t+1)),  0.99/(1−α) )
    Wₜ = Wₜ₋₁·(1 + b·(α − Xₜ))                                certified iff δ·Wₜ ≥ 1 for some t ≤ n

σ is a running deviation that starts from `prior_deviation` around ½, worth ten queries; a poor guess costs
power and never validity, as long as it depends neither on alpha nor on the calibration losses. Rows must
come in an order that knows nothing of the losses (sorted by a keyed hash of the query id). Tests are nested
in delta and in alpha, which makes p-value and upper bound roots of the same question; `isrr.risk.lattice`
says how they agree as bits.
"""

from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from isrr.ranker.simd import WIDTH
from isrr.risk.kernels import hedge
from isrr.risk.lattice import SIGNIFICANT_BITS, SMALLEST, BoolArray, FloatArray, coarsen, smallest_yes

PRIOR_DEVIATION = 0.25
SMALLEST_ALPHA = 2.0**-30
NOBODY = (-1.0, 0.5, 1.0, 1.0)  # log delta, alpha, deviation and what was reached, in lanes beside the last
LANES = 2 * WIDTH  # that the hedge runs side by side in nearly the time of one
N_LEADING = 8  # configurations whose bounds are found before those of the others


def certifies(
    losses: FloatArray, alpha: ArrayLike, delta: float, prior_deviation: ArrayLike = PRIOR_DEVIATION
) -> BoolArray:
    """Return whether wealth reaches 1/delta, for each configuration.

    Args:
        losses: At most 1 each, shape (n_queries, n_grid), rows in canonical order.
        alpha: Risk level to certify, in (0, 1), one or one a configuration; below 2⁻³⁰ nothing is certified.
        delta: Level of the test, in (0, 1).
        prior_deviation: Guess of the losses' deviation, one or one a configuration, fixed without the calibration
            losses.

    Example:
        >>> losses = np.random.default_rng(7).beta(2, 6, size=(400, 2)) + np.array([0.0, 0.05])
        >>> certifies(losses, alpha=0.28, delta=0.05)
        array([ True, False])
    """
    level = np.maximum(alpha, SMALLEST_ALPHA)
    answers: BoolArray = _run(losses, coarsen(level), coarsen(delta), prior_deviation)[0]
    return answers & (np.asarray(alpha) >= SMALLEST_ALPHA)


def pvalue(losses: FloatArray, alpha: ArrayLike, prior_deviation: ArrayLike = PRIOR_DEVIATION) -> FloatArray:
    """Return the smallest delta that certifies, (n_grid,); 2⁻¹⁰²² stands for anything smaller still."""
    level, n_grid = coarsen(np.maximum(alpha, SMALLEST_ALPHA)), losses.shape[1]
    at_once = max(LANES // n_grid, 1)
    several = np.tile(losses, at_once)
    pvalues = smallest_yes(
        lambda delta: _run(several, level, delta, prior_deviation, at_once), SMALLEST, 1.0, n_grid, at_once=at_once
    )
    return np.where(np.asarray(alpha) >= SMALLEST_ALPHA, pvalues, 1.0)


def upper_bound(
    losses: FloatArray,
    delta: float,
    prior_deviation: ArrayLike = PRIOR_DEVIATION,
    significant_bits: int = SIGNIFICANT_BITS,
) -> FloatArray:
    """Return the smallest alpha that is certified at level delta, (n_grid,); 1 where none is, at least 2⁻³⁰.

    The risk is below it with probability at least 1 − delta. With fewer significant bits it is rounded up, and found
    sooner.
    """
    level, n_grid = coarsen(delta), losses.shape[1]
    mean, error = losses.mean(axis=0), losses.std(axis=0) / np.sqrt(len(losses))
    priors, n_errors, every = np.broadcast_to(prior_deviation, n_grid), np.full(n_grid, 1.75), np.arange(n_grid)
    some = every[:: max(n_grid // N_LEADING, 1)]  # neighbours are alike: these say about how many errors it takes
    for columns in (some, every):
        ours = losses if columns.size == n_grid else np.ascontiguousarray(losses[:, columns])
        guess = np.clip(mean[columns] + n_errors[columns] * error[columns], SMALLEST_ALPHA, 1.0)
        at_once = max(LANES // columns.size, 1)
        several = np.tile(ours, at_once)
        bounds = smallest_yes(
            partial(_run, several, delta=level, prior_deviation=priors[columns], at_once=at_once), SMALLEST_ALPHA, 1.0,
            columns.size, significant_bits, guess, at_once,
        )  # fmt: skip
        if columns.size == n_grid:
            break
        n_errors = np.interp(every, columns, (bounds - mean[columns]) / np.maximum(error[columns], SMALLEST_ALPHA))
    return bounds


def _run(
    losses: FloatArray, alpha: ArrayLike, delta: ArrayLike, prior_deviation: ArrayLike, at_once: int = 1
) -> BoolArray:
    """Return what wealth reached, (at_once, n_grid), of losses that stand `at_once` times side by side."""
    n_columns = losses.shape[1]
    shape, n_rows = (at_once, n_columns // at_once), -(-n_columns // WIDTH)
    state = np.empty((5, WIDTH * n_rows))  # the last row is the kernel's own
    for row, used, unused in zip(state[:4], (np.log(delta), alpha, prior_deviation, -1.0), NOBODY, strict=True):
        row[:n_columns], row[n_columns:] = np.broadcast_to(used, shape).ravel(), unused
    rows, scratch = np.ascontiguousarray(losses, np.float64).ravel(), np.empty(n_rows, np.int64)
    hedge(rows, n_columns, state, scratch, np.zeros(WIDTH))
    return np.reshape(state[3, :n_columns] >= 0.0, shape)
