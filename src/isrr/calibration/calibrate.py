"""`calibrate`: judged queries and a promise in, a certificate or an abstention out."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from isrr.calibration.basis import fixed_path, refuse_shared, set_aside
from isrr.calibration.census import Census, TakeCensus, refuse_single
from isrr.calibration.certify import certify
from isrr.calibration.fill import Fill
from isrr.calibration.judgments import NameJudgments
from isrr.calibration.order import hash_key
from isrr.calibration.outcome import draw_up
from isrr.calibration.sample import enough, smallest_keys
from isrr.calibration.table import RiskTable
from isrr.calibration.terms import Terms, promises
from isrr.certificate import Abstention, Certificate
from isrr.data.queries import FloatArray, Queries
from isrr.engines.source import Where, open_source
from isrr.engines.task import Source, Together
from isrr.errors import DataError
from isrr.findings import Provenance
from isrr.guarantee import Guarantee
from isrr.parallel import Progress
from isrr.ranker.gpl import GPLRanker

SAMPLE = 20_000  # tested queries, those of smallest key, that score and eligibility quantiles are taken from


def calibrate(
    queries: Any,
    guarantee: str | Guarantee | Sequence[str | Guarantee],
    confidence: float = 0.95,
    *,
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
            `isrr.engines.source.Where`.

    Returns:
        A `Certificate`, or an `Abstention` with its reason and the deterministic ranker.
    """
    chosen_path = path if isinstance(path, str) else tuple(path)
    terms = Terms(promises(guarantee), confidence, chosen_path, evidence, selection, seed, attempts)
    with closing(open_source(queries, engine, **where)) as source:
        return _calibrated(source, terms, validation, progress)


def _calibrated(
    source: Source, terms: Terms, validation: Queries | None, progress: Progress | None
) -> Certificate | Abstention:
    """Passes over the queries: count them, fetch those set aside where there are any, evaluate the others."""
    census = source.run(TakeCensus(terms.guarantees), progress)
    _refuse_unusable(census)
    aside, first_tested = set_aside(source, census.n_queries, terms, validation, progress)
    n_aside = 0 if aside is None else len(aside)
    if validation is not None:
        refuse_shared(source, validation)
    path = fixed_path(terms, source, aside, validation)
    task = Fill.planned(
        census,
        tuple(dict.fromkeys([GPLRanker.deterministic(terms.k), *path.rankers])),
        terms.guarantees,
        delta=terms.level_each(len(path.rankers)),
        evidence=terms.evidence,
        seed=terms.seed,
        aside=None if aside is None else TakeCensus(terms.guarantees).summary([aside]),
        aside_below=first_tested,
    )
    wanted = n_aside + SAMPLE
    others = Together(enough(wanted, census.n_queries), NameJudgments())
    table, (found, judgments) = source.run(Together(task, others), progress)
    _refuse_change(census, task, table, n_aside)
    sample = smallest_keys(source, wanted, census.n_queries, found)[n_aside:]
    verdict = certify(table, path, delta=terms.delta, evidence=terms.evidence, selection=terms.rule)
    provenance = Provenance(
        n_queries=table.moments.n_queries,
        n_skipped=table.n_skipped,
        n_set_aside=n_aside,
        path=path.name,
        path_basis=path.basis,
        evidence=terms.evidence,
        selection=terms.selection,
        method=table.method,
        n_draws=table.n_draws,
        seed=terms.seed,
        data=census.fingerprint,
        judgments=judgments,
        hash_key="" if task.summed else hash_key(table.keys).hex(),
        made_ids=source.made_ids,
        n_single=census.n_single,
        score_quantiles=_quantiles(sample.need_scores()),
        planned_looks=terms.attempts,
    )
    outcome = draw_up(table, path, verdict, terms, provenance)
    first_place = np.maximum.reduceat(outcome.ranker.eligibility(sample), sample.offsets[:-1])
    return replace(outcome, provenance=replace(provenance, eligibility_quantiles=_quantiles(first_place)))


def _quantiles(values: FloatArray) -> tuple[float, ...]:
    return tuple(np.quantile(values, [0.001, 0.01, 0.5, 0.99, 0.999]).tolist())


def _refuse_unusable(census: Census) -> None:
    if census.n_queries < 2:
        found = "is one query" if census.n_queries else "are no queries"
        raise DataError(f"there {found}; a promise about new queries needs many judged ones")
    refuse_single(census.n_single, census.n_queries)
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
