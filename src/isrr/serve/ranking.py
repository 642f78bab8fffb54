"""One request, one list: the order, its propensities, and whether the promise covers it."""

import secrets
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
from isrr.serve.current import Snapshot
from isrr.serve.schema import CertificateNote, Groups, Id, RankRequest, Refusal


class Wanted(Struct, frozen=True, gc=False):
    """A list to be made.

    Attributes:
        ids: The candidates' ids, as they were given.
        names: The same as text; they decide between equal scores.
        scores: Their scores.
        query: The query.
        session: Determines the draw; None for a fresh one.
        start, stop: The places asked for, 0-based, half open.
        groups: The groups of each candidate, None for one without; None where none were given.
        frozen: Whether the caller pinned one draw for everybody.
    """

    ids: list[Id]
    names: list[str]
    scores: list[float]
    query: Id
    session: object
    start: int
    stop: int
    groups: list[list[str] | None] | None = None
    frozen: bool = False


class Made(Struct, frozen=True, gc=False):
    """A list as it is served.

    Attributes:
        list_id: Names it; nobody can guess it.
        scores: The candidates' scores.
        ranking, propensity: Positions within the candidates and their propensities, at least the promise's k places.
        deterministic: The same places of the order by score.
        note: The certificate behind it.
        bins: How many scores fall into each bin of the drift rule.
        eligibility: The best item's chance of first place.
        arm: The arm of a rollout it was served in, and `other_arm` what the other one would have shown.
    """

    list_id: str
    scores: FloatArray
    ranking: list[int]
    propensity: list[float]
    deterministic: list[int]
    note: CertificateNote
    bins: list[int]
    eligibility: float
    arm: str | None = None
    other_arm: list[int] | None = None


def wanted(request: RankRequest, k: int, max_items: int) -> Wanted:
    """What a request asks for.

    Args:
        request: As decoded.
        k: The certificate's own k, where the request names none.
        max_items: Longest list served.
    """
    items = request.items
    ids, scores, groups = [item.id for item in items], [item.score for item in items], [item.group for item in items]
    names = checked_names(ids, max_items)
    given = checked_session(request.query_id, request.session)
    session: object = given if request.seed is None else (given, request.seed)
    frozen = request.seed is not None and given is None
    start, stop = 0, min(request.k or k, len(ids))
    if request.page is not None or request.page_size is not None:
        size = request.page_size or k
        end = min(request.k or len(ids), len(ids))
        start = min(((request.page or 1) - 1) * size, end)
        stop = min(start + size, end)
    return Wanted(ids, names, scores, request.query_id, session, start, stop, grouped(groups), frozen)


def checked_names(ids: list[Id], max_items: int) -> list[str]:
    """Ids as text; refuses those that no log keeps, and lists that are too long or name an item twice (7 and "7")."""
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


def checked_session(query: Id, session: Id | None) -> Id | None:
    """The session; None for a fresh draw, also where it is empty. Refuses a query or session that no log keeps."""
    refuse_nul("query", [query])
    refuse_nul("session", [session])
    return None if session == "" else session


def refuse_nul(what: str, ids: Iterable[object]) -> None:
    """Refuse ids with NUL characters: arrays drop them at the end of a text, so two ids could become one."""
    for name in ids:
        if isinstance(name, str) and "\0" in name:
            raise Refusal(422, f"{what} {shown(name)} has a NUL character; expected an id without")


def grouped(groups: list[Groups]) -> list[list[str] | None] | None:
    """The groups of each candidate as a list, None where they are missing; None where no candidate has any."""
    if groups.count(None) == len(groups):
        return None
    lists = [[group] if isinstance(group, str) else group for group in groups]
    for names in lists:
        refuse_nul("group", names or ())
    return lists


def make(snapshot: Snapshot, wanted: Wanted) -> Made:
    """The list, by the snapshot's ranker; the deterministic order where that cannot rank the scores."""
    note, list_id = snapshot.note, secrets.token_urlsafe(12)
    if not wanted.ids:
        return Made(list_id, np.empty(0), [], [], [], snapshot.uncovered("there is nothing to rank"), [], 1.0)
    scores = np.array(wanted.scores, np.float64)
    bins, drifted = snapshot.drift.tally(scores)
    places = max(wanted.stop, snapshot.outcome.k)
    try:
        served = _rank(snapshot.ranker, scores, wanted, places)
    except DataError as error:
        served = _rank(snapshot.fallback, scores, wanted, places)
        note = snapshot.uncovered(str(error), deterministic=True)
    if note.status == "valid":
        if drifted is not None:
            note = snapshot.uncovered(drifted)
        elif wanted.frozen:
            note = snapshot.uncovered(
                "a seed without a session gives everybody the same draw; the promise is about random draws"
            )
    made = Made(
        list_id, scores, served.ranking.tolist(), served.propensity.tolist(), served.deterministic.tolist(), note, bins,
        served.eligibility,
    )  # fmt: skip
    rollout = snapshot.rollout
    return made if rollout is None or rollout.stage != "running" else _in_an_arm(made, rollout, wanted)


def _in_an_arm(made: Made, rollout: Rollout, wanted: Wanted) -> Made:
    """The list of a rollout's treatment, or the order by score in its place; the other arm's list beside it."""
    treated = rollout.treated(made.list_id if wanted.session is None else wanted.session)
    arm = arm_name(rollout.step, treated)
    if treated:
        return replace(made, arm=arm, other_arm=made.deterministic)
    note = replace(made.note, order="deterministic")
    certain = [1.0] * len(made.deterministic)
    return replace(made, ranking=made.deterministic, propensity=certain, note=note, arm=arm, other_arm=made.ranking)


def _rank(ranker: GPLRanker, scores: FloatArray, wanted: Wanted, places: int) -> ServedList:
    """The one place that calls the ranker."""
    return ranker.rank_with_propensity(scores, wanted.query, wanted.session, places, wanted.ids, wanted.groups)
