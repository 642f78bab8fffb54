"""What the kernels of exposure are given: nodes of the integral, ways of weighting the places, and room to work in."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import roots_genlaguerre

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
        x, w = roots_genlaguerre(n, 2.0)
        nodes[n, :n], weights[n, :n] = x, w * np.exp(x) / x**2
    return nodes, weights


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
