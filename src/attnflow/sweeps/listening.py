"""What cells print and log on a worker: kept for each cell, and repeated where the sweep was called.

What other threads of the worker print goes where it went before; but threads that were started while a cell ran belong
to that cell.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

# Text of standard output or standard error with its name, or a message to a logger.
Said = tuple[str, str] | logging.LogRecord

# A cell may print this number of characters.
MOST = 100_000


class _Listener:
    """What one thread has said since it was last asked."""

    def __init__(self, level: int) -> None:
        self.level, self.others = level, set(threading.enumerate())
        self.said: list[Said] = []
        self.length = 0

    def add(self, part: Said) -> None:
        if self.length >= MOST:
            return
        self.length += len(part[1]) if isinstance(part, tuple) else len(part.msg)
        rest = ("stderr", f"(it says more than {MOST} characters: the rest is left out)\n")
        self.said.append(part if self.length < MOST else rest)

    def taken(self) -> list[Said]:
        said, self.said, self.length = self.said, [], 0
        return said


class _Stream:
    """Standard output or standard error that gives text to the listener of the thread that writes it, if any."""

    def __init__(self, name: str) -> None:
        self.name, self.stream = name, getattr(sys, name)

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        listener = _listener()
        if listener is not None:
            listener.add((self.name, text))
        elif self.stream is not None:
            self.stream.write(text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def isatty(self) -> bool:
        return _listener() is None and self.stream is not None and bool(self.stream.isatty())

    def flush(self) -> None:
        if self.stream is not None:
            self.stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class _Log(logging.Handler):
    """Gives messages to the listener of the thread that logs, as plain text that can travel."""

    def emit(self, record: logging.LogRecord) -> None:
        listener = _listener()
        if listener is None or record.levelno < listener.level:
            return
        try:
            plain = {name: value for name, value in vars(record).items() if isinstance(value, str | int | float)}
            plain["msg"] = record.getMessage()
            if record.exc_info:
                plain["exc_text"] = logging.Formatter().formatException(record.exc_info)
            listener.add(logging.makeLogRecord(plain))
        except Exception:
            self.handleError(record)


_guard = threading.Lock()
_listeners: list[_Listener] = []
_own = threading.local()
_log = _Log()
# What is put back when nobody listens any more: the level of the root logger, and the streams.
_before: tuple[int, list[_Stream]] = (0, [])


def _listener() -> _Listener | None:
    own: _Listener | None = getattr(_own, "listener", None)
    if own is None and len(_listeners) == 1 and threading.current_thread() not in _listeners[0].others:
        own = _listeners[0]
    return own


@contextmanager
def listening(level: int) -> Iterator[None]:
    """Keep what this thread prints, or logs at this level or above, for `said`."""
    global _before
    listener, root = _Listener(level), logging.getLogger()
    with _guard:
        if not _listeners:
            _before = root.level, [_Stream("stdout"), _Stream("stderr")]
            for stream in _before[1]:
                setattr(sys, stream.name, stream)
            root.addHandler(_log)
        _listeners.append(listener)
        root.setLevel(min(other.level for other in _listeners))
    _own.listener = listener
    try:
        yield
    finally:
        _own.listener = None
        with _guard:
            _listeners.remove(listener)
            if not _listeners:
                root.removeHandler(_log)
                root.setLevel(_before[0])
                for stream in _before[1]:
                    if getattr(sys, stream.name) is stream:
                        setattr(sys, stream.name, stream.stream)


def said() -> list[Said]:
    """Return what this thread has said since it was last asked; nothing if nobody listens."""
    listener: _Listener | None = getattr(_own, "listener", None)
    return [] if listener is None else listener.taken()


def repeat(said: Iterable[Said], label: str) -> None:
    """Print and log here, in its order, what a cell has said elsewhere, with its parameters before each line."""
    texts: list[tuple[str, str]] = []
    for part in said:
        if isinstance(part, tuple):
            texts.append(part)
            continue
        _print(texts, label)
        texts = []
        logger = logging.getLogger(part.name)
        if logger.isEnabledFor(part.levelno):
            part.msg = f"[{label}] {part.msg}"
            logger.handle(part)
    _print(texts, label)


def _print(texts: list[tuple[str, str]], label: str) -> None:
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        for line in "".join(text for where, text in texts if where == name).splitlines():
            if stream is not None:
                stream.write(f"[{label}] {line}\n")
