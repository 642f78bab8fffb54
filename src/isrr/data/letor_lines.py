"""The lines of LETOR text → arrays, in file order.

The text is cut at line ends into as many byte ranges as there are threads, measured, then parsed straight into one
float32 matrix. Features that a line leaves out are 0; blank lines and comments are skipped.
"""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isrr.data import _kernels, _text_kernels
from isrr.data.queries import FloatArray, IntArray
from isrr.errors import DataError

Bytes = NDArray[np.uint8]
MAX_FEATURES = 100_000  # rows are dense: an index beyond this is a slip, or needs another kind of reader
_BYTES_PER_THREAD = 1 << 20
_TOKEN_END = re.compile(rb"[ \t\r\n#]")


@dataclass(frozen=True)
class Syntax:
    """What a line looks like.

    Attributes:
        name: What errors call the text.
        n_features: Number of feature columns; None for the largest index found.
        zero_based: Whether the first feature has index 0.
        with_qid: Whether lines name their query.
    """

    name: str
    n_features: int | None
    zero_based: bool
    with_qid: bool

    def __post_init__(self) -> None:
        if self.n_features is not None and self.n_features < 1:
            raise ValueError(f"n_features must be at least 1, got {self.n_features}")

    @property
    def first_index(self) -> int:
        """The index of the first feature."""
        return 0 if self.zero_based else 1

    @property
    def limit(self) -> int:
        """The largest index allowed."""
        return (self.n_features or MAX_FEATURES) + self.first_index - 1

    def width(self, largest: int) -> int:
        """Number of feature columns where no line ends in a larger index than this."""
        return self.n_features or max(0, min(largest, self.limit) - self.first_index + 1)


class Range(NamedTuple):
    """Whole lines of a text.

    Attributes:
        start: The byte of the text at which they begin.
        text: Their bytes.
    """

    start: int
    text: Bytes


class Lines(NamedTuple):
    """What the lines say, in file order.

    Attributes:
        relevance: The labels, (n_rows,).
        features: (n_rows, n_features).
        bounds: The first row of each range, and the number of rows, (n_ranges + 1,).
        runs: Of each range, the first row of each run of one query, start and stop of its id, (n_runs, 3).
    """

    relevance: FloatArray
    features: NDArray[np.float32]
    bounds: IntArray
    runs: list[IntArray]


def ranges_of(data: Bytes, n_threads: int) -> list[Range]:
    """Byte ranges of whole lines, each ending in a line end; the last line is given one where it has none."""
    stop = _kernels.line_start(data, data.size)
    n_ranges = max(1, min(n_threads, stop // _BYTES_PER_THREAD))
    cuts = [0, *(_kernels.line_start(data, part * stop // n_ranges) for part in range(1, n_ranges)), stop]
    ranges = [Range(start, data[start:end]) for start, end in pairwise(cuts) if start < end]
    if stop < data.size:
        ranges.append(Range(stop, np.frombuffer(data[stop:].tobytes() + b"\n", np.uint8)))
    return ranges


def lines_of(data: Bytes, ranges: list[Range], syntax: Syntax) -> Lines:
    """Measure the ranges, make room, and parse each straight into its rows."""
    with ThreadPoolExecutor(max(1, len(ranges))) as pool:
        each = pool.map if len(ranges) > 1 else map
        measured = list(each(_kernels.measure, [part.text for part in ranges]))
        bounds = np.cumsum([0, *(rows for rows, _ in measured)])
        n_rows = int(bounds[-1])
        if n_rows == 0:
            raise DataError(f"{syntax.name}: no rows; expected lines like `2 qid:7 1:0.5 2:1.25`")
        width = syntax.width(max(largest for _, largest in measured))
        lines = Lines(np.empty(n_rows), _zeros(n_rows, width, syntax.name), bounds, [])

        def parse(part: int) -> tuple[IntArray, tuple[int, int, int]]:
            rows = slice(bounds[part], bounds[part + 1])
            runs = np.empty((bounds[part + 1] - bounds[part], 3), np.int64)
            n_runs, code, byte, previous = _kernels.parse(
                ranges[part].text, syntax.first_index, syntax.limit, syntax.with_qid,
                lines.relevance[rows], lines.features[rows], runs,
            )  # fmt: skip
            few = n_runs < len(runs) // 8
            return runs[:n_runs].copy() if few else runs[:n_runs], (code, byte, previous)

        for part, (runs, (code, byte, previous)) in zip(ranges, each(parse, range(len(ranges))), strict=True):
            if code:
                most = (
                    f"n_features is {syntax.n_features}"
                    if syntax.n_features
                    else f"the largest index is {MAX_FEATURES}"
                )
                raise bad_line(data, syntax.name, code, part.start + byte, previous, most)
            lines.runs.append(runs)
    return lines


def _zeros(n_rows: int, width: int, name: str) -> NDArray[np.float32]:
    try:
        return np.zeros((n_rows, width), np.float32)
    except MemoryError:
        size = n_rows * width * 4 / 2**30
        raise DataError(
            f"{name}: {n_rows} rows of {width} features take {size:.1f} GiB when dense, more than there is"
        ) from None


def bad_line(data: Bytes, name: str, code: int, byte: int, previous: int = 0, limit: str = "") -> DataError:
    """The error for a bad line.

    Args:
        data: The whole file.
        name: What errors call it.
        code: What is wrong, as the parser says.
        byte: Where it went wrong.
        previous: The feature index before that, or the one whose value it is.
        limit: What keeps feature indices small, in words.
    """
    assert code != _kernels.UNMEASURED, f"{name}: a good line with feature {previous} was measured as narrower"
    start = int(_kernels.line_start(data, byte))
    line = 1 + int(np.count_nonzero(data[:start] == 10))
    word = _TOKEN_END.split(data[byte : byte + 200].tobytes(), maxsplit=1)[0]
    token = word.decode(errors="replace")
    found = repr(token if len(token) <= 40 else token[:40] + "…") if token else "the line ends"
    index = token.split(":")[0]
    said = {
        _kernels.LABEL: f"{found}; expected a relevance label, a finite number ≥ 0",
        _kernels.NEGATIVE_LABEL: f"label {token} is negative; relevance grades are ≥ 0",
        _kernels.NO_QID: f"{found}; expected `qid:ID`; a file without ids needs group sizes (`group=`)",
        _kernels.EMPTY_QID: "no query id behind `qid:`",
        _kernels.SPARE_QID: f"{found}, but group sizes are given too; expected one of the two",
        _kernels.NOT_TEXT: f"query id {word!r} is not UTF-8 text",
        _kernels.PAIR: f"{found}; expected a feature, `index:value`",
        _kernels.FIRST_INDEX: "feature 0, but indices start at 1 (a file that starts at 0: `zero_based=True`)",
        _kernels.ORDER: f"feature {index} follows feature {previous}; indices must increase along a line",
        _kernels.LIMIT: f"feature {index}, but {limit}",
        _text_kernels.VALUE: f"feature {previous} is {found}; expected a finite number",
        _text_kernels.HUGE: f"feature {previous} is {found}, too large for a float32",
    }[code]
    if code == _kernels.ORDER and int(index) == previous:
        said = f"feature {index} appears twice; indices must increase along a line"
    if code == _text_kernels.VALUE and not token:
        said = f"feature {previous} has no value"
    if byte + len(word) == data.size:
        said += "; the file ends here, so its last line may have been cut off"
    return DataError(f"{name}:{line}: column {byte - start + 1}: {said}")
