"""Softmax sums of tokens that come in chunks, of which no process holds all: in up to three dimensions.

The steps of the separable engine, on one grid for all chunks: it depends on the box around all tokens and on the gain
alone. The moments of each chunk are added up and carried over to the targets once; then each chunk evaluates its own
queries. What is added and sent has the size of the grid, however many tokens there are: at most 16^d numbers for each
box, and kappa / 2 panels on an axis with kappa = g H_s H_t for half-widths H of the boxes of keys and queries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attnflow.core.inputs import Array
from attnflow.engines import separable_grid as steps
from attnflow.engines.compilation import on_one_thread
from attnflow.engines.separable import MOST_DIMENSIONS, in_plane
from attnflow.engines.separable_grid import Grid, Indices, Moments, Side, Slab

__all__ = ["MOST_DIMENSIONS", "Field", "FullBoxes", "added", "common_grid", "means", "moments", "propagated"]

# Numbers that are added at once: they stay in the cache, and take no memory beside the sum.
TOGETHER = 1 << 15


def common_grid(queries: Array, keys: Array, n: int, gain: float) -> Grid | None:
    """Return the grid of n tokens from the corners (2, d) of the boxes of queries and keys; None if it is too large.

    Queries that are keys have the same corners, as an object. Boxes may be far from 0: keys are seen from their centre,
    and exponents are rounded as those of other engines are. For one process these are better; here there are none.
    """
    with np.errstate(all="ignore"):
        sources = Side(steps.straight_box(*in_plane(keys)), n)
        targets = sources if queries is keys else Side(steps.straight_box(*in_plane(queries)), n)
        return steps.along(targets, sources, gain, np.eye(len(sources.box.centre)), largest_shift=np.inf)


class FullBoxes(NamedTuple):
    """Moments (fields, N, k) of the k boxes of the grid that hold a source, N numbers each, meant times 2^tops.

    In space many boxes are empty: what is sent and added is then a part of the grid.
    """

    boxes: Indices
    fields: Array
    tops: Array


@on_one_thread
def moments(grid: Grid, keys: Array) -> FullBoxes:
    """Return the moments of the keys of one chunk, and of themselves as values where there is no gradient."""
    sources = steps.sorted_by_box(grid.sources, in_plane(keys), grid.slope)
    columns = keys[:, :0] if grid.has_gradient else keys
    fields = steps.moments_in(grid, sources, columns, grid.sources.box.origin, np.arange(len(sources.full)))
    return FullBoxes(sources.full, fields[:, :, : len(sources.full)], sources.tops[sources.full])


def added(parts: Sequence[FullBoxes]) -> FullBoxes:
    """Return the sum of the moments of several chunks, added one after the other."""
    boxes = np.unique(np.concatenate([part.boxes for part in parts]))
    fields, tops = np.zeros((*parts[0].fields.shape[:2], len(boxes))), np.full(len(boxes), -np.inf)
    places = [np.searchsorted(boxes, part.boxes) for part in parts]
    for part, at in zip(parts, places, strict=True):
        tops[at] = np.maximum(tops[at], part.tops)
    together = max(1, TOGETHER // len(boxes))
    for part, at in zip(parts, places, strict=True):
        scales = np.exp2(part.tops - tops[at])
        for own, total in zip(part.fields, fields, strict=True):
            for some in (slice(first, first + together) for first in range(0, len(own), together)):
                total[some, at] += own[some] * scales
    return FullBoxes(boxes, fields, tops)


def _on_grid(grid: Grid, total: FullBoxes) -> Moments:
    """Return moments on the whole grid, with zeros in boxes that hold no source."""
    boxes = math.prod(grid.sources.counts.tolist())
    tops, fields = np.full(boxes, -np.inf), steps.room_for(len(total.fields), total.fields.shape[1], boxes)
    tops[total.boxes] = total.tops
    fields[:, :, total.boxes] = total.fields
    return Moments(fields, tops, np.arange(boxes // len(grid.sources.held[0])))


@dataclass(frozen=True)
class Field:
    """The sums of all sources, as polynomials in the boxes of the targets."""

    grid: Grid
    whole: Slab


@on_one_thread
def propagated(grid: Grid, total: FullBoxes) -> Field:
    """Carry the moments of all sources over to the targets."""
    size = int(np.prod(grid.targets.counts))
    fields, scales, at = np.empty((len(total.fields), size, grid.stages[-1].number)), [], 0
    for slab in steps.propagated(grid, _on_grid(grid, total)):
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
