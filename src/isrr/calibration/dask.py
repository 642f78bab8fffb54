"""Parquet files summed up on Dask: the scheduler in use takes a file a task."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from isrr.errors import MissingExtraError


def spread(function: Callable[[Path], Any], files: list[Path]) -> tuple[Any, ...]:
    """What `map` gives, computed by Dask."""
    try:
        from dask.base import compute
        from dask.delayed import delayed
    except ImportError:
        raise MissingExtraError("dask", "dask") from None
    answers: tuple[Any, ...] = compute(*(delayed(function)(file) for file in files))  # type: ignore[no-untyped-call]
    return answers
