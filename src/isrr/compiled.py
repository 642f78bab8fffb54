"""Compiling kernels: once for a machine where the result can be kept, in every process where it cannot."""

import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numba
from numba.core.caching import FunctionCache, NullCache
from numba.core.runtime.nrt import rtsys

config: Any = numba.config
if config.DISABLE_JIT:
    said = "NUMBA_DISABLE_JIT is ignored: the kernels of isrr only run compiled"
    warnings.warn_explicit(said, RuntimeWarning, "isrr", 0)
    config.DISABLE_JIT = 0


class KernelCache(NullCache):
    """Numba's cache of one kernel on disk, from which a kernel is loaded without getting a compiler ready.

    Numba does that first, and it takes longer than all else that a short process does: SciPy's linear algebra is part
    of it. Machine code needs nothing but the runtime that counts references to arrays, if the kernel makes any. If a
    kernel is not found, it is compiled, and numba gets its compiler ready then.

    Numba looks for a writable place in NUMBA_CACHE_DIR, beside the kernel's file and in the user's cache folder. A
    read-only container has none of them; there, kernels are compiled in every process.
    """

    def __init__(self, kernel: Callable[..., Any], counts_references: bool) -> None:
        self.kernel = kernel
        self.counts_references = counts_references

    @cached_property
    def files(self) -> Any:
        """Where the kernel is kept, looked for when it is first called; None where there is no place."""
        try:
            return FunctionCache(self.kernel)  # type: ignore[no-untyped-call]
        except RuntimeError:
            return None

    @property
    def cache_path(self) -> str | None:
        """The folder of the kernel's files."""
        return None if self.files is None else self.files.cache_path

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was compiled for arguments of these types, if anything was."""
        if self.files is None:
            return None
        if self.counts_references:
            rtsys.initialize(target_context)
        with self.files._guard_against_spurious_io_errors():
            return self.files._load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled."""
        if self.files is not None:
            self.files.save_overload(sig, data)


def njit(*, cache: bool, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """As `numba.njit`, with a cache that later processes load from quickly, where there is a place for one."""

    def compiled(kernel: Callable[..., Any]) -> Any:
        dispatcher: Any = numba.njit(**options)(kernel)
        if cache:
            dispatcher._cache = KernelCache(kernel, counts_references=options.get("_nrt", True))
        return dispatcher

    return compiled


def kernel(loop: Callable[..., Any]) -> Any:
    """Compile a loop over arrays it is given. It allocates none, so references to them need not be counted."""
    return njit(cache=True, nogil=True, error_model="numpy", _nrt=False)(loop)


def part(loop: Callable[..., Any]) -> Any:
    """A piece of kernels: compiled as part of each one that calls it, never by itself.

    A call hands on every array as seven numbers or more: with a dozen arrays, it takes longer than a short loop does.
    """
    return njit(cache=True, nogil=True, error_model="numpy", _nrt=False, inline="always")(loop)
