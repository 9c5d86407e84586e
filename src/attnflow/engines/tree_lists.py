# mypy: ignore-errors
"""Which sources a box of queries hears: a lower bound of the total weight, and what stays below it.

For any node V of the sources with mass W and centroid v, and any query q, Jensen's inequality gives

    Z(q) = sum_j w_j e^{g <q, s_j>}  >=  W e^{g <q, v>}.

All sources in a box B have together at most the share (W_B / W) e^{g max <q, s - v>} of Z(q), the maximum over q in the
box A of queries and s in B; it is attained in corners. A box is left out if that is at most `FAINT` times W_B divided
by the mass of all, so that all that is left out weighs at most `FAINT` of Z(q). Exponents are binary throughout.

"Leaves" are boxes whose sources are looked at one by one: leaves of the trie, and boxes of some dozens of sources that
no expansion could serve.
"""

from __future__ import annotations

import math

import numpy as np

from attnflow.engines.kernels import LOG2E, internal
from attnflow.engines.simd import WIDTH, lanes_above, load, maximum, muladd, splat
from attnflow.engines.tree_trie import END, FIRST, LAST, LEAF, RIGHT

FAINT = math.log2(3e-11)
# Interpolation at 8 or 16 Chebyshev nodes on each axis; the largest z = g h_A h_B for which that may be enough.
FEW, MANY, WIDEST = 8, 16, 1.9
# What expansions with a share of 1 may err, of the size of the keys; how often a function is interpolated.
BUDGET, LEVELS = 3e-11, 8.0
POWERS = 2.0 ** -np.arange(64.0)
# Binary exponents of pairs up to this size round by less than the tolerance; those of others are summed directly.
LARGEST_EXPONENT = 2e5
HALVE, END_HERE, KNOWN, CHOOSE = 0, 1, 2, 3
# Lists hold at most this many expansions.
LONGEST = 4096
# All lanes of a vector.
EVERY = (1 << WIDTH) - 1
# Nanoseconds in the plane, in space and beyond: a pair; a token of an expansion with few and with many nodes; a part of
# it; a token in its moments; a box of queries; the fewest tokens of an expansion that is handed down; to list a source.
# The costs of boxes and the fewest tokens are those with which all took the least time. Beyond space there are no
# expansions.
PAIR, VALUE, PART, TOKEN, BOX, FEWEST, LISTED = 0, 1, 3, 5, 7, 8, 10
COSTS = np.array(
    [
        [0.45, 8.0, 24.0, 270.0, 450.0, 10.0, 22.0, 40000.0, 320.0, 400.0, 6.0],
        [0.5, 85.0, 560.0, 850.0, 8500.0, 50.0, 290.0, 100000.0, 100.0, 200.0, 12.0],
        [0.5, 85.0, 560.0, 850.0, 8500.0, 50.0, 290.0, 26000.0, 100.0, 200.0, 12.0],
    ]
)
# Expansions have to cost less than these parts of direct sums, where a box ends and where they are handed down.
ENDS, HANDED = 1.3, 0.3
# Of a box that weighs b bits more than the least that counts, about the part HEARD (b - SOFT) is summed; queries leave
# out the others. Halving a box of queries spares the part SPARED of its pairs. These numbers were found by trial.
HEARD, SOFT, SPARED = 0.03, 8.0, 0.25
# Boxes of at most SIFTED sources are looked through source by source, if they are FAR times too wide to be expanded.
SIFTED, FAR = 64, 4.0


@internal
def error(z, p, h):
    """Bound the error of a mean by an expansion, per share of Z that it has at the centre; `h` and it are of the size.

    See `tree.py`: 4 I_p(z) (p^2 h / z + LEVELS), the Bessel function I_p(z) <= (z/2)^p / p! e^{z^2 / (4 p + 4)}.
    """
    bessel = (0.25 * z * z) ** 4 / 40320.0
    if p == MANY:
        bessel *= bessel * (40320.0**2 / 20922789888000.0)
    return 4 * bessel * (1 + z * z / (3 * p)) * (p * p * h / z + LEVELS)


@internal
def leader(sources, queries, g, A, v, best, stack):
    """Find the node or the source with nearly the largest W e^{g <c, v>} at the centre c of the box A.

    `v` holds a first guess, whose exponent is `best`. Return log2 W, or NaN if the guess stays.
    """
    nodes, boxes, points, log2_masses = sources.nodes, sources.boxes, sources.points, sources.log2_masses
    d, top, mass = len(sources.axes), 1, np.nan
    c, stack[0] = v[d:], 0
    for a in range(d):
        c[a] = 0.5 * g * (queries.boxes[A, a] + queries.boxes[A, d + a])
    while top:
        top -= 1
        b = stack[top]
        highest = own = boxes[b, 3 * d]
        for a in range(d):
            highest += max(c[a] * boxes[b, a], c[a] * boxes[b, d + a])
            own += c[a] * boxes[b, 2 * d + a]
        if highest <= best + 0.5:
            continue
        if own > best:
            best, mass = own, boxes[b, 3 * d]
            for a in range(d):
                v[a] = boxes[b, 2 * d + a]
        if nodes[b, RIGHT] < 0:
            for j in range(nodes[b, FIRST], nodes[b, LAST]):
                own = log2_masses[j]
                for a in range(d):
                    own += c[a] * points[a, j]
                if own > best:
                    best, mass = own, log2_masses[j]
                    for a in range(d):
                        v[a] = points[a, j]
        else:
            near, far = b + 1, nodes[b, RIGHT]
            ahead = boxes[near, 3 * d] - boxes[far, 3 * d]
            for a in range(d):
                ahead += max(c[a] * boxes[near, a], c[a] * boxes[near, d + a])
                ahead -= max(c[a] * boxes[far, a], c[a] * boxes[far, d + a])
            if ahead < 0:
                near, far = far, near
            stack[top], stack[top + 1] = far, near
            top += 2
    return mass


@internal
def reach(sources, queries, A, b, v):
    """Return max <q, s - v> over the boxes of A and b."""
    d, r = len(sources.axes), 0.0
    for a in range(d):
        low, high = queries.boxes[A, a], queries.boxes[A, d + a]
        least, most = sources.boxes[b, a] - v[a], sources.boxes[b, d + a] - v[a]
        r += max(max(low * least, low * most), max(high * least, high * most))
    return r


@internal
def width(sources, queries, A, b):
    """Return the largest h_A h_B of an axis."""
    d, z = len(sources.axes), 0.0
    for a in range(d):
        z = max(z, queries.cells[A, d + a] * sources.cells[b, d + a])
    return z


@internal
def nodes_for(sources, queries, given, A, b, z, share, v):
    """Return how many Chebyshev nodes the expansion of b on A needs, 0 if none are enough or if exponents are large."""
    g, size = given[0], given[2]
    d, h, exponent = len(sources.axes), 0.0, 0.0
    for a in range(d):
        h = max(h, sources.cells[b, d + a])
        exponent += abs(queries.cells[A, a]) * (abs(sources.cells[b, a] - v[a]) + sources.cells[b, d + a])
    if g * exponent > LARGEST_EXPONENT:
        return 0
    share = POWERS[min(63, max(0, int(-share)))]
    if share * error(z, FEW, h / size) <= BUDGET:
        return FEW
    return MANY if share * error(z, MANY, h / size) <= BUDGET else 0


@internal
def first_from(numbers, least):
    """Return the first place in a sorted array whose number is at least this."""
    low, high = 0, len(numbers)
    while low < high:
        middle = (low + high) // 2
        if numbers[middle] < least:
            low = middle + 1
        else:
            high = middle
    return low


@internal
def visit(sources, queries, given, A, v, mass, aim, above, room):
    """List the expansions and the leaves that A hears; `above` are the expansions that its parent has.

    The aim is to `HALVE` A, where only expansions matter, because its halves list leaves of their own; to `END_HERE`;
    to `CHOOSE`, which is to end here unless what is listed so far says that A is better halved; or to list what it
    hears beside the expansions `KNOWN`, which are `above`. Return the number of expansions and of leaves, the top
    exponent above W e^{g <q, v>}, whether A is better halved, and whether any expansion is possible: if not, the lists
    to end here are complete.
    """
    g, slack, widest, cost = given[0], given[1], given[3], given[4]
    stack, heard, orders, leaves = room.stack, room.heard, room.orders, room.leaves
    nodes, boxes, d = sources.nodes, sources.boxes, len(sources.axes)
    count, raw, tokens, top, possible, waiting = 0, 0, 0, -np.inf, False, 1
    asking = float(queries.nodes[A, LAST] - queries.nodes[A, FIRST])
    levels = max(0.0, math.log2(asking / 64))
    floor = FAINT - (boxes[0, 3 * d] - mass)
    narrow, to_z = widest * (1 + 1e-8) * LOG2E / g, g / LOG2E
    # An expansion of fewer sources never pays.
    few = 0.0
    if widest > 0.0:
        few = cost[FEWEST] if aim == HALVE else cost[VALUE] / (ENDS * cost[PAIR])
    # What halving saves, of each source and of all expansions that are listed, and what it costs.
    saved, value, halving = asking * SPARED * cost[PAIR] - cost[LISTED], 0.0, cost[BOX]
    stack[0] = 0
    while waiting:
        waiting -= 1
        b = stack[waiting]
        r = g * reach(sources, queries, A, b, v) + slack
        if r <= floor:
            continue
        held = nodes[b, LAST] - nodes[b, FIRST]
        share = r + boxes[b, 3 * d] - mass
        z = width(sources, queries, A, b) if held > LEAF else np.inf
        direct = asking * held * cost[PAIR] * min(1.0, HEARD * max(1.0, r - floor - SOFT))
        least = held * cost[TOKEN] if len(above) == 0 else 0.0
        if z <= narrow and count < LONGEST and least + asking * cost[VALUE] < ENDS * direct:
            p = nodes_for(sources, queries, given, A, b, to_z * z, share, v)
            if p:
                possible = True
                many = p == MANY
                k, made, fresh = first_from(above, b), 0, held
                while k < len(above) and above[k] < nodes[b, END] and made < 64:
                    fresh -= nodes[above[k], LAST] - nodes[above[k], FIRST]
                    k, made = k + 1, made + 1
                work = made * cost[PART + many] + fresh * cost[TOKEN + many]
                if aim == KNOWN:
                    pays = made == 1 and above[k - 1] == b
                elif aim == HALVE:
                    work += 2 * levels * cost[PART + many] + 64 * cost[VALUE + many]
                    pays = held > cost[FEWEST + many] and work < HANDED * direct
                else:
                    pays = work + asking * cost[VALUE + many] < ENDS * direct
                if pays:
                    heard[count], orders[count] = b, p
                    count, top = count + 1, max(top, share)
                    value, halving = value + cost[VALUE + many], halving + 2 * cost[PART + many]
                    continue
        if nodes[b, RIGHT] < 0 or held <= few or (held <= SIFTED and z > FAR * narrow):
            leaves[raw] = b
            raw, tokens, top = raw + 1, tokens + held, max(top, share)
            # Not before it is known that an expansion is possible: the caller would hand none down.
            if aim == CHOOSE and possible and tokens * saved > halving:
                break
        else:
            stack[waiting], stack[waiting + 1] = nodes[b, RIGHT], b + 1
            waiting += 2
    # Expansions share their parts with others on both halves.
    value *= asking * 0.5 * (1 - 1 / max(1, count))
    return count, raw, top, aim == CHOOSE and value + tokens * saved > halving, possible


@internal
def sift(sources, queries, given, A, v, leaves, heard):
    """List the sources in some leaves that a query in A can hear: each stays below its part of `FAINT` otherwise."""
    g, slack, nodes, points = splat(given[0]), splat(given[1]), sources.nodes, sources.points
    d, stride, count = len(sources.axes), points.shape[1], 0
    # A source of mass w is left out like a box: its share of Z is at most FAINT times w over the mass of all.
    floor = splat(FAINT - (sources.boxes[0, 3 * d] - v[2 * d]))
    for b in leaves:
        last = nodes[b, LAST]
        for j in range(nodes[b, FIRST], last, WIDTH):
            s = splat(0.0)
            for a in range(d):
                y = load(points, a * stride + j) - splat(v[a])
                s = s + maximum(splat(queries.boxes[A, a]) * y, splat(queries.boxes[A, d + a]) * y)
            loud = lanes_above(muladd(g, s, slack), floor) & ((1 << min(WIDTH, last - j)) - 1)
            if loud == EVERY:
                for k in range(WIDTH):
                    heard[count + k] = j + k
                count += WIDTH
            elif loud:
                for k in range(WIDTH):
                    heard[count] = j + k
                    count += loud >> k & 1
    return count
