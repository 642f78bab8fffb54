"""`calibrate`: queries and a promise in, a certificate or an abstention out.

judged_queries ─▶ set_aside ─▶ fixed_path ─▶ measured ─▶ Findings.of (certify, choose) ─▶ Findings.outcome
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from isrr.calibration.certify import Tested
from isrr.calibration.judged import Judged, check_queries, draw, facts, judged_queries
from isrr.calibration.measured import Curve, measured
from isrr.calibration.outcome import Findings, quantiles
from isrr.calibration.path import SearchPath, fixed_path, refuse_shared, set_aside
from isrr.calibration.quality import SAMPLE as LOOKED_AT
from isrr.calibration.quality import measured_quality, quality_shares
from isrr.calibration.request import Request
from isrr.data.columns import VALUE, Columns
from isrr.data.production import with_production
from isrr.data.queries import Queries
from isrr.data.sample import SAMPLE
from isrr.data.tables import as_queries
from isrr.errors import DataError
from isrr.gains import Discount, Gain
from isrr.outcome.certificate import Abstention, Certificate
from isrr.outcome.findings import Provenance
from isrr.parallel import Progress
from isrr.promises import Promise, objectives, promises, values_alone
from isrr.ranker.gpl import GPLRanker
from isrr.risk.evidence import Evidence, evidence_of
from isrr.risk.lattice import BoolArray
from isrr.risk.select import Selection, selection_of


def calibrate(
    queries: Any,
    promise: str | Promise | Sequence[str | Promise],
    confidence: float = 0.95,
    *,
    columns: Columns | None = None,
    validation: Any = None,
    path: str | Sequence[GPLRanker] = "auto",
    evidence: str | Evidence = "betting",
    selection: str | Selection = "fixed_sequence",
    seed: int = 0,
    n_analyses: int = 1,
    floor: float | None = None,
    distinct: bool = False,
    gain: Gain | None = None,
    discount: Discount | None = None,
    judged_by: str | None = None,
    sample: int | None = SAMPLE,
    reference: str | Queries | None = None,
    engine: str = "local",
    master: str | None = None,
    progress: Progress | None = None,
) -> Certificate | Abstention:
    """Find the fairest ranker that keeps a promise, and certify it.

    For promises of fairness, it is the most useful one.

    Args:
        queries: Judged queries, a random sample of those to come: `Queries`, or the path of a file, a glob of Parquet
            files, a table of pandas, polars, pyarrow or Spark; for a run and its judgments, and other ways to read,
            see `isrr.read_queries`.
        promise: One promise or several, as text or as `Promise`; several must all hold.
        confidence: Probability, over the judged queries, with which the promise holds.
        columns: The names of columns that are not called as usual, for queries still to be read; see `isrr.Columns`.
        validation: Other judged queries, which fix the path and the score map; in the same form as `queries`.
        path: "auto", "temperature", "front", or rankers in the order to be tested. "auto" is "front" on validation
            queries; without any, from 300 judged queries on, a share of them is set aside for it, and below that
            "temperature".
        evidence: The test: "betting", "hoeffding_bentkus", or an object, see `isrr.risk.evidence.Evidence`.
        selection: How several configurations are tested together: "fixed_sequence", "holm", or a
            `isrr.risk.select.Selection`.
        seed: Random seed, used only when rankings are sampled.
        n_analyses: Number of planned analyses of this data; delta is split over them.
        floor: Share of its deterministic utility that every query keeps, averaged over draws; 0 for none. By
            default chosen from the promised share and the number of queries, for promises "of deterministic".
        distinct: Count queries with the same scores and relevance once: for judged queries that were copied, under
            whatever ids. The whole table is then read.
        gain: How much a grade is worth, for promises given as text: "exponential" (the default), "linear", "equal" or a
            function.
        discount: How much a position is worth, likewise: "log2" (the default), "reciprocal", "uniform", "trec" or a
            function.
        judged_by: Who judged: "people", "model" (such as a large language model), or "both". It is recorded; grades of
            a model come with a warning.
        sample: How many queries are drawn from a larger table, always the same ones; None for all.
        reference: What promises "of production" are compared with: the column of its scores, or `Queries` judged alike.
        engine: "local", or "spark" to draw them where the table is. Both give the same certificate.
        master: Spark's master, where there is no session yet: "spark://…", "yarn", "local[4]".
        progress: Called with (queries done, queries in all) while they are measured.

    Returns:
        A `Certificate`, or an `Abstention` with its reason and the order by score.
    """
    request = Request(
        promises(promise, gain, discount), confidence, path if isinstance(path, str) else tuple(path),
        evidence_of(evidence), selection_of(selection), seed, n_analyses, floor, distinct, judged_by, sample,
    )  # fmt: skip
    others = None if validation is None else _validation(validation, columns, request, reference)
    per_segment = any(one.per is not None for one in request.promises)
    drawn = draw(
        queries, columns, roles=request.columns, engine=engine, master=master, sample=None if distinct else sample,
        per_segment=per_segment, reference=reference,
    )  # fmt: skip
    judged = judged_queries(drawn, sample=sample, per_segment=per_segment, distinct=distinct)
    check_queries(judged.queries, request.promises)
    rows = np.flatnonzero(judged.uniform)
    n_aside = set_aside(judged.queries, rows, request, validated=others is not None)
    if others is not None:
        refuse_shared(judged.queries, others)
    first = judged.queries[rows[: n_aside + LOOKED_AT]]
    known = facts(judged, first, request.promises)
    searched = fixed_path(request, rows.size - n_aside, first[:n_aside] if n_aside else None, others)
    left = np.ones(len(judged.queries), bool)
    left[rows[:n_aside]] = False
    curve, tested = _tested(judged, left, request, searched, progress)
    looked_at = judged.queries[rows[n_aside : n_aside + LOOKED_AT]]
    alone = values_alone(request.promises)
    remaining = quality_shares(looked_at, searched.rankers, request.promises) if alone else None
    findings = Findings.of(request, searched, curve, tested, remaining=remaining)
    sampled = judged.n_table > len(judged.queries) + (judged.n_repeated if request.distinct else 0)
    provenance = Provenance(
        n_queries=curve.n_queries,
        n_skipped=curve.n_skipped,
        n_set_aside=n_aside,
        sample=request.sample if sampled else None,
        requested_path=path if isinstance(path, str) else "custom",
        path=searched.name,
        path_basis=searched.basis,
        evidence=request.evidence.name,
        selection=request.selection.name,
        caveats=tuple(filter(None, (request.evidence.caveat, request.selection.caveat))),
        method=curve.method,
        n_draws=curve.n_draws,
        seed=request.seed,
        distinct=request.distinct,
        n_analyses=request.n_analyses,
        judged_by=request.judged_by,
        **known,
        **quantiles(looked_at, findings.ranker),
    )
    quality = partial(measured_quality, looked_at, promises=request.promises, seed=request.seed)
    utility = objectives(request.promises, judged=judged.queries.relevance is not None)[0]
    return findings.outcome(provenance, utility, quality, looked_at)


def _validation(data: Any, columns: Columns | None, request: Request, reference: str | Queries | None) -> Queries:
    """Read validation queries, beside the order of production where that is in a column."""
    named = [f"{VALUE}{reference}"] if isinstance(reference, str) else []
    columns = None if isinstance(data, Queries) else columns
    queries = as_queries(data, columns, roles=(*request.columns, *named))
    of_production = any(promise.compared_with == "production" for promise in request.promises)
    if not of_production or queries.production is not None:
        return queries
    if not isinstance(reference, str):
        raise DataError("validation queries need the order of production too; expected it in a column, as `reference=`")
    return with_production(queries, reference)


def _tested(
    judged: Judged, left: BoolArray, request: Request, path: SearchPath, progress: Progress | None
) -> tuple[Curve, list[Tested]]:
    """Measure the queries that are left, those of the uniform sample and those drawn for their segment alone."""
    counts = np.array([promise.measure.counts(judged.queries) for promise in request.promises])
    counting = left & counts.any(axis=0)
    if not counting.any():
        raise DataError("no query to test on: none has a relevant item, or those that do are set aside to fix the path")
    queries, uniform = judged.queries[np.flatnonzero(counting)], judged.uniform[counting]
    reported = objectives(request.promises, judged=queries.relevance is not None)
    n_tested = int(max((counts & judged.uniform).sum(axis=1))) - int((judged.uniform & ~left).sum())
    curve, values = measured(
        queries, path.rankers, request.promises, reported, uniform, n_tested, request.seed, progress
    )  # fmt: skip
    curve = replace(curve, n_skipped=int(left.sum()) - len(queries))
    tested = []
    for promise, of_promise in zip(request.promises, values, strict=True):
        reference = promise.reference(queries, of_promise[:, 0])
        segments: dict[str | None, BoolArray] = {None: uniform} if promise.per is None else promise.segments(queries)
        if promise.per is not None and (untested := promise.segments(judged.queries).keys() - segments.keys()):
            raise DataError(
                f"segment {min(map(str, untested))!r} has no query to test on: they have no relevant item or are set "
                "aside to fix the path; a promise per segment needs some in each"
            )
        for segment, rows in segments.items():
            some = slice(None) if rows.all() else rows  # the former copies nothing
            tested.append(
                Tested.of(promise, segment, request.evidence, of_promise[some], reference[some], path.rankers)
            )
    return curve, tested
