"""What a line of TREC text looks like."""

import re
from typing import Literal

What = Literal["run", "qrels"]

_NUMBER = rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"
_LINES: dict[What, re.Pattern[bytes]] = {
    "run": re.compile(rb"\S+[ \t]+\S+[ \t]+\S+[ \t]+\d+[ \t]+" + _NUMBER + rb"[ \t]+\S+[ \t]*\r?"),
    "qrels": re.compile(rb"\S+[ \t]+(\d+|Q0)[ \t]+\S+[ \t]+" + _NUMBER + rb"[ \t]*\r?"),
}


def shape_of(line: bytes) -> What | None:
    """Whether a line looks like one of a run or of qrels.

    Example:
        >>> shape_of(b"q1 Q0 doc7 1 12.5 bm25"), shape_of(b"q1 0 doc7 2"), shape_of(b"query,docid")
        ('run', 'qrels', None)
    """
    return next((what for what, pattern in _LINES.items() if pattern.fullmatch(line)), None)
