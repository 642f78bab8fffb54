"""The service as a Starlette app.

POST /rank, /rank/batch               candidates with scores to a certified order
POST /preview                         the lists of a batch as they would be served, neither logged nor counted
POST /rerank, /v1/rerank, /v2/rerank  the same in the formats of Cohere and text-embeddings-inference
GET  /health, /ready, /info, /metrics, /openapi.json, /
"""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from msgspec import UNSET
from msgspec.structs import asdict, replace
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope

from isrr.serve import schema
from isrr.serve.current import CurrentCertificate
from isrr.serve.endpoint import CLOSE, Endpoint, encode, json_response, openapi_document, refused
from isrr.serve.metrics import ServiceMetrics
from isrr.serve.ranking import RankedList, rank_list
from isrr.serve.rerank_formats import documents_of, is_unscored, rank_request, rerank_response
from isrr.serve.schema import RETRY, Refusal
from isrr.serve.upstream import Upstream
from isrr.serve.writer import LogWriter

log = logging.getLogger("isrr.serve")
PAGE = files("isrr.serve").joinpath("page.html").read_bytes()


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of one app; `create_app` takes them as keyword arguments."""

    ranker: Path
    trust_edited: bool = False  # accept a ranker file that was edited by hand
    api_key: str | None = None  # sent as `Authorization: Bearer …` or `X-API-Key`; None lets everybody in
    log: Path | None = None  # folder of the served-ranking log, which must exist; None keeps no log
    log_bytes: int = 256 << 20  # size at which a log file is closed and another one begun
    log_compress: bool = False  # compress each log file with gzip once it is closed
    rotate: float | None = None  # seconds in which requests without a session get one draw per query; None: fresh draws
    rollout: bool = False  # split sessions at random, as the rollout's state next to the ranker file says
    max_body: int = 16 << 20  # bytes
    max_items: int = 10_000  # candidates in a list
    max_queries: int = 1_000  # lists in a batch
    max_concurrency: int = 256  # requests being ranked at a time
    body_timeout: float = 10.0  # seconds that a body may take to arrive
    poll: float = 1.0  # seconds between looks at the ranker and status files
    upstream: Upstream | None = None  # scores texts that come without scores
    parent: int | None = None  # id of the process that ends the service when it dies

    def __post_init__(self) -> None:
        if self.api_key is not None and not self.api_key.strip():
            raise ValueError("`api_key=` is empty, which would let everybody in; expected a key, or no option")
        if self.rotate is not None and not self.rotate >= 1:
            raise ValueError(f"`rotate=` must be at least one second, got {self.rotate:g}; expected 1h or 1d, say")
        if self.rotate is not None and self.rollout:
            raise ValueError("`rotate=` gives everybody one order, and `rollout=True` splits sessions; choose one")


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
        self.n_running = self.n_unfinished = 0  # requests being ranked; bytes of unfinished bodies
        self._watching: asyncio.Task[None] | None = None
        several = schema.BatchRequest, schema.BatchResponse
        rerank = self.rerank, schema.RerankRequest, schema.RerankResponse | list[schema.RerankResult]
        self.endpoints = [
            Endpoint(self, "/rank", self.rank, schema.RankRequest, schema.RankResponse),
            Endpoint(self, "/rank/batch", self.batch, *several),
            Endpoint(self, "/preview", self.preview, *several),
            *(Endpoint(self, path, *rerank) for path in ("/rerank", "/v1/rerank", "/v2/rerank")),
            Endpoint(self, "/health", self.health, gives=schema.Health, open=True),
            Endpoint(self, "/ready", self.ready, gives=schema.Health, refuses=schema.Health, open=True),
            Endpoint(self, "/info", self.info),
            Endpoint(self, "/metrics", self.prometheus, media=CONTENT_TYPE_LATEST),
            Endpoint(self, "/openapi.json", self.openapi, open=True),
            Endpoint(self, "/", self.page, media="text/html; charset=utf-8", open=True),
        ]
        self._openapi = encode(openapi_document(self.endpoints, settings.api_key is not None))
        items = [schema.Candidate(name, 1.0) for name in "abc"]
        rank_list(self.current.now, schema.RankRequest("q", items, "s"))  # compiles

    def app(self) -> Starlette:
        """Return the service as an app, which has it as `app.state.service`."""

        @asynccontextmanager
        async def lifespan(app: Starlette) -> AsyncIterator[None]:
            self.start()
            yield
            await self.stop()

        routes = [Route(endpoint.path, endpoint, methods=[endpoint.method]) for endpoint in self.endpoints]
        app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: self._unrouted})
        app.state.service = self
        return app

    async def rank(self, request: schema.RankRequest, scope: Scope) -> schema.RankResponse:
        """Rank one query."""
        return (await self._serve([request]))[0].response()

    async def batch(self, request: schema.BatchRequest, scope: Scope) -> schema.BatchResponse:
        """Rank several queries; other requests get their turn between them."""
        lists = await self._serve(request.queries, where="queries[{}]: ")
        return schema.BatchResponse([ranked.response() for ranked in lists])

    async def preview(self, request: schema.BatchRequest, scope: Scope) -> schema.BatchResponse:
        """Show the lists of a batch as they would be served, without logging or counting them."""
        lists = await self._rank(request.queries, where="queries[{}]: ")
        return schema.BatchResponse([replace(ranked.response(), list_id="preview") for ranked in lists])

    async def rerank(self, request: schema.RerankRequest, scope: Scope) -> Response:
        """Rank documents or texts, in the format of Cohere or of text-embeddings-inference."""
        documents = documents_of(request)
        self._check_length(len(documents))
        if (upstream := self.settings.upstream) is not None and is_unscored(request, documents):
            request.scores = await upstream.scores(request.query, [document.text for document in documents])
        if request.session in (None, ""):
            request.session = Headers(scope=scope).get("x-isrr-session")
        [ranked] = await self._serve([rank_request(request, documents)])
        note = {"list": ranked.line.list_id, "certificate": ranked.note.id, "status": ranked.note.status}
        about = {f"x-isrr-{name}": value for name, value in note.items()}
        return json_response(rerank_response(request, documents, ranked), headers=about)

    async def health(self, request: None, scope: Scope) -> schema.Health:
        """Whether the process is alive."""
        return schema.Health("ok")

    async def ready(self, request: None, scope: Scope) -> Response:
        """Whether it is ready: certificate loaded, kernels compiled, log writable."""
        problem = self.log and self.log.problem()
        now, reload_error = self.current.now, self.current.reload_error or UNSET
        ready = schema.Health("unlogged" if problem else "ok", now.note.id, reload_error, problem or UNSET)
        return json_response(ready, 503 if problem else 200)

    async def info(self, request: None, scope: Scope) -> dict[str, Any]:
        """The certificate in use: summary, text and full content."""
        now = self.current.now
        content, text = now.in_full
        return {
            "certificate": now.note, "k": now.outcome.k, "every_query": now.outcome.sure, "status": asdict(now.status),
            "reload_error": self.current.reload_error, "text": text, "content": content,
        }  # fmt: skip

    async def prometheus(self, request: None, scope: Scope) -> bytes:
        """Metrics for Prometheus."""
        return self.metrics.render()

    async def openapi(self, request: None, scope: Scope) -> bytes:
        """This document."""
        return self._openapi

    async def page(self, request: None, scope: Scope) -> bytes:
        """A page to try the service."""
        return PAGE

    def start(self) -> None:
        """Watch the files, unless it does so already; called for every request, as a mounted app has no other start."""
        if self._watching is None or self._watching.done():
            self._show()
            self._keep_copy()
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

    def _check_length(self, n_items: int) -> None:
        if n_items > (most := self.settings.max_items):
            raise Refusal(413, f"there are {n_items:,} candidates; expected at most {most:,} per query")

    async def _rank(self, requests: list[schema.RankRequest], where: str = "") -> list[RankedList]:
        """Rank queries, all of them by one certificate; errors name a query by `where` and its position."""
        now, settings, lists = self.current.now, self.settings, list[RankedList]()
        if len(requests) > settings.max_queries:
            expected = f"expected at most {settings.max_queries:,} per batch"
            raise Refusal(413, f"there are {len(requests):,} queries; {expected}", **CLOSE)
        if self.n_running >= settings.max_concurrency:
            raise Refusal(503, f"{settings.max_concurrency} requests are being ranked already; try again", **RETRY)
        self.n_running += 1
        try:
            for request in requests:
                if lists:
                    await asyncio.sleep(0)
                self._check_length(len(request.items))
                lists.append(rank_list(now, request, settings.rotate))
        except Refusal as refusal:
            raise Refusal(refusal.status, f"{where.format(len(lists))}{refusal}", **refusal.headers) from None
        finally:
            self.n_running -= 1
        return lists

    async def _serve(self, requests: list[schema.RankRequest], where: str = "") -> list[RankedList]:
        """Rank queries, log the lists and count them; refuse to serve what cannot be logged."""
        lists = await self._rank(requests, where)
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
        """Name the certificate in the metrics."""
        note = self.current.now.note
        self.metrics.show_certificate(note.id, note.status)

    def _keep_copy(self) -> None:
        """Leave a copy of the certificate in the log's folder, which may have been emptied or moved.

        Clicks on the lists are weighed by the ranker that drew them.
        """
        now, folder = self.current.now, self.settings.log
        if folder is not None and folder.is_dir() and not (copy := folder / f"ranker-{now.note.id}.json").exists():
            try:
                now.outcome.save(copy)
            except OSError as error:
                log.warning("the ranker file cannot be copied to the log", extra={"error": str(error)})

    async def _watch(self) -> None:
        """Look at the files, and hand over what was counted, until the parent process is gone."""
        while self.settings.parent in (None, os.getppid()):
            before = self.current.reload_error
            if self.current.refresh():
                self._show()
            if self.current.reload_error not in (None, before):
                self.metrics.reload_failures.inc()
            self._keep_copy()
            self.metrics.share()
            await asyncio.sleep(self.settings.poll)
        log.error("the parent process is gone; shutting down")
        os.kill(os.getpid(), signal.SIGTERM)

    async def _unrouted(self, request: Request, error: Any) -> Response:
        """Refuse a path or a method that there is not."""
        self.metrics.count_request("other", error.status_code, 0.0)
        return refused(error.status_code, f"{error.detail}; see /openapi.json", error.headers)
