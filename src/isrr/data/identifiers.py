"""Ids of queries and items: integers where all of them are, else text. 7 and "7" are the same id wherever they meet."""

import re
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from hashlib import blake2b
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isrr.errors import DataError

_BEYOND_INT64 = 2**63
INTEGER = "0|-?[1-9][0-9]{0,17}"  # how an integer that surely fits is written
_INTEGER = re.compile(INTEGER)


def identifiers(values: ArrayLike, name: str, n_rows: int) -> NDArray[Any]:
    """A copy of a column of ids, one a row, checked: int64 where all fit, else text; different ids stay different.

    Whole floats and decimals count as integers, as far as their neighbours can be told from them.

    Example:
        >>> identifiers([2**63, 7], "query_ids", 2)
        array(['9223372036854775808', '7'], dtype=object)
    """
    array = _as_given(values, name)
    if array.shape != (n_rows,):
        raise DataError(f"{name} has shape {array.shape}; needed is ({n_rows},), one id a row")
    match array.dtype.kind:
        case "i" | "b":
            return array.astype(np.int64)
        case "u":
            return array.astype(np.int64) if array.max() < _BEYOND_INT64 else array.astype(str).astype(object)
        case "f":
            return _whole(array, name)
        case "U":
            return array.astype(object)
    return _from_objects(array, name)


def _as_given(values: ArrayLike, name: str) -> NDArray[Any]:
    """An array of the values, none of them changed to suit its neighbours."""
    if isinstance(values, np.ma.MaskedArray) and values.mask.any():
        raise _missing(int(np.flatnonzero(values.mask)[0]), name)
    try:
        array = np.asarray(values)
        if array.dtype.kind in "fUS" and isinstance(values, list | tuple):
            array = np.asarray(values, dtype=object)
    except ValueError as error:
        raise DataError(f"{name} must hold one id a row: {error}") from None
    return array


def _whole(array: NDArray[Any], name: str, first: int = 0) -> NDArray[np.int64]:
    """Floats as integers, below the size from which whole numbers are rounded."""
    exact = 2.0 ** min(np.finfo(array.dtype).nmant + 1, 53)
    bad = np.flatnonzero(~(np.abs(array) < exact) | (array != np.round(array)))
    if bad.size:
        value, row = array[bad[0]], first + int(bad[0])
        if np.isnan(value):
            raise _missing(row, name)
        rounded = f", and a {array.dtype} from {exact:.0f} on may have been rounded"
        raise _unusable(row, name, f"{value}{rounded if abs(value) >= exact else ''}")
    return array.astype(np.int64)


def _from_objects(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Ids of several kinds as text, or as int64 where all are integers that fit."""
    if array.dtype == np.dtype("datetime64[D]"):
        array = array.astype(object)
    if set(map(type, array)) == {str}:
        ids = array.copy()
    else:
        ids = np.array([_plain(value, row, name) for row, value in enumerate(array)], dtype=object)
        if all(isinstance(value, int) and abs(value) < _BEYOND_INT64 for value in ids):
            return ids.astype(np.int64)
        ids = np.array([str(value) for value in ids], dtype=object)
    padded = np.flatnonzero([text[-1:] == "\0" for text in ids])
    if padded.size:
        row = int(padded[0])
        raise _unusable(row, name, f"{ids[row]!r}, which ends in a NUL character")
    return ids


def _plain(value: object, row: int, name: str) -> int | str:
    """One id as an integer or text."""
    match value:
        case str():
            return str(value)
        case bool() | np.bool_() | int() | np.integer():
            return int(value)
        case float() | np.floating():
            return int(_whole(np.array([value]), name, row)[0])
    if _is_missing(value):
        raise _missing(row, name)
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    if isinstance(value, UUID) or (isinstance(value, date) and not isinstance(value, datetime)):
        return str(value)
    raise _unusable(row, name, f"{value!r} ({type(value).__name__})")


def _is_missing(value: object) -> bool:
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # pandas.NA is neither equal to itself nor not
        return np.ndim(value) == 0  # type: ignore[arg-type]


def _missing(row: int, name: str) -> DataError:
    return DataError(f"row {row + 1}: {name} is missing; every row needs one")


def _unusable(row: int, name: str, found: str) -> DataError:
    return DataError(f"row {row + 1}: {name} is {found}; give integers or text")


def identifiers_in_text(texts: Sequence[str]) -> NDArray[Any]:
    """Ids from a text file: integers where all are written as one would write them, else text.

    Example:
        >>> identifiers_in_text(["7", "10"]), identifiers_in_text(["7", "010"])
        (array([ 7, 10]), array(['7', '010'], dtype=object))
    """
    if all(map(_INTEGER.fullmatch, texts)):
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
    ordered = sorted(set(texts))
    ordered.sort(key=len)
    rank = {text: i for i, text in enumerate(ordered)}
    return np.fromiter(map(rank.__getitem__, texts), np.int64, len(texts))


def hashes(ids: NDArray[Any]) -> NDArray[np.int64]:
    """A number for each id, the same for equal ones; different texts may share one, integers never do."""
    return ids if ids.dtype.kind == "i" else np.fromiter(map(hash, ids), np.int64, len(ids))


class Coded(NamedTuple):
    """A column of ids by numbers: `names[codes]` is the column as text.

    Attributes:
        names: The different ids as text, in its order.
        codes: Which of them each row has, (n_rows,).
    """

    names: NDArray[np.str_]
    codes: NDArray[np.int64]

    @classmethod
    def of(cls, ids: NDArray[Any]) -> "Coded":
        """The codes of a column.

        Example:
            >>> Coded.of(np.array([9, 10, 9])).names
            array(['10', '9'], dtype='<U2')
        """
        column = ids.tolist()
        texts = {value: str(value) for value in set(column)}
        names = sorted(set(texts.values()))
        place = {name: i for i, name in enumerate(names)}
        code = {value: place[text] for value, text in texts.items()}
        return cls(np.array(names), np.fromiter(map(code.__getitem__, column), np.int64, len(column)))


def identifier_text(identifier: object) -> str:
    """An id as text, the same for ids that a column of them would hold to be equal.

    Example:
        >>> identifier_text(7), identifier_text(7.0), identifier_text(Decimal("7.00")), identifier_text("7")
        ('7', '7', '7', '7')
    """
    if isinstance(identifier, bool | np.bool_ | float | np.floating | Decimal):
        if np.isfinite(float(identifier)) and int(identifier) == identifier:
            return str(int(identifier))
    return str(identifier)


def identifier_key(identifier: object) -> int:
    """A 64-bit hash of an id's text.

    Example:
        >>> identifier_key(7) == identifier_key("7") == identifier_key(7.0)
        True
    """
    return int.from_bytes(blake2b(identifier_text(identifier).encode(), digest_size=8).digest(), "little")


def identifier_hashes(ids: NDArray[Any]) -> NDArray[np.uint64]:
    """A 64-bit hash of each id's text, many times cheaper than a key.

    Example:
        >>> identifier_hashes(np.array([7])) == identifier_hashes(np.array(["7"], object))
        array([ True])
    """
    import pyarrow as pa

    from isrr.data._order_kernels import hash_texts

    texts = pa.array(ids).cast(pa.large_string()) if ids.dtype.kind == "i" else pa.array(ids, pa.large_string())
    _, offsets, letters = texts.buffers()
    found = np.empty(ids.size, np.uint64)
    hash_texts(np.frombuffer(letters or b"", np.uint8), np.frombuffer(offsets, np.int64), found)
    return found
