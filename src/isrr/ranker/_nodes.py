"""Gauss–Laguerre nodes for the exact evaluation, computed once per process."""

from functools import cache

import numpy as np
from scipy.special import roots_genlaguerre

from isrr.data.queries import FloatArray
from isrr.ranker._exact_kernels import LAGUERRE_MOST


@cache
def laguerre_rules() -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of the rules with up to 48 points, one rule a row.

    The weights already carry e^t / t², so that Σ weight · f(node) ≈ ∫ f(t) dt for f(t) like t² e^{−t}.
    """
    nodes = np.zeros((LAGUERRE_MOST + 1, LAGUERRE_MOST))
    weights = np.zeros_like(nodes)
    for n in range(1, LAGUERRE_MOST + 1):
        x, w = roots_genlaguerre(n, 2.0)
        nodes[n, :n], weights[n, :n] = x, w * np.exp(x) / x**2
    return nodes, weights
