"""The blocked engine for many dimensions: tiles of scores by matrix products, exponentials while they are in the cache.

With queries that are keys, G_ij = e^{g <x_i, x_j> - h_i - h_j} for h_i = g |x_i|^2 / 2 is at most 1 and symmetric: a
tile serves the rows i and the rows j. In units of e^{h_i + H}, H = max_j h_j, the sums of row i are those of
G_ij w_j e^{h_j - H}, and nothing that matters underflows while g max |x|^2 is moderate. Otherwise every row keeps the
largest score so far, and rescales its sums when that grows (Milakov and Gimelshein, *Online normalizer calculation for
softmax*, arXiv 1805.02867). Memory is proportional to n, and every sum is exact to rounding.
"""

from __future__ import annotations

import math

import numpy as np

from attnflow.core.inputs import Array
from attnflow.engines import LARGEST_GAIN, blocked_kernels, dense
from attnflow.engines.centring import about_centre
from attnflow.engines.kernels import LOG2E, UNSHIFTED
from attnflow.engines.simd import WIDTH

BLOCK = blocked_kernels.BLOCK
# G is used while g max |x|^2 log2(e) is at most this and no mass is below this power of 2 of the largest: all sums are
# then above 2^-900, and what underflows is below 2^-1000, also beside values as small as this.
LARGEST_SQUARE, LIGHTEST, SMALLEST = 1600.0, -100.0, 1e-30
# A task computes a panel of about PANEL rows: fewer would not be worth a task.
PANEL, MOST_PANELS = 96, 33


@about_centre
def softmax(queries: Array, keys: Array, values: Array, log_masses: Array | None, gain: float) -> tuple[Array, Array]:
    """Return sum_j P_ij v_j and log sum_j w_j e^{g s_ij}, as the dense engine does.

    >>> x = np.random.default_rng(0).standard_normal((100, 40))
    >>> mean, log_total = softmax(x, x, x, None, 0.5)
    >>> weights = np.exp(0.5 * x @ x.T)
    >>> bool(np.allclose(mean, weights @ x / weights.sum(axis=1)[:, None]))
    True
    """
    if log_masses is not None and 0 < (present := np.flatnonzero(log_masses > -np.inf)).size < len(keys):
        return softmax(queries, keys[present], values[present], log_masses[present], gain)
    if log_masses is not None and np.ptp(log_masses) * LOG2E > UNSHIFTED:
        return dense.softmax_by_blocks(queries, keys, values, log_masses, gain)
    largest = 0.0 if log_masses is None else float(log_masses.max())
    logs = np.zeros(len(keys)) if log_masses is None else (log_masses - largest) * LOG2E
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        squares = np.einsum("ik,ik->i", keys, keys) if queries is keys else np.array([math.inf])
        calm = gain * LOG2E * squares.max() <= LARGEST_SQUARE and logs.min() >= LIGHTEST
        if calm and (np.abs(values).max() >= SMALLEST or not values.any()):
            heard, log_unit = _symmetric(keys, values, logs, gain, squares)
        else:
            heard, log_unit = _general(queries, keys, values, logs, gain)
        width = values.shape[1]
        return heard[:, :width] / heard[:, width:], log_unit + np.log(heard[:, width]) + largest


def _padded(rows: Array, multiple: int) -> Array:
    """Return the rows, followed by rows of zeros up to a multiple; an array is copied only if rows are added."""
    n, d = rows.shape
    if n % multiple == 0:
        return np.ascontiguousarray(rows)
    result = np.empty((-(-n // multiple) * multiple, d))
    result[:n], result[n:] = rows, 0.0
    return result


def _packed(keys: Array) -> Array:
    """Lay padded keys (n, d) out as (n / 24, d, 24)."""
    return keys.reshape(-1, BLOCK, keys.shape[1]).transpose(0, 2, 1).copy()


def _given(values: Array, weights: Array) -> Array:
    """Return w_j (v_j, 1), in rows padded to whole vectors and a whole number of blocks of rows."""
    n, width = values.shape
    given = np.empty((-(-n // BLOCK) * BLOCK, -(-(width + 1) // WIDTH) * WIDTH))
    np.multiply(values, weights[:, None], out=given[:n, :width])
    given[:n, width] = weights
    given[:n, width + 1 :], given[n:] = 0.0, 0.0
    return given


def _symmetric(x: Array, values: Array, logs: Array, gain: float, squares: Array) -> tuple[Array, Array]:
    """Return the sums over G and the logarithms of their units."""
    n = len(x)
    tokens = _padded(x, BLOCK)
    halves = np.zeros(len(tokens))
    halves[:n] = gain * LOG2E / 2 * squares
    highest = float(halves.max())
    given = _given(values, np.exp2(logs + halves[:n] - highest))
    heard = np.zeros_like(given)
    panels = 1
    while 2 * panels - 1 <= MOST_PANELS and (2 * panels - 1) * PANEL <= n:
        panels = max(3, 2 * panels - 1)
    packed = _packed(tokens)
    packed *= gain * LOG2E
    blocked_kernels.symmetric(tokens, packed, halves, given, panels, heard)
    return heard[:n, : values.shape[1] + 1], (halves[:n] + highest) / LOG2E


def _general(queries: Array, keys: Array, values: Array, logs: Array, gain: float) -> tuple[Array, Array]:
    """Return the sums in units of the largest weight of each row, and the logarithms of these units."""
    m, n = len(queries), len(keys)
    rows, given = _padded(queries, WIDTH), _given(values, np.ones(n))
    padded_logs = np.zeros(len(given))
    padded_logs[:n] = logs
    heard, top = np.empty((len(rows), given.shape[1])), np.empty(len(rows))
    blocked_kernels.general(
        rows, _packed(_padded(keys, BLOCK)), n, padded_logs, given, min(gain * LOG2E, LARGEST_GAIN), heard, top
    )
    return heard[:m, : values.shape[1] + 1], gain * top[:m]
