"""The neighbours engine: averages over balls and over nearly top scores, in up to three dimensions, without all pairs.

Sources are put into a tree of boxes, and so are queries. What all queries of a box hear of all sources of another is
decided at once wherever that is certain, and token by token where it is not (`neighbours_kernels`): every token hears
exactly the sources that it hears in the dense engine. In the plane the number of undecided pairs grows like n times the
root of the number of neighbours.

- A ball is decided by the boxes of queries and sources.
- A score within some room of the top score, <q, y> >= T, is a half-space with the unit normal q / |q|. The top scores
  are those of the vertices engine; the boxes of queries are boxes of normals and of depths below the top score.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array
from attnflow.engines import fused, vertices, vertices_kernels
from attnflow.engines import neighbours_kernels as kernels
from attnflow.engines.centring import ends
from attnflow.engines.simd import WIDTH

Indices = NDArray[np.int64]

MOST_DIMENSIONS = 3
# With u = 2^-53, computed scores err by 3 u |q| R, and what decides on a half-space, <u, y - p> + <u, p> - T / |q| with
# |p| <= 3 R and T / |q| cut off at 4 R, by less than 180 u R.
MARGIN = 256 * 2.0**-53


def ball(queries: Array, keys: Array, values: Array, weights: Array, radius: float) -> Array:
    """Return the weighted mean of the values of the sources within a distance of each query."""
    if keys.shape[1] > MOST_DIMENSIONS:
        return fused.ball(queries, keys, values, weights, radius)
    sources = _Tree(_plane(keys))
    asked = sources if queries is keys else _Tree(_plane(queries))
    leader = np.arange(len(keys)) if queries is keys else np.empty(0, dtype=np.int64)
    return _means(asked, asked.points, float(radius * radius), sources, values, weights, leader)


def top(
    queries: Array, keys: Array, values: Array, weights: Array, slack: Array, relative: float
) -> tuple[Array, Array, Indices]:
    """Return the weighted mean over each row's neighbours, its top score and the first index that attains it."""
    if keys.shape[1] > MOST_DIMENSIONS:
        return fused.top(queries, keys, values, weights, slack, relative)
    mean, best, leader = vertices.top(queries, keys, values, weights, np.zeros(len(queries)), 0.0)
    if not (relative or slack.any()):
        return mean, best, leader
    present = np.flatnonzero(weights > 0) if (weights <= 0).any() else slice(None)
    places, normals = _plane(keys), np.empty((len(queries), max(2, keys.shape[1]) + 1))
    size, doubt = vertices.size_of(keys), (math.inf, 0.0)
    if vertices.SIZES[0] < size < vertices.SIZES[1]:
        doubt = vertices.PRODUCTS[0] / size, vertices.PRODUCTS[1] / size
    with np.errstate(over="ignore", invalid="ignore"):
        bounds = best - slack - relative * np.abs(best)
    kernels.turn(q := _plane(queries), bounds, best, size, doubt, normals)
    asked = _Tree(normals)
    facts = np.empty((len(q), 2 * q.shape[1] + 3))
    kernels.face(q, places, bounds, leader, size, doubt, MARGIN * size, asked.points, asked.index, facts)
    near = leader if isinstance(present, slice) else np.searchsorted(present, leader)
    mean = _means(asked, facts, -1.0, _Tree(places[present]), values[present], weights[present], near)
    return mean, best, leader


def _plane(points: Array) -> Array:
    """Return points with at least two coordinates, as a line lies in the plane, in the layout of compiled code."""
    if points.shape[1] == 1:
        return np.column_stack([points, np.zeros(len(points))])
    return np.require(points, requirements=["C", "W"])


class _Tree:
    """Points in the order of a tree, which nodes of it hold which rows, and their boxes."""

    def __init__(self, points: Array) -> None:
        n, d = points.shape
        nodes = 2 << max(0, (-(-n // WIDTH)).bit_length() - 1)
        self.rows, self.boxes = np.zeros((nodes, 2), dtype=np.int64), np.empty((nodes, 2 * d))
        self.points, self.index = points.copy(), np.arange(n)
        vertices_kernels.grow(self.points, self.index, WIDTH, self.rows, self.boxes, np.empty((0, 0)))


def _means(
    asked: _Tree, queries: Array, radius2: float, sources: _Tree, values: Array, weights: Array, leader: Indices
) -> Array:
    """Return the means of the values, two columns at a time."""
    m, k, n = len(queries), values.shape[1], len(weights)
    tasks = min(len(asked.rows) // 2, 1 << (m // kernels.QUERIES_PER_TASK).bit_length())
    packed, sums = np.zeros((-(-n // WIDTH), sources.points.shape[1] + 3, WIDTH)), np.empty((len(sources.rows), 3))
    scale = math.ldexp(1.0, min(1000, -math.frexp(float(weights.max()))[1]))
    means, heard = [], np.empty((m, 3))
    for first in range(0, k, 2):
        pair = _plane(values[:, first : first + 2])
        low, high = ends(pair)
        centre = low + (high - low) / 2
        kernels.pack(sources.points, sources.index, weights, pair, centre, scale, sources.rows, packed, sums)
        tree = sources.rows, sources.boxes, sums
        kernels.hear(tasks, (asked.rows, asked.boxes, asked.points), queries, radius2, tree, packed, heard)
        means.append(np.empty((m, 2)))
        kernels.average(heard, asked.index, leader, pair, centre, means[-1])
    return means[0] if k == 2 else np.concatenate(means, axis=1)[:, :k]
