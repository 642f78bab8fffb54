"""Items without a grade: how they count.

    refuse   they don't: an error says which items lack a grade
    zero     as irrelevant, as evaluation tools do
    drop     not at all: lists are ranked without them, as if they had never been retrieved
    worst    as the grade that is worst for the ranker: no gain where they are shown, the largest grade in the ideal

Whatever the missing grades are, NDCG, DCG and recall are at least what "worst" gives, as long as no grade exceeds the
largest one that was given. That makes "worst" a bound for promises of a value, such as "ndcg@5 >= 0.7". It is none for
promises relative to the order by score, where an unjudged item that only the order by score shows could be relevant,
nor for disparity: `isrr.promises.refuse_worst` refuses these.
"""

from dataclasses import replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from isrr.counting import counted, percent
from isrr.data.queries import Queries
from isrr.data.ragged import offsets_from, side_by_side
from isrr.errors import DataError

Unjudged = Literal["refuse", "zero", "drop", "worst"]
OPTIONS = "choose how unjudged items count: `unjudged=zero`, `unjudged=drop` or `unjudged=worst`"
_COUNTED = {"zero": "counted as irrelevant", "drop": "dropped", "worst": "counted as the worst they could be"}


def checked_policy(policy: str) -> Unjudged:
    """Return a policy, or raise an error that lists them."""
    if policy not in get_args(Unjudged):
        raise ValueError(f"`unjudged=` must be one of {', '.join(get_args(Unjudged))}; got {policy!r}")
    return policy  # type: ignore[return-value]


def settled(queries: Queries, judged: NDArray[np.bool_], policy: Unjudged) -> Queries:
    """Return the queries with their unjudged items counted as asked.

    Args:
        queries: Their relevance is 0 where an item is unjudged.
        judged: Whether an item has a grade, in query order, (n_rows,).
        policy: How those without one count.

    Example:
        >>> queries = Queries.from_arrays(scores=[3, 2, 1], relevance=[0, 2, 1], query_ids=[7, 7, 7])
        >>> settled(queries, np.array([False, True, True]), "drop").relevance
        array([2., 1.])
    """
    policy = checked_policy(policy)
    if judged.all():
        return replace(queries, unjudged=policy)
    missing = int(np.count_nonzero(~judged))
    if policy == "refuse":
        row = int(np.argmin(judged))
        query = str(queries.query_ids[np.searchsorted(queries.offsets, row, side="right") - 1])
        item = "an item" if queries.items is None else f"item {queries.items.texts[row].as_py()!r}"
        others = f", nor have {missing - 1:,} others" if missing > 1 else ""
        raise DataError(f"{item} of query {query!r} has no grade{others}; expected a grade, or {OPTIONS}", query)
    marked = replace(queries, judged=judged, unjudged=policy)
    note = f"{counted(missing, 'item')} without a grade ({percent(missing / judged.size)}): {_COUNTED[policy]}"
    notes = (*queries.notes, f"{note} (`unjudged={policy}`)")
    if policy == "drop":
        return _without(replace(marked, notes=notes), judged)
    if policy == "worst":
        largest = float(queries.need_relevance()[judged].max(initial=0.0))
        if queries.unretrieved is not None:
            largest = float(queries.unretrieved[1].max(initial=largest))
        if largest == 0:
            raise DataError("no grade is above 0, so the worst grade an unjudged item could have is not known")
        per_query = np.add.reduceat(~judged, queries.offsets[:-1], dtype=np.int64)
        missed = offsets_from(per_query), np.full(missing, largest)
        elsewhere = missed if queries.unretrieved is None else side_by_side(queries.unretrieved, missed)
        return replace(marked, unretrieved=elsewhere, notes=notes)
    return replace(marked, notes=notes)


def _without(queries: Queries, graded: NDArray[np.bool_]) -> Queries:
    """Return the queries with their graded items; those that have none are gone."""
    lengths = np.add.reduceat(graded, queries.offsets[:-1], dtype=np.int64)
    left = np.flatnonzero(lengths)
    if left.size == 0:
        raise DataError("no item has a grade, so none is left when unjudged items are dropped")
    fewer = queries.of_rows(graded, offsets_from(lengths), judged=None)
    if left.size == len(queries):
        return fewer
    empty = f"{counted(len(queries) - left.size, 'query')} without a graded item left out"
    return replace(fewer[left], notes=(*queries.notes, empty))


def unjudged_in_words(policy: str, share: float, k: int) -> str:
    """Return in words how items without a grade count, and how many positions they take.

    Example:
        >>> unjudged_in_words("drop", 0.25, 5)
        'items without a grade are dropped (drop)'
    """
    counted = f"{percent(share)} of the first {k} positions by score hold items without a grade; such items"
    return f"{'items without a grade' if policy == 'drop' else counted} are {_COUNTED[policy]} ({policy})"


def policy_needed(queries: Queries) -> str:
    """Return how unjudged items count where there are, or were, any; else "refuse"."""
    return queries.unjudged if queries.judged is not None or queries.unjudged == "drop" else "refuse"


def refuse_other_policy(here: str, then: str) -> None:
    """Refuse queries whose unjudged items, where they have any, count otherwise than in calibration."""
    if here not in ("refuse", then):
        counted_then = "every item had a grade" if then == "refuse" else f"they were {_COUNTED[then]} ({then})"
        raise DataError(
            f"unjudged items are {_COUNTED[here]} here ({here}), but in calibration {counted_then}; expected the "
            "same policy, or a new calibration"
        )


def n_unjudged(queries: Queries, k: int) -> int:
    """Return how many of the first k items by score were not graded, over all queries together.

    Example:
        >>> queries = Queries.from_arrays(scores=[3, 2, 1], relevance=[0, 2, 1], query_ids=[7, 7, 7])
        >>> n_unjudged(settled(queries, np.array([False, True, True]), "zero"), k=2)
        1
    """
    if queries.judged is None:
        return 0
    starts = queries.offsets[:-1]
    position = np.arange(queries.n_rows) - np.repeat(starts, queries.n_items)
    by_score = queries.judged[np.repeat(starts, queries.n_items) + queries.by_score]
    return int((~by_score[position < k]).sum())
