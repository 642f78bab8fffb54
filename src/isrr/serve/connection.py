"""Connections that say nothing are not kept.

A request is served within limits once its headers are there (`isrr.serve.guard`). Before that only the connection is
known, and whoever sends half a header line, byte by byte or not at all, would hold it for as long as it likes.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol  # by httptools where that is installed, else by h11


class PromptConnection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """uvicorn's connection, closed where the headers of a request are not complete in time.

    The time runs from the opening of the connection, and after an answer from the first byte that follows it; uvicorn's
    own keep-alive limit holds in between.
    """

    def __init__(self, *, header_timeout: float, **given: Any) -> None:
        super().__init__(**given)
        self._header_timeout = header_timeout
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Somebody has connected."""
        super().connection_made(transport)
        self._deadline = self.loop.call_later(self._header_timeout, transport.close)

    def data_received(self, data: bytes) -> None:
        """Bytes of a request: either one is being served now, or its headers are still incomplete."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self._header_timeout, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
