"""Measurements of tokens in a Dask array, of which no process holds all: what chunks say of themselves is merged.

Memory: a worker holds a few chunks for each of its threads, and what was merged: at most 2^20 cells of clusters, or
2^20 points near the hull, some 200 MB.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.core import inputs
from attnflow.core.indices import weight_rows
from attnflow.core.inputs import SAMPLE, Array, InputError
from attnflow.geometry import chunk_linkage as linkage
from attnflow.laws import Hardmax, Law
from attnflow.laws.chunks import Chunks, added, check_rows, check_size, computed, shared, too_wide
from attnflow.laws.top_scores import leaders_of_chunk, without_ties

Labels = NDArray[np.int64]


def box(x: Any) -> Array:
    """Return the lowest and the highest corner (2, d) of the box around all tokens, which are checked."""
    ends = np.array(computed(Chunks(x).each(_ends)))
    corners = np.stack([ends[:, 0].min(axis=0), ends[:, 1].max(axis=0)])
    if np.abs(corners).max() > inputs.LARGEST_CLOUD:
        check_size(float(np.abs(corners).max()))
    return corners


def _ends(x: Array, start: int) -> Array:
    check_rows(x, start)
    return np.stack([x.min(axis=0), x.max(axis=0)])


def clusters(x: Any, tol: float) -> tuple[Any, Labels, Array]:
    """Return the labels of all tokens, as a Dask array, and the sizes and centres of the clusters."""
    low, high = box(x)
    chunks, grid = Chunks(x), linkage.Grid.of(low, high, tol)
    same = shared(grid)
    (cells,) = computed([added(chunks.each(linkage.cells_of, same), linkage.merged)])
    joined, doubt = linkage.classes(cells, grid, tol)
    if doubt is not None:
        joined = linkage.settled(joined, doubt, computed(chunks.each(linkage.asked, same, shared(doubt))))
    # By first appearance.
    first = np.full(int(joined.max()) + 1, x.shape[0])
    np.minimum.at(first, joined, cells.first)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    labels, counts = rank[joined], cells.counts.astype(np.float64)
    sizes = np.bincount(labels, weights=counts)
    sums = np.column_stack([np.bincount(labels, weights=column) for column in cells.sums.T])
    known = shared((grid, cells.codes, labels))
    each = x.map_blocks(_labels, known, drop_axis=1, dtype=np.int64, meta=np.empty(0, dtype=np.int64))
    return each, sizes.astype(np.int64), grid.corner + sums / sizes[:, None]


def _labels(x: Array, known: Any) -> Labels:
    grid, codes, labels = known
    found: Labels = labels[linkage.numbers_of(grid.codes(x), codes)]
    return found


def outermost(x: Any, what: str) -> Any:
    """Return the `Candidates` of all tokens: the points near their hull, each once."""
    from attnflow.engines import chunks_top as top

    if x.shape[1] > top.MOST_DIMENSIONS:
        raise InputError(too_wide(x.shape[1], top.MOST_DIMENSIONS, what))
    box(x)
    return computed([added(Chunks(x).each(top.candidates), top.merged)])[0]


def leaders(law: Law, x: Any, t: float) -> tuple[Any, Labels, Any]:
    """Return the leader of each token and how much it is heard, as Dask arrays, and which tokens lead."""
    near = law.neighbourhood
    if near is None or not near.by_scores or inputs.varies_in_time(near.size) or near.size != 0:
        raise InputError(
            f"the leaders of tokens in Dask are found under Hardmax, not {type(law).__name__}: ask for those of "
            f"Hardmax(B), which lead under Softmax(beta, B) with beta > 0 too, or {SAMPLE}"
        )
    (n, d), found = x.shape, outermost(x, "leaders")
    hardmax = Hardmax(inputs.matrix_at(near.B, t, d, "B"), near.ties, inputs.vector_at(near.b, t, d, "b"))
    known = shared(found)
    asked = known, shared(without_ties(hardmax, x, known, t)), t
    ((leads, heard, everybody),) = computed([added(Chunks(x).each(_counted, *asked), _summed)])
    distinct = np.unique(np.append(found.first[leads > 0], [0] if everybody else []))
    index = x.map_blocks(_index, *asked, drop_axis=1, dtype=np.int64, meta=np.empty(0, dtype=np.int64))
    # A token at 0 hears all alike, or the first.
    to_all, to_first = (everybody / n, 0.0) if near.ties == "tokens" else (0.0, float(everybody))
    share = shared((found, near.ties, heard / n, to_all / n, to_first / n))
    each = x.map_blocks(_heard, share, drop_axis=1, dtype=np.float64, meta=np.empty(0))
    return index, distinct.astype(np.int64), each


def _counted(x: Array, start: int, found: Any, law: Hardmax, t: float) -> tuple[Labels, Array, int]:
    """Return how many tokens of a chunk each candidate leads, how much they hear it, and how many hear everybody."""
    first, last, all_tie = leaders_of_chunk(x, start, found, law, t)
    tied = first != last
    leads = np.bincount(first[~all_tie], minlength=len(found.points))
    heard = np.bincount(first[~(tied | all_tie)], minlength=len(found.points)).astype(np.float64)
    for _, log_p in weight_rows(law, x[tied], t, sources=found.points, masses=found.copies) if tied.any() else ():
        heard += np.exp(log_p).sum(axis=0)
    return leads, heard, int(all_tie.sum())


def _summed(parts: Sequence[tuple[Labels, Array, int]]) -> tuple[Labels, Array, int]:
    leads, heard, everybody = zip(*parts, strict=True)
    return sum(leads), sum(heard), sum(everybody)


def _index(x: Array, found: Any, law: Hardmax, t: float, block_info: Any = None) -> Labels:
    first, _, all_tie = leaders_of_chunk(x, block_info[0]["array-location"][0][0], found, law, t)
    leader: Labels = np.where(all_tie, 0, found.first[first])
    return leader


def _heard(x: Array, share: Any, block_info: Any = None) -> Array:
    """Return how much each token of a chunk is heard: what its point is, in equal parts, or all if it is the first."""
    found, ties, heard, to_all, to_first = share
    start, stop = block_info[0]["array-location"][0]
    total = np.full(len(x), to_all)
    if start == 0:
        total[0] += to_first
    if ties == "tokens":
        here, which = _at_points(x, found.points)
        total[here] += heard[which] / found.copies[which]
    else:
        begin, end = np.searchsorted(found.first, [start, stop])
        total[found.first[begin:end] - start] += heard[begin:end]
    return total


def _at_points(x: Array, points: Array) -> tuple[Labels, Labels]:
    """Return which rows are among the points, and which points they are; no point is there twice.

    >>> _at_points(np.array([[1.0, 2.0], [0.0, 5.0], [2.0, 1.0]]), np.array([[2.0, 1.0], [1.0, 2.0]]))
    (array([0, 2]), array([1, 0]))
    """
    # Points that differ nearly always have different projections.
    ahead = np.cos(np.arange(1.0, x.shape[1] + 1))
    shadow, shadows = (sum(a * column for a, column in zip(ahead, y.T, strict=True)) for y in (x, points))
    order = np.argsort(shadows)
    low, high = (np.searchsorted(shadows[order], shadow, side=side) for side in ("left", "right"))
    here, which = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for k in range(int((high - low).max(initial=0))):
        rows = np.flatnonzero(low + k < high)
        place = order[low[rows] + k]
        equal = (x[rows] == points[place]).all(axis=1)
        here.append(rows[equal])
        which.append(place[equal])
    found = np.argsort(np.concatenate(here), kind="stable")
    return np.concatenate(here)[found], np.concatenate(which)[found]
