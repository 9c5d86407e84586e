"""From grid to targets: the polynomials of each box and their gradients, at eight of its targets in the lanes.

By Horner's rule, b <- b v + c and b' <- b' v + b, row by row, and then once more over the rows.
"""

# mypy: ignore-errors

from __future__ import annotations

import numba
import numpy as np

from attnflow.engines.kernels import LOG2E, in_parallel, inlined, internal, whole_lines
from attnflow.engines.separable_blocks import P, recombine
from attnflow.engines.separable_places import PIECES
from attnflow.engines.simd import WIDTH, load, log2, muladd, splat, spread, store


@inlined
def _plane(part, o, rows, first, u, v):
    """Return f, df/du and df/dv for f = sum_kl part[o + 16 k + l] u^k v^l, l < rows[first + k].

    Four rows at a time keep the units busy.
    """
    zero = splat(0.0)
    f, along, across = zero, zero, zero
    for k in range(P - 4, -1, -4):
        if rows[first + k] > 0:
            r = o + k * P
            a, b, c, d, a1, b1, c1, d1 = zero, zero, zero, zero, zero, zero, zero, zero
            for j in range(r + rows[first + k] - 1, r - 1, -1):
                a1, a = muladd(a1, v, a), muladd(a, v, spread(part, j))
                b1, b = muladd(b1, v, b), muladd(b, v, spread(part, j + P))
                c1, c = muladd(c1, v, c), muladd(c, v, spread(part, j + 2 * P))
                d1, d = muladd(d1, v, d), muladd(d, v, spread(part, j + 3 * P))
            along, f, across = muladd(along, u, f), muladd(f, u, d), muladd(across, u, d1)
            along, f, across = muladd(along, u, f), muladd(f, u, c), muladd(across, u, c1)
            along, f, across = muladd(along, u, f), muladd(f, u, b), muladd(across, u, b1)
            along, f, across = muladd(along, u, f), muladd(f, u, a), muladd(across, u, a1)
    return f, along, across


@internal
def _fields(u, i, n, d, part, rows, fields, sums):
    """Write the values of several fields at eight targets."""
    last, before = load(u, (d - 1) * (n + WIDTH) + i), load(u, (d - 2) * (n + WIDTH) + i)
    for f in range(fields):
        if d == 2:
            total, _, _ = _plane(part, f * P * P, rows, 0, before, last)
        else:
            first, total = load(u, i), splat(0.0)
            for k in range(P - 1, -1, -1):
                if rows[k * P] > 0:
                    value, _, _ = _plane(part, (f * P + k) * P * P, rows, k * P, before, last)
                    total = muladd(total, first, value)
        store(sums, f * WIDTH, total)


@internal
def _gradient(u, i, n, d, part, rows, sums):
    """Write one field and its gradient at eight targets."""
    last, before = load(u, (d - 1) * (n + WIDTH) + i), load(u, (d - 2) * (n + WIDTH) + i)
    if d == 2:
        total, along, across = _plane(part, 0, rows, 0, before, last)
    else:
        x, zero = load(u, i), splat(0.0)
        total, slope, along, across = zero, zero, zero, zero
        for k in range(P - 1, -1, -1):
            if rows[k * P] > 0:
                f, df, dg = _plane(part, k * P * P, rows, k * P, before, last)
                slope, total = muladd(slope, x, total), muladd(total, x, f)
                along, across = muladd(along, x, df), muladd(across, x, dg)
        store(sums, WIDTH, slope)
    store(sums, 0, total)
    store(sums, (d - 1) * WIDTH, along)
    store(sums, d * WIDTH, across)


@in_parallel
def evaluate(u, order, start, boxes, lines, rows, grid, levels, slope, back, centre, mean, log_total):
    """Fill the mean and the logarithm of the total of each target: from start[i] on they are in the box boxes[i].

    The grid (fields, boxes, N) holds the numbers of the index set of `lines` and `rows`, row by row.

    With one field Z the mean is centre + back grad Z / Z. Otherwise the fields are those of `moments`. The logarithm of
    Z is seen from the level of the box and <slope, u>; an empty array of logarithms stays empty. `u` is flat.
    """
    n, d, fields, L = len(order), len(slope), len(grid), len(lines)
    columns, low, here = mean.shape[1], start[0], start[-1] - start[0]
    for piece in numba.prange(PIECES):
        first, end = low + piece * here // PIECES, low + (piece + 1) * here // PIECES
        part, sums = whole_lines(fields * L * P), whole_lines((fields + d) * WIDTH)
        means = whole_lines(max(1, columns) * WIDTH)
        for o in range(0, len(part), WIDTH):
            store(part, o, splat(0.0))
        box = np.searchsorted(start, first, side="right") - 1
        while first < end:
            last = min(end, start[box + 1])
            for f in range(fields):
                number = 0
                for r in range(L):
                    for k in range(rows[r]):
                        part[(f * L + r) * P + k] = grid[f, boxes[box], number]
                        number += 1
                recombine(part, f * L * P, d, rows, lines, False)
            for i in range(first, last, WIDTH):
                if fields == 1:
                    _gradient(u, i, n, d, part, rows, sums)
                else:
                    _fields(u, i, n, d, part, rows, fields, sums)
                one = splat(1.0) / load(sums, 0)
                for b in range(columns):
                    s = splat(0.0)
                    if fields == 1:
                        for a in range(d):
                            s = muladd(spread(back, b * d + a), load(sums, (1 + a) * WIDTH), s)
                    else:
                        s = load(sums, (1 + b) * WIDTH)
                    store(means, b * WIDTH, muladd(s, one, spread(centre, b)))
                for t in range(min(WIDTH, last - i)):
                    for b in range(columns):
                        mean[order[i + t], b] = means[b * WIDTH + t]
                if len(log_total):
                    s = spread(levels, box)
                    for a in range(d):
                        s = muladd(spread(slope, a), load(u, a * (n + WIDTH) + i), s)
                    store(means, 0, muladd(log2(load(sums, 0)), splat(1 / LOG2E), s))
                    for t in range(min(WIDTH, last - i)):
                        log_total[order[i + t]] = means[t]
            first, box = last, box + 1
