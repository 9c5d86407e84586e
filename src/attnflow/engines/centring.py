"""Sums far from the origin, taken about the centre of the cloud.

Weights depend on differences of scores alone, so keys may be seen from any point c, and so may values:

    e^{g <q_i, k_j>} = e^{g <q_i, c>} e^{g <q_i, k_j - c>},    sum_j P_ij v_j = c + sum_j P_ij (v_j - c).

Rounding errors are then those of a cloud about the origin. Where queries are keys, x_i = c + y_i, they stay so: in
<x_i, y_j> = <y_i, y_j> + <c, y_j> the last term does not depend on i, and is a factor of the mass of j.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from operator import sub
from typing import Any

import numpy as np

from attnflow.core.arrays import namespace
from attnflow.core.inputs import Array, InputError

Sums = tuple[Array, Array]

EPS = float(np.finfo(np.float64).eps)

# A cloud whose distance from the origin is at most NEAR times its extent gains nothing from centring.
NEAR = 16.0
# With at most NARROW coordinates, Python's own numbers are faster than short arrays, and `ends` looks for places.
NARROW = 16
# So many points are taken as one long row when the coordinates of many points are compared.
LONG = 128
# A rounding error of means below this fraction of the cloud's extent is accepted without centring.
HARMLESS = 1e-12
# The factors e^{g <c, y_j>} become masses only if their logarithms differ by at most this.
TILT = 60.0


def about_centre(softmax: Callable[..., Sums]) -> Callable[..., Sums]:
    """Let an engine's softmax sums be taken about the centre of keys that are far from the origin.

    Sources without mass are left out before: if one had the top score, all weights relative to it would vanish.
    """

    @wraps(softmax)
    def sums(queries: Array, keys: Array, values: Array, log_masses: Array | None, gain: float, *memory: Any) -> Sums:
        if len(values) != len(keys):
            raise InputError(f"values have {len(values)} rows, expected {len(keys)}: one for each source")
        if log_masses is not None and 0 < (present := np.flatnonzero(log_masses > -np.inf)).size < len(keys):
            return sums(queries, keys[present], values[present], log_masses[present], gain)
        if clearly_near(keys) and (values is keys or clearly_near(values)):
            return softmax(queries, keys, values, log_masses, gain, *memory)
        return _shifted(softmax, (queries, keys, values, log_masses, gain), memory)

    return sums


def _shifted(softmax: Callable[..., Sums], given: tuple[Any, ...], memory: tuple[Any, ...]) -> Sums:
    queries, keys, values, log_masses, gain = given
    with np.errstate(over="ignore", invalid="ignore"):
        x, y, c = from_centre(queries, keys, gain)
        e = c if values is keys else centre(values)[0]
        shifted = e.any()
        v = y if values is keys else values - e if shifted else values
        logs = log_masses
        if x is not queries:
            slope = tilt(y, c, gain)
            logs = slope if log_masses is None else log_masses + slope
        mean, log_total = softmax(x, y, v, logs, gain, *memory)
        return mean + e if shifted else mean, log_total if y is keys else log_total + tilt(queries, c, gain)


def from_centre(queries: Array, keys: Array, gain: float) -> tuple[Array, Array, Array]:
    """Return the keys as seen from their centre c, the queries that go with them, and c.

    Where queries are keys they are seen from c too, if the factors e^{g <c, y_j>} of the masses allow it.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        c = centre(keys, gain * size(queries) if len(queries) else 0.0)[0]
        if not c.any():
            return queries, keys, c
        y = keys - c
        return y if queries is keys and np.ptp(tilt(y, c, gain)) <= TILT else queries, y, c


def tilt(y: Array, c: Array, gain: float) -> Array:
    """Return g <c, y_j>."""
    tilt: Array = gain * np.einsum("ik,k->i", y, c)
    return tilt


def ends(points: Array) -> tuple[Array, Array]:
    """Return the least and the largest value of each coordinate.

    NumPy compares short rows slowly. So for few points we find the places of these values, which is faster; many points
    are cut into long rows, of which one row of least and one of largest values is left.

    >>> ends(np.array([[0.0, 1.0], [1.0, -3.0]]))
    (array([ 0., -3.]), array([1., 1.]))
    """
    n, d = points.shape
    if not d or d > NARROW:
        return points.min(axis=0), points.max(axis=0)
    if n < LONG * LONG or not points.flags.c_contiguous:
        every = np.arange(d)
        return points[points.argmin(axis=0), every], points[points.argmax(axis=0), every]
    rows, rest = points[: n - n % LONG].reshape(-1, LONG * d), points[n - n % LONG :]
    low, high = (np.concatenate([row.reshape(LONG, d), rest]) for row in (rows.min(axis=0), rows.max(axis=0)))
    return ends(low)[0], ends(high)[1]


def size(points: Array) -> Any:
    """Return the largest coordinate of each system."""
    xp = namespace(points)
    if xp is np and points.ndim == 2:
        return np.abs(points).max(initial=0.0)
    return xp.max(xp.max(xp.abs(points), axis=-1), axis=-1)


def centre(points: Array, reach: Any = 0.0) -> Array:
    """Return where points (..., n, d) are seen from, (..., 1, d): the middle of their box, or 0 if they are near.

    `reach` is the size of the queries times the gain, where the points are keys. Any library's arrays are taken.

    >>> centre(np.array([[0.0, 1.0], [1.0, 3.0]])), centre(np.array([[1e6, 1.0], [1e6 + 2, 3.0]]))
    (array([[0., 0.]]), array([[1.000001e+06, 2.000000e+00]]))
    """
    xp = namespace(points)
    if xp is np and points.ndim == 2 and points.shape[1] <= NARROW and points.dtype == np.float64:
        low, high = ends(points)
        sides = list(zip(high.tolist(), low.tolist(), strict=True))
        if all(math.isfinite(above - below) for above, below in sides):
            distance = max(abs(below + (above - below) / 2) for above, below in sides)
            extent = max(above - below for above, below in sides)
            far = distance > NEAR * extent and EPS * distance * (1 + reach * extent) > HARMLESS * extent
            return (low + (high - low) / 2 if far else np.zeros(len(low)))[None]
    high, low = xp.max(points, axis=-2), -xp.max(-points, axis=-2)
    middle = low + (high - low) / 2
    distance, extent = xp.max(xp.abs(middle), axis=-1), xp.max(high - low, axis=-1)
    lost = float(xp.finfo(points.dtype).eps) * distance * (1 + reach * extent)
    far = (distance > NEAR * extent) & (lost > HARMLESS * extent)
    return xp.where(far[..., None], middle, xp.zeros_like(middle))[..., None, :]


def clearly_near(points: Array) -> bool:
    """Say at little cost that points are not far from the origin: one of two is near, for the distance between them.

    >>> clearly_near(np.array([[0.0, 1.0], [1.0, 3.0]])), clearly_near(np.array([[1e6], [1e6 + 1]]))
    (True, False)
    """
    if points.shape[1] > NARROW:
        gap = float(np.abs(points[0] - points[-1]).max())
        return float(np.abs(points[-1]).max()) <= (NEAR - 1) * gap
    first, last = points[0].tolist(), points[-1].tolist()
    extent = (NEAR - 1) * max(map(abs, map(sub, first, last)))
    return max(map(abs, last)) <= extent or max(map(abs, first)) <= extent
