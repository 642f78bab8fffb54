"""A slow, obvious reader of LETOR text, to hold the compiled one against.

It splits lines into words as the format says and lets Python read the numbers. It answers None for text that
must be refused.
"""

import re
from dataclasses import dataclass

import numpy as np

NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")


@dataclass
class Parsed:
    """The rows of a file, in file order."""

    relevance: list[float]
    ids: list[str]
    features: list[dict[int, np.float32]]

    def matrix(self):
        width = max((max(row, default=0) for row in self.features), default=0)
        matrix = np.zeros((len(self.features), width), np.float32)
        for place, row in enumerate(self.features):
            for index, value in row.items():
                matrix[place, index - 1] = value
        return matrix


def parse(text: bytes) -> Parsed | None:
    try:
        rows = [_row(line) for line in text.split(b"\n") if _words(line)]
    except ValueError:
        return None
    return Parsed(*map(list, zip(*rows, strict=True))) if rows else None


def _words(line: bytes) -> list[bytes]:
    return [word for word in re.split(rb"[ \t\r]+", line.split(b"#")[0]) if word]


def _row(line: bytes) -> tuple[float, str, dict[int, np.float32]]:
    label, *words = _words(line)
    relevance = _number(label)
    if relevance < 0 or not words or not words[0].startswith(b"qid:") or words[0] == b"qid:":
        raise ValueError("a label and a query id come first")
    features: dict[int, np.float32] = {}
    for word in words[1:]:
        name, value = word.split(b":")
        if not re.fullmatch(rb"[0-9]+", name):
            raise ValueError("an index is written in digits")
        index = int(name)
        if not max(features, default=0) < index <= 100_000:
            raise ValueError("indices increase from 1")
        features[index] = np.float32(_number(value))
    return relevance, words[0][4:].decode(), features


def _number(word: bytes) -> float:
    if not NUMBER.fullmatch(word.decode("ascii")):
        raise ValueError("not a decimal number")
    value = float(word)
    if abs(value) >= 3.4028235677973366e38:
        raise ValueError("too large for a float32")
    return value
