"""Groups of items: the providers or kinds that a row belongs to, one or several, as one text per row."""

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isrr.data.identifiers import Ids, identifier_text
from isrr.data.numbers import refuse_any
from isrr.data.ragged import offsets_from, rows_within
from isrr.errors import shown

BETWEEN_GROUPS = "\x1f"  # what keeps the groups of one item apart
MissingGroup = Literal["refuse", "none"]
NO_GROUP = "`missing_group=none` for items that belong to no group"


class Coded(NamedTuple):
    """A column of ids by numbers: `names[codes]` is the column as text.

    Attributes:
        names: The distinct ids as text, sorted.
        codes: Which of them each row has, (n_rows,).
    """

    names: NDArray[np.str_]
    codes: NDArray[np.int64]

    @classmethod
    def of(cls, ids: NDArray[Any]) -> "Coded":
        """Return the codes of a column.

        Example:
            >>> Coded.of(np.array([9, 10, 9])).names.tolist()
            ['10', '9']
        """
        distinct, codes = Ids.of(ids, "item_groups", ids.size).by_appearance()
        names, position = np.unique(distinct.array.astype(str), return_inverse=True)
        return cls(names, position[codes])

    def rows_of(self, group: str) -> NDArray[np.bool_]:
        """Return which rows belong to a group, possibly one of several, (n_rows,)."""
        belongs = [group == name or group in name.split(BETWEEN_GROUPS) for name in self.names.tolist()]
        return np.array(belongs, bool)[self.codes]

    def by_group(self) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
        """Return all groups, and every row with each of its groups: rows, and numbers of groups.

        Example:
            >>> groups, rows, numbers = Coded.of(np.array(["local\x1fnew", "new"], object)).by_group()
            >>> groups, rows, numbers
            (['local', 'new'], array([0, 0, 1]), array([0, 1, 1]))
        """
        of_name = [[group for group in name.split(BETWEEN_GROUPS) if group] for name in self.names.tolist()]
        groups = sorted({group for name in of_name for group in name})
        number = {group: n for n, group in enumerate(groups)}
        numbers = np.array([number[group] for name in of_name for group in name], np.int64)
        offsets, positions = rows_within(offsets_from([len(name) for name in of_name]), self.codes)
        return groups, np.repeat(np.arange(self.codes.size), np.diff(offsets)), numbers[positions]


def joined_groups(column: Any, separator: str | None = None, missing: MissingGroup = "refuse") -> Any:
    """Return the groups of each item as one text; a column with one group per item is returned as it is.

    Args:
        column: One group per item, or a list of groups.
        separator: What stands between several groups in a text, such as "|"; for columns of Arrow.
        missing: Whether rows without a value are left to be refused, or belong to no group.

    Example:
        >>> joined_groups([["new", "local"], [], ["new"]]) == ["local" + BETWEEN_GROUPS + "new", "", "new"]
        True
    """
    if hasattr(column, "type"):  # of Arrow
        import pyarrow as pa

        kind = column.type
        if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
            return _separated(column, separator, missing)
        column = column.to_pylist()
    first = next((entry for entry in column if entry is not None), None)
    if not isinstance(first, list | tuple | set | frozenset | np.ndarray):
        return column
    bad = [isinstance(entry, str) or (entry is None and missing == "refuse") for entry in column]
    expected = f"expected a list of groups in every row, [] for none, or {NO_GROUP}"
    refuse_any(np.array(bad), "item_groups", lambda row: shown(column[row]), expected)
    return [_one_text(map(identifier_text, () if entry is None else entry)) for entry in column]


def _separated(column: Any, separator: str | None, missing: MissingGroup) -> Any:
    """Return a column of texts with the groups of each in one text, as `joined_groups` has it."""
    import pyarrow as pa

    if column.null_count:
        if missing == "refuse":
            nulls = np.asarray(column.is_null())
            refuse_any(nulls, "item_groups", lambda _: "no value", f"expected a group in every row, or {NO_GROUP}")
        column = column.cast(pa.large_string()).fill_null("")
    if separator is None:
        return column
    texts = column.cast(pa.large_string()).dictionary_encode()
    texts = texts.unify_dictionaries().combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    groups = [_one_text(map(str.strip, text.split(separator))) for text in texts.dictionary.to_pylist()]
    return pa.array(groups, pa.large_string()).take(texts.indices)


def _one_text(groups: Iterable[str]) -> str:
    return BETWEEN_GROUPS.join(sorted(set(groups) - {""}))
