"""The columns of an Arrow table, cast in their roles and turned into the arrays of `Queries`.

Every refusal names the table, the row (counted from 1; for CSV also the line, after the header) and the column.
"""

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isrr.data.files import KINDS, Table
from isrr.data.grades import BESIDE_GRADES, judged_rows, stored_policy, with_grades
from isrr.data.letor import Group
from isrr.data.numbers import FEATURE_NEED, LARGEST, large_features, needed, rounded, unfit
from isrr.data.queries import Queries
from isrr.data.unjudged import OPTIONS, Unjudged, checked_policy
from isrr.errors import DataError

USUAL_NAMES = {
    "query": ("query_id", "qid", "query"),
    "item": ("item_id", "doc_id", "docid", "item"),
    "score": ("score",),
    "relevance": ("relevance", "label", "grade"),
    "segment": ("segment",),
    "item_group": ("group", "provider", "item_group"),
    "features": ("features",),
}
ROLES = tuple(role for role in USUAL_NAMES if role != "features")
GRADE_NEED = f"every item needs a grade; else {OPTIONS}"
_PATTERN = re.compile(r"[*?\[]")
MADE_IDS = {b"isrr.made_ids": b"true"}  # schema metadata of queries whose ids were made from positions


@dataclass(frozen=True)
class Cast:
    """Which column plays which role; features may be played by several. Of the roles nobody plays, what to say."""

    roles: dict[str, str]
    features: str | list[str] | None
    absent: dict[str, str]
    with_grades: tuple[str, ...] = ()  # columns that go where the grades go
    unjudged: Unjudged | None = None  # None: as the table says, else refused

    @property
    def names(self) -> list[str]:
        """All columns that play a role."""
        features = [self.features] if isinstance(self.features, str) else self.features or []
        return list(dict.fromkeys([*self.roles.values(), *features, *self.with_grades]))

    def only(self, roles: Sequence[str]) -> "Cast":
        """The part of the cast that plays these roles; no features."""
        played = {role: name for role, name in self.roles.items() if role in roles}
        with_grades = self.with_grades if "relevance" in played else ()
        return replace(self, roles=played, features=None, with_grades=with_grades)

    @property
    def ids(self) -> list[str]:
        """The columns that hold ids."""
        return [name for role, name in self.roles.items() if role not in ("score", "relevance")]


def cast(
    table: Table,
    named: dict[str, str | None],
    features: str | Sequence[str] | None,
    need_query: bool,
    unjudged: Unjudged | None = None,
) -> Cast:
    """Give each role the column named for it, or the first of its usual names that the table has."""
    _refuse_beir(table, named)
    have = f"the columns are {', '.join(table.columns) or 'none'}"
    features = _matched(table, features)
    for name in [*named.values(), *([features] if isinstance(features, str) else features or [])]:
        if name is not None and name not in table.columns:
            raise DataError(f"{table.name}: there is no column {name!r}; {have}{_likely(table, name)}")

    def usual(role: str) -> str | None:
        return next((name for name in USUAL_NAMES[role] if name in table.columns), None)

    def missing(role: str) -> str:
        names = USUAL_NAMES[role]
        return (
            f"{table.name}: no {role.replace('_', ' ')} column ({', '.join(names)}, or named by `{role}=`); "
            f"{have}{_likely(table, *names)}"
        )

    roles = {role: name or usual(role) for role, name in named.items()}
    if need_query and roles["query"] is None:
        raise DataError(missing("query"))
    if not need_query:
        roles["query"] = None
    if features is None:
        features = usual("features")
    if roles["score"] is None and roles["relevance"] is None and features is None:
        raise DataError(f"{missing('score')}; nor is there a relevance or a features column")
    chosen = Cast(
        roles={role: name for role, name in roles.items() if name is not None},
        features=features if isinstance(features, str | None) else list(features),
        absent={role: missing(role) for role, name in (roles | {"features": features}).items() if name is None},
        with_grades=tuple(name for name in BESIDE_GRADES if name in table.columns and name not in roles.values())
        if roles["relevance"] is not None
        else (),
        unjudged=None if unjudged is None else checked_policy(unjudged),
    )
    _refuse_ambiguous(chosen, table)
    return chosen


def _refuse_beir(table: Table, named: dict[str, str | None]) -> None:
    """Refuse BEIR's qrels, whose `score` is the grade, and its runs, which have the same header."""
    plain = sorted(name.lower().replace("_", "-") for name in table.columns)
    if plain == ["corpus-id", "query-id", "score"] and named.get("relevance") is None:
        raise DataError(
            f"{table.name}: in BEIR's qrels the column 'score' is the grade, and a table of judged queries needs "
            f"scores and grades; give the run and its judgments: `run=` and `qrels=`"
        )


def _refuse_ambiguous(chosen: Cast, table: Table) -> None:
    """Refuse a column that plays two roles, grades that are features, and a name that two columns have."""
    features = [chosen.features] if isinstance(chosen.features, str) else chosen.features or []
    for name in chosen.names:
        played = [role.replace("_", " ") for role, column in chosen.roles.items() if column == name]
        if name in features and name == chosen.roles.get("relevance"):
            played.append("features")
        if len(played) > 1:
            raise DataError(f"{table.name}: column {name!r} is named for {' and '.join(played)}; it can play one role")
        if table.columns.count(name) > 1:
            raise DataError(
                f"{table.name}: column {name!r} stands {table.columns.count(name)} times; rename all but one"
            )


def _matched(table: Table, features: str | Sequence[str] | None) -> str | Sequence[str] | None:
    """Feature columns, those named by a pattern such as `f*` written out in the table's order."""
    if features is None or (isinstance(features, str) and not _PATTERN.search(features)):
        return features
    names: list[str] = []
    for name in [features] if isinstance(features, str) else features:
        names += (fnmatch.filter(table.columns, name) if _PATTERN.search(name) else None) or [name]
    return names[0] if len(names) == 1 else names


def _likely(table: Table, *wanted: str) -> str:
    """The column that was probably meant, as the end of a message."""
    by_lower = {column.lower(): column for column in reversed(table.columns)}
    close = [match for name in wanted for match in get_close_matches(name.lower(), by_lower, 1, 0.7)]
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""


def queries_of(table: Any, columns: Cast, name: str, group: Group | None) -> Queries:
    """Queries from the columns of an Arrow table."""
    if table.num_rows == 0:
        raise DataError(f"{name}: the table has no rows")

    query_column, grades = columns.roles.get("query"), columns.roles.get("relevance")
    policy = columns.unjudged or stored_policy(table, columns.with_grades) or "refuse"
    for column in columns.names:
        if column == grades and policy != "refuse":
            continue
        if column not in columns.with_grades:
            _refuse_nulls(table, column, name, query_column, GRADE_NEED if column == grades else "every row needs one")

    def ids(role: str) -> NDArray[Any] | None:
        return column_of_ids(table, columns.roles[role], name) if role in columns.roles else None

    def numbers(role: str) -> NDArray[Any] | None:
        if (column := columns.roles.get(role)) is None:
            return None
        _refuse_rounding(table, column, name, query_column)
        values = _numbers(table, column, name)
        least = 0.0 if role == "relevance" else -LARGEST
        missing = np.isnan(values) if role == "relevance" and values.dtype.kind == "f" else np.zeros(len(values), bool)
        if policy == "refuse" and missing.any():
            _refuse_row(missing, "nan", GRADE_NEED, table, column, name, query_column)
        if (bad := unfit(values, least) & ~missing).any():
            found = values[bad][0]
            _refuse_row(bad, str(found), needed(found, least), table, column, name, query_column)
        return values

    arrays = {
        "query_ids": ids("query"),
        "item_ids": ids("item"),
        "item_groups": ids("item_group"),
        "segments": ids("segment"),
        "scores": numbers("score"),
        "relevance": numbers("relevance"),
        "features": None if columns.features is None else _matrix(table, columns.features, name),
    }
    judged = judged_rows(table, columns.with_grades, arrays["relevance"])
    if judged is not None:
        arrays["relevance"] = np.where(judged, arrays["relevance"], 0.0)  # type: ignore[arg-type]
    try:
        queries = Queries.from_arrays(**arrays, group=group)  # type: ignore[arg-type]
    except DataError as error:
        raise DataError(f"{name}: {error}", error.query) from None
    queries = replace(
        queries,
        made_ids=has_made_ids(table.schema) or queries.made_ids,
        absent=columns.absent,
        feature_names=() if columns.features is None else _feature_names(table, columns.features),
    )
    try:
        return with_grades(queries, table, columns.with_grades, judged, policy)
    except DataError as error:
        raise DataError(f"{name}: {error}", error.query) from None


def has_made_ids(schema: Any) -> bool:
    """Whether a table says that its query ids were made from positions."""
    return bool((schema.metadata or {}).items() >= MADE_IDS.items())


def column_of_ids(table: Any, column: str, name: str) -> NDArray[Any]:
    """Ids as integers or text, one a row."""
    import pyarrow as pa

    _refuse_nulls(table, column, name)
    values = table[column]
    _refuse_kind_of_ids(values.type, column, name)
    if pa.types.is_dictionary(values.type):
        values = values.combine_chunks()
        chunk = values.chunk(0) if isinstance(values, pa.ChunkedArray) else values
        return np.asarray(chunk.dictionary.to_numpy(zero_copy_only=False)[chunk.indices.to_numpy()])
    return np.asarray(values.to_numpy())


def _refuse_kind_of_ids(kind: Any, column: str, name: str) -> None:
    """Refuse ids whose text would be ours or an engine's own invention."""
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    usable = (
        types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_date32,
        types.is_string, types.is_large_string, types.is_string_view,
    )  # fmt: skip
    if not any(is_such(kind) for is_such in usable):
        raise DataError(f"{name}: column {column!r} holds ids of type {kind}; give integers or text (cast it to text)")


def _refuse_nulls(
    table: Any, column: str, name: str, query_column: str | None = None, need: str = "every row needs one"
) -> None:
    if table[column].null_count:
        bad = table[column].is_null().to_numpy()
        _refuse_row(bad, "no value", need, table, column, name, query_column)


def _refuse_row(
    bad: NDArray[np.bool_], found: str, need: str, table: Any, column: str, name: str, query_column: str | None
) -> None:
    """Refuse a table for the first of its bad rows."""
    row = int(np.flatnonzero(bad)[0])
    query = None if query_column is None else table[query_column][row].as_py()
    whose = "" if query is None else f" for query {str(query)!r}"
    raise DataError(f"{_place(name, row, column)}: {found}{whose}; {need}", None if query is None else str(query))


def _refuse_rounding(table: Any, column: str, name: str, query_column: str | None) -> None:
    """Refuse decimals that would lose digits as floats; those of up to 15 digits never do."""
    from pyarrow import types

    if types.is_decimal(table[column].type) and table[column].type.precision > 15:
        values = table[column].to_pylist()
        bad = np.fromiter(map(rounded, values), bool, len(values))
        if bad.any():
            found = values[int(np.argmax(bad))]
            _refuse_row(bad, str(found), needed(found), table, column, name, query_column)


def _place(name: str, row: int, column: str) -> str:
    """Where a value stands, as people count."""
    suffix = PurePath(name.removesuffix(".gz")).suffix.lower()
    line = f" (line {row + 2})" if KINDS.get(suffix) == "csv" else ""
    return f"{name}: row {row + 1}{line}, column {column!r}"


def _numbers(table: Any, column: str, name: str) -> NDArray[Any]:
    """A column of numbers: integers as they are, all others as floats."""
    import pyarrow as pa

    values = table[column]
    types = pa.types
    if types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if types.is_integer(values.type) or types.is_float32(values.type) or types.is_float64(values.type):
        return np.asarray(values.to_numpy())
    if types.is_float16(values.type):
        return np.asarray(values.to_numpy(), np.float32)
    if types.is_boolean(values.type):
        return np.asarray(values.cast(pa.float64()).to_numpy())
    if types.is_decimal(values.type):  # by way of text: the direct way turns 0.1 into 0.09999999999999999
        return np.asarray(values.cast(pa.string()).cast(pa.float64()).to_numpy())
    row = next((row for row, value in enumerate(values.to_pylist()) if not _reads_as_number(value)), 0)
    found = values[row].as_py()
    is_text = types.is_string(values.type) or types.is_large_string(values.type)
    kind = "text" if is_text else values.type
    raise DataError(f"{_place(name, row, column)}: {found!r} ({kind}); needed is a number")


def _reads_as_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True


def _feature_names(table: Any, features: str | list[str]) -> tuple[str, ...]:
    """The columns that hold a feature each; none where one column holds lists of them."""
    from pyarrow import types

    if not isinstance(features, str):
        return tuple(features)
    kind = table[features].type
    lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return () if lists else (features,)


def _matrix(table: Any, features: str | list[str], name: str) -> NDArray[np.float32]:
    names = _feature_names(table, features)
    if isinstance(features, str) and not names:
        return _lists(table[features], features, name)
    matrix = np.empty((table.num_rows, len(names)), np.float32)
    for place, column in enumerate(names):
        matrix[:, place] = _features(table, column, name)
    matrix.flags.writeable = False  # ours alone: queries may hold it without a copy
    return matrix


def _lists(values: Any, column: str, name: str) -> NDArray[np.float32]:
    """Equally long lists as a matrix, without a copy where they are one piece of fixed-size float32 lists."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_fixed_size_list(values.type):
        width = values.type.list_size
    else:
        lengths = pc.list_value_length(values).to_numpy()
        width = int(lengths[0])
        if (lengths != width).any():
            row = int(np.flatnonzero(lengths != width)[0])
            raise DataError(f"{_place(name, row, column)}: {lengths[row]} features, but row 1 has {width}")
    pieces = [chunk.flatten() for chunk in values.chunks]
    flat = pieces[0] if len(pieces) == 1 else pa.chunked_array(pieces, values.type.value_type)
    inner, within = pa.table({column: flat}), f"{name}: within the lists"
    _refuse_nulls(inner, column, within)
    return _features(inner, column, within).reshape(len(values), width)


def _features(table: Any, column: str, name: str) -> NDArray[np.float32]:
    values = _numbers(table, column, name)
    if (large := large_features(values)).size:
        row = int(large[0])
        raise DataError(f"{_place(name, row, column)}: {values[row]}; {FEATURE_NEED}")
    return values.astype(np.float32, copy=False)
