"""A picture of a cloud that no process holds shows some of its tokens."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array
from attnflow.laws.chunks import Chunks, computed
from attnflow.runs.trajectory import Trajectory

# At most MOST tokens of a Dask array are drawn, chosen at random from this SEED.
MOST, SEED = 1 << 17, 0


def sample(run: Trajectory) -> tuple[Trajectory, str]:
    """Return a run of a Dask array with some of its tokens in memory, and a line that says how many."""
    n = run.tokens.shape[1]
    rows = np.arange(n)
    if n > MOST:
        rows = np.sort(np.random.default_rng(SEED).choice(n, MOST, replace=False, shuffle=False))
    states = np.stack([np.concatenate(computed(Chunks(state).each(partial(_taken, rows)))) for state in run.tokens])
    about: dict[str, Any] = {"stopped": run.stopped, "about": run.about, "report": run.report}
    few = Trajectory(run.times, states, law=run.law, motion=run.motion, masses=None, **about)
    return few, f"{MOST:,} of {n:,} tokens, chosen at random with seed {SEED}" if n > MOST else ""


def _taken(rows: NDArray[np.int64], chunk: Array, first: int) -> Array:
    """Return those of the rows that are in a chunk."""
    begin, end = np.searchsorted(rows, [first, first + len(chunk)])
    return chunk[rows[begin:end] - first]
