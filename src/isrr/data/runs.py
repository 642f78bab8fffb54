"""A run and its judgments → Queries, joined as evaluation tools do.

Each list is what the run retrieved for a query. A retrieved item without a judgment counts as irrelevant, unless
another policy is asked for; a relevant item that was not retrieved counts in the ideal; queries that only one of the
two has are left out, and named in `Queries.notes`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from isrr.counting import counted
from isrr.data.columns import ROLES, Columns, usual_column
from isrr.data.formats import Table, reading
from isrr.data.identifiers import Ids
from isrr.data.numbers import numbers, refuse_any, such_rows, unfit
from isrr.data.ordering import first_equal
from isrr.data.queries import FloatArray, IntArray, Queries
from isrr.data.ragged import lists_of
from isrr.data.unjudged import Unjudged, settled
from isrr.errors import DataError


@dataclass(frozen=True, eq=False)
class Judgments:
    """Grades of items for queries, one per row.

    Attributes:
        name: The source in errors.
        queries, items: Their ids.
        grades: NaN where a grade is missing.
    """

    name: str
    queries: Ids
    items: Ids
    grades: FloatArray

    @classmethod
    def of(cls, table: Table, columns: Columns) -> "Judgments":
        """Return the judgments in a table, whose grades BEIR calls scores."""
        names = {}
        for role, more in (("query", ()), ("item", ()), ("relevance", ("score",))):
            name = getattr(columns, role)
            column = name if name in table.columns else usual_column(role, table.columns, more)
            if column is None:
                usual, have = ", ".join((*ROLES[role]["usual"], *more)), ", ".join(table.columns)
                said = f"no {role} column ({usual}, or named by `{role}=`); the columns are {have}"
                raise DataError(f"{table.name}: {said}")
            names[role] = column
        with reading(table.name):
            rows = table.read(list(names.values()), [names["query"], names["item"]])
        if rows.num_rows == 0:
            raise DataError(f"{table.name}: there are no judgments")
        try:
            queries, items = (Ids.of(rows[names[role]], names[role], rows.num_rows) for role in ("query", "item"))
            return cls(table.name, queries, items, _grades(rows[names["relevance"]], names["relevance"]))
        except DataError as error:
            error.source = table.name
            raise


def _grades(column: Any, name: str) -> FloatArray:
    """Return grades as floats, NaN where one is missing."""
    rows = np.flatnonzero(~np.asarray(column.is_null(nan_is_null=True).to_numpy(), bool))
    grades = np.full(len(column), np.nan)
    try:
        present = numbers(column.take(pa.array(rows)).to_numpy(), name, rows.size)
        refuse_any(unfit(present), name, lambda row: str(present[row]), "expected a finite number within ±1e50")
    except DataError as error:
        error.row = None if error.row is None else int(rows[error.row])
        raise
    grades[rows] = present
    return grades


def joined(run: Queries, name: str, qrels: Judgments, unjudged: Unjudged) -> Queries:
    """Return the queries that a run and its judgments share.

    Args:
        run: Scored lists with item ids.
        name: The run in errors.
        qrels: The grades.
        unjudged: How retrieved items without a grade count.
    """
    if run.items is None:
        raise DataError(run.absent.get("item", f"{name}: a run needs item ids"))
    negative = qrels.grades < 0
    notes = [f"{qrels.name}: {counted(int(negative.sum()), 'negative grade')} counted as 0"] if negative.any() else []
    distinct, codes = qrels.queries.by_appearance()
    known = Ids.of(run.query_ids, "query_ids", len(run)).texts
    number = np.asarray(pc.fill_null(pc.index_in(distinct.texts, value_set=known), -1).to_numpy(), np.int64)
    judged_in, shared = number[codes], np.isin(np.arange(len(run)), number)
    names = distinct.take(np.flatnonzero(number < 0)).array
    if not shared.any():
        raise DataError(f"{name} and {qrels.name} share no query: {some(run.query_ids)} here, {some(names)} there")
    missing = run.query_ids[~shared]
    if missing.size:
        notes.append(f"{name}: {counted(missing.size, 'query')} without judgments left out: {some(missing)}")
    if len(names):
        notes.append(f"{qrels.name}: {counted(len(names), 'judged query')} not in {name}: {some(names)}")
    order = np.argsort(judged_in, kind="stable")
    rows = order[np.searchsorted(judged_in[order], 0) :]  # judgments of shared queries, by query
    position = np.cumsum(shared) - 1  # of each query of the run among those shared
    judged_in, judged_items = position[judged_in[rows]], qrels.items.take(rows)
    grades = np.maximum(qrels.grades[rows], 0)
    run = run if shared.all() else replace(run[np.flatnonzero(shared)], notes=run.notes)
    assert run.items is not None
    starts = np.searchsorted(judged_in, np.arange(len(run) + 1))
    first = first_equal(starts, judged_items, starts, judged_items)
    _refuse_two_grades(qrels, rows, first)
    match = first_equal(starts, judged_items, run.offsets, run.items)
    hits = np.flatnonzero(match >= 0)
    relevance, judged = np.zeros(run.n_rows), np.zeros(run.n_rows, np.bool_)
    judged[hits] = ~np.isnan(grades[match[hits]])
    relevance[hits] = np.nan_to_num(grades[match[hits]])
    missed = (grades > 0) & (first == np.arange(first.size))
    missed[match[hits]] = False
    queries = replace(
        run,
        relevance=relevance,
        unretrieved=lists_of(judged_in[missed], grades[missed], len(run)) if missed.any() else None,
        absent={role: said for role, said in run.absent.items() if role != "relevance"},
        notes=(*run.notes, *notes),
    )
    try:
        return settled(queries, judged, unjudged)
    except DataError as error:
        raise DataError(f"{name} with {qrels.name}: {error}", error.query) from None


def _refuse_two_grades(qrels: Judgments, rows: IntArray, first: IntArray) -> None:
    """Refuse a pair that is judged again with another grade than at first."""
    grades = qrels.grades[rows]
    differs = (grades != grades[first]) & ~(np.isnan(grades) & np.isnan(grades[first]))
    if differs.any():
        again = int(np.argmax(differs))
        row, before = int(rows[again]), int(rows[first[again]])
        item, query = (ids.texts[row].as_py() for ids in (qrels.items, qrels.queries))
        raise DataError(
            f"{qrels.name}: row {row + 1:,}: item {item!r} of query {query!r} has grade {qrels.grades[row]:g}, but "
            f"{qrels.grades[before]:g} in row {before + 1:,}{such_rows(int(differs.sum()))}; expected one per pair"
        )


def some(names: Sequence[Any] | NDArray[Any]) -> str:
    """Return a few names of many, for a message.

    Example:
        >>> some(["a", "b", "c", "d", "e"])
        'a, b, c and 2 more'
    """
    first = ", ".join(str(name) for name in names[:3])
    return f"{first} and {len(names) - 3:,} more" if len(names) > 3 else first
