"""The errors of isrr. Messages say where, what was found and what is expected.

    IsrrError
    ├── DataError (ValueError)           a table, a file or an array that cannot be queries
    ├── PromiseError (ValueError)        a promise that cannot be read, kept or tested
    ├── CertificateError (ValueError)    a certificate file that is damaged, edited or of another version
    ├── EngineError (RuntimeError)       a cluster that could not do its part
    └── MissingExtraError (ImportError)  an optional dependency that is not installed

An argument outside its range (a temperature of 0, a grid without rankers) is a plain ValueError, as Python's own are.
Failing to certify is no error: it is an outcome, `isrr.Abstention`.
"""

import json
import reprlib
from collections.abc import Iterable


class IsrrError(Exception):
    """Base class of all errors that isrr raises on purpose."""


class DataError(IsrrError, ValueError):
    """Input that cannot be read as queries.

    Attributes:
        query: The query at fault, if one is known.
        row: The row at fault, counted from 0, if one is known.
        column: Its column.
        source: The file or table, as the message begins with it.
        header: Whether a line of column names comes before the rows.
    """

    def __init__(
        self,
        message: str,
        query: str | None = None,
        *,
        row: int | None = None,
        column: str | None = None,
        source: str = "",
        header: bool = False,
    ) -> None:
        super().__init__(message)
        self.query = query
        self.row = row
        self.column = column
        self.source = source
        self.header = header

    def __str__(self) -> str:
        source = f"{self.source}: " if self.source else ""
        if self.row is None:
            return f"{source}{self.args[0]}"
        line = f" (line {self.row + 2})" if self.header else ""
        query = "" if self.query is None else f", query {self.query!r}"
        return f"{source}row {self.row + 1}{line}, column {self.column!r}{query}: {self.args[0]}"


class PromiseError(IsrrError, ValueError):
    """A promise that cannot be read, kept or tested."""


class CertificateError(IsrrError, ValueError):
    """A certificate that is damaged, edited by hand or of another version."""


class EngineError(IsrrError, RuntimeError):
    """A cluster that could not do its part; the data are not known to be at fault."""


class MissingExtraError(IsrrError, ImportError):
    """An optional dependency that is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed: {install_command(extra)}")


def install_command(extra: str) -> str:
    """Return the command that installs an extra, from the clone that isrr was installed from, if it was."""
    from importlib import metadata
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        record = json.loads(metadata.distribution("isrr").read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:
        record = {}
    if "dir_info" not in record:
        return f"pip install 'isrr[{extra}]'"
    editable = "-e " if record["dir_info"].get("editable") else ""
    return f"pip install {editable}'{url2pathname(urlsplit(record['url']).path)}[{extra}]'"


def did_you_mean(wanted: str, known: Iterable[str]) -> str:
    """Return the end of a message that suggests the closest name; nothing if none is close.

    Example:
        >>> did_you_mean("margins", ["price", "Margin"])
        "; did you mean 'Margin'?"
    """
    from difflib import get_close_matches

    by_lower = {name.lower(): name for name in reversed(list(known))}
    close = get_close_matches(wanted.lower(), by_lower, 1, 0.7)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""


def shown(value: object) -> str:
    """Return a value as one short line for a message.

    Example:
        >>> shown("high")
        "'high'"
    """
    try:
        return " ".join(reprlib.repr(value).split())
    except ValueError:
        return "a number of thousands of digits"
