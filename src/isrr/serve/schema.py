"""Requests and responses as structs. Decoding is strict about types."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

Id = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | str
Count = Annotated[int, Meta(ge=1, le=2**31)]
StatusName = Literal["valid", "revoked", "expired", "uncovered"]
Groups = str | list[str] | None
CANDIDATES = [{"id": "a", "score": 2.1}, {"id": "b", "score": 1.9}, {"id": "c", "score": 0.3}]
ONE = {"query_id": "q7", "session": "u42", "k": 2, "items": CANDIDATES}
TEXTS = {"query": "q7", "session": "u42", "texts": ["a", "b", "c"], "scores": [2.1, 1.9, 0.3]}
DOCUMENTS = {"model": "isrr", "query": "q7", "session": "u42", "top_n": 2, "documents": CANDIDATES}
EXAMPLES = {
    "/rank": ONE, "/rank/batch": {"queries": [ONE]}, "/preview": {"queries": [ONE]}, "/rerank": TEXTS,
    "/v1/rerank": DOCUMENTS, "/v2/rerank": DOCUMENTS,
}  # fmt: skip
RETRY = {"Retry-After": "1"}  # headers of a refusal that may pass


class Candidate(Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """One candidate: its id, the model's score, and the group or groups it belongs to."""

    id: Id
    score: float
    group: Groups = None


class RankRequest(Struct, forbid_unknown_fields=True, gc=False):
    """One query to rank.

    Without a session, or with an empty one, every request is a fresh draw, or the period's where orders rotate; with
    one, the order is a pure function of (certificate, query, session). `k` ends the list; `page` and `page_size` cut a
    page out of it. `seed` names another draw of the same session. `production` is the order of another ranking, best
    first; it is logged and does not change the list.
    """

    query_id: Id
    items: list[Candidate]
    session: Id | None = None
    k: Count | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    page: Count | None = None
    page_size: Count | None = None
    production: list[Id] | None = None


class BatchRequest(Struct, forbid_unknown_fields=True, gc=False):
    """Several queries to rank, each on its own."""

    queries: list[RankRequest]


FIELDS = [*RankRequest.__struct_fields__, *Candidate.__struct_fields__, *BatchRequest.__struct_fields__]


class RankedItem(Struct, gc=False):
    """A placed item; `propensity` is its chance at this position given the items above it."""

    id: Id
    rank: int
    score: float
    propensity: float


class CertificateNote(Struct, frozen=True, gc=False):
    """The certificate that produced a list, and whether its promise covers the list.

    `order` says how the list was made: "drawn", or "deterministic" where the certificate no longer stands. `covers`
    says what the promise is about where orders rotate.
    """

    id: str
    promise: str
    confidence: float
    status: StatusName
    order: Literal["drawn", "deterministic"]
    reason: str | UnsetType = UNSET
    covers: str | UnsetType = UNSET


class RankResponse(Struct, gc=False):
    """A ranked list with its certificate; clicks refer to its `list_id`."""

    list_id: str
    items: list[RankedItem]
    certificate: CertificateNote


class BatchResponse(Struct, gc=False):
    """One answer for each query, in the order they came."""

    results: list[RankResponse]


class Document(Struct, gc=False):
    """A document of another rerank service, which may carry its score."""

    text: str = ""
    id: Id | None = None
    score: float | None = None
    group: Groups = None


class RerankRequest(Struct, gc=False):
    """A request in the format of other rerank services: `documents` for Cohere's, `texts` for TEI's.

    Each document carries its score, or `scores` has one per document; where none has a score, the upstream is asked.
    Likewise for groups. A session may also be in the header `x-isrr-session`. Other fields are ignored.
    """

    query: str
    documents: list[Document | str] | None = None
    texts: list[str] | None = None
    scores: list[float] | None = None
    groups: list[Groups] | None = None
    session: Id | None = None
    top_n: Count | None = None
    return_text: bool = False
    return_documents: bool = False


class RerankResult(Struct, gc=False):
    """A document by its position in the request.

    `relevance_score` (Cohere's) or `score` (TEI's) is 1 / rank; `model_score` is the model's.
    """

    index: int
    id: Id
    model_score: float
    propensity: float
    relevance_score: float | UnsetType = UNSET
    score: float | UnsetType = UNSET
    text: str | UnsetType = UNSET
    document: dict[str, str] | UnsetType = UNSET


class RerankResponse(Struct, gc=False):
    """Cohere's response, with the certificate; `id` is the list's, which clicks refer to."""

    id: str
    results: list[RerankResult]
    meta: dict[str, dict[str, str]]
    certificate: CertificateNote


class Problem(Struct):
    """Why a request was not served, under the names that clients of several services look for."""

    error: str
    message: str
    detail: str


class Health(Struct):
    """Whether the process lives, or is ready to serve."""

    status: Literal["ok", "unlogged"]
    certificate: str | UnsetType = UNSET
    reload_error: str | UnsetType = UNSET
    log_error: str | UnsetType = UNSET


class Refusal(Exception):
    """A request that is understood and cannot be served; becomes an answer with this status and these headers."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers
