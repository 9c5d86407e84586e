"""The vertices engine: hardmax in a time proportional to n, because only points on the hull can have the top score.

Three steps, each of which leaves leaders, ties and scores as the dense engine computes them, to the last bit:

1. points well inside the hull of a few far points are left out (`candidates`);
2. a tree of boxes over the rest finds the top scores of any query (`vertices_kernels`);
3. in the plane, if there are many queries, the tree first lists, for each cell of a table of directions, the few
   points that can be ahead there; most queries then need only their cell.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array
from attnflow.engines import fused
from attnflow.engines import vertices_kernels as kernels

Indices = NDArray[np.int64]

# In more than three dimensions the fused engine does the work.
MOST_DIMENSIONS = 3
# Points farther apart than MARGIN times the size R of the cloud are told apart whatever the rounding. With u = 2^-53,
# computed scores can be out of order by 2 d u |q| R <= 6 u |q| R. The depth inside a facet of condition k is known up
# to (20 + 21 k) u R. In a cell, rounding moves queries by 8 u |q| and scores of its corners by 12 u R.
MARGIN = 64 * 2.0**-53
# Sizes R, and products |q| R, for which this is so: nothing underflows or overflows.
SIZES, PRODUCTS = (2.0**-510, 2.0**510), (2.0**-1000, 2.0**1020)
# How finely the sphere of directions is cut, one round after the other, to find far points.
ROUNDS: dict[int, tuple[int, ...]] = {1: (0,), 2: (8, 64, 512), 3: (1, 3, 4)}
# Up to SEARCHED_FROM points are put into the tree without this search, and without a look for copies.
SEARCHED_FROM = 64
# Up to ONE_BY_ONE queries, whose scores rounding could decide, are answered by looking at all sources.
ONE_BY_ONE = 64
POINTS_PER_LEAF = 8
# The table has one cell for QUERIES_PER_CELL queries, but at most MOST_CELLS cells, and at most CELLS_PER_POINT for
# each point.
QUERIES_PER_CELL, MOST_CELLS, CELLS_PER_POINT = 2, 1 << 18, 64
LONGEST_LIST = 32
# SAMPLE points are looked at to see whether most of them are copies.
SAMPLE = 1 << 14


class Directions(NamedTuple):
    """A closed surface around the origin: corners (K, d), and facets (F, d) of d corners each, seen from outside."""

    corners: Array
    facets: Indices


@lru_cache
def directions(d: int, fineness: int) -> Directions:
    """Return both ends of the line, a polygon with `fineness` sides, or an octahedron refined `fineness` times.

    >>> directions(2, 4).facets.tolist(), [len(part) for part in directions(3, 1)]
    ([[0, 1], [1, 2], [2, 3], [3, 0]], [18, 32])
    """
    if d == 1:
        return Directions(np.array([[1.0], [-1.0]]), np.array([[0], [1]]))
    if d == 2:
        side = np.arange(fineness)
        angles = 2 * np.pi * side / fineness
        corners = np.column_stack([np.cos(angles), np.sin(angles)])
        return Directions(corners, np.column_stack([side, (side + 1) % fineness]))
    signs = [(a, b, c) for a in (1.0, -1.0) for b in (1.0, -1.0) for c in (1.0, -1.0)]
    # In every second octant the corners go around the other way.
    facets = np.array([np.diag(s) if math.prod(s) > 0 else np.diag(s)[[0, 2, 1]] for s in signs])
    for _ in range(fineness):
        a, b, c = facets.swapaxes(0, 1)
        ab, bc, ca = a + b, b + c, c + a
        facets = np.stack([[a, ab, ca], [b, bc, ab], [c, ca, bc], [ab, bc, ca]]).swapaxes(1, 2).reshape(-1, 3, 3)
        facets /= np.linalg.norm(facets, axis=2, keepdims=True)
    corners, index = np.unique(np.round(facets.reshape(-1, 3), 12) + 0.0, axis=0, return_inverse=True)
    return Directions(corners, index.reshape(-1, 3))


def size_of(points: Array) -> float:
    """Return a bound on the norms of the points."""
    return math.sqrt(points.shape[1]) * float(kernels.sizes(points)[1])


def doubtful_queries(queries: Array, size: float, smallest: float = math.inf) -> Indices:
    """Return the queries for which `MARGIN` separates no scores: at 0, so faint that products vanish, or too large.

    `smallest` is the size of the smallest part of the cloud, if it comes in parts.
    """
    least, most = math.inf, 0.0
    if SIZES[0] < size < SIZES[1]:
        least, most = PRODUCTS[0] / min(size, smallest), PRODUCTS[1] / size
    faintest, largest = kernels.sizes(queries)
    if least < faintest and largest < most:
        return np.empty(0, dtype=np.int64)
    lengths = np.abs(queries).max(axis=1)
    return np.flatnonzero(~((least < lengths) & (lengths < most)))


def candidates(queries: Array, keys: Array) -> Indices | None:
    """Return, in increasing order, indices of all keys that can have the top score of a query; None for all of them.

    Rounding may lift the computed score of a point inside the hull to that of a vertex, but only if the point lies
    within `MARGIN` R of the boundary. A query at 0 hears all sources. Copies of a point are kept or left out together.
    """
    size = size_of(keys)
    return None if len(doubtful_queries(queries, size)) else outermost(keys, size)


def outermost(keys: Array, size: float) -> Indices | None:
    """Do the work of `candidates`, where no query is doubtful."""
    kept: Indices | None = None
    for fineness in ROUNDS.get(keys.shape[1], ()):
        points = keys if kept is None else keys[kept]
        if len(points) <= SEARCHED_FROM:
            break
        outer = _outer(points, size, directions(keys.shape[1], fineness))
        if 2 * len(outer) > len(points):
            break
        kept = outer if kept is None else kept[outer]
    return kept


def _outer(points: Array, size: float, around: Directions) -> Indices:
    """Return indices of the points that are not well inside the hull of the farthest ones in some directions.

    Move the corners of the surface of directions to these farthest points. If a point y is on the inner side of every
    facet, convex or not, each facet is seen from y under a positive angle, so the surface winds around y, and y is in
    the hull. A facet with two equal corners is seen under the angle 0.
    """
    corners = points[kernels.farthest(points, around.corners)][around.facets]
    d = points.shape[1]
    pairs = [(0, 1), (1, 2), (2, 0)][: d * (d - 1) // 2]
    flat = np.any([(corners[:, a] == corners[:, b]).all(axis=1) for a, b in pairs] or [[False] * 2], axis=0)
    corners = corners[~flat]
    if not len(corners):
        return np.arange(len(points))
    normals, condition = _normals(corners / 2.0 ** math.floor(math.log2(size)))
    limits = np.einsum("fk,fk->f", normals, corners[:, 0]) - MARGIN * size * condition
    return np.flatnonzero(kernels.beyond(points, normals, limits))


def _normals(corners: Array) -> tuple[Array, Array]:
    """Return unit outer normals of facets, and how much they magnify the rounding of their sides."""
    d = corners.shape[1]
    if d == 1:
        return np.array([[1.0], [-1.0]]), np.ones(2)
    sides = corners[:, 1:] - corners[:, :1]
    normals = sides[:, 0, ::-1] * np.array([1.0, -1.0]) if d == 2 else np.cross(sides[:, 0], sides[:, 1])
    lengths = np.linalg.norm(normals, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        # A facet without area gives NaN or infinity, and no point counts as inside it.
        return normals / lengths[:, None], np.linalg.norm(sides, axis=2).prod(axis=1) / lengths


def top(
    queries: Array, keys: Array, values: Array, weights: Array, slack: Array, relative: float
) -> tuple[Array, Array, Indices]:
    """Return the weighted mean over each row's top scores, the top score and the first index that attains it.

    With slack, points inside the hull are neighbours too: then, as in higher dimensions, the fused engine is used.
    """
    if relative or slack.any() or keys.shape[1] > MOST_DIMENSIONS:
        return fused.top(queries, keys, values, weights, slack, relative)
    sources = keys, values, weights, np.arange(len(keys))
    if (weights <= 0).any():
        present = np.flatnonzero(weights > 0)
        sources = keys[present], values[present], weights[present], present
    size = size_of(sources[0])
    doubtful = doubtful_queries(queries, size)
    if not len(doubtful):
        return top_of_certain(queries, size, *sources)
    rows, copies = np.unique(queries[doubtful], axis=0, return_inverse=True)  # most often just one, at 0
    few = len(rows) <= ONE_BY_ONE
    answers = fused.top(rows, keys, values, weights, slack, relative) if few else _Tree(*_merged(*sources)).top(rows)
    answers = answers[0][copies], answers[1][copies], answers[2][copies]
    if len(doubtful) < len(queries):
        certain = np.delete(np.arange(len(queries)), doubtful)
        order = np.argsort(np.concatenate([doubtful, certain]))
        others = top_of_certain(queries[certain], size, *sources)
        mean, best, leader = (np.concatenate(pair)[order] for pair in zip(answers, others, strict=True))
        return mean, best, leader
    return answers


def top_of_certain(
    queries: Array, size: float, keys: Array, values: Array, weights: Array, index: Indices
) -> tuple[Array, Array, Indices]:
    """Answer queries that are not doubtful."""
    kept = outermost(keys, size)
    if kept is not None:
        keys, values, weights, index = keys[kept], values[kept], weights[kept], index[kept]
    return _Tree(*_merged(keys, values, weights, index)).top(queries, by_cells=True)


def _merged(points: Array, values: Array, weights: Array, index: Indices) -> tuple[Array, Array, Array, Indices]:
    """Make copies of a point one source, with their weight, mean value and least index, if most points are copies."""
    every = slice(None, None, max(1, len(points) // SAMPLE))
    sample = np.ascontiguousarray(points[every])
    if len(points) <= SEARCHED_FROM or 2 * len(distinct(sample, values[every], weights[every])[0]) > len(sample):
        return points, values, weights, index
    first, totals, moments = distinct(points, values, weights)
    return points[first], values[first] + moments / totals[:, None], totals, index[first]


def distinct(points: Array, values: Array, weights: Array) -> tuple[Indices, Array, Array]:
    """Return the first row of each distinct point, its weight, and the moment of its values about that of this row."""
    first, totals, moments = np.empty(len(points), dtype=np.int64), np.empty(len(points)), np.empty(values.shape)
    count = kernels.merge_copies(
        points, np.ascontiguousarray(values), np.ascontiguousarray(weights), first, totals, moments
    )
    return first[:count], totals[:count], moments[:count]


class _Tree:
    """Points with values, weights and increasing indices, and a tree of boxes over them."""

    def __init__(self, points: Array, values: Array, weights: Array, index: Indices) -> None:
        n, d = points.shape
        self.points, self.index, self.size = points, index, size_of(points)
        nodes = 2 << max(0, (n // POINTS_PER_LEAF).bit_length() - 1)
        tilted = d == 2 and SIZES[0] < self.size < SIZES[1]
        self.tree = (
            np.zeros((nodes, 2), dtype=np.int64),
            np.empty((nodes, kernels.BOX)),
            np.empty((nodes if tilted else 0, kernels.FRAME)),
        )
        ordered, order = points.copy(), np.arange(n)
        kernels.grow(ordered, order, 1, *self.tree)
        self.sources = ordered, index[order], values[order], weights[order]
        self.sums = np.empty(nodes), np.empty((nodes, values.shape[1])), np.empty(nodes, dtype=np.int64)
        kernels.gather(self.tree[0], *self.sources[1:], *self.sums)

    def top(self, queries: Array, by_cells: bool = False) -> tuple[Array, Array, Indices]:
        """Return mean, top score and leader of every query; by way of a table if it is allowed and worth one."""
        side = min(len(queries) // QUERIES_PER_CELL, MOST_CELLS, CELLS_PER_POINT * len(self.points)) // 4
        useful = by_cells and side > 0 and queries.shape[1] == 2
        return self._search(queries, self._table(side) if useful else _Table.empty())

    def _search(self, queries: Array, table: _Table) -> tuple[Array, Array, Indices]:
        m, slack = len(queries), MARGIN * self.size
        mean, best, leader = np.empty((m, self.sources[2].shape[1])), np.empty(m), np.empty(m, dtype=np.int64)
        kernels.top_parallel(
            queries, self.sources, self.tree, self.sums, tuple(table), slack, SIZES[0], mean, best, leader
        )
        return mean, best, leader

    def _table(self, side: int) -> _Table:
        """List for each cell the points that are not beaten, on the whole cell, by the one ahead in its middle."""
        cones = _cones(side)
        table = _Table(side, np.empty(len(cones), dtype=np.int64), np.empty((len(cones), LONGEST_LIST), dtype=np.int32))
        ahead = self._search(cones.mean(axis=1), _Table.empty())[2]
        rivals = self.points[np.searchsorted(self.index, ahead)]
        # A query q = sum_c a_c c with a_c >= 0 is no longer than sqrt(2) sum_c a_c.
        kernels.list_parallel(
            cones, rivals, self.sources[0], self.tree, 2 * MARGIN * self.size, MARGIN * self.size, *table[1:]
        )
        return table


class _Table(NamedTuple):
    """Lists of rows, one for each cell on the boundary of the square [-1, 1]^2, whose sides have `side` cells each."""

    side: int
    lengths: Indices
    lists: NDArray[np.int32]

    @classmethod
    def empty(cls) -> _Table:
        """Return a table without cells."""
        return cls(0, np.empty(0, dtype=np.int64), np.empty((0, LONGEST_LIST), dtype=np.int32))


def _cones(side: int) -> Array:
    """Return the two corners (cells, 2, 2) of each cell of a table.

    >>> _cones(1).tolist()
    [[[1.0, -1.0], [1.0, 1.0]], [[-1.0, -1.0], [-1.0, 1.0]], [[-1.0, 1.0], [1.0, 1.0]], [[-1.0, -1.0], [1.0, -1.0]]]
    """
    ends = np.linspace(-1.0, 1.0, side + 1)
    cones = np.empty((2, 2, side, 2, 2))
    for axis in range(2):
        cones[axis, 0, ..., axis], cones[axis, 1, ..., axis] = 1.0, -1.0
        cones[axis, ..., 1 - axis] = np.stack([ends[:-1], ends[1:]], axis=1)
    return cones.reshape(-1, 2, 2)
