"""The columns of an Arrow table, cast in their roles and turned into the arrays of `Queries`.

`Queries.from_arrays` checks what they hold. Its refusal names the row and the column; here the table is added, the
column's own name and, for CSV, the line.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from isrr.counting import counted
from isrr.data.files import Table, kind_by_name
from isrr.data.grades import BESIDE_GRADES, judged_rows, stored_policy, with_grades
from isrr.data.identifiers import MissingGroup, decoded, joined_groups
from isrr.data.queries import Queries
from isrr.data.unjudged import OPTIONS, Unjudged, checked_policy
from isrr.errors import DataError, did_you_mean

USUAL_NAMES = {
    "query": ("query_id", "qid", "query"),
    "item": ("item_id", "doc_id", "docid", "item"),
    "score": ("score",),
    "relevance": ("relevance", "label", "grade"),
    "segment": ("segment",),
    "item_group": ("group", "provider", "item_group"),
}
OWN_NAMES = ("query_id", "item_id", "item_group", "score", "relevance", "segment")  # when isrr writes
POSITIONS = ("position", "pos", "slot")  # columns that say where an item was shown
ROLES = tuple(USUAL_NAMES)
VALUE = "value:"  # how the role of a further column of numbers begins: "value:margin" is played by the column "margin"
MADE_IDS = {b"isrr.made_ids": b"true"}  # schema metadata of queries whose ids were made from positions


@dataclass(frozen=True)
class Cast:
    """Which column plays which role. Of the roles nobody plays, what to say."""

    roles: dict[str, str]
    absent: dict[str, str]
    with_grades: tuple[str, ...] = ()  # columns that go where the grades go
    unjudged: Unjudged | None = None  # None: as the table says, else refused
    has_positions: bool = False  # whether a column says where each item was shown
    group_separator: str | None = None
    missing_group: MissingGroup = "refuse"

    @property
    def names(self) -> list[str]:
        """All columns that play a role."""
        return list(dict.fromkeys([*self.roles.values(), *self.with_grades]))

    def only(self, roles: Sequence[str]) -> "Cast":
        """The part of the cast that plays these roles."""
        played = {role: name for role, name in self.roles.items() if role in roles}
        with_grades = self.with_grades if "relevance" in played else ()
        return replace(self, roles=played, with_grades=with_grades)

    def with_groups(self, separator: str | None, missing: MissingGroup) -> "Cast":
        """The same, with how groups are written; see `joined_groups`."""
        if missing not in get_args(MissingGroup):
            raise ValueError(f"`missing_group=` must be one of {', '.join(get_args(MissingGroup))}; got {missing!r}")
        if separator == "":
            raise DataError("`group_separator=` is empty; expected what stands between two groups, such as '|'")
        return replace(self, group_separator=separator, missing_group=missing)

    @property
    def ids(self) -> list[str]:
        """The columns that hold ids."""
        numbers = {
            name for role, name in self.roles.items() if role in ("score", "relevance") or role.startswith(VALUE)
        }
        return [name for name in dict.fromkeys(self.roles.values()) if name not in numbers]


def value_roles(values: Sequence[str]) -> dict[str, str | None]:
    """The roles of further columns of numbers, by the columns' names.

    Example:
        >>> value_roles(["margin"])
        {'value:margin': 'margin'}
    """
    return {f"{VALUE}{name}": name for name in ([values] if isinstance(values, str) else values)}


def cast(
    table: Table,
    named: dict[str, str | None],
    need_query: bool,
    unjudged: Unjudged | None = None,
) -> Cast:
    """Give each role the column named for it, or the first of its usual names that the table has."""
    _refuse_beir(table, named)
    have = f"the columns are {', '.join(table.columns) or 'none'}"
    for name in named.values():
        if name is not None and name not in table.columns:
            raise DataError(f"{table.name}: there is no column {name!r}; {have}{did_you_mean(name, table.columns)}")

    def usual(role: str) -> str | None:
        taken = set(table.values).difference(OWN_NAMES)
        return next((name for name in USUAL_NAMES[role] if name in table.columns and name not in taken), None)

    def missing(role: str) -> str:
        names = USUAL_NAMES[role]
        return (
            f"{table.name}: no {role.replace('_', ' ')} column ({', '.join(names)}, or named by `{role}=`); "
            f"{have}{next(filter(None, (did_you_mean(name, table.columns) for name in names)), '')}"
        )

    roles = {role: name or usual(role) for role, name in named.items()}
    if need_query and roles["query"] is None:
        raise DataError(missing("query"))
    if not need_query:
        roles["query"] = None
    if roles["score"] is None and roles["relevance"] is None:
        raise DataError(f"{missing('score')}; nor is there a relevance column")
    chosen = Cast(
        roles={role: name for role, name in roles.items() if name is not None},
        absent={role: missing(role) for role, name in roles.items() if name is None},
        with_grades=tuple(name for name in BESIDE_GRADES if name in table.columns and name not in roles.values())
        if roles["relevance"] is not None
        else (),
        unjudged=None if unjudged is None else checked_policy(unjudged),
        has_positions=any(name.lower() in POSITIONS for name in table.columns),
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
    """Refuse a column that plays two roles, and a name that two columns have."""
    for name in chosen.names:
        roles = [role for role, column in chosen.roles.items() if column == name and not role.startswith(VALUE)]
        played = [role.replace("_", " ") for role in roles]
        if len(played) > 1:
            raise DataError(f"{table.name}: column {name!r} is named for {' and '.join(played)}; it can play one role")
        if table.columns.count(name) > 1:
            raise DataError(
                f"{table.name}: column {name!r} appears {table.columns.count(name)} times; rename all but one"
            )


def _notes_on_groups(column: Any) -> tuple[str, ...]:
    if column is None or not column.null_count:
        return ()
    n = column.null_count
    return (f"{counted(n, 'item')} without a group {'belongs' if n == 1 else 'belong'} to none (`missing_group=none`)",)


def queries_of(table: Any, columns: Cast, name: str, group: Any = None) -> Queries:
    """Queries from the columns of an Arrow table."""
    if table.num_rows == 0:
        raise DataError(f"{name}: the table has no rows")

    def numbers(role: str) -> NDArray[Any] | None:
        return as_array(table[columns.roles[role]], columns.roles[role]) if role in columns.roles else None

    def ids(role: str) -> Any:
        return table[columns.roles[role]] if role in columns.roles else None

    def groups() -> Any:
        column = ids("item_group")
        return None if column is None else joined_groups(column, columns.group_separator, columns.missing_group)

    arguments = {"query_ids": "query", "item_ids": "item", "item_groups": "item_group", "segments": "segment"}
    judged = None
    try:
        policy = columns.unjudged or stored_policy(table, columns.with_grades) or "refuse"
        relevance = numbers("relevance")
        if (grades := columns.roles.get("relevance")) is not None:
            judged = judged_rows(table, columns.with_grades, grades)
            if judged is not None and policy != "refuse":
                relevance = _zero_elsewhere(table[grades], judged, grades)
        queries = Queries.from_arrays(
            **{argument: groups() if role == "item_group" else ids(role) for argument, role in arguments.items()},
            scores=numbers("score"),
            relevance=relevance,
            values={r.removeprefix(VALUE): numbers(r) for r in columns.roles if r.startswith(VALUE)},  # type: ignore[misc]
            group=group,
        )
    except DataError as error:
        role = (arguments | {"scores": "score", "relevance": "relevance"}).get(error.column or "", "")
        if role == "relevance" and judged is not None and error.row is not None and not judged[error.row]:
            error.args = (f"{error.args[0].split(';')[0]}; every item needs a grade, or {OPTIONS}",)
        raise located(error, name, columns.roles.get(role, error.column)) from None
    queries = replace(
        queries,
        made_ids=has_made_ids(table.schema) or queries.made_ids,
        absent=columns.absent,
        grade_column=columns.roles.get("relevance", ""),
        has_positions=columns.has_positions,
        notes=_notes_on_groups(ids("item_group")),
    )
    try:
        return with_grades(queries, table, columns.with_grades, judged, policy)
    except DataError as error:
        raise located(error, name, error.column) from None


def located(error: DataError, name: str, column: str | None) -> DataError:
    """The same error, with the file or table and its name of the column."""
    source = f"{name}: {error.source}" if error.source else name
    header = kind_by_name(name) == "csv"
    return DataError(error.args[0], error.query, row=error.row, column=column, source=source, header=header)


def has_made_ids(schema: Any) -> bool:
    """Whether a table says that its query ids were made from positions."""
    return bool((schema.metadata or {}).items() >= MADE_IDS.items())


def as_array(column: Any, name: str) -> NDArray[Any]:
    """A column of Arrow as an array of numpy that loses nothing on the way; masked where values are missing."""
    column = decoded(column, name)
    if column.null_count:
        missing = column.is_null().to_numpy()
        return np.ma.MaskedArray(np.zeros(missing.size), missing)
    if pa.types.is_decimal(column.type) and column.type.precision <= 15:
        # by way of text: the direct way turns 0.1 into 0.09999999999999999
        column = column.cast(pa.string()).cast(pa.float64())
    return np.asarray(column.to_numpy())


def _zero_elsewhere(column: Any, chosen: NDArray[np.bool_], name: str) -> NDArray[Any]:
    """A column of numbers, 0 in all rows but the chosen ones."""
    given = as_array(column.filter(pa.array(chosen)), name)
    values = np.zeros(chosen.size, given.dtype)
    values[chosen] = given
    return values
