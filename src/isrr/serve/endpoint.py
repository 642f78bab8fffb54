"""One path of the service: the API key, the limits on bodies, errors as JSON, and its part of the OpenAPI document."""

import asyncio
import hmac
import logging
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from isrr.errors import did_you_mean
from isrr.serve.schema import EXAMPLES, FIELDS, RETRY, Problem, Refusal

if TYPE_CHECKING:
    from isrr.serve.app import Service

log = logging.getLogger("isrr.serve")
encode = msgspec.json.Encoder().encode
JSON = "application/json"
CLOSE = {"connection": "close"}
DRAINED = 4  # times the largest body that is read before the connection is cut
UNFINISHED = 16  # times the largest body that unfinished bodies may take up together
LATE = "the body is late"  # why a task is cancelled
_NO_JSON = re.compile(rb":\s*-?(NaN|Infinity)\b")


@dataclass(frozen=True, eq=False)
class Endpoint:
    """One path as an ASGI app: the API key, the limits, and errors as JSON."""

    service: "Service"
    path: str
    handler: Callable[[Any, Scope], Awaitable[Any]]
    takes: Any = None  # type of the body
    gives: Any = Any  # type of the answer
    refuses: Any = Problem  # type of the answer where there is none of the other
    media: str = JSON
    open: bool = False  # without key, which a load balancer and a browser do not have

    @cached_property
    def method(self) -> str:
        """GET, or POST where there is a body to take; HEAD is answered where GET is."""
        return "GET" if self.takes is None else "POST"

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[Any]:
        return msgspec.json.Decoder(self.takes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        started, service = time.perf_counter(), self.service
        service.start()
        try:
            self._check_key(scope)
            content = decoded(self._decoder, await self._body(receive)) if self.takes else None
            answer = await self.handler(content, scope)
        except Refusal as refusal:
            answer = refused(refusal.status, str(refusal), refusal.headers)
        except Exception as error:
            log.error("a request could not be served", exc_info=error, extra={"path": self.path})
            answer = refused(503, "the service could not answer this request; it is logged")
        status = getattr(answer, "status_code", 200)
        if isinstance(answer, Response):
            await answer(scope, receive, send)
        else:  # as a `Response` would do it, in less time
            body = answer if isinstance(answer, bytes) else encode(answer)
            headers = [(b"content-type", self.media.encode()), (b"content-length", b"%d" % len(body))]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body})
        service.metrics.count_request(self.path, status, time.perf_counter() - started)

    def _check_key(self, scope: Scope) -> None:
        """Refuse a request without the API key, where there is one."""
        if (key := self.service.settings.api_key) is None or self.open:
            return
        headers = Headers(scope=scope)
        sent = headers.getlist("x-api-key")
        sent += [value[7:] for value in headers.getlist("authorization") if value[:7].lower() == "bearer "]
        if not any(hmac.compare_digest(each.strip().encode(), key.encode()) for each in sent):
            why = "send the API key as 'Authorization: Bearer …' or 'X-API-Key: …'"
            raise Refusal(401, why, **{"WWW-Authenticate": "Bearer"})

    async def _body(self, receive: Receive) -> bytearray:
        """Return the body, within the limits on its size, its time, and on what all unfinished bodies take up.

        One that is too long is read on for a while and thrown away: a client that is still sending would be cut off
        before it sees why.
        """
        service, data, size, unfinished = self.service, bytearray(), 0, True
        most, seconds = service.settings.max_body, service.settings.body_timeout
        task: Any = asyncio.current_task()
        timer = asyncio.get_running_loop().call_later(seconds, task.cancel, LATE)  # `asyncio.timeout` takes longer
        try:
            while unfinished and size <= DRAINED * most:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refusal(408, "the client went away before its body was complete")
                chunk, unfinished = message.get("body", b""), message.get("more_body", False)
                size += len(chunk)
                if size <= most:
                    data += chunk
                    service.n_unfinished += len(chunk)
                if service.n_unfinished > UNFINISHED * most:
                    raise Refusal(503, "too many bodies are arriving at a time; try again", **CLOSE, **RETRY)
        except asyncio.CancelledError as cancelled:
            if cancelled.args != (LATE,):
                raise
            task.uncancel()
            raise Refusal(408, f"the body did not arrive within {seconds:g} seconds", **CLOSE) from None
        finally:
            timer.cancel()
            service.n_unfinished -= len(data)
        if size > most:
            raise Refusal(413, f"the body is too long; expected at most {most:,} bytes", **CLOSE)
        return data


def json_response(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a response with JSON."""
    return Response(encode(content), status, headers, JSON)


def refused(status: int, why: str, headers: Any = None) -> Response:
    """Return the response to a request that is not served."""
    return json_response(Problem(why, why, why), status, headers)


def decoded(decoder: msgspec.json.Decoder[Any], body: bytearray) -> Any:
    """Return a body decoded; refuse what does not fit."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        field = re.search("unknown field `(.*?)`", str(error))
        hint = did_you_mean(field[1], FIELDS) if field else ""
        raise Refusal(422, f"{error}{hint or '; see /openapi.json'}") from None
    except RecursionError:
        raise Refusal(400, "the body is nested too deeply") from None
    except ValueError as error:  # malformed JSON, or text that is not UTF-8
        hint = "; JSON has no NaN or Infinity, though Python writes them" if _NO_JSON.search(body) else ""
        raise Refusal(400, f"the body cannot be read as JSON: {error}{hint}; see /openapi.json") from None


def openapi_document(endpoints: list[Endpoint], with_key: bool) -> dict[str, Any]:
    """Return the OpenAPI document of endpoints; `with_key` where the service asks for an API key."""
    paths, components = dict[str, Any](), dict[str, Any]()

    def content(kind: Any, media: str = JSON, **example: Any) -> dict[str, Any]:
        (schema,), named = msgspec.json.schema_components([kind], ref_template="#/components/schemas/{name}")
        components.update(named)
        return {"content": {media: {"schema": schema, **example}}}

    for endpoint in endpoints:
        summary = (endpoint.handler.__doc__ or "").partition("\n")[0]
        refusal = {"description": "The request was refused, and this is why.", **content(endpoint.refuses)}
        answer = {"description": summary, **content(endpoint.gives, endpoint.media)}
        operation: dict[str, Any] = {"summary": summary, "responses": {"200": answer, "default": refusal}}
        if endpoint.takes is not None:
            operation["requestBody"] = {"required": True, **content(endpoint.takes, example=EXAMPLES[endpoint.path])}
        paths[endpoint.path] = {endpoint.method.lower(): operation}
    info = {"title": "isrr", "version": version("isrr"), "description": "Candidates in, certified order out."}
    api: dict[str, Any] = {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": components}}
    if with_key:
        api["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        api["security"] = [{"key": []}]
    return api
