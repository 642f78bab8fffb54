"""What goes over the wire. Decoding is strict about types; the OpenAPI document is made from these same structs.

What does not fit is refused with a word on what would.
"""

import re
from difflib import get_close_matches
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.inspect import AnyType, Field, ListType, StructType, type_info

Id = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | str
Count = Annotated[int, Meta(ge=1, le=2**31)]
StatusName = Literal["valid", "revoked", "expired", "uncovered"]
Readiness = Literal["ok", "unlogged"]
Groups = str | list[str] | None
T = TypeVar("T")
_NO_JSON = re.compile(rb":\s*-?(NaN|Infinity)\b")
_UNKNOWN = re.compile(r"unknown field `(?P<field>.*?)`(?: - at `\$(?P<path>.*)`)?$")


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


class Refusal(Exception):
    """A request that is understood and cannot be served; becomes an answer with this status and these headers."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers


def decoded(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """A body as the struct that an endpoint takes."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise Refusal(422, f"{error}{_known_fields(str(error), decoder.type)}") from None
    except RecursionError:
        raise Refusal(400, "the body is nested too deeply") from None
    except ValueError as error:  # malformed JSON, or text that is not UTF-8
        if not body.strip():
            needed = " and ".join(field.name for field in _fields(decoder.type, "") if field.required)
            raise Refusal(400, f"the body is empty; expected a JSON object with {needed}; see /openapi.json") from None
        hint = "; JSON has no NaN or Infinity, though Python writes them" if _NO_JSON.search(body) else ""
        raise Refusal(400, f"the body cannot be read as JSON: {error}{hint}") from None


def _known_fields(message: str, kind: Any) -> str:
    """For a message about an unknown field, the end of it: the fields there are, and the one that was likely meant."""
    unknown = _UNKNOWN.search(message)
    if unknown is None:
        return ""
    names = [field.name for field in _fields(kind, unknown["path"] or "")]
    close = get_close_matches(unknown["field"], names, 1)
    slip = f"; did you mean {close[0]}?" if close else ""
    return f"; the fields are {', '.join(names)}{slip}" if names else ""


def _fields(kind: Any, path: str) -> tuple[Field, ...]:
    """The fields of the struct at a path of msgspec's, such as `.queries[0].items[0]`, within a body of some kind."""
    here = type_info(kind)
    for name in re.findall(r"\.(\w+)", path):
        there = [field.type for field in getattr(here, "fields", ()) if field.encode_name == name]
        here = there[0].item_type if there and isinstance(there[0], ListType) else AnyType()
    return here.fields if isinstance(here, StructType) else ()
