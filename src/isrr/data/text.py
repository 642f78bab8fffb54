"""The bytes of a text file, plain or gzipped, and where to cut them for several threads."""

import gzip
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isrr.data._text_kernels import LINE_END, LOWER_N, find_fatal, line_start
from isrr.errors import DataError

Bytes = NDArray[np.uint8]
BYTES_PER_RANGE = 1 << 20  # at least
GIGABYTES = 4.0  # that a gzipped file may unpack to, unless more are allowed
DEEPEST = 64  # lists and objects of JSON within one another; parsers recurse, and thousands of them end the process
_allowed: ContextVar[float] = ContextVar("gigabytes", default=GIGABYTES)


class Range(NamedTuple):
    """Whole lines of a text.

    Attributes:
        start: The byte of the text at which they begin.
        text: Their bytes.
    """

    start: int
    text: Bytes


@contextmanager
def allow_unpacked(gigabytes: float) -> Iterator[None]:
    """Let gzipped files unpack to this many gigabytes (2^30 bytes) each in the body, instead of 4.

    Example:
        >>> with allow_unpacked(16):
        ...     pass  # queries = isrr.read_queries("judged.csv.gz")
    """
    token = _allowed.set(gigabytes)
    try:
        yield
    finally:
        _allowed.reset(token)


def bytes_of(file: Path) -> Bytes:
    """The bytes of a file, mapped; those of a gzipped one are first unpacked into an unnamed temporary file."""
    try:
        if file.suffix != ".gz":
            return _mapped(file) if file.stat().st_size else np.empty(0, np.uint8)
        with tempfile.TemporaryFile() as plain, gzip.open(file) as packed:
            while chunk := packed.read(1 << 20):
                plain.write(chunk)
                if plain.tell() > _allowed.get() * 2**30:
                    raise DataError(
                        f"{file}: unpacks to more than {_allowed.get():g} GB; to allow more: `isrr.data.text."
                        "allow_unpacked(GB)` in Python, `isrr --max-unpacked-gigabytes GB …` on the command line"
                    )
            plain.flush()
            return _mapped(plain) if plain.tell() else np.empty(0, np.uint8)
    except FileNotFoundError:
        raise DataError(f"{file}: no such file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{file}: not a complete gzip file: {error}") from None
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror or error}") from None


def _mapped(file: Any) -> Bytes:
    return np.asarray(np.memmap(file, np.uint8, mode="r"))


def refuse_fatal(data: Bytes, name: str, *, in_lines: bool) -> None:
    """Refuse JSON that ends the process of its parser: nested too deeply, or, of JSON lines, one that is null."""
    at = find_fatal(data, DEEPEST, in_lines)
    if at >= 0:
        line = 1 + int(np.count_nonzero(data[:at] == LINE_END))
        found = "null" if data[at] == LOWER_N else f"lists and objects more than {DEEPEST} deep"
        wanted = "an object, such as {'query': 7}" if in_lines else f"at most {DEEPEST}"
        raise DataError(f"{name}: line {line:,}: {found}; expected {wanted}")


def ranges_of(data: Bytes, most: int) -> list[Range]:
    """Byte ranges of whole lines, each ending in a line end; the last line is given one where it has none.

    Args:
        data: The text.
        most: How many ranges there should be at most, beside one for a last line without an end.
    """
    stop = line_start(data, data.size)
    n_ranges = max(1, min(most, stop // BYTES_PER_RANGE))
    cuts = [0, *(line_start(data, part * stop // n_ranges) for part in range(1, n_ranges)), stop]
    ranges = [Range(start, data[start:end]) for start, end in pairwise(cuts) if start < end]
    if stop < data.size:
        ranges.append(Range(stop, np.frombuffer(data[stop:].tobytes() + b"\n", np.uint8)))
    return ranges


def first_line(path: Path) -> bytes:
    """The first line of a text that is not blank, without its end."""
    data = bytes_of(path)
    for start in range(0, data.size, 1 << 16):
        head = data[start : start + (1 << 20)].tobytes().lstrip(b"\xef\xbb\xbf \t\r\n")
        if head:
            return head.split(b"\n", 1)[0].rstrip()
    raise DataError(f"{path}: the file is empty")
