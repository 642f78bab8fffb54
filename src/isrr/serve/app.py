"""HTTP over a loaded certificate.

POST /rank, /rank/batch       candidates with scores in, an order with a certificate behind it out
POST /v2/rerank               the same in Cohere's shape
POST /rerank                  the same in text-embeddings-inference's shape
GET  /health, /ready, /info, /metrics, /openapi.json, /
"""

import asyncio
import logging
from dataclasses import asdict
from hashlib import blake2b

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from isrr.serve import shapes
from isrr.serve.current import Snapshot
from isrr.serve.decoding import decoded
from isrr.serve.guard import JSON, Guard, problem, read_body
from isrr.serve.metrics import CONTENT_TYPE
from isrr.serve.openapi import document
from isrr.serve.page import PAGE
from isrr.serve.ranking import Made, Refusal, Wanted, log_line, make, wanted
from isrr.serve.schema import (
    BatchRequest,
    BatchResponse,
    CohereRequest,
    CohereResponse,
    Health,
    RankedItem,
    RankRequest,
    RankResponse,
    TeiRequest,
)
from isrr.serve.settings import Settings
from isrr.serve.worker import Worker

log = logging.getLogger("isrr.serve")
encode = msgspec.json.Encoder().encode
RANK, BATCH = msgspec.json.Decoder(RankRequest), msgspec.json.Decoder(BatchRequest)
COHERE, TEI = msgspec.json.Decoder(CohereRequest), msgspec.json.Decoder(TeiRequest)


class Service:
    """The endpoints, over what a worker holds."""

    def __init__(self, worker: Worker) -> None:
        self.worker, self.settings, self.current = worker, worker.settings, worker.current
        self._openapi = encode(document(worker.settings))

    def routes(self) -> list[Route]:
        """Every path, and who answers it."""
        return [
            Route("/rank", self.rank, methods=["POST"]),
            Route("/rank/batch", self.batch, methods=["POST"]),
            Route("/v2/rerank", self.cohere, methods=["POST"]),
            Route("/rerank", self.tei, methods=["POST"]),
            Route("/health", self.health),
            Route("/ready", self.readiness),
            Route("/info", self.info),
            Route("/metrics", self.prometheus),
            Route("/openapi.json", self.openapi),
            Route("/", self.page),
        ]

    async def rank(self, request: Request) -> Response:
        """One query."""
        body = decoded(RANK, await read_body(request, self.settings))
        snapshot = self.current.now
        ask = wanted(body, snapshot.outcome.k, self.settings.max_items)
        return Response(encode(self._ranked(snapshot, ask)), media_type=JSON)

    async def batch(self, request: Request) -> Response:
        """Several queries; other requests get their turn between them."""
        body = decoded(BATCH, await read_body(request, self.settings))
        if len(body.queries) > self.settings.max_queries:
            raise Refusal(413, f"there are {len(body.queries):,} queries; a batch takes {self.settings.max_queries:,}")
        snapshot = self.current.now
        asks = []
        for position, query in enumerate(body.queries):  # all of them before the first list is made, and logged
            try:
                asks.append(wanted(query, snapshot.outcome.k, self.settings.max_items))
            except Refusal as refusal:
                raise Refusal(refusal.status, f"queries[{position}]: {refusal}") from None
        results = []
        for ask in asks:
            results.append(self._ranked(snapshot, ask))
            await asyncio.sleep(0)
        return Response(encode(BatchResponse(results)), media_type=JSON)

    async def cohere(self, request: Request) -> Response:
        """One query in Cohere's shape."""
        body = decoded(COHERE, await read_body(request, self.settings))
        snapshot = self.current.now
        documents, ask = shapes.from_cohere(body, self.settings.max_items)
        made = self._made(snapshot, ask)
        results = shapes.to_cohere(documents, ask, made)
        digest = blake2b(encode(results) + encode(made.note), digest_size=16).hexdigest()
        answer = CohereResponse(digest, results, {"api_version": {"version": "2"}}, made.note)
        return Response(encode(answer), media_type=JSON)

    async def tei(self, request: Request) -> Response:
        """One query in text-embeddings-inference's shape; the certificate is named in headers."""
        body = decoded(TEI, await read_body(request, self.settings))
        snapshot = self.current.now
        ask = shapes.from_tei(body, self.settings.max_items)
        made = self._made(snapshot, ask)
        headers = {"x-isrr-certificate": made.note.id, "x-isrr-status": made.note.status}
        return Response(encode(shapes.to_tei(body, ask, made)), headers=headers, media_type=JSON)

    async def health(self, request: Request) -> Response:
        """The process lives."""
        return Response(encode(Health("ok")), media_type=JSON)

    async def readiness(self, request: Request) -> Response:
        """The certificate is loaded and watched, and the kernels are compiled."""
        if self.worker.readiness != "ok":
            return Response(encode(Health(self.worker.readiness)), 503, media_type=JSON)
        error = self.current.reload_error
        found = Health("ok", self.current.now.note.id, msgspec.UNSET if error is None else error)
        return Response(encode(found), media_type=JSON)

    async def info(self, request: Request) -> Response:
        """The certificate: its note, its text, and what it says in full."""
        snapshot = self.current.now
        content, text = snapshot.in_full
        found = {
            "certificate": snapshot.note,
            "k": snapshot.outcome.k,
            "status": asdict(snapshot.status),
            "reload_error": self.current.reload_error,
            "text": text,
            "content": content,
        }
        return Response(encode(found), media_type=JSON)

    async def prometheus(self, request: Request) -> Response:
        """Metrics."""
        return Response(self.worker.metrics.render(), headers={"content-type": CONTENT_TYPE})

    async def openapi(self, request: Request) -> Response:
        """The OpenAPI document."""
        return Response(self._openapi, media_type=JSON)

    async def page(self, request: Request) -> Response:
        """A page to try it."""
        return HTMLResponse(PAGE)

    def _ranked(self, snapshot: Snapshot, ask: Wanted) -> RankResponse:
        made = self._made(snapshot, ask)
        items = [
            RankedItem(ask.ids[i], place + 1, ask.scores[i], made.propensity[place])
            for place, i in enumerate(made.ranking[ask.start : ask.stop], ask.start)
        ]
        return RankResponse(items, made.note)

    def _made(self, snapshot: Snapshot, ask: Wanted) -> Made:
        """Make the list, log it, count it; in this order, so that nothing is served that is not in the log."""
        made = make(snapshot, ask)
        if self.worker.log is not None:
            try:
                self.worker.log.write(encode(log_line(snapshot, ask, made)))
            except OSError as error:
                log.error("the served-ranking log cannot be written", extra={"error": str(error)})
                raise Refusal(503, "the served-ranking log cannot be written, so nothing is served") from None
        self.worker.metrics.count_list(made, snapshot)
        return made


def create_app(settings: Settings) -> Guard:
    """The ASGI app of one worker."""
    worker = Worker(settings)
    routes = Service(worker).routes()
    handlers = {Refusal: _refused, HTTPException: _not_here, ClientDisconnect: _gone, Exception: _unforeseen}
    app = Starlette(routes=routes, lifespan=worker.lifespan, exception_handlers=handlers)
    return Guard(app, settings, worker.metrics, frozenset(route.path for route in routes))


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return problem(error.status, str(error), {"connection": "close"} if error.status in (408, 413) else None)


async def _not_here(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem(error.status_code, f"{error.detail}; see /openapi.json", dict(error.headers or {}))


async def _gone(request: Request, error: Exception) -> Response:
    return problem(408, "the client went away before its body was complete")


async def _unforeseen(request: Request, error: Exception) -> Response:
    return problem(503, "the service could not answer this request; it is logged")
