"""What the kernels of exposure are given: the nodes of the integral."""

import math

import numpy as np
import pytest
from scipy.special import roots_genlaguerre

from isrr.ranker.given import laguerre_rules

SIZES = [8, 16, 24, 32, 40, 48]


@pytest.mark.parametrize("n", SIZES)
def test_nodes_and_weights_are_those_of_scipy(n):
    nodes, weights = laguerre_rules()
    x, w = roots_genlaguerre(n, 2.0)
    np.testing.assert_allclose(nodes[n, :n], x, rtol=1e-14)
    np.testing.assert_allclose(weights[n, :n], w * np.exp(x) / x**2, rtol=5e-13)
    assert not nodes[n, n:].any()
    assert not weights[n, n:].any()


@pytest.mark.parametrize("n", SIZES)
def test_a_rule_of_n_nodes_is_exact_for_polynomials_below_degree_2n(n):
    nodes, weights = (rule[n, :n] for rule in laguerre_rules())
    for power in range(2 * n):
        scaled = np.exp(power * np.log(nodes) - math.lgamma(power + 3) - nodes)  # ∫ t² tᵖ e^{−t} dt is (p + 2)!
        assert weights @ (nodes**2 * scaled) == pytest.approx(1.0, rel=1e-12), power
