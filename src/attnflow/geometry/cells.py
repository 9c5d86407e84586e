"""Cells of a polytope: for each of its points, the vertex that leads a token there."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.core.blocks import row_blocks
from attnflow.core.inputs import Array, InputError, below, cloud, number, points_of
from attnflow.geometry.forms import EPS, form, in_range, positive_definite, score_rounding, symmetric
from attnflow.geometry.hull import Hull
from attnflow.geometry.region import Region

Indices = NDArray[np.int64]


class Cells:
    """The cells C_i = {x in K : <Bx, v_j> <= <Bx, v_i> for all j} of points v_1, ..., v_k, as `cells` makes them.

    Attributes
    ----------
    vertices : (k, d)
        The points v_i as given, extreme or not, repeated or not.
    B : (d, d)
    hull : Hull
        Their convex hull K.
    """

    def __init__(self, vertices: Array, B: Array) -> None:
        in_range(B, vertices)
        self.vertices, self.B = vertices, B
        self.hull = Hull(vertices)
        self._points, first, self._point = np.unique(vertices, axis=0, return_index=True, return_inverse=True)
        self._first, self._point = first, self._point.ravel()

    def __repr__(self) -> str:
        k, d = self.vertices.shape
        return f"<Cells: {k} vertices in R^{d}>"

    # Labels

    def label(self, points: ArrayLike) -> Indices:
        """Return the cell of each point: the first i that maximises <Bx, v_i>. On a boundary `gap` is 0.

        >>> cells([[1.0, 1.0], [-1.0, 1.0], [0.0, -1.0]]).label([[0.5, 0.0], [-0.1, 0.3], [0.0, -0.5]])
        array([0, 1, 2])
        """
        rows, _ = points_of(points, self.vertices.shape[1])
        return np.concatenate([self._scores(part).argmax(axis=1) for part in self._blocks(rows)])

    def gap(self, points: ArrayLike) -> Array:
        """Return how clear each label is: the top score minus the next, of another point (infinite if there is none).

        >>> cells([[1.0, 1.0], [-1.0, 1.0], [0.0, -1.0]]).gap([[0.5, 0.0], [0.0, 1.0]])
        array([0.5, 0. ])
        """
        rows, _ = points_of(points, self.vertices.shape[1])
        return self._lead(rows, self._scores)

    def ambiguous(self, points: ArrayLike) -> NDArray[np.bool_]:
        """Say where rounding could decide the label: the gap is at most 8 (d + 2) eps |y| max_j |v_j|.

        Here y_k = sum_l |B_kl| |x_l|.

        >>> cells([[0.1, 0.3], [0.3, 0.1], [-1.0, -1.0]]).ambiguous([[0.7, 0.7], [0.7, 0.6]])
        array([ True, False])
        """
        rows, _ = points_of(points, self.vertices.shape[1])
        return self.gap(rows) <= self._rounding(rows)

    def _lead(self, rows: Array, scores: Callable[[Array], Array]) -> Array:
        """Return how far the top score of each row is above the next one, of another point."""
        if len(self._points) == 1:
            return np.full(len(rows), np.inf)
        tops = [np.partition(scores(part)[:, self._first], -2, axis=1)[:, -2:] for part in self._blocks(rows)]
        return np.concatenate([top[:, 1] - top[:, 0] for top in tops])

    def _scores(self, rows: Array) -> Array:
        """Return <Bx, v_j>, summed in one order so that sums of equal terms are equal."""
        queries = np.einsum("ab,ib->ia", self.B, rows)
        total = queries[:, :1] * self.vertices[:, 0]
        for k in range(1, rows.shape[1]):
            total += queries[:, k : k + 1] * self.vertices[:, k]
        return total

    def _rounding(self, rows: Array) -> Array:
        return score_rounding(self.B, rows, self.vertices)

    def _blocks(self, rows: Array) -> list[Array]:
        return [rows[block] for block in row_blocks(len(rows), len(self.vertices))]

    # Shapes

    def region(self, i: int, within: Hull | None = None) -> Region:
        """Return the cell C_i in half-space form, or what the same inequalities leave of another polytope than K.

        Where v_i is extreme, the inequalities of its neighbours imply all others.

        >>> simplex = cells(np.eye(5))
        >>> simplex.region(3).contains([0.1, 0.2, 0.2, 0.4, 0.1]), len(simplex.region(3).vertices)
        (True, 16)
        """
        return self._region(self._number(i), 0.0, self._rivals(self._number(i)), within)

    def dominance(self, i: int, eta: float) -> Region:
        """Return the strict dominance cone I_i(eta) = {x in K : <Bx, v_i - v_j> >= eta for all j != i}.

        >>> cells([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]]).dominance(0, 1.0).vertices
        array([[1. , 1. ],
               [0.5, 1. ],
               [0.5, 0.5],
               [1. , 0.5]])
        """
        i = self._number(i)
        return self._region(i, number(eta, "eta", least=0.0), self._others(i))

    def polygons(self) -> list[Array]:
        """Return the corners (m, 2) of each cell in the plane, counter-clockwise; fewer than three if it is degenerate.

        >>> cells([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]]).polygons()[0]
        array([[1., 1.],
               [0., 1.],
               [0., 0.],
               [1., 0.]])
        """
        if self.vertices.shape[1] != 2:
            raise InputError(
                f"the vertices have dimension {self.vertices.shape[1]}, but polygons are cells in the plane: "
                "use polyhedra() in space, region(i) anywhere"
            )
        return [self.region(i).vertices for i in range(len(self.vertices))]

    def polyhedra(self) -> list[Hull | None]:
        """Return each cell in space as a polytope with vertices, facets and edges; None if it is empty.

        >>> octahedron = np.concatenate([np.eye(3), -np.eye(3)])
        >>> [len(cell.facets) for cell in cells(octahedron).polyhedra()]
        [8, 8, 8, 8, 8, 8]
        """
        if self.vertices.shape[1] != 3:
            raise InputError(
                f"the vertices have dimension {self.vertices.shape[1]}, but polyhedra are cells in space: "
                "use polygons() in the plane, region(i) anywhere"
            )
        return [self.region(i).hull for i in range(len(self.vertices))]

    def plot(self, ax: Any = None, title: str | None = None) -> Any:
        """Draw the cells of a polygon, in the plane, and return the axes.

        A cell has a colour, its vertex a ring and the number i that `label` gives to its points; the cross is 0. With
        `ax` the cells are drawn there, and its limits stay as they are. ``run.plot(cells=True)`` draws those of a run,
        in the colours of its tokens.

        >>> ax = cells([[1.0, 1.0], [-1.0, 1.0], [0.0, -1.0]]).plot(title="three cells")
        >>> ax.get_title()
        'three cells'
        >>> import matplotlib.pyplot as plt
        >>> plt.close(ax.figure)
        """
        from attnflow.figures.cells import plot_cells

        return plot_cells(self, ax, title)

    def _number(self, i: int) -> int:
        return below(i, len(self.vertices), "vertex")

    def _region(self, i: int, eta: float, rivals: Indices, within: Hull | None = None) -> Region:
        """Return {x in K, or in another polytope : <Bx, v_j - v_i> <= -eta for the rivals j}."""
        normals = (self.vertices[rivals] - self.vertices[i]) @ self.B
        # For a direction in the kernel of B the normal would consist of rounding errors.
        bounds = np.abs(self.vertices[rivals] - self.vertices[i]) @ np.abs(self.B)
        blind = np.linalg.norm(normals, axis=1) <= 4 * len(self.B) * EPS * np.linalg.norm(bounds, axis=1)
        normals[blind] = 0.0
        return Region.cut(self.hull if within is None else within, normals, np.full(len(rivals), -eta))

    def _others(self, i: int) -> Indices:
        """All vertices at other points than v_i."""
        return self._first[np.arange(len(self._points)) != self._point[i]]

    def _rivals(self, i: int) -> Indices:
        """Vertices whose inequalities imply all others: the neighbours of an extreme point, all for any other."""
        row = self._extreme_row[i]
        return self.hull.indices[self.hull.neighbours(row)] if row >= 0 else self._others(i)

    @cached_property
    def _extreme_row(self) -> Indices:
        """Where the point of each vertex stands among the vertices of the hull, -1 if it is not extreme."""
        row = np.full(len(self._points), -1, dtype=np.int64)
        row[self._point[self.hull.indices]] = np.arange(len(self.hull.indices))
        return row[self._point]

    # Ownership

    def own_margins(self, neighbours: bool = False) -> Array:
        """Return how clearly each vertex owns its cell: min_j <B v_i, v_i - v_j> over all other points.

        A vertex strictly owns its cell if its margin is positive. With ``neighbours=True`` the minimum is taken over
        the neighbours of v_i on the hull and the origin, which has the same sign when B is symmetric and positive
        definite and v_i is an extreme point other than 0; it is refused where it would not.

        >>> square = cells([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
        >>> square.own_margins(), square.own_margins(neighbours=True)
        (array([2., 2., 2., 2.]), array([2., 2., 2., 2.]))

        References
        ----------
        Alcalde, Geshkovski, Ruiz-Balet, *Attention's forward pass and Frank-Wolfe* (arXiv 2508.09628).
        """
        if neighbours:
            self._ready_for_neighbours()
        margins = np.empty(len(self.vertices))
        for i, v in enumerate(self.vertices):
            rivals = self.vertices[self._rivals(i) if neighbours else self._others(i)]
            if neighbours:
                rivals = np.concatenate([rivals, np.zeros((1, len(v)))])
            margins[i] = ((v - rivals) @ (self.B @ v)).min(initial=np.inf)
        return margins

    def own_rounding(self) -> Array:
        """Return the size below which each own margin is rounding.

        >>> tie = cells([[1.0, 1.0], [1.0, 0.0]])
        >>> tie.own_margins() > tie.own_rounding()
        array([ True, False])
        """
        return self._rounding(self.vertices)

    def _ready_for_neighbours(self) -> None:
        if not positive_definite(self.B):
            raise InputError("the neighbours' test needs a symmetric positive definite B: use own_margins()")
        for i in range(len(self.vertices)):
            if self._extreme_row[i] < 0 or not self.vertices[i].any():
                what = "is not an extreme point" if self._extreme_row[i] < 0 else "is the origin"
                raise InputError(f"vertex {i} {what}, where the neighbours' test says nothing: use own_margins()")

    # Voronoi cells

    def energies(self) -> Array:
        """Return J(v_i) = 1/2 <B v_i, v_i>; where all are equal, cells are B-Voronoi cells cut by K.

        >>> cells([[1.0, 0.0], [0.0, 2.0]]).energies()
        array([0.5, 2. ])
        """
        half: Array = 0.5 * ((self.vertices @ self.B.T) * self.vertices).sum(axis=1)
        return half

    def voronoi_label(self, points: ArrayLike) -> Indices:
        """Return the B-Voronoi cell of each point: the first i that minimises <B(x - v_i), x - v_i>, B symmetric.

        >>> pair = cells([[1.0, 0.0], [0.0, 3.0]])
        >>> pair.voronoi_label([[0.7, 0.4]]), pair.label([[0.7, 0.4]])
        (array([0]), array([1]))
        """
        rows, _ = points_of(points, self.vertices.shape[1])
        return np.concatenate([self._nearness(part).argmax(axis=1) for part in self._blocks(rows)])

    def voronoi_gap(self, points: ArrayLike) -> Array:
        """Return how clear each Voronoi label is: half the difference of the two smallest squares <B(x-v), x-v>.

        >>> cells([[0.0], [2.0]]).voronoi_gap([[0.5], [1.0]])
        array([1., 0.])
        """
        rows, _ = points_of(points, self.vertices.shape[1])
        return self._lead(rows, self._nearness)

    def _nearness(self, rows: Array) -> Array:
        """Return <Bx, v_j> - J(v_j), which is -1/2 <B(x - v_j), x - v_j> up to a term without j."""
        if not symmetric(self.B):
            raise InputError("B is not symmetric, and a Voronoi cell needs a distance: give a symmetric B")
        nearness: Array = self._scores(rows) - self.energies()
        return nearness


def cells(vertices: ArrayLike, B: ArrayLike | None = None) -> Cells:
    """Return the cells of a polytope: C_i = {x in K : <Bx, v_j> <= <Bx, v_i> for all j}, K = conv{v_1 .. v_k}.

    A token in C_i follows v_i under hardmax attention. Labels and gaps of points, exact polygons and polyhedra,
    inequalities in any dimension, strict dominance cones and their erosions, ownership, comparison with B-Voronoi
    cells. B is any square matrix, the identity by default. `attnflow.geometry.genericity` says whether a cloud is a
    generic polytope.

    >>> pentagon = cells([[np.cos(a), np.sin(a)] for a in 2 * np.pi * np.arange(5) / 5])
    >>> pentagon.label([[0.1, 0.0], [-0.2, -0.3]]), [len(p) for p in pentagon.polygons()]
    (array([0, 3]), [4, 4, 4, 4, 4])

    References
    ----------
    Alcalde, Geshkovski, Ruiz-Balet, *Attention's forward pass and Frank-Wolfe* (arXiv 2508.09628).
    """
    v = cloud(vertices, "vertices")
    return Cells(v, form(B, v.shape[1]))
