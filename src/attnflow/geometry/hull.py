"""Convex hulls in any dimension, degenerate data included."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.geometry.nearest import distance, nearest
from attnflow.inputs import Array, InputError, cloud, number, points_of

Indices = NDArray[np.int64]

# Up to this dimension Qhull finds the vertices; beyond it facets are too many, and vertices come one by one.
QHULL_DIMENSION = 5
MOST_FACETS = 1_000_000
BLOCK = 1 << 22


def rounding(x: Array) -> float:
    """Return the distance below which positions of points this large are rounding: 32 eps max |x|.

    >>> rounding(np.array([[1.0, 0.0]])) == 2.0**-47
    True
    """
    return 32 * float(np.finfo(np.float64).eps) * float(np.sqrt((x * x).sum(axis=1).max())) if x.any() else 0.0


class Frame(NamedTuple):
    """Coordinates y = (x - origin) axes^T / widths of the affine hull of a cloud, in which |y_k| <= 1.

    `axes` (r, d) is an orthonormal basis of its directions and `normals` (d - r, d) one of their complement.
    """

    origin: Array
    axes: Array
    widths: Array
    normals: Array

    @classmethod
    def of(cls, x: Array, tol: float) -> Frame:
        """Find the affine hull: from one point to the farthest, to the farthest from their line, and so on.

        It ends when all points are within tol. Unlike a singular value decomposition, each step errs by rounding only,
        however many points there are.
        """
        d = x.shape[1]
        rest, axes = x - x[0], np.empty((0, d))
        while len(axes) < d:
            lengths = np.sqrt((rest * rest).sum(axis=1))
            far = int(lengths.argmax())
            if lengths[far] <= tol:
                break
            axis = rest[far] / lengths[far]
            axis -= (axes @ axis) @ axes
            axes = np.vstack([axes, axis / np.linalg.norm(axis)])
            rest = rest - np.outer(rest @ axes[-1], axes[-1])
        if len(axes) == d == 2 and np.linalg.det(axes) < 0:
            axes[1] = -axes[1]  # counter-clockwise then means the same in both coordinates
        complement = np.linalg.qr(axes.T, mode="complete")[0].T[len(axes) :]
        return cls(x[0], axes, np.abs((x - x[0]) @ axes.T).max(axis=0), complement)

    def coordinates(self, x: Array) -> Array:
        """Return the coordinates of points, or of their projections."""
        return (x - self.origin) @ self.axes.T / self.widths


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
        the others are not vertices, and a cloud no thicker than that is flat.
    """

    def __init__(self, x: Array, size: float | None = None) -> None:
        self.tol = rounding(x) if size is None else size
        self.frame = Frame.of(x, self.tol)
        self.dimension = len(self.frame.widths)
        self.indices = self._first(x, self._extreme(x))
        self.vertices = x[self.indices]

    def __repr__(self) -> str:
        k, d = self.vertices.shape
        return f"<Hull: {k} vertices, dimension {self.dimension}, in R^{d}>"

    def _extreme(self, x: Array) -> Indices:
        y = self.frame.coordinates(x)
        if self.dimension == 0:
            return np.zeros(1, dtype=np.int64)
        if self.dimension == 1:
            return np.array([y[:, 0].argmin(), y[:, 0].argmax()])
        if self.dimension > QHULL_DIMENSION:
            return _one_by_one(x, y, self.tol)
        from scipy.spatial import ConvexHull, QhullError

        try:
            found = ConvexHull(y)
            if self.dimension == 2:
                return _round(x, found.vertices.astype(np.int64), self.tol)
            rows = self._first(x, found.vertices)
            while True:
                kept = _without_flat(x[rows], ConvexHull(y[rows]), self.tol)
                if len(kept) == len(rows):
                    return rows
                rows = rows[kept]
        except QhullError:  # nearly degenerate data in dimension 4 or 5
            return _one_by_one(x, y, self.tol)

    def _first(self, x: Array, indices: Indices) -> Indices:
        """Replace each index by that of the first token at the same point."""
        rows = np.flatnonzero(np.isin(x[:, 0], x[indices, 0]))
        _, first, copies = np.unique(x[rows] + 0.0, axis=0, return_index=True, return_inverse=True)
        where = np.searchsorted(rows, indices)
        result: Indices = rows[first[copies.ravel()[where]]]
        return np.sort(result) if self.dimension != 2 else np.roll(result, -int(result.argmin()))

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

    def nearest(self, point: ArrayLike) -> Array:
        """Return the point of K nearest to a point.

        >>> hull([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]).nearest([0.25, -3.0])
        array([0.25, 0.  ])
        """
        rows, _ = points_of(point, self.vertices.shape[1], "point")
        return nearest(self.vertices, rows[0])[0]

    def _blocks(self, rows: Array) -> Iterable[Array]:
        step = max(1, BLOCK // max(len(self.vertices), 1))
        return (rows[i : i + step] for i in range(0, max(len(rows), 1), step))

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
            return np.array(self.facets, dtype=np.int64).reshape(-1, self.dimension)
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
        """Outward unit normals a_k of the facets, within the affine hull: K = {x in aff K : <a_k, x> <= b_k}."""
        return self._facets[1]

    @cached_property
    def offsets(self) -> Array:
        """Offsets b_k of the facets."""
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
        return np.sort(self.edges[(self.edges == i).any(axis=1)].sum(axis=1) - i)

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
        common = set.intersection(*(self._facets_at[i] for i in vertices))
        if not common:
            return tuple(range(len(self.vertices)))
        return tuple(sorted(set.intersection(*(set(self.facets[f]) for f in common))))


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


def _round(x: Array, ring: Indices, tol: float) -> Indices:
    """Drop from a polygon the corners that its neighbours' chord passes within tol of."""
    while len(ring) > 3:
        before, here, after = x[np.roll(ring, 1)], x[ring], x[np.roll(ring, -1)]
        height = _heights(before, here, after)
        flat = height <= tol
        # Neighbours are not dropped together: each must be judged by those that stay.
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
    """Find vertices by quadratic programs: whatever is outside the hull of those known shows the way to a new one."""
    _, rows = np.unique(x + 0.0, axis=0, return_index=True)
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


def _apart(v: Array, pair: tuple[int, int], tol: float) -> bool:
    """Say whether a segment misses the hull of the other vertices, which makes it an edge."""
    from scipy.optimize import nnls

    rest = np.delete(v, pair, axis=0)
    size = float(np.abs(v).max())
    columns = np.hstack([rest.T, -v[list(pair)].T]) / size
    ours = np.concatenate([np.ones(len(rest)), np.zeros(2)])
    system = np.vstack([columns, ours, 1 - ours])
    target = np.concatenate([np.zeros(v.shape[1]), [1.0, 1.0]])
    residual: float = nnls(system, target, maxiter=100 * len(v))[1]
    return residual * size > tol


def _most_facets(k: int, r: int) -> float:
    """Return the largest number of facets of a polytope with k vertices in dimension r (McMullen's bound)."""
    return math.comb(k - (r + 1) // 2, k - r) + math.comb(k - (r + 2) // 2, k - r)
