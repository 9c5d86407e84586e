"""A worker that serves pages as the real one does, but computes nothing: it starts at once, and its runs are steps of
nothing, some of them endless.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attnflow.explorer import worker
from attnflow.explorer.protocol import Answer
from attnflow.explorer.turns import resting

# What `until` says in place of a number of steps.
ENDLESS, HANGS, MANY_BYTES = 1, 2, 3
MEGABYTE, MEGABYTES = 1_000_000, 30


def work(channel: socket.socket, role: str, folder: str, modules: list[str]) -> None:
    """Work as a worker does."""
    vars(worker)["MODULES"] = dict.fromkeys(worker.MODULES, "protocol")
    vars(worker)["answers"] = answers
    worker.work(channel, role, folder, modules)


def answers(message: dict[str, Any], done: int, session: Any, stop: Callable[[], bool]) -> Iterator[Answer]:
    """Yield the answers to a run: its start, perhaps many frames, overlays, and its end."""
    id, until = message["id"], message.get("state", {}).get("until")
    yield {"kind": "start", "id": id}
    if message["do"] == "movie":
        # As when the page is slow.
        with resting(stop):
            threading.Event().wait()
    if until == HANGS:
        Path(os.environ["REACHED"]).touch()
        threading.Event().wait()
    while until == ENDLESS and not stop():
        # As a step that takes long; the turn is held meanwhile.
        time.sleep(0.01)
    for _ in range(MEGABYTES if until == MANY_BYTES else 0):
        yield {"kind": "frames", "id": id}, bytes(MEGABYTE)
    yield {"kind": "overlays", "id": id}
    if not stop():
        yield {"kind": "end", "id": id}
