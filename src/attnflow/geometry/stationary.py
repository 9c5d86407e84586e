"""Where tokens can end: the finite set S of a polytope."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.geometry.forms import form, positive_definite
from attnflow.geometry.hull import Hull
from attnflow.geometry.nearest import nearest
from attnflow.inputs import Array, InputError, cloud

# Barycentric coordinates and inequalities, made dimensionless, hold or fail when they are off by more than this.
TOLERANCE = 1e-11


@dataclass(frozen=True)
class StationaryPoints:
    """The set S = {x in K : <Bx, x> = max_{y in K} <Bx, y>} of a polytope.

    Attributes
    ----------
    points : (m, d)
        Its points: vertices first, then by the number of vertices of their face.
    faces : list of tuples
        The vertices, as rows of the given array, of the smallest face that each point lies in.
    attracts : (m,) bool
        Whether the point is a vertex that strictly owns its cell, <Bx, x> > <Bx, v> for every other vertex v.
        All other points of S are unstable.
    margins : (m,)
        How clearly: for each point the smallest slack <Bx, x - v> over the vertices v off its face, divided by the
        largest <Bv, v>; 0 where another face ties.
    """

    points: Array
    faces: list[tuple[int, ...]]
    attracts: NDArray[np.bool_]
    margins: Array

    def __len__(self) -> int:
        return len(self.points)


def stationary_points(vertices: ArrayLike, B: ArrayLike | None = None) -> StationaryPoints:
    """Return the finite set S = {x in K : |Ax|^2 = max_j <Ax, Av_j>}, A = B^{1/2}, B symmetric positive definite.

    These are the KKT points of maximising |Ax|^2 over K = conv{v_1, ..., v_k}, and the only possible limits of
    hardmax tokens and of the rescaled flow with V = I. Each face has at most one, the A-orthogonal projection of 0
    onto its affine hull: it belongs to S if it lies in the face and no vertex is higher in its own direction. So only
    subsets of one simplex of the boundary need be tried; 0 belongs to S if it lies in K.

    >>> found = stationary_points([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
    >>> len(found), int(found.attracts.sum()), found.points[4].round(12), found.faces[4]
    (9, 4, array([0., 1.]), (0, 1))

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *The emergence of clusters in self-attention dynamics*
    (arXiv 2305.05465), Theorem 2.
    """
    v = cloud(vertices, "vertices")
    matrix = form(B, v.shape[1])
    if not positive_definite(matrix):
        raise InputError(
            "B is not symmetric positive definite, so the stationary points need not be finite in number: "
            "give a symmetric positive definite B"
        )
    u = v @ _root(matrix)
    body = Hull(u / (np.abs(u).max() or 1.0))
    # Seen from the foot of 0 on the affine hull, a flat polytope is a full one: <Bx, y> changes by a constant.
    w = body.vertices @ body.frame.axes.T
    extent = float(np.linalg.norm(w, axis=1).max()) or 1.0
    found: dict[tuple[int, ...], Array] = {}
    for part in _parts(body):
        weights = _foot(w[list(part)])
        if _is_stationary(weights @ w[list(part)], weights, w, extent):
            support = [i for i, weight in zip(part, weights, strict=True) if weight > TOLERANCE]
            found.setdefault(body.face(support), _spread(part, weights, len(w)))
    centre, weights = nearest(w, np.zeros(body.dimension)) if body.dimension else (w[0], np.ones(1))
    if np.linalg.norm(centre) <= TOLERANCE * extent and not _has_centre(found, w, extent):
        found[tuple(range(len(w)))] = weights
    return _named(found, body, w, v)


def _root(B: Array) -> Array:
    """Return the symmetric square root."""
    values, vectors = np.linalg.eigh((B + B.T) / 2)
    root: Array = vectors * np.sqrt(values) @ vectors.T
    return root


def _parts(body: Hull) -> set[tuple[int, ...]]:
    """Return all sets of vertices that are in one simplex of the boundary."""
    if body.dimension == 0:
        return {(0,)}
    return {
        part
        for simplex in body.boundary().tolist()
        for size in range(1, len(simplex) + 1)
        for part in combinations(sorted(simplex), size)
    }


def _foot(corners: Array) -> Array:
    """Return barycentric coordinates of the point nearest to 0 of the affine hull of some points."""
    if len(corners) == 1:
        return np.ones(1)
    rest = np.linalg.lstsq((corners[1:] - corners[0]).T, -corners[0], rcond=None)[0]
    return np.append(1 - rest.sum(), rest)


def _is_stationary(y: Array, weights: Array, w: Array, extent: float) -> bool:
    """Say whether y lies in the simplex it was found in, and no vertex is higher in its own direction."""
    length = float(np.linalg.norm(y))
    if weights.min() < -TOLERANCE or length == 0:
        return bool(weights.min() >= -TOLERANCE)
    return bool((w @ (y / length)).max() - length <= TOLERANCE * extent)


def _spread(part: tuple[int, ...], weights: Array, k: int) -> Array:
    everywhere = np.zeros(k)
    everywhere[list(part)] = np.maximum(weights, 0.0) / np.maximum(weights, 0.0).sum()
    return everywhere


def _has_centre(found: dict[tuple[int, ...], Array], w: Array, extent: float) -> bool:
    """Say whether the foot of 0 is among the points already, as it is when it lies on the boundary."""
    return any(np.linalg.norm(weights @ w) <= TOLERANCE * extent for weights in found.values())


def _named(found: dict[tuple[int, ...], Array], body: Hull, w: Array, v: Array) -> StationaryPoints:
    """Assemble the result: faces by the rows of v, in order."""
    named = {face: tuple(sorted(body.indices[list(face)].tolist())) for face in found}
    faces = sorted(found, key=lambda face: (len(face), named[face]))
    weights = np.array([found[face] for face in faces])
    y, points = weights @ w, weights @ v[body.indices]
    if len(faces[-1]) == len(w) > v.shape[1] == body.dimension:
        points[-1] = 0.0  # the one point whose face is a full polytope
    slack = (y * y).sum(axis=1)[:, None] - y @ w.T
    for row, face in zip(slack, faces, strict=True):
        row[list(face)] = np.inf
    margins = slack.min(axis=1) / (float((body.vertices**2).sum(axis=1).max()) or 1.0)
    margins[np.abs(margins) <= TOLERANCE] = 0.0
    attracts = np.array([len(face) == 1 for face in faces]) & (margins > 0)
    return StationaryPoints(points, [named[face] for face in faces], attracts, margins)
