"""Dask arrays: clouds (n, d) in chunks of rows, too large for one process or on many machines.

Dask is imported when such an array is made or worked on, never before its user has asked for one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from attnflow.core.inputs import InputError, quoted, whole


def dask_array() -> Any:
    """Return the module `dask.array`."""
    return _module("dask.array")


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise InputError("this needs Dask: pip install 'attnflow[cluster]'") from None


def chunked(x: Any) -> bool:
    """Say whether x is a Dask array.

    >>> chunked([[1.0]])
    False
    """
    return any(base.__module__.startswith("dask.array") for base in type(x).__mro__)


def in_memory(x: Any) -> Any:
    """Return a Dask array, known to be small, as an array of NumPy, and anything else as it is."""
    return x.compute() if chunked(x) else x


def row_counts(chunks: Any, n: int) -> tuple[int, ...]:
    """Return how many of n rows are in each chunk, given a number of rows, or the number of rows of each.

    >>> row_counts(4, 10), row_counts((7, 3), 10)
    ((4, 4, 2), (7, 3))
    """
    if isinstance(chunks, Sequence) and not isinstance(chunks, str):
        rows = tuple(whole(count, "a number of rows in chunks", least=1) for count in chunks)
        if sum(rows) != n:
            raise InputError(f"chunks have {sum(rows)} rows in all, but n is {n}: give numbers of rows that sum to n")
        return rows
    try:
        most = whole(chunks, "chunks", least=1)
    except InputError:
        raise InputError(
            f"chunks is {quoted(chunks)}, expected a number of rows, or a tuple with the rows of each chunk: give for "
            "example 1_000_000"
        ) from None
    return (most,) * (n // most) + ((n % most,) if n % most else ())


def chunked_cloud(x: Any, name: str = "tokens") -> Any:
    """Check the shape of a Dask array of tokens; return it in float64, with whole rows in each chunk."""
    if x.dtype.kind not in "biuf":
        raise InputError(f"{name} are a Dask array of {x.dtype}, expected real numbers: convert them with x.astype")
    if x.ndim != 2 or x.shape[1] < 1:
        raise InputError(f"{name} have shape {x.shape}, expected (n, d): give n rows of d numbers")
    if any(math.isnan(count) for count in x.chunks[0]):
        raise InputError(f"{name} are a Dask array with chunks of unknown sizes: call x.compute_chunk_sizes() first")
    if x.shape[0] < 1:
        raise InputError(f"{name} are empty, with shape {x.shape}: give at least one row of at least one number")
    whole_rows = x if len(x.chunks[1]) == 1 else x.rechunk({1: -1})
    if 0 in whole_rows.chunks[0]:  # an empty chunk has no extent
        whole_rows = whole_rows.rechunk((tuple(count for count in whole_rows.chunks[0] if count), -1))
    return whole_rows.astype("float64")
