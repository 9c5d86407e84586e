"""From grid to grid: one axis after the other is multiplied by the exponentials between its panels.

Blocks of 16^d numbers, one per box, carry powers of two of their own, so that terms may go far beyond the range of
doubles; blocks too faint to be heard are left out of the products.
"""

# mypy: ignore-errors

from __future__ import annotations

import numba
import numpy as np

from attnflow.engines.kernels import LOG2E, compiled, in_parallel
from attnflow.engines.products import ROWS, product
from attnflow.engines.separable_blocks import NODES, TO_CHEBYSHEV, TO_CHEBYSHEV_T, TO_POWERS, TO_POWERS_T, P
from attnflow.engines.simd import WIDTH, exp2, load, muladd, splat, spread, store


@compiled
def _times(a, b, result):
    """Product of two 16-by-16 matrices."""
    for r in range(0, P, ROWS):
        product(a, r * P, P, 1, b, 0, P, P, result, r * P, P, False)


@in_parallel
def exponentials(targets, sources, width, gain):
    """Return K (panels of targets, 16 * panels of sources, 16), interpolants of e^{g (t s - t' s')} for centres t', s'.

    `targets` and `sources` hold these centres, `width` the half-widths of both kinds of panels: for t = t' + tau and
    s = s' + sigma, e^{g (t s - t' s')} = sum_kl K[., l, k] (tau / width_t)^k (sigma / width_s)^l.
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
            _times(half, TO_CHEBYSHEV_T, values)
            _times(TO_POWERS, values, half)
            _times(half, TO_POWERS_T, matrices[t, s * P : (s + 1) * P])
    return matrices


@in_parallel
def lift(scales, shifts):
    """Return max_s scales[s, o] + shifts[t, s]: the product of `contract` for the sizes of blocks."""
    S, blocks = scales.shape
    result = np.empty((blocks, len(shifts)))
    for o in numba.prange(blocks):
        for t in range(len(shifts)):
            top = -np.inf
            for s in range(S):
                top = max(top, scales[s, o] + shifts[t, s])
            result[o, t] = top
    return result


@compiled
def _heard(scales, shifts, lifted, t, block, faintest, active, factors):
    """List the source blocks that a target panel hears, with the factors that bring them to its scale."""
    kept = 0
    for s in range(len(scales)):
        x = scales[s, block] + shifts[t, s] - lifted[block, t]
        if x > faintest:
            active[kept], factors[kept] = s, x
            kept += 1
    for k in range(0, kept, WIDTH):
        store(factors, k, exp2(load(factors, k)))
    return kept


@in_parallel
def contract(grid, matrices, scales, shifts, lifted, last, faintest, result):
    """Multiply the first axis (after the fields) by the matrices of `exponentials`; in the result it is the last one.

    Blocks of 16^d numbers, one per box, are meant times 2^scales before, 2^lifted after; e^{g t' s'} is 2^shifts, and
    terms below 2^faintest of the largest are left out. `last` is the number of panels on the last axis so far. Blocks
    of the result with infinite scales are not wanted, and never read.
    """
    fields, L, R = grid.shape
    panels, lines = len(matrices), R // (P * scales.shape[1])
    # In space rows are far apart in memory: several groups of 16 columns are fetched at once.
    together = 1 if lines == 1 else 8
    tasks = R // (P * together)  # in space R / 16 is 16 times the number of blocks
    for task in numba.prange(fields * tasks):
        columns, scaled = np.empty(together * L * P), np.empty(P * P)
        active, factors = np.empty(len(scales), dtype=np.int64), np.zeros(len(scales) + WIDTH)
        f, first = task // tasks, task % tasks * together
        for j in range(L):
            for g in range(together):
                for half in range(0, P, WIDTH):
                    x = load(grid, (f * L + j) * R + (first + g) * P + half)
                    store(columns, (g * L + j) * P + half, x)
        for g in range(together):
            group = first + g
            block = group // (lines * last) * last + group % last
            own = columns[g * L * P : (g + 1) * L * P]
            for t in range(panels):
                kept = _heard(scales, shifts, lifted, t, block, faintest, active, factors)
                for k in range(kept):
                    at = active[k] * P * P
                    for i in range(0, P * P, WIDTH):
                        store(scaled, i, spread(factors, k) * load(matrices, t * L * P + at + i))
                    for r in range(0, P, ROWS):
                        o = ((f * R + group * P + r) * panels + t) * P
                        product(own, at + r, 1, P, scaled, 0, P, P, result, o, panels * P, k > 0)
