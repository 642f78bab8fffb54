"""`calibrate`: queries and a promise in, a certificate or an abstention out."""

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import Any, Unpack

import numpy as np

from isrr.calibration.certify import samples, sums_suffice
from isrr.calibration.outcome import CountLook, Findings, quantiles
from isrr.calibration.path import fixed_path, refuse_shared, set_aside
from isrr.calibration.quality import SAMPLE, measured_quality, quality_shares
from isrr.calibration.request import Request
from isrr.calibration.table import Table
from isrr.calibration.tasks import (
    ALL,
    MOST_GROUPS,
    SOME_GROUPS,
    Census,
    Distinct,
    Fill,
    FindRepeats,
    NameJudgments,
    TakeCensus,
    enough,
    refuse_single,
    smallest_keys,
)
from isrr.data.clicks import looks_like_clicks
from isrr.data.queries import Queries
from isrr.data.source import Where, read_any, with_values, without_run
from isrr.engines.source import open_source
from isrr.engines.task import Source, Together
from isrr.errors import DataError
from isrr.gains import Discount, Gain
from isrr.metrics.ahead import compile_beside
from isrr.metrics.metric import Metric
from isrr.outcome.certificate import Abstention, Certificate
from isrr.outcome.findings import Provenance
from isrr.parallel import Progress
from isrr.promises import Promise, objectives, promises, refuse_worst, values_alone
from isrr.ranker.gpl import GPLRanker
from isrr.ranker.scale import far_scores
from isrr.risk import betting
from isrr.risk.evidence import Evidence, evidence_of
from isrr.risk.select import Selection, selection_of

LOOKED_AT = 100_000  # queries that are searched for repeats, unless those are to count once
LEAST_CAPPED, SHARE_CAPPED = 2, 0.0005  # values that equal their bound from which on it is taken for a cap


def calibrate(
    queries: Any,
    promise: str | Promise | Sequence[str | Promise],
    confidence: float = 0.95,
    *,
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
    count_look: CountLook | None = None,
    progress: Progress | None = None,
    engine: str = "local",
    **where: Unpack[Where],
) -> Certificate | Abstention:
    """Find the fairest ranker that keeps a promise (or, for promises of fairness, the most useful), and certify it.

    Args:
        queries: Judged queries, a random sample of those to come: `Queries`, or the path of a file, a glob of Parquet
            files, a table of pandas, polars, pyarrow or Spark; None with `run=` and `qrels=`.
        promise: One promise or several, as text or as `Promise`; several must all hold.
        confidence: Probability, over the judged queries, with which the promise holds.
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
            whatever ids. It takes 16 bytes per query.
        gain: How much a grade is worth, for promises given as text: "exponential" (the default), "linear", "equal" or a
            function.
        discount: How much a place is worth, likewise: "log2" (the default), "reciprocal", "uniform", "trec" or a
            function.
        judged_by: Who judged: "people", "model" (such as a large language model), or "both". It is recorded; grades of
            a model come with a warning.
        count_look: Called with what is asked of which data; returns which analysis of these judgments it is, and the
            tolerated chance of error of all of them. The Python API keeps no ledger.
        progress: Called with (done, total) in each pass: queries in memory, otherwise files or Spark tasks.
        engine: "local", or "spark" (or "dask") to calibrate where the queries are. All give identical results.
        where: Names of columns (`query="search_id"`), `run` and `qrels`, `unjudged`, `ties`, `trust_layout`, `master`
            and `partitions`, for queries that are not at hand; see `isrr.data.source.Where`.

    Returns:
        A `Certificate`, or an `Abstention` with its reason and the order by score.
    """
    chosen_path = path if isinstance(path, str) else tuple(path)
    asked = promises(promise, gain, discount)
    tested_by = evidence_of(evidence), selection_of(selection)
    request = Request(asked, confidence, chosen_path, *tested_by, seed, n_analyses, floor, distinct, judged_by)
    others = None if validation is None else read_any(validation, request.columns, **without_run(where))
    if compile_beside() and request.evidence.name == "betting":
        betting.certifies(np.zeros((1, 1)), 0.5, 0.5)  # compiled here in the meantime
    with closing(open_source(queries, engine, **with_values(where, request.columns))) as source:
        return _calibrated(source, request, others, count_look, progress)


def _calibrated(
    source: Source,
    request: Request,
    validation: Queries | None,
    count_look: CountLook | None,
    progress: Progress | None,
) -> Certificate | Abstention:
    """Passes over the queries: count them, fetch those set aside where there are any, evaluate the others."""
    count, judged = TakeCensus(request.promises), source
    census, contents = judged.run(Together(count, FindRepeats(ALL if request.distinct else LOOKED_AT)), progress)
    data, n_repeated = census.fingerprint, contents.n_repeats(census.n_queries - census.n_single)
    if request.distinct:
        source = Distinct(judged, contents.repeats)
        census = source.run(count, progress)
    _refuse_unusable(census, request)
    given = validation is not None
    aside, first_tested = set_aside(source, census, request, given=given, progress=progress)
    n_aside = 0 if aside is None else len(aside)
    if validation is not None:
        refuse_shared(judged, validation)
    path = fixed_path(request, census.n_queries - n_aside, aside, validation)
    reported = objectives(request.promises, judged=census.judged)
    task = Fill(
        (GPLRanker.deterministic(request.k), *path.rankers),
        request.promises,
        reported,
        max(census.n_counted) - n_aside,
        sums_suffice(request.evidence.name, census.n_queries - n_aside),
        request.seed,
        census.digest,
        first_tested,
    )
    wanted = n_aside + SAMPLE
    others = Together(enough(wanted, census.n_queries, census.digest, request.columns), NameJudgments())
    table, (found, judgments) = source.run(Together(task, others), progress)
    _refuse_change(census, table, n_aside)
    drawn = smallest_keys(source, wanted, census.n_queries, census.digest, request.columns, found)
    sample, (far_above, far_below) = drawn[n_aside:], far_scores(drawn)
    looks_clicked = ""
    if census.judged and "relevance" in request.columns:
        looks_clicked = looks_like_clicks(drawn, drawn.grade_column, request.k, drawn.has_positions) or ""
    tested = samples(table, request.promises, path, request.evidence, task.method, census.digest)
    remaining = quality_shares(sample, path.rankers, request.promises) if values_alone(request.promises) else None
    findings = Findings.of(request, path, table, tested, remaining=remaining)
    _refuse_untested(census, findings)
    if request.distinct:  # judgments are looked at again, whichever of them count
        judgments = judged.run(NameJudgments())
    search = (
        request.path_name,
        path.basis,
        request.evidence.name,
        request.selection.name,
        request.seed,
        request.n_analyses,
    )
    asked = findings.look(data, judgments, search, None if validation is None else validation.fingerprint)
    analysis, spent = (1, None) if count_look is None else count_look(asked)
    provenance = Provenance(
        n_queries=table.n_queries,
        n_skipped=table.n_skipped,
        n_set_aside=n_aside,
        requested_path=request.path_name,
        path=path.name,
        path_basis=path.basis,
        evidence=request.evidence.name,
        selection=request.selection.name,
        caveats=request.caveats,
        method=task.method,
        n_draws=task.n_draws if task.method == "draws" else 0,
        seed=request.seed,
        data=data,
        judgments=judgments,
        hash_key="" if task.summed else census.digest,
        tied_share=census.n_tied / max(census.n_places, 1),
        unjudged=census.unjudged,
        unjudged_share=census.n_unjudged / max(census.n_places, 1),
        made_ids=source.made_ids,
        n_single=census.n_single,
        n_repeated=n_repeated,
        distinct=request.distinct,
        near_bound=_near_bound(census, drawn, request.promises),
        looks_clicked=looks_clicked,
        far_above=far_above,
        far_below=far_below,
        n_analyses=request.n_analyses,
        analysis=analysis,
        spent=spent,
        judged_by=request.judged_by,
        groups=tuple(sorted(census.groups)) if len(census.groups) <= MOST_GROUPS else (),
        **quantiles(sample, findings.ranker),
    )
    quality = partial(measured_quality, sample, promises=request.promises, seed=request.seed)
    return findings.outcome(provenance, reported[0], quality, sample)


def _near_bound(census: Census, drawn: Queries, promises: Sequence[Promise]) -> float:
    """How near values come to a declared bound, as a share; those that are capped at it do not count."""
    declared = [(promise, promise.bound) for promise in promises if promise.bound is not None]
    uncapped = [(promise, bound) for promise, bound in declared if not _is_cap(promise, bound[1], drawn)]
    if len(uncapped) == len(declared):
        return census.near_bound
    return max((promise.metric.check_bound(drawn, promise.k, bound) for promise, bound in uncapped), default=0.0)


def _is_cap(promise: Promise, bound: float, queries: Queries) -> bool:
    """Whether many values equal the bound, as they do where larger ones are capped."""
    if not isinstance(promise.metric, Metric):
        return False
    n_equal = int((promise.metric.value(queries) == bound).sum())
    return n_equal >= max(LEAST_CAPPED, SHARE_CAPPED * queries.n_rows)


def _refuse_unusable(census: Census, request: Request) -> None:
    if census.n_queries < 2:
        found = "is one query" if census.n_queries else "are no queries"
        raise DataError(f"there {found}; expected many, to promise something about new queries")
    refuse_single(census.n_single, census.n_queries)
    refuse_worst(request.promises, census.unjudged)
    if census.lowest == census.highest:
        raise DataError("all scores are equal, so there is nothing to rank by")
    if census.n_relevant == 0 and "relevance" in request.columns:
        raise DataError("no query has a relevant item, so there is no utility to promise")
    for promise in request.promises:
        if promise.group is not None and promise.group not in census.groups:
            there = ", ".join(map(repr, sorted(census.groups)[:SOME_GROUPS]))
            raise DataError(f"'{promise}': no item is in group {promise.group!r}; groups are, for example, {there}")
    for promise, n_counted in zip(request.promises, census.n_counted, strict=True):
        if n_counted == 0:
            raise DataError(f"no query counts for '{promise}': none of them can be measured by it")


def _refuse_untested(census: Census, findings: Findings) -> None:
    """A promise per segment says nothing about a segment that was not tested."""
    for promise in (promise for promise in findings.request.promises if promise.per is not None):
        tested = {sample.segment for sample in findings.found if sample.promise == promise and sample.n_queries}
        if untested := sorted(census.segments - tested):
            raise DataError(
                f"segment {untested[0]!r} has no query to test on: they have no relevant item or are set aside to fix "
                "the path; a promise per segment needs some in each"
            )


def _refuse_change(census: Census, table: Table, n_aside: int) -> None:
    """A query lost or counted twice between two passes would void the promise."""
    seen = table.n_queries + table.n_skipped + n_aside
    if seen != census.n_queries:
        raise DataError(
            f"{census.n_queries:,} queries were counted and {seen:,} seen when testing; each must have its rows in one "
            "place, and they may not change while being read"
        )
