"""Which served lists a judgment belongs to, and what they are worth.

A judged query counts once, with the mean of all the lists it was served under the promise; a session's pages are one
list. Served items without a judgment count as unjudged items did in calibration. Where each had a grade there, a query
that lacks one waits. The judged queries must be a random sample of the traffic.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isrr.counting import counted
from isrr.data.identifiers import identifier_key, identifier_keys
from isrr.data.log import ServedLists
from isrr.data.queries import FloatArray, Queries
from isrr.errors import DataError, PromiseError, shown
from isrr.outcome.certificate import Certificate
from isrr.promises import Promise

Line = Mapping[str, Any]  # of the served-ranking log
ORDERS = "top", "deterministic", "production"  # of a line


class JudgedQuery(NamedTuple):
    """A judged query that was served.

    Attributes:
        key, number, segment: Its name in 8 bytes, its number among the judged queries, and its segment.
        time: When it was first served.
        lists: The items of each of its lists as numbers within its judgments: as drawn, by score and, where a promise
            compares with it, as in production; −1 for one without a judgment where these count.
    """

    key: int
    number: int
    segment: str | None
    time: float
    lists: list[list[list[int]]]


@dataclass(eq=False)
class JudgedBatch:
    """What a batch of judgments says of a log.

    Attributes:
        judgments: The judgments.
        queries: Those to count, in the order in which they were first served.
        n_incomplete: Judged queries of which a served item has no judgment.
        n_before: Judged queries that were counted before, and are not again.
        n_served, n_unjudged: Positions of the lists that count, and those that hold an item without a judgment.
        n_unmonitored: Judged queries in segments that the promise does not name.
        note: Why nothing matched, which judgment is lacking, or which segment is not monitored; empty if all is well.
    """

    judgments: Queries | None = None
    queries: list[JudgedQuery] = field(default_factory=list)
    n_incomplete: int = 0
    n_before: int = 0
    n_served: int = 0
    n_unjudged: int = 0
    n_unmonitored: int = 0
    note: str = ""

    @property
    def selected(self) -> str:
        """What to say where queries had to be left out, so that the others are no random sample."""
        if not self.n_incomplete:
            return ""
        return (
            f"{counted(self.n_incomplete, 'judged query')} lack judgments of served items and are left out; those that "
            "count are no random sample then: judge every served item, or calibrate with a policy for unjudged items "
            "(`unjudged=zero`)"
        )

    def measured(self, promise: Promise) -> FloatArray:
        """Return what a promise measures of each query's lists, as drawn and as compared with, (n, 2); NaN if skipped.

        For a promise about lists, what is measured of those drawn is the share of good ones.
        """
        if self.judgments is None or not self.queries:
            return np.empty((0, 2))
        means, orders = np.empty((len(self.queries), 2)), [0, 2 if promise.compared_with == "production" else 1]
        for n_lists in {len(query.lists) for query in self.queries}:
            chosen = [i for i, query in enumerate(self.queries) if len(query.lists) == n_lists]
            shown = np.full((len(chosen), 2 * n_lists, promise.k), -1)
            for row, i in zip(shown, chosen, strict=True):
                chosen_orders = ([listed[order] for order in orders] for listed in self.queries[i].lists)
                for items, listed in zip(row, chain.from_iterable(chosen_orders), strict=True):
                    items[: len(listed)] = listed[: promise.k]
            judged = self.judgments[[self.queries[i].number for i in chosen]]
            values = promise.base_measure.metric.list_values(judged, shown, promise.base_measure)
            pairs = values.reshape(-1, n_lists, 2)
            if promise.lists is not None:
                drawn, reference = pairs[:, :, 0].reshape(-1, 1), pairs[:, :, 1].ravel()
                pairs[:, :, 0] = promise.lists.judged(drawn, reference).reshape(-1, n_lists)
            means[chosen] = pairs.mean(axis=1)
        return means


def monitored(certificate: Certificate, judged: bool) -> list[tuple[Promise, str | None]]:
    """Return the promises about what single lists hold, in each segment; without judgments, those that need none."""
    cells = [
        (promise, test.segment)
        for test in certificate.tests
        if (promise := test.promise).metric.kind != "fairness"
        and promise.compared_with != "merit"
        and (judged or promise.columns == ("item_group",))
    ]
    if not cells and not judged:
        raise PromiseError(
            f"'{certificate.promises[0]}' is monitored with judgments (`judgments=`); the log alone shows "
            "shares of exposure of groups"
        )
    if not cells:
        raise PromiseError(
            f"'{certificate.promises[0]}' is about expected exposure or merit, which served lists do not show; "
            "promises about what a list holds, such as ndcg, can be monitored"
        )
    return cells


def match(
    served: Iterable[Line],
    judgments: Queries,
    certificate: str,
    seen: Collection[int],
    policy: str = "refuse",
    production: bool = False,
) -> JudgedBatch:
    """Return the judged queries that were served under a certificate and are yet to be counted.

    Args:
        served: Lines of the served-ranking log, as `isrr.data.log.ServedLists.lines` gives them.
        judgments: Judged candidates with item ids.
        certificate: Id of the certificate; lists of another, or not covered by it, do not count.
        seen: Keys of the queries that were counted before.
        policy: How served items without a judgment count.
        production: Whether a promise compares with production: only lists whose requests carried that order count.
    """
    items, keys = need_item_ids(judgments), identifier_keys(judgments.query_ids).tolist()
    orders = ORDERS if production else ORDERS[:2]
    numbers = {str(query): q for q, query in enumerate(judgments.query_ids)}
    lists, note = _lists(served, numbers, certificate, seen, production)
    graded = np.ones(judgments.n_rows, bool) if judgments.judged is None else judgments.judged
    batch = JudgedBatch(judgments, n_before=sum(key in seen for key in keys), note=note)
    for q, lines in sorted(lists.items(), key=lambda entry: (entry[1][0]["time"], entry[0])):
        first, last = judgments.offsets[q], judgments.offsets[q + 1]
        number_of = {str(item): i for i, item in enumerate(items[first:last])}
        unjudged = {str(item) for line in lines for order in orders for item in line[order]} - number_of.keys()
        nothing_left = any(unjudged.issuperset(map(str, line["top"])) for line in lines)
        if unjudged and (policy == "refuse" or (policy == "drop" and nothing_left)):
            batch.n_incomplete += 1
            batch.note = batch.note or (
                f"query {str(judgments.query_ids[q])!r} was served item {min(unjudged)!r}, which is not judged; "
                f"judgments are for items such as {next(iter(number_of))!r}"
            )
            continue
        shown = [[[number_of.get(str(i), -1) for i in line[order]] for order in orders] for line in lines]
        batch.n_served += sum(len(top) for top, *_ in shown)
        batch.n_unjudged += sum(i < 0 or not graded[first + i] for top, *_ in shown for i in top)
        if policy in ("refuse", "drop"):
            shown = [[[i for i in order if i >= 0] for order in listed] for listed in shown]
        segment = None if judgments.segments is None else str(judgments.segments[q])
        batch.queries.append(JudgedQuery(keys[q], q, segment, float(lines[0]["time"]), shown))
    return batch


def candidates(logged: ServedLists) -> Queries:
    """Return the candidates of served lists with their groups: all that promises about exposure need to know of a list.

    Where a query was served several times, its candidates are those of all its lists.
    """
    table = logged.table.filter(logged.table["groups"].is_valid())
    if not table.num_rows:
        raise DataError("no list in the log has the groups of its items; send each item's group in the request")
    query, items = (column.to_pylist() for column in (table["query_id"], table["item_ids"]))
    query = np.repeat(np.array(query, object), [len(listed) for listed in items])
    items = np.array([item for listed in items for item in listed], object)
    named = [names or [] for line in table["groups"].to_pylist() for names in line]
    first = {pair: row for row, pair in reversed(list(enumerate(zip(query, items, strict=True))))}
    rows = sorted(first.values())
    return Queries.from_arrays(
        scores=np.zeros(len(rows)),
        query_ids=query[rows],
        item_ids=items[rows],
        item_groups=[named[row] for row in rows],
    )


def need_item_ids(judgments: Queries) -> NDArray[Any]:
    """Return the item ids of judgments; refuse where there are none."""
    if judgments.item_ids is None:
        unnamed = "the judgments have no item ids; expected item ids, to match them with served items"
        raise DataError(judgments.absent.get("item", unnamed))
    return judgments.item_ids


def _lists(
    served: Iterable[Line], judged: Mapping[str, int], certificate: str, seen: Collection[int], production: bool
) -> tuple[dict[int, list[Line]], str]:
    """Return the covered lists of judged queries that are yet to be counted, and why others are not."""
    lists: dict[int, dict[object, Line]] = {}
    n_lists, first, passed_over, n_alone = 0, "", "", 0
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
        if production and line["production"] is None:
            n_alone += 1
            continue
        if identifier_key(line["query_id"]) not in seen:
            pages = lists.setdefault(query, {})
            pages.setdefault(len(pages) if line["session"] is None else str(line["session"]), line)
    why = "" if known else _why_nothing(n_lists, first, passed_over, next(iter(judged), ""))
    if n_alone:
        which = f"{counted(n_alone, 'list')} of judged queries"
        why = f"{which} came without the order of production and do not count; send it as `production` in requests"
    return {query: sorted(pages.values(), key=lambda line: line["time"]) for query, pages in lists.items()}, why


def _why_nothing(n_lists: int, served: str, passed_over: str, judged: str) -> str:
    """Return why no served list is of a judged query, with an example of each side."""
    if not n_lists:
        return "the log holds no served list yet"
    if passed_over:
        return (
            f"no served list of a judged query counts: the first is {passed_over}, and only those that are valid under "
            "the monitored certificate do"
        )
    return (
        f"no judgment belongs to a served query: {counted(n_lists, 'list')} served, of queries such as "
        f"{shown(served)}; judgments are for queries such as {shown(judged)}"
    )
