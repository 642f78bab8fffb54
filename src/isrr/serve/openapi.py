"""The OpenAPI document, from the structs that the endpoints take and give."""

from collections.abc import Iterable
from http import HTTPStatus
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import msgspec

from isrr.serve.schema import Problem, RerankRequest

if TYPE_CHECKING:
    from isrr.serve.app import Endpoint

JSON = "application/json"
CODES = (400, 401, 408, 413, 422, 503)
UPSTREAM_CODES = (502, 504)
CANDIDATES = [{"id": "a", "score": 2.1}, {"id": "b", "score": 1.9}, {"id": "c", "score": 0.3}]
ONE = {"query_id": "q7", "session": "u42", "k": 2, "items": CANDIDATES}
TEXTS = {"query": "q7", "session": "u42", "texts": ["a", "b", "c"], "scores": [2.1, 1.9, 0.3]}
DOCUMENTS = {"model": "isrr", "query": "q7", "session": "u42", "top_n": 2, "documents": CANDIDATES}
EXAMPLES = {
    "/rank": ONE, "/rank/batch": {"queries": [ONE]}, "/preview": {"queries": [ONE]}, "/rerank": TEXTS,
    "/v1/rerank": DOCUMENTS, "/v2/rerank": DOCUMENTS,
}  # fmt: skip


def openapi_document(endpoints: Iterable["Endpoint"], with_key: bool) -> dict[str, Any]:
    """Return the OpenAPI document of endpoints; `with_key` where the service asks for an API key."""
    endpoints = list(endpoints)
    types = [Problem, *(kind for endpoint in endpoints for kind in (endpoint.takes, endpoint.gives) if kind)]
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(map(str, types), schemas, strict=True))

    def content(kind: Any, media: str = JSON) -> dict[str, Any]:
        return {media: {"schema": schema_of.get(str(kind), {})}}

    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        summary, codes = (endpoint.handler.__doc__ or "").partition("\n")[0], dict[int, Any]()
        if endpoint.path == "/ready":
            codes = {503: endpoint.gives}
        elif not endpoint.open:
            codes = dict.fromkeys(CODES if endpoint.takes else (401, 503), Problem)
        if endpoint.takes is RerankRequest:
            codes |= dict.fromkeys(UPSTREAM_CODES, Problem)
        answers = {
            str(code): {"description": HTTPStatus(code).phrase, "content": content(kind)}
            for code, kind in codes.items()
        }
        answers["200"] = {"description": summary, "content": content(endpoint.gives, endpoint.media)}
        operation: dict[str, Any] = {"summary": summary, "responses": answers}
        if endpoint.takes is not None:
            example = {JSON: content(endpoint.takes)[JSON] | {"example": EXAMPLES[endpoint.path]}}
            operation["requestBody"] = {"required": True, "content": example}
        paths[endpoint.path] = {str(endpoint.method).lower(): operation}
    api: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "isrr", "version": version("isrr"), "description": "Candidates in, certified order out."},
        "paths": paths,
        "components": {"schemas": components},
    }
    if with_key:
        api["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        api["security"] = [{"key": []}]
    return api
