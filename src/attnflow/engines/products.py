# mypy: ignore-errors
"""Products of small matrices in registers: the innermost loop of the blocked and of the separable engine."""

from __future__ import annotations

from attnflow.engines.kernels import compiled
from attnflow.engines.simd import WIDTH, load, muladd, splat, spread, store

# Of the result, ROWS rows of BLOCK columns are computed at once: as many sums as fit into the registers.
ROWS, BLOCK = 4, 2 * WIDTH


@compiled
def product(a, at, row, column, b, first, stride, count, c, place, across, adds):
    """Write A B, or add it, into ROWS rows of BLOCK numbers of c, from `place` on with the stride `across`.

    A (ROWS, count) starts at `at` in a, with these strides of its rows and columns; B (count, BLOCK) at `first` in b,
    with this stride of its rows.
    """
    a0, a1, b0, b1 = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    c0, c1, d0, d1 = a0, a0, a0, a0
    p, q, r, s = place, place + across, place + 2 * across, place + 3 * across
    if adds:
        a0, a1, b0, b1 = load(c, p), load(c, p + WIDTH), load(c, q), load(c, q + WIDTH)
        c0, c1, d0, d1 = load(c, r), load(c, r + WIDTH), load(c, s), load(c, s + WIDTH)
    for k in range(count):
        u, v = load(b, first + k * stride), load(b, first + k * stride + WIDTH)
        x = spread(a, at + k * column)
        a0, a1 = muladd(x, u, a0), muladd(x, v, a1)
        x = spread(a, at + k * column + row)
        b0, b1 = muladd(x, u, b0), muladd(x, v, b1)
        x = spread(a, at + k * column + 2 * row)
        c0, c1 = muladd(x, u, c0), muladd(x, v, c1)
        x = spread(a, at + k * column + 3 * row)
        d0, d1 = muladd(x, u, d0), muladd(x, v, d1)
    store(c, p, a0)
    store(c, p + WIDTH, a1)
    store(c, q, b0)
    store(c, q + WIDTH, b1)
    store(c, r, c0)
    store(c, r + WIDTH, c1)
    store(c, s, d0)
    store(c, s + WIDTH, d1)
