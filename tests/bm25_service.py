"""A rerank service that scores texts by BM25, in the formats of TEI and of Cohere, and its bad days.

`RerankService` runs it in a process of its own. The first part of a path is the trouble: `/slow/rerank` takes its time,
`/few/rerank` leaves a score out, `/ok/rerank` is well.
"""

import asyncio
import socket
import subprocess
import sys
import time
from pathlib import Path

import bm25s
import httpx
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

SLOW = 30.0  # seconds
FLAKY = {"calls": 0}


def bm25(query, texts):
    """Scores of texts by BM25, with the texts themselves as the corpus."""
    index = bm25s.BM25()
    index.index(bm25s.tokenize(texts, show_progress=False, return_ids=False), show_progress=False)
    (words,) = bm25s.tokenize([query], show_progress=False, return_ids=False)
    known = [word for word in words if word in index.vocab_dict]
    return index.get_scores(known).tolist() if known else [0.0] * len(texts)


async def rerank(request):
    body = await request.json()
    trouble = request.path_params["trouble"]
    if trouble == "keyed" and request.headers.get("authorization") != "Bearer upstream-secret":
        return Response("no key", 401)
    if trouble == "slow":
        await asyncio.sleep(SLOW)
    if trouble == "nonsense":
        return Response(b"<html>")
    if trouble == "broken":
        return Response("out of order", 500)
    if trouble == "flaky":
        FLAKY["calls"] += 1
        if FLAKY["calls"] % 2:
            return Response("busy", 503)
    by_model = "documents" in body
    assert by_model == (body.get("model") == "bm25")
    texts = body["documents"] if by_model else body["texts"]
    name = "relevance_score" if by_model else "score"
    results = [{"index": i, name: score} for i, score in enumerate(bm25(body["query"], texts))]
    results.sort(key=lambda result: -result[name])
    if trouble == "few":
        results.pop()
    if trouble == "twice":
        results[-1]["index"] = results[0]["index"]
    if trouble == "infinite":
        return Response(b'[{"index": 0, "score": NaN}]')
    return JSONResponse({"results": results} if by_model else results)


app = Starlette(routes=[Route("/{trouble}/rerank", rerank, methods=["POST"])])


class RerankService:
    """The service in a process of its own, on a free port of the loopback."""

    def __init__(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        command = ["-m", "granian", "--interface", "asgi", "--port", str(self.port), "bm25_service:app"]
        self.process = subprocess.Popen(
            [sys.executable, *command], cwd=Path(__file__).parent, stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                httpx.post(self.url("ok"), json={"query": "a", "texts": ["b"]})
                return
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError("the rerank service does not start")

    def url(self, trouble):
        return f"http://127.0.0.1:{self.port}/{trouble}/rerank"

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
