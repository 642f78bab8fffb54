"""A number for each of some (query, item) pairs: the scores of a run, or the grades of qrels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from isrr.data.identifiers import INTEGER
from isrr.data.numbers import unfit
from isrr.data.queries import FloatArray
from isrr.errors import DataError

What = Literal["run", "qrels"]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Ids are text, by numbers: `query_names[queries]` is a column of query ids, one per pair.

    Attributes:
        name: What errors call the source.
        query_names: The different queries, Arrow text.
        queries: Which of them each pair has, (n_pairs,).
        item_names: The different items, Arrow text.
        items: Which of them each pair has, (n_pairs,).
        values: The numbers, (n_pairs,); NaN where a grade is missing.
        where: Where a pair stands, for errors.
    """

    name: str
    query_names: Any
    queries: NDArray[np.int64]
    item_names: Any
    items: NDArray[np.int64]
    values: FloatArray
    where: Callable[[int], str]

    def __len__(self) -> int:
        return len(self.values)

    def pair(self, row: int) -> str:
        """A pair, in words."""
        item, query = self.item_names[int(self.items[row])], self.query_names[int(self.queries[row])]
        return f"item {item.as_py()!r} of query {query.as_py()!r}"


def pairs_of(
    name: str,
    queries: Any,
    items: Any,
    values: NDArray[Any],
    where: Callable[[int], str],
) -> Pairs:
    """Pairs from Arrow columns of text, one row per pair; dictionaries are taken as they are."""
    query_names, query_codes = coded(queries)
    item_names, item_codes = coded(items)
    return Pairs(name, query_names, query_codes, item_names, item_codes, np.asarray(values, np.float64), where)


def coded(column: Any) -> tuple[Any, NDArray[np.int64]]:
    """The different texts of an Arrow column, and which of them each row has."""
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.string())
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.string()).dictionary_encode()
    return column.dictionary, column.indices.to_numpy().astype(np.int64)


def checked(pairs: Pairs, what: What) -> Pairs:
    """The pairs, none empty, with numbers that can be scores, or grades where they are not missing."""
    if len(pairs) == 0:
        raise DataError(f"{pairs.name}: there are no {'results' if what == 'run' else 'judgments'}")
    bad = unfit(pairs.values)
    if what == "qrels":
        bad &= ~np.isnan(pairs.values)
    if bad.any():
        row = int(np.argmax(bad))
        number = "score" if what == "run" else "grade"
        raise DataError(
            f"{pairs.where(row)}: the {number} of {pairs.pair(row)} is {pairs.values[row]}; "
            "expected a finite number within ±1e50"
        )
    return pairs


def identifiers_of(names: Any) -> NDArray[Any]:
    """Ids from Arrow text: integers where all are written as one would write them, else text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pc.all(pc.match_substring_regex(names, f"^({INTEGER})$")).as_py():
        return np.asarray(names.cast(pa.int64()).to_numpy())
    return np.asarray(names.to_numpy(zero_copy_only=False), object)


def some(names: Sequence[str]) -> str:
    """A few names of many, for a message.

    Example:
        >>> some(["a", "b", "c", "d", "e"])
        'a, b, c and 2 more'
    """
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3:,} more" if len(names) > 3 else shown


def from_mapping(table: Mapping[Any, Any], name: str) -> Pairs:
    """Pairs from `{query: {item: number}}`, as pytrec_eval, ranx and BEIR have them.

    Example:
        >>> from_mapping({"q1": {"d1": 2, "d2": 0}}, "qrels").values
        array([2., 0.])
    """
    import pyarrow as pa

    texts: list[str] = []
    items: list[Any] = []
    numbers: list[Any] = []
    lengths: list[int] = []
    for query, listed in table.items():
        if not isinstance(listed, Mapping):
            found = type(listed).__name__
            raise DataError(f"{name}: query {query!r} has a {found}; expected {{query: {{item: number}}}}")
        texts.append(str(query))
        lengths.append(len(listed))
        items.extend(listed)
        numbers.extend(listed.values())
    codes = pa.array(np.repeat(np.arange(len(texts)), lengths))
    queries = pa.DictionaryArray.from_arrays(codes, pa.array(texts, pa.string()))
    if len(set(texts)) < len(texts):
        raise DataError(f"{name}: a query id appears twice, as text and as a number")
    texts_of_items = items if all(type(item) is str for item in items) else list(map(str, items))
    where = f"{name}: entry {{:,}}"
    values = as_floats(numbers, lambda row: where.format(row + 1))
    return pairs_of(name, queries, pa.array(texts_of_items, pa.string()), values, lambda row: where.format(row + 1))


def as_floats(numbers: Sequence[Any], where: Callable[[int], str]) -> FloatArray:
    """Numbers, some of them written as text, as floats; None is missing."""
    if not any(isinstance(number, str | bool) for number in numbers):
        try:
            return np.array(numbers, np.float64)
        except (TypeError, ValueError, OverflowError):
            pass
    values = np.empty(len(numbers))
    for row, number in enumerate(numbers):
        try:
            if isinstance(number, bool):
                raise TypeError
            values[row] = np.nan if number is None else float(number)
        except (TypeError, ValueError, OverflowError):
            raise DataError(f"{where(row)}: found {number!r}; expected a number") from None
    return values
