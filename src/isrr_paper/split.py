"""The three parts of a data set with features, and seeded splits by query.

A query's part depends on its id, the seed and the shares alone: neither the order of queries nor which others
there are moves it, so shards split apart agree with the whole. Shares are kept on average, not to the query.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeVar

import numpy as np

from isrr.data.queries import Queries
from isrr.errors import DataError
from isrr_paper.features import Featured


@dataclass(frozen=True, eq=False)
class Splits:
    """Training, validation and test queries."""

    train: Featured
    validation: Featured
    test: Featured


Q = TypeVar("Q", bound=Queries)


def split(queries: Q, shares: Sequence[float] = (0.6, 0.2, 0.2), seed: int = 0) -> tuple[Q, ...]:
    """Divide queries into parts, each query into one, by a hash of its id keyed with the seed.

    Args:
        queries: What to divide.
        shares: Expected share of each part; they sum to 1.
        seed: Another seed, another division.

    Example:
        >>> train, test = split(Queries.from_arrays(scores=np.ones(100), query_ids=np.arange(100)), (0.5, 0.5))
        >>> len(train) + len(test)
        100
    """
    shares = tuple(map(float, shares))
    if min(shares, default=0) <= 0 or abs(sum(shares) - 1) > 1e-9:
        raise ValueError(f"shares must be positive and sum to 1, got {shares}")
    key = blake2b(str(seed).encode(), digest_size=32).digest()
    hashes = [blake2b(str(query).encode(), digest_size=8, key=key).digest() for query in queries.query_ids]
    uniform = np.array([int.from_bytes(digest, "little") for digest in hashes]) / 2.0**64
    part = np.searchsorted(np.cumsum(shares[:-1]), uniform, side="right")
    sizes = np.bincount(part, minlength=len(shares))
    if (sizes == 0).any():
        empty = int(np.argmin(sizes))
        problem = f"part {empty} (a share of {shares[empty]}) gets none of the {len(queries)} queries"
        raise DataError(f"{problem}; expected a larger share, or another seed")
    return tuple(queries[np.flatnonzero(part == place)] for place in range(len(shares)))
