"""The boost: what is added to the scores of a group's items before they are drawn.

Additions are in deviations of the (mapped) scores; an item of several groups gets all of theirs.
"""

import reprlib
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import numpy as np

from isrr.data.identifiers import identifier_text
from isrr.data.queries import FloatArray, Queries
from isrr.errors import DataError

BoostMissing = Literal["refuse", "none"]
BOOST_MISSING = get_args(BoostMissing)
Boost = tuple[tuple[str, float], ...] | Mapping[str, float]


def checked_boost(boost: Boost, boost_missing: object = "refuse") -> Boost:
    """Return the additions sorted by group; those of 0 are left out.

    Example:
        >>> checked_boost({"old": 0, "new": 0.4, "local": 0.1})
        (('local', 0.1), ('new', 0.4))
    """
    if boost_missing not in BOOST_MISSING:
        raise ValueError(f"boost_missing must be one of {', '.join(BOOST_MISSING)}; got {boost_missing!r}")
    if isinstance(boost, tuple | dict) and not boost:
        return ()
    try:
        additions = [(group, float(addition)) for group, addition in dict(boost).items()]
    except (TypeError, ValueError):
        additions = [("", np.nan)]
    pairs = sorted((identifier_text(group), addition) for group, addition in additions)
    names = [group for group, _ in pairs]
    if len(set(names)) < len(names) or not np.isfinite([addition for _, addition in pairs]).all():
        raise ValueError(
            f"boost must map each group to a finite number of deviations, such as {{'new': 0.4}}, got {boost!r}"
        )
    return tuple((group, addition) for group, addition in pairs if addition != 0.0)


def additions_by_row(boost: Boost, boost_missing: BoostMissing, queries: Queries) -> FloatArray:
    """Return what is added to each row, in query order and in deviations, (n_rows,)."""
    if queries.item_groups is None and boost_missing == "none":
        return np.zeros(queries.n_rows)
    additions = [addition * queries.coded_groups.rows_of(group) for group, addition in dict(boost).items()]
    return np.asarray(np.sum(additions, axis=0))


def additions_of_request(boost: Boost, boost_missing: BoostMissing, groups: object, n_items: int) -> FloatArray:
    """Return what is added to each item of a request, in deviations, (n_items,).

    Args:
        boost: Additions by group.
        boost_missing: What an item without a group means: an error, or no boost.
        groups: For each item the name of its group, a list of names, or None where it is missing; a list, an array or
            a column of a table.
        n_items: Number of scores in the request.
    """
    if groups is None:
        groups = [None] * n_items
    for to_list in ("to_pylist", "to_list"):  # columns of Arrow, of pandas and polars
        if hasattr(groups, to_list):
            groups = getattr(groups, to_list)()
    if not isinstance(groups, Sequence | np.ndarray) or isinstance(groups, str) or len(groups) != n_items:
        raise DataError(
            f"groups are {reprlib.repr(groups)}; expected a list of {n_items}, one entry per score: a group, a list "
            "of groups, or None"
        )
    additions, out = dict(boost).items(), np.zeros(n_items)
    for i, entry in enumerate(groups):
        if entry is None or (isinstance(entry, float) and np.isnan(entry)):
            if boost_missing == "refuse":
                raise DataError(
                    f"item {i} has no group, and this ranker boosts {', '.join(dict(boost))}; expected "
                    "a group for every item, an empty list for an item that belongs to none"
                )
            continue
        several = isinstance(entry, Sequence | np.ndarray | set | frozenset) and not isinstance(entry, str)
        mine = set(map(identifier_text, entry)) if several else {identifier_text(entry)}
        out[i] = sum(addition for group, addition in additions if group in mine)
    return out
