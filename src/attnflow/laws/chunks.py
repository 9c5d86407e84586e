"""Tokens in a Dask array (n, d), chunked by rows: what every law that takes them does with their chunks.

Reductions over all tokens, such as the box around them, are computed at once, by the scheduler or the client that Dask
uses where the call is made; what each token hears stays a Dask array with the same chunks. Results do not depend on the
number of workers or threads, nor on the order in which they finish: sums over chunks are added in a tree that their
numbers alone decide.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np

from attnflow.core import inputs
from attnflow.core.inputs import SAMPLE, Array, InputError
from attnflow.core.progress import tick
from attnflow.engines.centring import ends

# Seconds between two looks at what a cluster has done.
WAIT = 0.5


class Chunks:
    """The chunks of a Dask array of tokens as tasks, each with the number of its first row."""

    def __init__(self, x: Any) -> None:
        starts = np.cumsum([0, *x.chunks[0][:-1]]).tolist()
        self.blocks = list(zip(x.to_delayed().ravel(), starts, strict=True))

    def each(self, function: Callable[..., Any], *given: Any) -> list[Any]:
        """Return a task for each chunk that calls a function of the chunk, its first row and what is given."""
        task = _task(function)
        return [task(block, start, *given) for block, start in self.blocks]


def _dask() -> Any:
    return import_module("dask")


def _task(function: Callable[..., Any]) -> Any:
    return _dask().delayed(function, pure=False, traverse=False)


def shared(value: Any) -> Any:
    """Return a value as a task of its own, so that it is sent once and not with each task that needs it."""
    return _dask().delayed(value, traverse=False)


def added(parts: Sequence[Any], add: Callable[..., Any], *given: Any) -> Any:
    """Return the task that adds up all parts by add(two parts, *given), in a tree of pairs of neighbours."""
    parts, add = list(parts), _task(add)
    while len(parts) > 1:
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = [add(pair, *given) if len(pair) == 2 else pair[0] for pair in pairs]
    return parts[0]


def computed(tasks: Sequence[Any]) -> Any:
    """Return the results of tasks."""
    return _dask().compute(*done(tasks))


def kept(function: Callable[..., Any], *given: Any) -> Any:
    """Return a task whose result is computed now, and stays where it was computed.

    It is waited for: if tasks that read the tokens again were submitted before it ended, chunks would be kept for them.
    """
    (task,) = done([_task(function)(*given)])
    return task


def done(tasks: Sequence[Any]) -> Any:
    """Return tasks, or Dask arrays, that are computed now and stay where they were; progress is shown meanwhile."""
    with import_module("dask.callbacks").Callback(posttask=lambda *_: tick()):
        held = _dask().persist(*tasks)
    distributed: Any = sys.modules.get("distributed")
    for future in distributed.futures_of(held) if distributed is not None else ():
        while not future.done():
            with suppress(TimeoutError):
                distributed.wait(future, timeout=WAIT)
            tick()
        if future.status != "finished":
            future.result()  # raises what went wrong
    return held


def mapped(x: Any, function: Callable[..., Array], *given: Any) -> Any:
    """Return the Dask array of function(chunk, *given), of the same shape and chunks."""
    return x.map_blocks(function, *given, dtype=np.float64, meta=np.empty((0, 0)))


def check_rows(x: Array, start: int) -> None:
    """Refuse a chunk with a value that is not finite, whose first row has this number."""
    # NumPy finds where the ends are faster than whether all numbers are finite.
    if not np.isfinite(ends(x)).all():
        bad = start + int(np.flatnonzero(~np.isfinite(x).all(axis=1))[0])
        raise InputError(f"tokens hold a value that is not finite in row {bad}: remove or replace that row")


def check_size(largest: float) -> None:
    """Refuse tokens whose scores would leave float64."""
    inputs.cloud([[largest]])


def too_wide(d: int, most: int, law: str) -> str:
    """Say that tokens have too many coordinates."""
    return f"tokens in a Dask array have dimension {d}, expected at most {most} for {law}: {SAMPLE}"
