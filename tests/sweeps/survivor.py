"""A sweep whose cells count their runs on disk, wait for files, and one of which kills its worker; also a script."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

CELLS, POISONED = 60, 50
# Cells from these numbers on wait until a file of this name is there.
GATES = {20: "first", 40: "second"}
DEADLINE = 120.0


def cell(k: int, rng: np.random.Generator, folder: str = "", poison: bool = True) -> dict[str, Any]:
    """Draw numbers from all generators; take part in the test if there is a folder."""
    if folder:
        with Path(folder, "ran", str(k)).open("a") as file:
            file.write(f"{os.getpid()}\n")
        end = time.monotonic() + DEADLINE
        for first, name in GATES.items():
            while k >= first and not Path(folder, name).exists() and time.monotonic() < end:
                time.sleep(0.01)
        time.sleep(0.02)
        if k == POISONED and poison:
            os.kill(os.getpid(), signal.SIGKILL)
    drawn = [rng.random(), np.random.random(), float(np.random.standard_normal())]  # noqa: NPY002
    return {"drawn": np.array(drawn), "phase": complex(np.cos(k), np.sin(k)), "twice": 2 * k}


if __name__ == "__main__":
    import functools

    import attnflow as af
    from attnflow.sweeps import running

    # Small boxes, so that a client can be killed between them.
    running.SECOND, running.ENOUGH = 0.1, 0.01
    # Functions of a script travel by value.
    af.sweep(
        functools.partial(cell, folder=sys.argv[1]),
        {"k": range(CELLS)},
        store=Path(sys.argv[1], "s.zarr"),
        on=sys.argv[2],
    )
