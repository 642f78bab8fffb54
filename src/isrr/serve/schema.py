"""What goes over the wire. Decoding is strict about types; the OpenAPI document is made from these same structs."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

Id = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | str
Count = Annotated[int, Meta(ge=1, le=2**31)]
StatusName = Literal["valid", "revoked", "expired", "uncovered"]
Readiness = Literal["ok", "starting", "unwatched", "unlogged"]
Groups = str | list[str] | None


class Candidate(Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """One candidate: its id, the model's score, and the group or groups it belongs to."""

    id: Id
    score: float
    group: Groups = None


class RankRequest(Struct, forbid_unknown_fields=True, gc=False):
    """One query to rank.

    Without a session every request is a fresh draw; with one, the order is a pure function of (certificate, query,
    session). `k` ends the list; `page` and `page_size` cut a page out of it. `seed` names another draw of the same
    session.
    """

    query_id: Id
    items: list[Candidate]
    session: Id | None = None
    k: Count | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    page: Count | None = None
    page_size: Count | None = None


class BatchRequest(Struct, forbid_unknown_fields=True, gc=False):
    """Several queries to rank, each on its own."""

    queries: list[RankRequest]


class RankedItem(Struct, gc=False):
    """A placed item; `propensity` is its chance at this place given the items above it."""

    id: Id
    rank: int
    score: float
    propensity: float


class CertificateNote(Struct, frozen=True, gc=False):
    """The certificate that produced a list, and whether its promise covers the list.

    `order` says how the list was made: "drawn", or "deterministic" where the certificate no longer stands.
    """

    id: str
    promise: str
    confidence: float
    status: StatusName
    order: Literal["drawn", "deterministic"]
    reason: str | UnsetType = UNSET


class RankResponse(Struct, gc=False):
    """A ranked list with its certificate; clicks refer to its `list_id`."""

    list_id: str
    items: list[RankedItem]
    certificate: CertificateNote


class BatchResponse(Struct, gc=False):
    """One answer for each query, in the order they came."""

    results: list[RankResponse]


class Document(Struct, gc=False):
    """A document that carries its score."""

    score: float
    id: Id | UnsetType = UNSET
    text: str | UnsetType = UNSET
    group: Groups = None


class CohereRequest(Struct, gc=False):
    """Cohere's rerank request. Each document carries its score, or `scores` has one for each of them; so for groups."""

    query: str
    documents: list[Document | str]
    model: str = ""
    top_n: Count | None = None
    scores: list[float] | None = None
    groups: list[Groups] | None = None
    session: Id | None = None


class CohereResult(Struct, gc=False):
    """A document by its place in the request; `relevance_score` falls with the served rank, `score` is the model's."""

    index: int
    relevance_score: float
    score: float
    propensity: float
    id: Id | UnsetType = UNSET


class CohereResponse(Struct, gc=False):
    """Cohere's rerank response, with the certificate beside it; `id` is the list's, which clicks refer to."""

    id: str
    results: list[CohereResult]
    meta: dict[str, dict[str, str]]
    certificate: CertificateNote


class TeiRequest(Struct, gc=False):
    """Text-embeddings-inference's rerank request, with `scores`, one for each text, and `groups` likewise."""

    query: str
    texts: list[str]
    scores: list[float] | None = None
    groups: list[Groups] | None = None
    session: Id | None = None
    return_text: bool = False
    raw_scores: bool = False
    truncate: bool = False


class TeiResult(Struct, gc=False):
    """A text by its place in the request; `score` falls with the served rank, `model_score` is the model's."""

    index: int
    score: float
    model_score: float
    propensity: float
    text: str | UnsetType = UNSET


class Problem(Struct):
    """Why a request was not served."""

    error: str


class Health(Struct):
    """Whether the process lives, or is ready to serve."""

    status: Readiness
    certificate: str | UnsetType = UNSET
    reload_error: str | UnsetType = UNSET
    log_error: str | UnsetType = UNSET
