"""HTTP without a framework: which endpoint answers, who is let in, how much at a time, and what is said otherwise.

The OpenAPI document is made from the table of endpoints and the structs that requests are decoded with.
"""

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from inspect import iscoroutinefunction
from typing import Any, Literal

import msgspec

from isrr.serve.metrics import ServiceMetrics
from isrr.serve.schema import Problem, Refusal
from isrr.serve.served_log import Served
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
LATE = "the body did not arrive within {:g} seconds"
DRAINED = 4  # times the largest body that is read before the connection is cut
Headers = list[tuple[bytes, bytes]]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What a request is answered with; `lists` are in it, and must be kept before it leaves."""

    body: bytes
    status: int = 200
    kind: str = JSON
    headers: dict[str, str] = {}
    lists: Sequence[Served] = ()

    def head(self) -> Headers:
        """Names and values of its headers."""
        found = [(b"content-type", self.kind.encode()), (b"content-length", b"%d" % len(self.body))]
        found += [(name.encode(), value.encode()) for name, value in self.headers.items()]
        return found


@dataclass(frozen=True)
class Endpoint:
    """One path: who answers it, and what the OpenAPI document says about it.

    Attributes:
        path, method: What it is reached by; HEAD is answered where GET is.
        handler: Takes the body. A coroutine function gives other requests their turn before it returns the answer.
        takes, gives: The types of the body and of the answer; None where the document says nothing about them.
        example: A body that can be sent.
        kind: Media type of the answer.
        open: Whether it needs no key; a load balancer and a browser carry none.
        codes: What else it answers with.
    """

    path: str
    method: Literal["GET", "POST"]
    handler: Callable[[bytes], Answer | Awaitable[Answer]]
    takes: Any = None
    gives: Any = None
    example: Any = None
    kind: str = JSON
    open: bool = False
    codes: tuple[int, ...] = (401, 503)


def problem(status: int, message: str, **headers: str) -> Answer:
    """An answer that says why there is no other."""
    return Answer(msgspec.json.encode(Problem(message)), status, JSON, headers)


def unserved(error: Exception, **where: str) -> Answer:
    """What is answered where something was raised; what nobody foresaw is logged."""
    if isinstance(error, Refusal):
        return problem(error.status, str(error), **error.headers)
    log.error("a request could not be served", exc_info=error, extra=where)
    return problem(503, "the service could not answer this request; it is logged")


class App:
    """The ASGI application over a table of endpoints.

    Requests to open paths cost next to nothing and are always let in. Of the others, no more than `max_concurrency` are
    served at a time.

    A request that is there as a whole is better served `soon`, without a task of its own. Answers to such requests
    leave at the end of the event loop's turn, so that all of their lists are kept together.
    """

    def __init__(
        self,
        endpoints: Iterable[Endpoint],
        settings: Settings,
        metrics: ServiceMetrics,
        lifespan: Callable[[], Any],
        keep: Callable[[Sequence[Served]], None],
    ) -> None:
        self.endpoints = {endpoint.path: endpoint for endpoint in endpoints}
        self._settings, self._metrics, self._lifespan, self._keep = settings, metrics, lifespan, keep
        self._key = None if settings.api_key is None else settings.api_key.encode()
        self._running = 0
        posted = [endpoint for endpoint in self.endpoints.values() if endpoint.method == "POST"]
        self._prompt = {each.path.encode(): each for each in posted if not iscoroutinefunction(each.handler)}
        self._turn: list[tuple[float, Endpoint, Headers, bytes, Callable[[Answer], None]]] = []

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            scope.get("state", {})["soon"] = self.soon
            await self._live(receive, send)
            return
        started, endpoint = time.perf_counter(), self.endpoints.get(scope["path"])
        limited = endpoint is None or not endpoint.open
        refusal = self._refusal(scope["headers"]) if limited else None
        counted = limited and refusal is None
        self._running += counted
        try:
            answer = refusal or await self._answer(endpoint, scope["method"], receive)
            await send({"type": "http.response.start", "status": answer.status, "headers": answer.head()})
            await send({"type": "http.response.body", "body": answer.body})
        finally:
            self._running -= counted
        route = "other" if endpoint is None else endpoint.path
        self._metrics.count_request(route, answer.status, time.perf_counter() - started)

    def soon(self, path: bytes, headers: Headers, body: bytes, send: Callable[[Answer], None]) -> bool:
        """Answer a POST at the end of this turn of the event loop; False where that needs a task."""
        endpoint = self._prompt.get(path)
        if endpoint is None or len(body) > self._settings.max_body:
            return False
        if not self._turn:
            asyncio.get_running_loop().call_soon(self._end_turn)
        self._turn.append((time.perf_counter(), endpoint, headers, body, send))
        return True

    def _end_turn(self) -> None:
        turn, self._turn = self._turn, []
        answers = self._kept([self._at_once(endpoint, headers, body) for _, endpoint, headers, body, _ in turn])
        for answer, (started, endpoint, _, _, send) in zip(answers, turn, strict=True):
            send(answer)
            self._metrics.count_request(endpoint.path, answer.status, time.perf_counter() - started)

    def _at_once(self, endpoint: Endpoint, headers: Headers, body: bytes) -> Answer:
        refusal = self._refusal(headers)
        if refusal is not None:
            return refusal
        try:
            answer = endpoint.handler(body)
            assert isinstance(answer, Answer)
            return answer
        except Exception as error:
            return unserved(error, path=endpoint.path)

    def _kept(self, answers: list[Answer]) -> list[Answer]:
        """These answers, their lists kept; where that fails, others in place of those that have lists."""
        try:
            self._keep([each for answer in answers for each in answer.lists])
        except Exception as error:
            failed = unserved(error)
            return [failed if answer.lists else answer for answer in answers]
        return answers

    async def _answer(self, endpoint: Endpoint | None, method: str, receive: Receive) -> Answer:
        if endpoint is None:
            return problem(404, "Not Found; see /openapi.json")
        if method != endpoint.method and (method, endpoint.method) != ("HEAD", "GET"):
            return problem(405, "Method Not Allowed; see /openapi.json", allow=endpoint.method)
        try:
            found = endpoint.handler(await self._body(receive) if method == "POST" else b"")
            return self._kept([found if isinstance(found, Answer) else await found])[0]
        except Exception as error:
            return unserved(error, path=endpoint.path)

    def _refusal(self, headers: Headers) -> Answer | None:
        if self._key is not None and not self._let_in(headers):
            asked = {"WWW-Authenticate": "Bearer"}
            return problem(401, "send the API key as 'Authorization: Bearer …' or 'X-API-Key: …'", **asked)
        most = self._settings.max_concurrency
        if self._running >= most:
            return problem(503, f"{most} requests are being served already; try again", **{"Retry-After": "1"})
        return None

    def _let_in(self, headers: Headers) -> bool:
        assert self._key is not None
        sent = [value for name, value in headers if name == b"x-api-key"]
        sent += [value[7:] for name, value in headers if name == b"authorization" and value[:7].lower() == b"bearer "]
        return any(hmac.compare_digest(value.strip(), self._key) for value in sent)

    async def _body(self, receive: Receive) -> bytes:
        """The body, within the limits on its size and on the time it may take.

        One that is too long is read on for a while and thrown away: a client that is still sending would be cut off
        before it sees why.
        """
        chunks, size, more, most = [], 0, True, self._settings.max_body
        task = asyncio.current_task()
        assert task is not None
        end = task.get_loop().call_later(self._settings.body_timeout, task.cancel, LATE)  # a third of asyncio.timeout
        try:
            while more and size <= DRAINED * most:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refusal(408, "the client went away before its body was complete")
                chunk, more = message.get("body", b""), message.get("more_body", False)
                size += len(chunk)
                if size <= most:
                    chunks.append(chunk)
        except asyncio.CancelledError as stopped:
            if stopped.args != (LATE,):
                raise
            task.uncancel()
            raise Refusal(408, LATE.format(self._settings.body_timeout), connection="close") from None
        finally:
            end.cancel()
        if size > most:
            raise Refusal(413, f"the body is too long; expected at most {most:,} bytes", connection="close")
        return b"".join(chunks)

    async def _live(self, receive: Receive, send: Send) -> None:
        """Start when the server says so, and end when it does."""
        await receive()
        try:
            async with self._lifespan():
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except Exception as error:
            log.exception("the service could not start")
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.shutdown.complete"})


def document(endpoints: Iterable[Endpoint], settings: Settings) -> bytes:
    """The OpenAPI document, as JSON."""
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
