"""Exposure pooled by provider or group of items."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isrr.data.queries import FloatArray, IntArray, Queries
from isrr.gains import Gain, gain
from isrr.metrics import _kernels


@dataclass(frozen=True, eq=False)
class GroupExposure:
    """Exposure and gain of the groups in each query; rows of query q are `offsets[q] : offsets[q + 1]`.

    Attributes:
        offsets: (n_queries + 1,).
        groups: Group of each row.
        exposure: Exposure of the group's items in the query, added up.
        gain: Their gain, added up.
    """

    offsets: IntArray
    groups: NDArray[Any]
    exposure: FloatArray
    gain: FloatArray

    def disparity(self) -> FloatArray:
        """Disparity of each query between groups in place of items, (n_queries,)."""
        out = np.empty(len(self.offsets) - 1)
        _kernels.disparity_of_queries(self.offsets, self.exposure, self.gain, out)
        return out


@dataclass(frozen=True, eq=False)
class Groups:
    """Which rows pool together, and what their items deserve: found once, for any number of rankers.

    Attributes:
        offsets, groups, gain: As in `GroupExposure`.
        place: The pooled row that each row of the queries adds to, in query order, (n_rows,).
    """

    offsets: IntArray
    groups: NDArray[Any]
    gain: FloatArray
    place: IntArray

    @classmethod
    def of(cls, queries: Queries, gain_kind: Gain = "exponential") -> "Groups":
        """By query and `item_groups`."""
        names, code = queries.coded_groups
        query = np.repeat(np.arange(len(queries)), queries.n_items)
        pairs, place = np.unique(query * len(names) + code, return_inverse=True)
        offsets = np.searchsorted(pairs // len(names), np.arange(len(queries) + 1)).astype(np.int64)
        gains = gain(queries.need_relevance(), gain_kind)
        return cls(offsets, names[pairs % len(names)], _added_up(place, gains), place)

    def pooled(self, exposure: FloatArray) -> GroupExposure:
        """The exposure of each group, from one number a row in query order."""
        return GroupExposure(self.offsets, self.groups, _added_up(self.place, exposure), self.gain)


def group_exposure(exposure: ArrayLike, queries: Queries, *, gain_kind: Gain = "exponential") -> GroupExposure:
    """Pool exposure and gain over the items of a group, query by query.

    Args:
        exposure: One number a row, in the caller's row order.
        queries: Judged queries with `item_groups`.
        gain_kind: "exponential" or "linear".
    """
    return Groups.of(queries, gain_kind).pooled(queries.in_query_order(exposure, "exposure"))


def _added_up(place: IntArray, values: FloatArray) -> FloatArray:
    return np.bincount(place, values).astype(np.float64)
