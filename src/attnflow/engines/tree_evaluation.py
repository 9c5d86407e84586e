# mypy: ignore-errors
"""What the queries of a box hear in the end: expansions at their places, and single sources, eight queries at once.

Weights are taken relative to W e^{g <q, v>}, the lower bound of the total that `tree_lists` found. If the values are
the keys, sum w s e^{g <q, s>} = 2^L e^{g <q - a, b>} (b P + grad P / g) needs no field but P.
"""

from __future__ import annotations

import math

import numpy as np

from attnflow.engines.kernels import LOG2E, internal
from attnflow.engines.simd import (
    WIDTH,
    exp2,
    exp2_short,
    lanes_above,
    load,
    log2,
    maximum,
    muladd,
    splat,
    spread,
    store,
)
from attnflow.engines.tree_expansions import NODES, lagrange
from attnflow.engines.tree_lists import FEW, LEVELS, MANY

# Where the basis of 8 nodes on an axis starts: those of 16 nodes on up to three axes come first.
FEWER = 3 * MANY * WIDTH
# The Chebyshev polynomial of degree p - 2 at the p nodes, as in NODES.
CURVES = np.concatenate([np.cos((p - 2) * np.arccos(NODES[p - FEW : 2 * p - FEW])) for p in (FEW, MANY)])
# Sources of which weights are kept at once.
BLOCK = 16
# What eight queries leave out weighs at most this part of their totals: beside expansions, which err too, and alone.
FAINTER, FAINTER_ALONE = math.log2(1e-11), math.log2(5e-11)
# Means, with weights as they are rounded, err by less than this part of the size of the keys: twice the tolerance.
UNSURE = 2.0**-32


@internal
def _plane(data, o, p, values, slopes, first, second):
    """Return f, df/du and df/dv of the polynomial with the values data[o + p k + r] at the nodes, at eight places."""
    zero = splat(0.0)
    f, along, across = zero, zero, zero
    for r in range(0, p, 4):
        a, b, c, d, a1, b1, c1, d1 = zero, zero, zero, zero, zero, zero, zero, zero
        for k in range(p):
            u, u1, at = load(values, first + k * WIDTH), load(slopes, first + k * WIDTH), o + k * p + r
            x = spread(data, at)
            a, a1 = muladd(x, u, a), muladd(x, u1, a1)
            x = spread(data, at + 1)
            b, b1 = muladd(x, u, b), muladd(x, u1, b1)
            x = spread(data, at + 2)
            c, c1 = muladd(x, u, c), muladd(x, u1, c1)
            x = spread(data, at + 3)
            d, d1 = muladd(x, u, d), muladd(x, u1, d1)
        at = second + r * WIDTH
        v, v1 = load(values, at), load(slopes, at)
        f, along, across = muladd(a, v, f), muladd(a1, v, along), muladd(a, v1, across)
        v, v1 = load(values, at + WIDTH), load(slopes, at + WIDTH)
        f, along, across = muladd(b, v, f), muladd(b1, v, along), muladd(b, v1, across)
        v, v1 = load(values, at + 2 * WIDTH), load(slopes, at + 2 * WIDTH)
        f, along, across = muladd(c, v, f), muladd(c1, v, along), muladd(c, v1, across)
        v, v1 = load(values, at + 3 * WIDTH), load(slopes, at + 3 * WIDTH)
        f, along, across = muladd(d, v, f), muladd(d1, v, along), muladd(d, v1, across)
    return f, along, across


@internal
def _field(data, o, p, d, values, slopes, sums):
    """Write a function given at p^d nodes, and its gradient, at eight places.

    It takes arrays, not the room that holds them: a call would copy all of the room.
    """
    first, step = (0, MANY * WIDTH) if p == MANY else (FEWER, FEW * WIDTH)
    last, one = first + (d - 1) * step, splat(1.0)
    f, slope, along, across = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    for k in range(p if d == 3 else 1):
        g, g1, g2 = _plane(data, o + k * p * p, p, values, slopes, last - step, last)
        u, u1 = (load(values, first + k * WIDTH), load(slopes, first + k * WIDTH)) if d == 3 else (one, one)
        f, slope = muladd(u, g, f), muladd(u1, g, slope)
        along, across = muladd(u, g1, along), muladd(u, g2, across)
    store(sums, 0, f)
    store(sums, WIDTH, slope)
    store(sums, (d - 1) * WIDTH, along)
    store(sums, d * WIDTH, across)


@internal
def tail(sources, queries, given, A, mine, e, room):
    """Bound the error of an expansion where its weight 2^L e^{g <q - a, b>} is 1, of the size of the keys.

    See `tree.py`: on each axis from the Chebyshev coefficient of degree p - 2.
    """
    d, b, p, o = len(sources.axes), mine.nodes[e], mine.orders[e], mine.places[e]
    bound, size = 0.0, p**d
    for a in range(d):
        z = given[0] / LOG2E * queries.cells[A, d + a] * sources.cells[b, d + a]
        total, apart = splat(0.0), p ** (d - 1 - a)
        for r in range(0, size, WIDTH):
            at = p - FEW + r // apart % p
            total = muladd(load(CURVES, at) if apart == 1 else spread(CURVES, at), load(mine.data, o + r), total)
        store(room.field, 0, total)
        coefficient = 0.0
        for lane in range(WIDTH):
            coefficient += 2 / size * room.field[lane]
        bound += (
            abs(coefficient) * z * z / (2 * p * (p - 1)) * (p * p / z * sources.cells[b, d + a] / given[2] + LEVELS)
        )
    return bound


@internal
def _add_expansions(sources, queries, fields, given, A, i, v, mass, mine, room):
    """Add the expansions to the sums of the eight queries from i on; write the bound of their errors."""
    g, d = given[0], len(sources.axes)
    stride, cells, centres = queries.points.shape[1], sources.cells, queries.cells
    bound = splat(0.0)
    for e in range(len(mine.nodes)):
        b, p, o = mine.nodes[e], mine.orders[e], mine.places[e]
        exponent = splat(mine.levels[e] - mass)
        for a in range(d):
            x = load(queries.points, a * stride + i)
            exponent = muladd(splat(g * (cells[b, a] - v[a])), x - splat(centres[A, a]), exponent)
        w = exp2(exponent)
        bound = muladd(w, spread(room.tails, e), bound)
        for f in range(fields):
            _field(mine.data, o + f * p**d, p, d, room.values, room.slopes, room.field)
            t = w * load(room.field, 0)
            store(room.sums, f * WIDTH, load(room.sums, f * WIDTH) + t)
            if fields == 1:
                w = w * splat(LOG2E / g)
                for a in range(d):
                    s = muladd(splat(cells[b, a]), t, w * load(room.field, (1 + a) * WIDTH))
                    store(room.sums, (1 + a) * WIDTH, load(room.sums, (1 + a) * WIDTH) + s)
    store(room.bound, 0, bound)


@internal
def add_pairs_of_keys(sources, queries, g, heard, i, shift, least, mass, sums):
    """Add the sources in the plane or in space, whose values are the keys: all sums stay in registers.

    Two sources at once, which stay out if they are below the scores `least` of all eight queries: half as many branches
    that cannot be foreseen. In the plane the third coordinate is the second again, and is not used.
    """
    points, d, stride, wide = sources.points, len(sources.axes), sources.points.shape[1], queries.points.shape[1]
    x, y, z = load(queries.points, i), load(queries.points, wide + i), load(queries.points, (d - 1) * wide + i)
    total, one, other, third = load(sums, 0), load(sums, WIDTH), load(sums, 2 * WIDTH), load(sums, d * WIDTH)
    g, log2_masses = splat(g), sources.log2_masses
    for k in range(0, len(heard), 2):
        j = np.int64(heard[k])
        # An odd last source is its own partner, with the least weight there is, 2^-1000: no total notices it.
        j1, other_mass = j, -np.inf
        if k + 1 < len(heard):
            j1 = np.int64(heard[k + 1])
            other_mass = log2_masses[j1]
        a, b, c = spread(points, j), spread(points, stride + j), spread(points, (d - 1) * stride + j)
        a1, b1, c1 = spread(points, j1), spread(points, stride + j1), spread(points, (d - 1) * stride + j1)
        s, s1 = muladd(y, b, x * a), muladd(y, b1, x * a1)
        if d == 3:
            s, s1 = muladd(z, c, s), muladd(z, c1, s1)
        if lanes_above(s, least) | lanes_above(s1, least):
            w = exp2_short(muladd(g, s - shift, splat(log2_masses[j] - mass)))
            total, one, other, third = total + w, muladd(w, a, one), muladd(w, b, other), muladd(w, c, third)
            w = exp2_short(muladd(g, s1 - shift, splat(other_mass - mass)))
            total, one, other, third = total + w, muladd(w, a1, one), muladd(w, b1, other), muladd(w, c1, third)
    store(sums, 0, total)
    store(sums, WIDTH, one)
    store(sums, 2 * WIDTH, other)
    store(sums, d * WIDTH, third)


@internal
def add_pairs(sources, queries, values, g, heard, i, shift, least, mass, room):
    """Add the sources in any dimension, with any values, but those below the scores `least` of all eight queries."""
    points, d, wide = sources.points, len(sources.axes), queries.points.shape[1]
    stride, g, mass = points.shape[1], splat(g), splat(mass)
    for first in range(0, len(heard), BLOCK):
        count, total = 0, load(room.sums, 0)
        for j in heard[first : first + BLOCK]:
            s = splat(0.0)
            for a in range(d):
                s = muladd(load(queries.points, a * wide + i), spread(points, a * stride + j), s)
            if lanes_above(s, least):
                w = exp2_short(muladd(g, s - shift, spread(sources.log2_masses, j) - mass))
                total = total + w
                store(room.field, count * WIDTH, w)
                room.own[count] = j
                count += 1
        store(room.sums, 0, total)
        for f in range(len(values)):
            s = load(room.sums, (1 + f) * WIDTH)
            for r in range(count):
                s = muladd(load(room.field, r * WIDTH), spread(values, f * values.shape[1] + room.own[r]), s)
            store(room.sums, (1 + f) * WIDTH, s)


@internal
def highest(sources, queries, heard, i):
    """Return the largest scores of the eight queries from i on."""
    points, d, wide = sources.points, len(sources.axes), queries.points.shape[1]
    stride = points.shape[1]
    highest = splat(-np.inf)
    for j in heard:
        s = splat(0.0)
        for a in range(d):
            s = muladd(load(queries.points, a * wide + i), spread(points, a * stride + j), s)
        highest = maximum(highest, s)
    return highest


@internal
def log2_mass(sources, heard):
    """Bound the binary logarithm of the mass of some sources from above; it is -inf if there are none."""
    most = -np.inf
    for j in heard:
        most = max(most, sources.log2_masses[j])
    return min(most + math.log2(max(1, len(heard))), sources.boxes[0, -1])


@internal
def least_heard(queries, d, i, tangents, known):
    """Return below which score each of the eight queries from i on may leave out sources, by the `known` tangents.

    As log Z is convex, log Z(q) >= L(q) = log Z(p) + g <q - p, m>, with the mean m of the keys that p hears. A source
    is left out where e^{g <q, s>} is too small a part of e^{L(q)}. A tangent is m, and the score added to <q, m>.
    """
    wide, least = queries.points.shape[1], splat(-np.inf)
    for k in range(known):
        s = spread(tangents, d * WIDTH + k)
        for a in range(d):
            s = muladd(spread(tangents, a * WIDTH + k), load(queries.points, a * wide + i), s)
        least = maximum(least, s)
    return least


@internal
def evaluate(sources, queries, values, itself, given, calm, A, first, last, mine, heard, room, results):
    """Fill the means and logarithms of some queries of A; return the worst bound of their errors.

    The `results` are arrays of both, and one that says what to add to means, and their least and their largest values.
    Exponents of sources are relative to the leader, if `calm`; else to the largest score of each query.
    """
    mean, log_total, box = results
    g, d, stride, worst = given[0], len(sources.axes), queries.points.shape[1], 0.0
    v, mass = mine.leader, mine.leader[-1]
    # Tangents of the eight queries before, which are in A too. The first queries have that of the leader, and so have
    # all of them if the values are not the keys.
    tangents, known, unsure = room.tangents, 1, given[1]
    faint = (FAINTER if len(mine.nodes) else FAINTER_ALONE) - given[1] - log2_mass(sources, heard)
    for a in range(d):
        tangents[a * WIDTH] = v[a]
        unsure += UNSURE * g * given[2] * (queries.boxes[A, d + a] - queries.boxes[A, a])
    tangents[d * WIDTH] = (mass + faint) / g
    any_few, any_many = False, False
    for p in mine.orders:
        any_few, any_many = any_few or p == FEW, any_many or p == MANY
    for i in range(first, last, WIDTH):
        shift = splat(0.0)
        for a in range(d):
            x = load(queries.points, a * stride + i)
            shift = muladd(splat(v[a]), x, shift)
            inverse = splat(1.0 / queries.cells[A, d + a])
            u = (x - splat(queries.cells[A, a])) * inverse
            if any_many:
                lagrange(u, inverse, MANY, room.values, room.slopes, a * MANY * WIDTH, room.products)
            if any_few:
                lagrange(u, inverse, FEW, room.values, room.slopes, FEWER + a * FEW * WIDTH, room.products)
        if not calm:
            shift = highest(sources, queries, heard, i)
        for f in range(1 + len(values)):
            store(room.sums, f * WIDTH, splat(0.0))
        least = least_heard(queries, d, i, tangents, known) if calm else splat(-np.inf)
        if itself and d <= 3:
            add_pairs_of_keys(sources, queries, g, heard, i, shift, least, mass, room.sums)
        else:
            add_pairs(sources, queries, values, g, heard, i, shift, least, mass, room)
        if len(mine.nodes):
            _add_expansions(sources, queries, 1 if itself else 1 + len(values), given, A, i, v, mass, mine, room)
        inverse = splat(1.0) / load(room.sums, 0)
        store(room.bound, 0, inverse * load(room.bound, 0))
        score = splat(0.0)
        for f in range(1, 1 + len(values)):
            m = inverse * load(room.sums, f * WIDTH)
            store(room.sums, f * WIDTH, m)
            if itself:
                score = muladd(m, load(queries.points, (f - 1) * stride + i), score)
        store(room.field, 0, muladd(splat(g), shift, splat(mass) + log2(load(room.sums, 0))))
        store(room.field, WIDTH, score)
        for k in range(min(WIDTH, last - i)):
            row = queries.order[i + k]
            for f in range(len(values)):
                m = room.sums[(1 + f) * WIDTH + k] + box[0, f]
                # What is no number stays so.
                mean[row, f] = box[1, f] if m < box[1, f] else box[2, f] if m > box[2, f] else m
            total = room.field[k]
            log_total[row] = total / LOG2E
            if itself:
                for a in range(d):
                    tangents[a * WIDTH + k] = room.sums[(1 + a) * WIDTH + k]
                tangents[d * WIDTH + k] = (total + faint - unsure) / g - room.field[WIDTH + k]
                known = k + 1
            if len(mine.nodes):
                # The total is at least 1 of the lower bound; one that is not, or no number, came from expansions.
                worst = max(worst, room.bound[k]) if room.sums[k] > 0.5 and room.bound[k] >= 0.0 else np.inf
    return worst
