"""The pruned engine: with a large gain a query hears only the sources near its top score, wherever the others are.

For a source v and queries q in a box (centre c, half-widths h), all sources y in another box (C, H) have

    <q, y - v>  <=  <c, C - v> + <|c|, H> + <h, |C - v| + H>,

so their weights are at most w_y e^{g (...)} / w_v times that of v. Sources and queries are ordered into nested blocks
of 16, 128 and 1024 neighbours. For each block of queries, v is the source with the top score at its centre, found by
branch and bound; a block of sources is left out if its bound is below e^{-D}, e^D = 2 n / tolerance, and blocks of 16
also if all that is left out together stays below the tolerance, measured by a lower bound of the total weight. What is
left is summed directly. So the mean errs by at most the tolerance times the diameter of the values, the logarithm of
the total by the tolerance, and both by rounding, on every input and in any dimension.

The dual tree with a bound on the neglected weight is that of A. Gray and A. Moore, "N-body problems in statistical
learning" (NIPS 2000), without expansions and with inner products in place of distances.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from attnflow.engines import fused
from attnflow.engines import pruned_kernels as kernels
from attnflow.engines.kernels import LOG2E
from attnflow.engines.lanes import WIDTH
from attnflow.engines.pruned_kernels import LEAF
from attnflow.inputs import Array

TOLERANCE = 1e-10
# Fewer sources are not worth blocks.
FEW = 4 * LEAF
# Products |q| |k| up to this size are far from overflow.
LARGEST_PRODUCT = 1e300

# The work in pairs of the fused engine: a pair; to order a point, per halving; to find the leaves of a query; to begin.
PAIR, ORDER, SEARCH, BEGIN = 1.3, 35.0, 350.0, 1e6
# What is heard is counted for so many queries, evenly spread over the norms of more, among so many sources.
SAMPLE_QUERIES, SAMPLE_NORMS, SAMPLE_KEYS = 96, 1 << 12, 1 << 13
# Boxes fill space in up to this dimension; in more, whoever needs this engine has tight clusters.
FILLED = 3
# The separable engine (`_separable`): nodes and largest exponent of a panel, largest exponent in all.
NODES, PANEL, LARGEST_EXPONENT = 16, 2.6, 650.0


def softmax(queries: Array, keys: Array, values: Array, log_masses: Array | None, gain: float) -> tuple[Array, Array]:
    """Return sum_j P_ij v_j and log sum_j w_j e^{g s_ij}, as the dense engine does, up to `TOLERANCE`."""
    if log_masses is not None and 0 < (present := np.flatnonzero(log_masses > -np.inf)).size < len(keys):
        # Whoever has no mass must not have the top score either: all weights would vanish beside it.
        return softmax(queries, keys[present], values[present], log_masses[present], gain)
    if not _applies(queries, keys, gain):
        return fused.softmax(queries, keys, values, log_masses, gain)
    m, n = len(queries), len(keys)
    k, order = _tiled(keys)
    q, place = (k, order) if queries is keys else _tiled(queries)
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


def cost(queries: Array, keys: Array, gain: float) -> float:
    """Predict the work of `softmax` in pairs of the fused engine; infinity where that does it.

    >>> x = np.random.default_rng(0).standard_normal((4000, 2))
    >>> cost(x, x, 0.1), cost(x, x, 1e4) < 4000**2
    (inf, True)
    """
    if not _applies(queries, keys, gain):
        return math.inf
    m, n = len(queries), len(keys)
    heard = float(_heard(queries, keys, gain)[1].mean())
    points = (n,) if queries is keys else (m, n)
    return BEGIN + sum(ORDER * p * math.log2(p / LEAF + 1) for p in points) + m * (SEARCH + heard)


def inner_radius(queries: Array, keys: Array, gain: float) -> float | None:
    """Return r such that queries with |q| <= r, who hear almost everybody, are better left to the separable engine.

    It is the radius with the least predicted work in all; None if this engine, or that one, does everything best.
    """
    m, n, d = len(queries), len(keys), keys.shape[1]
    if d > FILLED or not _applies(queries, keys, gain):
        return None
    norms, heard = _heard(queries, keys, gain)
    low, high = _range(keys)
    half = 0.5 * (high - low)
    count = len(norms)
    work = [
        m / count * (SEARCH * (count - i) + float(heard[i:].sum()))
        + (_separable(gain * half * norms[i - 1], n, m * i / count) if i else 0.0)
        for i in range(count + 1)
    ]
    least = int(np.argmin(work))
    return None if least in (0, count) else float(norms[least - 1])


def _applies(queries: Array, keys: Array, gain: float) -> bool:
    """Whether some exponents differ by enough for a source to be left out, and nothing overflows."""
    if len(keys) < FEW or not len(queries):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = _range(keys)
        longest = np.abs(_range(queries)).max(axis=0)
        product = float(longest @ np.maximum(high, -low))
        reach = gain * float(longest @ (high - low))
    return reach >= math.log(len(keys) / TOLERANCE) and product <= LARGEST_PRODUCT


def _range(points: Array) -> tuple[Array, Array]:
    """Return the least and the largest value of each coordinate."""
    low, high = points[kernels.extremes(points), np.arange(points.shape[1])]
    return low, high


def _columns(rows: Array) -> Array:
    """Transpose (n, d) to coordinate-first layout, padded to whole leaves with copies of the last row."""
    n, d = rows.shape
    columns = np.empty((d, -(-n // LEAF) * LEAF))
    columns[:, :n] = rows.T
    columns[:, n:] = rows[-1:].T
    return columns


def _tiled(points: Array) -> tuple[Array, NDArray[np.int64]]:
    """Return the columns of the points, ordered into nested blocks, and the rows where they come from."""
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


def _heard(queries: Array, keys: Array, gain: float) -> tuple[Array, Array]:
    """Return norms of some queries, increasing, and what the pairs of each of them cost.

    The K sources within log(1 / tolerance) + 4 of the top exponent fill a part of space; leaves cover it, and on either
    side about one half of their own width and of that of the queries beyond it.
    """
    n, d = keys.shape
    some = queries[:: -(-len(queries) // SAMPLE_NORMS)]
    norms = np.sqrt(np.einsum("ik,ik->i", some, some))
    by_norm = np.argsort(norms, kind="stable")
    chosen = by_norm[(np.arange(SAMPLE_QUERIES) * len(some) + len(some) // 2) // SAMPLE_QUERIES]
    # The extreme keys must be there, because top scores are theirs.
    sample = np.concatenate([keys[:: -(-n // SAMPLE_KEYS)], keys[kernels.extremes(keys).ravel()]])
    depth = -math.log(TOLERANCE) + 4.0
    counts = kernels.count_near(np.ascontiguousarray(some[chosen]), np.ascontiguousarray(sample.T), depth / gain)
    filled = min(d, FILLED)
    near = (counts / len(sample) * n) ** (1 / filled) + 2 * LEAF ** (1 / filled)
    return norms[chosen], PAIR * np.minimum(near**filled, n)


def _separable(exponents: Array, n: int, m: float) -> float:
    """Predict the work of the separable engine for n sources and m queries, with exponents up to these on each axis.

    It places `NODES` nodes on each panel, on which the exponent varies by at most `PANEL`, and multiplies the moments
    of all boxes by one matrix per axis.
    """
    if exponents.sum() > LARGEST_EXPONENT:
        return math.inf
    nodes = NODES * np.ceil(np.maximum(exponents / PANEL, 1.0))
    d = len(nodes)
    products = (5.0 if d == 2 else 1.0) * 2 * float(nodes.prod() * nodes.sum()) / d
    return 1e7 + products / 30 + 80.0 * float((nodes**2).sum()) + (90.0 * n + 300.0 * m) * NODES ** max(0, d - 2)
