"""The supervisor of a worker: it starts its process at need, hands it orders, ends it when it is late or unwanted."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context, resource_tracker
from typing import Any

from attnflow.catalogue import REGISTERED
from attnflow.explorer import scratch
from attnflow.explorer.protocol import encoded, refused
from attnflow.explorer.worker import BEGAN, BINARY, ORDER, OVER, READY, REPORT, TEXT, work

# How many seconds a worker may take; of claims, for each one. Runs end themselves long before this, unless they are
# caught in a single step.
LIMITS = {"run": 60.0, "overlays": 15.0, "text": 15.0, "claims": 10.0, "data": 60.0}
# Movies wait for the page that draws them, and end by themselves when it is gone.
LIMITS |= {"movie": 900.0, "frame": 60.0}
# How long something goes on that nobody waits for any more: most of it ends by itself much sooner.
GRACE = 3.0
# Only the newest of these is of interest: an older one is ended, and its answers are dropped.
SUPERSEDED = ("run", "claims")
# Somebody waits for each of these, also for one that a newer one replaces.
ANSWERED = ("text",)
# Workers of these roles are not kept for a next time.
SELDOM = ("exports",)
ADVICE = {
    "run": "take fewer tokens, or a shorter run",
    "overlays": "take fewer tokens, or show less",
    "movie": "make the window smaller, or ask for a GIF",
}

Deliver = Callable[[str | bytes], Awaitable[None]]


@dataclass(eq=False)
class Job:
    """An order: what it is, and how far it has come."""

    number: int
    id: int
    do: str
    text: bytes
    posted: bool = False
    unwanted: bool = False
    late: bool = False
    timer: asyncio.TimerHandle | None = None
    heard: bool = False
    # Of claims: how many have their verdict, and whether the next is to be passed over.
    done: int = 0
    pass_over: bool = False


class Supervisor:
    """One worker of one connection; it lives on the event loop."""

    numbers = itertools.count(1)

    def __init__(self, role: str, deliver: Deliver) -> None:
        self.role, self.deliver = role, deliver
        self.waiting: dict[str, Job] = {}
        self.telling: set[asyncio.Future[None]] = set()
        self.active: dict[int, Job] = {}
        self.news = asyncio.Event()
        self.life: asyncio.Task[None] | None = None
        self.process: Any = None
        self.ready = self.delivering = False

    def submit(self, id: int, do: str, text: bytes) -> None:
        """Take an order; one of its kind that waits is forgotten, one under way perhaps too."""
        for job in self.active.values():
            if job.do == do and do in SUPERSEDED and not job.unwanted:
                job.unwanted = True
                self._limit(job, GRACE)
        if do in ANSWERED and (dropped := self.waiting.get(do)):
            again = refused(dropped.id, "this was asked again before it was answered: wait for the new answer")
            told = asyncio.ensure_future(self.deliver(encoded(again)))
            self.telling.add(told)
            told.add_done_callback(self.telling.discard)
        self._enter(Job(next(self.numbers), id, do, text))

    def busy(self, do: str) -> bool:
        """Say whether an order of this kind waits or is under way."""
        return do in self.waiting or any(job.do == do for job in self.active.values())

    def unanswered(self, do: str) -> bool:
        """Say whether an order of this kind waits, or is under way without an answer so far."""
        return do in self.waiting or any(job.do == do and not job.heard for job in self.active.values())

    async def cancel(self, sentence: str) -> None:
        """End the process and all that it does; who waits for an answer is told so."""
        waiting = [job for job in (*self.waiting.values(), *self.active.values()) if not (job.unwanted or job.heard)]
        await self.close()
        for job in (*self.waiting.values(), *self.active.values()):
            self._disarm(job)
        self.waiting, self.active = {}, {}
        for job in waiting:
            await self.deliver(encoded(refused(job.id, sentence)))

    async def close(self) -> None:
        """End the process."""
        if self.life is not None:
            self.life.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.life

    def _enter(self, job: Job) -> None:
        self.waiting[job.do] = job
        self.news.set()
        if self.life is None or self.life.done():
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
            for job in broken:
                self._disarm(job)
                if not job.unwanted:
                    await self._explain(job)

    async def _one_process(self) -> None:
        """Start a process, and speak with it until it ends."""
        self.ready = False
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
                for job in [job for job in self.waiting.values() if not job.posted]:
                    job.posted = True
                    writer.write(ORDER.pack(job.number, job.done + job.pass_over, len(job.text)) + job.text)
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
                elif kind in (TEXT, BINARY) and not job.unwanted:
                    await self._pass_on(job, body.decode() if kind == TEXT else body)

    def _began(self, number: int, do: str) -> None:
        job = self.waiting.get(do)
        if job is not None and job.number == number:
            del self.waiting[do]
        else:
            # It was replaced while the worker took it up: it must make way all the same.
            job = Job(number, 0, do, b"", unwanted=True)
        self.active[number] = job
        self._limit(job, GRACE if job.unwanted and do in SUPERSEDED else LIMITS[do])

    async def _pass_on(self, job: Job, body: str | bytes) -> None:
        job.heard = True
        if job.do == "claims" and isinstance(body, str):
            self._limit(job, LIMITS["claims"])
            job.done += json.loads(body)["kind"] == "verdict"
        self.delivering = True
        try:
            await self.deliver(body)
        finally:
            self.delivering = False

    async def _explain(self, job: Job) -> None:
        """Say why a job has no answer; after a claim that took too long, go on with the next."""
        if job.late and job.heard and job.do == "claims":
            if job.do not in self.waiting:
                self._enter(Job(next(self.numbers), job.id, job.do, job.text, done=job.done, pass_over=True))
            return
        seconds = f"longer than {LIMITS[job.do]:g} s"
        why = f"this took {seconds} and was ended" if job.late else "the process that computed this ended unexpectedly"
        advice = ADVICE.get(job.do, "take fewer tokens, or try again")
        await self.deliver(encoded(refused(job.id, f"{why}: {advice}")))

    def _limit(self, job: Job, seconds: float) -> None:
        """Give a job so much time from now on."""
        self._disarm(job)
        job.timer = asyncio.get_running_loop().call_later(seconds, self._late, job)

    def _disarm(self, job: Job) -> None:
        if job.timer is not None:
            job.timer.cancel()

    def _late(self, job: Job) -> None:
        if self.delivering:
            # The worker may be waiting for a slow browser, which is not its fault.
            self._limit(job, 1.0)
            return
        job.late = True
        self.process.kill()


def _started(channel: socket.socket, role: str, folder: str) -> Any:
    """Start a worker, deaf to Ctrl-C from its first instruction on."""
    # Spawned, not forked: threads of compiled sums do not survive a fork.
    modules = {found.make.__module__ for known in REGISTERED.values() for found in known.values()} - {"__main__"}
    process = get_context("spawn").Process(target=work, args=(channel, role, folder, sorted(modules)), daemon=True)
    # It is started with the first process, and unblocks what was blocked.
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
