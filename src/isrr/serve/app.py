"""The service as a Starlette app.

POST /rank, /rank/batch       candidates with scores to a certified order
POST /preview                 the lists of a batch as they would be served, neither logged nor counted
POST /v2/rerank               the same in Cohere's shape
POST /rerank                  the same in text-embeddings-inference's shape
GET  /health, /ready, /info, /metrics, /openapi.json, /
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from isrr.serve import schema, shapes
from isrr.serve.current import Snapshot
from isrr.serve.endpoint import JSON, Answering, Endpoint, Limits, document
from isrr.serve.metrics import CONTENT_TYPE
from isrr.serve.ranking import RankCall, RankedList, rank_call, rank_list
from isrr.serve.schema import Refusal, decoded
from isrr.serve.service import Served, Service
from isrr.serve.settings import Settings

encode = msgspec.json.Encoder().encode
RANK, BATCH = msgspec.json.Decoder(schema.RankRequest), msgspec.json.Decoder(schema.BatchRequest)
COHERE, TEI = msgspec.json.Decoder(schema.CohereRequest), msgspec.json.Decoder(schema.TeiRequest)
CANDIDATES = [{"id": "a", "score": 2.1}, {"id": "b", "score": 1.9}, {"id": "c", "score": 0.3}]
ONE = {"query_id": "q7", "session": "u42", "k": 2, "items": CANDIDATES}
IN_COHERES = {"model": "isrr", "query": "q7", "session": "u42", "top_n": 2, "documents": CANDIDATES}
IN_TEIS = {"query": "q7", "session": "u42", "texts": ["a", "b", "c"], "scores": [2.1, 1.9, 0.3]}
# Candidates on the certificate's scale, their exposure over 100 draws, and the list of each visitor. Everything comes
# from `/info` and `/preview`, so the page itself holds nothing of the certificate and needs no key.
PAGE = files("isrr.serve").joinpath("page.html").read_bytes()
HTML = "text/html; charset=utf-8"


def create_app(ranker: str | PathLike[str], **settings: Any) -> Starlette:
    """Return the service over a ranker file as an ASGI app, to be run by any server or mounted in another app.

    Watching the ranker file and the log begin with the first request. Compiling the kernels, or loading them, takes a
    few seconds and happens here.

    Args:
        ranker: The ranker file.
        settings: Fields of `isrr.serve.settings.Settings`, such as `api_key=`, `log=` (a folder that exists) and
            `rotate=` (in seconds).
    """
    if (log := settings.get("log")) is not None:
        settings["log"] = Path(log).absolute()
    service = Service(Settings(ranker=Path(ranker).absolute(), **settings))
    limits, endpoints = Limits(service.settings), Endpoints(service)
    routes = [Route(each.path, Answering(each, limits, service)) for each in endpoints.all]
    routes.append(Route("/{path:path}", Answering(endpoints.other, limits, service)))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        service.start()
        yield
        service.stop()

    app = Starlette(routes=routes, lifespan=lifespan)
    app.state.service = service
    return app


class Endpoints:
    """The endpoints; the first line of each one's docstring is its summary in OpenAPI."""

    def __init__(self, service: Service) -> None:
        self.service, self.settings, self.current = service, service.settings, service.current
        several: Any = {"takes": schema.BatchRequest, "gives": schema.BatchResponse, "example": {"queries": [ONE]}}
        self.all = [
            Endpoint("/rank", "POST", self.rank, schema.RankRequest, schema.RankResponse, ONE),
            Endpoint("/rank/batch", "POST", self.batch, **several),
            Endpoint("/preview", "POST", self.preview, **several),
            Endpoint("/v2/rerank", "POST", self.cohere, schema.CohereRequest, schema.CohereResponse, IN_COHERES),
            Endpoint("/rerank", "POST", self.tei, schema.TeiRequest, list[schema.TeiResult], IN_TEIS),
            Endpoint("/health", "GET", self.health, gives=schema.Health, open=True),
            Endpoint("/ready", "GET", self.ready, gives=schema.Health, open=True),
            Endpoint("/info", "GET", self.info),
            Endpoint("/metrics", "GET", self.prometheus, kind=CONTENT_TYPE),
            Endpoint("/openapi.json", "GET", self.openapi, open=True),
            Endpoint("/", "GET", self.page, kind=HTML, open=True),
        ]
        self.other = Endpoint("other", None, self.unknown)
        self._document = document(self.all, self.settings)

    async def rank(self, body: bytes) -> Response:
        """Rank one query."""
        request = decoded(RANK, body)
        snapshot = self.current.now
        call = rank_call(request, snapshot.outcome.k, self.settings)
        served = self.service.serve(snapshot, call)
        return self._answer(_response(call, served.ranked), served)

    async def batch(self, body: bytes) -> Response:
        """Rank several queries; other requests get their turn between them."""
        results, lists = [], []
        for snapshot, call in self._calls(body):
            lists.append(self.service.serve(snapshot, call))
            results.append(_response(call, lists[-1].ranked))
            await asyncio.sleep(0)
        return self._answer(schema.BatchResponse(results), *lists)

    async def preview(self, body: bytes) -> Response:
        """Show the lists of a batch as they would be served, without logging or counting them."""
        results = []
        for snapshot, call in self._calls(body):
            results.append(_response(call, replace(rank_list(snapshot, call), list_id="preview")))
            await asyncio.sleep(0)
        return self._answer(schema.BatchResponse(results))

    async def cohere(self, body: bytes) -> Response:
        """Rank documents, in Cohere's format."""
        documents, call = shapes.from_cohere(decoded(COHERE, body), self.settings)
        served = self.service.serve(self.current.now, call)
        ranked, meta = served.ranked, {"api_version": {"version": "2"}}
        results = shapes.to_cohere(documents, call, ranked)
        return self._answer(schema.CohereResponse(ranked.list_id, results, meta, ranked.note), served)

    async def tei(self, body: bytes) -> Response:
        """Rank texts, in the format of text-embeddings-inference; list id and certificate are in headers."""
        request = decoded(TEI, body)
        call = shapes.from_tei(request, self.settings)
        served = self.service.serve(self.current.now, call)
        ranked = served.ranked
        named = {"list": ranked.list_id, "certificate": ranked.note.id, "status": ranked.note.status}
        headers = {f"x-isrr-{name}": value for name, value in named.items()}
        return self._answer(shapes.to_tei(request, call, ranked), served, headers=headers)

    async def health(self, body: bytes) -> Response:
        """Whether the process is alive."""
        return self._answer(schema.Health("ok"))

    async def ready(self, body: bytes) -> Response:
        """Whether it is ready: certificate loaded, kernels compiled, log writable."""
        problem, reload_error = self.service.log and self.service.log.problem(), self.current.reload_error
        status: schema.Readiness = "unlogged" if problem else "ok"
        found = schema.Health(status, self.current.now.note.id, reload_error or UNSET, problem or UNSET)
        return self._answer(found, status=503 if problem else 200)

    async def info(self, body: bytes) -> Response:
        """The certificate in use: summary, text and full content."""
        snapshot = self.current.now
        content, text = snapshot.in_full
        found = {"certificate": snapshot.note, "k": snapshot.outcome.k, "every_query": snapshot.outcome.sure}
        found |= {"status": asdict(snapshot.status), "reload_error": self.current.reload_error}
        return self._answer({**found, "text": text, "content": content})

    async def prometheus(self, body: bytes) -> Response:
        """Metrics for Prometheus."""
        return Response(self.service.metrics.render(), headers={"content-type": CONTENT_TYPE})

    async def openapi(self, body: bytes) -> Response:
        """This document."""
        return Response(self._document, media_type=JSON)

    async def page(self, body: bytes) -> Response:
        """A page to try the service."""
        return Response(PAGE, media_type=HTML)

    async def unknown(self, body: bytes) -> Response:
        """Refuse a path that is none of the others."""
        raise Refusal(404, "Not Found; see /openapi.json")

    def _answer(self, found: Any, *lists: Served, status: int = 200, headers: dict[str, str] | None = None) -> Response:
        """Log and count lists, and return them as JSON."""
        self.service.keep(lists)
        return Response(encode(found), status, headers, JSON)

    def _calls(self, body: bytes) -> list[tuple[Snapshot, RankCall]]:
        """Return the lists of a batch, of one snapshot; all of them are checked before the first is ranked."""
        request = decoded(BATCH, body)
        n_queries, most = len(request.queries), self.settings.max_queries
        if n_queries > most:
            raise Refusal(413, f"found {n_queries:,} queries; expected at most {most:,} per batch", connection="close")
        snapshot = self.current.now
        calls = []
        for position, query in enumerate(request.queries):
            try:
                calls.append((snapshot, rank_call(query, snapshot.outcome.k, self.settings)))
            except Refusal as refusal:
                raise Refusal(refusal.status, f"queries[{position}]: {refusal}", **refusal.headers) from None
        return calls


def _response(call: RankCall, ranked: RankedList) -> schema.RankResponse:
    """Return the places asked for."""
    ids, scores, shown = call.ids, call.scores, slice(call.start, call.stop)
    placed = enumerate(zip(ranked.ranking[shown], ranked.propensity[shown], strict=True), call.start + 1)
    items = [schema.RankedItem(ids[i], rank, scores[i], chance) for rank, (i, chance) in placed]
    return schema.RankResponse(ranked.list_id, items, ranked.note)
