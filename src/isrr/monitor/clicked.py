"""Losses by clicks: no judgments needed, and nothing to wait for but clicks.

What the order by score gets is known in one of two ways. The *anchor*: the certified ranker serves the order by score
with chance λ, and clicks on its lists are reweighted to that order (`isrr.clicks.estimate`). Per session

    Z = s · V̂_det − V ∈ [−k, s·k/λ],       X = (Z + k) / (k + s·k/λ),       α = 1 / (1 + s/λ)

The *control* arm of a rollout: Z as in `isrr.clicks.steps`, whatever makes users click,

    Z ∈ [−k/p, s·k/(1 − p)],               X = (Z + k/p) / (k/p + s·k/(1 − p)),       α = (1 − p) / (1 − p + s·p)

The promise holds exactly when E X ≤ α. Each session counts once, when its time for clicks is over (by the anchor, the
first list of each session counts).
"""

from collections.abc import Mapping
from os import PathLike

import numpy as np

from isrr.clicks.click_table import Clicks
from isrr.clicks.estimate import ITEM_POSITION, check_loggers
from isrr.clicks.impressions import Rules, Unit, impressions
from isrr.clicks.promised import largest_worth, value_column
from isrr.clicks.rollout import WITHIN, Rollout, SessionRules
from isrr.clicks.sessions import Sessions, sessions_of
from isrr.clicks.shown import check_shown
from isrr.clicks.steps import centred
from isrr.data.queries import FloatArray
from isrr.errors import PromiseError
from isrr.monitor.stream import Stream
from isrr.outcome.certificate import Certificate


class ClickSource:
    """Where the losses of a certificate about clicks come from.

    Attributes:
        unit: What is counted: "session" or "impression".
        within: Seconds after a list within which clicks on it count.
        column: The column of the clicks that is added up; None where clicks are counted.
        alpha, slope: Of the stream of losses, see `isrr.monitor.stream.Stream`.
        left_out: How many lists and clicks of the last log do not count, by reason.
    """

    def __init__(self, certificate: Certificate, rollout: Rollout | None, within: float | None) -> None:
        self._ranker, self._certificate, promise = certificate.ranker, certificate.id, certificate.promises[0]
        if self._ranker.anchor == 0.0 and rollout is None:
            raise PromiseError(
                "the ranker has no anchor, so its lists do not show what the order by score would get; calibrate with "
                "an `anchor=` such as 0.1, or run a rollout"
            )
        log = certificate.provenance.clicks
        of_sessions = rollout is not None or (log is not None and log.unit == "session")
        self.unit: Unit = "session" if of_sessions else "impression"
        self._rollout = None if rollout is None else rollout.ruled(within)
        self._rules = SessionRules(within or WITHIN, 1) if self._rollout is None else self._rollout.rules
        self.within, self.column = self._rules.within, value_column(promise)
        self._k, self._share, self._most = promise.k, promise.target, largest_worth(promise, self._rules.first)
        chance = self._ranker.anchor if rollout is None else rollout.control
        low, high = bounds(self._share, chance, self._most, arms=rollout is not None)
        self.left_out: Mapping[str, int] = {}
        self.alpha, self.slope = low / (low + high), 1 / (low + high)

    def losses(self, log: str | PathLike[str], clicks: Clicks, stream: Stream, since: float, now: float) -> FloatArray:
        """Return the units that began after a moment and whose time for clicks is over, in order of time, one per row.

        The columns are the loss, when it began, what the ranker got, and what the order by score would have got; by
        control, also the weight of the unit in each of the two.

        Args:
            log, clicks: The served-ranking log, and the clicks on its lists.
            stream: What was counted before.
            since, now: In seconds since 1970.
        """
        if self._rollout is None:
            return self._by_anchor(log, clicks, since, self.until(now))
        sessions = sessions_of(log, clicks, self._rollout, self._k, now=now, every_step=True)
        self.left_out = sessions.left_out
        sessions, control = sessions[sessions.starts > since], self._rollout.control
        before = stream.value * (1 - control) + stream.reference * control
        losses = control_losses(sessions, self._share, control, self._most, before, stream.n)
        treated, y = sessions.treated, sessions.clicks
        arms = np.column_stack((treated / (1 - control), ~treated / control))
        return np.column_stack((losses, sessions.starts, arms * y[:, None], arms))

    def until(self, now: float) -> float:
        """Return up to when a unit must have begun for its time for clicks to be over."""
        return now - self._rules.wait

    def _by_anchor(self, log: str | PathLike[str], clicks: Clicks, since: float, until: float) -> FloatArray:
        rules = Rules(self._k, self.unit, self.within)
        shown = impressions(log, clicks, {self._certificate: self._ranker}, rules)
        check_loggers(shown)
        check_shown(shown)
        self.left_out = shown.counts
        got = np.bincount(shown.impression, shown.value, len(shown)).astype(np.float64)
        would = ITEM_POSITION.estimate(shown, [], most=len(shown)).reference
        losses = anchor_losses(got, would, self._share, self._ranker.anchor, self._most)
        rows = np.column_stack((losses, shown.times, got, would))[np.argsort(shown.times, kind="stable")]
        return np.asarray(rows[(rows[:, 1] > since) & (rows[:, 1] <= until)])


def bounds(share: float, chance: float, most: float, *, arms: bool) -> tuple[float, float]:
    """Return how far Z reaches below and above 0, with most clicks per unit; chance is the anchor, or control's."""
    return most / (1 - chance) if arms else most, share * most / chance


def _in_bounds(z: FloatArray, low: float, high: float) -> FloatArray:
    return np.clip((z + low) / (low + high), 0.0, 1.0)


def anchor_losses(got: FloatArray, would: FloatArray, share: float, anchor: float, most: float) -> FloatArray:
    """Return losses in [0, 1] from clicks of each unit and the estimate of what the order by score would get, (n,).

    Example:
        >>> anchor_losses(np.array([0.0, 3.0]), np.array([6.0, 0.0]), 0.9, 0.5, 3.0)
        array([1., 0.])
    """
    return _in_bounds(share * would - got, *bounds(share, anchor, most, arms=False))


def control_losses(
    sessions: Sessions, share: float, control: float, most: float, before: float = 0.0, n_before: int = 0
) -> FloatArray:
    """Return losses in [0, 1], (n, …), in the order of sessions; arguments as for `isrr.clicks.steps.centred`.

    Example:
        >>> arms = Sessions(np.array([False, True]), np.zeros(2, bool), np.array([3.0, 3.0]))
        >>> control_losses(arms, 1.0, 0.5, 3.0).round(3)
        array([0.95 , 0.275])
    """
    low, high = bounds(share, control, most, arms=True)
    largest = min((1 - control) * high, low / (share / control + 1 - share))  # so that −low ≤ Z ≤ high
    return _in_bounds(centred(sessions, share, control, most, largest, before, n_before), low, high)
