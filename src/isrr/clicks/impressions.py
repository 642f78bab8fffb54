"""Served lists and the clicks on them, joined: what the estimator reads.

Sources are a served-ranking log beside a click table (`impressions`), and a table with one row per impression and
candidate (`impressions_of_table`). What does not count is left out by rules that are fixed beforehand, and counted:

    lists     not drawn by a known logger; not showing the first k places on the first page; later views of a list that
              was shown before; after the first one of their unit
    clicks    on other lists; on items not shown; before the list or too late; below place k; a second one on a place;
              all clicks on a list with more items clicked than a person clicks

Lists that show one draw again (same ranker, query and session) are one impression. None of the rules on lists looks at
clicks, so that leaving lists out does not favour any ranker.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from isrr.clicks.table import LIST_NAMES, Clicks, Keys, looked_up, need, numbers, opened, read, seconds
from isrr.data.identifiers import Ids
from isrr.data.log import ServedLists, log_parts
from isrr.data.queries import FloatArray, IntArray, Queries
from isrr.data.ragged import rows_within
from isrr.data.sample import canonical_order
from isrr.errors import DataError
from isrr.gains import leading
from isrr.noise import GOLDEN, mixed
from isrr.ranker.gpl import GPLRanker

Unit = Literal["impression", "session", "user"]
MOST_CLICKS = 30  # items of one list, beyond which clicks are taken for a machine's
NOBODY = np.uint64(0)  # where there is no session, or no user


class Rules(NamedTuple):
    """Which lists and clicks count: those on the first k places, and the arguments of `isrr.calibrate_clicks`."""

    k: int
    unit: Unit | None = None
    within: float | None = None
    most_clicks: int = MOST_CLICKS


@dataclass(frozen=True, eq=False)
class Impressions:
    """Impressions that count, and the clicks on them.

    Attributes:
        lists: The distinct lists of candidates with their scores.
        loggers: The rankers that drew them; `logger_of` says which drew each list, (n_lists,).
        rules, unit: What counts, and what is independent of one another.
        list_of, unit_of: The list and the unit of each impression, (n,); units are numbered in canonical order.
        impression, row, place, value: Of each click: the impression, the row in `lists`, the place from 0, its worth.
        counts: How many lists and clicks were left out, by reason.
        digest: Names the lists that were served, blind to clicks.
        times: When each impression was served, (n,), in seconds since 1970.
        shown: The first k places of each impression, positions within the list, (n, k); −1 beyond its end.
        propensity: Their propensities as logged, (n, k); None where they are not.
        hottest: The hottest temperature for which the candidates are complete; infinite where all were logged.
    """

    lists: Queries
    loggers: tuple[GPLRanker, ...]
    logger_of: IntArray
    rules: Rules
    unit: Unit
    list_of: NDArray[np.int32]
    unit_of: NDArray[np.int32]
    impression: IntArray
    row: IntArray
    place: IntArray
    value: FloatArray
    counts: Mapping[str, int]
    digest: str
    times: FloatArray
    shown: IntArray
    propensity: FloatArray | None = None
    hottest: float = np.inf

    def __len__(self) -> int:
        return int(self.list_of.size)

    @property
    def n_units(self) -> int:
        """How many units there are."""
        return int(self.unit_of.max(initial=-1)) + 1

    @property
    def n_clicks(self) -> int:
        """Clicks that count."""
        return int(self.row.size)

    @property
    def anchor(self) -> float:
        """The least chance, over the loggers, with which a list is the order by score."""
        return min(ranker.anchor for ranker in self.loggers)

    @property
    def clicks_digest(self) -> str:
        """Names the clicks."""
        cells = np.stack([self.impression, self.row, self.place]).astype("<i8")
        return blake2b(cells.tobytes() + self.value.astype("<f8").tobytes(), digest_size=16).hexdigest()


class _Part(NamedTuple):
    """Lists as they were served, and the rows that were clicked.

    Attributes:
        keys, queries, sessions, users: Hashes of ids, (n,).
        query_ids: The queries' ids.
        times: When they were served.
        logger: Who drew them, (n,).
        offsets, items, scores: Candidates of all lists, one after the other.
        leading: The first places of the order by score as logged, (n, k); −1 where they are not known.
        shown: The first places of the list, (n, k); −1 beyond its end.
        propensity: Their propensities, (n, k); NaN where they are not known.
        clicked, place, value: Row, place from 0 and worth of each click.
    """

    keys: Keys
    queries: Keys
    sessions: Keys
    users: Keys
    query_ids: Ids
    times: FloatArray
    logger: IntArray
    offsets: IntArray
    items: Ids
    scores: FloatArray
    leading: IntArray
    shown: IntArray
    propensity: FloatArray
    clicked: IntArray
    place: IntArray
    value: FloatArray


def impressions(
    log: str | os.PathLike[str], clicks: Clicks, loggers: Mapping[str, GPLRanker], rules: Rules
) -> Impressions:
    """Join the log that `isrr serve --log` wrote, a folder or a file, with clicks; loggers by certificate id."""
    if rules.unit == "user":
        raise DataError(
            f"{log}: the served-ranking log names sessions, not users; expected the unit 'session' or 'impression' "
            "(send the user's id as the session to count users)"
        )
    counts: Counter[str] = Counter()
    if rules.within is not None and np.isnan(clicks.times).any():
        raise DataError("`within=` needs the time of every click; expected a column 'time' without gaps")
    hottest = [np.inf]
    parts = _parts_of_log(log, clicks, list(loggers), rules, counts, hottest)
    counts["clicks on lists that do not count"] = len(clicks)
    counts["clicks of another kind"] = clicks.n_other
    return replace(_gathered(parts, tuple(loggers.values()), rules, counts, str(log)), hottest=min(hottest))


def _parts_of_log(
    log: str | os.PathLike[str],
    clicks: Clicks,
    ids: list[str],
    rules: Rules,
    counts: Counter[str],
    hottest: list[float],
) -> Iterator[_Part]:
    strangers: Counter[str] = Counter()
    known: set[int] = set()
    for part in log_parts(log):
        table = part.table
        counts["damaged lines"] += part.n_damaged
        single = _not_yet(Ids.of(table["list_id"], "list_id", table.num_rows).hashes(), known)
        counts["lists logged again"] += table.num_rows - int(single.sum())
        table = table.filter(pa.array(single))
        logger = pc.index_in(table["certificate"], pa.array(ids, pa.string())).fill_null(-1).to_numpy().astype(np.int64)
        strangers.update(table["certificate"].filter(pa.array(logger < 0)).to_pylist())
        drawn = pc.and_(pc.equal(table["order"], "drawn"), pc.equal(table["status"], "valid")).to_numpy()
        drawn &= table["arm"].is_null().to_numpy()  # in a rollout, the path's rankers draw
        counts["lists not drawn by a known ranker"] += int((~drawn | (logger < 0)).sum())
        n_items = pc.coalesce(table["n_items"], pc.list_value_length(table["item_ids"]).cast(pa.int64())).to_numpy()
        first, n_shown = table["first_rank"].to_numpy(), table["n_shown"].to_numpy()
        whole = (first == 1) & (n_shown >= np.minimum(rules.k, n_items)) & (n_items > 0)
        counts[f"lists that do not show the first {rules.k} places"] += int((drawn & (logger >= 0) & ~whole).sum())
        keep = drawn & (logger >= 0) & whole
        if not keep.any():
            continue
        kept = ServedLists(table.filter(pa.array(keep)))
        hottest.append(float(pc.min(kept.table["hottest"]).as_py() or np.inf))
        n = len(kept)
        keys = Ids.of(kept.table["list_id"], "list_id", n).hashes()
        items = Ids.of(kept.item_ids, "item_ids", len(kept.item_ids))
        query_ids, times = Ids.of(kept.table["query_id"], "query_id", n), kept.table["time"].to_numpy()
        rows = np.repeat(kept.offsets[:-1], np.diff(kept.places)) + kept.ranking
        place = np.arange(rows.size) - np.repeat(kept.places[:-1], np.diff(kept.places))
        seen = place < np.repeat(n_shown[keep], np.diff(kept.places))
        clicked, value = _clicked(clicks, keys, times, items.take(rows[seen]), kept.places, seen, rules, counts)
        yield _Part(
            keys, query_ids.hashes(), _optional(kept.table["session"], "session"), np.zeros(n, np.uint64), query_ids,
            times, logger[keep], kept.offsets, items, kept.scores, _leading(kept.table["deterministic"], rules.k),
            _leading(kept.table["ranking"], rules.k), _leading(kept.table["propensities"], rules.k, np.nan),
            rows[seen][clicked], place[seen][clicked], value,
        )  # fmt: skip
    if strangers and len(ids) == 0:
        raise DataError(f"{log}: served by {', '.join(sorted(strangers)[:3])}, of which no ranker file was given")


def _not_yet(keys: Keys, known: set[int]) -> NDArray[np.bool_]:
    """Whether each key is seen for the first time; adds them to those that are known."""
    single = np.zeros(keys.size, bool)
    single[np.unique(keys, return_index=True)[1]] = True
    single &= np.fromiter((key not in known for key in keys.tolist()), bool, keys.size)
    known.update(keys.tolist())
    return single


def _clicked(
    clicks: Clicks,
    keys: Keys,
    times: FloatArray,
    shown: Ids,
    places: IntArray,
    seen: NDArray[np.bool_],
    rules: Rules,
    counts: Counter[str],
) -> tuple[IntArray, FloatArray]:
    """Which of the shown items were clicked, as positions in `shown`, and what each click is worth."""
    low, high = (np.searchsorted(clicks.lists, keys, side) for side in ("left", "right"))
    n_clicks = high - low
    owner = np.repeat(np.arange(keys.size), n_clicks)
    at = np.arange(owner.size) - np.repeat(np.cumsum(n_clicks) - n_clicks, n_clicks) + np.repeat(low, n_clicks)
    counts["clicks on lists that do not count"] -= owner.size
    list_of = np.repeat(np.arange(keys.size), np.diff(places))[seen]
    pairs = mixed(keys[list_of] ^ mixed(shown.hashes()))
    clicked = mixed(keys[owner] ^ mixed(clicks.items[at]))
    row, there = looked_up(clicked, pairs)
    n_items = np.bincount(owner[np.unique(clicked, return_index=True)[1]], minlength=keys.size)
    reasons = {
        f"clicks on a list with more than {rules.most_clicks} items clicked": n_items[owner] > rules.most_clicks,
        "clicks on items not shown": ~there,
        "clicks before the list": clicks.times[at] < times[owner],
        "late clicks": clicks.times[at] > times[owner] + (np.inf if rules.within is None else rules.within),
    }
    good = np.ones(owner.size, bool)
    for reason, bad in reasons.items():
        counts[reason] += int((good & bad).sum())
        good &= ~bad
    return row[good], clicks.value[at][good]


def impressions_of_table(source: Any, ranker: GPLRanker, rules: Rules, *, value: str | None = None) -> Impressions:
    """Impressions of a table with one row per impression and candidate, drawn by one ranker.

    Args:
        source: A file or a frame: impression_id (or list_id), query_id, item_id, score, position (from 1; nothing
            where the candidate was not shown) and click; time, session and user where there are any.
        ranker: The logger.
        rules: What counts.
        value: Column with what a clicked row is worth; by default 1.
    """
    table = opened(source)
    listed = need(table, *LIST_NAMES)
    names = ["query_id", "item_id", "score", "position", "click", *([value] if value else [])]
    ids = [listed, "query_id", "item_id", *(name for name in ("session", "user") if name in table.columns)]
    columns = [*ids, *(need(table, name) for name in names), *(["time"] if "time" in table.columns else [])]
    if rules.unit in ("session", "user"):
        need(table, rules.unit)
    rows = read(table, columns, ids)
    n_rows, counts = rows.num_rows, Counter[str]()
    keys = Ids.of(rows[listed], listed, n_rows).hashes()
    order = np.argsort(keys, kind="stable")
    first = np.flatnonzero(np.concatenate(([True], keys[order][1:] != keys[order][:-1])))
    offsets = np.append(first, n_rows)
    heads, rows = order[first], rows.take(pa.array(order))
    query_ids = Ids.of(rows["query_id"], "query_id", n_rows).take(first)
    items = Ids.of(rows["item_id"], "item_id", n_rows)
    _, single = np.unique(mixed(keys[order] ^ mixed(items.hashes())), return_index=True)
    if single.size < n_rows:
        again = int(np.setdiff1d(np.arange(n_rows), single)[0])
        name, item = (rows[column][again].as_py() for column in (listed, "item_id"))
        raise DataError(
            f"{table.name}: {listed} {name!r} has item {item!r} twice; expected one row per impression and candidate"
        )
    score = np.asarray(rows["score"].cast(pa.float64()).to_numpy())
    place = _places(rows, offsets, query_ids, table.name)
    clicked = np.flatnonzero(numbers(pc.fill_null(rows["click"].cast(pa.float64()), 0.0), "click", table.name) > 0)
    hidden = place[clicked] < 0
    counts["clicks on items not shown"] = int(hidden.sum())
    clicked = clicked[~hidden]
    n_shown = np.add.reduceat(((place >= 0) & (place < rules.k)).astype(np.int64), offsets[:-1])
    if n_short := int((n_shown < np.minimum(rules.k, np.diff(offsets))).sum()):
        raise DataError(
            f"{table.name}: {n_short:,} impressions do not show the first {rules.k} places; expected a position for "
            "each of them, and every candidate in the table"
        )
    worth = np.ones(clicked.size) if value is None else numbers(rows[value], value, table.name)[clicked]

    def of_lists(name: str) -> Keys:
        there = name in table.columns
        return _optional(rows[name].take(pa.array(first)), name) if there else np.zeros(first.size, np.uint64)

    shown, near = np.full((first.size, rules.k), -1), np.flatnonzero((place >= 0) & (place < rules.k))
    owner = np.searchsorted(offsets, near, side="right") - 1
    shown[owner, place[near]] = near - offsets[owner]
    times = seconds(rows["time"], table.name)[first] if "time" in columns else heads.astype(np.float64)
    part = _Part(
        keys[heads], query_ids.hashes(), of_lists("session"), of_lists("user"), query_ids, times,
        np.zeros(first.size, np.int64), offsets, items, score,
        np.full((first.size, rules.k), -1), shown, np.full(shown.shape, np.nan), clicked, place[clicked], worth,
    )  # fmt: skip
    return _gathered([part], (ranker,), rules, counts, table.name)


def _places(rows: Any, offsets: IntArray, query_ids: Ids, source: str) -> IntArray:
    """The place of each row from 0, −1 where it was not shown, (n_rows,); refuses what is no list of places 1 to n."""
    try:
        place = pc.fill_null(rows["position"].cast(pa.float64()), np.nan).to_numpy()
    except pa.ArrowException:
        raise DataError(f"{source}: column 'position' holds {rows['position'].type}; expected whole numbers") from None
    bad = np.flatnonzero(~np.isnan(place) & ~((place >= 1) & (place == np.floor(place))))
    if bad.size:
        raise DataError(
            f"{source}: a position is {place[bad[0]]:g}; expected places counted from 1, whole numbers, and nothing "
            "where a candidate was not shown"
        )
    owner = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    order = np.lexsort((place, owner))  # those not shown come last
    expected = np.arange(order.size) - offsets[owner] + 1.0
    bad = np.flatnonzero(~np.isnan(place[order]) & (place[order] != expected))
    if bad.size:
        query = query_ids.array[owner[bad[0]]]
        raise DataError(
            f"{source}: an impression of query {str(query)!r} has place {place[order][bad[0]]:g} where place "
            f"{expected[bad[0]]:g} comes next; expected the places 1, 2, 3, … of each impression, each with one item"
        )
    return np.where(np.isnan(place), 0.0, place).astype(np.int64) - 1


def _leading(column: Any, k: int, absent: float = -1) -> NDArray[Any]:
    """A column of lists as a matrix of their first k entries."""
    lengths = pc.list_value_length(column).to_numpy()
    flat = pc.list_flatten(column).to_numpy()
    place = np.arange(flat.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    out = np.full((lengths.size, k), absent)
    near = place < k
    out[np.repeat(np.arange(lengths.size), lengths)[near], place[near]] = flat[near]
    return out


def _optional(column: Any, name: str) -> Keys:
    """Hashes of ids; `NOBODY` where there is none."""
    absent = column.is_null().to_numpy()
    if absent.all():
        return np.zeros(len(column), np.uint64)
    found = Ids.of(pc.fill_null(column.cast(pa.string()), ""), name, len(column)).hashes()
    return np.where(absent, NOBODY, np.maximum(found, np.uint64(1)))


def _gathered(
    parts: Iterable[_Part], loggers: tuple[GPLRanker, ...], rules: Rules, counts: Counter[str], source: str
) -> Impressions:
    """Put parts together: distinct lists, one impression per draw, the first one of each unit, one click per place."""
    known: dict[tuple[int, int], int] = {}
    texts: list[tuple[Ids, Ids, FloatArray, IntArray, IntArray, IntArray]] = []
    lines: list[tuple[NDArray[Any], ...]] = []
    clicked: list[tuple[NDArray[Any], ...]] = []
    n_lines = 0
    for part in parts:
        list_of, new = _recognized(part, known)
        if new.size:
            _, rows = rows_within(part.offsets, new)
            sizes = np.diff(part.offsets)[new]
            found = part.query_ids.take(new), part.items.take(rows), part.scores[rows]
            texts.append((*found, sizes, part.logger[new], part.leading[new]))
        group = mixed(part.queries + GOLDEN * (part.logger.astype(np.uint64) + np.uint64(1))) ^ mixed(part.sessions)
        group = np.where(part.sessions == NOBODY, part.keys, group)
        lines.append((part.keys, group, part.sessions, part.users, part.times, list_of, part.shown, part.propensity))
        line = np.searchsorted(part.offsets, part.clicked, side="right") - 1
        clicked.append((n_lines + line, part.clicked - part.offsets[line], part.place, part.value))
        n_lines += part.keys.size
    if not n_lines:
        reasons = "; ".join(f"{n:,} {reason}" for reason, n in counts.items() if n)
        raise DataError(f"{source}: no list counts ({reasons or 'it is empty'})")
    keys, group, sessions, users, times, list_of, shown, propensity = (
        np.concatenate(column) for column in zip(*lines, strict=True)
    )
    line, position, place, value = (np.concatenate(column) for column in zip(*clicked, strict=True))
    lists, logger_of, as_logged = _lists(texts)
    head = _heads(keys, group, times, list_of, counts)
    counts["lists whose order by score is unknown"] += int((~as_logged[list_of]).sum())
    head[~as_logged[list_of]] = -1
    unit: Unit = rules.unit or ("session" if (sessions != NOBODY).any() else "impression")
    named = {"impression": group, "session": sessions, "user": users}[unit]
    named = np.where(named == NOBODY, group, named)
    kept, number, unit_of, digest = _first_of_units(np.flatnonzero(head == np.arange(n_lines)), named, times, keys)
    counts[f"later lists of a {unit}"] += int((head == np.arange(n_lines)).sum()) - kept.size
    impression = np.where(head[line] >= 0, number[np.maximum(head[line], 0)], -1)
    counts[f"clicks below place {rules.k}"] += int(((impression >= 0) & (place >= rules.k)).sum())
    good = (impression >= 0) & (place < rules.k)
    order = np.lexsort((-value[good], place[good], impression[good]))
    impression, place, value = impression[good][order], place[good][order], value[good][order]
    rows = (lists.offsets[list_of[line]] + position)[good][order]
    again = np.zeros(impression.size, bool)
    again[1:] = (impression[1:] == impression[:-1]) & (place[1:] == place[:-1])
    counts["repeated clicks"] += int(again.sum())
    return Impressions(
        lists, loggers, logger_of, rules, unit, list_of[kept].astype(np.int32), unit_of, impression[~again],
        rows[~again], place[~again], value[~again], {name: n for name, n in counts.items() if n}, digest, times[kept],
        shown[kept], None if np.isnan(propensity).all() else propensity[kept],
    )  # fmt: skip


def _recognized(part: _Part, known: dict[tuple[int, int], int]) -> tuple[IntArray, IntArray]:
    """The number of each line's list among those known, and the lines whose lists were new."""
    inside = np.arange(part.scores.size) - np.repeat(part.offsets[:-1], np.diff(part.offsets))
    rows = mixed(part.items.hashes() ^ mixed(part.scores.view(np.uint64) + GOLDEN * inside.astype(np.uint64)))
    lists = mixed(part.queries ^ mixed(part.logger.astype(np.uint64)))
    digests = np.stack([np.add.reduceat(mixed(rows + lists_seed), part.offsets[:-1]) for lists_seed in _SEEDS], axis=1)
    digests[:, 0] ^= lists
    distinct, first, which = np.unique(digests, axis=0, return_index=True, return_inverse=True)
    numbers_of, new = np.empty(len(distinct), np.int64), []
    for i in np.argsort(first).tolist():
        name = (int(distinct[i, 0]), int(distinct[i, 1]))
        if name not in known:
            known[name] = len(known)
            new.append(int(first[i]))
        numbers_of[i] = known[name]
    return numbers_of[which.ravel()], np.array(new, np.int64)


_SEEDS = (np.uint64(0x6C69737473), np.uint64(0x636C69636B73))


def _lists(
    texts: list[tuple[Ids, Ids, FloatArray, IntArray, IntArray, IntArray]],
) -> tuple[Queries, IntArray, NDArray[np.bool_]]:
    """Distinct lists as queries, the logger of each, and whether its order by score is as it was logged.

    It may not be in a log that leaves out candidates: they had a part in the lot that decides between equal scores.
    """
    query_ids, items, scores, sizes, loggers, by_score = zip(*texts, strict=True)
    offsets = np.concatenate(([0], np.cumsum(np.concatenate(sizes))))
    lists = Queries(offsets, Ids.joined(query_ids).array, np.concatenate(scores), items=Ids.joined(items))
    bad = np.flatnonzero(~np.isfinite(lists.need_scores()))
    if bad.size:
        raise DataError(f"a candidate has score {lists.need_scores()[bad[0]]}; expected a finite number")
    logged = np.concatenate(by_score)
    as_logged = (logged < 0) | (logged == leading(lists, logged.shape[1]))
    return lists, np.concatenate(loggers), as_logged.all(axis=1)


def _heads(keys: Keys, group: Keys, times: FloatArray, list_of: IntArray, counts: Counter[str]) -> IntArray:
    """For each line the line that stands for its draw: the earliest with that draw; −1 where the list had changed."""
    order = np.lexsort((keys, times, group))
    opens = np.concatenate(([True], group[order][1:] != group[order][:-1]))
    leader = order[np.maximum.accumulate(np.where(opens, np.arange(order.size), 0))]
    head = np.empty(order.size, np.int64)
    head[order] = np.where(list_of[order] == list_of[leader], leader, -1)
    counts["repeated views, merged"] += int(((head >= 0) & (head != np.arange(head.size))).sum())
    counts["repeated views with other candidates"] += int((head < 0).sum())
    return head


def _first_of_units(
    heads: IntArray, named: Keys, times: FloatArray, keys: Keys
) -> tuple[IntArray, IntArray, NDArray[np.int32], str]:
    """The lines that count, their number by line (−1 for others), the unit of each, and the digest of the order."""
    order = heads[np.lexsort((keys[heads], times[heads], named[heads]))]
    opens = np.concatenate(([True], named[order][1:] != named[order][:-1]))
    kept = order[opens]
    number = np.full(named.size, -1)
    number[kept] = np.arange(kept.size)
    units, unit_of = np.unique(named[kept], return_inverse=True)
    digest = blake2b(np.sort(keys[kept]).tobytes(), digest_size=16).hexdigest()
    place = np.empty(units.size, np.int32)
    place[canonical_order(units, digest)] = np.arange(units.size, dtype=np.int32)
    return kept, number, place[unit_of.ravel()], digest
