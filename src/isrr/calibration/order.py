"""The canonical order of queries: that of a keyed hash of their ids, the key being the digest of all of them.

Tests that read losses one by one read them in this order, which no cut into shards and no order of arrival changes.
"""

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from isrr.noise import mixed


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
