"""Compiled loops of the fused engine.

The softmax kernels hold eight queries in the lanes of a vector (`simd.py`) and loop over the sources; their arrays
are laid out coordinate first, (d, n), padded to whole vectors. Each row is summed in one fixed order whatever the
number of threads. The `*_layers` kernels take many steps of x <- x + gamma (m - x) without leaving compiled code.
"""

from __future__ import annotations

import math
from contextlib import suppress

import numba
import numpy as np

from attnflow.core.environment import lent
from attnflow.engines import LARGEST_GAIN
from attnflow.engines.centring import HARMLESS, NEAR
from attnflow.engines.compilation import kept_on_disk
from attnflow.engines.simd import WIDTH, exp2, exp2_within, load, maximum, muladd, splat, spread, store

# By default OpenMP's threads wait actively for milliseconds after each loop, which slows all other processes; a few
# microseconds are enough. OpenMP reads this when it is loaded, which Numba would do later. Not every system has it.
with suppress(ImportError), lent(GOMP_SPINCOUNT="1000"):
    import numba.np.ufunc.omppool

# The C library of Linux gives the memory of a sum back and fetches it again for the next one, which can take as long as
# the sum itself. After a block of nearly 32 MiB was freed, it keeps 64 MiB of freed memory, except for larger arrays.
np.empty((1 << 25) - (1 << 16), np.uint8)

LOG2E, EPS = math.log2(math.e), 2.0**-52
TILE = 64
ROWS_PER_TASK = 64
# Binary exponents up to this size need no shift by the row maximum: with masses no lighter than 2^-500 of the largest
# they stay within 1000 of 0, and their rounding errs no more than that of the scores.
UNSHIFTED = 500.0

# Overflow gives NaN, as in NumPy; the caller checks for it.
compiled = kept_on_disk(nogil=True, error_model="numpy")
in_parallel = kept_on_disk(nogil=True, error_model="numpy", parallel=True)
inlined = numba.njit(inline="always")
# What only compiled code calls has no entrance from Python, which takes long to compile: to call it from Python would
# crash. `internal` functions make no arrays, so they count no references to arrays: to count them takes as long as some
# twenty products, for each array at each call. They call no `internal_with_arrays`, which may make arrays.
_INTERNAL = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
internal = numba.njit(_nrt=False, **_INTERNAL)
internal_with_arrays = numba.njit(**_INTERNAL)


@compiled
def whole_lines(size):
    """Return an array that starts at a cache line: loading a vector from two lines takes up to twice as long."""
    room = np.empty(size + WIDTH)
    skip = -room.ctypes.data // 8 % WIDTH
    return room[skip : skip + size]


# Softmax sums


@internal
def score(queries, i, keys, j):
    """Scores of the eight queries from i on with the source j."""
    d, m = queries.shape
    n = keys.shape[1]
    s = load(queries, i) * spread(keys, j)
    for k in range(1, d):
        s = muladd(load(queries, k * m + i), spread(keys, k * n + j), s)
    return s


@internal
def _largest(columns, scratch):
    """Return the largest squared norm of a column."""
    d, m = columns.shape
    largest = splat(0.0)
    for i in range(0, m, WIDTH):
        square = load(columns, i) * load(columns, i)
        for k in range(1, d):
            square = muladd(load(columns, k * m + i), load(columns, k * m + i), square)
        largest = maximum(largest, square)
    store(scratch, 0, largest)
    widest = scratch[0]
    for lane in range(1, WIDTH):
        widest = max(widest, scratch[lane])
    return widest


@compiled
def exponent_bound(queries, keys, gain, scratch):
    """Return a bound on the absolute value of all binary exponents, by the Cauchy-Schwarz inequality."""
    longest = math.sqrt(_largest(keys, scratch))
    return gain * LOG2E * longest * (longest if queries is keys else math.sqrt(_largest(queries, scratch)))


@internal
def _softmax_plane(queries, i, keys, values, n, log2_masses, gain, mean, top):
    """Eight queries in the plane, exponents within `UNSHIFTED`: no shift, no floor, and the sums stay in registers."""
    m, stride = queries.shape[1], keys.shape[1]
    q0, q1 = gain * load(queries, i), gain * load(queries, m + i)
    total = splat(0.0)
    sum0, sum1 = total, total
    for j in range(n):
        w = exp2_within(muladd(q1, spread(keys, stride + j), muladd(q0, spread(keys, j), spread(log2_masses, j))))
        total = total + w
        sum0 = muladd(w, spread(values, j), sum0)
        sum1 = muladd(w, spread(values, stride + j), sum1)
    store(mean, i, sum0 / total)
    store(mean, m + i, sum1 / total)
    store(top, i, splat(0.0))
    return total


@internal
def _softmax_space(queries, i, keys, values, n, log2_masses, gain, mean, top, tile):
    """Eight queries in any dimension, any exponents: weights of a tile of sources, then coordinate by coordinate."""
    m, stride = queries.shape[1], keys.shape[1]
    highest = score(queries, i, keys, 0)
    for j in range(1, n):
        highest = maximum(highest, score(queries, i, keys, j))
    total = splat(0.0)
    for k in range(values.shape[0]):
        store(mean, k * m + i, total)
    for first in range(0, n, TILE):
        last = min(n, first + TILE)
        for j in range(first, last):
            w = exp2(muladd(gain, score(queries, i, keys, j) - highest, spread(log2_masses, j)))
            total = total + w
            store(tile, WIDTH * (j - first), w)
        for k in range(values.shape[0]):
            part = load(mean, k * m + i)
            for j in range(first, last):
                part = muladd(load(tile, WIDTH * (j - first)), spread(values, k * stride + j), part)
            store(mean, k * m + i, part)
    for k in range(values.shape[0]):
        store(mean, k * m + i, load(mean, k * m + i) / total)
    store(top, i, highest)
    return total


@compiled
def softmax_rows(queries, keys, values, n, log2_masses, gain, within, rows, mean, total, top, scratch):
    """Fill the columns of mean, total and top from rows[0] to rows[1], a whole number of vectors.

    `within` says that all exponents are within `UNSHIFTED` of 0.
    """
    plane = queries.shape[0] == 2 and values.shape[0] == 2
    gain2 = splat(min(gain * LOG2E, LARGEST_GAIN))
    for i in range(rows[0], rows[1], WIDTH):
        if plane and within:
            store(total, i, _softmax_plane(queries, i, keys, values, n, log2_masses, gain2, mean, top))
        else:
            store(total, i, _softmax_space(queries, i, keys, values, n, log2_masses, gain2, mean, top, scratch))


@in_parallel
def softmax_parallel(queries, keys, values, n, log2_masses, gain, within, mean, total, top):
    m = queries.shape[1]
    for task in numba.prange((m + ROWS_PER_TASK - 1) // ROWS_PER_TASK):
        rows = (task * ROWS_PER_TASK, min(m, (task + 1) * ROWS_PER_TASK))
        scratch = np.empty(WIDTH * TILE)
        softmax_rows(queries, keys, values, n, log2_masses, gain, within, rows, mean, total, top, scratch)


@compiled
def softmax_many(queries, keys, values, log2_masses, gains, mean, total, top):
    """Fill mean (b, n, c), total and top (b, n) for b small systems (b, n, d), each with a gain of its own."""
    b, n, d = keys.shape
    padded = len(log2_masses)
    q, k, v = np.zeros((d, padded)), np.zeros((d, padded)), np.zeros((values.shape[2], padded))
    average, sums, highest = np.empty((values.shape[2], padded)), np.empty(padded), np.empty(padded)
    scratch = np.empty(WIDTH * TILE)
    heavy = log2_masses.min() >= -UNSHIFTED
    for s in range(b):
        turn(queries[s], q)
        turn(keys[s], k)
        turn(values[s], v)
        within = exponent_bound(q, k, gains[s], scratch) <= UNSHIFTED and heavy
        softmax_rows(q, k, v, n, log2_masses, gains[s], within, (0, padded), average, sums, highest, scratch)
        for i in range(n):
            total[s, i], top[s, i] = sums[i], highest[i]
            for c in range(len(average)):
                mean[s, i, c] = average[c, i]


@compiled
def softmax_layers(x, forms, biases, gains, gammas, log2_masses, states):
    steps, n, d = states.shape
    padded = x.shape[1]
    queries, mean = x, np.empty((d, padded))
    total, top, scratch = np.empty(padded), np.empty(padded), np.empty(WIDTH * TILE)
    if len(forms) or len(biases):
        queries = np.empty((d, padded))
    centre, seen = np.empty(d), np.zeros((d, padded))
    heavy = log2_masses.min() >= -UNSHIFTED
    within, calm = False, False
    for s in range(steps):
        if len(forms):
            apply(forms[min(s, len(forms) - 1)], x, queries)
        if len(biases):
            for k in range(d):
                for i in range(padded):
                    queries[k, i] = (queries if len(forms) else x)[k, i] + biases[min(s, len(biases) - 1), k]
        if is_far(x, n, queries, gains[s], centre):
            for k in range(d):
                for i in range(n):
                    seen[k, i] = x[k, i] - centre[k]
            unshifted, calm = exponent_bound(queries, seen, gains[s], scratch) <= UNSHIFTED and heavy, False
            softmax_rows(
                queries, seen, seen, n, log2_masses, gains[s], unshifted, (0, padded), mean, total, top, scratch
            )
            for k in range(d):
                for i in range(n):
                    there = centre[k] + mean[k, i]
                    x[k, i] = there if gammas[s] == 1.0 else x[k, i] + gammas[s] * (mean[k, i] - seen[k, i])
        else:
            if not (calm and gains[s] <= gains[s - 1]):
                bound = exponent_bound(queries, x, gains[s], scratch)
                within = bound <= UNSHIFTED and heavy
                # The hull of the tokens never grows, so under one form a bound with room to spare holds from now on.
                calm = len(forms) <= 1 and len(biases) <= 1 and bound <= UNSHIFTED / 2
            softmax_rows(queries, x, x, n, log2_masses, gains[s], within, (0, padded), mean, total, top, scratch)
            _average(x, mean, gammas[s])
        for i in range(n):
            for k in range(d):
                states[s, i, k] = x[k, i]


@compiled
def is_far(x, n, queries, gain, centre):
    """Say whether n tokens (d, n) are far from the origin, as `centring.centre` does, and fill their centre if so."""
    d = len(x)
    gap, first, last = 0.0, 0.0, 0.0
    for k in range(d):
        gap = max(gap, abs(x[k, 0] - x[k, n - 1]))
        first, last = max(first, abs(x[k, 0])), max(last, abs(x[k, n - 1]))
    if min(first, last) <= (NEAR - 1) * gap:
        return False
    distance, extent, reach = 0.0, 0.0, 0.0
    for k in range(d):
        low, high = x[k, :n].min(), x[k, :n].max()
        centre[k] = low + (high - low) / 2
        distance, extent = max(distance, abs(centre[k])), max(extent, high - low)
        reach = max(reach, gain * np.abs(queries[k, :n]).max())
    lost = EPS * distance * (1 + reach * extent)
    return distance > NEAR * extent and lost > HARMLESS * extent


@inlined
def turn(rows, columns):
    """Fill the first columns with the rows, which may be fewer.

    A loop, as elsewhere in the kernels: to assign a slice, Numba compiles for seconds the text of an error.
    """
    for i in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            columns[k, i] = rows[i, k]


@internal
def apply(form, x, result):
    """Fill the result with a matrix applied to each column."""
    for a in range(form.shape[0]):
        for i in range(x.shape[1]):
            result[a, i] = form[a, 0] * x[0, i]
        for b in range(1, form.shape[1]):
            for i in range(x.shape[1]):
                result[a, i] += form[a, b] * x[b, i]


@internal
def _average(x, mean, gamma):
    """Move x by gamma (mean - x), or to the mean itself when gamma = 1; a whole number of vectors."""
    step = splat(gamma)
    for i in range(0, x.size, WIDTH):
        if gamma == 1.0:
            store(x, i, load(mean, i))
        else:
            here = load(x, i)
            store(x, i, muladd(step, load(mean, i) - here, here))


# Sums over neighbours. Scores are added coordinate by coordinate without fused operations, as in `dense.scores`:
# a tie is exact equality.


@internal
def _plain_score(query, key):
    s = query[0] * key[0]
    for k in range(1, len(query)):
        s += query[k] * key[k]
    return s


@internal
def _top_row(query, columns, values, weights, slack, relative, mean, scores):
    """Fill the mean over the neighbours of one query; sources come coordinate first, `scores` is room for theirs."""
    n = len(scores)
    for j in range(n):
        scores[j] = query[0] * columns[0, j]
    for k in range(1, len(query)):
        for j in range(n):
            scores[j] += query[k] * columns[k, j]
    best, leader = -np.inf, 0
    for j in range(n):
        if not scores[j] <= best and weights[j] > 0:
            best, leader = scores[j], j
            if best != best:  # a score that overflowed to NaN makes the mean NaN
                break
    threshold = best - slack - relative * abs(best)
    mean[:] = 0.0
    total = 0.0
    for j in range(n):
        if scores[j] >= threshold and weights[j] > 0:
            total += weights[j]
            for k in range(len(mean)):
                mean[k] += weights[j] * (values[j, k] - values[leader, k])
    for k in range(len(mean)):
        mean[k] = values[leader, k] + mean[k] / total
    return best, leader


@in_parallel
def top_parallel(queries, columns, values, weights, slack, relative, mean, best, leader):
    m, n = len(queries), columns.shape[1]
    for task in numba.prange((m + ROWS_PER_TASK - 1) // ROWS_PER_TASK):
        scores = np.empty(n)
        for i in range(task * ROWS_PER_TASK, min(m, (task + 1) * ROWS_PER_TASK)):
            best[i], leader[i] = _top_row(queries[i], columns, values, weights, slack[i], relative, mean[i], scores)


@compiled
def _first_of_its_point(x, weights):
    for j in range(len(x)):
        weights[j] = 1.0
        for i in range(j):
            if weights[i] > 0 and (x[i] == x[j]).all():
                weights[j] = 0.0
                break


@compiled
def top_layers(x, forms, slacks, gammas, weights, points, first, states):
    steps, n, d = states.shape
    query, mean = np.empty(d), np.empty((n, d))
    columns, scores = np.empty((d, n)), np.empty(n)
    for s in range(steps):
        turn(x, columns)
        if points:
            _first_of_its_point(x, weights)
        additive, normalized, relative = slacks[s]
        for i in range(n):
            for a in range(d):
                query[a] = _plain_score(x[i], forms[min(s, len(forms) - 1), a]) if len(forms) else x[i, a]
            slack = additive
            if normalized > 0:
                slack += normalized * math.sqrt(_plain_score(query, query))
            _, leader = _top_row(query, columns, x, weights, slack, relative, mean[i], scores)
            if first:
                for k in range(d):
                    mean[i, k] = x[leader, k]
        for i in range(n):
            for k in range(d):
                x[i, k] = mean[i, k] if gammas[s] == 1.0 else x[i, k] + gammas[s] * (mean[i, k] - x[i, k])
                states[s, i, k] = x[i, k]


@in_parallel
def ball_parallel(queries, columns, values, weights, radius, mean):
    m, n = len(queries), columns.shape[1]
    for task in numba.prange((m + ROWS_PER_TASK - 1) // ROWS_PER_TASK):
        distances = np.empty(n)
        for i in range(task * ROWS_PER_TASK, min(m, (task + 1) * ROWS_PER_TASK)):
            distances[:] = 0.0
            for k in range(queries.shape[1]):
                for j in range(n):
                    step = queries[i, k] - columns[k, j]
                    distances[j] += step * step
            total = 0.0
            mean[i] = 0.0
            for j in range(n):
                if distances[j] <= radius * radius:
                    total += weights[j]
                    for k in range(values.shape[1]):
                        mean[i, k] += weights[j] * values[j, k]
            mean[i] /= total
