"""Which served lists a judgment belongs to, and how good they were.

A judged query counts once, with all the lists it was served under the promise; a session's pages are one list. Served
items without a judgment count as unjudged items did in calibration. Where each had a grade there, a query that lacks
one waits.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from isrr.counting import counted
from isrr.data.identifiers import identifier_key, identifier_keys
from isrr.data.log import ServedLists
from isrr.data.queries import Queries
from isrr.errors import DataError
from isrr.gains import empty_value
from isrr.metrics.metric import Metric
from isrr.promises import Promise

Line = Mapping[str, Any]  # of the served-ranking log


@dataclass(frozen=True, eq=False)
class JudgedQuery:
    """A judged query that was served.

    Attributes:
        key: Names it, in 8 bytes.
        query: Its place among the judged queries.
        segment: Its segment, where the judgments have one.
        lists: What it was served, oldest first.
        rows: The row of each of its candidates, by item id.
        unknown: The row of items without a judgment: None if they are skipped.
    """

    key: int
    query: int
    segment: str | None
    lists: list[Line]
    rows: dict[str, int]
    unknown: int | None = None

    @property
    def time(self) -> float:
        """When it was first served, seconds since 1970."""
        return float(self.lists[0]["time"])

    def mean(self, order: Literal["top", "deterministic"], measured: "Judged") -> float:
        """The metric of its lists as drawn, or by score; NaN where it has nothing to measure and such are skipped."""
        lists = [[self.rows.get(str(item), self.unknown) for item in line[order]] for line in self.lists]
        return float(np.mean([measured.of([row for row in rows if row is not None], self.query) for rows in lists]))


class Judged:
    """What a promise's metric says of given lists of judged items."""

    def __init__(self, promise: Promise, judgments: Queries) -> None:
        metric = promise.metric
        assert isinstance(metric, Metric)
        self._values = np.append(metric.value(judgments), 0.0)  # the last for items without a judgment
        self._weights = metric.weights(promise.k)
        self._whole = np.ones(len(judgments)) if metric.whole is None else metric.whole(judgments, promise.k)
        self._empty = empty_value(promise.empty_query)

    def of(self, rows: list[int], query: int) -> float:
        """The metric of one list, given by the rows of its items."""
        if self._whole[query] <= 0:
            return self._empty
        shown = rows[: self._weights.size]
        return float(self._values[shown] @ self._weights[: len(shown)]) / float(self._whole[query])


@dataclass(frozen=True, eq=False)
class Matches:
    """What a batch of judgments says of a log.

    Attributes:
        queries: The judged queries to count, in the order in which they were first served.
        n_incomplete: Judged queries of which a served item has no judgment.
        n_before: Judged queries that were counted before, and are not again.
        n_served, n_unjudged: Places of the lists that count, and those that hold an item without a judgment.
        note: Why nothing matched, or which judgment is lacking; empty where all is well.
    """

    queries: list[JudgedQuery]
    n_incomplete: int
    n_before: int
    n_served: int
    n_unjudged: int
    note: str


def match(
    served: Iterable[Line], judgments: Queries, certificate: str, seen: Collection[int], policy: str = "refuse"
) -> Matches:
    """The judged queries that were served under a certificate and are yet to be counted.

    Args:
        served: Lines of the served-ranking log.
        judgments: Judged candidates with item ids.
        certificate: Id of the certificate; lists of another, or not covered by it, do not count.
        seen: Keys of the queries that were counted before.
        policy: How served items without a judgment count.
    """
    items = need_item_ids(judgments)
    keys = identifier_keys(judgments.query_ids).tolist()
    lists, note = _lists(served, {str(query): q for q, query in enumerate(judgments.query_ids)}, certificate, seen)
    found, n_incomplete, n_served, n_unjudged = [], 0, 0, 0
    unknown = None if policy in ("refuse", "drop") else -1
    marked = judgments.judged
    for q, lines in sorted(lists.items(), key=lambda entry: (entry[1][0]["time"], entry[0])):
        rows = {str(items[row]): int(row) for row in range(judgments.offsets[q], judgments.offsets[q + 1])}
        unjudged = {str(item) for line in lines for item in (*line["top"], *line["deterministic"])} - rows.keys()
        nothing_left = any(unjudged.issuperset(map(str, line["top"])) for line in lines)
        if unjudged and (policy == "refuse" or (policy == "drop" and nothing_left)):
            n_incomplete += 1
            note = note or (
                f"query {str(judgments.query_ids[q])!r} was served item {min(unjudged)!r}, which is not judged; "
                f"judgments are for items such as {next(iter(rows))!r}"
            )
            continue
        segment = None if judgments.segments is None else str(judgments.segments[q])
        found.append(JudgedQuery(keys[q], q, segment, lines, rows, unknown))
        shown = [str(item) for line in lines for item in line["top"]]
        n_served += len(shown)
        n_unjudged += sum(item in unjudged or (marked is not None and not marked[rows[item]]) for item in shown)
    return Matches(found, n_incomplete, sum(key in seen for key in keys), n_served, n_unjudged, note)


def candidates(logged: ServedLists) -> Queries:
    """The candidates of served lists with their groups: all that promises about exposure need to know of a list.

    Where a query was served several times, its candidates are those of all its lists.
    """
    logged = replace(logged, table=logged.table.filter(logged.table["groups"].is_valid()))
    if not len(logged):
        raise DataError("no list in the log has the groups of its items; send each item's group in the request")
    groups = logged.table["groups"]
    n_candidates = np.diff(logged.offsets)
    query = np.repeat(np.array(logged.table["query_id"].cast("string").to_pylist(), object), n_candidates)
    items = np.array(logged.item_ids.to_pylist(), object)
    named = [names or [] for line in groups.to_pylist() for names in line]
    first = list({pair: row for row, pair in reversed(list(enumerate(zip(query, items, strict=True))))}.values())
    rows = np.sort(np.array(first, np.int64))
    return Queries.from_arrays(
        scores=np.zeros(rows.size),
        query_ids=query[rows],
        item_ids=items[rows],
        item_groups=[named[row] for row in rows.tolist()],
    )


def need_item_ids(judgments: Queries) -> NDArray[Any]:
    """The item ids of judgments; refused where there are none."""
    if judgments.item_ids is None:
        unnamed = "the judgments have no item ids; expected item ids, to match them with served items"
        raise DataError(judgments.absent.get("item", unnamed))
    return judgments.item_ids


def _lists(
    served: Iterable[Line], judged: Mapping[str, int], certificate: str, seen: Collection[int]
) -> tuple[dict[int, list[Line]], str]:
    """The covered lists of judged queries that are yet to be counted, and why there were never any."""
    found: dict[int, dict[object, Line]] = {}
    n_lists, first, passed_over = 0, "", ""
    known = False  # whether a judged query was served under this promise, now or in an earlier batch
    for line in served:
        n_lists, first = n_lists + 1, first or str(line["query_id"])
        query = judged.get(str(line["query_id"]))
        if query is None:
            continue
        if line["certificate"] != certificate or line["status"] != "valid":
            passed_over = passed_over or f"{line['status']} under certificate {line['certificate']}"
            continue
        known = True
        if identifier_key(line["query_id"]) in seen:
            continue
        lists = found.setdefault(query, {})
        lists.setdefault(len(lists) if line["session"] is None else str(line["session"]), line)
    why = "" if known else _why_nothing(n_lists, first, passed_over, next(iter(judged), ""))
    return {query: sorted(lists.values(), key=lambda line: line["time"]) for query, lists in found.items()}, why


def _why_nothing(n_lists: int, served: str, passed_over: str, judged: str) -> str:
    """Why no served list is of a judged query, with an example of each side."""
    if not n_lists:
        return "the log holds no served list yet"
    if passed_over:
        return (
            f"no served list of a judged query counts: the first is {passed_over}, and only those that are valid under "
            "the certificate watched do"
        )
    return (
        f"no judgment belongs to a served query: {counted(n_lists, 'list')} served, of queries such as {served!r}; "
        f"judgments are for queries such as {judged!r}"
    )
