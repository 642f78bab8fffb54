"""What calibration has measured: values per query and configuration, or sums of their powers; shards merge exactly.

Values kept one by one are put in canonical order (`canonical_order`) before they are used, so neither the order of
queries nor their cut into shards changes a bit. Beyond `LARGEST_KEPT` queries, sums of powers take their place: with v
a configuration's value on a query and r what it is compared with, every loss is X = A·v + B·r + C, hence

    Σ (X − α)ᵖ = Σ over a + b ≤ p of  p!/(a!·b!·(p − a − b)!) · Aᵃ · Bᵇ · (C − α)^(p − a − b) · Σ vᵃrᵇ

for every promise about the metric, and powers up to the eighth bound the evidence from the safe side. Sums are kept in
whole numbers, which add up exactly in any order.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import factorial

import numpy as np
from numpy.typing import NDArray

from isrr.calibration._kernels import UNITS, add_powers
from isrr.data.queries import FloatArray
from isrr.data.sample import canonical_order
from isrr.exact import UNIT, exact_sums
from isrr.risk.lattice import WholeNumberArray

LARGEST_KEPT = 200_000  # queries whose values are kept one by one
HIGHEST = 8  # power that evidence is found from
BLOCK = 1 << 16  # queries whose sums fit into 64 bits

Keys = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Sums:
    """What is reported of each configuration: exact sums over queries, joined by `+`.

    Attributes:
        n_queries: Queries summed up.
        sums: Σv, Σr, Σv², Σvr and Σr² for values v beside what they are compared with, in units of 2⁻¹⁰⁷⁴, (n_grid, 5).
    """

    n_queries: int
    sums: WholeNumberArray

    @classmethod
    def of(cls, values: FloatArray, reference: FloatArray) -> "Sums":
        """Of values (n_queries, n_grid) and what they are compared with, (n_queries,); NaN rows are left out."""
        counted = ~np.isnan(values[:, 0])
        if not counted.all():
            values, reference = values[counted], reference[counted]
        r = reference[:, None]
        sums = [exact_sums(part)[0] for part in (values, r, values**2, values * r, r**2)]
        return cls(len(values), np.stack(np.broadcast_arrays(*sums), axis=1))

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(self.n_queries + other.n_queries, self.sums + other.sums)

    def means(self) -> FloatArray:
        """The mean of v, r, v², vr and r², (5, n_grid)."""
        found: FloatArray = (self.sums / (UNIT * max(self.n_queries, 1))).astype(float).T
        return found

    def mean_and_error(self) -> tuple[FloatArray, FloatArray]:
        """Mean of the values and its standard error, (n_grid,) each."""
        mean, _, square, _, _ = self.means()
        return mean, np.sqrt(np.maximum(square - mean**2, 0.0) / max(self.n_queries - 1, 1))

    def reduction(self) -> tuple[FloatArray, FloatArray]:
        """1 − v̄ / r̄ of each configuration, freed of the ratio's bias to first order, and its error.

        With s the covariances over queries and q = v̄/r̄: q − (q·s_rr − s_vr)/(n·r̄²) and √((s_vv − 2q·s_vr +
        q²·s_rr)/n)/r̄, the leading terms of the jackknife's.
        """
        mean, reference, square, product, square_of_reference = self.means()
        if not (reference > 0).all():
            return np.zeros(mean.size), np.zeros(mean.size)
        ratio, degrees = mean / reference, max(self.n_queries - 1, 1)
        s_vv, s_vr = square - mean**2, product - mean * reference
        s_rr = square_of_reference - reference**2
        bias = (ratio * s_rr - s_vr) / (degrees * reference**2)
        variance = np.maximum(s_vv - 2 * ratio * s_vr + ratio**2 * s_rr, 0.0)
        return 1.0 - (ratio - bias), np.sqrt(variance / degrees) / reference


@dataclass(frozen=True, eq=False)
class PowerSums:
    """Sums over queries of products of powers, joined by `+`.

    Attributes:
        n_queries: Queries summed up.
        unit: What values were divided by first.
        sums: Σ vᵃrᵇ at [:, a, b] in units of 2⁻⁴⁰, as Python integers, (n_grid, 9, 9).
    """

    n_queries: int
    unit: float
    sums: WholeNumberArray

    @classmethod
    def of(cls, values: FloatArray, reference: FloatArray, unit: float = 1.0) -> "PowerSums":
        """Sum up values of shape (n_queries, n_grid) and what they are compared with, (n_queries,); |values| ≤ unit."""
        shape = (values.shape[1], HIGHEST + 1, HIGHEST + 1)
        total = np.zeros(shape, object)
        for start in range(0, len(values), BLOCK):
            rows, sums = slice(start, start + BLOCK), np.zeros(shape, np.int64)
            add_powers(np.ascontiguousarray(values[rows]), np.ascontiguousarray(reference[rows]), unit, sums)
            total += sums.astype(object)
        return cls(len(values), unit, total)

    def __add__(self, other: "PowerSums") -> "PowerSums":
        return PowerSums(self.n_queries + other.n_queries, self.unit, self.sums + other.sums)

    def mean(self, a: int = 1, b: int = 0) -> FloatArray:
        """The mean of vᵃrᵇ, (n_grid,)."""
        found: FloatArray = (self.sums[:, a, b] / (UNITS * max(self.n_queries, 1))).astype(float)
        return found * self.unit ** (a + b)

    def loss_powers(
        self, affine: tuple[FloatArray, FloatArray, FloatArray], shift: FloatArray | float, highest: int
    ) -> FloatArray:
        """Σ (X − shift), Σ (X − shift)², … of losses X = A·v + B·r + C, (n_grid, highest); A, B and C are (n_grid,)."""
        of_value, of_reference, constant = affine[0] * self.unit, affine[1] * self.unit, affine[2] - shift
        sums: FloatArray = (self.sums / UNITS).astype(float)
        found = np.zeros((len(sums), highest))
        for p in range(1, highest + 1):
            for a in range(p + 1):
                for b in range(p - a + 1):
                    ways = factorial(p) / (factorial(a) * factorial(b) * factorial(p - a - b))
                    found[:, p - 1] += ways * of_value**a * of_reference**b * constant ** (p - a - b) * sums[:, a, b]
        return found


@dataclass(frozen=True, eq=False)
class Values:
    """A metric kept one by one: of each query and configuration, NaN rows where a query does not count.

    Attributes:
        values: (n_queries, n_grid).
        reference: What it is compared with, (n_queries,).
    """

    values: FloatArray
    reference: FloatArray

    def __getitem__(self, rows: NDArray[np.int64] | NDArray[np.bool_] | slice) -> "Values":
        return Values(self.values[rows], self.reference[rows])

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Which queries count, (n_queries,)."""
        return ~np.isnan(self.values[:, 0])


@dataclass(frozen=True, eq=False)
class Table:
    """Everything that is tested and reported, for a path of configurations, the deterministic ranker first.

    Attributes:
        n_skipped: Queries that count for no promise.
        keys: Hashes of the other queries' ids, (n_queries,), where values are kept.
        segments: Their segments, (n_queries,), if a promise is about segments.
        kept: One entry per promise, where values are kept.
        powers: Sums per promise and segment, where values are summed up; "" stands for all queries.
        utility, disparity: What is reported of each configuration, beside the deterministic ranker's.
    """

    n_queries: int
    n_skipped: int
    keys: Keys
    segments: NDArray[np.object_] | None
    kept: tuple[Values, ...]
    powers: dict[tuple[int, str], PowerSums]
    utility: Sums
    disparity: Sums

    def in_canonical_order(self, digest: str) -> "Table":
        """The same with queries in canonical order."""
        order = canonical_order(self.keys, digest)
        segments = None if self.segments is None else self.segments[order]
        return replace(self, keys=self.keys[order], segments=segments, kept=tuple(v[order] for v in self.kept))


def merge(shards: Sequence[Table]) -> Table:
    """One table from shards over disjoint queries, in any order."""
    first, powers = shards[0], dict[tuple[int, str], PowerSums]()
    for shard in shards:
        for name, sums in shard.powers.items():
            powers[name] = powers[name] + sums if name in powers else sums
    named = [shard.segments for shard in shards if shard.segments is not None]
    return Table(
        sum(shard.n_queries for shard in shards),
        sum(shard.n_skipped for shard in shards),
        np.concatenate([shard.keys for shard in shards]),
        np.concatenate(named) if named else None,
        tuple(
            Values(
                np.concatenate([shard.kept[i].values for shard in shards]),
                np.concatenate([shard.kept[i].reference for shard in shards]),
            )
            for i in range(len(first.kept))
        ),
        powers,
        reduce(Sums.__add__, (shard.utility for shard in shards)),
        reduce(Sums.__add__, (shard.disparity for shard in shards)),
    )
