"""Every kind of evidence obeys the same laws and refuses the same slips."""

import subprocess
import sys

import numpy as np
import pytest

from isrr.errors import PromiseError
from isrr.risk.evidence import NAMES, evidence

LOSSES = np.random.default_rng(20230).beta(2, 5, (600, 8))


@pytest.mark.parametrize("name", NAMES)
def test_p_at_most_delta_iff_bound_at_most_alpha(name):
    proof = evidence(name)
    for delta in (0.02, 0.05, 0.2):
        bound = proof.upper_bound(LOSSES, delta)
        for alpha in (0.29, 0.31, 0.34, 0.5):
            np.testing.assert_array_equal(proof.pvalue(LOSSES, alpha) <= delta, bound <= alpha)


@pytest.mark.parametrize("name", NAMES)
def test_p_values_fall_with_alpha_and_bounds_with_delta(name):
    proof = evidence(name)
    p = np.array([proof.pvalue(LOSSES, alpha) for alpha in (0.2, 0.3, 0.35, 0.6)])
    assert np.all(np.diff(p, axis=0) <= 0)
    assert np.all((p >= 0) & (p <= 1))
    bound = np.array([proof.upper_bound(LOSSES, delta) for delta in (0.01, 0.1, 0.4)])
    assert np.all(np.diff(bound, axis=0) <= 0)
    assert np.all((bound[0] >= LOSSES.mean(axis=0)) & (bound[0] <= 1))


@pytest.mark.parametrize("name", NAMES)
def test_negative_losses_are_heard_or_raised_to_zero(name):
    proof, negative = evidence(name), LOSSES - 0.2
    heard = proof.pvalue(negative, 0.2)
    raised = proof.pvalue(np.maximum(negative, 0), 0.2)
    if proof.needs_unit_interval:
        np.testing.assert_array_equal(heard, raised)
    else:
        assert np.all(heard <= raised)


@pytest.mark.parametrize("name", NAMES)
def test_memory_layout_changes_nothing(name):
    proof = evidence(name)
    np.testing.assert_array_equal(proof.pvalue(np.asfortranarray(LOSSES), 0.32), proof.pvalue(LOSSES.copy(), 0.32))
    assert proof.pvalue(LOSSES.astype(np.float32), 0.32).dtype == np.float64


def test_priors_and_spans_are_passed_on():
    assert np.any(
        evidence("betting", prior_deviation=0.05).pvalue(LOSSES, 0.32) != evidence("betting").pvalue(LOSSES, 0.32)
    )
    assert np.all(
        evidence("dkwm", loss_span=0.5).upper_bound(LOSSES, 0.05) < evidence("dkwm").upper_bound(LOSSES, 0.05)
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: evidence("bayes"), r"unknown evidence 'bayes'; expected one of bentkus, betting, .*, wsr"),
        (lambda: evidence("vb").pvalue(LOSSES, 1.2), r"alpha must lie in \(0, 1\), got 1.2; it is the"),
        (lambda: evidence("vb").pvalue(LOSSES, float("nan")), r"alpha must lie in \(0, 1\), got nan"),
        (lambda: evidence("vb").upper_bound(LOSSES, 0.0), r"delta must lie in \(0, 1\), got 0.0"),
        (lambda: evidence("wsr", delta=95), r"delta must lie in \(0, 1\), got 95; .* \(1 − confidence\)"),
        (lambda: evidence("betting", prior_deviation=0.0), r"prior_deviation must be positive, got 0.0"),
        (lambda: evidence("vb").pvalue([[0.2], [1.5]], 0.3), r"got 1.5 at query 1, configuration 0; divide"),
        (lambda: evidence("vb").pvalue([[0.2, np.nan]], 0.3), r"got nan at query 0, configuration 1; drop"),
        (lambda: evidence("vb").pvalue([[-np.inf]], 0.3), r"got -inf at query 0"),
        (lambda: evidence("vb").pvalue([0.2, 0.3], 0.3), r"shape \(n_queries, n_grid\), .*, got \(2,\)"),
        (lambda: evidence("vb").pvalue(np.empty((0, 3)), 0.3), r"got \(0, 3\)"),
    ],
)  # fmt: skip
def test_refusals_say_what_is_needed(call, message):
    with pytest.raises(PromiseError, match=message):
        call()


def test_the_evidence_loads_no_statistics_package():
    probe = "import isrr.risk.evidence, sys; print('scipy.stats' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True).stdout.strip() == "False"
