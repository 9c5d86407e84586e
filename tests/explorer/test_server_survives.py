"""The server treated badly: messages that are none, floods, tabs that are closed at once, too many of them."""

from __future__ import annotations

import json
import os
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from served import LONG, PATIENCE, SOFT, Line, Served, serving, until, workers
from websockets.exceptions import ConnectionClosed

from attnflow.explorer.scratch import PREFIX
from attnflow.explorer.server import MOST_BYTES, MOST_CONNECTIONS


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving() as server:
        yield server


@pytest.fixture
def line(served: Served) -> Iterator[Line]:
    """A connection, with workers of its own."""
    with served.connect() as socket:
        yield Line(socket)


def test_messages_that_are_none_are_refused(line: Line) -> None:
    for text in ("", "{", "3", "null", "[]", '"run"', "[" * 100_000, '{"id":1,"do":"run","state":' + '{"a":' * 50_000,
                 '{"id": 1, "do": "text", "state": {"until": NaN}}', "9" * 5000, "\x00"):  # fmt: skip
        line.socket.send(text)
        assert line.refused()["id"] is None
    line.socket.send(b"\x00\x01")
    assert line.refused()["id"] is None
    numbers: list[Any] = [None, "1", 1.5, True, -1, 2**60, [], {}]
    for id in numbers:
        line.say(id, "run", state=SOFT)
        assert line.refused()["id"] is None
    wishes: list[Any] = [None, "", "walk", 3, [], {}, "__class__"]
    for do in wishes:
        line.say(5, do)
        assert line.refused()["id"] == 5
    states: list[Any] = [None, 3, [], {}, {**SOFT, "tokens": "/etc/passwd"}, {**SOFT, "x": 1}, {**SOFT, "until": 1e300}]
    for state in states:
        line.say(6, "run", state=state)
        assert line.refused()["id"] == 6
    line.say(6, "run", state=SOFT)
    assert line.until("end")[-1][0]["id"] == 6


def test_messages_that_are_too_large_close_the_socket(served: Served) -> None:
    with served.connect() as socket:
        # Only the head of the message, which says its length: what is sent to a server that has closed may reset the
        # connection, and then nobody hears why.
        socket.socket.sendall(struct.pack("!BBQI", 0x81, 0x80 | 127, MOST_BYTES + 1, 0))
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=PATIENCE)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009
    with served.connect() as socket:
        Line(socket).say(1, "run", state={**SOFT, "tokens": [[0]] * 200_001, "until": 2})
        assert "200000" in Line(socket).refused()["sentence"]


def test_a_flood_is_survived(line: Line) -> None:
    for id in range(3000):
        line.say(id, ("overlays", "text", "walk", "claims")[id % 4], run=1, frame=id, state=SOFT)
        if id % 4 == 2:
            assert line.until("refused", id=id)
    line.say(5000, "text", state=SOFT)
    line.until("text", id=5000)


def test_a_closed_tab_leaves_no_computation(served: Served) -> None:
    until(lambda: not workers())
    with served.connect() as socket:
        Line(socket).say(1, "run", state=LONG)
        Line(socket).say(2, "claims", state=SOFT)
        Line(socket).until("frames")
        until(lambda: len(workers()) == 2)
        # Not even a goodbye.
        socket.socket.shutdown(2)
        until(lambda: not workers())
    for _ in range(20):
        with served.connect() as quick:
            Line(quick).say(1, "run", state=LONG)
    until(lambda: not workers())


def test_a_movie_that_nobody_waits_for_leaves_no_file(served: Served) -> None:
    def files(pattern: str) -> list[Path]:
        return list(Path(tempfile.gettempdir()).glob(f"{PREFIX}{os.getpid()}-{pattern}"))

    with served.connect() as socket:
        Line(socket).say(1, "movie", format="gif", width=64, height=48, rate=25)
        until(lambda: files("*/*"))
    until(lambda: not workers())
    until(lambda: not files("*"))


@contextmanager
def admitted(served: Served) -> Iterator[Line]:
    """Connect; the pages of before may have closed only just now, and the server must notice first."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with served.connect() as socket:
            line = Line(socket)
            with suppress(ConnectionClosed):
                line.say(1, "walk")
                # It refuses this message, with its number, or the whole page, with none.
                if line.hear()[0]["id"] == 1:
                    yield line
                    return
    raise AssertionError("waited in vain")


def test_only_so_many_pages(served: Served) -> None:
    with ExitStack() as lines:
        for _ in range(MOST_CONNECTIONS):
            lines.enter_context(admitted(served))
        one_more = lines.enter_context(served.connect())
        answer = json.loads(one_more.recv(timeout=PATIENCE))
        assert (answer["kind"], answer["id"]) == ("refused", None)
        with pytest.raises(ConnectionClosed):
            one_more.recv(timeout=PATIENCE)
    with admitted(served):
        pass
