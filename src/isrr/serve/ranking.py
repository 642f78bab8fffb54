"""One request, one list: the order, its propensities, and whether the promise covers it."""

import secrets
import time
from collections import Counter
from collections.abc import Iterable

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from isrr.clicks.rollout import Rollout, arm_name
from isrr.data.queries import FloatArray
from isrr.errors import DataError, shown
from isrr.ranker.gpl import GPLRanker
from isrr.ranker.serving import ServedList
from isrr.serve import drift
from isrr.serve.current import Snapshot
from isrr.serve.schema import CertificateNote, Id, RankedItem, RankRequest, RankResponse, Refusal

FROZEN = "a seed without a session gives everybody the same draw; the promise is about random draws"
PERIODS = {3_600.0: "hour", 86_400.0: "day", 604_800.0: "week"}


class RankCall(Struct, frozen=True, gc=False):
    """A list to be ranked."""

    ids: list[Id]  # as they were sent
    names: list[str]  # the same as text
    scores: list[float]
    query: Id
    session: object  # determines the draw; None for a fresh one
    start: int  # the places to return, 0-based, up to `stop`
    stop: int
    groups: list[list[str] | None] | None  # of each candidate; None where none were sent
    production: list[int] | None  # the order of another ranking, as positions within the candidates
    uncovered: str | None  # why the promise cannot cover the list
    covers: str | None  # what the promise is about where orders rotate


class RankedList(Struct, frozen=True, gc=False):
    """A list as it is served; rankings are positions within the candidates, of at least the promise's k places."""

    list_id: str  # nobody can guess it
    scores: FloatArray
    ranking: list[int]
    propensity: list[float]
    deterministic: list[int]  # the order by score
    note: CertificateNote
    bins: list[int]  # how many scores fall into each bin of the drift rule
    eligibility: float  # the best item's chance of first place
    arm: str | None = None  # of a rollout
    other_arm: list[int] | None = None  # what the other arm would have shown


def rank_call(request: RankRequest, k: int, max_items: int, rotate: float | None = None) -> RankCall:
    """Check a request and return what it asks for; `k` is the default number of places.

    With `rotate`, requests without a session share one draw per query and period of so many seconds.
    """
    ids = [item.id for item in request.items]
    if len(ids) > max_items:
        raise Refusal(413, f"there are {len(ids):,} candidates; expected at most {max_items:,} per query")
    _as_text("query", [request.query_id])
    names, session, covers, uncovered = _as_text("item id", ids), request.session, None, None
    if len(set(names)) < len(ids):
        twice = next(name for name, times in Counter(names).items() if times > 1)
        raise Refusal(422, f"item id {twice!r} appears twice; expected distinct ids within a query")
    if session in (None, ""):
        session = None
        if request.seed is not None:
            uncovered = FROZEN
        elif rotate is not None:
            session = f"period {int(time.time() // rotate)} of {request.query_id}"
            period = PERIODS.get(rotate, f"period of {rotate:g} seconds")
            covers = f"the mean over periods: one order per query and {period}, for everybody"
    else:
        _as_text("session", [session])
    start, stop = 0, min(request.k or k, len(ids))
    if request.page is not None or request.page_size is not None:
        size, end = request.page_size or k, min(request.k or len(ids), len(ids))
        start = min(((request.page or 1) - 1) * size, end)
        stop = min(start + size, end)
    return RankCall(
        ids, names, [item.score for item in request.items], request.query_id,
        session if request.seed is None else (session, request.seed), start, stop, _groups(request),
        None if request.production is None else _positions(request.production, names), uncovered, covers,
    )  # fmt: skip


def _as_text(what: str, values: Iterable[object]) -> list[str]:
    """Return values as text; refuse NUL, which arrays drop at the end of a text, so that two ids could become one."""
    names = [*map(str, values)]
    if "\0" in "".join(names):
        wrong = next(name for name in names if "\0" in name)
        raise Refusal(422, f"{what} {shown(wrong)} has a NUL character; expected an id without")
    return names


def _groups(request: RankRequest) -> list[list[str] | None] | None:
    """Return the groups of each candidate as a list, None where they are missing, or None if no candidate has any."""
    groups = [item.group for item in request.items]
    if groups.count(None) == len(groups):
        return None
    return [None if each is None else _as_text("group", [each] if isinstance(each, str) else each) for each in groups]


def _positions(order: list[Id], names: list[str]) -> list[int]:
    """Return the places of another ranking as positions within the candidates."""
    place, ranked = {name: i for i, name in enumerate(names)}, [*map(str, order)]
    for name, times in Counter(ranked).items():
        if name not in place or times > 1:
            wrong = "appears twice" if name in place else "is not among the candidates"
            raise Refusal(422, f"production: item id {name!r} {wrong}; expected ids of candidates, each at most once")
    return [place[name] for name in ranked]


def rank_list(snapshot: Snapshot, call: RankCall) -> RankedList:
    """Rank a list by the snapshot's ranker, or in the order by score where that ranker cannot rank the scores."""
    note, list_id = snapshot.note, secrets.token_urlsafe(12)
    if not call.ids:
        return RankedList(list_id, np.empty(0), [], [], [], snapshot.uncovered("there is nothing to rank"), [], 1.0)
    scores = np.array(call.scores, np.float64)
    bins, drifted = drift.tally(scores, snapshot.quantiles)
    places = max(call.stop, snapshot.outcome.k)
    try:
        served = _rank(snapshot.ranker, scores, call, places)
        if reason := drifted or _unknown_group(snapshot, call) or call.uncovered:
            note = snapshot.uncovered(reason)
        elif call.covers is not None and note.status == "valid":
            note = replace(note, covers=call.covers)
    except DataError as error:
        served = _rank(GPLRanker.deterministic(snapshot.outcome.k), scores, call, places)
        note = snapshot.uncovered(str(error), deterministic=True)
    orders = served.ranking.tolist(), served.propensity.tolist(), served.deterministic.tolist()
    ranked = RankedList(list_id, scores, *orders, note, bins, served.eligibility)
    rollout = snapshot.rollout
    return ranked if rollout is None or rollout.stage != "running" else _in_an_arm(ranked, rollout, call)


def response(call: RankCall, ranked: RankedList) -> RankResponse:
    """Return the places that a request asks for."""
    shown = slice(call.start, call.stop)
    placed = enumerate(zip(ranked.ranking[shown], ranked.propensity[shown], strict=True), call.start + 1)
    items = [RankedItem(call.ids[i], rank, call.scores[i], chance) for rank, (i, chance) in placed]
    return RankResponse(ranked.list_id, items, ranked.note)


def _unknown_group(snapshot: Snapshot, call: RankCall) -> str | None:
    """Return why a boosted ranker does not know a group of the request, or None."""
    for i, names in enumerate(call.groups or () if snapshot.groups else ()):
        for name in names or ():
            if name not in snapshot.groups:
                boosted = ", ".join(dict(snapshot.ranker.boost))
                return f"item {i} is in group {name!r}, which calibration never saw; this ranker boosts {boosted}"
    return None


def _in_an_arm(ranked: RankedList, rollout: Rollout, call: RankCall) -> RankedList:
    """Return the list of a rollout's treatment, or the order by score in its place, with the other arm's list."""
    treated = rollout.treated(ranked.list_id if call.session is None else call.session)
    arm, by_score = arm_name(rollout.step, treated), ranked.deterministic
    if treated:
        return replace(ranked, arm=arm, other_arm=by_score)
    note, certain = replace(ranked.note, order="deterministic"), [1.0] * len(by_score)
    return replace(ranked, ranking=by_score, propensity=certain, note=note, arm=arm, other_arm=ranked.ranking)


def _rank(ranker: GPLRanker, scores: FloatArray, call: RankCall, places: int) -> ServedList:
    """Call the ranker."""
    return ranker.rank_with_propensity(scores, call.query, call.session, places, call.ids, call.groups)
