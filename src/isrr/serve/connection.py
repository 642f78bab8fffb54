"""Connections that say nothing, or do not listen, are not kept.

A request is served within limits once its headers are there (`isrr.serve.http`). Before that only the connection is
known, and whoever sends half a header line, byte by byte or not at all, would hold it for as long as it likes; so would
whoever asks and asks and never reads an answer. One that sends many requests without waiting for answers is closed too.

A request that arrives as a whole is answered without a task of its own, which would cost more than most answers do.
"""

import asyncio
from collections.abc import Callable
from math import inf
from typing import Any, Literal

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from isrr.serve.http import Answer

PIPELINED = 16  # requests of a connection that may follow another without waiting for its answer


class PromptConnection(HttpToolsProtocol):
    """uvicorn's connection, closed where headers do not arrive in time, or answers are not taken in time.

    The time for headers runs from the opening of the connection, and after an answer from the first byte that follows
    it; uvicorn's own keep-alive limit holds in between. The time for answers runs while the send buffer is full, and
    from the moment a connection is closed with something still in it.
    """

    def __init__(self, *, header_timeout: float, send_timeout: float, **given: Any) -> None:
        super().__init__(**given)
        self._header_timeout, self._send_timeout = header_timeout, send_timeout
        self._soon: Callable[..., bool] = self.app_state["soon"]
        self._awaited: asyncio.TimerHandle | None = None  # headers
        self._unread: asyncio.TimerHandle | None = None  # answers
        self._body: list[bytes] | None = None  # of a request that needs no task if the rest is there, too
        self._n_waiting = 0  # requests without a task
        self._idle: asyncio.TimerHandle | None = None  # further requests
        self._idle_since = inf  # the last answer without a task, unless something followed it

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody has connected."""
        super().connection_made(transport)
        self._await_headers()

    def data_received(self, data: bytes) -> None:
        """Bytes of a request: either one is being served now, or its headers are still incomplete."""
        self._idle_since = inf
        super().data_received(data)
        if self._body is not None:
            self._begin_task()
        if self.transport.is_closing():
            self._close()
        elif self._n_waiting or self._has_task():
            self._stop("_awaited")
        elif self._awaited is None:
            self._await_headers()

    def on_message_begin(self) -> None:
        """A request begins; one too many before the others are answered is bad HTTP to the parser."""
        if self._n_waiting + self._has_task() + len(self.pipeline) > PIPELINED:
            raise ValueError("too many requests are waiting for their answers")
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The headers are there: a task begins, unless the body may be there, too, and nothing speaks for waiting."""
        waits = self._has_task() or self.flow.write_paused or self.access_log
        if waits or not self._stays_open():
            super().on_headers_complete()
        else:
            self._body = []

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if self._body is None:
            super().on_body(body)
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        """The body is complete."""
        if self._body is None:
            super().on_message_complete()
            return
        if self._soon(self.url, self.headers, b"".join(self._body), self._send):
            self._body = None
            self._n_waiting += 1
        else:
            self._begin_task()
            super().on_message_complete()

    def _send(self, answer: Answer) -> None:
        """Send the answer to the request that has waited longest without a task."""
        self._n_waiting -= 1
        if self.transport.is_closing():
            return
        parts = [STATUS_LINE[answer.status]]
        for name, value in (*self.server_state.default_headers, *answer.head()):
            parts += (name, b": ", value, b"\r\n")
        parts += (b"\r\n", answer.body)
        self.transport.write(b"".join(parts))
        self.server_state.total_requests += 1
        self._idle_since = inf if self._has_task() else self.loop.time()
        if self._idle is None:
            self._idle = self.loop.call_later(self.timeout_keep_alive, self._close_if_idle)

    def shutdown(self) -> None:
        """The service ends: close, once all is answered."""
        if self._n_waiting:
            self.loop.call_soon(self.shutdown)
        else:
            super().shutdown()

    def pause_writing(self) -> None:
        """The send buffer is full: the client reads too slowly, or not at all."""
        super().pause_writing()
        self._unread = self._unread or self.loop.call_later(self._send_timeout, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has read on."""
        super().resume_writing()
        self._stop("_unread")

    def timeout_keep_alive_handler(self) -> None:
        """Nothing followed the last answer."""
        self._close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        self._stop("_awaited")
        self._stop("_unread")
        self._stop("_idle")
        super().connection_lost(exc)

    def _has_task(self) -> bool:
        """Whether a task is serving a request."""
        return self.cycle is not None and not self.cycle.response_complete

    def _close_if_idle(self) -> None:
        """Close if nothing followed the last answer in time, or look again; one timer serves many requests."""
        idle, self._idle = self.loop.time() - self._idle_since, None
        if idle >= self.timeout_keep_alive:
            self.timeout_keep_alive_handler()
        elif idle >= 0.0:
            self._idle = self.loop.call_later(self.timeout_keep_alive - idle, self._close_if_idle)

    def _stays_open(self) -> bool:
        """Whether this is a POST that another request may follow."""
        parser = self.parser
        if parser.get_method() != b"POST" or parser.should_upgrade():
            return False
        return parser.should_keep_alive() and parser.get_http_version() == "1.1"

    def _begin_task(self) -> None:
        """Serve the request as a task, with what is there of its body."""
        assert self._body is not None
        pieces, self._body = self._body, None
        super().on_headers_complete()
        for piece in pieces:
            super().on_body(piece)

    def _await_headers(self) -> None:
        self._awaited = self.loop.call_later(self._header_timeout, self._close)

    def _close(self) -> None:
        """Close once the answers are sent, and in time even if nobody takes them."""
        self.transport.close()
        self._unread = self._unread or self.loop.call_later(self._send_timeout, self.transport.abort)

    def _stop(self, name: Literal["_awaited", "_unread", "_idle"]) -> None:
        timer: asyncio.TimerHandle | None = getattr(self, name)
        if timer is not None:
            timer.cancel()
            setattr(self, name, None)
