"""Counter-based noise: a pure function of (seed, query, draw, item).

No generator state travels anywhere, so neither threads nor shards nor the order of queries change a bit. A stream is
named by 64 bits mixed from the seed and the query's key; within it, each draw and each item has its own number.
The mixer is the finaliser of SplitMix64 (Steele, Lea & Flood 2014), which turns any counter into good bits.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from isrr.compiled import kernel

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
CALIBRATION = 0x63616C6962  # stream names: calibration and serving never share noise
SERVING = 0x7365727665


def mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble each number of an array."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def fraction(bits: Any) -> Any:
    """Return numbers in (0, 1) from the upper 53 bits of each number."""
    return (np.float64(bits >> np.uint64(11)) + 0.5) * 2.0**-53


mix, _fraction = kernel(mixed), kernel(fraction)  # the same of one number, for kernels


@kernel
def stream(seed, key, draw):
    """Return the stream of one draw for one query: `seed` and `key` are 64-bit names, `draw` a counter."""
    return mix(mix(mix(np.uint64(seed)) ^ np.uint64(key)) + (np.uint64(draw) + np.uint64(1)) * GOLDEN)


def streams(seed: np.uint64, keys: NDArray[np.uint64], n_draws: int) -> NDArray[np.uint64]:
    """Return `stream` of several draws for several queries, (n_queries, n_draws)."""
    draws = np.arange(1, n_draws + 1, dtype=np.uint64) * GOLDEN
    return mixed(mixed(mixed(np.array([seed])) ^ keys)[:, None] + draws)


@kernel
def uniform(stream_name, item):
    """Return a number in (0, 1), never 0 and never 1, for one item of a stream."""
    return _fraction(mix(stream_name + (np.uint64(item) + np.uint64(1)) * GOLDEN))


@kernel
def coin(stream_name):
    """Return a number in (0, 1) for the stream as a whole, apart from those of its items; its name may be signed."""
    return _fraction(mix(np.uint64(np.int64(stream_name))))


def coins(names: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return `coin` of each of several streams."""
    numbers: NDArray[np.float64] = fraction(mixed(names))
    return numbers


def stream_seed(seed: int, purpose: int) -> np.uint64:
    """Return the seed of all streams that serve one purpose."""
    name = (seed * 0x9E3779B97F4A7C15 + purpose) & 0xFFFFFFFFFFFFFFFF
    return np.uint64(name)
