"""Ids of queries and items: integers where all of them are, else text. 7 and "7" are the same id wherever they meet."""

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isrr.errors import DataError

_INTEGER = re.compile("0|-?[1-9][0-9]*")


def identifiers(values: ArrayLike, name: str, n_rows: int) -> NDArray[Any]:
    """A column of ids, one a row, checked; floats that are whole numbers count as integers."""
    array = np.asarray(values)
    if array.shape != (n_rows,):
        raise DataError(f"{name} has shape {array.shape}; needed is ({n_rows},), one id a row")
    if array.dtype.kind in "iub":
        return array.astype(np.int64)
    if array.dtype.kind == "f":
        bad = np.flatnonzero(~np.isfinite(array) | (array != np.round(array)))
        if bad.size:
            row = int(bad[0])
            raise DataError(f"row {row + 1}: {name} is {array[row]}; ids are integers or text, and none may be missing")
        return array.astype(np.int64)
    if array.dtype.kind == "U":
        return array.astype(object)
    missing = np.flatnonzero([value is None or value != value for value in array])
    if missing.size:
        raise DataError(f"row {int(missing[0]) + 1}: {name} is missing; every row needs one")
    return np.array([str(value) for value in array], dtype=object)


def identifiers_in_text(texts: Sequence[str]) -> NDArray[Any]:
    """Ids from a text file: integers where all are written as one would write them, else text.

    Example:
        >>> identifiers_in_text(["7", "10"]), identifiers_in_text(["7", "010"])
        (array([ 7, 10]), array(['7', '010'], dtype=object))
    """
    if all(len(text) < 19 and _INTEGER.fullmatch(text) for text in texts):
        return np.array([int(text) for text in texts], np.int64)
    return np.array(texts, dtype=object)


def joined_identifiers(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """The ids of several columns in one."""
    if all(part.dtype.kind == "i" for part in parts):
        return np.concatenate(parts)
    return np.concatenate([part.astype(str).astype(object) for part in parts])


def shortlex(ids: NDArray[Any]) -> NDArray[np.int64]:
    """Integers that sort as the ids do: shorter ones first, then by text.

    Example:
        >>> shortlex(np.array(["b", "aa", "a"], object))
        array([1, 2, 0])
    """
    if ids.dtype.kind == "i" and ids.min() >= 0:
        return ids  # numbers without a sign sort alike by value and by (length, text)
    texts = [str(value) for value in ids]
    rank = {text: i for i, text in enumerate(sorted(set(texts), key=lambda text: (len(text), text)))}
    return np.array([rank[text] for text in texts], np.int64)


def identifier_key(identifier: object) -> int:
    """A 64-bit hash of an id's text.

    Example:
        >>> identifier_key(7) == identifier_key("7")
        True
    """
    return int.from_bytes(blake2b(str(identifier).encode(), digest_size=8).digest(), "little")
