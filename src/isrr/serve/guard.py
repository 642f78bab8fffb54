"""What stands before every request: the key, the limits, and the answer when something goes wrong after all."""

import asyncio
import hmac
import logging
import time
from collections.abc import MutableMapping
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from isrr.serve.metrics import ServiceMetrics
from isrr.serve.ranking import Refusal
from isrr.serve.schema import Problem
from isrr.serve.settings import Settings

log = logging.getLogger("isrr.serve")
OPEN = ("/health", "/ready", "/", "/openapi.json")  # a load balancer and a browser carry no key
JSON = "application/json"
DRAINED = 4  # times the largest body that is read before the connection is cut


def problem(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    """An answer that says why there is no other."""
    return Response(msgspec.json.encode(Problem(message)), status, headers, JSON)


class Guard:
    """Wraps the app: counts requests, asks for the key, and lets in no more than the worker should take at a time."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: ServiceMetrics, routes: frozenset[str]) -> None:
        self._app, self._metrics, self._routes = app, metrics, routes
        self._key = None if settings.api_key is None else settings.api_key.encode()
        self._most, self._running = settings.max_concurrency, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, code = time.perf_counter(), 0

        async def noted(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = message["status"]
            await send(message)

        path = scope["path"]
        refused = self._refusal(path, scope)
        self._running += 1
        try:
            await (refused or self._app)(scope, receive, noted)
        except Exception:
            log.exception("a request could not be served", extra={"path": path})  # and was answered 503
        finally:
            self._running -= 1
            route = path if path in self._routes else "other"
            self._metrics.count_request(route, code, time.perf_counter() - started)

    def _refusal(self, path: str, scope: MutableMapping[str, Any]) -> Response | None:
        if path in OPEN:
            return None
        if self._running >= self._most:
            return problem(503, f"{self._most} requests are being served already; try again", {"Retry-After": "1"})
        if self._key is not None and not self._let_in(scope["headers"]):
            headers = {"WWW-Authenticate": "Bearer"}
            return problem(401, "send the API key as 'Authorization: Bearer …' or 'X-API-Key: …'", headers)
        return None

    def _let_in(self, headers: list[tuple[bytes, bytes]]) -> bool:
        assert self._key is not None
        sent = [value for name, value in headers if name == b"x-api-key"]
        sent += [value[7:] for name, value in headers if name == b"authorization" and value[:7].lower() == b"bearer "]
        return any(hmac.compare_digest(value.strip(), self._key) for value in sent)


async def read_body(request: Request, settings: Settings) -> bytes:
    """The body, within the limits on its size and on the time it may take.

    One that is too long is read on for a while and thrown away: a client that is still sending would be cut off before
    it sees why.
    """
    chunks, size, more = [], 0, True
    try:
        async with asyncio.timeout(settings.body_timeout):
            while more and size <= DRAINED * settings.max_body:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                chunk, more = message.get("body", b""), message.get("more_body", False)
                size += len(chunk)
                if size <= settings.max_body:
                    chunks.append(chunk)
    except TimeoutError:
        raise Refusal(408, f"the body did not arrive within {settings.body_timeout:g} seconds") from None
    if size > settings.max_body:
        raise Refusal(413, f"the body has more than the {settings.max_body:,} bytes this service takes")
    return b"".join(chunks)
