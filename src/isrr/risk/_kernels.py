"""Compiled loops of the evidence. Arrays in, arrays out: no checks, no hidden state, no Python objects.

`isrr.risk.betting`, `isrr.risk.mixture` and `isrr.risk.vb` prepare the arguments. Queries are the outer loop
and configurations the inner one: rows are read once, in order, and the processor overlaps the independent
chains.
"""

import math

import numpy as np

from isrr.compiled import njit

LOG_SQRT_2PI = 0.9189385332046727
DEEP = -700.0  # below this log-probability the tail series is exact to the last bits
PRIOR_QUERIES = 10.0
PRIOR_MEAN = 0.5
BET_SHARE = 0.99  # of the largest bet that cannot go bankrupt
SUM_SCALE = 1099511627776.0  # 2⁴⁰: what is added up over queries is kept in whole numbers, in units of 2⁻⁴⁰


@njit(cache=True, nogil=True, error_model="numpy")
def tail_series(x):
    """Φ(x)·|x|/φ(x) for x below −37."""
    u = 1.0 / (x * x)
    return 1.0 - u * (1.0 - 3.0 * u * (1.0 - 5.0 * u * (1.0 - 7.0 * u * (1.0 - 9.0 * u))))


@njit(cache=True, nogil=True, error_model="numpy")
def normal_quantile_tail(r):
    """−Φ⁻¹(p) for r = √(−log p), p ≤ 0.075 (Wichura 1988, AS 241)."""
    if r <= 5.0:
        r -= 1.6
        num = 7.74545014278341407640e-4
        num = num * r + 2.27238449892691845833e-2
        num = num * r + 2.41780725177450611770e-1
        num = num * r + 1.27045825245236838258e0
        num = num * r + 3.64784832476320460504e0
        num = num * r + 5.76949722146069140550e0
        num = num * r + 4.63033784615654529590e0
        num = num * r + 1.42343711074968357734e0
        den = 1.05075007164441684324e-9
        den = den * r + 5.47593808499534494600e-4
        den = den * r + 1.51986665636164571966e-2
        den = den * r + 1.48103976427480074590e-1
        den = den * r + 6.89767334985100004550e-1
        den = den * r + 1.67638483018380384940e0
        den = den * r + 2.05319162663775882187e0
        den = den * r + 1.0
        return num / den
    r -= 5.0
    num = 2.01033439929228813265e-7
    num = num * r + 2.71155556874348757815e-5
    num = num * r + 1.24266094738807843860e-3
    num = num * r + 2.65321895265761230930e-2
    num = num * r + 2.96560571828504891230e-1
    num = num * r + 1.78482653991729133580e0
    num = num * r + 5.46378491116411436990e0
    num = num * r + 6.65790464350110377720e0
    den = 2.04426310338993978564e-15
    den = den * r + 1.42151175831644588870e-7
    den = den * r + 1.84631831751005468180e-5
    den = den * r + 7.86869131145613259100e-4
    den = den * r + 1.48753612908506148525e-2
    den = den * r + 1.36929880922735805310e-1
    den = den * r + 5.99832206555887937690e-1
    den = den * r + 1.0
    return num / den


@njit(cache=True, nogil=True, error_model="numpy")
def normal_quantile(log_p):
    """Φ⁻¹(exp(log_p)) for log_p < 0, to full precision at both ends."""
    if log_p < DEEP:
        x = -math.sqrt(-2.0 * (log_p + LOG_SQRT_2PI) - math.log(-2.0 * log_p))
        for _ in range(3):
            series = tail_series(x)
            log_cdf = -0.5 * x * x - LOG_SQRT_2PI - math.log(-x / series)
            x += (log_cdf - log_p) * series / x
        return x
    p = math.exp(log_p)
    q = p - 0.5
    if abs(q) > 0.425:
        if q < 0.0:
            return -normal_quantile_tail(math.sqrt(-log_p))
        return normal_quantile_tail(math.sqrt(-math.log(-math.expm1(log_p))))
    r = 0.180625 - q * q
    num = 2.5090809287301226727e3
    num = num * r + 3.3430575583588128105e4
    num = num * r + 6.7265770927008700853e4
    num = num * r + 4.5921953931549871457e4
    num = num * r + 1.3731693765509461125e4
    num = num * r + 1.9715909503065514427e3
    num = num * r + 1.3314166789178437745e2
    num = num * r + 3.3871328727963666080e0
    den = 5.2264952788528545610e3
    den = den * r + 2.8729085735721942674e4
    den = den * r + 3.9307895800092710610e4
    den = den * r + 2.1213794301586595867e4
    den = den * r + 5.3941960214247511077e3
    den = den * r + 6.8718700749205790830e2
    den = den * r + 4.2313330701600911252e1
    den = den * r + 1.0
    return q * num / den


@njit(cache=True, nogil=True, error_model="numpy")
def hedge_ratio(log_p):
    """φ(Φ⁻¹(p)) / p for log_p < 0: how strongly the digital option reacts to its underlying."""
    d = normal_quantile(log_p)
    if log_p < DEEP:
        return -d / tail_series(d)
    return math.exp(-0.5 * d * d - LOG_SQRT_2PI - log_p)


@njit(cache=True, nogil=True, error_model="numpy")
def hedge(losses, alpha, delta, prior_deviation, certified):
    # losses     (n_queries, n_grid)  in canonical order
    # alpha      (n_grid,)            risk level tested
    # delta      (n_grid,)            level of the test, in (0, 1)
    # certified  (n_grid,)            out: wealth reached 1/delta
    n_queries, n_grid = losses.shape
    log_p = np.log(delta)  # of p = delta × wealth
    total = np.full(n_grid, PRIOR_MEAN * PRIOR_QUERIES)
    squares = np.full(n_grid, prior_deviation * prior_deviation * PRIOR_QUERIES)
    largest_bet = BET_SHARE / (1.0 - alpha)
    running, n_running = np.arange(n_grid), n_grid
    certified[:] = False
    for t in range(n_queries):
        seen = PRIOR_QUERIES + t
        left = n_queries - t
        i = 0
        while i < n_running:
            j = running[i]
            x = losses[t, j]
            bet = min(hedge_ratio(log_p[j]) / math.sqrt(squares[j] / seen * left), largest_bet[j])
            log_p[j] += math.log1p(bet * (alpha[j] - x))
            total[j] += x
            squares[j] += (x - total[j] / (seen + 1.0)) ** 2
            if log_p[j] >= 0.0:
                certified[j] = True
                n_running -= 1
                running[i] = running[n_running]
            else:
                i += 1


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


@njit(cache=True, nogil=True, error_model="numpy")
def add_logs(losses, shares, sums):
    # losses  (n_queries, n_grid)  at most 1
    # shares  (n_bets,)            c in (0, 1)
    # sums    (n_grid, n_bets)     in and out: Σ log(1 − c·x) in units of 2⁻⁴⁰, each term rounded down
    for i in range(losses.shape[0]):
        for j in range(losses.shape[1]):
            x = losses[i, j]
            for b in range(shares.size):
                sums[j, b] += np.int64(math.floor(SUM_SCALE * math.log(1.0 - shares[b] * x)))
