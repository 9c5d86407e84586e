"""From grid to grid: one axis after the other is multiplied by the exponentials between its panels.

A grid (fields, numbers, boxes) holds the numbers of an index set (`separable_degrees`) for each box. The boxes of the
other axes, sixteen of them at once, are the lanes of the vectors. Each box carries a power of two of its own, so that
terms may go far beyond the range of doubles; boxes too faint to be heard are left out of the products.
"""

# mypy: ignore-errors

from __future__ import annotations

import numba
import numpy as np

from attnflow.engines.kernels import LOG2E, in_parallel, internal, whole_lines
from attnflow.engines.products import ROWS, product
from attnflow.engines.separable_blocks import NODES, TO_CHEBYSHEV, TO_CHEBYSHEV_T, P
from attnflow.engines.separable_places import SORT_PIECES
from attnflow.engines.simd import WIDTH, exp2, load, muladd, splat, spread, store

# Boxes in the lanes; target panels whose matrices stay in the cache while lines are multiplied by them.
LANES, BLOCK = 2 * WIDTH, 8
# Numbers of the grid that a task fetches, about; tasks for all threads, where there are enough panels.
FETCHED, TASKS = 1 << 16, 32


@internal
def _times(a, b, result):
    """Product of two 16-by-16 matrices."""
    for r in range(0, P, ROWS):
        product(a, r * P, P, 1, b, 0, P, P, result, r * P, P, False)


@in_parallel
def exponentials(targets, sources, width, gain):
    """Return K (panels of targets, 16 * panels of sources, 16), interpolants of e^{g (t s - t' s')} for centres t', s'.

    `targets` and `sources` hold these centres, `width` the half-widths of both kinds of panels: for t = t' + tau and
    s = s' + sigma, e^{g (t s - t' s')} = sum_kl K[., l, k] T_k(tau / width_t) T_l(sigma / width_s).
    """
    matrices = np.empty((len(targets), len(sources) * P, P))
    for t in numba.prange(len(targets)):
        values, half = np.empty((P, P)), np.empty((P, P))
        centre, step = splat(targets[t]), splat(width[0])
        for s in range(len(sources)):
            for j in range(P):
                sigma = width[1] * NODES[j]
                for at in range(0, P, WIDTH):
                    tau = step * load(NODES, at)
                    x = muladd(splat(sigma), centre + tau, splat(sources[s]) * tau)
                    store(values, j * P + at, exp2(splat(gain * LOG2E) * x))
            _times(TO_CHEBYSHEV, values, half)
            _times(half, TO_CHEBYSHEV_T, matrices[t, s * P : (s + 1) * P])
    return matrices


@in_parallel
def lift(scales, shifts):
    """Return max_s scales[s, o] + shifts[t, s]: the product of `contract` for the sizes of boxes."""
    S, boxes = scales.shape
    result = np.empty((boxes, len(shifts)))
    for o in numba.prange(boxes):
        for t in range(len(shifts)):
            top = -np.inf
            for s in range(S):
                top = max(top, scales[s, o] + shifts[t, s])
            result[o, t] = top
    return result


@internal
def _heard(scales, shifts, lifted, t, first, end, faintest, active, factors, place):
    """List the source panels that a target panel hears from some column of a group, with the factors of all lanes.

    Both are written from `place` on; the number of panels is returned.
    """
    kept = 0
    for s in range(len(scales)):
        heard, at = False, (place + kept) * LANES
        for lane in range(LANES):
            x = -np.inf
            if first + lane < end:
                x = scales[s, first + lane] + shifts[t, s] - lifted[first + lane, t]
            # A box without sources has no scale, one that is not wanted has an infinite one: x may be no number.
            factors[at + lane] = x if x > faintest else -2000.0
            heard |= x > faintest
        if heard:
            for i in range(at, at + LANES, WIDTH):
                store(factors, i, exp2(load(factors, i)))
            active[place + kept] = s
            kept += 1
    return kept


@internal
def _eight(columns, at, active, heard, factors, matrices, row, length, sums, to, across):
    """Write sum_{s, l} K[s, l, k] x[s, l] for eight k, from K[0, 0, 0] at `row`, to sums with the stride `across`.

    The numbers x (s, l, LANES) of sixteen boxes start at `at`, l < length. The panels s, and the factors of the
    boxes, are those from heard[0] to heard[1].
    """
    z = splat(0.0)
    a0, a1, b0, b1, c0, c1, d0, d1 = z, z, z, z, z, z, z, z
    e0, e1, f0, f1, g0, g1, h0, h1 = z, z, z, z, z, z, z, z
    for i in range(heard[0], heard[1]):
        k, o = row + active[i] * P * P, at + active[i] * length * LANES
        low, high = load(factors, i * LANES), load(factors, i * LANES + WIDTH)
        for _ in range(length):
            x, y = low * load(columns, o), high * load(columns, o + WIDTH)
            m = spread(matrices, k)
            a0, a1 = muladd(m, x, a0), muladd(m, y, a1)
            m = spread(matrices, k + 1)
            b0, b1 = muladd(m, x, b0), muladd(m, y, b1)
            m = spread(matrices, k + 2)
            c0, c1 = muladd(m, x, c0), muladd(m, y, c1)
            m = spread(matrices, k + 3)
            d0, d1 = muladd(m, x, d0), muladd(m, y, d1)
            m = spread(matrices, k + 4)
            e0, e1 = muladd(m, x, e0), muladd(m, y, e1)
            m = spread(matrices, k + 5)
            f0, f1 = muladd(m, x, f0), muladd(m, y, f1)
            m = spread(matrices, k + 6)
            g0, g1 = muladd(m, x, g0), muladd(m, y, g1)
            m = spread(matrices, k + 7)
            h0, h1 = muladd(m, x, h0), muladd(m, y, h1)
            k, o = k + P, o + LANES
    store(sums, to, a0)
    store(sums, to + WIDTH, a1)
    store(sums, to + across, b0)
    store(sums, to + across + WIDTH, b1)
    store(sums, to + 2 * across, c0)
    store(sums, to + 2 * across + WIDTH, c1)
    store(sums, to + 3 * across, d0)
    store(sums, to + 3 * across + WIDTH, d1)
    store(sums, to + 4 * across, e0)
    store(sums, to + 4 * across + WIDTH, e1)
    store(sums, to + 5 * across, f0)
    store(sums, to + 5 * across + WIDTH, f1)
    store(sums, to + 6 * across, g0)
    store(sums, to + 6 * across + WIDTH, g1)
    store(sums, to + 7 * across, h0)
    store(sums, to + 7 * across + WIDTH, h1)


@internal
def _four(columns, at, active, heard, factors, matrices, row, length, sums, to, across):
    """Do the same for four k."""
    z = splat(0.0)
    a0, a1, b0, b1, c0, c1, d0, d1 = z, z, z, z, z, z, z, z
    for i in range(heard[0], heard[1]):
        k, o = row + active[i] * P * P, at + active[i] * length * LANES
        low, high = load(factors, i * LANES), load(factors, i * LANES + WIDTH)
        for _ in range(length):
            x, y = low * load(columns, o), high * load(columns, o + WIDTH)
            m = spread(matrices, k)
            a0, a1 = muladd(m, x, a0), muladd(m, y, a1)
            m = spread(matrices, k + 1)
            b0, b1 = muladd(m, x, b0), muladd(m, y, b1)
            m = spread(matrices, k + 2)
            c0, c1 = muladd(m, x, c0), muladd(m, y, c1)
            m = spread(matrices, k + 3)
            d0, d1 = muladd(m, x, d0), muladd(m, y, d1)
            k, o = k + P, o + LANES
    store(sums, to, a0)
    store(sums, to + WIDTH, a1)
    store(sums, to + across, b0)
    store(sums, to + across + WIDTH, b1)
    store(sums, to + 2 * across, c0)
    store(sums, to + 2 * across + WIDTH, c1)
    store(sums, to + 3 * across, d0)
    store(sums, to + 3 * across + WIDTH, d1)


@in_parallel
def contract(grid, lines, matrices, groups, scales, shifts, lifted, faintest, rows, seats, places, result, steps):
    """Multiply the first axis by the matrices of `exponentials`, for each column of boxes on the other axes.

    Columns from groups[i] to groups[i + 1], at most LANES of them, are multiplied together.

    The grid has the shape (fields, numbers, boxes). The result is flat; `steps` are the distances between its fields,
    its numbers and its boxes. `lines` belongs to the index set of the grid, `rows` and `seats` to that of the result.
    The panel s in the column o has the place s * columns + o among the boxes of the grid; places[o, t] is that of the
    panel t of the targets in the result, negative if it is not wanted. Boxes are meant times 2^scales before, 2^lifted
    after; e^{g t' s'} is 2^shifts, and terms below 2^faintest of the largest are left out.

    A task multiplies some lines of a group of columns by the matrices of a stretch of target panels.
    """
    fields, panels, L = grid.shape[0], len(matrices), len(lines)
    S, many, most, longest = len(scales), len(groups) - 1, 0, 0
    starts = np.zeros(L, dtype=np.int64)
    for line in range(1, L):
        starts[line] = starts[line - 1] + lines[line - 1]
    dealt = min(L, -(-(starts[L - 1] + lines[L - 1]) * S * LANES // FETCHED))
    for k in range(dealt):
        total, number = 0, 0
        for line in range(k, L, dealt):
            total, number = total + lines[line], number + rows[line] + WIDTH
        most, longest = max(most, total), max(longest, number)
    stretch = max(BLOCK, panels * fields * many * dealt // TASKS)
    stretches = -(-panels // stretch)
    tasks = fields * many * dealt * stretches
    for piece in numba.prange(SORT_PIECES):
        active, ends = np.empty(BLOCK * S, np.int64), np.empty((BLOCK, 2), np.int64)
        factors = whole_lines(BLOCK * S * LANES)
        room = active, ends, factors, whole_lines(most * S * LANES), whole_lines(longest * BLOCK * LANES)
        for task in range(piece, tasks, SORT_PIECES):
            part, low = task // stretches, task % stretches * stretch
            group = part // dealt % many
            where = part // (many * dealt), groups[group], groups[group + 1], part % dealt, dealt
            own = scales, shifts, lifted, faintest
            here = low, min(panels, low + stretch)
            _contract(grid, where, here, starts, lines, matrices, own, rows, seats, places, result, steps, room)


@internal
def _contract(grid, where, here, starts, lines, matrices, own, rows, seats, places, result, steps, room):
    """Multiply one group of columns of one field, for some lines and the target panels from here[0] to here[1]."""
    f, first, end, dealt, step = where
    scales, shifts, lifted, faintest = own
    active, ends, factors, columns, sums = room
    _, numbers, boxes = grid.shape
    (S, R), L = scales.shape, len(lines)
    # What is far apart in memory is fetched once, and written once.
    at = 0
    for line in range(dealt, L, step):
        for s in range(S):
            for k in range(lines[line]):
                o = (f * numbers + starts[line] + k) * boxes + s * R + first
                store(columns, at, load(grid, o))
                store(columns, at + WIDTH, load(grid, o + WIDTH))
                at += LANES
    for low in range(here[0], here[1], BLOCK):
        high = min(here[1], low + BLOCK)
        across = (high - low) * LANES
        for t in range(low, high):
            begin = (t - low) * S
            ends[t - low, 0] = begin
            ends[t - low, 1] = begin + _heard(scales, shifts, lifted, t, first, end, faintest, active, factors, begin)
        at, start = 0, 0
        for line in range(dealt, L, step):
            for t in range(low, high):
                heard, to = (ends[t - low, 0], ends[t - low, 1]), start + (t - low) * LANES
                for k in range(0, rows[line], WIDTH):
                    row = t * S * P * P + k
                    if rows[line] - k > WIDTH // 2:
                        _eight(columns, at, active, heard, factors, matrices, row, lines[line], sums, to, across)
                    else:
                        _four(columns, at, active, heard, factors, matrices, row, lines[line], sums, to, across)
                    to += WIDTH * across
            at += lines[line] * S * LANES
            start += rows[line] * across
        at = 0
        for line in range(dealt, L, step):
            for k in range(rows[line]):
                to = f * steps[0] + seats[line * P + k] * steps[1]
                for t in range(low, high):
                    for lane in range(end - first):
                        if places[first + lane, t] >= 0:
                            result[to + places[first + lane, t] * steps[2]] = sums[at + lane]
                    at += LANES
