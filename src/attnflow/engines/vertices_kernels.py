"""Compiled loops of the vertices engine: the farthest points in given directions, and a tree of boxes.

They know up to three coordinates; missing ones are 0, which changes no score. The tree halves the points again and
again along the longest side of their box: node 2^l + i, the i-th of level l, holds the rows from `i m // 2^l` to
`(i + 1) m // 2^l`.

Rounding is monotone: q y <= q z gives fl(q y) <= fl(q z), and the same for sums. So the score computed at the corner
of a box that lies farthest along a query is at least the score computed at any point in the box, to the last bit, and
that of the opposite corner at most. Nothing in the search needs a tolerance, except the bound by frames.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from attnflow.engines.kernels import compiled, in_parallel, inlined, internal, internal_with_arrays

POINTS_PER_TASK = 1 << 14
QUERIES_PER_TASK = 1 << 10
POINTS_PER_BLOCK = 1 << 9
# At most this many nodes wait to be visited: a tree of 2^60 leaves does not fit in memory.
DEEPEST = 64
# A coordinate that halves some points is chosen among SAMPLE of them; EXCHANGED are compared with it at a time.
SAMPLE, EXCHANGED = 32, 64
# Columns of a box: lower and upper end in each coordinate. Columns of a frame, a tilted box in the plane: a unit vector
# u, the range of <u, y>, and the range of <n, y> for n = (-u_1, u_0).
BOX, FRAME = 6, 6


@inlined
def _coordinates(rows, i):
    d = rows.shape[1]
    return rows[i, 0], rows[i, 1] if d > 1 else 0.0, rows[i, 2] if d > 2 else 0.0


# Far points


@in_parallel
def sizes(rows):
    """Return the least and the greatest over the rows of their largest absolute coordinate."""
    n = len(rows)
    tasks = (n + POINTS_PER_TASK - 1) // POINTS_PER_TASK
    least, greatest = np.empty(tasks), np.empty(tasks)
    for task in numba.prange(tasks):
        low, high = np.inf, 0.0
        for i in range(task * POINTS_PER_TASK, min(n, (task + 1) * POINTS_PER_TASK)):
            x, y, z = _coordinates(rows, i)
            size = max(abs(x), abs(y), abs(z))
            low, high = min(low, size), max(high, size)
        least[task], greatest[task] = low, high
    return least.min(), greatest.max()


@in_parallel
def farthest(points, directions):
    """Return for each direction a point that lies farthest along it, up to rounding."""
    n = len(points)
    tasks = (n + POINTS_PER_TASK - 1) // POINTS_PER_TASK
    found, reach = np.zeros((tasks, len(directions)), dtype=np.int64), np.full((tasks, len(directions)), -np.inf)
    for task in numba.prange(tasks):
        end = min(n, (task + 1) * POINTS_PER_TASK)
        for first in range(task * POINTS_PER_TASK, end, POINTS_PER_BLOCK):
            for a in range(len(directions)):
                u, v, w = _coordinates(directions, a)
                most, at = reach[task, a], found[task, a]
                for j in range(first, min(end, first + POINTS_PER_BLOCK)):
                    x, y, z = _coordinates(points, j)
                    s = u * x + v * y + w * z
                    if s > most:
                        most, at = s, j
                reach[task, a], found[task, a] = most, at
    tips = np.empty(len(directions), dtype=np.int64)
    for a in range(len(directions)):
        tips[a] = found[reach[:, a].argmax(), a]
    return tips


@in_parallel
def beyond(points, normals, limits):
    """Return for each point whether <n_f, y> < l_f fails for some f."""
    n = len(points)
    result = np.empty(n, dtype=np.bool_)
    for task in numba.prange((n + POINTS_PER_TASK - 1) // POINTS_PER_TASK):
        for j in range(task * POINTS_PER_TASK, min(n, (task + 1) * POINTS_PER_TASK)):
            x, y, z = _coordinates(points, j)
            inside = True
            for f in range(len(limits)):
                u, v, w = _coordinates(normals, f)
                if not u * x + v * y + w * z < limits[f]:
                    inside = False
                    break
            result[j] = not inside
    return result


# The tree


@inlined
def _swap(points, index, i, j):
    index[i], index[j] = index[j], index[i]
    for c in range(points.shape[1]):
        points[i, c], points[j, c] = points[j, c], points[i, c]


@internal_with_arrays
def _pivot(points, first, last, middle, k):
    """Return a coordinate of some row such that row `middle` likely ends in the smaller part, close to its end."""
    sample, step, place = (
        np.empty(SAMPLE),
        (last + 1 - first) // SAMPLE,
        (middle - first) * SAMPLE // (last + 1 - first),
    )
    for a in range(SAMPLE):
        value, b = points[first + a * step, k], a
        while b > 0 and sample[b - 1] > value:
            sample[b] = sample[b - 1]
            b -= 1
        sample[b] = value
    return sample[min(SAMPLE - 2, place + 2) if 2 * place < SAMPLE else max(1, place - 2)]


@internal_with_arrays
def _exchange(points, index, i, j, k, pivot):
    """Exchange rows above the pivot from the left end with those below it from the right end; return what is left.

    Rows on the wrong side are listed block by block, without a branch that a processor would have to guess.
    """
    above, below = np.empty(EXCHANGED, dtype=np.int64), np.empty(EXCHANGED, dtype=np.int64)
    a, b, highs, lows = 0, 0, 0, 0
    while j - i > 2 * EXCHANGED:
        if highs == 0:
            a = 0
            for row in range(i, i + EXCHANGED):
                above[highs] = row
                highs += not points[row, k] < pivot
        if lows == 0:
            b = 0
            for row in range(j, j - EXCHANGED, -1):
                below[lows] = row
                lows += not pivot < points[row, k]
        pairs = min(highs, lows)
        for c in range(pairs):
            _swap(points, index, above[a + c], below[b + c])
        a, b, highs, lows = a + pairs, b + pairs, highs - pairs, lows - pairs
        i, j = i if highs else i + EXCHANGED, j if lows else j - EXCHANGED
    return i, j


@internal_with_arrays
def _part(points, index, first, last, middle, k):
    """Put the rows from `middle` to `last` above those before, in coordinate k: Hoare's algorithm FIND."""
    last -= 1
    while first < last:
        a, b, c = points[first, k], points[(first + last) // 2, k], points[last, k]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = first, last
        if last - first > 4 * EXCHANGED:
            pivot = _pivot(points, first, last, middle, k)
            i, j = _exchange(points, index, first, last, k, pivot)
        while i <= j:
            while points[i, k] < pivot:
                i += 1
            while pivot < points[j, k]:
                j -= 1
            if i <= j:
                _swap(points, index, i, j)
                i += 1
                j -= 1
        if middle <= j:
            last = j
        elif middle >= i:
            first = i
        else:
            break


@internal
def _enclose(points, first, last, box):
    """Fill the box around some rows; return its longest side and the rows at the two ends of that."""
    longest, ends = 0, (first, first)
    box[:] = 0.0
    for k in range(points.shape[1]):
        low, high = first, first
        least, most = points[first, k], points[first, k]
        for j in range(first + 1, last):
            if points[j, k] < least:
                least, low = points[j, k], j
            if points[j, k] > most:
                most, high = points[j, k], j
        box[2 * k], box[2 * k + 1] = least, most
        if k == 0 or most - least > box[2 * longest + 1] - box[2 * longest]:
            longest, ends = k, (low, high)
    return longest, ends


@internal
def _tilt(points, first, last, ends, frame):
    """Fill the frame, in the plane, whose first axis goes from one end of the points to the other."""
    u, v = points[ends[1], 0] - points[ends[0], 0], points[ends[1], 1] - points[ends[0], 1]
    length = math.hypot(u, v)
    u, v = (u / length, v / length) if length > 0 else (1.0, 0.0)
    least, most, left, right = np.inf, -np.inf, np.inf, -np.inf
    for j in range(first, last):
        along, across = u * points[j, 0] + v * points[j, 1], u * points[j, 1] - v * points[j, 0]
        least, most = min(least, along), max(most, along)
        left, right = min(left, across), max(right, across)
    frame[0], frame[1], frame[2], frame[3], frame[4], frame[5] = u, v, least, most, left, right


@in_parallel
def grow(points, index, unit, rows, boxes, frames):
    """Order `points` and `index` into a tree; fill the rows of each node, its box and, if wanted, its frame.

    A node holds a whole number of times `unit` rows, but for the last one.
    """
    m = len(points)
    units = (m + unit - 1) // unit
    level = 1
    while level < len(boxes):
        for i in numba.prange(level):
            node, first, last = level + i, i * units // level * unit, min(m, (i + 1) * units // level * unit)
            rows[node, 0], rows[node, 1] = first, last
            k, ends = _enclose(points, first, last, boxes[node])
            if len(frames):
                _tilt(points, first, last, ends, frames[node])
            if 2 * level < len(boxes):
                _part(points, index, first, last, (2 * i + 1) * units // (2 * level) * unit, k)
        level *= 2


@in_parallel
def gather(rows, index, values, weights, totals, moments, leaders):
    """Fill per node the weight, the sum of w_j (v_j - v) with v the value of its first row, and the least index."""
    level = len(rows) // 2
    for node in numba.prange(level, 2 * level):
        first = rows[node, 0]
        totals[node], moments[node], leaders[node] = 0.0, 0.0, index[first]
        for j in range(first, rows[node, 1]):
            totals[node] += weights[j]
            leaders[node] = min(leaders[node], index[j])
            for k in range(values.shape[1]):
                moments[node, k] += weights[j] * (values[j, k] - values[first, k])
    while level > 1:
        level //= 2
        for node in numba.prange(level, 2 * level):
            left, right = 2 * node, 2 * node + 1
            first, middle = rows[left, 0], rows[right, 0]
            totals[node] = totals[left] + totals[right]
            leaders[node] = min(leaders[left], leaders[right])
            for k in range(values.shape[1]):
                step = totals[right] * (values[middle, k] - values[first, k])
                moments[node, k] = moments[left, k] + moments[right, k] + step


# The search


@inlined
def _corner(q0, q1, q2, boxes, node, far):
    """Score of the corner of a box that lies farthest along the query (far = 1), or farthest against it (far = 0)."""
    x = boxes[node, far if q0 > 0 else 1 - far]
    y = boxes[node, 2 + (far if q1 > 0 else 1 - far)]
    z = boxes[node, 4 + (far if q2 > 0 else 1 - far)]
    return q0 * x + q1 * y + q2 * z


@inlined
def _bound(q0, q1, q2, node, boxes, frames, slack):
    """Return a bound on the scores of a node: that of its box, or if lower that of its frame with room for rounding."""
    bound = _corner(q0, q1, q2, boxes, node, 1)
    if len(frames) and bound < np.inf:  # outside that range, a frame does not bound computed scores
        along, across = q0 * frames[node, 0] + q1 * frames[node, 1], q1 * frames[node, 0] - q0 * frames[node, 1]
        tilted = along * frames[node, 3 if along > 0 else 2] + across * frames[node, 5 if across > 0 else 4] + slack
        if tilted < bound:
            bound = tilted
    return bound


@inlined
def _take(found, s, weight, index, row, values, mean, i):
    """Take in a source of score s; the mean so far counts from the value of row `base`. NaN beats all, as in NumPy."""
    top, total, leader, base = found
    if s > top or leader < 0 or (s != s and top == top):
        found = s, weight, index, row
        for k in range(mean.shape[1]):
            mean[i, k] = 0.0
    elif s == top or s != s:
        found = top, total + weight, min(leader, index), base
        for k in range(mean.shape[1]):
            mean[i, k] += weight * (values[row, k] - values[base, k])
    return found


@inlined
def _cell(q0, q1, side):
    """Return the number of the cell, on the boundary of a square, that the ray along a query meets."""
    axis, q, across = (0, q0, q1) if abs(q0) >= abs(q1) else (1, q1, q0)
    return (2 * axis + (q < 0)) * side + min(side - 1, int((across / abs(q) + 1.0) * (0.5 * side)))


@internal_with_arrays
def _top_rows(queries, begin, end, sources, tree, sums, table, slack, faint, mean, best, leader):
    """Answer the queries from `begin` to `end`, by the list of their cell or else by a search of the tree.

    In the tree, the better half of a node comes first; a node whose bound is below the top score so far is left out.
    """
    points, index, values, weights = sources
    rows, boxes, frames = tree
    totals, moments, leaders = sums
    side, lengths, lists = table
    nodes, bounds = np.empty(DEEPEST, dtype=np.int64), np.empty(DEEPEST)
    for i in range(begin, end):
        q0, q1, q2 = _coordinates(queries, i)
        size = max(abs(q0), abs(q1), abs(q2))
        room = slack * size if size > faint else np.inf
        found = (-np.inf, 0.0, -1, 0)
        nodes[0], bounds[0], height = 1, np.inf, 1
        if side > 0:
            cell = _cell(q0, q1, side)
            if lengths[cell] == 1:
                j = lists[cell, 0]
                x, y, z = _coordinates(points, j)
                best[i], leader[i] = q0 * x + q1 * y + q2 * z, index[j]
                for k in range(mean.shape[1]):
                    mean[i, k] = values[j, k]
                continue
            for a in range(lengths[cell]):
                height = 0
                j = lists[cell, a]
                x, y, z = _coordinates(points, j)
                s = q0 * x + q1 * y + q2 * z
                if not s < found[0]:
                    found = _take(found, s, weights[j], index[j], j, values, mean, i)
        while height > 0:
            height -= 1
            node = nodes[height]
            if bounds[height] < found[0] or (found[0] != found[0] and bounds[height] < np.inf):
                continue
            s = _corner(q0, q1, q2, boxes, node, 1)
            if s == _corner(q0, q1, q2, boxes, node, 0):  # then every point of the node has this score
                found = _take(found, s, totals[node], leaders[node], rows[node, 0], values, mean, i)
                if s == found[0]:
                    for k in range(mean.shape[1]):
                        mean[i, k] += moments[node, k]
            elif 2 * node >= len(rows):
                for j in range(rows[node, 0], rows[node, 1]):
                    x, y, z = _coordinates(points, j)
                    s = q0 * x + q1 * y + q2 * z
                    if not s < found[0]:
                        found = _take(found, s, weights[j], index[j], j, values, mean, i)
            else:
                left = _bound(q0, q1, q2, 2 * node, boxes, frames, room)
                right = _bound(q0, q1, q2, 2 * node + 1, boxes, frames, room)
                better = 2 * node + (left < right)
                nodes[height], nodes[height + 1] = 4 * node + 1 - better, better
                bounds[height], bounds[height + 1] = (left, right) if left < right else (right, left)
                height += 2
        top, total, ahead, base = found
        for k in range(mean.shape[1]):
            mean[i, k] = values[base, k] + mean[i, k] / total if np.isfinite(top) else np.nan
        best[i], leader[i] = top, ahead


@in_parallel
def top_parallel(queries, sources, tree, sums, table, slack, faint, mean, best, leader):
    """Answer every query; `slack` times its size covers the rounding of frames, unless it is faint."""
    m = len(queries)
    for task in numba.prange((m + QUERIES_PER_TASK - 1) // QUERIES_PER_TASK):
        begin, end = task * QUERIES_PER_TASK, min(m, (task + 1) * QUERIES_PER_TASK)
        _top_rows(queries, begin, end, sources, tree, sums, table, slack, faint, mean, best, leader)


# Short lists


@internal_with_arrays
def _list_rows(cones, begin, end, rivals, points, tree, margin, slack, lengths, lists):
    """List for the cones from `begin` to `end` the points that their rival does not beat; 0 stands for a longer list.

    A rival z beats y in the cone spanned by vectors c if <c, z> - <c, y> is at least the margin for each of them.
    """
    rows, boxes, frames = tree
    nodes, bars = np.empty(DEEPEST, dtype=np.int64), np.empty(cones.shape[1])
    for i in range(begin, end):
        x, y, z = _coordinates(rivals, i)
        for a in range(cones.shape[1]):
            q0, q1, q2 = _coordinates(cones[i], a)
            bars[a] = q0 * x + q1 * y + q2 * z - margin
        nodes[0], height, length = 1, 1, 0
        while height > 0 and length <= lists.shape[1]:
            height -= 1
            node = nodes[height]
            beaten = True
            for a in range(cones.shape[1]):
                q0, q1, q2 = _coordinates(cones[i], a)
                beaten = beaten and _bound(q0, q1, q2, node, boxes, frames, slack) <= bars[a]
            if beaten:
                continue
            if 2 * node < len(rows):
                nodes[height], nodes[height + 1] = 2 * node + 1, 2 * node
                height += 2
                continue
            for j in range(rows[node, 0], rows[node, 1]):
                x, y, z = _coordinates(points, j)
                beaten = True
                for a in range(cones.shape[1]):
                    q0, q1, q2 = _coordinates(cones[i], a)
                    beaten = beaten and q0 * x + q1 * y + q2 * z <= bars[a]
                if not beaten:
                    if length < lists.shape[1]:
                        lists[i, length] = j
                    length += 1
        lengths[i] = length if length <= lists.shape[1] else 0


@in_parallel
def list_parallel(cones, rivals, points, tree, margin, slack, lengths, lists):
    m = len(cones)
    for task in numba.prange((m + QUERIES_PER_TASK - 1) // QUERIES_PER_TASK):
        begin, end = task * QUERIES_PER_TASK, min(m, (task + 1) * QUERIES_PER_TASK)
        _list_rows(cones, begin, end, rivals, points, tree, margin, slack, lengths, lists)


# Copies


@compiled
def merge_copies(points, values, weights, first, totals, moments):
    """Fill for each distinct point its first row, its weight and the sum of w_j (v_j - v), v the value of that row.

    Return how many distinct points there are.
    """
    n = len(points)
    room = 16
    while room < 2 * n:
        room *= 2
    slots = np.full(room, -1, dtype=np.int64)
    count = 0
    for j in range(n):
        x, y, z = _coordinates(points, j)
        slot = hash((x + 0.0, y + 0.0, z + 0.0)) & (room - 1)
        while slots[slot] >= 0:
            a, b, c = _coordinates(points, first[slots[slot]])
            if a == x and b == y and c == z:
                break
            slot = (slot + 1) & (room - 1)
        if slots[slot] < 0:
            slots[slot] = count
            first[count], totals[count] = j, 0.0
            moments[count] = 0.0
            count += 1
        p = slots[slot]
        totals[p] += weights[j]
        for k in range(values.shape[1]):
            moments[p, k] += weights[j] * (values[j, k] - values[first[p], k])
    return count
