"""Extreme points of a cloud: which tokens are vertices of its hull."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array
from attnflow.geometry.affine import Frame
from attnflow.geometry.nearest import distance, nearest

Indices = NDArray[np.int64]

# Up to this dimension Qhull finds the vertices; beyond it facets are too many, and vertices come one by one.
QHULL_DIMENSION = 5


def extreme(x: Array, frame: Frame, tol: float) -> Indices:
    """Return the extreme points of a cloud, the first of several tokens at one point.

    In the plane they come counter-clockwise, from the lowest index on, otherwise by increasing index. Points within tol
    of the hull of the others are left out.

    >>> x = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.1], [0.0, 1.0], [0.0, 0.5]])
    >>> extreme(x, Frame.of(x, 1e-14), 1e-14)
    array([0, 1, 3])
    """
    y, r = frame.coordinates(x), len(frame.widths)
    if r == 0:
        return np.zeros(1, dtype=np.int64)
    if r == 1:
        return np.sort(_first_copies(x, np.array([y[:, 0].argmin(), y[:, 0].argmax()])))
    if r > QHULL_DIMENSION:
        return _one_by_one(x, y, tol)
    from scipy.spatial import ConvexHull, QhullError

    try:
        found = ConvexHull(y)
        if r == 2:
            ring = _first_copies(x, _corners(x, found.vertices.astype(np.int64), tol))
            return np.roll(ring, -int(ring.argmin()))
        rows = np.sort(_first_copies(x, found.vertices))
        while True:
            kept = _without_flat(x[rows], ConvexHull(y[rows]), tol)
            if len(kept) == len(rows):
                return rows
            rows = rows[kept]
    except QhullError:  # nearly degenerate data in dimension 4 or 5
        return _one_by_one(x, y, tol)


def _first_copies(x: Array, indices: Indices) -> Indices:
    """Replace each index by that of the first token at the same point."""
    rows = np.flatnonzero(np.isin(x[:, 0], x[indices, 0]))
    _, first, copies = np.unique(x[rows], axis=0, return_index=True, return_inverse=True)
    result: Indices = rows[first[copies.ravel()[np.searchsorted(rows, indices)]]]
    return result


def _corners(x: Array, ring: Indices, tol: float) -> Indices:
    """Drop from a polygon the corners that its neighbours' chord passes within tol of."""
    while len(ring) > 3:
        before, here, after = x[np.roll(ring, 1)], x[ring], x[np.roll(ring, -1)]
        height = _heights(before, here, after)
        flat = height <= tol
        # Neighbours are not dropped together: each corner is compared with corners that stay.
        flat &= (height <= np.roll(height, 1)) & (height < np.roll(height, -1))
        if not flat.any():
            flat = (height <= tol) & (np.arange(len(ring)) == height.argmin())
            if not flat.any():
                break
        ring = ring[~flat]
    return ring


def _heights(before: Array, here: Array, after: Array) -> Array:
    """Return the distance of each corner from the segment between its neighbours."""
    chord, arm = after - before, here - before
    along = (arm * chord).sum(axis=1) / np.maximum((chord * chord).sum(axis=1), np.finfo(np.float64).tiny)
    return np.linalg.norm(arm - np.clip(along, 0.0, 1.0)[:, None] * chord, axis=1)


def _without_flat(x: Array, found: Any, tol: float) -> Indices:
    """Return Qhull's vertices without those within tol of the hull of the others.

    The points that share a simplex with a vertex span the cone of K there, so they tell which vertices are in doubt; on
    lattices Qhull reports points inside facets. These are dropped one by one, since of two close points one must stay.
    """
    around: dict[int, set[int]] = {}
    for simplex in found.simplices.tolist():
        for i in simplex:
            around.setdefault(i, set()).update(simplex)
    kept = sorted(around)
    for i in [i for i in kept if distance(x[sorted(around[i] - {i})], x[i]) <= tol]:
        rest = [j for j in kept if j != i]
        if distance(x[rest], x[i]) <= tol:
            kept = rest
    return np.array(kept, dtype=np.int64)


def _one_by_one(x: Array, y: Array, tol: float) -> Indices:
    """Find vertices by quadratic programs: a point outside the hull of the known ones leads to a new one."""
    _, rows = np.unique(x, axis=0, return_index=True)
    known = sorted({int(rows[y[rows, k].argmin()]) for k in range(y.shape[1])})
    for i in rows.tolist():
        while i not in known:
            foot, _ = nearest(x[known], x[i])
            away = x[i] - foot
            if np.linalg.norm(away) <= tol:
                break
            farthest = int(rows[(x[rows] @ away).argmax()])
            known.append(farthest if farthest not in known else i)
    for i in list(known):
        rest = [j for j in known if j != i]
        if rest and distance(x[rest], x[i]) <= tol:
            known = rest
    return np.array(sorted(known), dtype=np.int64)
