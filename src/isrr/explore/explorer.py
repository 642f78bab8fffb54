"""What calibration would have said about other promises, so that a page can answer by comparing numbers.

For every configuration of the path and every confidence: the strongest target that the judged queries certify. The
configurations certified at any target are then those before the first whose level is too low, as `certify` finds them.
The declared promise alone carries the certificate. Any other, chosen after looking, answers "what if"; what holds for
all of them together is the band of `isrr.explore.band`.
"""

from dataclasses import dataclass, replace

import numpy as np

from isrr.calibration.certify import KeptSample, Rule, Sample, cost_of
from isrr.calibration.needed import judged_in_all
from isrr.calibration.quality import quality_shares
from isrr.calibration.request import Request
from isrr.calibration.table import Values
from isrr.certificate import Abstention, Certificate
from isrr.data.queries import FloatArray
from isrr.explore.band import LEAST_TO_SHAPE, declared_stops, expected_half_width, simultaneous
from isrr.explore.retrace import Retraced
from isrr.metrics.evaluate import evaluate
from isrr.promises.promise import values_alone
from isrr.ranker.gpl import GPLRanker
from isrr.risk.evidence import NAMED as EVIDENCE
from isrr.risk.lattice import BoolArray, IntArray
from isrr.risk.select import NAMED as SELECTIONS

CONFIDENCES = (0.90, 0.95, 0.99)
STEPS = 1_000_000
PER_STOP = 1_000  # a slider moves by a thousandth
MARGIN = 40  # slider stops beyond what is measured
BREADTH = 3  # towards weaker promises the slider goes this many times as far as towards stronger ones, …
LEAST_BREADTH = 100  # … and at least so many stops


@dataclass(frozen=True)
class Stop:
    """A promise declared beforehand and tested together with others: its target and the configuration certified."""

    target: float
    configuration: int | None


@dataclass(frozen=True)
class Reading:
    """Everything at one confidence, configurations in the order of the path.

    Attributes:
        confidence: Over one promise alone, or over all of a band.
        levels: Strength of the strongest target certified, in millionths; see `isrr.calibration.certify`.
        others_hold: Whether all promises but the first are certified.
        band: Targets that hold for all configurations together; None where no band could be shaped.
        stops: Where there is no band: promises declared beforehand, at δ/m each.
        needed: For each slider stop where nothing is certified, how many judged queries would do; None where none
            would.
    """

    confidence: float
    levels: tuple[int, ...]
    others_hold: tuple[bool, ...]
    band: tuple[float, ...] | None
    stops: tuple[Stop, ...]
    needed: tuple[int | None, ...]


@dataclass(frozen=True)
class Explorer:
    """What a slider over the first promise needs.

    Attributes:
        promises: The promise at each slider stop, from weak to strong, as `isrr calibrate` reads it.
        targets, strengths: Their targets, and those as strengths in millionths.
        declared: Which stop is the declared promise.
        measured: The promised quantity of each configuration, in the worst segment where there are several.
        second: The same of the other promise, where there are two, of all queries; empty otherwise.
        rule: How one configuration is chosen.
        by_definition: Configurations that keep the first promise by definition.
        n_tests: Over how many tests δ is split for `levels` and `others_hold`.
        shaped_by: How many queries that were not tested on shaped the band; 0 where there is none.
        readings: One a confidence.
    """

    promises: tuple[str, ...]
    targets: tuple[float, ...]
    strengths: tuple[float, ...]
    declared: int
    measured: tuple[float, ...]
    second: tuple[float, ...]
    rule: Rule
    by_definition: tuple[bool, ...]
    n_tests: int
    shaped_by: int
    readings: tuple[Reading, ...]


def explore(found: Retraced) -> Explorer | None:
    """What a slider over the first promise needs; None where configurations are not tested along the path."""
    outcome = found.outcome
    first, selection = outcome.promises[0], outcome.provenance.selection
    if selection not in ("fixed_sequence", "band"):
        return None
    cells = [found.of(promise) for promise in outcome.promises]
    lead, rule = cells[0][0], rule_of(found)
    n_tests = 1
    measured = lead.target(np.min([cell.strength(cell.measured(), 1) for cell in cells[0]], axis=0), 1)
    confidences = sorted({*CONFIDENCES, outcome.confidence})
    deltas = [(1 - confidence) / outcome.provenance.planned_looks for confidence in confidences]
    by_segment = [[cell.strongest(delta, STEPS, n_tests) for cell in cells[0]] for delta in deltas]
    levels = [np.min(each, axis=0) for each in by_segment]
    held = [_others_hold(cells[1:], found, delta, n_tests) for delta in deltas]
    bought = "fairness_gain" if first.safe_end == "cold" else "utility"
    peak = int(np.argmax([getattr(point, bought).value for point in outcome.curve]))
    useful = slice(0, peak + 1)  # beyond the peak, a weaker promise buys nothing
    targets = _slider(lead, np.concatenate([level[useful] for level in levels]), measured[useful])
    shape = band_shape(found, lead)
    readings = [
        Reading(
            confidence,
            tuple(int(x) for x in levels[i]),
            tuple(bool(x) for x in held[i]),
            None if shape is None else banded(cells[0], deltas[i], levels[i] if n_tests == 1 else None, shape),
            _stops(cells, deltas[i], rule, found) if shape is None else (),
            _needed(cells, by_segment[i], held[i], deltas[i], n_tests, rule, targets, outcome),
        )
        for i, confidence in enumerate(confidences)
    ]
    return Explorer(
        tuple(str(replace(first, per=None).at(float(t))) for t in targets),
        tuple(float(t) for t in targets),
        tuple(float(s) for s in lead.strength(targets, STEPS)),
        int(np.flatnonzero(targets == first.target)[0]),
        tuple(float(m) for m in measured),
        tuple(cells[1][0].measured().tolist()) if len(cells) == 2 and len(cells[0]) == len(cells[1]) == 1 else (),
        rule,
        tuple(lead.exempt.tolist()),
        n_tests,
        0 if shape is None or found.others is None else len(found.others),
        tuple(readings),
    )


def _others_hold(cells: list[list[Sample]], found: Retraced, delta: float, n_tests: int) -> BoolArray:
    hold = np.ones(len(found.outcome.curve), bool)
    for cell in (cell for promise in cells for cell in promise):
        hold &= cell.exempt | cell.holds(cell.targets, delta, n_tests)
    return hold


def rule_of(found: Retraced) -> Rule:
    """The rule that an outcome was chosen by."""
    outcome = found.outcome
    utility, disparity = (
        np.array([getattr(p, name).value for p in outcome.curve]) for name in ("utility", "disparity")
    )
    rankers = found.path.rankers
    remaining = quality_shares(found.sample, rankers, outcome.promises) if values_alone(outcome.promises) else None
    cost = cost_of(outcome.promises, utility, disparity, remaining)
    return Rule.of(found.path, outcome.promises, cost, SELECTIONS["fixed_sequence"])


def _slider(lead: Sample, levels: IntArray, measured: FloatArray) -> FloatArray:
    """Targets a thousandth apart around what was measured and what is certified; the declared one among them."""
    strengths = np.concatenate((levels, lead.strength(measured, STEPS))) / STEPS * PER_STOP
    declared = float(lead.strength(lead.promise.target, PER_STOP))
    high = min(int(max(strengths.max(), declared)) + MARGIN, PER_STOP - 1)
    middle = min(declared, strengths.max())
    breadth = max(BREADTH * (high - middle), LEAST_BREADTH)
    low = max(int(strengths.min()) - MARGIN // 4, int(middle - breadth), 1)
    targets = lead.target(np.arange(low, high + 1), PER_STOP)
    targets = np.append(targets[np.abs(targets - lead.promise.target) > 1e-9], lead.promise.target)
    return targets[np.argsort(lead.strength(targets, STEPS))]


def band_shape(found: Retraced, lead: Sample) -> tuple[FloatArray, FloatArray] | None:
    """Expected shortfall (1 − strength) and half-width of each configuration, from queries not tested on."""
    others, first = found.others, lead.promise
    if others is None or ("relevance" in first.columns and others.relevance is None):
        return None
    grid = [GPLRanker.deterministic(found.outcome.k), *found.path.rankers]
    values = evaluate(others, grid, [first.measure])[first.measure]
    seen = Values(values, first.reference(others, values[:, 0]))
    if seen.counted.sum() < LEAST_TO_SHAPE:
        return None
    pilot = KeptSample.of(first, None, EVIDENCE.get(lead.evidence, EVIDENCE["betting"]), seen, found.path)
    mean = float(pilot.reference.mean()) if first.of is not None else 1.0
    width = expected_half_width(pilot.deviation() / np.ptp(first.target_range), lead.n_queries, mean)
    return 1 - pilot.strength(pilot.measured(), 1), width


def banded(
    cells: list[Sample], delta: float, levels: IntArray | None, shape: tuple[FloatArray, FloatArray]
) -> tuple[float, ...]:
    """Targets that hold together, from levels at the whole delta; those are found where they are not given."""
    if levels is None:
        levels = np.min([cell.strongest(delta, STEPS) for cell in cells], axis=0)
    shortfall = np.zeros(levels.size)
    tested = ~cells[0].exempt
    shortfall[tested] = simultaneous(1 - levels[tested] / STEPS, shape[0][tested], shape[1][tested])
    return tuple(float(t) for t in cells[0].target(np.clip(1 - shortfall, 0.0, 1.0), 1))


def _stops(cells: list[list[Sample]], delta: float, rule: Rule, found: Retraced) -> tuple[Stop, ...]:
    """Promises declared beforehand, each tested along the path at δ/m."""
    lead, along = cells[0][0], replace(rule, one_by_one=False)
    declared = declared_stops(lead.promise)
    part = delta / len(declared)
    levels = np.min([cell.strongest(part, STEPS) for cell in cells[0]], axis=0)
    held = _others_hold(cells[1:], found, part, 1)
    return tuple(
        Stop(promise.target, along.chosen(_passing(lead, levels, held, float(lead.strength(promise.target, STEPS)))))
        for promise in declared
    )


def _passing(lead: Sample, levels: IntArray, held: BoolArray, strength: float) -> BoolArray:
    """Which configurations pass at a target of this strength."""
    return (lead.exempt | (levels >= strength)) & held


def _needed(
    cells: list[list[Sample]],
    by_segment: list[IntArray],
    held: BoolArray,
    delta: float,
    n_tests: int,
    rule: Rule,
    targets: FloatArray,
    outcome: Certificate | Abstention,
) -> tuple[int | None, ...]:
    """As an abstention says it: for the safest configuration, the largest number any promise asks for."""
    made = outcome.provenance
    path = "auto" if made.requested_path == "custom" else made.requested_path
    request = Request(outcome.promises, outcome.confidence, path, EVIDENCE.get(made.evidence, EVIDENCE["betting"]))
    share, given = made.n_queries / (made.n_queries + made.n_skipped), made.n_set_aside == 0

    def wanted(cell: Sample, target: float) -> int | None:
        in_cell = cell.needed_by_formula(cell.safest, delta / n_tests, target)  # by formula: stops are many
        if in_cell is None:
            return None
        return judged_in_all(in_cell * made.n_queries / cell.n_queries, request, given=given, share_counted=share)

    fixed = []
    for cell in (cell for promise in cells[1:] for cell in promise):
        if not cell.holds(cell.targets, delta, n_tests)[cell.safest]:
            fixed.append(wanted(cell, cell.promise.target))
    needed: list[int | None] = []
    levels = np.min(by_segment, axis=0)
    for target, strength in zip(targets.tolist(), cells[0][0].strength(targets, STEPS).tolist(), strict=True):
        if rule.chosen(_passing(cells[0][0], levels, held, strength)) is not None:
            needed.append(None)
            continue
        failing = [cell for cell, level in zip(cells[0], by_segment, strict=True) if level[cell.safest] < strength]
        counts = fixed + [wanted(cell, target) for cell in failing]
        needed.append(None if None in counts or not counts else max(n for n in counts if n is not None))
    return tuple(needed)
