"""HTTP with time limits: a client that sends half a request, or does not read its answer, does not keep its connection.

uvicorn closes a connection that is idle between two requests, and a WebSocket that does not answer pings. It would wait
for ever for the rest of a request.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

# Seconds from the first byte of a request, or from the opening of a connection, to the end of the answer.
WHOLE_REQUEST = 60.0


class TimedHTTP(H11Protocol):
    """A connection on which each request takes at most `WHOLE_REQUEST` seconds."""

    timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._arm()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        self._arm()
        super().data_received(data)

    def on_response_complete(self) -> None:
        """Let uvicorn wait for the next request."""
        self._disarm()
        super().on_response_complete()

    def handle_websocket_upgrade(self, event: Any) -> None:
        """Leave the connection to a WebSocket."""
        self._disarm()
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._disarm()
        super().connection_lost(exc)

    def _arm(self) -> None:
        if self.timer is None:
            self.timer = self.loop.call_later(WHOLE_REQUEST, self.transport.abort)

    def _disarm(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
