"""Softmax sums of tokens that come in chunks, of which no process holds all: in up to three dimensions.

The steps of the separable engine, on one grid for all chunks: it depends on the box around all tokens and on the gain
alone. The moments of each chunk are added up and carried over to the targets once; then each chunk evaluates its own
queries. What is added and sent has the size of the grid, however many tokens there are: 16^d numbers for each box, and
kappa / 2 panels on an axis with kappa = g H_s H_t for half-widths H of the boxes of keys and queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attnflow.core.inputs import Array
from attnflow.engines import separable_grid as steps
from attnflow.engines.compilation import on_one_thread
from attnflow.engines.separable import MOST_DIMENSIONS, in_plane
from attnflow.engines.separable_blocks import P
from attnflow.engines.separable_grid import Grid, Moments, Side, Slab

__all__ = ["MOST_DIMENSIONS", "Field", "added", "common_grid", "means", "moments", "propagated"]


def common_grid(queries: Array, keys: Array, n: int, gain: float) -> Grid | None:
    """Return the grid of n tokens from the corners (2, d) of the boxes of queries and keys; None if it is too large.

    Queries that are keys have the same corners, as an object.
    """
    with np.errstate(all="ignore"):
        sources = Side(steps.straight_box(*in_plane(keys)), n)
        targets = sources if queries is keys else Side(steps.straight_box(*in_plane(queries)), n)
        return steps.along(targets, sources, gain, np.eye(len(sources.box.centre)))


@on_one_thread
def moments(grid: Grid, keys: Array) -> Moments:
    """Return the moments of the keys of one chunk, and of themselves as values where there is no gradient."""
    sources = steps.sorted_by_box(grid.sources, in_plane(keys), grid.slope)
    return steps.moments_of(grid, sources, keys[:, :0] if grid.has_gradient else keys, grid.sources.box.origin)


def added(parts: Sequence[Moments], grid: Grid) -> Moments:
    """Return the sum of the moments of several chunks, added one after the other."""
    tops = np.maximum.reduce([part.tops for part in parts])
    total = np.zeros_like(parts[0].fields)
    counts = grid.sources.counts.tolist()
    for fields, own in parts:
        # A box that holds no token has the top -inf, and only zeros.
        scale = np.exp2(own - np.where(np.isfinite(tops), tops, 0.0))
        by_box = [len(fields), *(number for panels in counts for number in (panels, P))]
        total.reshape(by_box)[...] += fields.reshape(by_box) * scale.reshape([1, *(k for c in counts for k in (c, 1))])
    return Moments(total, tops)


@dataclass(frozen=True)
class Field:
    """The sums of all sources, as polynomials in the boxes of the targets."""

    grid: Grid
    whole: Slab


@on_one_thread
def propagated(grid: Grid, total: Moments) -> Field:
    """Carry the moments of all sources over to the targets."""
    size = P ** len(grid.kappa) * int(np.prod(grid.targets.counts))
    fields, scales, at = np.empty((len(total.fields), size)), [], 0
    for slab in steps.propagated(grid, total):
        fields[:, at : at + slab.fields.shape[1]] = slab.fields
        scales.append(slab.scales)
        at += slab.fields.shape[1]
    return Field(grid, Slab(0, np.concatenate(scales), fields))


@on_one_thread
def means(field: Field, queries: Array) -> Array:
    """Return what the queries of one chunk hear."""
    grid, mean = field.grid, np.empty(queries.shape)
    targets = steps.sorted_by_box(grid.targets, in_plane(queries))
    steps.evaluate_on(grid, targets, field.whole, grid.sources.box.origin, mean, np.empty(0))
    return mean
