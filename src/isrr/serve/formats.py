"""The formats of other rerank services, so that their clients work unchanged.

Those clients sort by the score they get back. It is 1 / rank, which falls strictly: sorting by it cannot undo the draw.
"""

from hashlib import blake2b
from typing import Any

from msgspec import UNSET

from isrr.serve.ranking import RankedList
from isrr.serve.schema import Candidate, Document, RankRequest, Refusal, RerankRequest, RerankResponse, RerankResult


def documents_of(request: RerankRequest) -> list[Document]:
    """Return the documents with what was sent beside them; those without an id are named by a digest of their text.

    The names decide between equal scores and stand in the log; repeated ones are numbered.
    """
    entries = request.documents if request.texts is None else request.texts
    if entries is None:
        raise Refusal(422, "expected 'documents' (Cohere's format) or 'texts' (TEI's)")
    documents, names = [Document(entry) if isinstance(entry, str) else entry for entry in entries], set[str]()
    beside: tuple[tuple[str, list[Any] | None], ...] = ("score", request.scores), ("group", request.groups)
    for field, values in beside:
        if values is None:
            continue
        if len(values) != len(documents):
            raise Refusal(
                422, f"there are {len(values)} {field}s for {len(documents)} documents; expected one for each"
            )
        for i, (document, value) in enumerate(zip(documents, values, strict=True)):
            if field == "score" and document.score is not UNSET:
                raise Refusal(422, f"documents[{i}] has a score, and so has 'scores'; expected one of the two")
            setattr(document, field, value)
    for i, document in enumerate(documents):
        if document.id is UNSET:
            name = blake2b(document.text.encode(), digest_size=8).hexdigest()
            document.id = f"{name}-{i}" if name in names else name
            names.add(name)
    return documents


def unscored_texts(documents: list[Document]) -> list[str]:
    """Return the texts of documents without scores; none where any document has one."""
    return [] if any(each.score is not UNSET for each in documents) else [each.text for each in documents]


def rank_request(request: RerankRequest, documents: list[Document]) -> RankRequest:
    """Return a request in the service's own format; all its documents are ranked unless it says otherwise."""
    items = list[Candidate]()
    for i, document in enumerate(documents):
        if document.score is UNSET or document.id is UNSET:
            wrong = f"this service ranks by scores, not by text, and documents[{i}] has none"
            raise Refusal(422, f"{wrong}; expected a score in each document, or 'scores' with one per document")
        items.append(Candidate(document.id, document.score, document.group))
    return RankRequest(request.query, items, request.session, request.top_n or max(len(items), 1))


def rerank_response(
    request: RerankRequest, documents: list[Document], ranked: RankedList
) -> RerankResponse | list[RerankResult]:
    """Return the list in the format of the request; TEI's has no room for the certificate."""
    line, items, results = ranked.line, ranked.request.items, list[RerankResult]()
    for rank, i in enumerate(line.ranking[: line.n_shown], 1):
        result = RerankResult(i, items[i].id, items[i].score, line.propensities[rank - 1])
        if request.texts is None:
            result.relevance_score = 1.0 / rank
            result.document = {"text": documents[i].text} if request.return_documents else UNSET
        else:
            result.score = 1.0 / rank
            result.text = request.texts[i] if request.return_text else UNSET
        results.append(result)
    if request.texts is not None:
        return results
    return RerankResponse(line.list_id, results, {"api_version": {"version": "2"}}, ranked.note)
