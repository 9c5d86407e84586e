"""The blocked engine for many dimensions: tiles of scores by matrix products, exponentials while they are in the cache.

Every row keeps the largest score so far, and rescales its sums when that grows (Milakov and Gimelshein, *Online
normalizer calculation for softmax*, arXiv 1805.02867). Memory is proportional to n, and every sum is exact to rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from attnflow.core.inputs import Array
from attnflow.engines import LARGEST_GAIN, blocked_kernels, dense
from attnflow.engines.centring import about_centre
from attnflow.engines.kernels import LOG2E, UNSHIFTED
from attnflow.engines.products import ROWS
from attnflow.engines.simd import BITS

# Binary exponents up to this size need no shift by the row maximum, in numbers of 8 and of 4 bytes.
MODERATE = {8: UNSHIFTED, 4: 60.0}
# From this number of tokens on larger tiles are enough for many cores.
MANY = 4096


@about_centre
def softmax(queries: Array, keys: Array, values: Array, log_masses: Array | None, gain: float) -> tuple[Array, Array]:
    """Return sum_j P_ij v_j and log sum_j w_j e^{g s_ij}, as the dense engine does.

    >>> x = np.random.default_rng(0).standard_normal((100, 40))
    >>> mean, log_total = softmax(x, x, x, None, 0.5)
    >>> weights = np.exp(0.5 * x @ x.T)
    >>> bool(np.allclose(mean, weights @ x / weights.sum(axis=1)[:, None]))
    True
    """
    if log_masses is not None and np.ptp(log_masses) * LOG2E > UNSHIFTED:
        return dense.softmax_by_blocks(queries, keys, values, log_masses, gain)
    return sums(queries, keys, values, log_masses, gain, np.float64)


def sums(
    queries: Array, keys: Array, values: Array, log_masses: Array | None, gain: float, kind: DTypeLike
) -> tuple[Array, Array]:
    """Return the sums, of which those of a tile are computed in numbers of this kind, float64 or float32."""
    m, (n, width) = len(queries), values.shape
    block = 2 * BITS // (8 * np.dtype(kind).itemsize)
    largest = 0.0 if log_masses is None else float(log_masses.max())
    logs = np.zeros(n) if log_masses is None else (log_masses - largest) * LOG2E
    slope = min(gain * LOG2E, LARGEST_GAIN)
    symmetric = queries is keys and slope * np.einsum("ik,ik->i", keys, keys).max() <= MODERATE[np.dtype(kind).itemsize]
    k = _padded(keys, block, 1, kind)
    rows = k if symmetric else _padded(queries, ROWS, 1, kind)
    packed = k.reshape(-1, block, k.shape[1]).transpose(0, 2, 1).copy()
    v = _padded(values * np.exp2(logs)[:, None] if symmetric else values, block, block, kind)
    columns = v.reshape(len(v), -1, block).transpose(1, 0, 2).copy()
    found, total, top = np.zeros((len(rows), v.shape[1])), np.zeros(len(rows)), np.zeros(len(rows))
    if symmetric:
        masses = np.zeros(len(k), kind)
        masses[:n] = np.exp2(logs)
        edge = blocked_kernels.TILE_ROWS if n >= MANY else blocked_kernels.TILE_ROWS // 2
        blocked_kernels.symmetric_parallel(rows, packed, masses, columns, slope, edge, found, total)
    else:
        padded = np.zeros(len(k), kind)
        padded[:n] = logs
        blocked_kernels.softmax_parallel(rows, packed, n, padded, columns, slope, found, total, top)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return found[:m, :width] / total[:m, None], gain * top[:m] + np.log(total[:m]) + largest


def _padded(matrix: Array, rows: int, columns: int, kind: DTypeLike) -> Any:
    """Return a matrix with rows and columns of zeros added, so that there are multiples of these numbers of both."""
    m, n = matrix.shape
    result = np.zeros((-(-m // rows) * rows, -(-n // columns) * columns), kind)
    result[:m, :n] = matrix
    return result
