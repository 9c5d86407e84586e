"""Sweeps: a declared run against a loop over `simulate`; what the machinery costs, and what a second worker brings."""

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
# Of the loop over `simulate` a sample is timed: every EACH-th run.
BETAS, SEEDS, EACH, RTOL, UNTIL = 200, 20, 101, 1e-6, 30.0


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


def declared() -> Table:
    """The number of clusters of 32 tokens on the circle: a declared sweep, its cluster's start with it, and a loop."""
    run = {
        "tokens": {"cloud": "sphere", "n": 32, "d": 2}, "law": {"name": "softmax"},
        "motion": {"name": "sphere-flow", "rtol": RTOL}, "until": UNTIL,
    }  # fmt: skip
    over = {"beta": {"from": 0.1, "to": 9.0, "count": BETAS}, "seed": {"count": SEEDS}}
    wanted = [{"name": "clusters", "tol": 0.1}]
    rows, loop, places = [], 0.0, range(0, BETAS * SEEDS, EACH)
    begun = time.perf_counter()
    found = af.sweep(run=run, over=over, measure=wanted)
    took = time.perf_counter() - begun
    differ = 0
    for place in places:
        beta, seed = float(found.beta[place // SEEDS]), place % SEEDS
        begun = time.perf_counter()
        one = af.simulate(
            af.tokens.sphere(n=32, d=2, seed=seed), af.Softmax(beta=beta), af.SphereFlow(rtol=RTOL), until=UNTIL
        )
        count = af.measure.clusters(one.final, 0.1).count
        loop += time.perf_counter() - begun
        differ += count != found.clusters.values.ravel()[place]
    loop *= BETAS * SEEDS / len(places)
    rows.append([f"{loop:.3g} s", f"{took:.3g} s", f"{loop / took:.3g}", f"{differ} of {len(places)}"])
    print("  ".join(rows[-1]), flush=True)
    head = f"loop over simulate, {BETAS} betas x {SEEDS} seeds (from {len(places)} runs)"
    return [head, "declared sweep, with the start of its processes", "times as fast", "counts that differ"], rows


if __name__ == "__main__":
    declared()
    overhead()
