# mypy: ignore-errors
"""Compiled loops of the pruned engine: nested blocks of tokens, their boxes, and the sums over the blocks that count.

Points are ordered so that `LEAF` consecutive ones lie close together, and so do 8 consecutive leaves, and 8 of those:
a vector (`simd.py`) then holds what is known about the 8 children of a block. Arrays are laid out coordinate first.
The columns of a box are, row by row: the d coordinates of the centre, the d half-widths, the largest and the least
binary logarithm of a mass.
"""

from __future__ import annotations

import numba
import numpy as np

from attnflow.engines import LARGEST_GAIN
from attnflow.engines.kernels import LOG2E, compiled, in_parallel, score
from attnflow.engines.simd import WIDTH, exp2, load, maximum, muladd, splat, spread, store
from attnflow.engines.vertices_kernels import _part

LEAF = 16
# Queries are worked on in blocks of this size.
BLOCK = LEAF * WIDTH
# Blocks are distributed over TASKS loops that may run in parallel, whatever the number of threads.
TASKS = 256
# If binary exponents are at most this, the maximum need not be subtracted.
HIGHEST = 500.0


# Blocks


@compiled
def _middle(numbers):
    """Return the centre and the half-width of the range of some numbers."""
    least, most = numbers.min(), numbers.max()
    return 0.5 * least + 0.5 * most, 0.5 * most - 0.5 * least


@in_parallel
def tile(points, index):
    """Order `points` and `index`: any 16, 32, 64... consecutive rows, from a multiple of their number on, are a block.

    A block is halved along the longest side of its box.
    """
    n, d = points.shape
    size = LEAF
    while size < n:
        size *= 2
    while size > LEAF:
        for block in numba.prange((n + size - 1) // size):
            first, last = block * size, min(n, (block + 1) * size)
            if last - first > size // 2:
                longest, extent = 0, -1.0
                for k in range(d):
                    _, width = _middle(points[first:last, k])
                    if width > extent:
                        longest, extent = k, width
                _part(points, index, first, last, first + size // 2, longest)
        size //= 2


@in_parallel
def enclose(keys, log2_masses, n, leaves):
    """Fill the boxes of the leaves. Empty leaves, which come last, have no mass."""
    d = keys.shape[0]
    for leaf in numba.prange(leaves.shape[1]):
        first, last = leaf * LEAF, min(n, (leaf + 1) * LEAF)
        leaves[:, leaf] = 0.0
        leaves[2 * d, leaf] = leaves[2 * d + 1, leaf] = -np.inf
        if first < last:
            for k in range(d):
                leaves[k, leaf], leaves[d + k, leaf] = _middle(keys[k, first:last])
            leaves[2 * d, leaf], leaves[2 * d + 1, leaf] = log2_masses[first:last].max(), log2_masses[first:last].min()


@compiled
def enclose_boxes(boxes, parents):
    """Fill the boxes around 8 boxes each."""
    d = (boxes.shape[0] - 2) // 2
    parents[:] = 0.0
    parents[2 * d :] = -np.inf
    for block in range(parents.shape[1]):
        first, last = block * WIDTH, min(boxes.shape[1], (block + 1) * WIDTH)
        while first < last and boxes[2 * d, last - 1] == -np.inf:
            last -= 1
        if first < last:
            for k in range(d):
                least, most = np.inf, -np.inf
                for j in range(first, last):
                    least = min(least, boxes[k, j] - boxes[d + k, j])
                    most = max(most, boxes[k, j] + boxes[d + k, j])
                parents[k, block] = 0.5 * least + 0.5 * most
                parents[d + k, block] = 0.5 * most - 0.5 * least
            parents[2 * d, block] = boxes[2 * d, first:last].max()
            parents[2 * d + 1, block] = boxes[2 * d + 1, first:last].min()


# Bounds


@compiled
def _box(queries, first, last, box):
    """Fill centre and half-widths, the rows of `box`, of some queries."""
    for k in range(queries.shape[0]):
        box[0, k], box[1, k] = _middle(queries[k, first:last])


@compiled
def _rounding(box, sizes):
    """Bound what rounding does to a difference of two scores, and to their bounds."""
    product = 0.0
    for k in range(len(sizes)):
        product += (abs(box[0, k]) + box[1, k]) * sizes[k]
    return (8 * len(sizes) + 32) * 2.0**-53 * product


@compiled
def _reach(box, boxes, j, room, unit):
    """Fill bounds of <c, y> + u log w over 8 boxes, for the centre c of some queries and the unit u = 1 / g."""
    d, stride = box.shape[1], boxes.shape[1]
    bound = splat(unit) * load(boxes, 2 * d * stride + j)
    for k in range(d):
        c = box[0, k]
        bound = muladd(splat(c), load(boxes, k * stride + j), bound)
        bound = muladd(splat(abs(c)), load(boxes, (d + k) * stride + j), bound)
    store(room, 0, bound)


@compiled
def _lead(box, leaves, block, sources, unit, best, leader, room):
    """Return the highest score of the centre over a block of leaves, and its source, if it is above the best so far."""
    keys, log2_masses, n = sources
    _reach(box, leaves, block * WIDTH, room, unit)
    for child in range(WIDTH):
        if room[child] > best:
            first = (block * WIDTH + child) * LEAF
            for j in range(first, min(n, first + LEAF)):
                s = unit * log2_masses[j]
                for k in range(box.shape[1]):
                    s += box[0, k] * keys[k, j]
                if s > best:
                    best, leader = s, j
    return best, leader


@compiled
def _leader(box, leaves, blocks, groups, sources, unit, reaches, rooms):
    """Return the source with the highest score of the centre: the most promising group of blocks first."""
    for s in range(0, groups.shape[1], WIDTH):
        _reach(box, groups, s, reaches[s : s + WIDTH], unit)
    first = np.argmax(reaches)
    best, leader = -np.inf, 0
    for turn in range(-1, groups.shape[1]):
        group = turn if turn >= 0 else first
        if reaches[group] > best and turn != first:
            _reach(box, blocks, group * WIDTH, rooms[0], unit)
            for child in range(WIDTH):
                if rooms[0, child] > best:
                    block = group * WIDTH + child
                    best, leader = _lead(box, leaves, block, sources, unit, best, leader, rooms[1])
    return leader


@compiled
def _bounds(box, boxes, j, keys, leader, gain, slack):
    """Bound g <q, y - v> + log w from above and below over 8 boxes, for the queries q in a box and a source v.

    With centres c, C and half-widths h, H: <q, y - v> differs from <c, C - v> by at most <|c|, H> + <h, |C - v| + H>.
    """
    d, stride = box.shape[1], boxes.shape[1]
    middle, width = splat(0.0), splat(slack)
    for k in range(d):
        c, h = box[0, k], box[1, k]
        step = load(boxes, k * stride + j) - spread(keys, k * keys.shape[1] + leader)
        middle = muladd(splat(c), step, middle)
        width = muladd(splat(h), maximum(step, splat(0.0) - step), width)
        width = muladd(splat(abs(c) + h), load(boxes, (d + k) * stride + j), width)
    upper = muladd(splat(gain), middle + width, load(boxes, 2 * d * stride + j))
    lower = muladd(splat(gain), middle - width, load(boxes, (2 * d + 1) * stride + j))
    return upper, lower


@compiled
def _refine(box, boxes, parents, sources, leader, gain, least, slack, kept, room):
    """List the children of some blocks that can have an exponent of at least `least`."""
    count = 0
    for p in range(len(parents)):
        upper, _ = _bounds(box, boxes, parents[p] * WIDTH, sources[0], leader, gain, slack)
        store(room, 0, upper)
        for child in range(WIDTH):
            if room[child] >= least:
                kept[count] = parents[p] * WIDTH + child
                count += 1
    return count


@compiled
def _select(box, leaves, parents, sources, leader, gain, depth, slack, kept, uppers, lowers, tallies):
    """List the leaves that count for the queries in a box.

    In units of the weight of v, the sources left out weigh at most 2^{-depth} times the number of all of them, times
    the total of those that stay, whatever the query. Leaves are left out, the faintest first, while their upper bounds
    sum to less than that; lower bounds of all leaves bound the total from below. Return the number of leaves kept, and
    whether their exponents are calm, at most `HIGHEST`: as v has the top score at the centre c, <q, y - v> is at most
    <q - c, y - v>.
    """
    keys, log2_masses, n = sources
    own = log2_masses[leader]
    tallies[:] = 0.0
    deepest = tallies.shape[1] - 1
    for p in range(len(parents)):
        upper, lower = _bounds(box, leaves, parents[p] * WIDTH, keys, leader, gain, slack)
        store(uppers, p * WIDTH, upper - splat(own))
        store(lowers, p * WIDTH, lower - splat(own))
        for r in range(p * WIDTH, (p + 1) * WIDTH):
            if uppers[r] > -deepest:
                tallies[0, int(max(0.0, -uppers[r]))] += LEAF
                if lowers[r] > -deepest:
                    tallies[1, int(max(0.0, 1.0 - lowers[r]))] += LEAF
    total = 0.0
    for bin in range(deepest, -1, -1):
        total = 0.5 * total + tallies[1, bin]
    # The last leaf may not be full: its empty places must not count in the total.
    room = n * 2.0**-depth * max(1.0, total - LEAF)
    lost, cut = 0.0, deepest
    while cut > 0:
        lost += tallies[0, cut - 1] * 2.0 ** (1 - cut)
        if lost > room:
            break
        cut -= 1
    count, highest, d = 0, slack, box.shape[1]
    for p in range(len(parents)):
        for child in range(WIDTH):
            r = p * WIDTH + child
            if uppers[r] > -cut:
                kept[count] = parents[p] * WIDTH + child
                lowers[count] = lowers[r]
                away = slack
                for k in range(d):
                    leaf = kept[count]
                    away += box[1, k] * (abs(leaves[k, leaf] - keys[k, leader]) + leaves[d + k, leaf])
                highest = max(highest, away)
                count += 1
    return count, own >= -HIGHEST and gain * highest <= HIGHEST


@compiled
def _sift(box, leaves, kept, lowers, sources, leader, gain, depth, slack, heard, room):
    """List the sources in some leaves whose weight can be 2^{-depth} of that of v for a query in the box."""
    keys, log2_masses, n = sources
    d, stride, own, count = box.shape[1], keys.shape[1], log2_masses[leader], 0
    for r in range(len(kept)):
        first = kept[r] * LEAF
        if lowers[r] >= -depth:
            for j in range(first, min(n, first + LEAF)):
                heard[count] = j
                count += 1
            continue
        for j in range(first, first + LEAF, WIDTH):
            reach = splat(slack)
            for k in range(d):
                step = load(keys, k * stride + j) - spread(keys, k * stride + leader)
                reach = muladd(splat(box[0, k]), step, reach)
                reach = muladd(splat(box[1, k]), maximum(step, splat(0.0) - step), reach)
            store(room, 0, muladd(splat(gain), reach, load(log2_masses, j) - splat(own)))
            for child in range(min(WIDTH, n - j)):
                if room[child] >= -depth:
                    heard[count] = j + child
                    count += 1
    return count


# Sums


@compiled
def _sum(queries, i, sources, values, heard, gain, calm, leader, mean, total, top, weights):
    """Eight queries in any dimension; unless exponents are calm, shifted by their own top scores."""
    keys, log2_masses, _ = sources
    m, stride = queries.shape[1], keys.shape[1]
    highest = score(queries, i, keys, leader)
    if not calm:
        for j in heard:
            highest = maximum(highest, score(queries, i, keys, j))
    store(top, i, highest)
    whole = splat(0.0)
    for k in range(values.shape[0]):
        store(mean, k * m + i, whole)
    for first in range(0, len(heard), LEAF):
        some = heard[first : first + LEAF]
        for r in range(len(some)):
            w = exp2(muladd(gain, score(queries, i, keys, some[r]) - highest, spread(log2_masses, some[r])))
            whole = whole + w
            store(weights, WIDTH * r, w)
        for k in range(values.shape[0]):
            part = load(mean, k * m + i)
            for r in range(len(some)):
                part = muladd(load(weights, WIDTH * r), spread(values, k * stride + some[r]), part)
            store(mean, k * m + i, part)
    for k in range(values.shape[0]):
        store(mean, k * m + i, load(mean, k * m + i) / whole)
    store(total, i, whole)


@in_parallel
def softmax_parallel(queries, m, sources, values, boxes, sizes, gain, depth, mean, total, top):
    """Fill mean, total and top as `kernels.softmax_parallel` does, up to 2^{-depth} times twice the number of sources.

    `boxes` are those of leaves, blocks and groups of blocks, `sizes` the largest absolute coordinates of a key. Return
    the number of pairs looked at.
    """
    keys, log2_masses, _ = sources
    leaves, blocks, groups = boxes
    d = queries.shape[0]
    gain2 = min(gain * LOG2E, LARGEST_GAIN)
    unit = 1.0 / gain2
    pairs = 0
    for task in numba.prange(TASKS):
        box, rooms = np.empty((2, d)), np.empty((2, WIDTH))
        reaches, weights = np.empty(groups.shape[1]), np.empty(WIDTH * LEAF)
        all_groups, near_groups = np.arange(groups.shape[1] // WIDTH), np.empty(groups.shape[1], dtype=np.int64)
        near_blocks, near = np.empty(blocks.shape[1], dtype=np.int64), np.empty(leaves.shape[1], dtype=np.int64)
        uppers, lowers = np.empty(leaves.shape[1]), np.empty(leaves.shape[1])
        heard = np.empty(leaves.shape[1] * LEAF, dtype=np.int64)
        tallies = np.empty((2, int(depth) + 2))
        for start in range(task * BLOCK, m, TASKS * BLOCK):
            _box(queries, start, min(m, start + BLOCK), box)
            slack = _rounding(box, sizes)
            head = _leader(box, leaves, blocks, groups, sources, unit, reaches, rooms)
            least = log2_masses[head] - depth
            count = _refine(box, groups, all_groups, sources, head, gain2, least, slack, near_groups, rooms[0])
            parents = near_groups[:count]
            count = _refine(box, blocks, parents, sources, head, gain2, least, slack, near_blocks, rooms[0])
            parents = near_blocks[:count]
            for i in range(start, min(m, start + BLOCK), LEAF):
                _box(queries, i, min(m, i + LEAF), box)
                best, leader = unit * log2_masses[head], head
                for k in range(d):
                    best += box[0, k] * keys[k, head]
                for p in range(len(parents)):
                    best, leader = _lead(box, leaves, parents[p], sources, unit, best, leader, rooms[0])
                kept, calm = _select(
                    box, leaves, parents, sources, leader, gain2, depth, slack, near, uppers, lowers, tallies
                )
                kept = _sift(box, leaves, near[:kept], lowers, sources, leader, gain2, depth, slack, heard, rooms[0])
                pairs += kept * LEAF
                g, some = splat(gain2), heard[:kept]
                for h in range(i, i + LEAF, WIDTH):
                    _sum(queries, h, sources, values, some, g, calm, leader, mean, total, top, weights)
    return pairs


@in_parallel
def count_near(queries, columns, gain, share, tolerance):
    """Count, for each query, the sources that stay when the faintest are left out, up to the tolerance in all.

    Each of these sources stands for `share` sources.
    """
    m, n = len(queries), columns.shape[1]
    deepest = int(np.log2(share * n / tolerance)) + 2
    counts = np.empty(m)
    for i in numba.prange(m):
        scores = queries[i, 0] * columns[0]
        for k in range(1, queries.shape[1]):
            scores += queries[i, k] * columns[k]
        best, tally = scores.max(), np.zeros(deepest)
        for j in range(n):
            below = (best - scores[j]) * gain * LOG2E
            if below < deepest:
                tally[int(below)] += 1.0
        total = 0.0
        for bin in range(deepest):
            total += tally[bin] * 2.0**-bin
        lost, cut = 0.0, deepest
        while cut > 0:
            lost += share * tally[cut - 1] * 2.0 ** (1 - cut)
            if lost > tolerance * total:
                break
            cut -= 1
        counts[i] = tally[:cut].sum()
    return counts
