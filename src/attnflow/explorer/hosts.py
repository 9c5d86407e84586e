"""Who may reach the explorer: this machine alone unless told otherwise, and only pages of ours.

A page of another site, open in the same browser, could still reach the server: so every request must name a host that
we serve, and a WebSocket must come from a page of ours.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

EVERYWHERE = ("0.0.0.0", "::")


def names(host: str) -> tuple[str, ...]:
    """Return the names under which pages of ours are reached when the server listens at a host."""
    own = (socket.gethostname().lower(),) if host in EVERYWHERE else ()
    return tuple(dict.fromkeys(("127.0.0.1", "localhost", "[::1]", _bracketed(host).lower(), *own)))


def _bracketed(host: str) -> str:
    """Return a host as it is written in front of a port."""
    return f"[{host}]" if ":" in host else host


def ours(header: str, host: str, port: int) -> bool:
    """Say whether a Host header names this server.

    A page of another site whose name was made to point here ("DNS rebinding") still says its own name. An address
    cannot be made to point elsewhere: a server that listens everywhere takes every one.

    >>> ours("localhost:8765", "127.0.0.1", 8765), ours("evil.example:8765", "127.0.0.1", 8765)
    (True, False)
    """
    name, colon, digits = header.lower().rpartition(":")
    if not colon or digits.endswith("]"):
        name, digits = header.lower(), "80"
    if digits != str(port):
        return False
    return name in names(host) or (host in EVERYWHERE and _address(name))


def address(host: str, port: int, everywhere: str = "127.0.0.1") -> str:
    """Return where a page is reached when the server listens at a host, or everywhere."""
    return f"http://{_bracketed(everywhere if host in EVERYWHERE else host)}:{port}/"


def _address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return "%" not in name


def same_site(origin: str | None, header: str) -> bool:
    """Say whether a WebSocket comes from a page of ours.

    Every browser says the origin of the page that opens a WebSocket. Who says none is a program of the user: it could
    say whatever it likes, so nothing would be gained by refusing it.
    """
    return origin is None or origin.lower() in (f"http://{header.lower()}", f"https://{header.lower()}")


class Guard:
    """Refuse requests that name another host, and WebSockets of foreign pages, before anything else sees them."""

    def __init__(self, app: Any, host: str, port: int) -> None:
        self.app, self.host, self.port = app, host, port

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, or refuse it."""
        from starlette.responses import PlainTextResponse

        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        hosts, origins = (
            [value.decode("latin-1") for name, value in scope["headers"] if name == wanted]
            for wanted in (b"host", b"origin")
        )
        here = len(hosts) == 1 and ours(hosts[0], self.host, self.port)
        if scope["type"] == "http":
            sentence = f"This is the attnflow explorer: open {address(self.host, self.port)} instead.\n"
            app = self.app if here else PlainTextResponse(sentence, 421)
            await app(scope, receive, send)
        elif here and len(origins) <= 1 and same_site(origins[0] if origins else None, hosts[0]):
            await self.app(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})


def local(host: str) -> bool:
    """Say whether a server that listens at a host is reached from this machine alone."""
    return host == "localhost" or (_address(host) and ipaddress.ip_address(host).is_loopback)
