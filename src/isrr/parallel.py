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

FEW_ROWS, MANY_ROWS = 1 << 14, 1 << 16  # of a block: what is worth another thread, and enough for one to work on
Progress = Callable[[int, int], None]

_threads: ContextVar[int | None] = ContextVar("threads", default=None)


def threads() -> int:
    """Threads in use: `use_threads`, else the variable ISRR_THREADS, else the cores this process may run on."""
    variable = os.environ.get("ISRR_THREADS") or "0"
    if not variable.isdecimal():
        raise ValueError(f"ISRR_THREADS is {variable!r}; expected a whole number, 0 for all cores")
    return _threads.get() or int(variable) or available_cores()


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
    work: Callable[[int, int], None],
    offsets: NDArray[np.int64],
    progress: Progress | None = None,
    rows: int = 0,
) -> None:
    """Call `work(start, stop)` for blocks of consecutive queries that together cover all of them.

    Args:
        work: Handles the queries start … stop − 1; called from several threads.
        offsets: Row offsets of the queries.
        progress: Called with (queries done, queries in all) after each block that this thread has done, and at the end.
        rows: About how many rows a block holds; by default, every thread has several.
    """
    n_queries = len(offsets) - 1
    rows = rows or min(max(int(offsets[-1]) // (4 * threads()), FEW_ROWS), MANY_ROWS)
    if offsets[-1] <= rows:
        work(0, n_queries)
        if progress:
            progress(n_queries, n_queries)
        return
    cuts = np.searchsorted(offsets[:-1], np.arange(0, offsets[-1], rows))
    cuts = np.unique(np.concatenate((cuts, [0, n_queries])))
    blocks = list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))
    waiting, done = iter(blocks), [0]

    def take(progress: Progress | None) -> None:
        try:
            for start, stop in waiting:
                work(start, stop)
                done.append(stop - start)
                if progress and (so_far := sum(done)) < n_queries:
                    progress(so_far, n_queries)
        finally:
            for _ in waiting:  # after an error nobody takes another block
                pass

    n_helpers = min(threads(), len(blocks)) - 1
    with ThreadPoolExecutor(max(n_helpers, 1)) as pool:  # which starts threads as they are needed
        helping = [pool.submit(take, None) for _ in range(n_helpers)]
        take(progress)
        for helper in helping:
            helper.result()
    if progress:
        progress(n_queries, n_queries)
