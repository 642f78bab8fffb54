"""Which column of a table has which role: `Columns` as the caller names them, `Roles` as a table has them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, get_args

from isrr.data.formats import Table
from isrr.data.groups import MissingGroup
from isrr.errors import DataError, did_you_mean

POSITIONS = ("position", "pos", "slot")  # columns that say where an item was shown
VALUE = "value:"  # how the role of a further column of numbers begins: "value:margin" is played by the column "margin"
BESIDE_GRADES = UNRETRIEVED, UNJUDGED = "unretrieved", "unjudged"  # columns that isrr writes beside the grades


def _role(argument: str, *usual_names: str, numbers: bool = False) -> Any:
    """Return a field for a role: its argument of `Queries.from_arrays`, and how its column is usually called."""
    return field(default=None, metadata={"argument": argument, "usual": usual_names, "numbers": numbers})


@dataclass(frozen=True)
class Columns:
    """The names of a table's columns, where they are not the usual ones.

    Attributes:
        query: The query of each row; by default `query_id`, `qid` or `query`.
        item: The item; by default `item_id`, `doc_id`, `docid`, `item` or `docno`.
        score: The raw score; by default `score`.
        relevance: The grade; by default `relevance`, `label`, `grade` or `rel`.
        segment: The query's segment; by default `segment`.
        item_group: The item's provider or group; by default `item_group`, `group` or `provider`.
        values: Further columns of numbers, such as ("margin",); a column with another role may be among them.
        group_separator: What stands between the groups of an item that has several, such as "|"; a column of lists
            needs none.
        missing_group: "refuse" (the default) or "none": items without a group belong to none.

    Example:
        >>> Columns(query="search_id", values="margin").values
        ('margin',)
    """

    query: str | None = _role("query_ids", "query_id", "qid", "query", "q_id", "queryid")
    item: str | None = _role("item_ids", "item_id", "doc_id", "docid", "item", "docno", "corpus_id", "document_id")
    score: str | None = _role("scores", "score", numbers=True)
    relevance: str | None = _role("relevance", "relevance", "label", "grade", "rel", numbers=True)
    segment: str | None = _role("segments", "segment")
    item_group: str | None = _role("item_groups", "item_group", "group", "provider")
    values: Sequence[str] = ()
    group_separator: str | None = None
    missing_group: MissingGroup = "refuse"

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", (self.values,) if isinstance(self.values, str) else tuple(self.values))
        if self.missing_group not in get_args(MissingGroup):
            raise ValueError(f"`missing_group=` must be refuse or none; got {self.missing_group!r}")
        if self.group_separator == "":
            raise DataError("`group_separator=` is empty; expected what stands between two groups, such as '|'")

    def with_roles(self, roles: Sequence[str]) -> "Columns":
        """Return the same with the value columns that some roles name, such as "value:margin"."""
        more = [role.removeprefix(VALUE) for role in roles if role.startswith(VALUE)]
        return replace(self, values=tuple(dict.fromkeys((*self.values, *more))))


ROLES: dict[str, Mapping[str, Any]] = {part.name: part.metadata for part in fields(Columns) if part.metadata}
OWN_NAMES = tuple(metadata["usual"][0] for metadata in ROLES.values())  # when isrr writes


@dataclass(frozen=True)
class Roles:
    """Which column of a table has which role.

    Attributes:
        columns: What the caller asked for.
        names: The column of each role; of values, the roles begin with "value:".
        absent: What to say of the roles without a column.
        beside: Columns that go where the grades go.
        has_positions: Whether a column says where each item was shown.
    """

    columns: Columns
    names: dict[str, str]
    absent: dict[str, str]
    beside: tuple[str, ...] = ()
    has_positions: bool = False

    @classmethod
    def of(cls, table: Table, columns: Columns, *, grouped: bool = False, run: bool = False) -> "Roles":
        """Return the roles of a table's columns; a table that lacks one that is needed is refused.

        Args:
            table: The table.
            columns: The columns the caller names; others are found by their usual names.
            grouped: Whether the sizes of queries stand in for a query column.
            run: Whether the table is a run, whose grades come from elsewhere.
        """
        have = f"the columns are {', '.join(table.columns) or 'none'}"
        named = {role: name for role in ROLES if (name := getattr(columns, role)) is not None}
        if run:
            named = {role: name for role, name in named.items() if name in table.columns}
        for column in (*named.values(), *columns.values):
            if column not in table.columns:
                likely = did_you_mean(column, table.columns)
                raise DataError(f"{table.name}: there is no column {column!r}; {have}{likely}")
        values = dict.fromkeys((*table.values, *columns.values))
        taken = set(table.values).difference(OWN_NAMES)
        known = [name for name in table.columns if name not in taken]
        names = {role: name for role in ROLES if (name := named.get(role) or usual_column(role, known))}
        if grouped:
            names.pop("query", None)
        if run:
            names.pop("relevance", None)

        absent = {}
        for role in [role for role in ROLES if role not in names]:
            usual = ROLES[role]["usual"]
            likely = next(filter(None, (did_you_mean(name, table.columns) for name in usual)), "")
            said = f"no {role.replace('_', ' ')} column ({', '.join(usual)}, or named by `{role}=`); {have}{likely}"
            if role == "relevance" and len(table.columns) == 3 and set(names) == {"query", "item", "score"}:
                said += "; a run needs its judgments as `qrels=` (in BEIR's qrels the column 'score' is the grade)"
            elif role == "relevance":
                said += "; without grades, `isrr start` needs none" if not likely else ""
            absent[role] = f"{table.name}: {said}"
        if not grouped and "query" not in names:
            raise DataError(absent["query"])
        if "score" not in names and "relevance" not in names:
            raise DataError(f"{absent['score']}; nor is there a relevance column")
        beside = [name for name in BESIDE_GRADES if name in table.columns and name not in names.values()]
        has_positions = any(name.lower() in POSITIONS for name in table.columns)
        of_values = {f"{VALUE}{name}": name for name in values}
        roles = cls(columns, names | of_values, absent, tuple(beside) if "relevance" in names else (), has_positions)
        for name in roles.all:
            played = [role.replace("_", " ") for role, column in names.items() if column == name]
            if len(played) > 1:
                raise DataError(
                    f"{table.name}: column {name!r} is named for {' and '.join(played)}; it can play one role"
                )
            if (n := table.columns.count(name)) > 1:
                raise DataError(f"{table.name}: column {name!r} appears {n} times; rename all but one")
        return roles

    @property
    def all(self) -> list[str]:
        """All columns that have a role."""
        return list(dict.fromkeys([*self.names.values(), *self.beside]))

    def only(self, roles: Sequence[str]) -> "Roles":
        """Return the part with these roles."""
        names = {role: name for role, name in self.names.items() if role in roles}
        return replace(self, names=names, beside=self.beside if "relevance" in names else ())

    @property
    def ids(self) -> list[str]:
        """The columns that hold ids."""
        numbers = {name for role, name in self.names.items() if role not in ROLES or ROLES[role]["numbers"]}
        return [name for name in dict.fromkeys(self.names.values()) if name not in numbers]


def usual_column(role: str, columns: Sequence[str], more: Sequence[str] = ()) -> str | None:
    """Return the column that is usually called so: spelled exactly, else in capitals or with hyphens.

    Example:
        >>> usual_column("query", ["Query-ID", "score"])
        'Query-ID'
    """
    usual = (*ROLES[role]["usual"], *more)
    plain = {name.strip().lower().replace("-", "_").replace(" ", "_"): name for name in reversed(columns)}
    exact = next((name for name in usual if name in columns), None)
    return exact or next((plain[name] for name in usual if name in plain), None)
