"""Columns of ids, checked: integers where all of them are, else text. 7 and "7" are the same id everywhere.

Text stays in Arrow's memory, where it is compared, hashed and moved many times faster than as Python's strings. An
error names the row and the column; `isrr.data.tables` adds the file.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isrr.data._order_kernels import hash_texts
from isrr.data.numbers import refuse_any
from isrr.errors import DataError, shown
from isrr.parallel import over_queries

BEYOND_INT64 = 2**63
INTEGER = "^(0|-?[1-9][0-9]{0,17})$"  # an integer that surely fits, as people write it
BYTES_PER_BLOCK = 1 << 20  # of text that a thread hashes at a time
EXPECTED = "expected integers or text"
_HALF = re.compile("[\ud800-\udfff]")  # of a character


@dataclass(frozen=True, eq=False)
class Ids:
    """A column of ids.

    Attributes:
        values: An array of int64, or an Arrow array of large strings.
    """

    values: Any

    @classmethod
    def of(cls, values: Any, column: str, n_rows: int) -> "Ids":
        """Return a checked copy of a column with one id per row: int64 where all ids fit, else text.

        Args:
            values: A list or an array, also of Arrow, or a column of pandas or polars.
            column: The name of the column in errors.
            n_rows: The expected number of ids.

        Example:
            >>> Ids.of([2**63, 7], "query_ids", 2).array
            array(['9223372036854775808', '7'], dtype=object)
        """
        array = _as_array(values, column)
        shape = getattr(array, "shape", (len(array),))
        if shape != (n_rows,):
            raise DataError(f"{column} has shape {shape}; expected ({n_rows},), one id per row")
        if isinstance(array, np.ndarray):
            kind = array.dtype.kind
            if kind in "ib" or (kind == "u" and array.max(initial=0) < BEYOND_INT64):
                return cls(array.astype(np.int64))
            array = _whole(array, column) if kind == "f" else _from_objects(array, column)
        if not isinstance(array, np.ndarray):
            import pyarrow.compute as pc

            padded = pc.ends_with(array, "\0")
            if pc.any(padded).as_py():  # an array of numpy drops NUL characters at the end
                said = "{}, which ends in a NUL character"
                rows = padded.to_numpy(zero_copy_only=False)
                refuse_any(rows, column, lambda row: said.format(shown(array[row].as_py())), EXPECTED)
        return cls(array)

    @staticmethod
    def joined(parts: Sequence["Ids"]) -> "Ids":
        """Return the ids of several columns, one behind the other."""
        import pyarrow as pa

        if all(part.are_integers for part in parts):
            return Ids(np.concatenate([part.values for part in parts]))
        return Ids(pa.concat_arrays([part.texts for part in parts]))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def are_integers(self) -> bool:
        """Whether all ids are integers."""
        return isinstance(self.values, np.ndarray)

    @cached_property
    def array(self) -> NDArray[Any]:
        """The ids as int64, or as an array of Python's strings."""
        return self.values if self.are_integers else np.asarray(self.values.to_numpy(zero_copy_only=False))

    @property
    def texts(self) -> Any:
        """The ids as an Arrow array of large strings."""
        import pyarrow as pa

        return pa.array(self.values).cast(pa.large_string()) if self.are_integers else self.values

    def take(self, rows: NDArray[Any]) -> "Ids":
        """Return the ids of some rows, chosen by number or by a mask."""
        if self.are_integers:
            return Ids(self.values[rows])
        return Ids(self.values.filter(rows) if rows.dtype == np.bool_ else self.values.take(rows))

    def runs(self) -> NDArray[np.int64]:
        """Return the rows whose id differs from that of the row before, the first row among them."""
        if self.are_integers:
            changes = self.values[1:] != self.values[:-1]
        else:
            import pyarrow.compute as pc

            changes = pc.not_equal(self.values[1:], self.values[:-1]).to_numpy(zero_copy_only=False)
        return np.concatenate(([0], np.flatnonzero(changes) + 1))

    def by_appearance(self) -> tuple["Ids", NDArray[np.int32]]:
        """Return the distinct ids in order of first appearance, and which of them each row has.

        Example:
            >>> names, codes = Ids(np.array([7, 3, 7])).by_appearance()
            >>> names.array, codes
            (array([7, 3]), array([0, 1, 0], dtype=int32))
        """
        if self.are_integers and (self.values[1:] > self.values[:-1]).all():
            return self, np.arange(len(self), dtype=np.int32)
        import pyarrow as pa

        coded = pa.array(self.values).dictionary_encode()
        return Ids(coded.dictionary.to_numpy() if self.are_integers else coded.dictionary), coded.indices.to_numpy()

    def hashes(self) -> NDArray[np.uint64]:
        """Return a 64-bit hash of each id's text: the item's name in lots between equal scores.

        Example:
            >>> Ids(np.array([7])).hashes() == Ids.of(["7"], "item_ids", 1).hashes()
            array([ True])
        """
        if "_hashes" not in vars(self):
            texts = self.texts
            _, ends, characters = texts.buffers()
            offsets = np.frombuffer(ends, np.int64)[texts.offset : texts.offset + len(texts) + 1]
            text, hashes = np.frombuffer(characters or b"", np.uint8), np.empty(len(texts), np.uint64)
            over_queries(
                lambda start, stop: hash_texts(text, offsets[start : stop + 1], hashes[start:stop]),
                offsets, rows=BYTES_PER_BLOCK,
            )  # fmt: skip
            vars(self)["_hashes"] = hashes
        return np.asarray(vars(self)["_hashes"])


def _as_array(values: Any, column: str) -> Any:
    """Return text as one Arrow array of large strings, everything else as an array that changes no value."""
    if hasattr(values, "to_arrow"):  # of polars
        values = values.to_arrow()
    if hasattr(values, "null_count"):
        import pyarrow as pa

        if values.null_count:
            _refuse_missing(values.is_null().to_numpy(zero_copy_only=False), column)
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        kind = values.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            large = values.cast(pa.large_string())  # text of other types is cut into pieces of two gigabytes
            return large.combine_chunks() if isinstance(large, pa.ChunkedArray) else large
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            return np.asarray(values)
        array = np.empty(len(values), object)
        array[:] = values.to_pylist()
        return array
    if isinstance(values, np.ma.MaskedArray):
        _refuse_missing(np.ma.getmaskarray(values), column)
    try:
        array = np.asarray(values)
        listed = array.dtype.kind in "fUS" and isinstance(values, list | tuple)
        return np.asarray(values, dtype=object) if listed else array
    except ValueError as error:
        raise DataError(f"{column} must hold one id per row: {error}") from None


def _refuse_missing(missing: NDArray[np.bool_], column: str) -> None:
    refuse_any(missing, column, lambda _: "no value", "expected one in every row")


def _whole(array: NDArray[Any], column: str) -> NDArray[np.int64]:
    """Return floats as integers, below the size from which whole numbers are rounded."""
    exact = 2.0 ** min(np.finfo(array.dtype).nmant + 1, 53)
    _refuse_missing(np.isnan(array), column)

    def said(row: int) -> str:
        rounded = f", and a {array.dtype} from {exact:.0f} on may have been rounded"
        return f"{array[row]}{rounded if abs(array[row]) >= exact else ''}"

    refuse_any(~(np.abs(array) < exact) | (array != np.round(array)), column, said, EXPECTED)
    return array.astype(np.int64)


def _from_objects(array: NDArray[Any], column: str) -> Any:
    """Return ids of several kinds as text, or as int64 where all are integers that fit."""
    import pyarrow as pa

    if array.dtype.kind in "Mm":
        _refuse_missing(np.isnat(array), column)
        array = array.astype(str).astype(object)
    with suppress(pa.ArrowException, OverflowError, UnicodeEncodeError):  # of several kinds, or no valid text
        texts = pa.array(array)
        if pa.types.is_string(texts.type) and not texts.null_count:
            return _as_array(texts, column)
    plain = [_plain(value) for value in array]
    bad = np.array([value is None for value in plain])
    if bad.any() and _is_missing(array[int(np.argmax(bad))]):
        _refuse_missing(np.array([_is_missing(value) for value in array]), column)
    refuse_any(bad, column, lambda row: f"{shown(array[row])} ({type(array[row]).__name__})", EXPECTED)
    if all(isinstance(value, int) and -BEYOND_INT64 <= value < BEYOND_INT64 for value in plain):
        return np.array(plain, np.int64)
    return pa.array([str(value) for value in plain], pa.large_string())


def _plain(value: Any) -> int | str | None:
    """Return one id as an integer or text; None where it is missing, no whole number, or no single value."""
    match value:
        case str():
            text = str.__str__(value)  # of a member of an enumeration, too, its text and not its name
            return None if _HALF.search(text) else text
        case bool() | np.bool_() | int() | np.integer() if not isinstance(value, np.timedelta64):
            return int(value)
        case float() | np.floating():
            exact = 2.0 ** min(int(np.finfo(type(value)).nmant) + 1, 53)
            whole = abs(float(value)) < exact and value == int(value)
            return int(value) if whole else None
        case Decimal() if value == value:
            return int(value) if value == value.to_integral_value() else None
        case bytes() | bytearray() | list() | tuple() | dict() | set() | complex() | np.ndarray() | np.void():
            return None
    return None if _is_missing(value) else str(value)


def _is_missing(value: object) -> bool:
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # pandas.NA is neither equal to itself nor not
        return np.ndim(value) == 0  # type: ignore[arg-type]


def integers_in(texts: Any) -> NDArray[np.int64] | None:
    """Return the integers in a column of Arrow text where every text is an integer as people write it, else None.

    Example:
        >>> import pyarrow as pa
        >>> integers_in(pa.array(["7", "10"])), integers_in(pa.array(["7", "010"]))
        (array([ 7, 10]), None)
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pc.all(pc.match_substring_regex(texts[:1_000], INTEGER)).as_py():  # a cast that fails takes long
        return None
    try:
        numbers = np.asarray(texts.cast(pa.int64()))
    except pa.ArrowInvalid:
        return None
    n_characters = np.searchsorted(10 ** np.arange(1, 18), np.abs(numbers), side="right") + 1 + (numbers < 0)
    return numbers if np.array_equal(n_characters, pc.binary_length(texts)) else None  # else one has a leading zero


def joined_identifiers(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the ids of several arrays, one behind the other."""
    if all(part.dtype.kind == "i" for part in parts):
        return np.concatenate(parts)
    return np.concatenate([part.astype(str).astype(object) for part in parts])


def identifier_text(identifier: object) -> str:
    """Return the text of one id: 7, 7.0 and "7" share it.

    Example:
        >>> identifier_text(7.0)
        '7'
    """
    if type(identifier) in (str, int):  # most of them, and this runs for every request
        return str(identifier)
    text = _plain(identifier)
    if text is None:
        raise DataError(f"an id is {shown(identifier)} ({type(identifier).__name__}); expected an integer or text")
    return str(text)


def identifier_key(identifier: object) -> int:
    """Return a 64-bit hash of an id's text: the query's name in streams of noise.

    Example:
        >>> identifier_key(7) == identifier_key("7") == identifier_key(7.0)
        True
    """
    return int.from_bytes(blake2b(identifier_text(identifier).encode(), digest_size=8).digest(), "little")


def identifier_keys(identifiers: NDArray[Any]) -> NDArray[np.uint64]:
    """Return `identifier_key` of each id of a checked column, (n,).

    Example:
        >>> identifier_keys(np.array([7])) == identifier_keys(np.array(["7"]))
        array([ True])
    """
    texts = map(str, identifiers.tolist())
    hashes = (blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(hashes), "<u8").astype(np.uint64)
