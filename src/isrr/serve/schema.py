"""Requests and responses as structs, and the OpenAPI document made from them. Decoding is strict about types."""

import re
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from isrr.errors import did_you_mean

if TYPE_CHECKING:
    from isrr.serve.app import Endpoint

Id = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | str
Count = Annotated[int, Meta(ge=1, le=2**31)]
StatusName = Literal["valid", "revoked", "expired", "uncovered"]
Readiness = Literal["ok", "unlogged"]
Groups = str | list[str] | None
T = TypeVar("T")
JSON = "application/json"
CANDIDATES = [{"id": "a", "score": 2.1}, {"id": "b", "score": 1.9}, {"id": "c", "score": 0.3}]
ONE = {"query_id": "q7", "session": "u42", "k": 2, "items": CANDIDATES}
TEXTS = {"query": "q7", "session": "u42", "texts": ["a", "b", "c"], "scores": [2.1, 1.9, 0.3]}
DOCUMENTS = {"model": "isrr", "query": "q7", "session": "u42", "top_n": 2, "documents": CANDIDATES}
EXAMPLES = {
    "/rank": ONE, "/rank/batch": {"queries": [ONE]}, "/preview": {"queries": [ONE]}, "/rerank": TEXTS,
    "/v1/rerank": DOCUMENTS, "/v2/rerank": DOCUMENTS,
}  # fmt: skip
RETRY = {"Retry-After": "1"}  # headers of a refusal that may pass
_NO_JSON = re.compile(rb":\s*-?(NaN|Infinity)\b")


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
    """A placed item; `propensity` is its chance at this place given the items above it."""

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
    id: Id | UnsetType = UNSET
    score: float | UnsetType = UNSET
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
    """Why a request was not served; clients of other services look for `message` or `detail`."""

    error: str
    message: str | UnsetType = UNSET
    detail: str | UnsetType = UNSET


class Health(Struct):
    """Whether the process lives, or is ready to serve."""

    status: Readiness
    certificate: str | UnsetType = UNSET
    reload_error: str | UnsetType = UNSET
    log_error: str | UnsetType = UNSET


class Refusal(Exception):
    """A request that is understood and cannot be served; becomes an answer with this status and these headers."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers


def decoded(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Decode a body; refuse what does not fit."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        field = re.search("unknown field `(.*?)`", str(error))
        hint = did_you_mean(field[1], FIELDS) if field else ""
        raise Refusal(422, f"{error}{hint or '; see /openapi.json'}") from None
    except RecursionError:
        raise Refusal(400, "the body is nested too deeply") from None
    except ValueError as error:  # malformed JSON, or text that is not UTF-8
        hint = "; JSON has no NaN or Infinity, though Python writes them" if _NO_JSON.search(body) else ""
        raise Refusal(400, f"the body cannot be read as JSON: {error}{hint}; see /openapi.json") from None


def openapi_document(endpoints: list["Endpoint"], with_key: bool) -> dict[str, Any]:
    """Return the OpenAPI document of endpoints; `with_key` where the service asks for an API key."""
    types = [Problem, *(kind for endpoint in endpoints for kind in (endpoint.takes, endpoint.gives) if kind)]
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(map(str, types), schemas, strict=True))

    def answer(summary: str, kind: Any, media: str = JSON) -> dict[str, Any]:
        return {"description": summary, "content": {media: {"schema": schema_of.get(str(kind), {})}}}

    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        summary = (endpoint.handler.__doc__ or "").partition("\n")[0]
        responses = {"200": answer(summary, endpoint.gives, endpoint.media)}
        if endpoint.path == "/ready":
            responses["503"] = answer("It is not, and this is why.", endpoint.gives)
        else:
            responses["default"] = answer("The request was refused, and this is why.", Problem)
        operation: dict[str, Any] = {"summary": summary, "responses": responses}
        if endpoint.takes is not None:
            body = {"schema": schema_of[str(endpoint.takes)], "example": EXAMPLES[endpoint.path]}
            operation["requestBody"] = {"required": True, "content": {JSON: body}}
        paths[endpoint.path] = {str(endpoint.method).lower(): operation}
    info = {"title": "isrr", "version": version("isrr"), "description": "Candidates in, certified order out."}
    api: dict[str, Any] = {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": components}}
    if with_key:
        api["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        api["security"] = [{"key": []}]
    return api
