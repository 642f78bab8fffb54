"""A run and its judgments → Queries, joined as evaluation tools do.

Each list is what the run retrieved for a query. A retrieved item without a judgment counts as irrelevant, unless
another policy is asked for; a relevant item that was not retrieved counts in the ideal; queries that only one of the
two has are left out, and named in `Queries.notes`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from isrr.counting import counted
from isrr.data._order_kernels import mark_repeats
from isrr.data._trec_kernels import find_judgments
from isrr.data.ordering import Ties
from isrr.data.pair_files import Format, read_pairs
from isrr.data.pairs import Pairs, hashes_of, identifiers_of, some
from isrr.data.queries import FloatArray, IntArray, Queries
from isrr.data.ragged import Ragged, lists_of, offsets_from, rows_within
from isrr.data.unjudged import Unjudged, settled
from isrr.errors import DataError
from isrr.parallel import over_queries


def read_run(
    run: Any,
    qrels: Any = None,
    *,
    unjudged: Unjudged = "zero",
    ties: Ties | None = None,
    run_format: Format | None = None,
    qrels_format: Format | None = None,
    query: str | None = None,
    item: str | None = None,
    score: str | None = None,
    relevance: str | None = None,
) -> Queries:
    """The queries of a run, judged where qrels are given; arguments as for `read_queries`.

    Example:
        >>> read_run({"q1": {"d1": 2.0, "d2": 1.0}}, {"q1": {"d2": 1, "d9": 2}}).relevance
        array([0., 1.])
    """
    if run is None:
        raise DataError("qrels hold grades but no scores; expected the run they belong to, as `run=`")
    results = read_pairs(run, "run", format=run_format, query=query, item=item, value=score)
    if qrels is None:
        return _Lists.of(results).queries().with_ties(ties)
    judgments = read_pairs(qrels, "qrels", format=qrels_format, query=query, item=item, value=relevance)
    return judged_run(results, judgments, unjudged).with_ties(ties)


@dataclass(frozen=True, eq=False)
class _Lists:
    """A run, its rows brought together by query.

    Attributes:
        run: The run.
        rows: The pair of the run that each row is.
        offsets: Where each query's rows begin and end.
        codes: The number of each query in the run.
        hashes: A hash of each row's item.
    """

    run: Pairs
    rows: IntArray
    offsets: IntArray
    codes: IntArray
    hashes: IntArray

    @classmethod
    def of(cls, run: Pairs) -> "_Lists":
        """All queries of a run, in order of first appearance; an item may appear once in each."""
        heads = np.concatenate(([0], np.flatnonzero(np.diff(run.queries)) + 1))
        codes, rows, hashes = run.queries[heads], np.arange(len(run)), hashes_of(run.items)
        offsets = np.append(heads, len(run))
        if np.unique(codes).size < codes.size:  # the rows of a query are scattered
            codes, first, inverse = np.unique(run.queries, return_index=True, return_inverse=True)
            place = np.empty_like(codes)
            place[np.argsort(first)] = np.arange(codes.size)
            rows = np.argsort(place[inverse], kind="stable")
            codes, offsets = codes[np.argsort(first)], offsets_from(np.bincount(place[inverse]))
            hashes = hashes[rows]
        found = cls(run, rows, offsets, codes, hashes)
        found._refuse_repeats()
        return found

    def _refuse_repeats(self) -> None:
        names, suspect = self.hashes.view(np.uint64), np.empty(self.codes.size, np.bool_)
        over_queries(lambda start, stop: mark_repeats(self.offsets, names, start, stop, suspect), self.offsets)
        for query in np.flatnonzero(suspect):
            seen: dict[str, int] = {}
            for row in self.rows[self.offsets[query] : self.offsets[query + 1]].tolist():
                before = seen.setdefault(self.run.items[row].as_py(), row)
                if before != row:
                    raise DataError(
                        f"{self.run.where(row)}: {self.run.pair(row)} appears twice, first at "
                        f"{self.run.where(before)}; an item can be ranked once per query"
                    )

    def only(self, kept: NDArray[np.bool_]) -> "_Lists":
        """The lists of some of the queries."""
        if kept.all():
            return self
        offsets, rows = rows_within(self.offsets, np.flatnonzero(kept))
        return replace(self, rows=self.rows[rows], offsets=offsets, codes=self.codes[kept], hashes=self.hashes[rows])

    def queries(self) -> Queries:
        """The lists with their scores, unjudged."""
        names, items = self.run.query_names.take(self.codes), self.run.items
        if len(self.rows) < len(items) or (np.diff(self.rows) != 1).any():
            items = items.take(self.rows)
        return Queries(
            offsets=self.offsets.astype(np.int64),
            query_ids=identifiers_of(names).array,
            scores=self.run.values[self.rows],
            items=identifiers_of(items),
            absent={"relevance": f"{self.run.name}: a run has no grades; expected the judgments as `qrels=`"},
        )


def judged_run(run: Pairs, qrels: Pairs, unjudged: Unjudged = "zero") -> Queries:
    """The queries that a run and its judgments share."""
    qrels, notes = _clamped(qrels)
    lists = _Lists.of(run)
    query_codes = _codes_among(run.query_names, qrels.query_names)[lists.codes]
    shared = query_codes >= 0
    if not shared.any():
        here, there = (some(names.to_pylist()) for names in (run.query_names, qrels.query_names))
        raise DataError(f"{run.name} and {qrels.name} share no query: {here} here, {there} there")
    notes = (*notes, *_left_out(run, qrels, lists, shared))
    lists, query_codes = lists.only(shared), query_codes[shared]
    grades, elsewhere = _graded(lists, query_codes, qrels)
    judged = ~np.isnan(grades)
    queries = replace(
        lists.queries(), relevance=np.where(judged, grades, 0.0), unretrieved=elsewhere, absent={}, notes=notes
    )
    try:
        return settled(queries, judged, unjudged)
    except DataError as error:
        raise DataError(f"{run.name} with {qrels.name}: {error}", error.query) from None


def _clamped(qrels: Pairs) -> tuple[Pairs, tuple[str, ...]]:
    """The qrels without negative grades, and a note where there were any."""
    negative = qrels.values < 0
    if not negative.any():
        return qrels, ()
    note = f"{qrels.name}: {counted(int(negative.sum()), 'negative grade')} counted as 0"
    return replace(qrels, values=np.maximum(qrels.values, 0.0)), (note,)


def _codes_among(names: Any, others: Any) -> NDArray[np.int64]:
    """The number that each name has among others, −1 where it is not one of them."""
    codes = pc.fill_null(pc.index_in(names, value_set=others), -1)
    return np.asarray(codes.to_numpy(), np.int64)


def _left_out(run: Pairs, qrels: Pairs, lists: _Lists, shared: NDArray[np.bool_]) -> Iterator[str]:
    """Notes on the queries that only one of the two has."""
    unjudged = run.query_names.take(lists.codes[~shared]).to_pylist()
    if unjudged:
        yield f"{run.name}: {counted(len(unjudged), 'query')} without judgments left out: {some(unjudged)}"
    absent = _codes_among(qrels.query_names, run.query_names) < 0
    unanswered = qrels.query_names.filter(absent).to_pylist()
    if unanswered:
        yield f"{qrels.name}: {counted(len(unanswered), 'judged query')} not in the run left out: {some(unanswered)}"


def _graded(lists: _Lists, query_codes: IntArray, qrels: Pairs) -> tuple[FloatArray, Ragged | None]:
    """The grade of each row, NaN for none; and the grades of relevant items that the run did not retrieve.

    Items are compared by hash, then by text where hashes agree; where two items share a hash, by exact numbers.
    """
    place = np.full(len(qrels.query_names), -1, np.int64)
    place[query_codes] = np.arange(query_codes.size)
    of_query = place[qrels.queries]
    judgments = np.argsort(of_query, kind="stable")[np.count_nonzero(of_query < 0) :]  # by query of the run
    offsets = offsets_from(np.bincount(of_query[judgments], minlength=query_codes.size))
    items = qrels.items.take(judgments)
    found, first = _matched(lists.offsets, lists.hashes, offsets, hashes_of(items))
    hits = np.flatnonzero(found >= 0)
    same_text = lists.run.items.take(lists.rows[hits]).equals(items.take(found[hits]))
    if not (same_text and items.equals(items.take(first))):
        numbers = pa.concat_arrays([lists.run.items, items]).dictionary_encode().indices.to_numpy().astype(np.int64)
        found, first = _matched(lists.offsets, numbers[lists.rows], offsets, numbers[len(lists.run) :])
    grades = qrels.values[judgments]
    same = (grades == grades[first]) | (np.isnan(grades) & np.isnan(grades[first]))
    if not same.all():
        again = int(np.argmin(same))
        row, before = int(judgments[again]), int(judgments[first[again]])
        raise DataError(
            f"{qrels.where(row)}: {qrels.pair(row)} has grade {qrels.values[row]:g}, but {qrels.values[before]:g} at "
            f"{qrels.where(before)}; expected one grade per pair"
        )
    missed = (grades > 0) & (first == np.arange(len(first)))
    missed[found[found >= 0]] = False
    elsewhere = lists_of(of_query[judgments[missed]], grades[missed], query_codes.size) if missed.any() else None
    return np.where(found >= 0, grades[found], np.nan), elsewhere


def _matched(offsets: IntArray, items: IntArray, judged: IntArray, judged_items: IntArray) -> tuple[IntArray, IntArray]:
    """The judgment of each row, −1 for none; and of each judgment the first on the same item of the query."""
    found, first = np.empty(len(items), np.int64), np.empty(len(judged_items), np.int64)
    table = (offsets, items, judged, judged_items)
    over_queries(lambda start, stop: find_judgments(*table, start, stop, found, first), offsets)
    return found, first
