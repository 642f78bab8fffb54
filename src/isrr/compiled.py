"""How loops are compiled: once per machine, and in every process where the result cannot be kept."""

import warnings
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

config: Any = numba.config

CACHE_HINT = "kernels are compiled in every process: set NUMBA_CACHE_DIR to a writable folder to keep them"
_cacheable: list[bool] = []


def kernel(loop: Callable[..., Any]) -> Any:
    """Compile a loop, keep it for later processes, and let other threads run meanwhile."""
    if config.DISABLE_JIT:  # as numba does then: division by zero and overflow as in compiled code
        return np.errstate(all="ignore")(loop)
    try:
        return numba.njit(cache=True, nogil=True, error_model="numpy")(loop)
    except RuntimeError:  # no folder is writable
        if not _cacheable:
            _cacheable.append(False)
            warnings.warn_explicit(CACHE_HINT, RuntimeWarning, "isrr", 0)
        return numba.njit(nogil=True, error_model="numpy")(loop)
