"""The server of the explorer: the page, and a WebSocket behind it.

It listens to this machine alone unless told otherwise. A page of another site, open in the same browser, could still
reach it: so every request must name a host that we serve, and a WebSocket must come from a page of ours.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import json
import socket
import threading
import webbrowser
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from attnflow.catalogue import REGISTERED, as_data
from attnflow.core.inputs import InputError, whole
from attnflow.core.installed import of_this_process
from attnflow.explorer import picture_frames
from attnflow.explorer.protocol import encoded, refused
from attnflow.explorer.supervisor import Supervisor
from attnflow.explorer.worker import ROLES

if TYPE_CHECKING:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.websockets import WebSocket

MOST_CONNECTIONS = 4
NO_ROOM = 1013  # the code with which a WebSocket is closed then
MOST_BYTES = 2_000_000
LARGEST_ID = 2**53
TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "json": "application/json",
}
ROLE_OF = {do: role for role, threads in ROLES.items() for kinds in threads for do in kinds}
# One of these at a time: they take long, and no newer one makes them superfluous.
ONE_AT_A_TIME = ("movie", "data")
# Ends what is being made for files.
CANCEL = "cancel"
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


def application(host: str, port: int) -> Starlette:
    """Return the application: the page at /, its files, the catalogue, the presets, and the socket at /ws."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route, WebSocketRoute

    def respond(request: Request, body: bytes, ending: str) -> Response:
        return Response(body, headers={"Content-Type": TYPES[ending], **headers(request.headers["host"])})

    def page(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        body = _files().get(name)
        if body is None:
            return Response("There is no such page.\n", 404, headers(request.headers["host"]), "text/plain")
        return respond(request, body.read_bytes(), name.rpartition(".")[2])

    connections: set[Connection] = set()

    async def talk(websocket: WebSocket) -> None:
        await websocket.accept()
        connection = Connection(websocket)
        if len(connections) >= MOST_CONNECTIONS:
            sentence = f"this explorer serves {MOST_CONNECTIONS} pages at once, and all are open: wait or close one"
            await connection.deliver(encoded(refused(None, sentence)))
            with contextlib.suppress(RuntimeError, OSError):
                await websocket.close(NO_ROOM)
            return
        connections.add(connection)
        try:
            await connection.serve()
        finally:
            connections.discard(connection)
            await connection.close()

    routes = [
        Route("/", page),
        Route("/page/{name}", page),
        Route("/catalogue.json", lambda request: respond(request, models_and_colours(), "json")),
        Route("/presets.json", lambda request: respond(request, _presets(), "json")),
        WebSocketRoute("/ws", talk),
    ]
    return Starlette(routes=routes, middleware=[Middleware(Guard, host=host, port=port)])


def headers(host: str) -> dict[str, str]:
    """Return what every answer says: nothing from other hosts, no frames, no guessing of types, no old copies."""
    # Some browsers do not take 'self' to mean the socket of the same host.
    policy = (
        f"default-src 'self'; connect-src 'self' ws://{host} wss://{host} blob:; img-src 'self' blob: data:; "
        "media-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-cache",
    }


def _files() -> dict[str, Any]:
    """Return the files of the page by name: names are compared, never put together to paths."""
    folder = files("attnflow.explorer") / "page"
    return {file.name: file for file in folder.iterdir() if file.is_file() and file.name.rpartition(".")[2] in TYPES}


def models_and_colours() -> bytes:
    """Return what the page is built from, as JSON: laws, motions and clouds, the first state, the colours."""
    from attnflow.explorer.state import FIRST, outside, shown
    from attnflow.figures.style import DARK, LIGHT, shades

    parts = as_data()
    for kind in ("law", "motion"):
        for one in parts[kind]:
            one["shown"] = one["name"] in shown(kind)
            one["around"] = outside(kind, one["name"]) if one["shown"] else []
    colours = {name: {**vars(tone), "shades": shades(tone)} for name, tone in (("light", LIGHT), ("dark", DARK))}
    return str(encoded({**parts, "first": FIRST, "colours": colours})).encode()


@cache
def _presets() -> bytes:
    from attnflow.explorer.presets import PRESETS

    return json.dumps([preset.data for preset in PRESETS], allow_nan=False).encode()


class Connection:
    """One open page, with the workers that compute for it."""

    def __init__(self, websocket: WebSocket) -> None:
        self.websocket = websocket
        self.supervisors: dict[str, Supervisor] = {}

    async def serve(self) -> None:
        """Take messages until the page closes."""
        while (event := await self.websocket.receive())["type"] != "websocket.disconnect":
            try:
                id, do, text = read_event(event)
            except Refusal as refusal:
                await self.deliver(encoded(refused(refusal.id, str(refusal))))
                continue
            if do == CANCEL:
                await self.cancel(id)
                continue
            supervisor = self.supervisors.setdefault(ROLE_OF[do], Supervisor(ROLE_OF[do], self.deliver))
            if do in ONE_AT_A_TIME and supervisor.busy(do):
                sentence = f"a {do} file is being made, expected one at a time: wait for it"
                await self.deliver(encoded(refused(id, sentence)))
            elif do == picture_frames.DO and (not supervisor.busy("movie") or supervisor.unanswered(do)):
                sentence = "a frame was sent without a movie, or before the last one was taken: ask for a movie first"
                await self.deliver(encoded(refused(id, sentence)))
            else:
                supervisor.submit(id, do, text)

    async def cancel(self, id: int) -> None:
        """End what is being made for files, its process and its temporary files."""
        if supervisor := self.supervisors.pop(ROLE_OF["movie"], None):
            await supervisor.cancel("this was cancelled, as you asked: begin again if you want it")
        await self.deliver(encoded({"kind": "cancelled", "id": id}))

    async def deliver(self, body: str | bytes) -> None:
        """Send a message; wait while the browser is slow, and forget it if the page is gone."""
        from starlette.websockets import WebSocketDisconnect

        with contextlib.suppress(WebSocketDisconnect, RuntimeError, OSError):
            if isinstance(body, str):
                await self.websocket.send_text(body)
            else:
                await self.websocket.send_bytes(body)

    async def close(self) -> None:
        """End all computations."""
        for supervisor in self.supervisors.values():
            await supervisor.close()


class Refusal(InputError):
    """A message that is not one, with its number if it has one."""

    def __init__(self, sentence: str, id: int | None = None) -> None:
        super().__init__(sentence)
        self.id = id


def read_event(event: Any) -> tuple[int, str, bytes]:
    """Return the number of a message, what it asks for, and the message: text, or a picture of a movie."""
    if (body := event.get("bytes")) is None:
        return read_message(event.get("text"))
    try:
        header, image = picture_frames.unpacked(body)
    except InputError as error:
        raise Refusal(str(error)) from None
    id, do, _ = read_message(header)
    if do != picture_frames.DO:
        raise Refusal(f"a binary message asks for '{do}', expected '{picture_frames.DO}': send '{do}' as JSON text", id)
    return id, do, picture_frames.as_order(header, image)


def read_message(text: str | None) -> tuple[int, str, bytes]:
    """Return the number of a message, what it asks for, and the message; what it is about is checked by the worker.

    >>> read_message('{"id": 7, "do": "overlays", "run": 6, "frame": 0}')[:2]
    (7, 'overlays')
    """
    if text is None:
        raise Refusal("a binary message was given, expected JSON text such as {'id': 1, 'do': 'run', 'state': ...}")
    try:
        message = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise Refusal("a message is not JSON, or nested too deep: send an object with 'id' and 'do'") from None
    if not isinstance(message, dict):
        raise Refusal("a message is not an object: send one with 'id' and 'do'")
    id, do = message.get("id"), message.get("do")
    if not isinstance(id, int) or isinstance(id, bool) or not 0 <= id <= LARGEST_ID:
        raise Refusal("a message has no id that is a whole number from 0 to 2**53: number your messages")
    if not isinstance(do, str) or (do not in ROLE_OF and do != CANCEL):
        raise Refusal(f"a message asks for {do!r:.40}, expected one of {', '.join(ROLE_OF)}", id)
    return id, do, text.encode()


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def serve(host: str = "127.0.0.1", port: int = 8765, browser: bool = True) -> None:
    """Serve the explorer until Ctrl-C."""
    try:
        import starlette  # noqa: F401
        import uvicorn
        import websockets  # noqa: F401
    except ImportError:
        raise InputError("the explorer needs Starlette, uvicorn and websockets: pip install 'attnflow[web]'") from None
    with listening(host, port) as listener:
        port = listener.getsockname()[1]
        server = uvicorn.Server(configured(host, port))
        # All is imported before the address is said: Ctrl-C within an import can be lost.
        server.config.load()
        here, there = address(host, port), address(host, port, socket.gethostname())
        print(f"The explorer is at {here} (Ctrl-C ends it).", flush=True)
        for name in (name for known in REGISTERED.values() for name in known if of_this_process(known[name].make)):
            print(f"It does not show {name}, which its processes cannot import: define it in a module.", flush=True)
        if not _local(host):
            print(f"Anybody who can reach this machine can use it, and its processors, at {there}.", flush=True)
        if browser:
            threading.Thread(target=webbrowser.open, args=(here,), daemon=True).start()
        with contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[listener])


def configured(host: str, port: int) -> uvicorn.Config:
    """Return how the application is served."""
    import uvicorn

    return uvicorn.Config(
        application(host, port),
        access_log=False,
        log_level="critical",  # malformed messages are answered, not logged
        ws_max_size=MOST_BYTES,
        # Numbers hardly shrink, and packing them takes longer than sending them to this machine.
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=2,
    )


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens at the port, 0 for any that is free; or say why there is none."""
    if not 0 <= whole(port, "port", least=0) < 1 << 16:
        raise InputError(f"port is {port}, expected a number from 0, for any that is free, to 65535")
    if not host or host.isdigit():
        raise InputError(f"host is {host!r}, expected a name or an address such as 127.0.0.1")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named: asyncio sends small messages at once only on sockets that say they are TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(64)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise InputError(f"port {port} is in use: give another one, or --port 0 for any that is free") from None
        raise InputError(f"{host}:{port} cannot be listened at ({error.strerror}): give another host or port") from None
    except (TypeError, ValueError):
        listener.close()
        raise InputError(f"host is {host!r}, expected a name or an address such as 127.0.0.1") from None
    return listener


def _local(host: str) -> bool:
    return host == "localhost" or (_address(host) and ipaddress.ip_address(host).is_loopback)
