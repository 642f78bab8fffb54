"""Counting false survivors over a whole grid: every selection but `pointwise` keeps them below delta."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from counts import COUNTS
from evidence_kinds import SELECTIONS
from isrr.risk import betting
from isrr.risk.hoeffding_bentkus import hoeffding_bentkus
from isrr.risk.select import fixed_sequence
from isrr_paper.further_evidence import pointwise

pytestmark = pytest.mark.guarantee

REPEATS, DELTA, _ = COUNT = COUNTS["survivors of a selection"]
SEED = 20230
CORRECTED = ["fixed_sequence", "holm", "bonferroni"]


def holds(wrong, count=COUNT):
    return wrong <= count.most


def false_survivors(select, pvalues, false):
    """In how many repetitions, rows of p-values, some survivor is false."""
    return sum(bool(np.any(false[select(row, DELTA)])) for row in pvalues)


def coin_pvalues(risk, n, alpha):
    """Hoeffding–Bentkus p-values of independent coins, (REPEATS, n_grid)."""
    counts = np.random.default_rng(SEED).binomial(n, risk, (REPEATS, len(risk)))
    return hoeffding_bentkus(counts / n, n, alpha)


@pytest.mark.parametrize("selection", CORRECTED)
def test_twenty_one_configurations_at_the_boundary_survive_at_most_delta_often(selection):
    risk = np.full(21, 0.3005)
    assert holds(false_survivors(SELECTIONS[selection], coin_pvalues(risk, 750, 0.3), risk > 0.3))


def test_pointwise_lets_a_false_one_of_twenty_one_survive_in_a_quarter_of_all_runs():
    risk = np.full(21, 0.3005)
    wrong = false_survivors(pointwise, coin_pvalues(risk, 750, 0.3), risk > 0.3)
    counts = np.arange(751)
    alone = binom.pmf(counts, 750, 0.3005) @ (hoeffding_bentkus(counts / 750, 750, 0.3) <= DELTA)
    assert binomtest(wrong, REPEATS, 1 - (1 - alone) ** 21).pvalue > 1e-3
    assert wrong > 0.2 * REPEATS
    assert not holds(wrong)


@pytest.mark.parametrize("n", [50, 200, 1000])
def test_a_sequence_that_crosses_the_boundary_stops_there(n):
    risk = np.r_[0.02, 0.05, np.full(19, 0.3 + 1e-9)]
    pvalues = coin_pvalues(risk, n, 0.3)
    assert holds(false_survivors(fixed_sequence, pvalues, risk > 0.3))
    assert np.mean([fixed_sequence(row, DELTA).size >= 2 for row in pvalues]) > 0.9  # not by abstaining


def test_a_risk_that_rises_and_falls_is_no_exception():
    risk = np.where(np.arange(21) % 3 == 0, 0.2, 0.3 + 1e-9)  # safe, two nulls, safe, …
    for selection in CORRECTED:
        assert holds(false_survivors(SELECTIONS[selection], coin_pvalues(risk, 400, 0.3), risk > 0.3))


@pytest.mark.parametrize("n", [50, 200])
def test_betting_along_a_sequence_keeps_the_promise_and_pointwise_breaks_it(n):
    count, risk = COUNTS["survivors of betting"], np.r_[0.01, np.full(20, 0.3 + 1e-9)]
    losses = (np.random.default_rng(SEED).random((n, count.repeats, 21)) < risk).astype(float)
    certified = betting.certifies(losses.reshape(n, -1), 0.3, DELTA).reshape(count.repeats, 21)
    pvalues = np.where(certified, 0.0, 1.0)
    assert holds(false_survivors(fixed_sequence, pvalues, risk > 0.3), count)
    assert not holds(false_survivors(pointwise, pvalues, risk > 0.3), count)
    assert np.mean(certified[:, 0]) > 0.9
