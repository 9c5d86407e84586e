"""What one softmax step of a cloud in chunks costs: seconds and bytes from n, d, beta and the number of workers.

`cost` is the model. Its constants are measured on this machine, each by itself, by `constants`. As a script this prints
them, then whole steps as predicted and as measured, then 10^10 tokens on paper: the tables of docs/cluster.md.

python benchmarks/cost_of_clouds.py
"""

from __future__ import annotations

import logging
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from memory import peak
from scipy.special import ndtri

import attnflow as af
from attnflow.engines import chunks_softmax as sums
from attnflow.engines.separable_grid import Grid

# A step reads each chunk three times, for the box, the moments and the means, and writes it once.
READS, WRITES = 3, 1
# Bytes of a worker for each coordinate of its chunk, and how many grids it holds at most if chunks are few.
BYTES, GRIDS = 160, 6
# Tasks of a step for each chunk.
TASKS = 11
# Dask lets workers give memory back whenever they can; here they keep it, which saves a third of the time.
KEEP = {f"MALLOC_{name}_THRESHOLD_": str(1 << 30) for name in ("TRIM", "MMAP")}
# The size at which constants are measured.
TOKENS, ROWS = 10**6, 250_000

# Steps to compare: n, d, beta, rows of a chunk.
CASES = [
    (10**5, 2, 1.0, 25_000), (10**6, 2, 0.25, 100_000), (10**6, 2, 4.0, 250_000), (10**6, 2, 16.0, 250_000),
    (10**7, 2, 1.0, 1_000_000), (10**5, 3, 0.25, 25_000), (10**6, 3, 1.0, 250_000), (5 * 10**6, 3, 0.25, 500_000),
]  # fmt: skip
# On paper: chunks of 64 MB in the plane, and bytes a second of one disk, and of a file system on many machines.
MANY, LARGE_ROWS = 10**10, 4_000_000
DISKS = {"one disk, 2 GB/s": 2e9, "many disks, 100 GB/s": 1e11}


@dataclass(frozen=True)
class Constants:
    """CPU seconds."""

    token: dict[int, float]  # of a token in d dimensions
    stored: float  # of a byte of the state, which is read three times and written once
    number: float  # of a number of the grid, made for each chunk and added up
    product: float  # of a unit of work in the products with matrices, once for all chunks
    chunk: float  # of a chunk, however few its tokens: files to open, tasks to start
    task: float  # of a task, in the scheduler


@dataclass(frozen=True)
class Cost:
    """CPU seconds that workers divide among them, those of one worker alone, and of the scheduler; and bytes."""

    divided: float
    alone: float
    scheduler: float
    state: float
    grid: float
    memory: float

    @property
    def moved(self) -> float:
        """Bytes that a step reads from the store and writes to it."""
        return (READS + WRITES) * self.state

    def seconds(self, workers: int, disk: float = np.inf) -> float:
        """Return the seconds of a step: workers, scheduler and disk work at the same time, and the slowest decides."""
        return max(self.divided / workers + self.alone, self.scheduler, self.moved / disk)


def grid_of(n: int, d: int, beta: float) -> Grid:
    """Return the grid of n normal tokens, whose box has half-width H with n P(|x| > H) = 1 as a rule."""
    half = float(-ndtri(0.5 / n))
    corners = np.stack([np.full(d, -half), np.full(d, half)])
    grid = sums.common_grid(corners, corners, n, beta)
    if grid is None:
        raise ValueError(f"beta = {beta} is too large for {n} normal tokens in dimension {d}")
    return grid


def cost(n: int, d: int, beta: float, rows: int, known: Constants) -> Cost:
    """Return what a step of n normal tokens costs, from store to store, in chunks of some rows."""
    grid, chunks, state = grid_of(n, d, beta), -(-n // rows), 8.0 * d * n
    numbers = (1 if grid.has_gradient else 1 + d) * grid.largest
    return Cost(
        divided=n * known.token[d] + state * known.stored + chunks * (known.chunk + numbers * known.number),
        alone=grid.work * known.product,
        scheduler=TASKS * chunks * known.task,
        state=state,
        grid=8.0 * numbers,
        memory=BYTES * d * min(rows, n) + max(GRIDS, 2 + math.log2(chunks)) * 8.0 * numbers,
    )


def cpu(compute: Callable[[], Any], rounds: int = 3) -> float:
    """Return the CPU seconds of a computation: the least of some rounds, after one to warm up."""
    times = []
    for _ in range(rounds + 1):
        begin = time.process_time()
        compute()
        times.append(time.process_time() - begin)
    return min(times[1:] or times)


def constants() -> Constants:
    """Measure the constants of the model on this machine."""
    token = {}
    for d in (2, 3):
        x, grid = af.tokens.gaussian(n=TOKENS, d=d, seed=0), grid_of(TOKENS, d, 0.5)
        field = sums.propagated(grid, sums.moments(grid, x))
        passes: list[Callable[[], Any]] = [
            partial(lambda x: (np.isfinite(x).all(), x.min(axis=0), x.max(axis=0)), x),
            partial(sums.moments, grid, x),
            partial(sums.means, field, x),
            partial(lambda x: np.isfinite(x + 0.5 * (x - x)).all(), x),
        ]
        token[d] = sum(map(cpu, passes)) / TOKENS
    grid = grid_of(TOKENS, 2, 16.0)
    whole = sums.moments(grid, af.tokens.gaussian(n=TOKENS, d=2, seed=0))
    # Chunks send and add only boxes that hold tokens.
    number = cpu(lambda: sums.added([whole, whole])) / grid.largest
    product = cpu(lambda: sums.propagated(grid, whole)) / grid.work
    law, chunks = af.Softmax(beta=0.5), TOKENS // ROWS
    chunk = step(law, 1600, 2, 100) / 16
    stored = step(law, TOKENS, 2, ROWS) - step(law, TOKENS, 2, ROWS, store=False) - chunks * chunk
    return Constants(token, stored / (16 * TOKENS), number, product, chunk, of_task())


def step(law: af.Law, n: int, d: int, rows: int, store: bool = True, steps: int = 4) -> float:
    """Return the CPU seconds of a step of normal tokens, which hardly move, in this process: the least of some."""
    import dask

    tokens = af.tokens.gaussian(n=n, d=d, seed=0, chunks=rows)
    kind, begun = type(law), list[float]()
    attend: Any = kind.attend_chunks

    def noted(self: Any, x: Any, t: float) -> Any:
        begun.append(time.process_time())
        return attend(self, x, t)

    with (
        tempfile.TemporaryDirectory() as folder,
        dask.config.set(scheduler="synchronous"),
        patch.object(kind, "attend_chunks", noted),
    ):
        place = f"{folder}/run.zarr" if store else None
        af.simulate(tokens, law, af.Layers(gamma=1e-3), until=steps + 2, record=[steps + 2], store=place)
    # What is heard first may be computed before the start is stored.
    return float(np.diff(begun[1:]).min())


def of_task(tasks: int = 2000) -> float:
    """Return the CPU seconds of a task in the process of the scheduler, which is this one."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
        ) as cluster,
        Client(cluster) as client,
    ):
        return cpu(lambda: client.gather(client.map(abs, range(tasks), pure=False)), 1) / tasks


def compared(known: Constants) -> None:
    """Print steps as predicted and as measured, each in a process of its own."""
    print("\n| n | d | beta | rows | grid, MB | CPU predicted, s | measured | ratio | memory bound, MB | measured |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for n, d, beta, rows in CASES:
        predicted = cost(n, d, beta, rows, known)
        alone = [sys.executable, __file__, *map(str, (n, d, beta, rows))]
        said = subprocess.run(alone, capture_output=True, text=True, check=True).stdout.split()
        seconds, memory, total = float(said[-2]), float(said[-1]), predicted.divided + predicted.alone
        print(
            f"| {n:g} | {d} | {beta:g} | {rows:g} | {predicted.grid / 1e6:.2g} | {total:.2g} | {seconds:.2g} "
            f"| {seconds / total:.2f} | {predicted.memory / 1e6:.0f} | {memory:.0f} |",
            flush=True,
        )


def on_paper(known: Constants) -> None:
    """Print what a step of 10^10 tokens in the plane would cost."""
    found = cost(MANY, 2, 1.0, LARGE_ROWS, known)
    print(f"\n{MANY:.0e} tokens in the plane, beta 1, chunks of {LARGE_ROWS:,} rows:")
    print(f"a state has {found.state / 1e9:.0f} GB, a step reads and writes {found.moved / 1e9:.0f} GB,")
    print(f"moments have {found.grid / 1e6:.2g} MB, a worker needs {found.memory / 1e9:.2g} GB")
    print("\n| workers | CPU | scheduler | " + " | ".join(DISKS) + " |")
    print("|---|---|---|" + "---|" * len(DISKS))
    for workers in (2, 64, 1000):
        disks = " | ".join(
            f"{found.moved / speed:.0f} s, step {found.seconds(workers, speed):.0f} s" for speed in DISKS.values()
        )
        print(f"| {workers} | {found.divided / workers + found.alone:.3g} s | {found.scheduler:.3g} s | {disks} |")


def main() -> None:
    """Measure, predict, compare."""
    if len(sys.argv) > 1:
        n, d, beta, rows = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
        step(af.Softmax(beta=beta), 1000, d, 500, steps=1)
        before = peak()
        print(step(af.Softmax(beta=beta), n, d, rows), peak() - before)
        return
    if not KEEP.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, __file__], {**os.environ, **KEEP})
    known = constants()
    print(known, flush=True)
    compared(known)
    for d in (2, 3):
        print(
            f"\nhardmax, d = {d}: {step(af.Hardmax(), TOKENS, d, ROWS) / TOKENS * 1e9:.0f} ns for a token", flush=True
        )
    on_paper(known)


if __name__ == "__main__":
    main()
