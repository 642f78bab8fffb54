"""Columns of ids, checked: integers where all of them are, else text. 7 and "7" are the same id wherever they meet.

Text stays in Arrow's memory, where it is compared, hashed and moved many times faster than as Python's strings; those
are made when somebody asks for them. A refusal names the row and the column; `isrr.data.columns` adds the file.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from hashlib import blake2b
from typing import Any, Literal, NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from isrr.data._order_kernels import hash_texts
from isrr.data.ragged import offsets_from, rows_within
from isrr.errors import DataError, shown
from isrr.parallel import over_queries

_BEYOND_INT64 = 2**63
INTEGER = "^(0|-?[1-9][0-9]{0,17})$"  # how an integer that surely fits is written
LETTERS_PER_BLOCK = 1 << 20  # bytes of text that a thread hashes at a time
TENS = 10 ** np.arange(1, 18)


@dataclass(frozen=True, eq=False)
class Ids:
    """A column of ids.

    Attributes:
        held: An array of int64, or text in an Arrow array of large strings.
    """

    held: Any

    @classmethod
    def of(cls, values: Any, column: str, n_rows: int) -> "Ids":
        """A copy of a column, one id per row, checked: int64 where all fit, else text; different ids stay different.

        Whole floats and decimals count as integers, as far as their neighbours can be told from them.

        Args:
            values: A list or an array, also of Arrow, or a column of pandas or polars.
            column: What errors call it.
            n_rows: How many ids there should be.

        Example:
            >>> Ids.of([2**63, 7], "query_ids", 2).array
            array(['9223372036854775808', '7'], dtype=object)
        """
        if hasattr(values, "to_arrow"):  # of polars
            values = values.to_arrow()
        if hasattr(values, "null_count"):
            values = _out_of_arrow(values, column)
        array = values if hasattr(values, "null_count") else _as_given(values, column)
        shape = getattr(array, "shape", (len(array),))
        if shape != (n_rows,):
            raise DataError(f"{column} has shape {shape}; expected ({n_rows},), one id per row")
        if not isinstance(array, np.ndarray):
            return cls(_checked_text(array, column))
        match array.dtype.kind:
            case "i" | "b":
                return cls(array.astype(np.int64))
            case "u" if array.max() < _BEYOND_INT64:
                return cls(array.astype(np.int64))
            case "u":
                return cls(_text(array.astype(str).astype(object), column))
            case "f":
                return cls(_whole(array, column))
        return cls(_from_objects(array, column))

    @classmethod
    def in_text(cls, texts: Any) -> "Ids":
        """Ids of Arrow text: integers where all are written as one would write them, else text."""
        numbers = integers_in(texts)
        return cls.of(texts, "ids", len(texts)) if numbers is None else cls(numbers)

    @staticmethod
    def joined(parts: Sequence["Ids"]) -> "Ids":
        """The ids of several columns in one."""
        import pyarrow as pa

        if all(isinstance(part.held, np.ndarray) for part in parts):
            return Ids(np.concatenate([part.held for part in parts]))
        return Ids(pa.concat_arrays([part.texts for part in parts]))

    def __len__(self) -> int:
        return len(self.held)

    @cached_property
    def array(self) -> NDArray[Any]:
        """The ids as int64, or as an array of Python's strings."""
        if isinstance(self.held, np.ndarray):
            return self.held
        return np.asarray(self.held.to_numpy(zero_copy_only=False))

    @property
    def texts(self) -> Any:
        """The ids as text, in an Arrow array of large strings."""
        import pyarrow as pa

        return pa.array(self.held).cast(pa.large_string()) if isinstance(self.held, np.ndarray) else self.held

    def take(self, rows: NDArray[Any]) -> "Ids":
        """The ids of some rows, in the order asked for."""
        import pyarrow as pa

        if isinstance(self.held, np.ndarray):
            return Ids(self.held[rows])
        return Ids(self.held.filter(pa.array(rows)) if rows.dtype == np.bool_ else self.held.take(pa.array(rows)))

    def runs(self) -> NDArray[np.int64]:
        """The rows whose id differs from that of the row before; the first row is one."""
        import pyarrow.compute as pc

        if isinstance(self.held, np.ndarray):
            changes = self.held[1:] != self.held[:-1]
        else:
            changes = pc.not_equal(self.held[1:], self.held[:-1]).to_numpy(zero_copy_only=False)
        return np.concatenate(([0], np.flatnonzero(changes) + 1))

    def by_appearance(self) -> tuple["Ids", NDArray[np.int32]]:
        """The different ids in the order in which they first come, and which of them each row has.

        Example:
            >>> names, codes = Ids(np.array([7, 3, 7])).by_appearance()
            >>> names.array, codes
            (array([7, 3]), array([0, 1, 0], dtype=int32))
        """
        import pyarrow as pa

        coded = pa.array(self.held).dictionary_encode()
        names = coded.dictionary
        return Ids(names.to_numpy() if isinstance(self.held, np.ndarray) else names), coded.indices.to_numpy()

    def hashes(self) -> NDArray[np.uint64]:
        """A 64-bit hash of each id's text, many times cheaper than a key.

        Example:
            >>> Ids(np.array([7])).hashes() == Ids.of(["7"], "item_ids", 1).hashes()
            array([ True])
        """
        texts = self.texts
        _, ends, letters = texts.buffers()
        offsets = np.frombuffer(ends, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        text, found = np.frombuffer(letters or b"", np.uint8), np.empty(len(texts), np.uint64)

        def hash_some(start: int, stop: int) -> None:
            hash_texts(text, offsets[start : stop + 1], found[start:stop])

        over_queries(hash_some, offsets, None, LETTERS_PER_BLOCK)
        return found


def _out_of_arrow(values: Any, column: str) -> Any:
    """Text as one Arrow array of large strings, everything else as an array of numpy."""
    import pyarrow as pa

    if values.null_count:
        row = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
        raise _missing(row, column)
    values = decoded(values, column)
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type) or pa.types.is_string_view(values.type):
        large = values.cast(pa.large_string())  # Arrow cuts others into pieces of two gigabytes
        return large.combine_chunks() if isinstance(large, pa.ChunkedArray) else large
    return values.to_numpy() if isinstance(values, pa.ChunkedArray) else values.to_numpy(zero_copy_only=False)


def decoded(values: Any, column: str) -> Any:
    """A column of Arrow without codes."""
    from pyarrow import ArrowNotImplementedError

    try:
        return values.cast(values.type.value_type) if hasattr(values.type, "index_type") else values
    except ArrowNotImplementedError:
        raise DataError(f"{values.type}; expected numbers or text", row=0, column=column) from None


def holds_lists(kind: Any) -> bool:
    """Whether an Arrow type is one of lists."""
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _as_given(values: Any, column: str) -> NDArray[Any]:
    """An array of the values, none of them changed to suit its neighbours."""
    if isinstance(values, np.ma.MaskedArray) and values.mask.any():
        raise _missing(int(np.flatnonzero(values.mask)[0]), column)
    try:
        array = np.asarray(values)
        if array.dtype.kind in "fUS" and isinstance(values, list | tuple):
            array = np.asarray(values, dtype=object)
    except ValueError as error:
        raise DataError(f"{column} must hold one id per row: {error}") from None
    return array


def _whole(array: NDArray[Any], column: str, first: int = 0) -> NDArray[np.int64]:
    """Floats as integers, below the size from which whole numbers are rounded."""
    exact = 2.0 ** min(np.finfo(array.dtype).nmant + 1, 53)
    bad = np.flatnonzero(~(np.abs(array) < exact) | (array != np.round(array)))
    if bad.size:
        value, row = array[bad[0]], first + int(bad[0])
        if np.isnan(value):
            raise _missing(row, column)
        rounded = f", and a {array.dtype} from {exact:.0f} on may have been rounded"
        raise _unusable(row, column, f"{value}{rounded if abs(value) >= exact else ''}")
    return array.astype(np.int64)


def _from_objects(array: NDArray[Any], column: str) -> Any:
    """Ids of several kinds as text, or as int64 where all are integers that fit."""
    import pyarrow as pa

    with suppress(pa.ArrowException, OverflowError, UnicodeEncodeError):  # of several kinds, or half of a character
        texts = pa.array(array)
        if pa.types.is_string(texts.type) and not texts.null_count:
            return _checked_text(_out_of_arrow(texts, column), column)
    if array.dtype == np.dtype("datetime64[D]"):
        array = array.astype(object)
    plain = [_plain(value, row, column) for row, value in enumerate(array)]
    if all(isinstance(value, int) and abs(value) < _BEYOND_INT64 for value in plain):
        return np.array(plain, np.int64)
    return _text(np.array([str(value) for value in plain], dtype=object), column)


def _text(array: NDArray[Any], column: str) -> Any:
    """An array of strings in Arrow's memory."""
    import pyarrow as pa

    try:
        return _checked_text(pa.array(array, pa.large_string()), column)
    except UnicodeEncodeError:
        row = next(row for row, text in enumerate(array) if re.search(r"[\ud800-\udfff]", text))
        raise _unusable(row, column, f"{shown(array[row])}, half of a character") from None


def _checked_text(texts: Any, column: str) -> Any:
    """Text that stays the same as an array of numpy, which drops NUL characters at the end."""
    import pyarrow.compute as pc

    padded = pc.ends_with(texts, "\0")
    if pc.any(padded).as_py():
        row = int(np.argmax(padded.to_numpy(zero_copy_only=False)))
        raise _unusable(row, column, f"{shown(texts[row].as_py())}, which ends in a NUL character")
    return texts


def _plain(value: object, row: int, column: str) -> int | str:
    """One id as an integer or text."""
    match value:
        case str():
            return str.__str__(value)  # of a member of an enumeration, too, its text and not its name
        case bool() | np.bool_() | int() | np.integer() if not isinstance(value, np.timedelta64):
            return int(value)
        case float() | np.floating():
            return int(_whole(np.array([value]), column, row)[0])
    if _is_missing(value):
        raise _missing(row, column)
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    if isinstance(value, UUID) or (isinstance(value, date) and not isinstance(value, datetime)):
        return str(value)
    raise _unusable(row, column, f"{shown(value)} ({type(value).__name__})")


def _is_missing(value: object) -> bool:
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # pandas.NA is neither equal to itself nor not
        return np.ndim(value) == 0  # type: ignore[arg-type]


def _missing(row: int, column: str) -> DataError:
    return DataError("no value; expected one in every row", row=row, column=column)


def _unusable(row: int, column: str, found: str) -> DataError:
    return DataError(f"{found}; expected integers or text", row=row, column=column)


def integers_in(texts: Any) -> NDArray[np.int64] | None:
    """The integers in a column of Arrow text, where every text is an integer as one would write it.

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
        numbers = np.asarray(texts.cast(pa.int64()).to_numpy())
    except pa.ArrowInvalid:
        return None
    n_characters = np.searchsorted(TENS, np.abs(numbers), side="right") + 1 + (numbers < 0)
    return numbers if np.array_equal(n_characters, pc.binary_length(texts)) else None  # else one has a leading zero


def joined_identifiers(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """The ids of several arrays in one."""
    if all(part.dtype.kind == "i" for part in parts):
        return np.concatenate(parts)
    return np.concatenate([part.astype(str).astype(object) for part in parts])


BETWEEN_GROUPS = "\x1f"  # what keeps the groups of one item apart
NO_GROUP = "`missing_group=none` for items that belong to no group"
MissingGroup = Literal["refuse", "none"]


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
        different, codes = Ids.of(ids, "item_groups", ids.size).by_appearance()
        names, place = np.unique(different.texts.to_numpy(zero_copy_only=False).astype(str), return_inverse=True)
        return cls(names, place[codes])

    def rows_of(self, group: str) -> NDArray[np.bool_]:
        """Which rows belong to a group, possibly one of several, (n_rows,)."""
        held = [group == name or group in name.split(BETWEEN_GROUPS) for name in self.names.tolist()]
        return np.array(held, bool)[self.codes]

    def by_group(self) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
        """All groups, and every row with each of its groups: rows, and numbers of groups.

        Example:
            >>> groups, rows, numbers = Coded.of(np.array(["local\x1fnew", "new"], object)).by_group()
            >>> groups, rows, numbers
            (['local', 'new'], array([0, 0, 1]), array([0, 1, 1]))
        """
        held = [[group for group in name.split(BETWEEN_GROUPS) if group] for name in self.names.tolist()]
        groups = sorted({group for name in held for group in name})
        number = {group: n for n, group in enumerate(groups)}
        numbers = np.array([number[group] for name in held for group in name], np.int64)
        offsets, places = rows_within(offsets_from([len(name) for name in held]), self.codes)
        return groups, np.repeat(np.arange(self.codes.size), np.diff(offsets)), numbers[places]


def joined_groups(column: Any, separator: str | None = None, missing: MissingGroup = "refuse") -> Any:
    """The groups of each item as one text; a column with one group per item as it is.

    Args:
        column: One group per item, or a list of groups.
        separator: What stands between several groups in a text, such as "|"; for columns of Arrow.
        missing: Whether rows without a value are left to be refused, or belong to no group.

    Example:
        >>> joined_groups([["new", "local"], [], ["new"]]) == ["local" + BETWEEN_GROUPS + "new", "", "new"]
        True
    """
    if hasattr(column, "type"):  # of Arrow
        if not holds_lists(column.type):
            return _separated(column, separator, missing)
        column = column.to_pylist()
    first = next((entry for entry in column if entry is not None), None)
    if not isinstance(first, list | tuple | set | frozenset | np.ndarray):
        return column
    found = []
    for row, entry in enumerate(column):
        if isinstance(entry, str) or (entry is None and missing == "refuse"):
            raise DataError(
                f"{entry!r}; expected a list of groups in every row, [] for none, or {NO_GROUP}",
                row=row, column="item_groups",
            )  # fmt: skip
        found.append(_one_text(map(identifier_text, entry or ())))
    return found


def _separated(column: Any, separator: str | None, missing: MissingGroup) -> Any:
    """A column of texts with the groups of each in one text, as `joined_groups` has it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count:
        if missing == "refuse":
            row = pc.index(pc.is_null(column), True).as_py()
            raise DataError(f"no value; expected a group in every row, or {NO_GROUP}", row=row, column="item_groups")
        column = column.cast(pa.large_string()).fill_null("")
    if separator is None:
        return column
    texts = column.cast(pa.large_string()).dictionary_encode()
    texts = texts.unify_dictionaries().combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    groups = [_one_text(map(str.strip, text.split(separator))) for text in texts.dictionary.to_pylist()]
    return pa.array(groups, pa.large_string()).take(texts.indices)


def _one_text(groups: Iterable[str]) -> str:
    return BETWEEN_GROUPS.join(sorted(set(groups) - {""}))


def identifier_text(identifier: object) -> str:
    """The text of one id: 7, 7.0 and "7" share it.

    Example:
        >>> identifier_text(7.0)
        '7'
    """
    if type(identifier) in (str, int):  # most of them, and this runs for every request
        return str(identifier)
    try:
        return str(_plain(identifier, 0, "id"))
    except DataError as error:
        raise DataError(f"an id is {error.args[0]}") from None


def identifier_key(identifier: object) -> int:
    """A 64-bit hash of an id's text.

    Example:
        >>> identifier_key(7) == identifier_key("7") == identifier_key(7.0)
        True
    """
    return int.from_bytes(blake2b(identifier_text(identifier).encode(), digest_size=8).digest(), "little")


def identifier_keys(identifiers: NDArray[Any]) -> NDArray[np.uint64]:
    """`identifier_key` of each id, (n,).

    Example:
        >>> identifier_keys(np.array([7])) == identifier_keys(np.array(["7"]))
        array([ True])
    """
    given = identifiers.tolist()
    texts = map(str, given) if identifiers.dtype.kind in "iuU" else map(identifier_text, given)
    hashed = (blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(hashed), "<u8").astype(np.uint64)
