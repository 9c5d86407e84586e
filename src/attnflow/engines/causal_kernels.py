"""Compiled loops over a part of the sources for each query: those from first[i] up to last[i], without the last.

Both ends never decrease from one query to the next. Eight queries are in the lanes of a vector (`simd.py`), as in
`kernels`; they go together through the sources that all of them hear, and then, with weights 0 where needed, through
those that only some of them hear.
"""

# mypy: ignore-errors

from __future__ import annotations

import numba
import numpy as np

from attnflow.engines import LARGEST_GAIN
from attnflow.engines.kernels import LOG2E, ROWS_PER_TASK, TILE, in_parallel, internal, score
from attnflow.engines.simd import WIDTH, exp2, exp2_within, load, maximum, muladd, splat, spread, store

# In the search for a top score this is added to scores that a query does not hear.
LOWEST = -1e300


@internal
def _mark(first, last, i, j, mask):
    """Write for each of the eight queries from i on whether it hears the source j: 1 or 0, and then 0 or `LOWEST`."""
    for lane in range(WIDTH):
        heard = first[i + lane] <= j < last[i + lane]
        mask[lane] = 1.0 if heard else 0.0
        mask[WIDTH + lane] = 0.0 if heard else LOWEST


@internal
def _plane(queries, i, keys, values, first, last, log2_masses, gain, mean, mask):
    """Eight queries in the plane, exponents within `UNSHIFTED`: no shift, no floor, and the sums stay in registers."""
    m, stride = queries.shape[1], keys.shape[1]
    q0, q1 = gain * load(queries, i), gain * load(queries, m + i)
    total = splat(0.0)
    sum0, sum1 = total, total
    all_from, all_to, end = first[i + WIDTH - 1], last[i], last[i + WIDTH - 1]
    for j in range(all_from, all_to):
        w = exp2_within(muladd(q1, spread(keys, stride + j), muladd(q0, spread(keys, j), spread(log2_masses, j))))
        total = total + w
        sum0 = muladd(w, spread(values, j), sum0)
        sum1 = muladd(w, spread(values, stride + j), sum1)
    for begin, stop in ((first[i], min(all_from, end)), (max(all_from, all_to), end)):
        for j in range(begin, stop):
            _mark(first, last, i, j, mask)
            w = exp2_within(muladd(q1, spread(keys, stride + j), muladd(q0, spread(keys, j), spread(log2_masses, j))))
            w = w * load(mask, 0)
            total = total + w
            sum0 = muladd(w, spread(values, j), sum0)
            sum1 = muladd(w, spread(values, stride + j), sum1)
    store(mean, i, sum0 / total)
    store(mean, m + i, sum1 / total)
    return total


@internal
def _top(queries, i, keys, first, last, mask):
    """Return the top scores of eight queries."""
    all_from, all_to, end = first[i + WIDTH - 1], last[i], last[i + WIDTH - 1]
    highest = splat(LOWEST)
    for j in range(all_from, all_to):
        highest = maximum(highest, score(queries, i, keys, j))
    for begin, stop in ((first[i], min(all_from, end)), (max(all_from, all_to), end)):
        for j in range(begin, stop):
            _mark(first, last, i, j, mask)
            highest = maximum(highest, muladd(load(mask, 0), score(queries, i, keys, j), load(mask, WIDTH)))
    return highest


@internal
def _space(queries, i, keys, values, first, last, log2_masses, gain, highest, mean, room):
    """Eight queries in any dimension: weights of a tile of sources, then coordinate by coordinate."""
    mask, tile = room
    m, stride = queries.shape[1], keys.shape[1]
    all_from, all_to, end = first[i + WIDTH - 1], last[i], last[i + WIDTH - 1]
    total = splat(0.0)
    for k in range(values.shape[0]):
        store(mean, k * m + i, total)
    for begin in range(first[i], end, TILE):
        stop = min(end, begin + TILE)
        for j in range(begin, stop):
            if all_from <= j < all_to:
                w = exp2(muladd(gain, score(queries, i, keys, j) - highest, spread(log2_masses, j)))
            else:
                _mark(first, last, i, j, mask)
                s = muladd(load(mask, 0), score(queries, i, keys, j), load(mask, WIDTH))
                w = load(mask, 0) * exp2(muladd(gain, s - highest, spread(log2_masses, j)))
            total = total + w
            store(tile, WIDTH * (j - begin), w)
        for k in range(values.shape[0]):
            part = load(mean, k * m + i)
            for j in range(begin, stop):
                part = muladd(load(tile, WIDTH * (j - begin)), spread(values, k * stride + j), part)
            store(mean, k * m + i, part)
    for k in range(values.shape[0]):
        store(mean, k * m + i, load(mean, k * m + i) / total)
    return total


@in_parallel
def softmax(queries, keys, values, first, last, log2_masses, gain, within, mean, total, top):
    """Fill the columns of mean, total and top; `within` says that all exponents are within `UNSHIFTED` of 0.

    A query that hears nobody has the total 0. Tasks are taken from both ends by turns: later queries may hear more,
    and each thread gets some of both.
    """
    m = queries.shape[1]
    plane = queries.shape[0] == 2 and values.shape[0] == 2
    tasks = (m + ROWS_PER_TASK - 1) // ROWS_PER_TASK
    for turn in numba.prange(tasks):
        task = turn // 2 if turn % 2 == 0 else tasks - 1 - turn // 2
        mask, tile = np.empty(2 * WIDTH), np.empty(WIDTH * TILE)
        gain2, highest = splat(min(gain * LOG2E, LARGEST_GAIN)), splat(0.0)
        for i in range(task * ROWS_PER_TASK, min(m, (task + 1) * ROWS_PER_TASK), WIDTH):
            if plane and within:
                store(total, i, _plane(queries, i, keys, values, first, last, log2_masses, gain2, mean, mask))
            else:
                if not within:
                    highest = _top(queries, i, keys, first, last, mask)
                room = mask, tile
                sums = _space(queries, i, keys, values, first, last, log2_masses, gain2, highest, mean, room)
                store(total, i, sums)
            store(top, i, highest)
