"""One request, one list: the order, its propensities, and whether the promise covers it."""

import os
import secrets
import time
from collections import Counter
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from isrr.clicks.rollout import arm_name
from isrr.data.log import LogLine
from isrr.errors import DataError, shown
from isrr.ranker.gpl import GPLRanker
from isrr.ranker.serving import ServedList
from isrr.serve import drift
from isrr.serve.current import Snapshot
from isrr.serve.schema import CertificateNote, Id, RankedItem, RankRequest, RankResponse, Refusal

FROZEN = "a seed without a session gives everybody the same draw; the promise is about random draws"
PERIODS = {3_600.0: "hour", 86_400.0: "day", 604_800.0: "week"}
LITTLE_ENDIAN = np.dtype("<f8")
_fresh_ids = list[str]()
os.register_at_fork(after_in_child=_fresh_ids.clear)  # each process draws its own
NOTHING = ServedList(np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64), 1.0, 1.0, False)


class RankedList(Struct, frozen=True, gc=False):
    """A list as it is served and logged; its rankings reach at least as far as the promise's k positions."""

    request: RankRequest
    snapshot: Snapshot
    line: LogLine
    note: CertificateNote
    bins: list[int]  # how many scores fall into each bin of the drift rule
    eligibility: float  # the best item's chance of the first position

    def response(self) -> RankResponse:
        """Return the positions that the request asks for."""
        line, candidates, items = self.line, self.request.items, list[RankedItem]()
        for i in range(line.first_rank - 1, line.first_rank - 1 + line.n_shown):
            item = candidates[line.ranking[i]]
            items.append(RankedItem(item.id, i + 1, item.score, line.propensities[i]))
        return RankResponse(line.list_id, items, self.note)


def rank_list(snapshot: Snapshot, request: RankRequest, rotate: float | None = None) -> RankedList:
    """Rank the candidates of a request, or raise Refusal.

    With `rotate`, requests without a session share one draw per query and period of so many seconds.
    """
    k, list_id, ids = snapshot.outcome.k, new_list_id(), [item.id for item in request.items]
    _as_text("query", [request.query_id])
    names, groups = _distinct("item id", ids), _groups(request)
    production = None if request.production is None else _positions(request.production, names)
    start, stop = _page(request, k)
    session, uncovered, covers = _session(request, rotate)
    scores, bins = np.array([item.score for item in request.items], np.float64), list[int]()
    if not names:
        served, note = NOTHING, snapshot.uncovered("there is nothing to rank")
    else:
        bins, drifted = drift.tally(scores, snapshot.quantiles)
        arguments = scores, request.query_id, session, max(stop, k), ids, groups
        try:
            served = snapshot.ranker.rank_with_propensity(*arguments)
            reason = drifted or _unknown_group(snapshot, groups) or uncovered
            note = snapshot.uncovered(reason) if reason else snapshot.note
            note = replace(note, covers=covers) if covers and note.status == "valid" else note
        except DataError as error:  # scores that this ranker cannot rank
            served = GPLRanker.deterministic(k).rank_with_propensity(*arguments)
            note = snapshot.uncovered(str(error), deterministic=True)
    ranking, by_score, propensities = served.ranking.tolist(), served.deterministic.tolist(), served.propensity.tolist()
    arm = other_arm = None
    if snapshot.rollout is not None and snapshot.rollout.stage == "running":
        treated = snapshot.rollout.treated(list_id if request.session in (None, "") else request.session)
        arm, other_arm = arm_name(snapshot.rollout.step, treated), by_score
        if not treated:
            ranking, other_arm, propensities = by_score, ranking, [1.0] * len(by_score)
            note = replace(note, order="deterministic")
    line = LogLine(
        list_id=list_id,
        time=time.time(),
        certificate=note.id,
        status=note.status,
        order=note.order,
        query_id=str(request.query_id),
        session=None if session is None else str(session),
        first_rank=start + 1,
        n_shown=stop - start,
        item_ids=names,
        scores=scores.astype(LITTLE_ENDIAN, copy=False).tobytes(),
        ranking=ranking,
        propensities=propensities,
        deterministic=by_score[:k],
        groups=None if groups is None else [each or [] for each in groups],
        production=None if production is None else production[: len(ranking)],
        arm=arm,
        other_arm=other_arm,
    )
    return RankedList(request, snapshot, line, note, bins, served.eligibility)


def new_list_id() -> str:
    """Return a random id, one of several that were drawn at a time."""
    if not _fresh_ids:
        text = secrets.token_urlsafe(256 * 12)
        _fresh_ids.extend(text[start : start + 16] for start in range(0, len(text), 16))
    return _fresh_ids.pop()


def _as_text(what: str, values: list[Any]) -> list[str]:
    """Return values as text; refuse NUL, which arrays drop at the end of a text, so that two ids could become one."""
    try:
        names, whole = values, "".join(values)
    except TypeError:  # numbers among them
        names = [*map(str, values)]
        whole = "".join(names)
    if "\0" in whole:
        wrong = next(name for name in names if "\0" in name)
        raise Refusal(422, f"{what} {shown(wrong)} has a NUL character; expected an id without")
    return names


def _distinct(what: str, values: list[Any]) -> list[str]:
    """Return ids as text; refuse repeated ones."""
    names = _as_text(what, values)
    if len(set(names)) < len(names):
        repeated, _ = Counter(names).most_common(1)[0]
        raise Refusal(422, f"{what} {shown(repeated)} appears twice; expected each id at most once")
    return names


def _groups(request: RankRequest) -> list[list[str] | None] | None:
    """Return the groups of each candidate as a list, None where they are missing, or None if no candidate has any."""
    groups = [item.group for item in request.items]
    if groups.count(None) == len(groups):
        return None
    return [None if each is None else _as_text("group", [each] if isinstance(each, str) else each) for each in groups]


def _positions(order: list[Id], names: list[str]) -> list[int]:
    """Return the order of another ranking as positions within the candidates."""
    position = {name: i for i, name in enumerate(names)}
    try:
        return [position[name] for name in _distinct("production: item id", order)]
    except KeyError as error:
        raise Refusal(
            422, f"production: item id {shown(error.args[0])} is not among the candidates; expected their ids"
        ) from None


def _page(request: RankRequest, k: int) -> tuple[int, int]:
    """Return the first position that a request asks for, 0-based, and the one after the last."""
    n_items = len(request.items)
    if request.page is None and request.page_size is None:
        return 0, min(request.k or k, n_items)
    size, end = request.page_size or k, min(request.k or n_items, n_items)
    start = min(((request.page or 1) - 1) * size, end)
    return start, min(start + size, end)


def _session(request: RankRequest, rotate: float | None) -> tuple[object, str | None, str | None]:
    """Return what determines the draw (None for a fresh one), why that is not covered, and what the promise covers."""
    if request.session not in (None, ""):
        _as_text("session", [request.session])
        return request.session if request.seed is None else (request.session, request.seed), None, None
    if request.seed is not None:
        return (None, request.seed), FROZEN, None
    if rotate is None:
        return None, None, None
    period = PERIODS.get(rotate, f"period of {rotate:g} seconds")
    covers = f"the mean over periods: one order per query and {period}, for everybody"
    return f"period {int(time.time() // rotate)} of {request.query_id}", None, covers


def _unknown_group(snapshot: Snapshot, groups: list[list[str] | None] | None) -> str | None:
    """Return why a boosted ranker does not know a group of the request, or None."""
    for i, names in enumerate(groups or () if snapshot.groups else ()):
        for name in names or ():
            if name not in snapshot.groups:
                boosted = ", ".join(dict(snapshot.ranker.boost))
                return f"item {i} is in group {name!r}, which calibration never saw; this ranker boosts {boosted}"
    return None
