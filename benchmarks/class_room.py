"""A class room: many pages that drag tokens at once, and one with a long run, against one server on this machine.

    python benchmarks/class_room.py [PAGES] [SECONDS]

Each page is a WebSocket that asks as the real page does: the next run of a drag as soon as the one before is answered,
no more often than 60 times a second. Printed are how long answers took, and the memory of the server and its workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from websockets.asyncio.client import connect

FIRST = [[random.Random(k).gauss(0, 1), random.Random(k + 99).gauss(0, 1)] for k in range(24)]
STATE: dict[str, Any] = {
    "tokens": FIRST,
    "law": {"name": "softmax", "beta": 4},
    "motion": {"name": "layers", "gamma": 0.1},
    "until": 60,
}
LONG = {**STATE, "tokens": {"cloud": "gaussian", "n": 5000, "d": 2, "seed": 1}, "until": 20_000}
WANT = ["cells", "hull", "leaders"]
PICTURE = 1 / 60


@dataclass
class Asked:
    """The answers to one page: how long each took until its first picture, in seconds."""

    took: list[float] = field(default_factory=list)


def about(body: str | bytes) -> dict[str, Any]:
    """Return what a message says of itself."""
    return json.loads(body if isinstance(body, str) else body[4 : 4 + int.from_bytes(body[:4], "little")])


async def drag(address: str, seed: int, begun: asyncio.Barrier, seconds: float) -> Asked:
    """Drag a token for some seconds, and note how long each answer took."""
    asked, chance, tokens = Asked(), random.Random(seed), [list(row) for row in FIRST]
    async with connect(address, compression=None, max_size=None) as socket:
        id, end = 0, math.inf
        while time.monotonic() < end:
            id += 1
            tokens[0] = [chance.gauss(0, 1), chance.gauss(0, 1)]
            begin = time.monotonic()
            await socket.send(json.dumps({"id": id, "do": "run", "state": {**STATE, "tokens": tokens}, "want": WANT}))
            # The first run waits for the start of a process and for code to be loaded, and is not counted.
            answer = "end" if id == 1 else "overlays"
            while (told := about(await socket.recv()))["id"] != id or told["kind"] != answer:
                if told["kind"] == "refused":
                    raise SystemExit(f"page {seed} was refused: {told['sentence']}")
            if id == 1:
                await begun.wait()
                end = time.monotonic() + seconds
                continue
            asked.took.append(time.monotonic() - begin)
            await asyncio.sleep(max(0.0, begin + PICTURE - time.monotonic()))
    return asked


async def run_long(address: str, begun: asyncio.Barrier) -> int:
    """Ask for a long run over and over until this is cancelled, and return how many frames came."""
    frames, id = 0, 0
    async with connect(address, compression=None, max_size=None) as socket:
        await begun.wait()
        with contextlib.suppress(asyncio.CancelledError):
            while True:
                id += 1
                await socket.send(json.dumps({"id": id, "do": "run", "state": LONG, "want": []}))
                while (told := about(await socket.recv()))["kind"] not in ("end", "refused"):
                    frames += told["count"] if told["kind"] == "frames" else 0
    return frames


@contextmanager
def serving() -> Iterator[tuple[str, int]]:
    """Start a server in a process of its own; give the address of its socket, and the number of the process."""
    words = [sys.executable, "-m", "attnflow", "explore", "--port", "0", "--no-browser"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = next(word for word in server.stdout.readline().split() if word.startswith("http://"))
            yield f"ws{address[4:]}ws", server.pid
        finally:
            server.terminate()


def resident(process: int) -> dict[int, float]:
    """Return the resident memory of a process and its children in MB, by number."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            pages = int((path / "statm").read_text().split()[1])
        except (OSError, ValueError):
            continue
        if process in (parent, int(path.name)):
            found[int(path.name)] = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    return found


async def measured(address: str, process: int, pages: int, seconds: float) -> None:
    """Let the class work, and print what came of it."""
    begun = asyncio.Barrier(pages + 1)
    tasks = [asyncio.create_task(drag(address, seed, begun, seconds)) for seed in range(pages)]
    long = asyncio.create_task(run_long(address, begun))
    most: dict[int, float] = {}
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0.5)
        most = max(most, resident(process), key=lambda found: sum(found.values()))
    long.cancel()
    answers = [task.result().took for task in tasks]
    took = np.concatenate([np.array(one) for one in answers])
    counts = [len(one) for one in answers]
    print(f"{pages} pages for {seconds:g} s: {len(took)} answers, {len(took) / seconds:.0f} a second")
    print(f"answers of a page: {min(counts)} at least, {max(counts)} at most")
    parts = ", ".join(f"{100 * q:g} % within {np.quantile(took, q):.2f} s" for q in (0.5, 0.9, 0.99, 1))
    print(f"{parts}; frames of the long run meanwhile: {await long}")
    memory = " + ".join(f"{one:.0f}" for one in most.values())
    print(f"resident memory of the server and its workers at most: {memory} = {sum(most.values()):.0f} MB")


def main() -> None:
    """Read the arguments and measure."""
    pages, seconds = ([*sys.argv[1:], *("40", "20")[len(sys.argv) - 1 :]])[:2]
    with serving() as (address, process):
        asyncio.run(measured(address, process, int(pages), float(seconds)))


if __name__ == "__main__":
    main()
