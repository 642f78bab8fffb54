"""What a table says of its grades beside the grades: which items lack one, and which grades lie outside the lists.

A copy that isrr writes has two columns for it. `unretrieved` is a list of grades on any rows of a query. `unjudged` is
null where an item was graded, otherwise it names how the item was counted. How ties are broken, and a policy
that no row shows, are schema metadata.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from isrr.data.identifiers import decoded
from isrr.data.numbers import unfit
from isrr.data.queries import Queries
from isrr.data.ragged import Ragged, lists_of, offsets_from
from isrr.data.unjudged import Unjudged, checked_policy, settled
from isrr.errors import DataError

UNRETRIEVED, UNJUDGED = BESIDE_GRADES = ("unretrieved", "unjudged")
_POLICY, _TIES = b"isrr.unjudged", b"isrr.ties"


def columns_of(queries: Queries) -> dict[str, Any]:
    """The columns that go with the grades of queries, where there is something to say."""
    columns = {}
    if queries.unretrieved is not None:
        offsets, grades = queries.unretrieved
        lengths = np.zeros(queries.n_rows, np.int32)
        lengths[queries.offsets[:-1]] = np.diff(offsets)
        columns[UNRETRIEVED] = pa.ListArray.from_arrays(offsets_from(lengths).astype(np.int32), grades)
    if queries.judged is not None:
        policy = pa.array([queries.unjudged], pa.string())
        codes = pa.array(np.zeros(queries.n_rows, np.int32), mask=queries.judged)
        columns[UNJUDGED] = pa.DictionaryArray.from_arrays(codes, policy)
    return columns


def metadata_of(queries: Queries) -> dict[bytes, bytes]:
    """Schema metadata that tells of queries what no column does."""
    policy = {} if queries.unjudged == "refuse" else {_POLICY: queries.unjudged.encode()}
    return policy | ({} if queries.tie_order is None else {_TIES: b"trec"})


def _marks(table: Any, columns: Sequence[str]) -> Any:
    """The column that names how unjudged items were counted; None where there is none of the kind."""
    if UNJUDGED not in columns:
        return None
    kind = table[UNJUDGED].type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return table[UNJUDGED].cast(pa.string()) if pa.types.is_string(kind) or pa.types.is_large_string(kind) else None


def stored_policy(table: Any, columns: Sequence[str]) -> Unjudged | None:
    """How the unjudged items of a table were counted; None where it doesn't say."""
    marks = _marks(table, columns)
    said = [] if marks is None else marks.drop_null().unique().to_pylist()
    if len(said) > 1:
        raise DataError(f"column {UNJUDGED!r} has several policies: {', '.join(said)}; expected one")
    stored = said[0] if said else (table.schema.metadata or {}).get(_POLICY, b"").decode(errors="replace")
    try:
        return checked_policy(stored) if stored else None
    except ValueError:
        raise DataError(f"unjudged items are marked {stored!r}; expected {', '.join(get_args(Unjudged))}") from None


def judged_rows(table: Any, columns: Sequence[str], grades: str) -> NDArray[np.bool_] | None:
    """Which rows were graded, in the table's order; None if all were.

    Args:
        table: The table.
        columns: Those of `BESIDE_GRADES` that it has.
        grades: The column with the grades; null and NaN are none.
    """
    judged = ~np.asarray(decoded(table[grades], grades).is_null(nan_is_null=True).to_numpy(), bool)
    if (marks := _marks(table, columns)) is not None:
        judged &= np.asarray(marks.is_null().to_numpy(), bool)
    return None if judged.all() else judged


def with_grades(
    queries: Queries, table: Any, columns: Sequence[str], judged: NDArray[np.bool_] | None, policy: Unjudged
) -> Queries:
    """The queries of a table with all that it says of their grades.

    Args:
        queries: The queries; their relevance is 0 where an item is unjudged.
        table: The table they come from.
        columns: Those of `BESIDE_GRADES` that it has.
        judged: As `judged_rows` returns it.
        policy: How unjudged items count.
    """
    queries = replace(queries, unjudged=policy)
    if UNRETRIEVED in columns:
        queries = replace(queries, unretrieved=_unretrieved(table[UNRETRIEVED], queries))
    if judged is not None:
        judged = judged if queries.rows is None else judged[queries.rows]
        stored = stored_policy(table, columns)
        if stored == "worst" and policy != stored:
            raise DataError(f"unjudged items were counted as {stored} when this was written; expected `unjudged=worst`")
        counted_already = _marks(table, columns) is not None and stored == policy
        queries = replace(queries, judged=judged) if counted_already else settled(queries, judged, policy)
    return queries.with_ties("trec") if (table.schema.metadata or {}).get(_TIES) == b"trec" else queries


def _unretrieved(column: Any, queries: Queries) -> Ragged | None:
    """The grades outside each query's list, from lists that any rows of the query have."""
    kind = column.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        raise DataError(f"column {UNRETRIEVED!r} holds {kind}; expected lists of grades")
    rows = np.asarray(pc.list_parent_indices(column).to_numpy())
    grades = np.asarray(pc.list_flatten(column).cast(pa.float64()).to_numpy())
    if (bad := unfit(grades, 0.0)).any():
        raise DataError(f"column {UNRETRIEVED!r} holds {grades[bad][0]}; expected finite grades ≥ 0, at most 1e50")
    stored = np.repeat(np.arange(len(queries)), queries.n_items)
    query_of = stored if queries.rows is None else stored[np.argsort(queries.rows)]
    return lists_of(query_of[rows], grades, len(queries)) if grades.size else None
