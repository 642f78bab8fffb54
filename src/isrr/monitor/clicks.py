"""The watch over a promise about clicks: no judgments needed, and nothing to wait for but clicks.

What the order by score gets is known in one of two ways. The *anchor*: the certified ranker serves the order by score
with chance λ, and clicks on its lists are reweighted to that order (`isrr.clicks.estimate`). Per session

    Z = s · V̂_det − V ∈ [−k, s·k/λ],       X = (Z + k) / (k + s·k/λ),       α = 1 / (1 + s/λ)

The *control* arm of a rollout: Z as in `isrr.clicks.live`, whatever makes users click,

    Z ∈ [−k/p, s·k/(1 − p)],               X = (Z + k/p) / (k/p + s·k/(1 − p)),       α = (1 − p) / (1 − p + s·p)

The promise holds exactly when E X ≤ α. While it does, an alarm is raised with probability at most δ, however often and
however long one looks (`isrr.risk.eprocess`). Each session counts once, when its time for clicks is over
(by the anchor, the first list of each session counts); a state file
remembers the evidence, so that log files older than the last look may go.
"""

import json
from os import PathLike
from pathlib import Path

import numpy as np

from isrr.clicks.calibrate import value_column
from isrr.clicks.estimate import check_loggers, estimated
from isrr.clicks.impressions import Rules, Unit, impressions
from isrr.clicks.live import Sessions, centred, most_of, sessions_of
from isrr.clicks.rollout import WITHIN, Rollout
from isrr.clicks.shown import check_shown
from isrr.clicks.table import Clicks
from isrr.counting import against, percent
from isrr.data.queries import FloatArray
from isrr.errors import CertificateError, DataError, PromiseError
from isrr.files import locked, read_json, write_atomically
from isrr.outcome.certificate import Certificate, Outcome
from isrr.risk.eprocess import EProcess

SCHEMA = 1


class ClickMonitor:
    """Watches one certificate about clicks.

    Args:
        certificate: What was promised, of a ranker with an anchor, or in a rollout.
        delta: Probability of ever raising a false alarm; by default the certificate's 1 − confidence.
        rollout: The rollout whose control arm is compared with, in place of the anchor.
        within: Seconds after a list within which clicks on it count; by default an hour, or as in the rollout.
        state: File that remembers what was counted; read if it is there, and written after each look.
        since: Only sessions that began later count, in seconds since 1970: when the certificate was reinstated.

    Attributes:
        n_units: Sessions (or impressions) counted.
        strongest: The strongest evidence of a broken promise so far.
        alarm: What is broken, in words; None where nothing is. It stays.
    """

    def __init__(
        self,
        certificate: Outcome,
        *,
        delta: float | None = None,
        rollout: Rollout | None = None,
        within: float | None = None,
        state: str | PathLike[str] | None = None,
        since: float = 0.0,
    ) -> None:
        if not isinstance(certificate, Certificate):
            raise CertificateError("nothing was certified, so there is no promise to monitor")
        log = certificate.provenance.clicks
        if log is None:
            raise PromiseError(f"'{certificate.promises[0]}' is not about clicks; monitor it with judgments")
        if certificate.ranker.anchor == 0.0 and rollout is None:
            raise PromiseError(
                "the ranker has no anchor, so its lists do not show what the order by score would get; calibrate with "
                "an `anchor=` such as 0.1, or run a rollout"
            )
        self._outcome, self._promise = certificate, certificate.promises[0]
        self._rollout = None if rollout is None else rollout.ruled(within)
        self.unit: Unit = "session" if rollout is not None or log.unit == "session" else "impression"
        self._first = 1 if self._rollout is None else self._rollout.rules.first
        self.within = (within or WITHIN) if self._rollout is None else self._rollout.rules.within
        self.delta = 1 - certificate.confidence if delta is None else delta
        if not 0 < self.delta < 1:
            raise PromiseError(f"delta must lie in (0, 1), got {self.delta}; it is the chance of a false alarm")
        share, p = self._promise.target, certificate.ranker.anchor if rollout is None else 1 - rollout.control
        alpha = 1 / (1 + share / p) if rollout is None else (1 - p) / (1 - p + share * p)
        self._process = EProcess.start(alpha)
        self._until, self._ours, self._theirs, self.strongest = since or -1.0, 0.0, 0.0, 0.0
        self.alarm: str | None = None
        self._state = None if state is None else Path(state)
        if self._state is not None and self._state.exists():
            self._restore(self._state)

    @property
    def column(self) -> str | None:
        """The column of the clicks that is added up; None where clicks are counted."""
        return value_column(self._promise)

    @property
    def n_units(self) -> int:
        """Sessions, or impressions, counted."""
        return self._process.n

    @property
    def share(self) -> float:
        """Clicks as a share of what the order by score gets, an estimate; NaN before the first."""
        return self._ours / self._theirs if self._theirs > 0 else float("nan")

    @property
    def evidence(self) -> float:
        """The strongest evidence of a broken promise so far, as a share of what raises an alarm (1 or more)."""
        return self.strongest * self.delta

    def update(self, log: str | PathLike[str], clicks: Clicks, *, now: float) -> str | None:
        """Count the sessions whose time for clicks ended since the last look; save; the alarm, if there is one.

        Args:
            log: The served-ranking log, with everything served since the last look and in the sessions from before it.
            clicks: The clicks on its lists.
            now: The present, in seconds since 1970.
        """
        if self._state is None:
            return self._updated(log, clicks, now)
        with locked(self._state):
            if self._state.exists():
                self._restore(self._state)
            alarm = self._updated(log, clicks, now)
            self._save(self._state)
        return alarm

    def _updated(self, log: str | PathLike[str], clicks: Clicks, now: float) -> str | None:
        until = now - (self.within if self._first == 1 else 2 * self.within)
        losses = self._by_anchor(log, clicks, until) if self._rollout is None else self._by_control(log, clicks, now)
        self._until = max(self._until, until)
        for loss in losses.tolist():
            self._process = self._process.after(loss)
            self.strongest = max(self.strongest, float(self._process.evidence))
        if self.evidence >= 1 and self.alarm is None:
            self.alarm = (
                f"'{self._promise}' is broken: {percent(self.share)} of the clicks of the order by score over "
                f"{self.n_units:,} {self.unit}s, evidence {self.strongest:.3g}"
            )
        return self.alarm

    def _by_anchor(self, log: str | PathLike[str], clicks: Clicks, until: float) -> FloatArray:
        """Losses of the units that began since the last look and up to a moment, by time."""
        ranker, promise = self._outcome.ranker, self._promise
        found = impressions(log, clicks, {self._outcome.id: ranker}, Rules(promise.k, self.unit, self.within))
        check_loggers(found)
        check_shown(found)
        start = np.full(found.n_units, np.inf)
        np.minimum.at(start, found.unit_of, found.times)
        order = np.argsort(start, kind="stable")
        order = order[(start[order] > self._until) & (start[order] <= until)]
        got = np.bincount(found.unit_of[found.impression], found.value, found.n_units).astype(np.float64)[order]
        would = estimated(found, [], most=found.n_units).reference[order]
        self._ours, self._theirs = self._ours + float(got.sum()), self._theirs + float(would.sum())
        return watched_losses(got, would, promise.target, most_of(promise, 1), ranker.anchor)

    def _by_control(self, log: str | PathLike[str], clicks: Clicks, now: float) -> FloatArray:
        """Losses of the rollout's sessions, of every step, that began since the last look."""
        assert self._rollout is not None
        control, most = self._rollout.control, most_of(self._promise, self._first)
        found = sessions_of(log, clicks, self._rollout, self._promise.k, now=now, every_step=True)
        found = found[found.starts > self._until]
        before = self._ours * (1 - control) + self._theirs * control
        losses = control_losses(found, self._promise.target, control, most, before, self.n_units)
        ours, theirs = (float(found.clicks[arm].sum()) for arm in (found.treated, ~found.treated))
        self._ours, self._theirs = self._ours + ours / (1 - control), self._theirs + theirs / control
        return losses

    def __str__(self) -> str:
        compared = "the lists its anchor leaves in that order" if self._rollout is None else "the control arm"
        return "\n".join(
            [
                f"Monitor of certificate {self._outcome.id}",
                f"promise      {self._promise}",
                f"counted      clicks on {self.n_units:,} {self.unit}s; the order by score is known from {compared}",
                f"kept so far  {self._promise.kept_so_far(self.share)}; {against(self.strongest, 1 / self.delta)}",
                f"alarm        {self.alarm or 'none'}",
            ]
        )

    @property
    def _about(self) -> dict[str, object]:
        """What makes a watch this one."""
        reference = "anchor" if self._rollout is None else "control"
        named = {"certificate": self._outcome.id, "delta": self.delta, "within": self.within, "reference": reference}
        return {"schema": SCHEMA, **named}

    def _save(self, file: Path) -> None:
        state = self._about | {
            "until": self._until, "n": self.n_units, "wealth": self._process.wealth.tolist(), "ours": self._ours,
            "theirs": self._theirs, "strongest": self.strongest, "alarm": self.alarm,
        }  # fmt: skip
        write_atomically(file, (json.dumps(state) + "\n").encode())

    def _restore(self, file: Path) -> None:
        try:
            state = read_json(file)
            for name, expected in self._about.items():
                if state[name] != expected:
                    raise DataError(
                        f"{file}: the state of another watch ({name} {state[name]}; this one has {expected}); expected "
                        "the same at every look, or a separate file (`state=`)"
                    )
            wealth = np.array(state["wealth"], np.float64)
            numbers = np.array([state[name] for name in ("until", "ours", "theirs", "strongest")], np.float64)
            if wealth.shape != self._process.wealth.shape or not (wealth >= 0).all() or not np.isfinite(numbers).all():
                raise ValueError("expected finite numbers, and a wealth ≥ 0 for each bet")
            if not isinstance(state["n"], int) or state["n"] < 0 or not isinstance(state["alarm"], str | None):
                raise ValueError("expected 'n' ≥ 0, and an alarm in words")
        except DataError:
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{file}: not the state of a watch by clicks: {error!r}") from None
        self._until, self._ours, self._theirs, self.strongest = numbers.tolist()
        self._process = EProcess(self._process.alpha, wealth, state["n"])
        self.alarm = state["alarm"]


def watched_losses(got: FloatArray, would: FloatArray, share: float, most: float, anchor: float) -> FloatArray:
    """Losses in [0, 1] by the anchor, (n,).

    Args:
        got: Clicks of each unit.
        would: What the order by score would have got, estimated, at most `most / anchor`.
        share: The promised share.
        most: The most clicks a unit can have.
        anchor: Chance of the order by score.

    Example:
        >>> watched_losses(np.array([0.0, 3.0]), np.array([6.0, 0.0]), 0.9, 3.0, 0.5)
        array([1., 0.])
    """
    return np.clip((share * would - got + most) / (most * (1.0 + share / anchor)), 0.0, 1.0)


def control_losses(
    sessions: Sessions, share: float, control: float, most: float, before: float = 0.0, n_before: int = 0
) -> FloatArray:
    """Losses in [0, 1] by the control arm, (n, …), in the order of sessions.

    Args:
        sessions: Sessions in order; arrays may have further axes.
        share: The promised share.
        control: Share of control.
        most: The most clicks a session can have.
        before: Clicks of sessions counted before these, and `n_before` how many those were.

    Example:
        >>> arms = Sessions(np.array([False, True]), np.zeros(2, bool), np.array([3.0, 3.0]))
        >>> control_losses(arms, 1.0, 0.5, 3.0).round(3)
        array([0.95 , 0.275])
    """
    low, high = most / (1 - control), share * most / control
    largest = min((1 - control) * high, low / (share / control + 1 - share))  # so that −low ≤ Z ≤ high
    z = centred(sessions, share, control, most, largest, before, n_before)
    return np.clip((z + low) / (low + high), 0.0, 1.0)
