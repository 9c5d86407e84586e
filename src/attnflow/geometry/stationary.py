"""Where tokens can end: the finite set S of a polytope."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.core.inputs import Array, InputError, cloud
from attnflow.geometry.forms import form, positive_definite, score_rounding, symmetric_part
from attnflow.geometry.hull import Hull
from attnflow.geometry.nearest import nearest

# A foot whose barycentric coordinates are no lower than this lies in its simplex.
INSIDE = -1e-11
# At most MOST_PARTS sets of vertices are tried.
MOST_PARTS = 500_000


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
        Whether the point is a vertex that strictly owns its cell, <Bx, x> > <Bx, v> for every other vertex v, by more
        than rounding.
    margins : (m,)
        How clearly: for each point the smallest slack <Bx, x - v> over the vertices v off its face, divided by the
        largest <B v, v>; 0 where it is rounding, as when another face ties.
    """

    points: Array
    faces: list[tuple[int, ...]]
    attracts: NDArray[np.bool_]
    margins: Array

    def __len__(self) -> int:
        return len(self.points)


def stationary_points(vertices: ArrayLike, B: ArrayLike | None = None) -> StationaryPoints:
    """Return the finite set S = {x in K : |Ax|^2 = max_j <Ax, Av_j>}, A = B^{1/2}, B symmetric positive definite.

    These are the KKT points of maximising |Ax|^2 over K = conv{v_1 .. v_k}, and the only possible limits of
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
    corners = body.vertices
    found: dict[tuple[int, ...], Array] = {}
    for part in _parts(body):
        weights = _foot(corners[list(part)])
        if weights.min() >= INSIDE and _is_highest(weights @ corners[list(part)], corners, len(part) == 1):
            support = [i for i, weight in zip(part, weights, strict=True) if weight > -INSIDE]
            found.setdefault(body.face(support), _spread(part, weights, len(corners)))
    # The foot of 0 on the affine hull: 0 itself unless the polytope is flat.
    centre = corners[0] - body.frame.axes.T @ (body.frame.axes @ corners[0])
    inner, weights = nearest(corners, centre)
    if np.linalg.norm(inner - centre) <= body.tol:
        found.setdefault(body.face_at(centre), weights)
    return _named(_apart(found, corners, body.tol), body, v)


def _root(B: Array) -> Array:
    """Return the symmetric square root."""
    values, vectors = np.linalg.eigh(symmetric_part(B))
    root: Array = vectors * np.sqrt(values) @ vectors.T
    return root


def _parts(body: Hull) -> set[tuple[int, ...]]:
    """Return all sets of vertices that are in one simplex of the boundary."""
    if body.dimension == 0:
        return {(0,)}
    simplices = body.boundary()
    if len(simplices) * 2.0**body.dimension > MOST_PARTS:
        raise InputError(
            f"{len(body.vertices)} vertices in dimension {body.dimension} have up to "
            f"{len(simplices) * 2.0**body.dimension:.2g} faces, too many to look at: give fewer vertices"
        )
    return {
        part
        for simplex in simplices.tolist()
        for size in range(1, len(simplex) + 1)
        for part in combinations(sorted(simplex), size)
    }


def _foot(corners: Array) -> Array:
    """Return barycentric coordinates of the point nearest to 0 of the affine hull of some points."""
    if len(corners) == 1:
        return np.ones(1)
    rest = np.linalg.lstsq((corners[1:] - corners[0]).T, -corners[0], rcond=None)[0]
    return np.append(1 - rest.sum(), rest)


def _rounding(y: Array, corners: Array, exact: bool) -> float:
    """Return what <y, y - u_j> is known up to; a foot, unlike a vertex, has itself been rounded at the size of K."""
    return float(score_rounding(np.eye(len(y)), y[None] if exact else corners, corners).max())


def _is_highest(y: Array, corners: Array, exact: bool) -> bool:
    """Say whether no vertex is higher than y in its own direction."""
    return bool(((y - corners) @ y).min() >= -_rounding(y, corners, exact))


def _spread(part: tuple[int, ...], weights: Array, k: int) -> Array:
    everywhere = np.zeros(k)
    everywhere[list(part)] = np.maximum(weights, 0.0) / np.maximum(weights, 0.0).sum()
    return everywhere


def _apart(found: dict[tuple[int, ...], Array], corners: Array, tol: float) -> dict[tuple[int, ...], Array]:
    """Leave out points that were found twice because of rounding: of close ones that of the smallest face stays."""
    kept: dict[tuple[int, ...], Array] = {}
    places = np.empty((0, corners.shape[1]))
    for face in sorted(found, key=lambda face: (len(face), face)):
        y = found[face] @ corners
        if not len(places) or np.linalg.norm(places - y, axis=1).min() > 8 * tol:
            kept[face], places = found[face], np.vstack([places, y])
    return kept


def _named(found: dict[tuple[int, ...], Array], body: Hull, v: Array) -> StationaryPoints:
    """Assemble the result: faces by the rows of v, in order."""
    named = {face: tuple(sorted(body.indices[list(face)].tolist())) for face in found}
    faces = sorted(found, key=lambda face: (len(face), named[face]))
    weights, corners = np.array([found[face] for face in faces]), body.vertices
    points, margins = weights @ v[body.indices], np.empty(len(faces))
    if len(faces[-1]) == len(corners) > v.shape[1] == body.dimension:
        points[-1] = 0.0  # the one point whose face is a full polytope
    for k, face in enumerate(faces):
        y = weights[k] @ corners
        margins[k] = np.delete((y - corners) @ y, face).min(initial=np.inf)
        if abs(margins[k]) <= _rounding(y, corners, len(face) == 1):
            margins[k] = 0.0
    attracts = np.array([len(face) == 1 for face in faces]) & (margins > 0)
    largest = float((corners**2).sum(axis=1).max()) or 1.0
    return StationaryPoints(points, [named[face] for face in faces], attracts, margins / largest)
