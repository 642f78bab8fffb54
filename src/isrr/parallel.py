"""Work over queries in blocks, on several threads.

Kernels release the interpreter lock and write to disjoint slices, so results depend neither on the number of threads
nor on where blocks are cut.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
from numpy.typing import NDArray

ROWS_PER_BLOCK = 1 << 14
Progress = Callable[[int, int], None]

_threads: ContextVar[int | None] = ContextVar("threads", default=None)


def threads() -> int:
    """Threads in use: `use_threads`, else the variable ISRR_THREADS, else the cores this process may run on."""
    asked = os.environ.get("ISRR_THREADS") or "0"
    if not asked.isdecimal():
        raise ValueError(f"ISRR_THREADS is {asked!r}; expected a whole number, 0 for all cores")
    return _threads.get() or int(asked) or available_cores()


def available_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def use_threads(n_threads: int) -> Iterator[None]:
    """Run the body on a given number of threads.

    Example:
        >>> with use_threads(1):
        ...     threads()
        1
    """
    token = _threads.set(n_threads)
    try:
        yield
    finally:
        _threads.reset(token)


def over_queries(
    work: Callable[[int, int], None], offsets: NDArray[np.int64], progress: Progress | None = None
) -> None:
    """Call `work(start, stop)` for blocks of consecutive queries that together cover all of them.

    Args:
        work: Handles the queries start … stop − 1; called from several threads.
        offsets: Row offsets of the queries; blocks hold about equally many rows.
        progress: Called with (queries done, queries in all) after each block.
    """
    n_queries = len(offsets) - 1
    cuts = np.searchsorted(offsets[:-1], np.arange(0, offsets[-1], ROWS_PER_BLOCK))
    cuts = np.unique(np.concatenate((cuts, [0, n_queries])))
    blocks = list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))
    if len(blocks) == 1 or threads() == 1:
        for start, stop in blocks:
            work(start, stop)
            if progress:
                progress(stop, n_queries)
        return
    with ThreadPoolExecutor(threads()) as pool:
        try:
            for (_, stop), _done in zip(blocks, pool.map(lambda block: work(*block), blocks), strict=True):
                if progress:
                    progress(stop, n_queries)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
