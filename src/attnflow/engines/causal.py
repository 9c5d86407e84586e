"""Causal softmax sums: the query i hears the keys j <= i alone, and with a window w those of them with j > i - w.

Everything here is a sum over prefixes: the query i hears the first counts[i] keys, where counts never decrease. With a
window, tokens are cut into stretches of w. A query hears a prefix of its own stretch, and of the stretch before it an
end, which is a prefix from behind. So no sum is ever the difference of two others. Sums over parts of the keys are
merged by the logarithms of their totals, and each part is accurate relative to its own total.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attnflow.core.blocks import row_blocks
from attnflow.core.inputs import Array
from attnflow.engines import causal_kernels, compilation, dense, kernels
from attnflow.engines.centring import about_centre
from attnflow.engines.fused import CALL, LIGHTEST, binary_masses, coordinate_first
from attnflow.engines.simd import WIDTH

Sums = tuple[Array, Array]
Indices = NDArray[np.int64]

compilation.announce()


def softmax(
    queries: Array, keys: Array, values: Array, log_masses: Array | None, gain: float, window: int | None = None
) -> Sums:
    """Return sum_j P_ij v_j and log sum_j w_j e^{g s_ij}, j from max(0, i - window + 1) to i.

    A query that hears only keys without mass has the mean 0 and the logarithm -infinity.

    >>> x = np.random.default_rng(0).standard_normal((100, 2))
    >>> mean, log_total = softmax(x, x, x, None, 0.5)
    >>> weights = np.tril(np.exp(0.5 * x @ x.T))
    >>> bool(np.allclose(mean, weights @ x / weights.sum(axis=1)[:, None]))
    True
    """
    n = len(keys)
    last = np.arange(1, n + 1)
    first = np.zeros(n, dtype=np.int64) if window is None else np.maximum(last - window, 0)
    if log_masses is not None and (log_masses == -np.inf).any():
        present = log_masses > -np.inf
        before = np.append(0, np.cumsum(present))
        first, last = before[first], before[last]
        keys, values, log_masses = keys[present], values[present], log_masses[present]
    if not len(keys):
        return np.zeros((n, values.shape[1])), np.full(n, -np.inf)
    sums: Sums = _direct(queries, keys, values, log_masses, gain, first, last)
    return sums


@about_centre
def _direct(
    queries: Array, keys: Array, values: Array, log_masses: Array | None, gain: float, first: Indices, last: Indices
) -> Sums:
    """Return the sums over the keys from first[i] up to last[i], all pairs one by one; both ends never decrease."""
    m = len(queries)
    if log_masses is not None and np.ptp(log_masses) > LIGHTEST:
        return _dense(queries, keys, values, log_masses, gain, first, last)
    k = coordinate_first(keys)
    v = k if values is keys else coordinate_first(values)
    asked = k if queries is keys else coordinate_first(queries)
    scaled, largest = binary_masses(log_masses, k.shape[1])
    within = kernels.exponent_bound(asked, k, gain, np.empty(WIDTH)) <= kernels.UNSHIFTED
    mean, log_total = np.empty((m, len(v))), np.empty(m)
    for rows in row_blocks(m, int((last - first).max()) * (len(k) + len(v)), CALL):
        q = asked if m <= rows.stop - rows.start else coordinate_first(queries[rows])
        count, padded = len(queries[rows]), q.shape[1]
        ends = [np.pad(end[rows], (0, padded - count), mode="edge") for end in (first, last)]
        sums, total, top = np.empty((len(v), padded)), np.empty(padded), np.empty(padded)
        causal_kernels.softmax(q, k, v, *ends, scaled, gain, within, sums, total, top)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            log_total[rows] = gain * top[:count] + np.log(total[:count]) + largest
        mean[rows] = sums[:, :count].T
        mean[rows][total[:count] == 0] = 0.0
    return mean, log_total


def _dense(
    queries: Array, keys: Array, values: Array, log_masses: Array, gain: float, first: Indices, last: Indices
) -> Sums:
    """Return what `_direct` does, row by row: slow, for masses of any size."""
    mean, log_total = np.zeros((len(queries), values.shape[1])), np.full(len(queries), -np.inf)
    for i in np.flatnonzero(first < last).tolist():
        row, heard = slice(i, i + 1), slice(first[i], last[i])
        mean[row], log_total[row] = dense.softmax(queries[row], keys[heard], values[heard], log_masses[heard], gain)
    return mean, log_total
