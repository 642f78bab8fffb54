"""The OpenAPI document, made from the structs that requests are decoded with."""

from importlib.metadata import version
from typing import Any

import msgspec

from isrr.serve.guard import OPEN
from isrr.serve.schema import (
    BatchRequest,
    BatchResponse,
    CohereRequest,
    CohereResponse,
    Health,
    Problem,
    RankRequest,
    RankResponse,
    TeiRequest,
    TeiResult,
)
from isrr.serve.settings import Settings

CANDIDATES = [{"id": "a", "score": 2.1}, {"id": "b", "score": 1.9}, {"id": "c", "score": 0.3}]
RANK = {"query_id": "q7", "session": "u42", "k": 2, "items": CANDIDATES}
POSTS: dict[str, tuple[str, Any, Any, dict[str, Any]]] = {
    "/rank": ("Rank one query.", RankRequest, RankResponse, RANK),
    "/rank/batch": ("Rank several queries.", BatchRequest, BatchResponse, {"queries": [RANK]}),
    "/v2/rerank": (
        "Rank documents, in Cohere's shape.", CohereRequest, CohereResponse,
        {"model": "isrr", "query": "q7", "session": "u42", "top_n": 2, "documents": CANDIDATES},
    ),
    "/rerank": (
        "Rank texts, in text-embeddings-inference's shape.", TeiRequest, list[TeiResult],
        {"query": "q7", "session": "u42", "texts": ["a", "b", "c"], "scores": [2.1, 1.9, 0.3]},
    ),
}  # fmt: skip
GETS: dict[str, tuple[str, str]] = {
    "/info": ("The certificate in use.", "application/json"),
    "/metrics": ("Metrics for Prometheus.", "text/plain"),
    "/openapi.json": ("This document.", "application/json"),
    "/": ("A page to try it.", "text/html"),
}
REFUSALS = {
    400: "Not JSON, or not HTTP.",
    401: "The API key is missing or wrong.",
    408: "The body did not arrive in time.",
    413: "The body, the list or the batch is too long.",
    422: "JSON, but not a request that can be served.",
    503: "Too many requests at a time, or the log cannot be written; try again.",
}


def document(settings: Settings) -> dict[str, Any]:
    """The document, as JSON has it."""
    types = [*(kind for _, request, response, _ in POSTS.values() for kind in (request, response)), Problem, Health]
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    named = dict(zip((str(kind) for kind in types), schemas, strict=True))
    refused = {str(code): _answer(why, named[str(Problem)]) for code, why in REFUSALS.items()}
    paths: dict[str, Any] = {}
    for path, (what, request, response, example) in POSTS.items():
        body = {"application/json": {"schema": named[str(request)], "example": example}}
        paths[path] = {
            "post": {
                "summary": what,
                "requestBody": {"required": True, "content": body},
                "responses": {"200": _answer("The order.", named[str(response)]), **refused},
            }
        }
    for path, (what, content) in GETS.items():
        answer = {"description": what, "content": {content: {"schema": {}}}}
        kept = {} if path in OPEN else {code: refused[code] for code in ("401", "503")}
        paths[path] = {"get": {"summary": what, "responses": {"200": answer, **kept}}}
    for path, what in (("/health", "Whether the process lives."), ("/ready", "Whether it is ready to serve.")):
        answers = {code: _answer(what, named[str(Health)]) for code in ("200", "503")}
        paths[path] = {"get": {"summary": what, "responses": answers}}
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "isrr",
            "version": version("isrr"),
            "description": "Candidates with scores in, an order with a certificate behind it out. Other paths are "
            f"answered 404, other methods 405. Lists of up to {settings.max_items:,} candidates, batches of up to "
            f"{settings.max_queries:,} queries, bodies of up to {settings.max_body:,} bytes.",
        },
        "paths": paths,
        "components": {"schemas": components},
    }
    if settings.api_key is not None:
        found["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"key": []}]
    return found


def _answer(what: str, schema: Any) -> dict[str, Any]:
    return {"description": what, "content": {"application/json": {"schema": schema}}}
