"""A server of the explorer in a thread, with real workers, and connections to it."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from websockets.sync.client import ClientConnection, connect

from attnflow.explorer import supervisor
from attnflow.explorer.server import configured, listening

CLOUD = {"cloud": "gaussian", "n": 20, "d": 2, "seed": 3}
SOFT = {"tokens": CLOUD, "law": {"name": "softmax", "beta": 4}, "motion": {"name": "layers", "gamma": 0.2}, "until": 50}
LONG = {**SOFT, "tokens": {**CLOUD, "n": 5000}, "until": 20000}
# Only what hangs takes so long.
PATIENCE = 300.0


class Served:
    """A server in a thread."""

    def __init__(self) -> None:
        self.listener = listening("127.0.0.1", 0)
        self.port = self.listener.getsockname()[1]
        self.server = uvicorn.Server(configured("127.0.0.1", self.port))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.listener]}, daemon=True)
        self.thread.start()
        until(lambda: self.server.started)

    def close(self) -> None:
        self.server.should_exit = True
        self.thread.join(PATIENCE)
        self.listener.close()
        assert not self.thread.is_alive()

    def connect(self, **options: Any) -> ClientConnection:
        return connect(f"ws://127.0.0.1:{self.port}/ws", compression=None, max_size=None, **options)

    def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        line = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        line.putrequest("GET", path, skip_host="Host" in headers)
        for name, value in headers.items():
            line.putheader(name, value)
        line.endheaders()
        answer = line.getresponse()
        body = answer.read()
        line.close()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.03)


def workers(parent: int | None = None) -> set[int]:
    """Return the processes that the workers of a server are."""
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            line, status = (path / "cmdline").read_bytes(), (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if b"spawn_main" in line and int(status[1]) == (parent or os.getpid()) and status[0] != "Z":
            found.add(int(path.name))
    return found


def alive(process: int) -> bool:
    """Say whether a process has not ended; one that nobody has buried yet has."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def serving() -> Iterator[Served]:
    """Serve, and leave no worker behind."""
    # On a busy machine anything may take long: only tests of the limits set some.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supervisor, "LIMITS", dict.fromkeys(supervisor.LIMITS, PATIENCE))
        server = Served()
        yield server
        server.close()
    assert not workers()


class Line:
    """One connection, and what was said on it."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    def say(self, id: Any = None, do: Any = None, **message: Any) -> None:
        self.socket.send(json.dumps({"id": id, "do": do, **message}))

    def hear(self) -> tuple[dict[str, Any], bytes]:
        told = self.socket.recv(timeout=PATIENCE)
        if isinstance(told, str):
            return json.loads(told), b""
        length = int.from_bytes(told[:4], "little")
        return json.loads(told[4 : 4 + length]), told[4 + length :]

    def until(self, *kinds: str, id: int | None = None) -> list[tuple[dict[str, Any], bytes]]:
        told = [self.hear()]
        while told[-1][0]["kind"] not in kinds or (id is not None and told[-1][0]["id"] != id):
            told.append(self.hear())
        return told

    def refused(self) -> dict[str, Any]:
        answer, _ = self.hear()
        assert answer["kind"] == "refused"
        assert "\n" not in answer["sentence"]
        return answer


def came_to_its_end(told: list[dict[str, Any]]) -> bool:
    """Say whether a run ended by itself: on a busy machine its time may be over first."""
    return any(about["kind"] == "end" and "wall clock" not in about["stopped"] for about in told)
