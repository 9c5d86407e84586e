"""The loop of a sweep: time the first cells, divide the others into batches of about a second, collect the outcomes."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from attnflow.core import progress
from attnflow.core.progress import Task, duration
from attnflow.sweeps.grid import Grid
from attnflow.sweeps.outcome import Batch, Outcome
from attnflow.sweeps.places import Place
from attnflow.sweeps.results import Results

# A batch takes about this number of seconds; first batches of at least ENOUGH say how long a cell takes.
SECOND, ENOUGH = 1.0, 0.2
# A cell that takes longer is a batch of its own, and is stored at once.
SLOW = 10.0
# First batches grow by this factor: many cells at once may take little longer than one.
GROWTH = 8
# Each worker gets at least this number of batches, so that all end at about the same time.
SHARES = 8

POISON = "its worker process died each time that it ran: it needs too much memory, or its compiled code crashes"


@dataclass
class Pace:
    """What first batches have shown: seconds of a cell, and bytes of a worker."""

    seconds: float = 0.0
    memory: int = 0

    def heard(self, cells: list[int], batch: Batch) -> None:
        """Take the time of a batch."""
        self.seconds, self.memory = batch.seconds / len(cells), max(self.memory, batch.memory)


@dataclass
class Sweep:
    """A sweep under way."""

    grid: Grid
    results: Results
    place: Place
    pace: Pace = field(default_factory=Pace)
    suspects: list[int] = field(default_factory=list)

    def run(self, missing: NDArray[np.int64]) -> None:
        """Run all cells that are missing."""
        with progress.task("sweep", max(1, len(missing))) as work:
            self.report(work, missing)
            rest = missing
            if self.results.box is None:
                rest = self.time_first(missing, work)
                self.results.divide(self.size(len(rest)))
            batches = self.results.batches(rest)
            if len(rest):
                say(self.table(rest, len(batches)))
            self.collect(batches, work, missing)
            for cell in self.suspects:
                self.alone(cell)
                self.report(work, missing)

    def time_first(self, missing: NDArray[np.int64], work: Task) -> NDArray[np.int64]:
        """Run first batches, larger and larger, and return the cells that are left.

        The first batch of a worker loads and compiles code, and is not counted.
        """
        size, first, rest = 1, True, missing
        while len(rest) and self.results.box is None:
            many = size * self.place.workers
            now, rest = rest[:many], rest[many:]
            self.collect([now[k : k + size].tolist() for k in range(0, len(now), size)], work, missing)
            if not first and self.pace.seconds * size >= ENOUGH:
                break
            size, first = size if first else size * GROWTH, False
        return rest

    def size(self, rest: int) -> int:
        """Return how many cells make a batch, with `rest` cells left to run."""
        size = round(min(SECOND / max(self.pace.seconds, 1e-9), len(self.grid)))
        share = -(-rest // (SHARES * self.place.workers))
        return max(1, min(size, share) if rest else size)

    def collect(self, batches: Iterable[list[int]], work: Task, missing: NDArray[np.int64]) -> None:
        """Take the outcomes of batches as they are done; cells whose workers were killed are suspects."""
        for cells, batch in self.place.run(batches):
            if batch is None:
                self.suspects += cells
            else:
                self.take(cells, batch)
            self.report(work, missing)

    def take(self, cells: list[int], batch: Batch) -> None:
        """Keep the outcomes of a batch, and say what its cells have printed and logged."""
        self.pace.heard(cells, batch)
        for cell, outcome in zip(cells, batch.outcomes, strict=True):
            repeat(outcome, self.grid.label(cell))
        self.results.take(cells, batch.outcomes)
        if self.results.box is None and self.pace.seconds > SLOW:
            self.results.divide(1)

    def alone(self, cell: int) -> None:
        """Run a suspect with nothing beside it: if it kills its workers again, it is the one."""
        for cells, batch in self.place.run([[cell]]):
            self.take(cells, batch or Batch([Outcome(failed=POISON)], 0.0, 0))

    def report(self, work: Task, missing: NDArray[np.int64]) -> None:
        """Say how far it is."""
        done = len(missing) - int(np.count_nonzero(~self.results.known.ravel()[missing]))
        work.reach(done, f"{done} of {len(missing)} cells")

    def table(self, rest: NDArray[np.int64], batches: int) -> str:
        """Return what is to come: cells, batches, time and memory."""
        axes = " x ".join(f"{size} {name}" for name, size in zip(self.grid.dimensions, self.grid.shape, strict=True))
        rows = {"cells": f"{len(self.grid)} ({axes}), {len(rest)} to run"}
        rows["batches"] = f"{batches}, on {self.place.workers} at once"
        if self.pace.seconds:
            rows["time"] = f"about {duration(self.pace.seconds * len(rest) / self.place.workers)}"
            rows["memory"] = f"{self.pace.memory / 2**20:.0f} MiB a worker so far"
        held = sum(array.nbytes for array in self.results.values.values())
        rows["results"] = f"{held / 2**20:.1f} MiB"
        if self.place.link is not None:
            rows["dashboard"] = self.place.link
        return "\n".join(f"  {name:<10}{row}" for name, row in rows.items())


def say(table: str) -> None:
    """Show the table where progress is shown."""
    if progress.visible():
        progress.note("sweep\n" + table)


def repeat(outcome: Outcome, label: str) -> None:
    """Print and log here what a cell has printed and logged elsewhere, with its parameters before each line."""
    text = "".join(part for part in outcome.heard if isinstance(part, str))
    for line in text.splitlines():
        sys.stdout.write(f"[{label}] {line}\n")
    for record in outcome.heard:
        if isinstance(record, logging.LogRecord):
            record.msg = f"[{label}] {record.msg}"
            logging.getLogger(record.name).handle(record)
