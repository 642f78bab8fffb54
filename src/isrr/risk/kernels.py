"""Compiled loops of the hedge. Arrays in, arrays out: no checks, no hidden state, no Python objects.

`isrr.risk.betting` prepares the arguments; `isrr.ranker.simd` has the operations. Queries are the outer loop
and configurations the inner one: rows are read once, in order, and the processor overlaps the independent
chains.
"""

from isrr.compiled import kernel
from isrr.ranker.simd import WIDTH, any_above, broadcast, exp, fma, larger, load, log, log_one_plus, root, select, store

LOG_SQRT_2PI = 0.9189385332046727
DEEP = -700.0  # below this log-probability the tail series is exact to the last bits
PRIOR_QUERIES = 10.0
PRIOR_MEAN = 0.5
BET_SHARE = 0.99  # of the largest bet that cannot go bankrupt

# Φ⁻¹ as quotients of polynomials, highest power first (Wichura 1988, AS 241). Near p = ½ it is q times the quotient at
# 0.180625 − q², with q = p − ½. In a tail of log-probability −r² it is the quotient at r − 1.6, beyond r = 5 at r − 5.
CENTRE = (
    2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
    1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080e0,
)  # fmt: skip
UNDER_CENTRE = (
    5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
    5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0,
)  # fmt: skip
TAIL = (
    7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e0,
    3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0, 1.42343711074968357734e0,
)  # fmt: skip
UNDER_TAIL = (
    1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
    6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1.0,
)  # fmt: skip
FAR_TAIL = (
    2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
    2.96560571828504891230e-1, 1.78482653991729133580e0, 5.46378491116411436990e0, 6.65790464350110377720e0,
)  # fmt: skip
UNDER_FAR_TAIL = (
    2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
    1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0,
)  # fmt: skip


@kernel
def _quotient(x, above, below):
    numerator, denominator = broadcast(above[0]), broadcast(below[0])
    for i in range(1, 8):
        numerator = fma(numerator, x, broadcast(above[i]))
        denominator = fma(denominator, x, broadcast(below[i]))
    return numerator / denominator


@kernel
def _upper_tail(log_p):
    """1 − p for −0.08 ≤ log p ≤ 0, to the last digits."""
    total = broadcast(1 / 362880)
    for factor in (1 / 40320, 1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0):
        total = fma(total, log_p, broadcast(factor))
    return broadcast(0.0) - log_p * total


@kernel
def normal_quantile(log_p):
    """Φ⁻¹(p) for −700 ≤ log p < 0, to full precision at both ends."""
    zero, edge = broadcast(0.0), broadcast(0.425)
    q = exp(log_p) - broadcast(0.5)
    away = larger(q, zero - q)
    found = q * _quotient(broadcast(0.180625) - q * q, CENTRE, UNDER_CENTRE)
    if any_above(away, edge):
        log_tail = log_p
        if any_above(q, edge):
            log_tail = select(q, edge, log(_upper_tail(log_p)), log_p)
        r = root(zero - log_tail)
        distance = _quotient(r - broadcast(1.6), TAIL, UNDER_TAIL)
        if any_above(r, broadcast(5.0)):
            distance = select(r, broadcast(5.0), _quotient(r - broadcast(5.0), FAR_TAIL, UNDER_FAR_TAIL), distance)
        found = select(away, edge, select(q, zero, distance, zero - distance), found)
    return found


@kernel
def _tail_series(x):
    """Φ(x)·|x|/φ(x) for x below −37."""
    u = broadcast(1.0) / (x * x)
    series = broadcast(1.0)
    for factor in (-9.0, -7.0, -5.0, -3.0, -1.0):
        series = fma(u * broadcast(factor), series, broadcast(1.0))
    return series


@kernel
def _deep_hedge_ratio(log_p):
    """`hedge_ratio` for log p ≤ −700."""
    zero, c = broadcast(0.0), broadcast(LOG_SQRT_2PI)
    x = zero - root(broadcast(-2.0) * (log_p + c) - log(broadcast(-2.0) * log_p))
    for _ in range(3):
        series = _tail_series(x)
        log_cdf = broadcast(-0.5) * x * x - c - log((zero - x) / series)
        x = x + (log_cdf - log_p) * series / x
    return (zero - x) / _tail_series(x)


@kernel
def hedge_ratio(log_p):
    """φ(Φ⁻¹(p)) / p for log p < 0: how strongly the digital option reacts to its underlying."""
    shallow, deepest = larger(log_p, broadcast(DEEP)), broadcast(DEEP)
    d = normal_quantile(shallow)
    ratio = exp(broadcast(-0.5) * d * d - broadcast(LOG_SQRT_2PI) - shallow)
    if any_above(deepest, log_p):
        deep = broadcast(0.0) - larger(broadcast(0.0) - log_p, broadcast(-DEEP))
        ratio = select(deepest, log_p, _deep_hedge_ratio(deep), ratio)
    return ratio


@kernel
def hedge(losses, n_grid, state, running, room):
    # losses   (n_queries · n_grid,)  in canonical order, those of a query side by side
    # state    (5, rows of WIDTH)  in: log delta, alpha, prior deviation, and in the fourth row −1, or 1 in lanes that
    #                          no configuration has; out: in the fourth at least 0 where wealth reached 1/delta
    # running  (n_rows,)  scratch; room (WIDTH,) as well
    n_queries, n_running = losses.size // n_grid, running.size
    log_p, alpha, squares, reached, total = state[0], state[1], state[2], state[3], state[4]
    zero, one = broadcast(0.0), broadcast(1.0)
    for i in range(n_running):
        running[i] = WIDTH * i
        deviation = load(squares, WIDTH * i)
        store(squares, WIDTH * i, deviation * deviation * broadcast(PRIOR_QUERIES))
        store(total, WIDTH * i, broadcast(PRIOR_MEAN * PRIOR_QUERIES))
    for t in range(n_queries):
        seen, left = PRIOR_QUERIES + t, n_queries - t
        i = 0
        while i < n_running:
            at = running[i]
            if t * n_grid + at + WIDTH <= losses.size:
                x = load(losses, t * n_grid + at)
            else:  # the last rows end before a whole row
                for j in range(n_grid - at):
                    room[j] = losses[t * n_grid + at + j]
                x = load(room, 0)
            x = select(x, one, one, x)  # more than 1, by rounding, could lose more than there is
            p, level = load(log_p, at), load(alpha, at)
            bet = hedge_ratio(p) / root(load(squares, at) * broadcast(left / seen))
            largest = broadcast(BET_SHARE) / (one - level)
            p = p + log_one_plus(select(bet, largest, largest, bet) * (level - x))
            ever = larger(load(reached, at), p)
            sums = load(total, at) + x
            away = x - sums * broadcast(1.0 / (seen + 1.0))
            store(total, at, sums)
            store(squares, at, fma(away, away, load(squares, at)))
            store(reached, at, ever)
            # A lane that has won goes on from −1; what it wins then does not matter.
            store(log_p, at, select(zero, p, p, broadcast(-1.0)))
            if any_above(zero, ever):
                i += 1
            else:
                n_running -= 1
                running[i] = running[n_running]
