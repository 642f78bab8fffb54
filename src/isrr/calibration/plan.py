"""How many judged queries a promise needs, before paying for labels.

    n = ( sd · (z_{1−δ} + κ/√n + z_{power}) / (α − R) )²

R and sd are the mean and deviation of the loss of the configuration one hopes to certify; κ/√n is what betting needs
beyond a normal test. A paired promise has small losses, so its largest bet is capped, which adds log(1/δ)(1 − α)/gap.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from isrr.calibration.basis import judged_in_all
from isrr.calibration.census import refuse_single
from isrr.calibration.fill import segments
from isrr.calibration.paths import temperature_path
from isrr.calibration.terms import Terms
from isrr.calibration.values import values_of
from isrr.counting import counted
from isrr.data.frames import read_queries
from isrr.data.queries import FloatArray, Queries
from isrr.errors import GuaranteeError
from isrr.guarantee import Guarantee, check_probability
from isrr.metrics.disparity import fairness_gain
from isrr.metrics.evaluate import evaluate
from isrr.ranker.gpl import GPLRanker
from isrr.scores.standardize import mean_and_deviation

POWER = 0.8
LEAST_PILOT = 10
KEEP_HEADROOM = 0.5  # with no pilot queries: plan to give up this part of what the promise lets go


def queries_needed(
    mean_loss: float, deviation: float, guarantee: Guarantee, delta: float, power: float = POWER
) -> int | None:
    """Queries to test on with which betting certifies with probability `power`; None when no number is enough.

    Example:
        >>> queries_needed(0.25, 0.28, Guarantee("ndcg", 5, 0.70), delta=0.05)
        237
    """
    alpha = guarantee.tested_alpha
    gap = alpha - mean_loss
    if gap <= 0:
        return None
    kappa = 4.0 if mean_loss < 0.3 else 3.0
    linear = deviation * float(ndtri(1 - delta) + ndtri(power)) / gap
    constant = deviation * kappa / gap
    n = ((linear + math.sqrt(linear**2 + 4 * constant)) / 2) ** 2
    if guarantee.relative:
        n += math.log(1 / delta) * (1 - alpha) / gap
    floor = math.log(1 / delta) / -math.log1p(-alpha)  # wealth grows by at most 1/(1 − α) a query
    return math.ceil(max(n, floor))


@dataclass(frozen=True)
class Milestone:
    """One configuration on the way from deterministic to fair, and what certifying it takes."""

    temperature: float
    utility: float
    fairness_gain: float
    queries_needed: int | None


@dataclass(frozen=True)
class Plan:
    """How many judged queries a promise needs.

    Attributes:
        guarantee: The promise.
        confidence, power: With which it is to hold, and with which probability it is to be certified.
        queries_needed: Judged queries for the safest configuration: with fewer, expect an abstention.
        pessimistic: The same, if the pilot was one standard error too kind.
        milestones: What more queries buy, from safe to fair; empty without pilot queries.
        n_pilot: Pilot queries used.
    """

    guarantee: Guarantee
    confidence: float
    power: float
    queries_needed: int | None
    pessimistic: int | None
    milestones: tuple[Milestone, ...]
    n_pilot: int

    def __str__(self) -> str:
        def needed(n: int | None) -> str:
            return "no number is enough" if n is None else counted(n, "judged query")

        remark = " (with a relevant item each)" if self.guarantee.empty_query == "skip" else ""
        if self.queries_needed is None:
            remark = f": promise less{', or improve the scores' if self.guarantee.utility else ''}"
        lines = [
            f"Plan for {self.guarantee}, confidence {self.confidence:g}, certified {self.power:.0%} of the time",
            f"to certify anything      {needed(self.queries_needed)}{remark}",
        ]
        if self.n_pilot:
            lines.append(
                f"if the pilot was lucky   {needed(self.pessimistic)} (the true risk one standard error above that "
                f"of the {counted(self.n_pilot, 'pilot query')})"
            )
        else:
            lines.append("this is a guess          a pilot of judged queries tells how much their losses vary")
        for milestone in self.milestones:
            lines.append(
                f"for {100 * milestone.fairness_gain:5.1f} % less disparity {needed(milestone.queries_needed):>24}"
                f"   (NDCG@{self.guarantee.k} {milestone.utility:.4f})"
            )
        return "\n".join(lines)


def plan(
    guarantee: str | Guarantee,
    queries: Any = None,
    *,
    confidence: float = 0.95,
    power: float = POWER,
    utility: float | None = None,
    deviation: float = 0.28,
    **options: Any,
) -> Plan:
    """How many judged queries a promise needs.

    Args:
        guarantee: The promise.
        queries: Some judged queries, as a pilot: `Queries`, or what `read_queries` takes; without them, give `utility`.
            A promise per segment is planned for by its neediest segment.
        confidence: With which the promise is to hold.
        power: Probability with which it is to be certified.
        utility: Expected NDCG of the deterministic ranker, where there is no pilot.
        deviation: Its deviation over queries, where there is no pilot (0.28 on MQ2007).
        options: Passed to `Guarantee.parse`.

    Example:
        >>> plan("ndcg@5 >= 0.50", utility=0.55).queries_needed
        232
    """
    if not isinstance(guarantee, str | Guarantee):
        raise TypeError(f"plan takes the promise first, then pilot queries; the first is a {type(guarantee).__name__}")
    promise = Guarantee.parse(guarantee, **options) if isinstance(guarantee, str) else guarantee
    check_probability("confidence", confidence)
    check_probability("power", power)
    delta = 1 - confidence
    if queries is None:
        needed = _guessed(promise, delta, power, utility, deviation)
        return Plan(promise, confidence, power, needed, None, (), 0)
    pilot = _Pilot.of(promise, queries if isinstance(queries, Queries) else read_queries(queries))
    needs = [pilot.queries_needed(c, delta, power) for c in range(len(pilot.rankers))]
    if promise.relative and promise.utility:
        needs[pilot.head] = None  # keeps its own promise by definition, and removes no disparity
    safest = _safest(needs, pilot.head)
    pessimistic = pilot.queries_needed(safest, delta, power, errors=1.0)
    return Plan(promise, confidence, power, needs[safest], pessimistic, _milestones(pilot, needs), pilot.n_queries)


@dataclass(frozen=True, eq=False)
class _Pilot:
    """Configurations from deterministic to fair, or the other way round, on pilot queries.

    Attributes:
        promise: The promise.
        rankers: The configurations.
        losses: In each segment that the promise speaks of, (n_queries there, n_grid).
        utility: Expected NDCG, (n_grid,).
        gains: Share of the deterministic ranker's disparity that each removes.
    """

    promise: Guarantee
    rankers: tuple[GPLRanker, ...]
    losses: list[FloatArray]
    utility: FloatArray
    gains: list[float]

    @classmethod
    def of(cls, promise: Guarantee, queries: Queries) -> "_Pilot":
        """Measured on these queries; too few are refused."""
        refuse_single(int((queries.n_items == 1).sum()), len(queries))
        mean, spread = mean_and_deviation(queries)
        rankers = temperature_path(promise.k, spread, mean, [promise], "the pilot").rankers
        measured = evaluate(queries, rankers, gain_kind=promise.gain_kind, empty_query=promise.empty_query)
        values = values_of(measured, promise, queries, rankers)
        head = _head(rankers)
        kept = ~np.isnan(values[:, head])
        losses = []
        for segment, rows in segments(queries, promise).items():
            _refuse_few(int((rows & kept).sum()), segment, promise)
            losses.append(promise.losses(values[rows & kept], values[rows & kept, head]))
        gains = [fairness_gain(disparity, measured.disparity[:, head]) for disparity in measured.disparity.T]
        return cls(promise, rankers, losses, measured.mean_ndcg, gains)

    @property
    def head(self) -> int:
        """Which configuration is deterministic."""
        return _head(self.rankers)

    @property
    def n_queries(self) -> int:
        """Pilot queries that count."""
        return sum(len(losses) for losses in self.losses)

    def queries_needed(self, c: int, delta: float, power: float, errors: float = 0.0) -> int | None:
        """Judged queries that certify a configuration in every segment; None when no number is enough.

        Args:
            c: Which configuration.
            delta: Tolerated chance of a false certificate.
            power: Probability with which it is to be certified.
            errors: By how many standard errors the true risk lies above the one measured.
        """
        tested: list[float] = []
        for losses in (cell[:, c] for cell in self.losses):
            deviation = float(losses.std())
            risk = float(losses.mean()) + errors * deviation / math.sqrt(losses.size)
            needed = queries_needed(risk, deviation, self.promise, delta, power)
            if needed is None:
                return None
            tested.append(needed * self.n_queries / losses.size)
        return _judged(max(tested), self.promise, delta)


def _head(rankers: Sequence[GPLRanker]) -> int:
    return next(c for c, ranker in enumerate(rankers) if ranker.is_deterministic)


def _refuse_few(n_queries: int, segment: str | None, promise: Guarantee) -> None:
    if n_queries < LEAST_PILOT:
        where = "" if segment is None else f" in segment {segment!r}"
        without = ", or `utility=` and no pilot" if promise.utility and segment is None else ""
        raise GuaranteeError(
            f"pilot queries with a relevant item{where}: {n_queries}; a plan needs {LEAST_PILOT}{without}"
        )


def _safest(needs: list[int | None], head: int) -> int:
    """The configuration that takes the fewest queries; the deterministic one where no number is enough for any."""
    possible = {c: needed for c, needed in enumerate(needs) if needed is not None}
    return min(possible, key=possible.__getitem__) if possible else head


def _milestones(pilot: _Pilot, needs: list[int | None]) -> tuple[Milestone, ...]:
    """For each step of disparity to be removed, the most useful configuration that removes it.

    The steps are such that about six lead to the most that can be certified; one goes beyond.
    """
    most = max((gain for gain, need in zip(pilot.gains, needs, strict=True) if need is not None), default=0.0)
    step = next((step for step in (0.01, 0.02, 0.05) if most <= 6 * step), 0.1)
    chosen = []
    for n_steps in range(1, int(most / step) + 2):
        reaching = [c for c, gain in enumerate(pilot.gains) if gain >= n_steps * step]
        chosen += [max(reaching, key=lambda c: pilot.utility[c])] if reaching else []
    return tuple(
        Milestone(pilot.rankers[c].temperature, float(pilot.utility[c]), pilot.gains[c], needs[c])
        for c in dict.fromkeys(chosen)
    )


def _judged(n_tested: float | None, promise: Guarantee, delta: float) -> int | None:
    """Judged queries that leave so many to test on, those that calibration sets aside included."""
    return None if n_tested is None else judged_in_all(n_tested, Terms((promise,), 1 - delta))


def _guessed(promise: Guarantee, delta: float, power: float, utility: float | None, deviation: float) -> int | None:
    """Judged queries needed where a guess of the utility stands in for a pilot."""
    if not promise.utility:
        raise GuaranteeError("a plan for a promise on fairness needs pilot queries: disparity cannot be guessed")
    if promise.per is not None:
        raise GuaranteeError("a plan for a promise per segment needs pilot queries: how large segments are, they tell")
    if utility is None:
        raise GuaranteeError("a plan needs judged pilot queries, or `utility=`, the expected NDCG of the scores")
    if not 0 < utility <= 1:
        raise GuaranteeError(f"`utility=` must be the expected NDCG of the scores, in (0, 1]; got {utility}")
    if not 0 < deviation <= 0.5:
        raise GuaranteeError(f"deviation must lie in (0, 0.5], as NDCG lies in [0, 1]; got {deviation}")
    risk, spread = 1 - utility, deviation
    if promise.relative:
        given_up = KEEP_HEADROOM * (1 - promise.target) * utility
        risk = (promise.target * utility - (utility - given_up) + 1) / (1 + promise.target)
        spread = 0.4 * deviation / (1 + promise.target)
    return _judged(queries_needed(risk, spread, promise, delta, power), promise, delta)
