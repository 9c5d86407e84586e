"""Tokens in a Dask array (n, d), chunked by rows: what every law that takes them does with their chunks.

Reductions over all tokens, such as the box around them, are computed at once, by the scheduler or the client that Dask
uses where the call is made; what each token hears stays a Dask array with the same chunks. Results do not depend on the
number of workers or threads, nor on the order in which they finish: sums over chunks are added in a tree that their
numbers alone decide.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib import import_module
from typing import Any

import numpy as np

from attnflow.core import inputs
from attnflow.core.inputs import SAMPLE, Array, InputError
from attnflow.core.progress import tick

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
    return _dask().delayed(_Asked(function), pure=False, traverse=False)


class _Asked:
    """A function that returns what it refuses, and the first refusal that it is given, instead of raising it.

    Several chunks may be refused, in any order; the first of them is what the user hears of.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.__name__ = function, import_module("dask.utils").funcname(function)

    def __call__(self, *given: Any) -> Any:
        every = [one for part in given for one in (part if isinstance(part, list) else [part])]
        if (refused := _first_refused(every)) is not None:
            return refused
        try:
            return self.function(*given)
        except InputError as error:
            return error.with_traceback(None)  # which would keep the chunk in memory


def _first_refused(results: Sequence[Any]) -> InputError | None:
    return next((one for one in results if isinstance(one, InputError)), None)


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
    """Return the results of tasks, or raise the first refusal among them."""
    results = _dask().compute(*done(tasks))
    if (refused := _first_refused(results)) is not None:
        raise refused
    return results


def kept(function: Callable[..., Any], *given: Any) -> Any:
    """Return a task whose result is computed now, and stays where it was computed.

    It is waited for: if tasks that read the tokens again were submitted before it ended, chunks would be kept for them.
    """
    task = _task(function)(*given)
    held, refusal = done([task, _task(_nothing)(task)])
    computed([refusal])
    return held


def _nothing(result: Any) -> None:
    """Say nothing of a result that is no refusal."""


class _Along:
    """Tasks that are to be computed with others, and where they were kept then."""

    def __init__(self, tasks: Sequence[Any]) -> None:
        self.tasks, self.held = list(tasks), list[Any]()


_along: ContextVar[_Along | None] = ContextVar("along", default=None)


@contextmanager
def along(tasks: Sequence[Any]) -> Iterator[list[Any]]:
    """Let tasks be computed with the first ones inside this block: chunks that both need are read once.

    The results are in the list when the block is left.
    """
    results, waiting = list[Any](), _Along(tasks)
    before = _along.set(waiting)
    try:
        yield results
    finally:
        _along.reset(before)
    results.extend(computed(waiting.held or waiting.tasks))


def done(tasks: Sequence[Any]) -> Any:
    """Return tasks, or Dask arrays, that are computed now and stay where they were; progress is shown meanwhile."""
    waiting = _along.get()
    others = waiting.tasks if waiting is not None and not waiting.held else []
    with import_module("dask.callbacks").Callback(posttask=lambda *_: tick()):
        held = _dask().persist(*tasks, *others)
    distributed: Any = sys.modules.get("distributed")
    for future in distributed.futures_of(held) if distributed is not None else ():
        while not future.done():
            with suppress(TimeoutError):
                distributed.wait(future, timeout=WAIT)
            tick()
        if future.status != "finished":
            future.result()  # raises what went wrong
    if waiting is not None and others:
        waiting.held = list(held[len(tasks) :])
    return held[: len(tasks)]


def mapped(x: Any, function: Callable[..., Array], *given: Any) -> Any:
    """Return the Dask array of function(chunk, *given), of the same shape and chunks."""
    return x.map_blocks(function, *given, dtype=np.float64, meta=np.empty((0, 0)))


def check_rows(x: Array, start: int) -> None:
    """Refuse a chunk with a value that is not finite, whose first row has this number."""
    # NumPy finds the ends of all numbers faster than whether all are finite; they are NaN if one is.
    if not np.isfinite([x.min(), x.max()]).all():
        bad = start + int(np.flatnonzero(~np.isfinite(x).all(axis=1))[0])
        raise InputError(f"tokens hold a value that is not finite in row {bad}: remove or replace that row")


def check_size(largest: float) -> None:
    """Refuse tokens whose scores would leave float64."""
    inputs.cloud([[largest]])


def too_wide(d: int, most: int, law: str) -> str:
    """Say that tokens have too many coordinates."""
    return f"tokens in a Dask array have dimension {d}, expected at most {most} for {law}: {SAMPLE}"
