"""Click certificates at the boundary are wrong at most δ often, whatever users examine or trust.

Impressions are simulated once and drawn from with replacement, so that what is true of them is known exactly; that it
is also true of the users who were simulated, whose clicks are known without noise, is asked beside. Repetitions are
drawn side by side: one column of losses each.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from click_oracles import expected_clicks
from counts import COUNTS, Count
from isrr.calibration.path import SearchPath
from isrr.clicks.click_certificate import click_sample
from isrr.clicks.click_table import read_clicks
from isrr.clicks.estimate import Estimates
from isrr.clicks.impressions import Rules, impressions
from isrr.clicks.sessions import Sessions
from isrr.clicks.steps import differences, evidence
from isrr.data.queries import Queries
from isrr.monitor.clicked import anchor_losses, control_losses
from isrr.promises import Promise
from isrr.ranker.gpl import GPLRanker
from isrr.risk import betting
from isrr.risk.eprocess import EProcess
from simulated_users import Users, estimated, simulate

pytestmark = pytest.mark.guarantee

N, AT_ONCE, POOL, K = 10_000, 50, 500_000, 3
REPEATS, DELTA, _ = COUNT = COUNTS["click certificates"]
MOST = COUNT.most
MOST_ANYTIME = Count(REPEATS, 0.4 * DELTA).most  # they err less often than they may within 5,000 sessions
LOGGER = GPLRanker(k=K, temperature=0.4, anchor=0.8)
HOT = GPLRanker(k=K, temperature=0.8)


def searches():
    rng = np.random.default_rng(3)
    relevance = rng.choice([0, 1, 2], 400, p=[0.6, 0.3, 0.1])
    scores = 0.8 * relevance + rng.normal(size=400)
    return Queries.from_arrays(scores=scores, relevance=relevance, group=[10] * 40, item_ids=np.arange(400))


QUERIES = searches()


def share(ranker, users):
    """What a ranker keeps of the clicks of the order by score, exactly."""
    return expected_clicks(QUERIES, ranker, users) / expected_clicks(QUERIES, GPLRanker.deterministic(K), users)


# How often each procedure errs when it is run at 3·δ (counted with DELTA = 0.15 below the limits), and its limit.
AT_THREE_DELTA = {
    "a configuration": (0.1115, MOST),  # fast examination; position .117, slow .119, trust .130
    "a path": (0.1325, MOST),
    "users": (0.0970, MOST),
    "a rollout": (0.0395, MOST_ANYTIME),
    "a watch by control": (0.0645, MOST_ANYTIME),
    "a watch by the anchor": (0.0760, MOST_ANYTIME),
}


@pytest.mark.parametrize("what", AT_THREE_DELTA)
def test_three_times_delta_would_be_noticed(what):
    level, limit = AT_THREE_DELTA[what]
    assert binom.sf(limit, REPEATS, level) > 0.95


class Pool:
    """Impressions of users who come several times, see the same list each time, and click on the same items.

    With users as units, the first list of each counts.

    Attributes:
        values: Estimated clicks of each ranker in each unit, (n_units, n_rankers).
        reference: Those of the order by score, (n_units,).
        shares: What each ranker keeps of the clicks of the order by score, (n_rankers,).
    """

    def __init__(self, rankers, users, per_user=1, unit="impression"):
        shown = simulate(QUERIES, LOGGER, POOL // per_user, users, seed=20_230)
        again = {
            name: np.repeat(getattr(shown, name), per_user, axis=0)
            for name in ("query_of", "user_of", "rankings", "clicked")
        }
        self.rankers, self.n_units = rankers, N // per_user if unit == "user" else N
        self.together = 1 if unit == "user" else per_user  # units that come and go with one user
        self.found = estimated(replace(shown, **again).impressions(unit), rankers, most=POOL)
        self.shares = self.found.values.mean(axis=0) / self.found.reference.mean()
        off = self.found.values - np.outer(self.found.reference, [share(ranker, users) for ranker in rankers])
        users_off = off.reshape(-1, self.together, len(rankers)).mean(axis=1)
        error = users_off.std(axis=0) / np.sqrt(len(users_off))
        assert (np.abs(users_off.mean(axis=0)) < 4 * error).all()  # so do the users who were simulated

    def certified(self, target):
        """Up to which ranker all pass in each repetition, (repeats, n_rankers)."""
        promise = Promise("clicks", K, at_least=target, of="deterministic")
        sample = click_sample(self.found, promise, SearchPath(tuple(self.rankers), "", ""))
        losses = promise.loss().of(sample.values, sample.reference)
        rng, n_units = np.random.default_rng(20_230), self.n_units
        passing = np.zeros((REPEATS, len(self.rankers)), bool)
        for start in range(0, REPEATS, AT_ONCE):
            users = rng.integers(len(losses) // self.together, size=(n_units // self.together, 1, AT_ONCE))
            drawn = (self.together * users + np.arange(self.together)[:, None]).reshape(n_units, AT_ONCE)
            left = np.arange(AT_ONCE)
            for g in range(len(self.rankers)):
                columns = losses[drawn[:, left], g]
                left = left[betting.certifies(columns, promise.loss().level, DELTA, promise.loss().prior)]
                passing[start + left, g] = True
                if not left.size:
                    break
        return passing

    def wrong(self):
        """In how many repetitions the one ranker is certified to keep what it just keeps."""
        wrong = int(self.certified(float(self.shares[0])).sum())
        print(f"level {wrong / REPEATS:.4f}")
        return wrong


@pytest.mark.parametrize(
    "users",
    [Users(), Users(model="trust"), Users(examination=0.5), Users(examination=2.0, noise=0.3)],
    ids=["position", "trust", "slow examination", "fast examination"],
)
def test_a_configuration_at_the_boundary_is_certified_at_most_delta_often(users):
    assert 0.2 * DELTA * REPEATS < Pool([HOT], users).wrong() <= MOST  # not kept by never certifying


def test_a_whole_path_is_wrong_at_most_delta_often():
    rankers = [GPLRanker(k=K, temperature=float(t)) for t in np.geomspace(0.1, 2.0, 10)]
    pool = Pool(rankers, Users())
    target = float(pool.shares[5])
    sequence = pool.certified(target)
    wrong = int(sequence[:, pool.shares <= target + 1e-12].any(axis=1).sum())
    print(f"level {wrong / REPEATS:.4f}, configurations certified {sequence.sum(axis=1).mean():.2f}")
    assert wrong <= MOST
    assert sequence[:, :3].all(axis=1).mean() > 0.8


def test_users_with_several_impressions_are_units():
    pool = Pool([HOT], Users(idle=0.5), per_user=5, unit="user")
    assert 0.2 * DELTA * REPEATS < pool.wrong() <= MOST


def test_impressions_of_such_users_as_units_would_be_caught():
    """What must not be built: what one user does five times is no fivefold evidence."""
    assert Pool([HOT], Users(idle=0.5), per_user=5).wrong() > 1.2 * MOST


def going_on(ranker, n, seed, most=3):
    """Sessions of users who ask for another list, never the same again, as long as they clicked on the last one."""
    lists = [simulate(QUERIES, ranker, n, Users(examination=2.0), seed=seed + i) for i in range(most)]
    asked = np.stack([shown.query_of for shown in lists], axis=1)
    goes_on = np.ones((n, most), bool)
    for i in range(1, most):
        again = (asked[:, :i] == asked[:, i : i + 1]).any(axis=1)
        goes_on[:, i] = goes_on[:, i - 1] & lists[i - 1].clicked.any(axis=1) & ~again
    stacked = {
        name: np.stack([getattr(s, name) for s in lists], axis=1) for name in ("query_of", "rankings", "clicked")
    }
    user_of = np.repeat(np.arange(n)[:, None], most, axis=1)[goes_on]
    return replace(lists[0], user_of=user_of, **{name: column[goes_on] for name, column in stacked.items()})


class Told(Pool):
    """Units with what was estimated of each, beside what the hot ranker truly keeps."""

    def __init__(self, values, reference, true):
        self.rankers, self.n_units, self.together = [HOT], N, 1
        self.found = Estimates(np.reshape(values, (-1, 1)), reference, 1, 1 / LOGGER.anchor)
        self.shares = np.array([true])


def clicks_of(draw):
    """What the hot ranker truly gets of the clicks of the order by score, by simulation."""
    hot, by_score = (draw(ranker).clicked.sum() for ranker in (HOT, GPLRanker(k=K, anchor=1.0)))
    return hot / by_score


def test_the_first_lists_of_users_who_go_on_after_a_click_are_certified_at_most_delta_often(tmp_path):
    shown = going_on(LOGGER, 100_000, 50_000)
    log, clicks = shown.save(tmp_path, "c")
    joined = impressions(log, read_clicks(clicks), {"c": LOGGER}, Rules(K))
    assert (joined.unit, len(joined)) == ("session", 100_000)
    found = estimated(joined, [HOT], most=POOL)
    off = found.values[:, 0] - share(HOT, Users(examination=2.0)) * found.reference
    assert abs(off.mean()) < 4 * off.std() / np.sqrt(off.size)
    pool = Told(found.values, found.reference, found.values.mean() / found.reference.mean())
    assert 0.2 * DELTA * REPEATS < pool.wrong() <= MOST


def test_adding_up_their_lists_would_be_caught():
    """What must not be built: how many lists there are depends on what was shown before."""
    shown = going_on(LOGGER, 100_000, 50_000)
    alone = estimated(shown.impressions(), [HOT], most=POOL)
    values, reference = (np.bincount(shown.user_of, of) / 3 for of in (alone.values[:, 0], alone.reference))
    assert Told(values, reference, clicks_of(lambda ranker: going_on(ranker, 100_000, 60_000))).wrong() > 1.2 * MOST


@pytest.mark.parametrize("halo", [0.5, 1.0])
def test_users_with_a_halo_break_the_assumption(halo):
    """What no log can show, as docs/clicks.md says: clicks depend on the other items."""
    users = Users(halo=halo)
    found = estimated(simulate(QUERIES, LOGGER, POOL, users, seed=20_230).impressions(), [HOT], most=POOL)
    true = clicks_of(lambda ranker: simulate(QUERIES, ranker, POOL, users, seed=70_000))
    assert Told(found.values, found.reference, true).wrong() > 1.2 * MOST


def test_a_reference_that_is_clipped_would_be_caught():
    """What must not be built: counting clicks on the order by score without their weights favours the hot ranker."""
    users = Users()
    shown = simulate(QUERIES, LOGGER, POOL, users, seed=1)
    found = estimated(shown.impressions(), [HOT], most=POOL)
    target = share(HOT, users)
    right = target * found.reference - found.values[:, 0]
    clipped = target * np.minimum(found.reference, 1.0) - found.values[:, 0]
    error = right.std() / np.sqrt(right.size)
    assert abs(right.mean()) < 4 * error
    assert clipped.mean() < -10 * error


def rollouts(at_once, n=5_000, control=0.5, size=200_000):
    """A promise at its boundary, and the sessions of rollouts, some side by side at a time: whoever users are.

    Sessions are drawn from a pool, whose own means are the truth.
    """
    users = Users(model="cascade", satisfaction=1.0)
    drawn, ordered = (simulate(QUERIES, r, size, users, seed=30_000) for r in (HOT, GPLRanker(k=K, anchor=1.0)))
    assert (drawn.query_of == ordered.query_of).all()
    same = (drawn.rankings == ordered.rankings).all(axis=1)
    by_score = ordered.clicked.sum(axis=1).astype(float)
    by_lot = np.where(same, by_score, drawn.clicked.sum(axis=1))
    target, rng = float(by_lot.mean() / by_score.mean()), np.random.default_rng(30_001)
    for _ in range(0, REPEATS, at_once):
        which, treated = rng.integers(size, size=(n, at_once)), rng.random((n, at_once)) >= control
        yield target, control, Sessions(treated, same[which], np.where(treated, by_lot[which], by_score[which]))


def test_a_rollout_at_the_boundary_is_certified_at_most_delta_often_however_often_it_is_looked_at():
    wrong = 0
    for target, control, sessions in rollouts(100):
        strength = evidence(differences(sessions, target, control, K))
        wrong += int((strength.max(axis=0) >= np.log(1 / DELTA)).sum())  # a look after every session
    print(f"level {wrong / REPEATS:.4f}")
    assert 0 < wrong <= MOST_ANYTIME


def alarms(losses, alpha):
    """How many streams of losses, (n, n_streams), ever raise an alarm."""
    process, strongest = EProcess.start(alpha, losses.shape[1]), np.zeros(losses.shape[1])
    for row in losses:
        process = process.after(row)
        strongest = np.maximum(strongest, process.evidence)
    return int((strongest >= 1 / DELTA).sum())


def test_a_watch_by_control_alarms_at_most_delta_often_however_long_it_runs():
    wrong = 0
    for target, control, sessions in rollouts(500):
        losses = control_losses(sessions, target, control, K)
        wrong += alarms(losses, control / (control + target * (1 - control)))
    print(f"level {wrong / REPEATS:.4f}")
    assert 0 < wrong <= MOST_ANYTIME


def test_a_watch_at_the_boundary_alarms_at_most_delta_often_however_long_it_runs():
    n, at_once, wrong, ranker, users = 5_000, 500, 0, GPLRanker(k=K, temperature=0.8, anchor=0.2), Users(model="trust")
    shown = simulate(QUERIES, ranker, POOL, users, seed=40_000)
    would = estimated(shown.impressions(), [], most=POOL).reference
    got = shown.clicked.sum(axis=1).astype(float)
    target, off = float(got.mean() / would.mean()), got - share(ranker, users) * would
    assert abs(off.mean()) < 4 * off.std() / np.sqrt(POOL)
    losses, alpha = anchor_losses(got, would, target, ranker.anchor, K), 1 / (1 + target / ranker.anchor)
    assert losses.mean() == pytest.approx(alpha)
    rng = np.random.default_rng(40_001)
    for _ in range(0, REPEATS, at_once):
        wrong += alarms(losses[rng.integers(POOL, size=(n, at_once))], alpha)
    print(f"level {wrong / REPEATS:.4f}")
    assert 0 < wrong <= MOST_ANYTIME
