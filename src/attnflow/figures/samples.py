"""A picture of a cloud that no process holds shows some of its tokens."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.core.dask_arrays import in_memory
from attnflow.core.inputs import Array, InputError
from attnflow.geometry import hull
from attnflow.laws.chunks import Chunks, computed
from attnflow.measure import in_chunks
from attnflow.runs.trajectory import Trajectory

Indices = NDArray[np.int64]

# MOST tokens of a Dask array are drawn, chosen at random from this SEED, and those at the vertices of its hull if no
# more than NEAR points are near it.
MOST, SEED, NEAR = 1 << 17, 0, 10_000


def sample(run: Trajectory) -> tuple[Trajectory, str]:
    """Return a run in Dask with some of its tokens in memory, and a line that says which; with all, if they are few."""
    n, tokens = run.tokens.shape[1], run.tokens
    if n <= MOST:
        states = in_memory(tokens)
    else:
        drawn = np.random.default_rng(SEED).choice(n, MOST, replace=False, shuffle=False)
        rows = np.unique(np.concatenate([drawn, _outermost(tokens[0]), _outermost(tokens[-1])]))
        states = np.stack([np.concatenate(computed(Chunks(x).each(partial(_taken, rows)))) for x in tokens])
    same: dict[str, Any] = {"law": run.law, "motion": run.motion, "masses": None, "about": run.about}
    few = Trajectory(run.times, states, stopped=run.stopped, report=run.report, **same)
    return few, f"a random sample (seed {SEED}) of {n:,} tokens" if n > MOST else ""


def _outermost(x: Any) -> Indices:
    """Return the tokens at the vertices of the hull, none if these are not found or too many."""
    try:
        found = in_chunks.outermost(x, "hulls")
    except InputError:
        return np.empty(0, dtype=np.int64)
    corners: Indices = found.first[hull(found.points).indices] if len(found.points) <= NEAR else found.first[:0]
    return corners


def _taken(rows: Indices, chunk: Array, first: int) -> Array:
    """Return those of the rows that are in a chunk."""
    begin, end = np.searchsorted(rows, [first, first + len(chunk)])
    return chunk[rows[begin:end] - first]
