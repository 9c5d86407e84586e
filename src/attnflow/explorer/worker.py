"""A process that serves the messages of one connection: what happens inside it, and how it is spoken to.

Three roles share this code. "runs" moves tokens in one thread and finds overlays in another, so that these never wait
for a run; "claims" checks claims; "exports" writes movies and data. What waits is replaced by what is newer.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

from attnflow.core import progress
from attnflow.core.inputs import InputError
from attnflow.core.installed import import_again
from attnflow.explorer import scratch
from attnflow.explorer.menu_words import in_menu_words
from attnflow.explorer.protocol import Answer, Session, encoded, refused

# role: for each of its threads, what that thread does.
ROLES: dict[str, tuple[tuple[str, ...], ...]] = {
    "runs": (("run",), ("overlays", "text")),
    "claims": (("claims",),),
    "exports": (("movie", "data"),),
}
# The roles that write temporary files.
WRITERS = ("exports",)
# The module that answers a kind of order.
MODULES = {
    **dict.fromkeys(("run", "overlays", "text"), "run_stream"),
    "claims": "applicable_claims",
    **dict.fromkeys(("movie", "data"), "exports"),
}
# To the worker: the number of the job, how much of it is done already, and the number of bytes of the text to come.
ORDER = struct.Struct("<qII")
# From the worker: what this is, the number of the job, and the number of bytes to come.
REPORT = struct.Struct("<BqI")
READY, BEGAN, TEXT, BINARY, OVER = range(5)

Job = tuple[int, int, dict[str, Any]]


class NewestOrders:
    """Orders that wait, the newest of each kind."""

    def __init__(self) -> None:
        self.waiting: dict[str, Job] = {}
        self.changed = threading.Condition()

    def put(self, job: Job) -> None:
        """Put an order down, in place of one of its kind."""
        with self.changed:
            self.waiting[job[2]["do"]] = job
            self.changed.notify_all()

    def take(self, kinds: Sequence[str]) -> Job:
        """Wait for an order of these kinds."""
        with self.changed:
            while True:
                for kind in kinds:
                    if kind in self.waiting:
                        return self.waiting.pop(kind)
                self.changed.wait()


class Reports:
    """The way back: one report at a time, whichever thread sends it."""

    def __init__(self, channel: socket.socket, folder: str) -> None:
        self.channel, self.folder, self.turn = channel, folder, threading.Lock()

    def send(self, kind: int, number: int, body: bytes = b"") -> None:
        """Send one report; when nobody listens any more, this process has no purpose."""
        try:
            with self.turn:
                self.channel.sendall(REPORT.pack(kind, number, len(body)))
                self.channel.sendall(body)
        except OSError:
            _end(self.folder)


def work(channel: socket.socket, role: str, folder: str, modules: Sequence[str] = ()) -> None:
    """Serve orders until the other end closes: it does so when the tab or the server is gone, however they went.

    What these modules register is known here too.
    The folder is for temporary files, perhaps of half a movie. This process removes it when it ends; a process
    that kills it must remove the folder itself.
    """
    # What a terminal shows is the server's.
    progress.show(False)
    if role in WRITERS:
        scratch.make(folder)
    # Ctrl-C in the terminal is for the server, which then closes the channel.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["MPLBACKEND"] = "Agg"
    warnings.simplefilter("ignore")  # the log of a server is not where users look
    import_again(modules)
    newest, reports, session = NewestOrders(), Reports(channel, folder), Session()
    threading.Thread(target=_begin, args=(role, newest, reports, session), daemon=True).start()
    orders = channel.makefile("rb")
    # A server that is killed with answers unread resets the channel: that is an end of it like any other.
    with suppress(OSError):
        while len(head := orders.read(ORDER.size)) == ORDER.size:
            number, done, length = ORDER.unpack(head)
            text = orders.read(length)
            if len(text) < length:
                break
            newest.put((number, done, json.loads(text)))
    _end(folder)


def _end(folder: str) -> NoReturn:
    """End this process from any of its threads; computations in the others are not waited for."""
    scratch.remove(folder)
    os._exit(0)


def _begin(role: str, newest: NewestOrders, reports: Reports, session: Session) -> None:
    # What the first order would otherwise wait for is loaded before there is one.
    import_module(f"attnflow.explorer.{MODULES[ROLES[role][0][0]]}")
    reports.send(READY, 0)
    for kinds in ROLES[role]:
        threading.Thread(target=_serve, args=(kinds, newest, reports, session), daemon=True).start()


def _serve(kinds: Sequence[str], newest: NewestOrders, reports: Reports, session: Session) -> None:
    while True:
        number, done, message = newest.take(kinds)
        reports.send(BEGAN, number, message["do"].encode())
        for answer in answers(message, done, session, lambda kind=message["do"]: kind in newest.waiting):  # type: ignore[misc]
            body = encoded(answer)
            kind, sent = (TEXT, body.encode()) if isinstance(body, str) else (BINARY, body)
            reports.send(kind, number, sent)
        reports.send(OVER, number)


def answers(message: dict[str, Any], done: int, session: Session, stop: Callable[[], bool]) -> Iterator[Answer]:
    """Yield the answers to a message; what cannot be done is refused in one sentence, whatever went wrong."""
    try:
        module = import_module(f"attnflow.explorer.{MODULES[message['do']]}")
        yield from module.ANSWERS[message["do"]](message, done, session, stop)
    except InputError as error:
        yield refused(message["id"], in_menu_words(str(error)))
    except MemoryError:
        yield refused(message["id"], "there is not enough memory for this: take fewer tokens or a shorter run")
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        yield refused(message["id"], f"this could not be computed ({type(error).__name__}: {said}): change something")
