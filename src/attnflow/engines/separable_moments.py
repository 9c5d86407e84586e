"""From sources to grid: the moments sum_j w_j T_k(u_j) T_l(v_j) (and T_m in space) of the tokens in each box.

They are found from those of powers. The moments of up to 64 tokens are products of two blocks with one row per token:
their weights times powers of u (times one power of the first coordinate, in space), and powers of v.
"""

# mypy: ignore-errors

from __future__ import annotations

import numba
import numpy as np

from attnflow.engines.kernels import in_parallel, internal, whole_lines
from attnflow.engines.products import ROWS, product
from attnflow.engines.separable_blocks import P, powers, recombine
from attnflow.engines.separable_places import PIECES
from attnflow.engines.simd import WIDTH, exp2, load, muladd, splat, spread, store

# Tokens taken at once.
TOGETHER = 4 * P


@internal
def _narrow(left, r, right, number, part, at):
    """Add four rows of eight columns of the product of the transpose of `left` and `right`."""
    a, b, c, d = load(part, at), load(part, at + P), load(part, at + 2 * P), load(part, at + 3 * P)
    for t in range(0, number * P, P):
        x = load(right, t)
        a, b = muladd(spread(left, t + r), x, a), muladd(spread(left, t + r + 1), x, b)
        c, d = muladd(spread(left, t + r + 2), x, c), muladd(spread(left, t + r + 3), x, d)
    store(part, at, a)
    store(part, at + P, b)
    store(part, at + 2 * P, c)
    store(part, at + 3 * P, d)


@internal
def _add_product(part, o, left, right, number, rows, first):
    """Add the product of the transpose of `left` and `right`, 16 columns each, where the index set has numbers."""
    for r in range(0, P, ROWS):
        if rows[first + r] > WIDTH:
            product(left, r, 1, P, right, 0, P, number, part, o + r * P, P, True)
        elif rows[first + r] > 0:
            _narrow(left, r, right, number, part, o + r * P)


@internal
def _add_tokens(u, order, stretch, exponents, values, centre, rows, part, room):
    """Add to part (fields, 16^d) the moments of the sources from stretch[0] to stretch[1], at most `TOGETHER`."""
    first, last = stretch
    left, right, middle, factors, weights = room
    number, n, c, d = last - first, len(order), values.shape[1], u.size // (len(order) + WIDTH)
    along, across = (d - 1) * (n + WIDTH) + first, (d - 2) * (n + WIDTH) + first
    for t in range(0, number, WIDTH):
        store(weights, t, exp2(load(exponents, first + t)))
    for t in range(number):
        powers(u, along + t, 1.0, right, t * P)
    if d == 3:
        for t in range(number):
            powers(u, across + t, 1.0, middle, t * P)
    for f in range(1 + c):
        for t in range(number):
            factors[t] = weights[t] * (values[order[first + t], f - 1] - centre[f - 1]) if f > 0 else weights[t]
        if d == 2:
            for t in range(number):
                powers(u, first + t, factors[t], left, t * P)
            _add_product(part, f * P * P, left, right, number, rows, 0)
        else:
            for k in range(P):
                if rows[k * P] == 0:
                    break
                for t in range(number):
                    x = spread(factors, t)
                    store(left, t * P, x * load(middle, t * P))
                    if rows[k * P + WIDTH] > 0:
                        store(left, t * P + WIDTH, x * load(middle, t * P + WIDTH))
                    factors[t] *= u[first + t]
                _add_product(part, (f * P + k) * P * P, left, right, number, rows, k * P)


@internal
def _add_part(part, d, lines, rows, place, grid):
    """Recombine the moments of a box, and add them to the grid."""
    L = len(lines)
    for f in range(len(grid)):
        recombine(part, f * L * P, d, rows, lines, True)
        number = 0
        for line in range(L):
            for k in range(lines[line]):
                grid[f, number, place] += part[(f * P + k) * L + line]
                number += 1


@in_parallel
def moments(u, order, start, places, lines, rows, exponents, values, centre, grid):
    """Add to the grid (1 + c, N, boxes) the moments of the weights of sources, and of weights times values - centre.

    The tokens from start[i] on are in the box at places[i]; the N numbers are those of the index set of `lines` and
    `rows`. A box that goes over an end of a piece is added up after the others, piece by piece. `u` is flat.
    """
    n, d, size = len(order), u.size // (len(order) + WIDTH), len(grid) * len(lines) * P
    parts = whole_lines(PIECES * 3 * size).reshape(PIECES, 3, size)
    cut = np.full((PIECES, 2), -1)
    for piece in numba.prange(PIECES):
        first, end = piece * n // PIECES, (piece + 1) * n // PIECES
        left, right, middle = whole_lines(TOGETHER * P), whole_lines(TOGETHER * P), whole_lines(TOGETHER * P)
        room = left, right, middle, whole_lines(TOGETHER), whole_lines(TOGETHER)
        box = np.searchsorted(start, first, side="right") - 1
        while first < end:
            last = min(end, start[box + 1])
            whole = start[box] == first and start[box + 1] == last
            side = 2 if whole else 0 if cut[piece, 0] < 0 else 1
            part = parts[piece, side]
            for o in range(0, size, WIDTH):
                store(part, o, splat(0.0))
            for i in range(first, last, TOGETHER):
                _add_tokens(u, order, (i, min(last, i + TOGETHER)), exponents, values, centre, rows, part, room)
            if whole:
                _add_part(part, d, lines, rows, places[box], grid)
            else:
                cut[piece, side] = box
            first, box = last, box + 1
    for piece in range(PIECES):
        for side in range(2):
            if cut[piece, side] >= 0:
                _add_part(parts[piece, side], d, lines, rows, places[cut[piece, side]], grid)
