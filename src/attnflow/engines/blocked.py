"""The blocked engine for many dimensions: tiles of scores by matrix products, exponentials while they are in the cache.

Every row keeps the largest score so far, and rescales its sums when that grows (Milakov and Gimelshein, *Online
normalizer calculation for softmax*, arXiv 1805.02867). Memory is proportional to n, and every sum is exact to rounding.
"""

from __future__ import annotations

import numpy as np

from attnflow.core.inputs import Array
from attnflow.engines import LARGEST_GAIN, blocked_kernels, dense
from attnflow.engines.centring import about_centre
from attnflow.engines.kernels import LOG2E, UNSHIFTED
from attnflow.engines.products import BLOCK, ROWS


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
    m, (n, width) = len(queries), values.shape
    rows, k, v = _padded(queries, ROWS), _padded(keys, BLOCK), _padded(values, BLOCK, BLOCK)
    packed = k.reshape(-1, BLOCK, k.shape[1]).transpose(0, 2, 1).copy()
    logs, largest = np.zeros(len(k)), 0.0
    if log_masses is not None:
        largest = float(log_masses.max())
        logs[:n] = (log_masses - largest) * LOG2E
    sums, total, top = np.empty((len(rows), v.shape[1])), np.empty(len(rows)), np.empty(len(rows))
    blocked_kernels.softmax_parallel(rows, packed, n, logs, v, min(gain * LOG2E, LARGEST_GAIN), sums, total, top)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return sums[:m, :width] / total[:m, None], gain * top[:m] + np.log(total[:m]) + largest


def _padded(matrix: Array, rows: int, columns: int = 1) -> Array:
    """Return a matrix with rows and columns of zeros added, so that there are multiples of these numbers of both."""
    m, n = matrix.shape
    result = np.zeros((-(-m // rows) * rows, -(-n // columns) * columns))
    result[:m, :n] = matrix
    return result
