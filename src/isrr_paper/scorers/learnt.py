"""Which queries a scorer has learnt from, remembered by a sample, so that scoring them again can be noticed.

A query is named by a hash of its id and features. Kept are the smallest hashes, up to `KEPT`: a part of the training
queries that is the same whatever order they came in, and that any other queries can be held against.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from isrr.noise import GOLDEN, mixed
from isrr_paper.features import Featured

KEPT = 1024

Hashes = NDArray[np.uint64]


def sample_of(parts: Sequence[Featured]) -> str:
    """Return one sample of all parts together, 16 hex digits per query."""
    hashes = np.unique(np.concatenate([query_hashes(part) for part in parts]))[:KEPT]
    return "".join(f"{value:016x}" for value in hashes.tolist())


def share_in(sample: str, queries: Featured) -> float:
    """Estimate which share of the queries a scorer with this sample has learnt from.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> ids, features = np.repeat(np.arange(1_000), 10), rng.random((10_000, 3))
        >>> queries = Featured.from_arrays(features=features, query_ids=ids)
        >>> share_in(sample_of([queries]), queries), share_in(sample_of([queries[500:]]), queries[:500])
        (1.0, 0.0)
    """
    hashes_of_sample = np.array([int(sample[at : at + 16], 16) for at in range(0, len(sample), 16)], np.uint64)
    hashes = query_hashes(queries)
    if hashes_of_sample.size == KEPT:
        hashes = hashes[hashes <= hashes_of_sample[-1]]
    return float(np.isin(hashes, hashes_of_sample).mean()) if hashes_of_sample.size and hashes.size else 0.0


def query_hashes(queries: Featured) -> Hashes:
    """A hash of each query's id and features, whatever order its rows stand in, (n_queries,)."""
    content = queries.keys.copy()
    if queries.features is not None:
        bits = np.ascontiguousarray(queries.features).view(np.uint32).sum(axis=1, dtype=np.uint64)
        content += np.add.reduceat(bits, queries.offsets[:-1]) * GOLDEN
    return mixed(content)
