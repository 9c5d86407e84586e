"""The fused engine: score, exponential and sum in one compiled pass, no n-by-n array, rows shared by the cores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attnflow.core.blocks import row_blocks
from attnflow.core.inputs import Array
from attnflow.engines import compilation, dense, kernels, plane_kernels
from attnflow.engines.centring import about_centre, centre, size
from attnflow.engines.simd import WIDTH

# With fewer pairs, one core is finished before the others could be started.
PARALLEL_PAIRS = 1 << 14
# Masses this far apart, in natural logarithms, could underflow and yet decide a row: 150 orders of magnitude.
LIGHTEST = kernels.UNSHIFTED / kernels.LOG2E
# This stands for equal masses in the compiled loops.
ALIKE = np.empty(0)
# A call of compiled code looks at no more coordinates of pairs than this, seconds of work: between two calls progress
# is shown, and an interruption takes effect.
CALL = 1 << 33

compilation.announce()


def coordinate_first(rows: Array) -> Array:
    """Transpose (n, d) to coordinate-first layout, padded with zeros to whole vectors."""
    n, d = rows.shape
    columns = np.zeros((d, -(-n // WIDTH) * WIDTH))
    columns[:, :n] = rows.T
    return columns


def binary_masses(log_masses: Array | None, padded: int) -> tuple[Array, float]:
    """Binary logarithms of the masses divided by the largest, padded, and the natural logarithm of that one."""
    scaled = np.zeros(padded)
    if log_masses is None:
        return scaled, 0.0
    largest = float(log_masses.max())
    scaled[: log_masses.size] = (log_masses - largest) * kernels.LOG2E
    return scaled, largest


def _plane(x: Array, values: Array, log_masses: Array | None, gain: float) -> tuple[Array, Array] | None:
    """Return the sums over pairs of tokens in the plane, or None if the exponents are too large for that."""
    n = len(x)
    x, values = np.ascontiguousarray(x), np.ascontiguousarray(values)
    mean, log_total = np.empty((n, 2)), np.empty(n)
    done = plane_kernels.softmax(x, values, ALIKE if log_masses is None else log_masses, gain, mean, log_total)
    return (mean, log_total) if done else None


@about_centre
def softmax(queries: Array, keys: Array, values: Array, log_masses: Array | None, gain: float) -> tuple[Array, Array]:
    """Return sum_j P_ij v_j and log sum_j w_j e^{g s_ij}, as the dense engine does."""
    if log_masses is not None and log_masses.max() - log_masses.min() > LIGHTEST:
        return dense.softmax_by_blocks(queries, keys, values, log_masses, gain)
    if queries is keys and keys.shape[1] == values.shape[1] == 2:
        sums = _plane(keys, values, log_masses, gain)
        if sums is not None:
            return sums
    m, n = len(queries), len(keys)
    k = coordinate_first(keys)
    v = k if values is keys else coordinate_first(values)
    scaled, largest = binary_masses(log_masses, k.shape[1])
    scratch = np.empty(WIDTH * kernels.TILE)
    asked = k if queries is keys else coordinate_first(queries)
    within = kernels.exponent_bound(asked, k, gain, scratch) <= kernels.UNSHIFTED
    means, log_totals = [], []
    for rows in row_blocks(m, n * (len(k) + len(v)), CALL):
        q = asked if rows.stop >= m and rows.start == 0 else coordinate_first(queries[rows])
        mean, total, top = np.empty((v.shape[0], q.shape[1])), np.empty(q.shape[1]), np.empty(q.shape[1])
        if m * n < PARALLEL_PAIRS:
            kernels.softmax_rows(q, k, v, n, scaled, gain, within, (0, q.shape[1]), mean, total, top, scratch)
        else:
            kernels.softmax_parallel(q, k, v, n, scaled, gain, within, mean, total, top)
        count = len(queries[rows])
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            log_totals.append(gain * top[:count] + np.log(total[:count]) + largest)
        means.append(np.ascontiguousarray(mean[:, :count].T))
    return _joined(means), _joined(log_totals)


def _joined(parts: list[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def softmax_many(
    queries: Array, keys: Array, values: Array, log_masses: Array | None, gains: Array
) -> tuple[Array, Array]:
    """Return what `softmax` does for many systems (b, n, d) at once, each with a gain of its own (b,)."""
    b, n, _ = keys.shape
    scaled, largest = binary_masses(log_masses, -(-n // WIDTH) * WIDTH)
    mean, total, top = np.empty((b, n, values.shape[2])), np.empty((b, n)), np.empty((b, n))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        c, e = centre(keys, gains * size(queries)), centre(values)
        kernels.softmax_many(queries, keys - c, values - e, scaled, gains, mean, total, top)
        scores = top + np.einsum("bik,bk->bi", queries, c[:, 0])
        return mean + e, gains[:, None] * scores + np.log(total) + largest


def softmax_layers(
    x: Array, forms: Array, biases: Array, gains: Array, gammas: Array, log_masses: Array | None
) -> Array:
    """States after each of the steps x_i <- x_i + gamma (sum_j P_ij x_j - x_i), scores <F x_i + b, x_j>.

    `gains` and `gammas` have one entry per step, `forms` one matrix F per step, or one for all, or none for I; `biases`
    one vector b per step, or one for all, or none for 0.
    """
    states = np.empty((len(gammas), *x.shape))
    columns = coordinate_first(x)
    scaled, _ = binary_masses(log_masses, columns.shape[1])
    kernels.softmax_layers(columns, forms, biases, gains, gammas, scaled, states)
    return states


def top(
    queries: Array, keys: Array, values: Array, weights: Array, slack: Array, relative: float
) -> tuple[Array, Array, NDArray[np.int64]]:
    """Return the weighted mean over each row's neighbours, its top score and the first index that attains it."""
    m = len(queries)
    mean, best, leader = np.empty((m, values.shape[1])), np.empty(m), np.empty(m, dtype=np.int64)
    columns = np.ascontiguousarray(keys.T)
    for rows in row_blocks(m, keys.size + values.size, CALL):
        kernels.top_parallel(
            queries[rows], columns, values, weights, slack[rows], relative, mean[rows], best[rows], leader[rows]
        )
    return mean, best, leader


def top_layers(x: Array, forms: Array, slacks: Array, gammas: Array, weights: Array, ties: str) -> Array:
    """States after each of the steps x_i <- x_i + gamma (m_i - x_i), m_i the mean over the neighbours of i.

    `slacks` holds per step the three numbers (a, b, c) of the threshold M_i - a - b |F x_i| - c |M_i|; `gammas` and
    `forms` are as in `softmax_layers`.
    """
    states = np.empty((len(gammas), *x.shape))
    kernels.top_layers(x.copy(), forms, slacks, gammas, weights.copy(), ties == "points", ties == "first", states)
    return states


def ball(queries: Array, keys: Array, values: Array, weights: Array, radius: float) -> Array:
    """Return the weighted mean of the values of the sources within a distance of each query."""
    mean = np.empty((len(queries), values.shape[1]))
    columns = np.ascontiguousarray(keys.T)
    for rows in row_blocks(len(queries), keys.size + values.size, CALL):
        kernels.ball_parallel(queries[rows], columns, values, weights, radius, mean[rows])
    return mean
