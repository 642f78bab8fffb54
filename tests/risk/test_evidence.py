"""Every kind of evidence obeys the same laws and refuses the same slips."""

import subprocess
import sys

import numpy as np
import pytest

from evidence_kinds import KINDS
from isrr.errors import PromiseError
from isrr.risk.evidence import NAMED, evidence_of

LOSSES, PRIOR = np.random.default_rng(20230).beta(2, 5, (600, 8)), 0.25
BETTING, MEAN = NAMED["betting"], NAMED["hoeffding_bentkus"]
every_kind = pytest.mark.parametrize("proof", KINDS.values(), ids=KINDS)


@pytest.mark.slow
@every_kind
def test_p_at_most_delta_iff_bound_at_most_alpha(proof):
    for delta in (0.02, 0.05, 0.2):
        bound = proof.upper_bound(LOSSES, delta, PRIOR)
        for alpha in (0.29, 0.31, 0.34, 0.5):
            np.testing.assert_array_equal(proof.pvalue(LOSSES, alpha, 0.05, PRIOR) <= delta, bound <= alpha)


@pytest.mark.slow
@every_kind
def test_p_values_fall_with_alpha_and_bounds_with_delta(proof):
    p = np.array([proof.pvalue(LOSSES, alpha, 0.05, PRIOR) for alpha in (0.2, 0.3, 0.35, 0.6)])
    assert np.all(np.diff(p, axis=0) <= 0)
    assert np.all((p >= 0) & (p <= 1))
    bound = np.array([proof.upper_bound(LOSSES, delta, PRIOR) for delta in (0.01, 0.1, 0.4)])
    assert np.all(np.diff(bound, axis=0) <= 0)
    assert np.all((bound[0] >= LOSSES.mean(axis=0)) & (bound[0] <= 1))


@pytest.mark.slow
@every_kind
def test_negative_losses_are_heard_or_raised_to_zero(proof):
    negative = LOSSES - 0.2
    heard = proof.pvalue(negative, 0.2, 0.05, PRIOR)
    raised = proof.pvalue(np.maximum(negative, 0), 0.2, 0.05, PRIOR)
    if proof.takes_negative:
        assert np.all(heard <= raised)
    else:
        np.testing.assert_array_equal(heard, raised)


@pytest.mark.slow
@every_kind
def test_memory_layout_changes_nothing(proof):
    np.testing.assert_array_equal(
        proof.pvalue(np.asfortranarray(LOSSES), 0.32, 0.05, PRIOR), proof.pvalue(LOSSES.copy(), 0.32, 0.05, PRIOR)
    )
    assert proof.pvalue(LOSSES.astype(np.float32), 0.32, 0.05, PRIOR).dtype == np.float64


@pytest.mark.slow
def test_priors_are_passed_on():
    assert np.any(BETTING.pvalue(LOSSES, 0.32, 0.05, 0.05) != BETTING.pvalue(LOSSES, 0.32, 0.05, 0.25))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: evidence_of("bayes"), r"unknown evidence 'bayes'; expected one of betting, hoeffding_bentkus, or an"),
        (lambda: MEAN.upper_bound(LOSSES, 0.0, PRIOR), r"delta must lie in \(0, 1\), got 0.0"),
        (lambda: BETTING.certifies(LOSSES, 0.3, 95, PRIOR), r"delta must lie .* got 95; .* \(1 − confidence\)"),
        (lambda: MEAN.pvalue([[0.2], [1.5]], 0.3, 0.05, PRIOR), r"got 1.5 at query 1, configuration 0; divide"),
        (lambda: MEAN.pvalue([[0.2, np.nan]], 0.3, 0.05, PRIOR), r"got nan at query 0, configuration 1; drop"),
        (lambda: BETTING.pvalue([[-np.inf]], 0.3, 0.05, PRIOR), r"got -inf at query 0"),
        (lambda: MEAN.pvalue([0.2, 0.3], 0.3, 0.05, PRIOR), r"shape \(n_queries, n_grid\), .*, got \(2,\)"),
        (lambda: BETTING.pvalue(np.empty((0, 3)), 0.3, 0.05, PRIOR), r"got \(0, 3\)"),
    ],
)  # fmt: skip
def test_refusals_say_what_is_needed(call, message):
    with pytest.raises(PromiseError, match=message):
        call()


def test_the_evidence_loads_no_statistics_package():
    probe = "import isrr.risk.evidence, sys; print('scipy.stats' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True).stdout.strip() == "False"
