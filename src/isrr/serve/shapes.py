"""The request and response shapes of other rerank services, so that their clients work unchanged.

Those clients sort by the score they get back. Served ranks are turned into 1 / rank, which falls strictly: sorting by
it cannot undo the draw. The model's score is in another field.
"""

from hashlib import blake2b
from typing import TypeVar

import msgspec

from isrr.serve.ranking import RankCall, RankedList, checked_names, grouped, session_and_period
from isrr.serve.schema import CohereRequest, CohereResult, Document, Groups, Id, Refusal, TeiRequest, TeiResult
from isrr.serve.settings import Settings

NO_SCORES = (
    "this service ranks by scores, not by text; expected a score in each document, or 'scores' with one per document"
)
T = TypeVar("T")
DOCUMENT = msgspec.json.Decoder(Document)


def from_cohere(request: CohereRequest, settings: Settings) -> tuple[list[Document], RankCall]:
    """The documents with their scores, and the list to be made of them; those without an id are named by their text."""
    n = len(request.documents)
    given = _one_each(request.scores, n, "scores")
    own = next((i for i, entry in enumerate(request.documents) if isinstance(entry, Document)), None)
    if given is not None and own is not None:
        raise Refusal(422, f"documents[{own}] has a score, and so has 'scores'; expected one of the two")
    documents = [_document(entry, given[i] if given else None) for i, entry in enumerate(request.documents)]
    unnamed = iter(_names([doc.text or "" for doc in documents if doc.id is msgspec.UNSET]))
    ids: list[Id] = [next(unnamed) if doc.id is msgspec.UNSET else doc.id for doc in documents]
    groups: list[Groups] = _one_each(request.groups, n, "groups") or [doc.group for doc in documents]
    stop = min(request.top_n or n, n)
    scores, names = [doc.score for doc in documents], checked_names(ids, settings.max_items)
    session, period = session_and_period(request.query, request.session, settings)
    return documents, RankCall(ids, names, scores, request.query, session, 0, stop, grouped(groups), period=period)


def to_cohere(documents: list[Document], call: RankCall, ranked: RankedList) -> list[CohereResult]:
    """Results in served order."""
    return [
        CohereResult(i, 1.0 / (place + 1), call.scores[i], ranked.propensity[place], documents[i].id)
        for place, i in enumerate(ranked.ranking[: call.stop])
    ]


def from_tei(request: TeiRequest, settings: Settings) -> RankCall:
    """The list to be made; the texts name themselves."""
    n = len(request.texts)
    scores = _one_each(request.scores, n, "scores")
    if scores is None and n:
        raise Refusal(422, NO_SCORES)
    ids: list[Id] = [*_names(request.texts)]
    groups = grouped(_one_each(request.groups, n, "groups") or [None] * n)
    session, period = session_and_period(request.query, request.session, settings)
    names = checked_names(ids, settings.max_items)
    return RankCall(ids, names, scores or [], request.query, session, 0, n, groups, period=period)


def to_tei(request: TeiRequest, call: RankCall, ranked: RankedList) -> list[TeiResult]:
    """Results in served order."""
    return [
        TeiResult(
            i, 1.0 / (place + 1), call.scores[i], ranked.propensity[place],
            request.texts[i] if request.return_text else msgspec.UNSET,
        )
        for place, i in enumerate(ranked.ranking[: call.stop])
    ]  # fmt: skip


def _names(texts: list[str]) -> list[str]:
    """A short name for each text: it decides between equal scores and stands in the log. Repeated ones are numbered."""
    names = [blake2b(text.encode(), digest_size=8).hexdigest() for text in texts]
    if len(set(names)) == len(names):
        return names
    first = {name: i for i, name in reversed([*enumerate(names)])}
    return [name if first[name] == i else f"{name}-{i}" for i, name in enumerate(names)]


def _one_each(given: list[T] | None, n: int, what: str) -> list[T] | None:
    if given is not None and len(given) != n:
        raise Refusal(422, f"there are {len(given)} {what} for {n} documents; expected one for each")
    return given


def _document(entry: Document | str, score: float | None) -> Document:
    """A document with its score: an object, JSON text of one, or plain text with the score beside it."""
    if isinstance(entry, Document):
        return entry
    if score is not None:
        return Document(score, text=entry)
    try:
        return DOCUMENT.decode(entry)
    except (ValueError, RecursionError):
        raise Refusal(422, NO_SCORES) from None
