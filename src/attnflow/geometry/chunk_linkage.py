"""Single linkage of points that come in chunks, of which no process holds all.

All chunks use one grid, whose cells have a diameter below tol: the points of a cell belong together. A cell hands on a
few of its points, those that are farthest along the axes, so that its box is known. Two cells are joined if handed-on
points of theirs are within tol; they are apart if their boxes are not. Of the few cells for which neither is so, and
which no chain of others joins, the chunks are asked for the points that matter. The classes are those of
`single_linkage`, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import SAMPLE, Array, InputError
from attnflow.geometry.linkage import INSIDE, Boxes, Labels, gaps, grouped, join, link_all, near_pairs, single_linkage

# What tells a cell from others: whole numbers, or the coordinates of its only point.
Codes = NDArray[Any]

# At most MOST_CELLS cells are told apart, and MOST_POINTS points asked for: with 2 d points of each cell, some 200 MB.
MOST_CELLS, MOST_POINTS = 1 << 20, 1 << 22
# Up to this many cells along an axis, rounding puts no point into a wrong cell.
MOST_STEPS = 2.0**30
TOO_MANY = f"give a larger tol, or {SAMPLE}"


class Grid(NamedTuple):
    """Cells of this side from a corner on; with the side 0, a cell is one point."""

    corner: Array
    side: float

    @classmethod
    def of(cls, low: Array, high: Array, tol: float) -> Grid:
        """Return the grid for points between two corners of a box."""
        side = INSIDE * tol / math.sqrt(len(low))
        return cls(low, side if float(np.max(high - low)) / MOST_STEPS < side else 0.0)

    def codes(self, x: Array) -> Codes:
        """Return for each point what tells its cell from others."""
        return np.floor((x - self.corner) / self.side).astype(np.int64) if self.side else x + 0.0


class Cells(NamedTuple):
    """Cells that hold points, in the order of their codes.

    Each has the number of its points, the index of the first, their sum as seen from the corner of the grid, and 2 d of
    them: `shown` (m, 2 d, d) are the lowest and the highest along each axis, or all of them where there are no more.
    """

    codes: Codes
    counts: Labels
    first: Labels
    sums: Array
    shown: Array

    @property
    def complete(self) -> NDArray[np.bool_]:
        """Whether each point of a cell is one of those shown."""
        few: NDArray[np.bool_] = self.counts <= self.shown.shape[1]
        return few | (self.shown == self.shown[:, :1]).all(axis=(1, 2))

    @property
    def boxes(self) -> Boxes:
        """The points that are shown, and the boxes around all."""
        m, each, d = self.shown.shape
        low, high = self.shown.min(axis=1), self.shown.max(axis=1)
        return Boxes(self.shown.reshape(-1, d), each * np.arange(m), np.full(m, each), low, high)


def cells_of(x: Array, start: int, grid: Grid) -> Cells:
    """Return the cells of the points of a chunk, of which the first has the index `start`."""
    codes = grid.codes(x)
    order, starts = grouped(codes)
    points, sizes = x[order], np.diff(starts, append=len(x))
    sums = np.add.reduceat(points - grid.corner, starts)
    # Sorting keeps the order of equal codes.
    return _few(Cells(codes[order[starts]], sizes, start + order[starts], sums, _shown(points, starts, sizes)))


def merged(parts: Sequence[Cells]) -> Cells:
    """Return the cells of two neighbouring chunks as one."""
    codes, counts, first, sums, shown = (np.concatenate(both) for both in zip(*parts, strict=True))
    order, starts = grouped(codes)
    each = shown.shape[1]
    # Of a cell with few points all are shown once, and then the last again.
    given = np.minimum(counts[order], each)
    rows = np.repeat(order, given), np.arange(given.sum()) - np.repeat(np.cumsum(given) - given, given)
    sizes = np.add.reduceat(given, starts)
    added = np.add.reduceat(counts[order], starts), np.minimum.reduceat(first[order], starts)
    ends = _shown(shown[rows], np.cumsum(sizes) - sizes, sizes)
    return _few(Cells(codes[order[starts]], *added, np.add.reduceat(sums[order], starts), ends))


def _shown(points: Array, starts: Labels, sizes: Labels) -> Array:
    """Return 2 d points of each cell (m, 2 d, d): all of them, if there are no more, or the ends along each axis."""
    d, cell = points.shape[1], np.repeat(np.arange(len(starts)), sizes)
    rows = np.empty((len(starts), 2 * d), dtype=np.int64)
    for k, column in enumerate(points.T):
        for j, ends in enumerate((np.minimum.reduceat(column, starts), np.maximum.reduceat(column, starts))):
            hits = np.flatnonzero(column == ends[cell])
            rows[:, 2 * k + j] = hits[np.searchsorted(cell[hits], np.arange(len(starts)))]
    every = starts[:, None] + np.minimum(np.arange(2 * d), sizes[:, None] - 1)
    return points[np.where((sizes <= 2 * d)[:, None], every, rows)]


def _few(cells: Cells) -> Cells:
    if len(cells.codes) <= MOST_CELLS:
        return cells
    raise InputError(f"tokens fill more than {MOST_CELLS:,} cells of diameter tol, too many to be compared: {TOO_MANY}")


class Doubt(NamedTuple):
    """Pairs (a, b) of cells, some of whose points may be within tol, and the boxes of all cells."""

    a: Labels
    b: Labels
    low: Array
    high: Array
    codes: Codes
    tol: float


def classes(cells: Cells, grid: Grid, tol: float) -> tuple[Labels, Doubt | None]:
    """Return the class of each cell as far as the points that are shown tell, and which pairs may belong together."""
    if not grid.side:
        return single_linkage(cells.shown[:, 0], tol), None
    boxes, complete = cells.boxes, cells.complete
    joined = join(boxes, cells.codes, tol)
    pairs = []
    for a, b in near_pairs(boxes, cells.codes, joined, tol):
        open_ = (joined[a] != joined[b]) & ~(complete[a] & complete[b])
        a, b = a[open_], b[open_]
        touch = gaps(boxes, a, b) <= tol
        pairs.append(np.column_stack([a[touch], b[touch]]))
    a, b = np.unique(np.sort(np.concatenate(pairs), axis=1), axis=0).T if pairs else np.empty((2, 0), dtype=np.int64)
    return joined, Doubt(a, b, boxes.low, boxes.high, cells.codes, tol) if len(a) else None


def asked(x: Array, start: int, grid: Grid, doubt: Doubt) -> tuple[Labels, Array]:
    """Return the points of a chunk that decide about pairs in doubt, each with the number of its cell."""
    cell = numbers_of(grid.codes(x), doubt.codes)
    order = np.argsort(cell, kind="stable")
    begin, end = np.searchsorted(cell[order], [np.arange(len(doubt.codes)), np.arange(1, len(doubt.codes) + 1)])
    kept = [np.empty(0, dtype=np.int64)]
    for mine, other in ((doubt.a, doubt.b), (doubt.b, doubt.a)):
        here = begin[mine] < end[mine]
        for i, j in zip(mine[here].tolist(), other[here].tolist(), strict=True):
            rows = order[begin[i] : end[i]]
            away = np.maximum(np.maximum(doubt.low[j] - x[rows], x[rows] - doubt.high[j]), 0.0)
            kept.append(rows[np.sqrt((away**2).sum(axis=1)) <= doubt.tol * (1 + 1e-9)])
    rows = np.unique(np.concatenate(kept))
    return cell[rows], x[rows]


def settled(joined: Labels, doubt: Doubt, answers: Sequence[tuple[Labels, Array]]) -> Labels:
    """Return the class of each cell, given the points of all chunks that were asked for."""
    cell, points = (np.concatenate(part) for part in zip(*answers, strict=True))
    if len(cell) > MOST_POINTS:
        raise InputError(
            f"{len(cell):,} tokens decide which clusters belong together, too many to be compared: {TOO_MANY}"
        )
    order = np.argsort(cell, kind="stable")
    sizes = np.bincount(cell, minlength=len(joined))
    boxes = Boxes(points[order], np.cumsum(sizes) - sizes, sizes, doubt.low, doubt.high)
    joined = joined.copy()
    link_all(boxes, joined, doubt.a, doubt.b, doubt.tol)
    return joined


def numbers_of(codes: Codes, known: Codes) -> Labels:
    """Return which of the known cells, sorted, each code is that of.

    >>> numbers_of(np.array([[5, 1], [0, 2], [5, 1]]), np.array([[0, 2], [5, 0], [5, 1]]))
    array([2, 0, 2])
    """
    order, starts = grouped(codes)
    both = np.concatenate([known, codes[order[starts]]])
    # Sorting keeps the order of equal rows: each is after the known one.
    after = np.lexsort(both.T[::-1])
    last = np.maximum.accumulate(np.where(after < len(known), after, 0))
    number = np.empty(len(both), dtype=np.int64)
    number[after] = last
    found = np.empty(len(codes), dtype=np.int64)
    found[order] = np.repeat(number[len(known) :], np.diff(starts, append=len(codes)))
    return found
