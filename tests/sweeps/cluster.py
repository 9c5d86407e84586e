"""A real Dask cluster, started from the command line: a scheduler and workers, processes that can be killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# No test waits as long, on however busy a machine.
DEADLINE = 120.0

SETTINGS = {
    # A task that was on a worker that died is given up: few workers have to be started again.
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0",
    "ATTNFLOW_PROGRESS": "off",
    # As Dask has it for workers that it starts by itself.
    "OPENBLAS_NUM_THREADS": "1",
}


def wait_for(what: str, seen: Callable[[], Any]) -> Any:
    """Return what is seen as soon as it is true."""
    end = time.monotonic() + DEADLINE
    while not (found := seen()):
        if time.monotonic() > end:
            raise TimeoutError(f"waited too long for {what}")
        time.sleep(0.02)
    return found


class Cluster:
    """Processes in a folder, where they write what they say; workers that died are started again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "scheduler.json"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        self.ended = threading.Event()
        self.mending = threading.Thread(target=self._mend)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a process of Dask's command line."""
        with (self.folder / f"{words[0]}-{len(self.processes)}.txt").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *words, "--scheduler-file", str(self.file), "--no-dashboard"],
                cwd=self.folder,
                env={**os.environ, **SETTINGS},
                stdout=log,
                stderr=log,
            )
        self.processes.append(process)
        return process

    def begin(self, workers: int) -> None:
        """Start a scheduler, whose address is in a file, and workers."""
        self.start("scheduler", "--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0")
        wait_for("the scheduler", lambda: self.file.exists() and self.file.read_text().endswith("}"))
        self.workers = [self._worker() for _ in range(workers)]
        self.mending.start()

    @property
    def address(self) -> str:
        """Where the scheduler listens."""
        return str(json.loads(self.file.read_text())["address"])

    def end(self) -> None:
        """End all processes."""
        self.ended.set()
        if self.mending.is_alive():
            self.mending.join()
        for process in self.processes:
            process.kill()
            process.wait()

    def _worker(self) -> subprocess.Popen[bytes]:
        """Start a worker of one thread."""
        return self.start(
            "worker", "--host", "127.0.0.1", "--nthreads", "1", "--no-nanny", "--memory-limit", "0",
            "--local-directory", str(self.folder), "--death-timeout", str(DEADLINE),
        )  # fmt: skip

    def _mend(self) -> None:
        while not self.ended.wait(0.05):
            self.workers = [self._worker() if worker.poll() is not None else worker for worker in self.workers]


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    """Yield a cluster, all of whose processes end afterwards."""
    started = Cluster(folder)
    try:
        started.begin(workers)
        yield started
    finally:
        started.end()
