"""How many judged queries a promise needs, before paying for labels.

    n = ( sd · (z_{1−δ} + κ/√n + z_{power}) / (α − R) )²

R and sd are the mean and deviation of the loss of the configuration one hopes to certify; κ/√n is what betting needs
beyond a normal test. A paired promise has small losses, so its largest bet is capped, which adds log(1/δ)(1 − α)/gap.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from isrr.calibration.basis import judged_in_all
from isrr.calibration.census import refuse_single
from isrr.calibration.paths import temperature_path
from isrr.calibration.terms import Terms
from isrr.calibration.values import values_of
from isrr.counting import counted
from isrr.data.queries import Queries
from isrr.errors import GuaranteeError
from isrr.guarantee import Guarantee, check_probability
from isrr.metrics.disparity import fairness_gain
from isrr.metrics.evaluate import evaluate
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

        remark = " (with a relevant item each)"
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
        for milestone in self.milestones:
            lines.append(
                f"for {100 * milestone.fairness_gain:5.1f} % less disparity {needed(milestone.queries_needed):>24}"
                f"   (NDCG@{self.guarantee.k} {milestone.utility:.4f})"
            )
        return "\n".join(lines)


def plan(
    guarantee: str | Guarantee,
    queries: Queries | None = None,
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
        queries: Some judged queries, as a pilot; without them, give `utility`.
        confidence: With which the promise is to hold.
        power: Probability with which it is to be certified.
        utility: Expected NDCG of the deterministic ranker, where there is no pilot.
        deviation: Its deviation over queries, where there is no pilot (0.28 on MQ2007).
        options: Passed to `Guarantee.parse`.

    Example:
        >>> plan("ndcg@5 >= 0.50", utility=0.55).queries_needed
        232
    """
    promise = Guarantee.parse(guarantee, **options) if isinstance(guarantee, str) else guarantee
    check_probability("confidence", confidence)
    check_probability("power", power)
    delta = 1 - confidence
    if queries is None:
        return _without_pilot(promise, delta, power, utility, deviation)
    refuse_single(int((queries.n_items == 1).sum()), len(queries))
    mean, spread = mean_and_deviation(queries)
    path = temperature_path(promise.k, spread, mean, [promise], "the pilot")
    measured = evaluate(queries, path.rankers, gain_kind=promise.gain_kind, empty_query=promise.empty_query)
    values = values_of(measured, promise, queries, path.rankers)
    head = next(c for c, ranker in enumerate(path.rankers) if ranker.is_deterministic)
    kept = ~np.isnan(values[:, head])
    if kept.sum() < LEAST_PILOT:
        raise GuaranteeError(
            f"pilot queries with a relevant item: {kept.sum()}; a plan needs {LEAST_PILOT}, or `utility=` and no pilot"
        )
    losses = promise.losses(values[kept], values[kept, head])
    needed = [_judged(float(x.mean()), float(x.std()), promise, delta, power) for x in losses.T]
    reference = measured.disparity[:, head]
    gains = [fairness_gain(measured.disparity[:, c], reference) for c in range(len(path.rankers))]
    if promise.relative and promise.utility:
        needed[head] = None  # keeps its own promise by definition, and removes no disparity
    possible = [n for n in needed if n is not None]
    safest = int(np.argmin([n if n is not None else np.inf for n in needed])) if possible else head
    error = float(losses[:, safest].std() / math.sqrt(len(losses)))
    risk, spread_of = float(losses[:, safest].mean()), float(losses[:, safest].std())
    milestones = []
    for wanted in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6):
        reaching = [c for c in range(len(gains)) if gains[c] >= wanted]
        if reaching:
            c = max(reaching, key=lambda c: measured.mean_ndcg[c])
            milestones.append(Milestone(path.rankers[c].temperature, float(measured.mean_ndcg[c]), gains[c], needed[c]))
    return Plan(
        promise, confidence, power, needed[safest],
        _judged(risk + error, spread_of, promise, delta, power), tuple(milestones), len(losses),
    )  # fmt: skip


def _judged(mean_loss: float, deviation: float, promise: Guarantee, delta: float, power: float) -> int | None:
    """Judged queries, those that calibration sets aside included."""
    n_tested = queries_needed(mean_loss, deviation, promise, delta, power)
    return None if n_tested is None else judged_in_all(n_tested, Terms((promise,), 1 - delta))


def _without_pilot(promise: Guarantee, delta: float, power: float, utility: float | None, deviation: float) -> Plan:
    if not promise.utility:
        raise GuaranteeError("a plan for a promise on fairness needs pilot queries: disparity cannot be guessed")
    if utility is None:
        raise GuaranteeError("a plan needs judged pilot queries, or `utility=`, the expected NDCG of the scores")
    if not 0 < utility <= 1:
        raise GuaranteeError(f"`utility=` must be the expected NDCG of the scores, in (0, 1]; got {utility}")
    if not 0 < deviation <= 0.5:
        raise GuaranteeError(f"deviation must lie in (0, 0.5], as NDCG lies in [0, 1]; got {deviation}")
    if promise.relative:
        given_up = KEEP_HEADROOM * (1 - promise.target) * utility
        mean = (promise.target * utility - (utility - given_up) + 1) / (1 + promise.target)
        needed = _judged(mean, 0.4 * deviation / (1 + promise.target), promise, delta, power)
    else:
        needed = _judged(1 - utility, deviation, promise, delta, power)
    return Plan(promise, 1 - delta, power, needed, None, (), 0)
