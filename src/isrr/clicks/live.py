"""The evidence of a live rollout: sessions split at random, with no assumption about users.

With p the share of the treatment, A whether a session is in it, Y its clicks, c the mean of Y over earlier sessions,
and the treatment's list drawn before the lot:

    the list equals the order by score:   Z = (s − 1) · Y
    otherwise:                            Z = s·(1 − A)/(1 − p)·(Y − c) − A/p·(Y − c) + (s − 1)·c   ≤   B = s·k/(1 − p)

E[Z | past] = s·μ_control − μ_treatment, so that a promise of at least a share s is broken where it is positive. Bets
against that, 14 of them side by side, M = Π (1 − b·Z) with b = 0.9/B · 0.6^i, may be looked at after every session: the
chance that their mean ever reaches 1/δ is at most δ (Ville). Each step of a path has the whole δ (fixed sequence).
"""

from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isrr.certificate import Certificate
from isrr.clicks.rollout import Rollout, step_and_arm
from isrr.clicks.table import Clicks
from isrr.counting import counted, percent
from isrr.data.identifiers import Ids
from isrr.data.queries import FloatArray
from isrr.errors import DataError
from isrr.findings import ClickLog, Estimate, Test
from isrr.noise import mixed

BETS = 0.9 * 0.6 ** np.arange(14)  # shares of the largest stake


@dataclass(frozen=True, eq=False)
class Sessions:
    """Sessions of one step, in the order in which they started.

    Attributes:
        treated: Whether each is in the treatment, (n,).
        same: Whether its treatment equals the order by score, over all that is shown, (n,).
        clicks: Its clicks, (n,).
        n_excluded: Sessions left out because an earlier step has counted them.
        n_open: Sessions whose time for clicks is not over.
    """

    treated: NDArray[np.bool_]
    same: NDArray[np.bool_]
    clicks: FloatArray
    n_excluded: int = 0
    n_open: int = 0

    def __len__(self) -> int:
        return int(self.treated.size)


def differences(sessions: Sessions, share: float, control: float, most: float) -> FloatArray:
    """Z of each session as a share of its bound B, (n, …); sessions along the first axis, rollouts along others.

    Args:
        sessions: Sessions in order; arrays may have further axes.
        share: The promised share s.
        control: Share of control, 1 − p.
        most: The most clicks a session can have.
    """
    y, p = sessions.clicks, 1.0 - control
    before = np.cumsum(y, axis=0) - y
    seen = np.arange(1.0, len(y) + 1.0).reshape(-1, *(1,) * (y.ndim - 1))
    bound = share * most / control
    c = np.minimum((0.1 * most + before) / seen, p * bound)
    weight = np.where(sessions.treated, -1.0 / p, share / control)
    z = np.where(sessions.same, (share - 1.0) * y, weight * (y - c) + (share - 1.0) * c)
    return np.asarray(z / bound)


def evidence(shares: FloatArray) -> FloatArray:
    """Logarithm of the evidence for the promise after each session, shaped as the differences."""
    wealth = [np.cumsum(np.log1p(-bet * shares), axis=0) for bet in BETS]
    largest = np.max(wealth, axis=0)
    return np.asarray(largest + np.log(np.mean([np.exp(part - largest) for part in wealth], axis=0)))


def sessions_of(
    log: str | PathLike[str], clicks: Clicks, rollout: Rollout, k: int, *, within: float, first: int = 1, now: float
) -> Sessions:
    """The sessions of the present step whose time for clicks is over.

    Args:
        log: The served-ranking log.
        clicks: The clicks.
        rollout: Where the rollout stands.
        k: Places that count.
        within: Seconds after a list within which clicks on it count.
        first: Lists of each session that count, the earliest ones.
        now: The present, in seconds since 1970.
    """
    import pyarrow.compute as pc

    from isrr.data.served_log import log_parts

    parts: list[tuple[NDArray[Any], ...]] = []
    earlier: list[NDArray[np.uint64]] = []
    for part in log_parts(log):
        table = part.table.filter(
            pc.and_(pc.equal(part.table["certificate"], rollout.certificate), part.table["arm"].is_valid())
        )
        if not table.num_rows:
            continue
        arms = table["arm"].dictionary_encode().combine_chunks()
        named = [step_and_arm(name) for name in arms.dictionary.to_pylist()]
        step, treated = (np.array([pair[i] for pair in named])[arms.indices.to_numpy()] for i in (0, 1))
        lists = Ids.of(table["list_id"], "list_id", table.num_rows).hashes()
        sessions = Ids.of(pc.coalesce(table["session"], table["list_id"]), "session", table.num_rows).hashes()
        earlier.append(sessions[step < rollout.step])
        present = np.flatnonzero(step == rollout.step)
        if not present.size:
            continue
        rows = table.take(present)
        same = np.array(
            [
                shown[: first_rank - 1 + n] == other[: first_rank - 1 + n]
                for shown, other, first_rank, n in zip(
                    rows["ranking"].to_pylist(), rows["other_arm"].to_pylist(), rows["first_rank"].to_pylist(),
                    rows["n_shown"].to_pylist(), strict=True,
                )
            ],
            bool,
        )  # fmt: skip
        found = _clicks_on(rows, lists[present], clicks, k, within)
        parts.append((sessions[present], rows["time"].to_numpy(), treated[present], same, found))
    if not parts:
        return Sessions(np.empty(0, bool), np.empty(0, bool), np.empty(0))
    name, time, treated, same, found = (np.concatenate(column) for column in zip(*parts, strict=True))
    before = np.isin(name, np.concatenate(earlier)) if earlier else np.zeros(name.size, bool)
    n_excluded = int(np.unique(name[before]).size)
    name, time, treated, same, found = (column[~before] for column in (name, time, treated, same, found))
    order = np.lexsort((time, name))
    opens = (
        np.flatnonzero(np.concatenate(([True], name[order][1:] != name[order][:-1]))) if name.size else np.empty(0, int)
    )
    rank = np.arange(name.size) - np.repeat(opens, np.diff(np.append(opens, name.size)))
    counts = order[rank < first]
    unit = np.searchsorted(name[order][opens], name[counts])
    start = time[order][opens]
    end = np.full(opens.size, -np.inf)
    np.maximum.at(end, unit, time[counts])
    y = np.bincount(unit, found[counts], opens.size).astype(np.float64)
    alike = np.ones(opens.size, bool)
    np.logical_and.at(alike, np.repeat(np.arange(opens.size), np.diff(np.append(opens, name.size))), same[order])
    closed = np.flatnonzero(start + within <= now)
    closed = closed[np.argsort(start[closed], kind="stable")]
    return Sessions(treated[order][opens][closed], alike[closed], y[closed], n_excluded, int(opens.size - closed.size))


def _clicks_on(rows: Any, lists: NDArray[np.uint64], clicks: Clicks, k: int, within: float) -> FloatArray:
    """Clicks on the first k places of each list, each place once, (n_lists,)."""
    from isrr.data.served_log import ServedLists

    served = ServedLists(rows)
    lengths = np.diff(served.places)
    place = np.arange(served.ranking.size) - np.repeat(served.places[:-1], lengths)
    items = Ids.of(served.item_ids, "item_ids", served.scores.size)
    shown = items.take(np.repeat(served.offsets[:-1], lengths) + served.ranking).hashes()
    near = place < k
    pairs = mixed(np.repeat(lists, lengths)[near] ^ mixed(shown[near]))
    owner = np.repeat(np.arange(lists.size), lengths)[near]
    asked = mixed(clicks.lists ^ mixed(clicks.items))
    order = np.argsort(pairs)
    where = np.minimum(np.searchsorted(pairs, asked, sorter=order), max(pairs.size - 1, 0))
    hit = order[where]
    time = rows["time"].to_numpy()[owner[hit]]
    good = (pairs[hit] == asked) & ~(clicks.times < time) & ~(clicks.times > time + within)
    return np.bincount(owner[np.unique(hit[good])], minlength=lists.size).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Progress:
    """What a look at a rollout found.

    Attributes:
        rollout: The state after it.
        sessions: The sessions of the step that was looked at.
        step: That step.
        evidence: The strongest evidence for the promise so far, as a share of what certifies a step.
        share: Clicks of the treatment as a share of control's; NaN where there is none.
    """

    rollout: Rollout
    sessions: Sessions
    step: int
    evidence: float
    share: float

    def __str__(self) -> str:
        state, found = self.rollout, self.sessions
        kept = "none so far" if np.isnan(self.share) else f"{percent(self.share)} of control's"
        lines = [
            f"Rollout of certificate {state.certificate}: {state.stage}",
            f"step         {self.step + 1} of {len(state.steps)}",
            f"sessions     {len(found):,} counted ({int(found.treated.sum()):,} treated), {found.n_open:,} too recent, "
            f"{found.n_excluded:,} known from earlier steps; at most {state.budget:,} per step",
            f"clicks       {kept}",
            f"evidence     {self.evidence:.3g} of what certifies",
        ]
        return "\n".join(lines + ([f"result       {state.reason}"] if state.reason else []))


def looked_at(outcome: Certificate, rollout: Rollout, sessions: Sessions, *, first: int = 1) -> Progress:
    """Decide the present step by the sessions so far; may be asked as often as one likes."""
    promise, delta = outcome.promises[0], 1.0 - outcome.confidence
    counted_in = replace_first(sessions, rollout.budget)
    shares = differences(counted_in, promise.target, rollout.control, promise.k * first)
    found = float(evidence(shares).max(initial=-np.inf)) if len(counted_in) else -np.inf
    treated = counted_in.treated
    n_treated = int(treated.sum())
    means = [counted_in.clicks[arm].mean() if arm.any() else np.nan for arm in (treated, ~treated)]
    share = float(means[0] / means[1]) if n_treated and means[1] > 0 else float("nan")
    state, step = rollout, rollout.step
    if rollout.stage == "running":
        tested = counted(len(counted_in), "session")
        if found >= np.log(1.0 / delta):
            state = rollout.after(certified=True, reason=f"step {step + 1} is certified after {tested}")
        elif len(counted_in) >= rollout.budget:
            state = rollout.after(certified=False, reason=f"step {step + 1} is not certified after {tested}")
    return Progress(state, counted_in, step, float(np.exp(min(found, 700.0)) * delta), share)


def replace_first(sessions: Sessions, budget: int) -> Sessions:
    """The first sessions, as many as a step may have."""
    return replace(
        sessions, treated=sessions.treated[:budget], same=sessions.same[:budget], clicks=sessions.clicks[:budget]
    )


def confirmed(outcome: Certificate, found: Progress) -> Certificate:
    """The certificate of the last step that was certified: it rests on the lot alone."""
    rollout, promise = found.rollout, outcome.promises[0]
    if rollout.step == 0:
        raise DataError("no step of the rollout is certified")
    point, arm = outcome.curve[rollout.steps[rollout.step - 1]], found.sessions.treated
    utility, before = (
        Estimate.around(float(y.mean()), float(y.std() / np.sqrt(y.size)))
        for y in (found.sessions.clicks[arm], found.sessions.clicks[~arm])
    )
    shares = differences(found.sessions, promise.target, rollout.control, promise.k)
    risk = float(promise.alpha + shares.mean() * (1.0 - promise.alpha))
    pvalue = float(np.exp(-max(float(evidence(shares).max()), 0.0)))
    test = Test(promise, None, len(found.sessions), "mixture of bets", found.share, None, risk, None, pvalue)
    clicks = ClickLog("session", 1, len(found.sessions), int(found.sessions.clicks.sum()), 0.0, 1, {}, "")
    provenance = replace(
        outcome.provenance, n_queries=len(found.sessions), clicks=clicks, path="rollout", evidence="mixture of bets",
        path_basis=f"the path of certificate {outcome.id}",
    )  # fmt: skip
    return replace(
        outcome, ranker=point.ranker, tests=(test,), utility=utility, deterministic_utility=before,
        disparity=point.disparity, fairness_gain=point.fairness_gain, provenance=provenance,
    )  # fmt: skip
