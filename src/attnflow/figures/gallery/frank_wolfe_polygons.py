"""Random polygons around the disc of radius 1/4: of equal norms, with all points corners, or with some inside."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnflow.core.inputs import Array, InputError
from attnflow.geometry.hull import hull

# Norms are uniform between these, unless they are equal.
SHORTEST, LONGEST = 0.4, 1.0
# The disc of this radius around the origin is inside every polygon: it is neither thin nor far away.
INNER = 0.25
# Points that are drawn at a time in search of one more corner; and how often a polygon is drawn before giving up.
BATCH, TRIES = 4096, 1000

Rng = np.random.Generator


def directions(k: int, rng: Rng) -> Array:
    """Return k unit vectors at independent uniform angles, counter-clockwise."""
    return _until(_around_disc, lambda: _at(np.sort(rng.uniform(0.0, 2 * np.pi, k))))


def corners(k: int, rng: Rng) -> Array:
    """Return k points, counter-clockwise, each a vertex of their hull.

    Points at uniform angles with norms uniform in [.4, 1] come one after the other; those are kept that lie beyond
    exactly one side of the hull of the ones before, so that all stay vertices.
    """
    found = _until(_around_disc, lambda: _points(3, rng))
    while len(found) < k:
        drawn = _points(BATCH, rng)
        found = np.concatenate([found, drawn[_beyond(hull(found).vertices, drawn) == 1][:1]])
    return _sorted(found)


def scattered(k: int, rng: Rng) -> Array:
    """Return k points at uniform angles with norms uniform in [.4, 1], at least one of them no vertex of their hull."""
    return _until(lambda x: _around_disc(x) and len(hull(x).indices) < k, lambda: _sorted(_points(k, rng)))


def uniform_in(polygon: Array, n: int, rng: Rng) -> Array:
    """Return n points, uniform in a convex polygon whose corners are in order."""
    low, high = polygon.min(axis=0), polygon.max(axis=0)
    found = np.empty((0, 2))
    while len(found) < n:
        drawn = rng.uniform(low, high, (4 * n, 2))
        found = np.concatenate([found, drawn[_beyond(polygon, drawn) == 0]])
    return found[:n]


def _at(angles: Array) -> Array:
    return np.column_stack([np.cos(angles), np.sin(angles)])


def _points(k: int, rng: Rng) -> Array:
    angles, norms = rng.uniform(0.0, 2 * np.pi, k), rng.uniform(SHORTEST, LONGEST, k)
    return norms[:, None] * _at(angles)


def _sorted(x: Array) -> Array:
    """Return points in the order of their angles, from 0 on."""
    order: Array = x[np.argsort(np.arctan2(x[:, 1], x[:, 0]) % (2 * np.pi), kind="stable")]
    return order


def _beyond(polygon: Array, points: Array) -> Array:
    """Return beyond how many sides of a counter-clockwise polygon each point lies."""
    sides = np.roll(polygon, -1, axis=0) - polygon
    away = points[:, None] - polygon
    outside: Array = (sides[:, 0] * away[..., 1] - sides[:, 1] * away[..., 0] < 0).sum(axis=1)
    return outside


def _around_disc(x: Array) -> bool:
    """Say whether the inner disc is inside: then the order of angles is also that of the outline."""
    outer = hull(x)
    return outer.dimension == 2 and float(outer.offsets.min()) >= INNER


def _until(accepted: Callable[[Array], bool], drawn: Callable[[], Array]) -> Array:
    for _ in range(TRIES):
        x = drawn()
        if accepted(x):
            return x
    raise InputError("no such polygon was found around the disc of radius 1/4: give more points")
