"""The blocked engine for many dimensions: tiles of scores by matrix products, exponentials while they are in the cache.

Every row keeps the largest score so far, and rescales its sums when that grows (Milakov and Gimelshein, *Online
normalizer calculation for softmax*, arXiv 1805.02867). Memory is proportional to n, and every sum is exact to rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnflow.core.inputs import Array
from attnflow.engines import LARGEST_GAIN, blocked_kernels, dense
from attnflow.engines.centring import about_centre
from attnflow.engines.kernels import LOG2E, UNSHIFTED
from attnflow.engines.simd import BITS

# Binary exponents up to this size need no shift by the row maximum, in numbers of 8 and of 4 bytes.
MODERATE = {8: UNSHIFTED, 4: 60.0}
# With fewer tokens tiles have half the edge, so that many cores have work.
MANY = 768


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
    queries: Array, keys: Array, values: Array, log_masses: Array | None, gain: float, kind: type[np.floating[Any]]
) -> tuple[Array, Array]:
    """Return the sums, of which those of a tile are computed in numbers of this kind, float64 or float32."""
    m, (n, columns) = len(queries), values.shape
    bytes_each = np.dtype(kind).itemsize
    block = 2 * BITS // (8 * bytes_each)
    largest = 0.0 if log_masses is None else float(log_masses.max())
    logs = np.zeros(-(-n // block) * block, kind)
    if log_masses is not None:
        logs[:n] = (log_masses - largest) * LOG2E
    slope = min(gain * LOG2E, LARGEST_GAIN)
    packed_keys = _tokens_in_blocks(keys, block, kind)
    if queries is keys and slope * np.einsum("ik,ik->i", keys, keys).max() <= MODERATE[bytes_each]:
        masses = np.exp2(logs)
        masses[n:] = 0.0
        found, total, top = _empty(len(logs), columns, block), np.zeros(len(logs)), np.zeros(len(logs))
        edge = blocked_kernels.EDGE if n >= MANY else blocked_kernels.EDGE // 2
        packed = _columns_in_blocks(values, block, kind)
        if log_masses is not None:
            packed *= masses[:, None]
        blocked_kernels.symmetric_parallel(packed_keys, masses, packed, slope, edge, found, total)
    else:
        asked = _tokens_in_blocks(queries, block, kind)
        padded = len(asked) * block
        found, total, top = _empty(padded, columns, block), np.zeros(padded), np.full(padded, -np.inf)
        packed = _columns_in_blocks(values, block, kind)
        blocked_kernels.softmax_parallel(asked, packed_keys, n, logs, packed, slope, found, total, top)
    mean = np.empty((m, columns))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        for b in range(0, columns, block):
            mean[:, b : b + block] = found[b // block, :m, : columns - b] / total[:m, None]
        return mean, gain * top[:m] + np.log(total[:m]) + largest


def _tokens_in_blocks(rows: Array, block: int, kind: type[np.floating[Any]]) -> Any:
    """Return tokens (n, d) as (blocks, d, block), with tokens at 0 added for the last block."""
    (n, d), whole = rows.shape, len(rows) // block
    result = np.zeros((-(-n // block), d, block), kind)
    result[:whole] = rows[: whole * block].reshape(whole, block, d).transpose(0, 2, 1)
    if n % block:
        result[whole, :, : n % block] = rows[whole * block :].T
    return result


def _columns_in_blocks(values: Array, block: int, kind: type[np.floating[Any]]) -> Any:
    """Return values (n, k) as (blocks, n, block), with zeros added to whole blocks of tokens and of columns."""
    n, k = values.shape
    result = _empty(-(-n // block) * block, k, block, kind)
    for b, part in enumerate(result):
        some = values[:, b * block : (b + 1) * block]
        part[:n, : some.shape[1]] = some
    return result


def _empty(tokens: int, columns: int, block: int, kind: type[np.floating[Any]] = np.float64) -> Any:
    return np.zeros((-(-columns // block), tokens, block), kind)
