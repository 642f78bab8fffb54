"""Frames of pandas, polars and pyarrow, made by way of narwhals; `isrr.data.files` reads them."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any


def frame_of(columns: Mapping[str, Any]) -> Any:
    """A frame of pandas where it is installed, else of polars, else of pyarrow."""
    import narwhals as nw

    backend = next((name for name in ("pandas", "polars") if find_spec(name)), "pyarrow")
    return nw.from_dict(dict(columns), backend=backend).to_native()  # type: ignore[arg-type]
