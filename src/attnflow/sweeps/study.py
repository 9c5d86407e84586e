"""A whole sweep: run what is missing, or tell beforehand what that would take."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attnflow.sweeps.places import Here, Work, timed
from attnflow.sweeps.results import Results
from attnflow.sweeps.running import Sweep
from attnflow.sweeps.where import HERE, place_of


def run_missing(work: Work, results: Results, on: Any, retry_failed: bool = False, name: str = "sweep") -> Results:
    """Run the cells that results lack, where `on` says, and return the results."""
    try:
        if most := len(results.missing(retry_failed)):
            # A place that does not answer leaves no store behind.
            with place_of(on, work, most) as place:
                Sweep(results.grid, results, place, name).run(results.claim(retry_failed))
        return results
    finally:
        results.close()


def plan(work: Work, results: Results, on: Any, retry_failed: bool = False) -> dict[str, str]:
    """Return the table of what would run, from the time of some first cells in this process, and run nothing else."""
    missing, here = results.missing(retry_failed), Here(work)
    trial = Sweep(results.grid, Results(results.grid, {}, None), here)
    pace, left = trial.pace, missing.tolist()
    with _one_thread(on != HERE):
        while left and not pace.known:
            cells = left[: pace.size]
            # The first batch loads and compiles code, which may take a minute: its cell is timed again.
            left = left[len(cells) :] if pace.begun else left
            batch = timed(work, cells)
            pace.heard(cells, batch)
            trial.results.take(cells, batch.outcomes)
    here.workers = 1 if on == HERE else os.cpu_count() or 1
    if on not in (None, HERE):
        with place_of(on, work, len(missing)) as place:
            here.workers = place.workers
    trial.results.divide(trial.size)
    table, failed = trial.table(len(missing), len(trial.results.batches(missing))), trial.results.failed.ravel()
    for cell in [cell for cell in missing.tolist() if failed[cell]][:1]:
        table["failed"] = f"{results.grid.label(cell)}: {failed[cell]}"
    return table


@contextmanager
def _one_thread(wanted: bool) -> Iterator[None]:
    """Let compiled code use one thread, as it does on a worker."""
    import numba

    before = numba.get_num_threads()
    numba.set_num_threads(1 if wanted else before)
    try:
        yield
    finally:
        numba.set_num_threads(before)
