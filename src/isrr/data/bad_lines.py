"""A line that is no LETOR text, in words: where it is, what was found there, what is needed."""

import re

import numpy as np
from numpy.typing import NDArray

from isrr.errors import DataError

_TOKEN_END = re.compile(rb"[ \t\r\n#]")


def bad_line(data: NDArray[np.uint8], name: str, code: int, byte: int, previous: int = 0, limit: str = "") -> DataError:
    """The error for a bad line.

    Args:
        data: The whole file.
        name: What errors call it.
        code: What is wrong, as the parser says.
        byte: Where it went wrong.
        previous: The feature index before that, or the one whose value it is.
        limit: What keeps feature indices small, in words.
    """
    from isrr.data import _kernels, _text_kernels

    assert code != _kernels.UNMEASURED, f"{name}: a good line with feature {previous} was measured as narrower"
    start = int(_kernels.line_start(data, byte))
    line = 1 + int(np.count_nonzero(data[:start] == 10))
    word = _TOKEN_END.split(data[byte : byte + 200].tobytes(), maxsplit=1)[0]
    token = word.decode(errors="replace")
    found = repr(token if len(token) <= 40 else token[:40] + "…") if token else "the line ends"
    index = token.split(":")[0]
    said = {
        _kernels.LABEL: f"{found} where a relevance label is needed, a finite number ≥ 0",
        _kernels.NEGATIVE_LABEL: f"label {token} is negative; relevance grades are ≥ 0",
        _kernels.NO_QID: f"{found} where `qid:ID` is needed; a file without ids needs group sizes (`group=`)",
        _kernels.EMPTY_QID: "no query id behind `qid:`",
        _kernels.SPARE_QID: f"{found}, but group sizes are given too; needed is one of the two",
        _kernels.NOT_TEXT: f"query id {word!r} is not UTF-8 text",
        _kernels.PAIR: f"{found} where a feature is needed, `index:value`",
        _kernels.FIRST_INDEX: "feature 0, but indices start at 1 (a file that starts at 0: `zero_based=True`)",
        _kernels.ORDER: f"feature {index} follows feature {previous}; indices must increase along a line",
        _kernels.LIMIT: f"feature {index}, but {limit}",
        _text_kernels.VALUE: f"feature {previous} is {found}; needed is a finite number",
        _text_kernels.HUGE: f"feature {previous} is {found}, too large for a float32",
    }[code]
    if code == _kernels.ORDER and int(index) == previous:
        said = f"feature {index} stands twice; indices must increase along a line"
    if code == _text_kernels.VALUE and not token:
        said = f"feature {previous} has no value"
    if byte + len(word) == data.size:
        said += "; the file ends here, so its last line may have been cut off"
    return DataError(f"{name}:{line}: column {byte - start + 1}: {said}")
