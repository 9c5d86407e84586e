"""Progress of long work: how far it is and how much time is left, on a terminal or in a notebook.

Long functions open a `task` and say how far they have come; loops and sums inside them `tick`. After two seconds one
line on standard error shows all of it, and goes away when the work is done. Where standard error is neither a terminal
nor that of a notebook nothing is shown. ``progress.show(False)``, or ``ATTNFLOW_PROGRESS=off`` in the environment,
silences it; ``show(True)``, or ``ATTNFLOW_PROGRESS=on``, asks for it anywhere. No result depends on it: where standard
error can no longer be written, as when its terminal was closed, the work goes on in silence.

>>> with task("example", total=3) as work:
...     for k in range(3):
...         work.reach(k)
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

# Seconds until the line appears, and between two of its states on a terminal and in a file.
AFTER, AGAIN, AGAIN_IN_A_FILE = 2.0, 0.2, 10.0
# Seconds between two states of progress from which a speed can be computed.
PACE = 1.0
# If more than this number of seconds are left, no number is shown.
ENDLESS = 10 * 365.25 * 86400

Says = str | Callable[[], str]
Clock = Callable[[], float]


class Screen(Protocol):
    """Where the line is shown, at most once in `again` seconds."""

    again: float

    def line(self, what: str, fraction: float | None, time: str) -> None:
        """Replace the line: what is done, which part of it, and the time passed and left."""

    def note(self, sentence: str) -> None:
        """Add a sentence that stays."""

    def clear(self) -> None:
        """Take the line away."""


class Task:
    """Work under way: `done` of 0 to 1, None if it is not known; tasks inside it make up the next `part`."""

    def __init__(self, name: str, total: float, reporter: Reporter | None) -> None:
        self.name, self.total, self.reporter = name, total, reporter
        self.done: float | None = None
        self.part = 0.0
        self._says: Says = ""
        self._notes: Callable[[], str | None] | None = None

    def reach(
        self,
        done: float | None,
        says: Says | None = None,
        *,
        part: float = 1.0,
        notes: Callable[[], str | None] | None = None,
    ) -> None:
        """Say how much of the total is done; what follows is a `part` of it.

        `says` describes it, by default "3 of 10"; `notes` may return a sentence that the user should know. Both are
        asked only when the line is drawn.
        """
        if self.reporter is None:
            return
        self.done = None if done is None else min(max(float(done) / self.total, 0.0), 1.0)
        self.part = part / self.total
        self._says = (f"{done:g} of {self.total:g}" if done is not None else "") if says is None else says
        self._notes = notes
        self.reporter.tick()

    def described(self) -> str:
        """Return the name and how far it is."""
        says = self._says if isinstance(self._says, str) else self._says()
        return f"{self.name} {says}".strip()

    def noted(self) -> str | None:
        """Return the sentence that the user should know, if there is one."""
        return None if self._notes is None else self._notes()


class Reporter:
    """The one line for all work under way in a thread; the clock counts seconds."""

    def __init__(self, screen: Screen, clock: Clock = time.monotonic, after: float = AFTER) -> None:
        self.screen, self.clock, self.after = screen, clock, after
        self.tasks: list[Task] = []
        self.due = self.begun = 0.0
        self.past: list[tuple[float, float]] = []
        self.first: tuple[float, float] | None = None
        self.said: set[str] = set()
        self.drawn = False
        self.lost = False

    def begin(self, task: Task, at_once: bool) -> None:
        """Begin a task, inside those that have begun before."""
        if not self.tasks:
            self.begun = self.clock()
            self.due, self.drawn, self.past, self.said = self.begun + self.after, False, [], set()
            self.first = None
        if at_once:
            self.due = self.begun
        self.tasks.append(task)

    def end(self, task: Task) -> None:
        """End a task, and those inside it that were left by an exception."""
        del self.tasks[self.tasks.index(task) :]
        if not self.tasks and self.drawn:
            _written(self.screen.clear)

    def tick(self) -> None:
        """Draw the line if it is time to."""
        if self.tasks and (now := self.clock()) >= self.due:
            self.due = now + self.screen.again
            self._draw(now)

    def _draw(self, now: float) -> None:
        fraction, passed = self._fraction(), now - self.begun
        for task in self.tasks:
            if (sentence := task.noted()) is not None and sentence not in self.said:
                self.said.add(sentence)
                self.note(sentence)
        spent = f"{duration(passed)} passed"
        if fraction:
            self.first = self.first or (now, fraction)
            self.past.append((now, fraction))
            left = self._left(now, fraction)
            spent += "" if left is None else f", {duration(left)} left"
        self.drawn = True
        what = ", ".join(task.described() for task in self.tasks)
        self.lost = self.lost or not _written(self.screen.line, what, fraction, spent)

    def note(self, sentence: str) -> None:
        """Add a sentence that stays to the screen, unless that was lost."""
        self.lost = self.lost or not _written(self.screen.note, sentence)

    def _fraction(self) -> float | None:
        """Return which part of all work is done, None if the outermost task does not know."""
        if self.tasks[0].done is None:
            return None
        fraction, scale = 0.0, 1.0
        for task in self.tasks:
            if task.done is None:
                break
            fraction, scale = fraction + scale * task.done, scale * task.part
        return min(fraction, 1.0)

    def _left(self, now: float, fraction: float) -> float | None:
        """Return the seconds left at the pace of the second half of the time, or of all since the first progress.

        None until progress was seen for a second: what came before the first of it, such as compiling, is no pace.
        """
        half = self.begun + (now - self.begun) / 2
        while len(self.past) > 2 and self.past[1][0] <= half:
            self.past.pop(0)
        for when, where in (self.past[0], self.first or self.past[0]):
            if fraction > where and now - when >= PACE:
                return (1 - fraction) * (now - when) / (fraction - where)
        return None


def _written(write: Callable[..., object], *what: object) -> bool:
    """Write to the screen; say whether it is still there: a terminal, a pipe or a file may be closed at any time."""
    try:
        write(*what)
    except (OSError, ValueError):
        return False
    return True


def duration(seconds: float) -> str:
    """Return a time in words that are short.

    >>> duration(7.2), duration(3700), duration(5e6), duration(1e12)
    ('0:07', '1:01:40', '58 days', 'no end in sight')
    """
    if not seconds < ENDLESS:
        return "no end in sight"
    if seconds >= 10 * 86400:
        return f"{seconds / 86400:.0f} days"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


# Whether to show it at all


_wanted: bool | None = None
_here = threading.local()


def show(wanted: bool | None) -> None:
    """Show the progress of long work, or never; None for the default: on a terminal or in a notebook.

    >>> import attnflow as af
    >>> af.progress.show(False)
    >>> af.progress.show(None)
    """
    global _wanted
    _wanted = wanted


def visible() -> bool:
    """Say whether long work shows its progress."""
    if _wanted is not None:
        return _wanted
    asked = os.environ.get("ATTNFLOW_PROGRESS", "").strip().lower()
    if asked:
        return asked not in ("0", "off", "no", "false")
    return _terminal() or in_notebook()


def _terminal() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except (OSError, ValueError):  # it is closed
        return False


def in_notebook() -> bool:
    """Say whether this is the kernel of a notebook, which has loaded IPython by itself."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell, "kernel", None) is not None


@contextmanager
def shown(screen: Screen, clock: Clock = time.monotonic, after: float = AFTER) -> Iterator[Reporter]:
    """Show the work of this thread on the given screen, by the given clock."""
    before = getattr(_here, "reporter", None)
    _here.reporter = Reporter(screen, clock, after)
    try:
        yield _here.reporter
    finally:
        _here.reporter = before


_SILENT = Task("", 1.0, None)


@contextmanager
def task(name: str, total: float = 1.0, *, at_once: bool = False) -> Iterator[Task]:
    """Begin a task that is done when it has reached the total; shown after two seconds, or at once."""
    reporter: Reporter | None = getattr(_here, "reporter", None)
    own = reporter is None and visible()
    if own:
        reporter = _here.reporter = Reporter(_screen())
    if reporter is None:
        yield _SILENT
        return
    work = Task(name, total, reporter)
    reporter.begin(work, at_once)
    try:
        yield work
    finally:
        reporter.end(work)
        if own:
            _here.reporter = None


def tick() -> None:
    """Keep the line alive from inside a loop that does not know how far it is: cheap, and silent outside a task."""
    reporter: Reporter | None = getattr(_here, "reporter", None)
    if reporter is not None:
        reporter.tick()


def note(sentence: str) -> None:
    """Say a sentence on standard error, beside the line if there is one."""
    reporter: Reporter | None = getattr(_here, "reporter", None)
    if reporter is not None and reporter.drawn:
        reporter.note(sentence)
    else:
        _written(Plain().note, sentence)


# Screens


def _screen() -> Screen:
    """Return tqdm's bar where there is one, and a plain line elsewhere."""
    if _terminal() or in_notebook():
        try:
            with warnings.catch_warnings():
                # A notebook without widgets has tqdm's bar of text, and no warning about that.
                warnings.simplefilter("ignore")
                from tqdm.auto import tqdm
        except ImportError:
            return Plain()
        return Bar(tqdm)
    return Plain()


class Plain:
    """A line of text on standard error: drawn over on a terminal, one below the other in a file."""

    def __init__(self) -> None:
        self.over, self.length = _terminal() or in_notebook(), 0
        self.again = AGAIN if self.over else AGAIN_IN_A_FILE

    def line(self, what: str, fraction: float | None, time: str) -> None:
        """Replace the line."""
        part = "" if fraction is None else f"{100 * fraction:3.0f}%, "
        text = f"attnflow: {what}: {part}{time}"
        if self.over:
            # A line that is wrapped could not be drawn over.
            text = text[: shutil.get_terminal_size().columns - 1]
        self._write(("\r" + text.ljust(self.length)) if self.over else f"{text}\n")
        self.length = len(text)

    def note(self, sentence: str) -> None:
        """Add a sentence that stays."""
        self.clear()
        self._write(f"attnflow: {sentence}\n")

    def clear(self) -> None:
        """Take the line away."""
        if self.over and self.length:
            self._write("\r" + " " * self.length + "\r")
        self.length = 0

    def _write(self, text: str) -> None:
        if sys.stderr is not None:
            sys.stderr.write(text)
            sys.stderr.flush()


class Bar:
    """The bar of tqdm, in a terminal or a notebook."""

    again = AGAIN

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.bar: Any = None

    def line(self, what: str, fraction: float | None, time: str) -> None:
        """Replace the line."""
        shape = "{desc} {percentage:3.0f}%|{bar}|{postfix}" if fraction is not None else "{desc}{postfix}"
        if self.bar is None:
            # With a delay it is not shown before it is refreshed.
            given = {"total": 1.0, "leave": False, "bar_format": shape, "dynamic_ncols": True, "delay": 1e-9}
            self.bar = self.kind(file=sys.stderr, **given)
        self.bar.bar_format, self.bar.n = shape, fraction or 0.0
        self.bar.set_description_str(what, refresh=False)
        self.bar.set_postfix_str(time, refresh=False)
        # If the screen is lost, tqdm would keep the lock that all bars share, and other threads would wait for ever.
        with self.kind.get_lock():
            self.bar.refresh(nolock=True)

    def note(self, sentence: str) -> None:
        """Add a sentence that stays."""
        self.kind.write(f"attnflow: {sentence}", file=sys.stderr)

    def clear(self) -> None:
        """Take the line away."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None
