"""The service as a Starlette app.

POST /rank, /rank/batch               candidates with scores to a certified order
POST /preview                         the lists of a batch as they would be served, neither logged nor counted
POST /rerank, /v1/rerank, /v2/rerank  the same in the formats of Cohere and text-embeddings-inference
GET  /health, /ready, /info, /metrics, /openapi.json, /
"""

import asyncio
import hmac
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import asdict, replace
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from isrr.serve import schema
from isrr.serve.current import CurrentCertificate
from isrr.serve.formats import documents_of, rank_request, rerank_response, unscored_texts
from isrr.serve.metrics import ServiceMetrics
from isrr.serve.ranking import RankedList, rank_list
from isrr.serve.schema import JSON, RETRY, Refusal, decoded, openapi_document
from isrr.serve.settings import Settings
from isrr.serve.writer import LogWriter

log = logging.getLogger("isrr.serve")
encode = msgspec.json.Encoder().encode
RERANK, HTML = ("/rerank", "/v1/rerank", "/v2/rerank"), "text/html; charset=utf-8"
PAGE = files("isrr.serve").joinpath("page.html").read_bytes()
CLOSE = {"connection": "close"}
DRAINED = 4  # times the largest body that is read before the connection is cut
UNFINISHED = 16  # times the largest body that unfinished bodies may take up together


def create_app(ranker: str | PathLike[str], **settings: Any) -> Starlette:
    """Return the service over a ranker file as an ASGI app, to be run by any server or mounted in another app.

    Watching the ranker file and the log begin with the first request. Compiling the kernels, or loading them, takes a
    few seconds and happens here.

    Args:
        ranker: The ranker file.
        settings: Fields of `isrr.serve.settings.Settings`, such as `api_key=`, `log=` (a folder that exists), `rotate=`
            (in seconds) and `upstream=` (an `isrr.serve.upstream.Upstream`).
    """
    if (folder := settings.get("log")) is not None:
        settings["log"] = Path(folder).absolute()
    service = Service(Settings(ranker=Path(ranker).absolute(), **settings))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        service.start()
        yield
        await service.stop()

    routes = [Route(endpoint.path, endpoint, methods=[endpoint.method]) for endpoint in service.endpoints]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _unrouted})
    app.state.service = service
    return app


class Service:
    """The endpoints, and what they share: the certificate in use, the log, the metrics and the limits.

    The first line of an endpoint's docstring is its summary in the OpenAPI document.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings, self.metrics = settings, ServiceMetrics()
        self.current = CurrentCertificate(settings.ranker, settings.trust_edited, settings.rollout)
        self.log: LogWriter | None = None
        if settings.log is not None:
            self.log = LogWriter(settings.log, settings.log_bytes, settings.log_compress)
        self.n_running = self.n_unfinished = 0  # requests being answered; bytes of unfinished bodies
        self._watching: asyncio.Task[None] | None = None
        several = schema.BatchRequest, schema.BatchResponse
        rerank = schema.RerankRequest, schema.RerankResponse | list[schema.RerankResult]
        self.endpoints = [
            Endpoint(self, "/rank", "POST", self.rank, schema.RankRequest, schema.RankResponse),
            Endpoint(self, "/rank/batch", "POST", self.batch, *several),
            Endpoint(self, "/preview", "POST", self.preview, *several),
            *(Endpoint(self, path, "POST", self.rerank, *rerank) for path in RERANK),
            Endpoint(self, "/health", "GET", self.health, gives=schema.Health, open=True),
            Endpoint(self, "/ready", "GET", self.ready, gives=schema.Health, open=True),
            Endpoint(self, "/info", "GET", self.info),
            Endpoint(self, "/metrics", "GET", self.prometheus, media=CONTENT_TYPE_LATEST),
            Endpoint(self, "/openapi.json", "GET", self.openapi, open=True),
            Endpoint(self, "/", "GET", self.page, media=HTML, open=True),
        ]
        items = [schema.Candidate(name, 1.0) for name in "abc"]
        rank_list(self.current.now, schema.RankRequest("q", items, "s"))  # compiles

    async def rank(self, request: schema.RankRequest, headers: Headers) -> schema.RankResponse:
        """Rank one query."""
        self._check_length(len(request.items))
        return self._served([rank_list(self.current.now, request, self.settings.rotate)])[0].response()

    async def batch(self, request: schema.BatchRequest, headers: Headers) -> schema.BatchResponse:
        """Rank several queries; other requests get their turn between them."""
        return schema.BatchResponse([ranked.response() for ranked in self._served(await self._lists(request))])

    async def preview(self, request: schema.BatchRequest, headers: Headers) -> schema.BatchResponse:
        """Show the lists of a batch as they would be served, without logging or counting them."""
        lists = await self._lists(request)
        return schema.BatchResponse([replace(ranked.response(), list_id="preview") for ranked in lists])

    async def rerank(self, request: schema.RerankRequest, headers: Headers) -> Response:
        """Rank documents or texts, in the format of Cohere or of text-embeddings-inference."""
        documents = documents_of(request)
        self._check_length(len(documents))
        if (upstream := self.settings.upstream) is not None and (texts := unscored_texts(documents)):
            self.n_running -= 1  # the upstream has a limit of its own, so that a slow one takes no slot from others
            try:
                scores = await upstream.scores(request.query, texts)
            finally:
                self.n_running += 1
            for document, score in zip(documents, scores, strict=True):
                document.score = score
        if request.session in (None, ""):
            request.session = headers.get("x-isrr-session")
        ranked = rank_list(self.current.now, rank_request(request, documents), self.settings.rotate)
        self._served([ranked])
        note = {"list": ranked.line.list_id, "certificate": ranked.note.id, "status": ranked.note.status}
        about = {f"x-isrr-{name}": value for name, value in note.items()}
        return _json(rerank_response(request, documents, ranked), headers=about)

    async def health(self, request: None, headers: Headers) -> schema.Health:
        """Whether the process is alive."""
        return schema.Health("ok")

    async def ready(self, request: None, headers: Headers) -> Response:
        """Whether it is ready: certificate loaded, kernels compiled, log writable."""
        problem = self.log and self.log.problem()
        now, reload_error = self.current.now, self.current.reload_error or UNSET
        ready = schema.Health("unlogged" if problem else "ok", now.note.id, reload_error, problem or UNSET)
        return _json(ready, 503 if problem else 200)

    async def info(self, request: None, headers: Headers) -> dict[str, Any]:
        """The certificate in use: summary, text and full content."""
        now = self.current.now
        content, text = now.in_full
        return {
            "certificate": now.note, "k": now.outcome.k, "every_query": now.outcome.sure, "status": asdict(now.status),
            "reload_error": self.current.reload_error, "text": text, "content": content,
        }  # fmt: skip

    async def prometheus(self, request: None, headers: Headers) -> Response:
        """Metrics for Prometheus."""
        return Response(self.metrics.render(), headers={"content-type": CONTENT_TYPE_LATEST})

    async def openapi(self, request: None, headers: Headers) -> Response:
        """This document."""
        return Response(self._openapi, media_type=JSON)

    async def page(self, request: None, headers: Headers) -> Response:
        """A page to try the service."""
        return Response(PAGE, media_type=HTML)

    def start(self) -> None:
        """Watch the files, unless it does so already; called for every request, as a mounted app has no other start."""
        if self._watching is None or self._watching.done():
            self._show()
            self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def stop(self) -> None:
        """Stop watching, and close the log and the upstream."""
        if self._watching is not None:
            self._watching.cancel()
        if self.settings.upstream is not None:
            await self.settings.upstream.close()
        self.metrics.share()
        if self.log is not None:
            self.log.close()

    def refresh(self) -> None:
        """Look at the ranker and status files."""
        before = self.current.reload_error
        if self.current.refresh():
            self._show()
        if self.current.reload_error not in (None, before):
            self.metrics.reload_failures.inc()

    def check_key(self, headers: Headers) -> None:
        """Refuse a request without the API key, where there is one."""
        if (key := self.settings.api_key) is None:
            return
        sent = headers.getlist("x-api-key")
        sent += [value[7:] for value in headers.getlist("authorization") if value[:7].lower() == "bearer "]
        if not any(hmac.compare_digest(each.strip().encode(), key.encode()) for each in sent):
            why = "send the API key as 'Authorization: Bearer …' or 'X-API-Key: …'"
            raise Refusal(401, why, **{"WWW-Authenticate": "Bearer"})

    async def body(self, receive: Receive) -> bytes:
        """Read a body, within the limits on its size, its time, and on what all unfinished bodies take up.

        One that is too long is read on for a while and thrown away: a client that is still sending would be cut off
        before it sees why.
        """
        data, size, more, most = bytearray(), 0, True, self.settings.max_body
        try:
            async with asyncio.timeout(self.settings.body_timeout):
                while more and size <= DRAINED * most:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refusal(408, "the client went away before its body was complete")
                    chunk, more = message.get("body", b""), message.get("more_body", False)
                    size += len(chunk)
                    if size <= most:
                        data += chunk
                        self.n_unfinished += len(chunk)
                    if self.n_unfinished > UNFINISHED * most:
                        raise Refusal(503, "too many bodies are arriving at a time; try again", **CLOSE, **RETRY)
        except TimeoutError:
            late = f"the body did not arrive within {self.settings.body_timeout:g} seconds"
            raise Refusal(408, late, **CLOSE) from None
        finally:
            self.n_unfinished -= len(data)
        if size > most:
            raise Refusal(413, f"the body is too long; expected at most {most:,} bytes", **CLOSE)
        return bytes(data)

    @cached_property
    def _openapi(self) -> bytes:
        return encode(openapi_document(self.endpoints, self.settings.api_key is not None))

    def _check_length(self, n_items: int) -> None:
        if n_items > (most := self.settings.max_items):
            raise Refusal(413, f"there are {n_items:,} candidates; expected at most {most:,} per query")

    async def _lists(self, request: schema.BatchRequest) -> list[RankedList]:
        """Rank a batch, all of it by one certificate."""
        now, n_queries, most, lists = self.current.now, len(request.queries), self.settings.max_queries, []
        if n_queries > most:
            raise Refusal(413, f"found {n_queries:,} queries; expected at most {most:,} per batch", **CLOSE)
        for i, query in enumerate(request.queries):
            try:
                self._check_length(len(query.items))
                lists.append(rank_list(now, query, self.settings.rotate))
            except Refusal as refusal:
                raise Refusal(refusal.status, f"queries[{i}]: {refusal}", **refusal.headers) from None
            await asyncio.sleep(0)
        return lists

    def _served(self, lists: list[RankedList]) -> list[RankedList]:
        """Log lists, count them and return them; refuse to serve what cannot be logged."""
        if self.log is not None and lists:
            try:
                self.log.write(*(encode(ranked.line) for ranked in lists))
            except OSError as error:
                self.metrics.log_failures.inc()
                log.error("the served-ranking log cannot be written", extra={"error": str(error)})
                raise Refusal(503, "the served-ranking log cannot be written, so nothing is served") from None
        for ranked in lists:
            self.metrics.count_list(ranked)
        return lists

    def _show(self) -> None:
        """Name the certificate in the metrics, and leave a copy of it beside the log.

        Clicks on the lists are weighed by the ranker that drew them.
        """
        now, folder = self.current.now, self.settings.log
        self.metrics.show_certificate(now.note.id, now.note.status)
        if folder is not None and not (folder / f"ranker-{now.note.id}.json").exists():
            try:
                now.outcome.save(folder / f"ranker-{now.note.id}.json")
            except OSError as error:
                log.warning("the ranker file cannot be kept beside the log", extra={"error": str(error)})

    async def _watch(self) -> None:
        """Look at the files, and hand over what was counted, until the parent process is gone."""
        while self.settings.parent in (None, os.getppid()):
            self.refresh()
            self.metrics.share()
            await asyncio.sleep(self.settings.poll)
        log.error("the parent process is gone; shutting down")
        os.kill(os.getpid(), signal.SIGTERM)


@dataclass(frozen=True, eq=False)
class Endpoint:
    """One path as an ASGI app: the API key, the limits, and errors as JSON."""

    service: Service
    path: str
    method: str  # HEAD is answered where GET is
    handler: Callable[[Any, Headers], Awaitable[Any]]
    takes: Any = None  # type of the body
    gives: Any = None  # type of the answer
    media: str = JSON
    open: bool = False  # without key and slot, which a load balancer and a browser do not have

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[Any]:
        return msgspec.json.Decoder(self.takes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        started, service, entered = time.perf_counter(), self.service, False
        service.start()
        try:
            headers = Headers(scope=scope)
            if not self.open:
                service.check_key(headers)
            request = decoded(self._decoder, await service.body(receive)) if self.takes else None
            if not self.open:
                if service.n_running >= (most := service.settings.max_concurrency):
                    raise Refusal(503, f"{most} requests are being served already; try again", **RETRY)
                service.n_running += 1
                entered = True
            answer = await self.handler(request, headers)
        except Refusal as refusal:
            why = (str(refusal),) * (3 if self.path in RERANK else 1)
            answer = _json(schema.Problem(*why), refusal.status, refusal.headers)
        except Exception as error:
            log.error("a request could not be served", exc_info=error, extra={"path": self.path})
            answer = _json(schema.Problem("the service could not answer this request; it is logged"), 503)
        try:
            answer = answer if isinstance(answer, Response) else _json(answer)
            await answer(scope, receive, send)
        finally:
            service.n_running -= entered
        service.metrics.count_request(self.path, answer.status_code, time.perf_counter() - started)


def _json(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(encode(content), status, headers, JSON)


def _unrouted(request: Request, error: Any) -> Response:
    """Refuse a path or a method that there is not."""
    request.app.state.service.metrics.count_request("other", error.status_code, 0.0)
    return _json(schema.Problem(f"{error.detail}; see /openapi.json"), error.status_code, error.headers)
