"""Rollouts where sessions are not alike: a season, and users who return.

A promise is at its boundary over a whole season, or over all users, and the step is looked at every day. Limits are
those of independent sessions.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from counts import COUNTS
from isrr.clicks.rollout import Rollout
from isrr.clicks.sessions import Sessions
from isrr.clicks.steps import decide_step
from isrr.promises import Promise

pytestmark = pytest.mark.guarantee

REPEATS, DELTA, _ = COUNT = COUNTS["rollouts"]
K, SHARE, CONTROL, PER_DAY, DAY = 3, 0.85, 0.4, 500, 86_400.0


def looks(n_days, days_between, effect, least_days, seed=50_000, share=SHARE):
    """In how many of the repetitions a look certifies the step; one every so many days, until it is decided.

    Args:
        effect: From random numbers and a day for each session, what the treatment adds to SHARE times control's clicks.
    """
    rng, n, wrong = np.random.default_rng(seed), n_days * PER_DAY, 0
    day = np.arange(n) / PER_DAY
    certificate = SimpleNamespace(promises=(Promise("clicks", K, at_least=share, of="deterministic"),), confidence=0.95)
    rollout = Rollout("c", 0.5, (1,), least_days=least_days).ruled(within=1.0)
    for _ in range(REPEATS):
        treated = rng.random(n) < 0.5
        clicks = rng.binomial(K, np.where(treated, SHARE * CONTROL + effect(rng, day), CONTROL)).astype(float)
        sessions = Sessions(treated, np.zeros(n, bool), clicks, starts=day * DAY)
        for until in np.arange(days_between, n_days + 1e-9, days_between):
            found = decide_step(certificate, rollout, sessions[: round(until * PER_DAY)], now=until * DAY + 1)
            if found.rollout.stage != "running":
                wrong += found.rollout.stage == "done"
                break
    print(f"level {wrong / REPEATS:.4f}")
    return wrong


def season(rng, day):
    """Good in the first half of each week."""
    return np.where(day % 7 < 3.5, 0.1, -0.1)


def returning(times, spread):
    """Users who come so many times in a row; half of them like the treatment, half do not."""
    return lambda rng, day: np.where(
        np.repeat(rng.random(day.size // times + 1) < 0.5, times)[: day.size], spread, -spread
    )


def test_whole_seasons_are_certified_at_most_delta_often():
    assert looks(28, 1, season, 7) <= COUNT.most
    assert looks(28, 1, season, 7, share=0.75) > 0.9 * REPEATS  # not kept by never certifying


def test_a_season_that_is_looked_at_in_between_would_be_caught():
    assert looks(7, 1, season, 0) > 0.9 * REPEATS


def test_users_who_return_are_not_independent_sessions():
    """Stated in docs/clicks.md: waiting does not help there."""
    assert looks(14, 1, returning(50, 0.1), 7) <= COUNT.most
    assert looks(14, 1, returning(50, 0.3), 7) > 2 * COUNT.most


def test_users_as_sessions_keep_the_level():
    assert looks(14, 1, returning(1, 0.3), 7) <= COUNT.most
    assert looks(14, 1, returning(1, 0.3), 7, share=0.75) > 0.9 * REPEATS
