# mypy: ignore-errors
"""What a box B of sources is to the queries q of a box A: values at Chebyshev nodes of A.

With the centres a and b of their cells, sum_{s in B} w e^{g <q, s - v>} = 2^L e^{g <q - a, b - v>} P(q), where

    P(q) = 2^-L sum_{s in B} w e^{g <a, s - v>} e^{g <q - a, s - b>}

is smooth: on each axis g |q - a| |s - b| <= z. It is made from the sources, by their moments, or from the functions
that the cell A' around A has for parts b' of B: interpolated at the nodes of A, and multiplied by
e^{g <q - a, b' - b>}. The same holds for sums of w v e^{g <q, s>}, for each column v of values: a field of its own.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.polynomial import chebyshev

from attnflow.engines.kernels import LOG2E, internal
from attnflow.engines.separable_blocks import powers
from attnflow.engines.simd import WIDTH, exp2, load, maximum, muladd, splat, spread, store
from attnflow.engines.tree_lists import FAINT, FEW, MANY, WIDEST, first_from, reach
from attnflow.engines.tree_trie import END, FIRST, LAST, RIGHT

# An expansion has at most this many parts; moments are taken of this many sources at once.
PARTS, AT_ONCE = 1024, 64


def _nodes(p: int) -> list[float]:
    return [math.cos(math.pi * (k + 0.5) / p) for k in range(p)]


def _inverse_products(p: int) -> list[float]:
    nodes = _nodes(p)
    return [1 / math.prod(x - y for y in nodes if y != x) for x in nodes]


# Those of 8 nodes, then those of 16: where p nodes start is p - 8.
NODES, INVERSE = (np.array(numbers(FEW) + numbers(MANY)) for numbers in (_nodes, _inverse_products))
# Classes of z, by upper ends.
CLASSES = np.array([0.05, 0.1, 0.2, 0.4, 0.7, 1.05, 1.5, 1.9, WIDEST])


def _exponentials(p: int, z: float) -> list[float]:
    """Return the matrix [k, i] of e^{z x_i u} = sum_k u^k M_ki at the nodes x_i, as a list."""
    x = np.array(_nodes(p))
    if z**p / math.factorial(p) < (1e-12 if p == FEW else 3e-16):
        return [(z * t) ** k / math.factorial(k) for k in range(p) for t in x.tolist()]
    to_powers = np.array([np.pad(chebyshev.cheb2poly(row), (0, p))[:p] for row in np.eye(p)]).T
    # Coefficients of Chebyshev polynomials first: those of high degree are small, and their rounding errors too.
    coefficients = np.linalg.inv(chebyshev.chebvander(x, p - 1)) @ np.exp(z * np.outer(x, x))
    return (to_powers @ coefficients).ravel().tolist()


EXPONENTIALS = np.concatenate([_exponentials(p, z) for p in (FEW, MANY) for z in CLASSES])


@internal
def _rows(c, o, across, adds, *rows):
    """Write eight rows of eight numbers, or add them."""
    for row in rows:
        store(c, o, row + load(c, o) if adds else row)
        o += across


@internal
def multiply(a, at, row, column, b, first, stride, count, rows, columns, c, place, across, adds):
    """Write A B, or add it, to `rows` by `columns` numbers of c, blocks of 8 by 16 or 8 by 8, from `place` on.

    The rows of c are `across` apart. A starts at `at`, with these strides; B (count, columns) at `first`.
    """
    zero = splat(0.0)
    for r in range(0, rows, WIDTH):
        for s in range(0, columns - WIDTH, 2 * WIDTH):
            c0, c1, c2, c3, c4, c5, c6, c7 = zero, zero, zero, zero, zero, zero, zero, zero
            d0, d1, d2, d3, d4, d5, d6, d7 = zero, zero, zero, zero, zero, zero, zero, zero
            for k in range(count):
                o = first + k * stride + s
                x, y, o = load(b, o), load(b, o + WIDTH), at + k * column + r * row
                u = spread(a, o)
                c0, d0, u = muladd(u, x, c0), muladd(u, y, d0), spread(a, o + row)
                c1, d1, u = muladd(u, x, c1), muladd(u, y, d1), spread(a, o + 2 * row)
                c2, d2, u = muladd(u, x, c2), muladd(u, y, d2), spread(a, o + 3 * row)
                c3, d3, u = muladd(u, x, c3), muladd(u, y, d3), spread(a, o + 4 * row)
                c4, d4, u = muladd(u, x, c4), muladd(u, y, d4), spread(a, o + 5 * row)
                c5, d5, u = muladd(u, x, c5), muladd(u, y, d5), spread(a, o + 6 * row)
                c6, d6, u = muladd(u, x, c6), muladd(u, y, d6), spread(a, o + 7 * row)
                c7, d7 = muladd(u, x, c7), muladd(u, y, d7)
            _rows(c, place + r * across + s, across, adds, c0, c1, c2, c3, c4, c5, c6, c7)
            _rows(c, place + r * across + s + WIDTH, across, adds, d0, d1, d2, d3, d4, d5, d6, d7)
        if columns % (2 * WIDTH):
            s = columns - WIDTH
            c0, c1, c2, c3, c4, c5, c6, c7 = zero, zero, zero, zero, zero, zero, zero, zero
            for k in range(count):
                x, o = load(b, first + k * stride + s), at + k * column + r * row
                c0, c1 = muladd(spread(a, o), x, c0), muladd(spread(a, o + row), x, c1)
                c2, c3 = muladd(spread(a, o + 2 * row), x, c2), muladd(spread(a, o + 3 * row), x, c3)
                c4, c5 = muladd(spread(a, o + 4 * row), x, c4), muladd(spread(a, o + 5 * row), x, c5)
                c6, c7 = muladd(spread(a, o + 6 * row), x, c6), muladd(spread(a, o + 7 * row), x, c7)
            _rows(c, place + r * across + s, across, adds, c0, c1, c2, c3, c4, c5, c6, c7)


@internal
def _along(axis, d, x, at, matrix, first, before, after, y):
    """Multiply one axis of a cube by a matrix (before, after); earlier axes are `after` wide, later ones `before`."""
    outer, inner = after**axis, before ** (d - 1 - axis)
    if inner == 1:
        a, b, row, column, stride, rows, columns, blocks = x, matrix, before, 1, after, outer, after, 1
        a_at, b_at, b_step = at, first, 0
    else:
        a, b, row, column, stride, rows, columns, blocks = matrix, x, 1, after, inner, after, inner, outer
        a_at, b_at, b_step = first, at, before * inner
    for o in range(blocks):
        place = o * after * inner
        multiply(a, a_at, row, column, b, b_at + o * b_step, stride, before, rows, columns, y, place, columns, False)


@internal
def lagrange(u, scale, p, values, slopes, at, room):
    """Write the Lagrange basis of p nodes at eight points u, and its derivatives times `scale`, from `at` on.

    Products of u - node over the nodes before k, and their derivatives, meet those over the nodes after k.
    """
    s, t = splat(1.0), splat(0.0)
    for k in range(p):
        store(room, 2 * k * WIDTH, s)
        store(room, (2 * k + 1) * WIDTH, t)
        x = u - spread(NODES, p - FEW + k)
        s, t = s * x, muladd(t, x, s)
    s, t = splat(1.0), splat(0.0)
    for k in range(p - 1, -1, -1):
        w, before, slope = spread(INVERSE, p - FEW + k), load(room, 2 * k * WIDTH), load(room, (2 * k + 1) * WIDTH)
        store(values, at + k * WIDTH, w * s * before)
        store(slopes, at + k * WIDTH, scale * w * muladd(t, before, s * slope))
        x = u - spread(NODES, p - FEW + k)
        s, t = s * x, muladd(t, x, s)


@internal
def bases(cells, parent, child, d, room):
    """Write the values of the basis on the cell of the parent at the nodes of the child, for 8 and 16 of either."""
    for a in range(d):
        scale = 1.0 / cells[parent, d + a]
        step, start = cells[child, d + a] * scale, (cells[child, a] - cells[parent, a]) * scale
        for i in range(4):
            before, after = FEW << (i // 2), FEW << (i % 2)
            for half in range(0, after, WIDTH):
                u = muladd(splat(step), load(NODES, after - FEW + half), splat(start))
                lagrange(u, splat(1.0), before, room.values, room.slopes, 0, room.products)
                for k in range(before):
                    o = (i * 3 + a) * MANY * MANY + k * after + half
                    store(room.bases, o, load(room.values, k * WIDTH))


@internal
def _parts(sources, queries, given, above, A, P, B, v, room):
    """List what B consists of: expansions that the parent P of A has (their row in the list `above`), and sources (-1).

    Return the number of parts and the largest of their levels.
    """
    g, nodes, boxes, cells, points = given[0], sources.nodes, sources.boxes, sources.cells, sources.points
    d, stride = len(sources.axes), points.shape[1]
    count, waiting, highest = 0, 1, -np.inf
    floor = FAINT - (boxes[0, 3 * d] - v[2 * d])
    room.stack[0] = B
    while waiting:
        waiting -= 1
        b = room.stack[waiting]
        k = first_from(above.nodes, b)
        inside = k < len(above.nodes) and above.nodes[k] < nodes[b, END]
        level, part = 0.0, b
        if inside and above.nodes[k] == b:
            level, part = above.levels[k], k
            for a in range(d):
                c, parent = queries.cells[A, a], queries.cells[P, a]
                level += g * ((c - parent) * (cells[b, a] - v[a]) + parent * (above.leader[a] - v[a]))
        elif b != B and g * reach(sources, queries, A, b, v) + given[1] <= floor:
            continue
        elif inside and count + waiting + 4 < PARTS:
            room.stack[waiting], room.stack[waiting + 1] = nodes[b, RIGHT], b + 1
            waiting += 2
            continue
        else:
            inside = False
            top = splat(-np.inf)
            for j in range(nodes[b, FIRST], nodes[b, LAST], WIDTH):
                j = min(j, max(nodes[b, FIRST], nodes[b, LAST] - WIDTH))
                t = load(sources.log2_masses, j)
                for a in range(d):
                    x = load(points, a * stride + j) - splat(v[a])
                    t = muladd(splat(g * queries.cells[A, a]), x, t)
                top = maximum(top, t)
            store(room.weights, 0, top)
            level = room.weights[0]
            # With fewer than eight sources the other lanes are those of other nodes.
            for lane in range(1, min(WIDTH, nodes[b, LAST] - nodes[b, FIRST])):
                level = max(level, room.weights[lane])
        room.parts[count, 0], room.parts[count, 1], room.part_levels[count] = inside, part, level
        highest = max(highest, level)
        count += 1
    return count, highest


@internal
def _add_sources(sources, queries, values, g, level, A, B, b, p, z, v, room):
    """Add the moments of the sources of b, on the cells of A and B, to those of all fields."""
    points, cells, nodes = sources.points, sources.cells, sources.nodes
    d, stride = len(sources.axes), points.shape[1]
    rest, size, together = p ** (d - 1), p**d, AT_ONCE if d == 2 else MANY
    for first in range(nodes[b, FIRST], nodes[b, LAST], together):
        count = min(together, nodes[b, LAST] - first)
        for j in range(0, count, WIDTH):
            s = load(sources.log2_masses, first + j) - splat(level)
            for a in range(d):
                x = load(points, a * stride + first + j)
                y = x - splat(cells[B, a])
                s = muladd(splat(g * queries.cells[A, a]), x - splat(v[a]), s)
                store(room.places, a * AT_ONCE + j, splat(g / LOG2E * queries.cells[A, d + a] / z) * y)
            store(room.weights, j, exp2(s))
        for j in range(count):
            powers(room.places, (d - 1) * AT_ONCE + j, 1.0, room.right, j * p)
        for f in range(1 + len(values)):
            for j in range(count):
                weight = room.weights[j] * values[f - 1, first + j] if f else room.weights[j]
                powers(room.places, (d - 2) * AT_ONCE + j, weight, room.left, j * rest)
                if d == 3:
                    u = splat(room.places[j])
                    for k in range(p, p * p, WIDTH):
                        store(room.left, j * rest + k, u * load(room.left, j * rest + k - p))
            multiply(room.left, 0, 1, rest, room.right, 0, p, count, rest, p, room.moments, f * size, p, True)


@internal
def expand(sources, queries, values, given, above, A, P, mine, e, room):
    """Write P at the p^d nodes of A, for each field, for the row e of its list; return L.

    The parent P of A has the list `above`.
    """
    g, d, B, p, out, at = given[0], len(sources.axes), mine.nodes[e], mine.orders[e], mine.data, mine.places[e]
    fields, size, rest = 1 + len(values), p**d, p ** (d - 1)
    cells, moments, one, other = sources.cells, room.moments, room.one, room.other
    count, level = _parts(sources, queries, given, above, A, P, B, mine.leader, room)
    z, kind = 0.0, 0
    for a in range(d):
        z = max(z, g / LOG2E * queries.cells[A, d + a] * cells[B, d + a])
    while kind < len(CLASSES) - 1 and CLASSES[kind] < z:
        kind += 1
    fresh = False
    for i in range(0, fields * size, WIDTH):
        store(out, at + i, splat(0.0))
    for k in range(count):
        if not room.parts[k, 0]:
            for i in range(0, 0 if fresh else fields * size, WIDTH):
                store(moments, i, splat(0.0))
            fresh = True
            _add_sources(
                sources, queries, values, g, level, A, B, room.parts[k, 1], p, CLASSES[kind], mine.leader, room
            )
    first = kind * FEW * FEW if p == FEW else len(CLASSES) * FEW * FEW + kind * MANY * MANY
    for f in range(fields if fresh else 0):
        x, x_at = moments, f * size
        for a in range(d):
            y = one if a % 2 == 0 else other
            _along(a, d, x, x_at, room.exponentials, first, p, p, y)
            x, x_at = y, 0
        for i in range(0, size, WIDTH):
            store(out, at + f * size + i, load(x, i))
    for k in range(count):
        if not room.parts[k, 0]:
            continue
        row = room.parts[k, 1]
        b, before = above.nodes[row], above.orders[row]
        for a in range(d):
            lift = max(-900.0, room.part_levels[k] - level) if a == 0 else 0.0
            step = splat(g * queries.cells[A, d + a] * (cells[b, a] - cells[B, a]))
            for i in range(0, p, WIDTH):
                store(room.weights, a * MANY + i, exp2(muladd(step, load(NODES, p - FEW + i), splat(lift))))
        for f in range(fields):
            x, x_at, y, spare = above.data, above.places[row] + f * before**d, one, other
            for a in range(d):
                if p == before and queries.cells[A, d + a] == queries.cells[P, d + a]:
                    continue
                matrix = (((before == MANY) * 2 + (p == MANY)) * 3 + a) * MANY * MANY
                _along(a, d, x, x_at, room.bases, matrix, before, p, y)
                x, x_at, y, spare = y, 0, spare, y
            for r in range(rest):
                factor = splat(room.weights[r] if d == 2 else room.weights[r // p] * room.weights[MANY + r % p])
                for i in range(0, p, WIDTH):
                    o = at + f * size + r * p + i
                    w = factor * load(room.weights, (d - 1) * MANY + i)
                    store(out, o, muladd(w, load(x, x_at + r * p + i), load(out, o)))
    return level
