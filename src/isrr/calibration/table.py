"""RiskTable: what calibration has measured, query by configuration, or summed up; shards of it merge exactly.

What must add up is kept in whole numbers, so any cut of the queries into shards, merged in any order, gives the same
bits. Losses that are kept one by one are put in canonical order only when they are tested: the order of a keyed hash
of the query ids, the key being the digest of all of them.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isrr.data.queries import FloatArray
from isrr.errors import MergeError
from isrr.guarantee import Guarantee
from isrr.noise import mixed
from isrr.ranker.gpl import GPLRanker
from isrr.risk import mixture, vb
from isrr.risk.lattice import whole_sums

UTILITY_SCALE = 2**40  # whole numbers stand for multiples of 2⁻⁴⁰ …
DISPARITY_SCALE = 2**28  # … and, as disparities and their squares are larger, of 2⁻²⁸
WholeNumbers = tuple[int, ...]


@dataclass(frozen=True)
class Moments:
    """Sums over queries for each configuration, in whole numbers; the first configuration is the deterministic one.

    Attributes:
        n_queries: Queries summed up.
        utility, utility_squares: Σ U, each rounded down, and Σ U², in units of 2⁻⁴⁰.
        disparity, disparity_squares: Σ D, each rounded up, and Σ D², in units of 2⁻²⁸.
        disparity_products: Σ D · D_deterministic, in units of 2⁻²⁸.
    """

    n_queries: int
    utility: WholeNumbers
    utility_squares: WholeNumbers
    disparity: WholeNumbers
    disparity_squares: WholeNumbers
    disparity_products: WholeNumbers

    @classmethod
    def of(cls, utility: FloatArray, disparity: FloatArray) -> "Moments":
        """Sum up values of shape (n_queries, n_grid), deterministic ranker first."""

        return cls(
            len(utility),
            whole_sums(utility, UTILITY_SCALE, np.floor),
            whole_sums(utility**2, UTILITY_SCALE),
            whole_sums(disparity, DISPARITY_SCALE, np.ceil),
            whole_sums(disparity**2, DISPARITY_SCALE),
            whole_sums(disparity * disparity[:, :1], DISPARITY_SCALE),
        )

    @classmethod
    def none(cls, n_grid: int) -> "Moments":
        """Of no queries."""
        return cls.of(np.empty((0, n_grid)), np.empty((0, n_grid)))

    @classmethod
    def read(cls, tree: Mapping[str, Any]) -> "Moments":
        """From its fields, with lists for tuples."""
        return cls(tree["n_queries"], *(tuple(sums) for name, sums in tree.items() if name != "n_queries"))

    def __add__(self, other: "Moments") -> "Moments":
        pairs = [
            tuple(a + b for a, b in zip(getattr(self, name), getattr(other, name), strict=True))
            for name in ("utility", "utility_squares", "disparity", "disparity_squares", "disparity_products")
        ]
        return Moments(self.n_queries + other.n_queries, *pairs)

    def mean_utility(self) -> tuple[FloatArray, FloatArray]:
        """Mean utility of each configuration and its standard error."""
        return _mean_and_error(self.utility, self.utility_squares, self.n_queries, UTILITY_SCALE)

    def mean_disparity(self) -> tuple[FloatArray, FloatArray]:
        """Mean disparity of each configuration and its standard error."""
        return _mean_and_error(self.disparity, self.disparity_squares, self.n_queries, DISPARITY_SCALE)

    def fairness_gain(self) -> tuple[FloatArray, FloatArray]:
        """1 − D / D_deterministic of each configuration, freed of the ratio's bias to first order, and its error.

        With s the covariances over queries, r = D̄/D̄₀:
        r − (r·s₀₀ − s₀)/(n·D̄₀²) and √((s − 2r·s₀ + r²·s₀₀)/n)/D̄₀; the leading terms of the jackknife's.
        """
        n = self.n_queries
        mean = np.array(self.disparity, float) / (DISPARITY_SCALE * n)
        if mean[0] <= 0:
            return np.zeros(mean.size), np.zeros(mean.size)
        squares = np.array(self.disparity_squares, float) / (DISPARITY_SCALE * n) - mean**2
        products = np.array(self.disparity_products, float) / (DISPARITY_SCALE * n) - mean * mean[0]
        ratio = mean / mean[0]
        degrees = max(n - 1, 1)
        bias = (ratio * squares[0] - products) / (degrees * mean[0] ** 2)
        variance = np.maximum(squares - 2 * ratio * products + ratio**2 * squares[0], 0.0)
        return 1.0 - (ratio - bias), np.sqrt(variance / degrees) / mean[0]


def _mean_and_error(
    sums: WholeNumbers, squares: WholeNumbers, n_queries: int, scale: int
) -> tuple[FloatArray, FloatArray]:
    mean = np.array(sums, float) / (scale * n_queries)
    variance = np.maximum(np.array(squares, float) / (scale * n_queries) - mean**2, 0.0)
    return mean, np.sqrt(variance / max(n_queries - 1, 1))


@dataclass(frozen=True, eq=False)
class Cell:
    """The losses of one promise in one segment: query by query, or summed up.

    Attributes:
        guarantee: The promise.
        segment: The segment, or None for all queries.
        keys: Hashes of the query ids, (n_queries,), where losses are kept.
        losses: (n_queries, n_grid), or None.
        summary: Sums-only evidence, or None.
    """

    guarantee: Guarantee
    segment: str | None
    keys: NDArray[np.uint64]
    losses: FloatArray | None = None
    summary: vb.Summary | mixture.Summary | None = None

    @property
    def n_queries(self) -> int:
        """Queries in the cell."""
        if self.losses is not None:
            return len(self.losses)
        assert self.summary is not None
        return (self.summary.squares if isinstance(self.summary, vb.Summary) else self.summary).n_queries


@dataclass(frozen=True, eq=False)
class RiskTable:
    """Everything that is tested and reported, for a path of configurations.

    Attributes:
        grid: The configurations, the deterministic ranker first.
        moments: Utility and disparity.
        cells: One for each promise and segment.
        n_skipped: Queries left out for having no relevant item.
        method: How utilities were evaluated, "exact" or "draws".
        n_draws: Rankings drawn per query where any were.
        keys: Of all queries tested on or left out, where losses are kept one by one.
    """

    grid: tuple[GPLRanker, ...]
    moments: Moments
    cells: tuple[Cell, ...]
    n_skipped: int
    method: str
    n_draws: int
    keys: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))


def merge(shards: Sequence[RiskTable]) -> RiskTable:
    """One table from shards over disjoint queries, in any order."""
    if not shards:
        raise MergeError("there is nothing to merge: the sequence of shards is empty")
    first, parts = shards[0], defaultdict[tuple[Guarantee, str | None], list[Cell]](list)
    for shard in shards:
        if shard.grid != first.grid:
            raise MergeError(
                f"shards of other paths: {len(first.grid)} configurations here, {len(shard.grid)} there, "
                "or the same number with other settings; fill all shards with one path"
            )
        if (shard.method, shard.n_draws) != (first.method, first.n_draws):
            raise MergeError(f"shards were evaluated differently: '{first.method}' here, '{shard.method}' there")
        for cell in shard.cells:
            parts[cell.guarantee, cell.segment].append(cell)
    promises = list(dict.fromkeys(guarantee for guarantee, _ in parts))
    names = sorted(parts, key=lambda name: (promises.index(name[0]), name[1] or ""))
    return RiskTable(
        first.grid,
        reduce(Moments.__add__, (shard.moments for shard in shards)),
        tuple(_joined(parts[name]) for name in names),
        sum(shard.n_skipped for shard in shards),
        first.method,
        first.n_draws,
        np.concatenate([shard.keys for shard in shards]),
    )


def _joined(cells: Sequence[Cell]) -> Cell:
    first = cells[0]
    if len({type(cell.summary) for cell in cells}) > 1:
        raise MergeError("one shard kept its losses and another summed them up; fill both the same way")
    keys = np.concatenate([cell.keys for cell in cells])
    losses = [cell.losses for cell in cells if cell.losses is not None]
    if losses:
        return Cell(first.guarantee, first.segment, keys, np.concatenate(losses))
    total = reduce(lambda ours, theirs: ours + theirs, [cell.summary for cell in cells])  # type: ignore[operator]
    return Cell(first.guarantee, first.segment, keys, summary=total)


def canonical_order(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Rows in the order of a keyed hash of their query: the same whatever order they came in, blind to losses.

    The key is the digest of all query keys; each key is then mixed with it.
    """
    digest = hash_key(keys)
    first, second = np.frombuffer(digest, np.uint64)
    return np.lexsort((keys, mixed(keys ^ first) ^ mixed(keys + second)))


def hash_key(keys: NDArray[np.uint64]) -> bytes:
    """The 16-byte digest of a set of query keys."""
    return blake2b(np.sort(keys).astype("<u8").tobytes(), digest_size=16).digest()
