"""Single linkage: which points are joined by chains of short steps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array

Labels = NDArray[np.int64]

# Up to LISTED_DIMENSION the cells near a cell are listed; up to TREE_DIMENSION a k-d tree finds them; beyond it a tree
# looks at nearly all cells, and matrix products are faster.
LISTED_DIMENSION, TREE_DIMENSION = 3, 8
# BLOCK coordinates are compared at once. Two cells with more than MOST_PAIRS pairs of points are compared by a tree.
BLOCK, MOST_PAIRS = 1 << 22, 1 << 14
NEIGHBOURS = 8
# Up to MOST_COMPARED points are all compared with each other, if tol is above LEAST_TOL: squares do not underflow then.
MOST_COMPARED, LEAST_TOL = 100, 1e-150
# Boxes are a little smaller than tol / sqrt(d), so that rounding cannot put points farther apart than tol in one.
INSIDE = 1 - 1e-6


def single_linkage(x: Array, tol: float) -> Labels:
    """Label the classes of points joined by chains of steps of length at most tol.

    Labels count from 0 in the order of first appearance. Points are sorted into cells of diameter less than tol, whose
    members all belong together; only cells that are near each other are then compared, so memory stays proportional to
    the number of points even when all have merged.

    >>> single_linkage(np.array([[0.0], [1.0], [5.0], [2.0]]), tol=1.0)
    array([0, 0, 1, 0])
    """
    d = x.shape[1]
    if d == 1:
        order = np.argsort(x[:, 0])
        return _in_order(_stretches(x[order, 0], tol), order)
    if len(x) <= MOST_COMPARED and tol > LEAST_TOL:
        return _of_few(x, tol)
    codes = np.column_stack([_steps(column, tol / np.sqrt(d), tol) for column in x.T])
    order, starts = grouped(codes)
    cells = Boxes.of(x[order], starts)
    joined = join(cells, codes[order[starts]], tol) if tol > 0 else np.arange(len(starts))
    return _in_order(np.repeat(joined, cells.sizes), order)


def _of_few(x: Array, tol: float) -> Labels:
    """Label the classes by all distances at once: each point takes the first point that its class is known to hold.

    >>> _of_few(np.array([[0.0, 1.0], [9.0, 1.0], [5.0, 1.0], [1.0, 1.0]]), tol=4.0)
    array([0, 0, 0, 0])
    """
    squares = (x[:, None, 0] - x[:, 0]) ** 2
    for column in x.T[1:]:
        squares += (column[:, None] - column) ** 2
    near = np.sqrt(squares) <= tol
    first, before = near.argmax(axis=1), np.empty(0, dtype=np.int64)
    while not np.array_equal(first, before):
        before = first
        first = np.where(near, first, len(x)).min(axis=1)
        first = first[first]
    return np.searchsorted(np.flatnonzero(first == np.arange(len(x))), first)


class Boxes(NamedTuple):
    """Points sorted by cell: cell c holds sizes[c] of them from starts[c] on, in the box from low[c] to high[c]."""

    points: Array
    starts: Labels
    sizes: Labels
    low: Array
    high: Array

    @classmethod
    def of(cls, points: Array, starts: Labels) -> Boxes:
        """Measure the cells that begin at these places."""
        sizes = np.diff(starts, append=len(points))
        return cls(points, starts, sizes, np.minimum.reduceat(points, starts), np.maximum.reduceat(points, starts))


def _steps(column: Array, step: float, tol: float) -> Labels:
    """Return in which step, of nearly this length, each coordinate lies.

    Steps are counted anew after each gap of more than tol, from a number that is not near any before: counts stay
    below a few n tol / step, however far apart the points are, and nothing is lost to rounding.
    """
    order = np.argsort(column)
    ordered = column[order]
    stretch = _stretches(ordered, tol)
    first = np.flatnonzero(np.diff(stretch, prepend=-1))
    local = ordered - ordered[first][stretch]
    count = np.floor(local / (INSIDE * step)).astype(np.int64) if step > 0 else np.zeros(len(column), dtype=np.int64)
    last = count[np.append(first[1:], len(column)) - 1]
    count += np.concatenate([[0], np.cumsum(last + 3)[:-1]])[stretch]
    steps = np.empty_like(count)
    steps[order] = count
    return steps


def _stretches(ordered: Array, tol: float) -> Labels:
    """Number the stretches of an increasing sequence that have no gap of more than tol.

    >>> _stretches(np.array([0.0, 1.0, 3.0]), tol=1.0)
    array([0, 0, 1])
    """
    return np.cumsum(np.diff(ordered, prepend=ordered[0]) > tol)


def grouped(codes: Labels) -> tuple[Labels, Labels]:
    """Sort rows of whole numbers; return the order, and where in it each distinct row begins."""
    order = np.lexsort(codes.T[::-1])
    new = np.zeros(len(codes), dtype=bool)
    new[0] = True
    for column in codes.T:
        ordered = column[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    return order, np.flatnonzero(new)


def _in_order(labels: Labels, order: Labels) -> Labels:
    """Renumber labels of points taken in an order: by first appearance among the points themselves."""
    mine = np.empty_like(labels)
    mine[order] = labels
    first = np.full(int(labels.max()) + 1, len(labels))
    np.minimum.at(first, mine, np.arange(len(mine)))
    rank = np.empty_like(first)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[mine]


def join(cells: Boxes, codes: Labels, tol: float) -> Labels:
    """Return the class of each cell."""
    joined = np.arange(len(codes))
    for a, b in near_pairs(cells, codes, joined, tol):
        _link(cells, joined, *_apart(joined, a, b), tol)
    return joined


def near_pairs(cells: Boxes, codes: Labels, joined: Labels, tol: float) -> Iterator[tuple[Labels, Labels]]:
    """Yield pairs of cells, among them all that touch and are still apart when they are asked for."""
    widths, d = codes.max(axis=0) + 3, codes.shape[1]
    if d <= LISTED_DIMENSION and np.prod(widths.astype(np.float64)) < 2**62:
        return _listed(codes, widths)
    centres = (cells.low + cells.high) / 2
    # The centres of boxes that touch are at most this far apart, with room for rounding.
    reach = (tol + float(_length(cells.high - cells.low).max())) * (1 + 1e-12) + 1e-15 * float(np.abs(centres).max())
    return (_by_tree if d <= TREE_DIMENSION else _by_products)(centres, joined, reach)


def _listed(codes: Labels, widths: Labels) -> Iterator[tuple[Labels, Labels]]:
    """Yield all pairs of cells that are at most two steps apart along each axis; codes are sorted."""
    strides = np.append(np.cumprod(widths[:0:-1])[::-1], 1)
    keys = codes @ strides
    for shift in product(range(-2, 3), repeat=len(widths)):
        # Of a shift and its opposite, one is enough.
        if shift > (0,) * len(shift):
            wanted = keys + np.dot(shift, strides)
            place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            met = keys[place] == wanted
            yield np.flatnonzero(met), place[met]


def _by_tree(centres: Array, joined: Labels, reach: float) -> Iterator[tuple[Labels, Labels]]:
    """Yield first some neighbours of each cell, then all pairs within reach that are still apart.

    Such a pair has a cell outside the largest class, so that only cells outside it are searched from.
    """
    from scipy.spatial import cKDTree

    tree = cKDTree(centres)
    for column in tree.query(centres, k=np.arange(1, min(NEIGHBOURS, len(centres)) + 1))[1].T:
        yield np.arange(len(centres)), column
    asking = np.flatnonzero(joined != np.bincount(joined).argmax())
    answers = tree.query_ball_point(centres[asking], reach, return_length=True)
    for some in _parts(answers, BLOCK):
        met = tree.query_ball_point(centres[asking[some]], reach)
        yield np.repeat(asking[some], answers[some]), np.concatenate(met).astype(np.int64)


def _by_products(centres: Array, joined: Labels, reach: float) -> Iterator[tuple[Labels, Labels]]:
    """Yield all pairs within reach that are still apart, from |y_i|^2 + |y_j|^2 - 2 <y_i, y_j> in blocks of rows."""
    y = centres - centres.mean(axis=0)
    squares = np.einsum("ik,ik->i", y, y)
    most = reach * reach + 1e-12 * float(squares.max())
    for some in _parts(np.full(len(y), len(y)), BLOCK):
        near = squares[some, None] + squares - 2 * y[some] @ y.T <= most
        a, b = np.nonzero(near & (joined[some, None] != joined))
        yield a + some.start, b


def _parts(sizes: Labels, most: int) -> Iterator[slice]:
    """Cut a sequence into parts whose sizes sum to at most `most`, or that hold one entry.

    >>> list(_parts(np.array([2, 2, 3, 9, 1]), most=5))
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None), slice(4, 5, None)]
    """
    total, begin = np.cumsum(sizes), 0
    while begin < len(sizes):
        before = total[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(total, before + most, side="right")))
        yield slice(begin, end)
        begin = end


def _link(cells: Boxes, joined: Labels, a: Labels, b: Labels, tol: float) -> None:
    """Join the classes of those of the pairs of cells (a, b) that hold points at most tol apart."""
    most = max(1, BLOCK // cells.points.shape[1])
    for start in range(0, len(a), most):
        p, q = _apart(joined, a[start : start + most], b[start : start + most])
        near = gaps(cells, p, q) <= tol
        p, q = p[near], q[near]
        # Comparing one point of each cell is often enough, and always if both cells hold one point.
        close = _length(cells.points[cells.starts[p]] - cells.points[cells.starts[q]]) <= tol
        _unite(joined, p[close], q[close])
        link_all(cells, joined, *_apart(joined, p, q), tol)


def gaps(cells: Boxes, a: Labels, b: Labels) -> Array:
    """Return how far apart the boxes of pairs of cells are."""
    return _length(np.maximum(np.maximum(cells.low[a] - cells.high[b], cells.low[b] - cells.high[a]), 0.0))


def link_all(cells: Boxes, joined: Labels, a: Labels, b: Labels, tol: float) -> None:
    """Do the same by comparing all points of each pair, small cells first."""
    work = cells.sizes[a] * cells.sizes[b]
    order = np.argsort(work, kind="stable")
    for some in _parts(work[order], max(1, BLOCK // cells.points.shape[1])):
        p, q = _apart(joined, a[order[some]], b[order[some]])
        touch = _touching(cells, p, q, tol)
        _unite(joined, p[touch], q[touch])


def _touching(cells: Boxes, a: Labels, b: Labels, tol: float) -> NDArray[np.bool_]:
    """Return which pairs of cells hold points at most tol apart, by comparing all their points."""
    work = cells.sizes[a] * cells.sizes[b]
    if len(a) == 1 and work[0] > MOST_PAIRS:
        return np.array([_nearest(cells, int(a[0]), int(b[0])) <= tol])
    pair = np.repeat(np.arange(len(a)), work)
    place = np.arange(len(pair)) - np.repeat(np.cumsum(work) - work, work)
    i = cells.starts[a][pair] + place // cells.sizes[b][pair]
    j = cells.starts[b][pair] + place % cells.sizes[b][pair]
    close = _length(cells.points[i] - cells.points[j]) <= tol
    return np.bincount(pair[close], minlength=len(a)) > 0


def _nearest(cells: Boxes, a: int, b: int) -> float:
    """Return the least distance between the points of two full cells."""
    from scipy.spatial import cKDTree

    small, large = sorted((a, b), key=lambda c: int(cells.sizes[c]))
    members = [np.unique(cells.points[cells.starts[c] :][: cells.sizes[c]], axis=0) for c in (small, large)]
    return float(cKDTree(members[1]).query(members[0])[0].min())


def _length(steps: Array) -> Array:
    """Return the norms of rows, summed coordinate by coordinate: never above that of a row that is nowhere smaller."""
    total = steps[:, 0] ** 2
    for column in steps.T[1:]:
        total = total + column**2
    return np.sqrt(total)


def _apart(joined: Labels, a: Labels, b: Labels) -> tuple[Labels, Labels]:
    """Return the pairs that are in different classes."""
    different = joined[a] != joined[b]
    return a[different], b[different]


def _unite(joined: Labels, a: Labels, b: Labels) -> None:
    """Make one class of the classes of a and b, pair by pair, in place."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if len(a):
        count = int(joined.max()) + 1
        links = coo_array((np.ones(len(a), dtype=bool), (joined[a], joined[b])), shape=(count, count))
        joined[:] = connected_components(links, directed=False)[1][joined]
