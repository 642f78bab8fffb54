"""Judged queries as calibration takes them: drawn from a table, in canonical order, checked once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from isrr.data.columns import VALUE, Columns
from isrr.data.doubtful_grades import doubtful_grades
from isrr.data.production import with_production
from isrr.data.queries import Queries
from isrr.data.sample import Sample, canonical_order, digests, in_sample, sample_queries
from isrr.data.tables import as_queries
from isrr.data.unjudged import n_unjudged
from isrr.errors import DataError, PromiseError
from isrr.gains import has_relevant
from isrr.metrics.metric import Metric
from isrr.promises import Promise, objectives, refuse_worst
from isrr.ranker.scale import far_scores
from isrr.risk.lattice import BoolArray

ENGINES = ("local", "spark")
SOME_GROUPS = 5  # names of groups that an error shows
MOST_GROUPS = 1_000  # names of groups that a certificate keeps
LEAST_CAPPED, SHARE_CAPPED = 2, 0.0005  # values that equal their bound from which on it is taken for a cap


@dataclass(frozen=True, eq=False)
class Judged:
    """The queries that calibration knows of.

    Attributes:
        queries: In canonical order.
        uniform: Which of them are a uniform sample of the table, the others being there for their segment, (n,).
        n_table: Queries of the table.
        key: Names the queries of the table, see `isrr.data.sample`; empty where ids were made from positions.
        n_repeated: Queries that repeat another under a different id.
        data, judgments: Fingerprints of what was drawn, repeats included; see `Provenance`.
    """

    queries: Queries
    uniform: BoolArray
    n_table: int
    key: str
    n_repeated: int
    data: str
    judgments: str


def draw(
    data: Any,
    columns: Columns | None = None,
    *,
    roles: Sequence[str] = (),
    unjudged: str = "refuse",
    engine: str = "local",
    master: str | None = None,
    sample: int | None,
    per_segment: bool = False,
    reference: str | Queries | None = None,
) -> Sample:
    """Draw queries where they are, the same from every engine; with a reference, beside the order of production."""
    if engine not in ENGINES:
        raise PromiseError(f"unknown engine {engine!r}; expected one of {', '.join(ENGINES)}")
    if isinstance(reference, str):
        with_column = draw(
            data, columns, roles=(*roles, f"{VALUE}{reference}"), unjudged=unjudged, engine=engine, master=master,
            sample=sample, per_segment=per_segment,
        )  # fmt: skip
        return replace(with_column, queries=with_production(with_column.queries, reference))
    if reference is not None:
        data, columns = with_production(as_queries(data, columns, unjudged, roles), reference), None
    if engine == "spark":
        from isrr.spark import draw_sample

        return draw_sample(data, columns, roles=roles, master=master, sample=sample, per_segment=per_segment)
    if master is not None:
        raise PromiseError("`master=` is for engine 'spark'; the engine is 'local'")
    return sample_queries(data, columns, roles=roles, unjudged=unjudged, sample=sample, per_segment=per_segment)


def judged_queries(drawn: Sample, *, sample: int | None, per_segment: bool = False, distinct: bool = False) -> Judged:
    """Put queries that were drawn in canonical order.

    Args:
        drawn: The queries, all of the table where they are to be distinct.
        sample: How many to use; None for all.
        per_segment: Use so many in addition from the segments together.
        distinct: Leave out queries that repeat another, and draw the sample from the others: of queries that were
            copied, more would be drawn.
    """
    queries, repeated = drawn.queries, repeats(drawn.queries)
    uniform = drawn.uniform(None if distinct else sample)
    if distinct:
        queries = queries[~repeated]
        uniform = Sample(queries, len(queries), drawn.key).uniform(sample)
        if not uniform.all():
            segments = queries.need_segments() if per_segment else None
            chosen = in_sample(digests(queries.query_ids, drawn.key), sample or len(queries), segments)
            queries, uniform = queries[np.flatnonzero(chosen)], uniform[chosen]
    order = canonical_order(queries.keys, queries.scores_fingerprint)
    return Judged(
        queries[order],
        uniform[order],
        drawn.n_queries,
        "" if queries.made_ids else drawn.key,
        int(repeated.sum()),
        drawn.queries.fingerprint,
        drawn.queries.judgments,
    )


def repeats(queries: Queries) -> BoolArray:
    """Return which queries of several items repeat another under a different id: all but the first by key, (n,)."""
    several = np.flatnonzero(queries.n_items > 1)
    contents = queries.content_keys(judged=queries.relevance is not None)[several]
    order = np.lexsort((queries.keys[several], contents))
    repeated = np.zeros(len(queries), bool)
    repeated[several[order[1:]]] = contents[order[1:]] == contents[order[:-1]]
    return repeated


def check_queries(queries: Queries, promises: Sequence[Promise]) -> None:
    """Refuse queries that nothing can be promised about."""
    if len(queries) < 2:
        raise DataError("there is one query; expected many, to promise something about new queries")
    scores, columns = queries.need_scores(), {column for promise in promises for column in promise.columns}
    if "relevance" in columns:
        queries.need_relevance()
    if any(promise.per is not None for promise in promises):
        queries.need_segments()
    if any(promise.compared_with == "production" for promise in promises):
        queries.need_production()
    refuse_single(queries)
    refuse_worst(promises, queries.unjudged)
    if scores.min() == scores.max():
        raise DataError("all scores are equal, so there is nothing to rank by")
    gain = objectives(promises, judged=queries.relevance is not None)[1].metric.gain
    if "relevance" in columns and not has_relevant(queries, gain=gain).any():
        raise DataError(
            "no query has a relevant item: every grade is 0; expected the column of the grades as `relevance=`"
        )
    for promise in promises:
        if promise.group is not None and promise.group not in (names := queries.coded_groups.by_group()[0]):
            there = ", ".join(map(repr, sorted(names)[:SOME_GROUPS]))
            raise DataError(f"'{promise}': no item is in group {promise.group!r}; groups are, for example, {there}")
        if not promise.measure.counts(queries).any():
            raise DataError(
                f"no query counts for '{promise}': none has an item that counts, such as one with a high enough grade"
            )


def refuse_single(queries: Queries) -> None:
    """Refuse queries of one item each: anything ranks these perfectly, so they would speak for any promise."""
    if (queries.n_items == 1).all():
        raise DataError(
            "every query has a single item, so there is nothing to rank; are the columns of queries and items swapped "
            "(`query=`, `item=`)?"
        )


def facts(judged: Judged, first: Queries, promises: Sequence[Promise]) -> dict[str, Any]:
    """Return what a provenance says of all judged queries; of some facts, what the `first` of them say."""
    queries, k = judged.queries, max(promise.k for promise in promises)
    n_positions = max(int(np.minimum(queries.n_items, k).sum()), 1)
    groups = queries.coded_groups.by_group()[0] if any(promise.group for promise in promises) else []
    doubtful = None
    if queries.relevance is not None and any("relevance" in promise.columns for promise in promises):
        doubtful = doubtful_grades(first, first.grade_column, k, first.has_positions)
    far_above, far_below = far_scores(first)
    return {
        "n_table": judged.n_table,
        "table": judged.key,
        "data": judged.data,
        "judgments": judged.judgments,
        "hash_key": queries.scores_fingerprint,
        "n_repeated": judged.n_repeated,
        "dropped": dict(queries.dropped),
        "n_lacking": queries.n_lacking,
        "far_above": far_above,
        "far_below": far_below,
        "n_single": int((queries.n_items == 1).sum()),
        "tied_share": int(queries.tied_positions(k).sum()) / n_positions,
        "unjudged": queries.unjudged,
        "unjudged_share": n_unjudged(queries, k) / n_positions,
        "made_ids": queries.made_ids,
        "near_bound": max((_near_bound(p, p.bound, queries, first) for p in promises if p.bound), default=0.0),
        "doubtful_grades": doubtful or "",
        "groups": tuple(sorted(groups)) if len(groups) <= MOST_GROUPS else (),
    }


def _near_bound(promise: Promise, bound: tuple[float, float], queries: Queries, first: Queries) -> float:
    """Return how near values come to a declared bound, as a share; those that are capped at it do not count."""
    near = promise.metric.check_bound(queries, promise.k, bound)
    if not isinstance(promise.metric, Metric):
        return near
    n_equal = int((promise.metric.checked_values(first) == bound[1]).sum())
    return 0.0 if n_equal >= max(LEAST_CAPPED, SHARE_CAPPED * first.n_rows) else near
