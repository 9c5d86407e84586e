"""Sweeps: what the machinery costs beside the cells, and what a second worker brings."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attnflow as af

Table = tuple[list[str], list[list[str]]]

CELLS, SECONDS = 400, 0.05


@contextmanager
def workers(count: int) -> Iterator[Any]:
    """Yield a client of workers of one thread, which have loaded what cells need."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(count)
        af.sweep(waits, {"k": range(8 * count)}, on=client)
        yield client


def waits(k: int) -> float:
    """Wait, and return the seconds that it took."""
    begun = time.perf_counter()
    time.sleep(SECONDS)
    return time.perf_counter() - begun


def computes(k: int, loops: int) -> float:
    """Compute, and return the seconds that it took."""
    begun = time.perf_counter()
    total = 0
    for j in range(loops):
        total += j
    return time.perf_counter() - begun


def loops_of_a_cell() -> int:
    """Return how many loops take the time of a cell on this machine."""
    return round(10**6 * SECONDS / min(computes(0, 10**6) for _ in range(5)))


def wall(cell: Callable[..., float], over: dict[str, Any], on: Any) -> tuple[float, float]:
    """Return the seconds of a sweep with a store, and the sum of those of its cells."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        found = af.sweep(cell, over, on=on, store=Path(folder, "sweep.zarr"))
        return time.perf_counter() - begun, float(found[cell.__name__].values.sum())


def overhead() -> Table:
    """A sweep of cells of 50 ms, against its cells alone shared by two; and two workers against one."""
    loops, rows, alone = loops_of_a_cell(), [], 0.0
    for count in (1, 2):
        with workers(count) as client:
            took, cells = wall(waits, {"k": range(CELLS)}, client)
            rows.append([f"{count}, waiting", f"{took:.3g} s", f"{100 * (count * took / cells - 1):.1f} %", ""])
            took, cells = wall(computes, {"k": range(CELLS), "loops": [loops]}, client)
            alone = alone or took
            ratio = f"{100 * (count * took / cells - 1):.1f} %"
            rows.append([f"{count}, computing", f"{took:.3g} s", ratio, f"{alone / took:.2f}"])
            print("  ".join(rows[-2]), "  ".join(rows[-1]), sep="\n", flush=True)
    return [f"workers, {CELLS} cells of 50 ms", "time", "beside the cells", "times as fast as one"], rows


if __name__ == "__main__":
    overhead()
