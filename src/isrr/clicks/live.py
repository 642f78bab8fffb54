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

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b
from os import PathLike
from typing import Any

import msgspec
import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from isrr.clicks.rollout import Rollout, step_and_arm
from isrr.clicks.table import Clicks, looked_up
from isrr.counting import counted
from isrr.data.identifiers import Ids
from isrr.data.log import ServedLists, log_parts
from isrr.data.queries import FloatArray
from isrr.errors import DataError, PromiseError
from isrr.noise import mixed
from isrr.outcome.certificate import Certificate
from isrr.outcome.findings import ClickLog, Estimate, Test
from isrr.promises import Promise

BETS = 0.9 * 0.6 ** np.arange(14)  # shares of the largest stake


@dataclass(frozen=True, eq=False)
class Sessions:
    """Sessions of a rollout, in the order in which they started.

    Attributes:
        treated: Whether each is in the treatment, (n,).
        same: Whether its treatment equals the order by score, over all that is shown, (n,).
        clicks: Its clicks, or what they are worth, (n,).
        n_excluded: Sessions left out because an earlier step has counted them.
        names: Hashes of their ids, (n,); empty where they are not known.
        starts: When each began, (n,), in seconds since 1970.
        open_starts: When those began whose time for clicks is not over, likewise.
    """

    treated: NDArray[np.bool_]
    same: NDArray[np.bool_]
    clicks: FloatArray
    n_excluded: int = 0
    names: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    starts: FloatArray = field(default_factory=lambda: np.empty(0))
    open_starts: FloatArray = field(default_factory=lambda: np.empty(0))

    def __len__(self) -> int:
        return int(self.treated.size)

    def __getitem__(self, which: slice | NDArray[Any]) -> "Sessions":
        arrays: tuple[NDArray[Any], ...] = (self.treated, self.same, self.clicks, self.names, self.starts)
        treated, same, clicks, names, starts = (array[which] if array.size else array for array in arrays)
        return replace(self, treated=treated, same=same, clicks=clicks, names=names, starts=starts)

    @property
    def n_open(self) -> int:
        """Sessions whose time for clicks is not over."""
        return int(self.open_starts.size)

    @property
    def digest(self) -> str:
        """Names the sessions."""
        return blake2b(self.names.tobytes(), digest_size=16).hexdigest()


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


def sessions_of(
    log: str | PathLike[str], clicks: Clicks, rollout: Rollout, k: int, *, now: float, every_step: bool = False
) -> Sessions:
    """The sessions whose time for clicks is over, of the present step or of every step.

    A session belongs to the step of its first list. With w the time within which clicks count, its lists within w of
    the first one count, and its time is over w after the last of them can have been served, so that what is found of a
    session is the same at every look. The first k places count; `now` is in seconds since 1970.
    """
    within, first = rollout.rules
    parts: list[tuple[NDArray[Any], ...]] = []
    for part in log_parts(log):
        rows = part.table.filter(
            pc.and_(pc.equal(part.table["certificate"], rollout.certificate), part.table["arm"].is_valid())
        )
        if not rows.num_rows:
            continue
        arms = rows["arm"].dictionary_encode().combine_chunks()
        named = [step_and_arm(name) for name in arms.dictionary.to_pylist()]
        step, treated = (np.array([pair[i] for pair in named])[arms.indices.to_numpy()] for i in (0, 1))
        lists = Ids.of(rows["list_id"], "list_id", rows.num_rows).hashes()
        sessions = Ids.of(pc.coalesce(rows["session"], rows["list_id"]), "session", rows.num_rows).hashes()
        found = _clicks_on(rows, lists, clicks, k, within)
        parts.append((sessions, rows["time"].to_numpy(), step, treated, _alike(rows), found, lists))
    if not parts:
        return Sessions(np.empty(0, bool), np.empty(0, bool), np.empty(0))
    columns: list[NDArray[Any]] = [np.concatenate(column) for column in zip(*parts, strict=True)]
    once = np.unique(columns.pop(), return_index=True)[1]  # a log that was shipped twice has its lists twice
    order = once[np.lexsort((columns[1][once], columns[0][once]))]
    name, time, step, treated, same, found = (column[order] for column in columns)
    opens = np.flatnonzero(np.concatenate(([True], name[1:] != name[:-1])))
    unit = np.repeat(np.arange(opens.size), np.diff(np.append(opens, name.size)))
    start, close = time[opens], time[opens] + rollout.rules.wait
    counts = (
        (np.arange(name.size) - opens[unit] < first) & (time <= (start + within)[unit]) & (step == step[opens][unit])
    )
    y = np.bincount(unit[counts], found[counts], opens.size).astype(np.float64)
    alike = np.bincount(unit, ~same & (time <= close[unit]), opens.size) == 0
    present = np.ones(opens.size, bool) if every_step else step[opens] == rollout.step
    returned = np.bincount(unit, step == rollout.step, opens.size) > 0
    closed = np.flatnonzero(present & (close <= now))
    closed = closed[np.lexsort((name[opens][closed], start[closed]))]
    return Sessions(
        treated[opens][closed], alike[closed], y[closed], int((returned & ~present).sum()), name[opens][closed],
        start[closed], start[present & (close > now)],
    )  # fmt: skip


def _alike(rows: Any) -> NDArray[np.bool_]:
    """Whether each list equals the other arm's, over all that was shown, (n_lists,)."""
    shown = rows["first_rank"].to_numpy() - 1 + rows["n_shown"].to_numpy()
    columns = [pc.fill_null(pc.list_value_length(rows[name]), 0).to_numpy() for name in ("ranking", "other_arm")]
    flat = [np.append(pc.list_flatten(rows[name]).to_numpy(), -1) for name in ("ranking", "other_arm")]
    here, there = (np.minimum(lengths, shown) for lengths in columns)
    reach = np.minimum(here, there)
    row = np.repeat(np.arange(reach.size), reach)
    place = np.arange(row.size) - np.repeat(np.cumsum(reach) - reach, reach)
    one, other = (values[(np.cumsum(n) - n)[row] + place] for values, n in zip(flat, columns, strict=True))
    return np.asarray((here == there) & (np.bincount(row, one != other, reach.size) == 0))


def _clicks_on(rows: Any, lists: NDArray[np.uint64], clicks: Clicks, k: int, within: float) -> FloatArray:
    """What the clicks on the first k places of each list are worth, each place once, (n_lists,)."""
    found = ServedLists(rows)
    lengths = np.diff(found.places)
    near = np.arange(found.ranking.size) - np.repeat(found.places[:-1], lengths) < k
    items = Ids.of(found.item_ids, "item_ids", found.scores.size)
    shown = items.take((np.repeat(found.offsets[:-1], lengths) + found.ranking)[near]).hashes()
    owner = np.repeat(np.arange(lists.size), lengths)[near]
    hit, there = looked_up(mixed(clicks.lists ^ mixed(clicks.items)), mixed(lists[owner] ^ mixed(shown)))
    hit, times, value = hit[there], clicks.times[there], clicks.value[there]
    served = rows["time"].to_numpy()[owner[hit]]
    good = ~(times < served) & ~(times > served + within)
    worth = np.zeros(owner.size)
    np.maximum.at(worth, hit[good], value[good])
    return np.bincount(owner, worth, lists.size).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Progress:
    """What a look at a rollout found.

    Attributes:
        promise: What is promised.
        rollout: The state after it.
        sessions: The sessions of the step that was looked at, those that count.
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
        state, found = self.rollout, self.sessions
        lines = [
            f"Rollout of certificate {state.certificate}: {state.stage}",
            f"step         {min(self.step + 1, len(state.steps))} of {len(state.steps)}",
            f"sessions     {len(found):,} counted ({int(found.treated.sum()):,} treated), {self.n_later:,} after them, "
            f"{found.n_excluded:,} known from earlier steps; a step fails after {state.budget:,}",
        ]
        if found.n_open:
            lines.append(
                f"too recent   {counted(found.n_open, 'session')}: clicks on a list count for {state.rules.within:,g} "
                f"s, so the last of these is over at {_utc(found.open_starts.max() + state.rules.wait)}"
            )
        lines += [
            f"kept so far  {self.promise.kept_so_far(self.share)}; evidence for the promise {self.evidence:.3g} of the "
            f"{self.certifies_at:.4g} that certify the step",
        ]
        if self.earliest is not None:
            step, end = map(_utc, self.earliest)
            lines.append(f"earliest end {step} for step {state.step + 1}, {end} for the rollout")
        return "\n".join(lines + ([f"result       {state.reason}"] if state.reason else []))


def _utc(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M:%S} UTC"


def most_of(promise: Promise, first: int) -> float:
    """The most that a session's clicks can be worth."""
    return promise.k * first * (1.0 if promise.bound is None else promise.bound[1])


def _that_count(sessions: Sessions, rollout: Rollout, now: float) -> tuple[Sessions, int]:
    """The sessions that count at a look, and how many periods are over: from one on, the step is decided.

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


def looked_at(outcome: Certificate, rollout: Rollout, sessions: Sessions, *, now: float) -> Progress:
    """Decide the present step by the sessions so far; may be asked as often as one likes.

    Args:
        outcome: The certificate that is rolled out.
        rollout: The state before the look.
        sessions: The sessions of the present step whose time for clicks is over.
        now: The moment of the look, in seconds since 1970.
    """
    promise, delta = outcome.promises[0], 1.0 - outcome.confidence
    before = sessions[: rollout.n_counted]
    if rollout.n_counted and (len(before) < rollout.n_counted or before.digest != rollout.digest):
        raise DataError(
            f"the log has lost sessions of step {rollout.step + 1}, of which an earlier look counted "
            f"{rollout.n_counted:,}; expected all of its files"
        )
    most = most_of(promise, rollout.rules.first)
    counted_in, n_over = _that_count(sessions, rollout, now)
    if counted_in.clicks.max(initial=0.0) > most:
        raise PromiseError(
            f"'{promise}': the clicks of a session are worth {counted_in.clicks.max():.6g}, above what the bound "
            f"allows ({most:g}); expected a bound that holds for every click"
        )
    shares = differences(counted_in, promise.target, rollout.control, most)
    found = float(evidence(shares)[-1]) if len(counted_in) else -np.inf
    treated = counted_in.treated
    n_treated = int(treated.sum())
    means = [counted_in.clicks[arm].mean() if arm.any() else np.nan for arm in (treated, ~treated)]
    share = float(means[0] / means[1]) if n_treated and means[1] > 0 else float("nan")
    state, step = rollout, rollout.step
    if rollout.stage == "running":
        state = replace(rollout, n_counted=len(counted_in), digest=counted_in.digest)
        tested = counted(len(counted_in), "session")
        if n_over and found >= np.log(1.0 / delta):
            state = rollout.after(certified=True, reason=f"step {step + 1} is certified after {tested}")
        elif n_over and len(counted_in) >= rollout.budget:
            state = rollout.after(certified=False, reason=f"step {step + 1} is not certified after {tested}")
    starts = np.append(sessions.starts[:1], sessions.open_starts) if state.step == step else np.empty(0)
    return Progress(
        promise, state, counted_in, step, float(np.exp(min(found, 700.0))), 1 / delta, share,
        len(sessions) - len(counted_in), _earliest(state, float(starts.min(initial=now)), now),
    )  # fmt: skip


def _earliest(state: Rollout, began: float, now: float) -> tuple[float, float] | None:
    """When the present step, of which the first session began then, and the rollout can end; None where it has."""
    if state.stage != "running":
        return None
    length, wait = 86_400 * state.least_days, state.rules.wait
    n_over = (now - wait - began) // length if length else 0.0
    step = max(now, began + wait + (max(n_over, 0.0) + 1.0) * length)
    return step, step + (len(state.steps) - state.step - 1) * (length + wait)


def confirmed(outcome: Certificate, found: Progress) -> Certificate:
    """The certificate of the last step that was certified: it rests on the lot, by the evidence that decided."""
    rollout, promise = found.rollout, outcome.promises[0]
    if rollout.step == 0:
        raise DataError("no step of the rollout is certified")
    point, arm = outcome.curve[rollout.steps[rollout.step - 1]], found.sessions.treated
    utility, before = (
        Estimate.around(float(y.mean()), float(y.std() / np.sqrt(y.size)))
        for y in (found.sessions.clicks[arm], found.sessions.clicks[~arm])
    )
    first = rollout.rules.first
    shares = differences(found.sessions, promise.target, rollout.control, most_of(promise, first))
    risk = float(promise.alpha + shares.mean() * (1.0 - promise.alpha))
    pvalue = float(np.exp(-max(float(evidence(shares)[-1]), 0.0)))
    test = Test(promise, None, len(found.sessions), "mixture of bets", found.share, None, risk, None, pvalue)
    clicks = ClickLog("session", len(found.sessions), int(found.sessions.clicks.sum()), 0.0, 1, {}, "")
    lists = f"; first {first} lists per session" if first > 1 else ""
    provenance = msgspec.structs.replace(
        outcome.provenance, n_queries=len(found.sessions), clicks=clicks, path="rollout", evidence="mixture of bets",
        path_basis=f"the path of certificate {outcome.id}{lists}",
    )  # fmt: skip
    return msgspec.structs.replace(
        outcome, ranker=point.ranker, tests=(test,), utility=utility, deterministic_utility=before,
        disparity=point.disparity, fairness_gain=point.fairness_gain, provenance=provenance,
    )  # fmt: skip
