# mypy: ignore-errors
"""Products of small matrices in registers: the innermost loop of the blocked and of the separable engine."""

from __future__ import annotations

from attnflow.engines.kernels import internal
from attnflow.engines.simd import WIDTH, filled, load, muladd, spread, store, width

# Of the result, ROWS rows of two vectors, BLOCK doubles, are computed at once: as many sums as fit into the registers.
ROWS, BLOCK = 4, 2 * WIDTH


@internal
def product(a, at, row, column, b, first, stride, count, c, place, across, adds):
    """Write A B, or add it, into ROWS rows of two vectors of c, from `place` on with the stride `across`.

    A (ROWS, count) starts at `at` in a, with these strides of its rows and columns; B, of two vectors in each of its
    `count` rows, at `first` in b, with this stride of its rows. All three arrays hold doubles, or all three floats.
    """
    a0 = filled(c, 0.0)
    a1, b0, b1, c0, c1, d0, d1 = a0, a0, a0, a0, a0, a0, a0
    w = width(c)
    for k in range(count):
        u, v = load(b, first + k * stride), load(b, first + k * stride + w)
        x = spread(a, at + k * column)
        a0, a1 = muladd(x, u, a0), muladd(x, v, a1)
        x = spread(a, at + k * column + row)
        b0, b1 = muladd(x, u, b0), muladd(x, v, b1)
        x = spread(a, at + k * column + 2 * row)
        c0, c1 = muladd(x, u, c0), muladd(x, v, c1)
        x = spread(a, at + k * column + 3 * row)
        d0, d1 = muladd(x, u, d0), muladd(x, v, d1)
    p, q, r, s = place, place + across, place + 2 * across, place + 3 * across
    if adds:
        a0, a1, b0, b1 = a0 + load(c, p), a1 + load(c, p + w), b0 + load(c, q), b1 + load(c, q + w)
        c0, c1, d0, d1 = c0 + load(c, r), c1 + load(c, r + w), d0 + load(c, s), d1 + load(c, s + w)
    store(c, p, a0)
    store(c, p + w, a1)
    store(c, q, b0)
    store(c, q + w, b1)
    store(c, r, c0)
    store(c, r + w, c1)
    store(c, s, d0)
    store(c, s + w, d1)
