"""The formats of other rerank services, so that their clients work unchanged.

Those clients sort by the score they get back. It is 1 / rank, which falls strictly: sorting by it cannot undo the draw.
"""

from hashlib import blake2b

from msgspec import UNSET

from isrr.serve.ranking import RankedList
from isrr.serve.schema import Candidate, Document, RankRequest, Refusal, RerankRequest, RerankResponse, RerankResult


def documents_of(request: RerankRequest) -> list[Document]:
    """Return the documents of a request, in either format."""
    entries = request.documents if request.texts is None else request.texts
    if entries is None:
        raise Refusal(422, "expected 'documents' (Cohere's format) or 'texts' (TEI's)")
    return [Document(entry) if isinstance(entry, str) else entry for entry in entries]


def is_unscored(request: RerankRequest, documents: list[Document]) -> bool:
    """Return whether there are documents, and no score for any of them."""
    return bool(documents) and request.scores is None and all(each.score is None for each in documents)


def rank_request(request: RerankRequest, documents: list[Document]) -> RankRequest:
    """Return a request in the service's own format; all its documents are ranked unless it says otherwise.

    Documents without an id are named by a digest of their text. The names decide between equal scores and stand in the
    log; repeated ones are numbered.
    """
    scores, groups, items, digests = request.scores, request.groups, list[Candidate](), set[str]()
    for what, values in ("scores", scores), ("groups", groups):
        if values is not None and len(values) != len(documents):
            wrong = f"there are {len(values)} {what} for {len(documents)} documents"
            raise Refusal(422, f"{wrong}; expected one for each")
    for i, document in enumerate(documents):
        score, group = document.score, document.group
        if scores is not None:
            if score is not None:
                raise Refusal(422, f"documents[{i}] has a score, and so has 'scores'; expected one of the two")
            score = scores[i]
        if score is None:
            wrong = f"this service ranks by scores, not by text, and documents[{i}] has none"
            raise Refusal(422, f"{wrong}; expected a score in each document, or 'scores' with one per document")
        name = document.id
        if name is None:
            digest = blake2b(document.text.encode(), digest_size=8).hexdigest()
            name = f"{digest}-{i}" if digest in digests else digest
            digests.add(digest)
        items.append(Candidate(name, score, group if groups is None else groups[i]))
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
