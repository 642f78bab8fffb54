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
from isrr.serve.schema import CertificateNote, Groups, Id, RankRequest, Refusal
from isrr.serve.settings import Settings

FROZEN = "a seed without a session gives everybody the same draw; the promise is about random draws"
PERIODS = {3_600.0: "hour", 86_400.0: "day", 604_800.0: "week"}


class RankCall(Struct, frozen=True, gc=False):
    """A list to be ranked."""

    ids: list[Id]  # as they were sent
    names: list[str]  # the same as text; they decide between equal scores
    scores: list[float]
    query: Id
    session: object  # determines the draw; None for a fresh one
    start: int  # the places asked for, 0-based, up to `stop`
    stop: int
    groups: list[list[str] | None] | None = None  # of each candidate; None where none were sent
    production: list[int] | None = None  # the order of another ranking, as positions within the candidates
    frozen: bool = False  # the caller pinned one draw for everybody
    period: float | None = None  # seconds in which everybody gets this draw, where orders rotate


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


def rank_call(request: RankRequest, k: int, settings: Settings) -> RankCall:
    """Return what a request asks for; `k` is the certificate's own, where the request names none."""
    items = request.items
    ids, scores, groups = [item.id for item in items], [item.score for item in items], [item.group for item in items]
    names = checked_names(ids, settings.max_items)
    session, period = session_and_period(request.query_id, request.session, settings)
    frozen = False
    if request.seed is not None:
        frozen = session is None or period is not None
        session, period = (None if frozen else session, request.seed), None
    start, stop = 0, min(request.k or k, len(ids))
    if request.page is not None or request.page_size is not None:
        size = request.page_size or k
        end = min(request.k or len(ids), len(ids))
        start = min(((request.page or 1) - 1) * size, end)
        stop = min(start + size, end)
    production = None if request.production is None else positions(request.production, names)
    return RankCall(
        ids, names, scores, request.query_id, session, start, stop, grouped(groups), production, frozen, period
    )


def session_and_period(query: Id, session: Id | None, settings: Settings) -> tuple[object, float | None]:
    """Return the session that determines the draw, and the length of its period where the service rotates orders.

    An empty session is none. A query or a session that no log keeps is refused.
    """
    refuse_nul("query", [query])
    refuse_nul("session", [session])
    if session not in (None, ""):
        return session, None
    if settings.rotate is None:
        return None, None
    return f"period {int(time.time() // settings.rotate)} of {query}", settings.rotate


def checked_names(ids: list[Id], max_items: int) -> list[str]:
    """Return ids as text; refuse what no log keeps, and lists that are too long or name an item twice (7 and "7")."""
    if len(ids) > max_items:
        raise Refusal(413, f"there are {len(ids):,} candidates; expected at most {max_items:,} per query")
    try:
        text = "".join(ids)  # type: ignore[arg-type] # the quickest way to see that all of them are text
        names: list[str] = ids  # type: ignore[assignment]
    except TypeError:
        names = [*map(str, ids)]
        text = "".join(names)
    if "\0" in text:
        refuse_nul("item id", names)
    if len(set(names)) < len(ids):
        twice = next(name for name, times in Counter(names).items() if times > 1)
        raise Refusal(422, f"item id {twice!r} appears twice; expected distinct ids within a query")
    return names


def refuse_nul(what: str, ids: Iterable[object]) -> None:
    """Refuse ids with NUL characters: arrays drop them at the end of a text, so two ids could become one."""
    for name in ids:
        if isinstance(name, str) and "\0" in name:
            raise Refusal(422, f"{what} {shown(name)} has a NUL character; expected an id without")


def positions(order: list[Id], names: list[str]) -> list[int]:
    """Return the places of another ranking as positions within the candidates."""
    place = {name: i for i, name in enumerate(names)}
    ranked = [*map(str, order)]
    for name, times in Counter(ranked).items():
        if name not in place or times > 1:
            wrong = "appears twice" if name in place else "is not among the candidates"
            raise Refusal(422, f"production: item id {name!r} {wrong}; expected ids of candidates, each at most once")
    return [place[name] for name in ranked]


def grouped(groups: list[Groups]) -> list[list[str] | None] | None:
    """Return the groups of each candidate as a list, None where they are missing, or None if no candidate has any."""
    if groups.count(None) == len(groups):
        return None
    lists = [[group] if isinstance(group, str) else group for group in groups]
    for names in lists:
        refuse_nul("group", names or ())
    return lists


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
    except DataError as error:
        served = _rank(snapshot.fallback, scores, call, places)
        note = snapshot.uncovered(str(error), deterministic=True)
    if note.status == "valid":
        if reason := drifted or _unknown_group(snapshot, call) or (FROZEN if call.frozen else None):
            note = snapshot.uncovered(reason)
        elif call.period is not None:
            period = PERIODS.get(call.period, f"period of {call.period:g} seconds")
            note = replace(note, covers=f"the mean over periods: one order per query and {period}, for everybody")
    orders = served.ranking.tolist(), served.propensity.tolist(), served.deterministic.tolist()
    ranked = RankedList(list_id, scores, *orders, note, bins, served.eligibility)
    rollout = snapshot.rollout
    return ranked if rollout is None or rollout.stage != "running" else _in_an_arm(ranked, rollout, call)


def _unknown_group(snapshot: Snapshot, call: RankCall) -> str | None:
    """Return why a boosted ranker does not know a group of the request, or None."""
    if not snapshot.groups or call.groups is None:
        return None
    for i, names in enumerate(call.groups):
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
