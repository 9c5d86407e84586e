# mypy: ignore-errors
"""Compiled loops of the neighbours engine: a tree of groups of queries goes down a tree of nodes of sources.

Both trees are those of `vertices_kernels.grow`, over points in two or three dimensions. A group gets from its parent
the nodes that are undecided: heard by some of its queries perhaps, and by others not. It decides them anew:

- a node whose sources are all heard by all queries of the group is added by its sums;
- a node of which no query of the group hears any source is left out;
- an undecided node coarser than the group is split, another is handed on to both halves of the group.

The queries of the smallest groups, or of groups with few undecided sources, look at these one by one. So each source
is heard or not as the dense engine decides it, and all sums are taken in an order that depends on the clouds alone.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from attnflow.engines.kernels import in_parallel, inlined, internal, internal_with_arrays
from attnflow.engines.simd import WIDTH, add_where, added, load, muladd_where, rounded_sum, splat, spread

# At most this many groups, or nodes, wait to be visited: each level of a tree of less than 2^60 leaves leaves one.
DEEPEST = 64
QUERIES_PER_TASK = 1 << 11
# With at most FEW undecided sources it is faster to look at them than to divide the group. In the smallest groups, with
# more than MANY of them in each undecided node, each query better decides these nodes for itself, down to FINE sources.
FEW, MANY, FINE = 96, 64, 64
# A query looks at up to this many blocks before the next one does: they stay in the fastest cache but one.
PLACES = 512
SOME, ALL, NONE, COARSE = 0, 1, 2, 3
# A mean this close to the value of a source that is heard, relative to its distance from the centre, is that value:
# sums over many copies of a point differ from it by rounding, and tokens that have met stay together.
SAME = 32 * 2.0**-53


# Sources


@in_parallel
def pack(points, index, weights, values, centre, scale, rows, packed, sums):
    """Fill blocks of eight sources, and the sums of all nodes.

    A block holds the coordinates, the weights w and the two columns of v - c, eight numbers each. Sums are of w and of
    w (v - c). All weights are multiplied by `scale`.
    """
    d, leaves = points.shape[1], len(rows) // 2
    for leaf in numba.prange(leaves):
        node = leaves + leaf
        total, sum0, sum1 = 0.0, 0.0, 0.0
        for j in range(rows[node, 0], rows[node, 1]):
            block, lane, at = j // WIDTH, j % WIDTH, index[j]
            for k in range(d):
                packed[block, k, lane] = points[j, k]
            w = weights[at] * scale
            a, b = values[at, 0] - centre[0], values[at, 1] - centre[1]
            packed[block, d, lane], packed[block, d + 1, lane], packed[block, d + 2, lane] = w, a, b
            total, sum0, sum1 = total + w, sum0 + w * a, sum1 + w * b
        sums[node, 0], sums[node, 1], sums[node, 2] = total, sum0, sum1
    for node in range(leaves - 1, 0, -1):
        for k in range(3):
            sums[node, k] = sums[2 * node, k] + sums[2 * node + 1, k]


# Balls


@inlined
def _added_where(packed, at, low, high, total, sum0, sum1):
    """Add the masses at a place, and the two columns of values after them, of the sources with low <= high."""
    w = load(packed, at)
    total = add_where(total, w, low, high)
    sum0 = muladd_where(w, load(packed, at + WIDTH), sum0, low, high)
    sum1 = muladd_where(w, load(packed, at + 2 * WIDTH), sum1, low, high)
    return total, sum0, sum1


@inlined
def _ball_verdict(groups, group, boxes, node, radius2):
    """Say whether the queries in the box of a group hear the sources in the box of a node, within a distance.

    Rounding is monotone: the distance computed from the largest differences of coordinates is at least the one computed
    for any query and any source, to the last bit, and that from the least differences at most. So this is exact.
    """
    near, far, wide, narrow = 0.0, 0.0, 0.0, 0.0
    for k in range(groups.shape[1] // 2):
        a, b, low, high = groups[group, 2 * k], groups[group, 2 * k + 1], boxes[node, 2 * k], boxes[node, 2 * k + 1]
        least, most = max(0.0, max(low - b, a - high)), max(high - a, b - low)
        near, far = near + least * least, far + most * most
        wide, narrow = wide + (high - low), narrow + (b - a)
    if far <= radius2:
        return ALL
    if near > radius2:
        return NONE
    return COARSE if wide > narrow else SOME


@inlined
def _within(packed, at, d, q0, q1, q2, radius2, total, sum0, sum1):
    """Add what a query hears of the block at a place: the sources within a distance."""
    x, y = q0 - load(packed, at), q1 - load(packed, at + WIDTH)
    distance = rounded_sum(x * x, y * y)
    if d > 2:
        z = q2 - load(packed, at + 2 * WIDTH)
        distance = rounded_sum(distance, z * z)
    return _added_where(packed, at + d * WIDTH, distance, radius2, total, sum0, sum1)


# Half-spaces


@inlined
def _length(queries, i):
    """Return the largest absolute coordinate of a query, and its length divided by that."""
    largest, square = 0.0, 0.0
    for k in range(queries.shape[1]):
        largest = max(largest, abs(queries[i, k]))
    for k in range(queries.shape[1]):
        square += (queries[i, k] / largest) * (queries[i, k] / largest)
    return largest, math.sqrt(square)


@in_parallel
def turn(queries, bounds, best, size, doubt, normals):
    """Fill the unit vectors u = q / |q|, and sqrt(2 h) for depths h of half-spaces <q, y> >= T below the top scores.

    Depths are in units of `size`, and at most 4. In a round cloud, sqrt(2 h) is half the length of the boundary: a step
    of it moves the boundary as much as a step of u moves its ends. Doubtful queries, whose largest coordinate is not
    between both numbers of `doubt`, come together: no place is better than another.
    """
    m, d = queries.shape
    for task in numba.prange((m + QUERIES_PER_TASK - 1) // QUERIES_PER_TASK):
        for i in range(task * QUERIES_PER_TASK, min(m, (task + 1) * QUERIES_PER_TASK)):
            largest, length = _length(queries, i)
            certain = doubt[0] < largest < doubt[1]
            for k in range(d):
                normals[i, k] = queries[i, k] / largest / length if certain else 0.0
            depth = (best[i] - bounds[i]) / largest / length / size
            normals[i, d] = math.sqrt(2.0 * max(0.0, min(4.0, depth) if certain else 4.0))


@in_parallel
def face(queries, keys, bounds, leader, size, doubt, margin, normals, index, facts):
    """Fill for queries in the order `index` what is known of their half-spaces <q, y> >= T.

    That is q, T, the foot of the leader on the boundary, T / |q|, and the room that rounding needs: the margin, or
    infinite room for a doubtful query. But one at 0 hears all sources: for it, the boundary is far beyond them.
    """
    m, d = queries.shape
    for task in numba.prange((m + QUERIES_PER_TASK - 1) // QUERIES_PER_TASK):
        for i in range(task * QUERIES_PER_TASK, min(m, (task + 1) * QUERIES_PER_TASK)):
            at = index[i]
            largest, length = _length(queries, at)
            offset, room = -4.0 * size, margin
            if largest > 0.0:
                certain = doubt[0] < largest < doubt[1]
                offset = max(-4.0 * size, min(4.0 * size, bounds[at] / largest / length)) if certain else 0.0
                room = margin if certain else np.inf
            depth = min(2.0, 0.5 * normals[i, d] * normals[i, d]) * size
            for k in range(d):
                facts[i, k] = queries[at, k]
                facts[i, d + 1 + k] = keys[leader[at], k] - depth * normals[i, k]
            facts[i, d], facts[i, 2 * d + 1], facts[i, 2 * d + 2] = bounds[at], offset, room


@internal
def _aim(groups, group, first, last, normals, facts, aim):
    """Fill the middle and half the sides of the box of unit vectors of a group, a pivot p, and what decides.

    For all its queries <u, y - p> >= -s, s = <u, p> - T / |q|. The last numbers of `aim` are the range of -s, widened
    by the room for rounding. The pivot is the foot of one query: near it, the boundaries of all of them are close.
    """
    d = normals.shape[1] - 1
    for k in range(d):
        aim[k, 0] = 0.5 * (groups[group, 2 * k] + groups[group, 2 * k + 1])
        aim[k, 1] = 0.5 * (groups[group, 2 * k + 1] - groups[group, 2 * k])
        aim[k, 2] = facts[(first + last) // 2, d + 1 + k]
    least, most, room = np.inf, -np.inf, 0.0
    for i in range(first, last):
        s = -facts[i, 2 * d + 1]
        for k in range(d):
            s += normals[i, k] * aim[k, 2]
        least, most, room = min(least, s), max(most, s), max(room, facts[i, 2 * d + 2])
    aim[d, 0], aim[d, 1], aim[d, 2] = room - least, -room - most, most - least


@inlined
def _half_space_verdict(aim, boxes, node):
    """Say whether the queries of a group hear the sources in the box of a node beyond the boundaries of half-spaces."""
    d = len(aim) - 1
    middle, by_node, by_group = 0.0, 0.0, 0.0
    for k in range(d):
        half = 0.5 * (boxes[node, 2 * k + 1] - boxes[node, 2 * k])
        z = 0.5 * (boxes[node, 2 * k + 1] + boxes[node, 2 * k]) - aim[k, 2]
        middle += aim[k, 0] * z
        by_node += abs(aim[k, 0]) * half
        by_group += aim[k, 1] * (abs(z) + half)
    if middle - by_node - by_group >= aim[d, 0]:
        return ALL
    if middle + by_node + by_group < aim[d, 1]:
        return NONE
    return COARSE if 2.0 * by_node > 2.0 * by_group + aim[d, 2] else SOME


@inlined
def _beyond(packed, at, d, q0, q1, q2, bound, total, sum0, sum1):
    """Add what a query hears of the block at a place: the sources beyond the boundary of its half-space."""
    score = rounded_sum(q0 * load(packed, at), q1 * load(packed, at + WIDTH))
    if d > 2:
        score = rounded_sum(score, q2 * load(packed, at + 2 * WIDTH))
    return _added_where(packed, at + d * WIDTH, bound, score, total, sum0, sum1)


# Groups of queries


@internal
def _look_at(queries, i, radius2, packed, places, count, heard):
    """Add to the sums of a query what it hears of some blocks, source by source."""
    columns, d = queries.shape[1], packed.shape[1] - 3
    q0, q1 = spread(queries, i * columns), spread(queries, i * columns + 1)
    q2 = spread(queries, i * columns + 2) if d > 2 else q1
    total = splat(0.0)
    sum0, sum1 = total, total
    if radius2 >= 0:
        bound = splat(radius2)
        for a in range(count):
            total, sum0, sum1 = _within(packed, places[a], d, q0, q1, q2, bound, total, sum0, sum1)
    else:
        bound = spread(queries, i * columns + d)
        for a in range(count):
            total, sum0, sum1 = _beyond(packed, places[a], d, q0, q1, q2, bound, total, sum0, sum1)
    heard[i, 0] += added(total)
    heard[i, 1] += added(sum0)
    heard[i, 2] += added(sum1)


@internal
def _look(queries, first, last, radius2, nodes, begin, end, rows, packed, base, heard, places):
    """Fill the sums of some queries: `base`, and what they hear of some nodes, a list of blocks at a time."""
    for i in range(first, last):
        for k in range(3):
            heard[i, k] = base[k]
    count, length = 0, packed.shape[1] * WIDTH
    for a in range(begin, end):
        for block in range(rows[nodes[a], 0] // WIDTH, (rows[nodes[a], 1] + WIDTH - 1) // WIDTH):
            places[count] = block * length
            count += 1
            if count == len(places):
                for i in range(first, last):
                    _look_at(queries, i, radius2, packed, places, count, heard)
                count = 0
    for i in range(first, last):
        _look_at(queries, i, radius2, packed, places, count, heard)


@internal_with_arrays
def _decide(group, fine, radius2, groups, aim, rows, boxes, sums, nodes, begin, end, waiting, base):
    """Decide the nodes from `begin` to `end` for a group; put undecided ones behind, and add those heard to `base`.

    Nodes of up to `fine` sources are not split. Return the list, its new end, and how many sources are undecided.
    """
    filled, undecided = end, 0
    for a in range(begin, end):
        waiting[0], height = nodes[a], 1
        while height > 0:
            height -= 1
            node = waiting[height]
            if radius2 >= 0:
                verdict = _ball_verdict(groups, group, boxes, node, radius2)
            else:
                verdict = _half_space_verdict(aim, boxes, node)
            if verdict == ALL:
                for k in range(3):
                    base[k] += sums[node, k]
            elif verdict != NONE:
                if verdict == COARSE and 2 * node < len(rows) and rows[node, 1] - rows[node, 0] > fine:
                    waiting[height], waiting[height + 1] = 2 * node + 1, 2 * node
                    height += 2
                    continue
                if filled == len(nodes):
                    longer = np.empty(2 * filled, dtype=np.int64)
                    for b in range(filled):
                        longer[b] = nodes[b]
                    nodes = longer
                nodes[filled] = node
                filled += 1
                undecided += rows[node, 1] - rows[node, 0]
    return nodes, filled, undecided


@internal_with_arrays
def _hear(start, asked, queries, radius2, tree, packed, heard):
    """Fill the sums that the queries of a group hear; without a radius, these have half-spaces."""
    query_rows, groups, normals = asked
    rows, boxes, sums = tree
    waiting, later = np.empty(DEEPEST, dtype=np.int64), np.empty(DEEPEST, dtype=np.int64)
    ends, bases = np.empty((DEEPEST, 2), dtype=np.int64), np.zeros((DEEPEST, 3))
    nodes, base, own = np.ones(1024, dtype=np.int64), np.empty(3), np.empty(3)
    d = normals.shape[1]
    aim, point, places = np.empty((d, 3)), np.empty((1, 2 * d)), np.empty(PLACES, dtype=np.int64)
    later[0], ends[0, 0], ends[0, 1], height = start, 0, 1, 1
    while height > 0:
        height -= 1
        group, end = later[height], ends[height, 1]
        for k in range(3):
            base[k] = bases[height, k]
        first, last = query_rows[group, 0], query_rows[group, 1]
        if radius2 < 0:
            _aim(groups, group, first, last, normals, queries, aim)
        nodes, filled, undecided = _decide(
            group, 0, radius2, groups, aim, rows, boxes, sums, nodes, ends[height, 0], end, waiting, base
        )
        if undecided <= FEW or (2 * group >= len(query_rows) and undecided <= MANY * (filled - end)):
            _look(queries, first, last, radius2, nodes, end, filled, rows, packed, base, heard, places)
            continue
        if 2 * group >= len(query_rows):
            for i in range(first, last):
                for k in range(d):
                    point[0, 2 * k], point[0, 2 * k + 1] = normals[i, k], normals[i, k]
                for k in range(3):
                    own[k] = base[k]
                if radius2 < 0:
                    _aim(point, 0, i, i + 1, normals, queries, aim)
                nodes, last_one, _ = _decide(
                    0, FINE, radius2, point, aim, rows, boxes, sums, nodes, end, filled, waiting, own
                )
                _look(queries, i, i + 1, radius2, nodes, filled, last_one, rows, packed, own, heard, places)
            continue
        for half in range(2):
            later[height], ends[height, 0], ends[height, 1] = 2 * group + 1 - half, end, filled
            for k in range(3):
                bases[height, k] = base[k]
            height += 1


@in_parallel
def hear(tasks, asked, queries, radius2, tree, packed, heard):
    """Fill the sums of all queries: those of `tasks` groups, a power of two, one after the other."""
    for task in numba.prange(tasks):
        # Neighbours cost about the same: threads get groups from everywhere.
        _hear(tasks + (np.int64(task) * 40503) % tasks, asked, queries, radius2, tree, packed, heard)


@in_parallel
def average(heard, index, leader, values, centre, mean):
    """Fill the means: of a source that is heard itself, its value, if both are the same but for rounding."""
    m = len(heard)
    for task in numba.prange((m + QUERIES_PER_TASK - 1) // QUERIES_PER_TASK):
        for i in range(task * QUERIES_PER_TASK, min(m, (task + 1) * QUERIES_PER_TASK)):
            at = index[i]
            for k in range(2):
                mean[at, k] = centre[k] + heard[i, k + 1] / heard[i, 0]
                if len(leader) and heard[i, 0] > 0:
                    value = values[leader[at], k]
                    expected = heard[i, 0] * (value - centre[k])
                    if abs(heard[i, k + 1] - expected) <= SAME * abs(expected):
                        mean[at, k] = value
