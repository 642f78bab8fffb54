"""What a calibration says in the end: a certificate or an abstention, drawn up from the verdict and the risk table."""

import numpy as np

from isrr.calibration.basis import judged_again
from isrr.calibration.certify import Tested, Verdict
from isrr.calibration.paths import Path
from isrr.calibration.plan import queries_needed
from isrr.calibration.table import RiskTable
from isrr.calibration.targets import RetargetedValues
from isrr.calibration.terms import Terms
from isrr.certificate import Abstention, Certificate
from isrr.counting import counted
from isrr.errors import GuaranteeError
from isrr.findings import Estimate, Point, Provenance, Test
from isrr.ranker.gpl import GPLRanker


def draw_up(
    table: RiskTable, path: Path, verdict: Verdict, terms: Terms, provenance: Provenance
) -> Certificate | Abstention:
    """The certificate of the configuration that was chosen; the abstention, with its reason, where none was."""
    delta = terms.delta
    utility, utility_error = table.moments.mean_utility()
    disparity, disparity_error = table.moments.mean_disparity()
    gain, gain_error = table.moments.fairness_gain()
    bounds = _bounds(table, verdict, delta)
    curve = tuple(
        Point(
            ranker,
            Estimate.around(utility[c], utility_error[c]),
            Estimate.around(disparity[c], disparity_error[c]),
            Estimate.around(gain[c], gain_error[c]),
            c in verdict.certified,
            bounds[c],
        )
        for ranker, c in ((ranker, table.grid.index(ranker)) for ranker in path.rankers)
    )
    if verdict.chosen is None:
        fairest = table.grid.index(path.rankers[0])
        tests = tuple(_test(r, 0 if r.cell.guarantee.utility else fairest, delta) for r in verdict.tested)
        reason, n_tested = _why(table, path, verdict, terms.level_each(len(path.rankers)))
        needed = None if n_tested is None else judged_again(n_tested, terms.guarantees, provenance)
        ranker = GPLRanker.deterministic(terms.k)
        return Abstention(terms.guarantees, terms.confidence, ranker, tests, curve, provenance, reason, needed)
    c = verdict.chosen
    return Certificate(
        terms.guarantees,
        terms.confidence,
        table.grid[c],
        tuple(_test(result, c, delta) for result in verdict.tested),
        curve,
        provenance,
        utility=Estimate.around(utility[c], utility_error[c]),
        disparity=Estimate.around(disparity[c], disparity_error[c]),
        fairness_gain=Estimate.around(gain[c], gain_error[c]),
        deterministic_utility=Estimate.around(utility[0], utility_error[0]),
    )


def _bounds(table: RiskTable, verdict: Verdict, delta: float) -> list[float | None]:
    """Each configuration's upper bound on the first promise's risk, where that is not too dear."""
    bounds = verdict.tested[0].rough_bounds(delta)
    return [None] * len(table.grid) if bounds is None else [float(bound) for bound in bounds]


def _test(result: Tested, column: int, delta: float) -> Test:
    bound = float(result.upper_bound([column], delta)[0])
    return Test(
        result.cell.guarantee,
        result.cell.segment,
        result.cell.n_queries,
        result.evidence,
        float(result.mean_loss[column]),
        None if np.isnan(bound) else bound,
        result.pvalue(column, delta),
        _level_certified(result, column, bound, delta),
    )


def _level_certified(result: Tested, column: int, bound: float, delta: float) -> float | None:
    """The strongest target these queries would certify for one configuration, rounded to the safe side."""
    guarantee = result.cell.guarantee
    if np.isnan(bound) or (guarantee.relative and result.cell.losses is None):
        return None
    slack = guarantee.alpha - guarantee.tested_alpha
    if guarantee.relative:
        again = RetargetedValues.of_losses(guarantee, result.evidence, result.losses(), [column])
        share = float(again.target(again.strongest(delta, 1000), 1000)[0])
    elif guarantee.utility:
        share = np.floor((1 - bound - slack) * 1e4) / 1e4
    else:
        share = np.ceil((bound + slack) * (guarantee.bound or 1.0) * 1e4) / 1e4
    try:
        guarantee.at(float(share))
    except GuaranteeError:
        return None
    return float(share)


def _why(table: RiskTable, path: Path, verdict: Verdict, delta: float) -> tuple[str, float | None]:
    """Why nothing was certified, and how many queries to test on would do."""
    safest = next((c for c in (table.grid.index(r) for r in path.rankers) if c != 0), 0)
    head = table.grid.index(path.rankers[0])
    needed: list[float | None] = []
    reasons: list[str] = []
    for result in verdict.tested:
        guarantee = result.cell.guarantee
        c = safest if guarantee.relative and guarantee.utility else head
        where = "" if result.cell.segment is None else f" in segment {result.cell.segment!r}"
        risk, deviation = float(result.mean_loss[c]), float(result.deviation[c])
        if result.pvalues[c] <= delta:
            continue
        in_cell = queries_needed(risk, deviation, guarantee, delta)
        needed.append(None if in_cell is None else in_cell * table.moments.n_queries / result.cell.n_queries)
        best = f"{'safest' if guarantee.utility else 'fairest'} configuration{where}"
        if risk > guarantee.tested_alpha:
            reasons.append(f"'{guarantee}' is not met even by the {best}, at {_measured(result, c)}")
        else:
            reasons.append(
                f"'{guarantee}' is met by the {best}, but "
                f"{counted(result.cell.n_queries, 'query')} cannot prove it: "
                f"risk {risk:.4f} against {guarantee.alpha:.4f} tolerated"
            )
    if not reasons:
        return "no configuration keeps all promises together", None
    return "; ".join(reasons), None if None in needed else max(n for n in needed if n is not None)


def _measured(result: Tested, column: int) -> str:
    """The promised quantity as measured, in the words of the promise."""
    guarantee, risks = result.cell.guarantee, result.mean_loss
    value, deterministic = guarantee.values(risks[column], risks[0])
    return f"{100 * value / deterministic:.1f}% of deterministic" if guarantee.relative else f"{value:.4f}"
