"""`calibrate`: judged queries and a promise in, a certificate or an abstention out."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from isrr.calibration.census import Census, TakeCensus
from isrr.calibration.certify import Tested, Verdict, certify
from isrr.calibration.fill import Fill
from isrr.calibration.paths import NAMES, Path, front_path, temperature_path, threshold_path
from isrr.calibration.plan import queries_needed
from isrr.calibration.sample import ALL, FindShared, Gather, enough, smallest_keys
from isrr.calibration.source import Where, open_source
from isrr.calibration.table import RiskTable, canonical_order, hash_key
from isrr.calibration.targets import RetargetedValues
from isrr.calibration.task import Source, Together
from isrr.certificate import THE_TESTED, Abstention, Certificate, Estimate, Point, Provenance, Test
from isrr.counting import counted
from isrr.data.queries import FloatArray, Queries
from isrr.errors import DataError, GuaranteeError
from isrr.gains import ideal_dcg
from isrr.guarantee import Guarantee, check_probability, move_together
from isrr.parallel import Progress
from isrr.ranker.gpl import GPLRanker
from isrr.risk.evidence import check_delta
from isrr.risk.evidence import evidence as named_evidence
from isrr.risk.select import SELECTIONS
from isrr.scores.standardize import mean_and_deviation

SET_ASIDE_FROM = 300  # judged queries from which setting some aside for score map and family pays (docs/guarantees.md)
SET_ASIDE_SHARE = 0.2
MOST_SET_ASIDE = 2_000
SAMPLE = 20_000  # tested queries, those of smallest key, that score and eligibility quantiles are taken from
FOR_THE_SCALE = 20  # queries that fix a score deviation well enough, when that is all they fix


def calibrate(
    queries: Any,
    guarantee: str | Guarantee | Sequence[str | Guarantee],
    confidence: float = 0.95,
    *,
    k: int | None = None,
    validation: Queries | None = None,
    path: str | Sequence[GPLRanker] = "auto",
    evidence: str = "betting",
    selection: str = "fixed_sequence",
    seed: int = 0,
    attempts: int = 1,
    progress: Progress | None = None,
    engine: str = "local",
    **where: Unpack[Where],
) -> Certificate | Abstention:
    """Choose the fairest ranker whose promise holds with the given confidence; or, promising fairness, the most useful.

    Args:
        queries: Judged queries, a random sample of those to come: `Queries`, or the path of a file, a glob of Parquet
            files, a table of pandas, polars, pyarrow or Spark.
        guarantee: One promise or several, as text or as `Guarantee`; several must all hold.
        confidence: Probability, over the judged queries, with which the promise holds.
        k: Length of the lists; must agree with the promise, which names it.
        validation: Other judged queries, which may fix the path and the score map freely.
        path: "auto", "temperature", "front", "thresholds", "paper", or rankers in the order to be tested. "auto" is
            "front" on validation queries; without any, from 300 judged queries on, a share of them is set aside for it,
            and below that "temperature".
        evidence: Name of the test, see `isrr.risk.evidence`.
        selection: "fixed_sequence", "holm", "bonferroni", "split" (learn the path on one part, test on the other), or
            "pointwise" (the paper's, without a guarantee over the path).
        seed: Names the noise, where rankings are drawn.
        attempts: How many looks at the data are planned; delta is split over them.
        progress: Called with (done, in all), anew in each pass: queries at hand, else files or Spark's tasks.
        engine: "local", or "spark" (or "dask") to calibrate where the queries are. All give the same bits.
        where: `columns`, `trust_layout`, `master` and `partitions`, for queries that are not at hand; see
            `isrr.calibration.source.Where`.

    Returns:
        A `Certificate`, or an `Abstention` with its reason and the deterministic ranker.
    """
    guarantees = _promises(guarantee, k)
    delta = _level(confidence, attempts)
    named_evidence(evidence)
    _refuse_unknown(path, selection)
    with closing(open_source(queries, engine, **where)) as source:
        return _calibrated(
            source, guarantees, confidence, delta, validation, path, evidence, selection, seed, attempts, progress
        )


def _calibrated(
    source: Source,
    guarantees: tuple[Guarantee, ...],
    confidence: float,
    delta: float,
    validation: Queries | None,
    path: str | Sequence[GPLRanker],
    evidence: str,
    selection: str,
    seed: int,
    attempts: int,
    progress: Progress | None,
) -> Certificate | Abstention:
    """Passes over the queries: count them, fetch those set aside where there are any, evaluate the others."""
    census = source.run(TakeCensus(guarantees), progress)
    _refuse_unusable(census)
    n_aside = _n_set_aside(census.n_queries, validation, path, selection, guarantees)
    aside = first_tested = None
    if n_aside:
        drawn = smallest_keys(source, n_aside + 1, census.n_queries, progress=progress)
        aside, first_tested = drawn[:n_aside], int(drawn.keys[n_aside])
    if validation is not None:
        _refuse_shared(source, census, validation)
    way = _path(path, source, aside, validation, guarantees)
    grid = tuple(dict.fromkeys([GPLRanker.deterministic(guarantees[0].k), *way.rankers]))
    rule = "fixed_sequence" if selection == "split" else selection
    tuned_delta = delta / len(way.rankers) if rule in ("bonferroni", "holm") else delta
    task = Fill.planned(
        census, grid, guarantees, delta=tuned_delta, evidence=evidence, seed=seed,
        aside=None if aside is None else TakeCensus(guarantees).summary([aside]), aside_below=first_tested or 0,
    )  # fmt: skip
    wanted = n_aside + SAMPLE
    table, found = source.run(Together(task, enough(wanted, census.n_queries)), progress)
    _refuse_change(census, task, table, n_aside)
    sample = smallest_keys(source, wanted, census.n_queries, found)[n_aside:]
    verdict = certify(table, way, delta=delta, evidence=evidence, selection=rule)
    provenance = Provenance(
        n_queries=table.moments.n_queries,
        n_skipped=table.n_skipped,
        n_set_aside=n_aside,
        path=way.name,
        path_basis=way.basis,
        evidence=evidence,
        selection=selection,
        method=table.method,
        n_draws=table.n_draws,
        seed=seed,
        data=census.fingerprint,
        hash_key="" if task.summed else hash_key(table.keys).hex(),
        made_ids=source.made_ids,
        score_quantiles=_quantiles(sample.need_scores()),
        planned_looks=attempts,
    )
    outcome = _outcome(table, way, verdict, guarantees, confidence, delta, provenance)
    first_place = np.maximum.reduceat(outcome.ranker.eligibility(sample), sample.offsets[:-1])
    return replace(outcome, provenance=replace(provenance, eligibility_quantiles=_quantiles(first_place)))


def _quantiles(values: FloatArray) -> tuple[float, ...]:
    return tuple(np.quantile(values, [0.001, 0.01, 0.5, 0.99, 0.999]).tolist())


def _promises(guarantee: str | Guarantee | Sequence[str | Guarantee], k: int | None) -> tuple[Guarantee, ...]:
    several = [guarantee] if isinstance(guarantee, str | Guarantee) else list(guarantee)
    promises = tuple(Guarantee.parse(g) if isinstance(g, str) else g for g in several)
    if not promises:
        raise GuaranteeError("nothing is promised: give at least one guarantee")
    if k is not None and any(g.k != k for g in promises):
        raise GuaranteeError(f"k={k} does not agree with '{promises[0]}', which names its own k")
    for name in ("k", "gain_kind", "empty_query"):
        if len({getattr(g, name) for g in promises}) > 1:
            raise GuaranteeError(f"promises made together share one {name}; these do not")
    return promises


def _level(confidence: float, attempts: int) -> float:
    check_probability("confidence", confidence)
    if attempts < 1:
        raise GuaranteeError(f"attempts must be ≥ 1, got {attempts}; it is the number of looks that are planned")
    delta = (1 - confidence) / attempts
    check_delta(delta)
    return delta


def _refuse_unknown(path: str | Sequence[GPLRanker], selection: str) -> None:
    if selection not in (*SELECTIONS, "split"):
        raise GuaranteeError(f"no selection is called {selection!r}; there are {', '.join([*SELECTIONS, 'split'])}")
    if isinstance(path, str) and path not in NAMES:
        raise GuaranteeError(f"no path is called {path!r}; there are {', '.join(NAMES)}")


def _refuse_unusable(census: Census) -> None:
    if census.n_queries < 2:
        found = "is one query" if census.n_queries else "are no queries"
        raise DataError(f"there {found}; a promise about new queries needs many judged ones")
    if census.lowest == census.highest:
        raise DataError("all scores are equal: they rank nothing")
    if census.n_relevant == 0:
        raise DataError("no query has a relevant item: there is no utility to promise anything about")


def _refuse_change(census: Census, task: Fill, table: RiskTable, n_aside: int) -> None:
    """A query lost or counted twice between two passes would void the promise."""
    seen = table.moments.n_queries + table.n_skipped + n_aside
    planned: dict[str | None, int] = {None: task.n_judged, **dict(task.by_segment)}
    if seen != census.n_queries or any(cell.n_queries != planned[cell.segment] for cell in table.cells):
        raise DataError(
            f"{census.n_queries:,} queries were counted and {seen:,} seen when testing; each must have its rows in one "
            "place, and they may not change while being read"
        )


def _n_set_aside(
    n_queries: int,
    validation: Queries | None,
    path: str | Sequence[GPLRanker],
    selection: str,
    guarantees: Sequence[Guarantee],
) -> int:
    """How many queries, those of smallest key, fix the path and are not tested on."""
    if validation is not None or path == "paper" or not isinstance(path, str):
        return 0
    many = path == "auto" and n_queries >= SET_ASIDE_FROM
    learns = selection == "split" or path == "front" or not move_together(guarantees) or many
    n_aside = round(SET_ASIDE_SHARE * n_queries) if learns else FOR_THE_SCALE
    return int(np.clip(n_aside, 1, min(MOST_SET_ASIDE, n_queries - 1)))


def _refuse_shared(source: Source, census: Census, validation: Queries) -> None:
    """A path fixed on the very queries it is tested on would void the promise."""
    if source.made_ids or validation.made_ids:
        shared = census.fingerprint == validation.fingerprint
        which = "the validation queries are the judged ones"
    else:
        both = source.run(FindShared(frozenset(validation.keys.tolist())))
        shared = bool(both)
        first = str(validation.query_ids[np.isin(validation.keys, list(both))][0]) if shared else ""
        which = f"judged queries that are validation queries too: {len(both):,}, {first!r} among them"
    if shared:
        raise DataError(f"{which}; the path must be fixed without the queries it is tested on: give others, or none")


def _in_canonical_order(queries: Queries) -> Queries:
    """Sums over queries then have the same bits whatever order they came in."""
    return queries[canonical_order(queries.keys)]


def _path(
    path: str | Sequence[GPLRanker],
    source: Source,
    aside: Queries | None,
    validation: Queries | None,
    guarantees: Sequence[Guarantee],
) -> Path:
    k = guarantees[0].k
    if not isinstance(path, str):
        rankers = tuple(path)
        if not rankers or any(ranker.k != k for ranker in rankers):
            raise GuaranteeError(f"a path needs rankers with the promise's own k = {k}")
        return Path(rankers, "custom", "the caller", falling=False)
    if validation is not None:
        fixed_by, basis = _in_canonical_order(validation), counted(len(validation), "validation query")
    elif aside is not None:
        fixed_by, basis = _in_canonical_order(aside), f"{counted(len(aside), 'judged query')} set aside"
    else:
        judged = source.run(Gather(ALL))
        assert judged is not None
        fixed_by, basis = judged, THE_TESTED
    if path in ("paper", "thresholds"):
        return threshold_path(fixed_by, k, guarantees, paper=path == "paper", basis=basis)
    learnable = fixed_by.relevance is not None and (
        ideal_dcg(fixed_by, k=k, gain_kind=guarantees[0].gain_kind) > 0
    ).sum() >= min(FOR_THE_SCALE + 1, len(fixed_by))
    if path == "temperature" or not (learnable and len(fixed_by) > FOR_THE_SCALE):
        mean, deviation = mean_and_deviation(fixed_by)
        return temperature_path(k, deviation, mean, guarantees, basis)
    return front_path(fixed_by, k, guarantees, basis)


def _outcome(
    table: RiskTable,
    path: Path,
    verdict: Verdict,
    guarantees: tuple[Guarantee, ...],
    confidence: float,
    delta: float,
    provenance: Provenance,
) -> Certificate | Abstention:
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
        tests = tuple(_test(result, 0, delta) for result in verdict.tested)
        n_tests = len(path.rankers) if provenance.selection in ("bonferroni", "holm") else 1
        reason, needed = _why(table, path, verdict, delta / n_tests)
        ranker = GPLRanker.deterministic(guarantees[0].k)
        return Abstention(guarantees, confidence, ranker, tests, curve, provenance, reason, needed)
    c = verdict.chosen
    return Certificate(
        guarantees,
        confidence,
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


def _why(table: RiskTable, path: Path, verdict: Verdict, delta: float) -> tuple[str, int | None]:
    """Why nothing was certified, and how many queries would do."""
    safest = next((c for c in (table.grid.index(r) for r in path.rankers) if c != 0), 0)
    head = table.grid.index(path.rankers[0])
    needed: list[int | None] = []
    reasons: list[str] = []
    for result in verdict.tested:
        guarantee = result.cell.guarantee
        c = safest if guarantee.relative and guarantee.utility else head
        where = "" if result.cell.segment is None else f" in segment {result.cell.segment!r}"
        risk, alpha = float(result.mean_loss[c]), guarantee.tested_alpha
        deviation = float(result.deviation[c])
        if result.pvalues[c] <= delta:
            continue
        needed.append(queries_needed(risk, deviation, guarantee, delta))
        if risk > alpha:
            reasons.append(f"'{guarantee}' is not met even by the safest configuration{where}")
        else:
            reasons.append(
                f"'{guarantee}' is met by the safest configuration{where}, but "
                f"{counted(result.cell.n_queries, 'query')} cannot prove it: "
                f"risk {risk:.4f} against {alpha:.4f} tolerated"
            )
    if not reasons:
        return "no configuration keeps all promises together", None
    return "; ".join(reasons), None if None in needed else max(n for n in needed if n is not None)
