"""Queries on a device, in batches for a net: rows lie one after the other, and are padded only where a loss needs it.

An epoch shuffles the queries and cuts them into batches. Within a batch queries stand from the longest to the shortest
and are padded in buckets, each as wide as its longest; a bucket ends where a query is much shorter. Shapes are known on
the host, indices are made on the device: nothing waits for the device between two steps.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isrr.data.queries import IntArray
from isrr.errors import DataError
from isrr.gains import gain_of, ideal_dcg
from isrr_paper.features import Featured

# A query joins a bucket up to this many times its length. A GPU pays more for another bucket than for padding.
_WIDEST = {"cpu": 1.5, "cuda": 4.0}


@dataclass(frozen=True)
class Bucket:
    """Queries of similar length, padded together.

    Attributes:
        rows: Where their items are among the rows of the batch.
        index: Where each of those rows goes in the flattened padded array.
        gains: Gain of each item by the ideal DCG of its query, (n_queries, width).
        mask: True at items, (n_queries, width).
    """

    rows: slice
    index: Tensor
    gains: Tensor
    mask: Tensor

    def padded(self, rows: Tensor) -> Tensor:
        """One value a row of the batch → (n_queries, width), finite at the padding."""
        flat = rows.new_zeros(self.mask.numel())
        return flat.scatter_(0, self.index, rows[self.rows]).view(self.mask.shape)

    def unpadded(self, values: Tensor) -> Tensor:
        """(n_queries, width) → one value for each of the bucket's rows."""
        return values.reshape(-1)[self.index]


@dataclass(frozen=True)
class Batch:
    """Some queries: their features, one row per item, and the buckets in which their lists are padded."""

    features: Tensor
    n_queries: int
    buckets: list[Bucket]


class DeviceQueries:
    """Judged queries that have a relevant item, held on a device; gains are divided by the ideal DCG@k."""

    def __init__(self, queries: Featured, k: int, device: torch.device) -> None:
        ideal = ideal_dcg(queries, k=k)
        gains = gain_of(queries.need_relevance()) / np.repeat(np.where(ideal > 0, ideal, 1.0), queries.n_items)
        if not ideal.any():
            raise DataError("no query has a relevant item; so there is nothing to learn from")
        self.device = device
        self.chosen = np.flatnonzero(ideal > 0)
        self.lengths = queries.n_items[self.chosen]
        self.starts = queries.offsets[:-1][self.chosen]
        self.features = torch.tensor(queries.features, device=device)
        self._begin, self._length = (torch.as_tensor(values).to(device) for values in (self.starts, self.lengths))
        self.gains = torch.tensor(gains, dtype=torch.float32, device=device)

    def __len__(self) -> int:
        return len(self.chosen)

    def batches(self, batch_queries: int, order: IntArray | None = None) -> Iterator[Batch]:
        """Batches over all queries, in a given order of them."""
        order = np.arange(len(self)) if order is None else order
        batch = np.arange(len(order)) // batch_queries
        order = order[np.lexsort((-self.lengths[order], batch))]
        lengths = self.lengths[order]
        ends = np.concatenate(([0], np.cumsum(lengths)))
        query, place, row = self._rows(order, ends)
        on_device = torch.as_tensor(lengths).to(self.device, non_blocking=True)
        for first in range(0, len(order), batch_queries):
            last = min(first + batch_queries, len(order))
            rows = row[ends[first] : ends[last]]
            gains = self.gains[rows]
            buckets = []
            for run in runs_of_similar_length(lengths[first:last], _WIDEST[self.device.type]):
                start, stop = first + run[0], first + run[1]
                width = int(lengths[start])
                here = slice(int(ends[start]), int(ends[stop]))
                inside = slice(int(ends[start] - ends[first]), int(ends[stop] - ends[first]))
                index = (query[here] - start) * width + place[here]
                mask = torch.arange(width, device=self.device) < on_device[start:stop, None]
                padded = gains.new_zeros(mask.numel()).scatter_(0, index, gains[inside])
                buckets.append(Bucket(inside, index, padded.view(mask.shape), mask))
            yield Batch(self.features[rows], last - first, buckets)

    def padded(self, chosen: Tensor, width: int) -> Batch:
        """A batch of one bucket, made of device operations whose shapes are given by those of the arguments.

        Args:
            chosen: Numbers of its queries, on the device.
            width: At least the length of the longest; shorter lists are padded with their last item.
        """
        place = torch.arange(width, device=self.device)
        length = self._length[chosen, None]
        mask = place < length
        rows = (self._begin[chosen, None] + place.minimum(length - 1)).flatten()
        gains = self.gains[rows].view(mask.shape).masked_fill(~mask, 0.0)
        index = torch.arange(mask.numel(), device=self.device)
        return Batch(self.features[rows], len(chosen), [Bucket(slice(None), index, gains, mask)])

    def _rows(self, order: IntArray, ends: NDArray[np.int64]) -> tuple[Tensor, Tensor, Tensor]:
        """For each row of the epoch: its query, its place within the query, where it is stored."""
        n_rows = int(ends[-1])
        begin, length, stored = (
            torch.as_tensor(values).to(self.device, non_blocking=True)
            for values in (ends[:-1], np.diff(ends), self.starts[order])
        )
        numbers = torch.arange(len(order), device=self.device)
        query = torch.repeat_interleave(numbers, length, output_size=n_rows)
        place = torch.arange(n_rows, device=self.device) - begin[query]
        return query, place, stored[query] + place


def runs_of_similar_length(falling: IntArray, factor: float) -> Iterator[tuple[int, int]]:
    """Cut falling lengths into runs, start and stop, each of which stays within a factor of its first.

    Example:
        >>> list(runs_of_similar_length(np.array([90, 60, 30, 20]), 2.0))
        [(0, 2), (2, 4)]
    """
    start = 0
    while start < len(falling):
        stop = int(np.searchsorted(-falling, -falling[start] / factor, side="right"))
        yield start, stop
        start = stop
