"""Where tokens are: panels on the axes, and tokens sorted by box, one panel per axis.

Plain loops for tokens with two or three coordinates: array expressions in parallel functions take long to compile. All
work is cut into a fixed number of pieces, whatever the number of threads.
"""

# mypy: ignore-errors

from __future__ import annotations

import numba
import numpy as np

from attnflow.engines.kernels import in_parallel, internal

# Pieces of the passes over tokens; of the sort, which needs a counter for each box in each piece.
PIECES, SORT_PIECES = 64, 8


@in_parallel
def turned(rows, centre, axes):
    """Return axes (x - centre) for each row x."""
    n, d = rows.shape
    result = np.empty((n, d))
    for piece in numba.prange(PIECES):
        for i in range(piece * n // PIECES, (piece + 1) * n // PIECES):
            x, y, z = rows[i, 0] - centre[0], rows[i, 1] - centre[1], rows[i, 2] - centre[2] if d == 3 else 0.0
            for a in range(d):
                s = axes[a, 0] * x + axes[a, 1] * y
                result[i, a] = s + axes[a, 2] * z if d == 3 else s
    return result


@internal
def _panel(x, centre, scale, panels):
    return max(0, min(int((x - centre) * scale + 0.5 * panels), panels - 1))


@in_parallel
def occupied(rows, centre, scale, panels):
    """Say for each piece and each axis which panels hold a token; `scale` is panels per length."""
    n, d = rows.shape
    most = 0
    for a in range(d):
        most = max(most, panels[a])
    seen = np.zeros((SORT_PIECES, d, most), dtype=np.bool_)
    for piece in numba.prange(SORT_PIECES):
        for i in range(piece * n // SORT_PIECES, (piece + 1) * n // SORT_PIECES):
            for a in range(d):
                seen[piece, a, _panel(rows[i, a], centre[a], scale[a], panels[a])] = True
    return seen


@in_parallel
def roundness(rows, centre, scale):
    """Return for each piece the largest sum_a ((x_a - centre_a) scale_a)^2."""
    n, d = rows.shape
    largest = np.zeros(SORT_PIECES)
    for piece in numba.prange(SORT_PIECES):
        most = 0.0
        for i in range(piece * n // SORT_PIECES, (piece + 1) * n // SORT_PIECES):
            x, y = (rows[i, 0] - centre[0]) * scale[0], (rows[i, 1] - centre[1]) * scale[1]
            z = (rows[i, 2] - centre[2]) * scale[2] if d == 3 else 0.0
            most = max(most, x * x + y * y + z * z)
        largest[piece] = most
    return largest


@in_parallel
def count(rows, centre, scale, panels, seats, counts, slope, log2_masses, code, exponents):
    """Fill the box and the exponent of each token; return by piece how many each box holds, and their top exponent.

    The panel b of the axis a is number seats[a, b] among the counts[a] occupied ones. The exponent of a token x is
    <slope, x - centre> + log2 of its mass, 1 if no masses are given.
    """
    n, d = rows.shape
    boxes = counts[0] * counts[1] * (counts[2] if d == 3 else 1)
    numbers, tops = np.zeros((SORT_PIECES, boxes), dtype=np.int64), np.full((SORT_PIECES, boxes), -np.inf)
    for piece in numba.prange(SORT_PIECES):
        for i in range(piece * n // SORT_PIECES, (piece + 1) * n // SORT_PIECES):
            box = 0
            for a in range(d):
                box = box * counts[a] + seats[a, _panel(rows[i, a], centre[a], scale[a], panels[a])]
            s = slope[0] * (rows[i, 0] - centre[0]) + slope[1] * (rows[i, 1] - centre[1])
            if d == 3:
                s += slope[2] * (rows[i, 2] - centre[2])
            if len(log2_masses):
                s += log2_masses[i]
            code[i], exponents[i] = box, s
            numbers[piece, box] += 1
            tops[piece, box] = max(tops[piece, box], s)
    return numbers, tops


@in_parallel
def sort(rows, centre, scale, panels, code, exponents, place, tops, u, lower, order):
    """Fill, sorted by box, the places of the tokens in their panels, their exponents and their indices.

    Places u (d, n + 8) go from -1 to 1; exponents are seen now from the top of the box. `place` says where the first
    token of each piece in each box goes; it is used up.
    """
    n, d = rows.shape
    for piece in numba.prange(SORT_PIECES):
        for i in range(piece * n // SORT_PIECES, (piece + 1) * n // SORT_PIECES):
            box = code[i]
            to = place[piece, box]
            place[piece, box] = to + 1
            order[to] = i
            lower[to] = exponents[i] - max(tops[box], -1e300)  # a box without any mass has the top -inf
            for a in range(d):
                r = (rows[i, a] - centre[a]) * scale[a] + 0.5 * panels[a]
                u[a, to] = 2.0 * (r - max(0, min(int(r), panels[a] - 1))) - 1.0
