"""The loop of a sweep: time the first cells, divide the others into batches of about a second, collect the outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from attnflow.core import progress
from attnflow.core.progress import Task, duration
from attnflow.sweeps.grid import Grid
from attnflow.sweeps.listening import repeat
from attnflow.sweeps.outcome import Batch, Outcome
from attnflow.sweeps.places import Place
from attnflow.sweeps.results import Results

# A batch takes about this number of seconds; one of at least ENOUGH says how long a cell takes.
SECOND, ENOUGH = 1.0, 0.2
# A cell that takes longer than SLOW seconds is a batch of its own, and is stored at once. The first one of a worker may
# have compiled code, and has COMPILING times as long.
SLOW, COMPILING = 10.0, 10
# First batches grow by this factor: many cells at once may take little longer than one.
GROWTH = 8
# A batch has at most the cells that are left, divided by the workers and by this: so all end at about the same time.
SHARES = 3

POISON = "its worker process died each time that it ran: it needs too much memory, or its compiled code crashes"


@dataclass
class Pace:
    """What batches have shown: seconds of a cell, bytes of a worker, and how many cells to try next.

    The first batch of a worker loads and compiles code: it counts only as long as there is no other.
    """

    seconds: float = 0.0
    memory: int = 0
    known: bool = False
    size: int = 1
    begun: set[str] = field(default_factory=set)

    def heard(self, cells: list[int], batch: Batch) -> None:
        """Take the time of a batch."""
        self.memory = max(self.memory, batch.memory)
        if batch.worker in self.begun or not self.seconds:
            self.seconds = batch.seconds / len(cells)
        if batch.worker in self.begun:
            self.known = self.known or batch.seconds >= ENOUGH
            self.size = max(1, min(GROWTH * len(cells), self.cells(SECOND)))
        self.begun.add(batch.worker)

    def cells(self, seconds: float) -> int:
        """Return how many cells take this time."""
        return max(1, round(seconds / max(self.seconds, 1e-9)))


@dataclass
class Sweep:
    """A sweep under way."""

    grid: Grid
    results: Results
    place: Place
    name: str = "sweep"
    pace: Pace = field(default_factory=Pace)
    suspects: list[int] = field(default_factory=list)

    def run(self, missing: NDArray[np.int64]) -> None:
        """Run all cells that are missing."""
        with progress.task(self.name, max(1, len(missing))) as work:
            self.report(work, missing)
            # A second round is rare: results are forgotten if a cell before them turns out to have another shape.
            while len(rest := missing[~self.results.known.ravel()[missing]]):
                self.collect(self.batches(rest), work, missing)
                suspects, self.suspects = self.suspects, []
                for cell in suspects:
                    self.alone(cell)
                    self.report(work, missing)
                self.results.divide(self.size)

    def batches(self, rest: NDArray[np.int64]) -> Iterator[list[int]]:
        """Yield small batches until the time of a cell is known, then box by box, the last boxes in pieces.

        It is asked for the next batch when there is room for it, and others may have come back since.
        """
        while len(rest) and self.results.box is None and not self.pace.known:
            size = min(self.pace.size, self.share(len(rest)))
            batch, rest = rest[:size], rest[size:]
            yield batch.tolist()
        if not len(rest):
            return
        self.results.divide(self.size)
        boxes = self.results.batches(rest)
        say(self.name, self.table(len(rest), len(boxes)))
        left = len(rest)
        for box in boxes:
            for piece in np.array_split(box, -(-len(box) // self.share(left))):
                yield piece.tolist()
            left -= len(box)

    @property
    def size(self) -> int:
        """How many cells take about a second."""
        return min(self.pace.cells(SECOND), len(self.grid))

    def share(self, left: int) -> int:
        """Return how many cells one batch may have with this number of cells left."""
        return -(-left // (SHARES * max(1, self.place.workers)))

    def collect(self, batches: Iterable[list[int]], work: Task, missing: NDArray[np.int64]) -> None:
        """Take the outcomes of batches as they are done; cells whose workers were killed are suspects."""
        # Closed at once, also after an error: batches that wait elsewhere are called off.
        with closing(self.place.run(batches)) as done:
            for cells, batch in done:
                if batch is None:
                    self.suspects += cells
                else:
                    self.take(cells, batch)
                self.report(work, missing)

    def take(self, cells: list[int], batch: Batch) -> None:
        """Keep the outcomes of a batch, and say what its cells have printed and logged."""
        slow = SLOW if batch.worker in self.pace.begun else COMPILING * SLOW
        self.pace.heard(cells, batch)
        for cell, outcome in zip(cells, batch.outcomes, strict=True):
            if outcome.said:
                repeat(outcome.said, self.grid.label(cell))
        self.results.take(cells, batch.outcomes)
        if self.results.box is None and batch.seconds / len(cells) > slow:
            self.results.divide(1)

    def alone(self, cell: int) -> None:
        """Run a suspect with nothing beside it: if it kills its workers again, it is the one."""
        for cells, batch in self.place.run([[cell]]):
            if batch is None:
                self.results.take(cells, [Outcome(failed=POISON)])
            else:
                self.take(cells, batch)

    def report(self, work: Task, missing: NDArray[np.int64]) -> None:
        """Say how far it is."""
        done = int(np.count_nonzero(self.results.known.ravel()[missing]))
        work.reach(done, f"{done} of {len(missing)} cells")

    def table(self, rest: int, batches: int) -> dict[str, str]:
        """Return what is to come: cells, batches, time and memory."""
        workers = max(1, self.place.workers)
        rows = {"cells": f"{self.grid.said}, {rest} to run", "batches": f"{batches}, {workers} at once"}
        if self.pace.seconds:
            seconds = self.pace.seconds * rest / workers
            rows["time"] = f"about {duration(seconds)}" if seconds >= 1 else "less than a second"
            if self.pace.memory:
                rows["memory"] = f"{self.pace.memory / 2**20:.0f} MiB in each process so far"
        held = sum(array.nbytes for array in self.results.values.values())
        rows["results"] = f"{held / 2**20:.1f} MiB" if held >= 1e5 else f"{held} bytes"
        if self.place.link is not None:
            rows["dashboard"] = self.place.link
        return rows


def say(name: str, table: dict[str, str]) -> None:
    """Show the table where progress is shown."""
    if progress.visible():
        progress.note("\n".join([name, *(f"  {key:<10}{row}" for key, row in table.items())]))
