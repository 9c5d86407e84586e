"""Polynomials on a panel: what the loops of the separable engine have in common.

On a panel, u in [-1, 1], functions are polynomials of degree below 16. Products with K take them in the Chebyshev
polynomials, of which few products are needed (`separable_degrees`); tokens take them in powers of u, which cost least.
To go from one to the other is harmless because the functions here are entire: coefficients fall like z^k / k!, and
nothing cancels.
"""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from numpy.polynomial import chebyshev

from attnflow.engines.kernels import internal
from attnflow.engines.simd import WIDTH, load, muladd, splat, spread, store

P = 2 * WIDTH

NODES = np.cos(np.pi * (np.arange(P) + 0.5) / P)
# Coefficients of the Chebyshev polynomials from values at the nodes; of powers from those; and their transposes.
TO_CHEBYSHEV = np.ascontiguousarray(np.linalg.inv(chebyshev.chebvander(NODES, P - 1)))
TO_POWERS = np.array([np.pad(chebyshev.cheb2poly(row), (0, P))[:P] for row in np.eye(P)]).T.copy()
TO_CHEBYSHEV_T, TO_POWERS_T = np.ascontiguousarray(TO_CHEBYSHEV.T), np.ascontiguousarray(TO_POWERS.T)

# Row b says which of the exponents 0, ..., 7 have the bit b, row 3 + b which have not.
_BITS = np.array([[(k >> b & 1) == wanted for k in range(WIDTH)] for wanted in (1, 0) for b in range(3)], dtype=float)


@internal
def powers(u, i, factor, rows, at):
    """Write a factor times 1, x, ..., x^15 for x = u[i]."""
    x = spread(u, i)
    square = x * x
    fourth = square * square
    low = muladd(x, load(_BITS, 0), load(_BITS, 3 * WIDTH))
    low = low * muladd(square, load(_BITS, WIDTH), load(_BITS, 4 * WIDTH))
    low = low * muladd(fourth, load(_BITS, 2 * WIDTH), load(_BITS, 5 * WIDTH))
    low = splat(factor) * low
    store(rows, at, low)
    store(rows, at + WIDTH, fourth * fourth * low)


@internal
def _along(part, o, stride, length, moments):
    """Recombine eight lines at once, which start at o."""
    for step in range(length):
        j = length - 1 - step if moments else step
        total = splat(0.0)
        if moments:
            for i in range(j & 1, j + 1, 2):
                total = muladd(spread(TO_POWERS, i * P + j), load(part, o + i * stride), total)
        else:
            for i in range(j, length, 2):
                total = muladd(spread(TO_POWERS, j * P + i), load(part, o + i * stride), total)
        store(part, o + j * stride, total)


@internal
def recombine(part, o, d, rows, lines, moments):
    """Change the basis of the 16^d numbers from o on, in place, where the index set of `rows` and `lines` has them.

    Moments of powers become those of Chebyshev polynomials; otherwise coefficients of Chebyshev polynomials become
    those of powers. Numbers outside the set are to be 0, or are never read.
    """
    matrix = TO_POWERS if moments else TO_POWERS_T
    for r in range(len(rows)):
        at, low, high = o + r * P, splat(0.0), splat(0.0)
        for j in range(rows[r]):
            x = spread(part, at + j)
            low, high = muladd(x, load(matrix, j * P), low), muladd(x, load(matrix, j * P + WIDTH), high)
        if rows[r] > 0:
            store(part, at, low)
            store(part, at + WIDTH, high)
    for r in range(0, len(lines), WIDTH):
        _along(part, o + r, len(lines), lines[r], moments)
    if d == 3:
        for k in range(P):
            for c in range(0, P, WIDTH):
                length = 0
                while length < P and rows[k * P + length] > c:
                    length += 1
                _along(part, o + k * P * P + c, P, length, moments)
