"""Slow, obvious versions of what `isrr.risk` computes fast. Believable without running them."""

import math
from fractions import Fraction

import mpmath
import numpy as np
from scipy.special import ndtri_exp


def hedge_certifies(losses, alpha, delta, prior_deviation=0.25):
    """One configuration, losses (n_queries,): the recursion as it is printed, wealth in log space."""
    n, log_wealth = len(losses), 0.0
    squares, total, seen = 10 * prior_deviation**2, 10 * 0.5, 10
    for t, x in enumerate(losses, start=1):
        log_p = np.log(delta) + log_wealth
        d = ndtri_exp(log_p)
        ratio = np.exp(-d * d / 2 - np.log(2 * np.pi) / 2 - log_p)
        bet = min(ratio / np.sqrt(squares / seen * (n - t + 1)), 0.99 / (1 - alpha))
        log_wealth += np.log1p(bet * (alpha - x))
        total, seen = total + x, seen + 1
        squares += (x - total / seen) ** 2
        if np.log(delta) + log_wealth >= 0:
            return True
    return False


def normal_quantile(log_p):
    with mpmath.workdps(40):
        p = mpmath.mpf(log_p)
        start = -mpmath.sqrt(-2 * p) if log_p < -1 else mpmath.mpf(float(ndtri_exp(log_p)))
        return float(mpmath.findroot(lambda x: mpmath.log(mpmath.ncdf(x)) - p, start))


def hedge_ratio(log_p):
    with mpmath.workdps(40):
        p = mpmath.mpf(log_p)
        start = -mpmath.sqrt(-2 * p) if log_p < -1 else mpmath.mpf(float(ndtri_exp(log_p)))
        d = mpmath.findroot(lambda x: mpmath.log(mpmath.ncdf(x)) - p, start)
        return float(mpmath.exp(-d * d / 2 - p) / mpmath.sqrt(2 * mpmath.pi))


def binomial_cdf(k, n, q):
    """Exact for small n: a sum of fractions."""
    q = Fraction(q)
    coefficient, total = Fraction(1), Fraction(0)
    for i in range(min(k, n) + 1):
        total += coefficient * q**i * (1 - q) ** (n - i)
        coefficient = coefficient * (n - i) / (i + 1)
    return total


def hoeffding_bentkus(count, n, alpha):
    """R̂ = count/n with count an integer."""
    with mpmath.workdps(40):
        a, r = mpmath.mpf(alpha), mpmath.mpf(count) / n
        capped = min(r, a)
        entropy = sum(p * mpmath.log(p / b) if p > 0 else mpmath.mpf(0) for p, b in ((capped, a), (1 - capped, 1 - a)))
        tail = binomial_cdf(count, n, alpha)
        bentkus = mpmath.e * mpmath.mpf(tail.numerator) / tail.denominator
        return float(min(mpmath.exp(-n * entropy), bentkus))


def hb_plus(mean_loss, n, alpha):
    """Every integer t, every term."""
    masses, q = [], Fraction(alpha)
    coefficient = Fraction(1)
    for i in range(n + 1):
        masses.append(coefficient * q**i * (1 - q) ** (n - i))
        coefficient = coefficient * (n - i) / (i + 1)
    total = n * Fraction(mean_loss)
    ratios = [sum((t - i) * masses[i] for i in range(t)) / (t - total) for t in range(1, n + 2) if t > total]
    return float(min([Fraction(1), *ratios]))


def large_binomial_cdf(k, n, q):
    """Terms downward from k, in whole multiples of 2^−200 of the first, until none is left; k below the mean, any n."""
    exact, term, total = Fraction(q), 2**200, 0
    come, stay = exact.numerator, exact.denominator - exact.numerator
    for i in range(k, -1, -1):
        total += term
        term = term * i * stay // ((n - i + 1) * come)
        if term == 0:
            break
    with mpmath.workdps(40):
        log_mass = (
            mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1)
            + k * mpmath.log(q) + (n - k) * mpmath.log1p(-mpmath.mpf(q))
        )  # fmt: skip
        return float(mpmath.exp(log_mass) * total / 2**200)


def evidence_after(losses, alpha):
    """E after each loss: every start and every bet is a gambler of its own, with its share of the wealth."""
    stakes = [0.02 * (0.95 / alpha / 0.02) ** (j / 11) for j in range(12)]
    found = []
    for n in range(1, len(losses) + 1):
        evidence = 1 / (n + 1)  # of those who have not started yet
        for start in range(n):
            share = 1 / ((start + 1) * (start + 2) * 12)
            evidence += sum(share * math.prod(1 + b * (x - alpha) for x in losses[start:n]) for b in stakes)
        found.append(evidence)
    return found


def wsr_pvalue(losses, alpha, delta):
    """One configuration, losses (n_queries,)."""
    n, wealth, best = len(losses), 1.0, 1.0
    for t in range(n):
        means = [(0.5 + losses[: i + 1].sum()) / (i + 2) for i in range(t)]
        variance = (0.25 + sum((losses[i] - means[i]) ** 2 for i in range(t))) / (t + 1)
        bet = min(0.99, np.sqrt(2 * np.log(1 / delta) / (n * variance)))
        wealth *= 1 + bet * (alpha - losses[t])
        best = max(best, wealth)
    return 1 / best
