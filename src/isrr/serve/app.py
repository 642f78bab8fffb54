"""The endpoints of a worker.

POST /rank, /rank/batch       candidates with scores to a certified order
POST /preview                 the lists of a batch as they would be served, neither logged nor counted
POST /v2/rerank               the same in Cohere's shape
POST /rerank                  the same in text-embeddings-inference's shape
GET  /health, /ready, /info, /metrics, /openapi.json, /
"""

import asyncio
from dataclasses import asdict
from importlib.resources import files

import msgspec
from msgspec.structs import replace

from isrr.serve import shapes
from isrr.serve.current import Snapshot
from isrr.serve.http import Answer, App, Endpoint, document
from isrr.serve.metrics import CONTENT_TYPE
from isrr.serve.ranking import Made, Wanted, make, wanted
from isrr.serve.schema import (
    BatchRequest,
    BatchResponse,
    CohereRequest,
    CohereResponse,
    Health,
    RankedItem,
    RankRequest,
    RankResponse,
    Refusal,
    TeiRequest,
    TeiResult,
    decoded,
)
from isrr.serve.served_log import Served, log_line
from isrr.serve.settings import Settings
from isrr.serve.worker import Worker

encode = msgspec.json.Encoder().encode
RANK, BATCH = msgspec.json.Decoder(RankRequest), msgspec.json.Decoder(BatchRequest)
COHERE, TEI = msgspec.json.Decoder(CohereRequest), msgspec.json.Decoder(TeiRequest)
CANDIDATES = [{"id": "a", "score": 2.1}, {"id": "b", "score": 1.9}, {"id": "c", "score": 0.3}]
ONE = {"query_id": "q7", "session": "u42", "k": 2, "items": CANDIDATES}
IN_COHERES = {"model": "isrr", "query": "q7", "session": "u42", "top_n": 2, "documents": CANDIDATES}
IN_TEIS = {"query": "q7", "session": "u42", "texts": ["a", "b", "c"], "scores": [2.1, 1.9, 0.3]}
# Candidates on the certificate's scale, their exposure over 100 draws, and the list of each visitor. Everything comes
# from `/info` and `/preview`, so the page itself holds nothing of the certificate and needs no key.
PAGE = files("isrr.serve").joinpath("page.html").read_bytes()
POSTED = (400, 401, 408, 413, 422, 503)


class Service:
    """The endpoints, over what a worker holds. The first line of each one's docstring is its summary in OpenAPI."""

    def __init__(self, worker: Worker) -> None:
        self.worker, self.settings, self.current = worker, worker.settings, worker.current
        self._openapi = document(self.endpoints(), worker.settings)

    def endpoints(self) -> list[Endpoint]:
        """Every path."""
        return [
            Endpoint("/rank", "POST", self.rank, RankRequest, RankResponse, ONE, codes=POSTED),
            Endpoint("/rank/batch", "POST", self.batch, BatchRequest, BatchResponse, {"queries": [ONE]}, codes=POSTED),
            Endpoint("/preview", "POST", self.preview, BatchRequest, BatchResponse, {"queries": [ONE]}, codes=POSTED),
            Endpoint("/v2/rerank", "POST", self.cohere, CohereRequest, CohereResponse, IN_COHERES, codes=POSTED),
            Endpoint("/rerank", "POST", self.tei, TeiRequest, list[TeiResult], IN_TEIS, codes=POSTED),
            Endpoint("/health", "GET", self.health, gives=Health, open=True, codes=()),
            Endpoint("/ready", "GET", self.readiness, gives=Health, open=True, codes=(503,)),
            Endpoint("/info", "GET", self.info),
            Endpoint("/metrics", "GET", self.prometheus, kind=CONTENT_TYPE),
            Endpoint("/openapi.json", "GET", self.openapi, open=True, codes=()),
            Endpoint("/", "GET", self.page, kind="text/html; charset=utf-8", open=True, codes=()),
        ]

    def rank(self, body: bytes) -> Answer:
        """Rank one query."""
        request = decoded(RANK, body)
        snapshot = self.current.now
        ask = wanted(request, snapshot.outcome.k, self.settings.max_items)
        served = self._served(snapshot, ask)
        return Answer(encode(_answered(ask, served.made)), lists=(served,))

    async def batch(self, body: bytes) -> Answer:
        """Rank several queries; other requests get their turn between them."""
        results, lists = [], []
        for snapshot, ask in self._asked(body):
            lists.append(self._served(snapshot, ask))
            results.append(_answered(ask, lists[-1].made))
            await asyncio.sleep(0)
        return Answer(encode(BatchResponse(results)), lists=lists)

    async def preview(self, body: bytes) -> Answer:
        """Show the lists of a batch as they would be served, without logging or counting them."""
        results = []
        for snapshot, ask in self._asked(body):
            results.append(_answered(ask, replace(make(snapshot, ask), list_id="preview")))
            await asyncio.sleep(0)
        return Answer(encode(BatchResponse(results)))

    def _asked(self, body: bytes) -> list[tuple[Snapshot, Wanted]]:
        """The lists of a batch, to be made from one snapshot; all of them are checked before the first is made."""
        request = decoded(BATCH, body)
        n_queries, most = len(request.queries), self.settings.max_queries
        if n_queries > most:
            raise Refusal(413, f"found {n_queries:,} queries; expected at most {most:,} per batch", connection="close")
        snapshot = self.current.now
        asks = []
        for position, query in enumerate(request.queries):
            try:
                asks.append((snapshot, wanted(query, snapshot.outcome.k, self.settings.max_items)))
            except Refusal as refusal:
                raise Refusal(refusal.status, f"queries[{position}]: {refusal}", **refusal.headers) from None
        return asks

    def cohere(self, body: bytes) -> Answer:
        """Rank documents, in Cohere's format."""
        documents, ask = shapes.from_cohere(decoded(COHERE, body), self.settings.max_items)
        served = self._served(self.current.now, ask)
        made, meta = served.made, {"api_version": {"version": "2"}}
        results = shapes.to_cohere(documents, ask, made)
        return Answer(encode(CohereResponse(made.list_id, results, meta, made.note)), lists=(served,))

    def tei(self, body: bytes) -> Answer:
        """Rank texts, in the format of text-embeddings-inference; list id and certificate are in headers."""
        request = decoded(TEI, body)
        ask = shapes.from_tei(request, self.settings.max_items)
        served = self._served(self.current.now, ask)
        made = served.made
        named = {"list": made.list_id, "certificate": made.note.id, "status": made.note.status}
        headers = {f"x-isrr-{name}": value for name, value in named.items()}
        return Answer(encode(shapes.to_tei(request, ask, made)), headers=headers, lists=(served,))

    def health(self, body: bytes) -> Answer:
        """Whether the process is alive."""
        return Answer(encode(Health("ok")))

    def readiness(self, body: bytes) -> Answer:
        """Whether it is ready: certificate loaded, kernels compiled, log writable."""
        readiness, unlogged = self.worker.readiness()
        reload_error = self.current.reload_error
        found = Health(
            readiness,
            self.current.now.note.id,
            msgspec.UNSET if reload_error is None else reload_error,
            msgspec.UNSET if unlogged is None else unlogged,
        )
        return Answer(encode(found), 200 if readiness == "ok" else 503)

    def info(self, body: bytes) -> Answer:
        """The certificate in use: summary, text and full content."""
        snapshot = self.current.now
        content, text = snapshot.in_full
        found = {
            "certificate": snapshot.note,
            "k": snapshot.outcome.k,
            "every_query": snapshot.outcome.sure,
            "status": asdict(snapshot.status),
            "reload_error": self.current.reload_error,
            "text": text,
            "content": content,
        }
        return Answer(encode(found))

    def prometheus(self, body: bytes) -> Answer:
        """Metrics for Prometheus."""
        return Answer(self.worker.metrics.render(), kind=CONTENT_TYPE)

    def openapi(self, body: bytes) -> Answer:
        """This document."""
        return Answer(self._openapi)

    def page(self, body: bytes) -> Answer:
        """A page to try the service."""
        return Answer(PAGE, kind="text/html; charset=utf-8")

    def _served(self, snapshot: Snapshot, ask: Wanted) -> Served:
        """Make a list, and its line in the log where one is kept."""
        made = make(snapshot, ask)
        if self.worker.log is None:
            return Served(made, snapshot, None)
        return Served(made, snapshot, encode(log_line(snapshot, ask, made, self.settings.log_hottest)))


def _answered(ask: Wanted, made: Made) -> RankResponse:
    """The places asked for."""
    ids, scores, shown = ask.ids, ask.scores, slice(ask.start, ask.stop)
    placed = enumerate(zip(made.ranking[shown], made.propensity[shown], strict=True), ask.start + 1)
    items = [RankedItem(ids[i], rank, scores[i], chance) for rank, (i, chance) in placed]
    return RankResponse(made.list_id, items, made.note)


def create_app(settings: Settings) -> App:
    """The ASGI app of one worker."""
    worker = Worker(settings)
    return App(Service(worker).endpoints(), settings, worker.metrics, worker.lifespan, worker.keep)
