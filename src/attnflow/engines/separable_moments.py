"""From sources to grid: the moments sum_j w_j u_j^k v_j^l (w_j u_j^k v_j^l t_j^m in space) of the tokens in each box.

A grid is a C-ordered array (fields, N_1, ..., N_d) with N_a = 16 times the number of occupied panels on axis a; the
part that belongs to a box has 16^(d-1) rows of 16 numbers. The moments of 16 tokens are a product of two blocks, one
row per token: their weights times powers of u, and powers of v.
"""

# mypy: ignore-errors

from __future__ import annotations

import numba
import numpy as np

from attnflow.engines.kernels import compiled, in_parallel
from attnflow.engines.products import ROWS, product
from attnflow.engines.separable_blocks import P, powers, row
from attnflow.engines.separable_places import PIECES
from attnflow.engines.simd import WIDTH, exp2, load, splat, spread, store

# Tokens taken at once.
TOGETHER = 4 * P


@compiled
def _add_product(part, o, left, right, number, block):
    """Add the product of the transpose of `left` and `right`, which have 16 columns and this number of rows."""
    for r in range(0, P, ROWS):
        product(left, r, 1, P, right, 0, P, number, block, r * P, P, False)
    for at in range(0, P * P, WIDTH):
        store(part, o + at, load(part, o + at) + load(block, at))


@compiled
def _add_tokens(u, order, stretch, exponents, values, centre, part, room):
    """Add to part (fields, rows, 16) the moments of the sources from stretch[0] to stretch[1], at most `TOGETHER`."""
    first, last = stretch
    left, right, rows, factors, weights, block = room
    number, n, c, d = last - first, len(order), values.shape[1], u.size // (len(order) + WIDTH)
    along, across = (d - 1) * (n + WIDTH) + first, (d - 2) * (n + WIDTH) + first
    for t in range(0, number, WIDTH):
        store(weights, t, exp2(load(exponents, first + t)))
    for t in range(number):
        powers(u, along + t, 1.0, right, t * P)
    if d == 3:
        for t in range(number):
            powers(u, across + t, 1.0, rows, t * P)
    for f in range(1 + c):
        for t in range(number):
            factors[t] = weights[t] * (values[order[first + t], f - 1] - centre[f - 1]) if f > 0 else weights[t]
        if d == 2:
            for t in range(number):
                powers(u, first + t, factors[t], left, t * P)
            _add_product(part, f * P * P, left, right, number, block)
        else:
            for k in range(P):
                for t in range(number):
                    x = spread(factors, t)
                    store(left, t * P, x * load(rows, t * P))
                    store(left, t * P + WIDTH, x * load(rows, t * P + WIDTH))
                    factors[t] *= u[first + t]
                _add_product(part, (f * P + k) * P * P, left, right, number, block)


@compiled
def _add_part(part, counts, corner, grid):
    fields, size = grid.shape
    R = part.size // (fields * P)
    for f in range(fields):
        for r in range(R):
            o = f * size + corner + row(r, counts)
            for half in range(0, P, WIDTH):
                store(grid, o + half, load(grid, o + half) + load(part, (f * R + r) * P + half))


@in_parallel
def moments(u, order, start, corner, counts, exponents, values, centre, grid):
    """Add to the grid (1 + c, N) the moments of the sources: of their weights, and of weights times values - centre.

    A box that goes over an end of a piece is added up after the others, piece by piece. `u` is flat.
    """
    n, R, fields = len(order), P ** (len(counts) - 1), len(grid)
    parts = np.empty((PIECES, 3, fields * R * P))
    cut = np.full((PIECES, 2), -1)
    for piece in numba.prange(PIECES):
        first, end = piece * n // PIECES, (piece + 1) * n // PIECES
        left, right, rows = np.empty(TOGETHER * P), np.empty(TOGETHER * P), np.empty(TOGETHER * P)
        room = left, right, rows, np.empty(TOGETHER), np.empty(TOGETHER), np.empty(P * P)
        box = np.searchsorted(start, first, side="right") - 1
        while first < end:
            last = min(end, start[box + 1])
            whole = start[box] == first and start[box + 1] == last
            side = 2 if whole else 0 if cut[piece, 0] < 0 else 1
            part = parts[piece, side]
            for o in range(0, part.size, WIDTH):
                store(part, o, splat(0.0))
            for i in range(first, last, TOGETHER):
                _add_tokens(u, order, (i, min(last, i + TOGETHER)), exponents, values, centre, part, room)
            if whole:
                _add_part(part, counts, corner[box], grid)
            else:
                cut[piece, side] = box
            first, box = last, box + 1
    for piece in range(PIECES):
        for side in range(2):
            if cut[piece, side] >= 0:
                _add_part(parts[piece, side], counts, corner[cut[piece, side]], grid)
