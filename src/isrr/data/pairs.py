"""A number for each of some (query, item) pairs: the scores of a run, or the grades of qrels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from isrr.data.files import What
from isrr.data.numbers import unfit
from isrr.data.queries import FloatArray, IntArray
from isrr.errors import DataError, shown


@dataclass(frozen=True, eq=False)
class Pairs:
    """Queries by their numbers, as `query_names[queries]`; items by their text.

    Attributes:
        name: What errors call the source.
        query_names: The different queries, Arrow text (`large_string`, as all text here).
        queries: Which of them each pair has, (n_pairs,).
        items: The item of each pair, Arrow text, (n_pairs,).
        values: The numbers, (n_pairs,); NaN where a grade is missing.
        where: Where a pair stands, for errors.
    """

    name: str
    query_names: Any
    queries: IntArray
    items: Any
    values: FloatArray
    where: Callable[[int], str]

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: IntArray) -> "Pairs":
        """Some of the pairs, in the order asked for."""
        return replace(
            self,
            queries=self.queries[rows],
            items=self.items.take(pa.array(rows)),
            values=self.values[rows],
            where=lambda row: self.where(int(rows[row])),
        )

    def chosen(self, kept: NDArray[np.bool_]) -> "Pairs":
        """The pairs that are kept."""
        return self if kept.all() else self.take(np.flatnonzero(kept))

    def pair(self, row: int) -> str:
        """A pair, in words."""
        return f"item {self.items[row].as_py()!r} of query {self.query_names[int(self.queries[row])].as_py()!r}"


def pairs_of(name: str, queries: Any, items: Any, values: FloatArray, where: Callable[[int], str]) -> Pairs:
    """Pairs from Arrow columns of text, one row per pair."""
    coded = queries.dictionary_encode()
    return Pairs(name, coded.dictionary, coded.indices.to_numpy().astype(np.int64), items, values, where)


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
    for query, listed in table.items():
        if not isinstance(listed, Mapping):
            found = type(listed).__name__
            raise DataError(f"{name}: query {query!r} has a {found}; expected {{query: {{item: number}}}}")
    names = [str(query) for query in table]
    if len(set(names)) < len(names):
        raise DataError(f"{name}: a query id appears twice, as text and as a number")
    items = [item if type(item) is str else str(item) for listed in table.values() for item in listed]
    numbers = [number for listed in table.values() for number in listed.values()]

    def where(row: int) -> str:
        return f"{name}: entry {row + 1:,}"

    return Pairs(
        name=name,
        query_names=pa.array(names, pa.large_string()),
        queries=np.repeat(np.arange(len(names)), [len(listed) for listed in table.values()]),
        items=pa.array(items, pa.large_string()),
        values=as_floats(numbers, where),
        where=where,
    )


def as_floats(numbers: Sequence[Any], where: Callable[[int], str]) -> FloatArray:
    """Numbers, some of them written as text, as floats; None is missing."""
    if not any(isinstance(number, str | bool | list) for number in numbers):
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
            raise DataError(f"{where(row)}: found {shown(number)}; expected a number") from None
    return values
