"""Softmax sums of many small systems, eight at a time.

Eight systems of n tokens lie side by side in an array (d, 8 n), token i of system l in column 8 i + l: a vector holds
one token of each, and no lane ever sees another. Without a form the weight e^(g <x_i, x_j>) is that of j for i and
that of i for j, so each unordered pair is computed once.
"""

# mypy: ignore-errors

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attnflow.core.inputs import Array
from attnflow.engines import LARGEST_GAIN
from attnflow.engines.kernels import LOG2E, UNSHIFTED, apply, compiled, inlined, internal
from attnflow.engines.simd import WIDTH, exp2, exp2_within, load, maximum, muladd, splat, spread, store


class Rule(NamedTuple):
    """What all systems share: scores g <F x_i, x_j>, F empty for I; masses, the largest one 1; M; which motion it is.

    USA is `unnormalized`: it multiplies by Z_i and divides by the total mass.
    """

    form: Array
    masses: Array
    log2_masses: Array
    matrix: Array
    centred: bool
    sphere: bool
    unnormalized: bool


class Room(NamedTuple):
    """Gains of eight systems, as signs and binary sizes, and where their sums are worked on.

    After `hear`, `total` holds Z_i. The caller may use `place`, and between sums also `row`.
    """

    signs: Array
    sizes: Array
    within: Array
    spare: Array
    other: Array
    mean: Array
    place: Array
    total: Array
    row: Array


@compiled
def room_for(n, d):
    """Return room for eight systems of n tokens."""
    lanes, clouds, rows = np.zeros((4, WIDTH)), np.zeros((3, d, WIDTH * n)), np.zeros((2, WIDTH * n))
    return Room(lanes[0], lanes[1], lanes[2], lanes[3], clouds[0], clouds[1], clouds[2], rows[0], rows[1])


@internal
def take_gains(gains, first, room):
    """Take the gains of eight systems from the first on; places beyond the last system get its gain."""
    for lane in range(WIDTH):
        gain = gains[min(first + lane, len(gains) - 1)]
        room.signs[lane] = math.copysign(1.0, gain)
        room.sizes[lane] = min(abs(gain) * LOG2E, LARGEST_GAIN)


@internal
def _score(queries, i, keys, j):
    m = keys.shape[1]
    s = load(queries, i) * load(keys, j)
    for k in range(m, keys.size, m):
        s = muladd(load(queries, k + i), load(keys, k + j), s)
    return s


@inlined
def _count_within(x, room):
    """Note in which systems all binary exponents are within `UNSHIFTED` of 0 if F = I; return how many they are."""
    largest = splat(0.0)
    for i in range(0, x.shape[1], WIDTH):
        largest = maximum(largest, _score(x, i, x, i))
    store(room.within, 0, load(room.sizes, 0) * largest)
    count = 0
    for lane in range(WIDTH):
        inside = room.within[lane] <= UNSHIFTED
        room.within[lane] = inside
        count += inside
    return count


@internal
def _weighed(x, masses, room):
    """Fill room.other with w_j x_j, and the sums with zeros."""
    m = x.shape[1]
    for j in range(0, m, WIDTH):
        store(room.total, j, splat(0.0))
        for k in range(j, x.size, m):
            store(room.other, k, spread(masses, j // WIDTH) * load(x, k))
            store(room.mean, k, splat(0.0))


@inlined
def _each_pair_plane(x, masses, room):
    """Means and totals of systems in the plane where F = I, unshifted: nonsense where exponents are large.

    Each row gets its terms in order, those before the diagonal while earlier rows are summed.
    """
    m, values, mean, total = x.shape[1], room.other, room.mean, room.total
    _weighed(x, masses, room)
    gain = load(room.signs, 0) * load(room.sizes, 0)
    for i in range(0, m, WIDTH):
        q0, q1 = gain * load(x, i), gain * load(x, m + i)
        w, v0, v1 = spread(masses, i // WIDTH), load(values, i), load(values, m + i)
        e = exp2_within(muladd(q1, load(x, m + i), q0 * load(x, i)))
        z, s0, s1 = muladd(e, w, load(total, i)), muladd(e, v0, load(mean, i)), muladd(e, v1, load(mean, m + i))
        for j in range(i + WIDTH, m, WIDTH):
            e = exp2_within(muladd(q1, load(x, m + j), q0 * load(x, j)))
            z = muladd(e, spread(masses, j // WIDTH), z)
            s0 = muladd(e, load(values, j), s0)
            s1 = muladd(e, load(values, m + j), s1)
            store(total, j, muladd(e, w, load(total, j)))
            store(mean, j, muladd(e, v0, load(mean, j)))
            store(mean, m + j, muladd(e, v1, load(mean, m + j)))
        share = splat(1.0) / z
        store(total, i, z)
        store(mean, i, share * s0)
        store(mean, m + i, share * s1)


@inlined
def _each_pair(x, masses, room):
    """The same in any dimension: the weights of a row, then coordinate by coordinate."""
    m, values, mean, total, row = x.shape[1], room.other, room.mean, room.total, room.row
    _weighed(x, masses, room)
    gain = load(room.signs, 0) * load(room.sizes, 0)
    for i in range(0, m, WIDTH):
        w, z = spread(masses, i // WIDTH), load(total, i)
        for j in range(i, m, WIDTH):
            e = exp2_within(gain * _score(x, i, x, j))
            z = muladd(e, spread(masses, j // WIDTH), z)
            store(total, j, muladd(e, w, load(total, j)))
            store(row, j, e)
        share = splat(1.0) / z
        store(total, i, z)
        for k in range(0, x.size, m):
            value = load(values, k + i)
            s = muladd(load(row, i), value, load(mean, k + i))
            for j in range(i + WIDTH, m, WIDTH):
                e = load(row, j)
                s = muladd(e, load(values, k + j), s)
                store(mean, k + j, muladd(e, value, load(mean, k + j)))
            store(mean, k + i, share * s)


@internal
def _put(value, room, result, i):
    """Store a vector from element i on, except in the lanes of systems that are within."""
    store(room.spare, 0, value)
    for lane in range(WIDTH):
        if not room.within[lane]:
            result[i + lane] = room.spare[lane]


@internal
def _each_row(queries, x, rule, room):
    """Means and totals of the systems that are not within, row by row: any form, exponents shifted by the top score."""
    d, m = x.shape
    size, row = load(room.sizes, 0), room.row
    for i in range(0, m, WIDTH):
        top = _score(queries, i, x, 0)
        for j in range(0, m, WIDTH):
            s = _score(queries, i, x, j)
            top = maximum(top, s)
            store(row, j, s)
        z = splat(0.0)
        for j in range(0, m, WIDTH):
            e = exp2(muladd(size, load(row, j) - top, spread(rule.log2_masses, j // WIDTH)))
            z = z + e
            store(row, j, e)
        for k in range(d):
            s = splat(0.0)
            for j in range(0, m, WIDTH):
                s = muladd(load(row, j), load(x, k * m + j), s)
            _put(s / z, room, room.mean[k], i)
        if rule.unnormalized:
            store(room.spare, 0, size * top)
            for lane in range(WIDTH):
                room.spare[lane] = 2.0 ** room.spare[lane]
            _put(z * load(room.spare, 0), room, room.total, i)


@internal
def hear(x, rule, room, result):
    """Fill the result with M m, or M (m - x) if centred; and room.total with Z_i if the motion is unnormalized."""
    count = 0
    if len(rule.form) == 0:
        count = _count_within(x, room)
    else:
        room.within[:] = 0.0
    if count > 0 and len(x) == 2:
        _each_pair_plane(x, rule.masses, room)
    elif count > 0:
        _each_pair(x, rule.masses, room)
    if count < WIDTH:
        queries = room.other
        if len(rule.form):
            apply(rule.form, x, queries)
        for a in range(0, x.size, WIDTH):
            store(queries, a, load(room.signs, 0) * load(queries if len(rule.form) else x, a))
        _each_row(queries, x, rule, room)
    mean = room.mean
    if rule.centred:
        for a in range(0, x.size, WIDTH):
            store(mean, a, load(mean, a) - load(x, a))
    apply(rule.matrix, mean, result)
