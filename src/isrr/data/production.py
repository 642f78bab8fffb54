"""Queries beside another ranking of the same queries: what is served today.

Each ranking has its own items. A judged query that one of the two lacks counts 0 there: it is added as a list of one
item without relevance, all its relevant items missing, so that dropping hard queries cannot make a ranking better.
"""

from dataclasses import replace

import numpy as np

from isrr.counting import counted
from isrr.data.identifiers import Ids
from isrr.data.queries import Queries
from isrr.data.ragged import lists_of
from isrr.errors import DataError


def with_production(queries: Queries, production: Queries | str) -> Queries:
    """Return queries with a ranking to compare them with.

    Args:
        queries: The queries.
        production: Other queries, judged alike, with the scores of production; or the name of a column of numbers.

    Example:
        >>> queries = Queries.from_arrays(scores=[2.0, 1.0], relevance=[0, 1], group=[2], values={"now": [1.0, 2.0]})
        >>> with_production(queries, "now").need_production().by_score
        array([1, 0], dtype=int32)
    """
    if isinstance(production, str):
        return replace(queries, production=replace(queries, scores=queries.column(production)))
    if queries.made_ids or production.made_ids:
        raise DataError("query ids were made from positions, so rankings cannot be compared by them; expected real ids")
    ours, theirs = complete([queries, production])
    return replace(ours, production=theirs, n_lacking=n_lacking(production, theirs))


def n_lacking(production: Queries, completed: Queries) -> int:
    """Return how many judged queries production lacks; refuse where these are most, so that anything would beat it."""
    lacking, n_queries = len(completed) - len(production), len(completed)
    if lacking > n_queries / 2:
        raise DataError(
            f"production lacks {lacking:,} of {n_queries:,} judged queries, which would count 0 there; expected its "
            "ranking of the same queries"
        )
    return lacking


def lacking_in_words(n: int) -> str:
    """Return what to say where production lacks some judged queries.

    Example:
        >>> lacking_in_words(30)
        'production lacks 30 judged queries, which count 0 there, in favour of the new'
    """
    return f"production lacks {counted(n, 'judged query')}, which count 0 there, in favour of the new"


def complete(rankings: list[Queries]) -> list[Queries]:
    """Return rankings of the same queries in the same order, those that a ranking lacks added without any gain."""
    keys = np.unique(np.concatenate([ranking.keys for ranking in rankings]))
    filled = []
    for ranking in rankings:
        lacking = np.setdiff1d(keys, ranking.keys)
        for other in rankings:
            there = np.flatnonzero(np.isin(other.keys, lacking))
            if there.size:
                ranking = Queries.concatenate([ranking, _without_gain(other[there], like=ranking)])
                lacking = np.setdiff1d(lacking, other.keys[there])
        filled.append(ranking[np.argsort(ranking.keys)])
    return filled


def _without_gain(queries: Queries, like: Queries) -> Queries:
    """Return each query as a list of one irrelevant item, with the columns that another ranking has."""
    n, rows = len(queries), np.repeat(np.arange(len(queries)), queries.n_items)
    relevance = queries.need_relevance()
    grades, of_query = relevance[relevance > 0], rows[relevance > 0]
    if queries.unretrieved is not None:
        offsets, more = queries.unretrieved
        grades = np.concatenate([grades, more])
        of_query = np.concatenate([of_query, np.repeat(np.arange(n), np.diff(offsets))])
    return Queries(
        offsets=np.arange(n + 1),
        query_ids=queries.query_ids,
        scores=np.zeros(n),
        relevance=np.zeros(n),
        items=None if like.items is None else Ids.of(np.full(n, "(no item)"), "item_ids", n),
        item_groups=None if like.item_groups is None else np.full(n, ""),
        segments=queries.segments,
        values={name: np.zeros(n) for name in like.values},
        unretrieved=lists_of(of_query, grades, n),
        unjudged=like.unjudged,
    )
