"""The watch over a promise about clicks: no judgments needed, and nothing to wait for but clicks.

The certified ranker draws its own lists, so clicks on them are clicks on it. What the order by score would have got is
estimated from the same lists, by the anchor λ with which the ranker serves it (`isrr.clicks.estimate`). Per session

    Z = s · V̂_det − V ∈ [−k, s·k/λ],       X = (Z + k) / (k + s·k/λ),       α = 1 / (1 + s/λ)

and the promise holds exactly when E X ≤ α. While it does, an alarm is raised with probability at most δ, however often
and however long one looks (`isrr.risk.eprocess`). The evidence is computed from the whole log, which must be kept.
"""

from os import PathLike

import numpy as np

from isrr.certificate import Certificate, Outcome
from isrr.clicks.calibrate import value_column
from isrr.clicks.estimate import check_loggers, estimated
from isrr.clicks.impressions import Rules, Unit, impressions
from isrr.clicks.table import Clicks
from isrr.counting import percent
from isrr.data.queries import FloatArray
from isrr.errors import CertificateError, PromiseError
from isrr.risk.eprocess import EProcess


class ClickMonitor:
    """Watches one certificate about clicks.

    Args:
        certificate: What was promised, of a ranker with an anchor.
        delta: Probability of ever raising a false alarm; by default 1 − confidence.

    Attributes:
        n_units: Sessions (or impressions) counted.
        share: Clicks as a share of what the order by score would have got; NaN before the first.
        evidence: The strongest evidence of a broken promise so far, as a share of what raises an alarm.
        alarm: What is broken, in words; None where nothing is.
    """

    def __init__(self, certificate: Outcome, *, delta: float | None = None) -> None:
        if not isinstance(certificate, Certificate):
            raise CertificateError("nothing was certified, so there is no promise to monitor")
        log = certificate.provenance.clicks
        if log is None:
            raise PromiseError(f"'{certificate.promises[0]}' is not about clicks; monitor it with judgments")
        if certificate.ranker.anchor == 0.0:
            raise PromiseError(
                "the ranker has no anchor, so its lists do not show what the order by score would get; calibrate "
                "with an "
                "`anchor=` such as 0.1, or run a rollout"
            )
        self._outcome, self._log = certificate, log
        self.delta = 1 - certificate.confidence if delta is None else delta
        self.n_units, self.share, self.evidence = 0, float("nan"), 0.0
        self.alarm: str | None = None

    @property
    def column(self) -> str | None:
        """The column of the clicks that is added up; None where clicks are counted."""
        return value_column(self._outcome.promises[0])

    def update(self, log: str | PathLike[str], clicks: Clicks, *, within: float, now: float) -> str | None:
        """Look at all lists whose time for clicks is over; the alarm, if there is one.

        Args:
            log: The served-ranking log.
            clicks: The clicks on its lists.
            within: Seconds after a list within which clicks on it count.
            now: The present, in seconds since 1970.
        """
        ranker, promise, first = self._outcome.ranker, self._outcome.promises[0], self._log.first
        unit: Unit = "session" if self._log.unit == "session" else "impression"
        rules = Rules(promise.k, unit, first, within)
        found = impressions(log, clicks, {self._outcome.id: ranker}, rules)
        check_loggers(found)
        start = np.full(found.n_units, np.inf)
        np.minimum.at(start, found.unit_of, found.times)
        order = np.argsort(start, kind="stable")
        order = order[start[order] + within <= now]
        got = np.bincount(found.unit_of[found.impression], found.value, found.n_units).astype(np.float64)
        would = estimated(found, [], most=found.n_units).reference
        bound = 1.0 if promise.bound is None else promise.bound[1]
        losses, alpha = watched_losses(
            got[order], would[order], promise.target, promise.k * first * bound, ranker.anchor
        )
        self.n_units = order.size
        self.share = float(got[order].sum() / would[order].sum()) if would[order].sum() > 0 else float("nan")
        process, strongest = EProcess.start(alpha), 0.0
        for loss in losses.tolist():
            process = process.after(loss)
            strongest = max(strongest, float(process.evidence))
        self.evidence = strongest * self.delta
        if self.evidence >= 1:
            self.alarm = (
                f"'{promise}' is broken: {percent(self.share)} of the clicks of the order by score over "
                f"{self.n_units:,} {unit}s, evidence {strongest:.3g}"
            )
        return self.alarm

    def __str__(self) -> str:
        kept = (
            "nothing so far" if np.isnan(self.share) else f"{percent(self.share)} of what the order by score would get"
        )
        return "\n".join(
            [
                f"Monitor of certificate {self._outcome.id}",
                f"watched      {self._outcome.promises[0]}, by clicks on {self.n_units:,} {self._log.unit}s",
                f"clicks       {kept}",
                f"evidence     {self.evidence:.3g} of what raises an alarm",
                f"alarm        {self.alarm or 'none'}",
            ]
        )


def watched_losses(
    got: FloatArray, would: FloatArray, share: float, most: float, anchor: float
) -> tuple[FloatArray, float]:
    """Losses in [0, 1], and the level up to which the promise holds.

    Args:
        got: Clicks of each unit.
        would: What the order by score would have got, estimated, at most `most / anchor`.
        share: The promised share.
        most: The most clicks a unit can have.
        anchor: Chance of the order by score.

    Example:
        >>> watched_losses(np.array([0.0, 3.0]), np.array([6.0, 0.0]), 0.9, 3.0, 0.5)
        (array([1., 0.]), 0.35714285714285715)
    """
    width = most * (1.0 + share / anchor)
    return np.clip((share * would - got + most) / width, 0.0, 1.0), 1.0 / (1.0 + share / anchor)
