"""Turns at computing: the pages that one process serves compute in a circle, each for a short time.

A thread that computes for a page holds a turn. Between two steps of a run it passes the turn on, if it has held it for
`SLICE` seconds. A step that takes much longer does not keep the others waiting: after `OVERSTAY` seconds the next page
gets a turn beside it. A task that nobody wants any more gets no turn, and ends.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

# How long a page computes while others wait, in seconds.
SLICE = 0.03
# A turn that was not passed on for this time no longer keeps the next page waiting.
OVERSTAY = 0.1
# How often a thread that waits looks around, and how often it says that it waits.
LOOK, TELL = 0.1, 0.25


@dataclass(eq=False)
class Turn:
    """The turn of one thread: since when it is held, by `time.monotonic`, or None while it is waited for."""

    page: int
    since: float | None = None
    given: threading.Event = field(default_factory=threading.Event)


class Turns:
    """Who computes now, and which pages wait, in the order in which they are served."""

    def __init__(self, overstay: float = OVERSTAY, slice: float = SLICE) -> None:
        self.overstay, self.slice = overstay, slice
        self.lock = threading.Lock()
        self.waiting: dict[int, deque[Turn]] = {}
        self.holding: set[Turn] = set()

    def take(self, turn: Turn, unless: Callable[[], bool], waits: Callable[[float], None]) -> None:
        """Wait for a turn, or until nobody wants it any more; `waits` is told the seconds in some parts."""
        begin = told = time.monotonic()
        turn.given.clear()
        with self.lock:
            self.waiting.setdefault(turn.page, deque()).append(turn)
            self._give()
        while not turn.given.wait(min(LOOK, self.overstay)):
            now, wanted = time.monotonic(), not unless()
            with self.lock:
                self._give()
                if not wanted and not turn.given.is_set():
                    self._forget(turn)
                    return
            if now - told > TELL:
                waits(now - told)
                told = now
        if told > begin:
            waits(time.monotonic() - told)

    def leave(self, turn: Turn) -> None:
        """Give a turn back; what is left of it is for another thread of the same page."""
        with self.lock:
            self._leave(turn)

    def pass_on(self, turn: Turn) -> bool:
        """Give a turn back if it was held long enough and is wanted; return whether it was."""
        with self.lock:
            held = turn.since is not None and time.monotonic() - turn.since >= self.slice
            if not held or not (self.waiting or self.holding - {turn}):
                return False
            self._leave(turn)
            return True

    def _leave(self, turn: Turn) -> None:
        self.holding.discard(turn)
        since, turn.since = turn.since, None
        others = self.waiting.get(turn.page)
        if others and since is not None and time.monotonic() - since < self.slice and not self.holding:
            self._hold(others[0], since)
        else:
            self._give()

    def _give(self) -> None:
        """Give a turn to the first page that waits, if nobody holds one who may still keep it."""
        now = time.monotonic()
        while self.waiting and all(now - (turn.since or now) >= self.overstay for turn in self.holding):
            self._hold(next(iter(self.waiting.values()))[0], now)

    def _hold(self, turn: Turn, since: float) -> None:
        self._forget(turn)
        turn.since = since
        self.holding.add(turn)
        turn.given.set()

    def _forget(self, turn: Turn) -> None:
        """Take a turn out of those that wait; its page is then the last one in the circle."""
        others = self.waiting.pop(turn.page)
        others.remove(turn)
        if others:
            self.waiting[turn.page] = others


class Task:
    """A task of a page, called to ask whether it is to stop; its threads compute in turns, and pass them on when it is.

    >>> turns = Turns()
    >>> task = Task(turns, page=1, unwanted=lambda: False)
    >>> with task.taking():
    ...     (task(), len(turns.holding))
    (False, 1)
    """

    def __init__(
        self,
        turns: Turns,
        page: int,
        unwanted: Callable[[], bool],
        waits: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self.turns, self.page, self.unwanted = turns, page, unwanted
        self.own = threading.local()
        self.waited, self._tell = 0.0, waits

    def __call__(self) -> bool:
        """Say whether nobody waits for this any more; let others compute first, if they wait for that."""
        turn: Turn | None = getattr(self.own, "turn", None)
        if turn is not None and not self.unwanted() and self.turns.pass_on(turn):
            self.turns.take(turn, self.unwanted, self._waits)
        return self.unwanted()

    def _waits(self, seconds: float) -> None:
        self.waited += seconds
        self._tell(seconds)

    @contextmanager
    def taking(self, unless: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Hold a turn in this thread."""
        self.own.turn = turn = Turn(self.page)
        self.turns.take(turn, lambda: unless() or self.unwanted(), self._waits)
        try:
            yield
        finally:
            self.own.turn = None
            self.turns.leave(turn)

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Hold no turn while this thread waits for something else."""
        turn: Turn | None = getattr(self.own, "turn", None)
        if turn is not None:
            self.turns.leave(turn)
        self.own.turn = None
        try:
            yield
        finally:
            if turn is not None:
                self.turns.take(turn, self.unwanted, self._waits)
                self.own.turn = turn


def taking(stop: Callable[[], bool], unless: Callable[[], bool] = lambda: False) -> AbstractContextManager[None]:
    """Return a context in which this thread holds a turn, if `stop` is of a task that takes turns."""
    return stop.taking(unless) if isinstance(stop, Task) else nullcontext()


def resting(stop: Callable[[], bool]) -> AbstractContextManager[None]:
    """Return a context in which this thread holds no turn."""
    return stop.resting() if isinstance(stop, Task) else nullcontext()


def waited(stop: Callable[[], bool]) -> float:
    """Return how many seconds a task has waited for turns."""
    return stop.waited if isinstance(stop, Task) else 0.0
