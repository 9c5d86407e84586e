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
def powers(u, i, factors, f, rows, at):
    """Write factors[f] times 1, x, ..., x^15 for x = u[i]."""
    x = spread(u, i)
    square = x * x
    fourth = square * square
    low = muladd(x, load(_BITS, 0), load(_BITS, 3 * WIDTH))
    low = low * muladd(square, load(_BITS, WIDTH), load(_BITS, 4 * WIDTH))
    low = low * muladd(fourth, load(_BITS, 2 * WIDTH), load(_BITS, 5 * WIDTH))
    low = spread(factors, f) * low
    store(rows, at, low)
    store(rows, at + WIDTH, fourth * fourth * low)


@compiled
def row(r, counts):
    """Return where the r-th row of 16 numbers of a box starts, counted from the first, in a grid of `counts` panels."""
    if len(counts) == 2:
        return r * counts[1] * P
    return (r // P * counts[1] * P + r % P) * counts[2] * P


@compiled
def _put(result, o, low, high):
    store(result, o, low)
    store(result, o + WIDTH, high)


@compiled
def eight_rows(left, r, right, first, blocks, result, o, stride):
    """Write rows of 16 numbers, r to r + 7 of sum_b f_b L_b^T R_b, into the result from o on.

    L_b and R_b are the blocks number active[b] from the start of `left`, from `first` on in `right`; `blocks` holds
    `active`, f and their number. These are as many sums as fit into the registers of a machine with 32 vectors.
    """
    active, factors, count = blocks
    zero = splat(0.0)
    a0, a1, b0, b1, c0, c1, d0, d1 = zero, zero, zero, zero, zero, zero, zero, zero
    e0, e1, g0, g1, h0, h1, i0, i1 = zero, zero, zero, zero, zero, zero, zero, zero
    for k in range(count):
        factor, at, w = spread(factors, k), first + active[k] * P * P, active[k] * P * P + r
        for j in range(0, P * P, P):
            m0, m1 = factor * load(right, at + j), factor * load(right, at + j + WIDTH)
            x = spread(left, w + j)
            a0, a1 = muladd(x, m0, a0), muladd(x, m1, a1)
            x = spread(left, w + j + 1)
            b0, b1 = muladd(x, m0, b0), muladd(x, m1, b1)
            x = spread(left, w + j + 2)
            c0, c1 = muladd(x, m0, c0), muladd(x, m1, c1)
            x = spread(left, w + j + 3)
            d0, d1 = muladd(x, m0, d0), muladd(x, m1, d1)
            x = spread(left, w + j + 4)
            e0, e1 = muladd(x, m0, e0), muladd(x, m1, e1)
            x = spread(left, w + j + 5)
            g0, g1 = muladd(x, m0, g0), muladd(x, m1, g1)
            x = spread(left, w + j + 6)
            h0, h1 = muladd(x, m0, h0), muladd(x, m1, h1)
            x = spread(left, w + j + 7)
            i0, i1 = muladd(x, m0, i0), muladd(x, m1, i1)
    _put(result, o, a0, a1)
    _put(result, o + stride, b0, b1)
    _put(result, o + 2 * stride, c0, c1)
    _put(result, o + 3 * stride, d0, d1)
    _put(result, o + 4 * stride, e0, e1)
    _put(result, o + 5 * stride, g0, g1)
    _put(result, o + 6 * stride, h0, h1)
    _put(result, o + 7 * stride, i0, i1)
