"""The OpenAPI document, from the structs that the endpoints take and give."""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import msgspec

from isrr.serve.schema import Problem

if TYPE_CHECKING:
    from isrr.serve.app import Endpoint

JSON = "application/json"
CANDIDATES = [{"id": "a", "score": 2.1}, {"id": "b", "score": 1.9}, {"id": "c", "score": 0.3}]
ONE = {"query_id": "q7", "session": "u42", "k": 2, "items": CANDIDATES}
TEXTS = {"query": "q7", "session": "u42", "texts": ["a", "b", "c"], "scores": [2.1, 1.9, 0.3]}
DOCUMENTS = {"model": "isrr", "query": "q7", "session": "u42", "top_n": 2, "documents": CANDIDATES}
EXAMPLES = {
    "/rank": ONE, "/rank/batch": {"queries": [ONE]}, "/preview": {"queries": [ONE]}, "/rerank": TEXTS,
    "/v1/rerank": DOCUMENTS, "/v2/rerank": DOCUMENTS,
}  # fmt: skip


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
