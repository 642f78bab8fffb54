"""One request, one list: the order, its propensities, and whether the promise covers it."""

import time
from collections import Counter
from typing import NamedTuple

import numpy as np

from isrr.data.queries import FloatArray
from isrr.errors import DataError
from isrr.ranker.gpl import GPLRanker
from isrr.ranker.serving import ServedList
from isrr.serve.current import Snapshot
from isrr.serve.schema import CertificateNote, Id, RankRequest


class Refusal(Exception):
    """A request that is understood and cannot be served; becomes a 4xx answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Wanted(NamedTuple):
    """A list to be made.

    Attributes:
        ids: The candidates' ids.
        scores: Their scores.
        query: The query.
        session: Names the draw; None for a fresh one.
        start, stop: The places asked for, 0-based, half open.
        frozen: Whether the caller pinned one draw for everybody.
    """

    ids: list[Id]
    scores: list[float]
    query: Id
    session: object
    start: int
    stop: int
    frozen: bool = False


class Made(NamedTuple):
    """A list as it is served.

    Attributes:
        ranking, propensity: Positions within the candidates and their propensities, at least the promise's k places.
        deterministic: The same places of the order by score.
        note: The certificate behind it.
        bins: How many scores fall into each bin of the drift rule.
        eligibility: The best item's chance of first place.
    """

    ranking: list[int]
    propensity: list[float]
    deterministic: list[int]
    note: CertificateNote
    bins: list[int]
    eligibility: float


def wanted(request: RankRequest, k: int, max_items: int) -> Wanted:
    """What a request asks for.

    Args:
        request: As decoded.
        k: The certificate's own k, where the request names none.
        max_items: Longest list served.
    """
    ids = [item.id for item in request.items]
    scores = [item.score for item in request.items]
    check_list(ids, max_items)
    session: object = request.session
    if request.seed is not None:
        session = (request.session, request.seed)
    frozen = request.seed is not None and request.session is None
    if request.page is None and request.page_size is None:
        return Wanted(ids, scores, request.query_id, session, 0, min(request.k or k, len(ids)), frozen)
    size = request.page_size or k
    end = min(request.k or len(ids), len(ids))
    start = min(((request.page or 1) - 1) * size, end)
    return Wanted(ids, scores, request.query_id, session, start, min(start + size, end), frozen)


def check_list(ids: list[Id], max_items: int) -> None:
    """Refuse lists that are too long or name an item twice."""
    if len(ids) > max_items:
        raise Refusal(413, f"there are {len(ids):,} candidates; this service takes up to {max_items:,} a query")
    if len(set(map(str, ids))) < len(ids):
        twice = next(name for name, times in Counter(map(str, ids)).items() if times > 1)
        raise Refusal(422, f"item id {twice!r} is given twice; ids must differ within a query")


def make(snapshot: Snapshot, wanted: Wanted) -> Made:
    """The list, by the snapshot's ranker; the deterministic order where that cannot rank the scores."""
    note = snapshot.note
    if not wanted.ids:
        return Made([], [], [], snapshot.uncovered("there is nothing to rank"), [], 1.0)
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
            note = snapshot.uncovered("a seed without a session is one draw for everybody; the promise is about draws")
    return Made(
        served.ranking.tolist(), served.propensity.tolist(), served.deterministic.tolist(), note, bins,
        served.eligibility,
    )  # fmt: skip


def log_line(snapshot: Snapshot, ask: Wanted, made: Made) -> dict[str, object]:
    """What the log keeps of a served list.

    `top` and `deterministic` hold the promise's own k places whatever page was asked for: what the monitor judges.
    """
    k, shown = snapshot.outcome.k, slice(ask.start, ask.stop)
    return {
        "time": time.time(),
        "certificate": made.note.id,
        "status": made.note.status,
        "order": made.note.order,
        "query_id": ask.query,
        "session": ask.session,
        "n_items": len(ask.ids),
        "first_rank": ask.start + 1,
        "items": [ask.ids[i] for i in made.ranking[shown]],
        "scores": [ask.scores[i] for i in made.ranking[shown]],
        "propensities": made.propensity[shown],
        "top": [ask.ids[i] for i in made.ranking[:k]],
        "deterministic": [ask.ids[i] for i in made.deterministic[:k]],
    }


def _rank(ranker: GPLRanker, scores: FloatArray, wanted: Wanted, places: int) -> ServedList:
    return ranker.rank_with_propensity(scores, wanted.query, wanted.session, places, wanted.ids)
