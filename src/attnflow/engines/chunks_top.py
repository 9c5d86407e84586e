"""Hardmax of tokens that come in chunks, of which no process holds all: in up to three dimensions.

Only points near the hull of all tokens can have a top score, and they are near the hull of their chunk. So each chunk
hands on those of its points that the vertices engine keeps, with the number of their copies; these are merged, and
each chunk asks what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from attnflow.core.inputs import Array, InputError
from attnflow.engines import vertices
from attnflow.engines.compilation import on_one_thread
from attnflow.engines.vertices import MOST_DIMENSIONS, Indices

__all__ = ["MOST_CANDIDATES", "MOST_DIMENSIONS", "Candidates", "ahead", "candidates", "doubtful", "heard", "merged"]

# More points than this near the hull are refused: with their tree they take some 200 MB in each worker.
MOST_CANDIDATES = 1 << 20
# For a mean, this many tokens are added one after the other.
ADDED = 64


class Candidates(NamedTuple):
    """The points (k, d) of some tokens that can have a top score, each once: copies, and the index of the first token.

    The indices increase. `smallest` is the size of the smallest chunk of which points were left out. The other numbers
    are of all tokens: how many they are, their mean, and the first of them.
    """

    points: Array
    copies: Array
    first: Indices
    smallest: float
    number: int
    mean: Array
    head: Array

    @property
    def complete(self) -> bool:
        """Whether no point is left out."""
        return int(self.copies.sum()) == self.number


@on_one_thread
def candidates(tokens: Array, start: int) -> Candidates:
    """Return the candidates among the tokens of a chunk, of which the first has the index `start`."""
    n = len(tokens)
    kept, smallest = _kept(tokens)
    rows = np.arange(n) if kept is None else kept
    copies, mean = np.ones(len(rows)), _mean(tokens)
    return _few(_once(Candidates(tokens[rows], copies, start + rows, smallest, n, mean, tokens[0].copy())))


def _mean(tokens: Array) -> Array:
    """Return the mean of the tokens: ADDED of them are added at a time, then pairs of sums, and pairs of these.

    Rounding hardly grows with their number, and they need not be copied coordinate by coordinate.
    """
    n, d = tokens.shape
    whole = n - n % ADDED
    sums = tokens[:whole].reshape(ADDED, -1).sum(axis=0).reshape(-1, d)
    every = np.concatenate([sums, tokens[whole:]])
    mean: Array = np.ascontiguousarray(every.T).sum(axis=1) / n
    return mean


@on_one_thread
def merged(parts: Sequence[Candidates]) -> Candidates:
    """Return the candidates among those of neighbouring chunks, in their order."""
    points, copies, first, smallest, number, means, heads = zip(*parts, strict=True)
    mean = np.average(means, axis=0, weights=number)
    every = np.concatenate(points), np.concatenate(copies), np.concatenate(first)
    return _few(_pruned(_once(Candidates(*every, min(smallest), sum(number), mean, heads[0]))))


def _pruned(found: Candidates) -> Candidates:
    """Leave out points well inside the hull of the others."""
    kept, size = _kept(found.points)
    if kept is None:
        return found
    points, copies, first = found.points[kept], found.copies[kept], found.first[kept]
    return found._replace(points=points, copies=copies, first=first, smallest=min(size, found.smallest))


def _kept(points: Array) -> tuple[Indices | None, float]:
    """Return which points are not well inside the hull of the others, and their size; None and infinity for all."""
    size = vertices.size_of(points)
    kept = vertices.outermost(points, size) if vertices.SIZES[0] < size < vertices.SIZES[1] else None
    return kept, np.inf if kept is None else size


def _once(found: Candidates) -> Candidates:
    """Make copies of a point one."""
    rows, copies, _ = vertices.distinct(found.points, found.points, found.copies)
    return found._replace(points=found.points[rows], copies=copies, first=found.first[rows])


def _few(found: Candidates) -> Candidates:
    if len(found.points) <= MOST_CANDIDATES:
        return found
    raise InputError(
        f"{len(found.points)} points among {found.number} tokens of a Dask array are near their hull, expected at most "
        f"{MOST_CANDIDATES}, as each worker keeps all of them: take a sample of tokens that are on a sphere"
    )


@on_one_thread
def doubtful(queries: Array, found: Candidates) -> Indices:
    """Return the queries, such as those at 0, whose top scores points that were left out might have by rounding."""
    if found.complete:
        return np.empty(0, dtype=np.int64)
    return vertices.doubtful_queries(queries, vertices.size_of(found.points), found.smallest)


@on_one_thread
def heard(queries: Array, found: Candidates, weights: Array) -> tuple[Array, Indices]:
    """Return the mean of the candidates with the top score of each query, and the first; no query may be doubtful."""
    points = found.points
    if found.complete:
        # Then no query is doubtful here, also not one at 0, which has no direction and belongs to no cell of a table.
        mean, _, first = vertices.top(queries, points, points, weights, np.zeros(len(queries)), 0.0)
        return mean, first
    mean, _, first = vertices.top_of_certain(
        queries, vertices.size_of(points), points, points, weights, np.arange(len(points))
    )
    return mean, first


@on_one_thread
def ahead(queries: Array, found: Candidates) -> tuple[Indices, Indices]:
    """Return the first and the last candidate with the top score of each query, none of which may be doubtful."""
    if not len(queries):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    k, slack = len(found.points), np.zeros(len(queries))
    first, last = (
        vertices.top(queries, places, places, np.ones(k), slack, 0.0)[2]
        for places in (found.points, found.points[::-1].copy())
    )
    return first, k - 1 - last
