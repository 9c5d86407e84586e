"""A process that serves the messages of many pages: what happens inside it, and how it is spoken to.

Three roles share this code. "runs" moves the tokens of a page in one thread, finds overlays in another and whom one
token hears in a third, which do not wait for the end of a run; "claims" checks claims; "exports" writes movies and
data. What waits is replaced by what is newer. The pages compute in turns.
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
from attnflow.explorer import scratch, turns
from attnflow.explorer.menu_words import in_menu_words
from attnflow.explorer.protocol import Answer, FrameMemory, Session, encoded, refused

# role: for each of its threads, what that thread does.
ROLES: dict[str, tuple[tuple[str, ...], ...]] = {
    "runs": (("run",), ("overlays", "text"), ("row",)),
    "claims": (("claims",),),
    "exports": (("movie", "data"), ("frame",)),
}
# The roles that write temporary files.
WRITERS = ("exports",)
# The module that answers a kind of order.
MODULES = {
    **dict.fromkeys(("run", "overlays", "text"), "run_stream"),
    "row": "attention_row",
    "claims": "applicable_claims",
    **dict.fromkeys(("movie", "frame", "data"), "exports"),
}
# To the worker: what this is, the page it is about, the number of the job, how much of it is done already, and the
# number of bytes of the text to come. HEARD has the number of bytes that a page has taken instead of that of a job.
ORDER = struct.Struct("<BqqII")
DO, HEARD, FORGET = range(3)
# From the worker: what this is, the number of the job, and the number of bytes to come.
REPORT = struct.Struct("<BqI")
READY, BEGAN, TEXT, BINARY, OVER, WAITED = range(6)
SECONDS = struct.Struct("<d")
# A page that is behind by more than WINDOW bytes of answers is sent no more until it has taken some: a slow browser
# keeps only its own page waiting. It says what it has taken in parts of at least HEARD_AT.
WINDOW, HEARD_AT = 2_000_000, 500_000
# After how many seconds of one computation the next page computes beside it.
OVERSTAY = {"runs": turns.OVERSTAY, "claims": 2.0, "exports": 2.0}

Job = tuple[int, int, dict[str, Any]]


class Page:
    """A page: its orders that wait, the newest of each kind, what is kept of it, and what it has not heard yet."""

    def __init__(self, number: int, memory: FrameMemory) -> None:
        self.number, self.session = number, Session(memory=memory)
        self.waiting: dict[str, Job] = {}
        # The kinds of orders that a thread is at.
        self.served: set[tuple[str, ...]] = set()
        self.unheard = 0
        self.gone = False
        self.changed = threading.Condition()

    def take(self, kinds: Sequence[str]) -> Job | None:
        """Return the newest order of these kinds, if one waits."""
        with self.changed:
            found = next((kind for kind in kinds if kind in self.waiting), None)
            return None if found is None or self.gone else self.waiting.pop(found)

    @property
    def slow(self) -> bool:
        """Whether the page is behind, and is to be sent no more for the moment."""
        return self.unheard > WINDOW and not self.gone

    def sends(self, size: int) -> None:
        """Note the number of bytes that are sent to the page."""
        with self.changed:
            self.unheard += size

    def heard(self, size: int) -> None:
        """Note the number of bytes that the page has taken."""
        with self.changed:
            self.unheard -= size
            self.changed.notify_all()

    def catch_up(self) -> None:
        """Wait for a page that is behind."""
        with self.changed:
            self.changed.wait_for(lambda: not self.slow)


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
    worker = Worker(role, Reports(channel, folder))
    threading.Thread(target=worker.prepare, daemon=True).start()
    orders = channel.makefile("rb")
    # A server that is killed with answers unread resets the channel: that is an end of it like any other.
    with suppress(OSError):
        while len(head := orders.read(ORDER.size)) == ORDER.size:
            what, page, number, done, length = ORDER.unpack(head)
            text = orders.read(length)
            if len(text) < length:
                break
            if what == DO:
                worker.put(page, (number, done, json.loads(text)))
            elif what == HEARD:
                worker.heard(page, number)
            else:
                worker.forget(page)
    _end(folder)


def _end(folder: str) -> NoReturn:
    """End this process from any of its threads; computations in the others are not waited for."""
    scratch.remove(folder)
    os._exit(0)


class Worker:
    """The pages that this process serves, each with a thread for each of the things that are done for it at a time."""

    def __init__(self, role: str, reports: Reports) -> None:
        self.role, self.reports = role, reports
        self.turns = turns.Turns(OVERSTAY[role])
        self.memory = FrameMemory()
        self.pages: dict[int, Page] = {}
        self.ready = threading.Event()

    def prepare(self) -> None:
        """Load what the first order would otherwise wait for."""
        import_module(f"attnflow.explorer.{MODULES[ROLES[self.role][0][0]]}")
        self.reports.send(READY, 0)
        self.ready.set()

    def put(self, number: int, job: Job) -> None:
        """Put an order down, in place of one of its kind of the same page."""
        page = self.pages.setdefault(number, Page(number, self.memory))
        do = job[2]["do"]
        kinds = next(kinds for kinds in ROLES[self.role] if do in kinds)
        with page.changed:
            page.waiting[do] = job
            if kinds in page.served:
                return
            page.served.add(kinds)
        threading.Thread(target=self._serve, args=(page, kinds), daemon=True).start()

    def heard(self, number: int, size: int) -> None:
        """Note the number of bytes of answers that a page has taken."""
        if number in self.pages:
            self.pages[number].heard(size)

    def forget(self, number: int) -> None:
        """End what is done for a page, and let its frames go."""
        if (page := self.pages.pop(number, None)) is not None:
            with page.changed:
                page.gone = True
                page.changed.notify_all()
            self.memory.forget(page.session)

    def _serve(self, page: Page, kinds: tuple[str, ...]) -> None:
        """Serve orders of some kinds as long as there are any."""
        self.ready.wait()
        while True:
            with page.changed:
                if page.gone or not any(kind in page.waiting for kind in kinds):
                    page.served.discard(kinds)
                    return
            self._serve_one(page, kinds)

    def _serve_one(self, page: Page, kinds: tuple[str, ...]) -> None:
        job: Job | None = None

        def unwanted() -> bool:
            return page.gone or (job is not None and job[2]["do"] in page.waiting)

        def waits(seconds: float) -> None:
            if job is not None:
                self.reports.send(WAITED, job[0], SECONDS.pack(seconds))

        task = turns.Task(self.turns, page.number, unwanted, waits)
        with task.taking():
            # What was ordered while this waited for its turn is newer.
            if (job := page.take(kinds)) is None:
                return
            number, done, message = job
            self.reports.send(BEGAN, number, message["do"].encode())
            for answer in answers(message, done, page.session, task):
                body = encoded(answer)
                kind, sent = (TEXT, body.encode()) if isinstance(body, str) else (BINARY, body)
                if page.slow:
                    with task.resting():
                        page.catch_up()
                if not page.gone:
                    page.sends(len(sent))
                    self.reports.send(kind, number, sent)
        self.reports.send(OVER, number)
        # The frames of a run that began just before its page was gone.
        if page.gone:
            self.memory.forget(page.session)


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
