# mypy: ignore-errors
"""Compiled loops of the blocked engine: tiles of scores, their exponentials, and tiles applied to values.

They are compiled for doubles, and for floats where those are asked for. Keys and values come packed, so that what a
product of small matrices reads is one stream: a block of as many keys as two vectors have lanes as (d, lanes), and a
block of as many columns of the values as (n, lanes). Every sum has one fixed order whatever the number of threads, and
no BLAS threads compete with these.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from attnflow.engines.kernels import compiled, in_parallel
from attnflow.engines.products import ROWS, product
from attnflow.engines.simd import exp2, exp2_within, filled, load, maximum, muladd, spread, store, width

# A tile of TILE_ROWS rows and TILE_COLUMNS columns, whole numbers of ROWS and of blocks, stays in the second-level cache.
TILE_ROWS, TILE_COLUMNS = 192, 192
# Scores are added up in parts of DEPTH coordinates: fewer roundings follow each other, and keys stay in the cache.
DEPTH = 64


@compiled
def _score(queries, i, rows, packed, j, columns, tile):
    """Fill the tile (rows, columns) with <q_i, k_j>, from query i and key j on."""
    d, block = queries.shape[1], 2 * width(tile)
    for k in range(0, d, DEPTH):
        count = min(DEPTH, d - k)
        for c in range(0, columns, block):
            first = (j + c) * d + k * block
            for r in range(0, rows, ROWS):
                at, place = (i + r) * d + k, r * TILE_COLUMNS + c
                product(queries, at, d, 1, packed, first, block, count, tile, place, TILE_COLUMNS, k > 0)


@compiled
def _apply(tile, strides, rows, columns, values, j, factor, part, sums):
    """Multiply the sums by the factors of their rows and add A @ values[j:], a block of columns at a time.

    A (rows, columns) is the tile with these strides.
    """
    blocks, n, block = values.shape
    for b in range(blocks):
        first = (b * n + j) * block
        for r in range(0, rows, ROWS):
            at = r * strides[0]
            product(tile, at, strides[0], strides[1], values, first, block, columns, part, r * block, block, False)
        for r in range(rows):
            for k in range(block):
                sums[r, b * block + k] = factor[r] * sums[r, b * block + k] + part[r * block + k]


@compiled
def _weigh(tile, rows, columns, last, logs, j, gain, top, factor, total, room):
    """Turn scores into 2^{g (s - M) + log2 w}, M the largest so far, and add them to the totals.

    The factor is what earlier sums are multiplied by. Columns from `last` on are padding.
    """
    w = width(tile)
    slope, zero = filled(tile, gain), filled(tile, 0.0)
    for r in range(rows):
        start = r * TILE_COLUMNS
        for c in range(last, columns):
            tile[start + c] = -np.inf
        highest = load(tile, start)
        for c in range(w, columns, w):
            highest = maximum(highest, load(tile, start + c))
        store(room, 0, highest)
        factor[r], new = 1.0, room.max()
        if not new <= top[r]:
            factor[r] = 0.0 if top[r] == -np.inf else math.exp2(gain * (top[r] - new))
            top[r] = new
        highest, whole = filled(tile, top[r]), zero
        for c in range(0, columns, w):
            x = exp2(muladd(slope, load(tile, start + c) - highest, load(logs, j + c)))
            store(tile, start + c, x)
            whole = whole + x
        store(room, 0, whole)
        total[r] = factor[r] * total[r] + room.sum()


@in_parallel
def softmax_parallel(queries, packed, n, logs, values, gain, sums, total, top):
    """Fill sums and total with sum_j 2^{g (s_ij - M_i)} w_j (v_j, 1), and top with M_i = max_j s_ij, for n sources.

    Sums of a tile have the precision of the queries, keys and values; those of all tiles are doubles.
    """
    m, padded, kind = len(queries), len(logs), queries.dtype
    for task in numba.prange(-(-m // TILE_ROWS)):
        i, j = task * TILE_ROWS, min(m, (task + 1) * TILE_ROWS)
        tile, part = np.empty(TILE_ROWS * TILE_COLUMNS, kind), np.empty(TILE_ROWS * values.shape[2], kind)
        factor, room = np.empty(TILE_ROWS), np.empty(width(tile), kind)
        sums[i:j], total[i:j], top[i:j] = 0.0, 0.0, -np.inf
        for first in range(0, padded, TILE_COLUMNS):
            columns = min(TILE_COLUMNS, padded - first)
            _score(queries, i, j - i, packed, first, columns, tile)
            last = min(columns, n - first)
            _weigh(tile, j - i, columns, last, logs, first, gain, top[i:j], factor, total[i:j], room)
            _apply(tile, (TILE_COLUMNS, 1), j - i, columns, values, first, factor, part, sums[i:j])


# Where queries are keys, s_ij = s_ji: a tile of the tokens i and j serves both, and its transpose the tokens j.


@compiled
def _weigh_both(tile, rows, columns, masses, i, j, gain, across, total):
    """Turn scores into e = 2^{g s}, and add e_ij w_j to the totals of rows and w_i e_ij to those of columns, if others.

    Exponents are moderate. `across` is room for the totals of columns, and of one vector more.
    """
    w, end = width(tile), columns
    slope, zero = filled(tile, gain), filled(tile, 0.0)
    for c in range(0, columns, w):
        store(across, c, zero)
    for r in range(rows):
        start, own, whole = r * TILE_COLUMNS, spread(masses, i + r), zero
        for c in range(0, columns, w):
            x = exp2_within(slope * load(tile, start + c))
            store(tile, start + c, x)
            whole = muladd(x, load(masses, j + c), whole)
            store(across, c, muladd(own, x, load(across, c)))
        store(across, end, whole)
        total[i + r] += across[end : end + w].sum()
    if i != j:
        for c in range(columns):
            total[j + c] += across[c]


@in_parallel
def symmetric_parallel(queries, packed, masses, values, gain, edge, sums, total):
    """Add sum_j 2^{g s_ij} w_j (v_j, 1) to sums and total; the values come multiplied by w, queries are keys.

    Tokens are cut into N parts, N odd, of at most `edge` tokens. In turn h, the parts h + p and h - p (mod N) meet for
    each p from 0 to (N - 1) / 2: all different, so that tasks never share a sum, and in N turns every two meet once.
    """
    n, kind = len(masses), queries.dtype
    parts = -(-n // edge) // 2 * 2 + 1
    for turn in range(parts):
        for p in numba.prange(parts // 2 + 1):
            i, j = (turn + p) % parts * edge, (turn - p) % parts * edge
            rows, columns = min(edge, n - i), min(edge, n - j)
            if rows > 0 and columns > 0:
                tile, part = np.empty(edge * TILE_COLUMNS, kind), np.empty(edge * values.shape[2], kind)
                across, ones = np.empty(edge + width(tile), kind), np.ones(edge)
                _score(queries, i, rows, packed, j, columns, tile)
                _weigh_both(tile, rows, columns, masses, i, j, gain, across, total)
                _apply(tile, (TILE_COLUMNS, 1), rows, columns, values, j, ones, part, sums[i:])
                if i != j:
                    _apply(tile, (1, TILE_COLUMNS), columns, rows, values, i, ones, part, sums[j:])
