"""A run and its judgments → Queries, joined as evaluation tools do.

Each list is what the run retrieved for a query. A retrieved item without a judgment counts as irrelevant, unless
another policy is asked for; a relevant item that was not retrieved counts in the ideal; queries that only one of the
two has are left out, and named in `Queries.notes`.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from isrr.counting import counted
from isrr.data._order_kernels import match_rows
from isrr.data.grouping import Grouping
from isrr.data.identifiers import Ids
from isrr.data.ordering import repeats
from isrr.data.pairs import Pairs, some
from isrr.data.queries import IntArray, Queries
from isrr.data.ragged import lists_of
from isrr.data.unjudged import Unjudged, settled
from isrr.errors import DataError


def joined(run: Pairs, qrels: Pairs | None, unjudged: Unjudged) -> Queries:
    """The queries that a run and its judgments share; without judgments, all of the run, unjudged.

    Args:
        run: The scores.
        qrels: The grades.
        unjudged: How retrieved items without a grade count.

    Example:
        >>> from isrr.data.pairs import from_mapping
        >>> run, qrels = {"q1": {"d1": 2.0, "d2": 1.0}}, {"q1": {"d2": 1, "d9": 2}}
        >>> joined(from_mapping(run, "run"), from_mapping(qrels, "qrels"), "zero").relevance
        array([0., 1.])
    """
    run = _grouped(run)
    return _lists(run) if qrels is None else _judged(run, qrels, unjudged)


def _grouped(run: Pairs) -> Pairs:
    """The pairs of a run brought together by query; an item that a query has twice is refused."""
    grouping = Grouping.of(run.queries, None, len(run))
    run = run if grouping.rows is None else run.take(grouping.rows)
    twice = repeats(grouping.offsets, Ids(run.items))
    if twice.size:
        again = int(twice[0])
        of_query = run.queries == run.queries[again]
        first = int(np.argmax(of_query & pc.equal(run.items, run.items[again]).to_numpy(zero_copy_only=False)))
        raise DataError(
            f"{run.where(again)}: {run.pair(again)} appears twice, first at {run.where(first)}; an item can be ranked "
            "once per query"
        )
    return run


def _lists(run: Pairs) -> Queries:
    """The queries of a run, unjudged."""
    grouping = Grouping.of(run.queries, None, len(run))
    return Queries(
        offsets=grouping.offsets,
        query_ids=Ids.in_text(run.query_names.take(grouping.query_ids)).array,
        scores=run.values,
        items=Ids.in_text(run.items),
        absent={"relevance": f"{run.name}: a run has no grades; expected the judgments as `qrels=`"},
    )


def _judged(run: Pairs, qrels: Pairs, unjudged: Unjudged) -> Queries:
    """The queries of a run that has been grouped, with their grades."""
    negative = qrels.values < 0
    notes = [f"{qrels.name}: {counted(int(negative.sum()), 'negative grade')} counted as 0"] if negative.any() else []
    qrels = replace(qrels, values=np.maximum(qrels.values, 0.0))
    number = _numbers_among(run.query_names, qrels.query_names)
    shared = number[run.queries] >= 0
    if not shared.any():
        here, there = (some(names.to_pylist()) for names in (run.query_names, qrels.query_names))
        raise DataError(f"{run.name} and {qrels.name} share no query: {here} here, {there} there")
    notes += _left_out(run, qrels, np.unique(run.queries[~shared]))
    run = run.chosen(shared)
    queries = _lists(run)
    place = np.full(len(qrels.query_names), -1)  # of each judged query among those of the run
    place[number[run.queries[queries.offsets[:-1]]]] = np.arange(len(queries))
    qrels = qrels.chosen(place[qrels.queries] >= 0)
    judged_in, grades = place[qrels.queries], qrels.values
    found, first = _matched(np.repeat(np.arange(len(queries)), queries.n_items), run.items, judged_in, qrels.items)
    _refuse_two_grades(qrels, first)
    missed = (grades > 0) & (first == np.arange(len(first)))
    missed[found[found >= 0]] = False
    relevance = np.where(found >= 0, grades[found], np.nan)
    judged = ~np.isnan(relevance)
    queries = replace(
        queries,
        relevance=np.where(judged, relevance, 0.0),
        unretrieved=lists_of(judged_in[missed], grades[missed], len(queries)) if missed.any() else None,
        absent={},
        notes=tuple(notes),
    )
    try:
        return settled(queries, judged, unjudged)
    except DataError as error:
        raise DataError(f"{run.name} with {qrels.name}: {error}", error.query) from None


def _numbers_among(names: Any, others: Any) -> IntArray:
    """The number that each name has among others, −1 where it is not one of them."""
    return np.asarray(pc.fill_null(pc.index_in(names, value_set=others), -1).to_numpy(), np.int64)


def _left_out(run: Pairs, qrels: Pairs, unjudged: IntArray) -> Iterator[str]:
    """Notes on the queries that only one of the two has; those of the run are given by number."""
    if unjudged.size:
        names = run.query_names.take(unjudged).to_pylist()
        yield f"{run.name}: {counted(len(names), 'query')} without judgments left out: {some(names)}"
    names = qrels.query_names.filter(_numbers_among(qrels.query_names, run.query_names) < 0).to_pylist()
    if names:
        yield f"{qrels.name}: {counted(len(names), 'judged query')} not in the run left out: {some(names)}"


def _matched(queries: IntArray, items: Any, judged_in: IntArray, judged_items: Any) -> tuple[IntArray, IntArray]:
    """The judgment of each row, −1 for none; and of each judgment the first on the same item of the query.

    Items are compared by hash, then by their text where hashes agree; where two share a hash, by exact numbers.
    """
    found, first = _first_equal(queries, Ids(items).hashes(), judged_in, Ids(judged_items).hashes())
    hits = np.flatnonzero(found >= 0)
    if items.take(hits).equals(judged_items.take(found[hits])) and judged_items.equals(judged_items.take(first)):
        return found, first
    coded = pa.concat_arrays([items, judged_items]).dictionary_encode()
    codes = coded.indices.to_numpy().astype(np.uint64)
    return _first_equal(queries, codes[: len(queries)], judged_in, codes[len(queries) :])


def _first_equal(
    queries: IntArray, names: NDArray[np.uint64], judged_in: IntArray, judged: NDArray[np.uint64]
) -> tuple[IntArray, IntArray]:
    """As `_matched`, for items that are named by numbers."""
    n_queries = int(queries[-1]) + 1
    begins = np.concatenate(([0], np.cumsum(2 * np.bincount(judged_in, minlength=n_queries))))
    found, first = np.empty(queries.size, np.int64), np.empty(judged_in.size, np.int64)
    match_rows(queries, names, judged_in, judged, begins, np.full(begins[-1], -1), found, first)
    return found, first


def _refuse_two_grades(qrels: Pairs, first: IntArray) -> None:
    """Refuse a pair that is judged again with another grade than at first."""
    differs = (qrels.values != qrels.values[first]) & ~(np.isnan(qrels.values) & np.isnan(qrels.values[first]))
    if differs.any():
        row = int(np.argmax(differs))
        before = int(first[row])
        raise DataError(
            f"{qrels.where(row)}: {qrels.pair(row)} has grade {qrels.values[row]:g}, but {qrels.values[before]:g} at "
            f"{qrels.where(before)}; expected one grade per pair"
        )
