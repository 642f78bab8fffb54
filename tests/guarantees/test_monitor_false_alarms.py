"""The watch stays silent with probability ≥ 1 − δ at the boundary, however long it runs, and speaks when it should."""

import numpy as np
import pytest

from counts import COUNTS
from isrr.risk.eprocess import MOST_WEALTH, EProcess, bets

STREAMS, DELTA, _ = COUNT = COUNTS["alarms of the monitor"]
QUERIES, ALPHA = 20_000, 0.3  # 20 judged queries a day for about three years

pytestmark = pytest.mark.guarantee


def losses_at(mean, shape, rng, n_streams):
    """Losses with an expectation: all or nothing, or four levels as lists of few grades have them."""
    if shape == "all or nothing":
        return (rng.random(n_streams) < mean).astype(float)
    return rng.binomial(4, mean, n_streams) / 4


def alarmed(risk, shape, seed, step):
    """Which streams ever alarm, after how many losses; `risk(t)` is the expected loss of query t."""
    rng, process = np.random.default_rng(seed), EProcess.start(ALPHA, STREAMS)
    first = np.full(STREAMS, -1)
    for t in range(QUERIES):
        process = step(process, losses_at(risk(t), shape, rng, STREAMS))
        new = (process.evidence >= 1 / DELTA) & (first < 0)
        first[new] = t
    return first


def valid(process, losses):
    return process.after(losses)


def restarted(process, losses):
    """Shiryaev–Roberts: a full unit of wealth starts at every query. It bounds the run length, not the probability."""
    grown = (process.wealth + 1 / bets(ALPHA).size) * (1 + bets(ALPHA) * (losses[:, None] - ALPHA))
    return EProcess(ALPHA, np.minimum(grown, MOST_WEALTH), process.n + 1)


@pytest.mark.parametrize("shape", ["all or nothing", "four levels"])
def test_streams_at_the_boundary_alarm_at_most_delta_often(shape):
    first = alarmed(lambda t: ALPHA, shape, 20230, valid)
    wrong = int((first >= 0).sum())
    assert COUNT.tolerates(wrong)
    assert wrong > 0  # not kept by never speaking


def test_a_watch_that_forgets_its_weights_would_be_caught():
    first = alarmed(lambda t: ALPHA, "four levels", 20231, restarted)
    assert (first >= 0).sum() > COUNT.most


def test_a_drop_after_a_long_good_period_is_found_in_hundreds_of_queries():
    change = 10_000
    first = alarmed(lambda t: ALPHA - 0.02 if t < change else ALPHA + 0.1, "four levels", 20232, valid)
    assert (first[first >= 0] >= change).mean() > 0.99
    assert np.median(first[first >= change] - change) < 300
    assert (first >= 0).all()
