"""One path of the service as an ASGI app: API key, limits, errors as JSON, and its part of the OpenAPI document."""

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from isrr.serve.schema import Problem, Refusal
from isrr.serve.service import Service
from isrr.serve.settings import Settings

log = logging.getLogger("isrr.serve")
JSON = "application/json"
CODES = {
    400: "Not JSON, or not HTTP.",
    401: "The API key is missing or wrong.",
    408: "The body did not arrive in time.",
    413: "The body, the list or the batch is too long.",
    422: "JSON, but not a request that can be served.",
    503: "Too many requests at a time, or the log cannot be written; try again.",
}
DRAINED = 4  # times the largest body that is read before the connection is cut
HELD = 16  # times the largest body that unfinished bodies may take up together


class Limits:
    """API key, concurrency and sizes, shared by the endpoints of an app."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._key = None if settings.api_key is None else settings.api_key.encode()
        self.running = self._held = 0

    def check_key(self, scope: Scope) -> None:
        """Refuse a request without the API key, where there is one."""
        if self._key is None:
            return
        headers = scope["headers"]
        sent = [value for name, value in headers if name == b"x-api-key"]
        sent += [value[7:] for name, value in headers if name == b"authorization" and value[:7].lower() == b"bearer "]
        if not any(hmac.compare_digest(value.strip(), self._key) for value in sent):
            asked = {"WWW-Authenticate": "Bearer"}
            raise Refusal(401, "send the API key as 'Authorization: Bearer …' or 'X-API-Key: …'", **asked)

    def enter(self) -> None:
        """Take a slot, which is given back by counting `running` down."""
        most = self._settings.max_concurrency
        if self.running >= most:
            raise Refusal(503, f"{most} requests are being served already; try again", **{"Retry-After": "1"})
        self.running += 1

    async def body(self, receive: Receive) -> bytes:
        """Read the body, within the limits on its size, its time, and on what all unfinished bodies take up.

        One that is too long is read on for a while and thrown away: a client that is still sending would be cut off
        before it sees why.
        """
        chunks, size, more, most = list[bytes](), 0, True, self._settings.max_body
        try:
            async with asyncio.timeout(self._settings.body_timeout):
                while more and size <= DRAINED * most:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refusal(408, "the client went away before its body was complete")
                    chunk, more = message.get("body", b""), message.get("more_body", False)
                    size += len(chunk)
                    if chunk and size <= most:
                        chunks.append(chunk)
                        self._held += len(chunk)
                        if self._held > HELD * most:
                            retry = {"Retry-After": "1", "connection": "close"}
                            raise Refusal(503, "too many bodies are arriving at a time; try again", **retry)
        except TimeoutError:
            late = f"the body did not arrive within {self._settings.body_timeout:g} seconds"
            raise Refusal(408, late, connection="close") from None
        finally:
            self._held -= sum(map(len, chunks))
        if size > most:
            raise Refusal(413, f"the body is too long; expected at most {most:,} bytes", connection="close")
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)


@dataclass(frozen=True, eq=False)
class Endpoint:
    """One path: what reaches it, what answers, and what the OpenAPI document says of it."""

    path: str
    method: str | None  # HEAD is answered where GET is; None takes any
    handler: Callable[[bytes], Awaitable[Response]]  # of the body
    takes: Any = None  # type of the body, of which `example` can be sent
    gives: Any = None  # type of the answer
    example: Any = None
    kind: str = JSON  # media type of the answer
    open: bool = False  # without key and slot, which a load balancer and a browser do not have


@dataclass(frozen=True, eq=False)
class Answering:
    """An endpoint as an ASGI app."""

    endpoint: Endpoint
    limits: Limits
    service: Service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        started, endpoint, limits, entered = time.perf_counter(), self.endpoint, self.limits, False
        self.service.start()
        try:
            if not endpoint.open:
                limits.check_key(scope)
            if endpoint.method not in (None, "GET" if scope["method"] == "HEAD" else scope["method"]):
                raise Refusal(405, "Method Not Allowed; see /openapi.json", allow=str(endpoint.method))
            body = await limits.body(receive) if endpoint.method == "POST" else b""
            if not endpoint.open:
                limits.enter()
                entered = True
            response = await endpoint.handler(body)
        except Refusal as refusal:
            response = problem(refusal.status, str(refusal), **refusal.headers)
        except Exception as error:
            log.error("a request could not be served", exc_info=error, extra={"path": endpoint.path})
            response = problem(503, "the service could not answer this request; it is logged")
        try:
            await response(scope, receive, send)
        finally:
            limits.running -= entered
        self.service.metrics.count_request(endpoint.path, response.status_code, time.perf_counter() - started)


def problem(status: int, message: str, **headers: str) -> Response:
    """Return an answer that says why there is no other."""
    return Response(msgspec.json.encode(Problem(message)), status, headers, JSON)


def document(endpoints: Iterable[Endpoint], settings: Settings) -> bytes:
    """Return the OpenAPI document of these endpoints, from the structs that they take and give."""
    endpoints = list(endpoints)
    types = [Problem, *(kind for endpoint in endpoints for kind in (endpoint.takes, endpoint.gives) if kind)]
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    schema_of = {str(kind): schema for kind, schema in zip(types, schemas, strict=True)}

    def content(kind: Any, media: str = JSON) -> dict[str, Any]:
        return {media: {"schema": schema_of.get(str(kind), {})}}

    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        summary, codes = (endpoint.handler.__doc__ or "").partition("\n")[0], dict[int, Any]()
        if endpoint.path == "/ready":
            codes = {503: endpoint.gives}
        elif not endpoint.open:
            codes = dict.fromkeys(CODES if endpoint.takes else (401, 503), Problem)
        answers = {str(code): {"description": CODES[code], "content": content(kind)} for code, kind in codes.items()}
        answers["200"] = {"description": summary, "content": content(endpoint.gives, endpoint.kind)}
        paths[endpoint.path] = {str(endpoint.method).lower(): {"summary": summary, "responses": answers}}
        if endpoint.takes is not None:
            body = content(endpoint.takes)
            body[JSON]["example"] = endpoint.example
            paths[endpoint.path]["post"]["requestBody"] = {"required": True, "content": body}
    says = (
        "Send candidates with scores, get them in certified order. Other paths return 404, other methods 405. Lists of "
        f"up to {settings.max_items:,} candidates, batches of up to {settings.max_queries:,} queries, bodies of up to "
        f"{settings.max_body:,} bytes."
    )
    api: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "isrr", "version": version("isrr"), "description": says},
        "paths": paths,
        "components": {"schemas": components},
    }
    if settings.api_key is not None:
        api["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        api["security"] = [{"key": []}]
    return msgspec.json.encode(api)
