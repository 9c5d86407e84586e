"""Compiled loops of the separable engine, for tokens with two or three coordinates.

On each panel, u in [-1, 1], the functions phi_k = T_k, phi_{8+k} = T_8 T_k, k < 8, span the polynomials of degree below
16, as the Chebyshev polynomials T_0, ..., T_15 do; the second vector of eight is a multiple of the first.

Tokens are sorted by box (one panel per axis). A grid is a C-ordered array (fields, N_1, ..., N_d) with N_a = 16 times
the number of occupied panels on axis a; the part that belongs to a box has 16^(d-1) rows of 16 numbers. All work is cut
into a fixed number of pieces, whatever the number of threads, and sums are added in a fixed order.
"""

# mypy: ignore-errors

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.polynomial import chebyshev

from attnflow.engines.kernels import LOG2E, compiled, in_parallel
from attnflow.engines.lanes import WIDTH, exp2, load, maximum, muladd, splat, spread, store

# Compiled code is kept on disk until this file changes. It holds code of lanes.py too, so this digest, which a test
# compares, must change with that file.
LANES = "c20a1d91acce76be"

P = 2 * WIDTH
# Pieces of the passes over tokens; of the sort, which needs a counter for each box in each piece.
PIECES, SORT_PIECES = 64, 8
# Blocks are left out below this power of two of the largest: n e^{4 z} such ones change no sum by 1e-11.
NEGLIGIBLE = -80.0


def phi(u):
    """Values of all sixteen functions, as columns."""
    low = chebyshev.chebvander(u, WIDTH)
    return np.concatenate([low[:, :WIDTH], low[:, WIDTH:] * low[:, :WIDTH]], axis=1)


NODES = np.cos(np.pi * (np.arange(P) + 0.5) / P)
# Coefficients of the interpolant from values at the nodes, A[a, k], and its transpose.
COEFFICIENTS = np.ascontiguousarray(np.linalg.inv(phi(NODES)))
TRANSPOSED = np.ascontiguousarray(COEFFICIENTS.T)
# Row i: the coefficients of u^i in T_0, ..., T_7.
POWERS = np.array([np.pad(chebyshev.cheb2poly(row), (0, WIDTH))[:WIDTH] for row in np.eye(WIDTH)]).T.copy()


# Where tokens are. Nothing but plain loops here: array expressions in parallel functions take long to compile.


@in_parallel
def extent(rows):
    """Return the greatest element of each column of a C-ordered array, and the greatest after a change of sign.

    Eight rows of c numbers are c vectors: the lane l of the v-th belongs to the column (8 v + l) mod c.
    """
    n, c = rows.shape
    pieces = np.empty((PIECES, 2, c))
    for piece in numba.prange(PIECES):
        first, last = piece * n // PIECES, (piece + 1) * n // PIECES
        whole = first + (last - first) // WIDTH * WIDTH
        scratch = np.empty(2 * WIDTH)
        for a in range(c):
            pieces[piece, 0, a], pieces[piece, 1, a] = -np.inf, -np.inf
        for v in range(c):
            high, low = splat(-np.inf), splat(-np.inf)
            for i in range(first, whole, WIDTH):
                x = load(rows, i * c + v * WIDTH)
                high, low = maximum(high, x), maximum(low, splat(0.0) - x)
            store(scratch, 0, high)
            store(scratch, WIDTH, low)
            for lane in range(WIDTH):
                a = (v * WIDTH + lane) % c
                pieces[piece, 0, a] = max(pieces[piece, 0, a], scratch[lane])
                pieces[piece, 1, a] = max(pieces[piece, 1, a], scratch[WIDTH + lane])
        for i in range(whole, last):
            for a in range(c):
                pieces[piece, 0, a] = max(pieces[piece, 0, a], rows[i, a])
                pieces[piece, 1, a] = max(pieces[piece, 1, a], -rows[i, a])
    return pieces


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


@compiled
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
def count(rows, centre, scale, panels, seats, counts):
    """Return the box of each token, and how many tokens of each piece lie in each box.

    The panel b of the axis a is number seats[a, b] among the counts[a] occupied ones.
    """
    n, d = rows.shape
    boxes = counts[0] * counts[1] * (counts[2] if d == 3 else 1)
    code, numbers = np.empty(n, dtype=np.int32), np.zeros((SORT_PIECES, boxes), dtype=np.int64)
    for piece in numba.prange(SORT_PIECES):
        for i in range(piece * n // SORT_PIECES, (piece + 1) * n // SORT_PIECES):
            box = 0
            for a in range(d):
                box = box * counts[a] + seats[a, _panel(rows[i, a], centre[a], scale[a], panels[a])]
            code[i] = box
            numbers[piece, box] += 1
    return code, numbers


@in_parallel
def sort(rows, code, place, centre, scale, panels):
    """Return the places u (d, n + 8), from -1 to 1, of the tokens in their panels, sorted by box, and their indices.

    `place` says where the first token of each piece in each box goes; it is used up.
    """
    n, d = rows.shape
    u, order = np.empty((d, n + WIDTH)), np.empty(n, dtype=np.int64)
    for a in range(d):
        for i in range(n, n + WIDTH):
            u[a, i] = 0.0
    for piece in numba.prange(SORT_PIECES):
        for i in range(piece * n // SORT_PIECES, (piece + 1) * n // SORT_PIECES):
            to = place[piece, code[i]]
            place[piece, code[i]] = to + 1
            order[to] = i
            for a in range(d):
                r = (rows[i, a] - centre[a]) * scale[a] + 0.5 * panels[a]
                u[a, to] = 2.0 * (r - max(0, min(int(r), panels[a] - 1))) - 1.0
    return u, order


@in_parallel
def exponents(keys, centre, slope, log2_masses, code, boxes):
    """Return <slope, k - centre> + log2 of the mass, padded to whole vectors, and the largest in each box by piece."""
    n, d = keys.shape
    result, tops = np.zeros(n + WIDTH), np.full((SORT_PIECES, boxes), -np.inf)
    for piece in numba.prange(SORT_PIECES):
        for j in range(piece * n // SORT_PIECES, (piece + 1) * n // SORT_PIECES):
            s = slope[0] * (keys[j, 0] - centre[0]) + slope[1] * (keys[j, 1] - centre[1])
            if d == 3:
                s += slope[2] * (keys[j, 2] - centre[2])
            if len(log2_masses):
                s += log2_masses[j]
            result[j] = s
            tops[piece, code[j]] = max(tops[piece, code[j]], s)
    return result, tops


@in_parallel
def weigh(weights, tops, code):
    """Replace each exponent e by 2^(e - the largest in its box)."""
    n, vectors = len(code), weights.size // WIDTH
    for piece in numba.prange(PIECES):
        for v in range(piece * vectors // PIECES, (piece + 1) * vectors // PIECES):
            for j in range(WIDTH * v, min(n, WIDTH * (v + 1))):
                top = tops[code[j]]
                weights[j] = weights[j] - top if top > -np.inf else -np.inf  # no mass at all in this box
            store(weights, WIDTH * v, exp2(load(weights, WIDTH * v)))


# Values of phi_0, ..., phi_15 at one token, in two vectors, or at eight tokens in the lanes


@compiled
def _low(u):
    """T_0(u), ..., T_7(u)."""
    x = splat(u)
    s = load(POWERS, WIDTH * 7)
    for k in range(6, -1, -1):
        s = muladd(s, x, load(POWERS, WIDTH * k))
    return s


@compiled
def _eighth(u):
    square = 2.0 * u * u - 1.0
    square = 2.0 * square * square - 1.0
    return splat(2.0 * square * square - 1.0)


@compiled
def _basis(u, phi, at):
    """Write phi_0(u), ..., phi_15(u)."""
    x = u + u
    before, now = splat(1.0), u
    store(phi, at, before)
    store(phi, at + WIDTH, now)
    for k in range(2, WIDTH):
        before, now = now, x * now - before
        store(phi, at + k * WIDTH, now)
    eighth = x * now - before
    for k in range(WIDTH):
        store(phi, at + (WIDTH + k) * WIDTH, eighth * load(phi, at + k * WIDTH))


@compiled
def _slopes(u, phi, at, slope):
    """Write the derivatives of phi_0(u), ..., phi_15(u): T'_k = 2 T_{k-1} + 2 u T'_{k-1} - T'_{k-2}."""
    x = u + u
    before, now = splat(0.0), splat(1.0)
    store(slope, at, before)
    store(slope, at + WIDTH, now)
    for k in range(2, WIDTH + 1):
        last = load(phi, at + (k - 1) * WIDTH)
        before, now = now, muladd(x, now, last + last - before)
        if k < WIDTH:
            store(slope, at + k * WIDTH, now)
    eighth = load(phi, at + WIDTH * WIDTH)
    for k in range(WIDTH):
        s = muladd(now, load(phi, at + k * WIDTH), eighth * load(slope, at + k * WIDTH))
        store(slope, at + (WIDTH + k) * WIDTH, s)


@compiled
def _products(phi, rows):
    """Write phi_k(u_1) phi_l(u_2) for all k and l."""
    for k in range(P):
        x = load(phi, k * WIDTH)
        for j in range(P):
            store(rows, (k * P + j) * WIDTH, x * load(phi, (P + j) * WIDTH))


# From sources to grid


@compiled
def _add_four(part, f, u, at, rows, R, lane, factors):
    """Add to the field f of a box the moments of four tokens, in these lanes of `rows`, times their factors."""
    u0, u1, u2, u3 = u[at], u[at + 1], u[at + 2], u[at + 3]
    a0, b0, c0, e0 = _low(u0), _low(u1), _low(u2), _low(u3)
    a1, b1, c1, e1 = a0 * _eighth(u0), b0 * _eighth(u1), c0 * _eighth(u2), e0 * _eighth(u3)
    if f > 0:
        x = spread(factors, f * WIDTH + lane)
        a0, a1 = x * a0, x * a1
        x = spread(factors, f * WIDTH + lane + 1)
        b0, b1 = x * b0, x * b1
        x = spread(factors, f * WIDTH + lane + 2)
        c0, c1 = x * c0, x * c1
        x = spread(factors, f * WIDTH + lane + 3)
        e0, e1 = x * e0, x * e1
    for r in range(R):
        o, w = (f * R + r) * P, r * WIDTH + lane
        x = spread(rows, w)
        s0, s1 = muladd(x, a0, load(part, o)), muladd(x, a1, load(part, o + WIDTH))
        x = spread(rows, w + 1)
        s0, s1 = muladd(x, b0, s0), muladd(x, b1, s1)
        x = spread(rows, w + 2)
        s0, s1 = muladd(x, c0, s0), muladd(x, c1, s1)
        x = spread(rows, w + 3)
        store(part, o, muladd(x, e0, s0))
        store(part, o + WIDTH, muladd(x, e1, s1))


@compiled
def _add_tokens(u, order, stretch, weights, values, centre, part, phi, rows, factors):
    """Write into part (fields, rows, 16) the moments of the sources from stretch[0] to stretch[1], eight at a time."""
    first, last = stretch
    n, c, d = len(order), values.shape[1], u.size // (len(order) + WIDTH)
    R = part.size // ((1 + c) * P)
    for o in range(0, part.size, WIDTH):
        store(part, o, splat(0.0))
    for i in range(first, last, WIDTH):
        for t in range(WIDTH):
            factors[t] = 0.0
            if i + t < last:
                j = order[i + t]
                factors[t] = weights[j]
                for f in range(c):
                    factors[(1 + f) * WIDTH + t] = values[j, f] - centre[f]
        _basis(load(u, i), phi, 0)
        for k in range(P):
            store(phi, k * WIDTH, load(factors, 0) * load(phi, k * WIDTH))
        if d == 3:
            _basis(load(u, n + WIDTH + i), phi, P * WIDTH)
            _products(phi, rows)
        for f in range(1 + c):
            for lane in range(0, min(WIDTH, last - i), 4):
                _add_four(part, f, u, (d - 1) * (n + WIDTH) + i + lane, rows if d == 3 else phi, R, lane, factors)


@compiled
def _row(r, counts):
    """Return where the r-th row of a box starts, counted from its first row."""
    if len(counts) == 2:
        return r * counts[1] * P
    return (r // P * counts[1] * P + r % P) * counts[2] * P


@compiled
def _add_part(part, counts, corner, grid):
    fields, size = grid.shape
    R = part.size // (fields * P)
    for f in range(fields):
        for r in range(R):
            o = f * size + corner + _row(r, counts)
            for half in range(0, P, WIDTH):
                store(grid, o + half, load(grid, o + half) + load(part, (f * R + r) * P + half))


@in_parallel
def moments(u, order, start, corner, counts, weights, values, centre, grid):
    """Add to the grid (1 + c, N) the moments of the sources: of their weights, and of weights times values - centre.

    A box that goes over an end of a piece is added up after the others, piece by piece. `u` is flat.
    """
    n, R, fields = len(order), P ** (len(counts) - 1), len(grid)
    parts = np.empty((PIECES, 3, fields * R * P))
    cut = np.full((PIECES, 2), -1)
    for piece in numba.prange(PIECES):
        first, end = piece * n // PIECES, (piece + 1) * n // PIECES
        phi, rows, factors = np.empty(2 * P * WIDTH), np.empty(R * WIDTH), np.zeros(fields * WIDTH)
        box = np.searchsorted(start, first, side="right") - 1
        while first < end:
            last = min(end, start[box + 1])
            whole = start[box] == first and start[box + 1] == last
            side = 2 if whole else 0 if cut[piece, 0] < 0 else 1
            part = parts[piece, side]
            _add_tokens(u, order, (first, last), weights, values, centre, part, phi, rows, factors)
            if whole:
                _add_part(part, counts, corner[box], grid)
            else:
                cut[piece, side] = box
            first, box = last, box + 1
    for piece in range(PIECES):
        for side in range(2):
            if cut[piece, side] >= 0:
                _add_part(parts[piece, side], counts, corner[cut[piece, side]], grid)


# From grid to grid


@compiled
def _times(a, b, result):
    """Product of two 16-by-16 matrices."""
    for k in range(P):
        s0, s1 = splat(0.0), splat(0.0)
        for j in range(P):
            w = spread(a, k * P + j)
            s0, s1 = muladd(w, load(b, j * P), s0), muladd(w, load(b, j * P + WIDTH), s1)
        store(result, k * P, s0)
        store(result, k * P + WIDTH, s1)


@in_parallel
def exponentials(targets, sources, width, gain):
    """Return K (panels of targets, 16 * panels of sources, 16), interpolants of e^{g (t s - t' s')} for centres t', s'.

    `targets` and `sources` hold these centres, `width` the half-widths of both kinds of panels: for t = t' + tau and
    s = s' + sigma, e^{g (t s - t' s')} = sum_kl K[., l, k] phi_k(tau / width_t) phi_l(sigma / width_s).
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
            _times(COEFFICIENTS, values, half)
            _times(half, TRANSPOSED, matrices[t, s * P : (s + 1) * P])
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
def _scaled(columns, first, scales, shifts, lifted, place, result, active):
    """Write the blocks of a group of columns that a target panel hears, each times its factor; return how many."""
    (t, block), kept = place, 0
    for s in range(len(scales)):
        x = scales[s, block] + shifts[t, s] - lifted[block, t]
        if x > NEGLIGIBLE:
            factor = exp2(splat(x))
            for at in range(0, P * P, WIDTH):
                store(result, kept * P * P + at, factor * load(columns, first + s * P * P + at))
            active[kept] = s
            kept += 1
    return kept


@compiled
def _put(result, o, low, high):
    store(result, o, low)
    store(result, o + WIDTH, high)


@compiled
def _eight_rows(scaled, r, active, kept, matrices, first, result, o, stride):
    """Write eight rows of 16 numbers: as many sums as fit into the registers of a machine with 32 vectors."""
    zero = splat(0.0)
    a0, a1, b0, b1, c0, c1, d0, d1 = zero, zero, zero, zero, zero, zero, zero, zero
    e0, e1, g0, g1, h0, h1, i0, i1 = zero, zero, zero, zero, zero, zero, zero, zero
    for k in range(kept):
        at, w = first + active[k] * P * P, k * P * P + r
        for j in range(0, P * P, P):
            m0, m1 = load(matrices, at + j), load(matrices, at + j + WIDTH)
            x = spread(scaled, w + j)
            a0, a1 = muladd(x, m0, a0), muladd(x, m1, a1)
            x = spread(scaled, w + j + 1)
            b0, b1 = muladd(x, m0, b0), muladd(x, m1, b1)
            x = spread(scaled, w + j + 2)
            c0, c1 = muladd(x, m0, c0), muladd(x, m1, c1)
            x = spread(scaled, w + j + 3)
            d0, d1 = muladd(x, m0, d0), muladd(x, m1, d1)
            x = spread(scaled, w + j + 4)
            e0, e1 = muladd(x, m0, e0), muladd(x, m1, e1)
            x = spread(scaled, w + j + 5)
            g0, g1 = muladd(x, m0, g0), muladd(x, m1, g1)
            x = spread(scaled, w + j + 6)
            h0, h1 = muladd(x, m0, h0), muladd(x, m1, h1)
            x = spread(scaled, w + j + 7)
            i0, i1 = muladd(x, m0, i0), muladd(x, m1, i1)
    _put(result, o, a0, a1)
    _put(result, o + stride, b0, b1)
    _put(result, o + 2 * stride, c0, c1)
    _put(result, o + 3 * stride, d0, d1)
    _put(result, o + 4 * stride, e0, e1)
    _put(result, o + 5 * stride, g0, g1)
    _put(result, o + 6 * stride, h0, h1)
    _put(result, o + 7 * stride, i0, i1)


@in_parallel
def contract(grid, matrices, scales, shifts, lifted, last):
    """Multiply the first axis (after the fields) by the matrices of `exponentials`, and make it the last one.

    Blocks of 16^d numbers, one per box, are meant times 2^scales before, 2^lifted after; e^{g t' s'} is 2^shifts.
    `last` is the number of panels on the last axis so far. Blocks of the result with infinite scales are not wanted.
    """
    fields, L, R = grid.shape
    panels, lines = len(matrices), R // (P * scales.shape[1])
    result = np.zeros((fields, R, panels * P))
    # In space rows are far apart in memory: several groups of 16 columns are fetched at once.
    together = 1 if lines == 1 else 8
    tasks = R // (P * together)  # in space R / 16 is 16 times the number of blocks
    for task in numba.prange(fields * tasks):
        columns, scaled, active = np.empty(together * L * P), np.empty(L * P), np.empty(len(scales), dtype=np.int64)
        f, first = task // tasks, task % tasks * together
        for j in range(L):
            for g in range(together):
                for half in range(0, P, WIDTH):
                    x = load(grid, (f * L + j) * R + (first + g) * P + half)
                    store(columns, (g * L + j) * P + half, x)
        for g in range(together):
            group = first + g
            block = group // (lines * last) * last + group % last
            for t in range(panels):
                kept = _scaled(columns, g * L * P, scales, shifts, lifted, (t, block), scaled, active)
                for r in range(0, P, 8):
                    o, stride = ((f * R + group * P + r) * panels + t) * P, panels * P
                    _eight_rows(scaled, r, active, kept, matrices, t * L * P, result, o, stride)
    return result


# From grid to targets, eight targets of one box in the lanes


@compiled
def _four_rows(part, o, phi, at):
    a, b, c, e = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    for j in range(P):
        x = load(phi, at + j * WIDTH)
        a = muladd(spread(part, o + j), x, a)
        b = muladd(spread(part, o + P + j), x, b)
        c = muladd(spread(part, o + 2 * P + j), x, c)
        e = muladd(spread(part, o + 3 * P + j), x, e)
    return a, b, c, e


@compiled
def _four_terms(weights, at, four, total):
    a, b, c, e = four
    ab = muladd(load(weights, at + WIDTH), b, load(weights, at) * a)
    return total + muladd(load(weights, at + 3 * WIDTH), e, muladd(load(weights, at + 2 * WIDTH), c, ab))


@compiled
def _field(part, o, rows, R, phi, at):
    """Sum over r and l of part[o + 16 r + l] rows_r phi_l."""
    total = splat(0.0)
    for r in range(0, R, 4):
        total = _four_terms(rows, r * WIDTH, _four_rows(part, o + r * P, phi, at), total)
    return total


@compiled
def _plane(part, phi, slope, sums):
    """One field and its gradient in the plane."""
    total, first, second = splat(0.0), splat(0.0), splat(0.0)
    for r in range(0, P, 4):
        four = _four_rows(part, r * P, phi, P * WIDTH)
        total = _four_terms(phi, r * WIDTH, four, total)
        first = _four_terms(slope, r * WIDTH, four, first)
        second = _four_terms(phi, r * WIDTH, _four_rows(part, r * P, slope, P * WIDTH), second)
    store(sums, 0, total)
    store(sums, WIDTH, first)
    store(sums, 2 * WIDTH, second)


@compiled
def _space(part, phi, slope, sums):
    """One field and its gradient in space."""
    total, first, second, third = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    for k in range(P):
        line, bent, steep = splat(0.0), splat(0.0), splat(0.0)
        for j in range(0, P, 4):
            o, at = (k * P + j) * P, (P + j) * WIDTH
            four = _four_rows(part, o, phi, 2 * P * WIDTH)
            line = _four_terms(phi, at, four, line)
            bent = _four_terms(slope, at, four, bent)
            steep = _four_terms(phi, at, _four_rows(part, o, slope, 2 * P * WIDTH), steep)
        x = load(phi, k * WIDTH)
        total, first = muladd(x, line, total), muladd(load(slope, k * WIDTH), line, first)
        second, third = muladd(x, bent, second), muladd(x, steep, third)
    store(sums, 0, total)
    store(sums, WIDTH, first)
    store(sums, 2 * WIDTH, second)
    store(sums, 3 * WIDTH, third)


@compiled
def _evaluate(u, i, n, d, part, fields, phi, slope, rows, sums):
    """Write the fields, or the one field and its gradient, at eight targets."""
    R = P ** (d - 1)
    for a in range(d):
        x = load(u, a * (n + WIDTH) + i)
        _basis(x, phi, a * P * WIDTH)
        if fields == 1:
            _slopes(x, phi, a * P * WIDTH, slope)
    if fields > 1:
        if d == 3:
            _products(phi, rows)
        for f in range(fields):
            s = _field(part, f * R * P, rows if d == 3 else phi, R, phi, (d - 1) * P * WIDTH)
            store(sums, f * WIDTH, s)
    elif d == 2:
        _plane(part, phi, slope, sums)
    else:
        _space(part, phi, slope, sums)
    for f in range(1, d + 1 if fields == 1 else fields):
        store(sums, f * WIDTH, load(sums, f * WIDTH) / load(sums, 0))


@in_parallel
def interpolate(u, order, start, corner, counts, grid, scales, back, centre, mean, log_total):
    """Fill the mean and the logarithm of the total of each target; `u` is flat, `scales` are those of its boxes.

    With one field Z the mean is centre + back grad Z / Z. Otherwise the fields are those of `moments`.
    """
    n, d, (fields, size) = len(order), len(counts), grid.shape
    R = P ** (d - 1)
    for piece in numba.prange(PIECES):
        first, end = piece * n // PIECES, (piece + 1) * n // PIECES
        part, rows, sums = np.empty(fields * R * P), np.empty(R * WIDTH), np.empty((fields + d) * WIDTH)
        phi, slope = np.empty(d * P * WIDTH), np.empty(d * P * WIDTH)
        box = np.searchsorted(start, first, side="right") - 1
        while first < end:
            last = min(end, start[box + 1])
            for f in range(fields):
                for r in range(R):
                    o = f * size + corner[box] + _row(r, counts)
                    store(part, (f * R + r) * P, load(grid, o))
                    store(part, (f * R + r) * P + WIDTH, load(grid, o + WIDTH))
            for i in range(first, last, WIDTH):
                _evaluate(u, i, n, d, part, fields, phi, slope, rows, sums)
                for t in range(min(WIDTH, last - i)):
                    j = order[i + t]
                    log_total[j] = math.log(sums[t]) + scales[box] / LOG2E
                    for b in range(mean.shape[1]):
                        s = centre[b]
                        if fields > 1:
                            s += sums[(1 + b) * WIDTH + t]
                        else:
                            for a in range(d):
                                s += back[b, a] * sums[(1 + a) * WIDTH + t]
                        mean[j, b] = s
            first, box = last, box + 1


@in_parallel
def add_scores(log_total, queries, slope):
    """Add <slope, q_i>."""
    n, d = queries.shape
    for piece in numba.prange(PIECES):
        for i in range(piece * n // PIECES, (piece + 1) * n // PIECES):
            s = slope[0] * queries[i, 0] + slope[1] * queries[i, 1]
            if d == 3:
                s += slope[2] * queries[i, 2]
            log_total[i] += s
