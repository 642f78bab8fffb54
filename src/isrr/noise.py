"""Counter-based noise: a pure function of (seed, query, draw, item).

No generator state travels anywhere, so neither threads nor shards nor the order of queries change a bit. A stream is
named by 64 bits mixed from the seed and the query's key; within it, each draw and each item has its own number.
The mixer is the finaliser of SplitMix64 (Steele, Lea & Flood 2014), which turns any counter into good bits.
"""

import numpy as np
from numpy.typing import NDArray

from isrr.compiled import njit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
CALIBRATION = 0x63616C6962  # stream names: calibration and serving never share noise
SERVING = 0x7365727665


def mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble each number of an array."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


mix = njit(cache=True, nogil=True, inline="always")(mixed)  # the same of one number, for kernels


@njit(cache=True, nogil=True, inline="always")
def stream(seed, key, draw):
    """The stream of one draw for one query: `seed` and `key` are 64-bit names, `draw` a counter."""
    return mix(mix(mix(np.uint64(seed)) ^ np.uint64(key)) + (np.uint64(draw) + np.uint64(1)) * GOLDEN)


@njit(cache=True, nogil=True)
def streams(seed, keys, n_draws):
    """The streams of several draws for several queries, (n_queries, n_draws)."""
    names = np.empty((keys.size, n_draws), np.uint64)
    for q in range(keys.size):
        for d in range(n_draws):
            names[q, d] = stream(seed, keys[q], d)
    return names


@njit(cache=True, nogil=True, inline="always")
def uniform(stream_name, item):
    """A number in (0, 1), never 0 and never 1, for one item of a stream."""
    bits = mix(stream_name + (np.uint64(item) + np.uint64(1)) * GOLDEN)
    return (np.float64(bits >> np.uint64(11)) + 0.5) * 1.1102230246251565e-16


@njit(cache=True, nogil=True, inline="always")
def coin(stream_name):
    """A number in (0, 1) for the stream as a whole, apart from those of its items."""
    return uniform(stream_name, -1)


def stream_seed(seed: int, purpose: int) -> np.uint64:
    """The seed of all streams that serve one purpose."""
    name = (seed * 0x9E3779B97F4A7C15 + purpose) & 0xFFFFFFFFFFFFFFFF
    return np.uint64(name)
