"""The blocked engine in single precision: twice as many numbers in a vector, about seven digits of each.

Keys and values are seen from their means, and so are queries that are keys; exponents are formed in float64 as far as
that is cheap, rounded to float32, and shifted by the largest of their row; sums over tiles are added up in float64.

The error. Let u = 2^-24, Q and K the largest norms of queries and keys so seen, and let logarithms of masses (with the
factors e^{g <c, y_j>} of `centring`) differ by at most L. A score is a sum of at most DEPTH products, and of d / DEPTH
such sums, of numbers that are rounded to float32: with the roundings of the shift and of the masses, an exponent errs
by at most

    delta = u ((min(d, DEPTH) + ceil(d / DEPTH) + 6) g Q K + 2 L)

to first order. Weights err by as much, relative to themselves, and by 4 u for the exponential. They sum to one, so means
err by 2 delta + 8 u times the largest distance R of a value to the mean of all, which is at most the diameter D of the
values, and by 2 TILE_COLUMNS u R for the roundings of the sums in a tile:

    |mean - exact| <= R (2 delta + 400 u) <= D (2 delta + 2.4e-5).

In practice roundings cancel, and errors are a hundredth of this. Where the bound exceeds `LARGEST_ERROR`, sums are taken
in double precision.
"""

from __future__ import annotations

import math

import numpy as np

from attnflow.core.inputs import Array
from attnflow.engines import blocked
from attnflow.engines.blocked_kernels import DEPTH, TILE_COLUMNS
from attnflow.engines.centring import TILT, tilt
from attnflow.engines.kernels import LOG2E

U = 2.0**-24
# Of the diameter of the values.
LARGEST_ERROR = 1e-3
# Masses this far apart, in natural logarithms, could underflow in float32 and yet decide a row.
LIGHTEST = 64.0


def softmax(queries: Array, keys: Array, values: Array, log_masses: Array | None, gain: float) -> tuple[Array, Array]:
    """Return sum_j P_ij v_j and log sum_j w_j e^{g s_ij} in float64, with the errors of single precision.

    >>> x = np.random.default_rng(0).standard_normal((100, 40))
    >>> mean, exact = softmax(x, x, x, None, 0.1)[0], blocked.softmax(x, x, x, None, 0.1)[0]
    >>> bool(0 < np.abs(mean - exact).max() < 1e-5)
    True
    """
    with np.errstate(over="ignore", invalid="ignore"):
        found = _in_floats(queries, keys, values, log_masses, gain)
    return blocked.softmax(queries, keys, values, log_masses, gain) if found is None else found


def error_bound(d: int, size: float, apart: float) -> float:
    """Return the bound on the error over R, for g Q K and for the largest difference of logarithms of masses."""
    delta = U * ((min(d, DEPTH) + math.ceil(d / DEPTH) + 6) * size + 2 * apart)
    return 2 * delta + (2 * TILE_COLUMNS + 16) * U


def _in_floats(
    queries: Array, keys: Array, values: Array, log_masses: Array | None, gain: float
) -> tuple[Array, Array] | None:
    """Return the sums, or None where they would be too far off."""
    c, e = keys.mean(axis=0), values.mean(axis=0)
    x, y, logs = queries, keys - c, log_masses
    v = y if values is keys else values - e
    if queries is keys and np.ptp(slope := tilt(y, c, gain)) <= TILT:
        x, logs = y, slope if logs is None else logs + slope
    apart = 0.0 if logs is None else float(np.ptp(logs))
    size = float(gain * _longest(x) * _longest(y))
    if not (apart <= LIGHTEST and error_bound(keys.shape[1], size, apart) <= LARGEST_ERROR):
        return None
    # Powers of two bring keys and values to the size of one, without rounding.
    keys_power, values_power = (math.frexp(float(np.abs(each).max()))[1] for each in (y, v))
    small, v = np.ldexp(y, -keys_power), np.ldexp(v, -values_power)
    asked = small if x is y else np.ldexp(x, -keys_power)
    mean, log_total = blocked.sums(asked, small, v, logs, np.ldexp(gain, 2 * keys_power), np.float32)
    return np.ldexp(mean, values_power) + e, log_total + tilt(queries, c, gain)


def _longest(points: Array) -> float:
    """Return the largest norm."""
    return math.sqrt(np.einsum("ik,ik->i", points, points).max())
