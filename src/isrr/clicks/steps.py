"""The evidence of a live rollout: sessions split at random, whatever makes users click.

It is assumed that sessions are independent of one another, and that those to come are like those counted.

With p the share of the treatment, A whether a session is in it, Y its clicks, c the mean of Y over earlier sessions,
and the treatment's list drawn before the lot:

    the list equals the order by score:   Z = (s − 1) · Y
    otherwise:                            Z = s·(1 − A)/(1 − p)·(Y − c) − A/p·(Y − c) + (s − 1)·c   ≤   B = s·k/(1 − p)

E[Z | past] = s·μ_control − μ_treatment, so that a promise of at least a share s is broken where it is positive. Bets
against that, 14 of them side by side, M = Π (1 − b·Z) with b = 0.9/B · 0.6^i, may be looked at after every session: the
chance that their mean ever reaches 1/δ is at most δ (Ville). Each step of a path has the whole δ (fixed sequence).

Where sessions of one part of the week differ from those of another, the evidence in between may pass 1/δ by far. So a
step is decided by the evidence at a look, never by its maximum so far, and by whole periods of `Rollout.least_days`.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
import numpy as np

from isrr.clicks.promised import largest_worth
from isrr.clicks.rollout import Rollout
from isrr.clicks.sessions import Sessions
from isrr.counting import counted, reasons_in_words, wealth
from isrr.data.queries import FloatArray
from isrr.errors import DataError, PromiseError
from isrr.outcome.certificate import Certificate
from isrr.outcome.findings import ClickLog, Estimate, Test
from isrr.promises import Promise

BETS = 0.9 * 0.6 ** np.arange(14)  # shares of the largest stake


def centred(
    sessions: Sessions,
    share: float,
    control: float,
    most: float,
    largest: float,
    before: float = 0.0,
    n_before: int = 0,
) -> FloatArray:
    """Z of each session, (n, …); sessions along the first axis, rollouts along others.

    Args:
        sessions: Sessions in order; arrays may have further axes.
        share: The promised share s.
        control: Share of control, 1 − p.
        most: The most clicks that a session can have, or the most that they can be worth.
        largest: The largest c that may be used.
        before: Clicks of sessions counted before these, and `n_before` how many those were.
    """
    y, p = sessions.clicks, 1.0 - control
    earlier = before + np.cumsum(y, axis=0) - y
    seen = n_before + np.arange(1.0, len(y) + 1.0).reshape(-1, *(1,) * (y.ndim - 1))
    c = np.minimum((0.1 * most + earlier) / seen, largest)
    weight = np.where(sessions.treated, -1.0 / p, share / control)
    return np.where(sessions.same, (share - 1.0) * y, weight * (y - c) + (share - 1.0) * c)


def differences(sessions: Sessions, share: float, control: float, most: float) -> FloatArray:
    """Z of each session as a share of its bound B, (n, …); arguments as for `centred`."""
    bound = share * most / control
    return centred(sessions, share, control, most, (1.0 - control) * bound) / bound


def evidence(shares: FloatArray) -> FloatArray:
    """Logarithm of the evidence for the promise after each session, shaped as the differences."""
    wealth = [np.cumsum(np.log1p(-bet * shares), axis=0) for bet in BETS]
    largest = np.max(wealth, axis=0)
    return np.asarray(largest + np.log(np.mean([np.exp(part - largest) for part in wealth], axis=0)))


@dataclass(frozen=True, eq=False)
class StepProgress:
    """How a step of a rollout stands.

    Attributes:
        promise: What is promised.
        rollout: The state after the decision.
        sessions: The sessions of the step that count.
        step: That step.
        evidence: Evidence for the promise after these sessions; at `certifies_at`, whole periods certify the step.
        share: Clicks of the treatment as a share of control's; NaN where there is none.
        n_later: Sessions after these, in a period that is not over or beyond the budget.
        earliest: When the present step and the rollout can end, in seconds since 1970; None where it has ended.
    """

    promise: Promise
    rollout: Rollout
    sessions: Sessions
    step: int
    evidence: float
    certifies_at: float
    share: float
    n_later: int
    earliest: tuple[float, float] | None

    def __str__(self) -> str:
        state, sessions = self.rollout, self.sessions
        lines = [
            f"Rollout of certificate {state.certificate}: {state.stage}",
            f"step         {min(self.step + 1, len(state.steps))} of {len(state.steps)}",
            f"sessions     {len(sessions):,} counted ({int(sessions.treated.sum()):,} treated), {self.n_later:,} after "
            f"them, {sessions.n_excluded:,} known from earlier steps; a step fails after {state.budget:,}",
        ]
        if sessions.n_open:
            lines.append(
                f"too recent   {counted(sessions.n_open, 'session')}: clicks on a list count for "
                f"{state.rules.within:,g} s, so the last of these is over at "
                f"{_utc(sessions.open_starts.max() + state.rules.wait)}"
            )
        lines.append(
            f"kept so far  {self.promise.kept_so_far(self.share)}; evidence for the promise {wealth(self.evidence)} "
            f"({self.certifies_at:.4g} certifies the step)"
        )
        lines += reasons_in_words(sessions.left_out)
        if self.earliest is not None:
            step, end = map(_utc, self.earliest)
            lines.append(f"earliest end {step} for step {state.step + 1}, {end} for the rollout")
        return "\n".join(lines + ([f"result       {state.reason}"] if state.reason else []))


def _utc(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M:%S} UTC"


def decide_step(outcome: Certificate, rollout: Rollout, sessions: Sessions, *, now: float) -> StepProgress:
    """Decide the present step by the sessions so far; may be asked as often as one likes.

    Args:
        outcome: The certificate that is rolled out.
        rollout: The state so far.
        sessions: The sessions of the present step whose time for clicks is over.
        now: The present, in seconds since 1970.
    """
    promise, delta, step = outcome.promises[0], 1.0 - outcome.confidence, rollout.step
    before = sessions[: rollout.n_counted]
    if rollout.n_counted and (len(before) < rollout.n_counted or before.digest != rollout.digest):
        raise DataError(
            f"the log has lost sessions of step {step + 1}, of which an earlier look counted "
            f"{rollout.n_counted:,}; expected all of its files"
        )
    most = largest_worth(promise, rollout.rules.first)
    tested, n_over = _tested(sessions, rollout, now)
    if tested.clicks.max(initial=0.0) > most:
        raise PromiseError(
            f"'{promise}': the clicks of a session are worth {tested.clicks.max():.6g}, above what the bound "
            f"allows ({most:g}); expected a bound that holds for every click"
        )
    shares = differences(tested, promise.target, rollout.control, most)
    strength = float(evidence(shares)[-1]) if len(tested) else 0.0
    arms = [tested.clicks[arm] for arm in (tested.treated, ~tested.treated)]
    share = float(arms[0].mean() / arms[1].mean()) if arms[0].size and arms[1].any() else float("nan")
    state = rollout
    if rollout.stage == "running":
        state = msgspec.structs.replace(rollout, n_counted=len(tested), digest=tested.digest)
        by = counted(len(tested), "session")
        if n_over and strength >= np.log(1.0 / delta):
            state = rollout.after(certified=True, reason=f"step {step + 1} is certified after {by}")
        elif n_over and len(tested) >= rollout.budget:
            state = rollout.after(certified=False, reason=f"step {step + 1} is not certified after {by}")
    starts = np.append(sessions.starts[:1], sessions.open_starts) if state.step == step else np.empty(0)
    return StepProgress(
        promise, state, tested, step, float(np.exp(min(strength, 700.0))), 1 / delta, share,
        len(sessions) - len(tested), _earliest(state, float(starts.min(initial=now)), now),
    )  # fmt: skip


def _tested(sessions: Sessions, rollout: Rollout, now: float) -> tuple[Sessions, int]:
    """Return the sessions that count, and how many periods are over: from one on, the step is decided.

    Until the first period is over, all sessions count; later, those of whole periods, up to the one that reaches the
    budget. Without periods, the budget's sessions count.
    """
    length = 86_400 * rollout.least_days
    if not length or not len(sessions):
        return sessions[: rollout.budget], min(len(sessions), 1)
    if not sessions.starts.size:
        raise DataError("it is unknown when sessions began; expected their starts, or a rollout with `least_days=0`")
    period = (sessions.starts - sessions.starts[0]) // length
    n_over = int((now - rollout.rules.wait - sessions.starts[0]) // length)
    last = period[rollout.budget - 1] if len(sessions) >= rollout.budget else np.inf
    return sessions[period <= min(max(n_over - 1, 0), last)], n_over


def _earliest(state: Rollout, began: float, now: float) -> tuple[float, float] | None:
    """Return when the present step, whose first session began then, and the rollout can end; None where it has."""
    if state.stage != "running":
        return None
    length, wait = 86_400 * state.least_days, state.rules.wait
    n_over = (now - wait - began) // length if length else 0.0
    step = max(now, began + wait + (max(n_over, 0.0) + 1.0) * length)
    return step, step + (len(state.steps) - state.step - 1) * (length + wait)


def confirmed(outcome: Certificate, progress: StepProgress) -> Certificate:
    """Return the certificate of the last certified step: it rests on the lot, by the evidence that decided."""
    rollout, promise, sessions = progress.rollout, outcome.promises[0], progress.sessions
    if rollout.step == 0:
        raise DataError("no step of the rollout is certified")
    point, first = outcome.curve[rollout.steps[rollout.step - 1]], rollout.rules.first
    utility, by_score = (
        Estimate.around(float(y.mean()), float(y.std() / np.sqrt(y.size)))
        for y in (sessions.clicks[sessions.treated], sessions.clicks[~sessions.treated])
    )
    shares = differences(sessions, promise.target, rollout.control, largest_worth(promise, first))
    risk = float(promise.alpha + shares.mean() * (1.0 - promise.alpha))
    pvalue = float(np.exp(-max(float(evidence(shares)[-1]), 0.0)))
    test = Test(promise, None, len(sessions), "mixture of bets", progress.share, None, risk, None, pvalue)
    lists = f"; first {first} lists per session" if first > 1 else ""
    provenance = msgspec.structs.replace(
        outcome.provenance, n_queries=len(sessions), path="rollout", evidence="mixture of bets",
        clicks=ClickLog("session", len(sessions), int(sessions.clicks.sum()), 0.0, 1, {}, ""),
        path_basis=f"the path of certificate {outcome.id}{lists}",
    )  # fmt: skip
    return msgspec.structs.replace(
        outcome, ranker=point.ranker, tests=(test,), utility=utility, deterministic_utility=by_score,
        disparity=point.disparity, fairness_gain=point.fairness_gain, provenance=provenance,
    )  # fmt: skip
