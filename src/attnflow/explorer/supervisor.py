"""The supervisor of a worker: it starts its process at need, hands it orders, ends it when it is late or unwanted.

A worker serves several pages. When its process has to end for one of them, the others are served by a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context, resource_tracker
from typing import Any

from attnflow.catalogue import REGISTERED
from attnflow.explorer import scratch
from attnflow.explorer.protocol import encoded, refused
from attnflow.explorer.worker import (
    BEGAN,
    DO,
    FORGET,
    HEARD,
    HEARD_AT,
    ORDER,
    OVER,
    READY,
    REPORT,
    SECONDS,
    TEXT,
    WAITED,
    work,
)

# How many seconds a worker may take; of claims, for each one. Runs end themselves long before this, unless they are
# caught in a single step.
LIMITS = {"run": 60.0, "overlays": 15.0, "row": 15.0, "text": 15.0, "claims": 10.0, "data": 60.0}
# Movies wait for the page that draws them, and end by themselves when it is gone.
LIMITS |= {"movie": 900.0, "frame": 60.0}
# How long something goes on that nobody waits for any more: most of it ends by itself much sooner.
GRACE = 3.0
# Only the newest of these is of interest: an older one is ended, and its answers are dropped.
SUPERSEDED = ("run", "claims")
# These end soon enough by themselves when a newer one has come.
QUICK = ("overlays", "row", "text")
# Somebody waits for each of these, also for one that a newer one replaces.
ANSWERED = ("text",)
# What a page has sent for these is gone with the process: they cannot be begun again without the page.
SENT_ONCE = ("movie", "frame")
# Workers of these roles are not kept for a next time.
SELDOM = ("exports",)
ASKED_AGAIN = "this was asked again before it was answered: wait for the new answer"
ADVICE = {
    "run": "take fewer tokens, or a shorter run",
    "overlays": "take fewer tokens, or show less",
    "movie": "make the window smaller, or ask for a GIF",
}
OTHERWISE = "take fewer tokens, or try again"

Deliver = Callable[[str | bytes], Awaitable[None]]


@dataclass(eq=False)
class Job:
    """An order of a page: what it is, and how far it has come."""

    number: int
    page: Page
    id: int
    do: str
    text: bytes
    posted: bool = False
    unwanted: bool = False
    late: bool = False
    timer: asyncio.TimerHandle | None = None
    heard: bool = False
    # Seconds for which it waited while others computed.
    waited: float = 0.0
    # Of claims: how many have their verdict, and whether the next is to be passed over.
    done: int = 0
    pass_over: bool = False
    # Whether it was begun before by a process that then ended.
    again: bool = False


class Page:
    """A page that a worker serves: what is on its way to it, in order.

    Each page has a queue of its own, so that a slow browser keeps nobody else waiting.
    """

    numbers = itertools.count(1)

    def __init__(self, deliver: Deliver, taken: Callable[[Page, int, int], None]) -> None:
        self.number, self.deliver, self.taken = next(self.numbers), deliver, taken
        self.outbox: deque[tuple[Job | None, str | bytes, int]] = deque()
        self.sending: asyncio.Task[None] | None = None
        self.gone = False

    @property
    def behind(self) -> bool:
        """Whether something is still on its way."""
        return self.sending is not None

    def send(self, job: Job | None, body: str | bytes, life: int = 0) -> None:
        """Send an answer to a job that process number `life` made, after all that is on its way."""
        if self.gone:
            return
        self.outbox.append((job, body, life))
        if self.sending is None:
            self.sending = asyncio.create_task(self._send())

    def forget(self, do: str) -> None:
        """Take answers to orders of this kind off their way."""
        kept: deque[tuple[Job | None, str | bytes, int]] = deque()
        for job, body, life in self.outbox:
            if job is None or job.do != do:
                kept.append((job, body, life))
            else:
                self.taken(self, len(body), life)
        self.outbox = kept

    async def _send(self) -> None:
        try:
            while self.outbox:
                job, body, life = self.outbox.popleft()
                if job is None or not job.unwanted:
                    await self.deliver(body)
                self.taken(self, len(body), life)
        finally:
            self.sending = None

    async def close(self) -> None:
        """Forget what is on its way."""
        self.gone = True
        self.outbox.clear()
        if self.sending is not None:
            self.sending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.sending


class Supervisor:
    """One worker, which serves several pages; it lives on the event loop."""

    numbers = itertools.count(1)

    def __init__(self, role: str) -> None:
        self.role = role
        self.pages: set[Page] = set()
        self.waiting: dict[tuple[Page, str], Job] = {}
        self.active: dict[int, Job] = {}
        # What to tell the worker beside orders: pages that are gone, and the bytes that others have taken.
        self.gone: list[int] = []
        self.heard: dict[int, int] = {}
        self.news = asyncio.Event()
        self.life: asyncio.Task[None] | None = None
        self.lives = 0
        self.process: Any = None
        self.ready = self.closing = False

    def attach(self, deliver: Deliver) -> Page:
        """Serve one more page."""
        page = Page(deliver, self._taken)
        self.pages.add(page)
        return page

    async def detach(self, page: Page) -> None:
        """Serve a page no more: what is done for it ends, the process too if it was the last page."""
        self.pages.discard(page)
        for key in [key for key in self.waiting if key[0] is page]:
            del self.waiting[key]
        for job in [job for job in self.active.values() if job.page is page]:
            self._abandon(job)
        self.gone.append(page.number)
        self.heard.pop(page.number, None)
        self.news.set()
        await page.close()
        # An order that was taken back before it began is never said to be over.
        unused = self.role in SELDOM and not self.waiting and not self.active
        if not self.pages or unused:
            await self.close()

    async def cancel(self, page: Page, sentence: str) -> None:
        """Serve a page no more, as it wishes: it is told so of each order that has no answer yet."""
        of_page = [job for job in (*self.waiting.values(), *self.active.values()) if job.page is page]
        jobs = [job for job in of_page if not (job.unwanted or job.heard)]
        await self.detach(page)
        for job in jobs:
            await page.deliver(encoded(refused(job.id, sentence)))

    def submit(self, page: Page, id: int, do: str, text: bytes) -> None:
        """Take an order; one of its kind that waits is forgotten, one under way perhaps too."""
        if do in SUPERSEDED:
            for job in self.active.values():
                if job.page is page and job.do == do:
                    self._abandon(job)
            page.forget(do)
        if do in ANSWERED and (dropped := self.waiting.get((page, do))):
            page.send(None, encoded(refused(dropped.id, ASKED_AGAIN)))
        self._enter(Job(next(self.numbers), page, id, do, text))

    def busy(self, page: Page, do: str) -> bool:
        """Say whether an order of this kind of a page waits or is under way."""
        return (page, do) in self.waiting or any(job.page is page and job.do == do for job in self.active.values())

    def unanswered(self, page: Page, do: str) -> bool:
        """Say whether an order of this kind of a page waits, or is under way without an answer so far."""
        under_way = any(job.page is page and job.do == do and not job.heard for job in self.active.values())
        return under_way or (page, do) in self.waiting

    def working(self, page: Page) -> bool:
        """Say whether an order of a page waits or is under way."""
        return any(job.page is page for job in (*self.waiting.values(), *self.active.values()))

    async def close(self) -> None:
        """End the process; orders of a page that comes meanwhile are for the next one."""
        if self.life is None or self.closing:
            return
        self.closing = True
        self.life.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.life
        self.closing, self.active = False, {}
        if self.waiting:
            self.life = asyncio.create_task(self._live())

    def _abandon(self, job: Job) -> None:
        if not job.unwanted:
            job.unwanted = True
            self._limit(job, GRACE)

    def _taken(self, page: Page, size: int, life: int) -> None:
        """Note the number of bytes of a process that a page has taken; a process that has ended need not know."""
        if life != self.lives or page.gone:
            return
        self.heard[page.number] = self.heard.get(page.number, 0) + size
        if self.heard[page.number] >= HEARD_AT:
            self.news.set()

    def _enter(self, job: Job) -> None:
        self.waiting[job.page, job.do] = job
        self.news.set()
        if not self.closing and (self.life is None or self.life.done()):
            self.life = asyncio.create_task(self._live())

    async def _live(self) -> None:
        """Keep a process going as long as there are orders for a new one after it ended."""
        while self.waiting:
            try:
                await self._one_process()
            except OSError:  # too many files or processes: there is none, and it was not ready
                self.ready = False
            broken, self.active = list(self.active.values()), {}
            if not self.ready:
                broken += self.waiting.values()
                self.waiting.clear()
            wanted = [job for job in broken if not job.unwanted]
            # Without one that was late or unwanted, nobody knows which of several has ended the process.
            known = len(broken) == 1 or any(job.late for job in broken)
            for job in wanted:
                self._disarm(job)
                if not job.late and len(broken) > 1 and self.ready and (known or not job.again):
                    self._begin_again(job)
                else:
                    self._explain(job)

    async def _one_process(self) -> None:
        """Start a process, and speak with it until it ends."""
        self.ready = False
        self.lives += 1
        self.gone, self.heard = [], {}
        folder = scratch.new_name()
        here, there = socket.socketpair()
        with there:
            self.process = _started(there, self.role, folder)
        try:
            await self._speak(here)
        finally:
            here.close()
            for job in self.active.values():
                self._disarm(job)
            self.process.kill()
            self.process.join()
            self.process.close()
            scratch.remove(folder)

    async def _speak(self, channel: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=channel)
        for job in self.waiting.values():
            job.posted = False
        self.news.set()
        posting = asyncio.create_task(self._post(writer))
        try:
            await self._listen(reader)
        finally:
            posting.cancel()
            writer.transport.abort()

    async def _post(self, writer: asyncio.StreamWriter) -> None:
        """Hand over orders as they come; a worker that does not read them makes nobody else wait."""
        with contextlib.suppress(OSError):
            while True:
                await self.news.wait()
                self.news.clear()
                for page in self.gone:
                    writer.write(ORDER.pack(FORGET, page, 0, 0, 0))
                self.gone = []
                for page in [page for page, size in self.heard.items() if size >= HEARD_AT]:
                    writer.write(ORDER.pack(HEARD, page, self.heard.pop(page), 0, 0))
                for job in [job for job in self.waiting.values() if not job.posted]:
                    job.posted = True
                    head = ORDER.pack(DO, job.page.number, job.number, job.done + job.pass_over, len(job.text))
                    writer.write(head + job.text)
                    await writer.drain()

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        """Pass on what the worker reports until it ends."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                kind, number, length = REPORT.unpack(await reader.readexactly(REPORT.size))
                body = await reader.readexactly(length)
                if kind == READY:
                    self.ready = True
                elif kind == BEGAN:
                    self._began(number, body.decode())
                elif (job := self.active.get(number)) is None:
                    continue
                elif kind == OVER:
                    self._disarm(job)
                    del self.active[number]
                    if self.role in SELDOM and not self.waiting and not self.active:
                        return
                elif kind == WAITED:
                    job.waited += SECONDS.unpack(body)[0]
                elif job.unwanted:
                    self._taken(job.page, length, self.lives)
                else:
                    self._pass_on(job, body.decode() if kind == TEXT else body)

    def _began(self, number: int, do: str) -> None:
        job = next((job for job in self.waiting.values() if job.number == number), None)
        if job is None:
            # It was replaced while the worker took it up: it must make way all the same.
            job = Job(number, NOBODY, 0, do, b"", unwanted=True)
        else:
            del self.waiting[job.page, do]
        self.active[number] = job
        self._limit(job, GRACE if job.unwanted and do not in QUICK else LIMITS[do])

    def _pass_on(self, job: Job, body: str | bytes) -> None:
        job.heard = True
        if job.do == "claims" and isinstance(body, str):
            self._limit(job, LIMITS["claims"])
            job.done += json.loads(body)["kind"] == "verdict"
        job.page.send(job, body, self.lives)

    def _begin_again(self, job: Job) -> None:
        """Give a job that ended with its process, through no fault of its own, to the next process."""
        if job.do in SENT_ONCE:
            self._explain(job)
            return
        if (job.page, job.do) in self.waiting or job.page.gone:
            if job.do in ANSWERED:
                job.page.send(None, encoded(refused(job.id, ASKED_AGAIN)))
            return
        if job.do != "claims":
            # All of it comes once more.
            job.page.forget(job.do)
        number = next(self.numbers)
        self._enter(Job(number, job.page, job.id, job.do, job.text, done=job.done, pass_over=job.pass_over, again=True))

    def _explain(self, job: Job) -> None:
        """Say why a job has no answer; after a claim that took too long, go on with the next."""
        if job.late and job.heard and job.do == "claims":
            if (job.page, job.do) not in self.waiting:
                number = next(self.numbers)
                self._enter(Job(number, job.page, job.id, job.do, job.text, done=job.done, pass_over=True))
            return
        if job.do == "movie" and (frame := self.waiting.pop((job.page, "frame"), None)):
            # Its movie is no more.
            self._explain(frame)
        seconds = f"longer than {LIMITS[job.do]:g} s"
        why = f"this took {seconds} and was ended" if job.late else "the process that computed this ended unexpectedly"
        advice = ADVICE.get(job.do, OTHERWISE) if job.late or job.do not in SENT_ONCE else "make the movie again"
        job.page.send(None, encoded(refused(job.id, f"{why}: {advice}")))

    def _limit(self, job: Job, seconds: float) -> None:
        """Give a job so much time from now on."""
        self._disarm(job)
        job.waited = 0.0
        job.timer = asyncio.get_running_loop().call_later(seconds, self._late, job)

    def _disarm(self, job: Job) -> None:
        if job.timer is not None:
            job.timer.cancel()

    def _late(self, job: Job) -> None:
        if job.page.behind:
            # The worker may be waiting for a slow browser, which is not its fault.
            self._limit(job, 1.0)
        elif job.waited > 0.0:
            # Neither is it its fault that others computed.
            self._limit(job, job.waited)
        else:
            job.late = True
            self.process.kill()


async def _nowhere(body: str | bytes) -> None:
    """Deliver to nobody."""


NOBODY = Page(_nowhere, lambda page, size, life: None)


def _started(channel: socket.socket, role: str, folder: str) -> Any:
    """Start a worker, deaf to Ctrl-C from its first instruction on."""
    # Spawned, not forked: threads of compiled sums do not survive a fork.
    modules = {found.make.__module__ for known in REGISTERED.values() for found in known.values()} - {"__main__"}
    process = get_context("spawn").Process(target=work, args=(channel, role, folder, sorted(modules)), daemon=True)
    if os.name == "posix":
        # It is started with the first process, and unblocks what was blocked. Windows has none.
        resource_tracker.ensure_running()
    with _blocked():
        process.start()
    return process


@contextlib.contextmanager
def _blocked() -> Iterator[None]:
    """Block SIGINT in this thread, and so in the processes it starts."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
