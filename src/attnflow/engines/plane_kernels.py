# mypy: ignore-errors
"""Compiled loops of the fused softmax in the plane when the queries are the keys: each exponential serves two rows.

The weights e^{g <x_i, x_j>} are symmetric, so one exponential adds w_j (1, v_j) to the sums of row i and w_i (1, v_i)
to those of row j. Sixteen rows sit in the lanes of two vectors and their sums in registers; what they give to a source
is kept lane by lane for a chunk of sources, and the lanes are added once per panel of rows. No row maximum is needed
while all exponents are within `UNSHIFTED`.

Panels are dealt to a number of tasks that depends on n alone, each with sums of its own, which are added in a fixed
order: the result does not depend on the number of threads.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from attnflow.core.inputs import Array
from attnflow.engines.kernels import LOG2E, compiled, in_parallel, internal, internal_with_arrays
from attnflow.engines.simd import WIDTH, exp2_within, load, muladd, splat, spread, store

STRIP = 2 * WIDTH
# What one source gets: the sum of the weights, and of the two coordinates of the values.
SUMS = 3
# The sums of a chunk of sources, lane by lane, stay in the fastest cache.
CHUNK = 128
# More rows share one addition of lanes in larger panels; smaller panels are easier to share among tasks.
PANEL, MOST_TASKS = 512, 16
# With fewer pairs, one core is finished before the others could be started.
PARALLEL_PAIRS = 1 << 17
# Binary exponents up to this size are far from overflow, and sums, above 2^-900, from what underflows, also when they
# are multiplied by values of these sizes.
UNSHIFTED, SIZES = 900.0, (1e-30, 1e30)


@compiled
def _prepare(x, values, log_masses, gain, scores, sums):
    """Fill scores (2, n) with the tokens and sums (3, n) with w_j (1, v_j); return log max w, or NaN to refuse."""
    n = len(x)
    largest, radius, size = log_masses.max() if len(log_masses) else 0.0, 0.0, 0.0
    for i in range(n):
        scores[0, i], scores[1, i] = x[i, 0], x[i, 1]
        radius = max(radius, x[i, 0] * x[i, 0] + x[i, 1] * x[i, 1])
        size = max(size, abs(values[i, 0]), abs(values[i, 1]))
        mass = math.exp(log_masses[i] - largest) if len(log_masses) else 1.0
        sums[0, i], sums[1, i], sums[2, i] = mass, mass * values[i, 0], mass * values[i, 1]
    calm = gain * LOG2E * radius <= UNSHIFTED and (SIZES[0] <= size <= SIZES[1] or size == 0.0)
    return largest if calm else math.nan


@internal
def _diagonal(x, i, given, gain, heard):
    """Let the rows of one strip hear each other."""
    n = x.shape[1]
    for row in range(i, i + STRIP, WIDTH):
        q0, q1 = gain * load(x, row), gain * load(x, n + row)
        total, sum0, sum1 = load(heard, row), load(heard, n + row), load(heard, 2 * n + row)
        for j in range(i, i + STRIP):
            w = exp2_within(muladd(q1, spread(x, n + j), q0 * spread(x, j)))
            total = muladd(w, spread(given, j), total)
            sum0 = muladd(w, spread(given, n + j), sum0)
            sum1 = muladd(w, spread(given, 2 * n + j), sum1)
        store(heard, row, total)
        store(heard, n + row, sum0)
        store(heard, 2 * n + row, sum1)


@internal
def _strip(x, i, first, last, given, gain, heard, lanes, place):
    """Let sixteen rows and the sources from first to last, all later, hear each other; `lanes` is theirs from `place`.

    Written out for two vectors: they share what is read of a source, and one waits while the other computes.
    """
    n = x.shape[1]
    a, b = i, i + WIDTH
    qa0, qa1, qb0, qb1 = gain * load(x, a), gain * load(x, n + a), gain * load(x, b), gain * load(x, n + b)
    total_a, sum_a0, sum_a1 = load(heard, a), load(heard, n + a), load(heard, 2 * n + a)
    total_b, sum_b0, sum_b1 = load(heard, b), load(heard, n + b), load(heard, 2 * n + b)
    mass_a, given_a0, given_a1 = load(given, a), load(given, n + a), load(given, 2 * n + a)
    mass_b, given_b0, given_b1 = load(given, b), load(given, n + b), load(given, 2 * n + b)
    for j in range(first, last):
        k0, k1 = spread(x, j), spread(x, n + j)
        wa = exp2_within(muladd(qa1, k1, qa0 * k0))
        wb = exp2_within(muladd(qb1, k1, qb0 * k0))
        mass, given0, given1 = spread(given, j), spread(given, n + j), spread(given, 2 * n + j)
        total_a, total_b = muladd(wa, mass, total_a), muladd(wb, mass, total_b)
        sum_a0, sum_b0 = muladd(wa, given0, sum_a0), muladd(wb, given0, sum_b0)
        sum_a1, sum_b1 = muladd(wa, given1, sum_a1), muladd(wb, given1, sum_b1)
        store(lanes, place, muladd(wb, mass_b, muladd(wa, mass_a, load(lanes, place))))
        store(lanes, place + 8, muladd(wb, given_b0, muladd(wa, given_a0, load(lanes, place + 8))))
        store(lanes, place + 16, muladd(wb, given_b1, muladd(wa, given_a1, load(lanes, place + 16))))
        place += SUMS * WIDTH
    store(heard, a, total_a)
    store(heard, n + a, sum_a0)
    store(heard, 2 * n + a, sum_a1)
    store(heard, b, total_b)
    store(heard, n + b, sum_b0)
    store(heard, 2 * n + b, sum_b1)


@internal_with_arrays
def _panel(x, start, stop, given, gain, heard):
    """Add to `heard` all pairs of a row from start to stop and the same or a later source, both ways."""
    n = x.shape[1]
    lanes = np.empty(SUMS * WIDTH * CHUNK)
    for first in range(start, n, CHUNK):
        last = min(n, first + CHUNK)
        lanes[: SUMS * WIDTH * (last - first)] = 0.0
        for i in range(start, min(stop, last), STRIP):
            if i >= first:
                _diagonal(x, i, given, gain, heard)
            later = max(first, i + STRIP)
            _strip(x, i, later, last, given, gain, heard, lanes, SUMS * WIDTH * (later - first))
        for j in range(first, last):
            for k in range(SUMS):
                p = WIDTH * (SUMS * (j - first) + k)
                heard[k, j] += ((lanes[p] + lanes[p + 1]) + (lanes[p + 2] + lanes[p + 3])) + (
                    (lanes[p + 4] + lanes[p + 5]) + (lanes[p + 6] + lanes[p + 7])
                )


@compiled
def _finish(heard, largest, mean, log_total):
    """Add the sums of the tasks (tasks, 3, n) and divide."""
    total = heard[0]
    for task in range(1, len(heard)):
        total += heard[task]
    for i in range(len(mean)):
        mean[i, 0], mean[i, 1] = total[1, i] / total[0, i], total[2, i] / total[0, i]
        log_total[i] = math.log(total[0, i]) + largest


@compiled
def _task(columns, given, gain, panel, task, tasks, heard):
    """Add the panels of one task: of each round one from its start and one from its end, as these share the work."""
    n = columns.shape[1]
    gain2 = splat(gain * LOG2E)
    for deal in range(0, n, 2 * tasks * panel):
        for start in (deal + task * panel, deal + (2 * tasks - 1 - task) * panel):
            _panel(columns, start, min(n, start + panel), given, gain2, heard)


@in_parallel
def _tasks(columns, given, gain, panel, heard):
    for task in numba.prange(len(heard)):
        _task(columns, given, gain, panel, np.int64(task), len(heard), heard[task])


def softmax(x: Array, values: Array, log_masses: Array, gain: float, mean: Array, log_total: Array) -> bool:
    """Fill mean (n, 2) and log_total (n,); return False, and nothing else, if exponents are too large.

    Not compiled: a compiled function that calls a parallel one crashes where both come from the cache on disk and no
    parallel kernel was loaded before, because only loading a parallel one starts the threads.
    """
    padded = -(-len(x) // STRIP) * STRIP
    tasks, panel = 1, PANEL
    if len(x) ** 2 >= PARALLEL_PAIRS:
        tasks = 2
        while tasks < MOST_TASKS and padded >= 2 * tasks * PANEL * 7 // 8:
            tasks *= 2
        deals = -(-padded // (2 * tasks * PANEL))
        panel = -(-padded // (2 * tasks * deals * STRIP)) * STRIP
    columns, given, heard = np.zeros((2, padded)), np.zeros((SUMS, padded)), np.zeros((tasks, SUMS, padded))
    largest = _prepare(x, values, log_masses, gain, columns, given)
    if math.isnan(largest):
        return False
    if tasks == 1:
        _task(columns, given, gain, panel, 0, 1, heard[0])
    else:
        _tasks(columns, given, gain, panel, heard)
    _finish(heard, largest, mean, log_total)
    return True
