"""Compiling kernels: once for a machine where the result can be kept, in every process where it cannot."""

from collections.abc import Callable
from typing import Any

import numba


def njit(*, cache: bool, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """As `numba.njit`, but a kernel that has nowhere to be cached is compiled all the same.

    Numba looks for a writable place in NUMBA_CACHE_DIR, beside the kernel's file and in the user's cache folder; a
    read-only container has none of them.
    """

    def compiled(kernel: Callable[..., Any]) -> Any:
        try:
            return numba.njit(cache=cache, **options)(kernel)
        except RuntimeError:
            return numba.njit(**options)(kernel)

    return compiled


def kernel(loop: Callable[..., Any]) -> Any:
    """Compile a loop over arrays it is given. It allocates none, so references to them need not be counted."""
    return njit(cache=True, nogil=True, error_model="numpy", _nrt=False)(loop)


def part(loop: Callable[..., Any]) -> Any:
    """A piece of kernels: compiled as part of each one that calls it, never by itself."""
    return njit(cache=True, nogil=True, error_model="numpy", _nrt=False, inline="always")(loop)
