"""The server of the explorer: the page, and a WebSocket behind it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import socket
import sys
import threading
import time
import webbrowser
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from attnflow.catalogue import REGISTERED, as_data
from attnflow.core.inputs import InputError, whole
from attnflow.core.installed import of_this_process
from attnflow.explorer import picture_frames
from attnflow.explorer.audience import LEADING, Audience, drawn, own_address, printed
from attnflow.explorer.hosts import Guard, address, local
from attnflow.explorer.pool import Place, Pool
from attnflow.explorer.protocol import encoded, refused
from attnflow.explorer.worker import ROLES

if TYPE_CHECKING:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import HTTPConnection, Request
    from starlette.websockets import WebSocket

    from attnflow.explorer.stories import Story

MOST_CONNECTIONS = 100
NO_ROOM = 1013  # the code with which a WebSocket is closed then
# A page that asks for nothing for IDLE seconds gives its place back, and says so. When all places are taken, the
# page that has been silent for longest gives its own sooner.
IDLE, IDLE_WHEN_FULL = 600.0, 60.0
RESTED = 4000  # the code with which its WebSocket is closed
MOST_BYTES = 2_000_000
LARGEST_ID = 2**53
TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml",
}
# Who may frame the page of a notebook: the notebooks of this machine, in a browser or in an editor.
LOCAL_PAGES = "http://localhost:* http://127.0.0.1:* https://localhost:* https://127.0.0.1:* vscode-webview:"
ROLE_OF = {do: role for role, threads in ROLES.items() for kinds in threads for do in kinds}
# One of these at a time: they take long, and no newer one makes them superfluous.
ONE_AT_A_TIME = ("movie", "data")
# Ends what is being made for files.
CANCEL = "cancel"


def application(host: str, port: int, audience: Audience | None = None, story: Story | None = None) -> Starlette:
    """Return the application: the page at /, its files, the catalogue, presets and stories, and the socket at /ws."""
    audience = audience or Audience()
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.responses import Response
    from starlette.routing import Route, WebSocketRoute

    def respond(request: Request, body: bytes, ending: str) -> Response:
        framed = audience.kind == "notebook" and audience.leads(key_of(request))
        return Response(body, headers={"Content-Type": TYPES[ending], **headers(request.headers["host"], framed)})

    def page(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        body = _files().get(name)
        if body is None:
            return Response("There is no such page.\n", 404, headers(request.headers["host"]), "text/plain")
        return respond(request, body.read_bytes(), name.rpartition(".")[2])

    connections: set[Connection] = set()
    pool = Pool()

    async def talk(websocket: WebSocket) -> None:
        await websocket.accept()
        connection = Connection(websocket, pool, audience, connections)
        if len(connections) >= MOST_CONNECTIONS:
            silent = max(connections, key=lambda one: one.silent())
            if silent.silent() > IDLE_WHEN_FULL:
                connections.discard(silent)
                await silent.rest()
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
        Route("/stories.json", lambda request: respond(request, _stories(story), "json")),
        Route("/audience.json", lambda request: respond(request, _audience(audience, request), "json")),
        *([Route("/link.svg", lambda request: respond(request, drawn(audience.link), "svg"))] if audience.link else []),
        WebSocketRoute("/ws", talk),
    ]
    return Starlette(routes=routes, middleware=[Middleware(Guard, host=host, port=port)])


def key_of(request: HTTPConnection) -> str:
    """Return the key in the address of a request."""
    return request.query_params.get("key", "")


def _audience(audience: Audience, request: Request) -> bytes:
    return json.dumps(audience.about(key_of(request)), allow_nan=False).encode()


def headers(host: str, framed: bool = False) -> dict[str, str]:
    """Return what every answer says: nothing from other hosts, no guessing of types, no old copies.

    Neither may it be framed, but by pages of this machine if it is `framed`: the page of a notebook is.
    """
    ancestors = LOCAL_PAGES if framed else "'none'"
    # Some browsers do not take 'self' to mean the socket of the same host.
    policy = (
        f"default-src 'self'; connect-src 'self' ws://{host} wss://{host} blob:; img-src 'self' blob: data:; "
        "media-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'none'; "
        f"frame-ancestors {ancestors}"
    )
    return {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        **({} if framed else {"X-Frame-Options": "DENY"}),
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
    from attnflow.explorer.pairs import refusals
    from attnflow.explorer.state import FIRST, outside, shown
    from attnflow.figures.style import DARK, LIGHT, shades

    parts = as_data()
    for kind in ("law", "motion"):
        for one in parts[kind]:
            one["shown"] = one["name"] in shown(kind)
            one["around"] = outside(kind, one["name"]) if one["shown"] else []
            one["refuses"] = refusals(one["name"]) if kind == "motion" and one["shown"] else {}
    colours = {name: {**vars(tone), "shades": shades(tone)} for name, tone in (("light", LIGHT), ("dark", DARK))}
    return str(encoded({**parts, "first": FIRST, "colours": colours})).encode()


@cache
def _presets() -> bytes:
    from attnflow.explorer.presets import PRESETS

    return json.dumps([preset.data for preset in PRESETS], allow_nan=False).encode()


@cache
def _stories(own: Story | None) -> bytes:
    from attnflow.explorer.stories import together

    return json.dumps(together(own), allow_nan=False).encode()


class Connection:
    """One open page, with its places at the workers that compute for it."""

    def __init__(self, websocket: WebSocket, pool: Pool, audience: Audience, others: set[Connection]) -> None:
        self.websocket, self.pool, self.audience, self.others = websocket, pool, audience, others
        self.key = key_of(websocket)
        self.places: dict[str, Place] = {}
        self.heard = time.monotonic()
        self.news: str | bytes | None = None
        self.telling: asyncio.Task[None] | None = None

    def silent(self) -> float:
        """Return for how many seconds the page has asked for nothing, and nothing was computed for it."""
        if any(place.working for place in self.places.values()):
            self.heard = time.monotonic()
        return time.monotonic() - self.heard

    async def rest(self) -> None:
        """Close a page that asks for nothing: it says so, and comes back when it is used."""
        with contextlib.suppress(RuntimeError, OSError):
            await self.websocket.close(RESTED)

    async def _rest_when_silent(self) -> None:
        while (left := IDLE - self.silent()) > 0.0:
            await asyncio.sleep(left)
        await self.rest()

    async def serve(self) -> None:
        """Take messages until the page closes, or has been silent for long."""
        resting = asyncio.create_task(self._rest_when_silent())
        try:
            await self._serve()
        finally:
            resting.cancel()

    async def _serve(self) -> None:
        while (event := await self.websocket.receive())["type"] != "websocket.disconnect":
            self.heard = time.monotonic()
            try:
                id, do, text = read_event(event)
            except Refusal as refusal:
                await self.deliver(encoded(refused(refusal.id, str(refusal))))
                continue
            if do == CANCEL:
                await self.cancel(id)
                continue
            if do in LEADING:
                await self._lead(id, do, text)
                continue
            if (place := self.places.get(ROLE_OF[do])) is None:
                place = self.places[ROLE_OF[do]] = self.pool.place(ROLE_OF[do], self.deliver)
            if do in ONE_AT_A_TIME and place.busy(do):
                sentence = f"a {do} file is being made, expected one at a time: wait for it"
                await self.deliver(encoded(refused(id, sentence)))
            elif do == picture_frames.DO and (not place.busy("movie") or place.unanswered(do)):
                sentence = "a frame was sent without a movie, or before the last one was taken: ask for a movie first"
                await self.deliver(encoded(refused(id, sentence)))
            else:
                place.submit(id, do, text)

    async def cancel(self, id: int) -> None:
        """End what is being made for files of this page, with its temporary files."""
        if place := self.places.pop(ROLE_OF["movie"], None):
            await place.cancel("this was cancelled, as you asked: begin again if you want it")
        await self.deliver(encoded({"kind": "cancelled", "id": id}))

    async def _lead(self, id: int, do: str, text: bytes) -> None:
        """Take what the page that leads says, and let the others know."""
        try:
            await self.audience.take(self.key, do, json.loads(text))
        except InputError as error:
            await self.deliver(encoded(refused(id, str(error))))
            return
        await self.deliver(encoded({"kind": "taken", "id": id, "version": self.audience.version}))
        news = encoded(self.audience.news())
        # Nobody waits for a page that does not read.
        for other in self.others - {self}:
            other.tell(news)

    def tell(self, news: str | bytes) -> None:
        """Tell the page the newest of what changed for all, as soon as it has taken the news before."""
        self.news = news
        if self.telling is None:
            self.telling = asyncio.create_task(self._tell())

    async def _tell(self) -> None:
        while (news := self.news) is not None:
            self.news = None
            await self.deliver(news)
        self.telling = None

    async def deliver(self, body: str | bytes) -> None:
        """Send a message; wait while the browser is slow, and forget it if the page is gone."""
        from starlette.websockets import WebSocketDisconnect

        with contextlib.suppress(WebSocketDisconnect, RuntimeError, OSError):
            if isinstance(body, str):
                await self.websocket.send_text(body)
            else:
                await self.websocket.send_bytes(body)

    async def close(self) -> None:
        """End all computations of this page."""
        if self.telling is not None:
            self.telling.cancel()
        for place in self.places.values():
            await place.leave()


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
    if not isinstance(do, str) or do not in (*ROLE_OF, *LEADING, CANCEL):
        raise Refusal(f"a message asks for {do!r:.40}, expected one of {', '.join(ROLE_OF)}", id)
    return id, do, text.encode()


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def serve(
    host: str | None = None,
    port: int = 8765,
    browser: bool = True,
    *,
    for_class: bool = False,
    story: str | None = None,
) -> None:
    """Serve the explorer until Ctrl-C: to this machine alone, or to a class, whose pages begin with the teacher's.

    The story of a file is opened, if one is given.
    """
    host = ("0.0.0.0" if for_class else "127.0.0.1") if host is None else host
    check_installed()
    import uvicorn

    from attnflow.explorer.story_facts import true_story

    own = None if story is None else true_story(story)
    with listening(host, port) as listener:
        port = listener.getsockname()[1]
        audience = Audience("class", link=address(host, port, own_address())) if for_class else Audience()
        server = uvicorn.Server(configured(host, port, audience, own))
        # All is imported before the address is said: Ctrl-C within an import can be lost.
        server.config.load()
        place = "" if own is None else f"#story/{own.name}"
        here, there = address(host, port), f"{address(host, port, socket.gethostname())}{place}"
        if for_class:
            # Before anything is said: without the code there is no class.
            code = printed(audience.link, sys.stdout.encoding)
            here += f"?key={audience.key}"
        here += place
        print(f"The explorer is at {here} (Ctrl-C ends it).", flush=True)
        for name in (name for known in REGISTERED.values() for name in known if of_this_process(known[name].make)):
            print(f"It does not show {name}, which its processes cannot import: define it in a module.", flush=True)
        if for_class:
            print(f"That is the teacher's page: its address is a secret. The class opens {audience.link}", flush=True)
            # In a file or a pipe its colours would be noise.
            print(code if sys.stdout.isatty() else "", end="", flush=True)
        if not local(host):
            print(f"Anybody who can reach this machine can use it, and its processors, at {there}.", flush=True)
        if browser:
            threading.Thread(target=webbrowser.open, args=(here,), daemon=True).start()
        with contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[listener])


def check_installed() -> None:
    """Refuse to serve without the libraries for it."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
        import websockets  # noqa: F401
    except ImportError:
        raise InputError("the explorer needs Starlette, uvicorn and websockets: pip install 'attnflow[web]'") from None


def configured(host: str, port: int, audience: Audience | None = None, story: Story | None = None) -> uvicorn.Config:
    """Return how the application is served."""
    import uvicorn

    from attnflow.explorer.timed_http import TimedHTTP

    return uvicorn.Config(
        application(host, port, audience, story),
        access_log=False,
        log_level="critical",  # malformed messages are answered, not logged
        ws_max_size=MOST_BYTES,
        # Numbers hardly shrink, and packing them takes longer than sending them to this machine.
        ws_per_message_deflate=False,
        http=TimedHTTP,
        # Seconds between two requests, between two pings of a WebSocket, and for the answer to a ping.
        timeout_keep_alive=5,
        ws_ping_interval=20.0,
        ws_ping_timeout=30.0,
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
        # On Windows SO_REUSEADDR would let a second server take a port in use, and another option forbids it.
        reuse = getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)
        listener.setsockopt(socket.SOL_SOCKET, reuse, 1)
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
