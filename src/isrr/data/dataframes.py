"""Results as a frame of pandas, polars or pyarrow, whichever is installed."""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def frame_of(columns: Mapping[str, Any]) -> Any:
    """Return a frame of pandas where it is installed, else of polars, else of pyarrow."""
    name = next((name for name in ("pandas", "polars") if find_spec(name)), None)
    return import_module(name).DataFrame(dict(columns)) if name else import_module("pyarrow").table(dict(columns))
