"""The pruned engine: with a large gain a query hears only the sources near its top score, wherever the others are.

For a source v and queries q in a box (centre c, half-widths h), all sources y in another box (C, H) have

    <q, y - v>  <=  <c, C - v> + <|c|, H> + <h, |C - v| + H>,

so their weights are at most w_y e^{g (...)} / w_v times that of v. Sources and queries are ordered into nested blocks
of 16, 128 and 1024 neighbours. For each block of queries, v is the source with the top score at its centre, found by
branch and bound; a block of sources, or a single one, is left out if its bound is below e^{-D}, e^D = 2 n / tolerance.
Blocks of 16 are also left out if all of them together stay below the tolerance times a lower bound of the total weight.
The other sources are summed directly. So the mean errs by at most the tolerance times the diameter of the values, the
logarithm of the total by the tolerance, and both by rounding, on every input and in any dimension.

The dual tree with a bound on the neglected weight is that of A. Gray and A. Moore, "N-body problems in statistical
learning" (NIPS 2000), without expansions and with inner products in place of distances.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array
from attnflow.engines import Memory, fused, separable
from attnflow.engines import pruned_kernels as kernels
from attnflow.engines.centring import about_centre, ends
from attnflow.engines.kernels import LOG2E
from attnflow.engines.pruned_kernels import LEAF
from attnflow.engines.simd import WIDTH

TOLERANCE = 1e-10
# With fewer sources, ordering them into blocks would take longer than it saves.
FEWEST_SOURCES = 4 * LEAF
# Products |q| |k| up to this size are far from overflow.
LARGEST_PRODUCT = 1e300

# The work in pairs of the fused engine: a pair; to order a point, per halving; to find the leaves of a query; to begin.
PAIR, ORDER, SEARCH, BEGIN = 1.3, 35.0, 350.0, 1e6
# The number of sources that a query needs is estimated from SAMPLE_QUERIES queries, spread evenly over the norms of
# SAMPLE_NORMS, and SAMPLE_KEYS sources.
SAMPLE_QUERIES, SAMPLE_NORMS, SAMPLE_KEYS = 96, 1 << 12, 1 << 13
# Boxes are assumed to fill space in up to this dimension; in more, this engine is useful only for tight clusters.
FILLED = 3
# Bounds of boxes exceed the weights in them by about this factor.
COARSE = 4.0
# The radius up to which queries go to another engine is chosen among RADII values.
RADII = 16


@about_centre
def softmax(
    queries: Array, keys: Array, values: Array, log_masses: Array | None, gain: float, memory: Memory | None = None
) -> tuple[Array, Array]:
    """Return sum_j P_ij v_j and log sum_j w_j e^{g s_ij}, as the dense engine does, up to `TOLERANCE`."""
    memory = memory or Memory()
    light = log_masses is not None and np.ptp(log_masses) > fused.LIGHTEST
    if light or not _applies(queries, keys, gain):
        return fused.softmax(queries, keys, values, log_masses, gain)
    m, n = len(queries), len(keys)
    k, order = _tiled(keys, memory.keys)
    q, place = (k, order) if queries is keys else _tiled(queries, memory.queries)
    memory.keys, memory.queries = order, place
    v = k if values is keys else _columns(values[order])
    masses, largest = np.zeros(k.shape[1]), 0.0
    if log_masses is not None:
        largest = float(log_masses.max())
        masses[:n] = (log_masses[order] - largest) * LOG2E
    mean, total, top = np.empty((v.shape[0], q.shape[1])), np.empty(q.shape[1]), np.empty(q.shape[1])
    depth = math.log2(2 * n / TOLERANCE)
    sizes = np.maximum(k.max(axis=1), -k.min(axis=1))
    kernels.softmax_parallel(q, m, (k, masses, n), v, _boxes(k, masses, n), sizes, gain, depth, mean, total, top)
    result, log_total = np.empty((m, v.shape[0])), np.empty(m)
    result[place] = mean[:, :m].T
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        log_total[place] = gain * top[:m] + np.log(total[:m]) + largest
    return result, log_total


def name(queries: Array, keys: Array, gain: float) -> str:
    """Return which engine does the work: this one, or fused."""
    return "pruned" if _applies(queries, keys, gain) else "fused"


def cost(queries: Array, keys: Array, gain: float, heard: Heard | None = None) -> float:
    """Predict the work of `softmax` in pairs of the fused engine; infinity where that does it.

    `heard` is what `listeners` found, if it is known already.

    >>> x = np.random.default_rng(0).standard_normal((4000, 2))
    >>> cost(x, x, 0.1), cost(x, x, 1e4) < 4000**2
    (inf, True)
    """
    if not _applies(queries, keys, gain):
        return math.inf
    m, n = len(queries), len(keys)
    pairs = float((heard or listeners(queries, keys, gain)).pairs.mean())
    points = (n,) if queries is keys else (m, n)
    return BEGIN + sum(ORDER * p * math.log2(p / LEAF + 1) for p in points) + m * (SEARCH + pairs)


def inner_radius(queries: Array, keys: Array, gain: float, heard: Heard | None = None) -> float | None:
    """Return r such that queries with |q| <= r, which hear almost all sources, are left to the separable engine.

    It is the radius with the least predicted work in all; None if this engine, or that one, does everything best.
    """
    m, n = len(queries), len(keys)
    if keys.shape[1] > separable.MOST_DIMENSIONS or not _applies(queries, keys, gain):
        return None
    norms, pairs = heard or listeners(queries, keys, gain)
    some, sample = _by_norm(queries), _sample(keys)

    count = len(norms)
    outer = [m / count * (SEARCH * (count - i) + float(pairs[i:].sum())) for i in range(count + 1)]
    least, radius = outer[0], None
    for i in range(count // RADII, count + 1, count // RADII):
        made = separable.plan(some[: -(-i * len(some) // count)], sample, gain)
        inner = math.inf if made is None else made.cost(i * m // count, n)
        if inner >= least:
            break
        if inner + outer[i] < least:
            least, radius = inner + outer[i], float(norms[i - 1]) if i < count else None
    return radius


def _applies(queries: Array, keys: Array, gain: float) -> bool:
    """Whether some exponents differ by enough for a source to be left out, and nothing overflows."""
    if len(keys) < FEWEST_SOURCES or not len(queries):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = ends(keys)
        longest = np.abs((low, high) if queries is keys else ends(queries)).max(axis=0)
        product = float(longest @ np.maximum(high, -low))
        reach = gain * float(longest @ (high - low))
    return reach >= math.log(len(keys) / TOLERANCE) and product <= LARGEST_PRODUCT


def _columns(rows: Array) -> Array:
    """Transpose (n, d) to coordinate-first layout, padded to whole leaves with copies of the last row."""
    n, d = rows.shape
    columns = np.empty((d, -(-n // LEAF) * LEAF))
    columns[:, :n] = rows.T
    columns[:, n:] = rows[-1:].T
    return columns


def _tiled(points: Array, known: NDArray[np.int64] | None = None) -> tuple[Array, NDArray[np.int64]]:
    """Return the columns of the points, ordered into nested blocks, and the rows where they come from."""
    if known is not None and len(known) == len(points):
        return _columns(points[known]), known
    ordered, order = np.array(points, order="C"), np.arange(len(points))
    kernels.tile(ordered, order)
    return _columns(ordered), order


def _boxes(k: Array, masses: Array, n: int) -> tuple[Array, Array, Array]:
    """Return the boxes of leaves, blocks and groups of sources, each level padded to whole vectors."""
    rows, counts = 2 * len(k) + 2, [-(-n // LEAF)]
    for _ in range(2):
        counts.append(-(-counts[-1] // WIDTH))
    leaves, blocks, groups = (np.empty((rows, -(-count // WIDTH) * WIDTH)) for count in counts)
    kernels.enclose(k, masses, n, leaves)
    kernels.enclose_boxes(leaves, blocks)
    kernels.enclose_boxes(blocks, groups)
    return leaves, blocks, groups


def _by_norm(queries: Array) -> Array:
    """Return some queries, ordered by norm."""
    some = queries[:: -(-len(queries) // SAMPLE_NORMS)]
    return some[np.argsort(np.einsum("ik,ik->i", some, some), kind="stable")]


def _sample(keys: Array) -> Array:
    """Return some keys, and the extreme ones, because they have the top scores."""
    return np.concatenate([keys[:: -(-len(keys) // SAMPLE_KEYS)], keys[keys.argmin(axis=0)], keys[keys.argmax(axis=0)]])


class Heard(NamedTuple):
    """Norms of some queries, increasing, and what the pairs of each of them cost."""

    norms: Array
    pairs: Array


def listeners(queries: Array, keys: Array, gain: float) -> Heard:
    """Predict how much some of the queries hear.

    The sources that a query hears fill a part of space; leaves cover it, and on either side about one half of their own
    width and of that of the queries beyond it.
    """
    n, d = keys.shape
    some, sample = _by_norm(queries), _sample(keys)
    chosen = np.ascontiguousarray(some[(np.arange(SAMPLE_QUERIES) * len(some) + len(some) // 2) // SAMPLE_QUERIES])
    share = n / len(sample)
    columns = np.ascontiguousarray(sample.T)
    counts = kernels.count_near(chosen, columns, gain, share, TOLERANCE / COARSE)
    filled = min(d, FILLED)
    near = (counts * share) ** (1 / filled) + 2 * LEAF ** (1 / filled)
    return Heard(np.sqrt(np.einsum("ik,ik->i", chosen, chosen)), PAIR * np.minimum(near**filled, n))
