"""Polynomials on a panel and blocks of 16 by 16 numbers: what the loops of the separable engine have in common.

On a panel, u in [-1, 1], functions are polynomials of degree below 16 in powers of u. Their coefficients are found from
values at the Chebyshev nodes in two steps. The first, to those of the Chebyshev polynomials, is stable; the second, to
powers, is harmless because the functions here are entire: coefficients fall like z^k / k!, and nothing cancels.
"""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from numpy.polynomial import chebyshev

from attnflow.engines.kernels import compiled
from attnflow.engines.simd import WIDTH, load, muladd, splat, spread, store

P = 2 * WIDTH

NODES = np.cos(np.pi * (np.arange(P) + 0.5) / P)
# Coefficients of the Chebyshev polynomials from values at the nodes; of powers from those; and their transposes.
TO_CHEBYSHEV = np.ascontiguousarray(np.linalg.inv(chebyshev.chebvander(NODES, P - 1)))
TO_POWERS = np.array([np.pad(chebyshev.cheb2poly(row), (0, P))[:P] for row in np.eye(P)]).T.copy()
TO_CHEBYSHEV_T, TO_POWERS_T = np.ascontiguousarray(TO_CHEBYSHEV.T), np.ascontiguousarray(TO_POWERS.T)

# Row b says which of the exponents 0, ..., 7 have the bit b, row 3 + b which have not.
_BITS = np.array([[(k >> b & 1) == wanted for k in range(WIDTH)] for wanted in (1, 0) for b in range(3)], dtype=float)


@compiled
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


@compiled
def row(r, counts):
    """Return where the r-th row of 16 numbers of a box starts, counted from the first, in a grid of `counts` panels."""
    if len(counts) == 2:
        return r * counts[1] * P
    return (r // P * counts[1] * P + r % P) * counts[2] * P
