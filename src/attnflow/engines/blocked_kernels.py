# mypy: ignore-errors
"""Compiled loops of the blocked engine: tiles of scores, their exponentials, and tiles applied to values.

They are compiled for doubles, and for floats where those are asked for. A block holds as many numbers as two vectors.
Queries and keys come as (blocks of tokens, d, block), values and their sums as (blocks of columns, tokens, block), so
that every product of small matrices reads from one stream. Every sum has one fixed order whatever the number of
threads, and no BLAS threads compete with these.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from attnflow.engines.kernels import in_parallel, internal, internal_with_arrays
from attnflow.engines.products import ROWS, product
from attnflow.engines.simd import added, exp2, exp2_within, filled, largest, load, maximum, muladd, spread, store, width

# A tile of EDGE rows and columns, whole numbers of blocks, stays in the second-level cache.
EDGE = 192
# Scores are added up in parts of DEPTH coordinates: fewer roundings follow each other, and keys stay in the cache.
DEPTH = 64


@internal
def _score(queries, i, rows, keys, j, columns, tile):
    """Fill the tile (rows, columns) with <q_i, k_j>, from query i and key j on."""
    d, block = keys.shape[1:]
    for k in range(0, d, DEPTH):
        count = min(DEPTH, d - k)
        for c in range(0, columns, block):
            first = (j + c) * d + k * block
            for r in range(0, rows, ROWS):
                at = (i + r - r % block) * d + k * block + r % block
                product(queries, at, 1, block, keys, first, block, count, tile, r * EDGE + c, EDGE, k > 0)


@internal
def _apply(tile, row, column, rows, columns, values, j, factor, part, sums, i):
    """Multiply the sums of rows from i on by their factors, and add A @ values[j:]; A is the tile with these strides.

    A tile's part of a sum has the precision of the values; sums are doubles.
    """
    blocks, n, block = values.shape
    for b in range(blocks):
        first = (b * n + j) * block
        for r in range(0, rows, ROWS):
            product(tile, r * row, row, column, values, first, block, columns, part, r * block, block, False)
        for r in range(rows):
            for k in range(block):
                sums[b, i + r, k] = factor[r] * sums[b, i + r, k] + part[r * block + k]


@internal
def _weigh(tile, rows, columns, last, logs, j, gain, top, factor, total):
    """Turn scores into 2^{g (s - M) + log2 w}, M the largest so far, and add them to the totals.

    The factor is what earlier sums are multiplied by. Columns from `last` on are padding.
    """
    w = width(tile)
    slope, zero = filled(tile, gain), filled(tile, 0.0)
    for r in range(rows):
        start = r * EDGE
        for c in range(last, columns):
            tile[start + c] = -np.inf
        highest = load(tile, start)
        for c in range(w, columns, w):
            highest = maximum(highest, load(tile, start + c))
        factor[r], new = 1.0, largest(highest)
        if not new <= top[r]:
            factor[r] = 0.0 if top[r] == -np.inf else math.exp2(gain * (top[r] - new))
            top[r] = new
        highest, whole = filled(tile, top[r]), zero
        for c in range(0, columns, w):
            x = exp2(muladd(slope, load(tile, start + c) - highest, load(logs, j + c)))
            store(tile, start + c, x)
            whole = whole + x
        total[r] = factor[r] * total[r] + added(whole)


@internal_with_arrays
def _rows(queries, i, rows, keys, n, logs, values, gain, sums, total, top):
    """Do the work of `softmax_parallel` for some rows from i on; of totals and tops only these are given."""
    padded, block, kind = len(logs), keys.shape[2], keys.dtype
    tile, part = np.empty(EDGE * EDGE, kind), np.empty(EDGE * block, kind)
    factor = np.empty(EDGE)
    for first in range(0, padded, EDGE):
        columns = min(EDGE, padded - first)
        _score(queries, i, rows, keys, first, columns, tile)
        _weigh(tile, rows, columns, min(columns, n - first), logs, first, gain, top, factor, total)
        _apply(tile, EDGE, 1, rows, columns, values, first, factor, part, sums, i)


@in_parallel
def softmax_parallel(queries, keys, n, logs, values, gain, sums, total, top):
    """Fill sums and total with sum_j 2^{g (s_ij - M_i)} w_j (v_j, 1), and top with M_i = max_j s_ij, for n sources.

    At the start sums and totals are 0, and tops -inf.
    """
    m = len(total)
    for task in numba.prange(-(-m // EDGE)):
        i, j = task * EDGE, min(m, (task + 1) * EDGE)
        _rows(queries, i, j - i, keys, n, logs, values, gain, sums, total[i:j], top[i:j])


# Where queries are keys, s_ij = s_ji: a tile of the tokens i and j serves the first, and its transpose the others.


@internal
def _weigh_both(tile, rows, columns, masses, i, j, gain, across, total):
    """Turn scores into e = 2^{g s}, and add e_ij w_j to the totals of rows and w_i e_ij to those of columns, if others.

    Exponents are moderate. `across` is room for the totals of columns.
    """
    w = width(tile)
    slope, zero = filled(tile, gain), filled(tile, 0.0)
    for c in range(0, columns, w):
        store(across, c, zero)
    for r in range(rows):
        start, own, whole = r * EDGE, spread(masses, i + r), zero
        for c in range(0, columns, w):
            x = exp2_within(slope * load(tile, start + c))
            store(tile, start + c, x)
            whole = muladd(x, load(masses, j + c), whole)
            store(across, c, muladd(own, x, load(across, c)))
        total[i + r] += added(whole)
    if i != j:
        for c in range(columns):
            total[j + c] += across[c]


@internal_with_arrays
def _pair(keys, i, rows, j, columns, masses, values, gain, sums, total):
    """Do the work of `symmetric_parallel` for the tokens from i on and those from j on."""
    block, kind = keys.shape[2], keys.dtype
    tile, part = np.empty(EDGE * EDGE, kind), np.empty(EDGE * block, kind)
    across, ones = np.empty(EDGE, kind), np.ones(EDGE)
    _score(keys, i, rows, keys, j, columns, tile)
    _weigh_both(tile, rows, columns, masses, i, j, gain, across, total)
    _apply(tile, EDGE, 1, rows, columns, values, j, ones, part, sums, i)
    if i != j:
        _apply(tile, 1, EDGE, columns, rows, values, i, ones, part, sums, j)


@in_parallel
def symmetric_parallel(keys, masses, values, gain, edge, sums, total):
    """Add sum_j 2^{g s_ij} w_j (v_j, 1) to sums and total, s_ij = <k_i, k_j>; the values come multiplied by w.

    Tokens are cut into N parts, N odd, of at most `edge` tokens. In turn h, the parts h + p and h - p (mod N) meet for
    each p from 0 to (N - 1) / 2: all different, so that tasks never share a sum, and in N turns every two meet once.
    """
    n = len(masses)
    parts = -(-n // edge) // 2 * 2 + 1
    for turn in range(parts):
        for p in numba.prange(parts // 2 + 1):
            i, j = (turn + p) % parts * edge, (turn - p) % parts * edge
            if max(i, j) < n:
                _pair(keys, i, min(edge, n - i), j, min(edge, n - j), masses, values, gain, sums, total)
