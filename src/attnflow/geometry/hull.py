"""Convex hulls in any dimension, degenerate data included."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.core.blocks import row_blocks
from attnflow.core.inputs import Array, InputError, below, cloud, number, points_of
from attnflow.geometry.affine import Frame, rounding
from attnflow.geometry.extreme import extreme
from attnflow.geometry.nearest import distance, nearest, non_negative

Indices = NDArray[np.int64]

MOST_FACETS = 1_000_000


class Hull:
    """The convex hull K of a cloud, as `hull` makes it.

    Attributes
    ----------
    vertices : (k, d)
        The extreme points; counter-clockwise where K is a polygon in the plane.
    indices : (k,)
        Where they stand in the cloud, the first of several tokens at one point.
    dimension : int
        The dimension of the affine hull: 0 for a point, 1 for a segment, d for a body.
    tol : float
        Distances below it are rounding: 32 eps times the largest norm. Points no farther than that from the hull of
        the others are not vertices, and a cloud no thicker than that is flat; points that were left out may thus lie a
        few times tol outside.
    """

    def __init__(self, x: Array, size: float | None = None) -> None:
        self.tol = rounding(x) if size is None else size
        self.frame = Frame.of(x, self.tol)
        self.dimension = len(self.frame.widths)
        self.indices = extreme(x, self.frame, self.tol)
        self.vertices = x[self.indices]

    def __repr__(self) -> str:
        k, d = self.vertices.shape
        return f"<Hull: {k} vertices, dimension {self.dimension}, in R^{d}>"

    # Functions of points and directions

    def support(self, u: ArrayLike) -> float | Array:
        """Return the support function h(u) = max_{x in K} <u, x>, of one direction or of each of several.

        >>> hull([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]).support([1.0, 1.0])
        2.0
        """
        rows, one = points_of(u, self.vertices.shape[1], "directions")
        values = np.concatenate([(part @ self.vertices.T).max(axis=1) for part in self._blocks(rows)])
        return float(values[0]) if one else values

    def contains(self, points: ArrayLike, tol: float | None = None) -> bool | NDArray[np.bool_]:
        """Say whether K contains a point, or each of several, up to a distance tol (by default rounding).

        >>> triangle = hull([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
        >>> triangle.contains([0.5, 1.0]), triangle.contains([[0.1, 0.1], [0.6, 1.0]])
        (True, array([ True, False]))
        """
        rows, one = points_of(points, self.vertices.shape[1])
        room = max(self.tol, rounding(rows)) if tol is None else number(tol, "tol", least=0.0)
        if self.dimension > 3:
            inside = np.array([distance(self.vertices, p) <= room for p in rows], dtype=bool)
        else:
            excess = np.concatenate([self._excess(part) for part in self._blocks(rows)])
            inside = excess <= room
            # At a sharp corner a point may pass the test of every facet and yet be farther away.
            for i in np.flatnonzero(inside & (excess > 0)):
                inside[i] = distance(self.vertices, rows[i]) <= room
        return bool(inside[0]) if one else inside

    def distance(self, points: ArrayLike) -> float | Array:
        """Return the distance of a point from K, or of each of several: 0 inside.

        >>> hull([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]).distance([[0.1, 0.1], [4.0, -4.0]])
        array([0., 5.])
        """
        rows, one = points_of(points, self.vertices.shape[1])
        values = np.array([distance(self.vertices, p) for p in rows])
        values[values <= max(self.tol, rounding(rows))] = 0.0
        return float(values[0]) if one else values

    def nearest(self, points: ArrayLike) -> Array:
        """Return the point of K nearest to a point, or to each of several.

        >>> hull([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]).nearest([0.25, -3.0])
        array([0.25, 0.  ])
        """
        rows, one = points_of(points, self.vertices.shape[1])
        feet = np.array([nearest(self.vertices, p)[0] for p in rows]).reshape(rows.shape)
        return feet[0] if one else feet

    def _blocks(self, rows: Array) -> Iterable[Array]:
        return (rows[block] for block in row_blocks(len(rows), len(self.vertices)))

    def _excess(self, rows: Array) -> Array:
        """How far points are beyond the facets, or off the affine hull: a lower bound of their distance."""
        off = np.linalg.norm((rows - self.frame.origin) @ self.frame.normals.T, axis=1)
        if self.dimension == 0:
            return off
        beyond: Array = (rows @ self.normals.T - self.offsets).max(axis=1)
        return np.maximum(beyond, off)

    # Faces

    def boundary(self) -> Indices:
        """Return a triangulation of the boundary, simplices of vertices, shape (s, dimension).

        >>> hull([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]).boundary()
        array([[0, 1],
               [1, 2],
               [2, 0]])
        """
        if self.dimension <= 2:
            return np.array(self.facets, dtype=np.int64).reshape(len(self.facets), self.dimension)
        return self._triangulation[0]

    @property
    def _many_facets(self) -> bool:
        return self.dimension > 3 and _most_facets(len(self.vertices), self.dimension) > MOST_FACETS

    @cached_property
    def _triangulation(self) -> tuple[Indices, Array]:
        """Qhull's triangulated boundary of the vertices: simplices, and equations in whitened coordinates."""
        from scipy.spatial import ConvexHull, QhullError

        k, r = len(self.vertices), self.dimension
        if self._many_facets:
            raise InputError(
                f"{k} vertices in dimension {r} may have {_most_facets(k, r):.2g} facets, too many to list: "
                "ask support, contains or distance, which need none"
            )
        try:
            found = ConvexHull(self.frame.coordinates(self.vertices))
        except QhullError:
            found = None
        if found is None or len(found.vertices) < k:
            raise InputError(
                f"the facets of these {k} vertices in dimension {r} are degenerate beyond the precision of Qhull: "
                "ask support, contains or distance, or round the coordinates"
            )
        return found.simplices.astype(np.int64), found.equations

    @cached_property
    def _facets(self) -> tuple[list[tuple[int, ...]], Array]:
        k, r = len(self.vertices), self.dimension
        if r == 0:
            return [], np.empty((0, self.vertices.shape[1]))
        if r == 1:
            axis = self.frame.axes[0] * np.sign((self.vertices[1] - self.vertices[0]) @ self.frame.axes[0])
            return [(0,), (1,)], np.stack([-axis, axis])
        if r == 2:
            steps = (np.roll(self.vertices, -1, axis=0) - self.vertices) @ self.frame.axes.T
            turned = np.column_stack([steps[:, 1], -steps[:, 0]]) @ self.frame.axes
            return [(i, (i + 1) % k) for i in range(k)], turned / np.linalg.norm(turned, axis=1)[:, None]
        # Simplices that triangulate one facet share its equation.
        simplices, whitened = self._triangulation
        equations, part = np.unique(whitened, axis=0, return_inverse=True)
        normals = equations[:, :-1] / self.frame.widths @ self.frame.axes
        order = np.argsort(part.ravel(), kind="stable")
        pieces = np.split(simplices[order], np.flatnonzero(np.diff(part.ravel()[order])) + 1)
        facets = [tuple(np.unique(piece).tolist()) for piece in pieces]
        return facets, normals / np.linalg.norm(normals, axis=1)[:, None]

    @property
    def facets(self) -> list[tuple[int, ...]]:
        """The vertices (as rows of `vertices`) on each facet; facets of several coplanar simplices are one.

        >>> cube = hull([[a, b, c] for a in (0.0, 1.0) for b in (0.0, 1.0) for c in (0.0, 1.0)])
        >>> len(cube.facets), len(cube.facets[0]), len(cube.edges)
        (6, 4, 12)
        """
        return self._facets[0]

    @property
    def normals(self) -> Array:
        """Outward unit normals a_k of the facets, within the affine hull: K = {x in aff K : <a_k, x> <= b_k}.

        >>> hull([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]).normals[0] + 0.0
        array([ 0., -1.])
        """
        return self._facets[1]

    @cached_property
    def offsets(self) -> Array:
        """Offsets b_k of the facets.

        >>> hull([[3.0], [5.0]]).normals.ravel(), hull([[3.0], [5.0]]).offsets
        (array([-1.,  1.]), array([-3.,  5.]))
        """
        return np.array([float((self.vertices[list(f)] @ a).max()) for f, a in zip(*self._facets, strict=True)])

    @cached_property
    def edges(self) -> Indices:
        """Pairs of vertices joined by an edge, as rows of `vertices`, shape (e, 2).

        >>> hull([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]).edges
        array([[0, 1],
               [0, 3],
               [1, 2],
               [2, 3]])
        """
        k, r = len(self.vertices), self.dimension
        if r == 0:
            return np.empty((0, 2), dtype=np.int64)
        if r <= 2:
            pairs = {tuple(sorted(f)) for f in self.facets} if r == 2 else {(0, 1)}
        elif self._many_facets:
            pairs = {pair for pair in combinations(range(k), 2) if _apart(self.vertices, pair, self.tol)}
        else:
            near = {pair for facet in self.facets for pair in combinations(facet, 2)}
            pairs = {pair for pair in near if self.face(pair) == pair}
        return np.array(sorted(pairs), dtype=np.int64)

    def neighbours(self, i: int) -> Indices:
        """Return the vertices joined to vertex i by an edge.

        >>> hull([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]).neighbours(0)
        array([1, 3])
        """
        number = self._number(i)
        return np.sort(self.edges[(self.edges == number).any(axis=1)].sum(axis=1) - number)

    def _number(self, i: int) -> int:
        return below(i, len(self.vertices), "vertex")

    @cached_property
    def _facets_at(self) -> list[set[int]]:
        at: list[set[int]] = [set() for _ in self.vertices]
        for f, facet in enumerate(self.facets):
            for vertex in facet:
                at[vertex].add(f)
        return at

    def face(self, vertices: Iterable[int]) -> tuple[int, ...]:
        """Return the vertices of the smallest face that contains the given ones.

        >>> square = hull([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
        >>> square.face([0, 1]), square.face([0, 2])
        ((0, 1), (0, 1, 2, 3))
        """
        given = [self._number(i) for i in vertices] if isinstance(vertices, Iterable) else []
        if not given:
            raise InputError(f"vertices are {vertices!r}, expected a list of at least one number of a vertex")
        return self._meet(set.intersection(*(self._facets_at[i] for i in given)))

    def face_at(self, point: ArrayLike) -> tuple[int, ...]:
        """Return the vertices of the smallest face that contains a point of K, up to rounding.

        >>> square = hull([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
        >>> square.face_at([0.5, 0.0]), square.face_at([0.5, 0.5])
        ((0, 1), (0, 1, 2, 3))
        """
        rows, _ = points_of(point, self.vertices.shape[1], "point")
        return self._meet(np.flatnonzero(self.offsets - self.normals @ rows[0] <= self.tol).tolist())

    def _meet(self, facets: Iterable[int]) -> tuple[int, ...]:
        """Return the vertices that some facets share: all of K if there is no facet."""
        everyone = set(range(len(self.vertices)))
        return tuple(sorted(everyone.intersection(*(self.facets[f] for f in facets))))


def hull(x: ArrayLike) -> Hull:
    """Return the convex hull of a cloud: vertices, facets, edges, support function, membership, distance.

    Any dimension and any data: the hull is found within the affine hull of the cloud, so collinear, coplanar, repeated
    or too few points are no exception. Up to dimension 5 (of the affine hull) vertices come from Qhull, checked by
    quadratic programs; beyond, from quadratic programs alone, at a cost of one per token. Facets and edges are found
    when asked for.

    >>> k = hull([[0.0, 0.0], [1.0, 0.0], [0.5, 0.0], [1.0, 1.0], [0.0, 1.0], [0.5, 0.5]])
    >>> k.indices, k.contains([0.2, 0.9]), k.distance([2.0, 0.5])
    (array([0, 1, 3, 4]), True, 1.0)
    >>> hull([[0.0, 0.0], [1.0, 1.0], [3.0, 3.0]])
    <Hull: 2 vertices, dimension 1, in R^2>

    References
    ----------
    Barber, Dobkin, Huhdanpaa, *The Quickhull algorithm for convex hulls* (1996). Clarkson, *More output-sensitive
    geometric algorithms* (1994), for the vertices one by one.
    """
    return Hull(cloud(x))


def _apart(v: Array, pair: tuple[int, int], tol: float) -> bool:
    """Say whether a segment misses the hull of the other vertices, which makes it an edge."""
    rest = np.delete(v, pair, axis=0)
    size = float(np.abs(v).max())
    columns = np.hstack([rest.T, -v[list(pair)].T]) / size
    ours = np.concatenate([np.ones(len(rest)), np.zeros(2)])
    system = np.vstack([columns, ours, 1 - ours])
    target = np.concatenate([np.zeros(v.shape[1]), [1.0, 1.0]])
    return float(np.linalg.norm(system @ non_negative(system, target) - target)) * size > tol


def _most_facets(k: int, r: int) -> float:
    """Return the largest number of facets of a polytope with k vertices in dimension r (McMullen's bound)."""
    return math.comb(k - (r + 1) // 2, k - r) + math.comb(k - (r + 2) // 2, k - r)
