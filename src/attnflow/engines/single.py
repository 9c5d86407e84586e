"""The blocked engine in single precision: twice as many numbers in a vector, about seven digits of each.

Keys and values are seen from their means, and so are queries that are keys. Inner products and exponentials are
float32, and sums of tiles are added up in float64.

The error. Let u = 2^-24, let Q and K be the largest norms of queries and keys so seen, and L the largest difference of
logarithms of masses (with the factors e^{g <c, y_j>} of `centring`). A score is a sum of parts of up to DEPTH products
of numbers that are rounded to float32. With the roundings of differences, gain and masses, an exponent errs by at most

    delta = u ((min(d, DEPTH) + ceil(d / DEPTH) + 8) g Q K + 2 L)

to first order. Weights err by this part of themselves, and by 4 u for the exponential. If P_ij becomes P_ij (1 + e_j),
the mean m moves by sum_j P_ij e_j (v_j - m): by at most delta + 4 u times the diameter D of the values. Rounded values
and sums of EDGE numbers in a tile add less than (EDGE + 44) u D:

    |mean - exact| <= D (delta + (EDGE + 48) u) = D (delta + 1.5e-5),    |log total - exact| <= delta + (EDGE + 48) u.

Roundings cancel, and measured errors are a tenth of this to a thousandth. Where the bound exceeds `LARGEST_ERROR`, sums
are taken in double precision.
"""

from __future__ import annotations

import math

import numpy as np

from attnflow.core.inputs import Array
from attnflow.engines import blocked
from attnflow.engines.blocked_kernels import DEPTH, EDGE
from attnflow.engines.centring import TILT, tilt

U = 2.0**-24
# Of the diameter of the values.
LARGEST_ERROR = 3e-3
# Masses this far apart, in natural logarithms, could underflow in float32 and yet decide a row.
LIGHTEST = 64.0
# The squares of shorter vectors could underflow in float64.
TINY = 1e-140


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
    """Return the bound on the error of means over D, for g Q K and the largest difference of logarithms of masses."""
    delta = U * ((min(d, DEPTH) + math.ceil(d / DEPTH) + 8) * size + 2 * apart)
    return delta + (EDGE + 48) * U


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
    Q, K, R = _longest(x), _longest(y), _longest(v)
    if not (min(Q, K, R) > TINY and apart <= LIGHTEST and error_bound(len(c), gain * Q * K, apart) <= LARGEST_ERROR):
        return None
    # Powers of two bring all numbers below one, without rounding.
    q, k, r = (2.0 ** -math.frexp(size)[1] for size in (Q, K, R))
    if v is not y:
        v *= r
    asked = y if x is y else x * q
    y *= k
    mean, log_total = blocked.sums(asked, y, v, logs, gain / q / k, np.float32)
    mean /= r
    mean += e
    return mean, log_total + tilt(queries, c, gain)


def _longest(points: Array) -> float:
    """Return the largest norm."""
    return math.sqrt(np.einsum("ik,ik->i", points, points).max())
