"""Parquet files summed up on Dask: the scheduler in use takes a file a task."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from isrr.errors import MissingExtraError
from isrr.parallel import use_threads


def spread(function: Callable[[Path], Any], files: list[Path]) -> tuple[Any, ...]:
    """What `map` gives, computed by Dask."""
    try:
        from dask.base import compute
        from dask.delayed import delayed
    except ImportError:
        raise MissingExtraError("dask", "dask") from None
    task = delayed(_on_one_thread)
    answers: tuple[Any, ...] = compute(*(task(function, file) for file in files))  # type: ignore[no-untyped-call]
    return answers


def _on_one_thread(function: Callable[[Path], Any], file: Path) -> Any:
    """The scheduler runs a task for every core."""
    with use_threads(1):
        return function(file)
