"""RiskTable: what calibration has measured, query by configuration, or summed up; shards of it merge exactly.

What must add up is kept in whole numbers, so any cut of the queries into shards, merged in any order, gives the same
bits. Losses that are kept one by one are put in canonical order only when they are tested: the order of a keyed hash
of the query ids, the key being the digest of all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from isrr.data.queries import FloatArray
from isrr.errors import MergeError
from isrr.guarantee import Guarantee
from isrr.ranker.gpl import GPLRanker
from isrr.risk import mixture, vb

UTILITY_SCALE = 2**40  # whole numbers stand for multiples of 2⁻⁴⁰ …
DISPARITY_SCALE = 2**28  # … and, as disparities and their squares are larger, of 2⁻²⁸
WholeNumbers = tuple[int, ...]


@dataclass(frozen=True)
class Moments:
    """Sums over queries for each configuration, in whole numbers; the first configuration is the deterministic one.

    Attributes:
        n_queries: Queries summed up.
        utility, utility_squares: Σ U and Σ U², in units of 2⁻⁴⁰.
        disparity, disparity_squares: Σ D and Σ D², in units of 2⁻²⁸.
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

        def whole(values: FloatArray, scale: int) -> WholeNumbers:
            sums = [0] * values.shape[1]
            for start in range(0, len(values), 4096):  # short enough that a sum of int64 cannot overflow
                part = np.rint(values[start : start + 4096] * scale).astype(np.int64).sum(axis=0)
                sums = [total + int(value) for total, value in zip(sums, part, strict=True)]
            return tuple(sums)

        return cls(
            len(utility),
            whole(utility, UTILITY_SCALE),
            whole(utility**2, UTILITY_SCALE),
            whole(disparity, DISPARITY_SCALE),
            whole(disparity**2, DISPARITY_SCALE),
            whole(disparity * disparity[:, :1], DISPARITY_SCALE),
        )

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

    def __add__(self, other: "Cell") -> "Cell":
        if (self.guarantee, self.segment) != (other.guarantee, other.segment):
            raise MergeError(f"a cell for '{self.guarantee}' cannot take one for '{other.guarantee}'")
        if self.losses is not None and other.losses is not None:
            keys = np.concatenate((self.keys, other.keys))
            return Cell(self.guarantee, self.segment, keys, np.concatenate((self.losses, other.losses)))
        if isinstance(self.summary, vb.Summary) and isinstance(other.summary, vb.Summary):
            return Cell(self.guarantee, self.segment, self.keys, summary=self.summary + other.summary)
        if isinstance(self.summary, mixture.Summary) and isinstance(other.summary, mixture.Summary):
            return Cell(self.guarantee, self.segment, self.keys, summary=self.summary + other.summary)
        raise MergeError("one shard kept its losses and another summed them up; fill both the same way")


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
    """

    grid: tuple[GPLRanker, ...]
    moments: Moments
    cells: tuple[Cell, ...]
    n_skipped: int
    method: str
    n_draws: int

    def __add__(self, other: "RiskTable") -> "RiskTable":
        if self.grid != other.grid:
            raise MergeError(
                f"shards of other paths: {len(self.grid)} configurations here, {len(other.grid)} there, "
                "or the same number with other settings; fill all shards with one path"
            )
        if (self.method, self.n_draws) != (other.method, other.n_draws):
            raise MergeError(f"shards were evaluated differently: '{self.method}' here, '{other.method}' there")
        cells = {(cell.guarantee, cell.segment): cell for cell in self.cells}
        for cell in other.cells:
            name = (cell.guarantee, cell.segment)
            cells[name] = cells[name] + cell if name in cells else cell
        return RiskTable(
            self.grid,
            self.moments + other.moments,
            tuple(cells.values()),
            self.n_skipped + other.n_skipped,
            self.method,
            self.n_draws,
        )


def merge(shards: Sequence[RiskTable]) -> RiskTable:
    """One table from shards over disjoint queries, in any order."""
    if not shards:
        raise MergeError("there is nothing to merge: the sequence of shards is empty")
    return reduce(lambda a, b: a + b, shards)


def canonical_order(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Rows in the order of a keyed hash of their query: the same whatever order they came in, blind to losses.

    The key is the digest of all query keys; each key is then mixed with it.
    """
    digest = hash_key(keys)
    first, second = np.frombuffer(digest, np.uint64)
    return np.lexsort((keys, _scrambled(keys ^ first) ^ _scrambled(keys + second)))


def hash_key(keys: NDArray[np.uint64]) -> bytes:
    """The 16-byte digest of a set of query keys."""
    return blake2b(np.sort(keys).astype("<u8").tobytes(), digest_size=16).digest()


def _scrambled(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64, over an array; `isrr.noise.mix` is its compiled twin."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
