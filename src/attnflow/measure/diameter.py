"""The diameter of a cloud: its farthest pair, found without looking at all pairs."""

from __future__ import annotations

from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from attnflow.core.blocks import row_blocks
from attnflow.core.inputs import Array
from attnflow.measure import in_chunks
from attnflow.measure.by_name import number_of
from attnflow.measure.over_time import State, each_system, measured, stacked
from attnflow.runs.ensemble_results import Ensemble
from attnflow.runs.trajectory import Trajectory

# Up to MOST_COMPARED tokens, all pairs are compared.
MOST_COMPARED = 1000
# Up to these dimensions hulls have few vertices, and k-d trees are faster than looking at all pairs.
HULL_DIMENSION, TREE_DIMENSION = 3, 8
SWEEPS = 4
# A cloud whose width is this part of its length is as long as its longest axis, to rounding.
FLAT = 1e-8
ROUNDING = 1e-12
# Tokens whose distances are below this part of their size are looked at from one of them.
TINY = 1e-100


@overload
def diameter(x: Trajectory | Ensemble) -> Array: ...
@overload
def diameter(x: ArrayLike) -> float: ...
@each_system
def diameter(x: ArrayLike | Trajectory | Ensemble) -> float | Array:
    """Return max_ij |x_i - x_j|; of a run, at each recorded time, (T,), of the tokens as they were recorded.

    Of tokens in Dask it is found, to rounding, from the points near the hull of each chunk: in up to 3 dimensions, if
    there are at most 2^20 of these.

    >>> diameter([[0.0, 0.0], [3.0, 4.0], [1.0, 1.0]])
    5.0

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *A mathematical perspective on Transformers* (arXiv 2312.10794), on
    consensus, where it tends to 0.
    """
    return stacked(measured(lambda state: _diameter(state.x), x, in_chunks=_in_chunks))


def _in_chunks(state: State) -> float:
    return _diameter(in_chunks.outermost(state.x, "the diameter").points)


@number_of(diameter, ends=True)
def _at_the_end(run: Trajectory) -> float:
    """Return the diameter of the last state."""
    return diameter(run.final)


def _diameter(x: Array) -> float:
    """Return the diameter, of clouds of any size."""
    size = float(np.abs(x - x[0]).max())
    if size == 0:
        return 0.0
    if size < TINY * float(np.abs(x).max()):
        # Coordinates in which tokens agree would leave float64 below; these differences are exact.
        x = x - x[0]
    # A power of two changes no digit, and squares of the smallest clouds do not vanish.
    unit = 2.0 ** int(np.frexp(size)[1])
    return unit * _unit_diameter(x / unit)


def _unit_diameter(x: Array) -> float:
    """Sweep to a far pair, keep the tokens that could be in a farther one, and find the farthest pair of those."""
    found, p, q = _sweep(x)
    y = x - (p + (q - p) / 2)
    radius = np.linalg.norm(y, axis=1)
    # |x_i - x_j| is at most the sum of their distances to the centre.
    kept = y[radius + radius.max() >= (1 - ROUNDING) * found]
    axis = (q - p) / found
    width = np.linalg.norm(kept - np.outer(kept @ axis, axis), axis=1).max()
    return found if width <= FLAT * found else max(found, _farthest(kept))


def _sweep(x: Array) -> tuple[float, Array, Array]:
    """Go to the farthest token, and from there to the farthest, a few times: the best pair's length and its ends."""
    here = p = q = x[0]
    found = 0.0
    for _ in range(SWEEPS):
        distance = np.linalg.norm(x - here, axis=1)
        there = x[distance.argmax()]
        if distance.max() > found:
            found, p, q = float(distance.max()), here, there
        here = there
    return found, p, q


def _farthest(y: Array) -> float:
    """Return max_ij |y_i - y_j| of a centred cloud."""
    from scipy.spatial import ConvexHull, QhullError

    n, d = y.shape
    if n <= MOST_COMPARED or d > TREE_DIMENSION:
        return _farthest_by_products(y)
    if d > HULL_DIMENSION:
        return _farthest_by_tree(y)
    try:
        vertices = y[ConvexHull(y).vertices]
    except QhullError:
        # Flat in space, or so nearly flat that facets cannot be told apart.
        return _farthest_by_tree(y)
    return _farthest_antipodes(vertices) if d == 2 else _farthest_by_tree(vertices)


def _farthest_antipodes(v: Array) -> float:
    """Return max_ij |v_i - v_j| for the vertices of a polygon, counter-clockwise.

    The farthest pair is antipodal: for some direction one of them is the extreme vertex, the other that of the opposite
    direction. Vertex v_{k+1} is extreme as directions turn from the angle of edge k to that of the next, so a new pair
    begins only there, with the vertex that is extreme at that angle plus pi.
    """
    edges = np.roll(v, -1, axis=0) - v
    # Angles of a convex polygon increase, up to rounding.
    angle = np.maximum.accumulate(np.unwrap(np.arctan2(edges[:, 1], edges[:, 0])))
    extreme = np.searchsorted(np.concatenate([angle, angle + 2 * np.pi]), angle + np.pi, side="right")
    after = np.roll(v, -1, axis=0)
    # Rounding may have chosen a neighbour of the extreme vertex.
    partners = (v[(extreme + shift) % len(v)] for shift in (-1, 0, 1))
    return max(float(np.linalg.norm(after - partner, axis=1).max()) for partner in partners)


def _farthest_by_tree(y: Array) -> float:
    """Return max_ij |y_i - y_j| by nearest neighbours.

    With R = max |y| and h_j^2 = 2 (R^2 - |y_j|^2), |y_i - y_j|^2 = 2 |y_i|^2 + 2 R^2 - |(y_j, h_j) - (-y_i, 0)|^2:
    the farthest partner of y_i is the nearest of the lifted points (y_j, h_j) to (-y_i, 0).
    """
    from scipy.spatial import cKDTree

    # A tree cannot part copies of a point, and would look at all of them.
    y = np.unique(y + 0.0, axis=0)
    squares = np.einsum("ik,ik->i", y, y)
    height = np.sqrt(2 * (squares.max() - squares))
    partner = cKDTree(np.column_stack([y, height])).query(np.column_stack([-y, np.zeros(len(y))]))[1]
    return float(np.linalg.norm(y - y[partner], axis=1).max())


def _farthest_by_products(y: Array) -> float:
    """Return max_ij |y_i - y_j| from the j with the largest |y_j|^2 - 2 <y_i, y_j>, for each i."""
    squares, best = np.einsum("ik,ik->i", y, y), 0.0
    for rows in row_blocks(len(y), len(y)):
        partner = (squares - 2 * y[rows] @ y.T).argmax(axis=1)
        best = max(best, float(np.linalg.norm(y[rows] - y[partner], axis=1).max()))
    return best
