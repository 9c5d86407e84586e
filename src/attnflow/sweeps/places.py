"""A place where batches of cells run, and the nearest one: this process."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable
from typing import Protocol

from attnflow.sweeps.outcome import Batch, Outcome

Work = Callable[[Iterable[int]], list[Outcome]]
# Some cells, and what came back; None if they have killed their workers.
Done = tuple[list[int], Batch | None]


class Place(Protocol):
    """A place where batches of cells can run."""

    @property
    def workers(self) -> int:
        """How many cells can run at once."""

    @property
    def link(self) -> str | None:
        """The address of a page that shows the workers."""

    def run(self, batches: Iterable[list[int]]) -> Generator[Done, None, None]:
        """Yield batches as they are done, in any order; the next one is asked for when there is room for it."""


class Here:
    """The process that calls: one batch after another, with all cores for attnflow's own compiled code."""

    workers = 1
    link = None

    def __init__(self, work: Work) -> None:
        self.work = work

    def run(self, batches: Iterable[list[int]]) -> Generator[Done, None, None]:
        """Yield batches in order."""
        for cells in batches:
            yield cells, timed(self.work, cells)


def timed(work: Work, cells: list[int]) -> Batch:
    """Return the outcomes of some cells, with what they took."""
    begun = time.perf_counter()
    outcomes = work(cells)
    worker = f"{socket.gethostname()} {os.getpid()} {threading.get_ident()}"
    return Batch(outcomes, time.perf_counter() - begun, _most_memory(), worker)


def _most_memory() -> int:
    """Return the most bytes this process has held; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else 1024 * size
