# mypy: ignore-errors
"""From the box of all queries down to those that are evaluated: one box after the other, each from its parent's lists.

Three entrances to compiled code: `step` does one box, `walk` all boxes below one, and `answer` evaluates some queries of
a box. They hold no lock, so that threads may do different boxes at once. Each box is computed in the same way whichever
thread does it, and whenever.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnflow.core.inputs import Array
from attnflow.engines.kernels import compiled
from attnflow.engines.simd import WIDTH
from attnflow.engines.tree_evaluation import BLOCK, evaluate, evaluate_one
from attnflow.engines.tree_expansions import PARTS, TOGETHER, bases, expand
from attnflow.engines.tree_lists import END_HERE, HALVE, KNOWN, LONGEST, MANY, halves, leader, sift, visit
from attnflow.engines.tree_trie import FIRST, LAST, RIGHT, part

# Binary exponents up to this size do not overflow.
CALM = 900.0
# A box whose bound of the error, of the size of the keys, is larger is summed directly.
LIMIT = 8e-11


class Expansions(NamedTuple):
    """Of a box of queries: its expansions (node of the sources, number p of Chebyshev nodes, level L, place of values).

    `data` holds their values, and `leader` v and log2 W of the lower bound W e^{g <q, v>}.
    """

    nodes: Array
    orders: Array
    levels: Array
    places: Array
    data: Array
    leader: Array


class Room(NamedTuple):
    """Memory that one thread uses for one thing after the other."""

    exponentials: Array
    stack: Array
    parts: Array
    part_levels: Array
    moments: Array
    one: Array
    other: Array
    left: Array
    right: Array
    weights: Array
    places: Array
    bases: Array
    values: Array
    slopes: Array
    products: Array
    sums: Array
    field: Array
    bound: Array
    heard: Array
    orders: Array
    leaves: Array
    tokens: Array


def room(d: int, columns: int, sources: int, exponentials: Array) -> Room:
    """Return memory for these numbers of coordinates, columns of values and sources."""
    size, more = MANY**d if d <= 3 else 0, WIDTH * (4 + BLOCK)
    numbers = [(1 + columns) * size, size, size, max(TOGETHER * MANY, size), TOGETHER * MANY, TOGETHER, 3 * TOGETHER]
    numbers += [12 * MANY * MANY, 6 * MANY * WIDTH, 6 * MANY * WIDTH, 2 * MANY * WIDTH, columns * WIDTH, 0, 0]
    counts = [LONGEST, LONGEST, sources, sources]
    return Room(
        exponentials,
        np.empty(4 * PARTS, np.int64),
        np.empty((PARTS, 2), np.int64),
        np.empty(PARTS),
        *(np.empty(count + more) for count in numbers),
        *(np.empty(count + WIDTH, np.int32) for count in counts),
    )


@part
def _step(sources, queries, values, itself, given, A, P, above, room):
    """Return the expansions of the box A, whose parent P has those `above`, and whether it is to be halved."""
    d, g = len(sources.points), given[0]
    own = np.empty(2 * d + 1)
    own[: 2 * d], own[2 * d] = above.leader[: 2 * d], above.leader[2 * d]
    best = own[2 * d]
    for a in range(d):
        best += 0.5 * g * (queries.boxes[A, a] + queries.boxes[A, d + a]) * own[a]
    mass = leader(sources, queries, g, A, own, best, room.stack)
    if not np.isnan(mass):
        own[2 * d] = mass
    aim, goes = END_HERE, False
    while True:
        count, _, tokens, _ = visit(
            sources, queries, given, A, own, own[2 * d], aim, above.nodes, room.heard, room.orders, room.leaves,
            room.stack,
        )  # fmt: skip
        if aim == END_HERE and queries.nodes[A, RIGHT] >= 0:
            goes = halves(queries.nodes[A, LAST] - queries.nodes[A, FIRST], room.orders[:count], tokens, given[4])
        if aim == HALVE or not goes:
            break
        aim = HALVE
    fields = values[:0] if itself else values
    places, total = np.empty(count, np.int64), 0
    for e in range(count):
        places[e] = total
        total += room.orders[e] ** d * (1 + len(fields))
    mine = Expansions(
        room.heard[:count].copy(), room.orders[:count].copy(), np.empty(count), places, np.empty(total + WIDTH), own
    )
    if count:
        bases(queries.cells, P, A, d, room)
    for e in range(count):
        mine.levels[e] = expand(sources, queries, fields, given, above, A, P, mine, e, room)
    return mine, goes


@part
def _answer(sources, queries, values, itself, given, A, mine, first, last, room, mean, log_total):
    """Evaluate the queries from first to last of the box A."""
    g, slack, size, expands, cost = given
    v, mass, worst = mine.leader, mine.leader[-1], 0.0
    while True:
        count = len(mine.nodes) if expands else 0
        known = Expansions(
            mine.nodes[:count], mine.orders[:count], mine.levels, mine.places, mine.data, mine.leader
        )
        now = g, slack, size, expands, cost
        _, raw, _, top = visit(
            sources, queries, now, A, v, mass, KNOWN, known.nodes, room.heard, room.orders, room.leaves, room.stack
        )
        heard = room.tokens[: sift(sources, queries, given, A, v, mass, room.leaves[:raw], room.tokens, room.field)]
        if top < CALM:
            bound = evaluate(
                sources, queries, values, itself, given, A, first, last, v, mass, known, heard, room, mean, log_total
            )
            worst = max(worst, bound)
            if bound <= LIMIT:
                return worst
        elif not expands:
            for i in range(first, last):
                evaluate_one(sources, queries, values, g, i, heard, mean, log_total)
            return worst
        expands = False


@compiled
def step(sources, queries, values, itself, given, A, P, above, room):
    """Return the expansions of one box, and whether it is to be halved."""
    return _step(sources, queries, values, itself, given, A, P, above, room)


@compiled
def answer(sources, queries, values, itself, given, A, mine, first, last, room, mean, log_total):
    """Evaluate some queries of one box."""
    return _answer(sources, queries, values, itself, given, A, mine, first, last, room, mean, log_total)


@compiled
def walk(sources, queries, values, itself, given, A, P, above, room, mean, log_total):
    """Evaluate all queries of the box A: its halves are walked first, each with its lists at hand."""
    worst = 0.0
    lists, waiting = [above], [(A, P, 0)]
    while len(waiting):
        A, P, depth = waiting.pop()
        while len(lists) > depth + 1:
            lists.pop()
        mine, goes = _step(sources, queries, values, itself, given, A, P, lists[depth], room)
        if goes:
            lists.append(mine)
            waiting.append((queries.nodes[A, RIGHT], A, depth + 1))
            waiting.append((A + 1, A, depth + 1))
        else:
            first, last = queries.nodes[A, FIRST], queries.nodes[A, LAST]
            bound = _answer(sources, queries, values, itself, given, A, mine, first, last, room, mean, log_total)
            worst = max(worst, bound)
    return worst
