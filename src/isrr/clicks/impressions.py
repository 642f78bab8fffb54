"""The lists and clicks that count, for the estimator to read.

What does not count is left out by rules that are fixed beforehand, and counted:

    lists     not drawn by a known ranker; not showing the first k positions on the first page; later views of a list
              that was shown before; after the first one of their unit
    clicks    on other lists; on items not shown; before the list or too late; below position k; a second one on a
              position; all clicks on a list with more items clicked than a person clicks

Lists that show one draw again (same ranker, query and session) are one impression. None of the rules on lists looks at
clicks, so that leaving lists out does not favour any ranker.
"""

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from isrr.clicks.click_table import Clicks
from isrr.clicks.impression_table import served_of_table
from isrr.clicks.served import Selection, Served, codes, counted_clicks, first_of, first_positions, hashes, n_shown
from isrr.data.log import log_parts
from isrr.data.queries import FloatArray, IntArray, Queries
from isrr.data.sample import canonical_order
from isrr.errors import DataError, PromiseError
from isrr.gains import leading
from isrr.ranker.gpl import GPLRanker

Unit = Literal["impression", "session", "user"]
MOST_CLICKS = 30  # items of one list, beyond which clicks are taken for a machine's


@dataclass(frozen=True)
class Rules:
    """Which lists and clicks count: those on the first k positions, and the arguments of `isrr.calibrate_clicks`."""

    k: int
    unit: Unit | None = None
    within: float | None = None
    most_clicks: int = MOST_CLICKS

    def __post_init__(self) -> None:
        if self.unit not in (None, *get_args(Unit)):
            raise PromiseError(f"`unit=` must be 'impression', 'session' or 'user', got {self.unit!r}")
        if self.most_clicks < 1:
            raise PromiseError(f"`most_clicks=` must be ≥ 1, got {self.most_clicks}")
        if self.within is not None and not self.within > 0:
            raise PromiseError(f"`within=` must be a number of seconds > 0, got {self.within:g}")


@dataclass(frozen=True, eq=False)
class Impressions:
    """Impressions that count, one per unit, in canonical order, and the clicks on them.

    Attributes:
        lists: The distinct lists of candidates with their scores.
        loggers: The rankers that drew them; `logger_of` says which drew each list, (n_lists,).
        rules, unit: What counts, and what is independent of one another.
        list_of: The list of candidates of each impression, (n,).
        times: When each was served, (n,), in seconds since 1970.
        shown: The candidate at each of the first k positions, by its number in the list, (n, k); −1 beyond its end.
        impression, row, position, value: Of each click: the impression, the row in `lists`, the position
            from 0, its worth.
        counts: How many lists and clicks were left out, by reason.
        digest: Names the lists that were served, blind to clicks.
        propensity: The propensities of `shown` as logged, (n, k); None where they are not.
        hottest: The hottest temperature for which the candidates are complete; infinite where all were logged.
    """

    lists: Queries
    loggers: tuple[GPLRanker, ...]
    logger_of: IntArray
    rules: Rules
    unit: Unit
    list_of: IntArray
    times: FloatArray
    shown: IntArray
    impression: IntArray
    row: IntArray
    position: IntArray
    value: FloatArray
    counts: Mapping[str, int]
    digest: str
    propensity: FloatArray | None = None
    hottest: float = np.inf

    def __len__(self) -> int:
        return int(self.list_of.size)

    @property
    def n_clicks(self) -> int:
        """Clicks that count."""
        return int(self.row.size)

    @property
    def anchor(self) -> float:
        """The least chance, over the loggers, with which a list is the order by score."""
        return min(ranker.anchor for ranker in self.loggers)

    @property
    def inflation(self) -> float:
        """How many times a click on the order by score counts at most when it is weighted by its propensity."""
        return 1.0 / self.anchor if self.anchor else np.inf

    @property
    def clicks_digest(self) -> str:
        """Names the clicks."""
        clicked = np.stack([self.impression, self.row, self.position]).astype("<i8")
        return blake2b(clicked.tobytes() + self.value.astype("<f8").tobytes(), digest_size=16).hexdigest()


def impressions(
    log: str | os.PathLike[str], clicks: Clicks, loggers: Mapping[str, GPLRanker], rules: Rules
) -> Impressions:
    """Join the log that `isrr serve --log` wrote, a folder or a file, with clicks; loggers by certificate id."""
    if rules.unit == "user":
        raise DataError(
            f"{log}: the served-ranking log names sessions, not users; expected the unit 'session' or 'impression' "
            "(send the user's id as the session to count users)"
        )
    return _joined(Served.of(log_parts(log)), clicks, loggers, rules, str(log))


def impressions_of_table(source: Any, ranker: GPLRanker, rules: Rules, *, value: str | None = None) -> Impressions:
    """Return the impressions of a table with one row per impression and candidate, drawn by one ranker."""
    served, clicks = served_of_table(source, rules.k, value=value, unit=rules.unit)
    return _joined(served, clicks, {"": ranker}, rules, "the table of impressions")


def _joined(served: Served, clicks: Clicks, loggers: Mapping[str, GPLRanker], rules: Rules, source: str) -> Impressions:
    """Return one impression per draw and unit, in canonical order, and the clicks on them."""
    served, of_lists = _lists_that_count(served, loggers, rules, source)
    rows = served.rows
    numbers, list_of = np.unique(rows["list"].to_numpy(), return_inverse=True)
    lists = served.candidates(numbers)
    by_score, logged = leading(lists, rules.k)[list_of], first_positions(rows["deterministic"], rules.k)
    draw = pc.binary_join_element_wise(rows["certificate"], rows["query_id"], rows["session"], "\x1f")
    draw = pc.coalesce(draw, rows["list_id"])
    _, first, draw_of = np.unique(codes(draw), return_index=True, return_inverse=True)
    head = first[draw_of]  # the earliest view of the same draw
    views = Selection(rows.num_rows)
    views.leave_out("repeated views with other candidates", list_of != list_of[head])
    unknown = ((logged >= 0) & (logged != by_score)).any(axis=1)  # of candidates left out, some had equal scores
    views.leave_out("lists whose order by score is unknown", unknown[head])
    again = head != np.arange(head.size)
    views.reasons["repeated views, merged"] = int((views.good & again).sum())
    unit: Unit = rules.unit or ("session" if rows["session"].null_count < rows.num_rows else "impression")
    unit_ids = draw if unit == "impression" else pc.coalesce(rows[unit], draw)
    heads = np.flatnonzero(views.good & ~again)
    chosen = heads[first_of(codes(unit_ids.take(pa.array(heads))))]
    views.reasons[f"later lists of a {unit}"] = heads.size - chosen.size
    ids = np.sort(hashes(rows["list_id"].take(pa.array(chosen))))
    digest = blake2b(ids.tobytes(), digest_size=16).hexdigest()
    chosen = chosen[canonical_order(hashes(unit_ids.take(pa.array(chosen))), digest)]
    number = np.full(rows.num_rows, -1)
    number[chosen] = np.arange(chosen.size)
    impression_of = np.where(views.good, number[head], -1)
    which, row, position, of_clicks = counted_clicks(
        clicks, served, impression_of, rules.k, rules.within, rules.most_clicks
    )
    ranking = first_positions(rows["ranking"], rules.k).astype(np.int64)
    propensity = first_positions(rows["propensities"], rules.k, np.nan)[chosen]
    certificates = served.lists["certificate"].take(pa.array(numbers))
    logger_of = pc.index_in(certificates, pa.array(list(loggers), pa.string())).to_numpy().astype(np.int64)
    return Impressions(
        lists, tuple(loggers.values()), logger_of, rules, unit, list_of[chosen], rows["time"].to_numpy()[chosen],
        ranking[chosen], impression_of[row], lists.offsets[list_of[row]] + ranking[row, position], position,
        clicks.value[which], dict(of_lists + views.reasons + of_clicks), digest,
        None if np.isnan(propensity).all() else propensity, float(pc.min(rows["hottest"]).as_py() or np.inf),
    )  # fmt: skip


def _lists_that_count(
    served: Served, loggers: Mapping[str, GPLRanker], rules: Rules, source: str
) -> tuple[Served, Counter[str]]:
    """Return the lists that a known ranker drew and that show the first k positions, and how many others there are."""
    rows, selection = served.rows, Selection(served.rows.num_rows)
    drawn = pc.and_(pc.equal(rows["order"], "drawn"), pc.equal(rows["status"], "valid")).to_numpy()
    drawn &= rows["arm"].is_null().to_numpy()  # in a rollout, the path's rankers draw
    drawn &= pc.is_in(rows["certificate"], pa.array(list(loggers), pa.string())).to_numpy()
    selection.leave_out("lists not drawn by a known ranker", ~drawn)
    n_items = rows["n_items"].to_numpy()
    whole = (rows["first_rank"].to_numpy() == 1) & (n_shown(rows) >= np.minimum(rules.k, n_items)) & (n_items > 0)
    selection.leave_out(f"lists that do not show the first {rules.k} positions", ~whole)
    left_out = selection.reasons + served.left_out
    if not selection.good.any():
        reasons = "; ".join(f"{n:,} {reason}" for reason, n in left_out.items())
        others = ", ".join(sorted(set(rows["certificate"].to_pylist()) - loggers.keys()))
        expected = f"; the lists are of certificate {others}, expected those of {', '.join(loggers)}" if others else ""
        raise DataError(f"{source}: no list counts ({reasons or 'it is empty'}){expected}")
    return replace(served, rows=rows.filter(pa.array(selection.good))), left_out
