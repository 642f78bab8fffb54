"""Connections that say nothing, or do not listen, are not kept.

A request is served within limits once its headers are there (`isrr.serve.http`). Before that only the connection is
known, and whoever sends half a header line, byte by byte or not at all, would hold it for as long as it likes; so would
whoever asks and asks and never reads an answer. One that sends many requests without waiting for answers is closed too.
"""

import asyncio
from typing import Any, Literal

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

PIPELINED = 16  # requests of a connection that wait while another is answered


class PromptConnection(HttpToolsProtocol):
    """uvicorn's connection, closed where headers do not arrive in time, or answers are not taken in time.

    The time for headers runs from the opening of the connection, and after an answer from the first byte that follows
    it; uvicorn's own keep-alive limit holds in between. The time for answers runs while the send buffer is full, and
    from the moment a connection is closed with something still in it.
    """

    def __init__(self, *, header_timeout: float, send_timeout: float, **given: Any) -> None:
        super().__init__(**given)
        self._header_timeout, self._send_timeout = header_timeout, send_timeout
        self._awaited: asyncio.TimerHandle | None = None  # headers
        self._unread: asyncio.TimerHandle | None = None  # answers

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody has connected."""
        super().connection_made(transport)
        self._await_headers()

    def data_received(self, data: bytes) -> None:
        """Bytes of a request: either one is being served now, or its headers are still incomplete."""
        super().data_received(data)
        if self.transport.is_closing():
            self._close()
        elif self.cycle is not None and not self.cycle.response_complete:
            self._stop("_awaited")
        elif self._awaited is None:
            self._await_headers()

    def on_message_begin(self) -> None:
        """A request begins; one too many before the others are answered is bad HTTP to the parser."""
        if len(self.pipeline) >= PIPELINED:
            raise ValueError("too many requests are waiting for their answers")
        super().on_message_begin()

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
        super().connection_lost(exc)

    def _await_headers(self) -> None:
        self._awaited = self.loop.call_later(self._header_timeout, self._close)

    def _close(self) -> None:
        """Close once the answers are sent, and in time even if nobody takes them."""
        self.transport.close()
        self._unread = self._unread or self.loop.call_later(self._send_timeout, self.transport.abort)

    def _stop(self, name: Literal["_awaited", "_unread"]) -> None:
        timer: asyncio.TimerHandle | None = getattr(self, name)
        if timer is not None:
            timer.cancel()
            setattr(self, name, None)
