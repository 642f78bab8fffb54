"""Every kind of evidence obeys the same laws and refuses the same slips."""

import subprocess
import sys

import numpy as np
import pytest

from isrr.errors import PromiseError
from isrr.risk.evidence import HEARS_NEGATIVE, NAMES, Evidence

LOSSES = np.random.default_rng(20230).beta(2, 5, (600, 8))


@pytest.mark.parametrize("name", NAMES)
def test_p_at_most_delta_iff_bound_at_most_alpha(name):
    proof = Evidence(name)
    for delta in (0.02, 0.05, 0.2):
        bound = proof.upper_bound(LOSSES, delta)
        for alpha in (0.29, 0.31, 0.34, 0.5):
            np.testing.assert_array_equal(proof.pvalue(LOSSES, alpha) <= delta, bound <= alpha)


@pytest.mark.parametrize("name", NAMES)
def test_p_values_fall_with_alpha_and_bounds_with_delta(name):
    proof = Evidence(name)
    p = np.array([proof.pvalue(LOSSES, alpha) for alpha in (0.2, 0.3, 0.35, 0.6)])
    assert np.all(np.diff(p, axis=0) <= 0)
    assert np.all((p >= 0) & (p <= 1))
    bound = np.array([proof.upper_bound(LOSSES, delta) for delta in (0.01, 0.1, 0.4)])
    assert np.all(np.diff(bound, axis=0) <= 0)
    assert np.all((bound[0] >= LOSSES.mean(axis=0)) & (bound[0] <= 1))


@pytest.mark.parametrize("name", NAMES)
def test_negative_losses_are_heard_or_raised_to_zero(name):
    proof, negative = Evidence(name), LOSSES - 0.2
    heard = proof.pvalue(negative, 0.2)
    raised = proof.pvalue(np.maximum(negative, 0), 0.2)
    if name in HEARS_NEGATIVE:
        assert np.all(heard <= raised)
    else:
        np.testing.assert_array_equal(heard, raised)


@pytest.mark.parametrize("name", NAMES)
def test_memory_layout_changes_nothing(name):
    proof = Evidence(name)
    np.testing.assert_array_equal(proof.pvalue(np.asfortranarray(LOSSES), 0.32), proof.pvalue(LOSSES.copy(), 0.32))
    assert proof.pvalue(LOSSES.astype(np.float32), 0.32).dtype == np.float64


@pytest.mark.parametrize("name", ["mixture", "vb"])
def test_evidence_from_sums_does_not_depend_on_the_order_of_queries(name):
    shuffled = LOSSES[np.random.default_rng(2).permutation(len(LOSSES))]
    np.testing.assert_array_equal(Evidence(name).pvalue(shuffled, 0.32), Evidence(name).pvalue(LOSSES, 0.32))
    np.testing.assert_array_equal(Evidence(name).upper_bound(shuffled, 0.1), Evidence(name).upper_bound(LOSSES, 0.1))


def test_priors_are_passed_on():
    assert np.any(
        Evidence("betting", prior_deviation=0.05).pvalue(LOSSES, 0.32) != Evidence("betting").pvalue(LOSSES, 0.32)
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Evidence("bayes"), r"unknown evidence 'bayes'; expected one of bentkus, betting, .*, wsr"),
        (lambda: Evidence("vb").pvalue(LOSSES, 1.2), r"alpha must lie in \(0, 1\), got 1.2; it is the"),
        (lambda: Evidence("vb").pvalue(LOSSES, float("nan")), r"alpha must lie in \(0, 1\), got nan"),
        (lambda: Evidence("vb").upper_bound(LOSSES, 0.0), r"delta must lie in \(0, 1\), got 0.0"),
        (lambda: Evidence("wsr", delta=95), r"delta must lie in \(0, 1\), got 95; .* \(1 − confidence\)"),
        (lambda: Evidence("betting", prior_deviation=0.0), r"prior_deviation must be positive, got 0.0"),
        (lambda: Evidence("vb").pvalue([[0.2], [1.5]], 0.3), r"got 1.5 at query 1, configuration 0; divide"),
        (lambda: Evidence("vb").pvalue([[0.2, np.nan]], 0.3), r"got nan at query 0, configuration 1; drop"),
        (lambda: Evidence("vb").pvalue([[-np.inf]], 0.3), r"got -inf at query 0"),
        (lambda: Evidence("vb").pvalue([0.2, 0.3], 0.3), r"shape \(n_queries, n_grid\), .*, got \(2,\)"),
        (lambda: Evidence("vb").pvalue(np.empty((0, 3)), 0.3), r"got \(0, 3\)"),
    ],
)  # fmt: skip
def test_refusals_say_what_is_needed(call, message):
    with pytest.raises(PromiseError, match=message):
        call()


def test_the_evidence_loads_no_statistics_package():
    probe = "import isrr.risk.evidence, sys; print('scipy.stats' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True).stdout.strip() == "False"
