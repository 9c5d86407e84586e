# mypy: ignore-errors
"""Points in a binary trie of dyadic cells: the boxes of sources and of queries in the tree engine.

A cube around the points is halved along one axis after the other; a point's code says on which side of each cut it
lies. Points are sorted by code, and each node of the trie holds those that agree in the first bits. Nodes are in
preorder: the left child of a node is the next one. Nodes that would have one child are left out.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np

from attnflow.core.inputs import Array
from attnflow.engines.centring import ends
from attnflow.engines.kernels import compiled, in_parallel, internal
from attnflow.engines.simd import WIDTH

# Points of a leaf at most; bits of a code, of an axis, and of a digit when codes are sorted; bits spread at once.
LEAF, CODE_BITS, AXIS_BITS, DIGIT, SPREAD = 16, 63, 21, 11, 7
PIECES = 16
# Columns of nodes: first point, last point, right child or -1, end of the subtree.
FIRST, LAST, RIGHT, END = 0, 1, 2, 3


class Trie(NamedTuple):
    """Of each node: its points, its box (d least, d greatest coordinates, centroid, log2 of the mass), and its cell.

    Of a cell the centre and the half-widths are kept. `points` (d, n) and their masses are in the order of their codes.
    `axes` is 0, ..., d - 1: a tuple in the plane and in space, so that kernels are compiled for that d.
    """

    nodes: Array
    boxes: Array
    cells: Array
    points: Array
    log2_masses: Array
    order: Array
    axes: Any


@internal
def _place(x, low, per_unit, bits):
    """Return the number of the finest cell that holds a coordinate, with this number of cells per length."""
    return min(max(int((x - low) * per_unit), 0), (1 << bits) - 1)


@in_parallel
def _codes(rows, low, unit, bits, spread):
    n, d = rows.shape
    code, per_unit = np.empty(n, np.uint64), 1.0 / unit
    for piece in numba.prange(PIECES):
        for i in range(piece * n // PIECES, (piece + 1) * n // PIECES):
            c = np.uint64(0)
            for a in range(d):
                place = _place(rows[i, a], low[a], per_unit, bits)
                for k in range(0, bits, SPREAD):
                    digits = spread[place >> k & ((1 << SPREAD) - 1)]
                    c |= digits << np.uint64(k * d + d - 1 - a)
            code[i] = c
    return code


@compiled
def _sorted(code, bits):
    """Sort by the digits of the code, the last one first; return the codes and where they come from."""
    n = len(code)
    order, other_code, other = np.arange(n).astype(np.int32), np.empty_like(code), np.empty(n, np.int32)
    mask, start = np.uint64((1 << DIGIT) - 1), np.empty(1 << DIGIT, np.int64)
    for low in range(0, bits, DIGIT):
        shift = np.uint64(low)
        start[:] = 0
        for i in range(n):
            start[(code[i] >> shift) & mask] += 1
        total = 0
        for k in range(1 << DIGIT):
            total += start[k]
            start[k] = total - start[k]
        for i in range(n):
            k = (code[i] >> shift) & mask
            other_code[start[k]], other[start[k]] = code[i], order[i]
            start[k] += 1
        code, other_code, order, other = other_code, code, other, order
    return code, order


@compiled
def _nodes(code):
    """Return the nodes, and of each the highest bit in which its codes differ, -1 if they are equal."""
    n = len(code)
    nodes, bits = np.empty((2 * n, 4), np.int32), np.empty(2 * n, np.int8)
    waiting = np.empty((4096, 3), np.int64)
    waiting[0, 0], waiting[0, 1], waiting[0, 2] = 0, n, -1
    top, count = 1, 0
    while top:
        top -= 1
        first, last, parent = waiting[top, 0], waiting[top, 1], waiting[top, 2]
        if parent >= 0:
            nodes[parent, RIGHT] = count
        nodes[count, FIRST], nodes[count, LAST], nodes[count, RIGHT] = first, last, -1
        differ, highest = code[first] ^ code[last - 1], -1
        while differ:
            differ >>= np.uint64(1)
            highest += 1
        bits[count] = highest
        if last - first > LEAF:
            # Equal codes are cut anywhere; others where the highest bit changes.
            cut, end = ((first + last) // 2, 0) if highest < 0 else (first, last - 1)
            while cut < end:
                middle = (cut + end) // 2
                if code[middle] >> np.uint64(highest) & np.uint64(1):
                    end = middle
                else:
                    cut = middle + 1
            waiting[top, 0], waiting[top, 1], waiting[top, 2] = cut, last, count
            waiting[top + 1, 0], waiting[top + 1, 1], waiting[top + 1, 2] = first, cut, -1
            top += 2
        count += 1
    for v in range(count - 1, -1, -1):
        nodes[v, END] = v + 1 if nodes[v, RIGHT] < 0 else nodes[nodes[v, RIGHT], END]
    return nodes[:count], bits[:count]


@internal
def _gather(rows, given, order, points, log2_masses, first, last):
    """Write some of the points, and their masses, in their order: a loop that only fetches waits least for memory."""
    for a in range(len(points)):
        for j in range(first, last):
            points[a, j] = rows[order[j], a]
    for j in range(first, last if len(given) else first):
        log2_masses[j] = given[order[j]]


@internal
def _fill(weighted, low, unit, axis_bits, bits, nodes, boxes, cells, points, log2_masses, begin, end):
    """Fill the cells of some nodes, and the boxes of leaves among them."""
    d, per_unit = len(points), 1.0 / unit
    for v in range(begin, end):
        first, last = nodes[v, FIRST], nodes[v, LAST]
        for a in range(d):
            free = (bits[v] - (d - 1 - a)) // d + 1
            half = 0.5 * unit * (1 << free)
            place = _place(points[a, first], low[a], per_unit, axis_bits) >> free << free
            cells[v, d + a], cells[v, a] = half, low[a] + unit * place + half
        if nodes[v, RIGHT] >= 0:
            continue
        heaviest, total = 0.0, float(last - first)
        if weighted:
            heaviest, total = -np.inf, 0.0
            for j in range(first, last):
                heaviest = max(heaviest, log2_masses[j])
            for j in range(first, last):
                total += 2.0 ** (log2_masses[j] - heaviest)
        for a in range(d):
            least, most, moment = np.inf, -np.inf, 0.0
            for j in range(first, last):
                x = points[a, j]
                least, most = min(least, x), max(most, x)
                moment += x * (2.0 ** (log2_masses[j] - heaviest) / total if weighted else 1.0 / total)
            boxes[v, a], boxes[v, d + a], boxes[v, 2 * d + a] = least, most, min(max(moment, least), most)
        boxes[v, 3 * d] = heaviest + math.log2(total)


@in_parallel
def _arrange(rows, given, low, unit, axis_bits, bits, trie):
    """Fill the cells, the points in their order, and the boxes of leaves."""
    nodes, boxes, cells, points, log2_masses, order, _ = trie
    n, count = len(order), len(nodes)
    for piece in numba.prange(PIECES):
        _gather(rows, given, order, points, log2_masses, piece * n // PIECES, (piece + 1) * n // PIECES)
    for piece in numba.prange(PIECES):
        begin, end = piece * count // PIECES, (piece + 1) * count // PIECES
        _fill(len(given) > 0, low, unit, axis_bits, bits, nodes, boxes, cells, points, log2_masses, begin, end)


@compiled
def _join(nodes, boxes):
    """Fill the boxes of all nodes from those of the leaves."""
    d = boxes.shape[1] // 3
    for v in range(len(nodes) - 1, -1, -1):
        if nodes[v, RIGHT] >= 0:
            left, right = boxes[v + 1], boxes[nodes[v, RIGHT]]
            heavier = max(left[3 * d], right[3 * d])
            one, other = 2.0 ** (left[3 * d] - heavier), 2.0 ** (right[3 * d] - heavier)
            for a in range(d):
                boxes[v, a], boxes[v, d + a] = min(left[a], right[a]), max(left[d + a], right[d + a])
                share = other / (one + other)
                boxes[v, 2 * d + a] = left[2 * d + a] + share * (right[2 * d + a] - left[2 * d + a])
            boxes[v, 3 * d] = heavier + math.log2(one + other)


@cache
def _spread(d: int) -> Array:
    """Return numbers of SPREAD bits with d - 1 zeros between each two of them."""
    bits = range(min(SPREAD, CODE_BITS // d))
    return np.array([sum((v >> k & 1) << (k * d) for k in bits) for v in range(1 << SPREAD)], dtype=np.uint64)


def ordered(rows: Array) -> Array:
    """Return the order of points in which neighbours in a trie follow each other."""
    rows = np.require(rows, np.float64, ["C", "W"])
    low, high = ends(rows)
    bits, unit = _finest(rows.shape[1], max(float((high - low).max()), 1e-300) * (1 + 1e-9))
    order: Array = _in_order(rows, low, unit, bits)[1]
    return order


def _finest(d: int, size: float) -> tuple[int, float]:
    """Return how many bits of a code an axis of d has, and the edge of the finest cells of a cube with this edge."""
    bits = min(AXIS_BITS, CODE_BITS // d)
    return bits, size / 2**bits


def _in_order(rows: Array, low: Array, unit: float, bits: int) -> Any:
    """Return the codes of points, sorted, and where they come from."""
    d = rows.shape[1]
    return _sorted(_codes(rows, low, unit, bits, _spread(d)), bits * d)


def trie(rows: Array, log2_masses: Array, low: Array, half: float) -> Trie:
    """Return the trie of points in the cube with this corner and half-width; an empty array stands for equal masses."""
    n, d = rows.shape
    bits, unit = _finest(d, 2 * half)
    code, order = _in_order(rows, low, unit, bits)
    nodes, node_bits = _nodes(code)
    boxes, cells = np.empty((len(nodes), 3 * d + 1)), np.empty((len(nodes), 2 * d))
    axes = tuple(range(d)) if d <= 3 else np.arange(d)
    # Kernels read whole vectors, beyond the last point too.
    made = Trie(nodes, boxes, cells, np.zeros((d, n + 2 * WIDTH)), np.zeros(n + 2 * WIDTH), order, axes)
    _arrange(rows, log2_masses, low, unit, bits, node_bits, made)
    _join(nodes, boxes)
    return made
