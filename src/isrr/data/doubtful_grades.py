"""Scores and clicks that were taken for grades: what gives them away."""

import re

import numpy as np

from isrr.counting import percent
from isrr.data.ordering import query_hashes
from isrr.data.queries import Queries

_CLICKS = re.compile(r"click|purchase|conver|bought|order(s|ed)$|cart|booking|booked", re.IGNORECASE)
_MOST_GRADES = 11  # on a scale from 0 to 10
_LEAST_TO_TELL = 30  # queries
_MOSTLY = 0.75  # share of queries with relevance against the scores, from which these look negated
_REPEATED = 0.2  # share of queries with the same items as another, from which they look like requests


def doubtful_grades(queries: Queries, column_name: str, k: int, has_position: bool) -> str | None:
    """Return a warning where relevance is probably the scores, or against them, or clicks, which depend on positions.

    Args:
        queries: The queries, with relevance.
        column_name: The name of the column that the relevance comes from; empty where it is not known.
        k: How many positions a promise counts.
        has_position: Whether the source has a column with the position of each item.

    Example:
        >>> queries = Queries.from_arrays(scores=[2.0, 1.0], relevance=[1, 0], query_ids=[7, 7])
        >>> doubtful_grades(queries, "clicked", 5, False)[:61]
        "the relevance looks like clicks (the column is called 'clicke"
    """
    scores, relevance = queries.need_scores(), queries.need_relevance()
    if (scores >= 0).all() and (scores == np.floor(scores)).all() and (n := np.unique(scores).size) <= _MOST_GRADES:
        n_values = np.unique(relevance).size
        if n_values > max(_MOST_GRADES, 10 * n):
            return (
                f"every score is one of {n} whole numbers, while relevance takes {n_values:,} values: are the columns "
                "of scores and relevance swapped (`score=`, `relevance=`)?"
            )
    starts = np.repeat(queries.offsets[:-1], queries.n_items)
    below_middle = 2 * (np.arange(queries.n_rows) - starts) - np.repeat(queries.n_items - 1, queries.n_items)
    parts = below_middle * relevance[starts + queries.by_score]
    sums, sizes = (np.add.reduceat(terms, queries.offsets[:-1]) for terms in (parts, np.abs(parts)))
    n_against, n_told = ((sign > 1e-9 * sizes).sum() for sign in (sums, np.abs(sums)))  # beyond rounding
    if n_told >= _LEAST_TO_TELL and n_against > _MOSTLY * n_told:
        return (
            f"in {percent(n_against / n_told)} of the queries, relevance falls as scores rise: is a smaller score "
            "better? Then negate the scores"
        )
    signs = []
    if _CLICKS.search(column_name):
        signs.append(f"the column is called {column_name!r}")
    if ((relevance == 0) | (relevance == 1)).all():
        if has_position:
            signs.append("there is a column with the position shown")
        if (repeated := _repeated_lists(queries)) > _REPEATED:
            signs.append(f"{percent(repeated)} of the queries have the same items as another one")
        if queries.n_items.max() <= k and queries.n_items.max() > 1:
            signs.append(f"no list is longer than the {k} positions that count")
    if not signs:
        return None
    return (
        f"the relevance looks like clicks ({'; '.join(signs)}). Clicks depend on where an item was shown, so a promise "
        "made on them as grades doesn't hold for relevance. For click logs use: isrr clicks calibrate --log … "
        "--clicks …"
    )


def _repeated_lists(queries: Queries) -> float:
    """Return the share of queries of at least two items that have exactly the items of an earlier one."""
    if queries.items is None:
        return 0.0
    codes = queries.items.by_appearance()[1].astype(np.float64)
    sums = query_hashes(queries.offsets, np.zeros(len(queries), np.uint64), codes)
    long = sums[queries.n_items > 1]
    return 1.0 - len(np.unique(long, axis=0)) / len(long) if len(long) else 0.0
