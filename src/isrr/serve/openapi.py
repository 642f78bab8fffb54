"""The OpenAPI document, made from the table of endpoints and the structs that requests are decoded with."""

from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

import msgspec

from isrr.serve.http import JSON, Endpoint
from isrr.serve.schema import Problem
from isrr.serve.settings import Settings

CODES = {
    400: "Not JSON, or not HTTP.",
    401: "The API key is missing or wrong.",
    408: "The body did not arrive in time.",
    413: "The body, the list or the batch is too long.",
    422: "JSON, but not a request that can be served.",
    503: "Too many requests at a time, or the log cannot be written; try again.",
}


def document(endpoints: Iterable[Endpoint], settings: Settings) -> bytes:
    """The document as JSON."""
    endpoints = list(endpoints)
    types = [Problem, *(kind for endpoint in endpoints for kind in (endpoint.takes, endpoint.gives) if kind)]
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    named = {str(kind): schema for kind, schema in zip(types, schemas, strict=True)}

    def content(kind: Any, media: str = JSON) -> dict[str, Any]:
        return {media: {"schema": named.get(str(kind), {})}}

    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        summary = (endpoint.handler.__doc__ or "").strip().partition("\n")[0]
        answers: dict[str, Any] = {"200": {"description": summary, "content": content(endpoint.gives, endpoint.kind)}}
        for code in endpoint.codes:
            gives = endpoint.gives if endpoint.open else Problem
            answers[str(code)] = {"description": CODES[code], "content": content(gives)}
        paths[endpoint.path] = {endpoint.method.lower(): {"summary": summary, "responses": answers}}
        if endpoint.takes is not None:
            body = content(endpoint.takes)
            body[JSON]["example"] = endpoint.example
            paths[endpoint.path]["post"]["requestBody"] = {"required": True, "content": body}
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "isrr",
            "version": version("isrr"),
            "description": "Send candidates with scores, get them in certified order. Other paths return 404, other "
            f"methods 405. Lists of up to {settings.max_items:,} candidates, batches of up to "
            f"{settings.max_queries:,} queries, bodies of up to {settings.max_body:,} bytes.",
        },
        "paths": paths,
        "components": {"schemas": components},
    }
    if settings.api_key is not None:
        found["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"key": []}]
    return msgspec.json.encode(found)
