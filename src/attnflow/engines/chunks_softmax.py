"""Softmax sums of tokens that come in chunks, of which no process holds all: in up to three dimensions.

The steps of the separable engine, on one grid for all chunks: it depends on the box around all tokens and on the gain
alone. The moments of each chunk are added up and carried over to the targets once; then each chunk evaluates its own
queries. What is added and sent has the size of the grid, however many tokens there are: 16^d numbers for each box, and
kappa / 2 panels on an axis with kappa = g H_s H_t for half-widths H of the boxes of keys and queries.
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
from attnflow.engines.separable_blocks import P
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
    """Moments (fields, k, 16^d) of the k boxes of the grid that hold a source, each meant times 2^tops.

    In space many boxes are empty: what is sent and added is then a part of the grid.
    """

    boxes: Indices
    fields: Array
    tops: Array


@on_one_thread
def moments(grid: Grid, keys: Array) -> FullBoxes:
    """Return the moments of the keys of one chunk, and of themselves as values where there is no gradient."""
    sources = steps.sorted_by_box(grid.sources, in_plane(keys), grid.slope)
    u, order, start, _, counts = sources.tokens
    k, size = len(sources.full), P ** len(counts)
    # A grid with all full boxes in one row has each of them in one piece.
    in_a_row = sources._replace(tokens=(u, order, start, np.arange(k) * size, np.array([k, *counts[1:] * 0 + 1])))
    fields = steps.moments_of(in_a_row, keys[:, :0] if grid.has_gradient else keys, grid.sources.box.origin)
    return FullBoxes(sources.full, fields.reshape(-1, k, size), sources.tops[sources.full])


def added(parts: Sequence[FullBoxes]) -> FullBoxes:
    """Return the sum of the moments of several chunks, added one after the other."""
    boxes = np.unique(np.concatenate([part.boxes for part in parts]))
    fields, tops = np.zeros((len(parts[0].fields), len(boxes), parts[0].fields.shape[2])), np.full(len(boxes), -np.inf)
    places = [np.searchsorted(boxes, part.boxes) for part in parts]
    for part, at in zip(parts, places, strict=True):
        tops[at] = np.maximum(tops[at], part.tops)
    together = max(1, TOGETHER // fields.shape[2])
    for part, at in zip(parts, places, strict=True):
        scales = np.exp2(part.tops - tops[at])[:, None]
        for own, total in zip(part.fields, fields, strict=True):
            for some in (slice(first, first + together) for first in range(0, len(at), together)):
                total[at[some]] += own[some] * scales[some]
    return FullBoxes(boxes, fields, tops)


def _on_grid(grid: Grid, total: FullBoxes) -> Moments:
    """Return moments on the whole grid, with zeros in boxes that hold no source."""
    counts, d = grid.sources.counts, len(grid.kappa)
    tops, fields = np.full(math.prod(counts.tolist()), -np.inf), []
    tops[total.boxes] = total.tops
    places = [part for seat in np.unravel_index(total.boxes, counts) for part in (seat, slice(None))]
    for own in total.fields:
        whole = np.zeros([number for panels in counts for number in (panels, P)])
        whole[tuple(places)] = own.reshape(-1, *[P] * d)
        fields.append(whole.ravel())
    return Moments(np.stack(fields) if len(fields) > 1 else fields[0][None], tops)


@dataclass(frozen=True)
class Field:
    """The sums of all sources, as polynomials in the boxes of the targets."""

    grid: Grid
    whole: Slab


@on_one_thread
def propagated(grid: Grid, total: FullBoxes) -> Field:
    """Carry the moments of all sources over to the targets."""
    size = P ** len(grid.kappa) * int(np.prod(grid.targets.counts))
    fields, scales, at = np.empty((len(total.fields), size)), [], 0
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
