"""Lists of numbers, one per query: offsets and values, chosen and joined along with the queries they belong to."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ragged = tuple[NDArray[np.int64], NDArray[np.float64]]


def lists_of(list_of: NDArray[Any], values: NDArray[Any], n_lists: int) -> Ragged:
    """Return the values of each list, in the order given, from the number of the list that each value belongs to.

    Example:
        >>> lists_of(np.array([2, 0, 2]), np.array([5.0, 6.0, 7.0]), 3)
        (array([0, 1, 1, 3]), array([6., 5., 7.]))
    """
    lengths = np.bincount(list_of, minlength=n_lists)
    order = np.argsort(list_of, kind="stable")
    return offsets_from(lengths), np.asarray(values, np.float64)[order]


def offsets_from(lengths: ArrayLike) -> NDArray[np.int64]:
    """Return where lists of these lengths begin and end."""
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def rows_within(offsets: NDArray[np.int64], chosen: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the offsets of the chosen lists, put one behind the other, and the rows they have at present."""
    lengths = np.diff(offsets)[chosen]
    new = offsets_from(lengths)
    return new, np.repeat(offsets[:-1][chosen] - new[:-1], lengths) + np.arange(new[-1])


def side_by_side(one: Ragged, other: Ragged) -> Ragged:
    """Return each list of the one followed by that of the other.

    Example:
        >>> side_by_side((np.array([0, 1, 2]), np.array([1.0, 2.0])), (np.array([0, 0, 1]), np.array([9.0])))
        (array([0, 1, 3]), array([1., 2., 9.]))
    """
    n_lists = len(one[0]) - 1
    list_of = [np.repeat(np.arange(n_lists), np.diff(offsets)) for offsets, _ in (one, other)]
    return lists_of(np.concatenate(list_of), np.concatenate((one[1], other[1])), n_lists)
