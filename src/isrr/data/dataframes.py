"""Frames of pandas, polars and pyarrow as tables, by way of narwhals."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from isrr.data.files import Table
from isrr.errors import DataError


def from_frame(source: Any) -> Table:
    """The table in a pandas, polars or pyarrow frame."""
    import narwhals as nw
    import pyarrow as pa
    from narwhals.exceptions import DuplicateError

    try:
        frame = nw.from_native(source)
        names = frame.collect_schema().names()
    except DuplicateError as error:
        raise DataError(f"table: a column appears twice: {' '.join(str(error).split())}") from None
    except TypeError:
        kind = type(source).__name__
        raise DataError(f"a {kind} is neither a path nor a pandas, polars or pyarrow table") from None
    odd = next((name for name in names if not isinstance(name, str)), None)
    if odd is not None:
        raise DataError(f"table: a column is named {odd!r}; names of columns must be text")

    def read(columns: list[str], _: list[str]) -> Any:
        chosen = frame.select(columns)
        try:
            return (chosen.collect() if isinstance(chosen, nw.LazyFrame) else chosen).to_arrow()
        except (pa.ArrowException, OverflowError) as error:
            raise DataError(f"table: a column mixes kinds of values: {error}") from None

    return Table("table", names, read)


def frame_of(columns: Mapping[str, Any]) -> Any:
    """A frame of pandas where it is installed, else of polars, else of pyarrow."""
    import narwhals as nw

    backend = next((name for name in ("pandas", "polars") if find_spec(name)), "pyarrow")
    return nw.from_dict(dict(columns), backend=backend).to_native()  # type: ignore[arg-type]
