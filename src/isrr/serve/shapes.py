"""The request and response shapes of other rerank services, so that their clients work unchanged.

Those clients sort by the score they get back. Served ranks are turned into 1 / rank, which falls strictly: sorting by
it cannot undo the draw. The model's own score stands beside it.
"""

import msgspec

from isrr.serve.ranking import Made, Refusal, Wanted, check_list
from isrr.serve.schema import CohereRequest, CohereResult, Document, Id, TeiRequest, TeiResult

NO_SCORES = "this service orders by scores and reads no text: give each document its score, or 'scores', one for each"
DOCUMENT = msgspec.json.Decoder(Document)


def from_cohere(request: CohereRequest, max_items: int) -> tuple[list[Document], Wanted]:
    """The documents with their scores, and the list to be made of them.

    Equal scores are decided by the documents' ids, by their texts where they have none.
    """
    n = len(request.documents)
    given = _checked(request.scores, n)
    own = next((i for i, entry in enumerate(request.documents) if isinstance(entry, Document)), None)
    if given is not None and own is not None:
        raise Refusal(422, f"documents[{own}] has a score of its own beside the one in 'scores'; send one of the two")
    documents = [_document(entry, given[i] if given else None) for i, entry in enumerate(request.documents)]
    ids = [doc.id if doc.id is not msgspec.UNSET else f"{doc.text or ''}#{i}" for i, doc in enumerate(documents)]
    check_list(ids, max_items)
    stop = min(request.top_n or n, n)
    return documents, Wanted(ids, [doc.score for doc in documents], request.query, request.session, 0, stop)


def to_cohere(documents: list[Document], ask: Wanted, made: Made) -> list[CohereResult]:
    """Results in served order."""
    return [
        CohereResult(i, 1.0 / (place + 1), ask.scores[i], made.propensity[place], documents[i].id)
        for place, i in enumerate(made.ranking[: ask.stop])
    ]


def from_tei(request: TeiRequest, max_items: int) -> Wanted:
    """The list to be made; equal scores are decided by the texts."""
    n = len(request.texts)
    scores = _checked(request.scores, n)
    if scores is None and n:
        raise Refusal(422, NO_SCORES)
    ids: list[Id] = [f"{text}#{i}" for i, text in enumerate(request.texts)]
    check_list(ids, max_items)
    return Wanted(ids, scores or [], request.query, request.session, 0, n)


def to_tei(request: TeiRequest, ask: Wanted, made: Made) -> list[TeiResult]:
    """Results in served order."""
    return [
        TeiResult(
            i, 1.0 / (place + 1), ask.scores[i], made.propensity[place],
            request.texts[i] if request.return_text else msgspec.UNSET,
        )
        for place, i in enumerate(made.ranking[: ask.stop])
    ]  # fmt: skip


def _checked(scores: list[float] | None, n: int) -> list[float] | None:
    if scores is not None and len(scores) != n:
        raise Refusal(422, f"there are {len(scores)} scores for {n} documents; one each is needed")
    return scores


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
