"""What the kernels of exposure are given: nodes of the integral, ways of weighting the places, and room to work in."""

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isrr.data.queries import FloatArray, IntArray
from isrr.lanes import WIDTH
from isrr.ranker._exact_kernels import LAGUERRE_MOST, UNROLLED, polynomial_size, scratch_size

Room = tuple[NDArray[Any] | None, ...]


@cache
def laguerre_rules() -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of the rules with 8, 16, … 48 points, those of n points in row n.

    The weights already carry e^t / t², so that Σ weight · f(node) ≈ ∫ f(t) dt for f(t) like t² e^{−t}.
    """
    nodes = np.zeros((LAGUERRE_MOST + 1, LAGUERRE_MOST))
    weights = np.zeros_like(nodes)
    for n in range(WIDTH, LAGUERRE_MOST + 1, WIDTH):
        nodes[n, :n], weights[n, :n] = _laguerre_rule(n)
    return nodes, weights


def _laguerre_rule(n: int) -> tuple[FloatArray, FloatArray]:
    """The n nodes, and their weights times e^t / t².

    The nodes are the roots of Lₙ, the Laguerre polynomial for t² e^{−t}: eigenvalues of a matrix, refined by Newton's
    method. The weights are (n + 1) e^x / ((n + 2) x Lₙ₋₁(x)²), which is accurate even where e^{−x} is tiny.
    """
    i = np.arange(1.0, n)
    recurrence = np.diag(2.0 * np.arange(n) + 3.0) + np.diag(np.sqrt(i * (i + 2.0)), -1)  # only this half is read
    x = np.linalg.eigvalsh(recurrence).round(9)  # rounded: the same start whatever the last bits of an eigenvalue
    for _ in range(2):
        before, here = _laguerre(n, x)
        x -= x * here / (n * here - (n + 2) * before)
    before, _ = _laguerre(n, x)
    return x, (n + 1) * np.exp(x) / ((n + 2) * x * before**2)


def _laguerre(n: int, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Lₙ₋₁(x) and Lₙ(x), each added up from steps between neighbours, as ratios to their values at 0."""
    step = -x / 3.0
    before, here = np.ones_like(x), 1.0 + step
    for i in range(1, n):
        step = (i * step - x * here) / (i + 3.0)
        before, here = here, here + step
    return before * math.comb(n + 1, 2), here * math.comb(n + 2, 2)


def joined_weights(asked: FloatArray, promised: FloatArray) -> tuple[FloatArray, IntArray]:
    """Ways of weighting the places, those asked for first, and which of them floors are promised for.

    A way that is promised but not asked for follows the others; each is filled up with zeros.

    Example:
        >>> joined_weights(np.array([[1.0, 1.0], [1.0, 0.5]]), np.array([[1.0, 0.5]]))
        (array([[1. , 1. ],
               [1. , 0.5]]), array([1]))
    """
    k = max(asked.shape[1], promised.shape[1])
    ways = [np.pad(way, (0, k - way.size)).tolist() for way in (*asked, *promised)]
    distinct = ways[: len(asked)]
    distinct += [way for way in ways[len(asked) :] if way not in distinct]
    rows = [distinct.index(way) for way in ways[len(asked) :]]
    return np.array(distinct, np.float64).reshape(-1, k), np.array(rows, np.int64)


def room(offsets: IntArray, start: int, stop: int, n_weights: int, k: int) -> tuple[int, Room]:
    """The length of the longest of some queries, and arrays for it that the kernels work in."""
    longest = int(np.diff(offsets[start : stop + 1]).max())
    polynomials = None if k <= UNROLLED else np.empty(polynomial_size(longest, k))  # None: compiled without their loops
    return longest, (
        np.empty(longest),  # weights
        np.empty(longest),  # eligibility
        np.empty(longest, np.int64),  # heads
        np.empty((n_weights, longest + WIDTH)),  # exposure
        np.empty(longest, np.int64),  # leading
        np.empty(longest, np.int32),  # scratch of `find_leading`
        np.empty(max(longest + 1, k), np.int64),  # counts of admitted items
        np.empty(scratch_size(longest, k, n_weights)),
        polynomials,
    )
