# mypy: ignore-errors
"""Compiled loops of the blocked engine: tiles of scores, their exponentials, and tiles applied to values.

Keys come packed, (blocks, d, 16), so that a block of 16 keys is read in one stream; rows of values are padded to whole
blocks. Every sum has one fixed order whatever the number of threads, and no BLAS
threads compete with these.
"""

from __future__ import annotations

import numba
import numpy as np

from attnflow.engines.kernels import compiled, in_parallel
from attnflow.engines.products import BLOCK, ROWS, product
from attnflow.engines.simd import WIDTH, exp2, load, maximum, muladd, splat, store

# A tile of TILE_ROWS rows and TILE_COLUMNS columns, multiples of ROWS and BLOCK, stays in the second-level cache
# together with the rows and columns that it is computed from.
TILE_ROWS, TILE_COLUMNS = 96, 144


@compiled
def _score(queries, i, rows, packed, j, columns, tile):
    """Fill the tile (rows, columns) with <q_i, k_j>, from query i and key j on."""
    d = queries.shape[1]
    for c in range(0, columns, BLOCK):
        for r in range(0, rows, ROWS):
            place = r * TILE_COLUMNS + c
            product(queries, (i + r) * d, d, 1, packed, (j + c) * d, BLOCK, d, tile, place, TILE_COLUMNS, False)


@compiled
def _apply(tile, rows, columns, values, j, sums):
    """Add tile @ values[j:] to the sums."""
    width = values.shape[1]
    for r in range(0, rows, ROWS):
        for v in range(0, width, BLOCK):
            at, first, place = r * TILE_COLUMNS, j * width + v, r * width + v
            product(tile, at, TILE_COLUMNS, 1, values, first, width, columns, sums, place, width, True)


@compiled
def _weigh(tile, rows, columns, last, logs, j, gain, top, factor, total, room):
    """Turn scores into 2^{g (s - M) + log2 w}, M the largest so far, and add them to the totals.

    The factor is what earlier sums are multiplied by. Columns from `last` on are padding.
    """
    for r in range(rows):
        start = r * TILE_COLUMNS
        for c in range(last, columns):
            tile[start + c] = -np.inf
        highest = load(tile, start)
        for c in range(WIDTH, columns, WIDTH):
            highest = maximum(highest, load(tile, start + c))
        store(room, 0, highest)
        new = max(top[r], room.max())
        store(room, 0, exp2(splat(gain * (top[r] - new))))
        factor[r], top[r] = room[0], new
        slope, highest, whole = splat(gain), splat(new), splat(0.0)
        for c in range(0, columns, WIDTH):
            w = exp2(muladd(slope, load(tile, start + c) - highest, load(logs, j + c)))
            store(tile, start + c, w)
            whole = whole + w
        store(room, 0, whole)
        total[r] = factor[r] * total[r] + room.sum()


@in_parallel
def softmax_parallel(queries, packed, n, logs, values, gain, sums, total, top):
    """Fill sums and total with sum_j 2^{g (s_ij - M_i)} w_j (v_j, 1), and top with M_i = max_j s_ij, for n sources."""
    m, padded = len(queries), len(values)
    for task in numba.prange(-(-m // TILE_ROWS)):
        i, j = task * TILE_ROWS, min(m, (task + 1) * TILE_ROWS)
        tile, factor, room = np.empty(TILE_ROWS * TILE_COLUMNS), np.empty(TILE_ROWS), np.empty(WIDTH)
        sums[i:j], total[i:j], top[i:j] = 0.0, 0.0, -np.inf
        for first in range(0, padded, TILE_COLUMNS):
            columns = min(TILE_COLUMNS, padded - first)
            _score(queries, i, j - i, packed, first, columns, tile)
            last = min(columns, n - first)
            _weigh(tile, j - i, columns, last, logs, first, gain, top[i:j], factor, total[i:j], room)
            for r in range(j - i):
                if factor[r] != 1.0:
                    for k in range(sums.shape[1]):
                        sums[i + r, k] *= factor[r]
            _apply(tile, j - i, columns, values, first, sums[i:j])
