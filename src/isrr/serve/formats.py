"""The formats of other rerank services, so that their clients work unchanged.

Those clients sort by the score they get back. It is 1 / rank, which falls strictly: sorting by it cannot undo the draw.
"""

from hashlib import blake2b

from msgspec import UNSET

from isrr.serve.ranking import RankCall, RankedList
from isrr.serve.schema import Candidate, Document, RankRequest, Refusal, RerankRequest, RerankResponse, RerankResult


def documents_of(request: RerankRequest, max_items: int) -> list[Document]:
    """Return the documents with what was sent beside them; those without an id are named by a digest of their text.

    The names decide between equal scores and stand in the log; repeated ones are numbered.
    """
    entries = request.documents if request.texts is None else request.texts
    if entries is None:
        raise Refusal(422, "expected 'documents' (Cohere's format) or 'texts' (TEI's)")
    if len(entries) > max_items:
        raise Refusal(413, f"there are {len(entries):,} documents; expected at most {max_items:,} per query")
    for what, values in (("scores", request.scores), ("groups", request.groups)):
        if values is not None and len(values) != len(entries):
            raise Refusal(422, f"there are {len(values)} {what} for {len(entries)} documents; expected one for each")
    documents, names = list[Document](), set[str]()
    for i, entry in enumerate(entries):
        document = Document(entry) if isinstance(entry, str) else entry
        if request.scores is not None:
            if document.score is not UNSET:
                raise Refusal(422, f"documents[{i}] has a score, and so has 'scores'; expected one of the two")
            document.score = request.scores[i]
        if request.groups is not None:
            document.group = request.groups[i]
        if document.id is UNSET:
            name = blake2b(document.text.encode(), digest_size=8).hexdigest()
            document.id = f"{name}-{i}" if name in names else name
            names.add(name)
        documents.append(document)
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
    request: RerankRequest, documents: list[Document], call: RankCall, ranked: RankedList
) -> RerankResponse | list[RerankResult]:
    """Return the list in the format of the request; TEI's has no place for the certificate."""
    results = []
    for place, i in enumerate(ranked.ranking[: call.stop]):
        result = RerankResult(i, call.ids[i], call.scores[i], ranked.propensity[place])
        if request.texts is None:
            result.relevance_score = 1.0 / (place + 1)
            result.document = {"text": documents[i].text} if request.return_documents else UNSET
        else:
            result.score = 1.0 / (place + 1)
            result.text = request.texts[i] if request.return_text else UNSET
        results.append(result)
    if request.texts is not None:
        return results
    return RerankResponse(ranked.list_id, results, {"api_version": {"version": "2"}}, ranked.note)
