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

from attnflow.engines.kernels import compiled, in_parallel, inlined
from attnflow.engines.simd import WIDTH, add_where, load, rounded_sum, splat, spread, store

# At most this many groups, or nodes, wait to be visited: each level of a tree of less than 2^60 leaves leaves one.
DEEPEST = 64
QUERIES_PER_TASK = 1 << 11
# With at most this many undecided sources it is faster to look at them than to divide the group.
FEW = 96
SOME, ALL, NONE, COARSE = 0, 1, 2, 3
# A mean this close to the value of a source that is heard, relative to its distance from the centre, is that value:
# sums over many copies of a point differ from it by rounding, and tokens that have met stay together.
SAME = 32 * 2.0**-53


# Sources


@in_parallel
def pack(points, index, weights, values, centre, scale, rows, packed, sums):
    """Fill blocks of eight sources, and the sums of all nodes.

    A block holds the coordinates, the weights w and the two columns of w (v - c), eight numbers each. Sums are of w and
    of these columns. All weights are multiplied by `scale`.
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
            a, b = w * (values[at, 0] - centre[0]), w * (values[at, 1] - centre[1])
            packed[block, d, lane], packed[block, d + 1, lane], packed[block, d + 2, lane] = w, a, b
            total, sum0, sum1 = total + w, sum0 + a, sum1 + b
        sums[node, 0], sums[node, 1], sums[node, 2] = total, sum0, sum1
    for node in range(leaves - 1, 0, -1):
        for k in range(3):
            sums[node, k] = sums[2 * node, k] + sums[2 * node + 1, k]


# Balls


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
def _within(packed, block, q0, q1, q2, radius2, total, sum0, sum1):
    """Add what a query hears of a block of sources within a distance."""
    columns = packed.shape[1]
    at = block * columns * WIDTH
    x, y = q0 - load(packed, at), q1 - load(packed, at + WIDTH)
    distance = rounded_sum(x * x, y * y)
    if columns > 5:
        z = q2 - load(packed, at + 2 * WIDTH)
        distance = rounded_sum(distance, z * z)
    at += (columns - 3) * WIDTH
    total = add_where(total, load(packed, at), distance, radius2)
    sum0 = add_where(sum0, load(packed, at + WIDTH), distance, radius2)
    sum1 = add_where(sum1, load(packed, at + 2 * WIDTH), distance, radius2)
    return total, sum0, sum1


# Half-spaces


@in_parallel
def face(queries, keys, slack, relative, best, leader, size, doubt, margin, points, bounds, facts):
    """Fill what half-spaces <q, y> >= T look like, T the threshold of each query.

    `points` holds the unit vector u = q / |q| and the depth of the half-space below the leader, in units of `size`;
    `bounds` holds T; `facts` holds the foot of the leader on the boundary, T / |q|, and how much room rounding needs.
    That is the margin, or infinite for a query whose largest coordinate is not between both numbers of `doubt`.
    """
    m, d = queries.shape
    for task in numba.prange((m + QUERIES_PER_TASK - 1) // QUERIES_PER_TASK):
        for i in range(task * QUERIES_PER_TASK, min(m, (task + 1) * QUERIES_PER_TASK)):
            bounds[i] = best[i] - slack[i] - relative * abs(best[i])
            largest, square = 0.0, 0.0
            for k in range(d):
                largest = max(largest, abs(queries[i, k]))
                points[i, k], facts[i, k] = 0.0, 0.0
            # A query at 0 hears all sources: for it, the boundary is beyond them.
            points[i, d], facts[i, d], facts[i, d + 1] = 4.0, -4.0 * size, margin
            if largest == 0.0:
                continue
            if not doubt[0] < largest < doubt[1]:
                facts[i, d + 1] = np.inf
                continue
            for k in range(d):
                points[i, k] = queries[i, k] / largest
                square += points[i, k] * points[i, k]
            length = math.sqrt(square)
            offset = max(-4.0 * size, min(4.0 * size, bounds[i] / largest / length))
            depth = min(4.0 * size, best[i] / largest / length - offset)
            for k in range(d):
                points[i, k] /= length
                facts[i, k] = keys[leader[i], k] - min(depth, 2.0 * size) * points[i, k]
            points[i, d], facts[i, d] = depth / size, offset


@compiled
def _aim(groups, group, first, last, points, index, facts, aim):
    """Fill the middle and half the sides of the box of unit vectors of a group, a pivot p, and what decides.

    For all its queries <u, y - p> >= -s, s = <u, p> - T / |q|. The last numbers of `aim` are the range of -s, widened
    by the room for rounding. The pivot is the foot of one query: near it, the boundaries of all of them are close.
    """
    d, middle = points.shape[1] - 1, index[(first + last) // 2]
    for k in range(d):
        aim[k, 0] = 0.5 * (groups[group, 2 * k] + groups[group, 2 * k + 1])
        aim[k, 1] = 0.5 * (groups[group, 2 * k + 1] - groups[group, 2 * k])
        aim[k, 2] = facts[middle, k]
    least, most, room = np.inf, -np.inf, 0.0
    for i in range(first, last):
        at = index[i]
        s = -facts[at, d]
        for k in range(d):
            s += points[i, k] * aim[k, 2]
        least, most, room = min(least, s), max(most, s), max(room, facts[at, d + 1])
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
def _beyond(packed, block, q0, q1, q2, bound, total, sum0, sum1):
    """Add what a query hears of a block of sources beyond the boundary of its half-space."""
    columns = packed.shape[1]
    at = block * columns * WIDTH
    score = rounded_sum(q0 * load(packed, at), q1 * load(packed, at + WIDTH))
    if columns > 5:
        score = rounded_sum(score, q2 * load(packed, at + 2 * WIDTH))
    at += (columns - 3) * WIDTH
    total = add_where(total, load(packed, at), bound, score)
    sum0 = add_where(sum0, load(packed, at + WIDTH), bound, score)
    sum1 = add_where(sum1, load(packed, at + 2 * WIDTH), bound, score)
    return total, sum0, sum1


# Groups of queries


@inlined
def _added(lanes, scratch):
    """Return the sum of eight lanes."""
    store(scratch, 0, lanes)
    return ((scratch[0] + scratch[1]) + (scratch[2] + scratch[3])) + (
        (scratch[4] + scratch[5]) + (scratch[6] + scratch[7])
    )


@compiled
def _look(queries, i, bound, ball, nodes, begin, end, rows, packed, scratch):
    """Return the sums over those sources of some nodes that a query hears, found one by one."""
    q0, q1, limit = spread(queries, i * queries.shape[1]), spread(queries, i * queries.shape[1] + 1), splat(bound)
    q2 = spread(queries, i * queries.shape[1] + 2) if queries.shape[1] > 2 else q1
    total = splat(0.0)
    sum0, sum1 = total, total
    for a in range(begin, end):
        first, last = rows[nodes[a], 0] // WIDTH, (rows[nodes[a], 1] + WIDTH - 1) // WIDTH
        for block in range(first, last):
            if ball:
                total, sum0, sum1 = _within(packed, block, q0, q1, q2, limit, total, sum0, sum1)
            else:
                total, sum0, sum1 = _beyond(packed, block, q0, q1, q2, limit, total, sum0, sum1)
    return _added(total, scratch), _added(sum0, scratch), _added(sum1, scratch)


@compiled
def _decide(group, last_group, ball, radius2, groups, aim, tree, nodes, begin, end, base):
    """Decide the nodes from `begin` to `end` for a group; put undecided ones behind, and add those heard to `base`.

    Return the list of nodes, its new end, and how many sources are undecided.
    """
    rows, boxes, sums = tree
    waiting = np.empty(DEEPEST, dtype=np.int64)
    filled, undecided = end, 0
    for a in range(begin, end):
        waiting[0], height = nodes[a], 1
        while height > 0:
            height -= 1
            node = waiting[height]
            verdict = (
                _ball_verdict(groups, group, boxes, node, radius2) if ball else _half_space_verdict(aim, boxes, node)
            )
            if verdict == ALL:
                for k in range(3):
                    base[k] += sums[node, k]
            elif verdict != NONE:
                if 2 * node < len(rows) and (last_group or verdict == COARSE):
                    waiting[height], waiting[height + 1] = 2 * node + 1, 2 * node
                    height += 2
                    continue
                if filled == len(nodes):
                    longer = np.empty(2 * filled, dtype=np.int32)
                    for b in range(filled):
                        longer[b] = nodes[b]
                    nodes = longer
                nodes[filled] = node
                filled += 1
                undecided += rows[node, 1] - rows[node, 0]
    return nodes, filled, undecided


@compiled
def _answer(start, asked, queries, bounds, facts, tree, packed, leader, values, centre, mean):
    """Fill the means of the queries of a group, and return nothing."""
    query_rows, groups, points, index = asked
    ball, radius2 = len(facts) == 0, bounds[0]
    waiting, ends, bases = np.empty(DEEPEST, np.int64), np.empty((DEEPEST, 2), np.int64), np.empty((DEEPEST, 3))
    nodes, scratch, base = np.ones(1024, dtype=np.int32), np.empty(WIDTH), np.zeros(3)
    aim = np.empty((points.shape[1], 3))
    waiting[0], ends[0, 0], ends[0, 1], height = start, 0, 1, 1
    for k in range(3):
        bases[0, k] = 0.0
    while height > 0:
        height -= 1
        group, begin, end = waiting[height], ends[height, 0], ends[height, 1]
        for k in range(3):
            base[k] = bases[height, k]
        first, last = query_rows[group, 0], query_rows[group, 1]
        last_group = 2 * group >= len(query_rows)
        if not ball:
            _aim(groups, group, first, last, points, index, facts, aim)
        nodes, filled, undecided = _decide(
            group, last_group, ball, radius2, groups, aim, tree, nodes, begin, end, base
        )
        if not last_group and undecided > FEW:
            for half in range(2):
                waiting[height], ends[height, 0], ends[height, 1] = 2 * group + 1 - half, end, filled
                for k in range(3):
                    bases[height, k] = base[k]
                height += 1
            continue
        for i in range(first, last):
            at = index[i]
            total, sum0, sum1 = _look(
                queries, at, bounds[at if len(bounds) > 1 else 0], ball, nodes, end, filled, tree[0], packed, scratch
            )
            total, sum0, sum1 = total + base[0], sum0 + base[1], sum1 + base[2]
            near = leader[at] if len(leader) else -1
            mean[at, 0] = _mean(total, sum0, near, values, 0, centre)
            mean[at, 1] = _mean(total, sum1, near, values, 1, centre)


@inlined
def _mean(total, moment, near, values, k, centre):
    """Return the mean of a column; that of a source if both are the same but for rounding."""
    result = centre[k] + moment / total
    if near >= 0:
        expected = total * (values[near, k] - centre[k])
        if abs(moment - expected) <= SAME * abs(expected):
            result = values[near, k]
    return result


@in_parallel
def answer(tasks, asked, queries, bounds, facts, tree, packed, leader, values, centre, mean):
    """Fill the means of all queries: those of `tasks` groups, a power of two, one after the other."""
    for task in numba.prange(tasks):
        # Neighbours cost about the same: threads get groups from everywhere.
        group = tasks + (task * 40503) % tasks
        _answer(group, asked, queries, bounds, facts, tree, packed, leader, values, centre, mean)
