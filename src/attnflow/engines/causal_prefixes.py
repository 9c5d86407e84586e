"""Sums over prefixes by the separable engine: in up to three dimensions, for moderate g R^2.

All tokens share one grid. Queries are taken in blocks. The moments of the keys that all queries of a block hear are
those of the block before, and those of the keys since then added; they are carried over to the targets once for each
block, and evaluated at its queries. The few keys that only some queries of the block hear are left to direct sums.

The grid is that of the separable engine, which is accurate relative to each term: so the sum over a prefix is accurate
relative to itself even if all its keys are far from the query, and later keys have far larger scores.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array
from attnflow.core.progress import tick
from attnflow.engines import separable_grid as steps
from attnflow.engines.centring import ends
from attnflow.engines.separable import Plan
from attnflow.engines.separable_grid import Boxes, Grid, Moments, middle
from attnflow.engines.simd import WIDTH

Indices = NDArray[np.int64]


def softmax(made: Plan, values: Array, log2_masses: Array, blocks: Indices, prefixes: Indices) -> tuple[Array, Array]:
    """Return sum_j P_ij v_j and log sum_j w_j e^{g s_ij} over a prefix for each block of queries.

    The queries from blocks[b] to blocks[b + 1] hear the first prefixes[b] keys, which never decrease; with none of them
    their mean is 0 and the logarithm -infinity. Values that are the keys are those of the plan, as an object; no masses
    are an empty array.
    """
    grid, itself = made.grid, values is made.keys
    columns = values[:, :0] if itself and grid.has_gradient else values
    centre = grid.sources.box.origin if itself else middle(*ends(values))[0]
    mean, log_total = np.zeros((len(made.targets), values.shape[1])), np.full(len(made.targets), -np.inf)
    factors = steps.factors_of(grid)
    total, reached = _none(grid, 1 + columns.shape[1]), 0
    cuts = np.append(0, prefixes)
    sources = _Sorted(cuts, steps.sorted_by_box(grid.sources, made.sources[: cuts[-1]], grid.slope, log2_masses))
    targets = _Sorted(blocks, steps.sorted_by_box(grid.targets, made.targets))
    for block, prefix in enumerate(prefixes.tolist()):
        tick()
        if prefix > reached:
            keys = sources.piece(block)
            _add(total, steps.moments_of(grid, keys, columns[reached:prefix], centre))
            reached = prefix
        if reached:
            here, queries = slice(blocks[block], blocks[block + 1]), targets.piece(block)
            for slab in steps.propagated(grid, total, queries.full, factors):
                steps.evaluate_on(grid, queries, slab, centre, mean[here], log_total[here])
    return mean, log_total


class _Sorted:
    """Tokens sorted by box in each of some pieces, which `cuts` separate: all pieces at once."""

    def __init__(self, cuts: Indices, every: Boxes) -> None:
        u, order, start = every.tokens
        n = len(order)
        piece = np.repeat(np.arange(len(cuts) - 1, dtype=np.int32), np.diff(cuts))[order]
        if len(cuts) < 1 << 15:
            piece = piece.astype(np.int16)  # NumPy has a faster sort for these
        by = np.argsort(piece, kind="stable")
        box = np.repeat(np.arange(len(every.full), dtype=np.int32), np.diff(start))[by]
        new = np.diff(box, prepend=-1) != 0
        new[cuts[(cuts > 0) & (cuts < n)]] = True
        first = np.flatnonzero(new)
        low = every.exponents[by]
        tops = np.maximum.reduceat(low, first) if n else low
        self.u, self.order, self.lower = (
            u.reshape(-1, n + WIDTH)[:, by],
            order[by],
            low - np.repeat(tops, np.diff(first, append=n)),
        )
        self.first, self.box = first, box[first]
        self.tops = every.tops[every.full[self.box]] + tops
        self.cuts, self.every = cuts, every

    def piece(self, number: int) -> Boxes:
        """Return the tokens of a piece; indices count from its first one."""
        begin, end = self.cuts[number : number + 2].tolist()
        boxes = slice(*np.searchsorted(self.first, [begin, end]).tolist())
        u, lower = np.zeros((len(self.u), end - begin + WIDTH)), np.zeros(end - begin + WIDTH)
        u[:, :-WIDTH], lower[:-WIDTH] = self.u[:, begin:end], self.lower[begin:end]
        box, start = self.box[boxes], np.append(self.first[boxes], end) - begin
        full, tops = self.every.full[box], np.full(len(self.every.tops), -np.inf)
        tops[full] = self.tops[boxes]
        return Boxes((u.ravel(), self.order[begin:end] - begin, start), lower, tops, full)


def _none(grid: Grid, fields: int) -> Moments:
    boxes = math.prod(grid.sources.counts.tolist())
    columns = np.arange(boxes // len(grid.sources.held[0]))
    return Moments(steps.room_for(fields, grid.stages[0].number, boxes), np.full(boxes, -np.inf), columns)


def _add(total: Moments, part: Moments) -> None:
    """Add moments to the total, which holds all columns and is changed: each box takes the larger power of two."""
    tops = np.maximum(total.tops, part.tops)
    empty = tops == -np.inf
    with np.errstate(invalid="ignore"):
        old, new = (np.where(empty, 1.0, np.exp2(own.tops - tops)) for own in (total, part))
    panels, columns = len(tops) // len(total.columns), len(part.columns)
    total.fields[:, :, : len(tops)] *= old
    for s in range(panels):
        at = s * len(total.columns) + part.columns
        total.fields[:, :, at] += part.fields[:, :, s * columns : (s + 1) * columns] * new[at]
    total.tops[...] = tops
