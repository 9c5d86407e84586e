# mypy: ignore-errors
"""The listed engine: groups of queries, each of which hears the sources on its own list, and no others.

A part of a flow's tokens that takes a step alone knows beforehand whom it can hear (`motions.solvers.heard_sources`).
Lists come as the `Lists` of a `Memory`; none is empty. Sums are those of the tree's leaves: up to 1e-12.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from attnflow.core.inputs import Array
from attnflow.engines import LARGEST_GAIN, Lists, Memory, fused
from attnflow.engines.centring import about_centre
from attnflow.engines.kernels import LOG2E, compiled
from attnflow.engines.simd import WIDTH, load, log2, muladd, splat, store
from attnflow.engines.tree_evaluation import BLOCK, add_pairs, add_pairs_of_keys, highest


class _Points(NamedTuple):
    """Points as the tree's leaves have them: (d, n), with room for whole vectors after the last."""

    points: Array
    log2_masses: Array
    axes: Any


class _Room(NamedTuple):
    sums: Array
    field: Array
    own: Array


@about_centre
def softmax(
    queries: Array, keys: Array, values: Array, log_masses: Array | None, gain: float, memory: Memory
) -> tuple[Array, Array]:
    """Return sum_j P_ij v_j and log sum_j w_j e^{g s_ij}, j on the list of i.

    >>> x = np.array([[1.0], [2.0], [3.0]])
    >>> lists = Lists(np.array([1, 0, 2]), np.array([0, 1, 3]), np.array([0, 1, 2], np.int32), np.array([0, 1, 3]))
    >>> mean, _ = softmax(x, x, x, None, 0.0, Memory(lists=lists))
    >>> mean.ravel().tolist(), lists.pairs
    ([2.5, 1.0, 2.5], 5)
    """
    lists = memory.lists
    if log_masses is not None and np.ptp(log_masses) > fused.LIGHTEST:
        return _by_groups(queries, keys, values, log_masses, gain, lists)
    largest = 0.0 if log_masses is None else float(log_masses.max())
    log2_masses = np.zeros(len(keys)) if log_masses is None else (log_masses - largest) * LOG2E
    d = keys.shape[1]
    asked = _Points(_columns(queries[lists.order]), np.empty(0), np.arange(d))
    heard = _Points(_columns(keys), log2_masses, np.arange(d))
    fields = heard.points if values is keys else _columns(values)
    # A query that is in no group would be seen.
    mean, log_total = np.full((len(queries), len(fields)), np.nan), np.full(len(queries), np.nan)
    itself = values is keys and d in (2, 3)
    _sums(heard, asked, fields, itself, min(gain * LOG2E, LARGEST_GAIN), lists, mean, log_total)
    return mean, log_total + largest


def _by_groups(
    queries: Array, keys: Array, values: Array, log_masses: Array, gain: float, lists: Lists
) -> tuple[Array, Array]:
    """Return the same for masses that differ by more than floats hold: each group as the fused engine does it."""
    mean, log_total = np.empty((len(queries), values.shape[1])), np.empty(len(queries))
    for k in range(len(lists.begins) - 1):
        rows = lists.order[lists.begins[k] : lists.begins[k + 1]]
        some = lists.sources[lists.first[k] : lists.first[k + 1]]
        mean[rows], log_total[rows] = fused.softmax(queries[rows], keys[some], values[some], log_masses[some], gain)
    return mean, log_total


def _columns(rows: Array) -> Array:
    """Return (n, d) coordinate by coordinate, padded to whole vectors."""
    columns = np.zeros((rows.shape[1], len(rows) + WIDTH))
    columns[:, : len(rows)] = rows.T
    return columns


@compiled
def _sums(heard, asked, values, itself, gain, lists, mean, log_total):
    room = _Room(np.empty((1 + len(values)) * WIDTH), np.empty(BLOCK * WIDTH), np.empty(BLOCK, np.int32))
    every = splat(-np.inf)
    for k in range(len(lists.begins) - 1):
        own = lists.sources[lists.first[k] : lists.first[k + 1]]
        for i in range(lists.begins[k], lists.begins[k + 1], WIDTH):
            top = highest(heard, asked, own, i)
            for f in range(1 + len(values)):
                store(room.sums, f * WIDTH, splat(0.0))
            if itself:
                add_pairs_of_keys(heard, asked, gain, own, i, top, every, 0.0, room.sums)
            else:
                add_pairs(heard, asked, values, gain, own, i, top, every, 0.0, room)
            inverse = splat(1.0) / load(room.sums, 0)
            for f in range(1, 1 + len(values)):
                store(room.sums, f * WIDTH, inverse * load(room.sums, f * WIDTH))
            store(room.field, 0, muladd(splat(gain), top, log2(load(room.sums, 0))))
            for lane in range(min(WIDTH, lists.begins[k + 1] - i)):
                row = lists.order[i + lane]
                for f in range(len(values)):
                    mean[row, f] = room.sums[(1 + f) * WIDTH + lane]
                log_total[row] = room.field[lane] / LOG2E
