"""Scores from another rerank service, for requests that bring texts and no scores.

With a model's name it is called in the format of Cohere, Jina and vLLM, without one in that of
text-embeddings-inference (TEI):

    {"model", "query", "documents"}               →  {"results": [{"index", "relevance_score"}, …]}
    {"query", "texts", "raw_scores", "truncate"}  →  [{"index", "score"}, …]
"""

import asyncio
import logging
from typing import Any

import httpx
import msgspec
from msgspec import Struct

from isrr.errors import shown
from isrr.serve.schema import RETRY, Refusal

log = logging.getLogger("isrr.serve")
MAX_BYTES = 16 << 20  # of an answer
TOO_MANY = 429


class _Score(Struct):
    index: int
    score: float


class _CohereScore(Struct, rename={"score": "relevance_score"}):
    index: int
    score: float


class _CohereScores(Struct):
    results: list[_CohereScore]


class Upstream:
    """A client of the rerank service at `url`.

    Args:
        url: The endpoint, such as http://127.0.0.1:8081/rerank.
        model: The model to ask for, in the format of Cohere; None for that of TEI.
        key: Sent as `Authorization: Bearer …`.
        timeout: Seconds from the first attempt to the last byte of the answer.
        max_calls: Calls that may be under way at a time.
    """

    def __init__(
        self, url: str, model: str | None = None, key: str | None = None, timeout: float = 10.0, max_calls: int = 64
    ) -> None:
        self.url, self.model, self.timeout, self.max_calls, self._n_running = url, model, timeout, max_calls, 0
        self._headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # connections belong to the loop they were opened in

    async def scores(self, query: str, texts: list[str]) -> list[float]:
        """Return one score per text; raises Refusal (502, 503 or 504) where the upstream has none to give."""
        if self._n_running >= self.max_calls:
            raise Refusal(503, f"{self.max_calls} calls to the upstream are under way already; try again", **RETRY)
        self._n_running += 1
        try:
            async with asyncio.timeout(self.timeout):
                return self._read(await self._call(query, texts), len(texts))
        except TimeoutError:
            raise Refusal(504, f"the upstream did not answer within {self.timeout:g} seconds") from None
        finally:
            self._n_running -= 1

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()

    async def _call(self, query: str, texts: list[str]) -> bytes:
        """Return the body of the answer; a failure that may pass is tried once more."""
        if self._client is None or self._loop is not asyncio.get_running_loop():
            limits, self._loop = httpx.Limits(max_connections=self.max_calls), asyncio.get_running_loop()
            self._client = httpx.AsyncClient(headers=self._headers, timeout=None, limits=limits)
        body: dict[str, Any] = {"query": query, "texts": texts, "raw_scores": True, "truncate": True}
        if self.model is not None:
            body = {"model": self.model, "query": query, "documents": texts}
        content, reason = msgspec.json.encode(body), ""
        for _ in range(2):
            try:
                async with self._client.stream("POST", self.url, content=content) as answer:
                    data = bytearray()
                    async for chunk in answer.aiter_bytes():
                        data += chunk
                        if len(data) > MAX_BYTES:
                            raise Refusal(502, f"the upstream's answer is longer than {MAX_BYTES:,} bytes")
            except (httpx.TransportError, httpx.DecodingError) as error:
                reason = f"cannot be reached: {error or type(error).__name__}"
                continue
            if answer.is_success:
                return bytes(data)
            reason = f"answered {answer.status_code} {answer.reason_phrase}"
            log.warning("the upstream refused a request", extra={"error": reason, "body": data[:500].decode("latin-1")})
            if answer.status_code < 500 and answer.status_code != TOO_MANY:
                break
        raise Refusal(502, f"the upstream {reason}")

    def _read(self, content: bytes, n_texts: int) -> list[float]:
        """Return the scores in the order of the texts."""
        listed: list[_Score] | list[_CohereScore]
        try:
            if self.model is None:
                listed = msgspec.json.decode(content, type=list[_Score])
            else:
                listed = msgspec.json.decode(content, type=_CohereScores).results
        except ValueError as error:
            raise Refusal(502, f"the upstream's answer cannot be read: {error}") from None
        scores = {each.index: each.score for each in listed}
        if len(listed) != n_texts:
            raise Refusal(502, f"the upstream gave {len(listed)} scores for {n_texts} texts; expected one for each")
        if scores.keys() != set(range(n_texts)):
            numbers = shown([each.index for each in listed])
            raise Refusal(502, f"the upstream scored the texts {numbers}; expected 0 to {n_texts - 1}, each once")
        return [scores[i] for i in range(n_texts)]
