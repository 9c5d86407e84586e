# mypy: ignore-errors
"""From the box of all queries down to those that are evaluated: one box after the other, each from its parent's lists.

The entrance to compiled code, `walk`, holds no lock: threads may do different boxes at once. Each box is computed in
the same way whichever thread does it, and whenever.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnflow.core.inputs import Array
from attnflow.engines.kernels import compiled
from attnflow.engines.simd import WIDTH
from attnflow.engines.tree_evaluation import BLOCK, evaluate, tail
from attnflow.engines.tree_expansions import AT_ONCE, PARTS, bases, expand
from attnflow.engines.tree_lists import END_HERE, HALVE, KNOWN, LONGEST, MANY, halves, leader, sift, visit
from attnflow.engines.tree_trie import FIRST, LAST, RIGHT, maker, part

STEP, DESCEND, ANSWER = 0, 1, KNOWN
# Queries evaluated in one go.
TOGETHER = 1024
# A box whose bound of the error, of the size of the keys, is larger is done again.
LIMIT = 5e-11


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
    tails: Array
    tangents: Array
    heard: Array
    orders: Array
    leaves: Array
    tokens: Array
    own: Array


def room(d: int, columns: int, sources: int, exponentials: Array) -> Room:
    """Return memory for these numbers of coordinates, columns of values and sources."""
    size, more = MANY**d if d <= 3 else 0, WIDTH * (4 + BLOCK)
    numbers = [(1 + columns) * size, size, size, max(AT_ONCE * MANY, size), AT_ONCE * MANY, AT_ONCE, 3 * AT_ONCE]
    numbers += [12 * MANY * MANY, 6 * MANY * WIDTH, 6 * MANY * WIDTH, 2 * MANY * WIDTH, columns * WIDTH, 0, 0, LONGEST]
    numbers.append(d * WIDTH)
    counts = [LONGEST, LONGEST, sources, sources, BLOCK]
    return Room(
        exponentials,
        np.empty(4 * PARTS, np.int64),
        np.empty((PARTS, 2), np.int64),
        np.empty(PARTS),
        *(np.empty(count + more) for count in numbers),
        *(np.empty(count + WIDTH, np.int32) for count in counts),
    )


@maker
def _step(sources, queries, values, itself, given, A, P, above, ends, room):
    """Return the expansions of the box A, whose parent P has those `above`, and whether it is to be halved.

    Return also the number of leaves listed in the room, and the top exponent. A box that `ends` is never halved.
    """
    d, g = len(sources.axes), given[0]
    own = above.leader.copy()
    best = own[2 * d]
    for a in range(d):
        best += 0.5 * g * (queries.boxes[A, a] + queries.boxes[A, d + a]) * own[a]
    mass = leader(sources, queries, g, A, own, best, room.stack)
    if not np.isnan(mass):
        own[2 * d] = mass
    aim, goes = END_HERE, False
    while True:
        count, raw, tokens, top, possible = visit(sources, queries, given, A, own, own[2 * d], aim, above.nodes, room)
        if aim == END_HERE and queries.nodes[A, RIGHT] >= 0 and not ends:
            goes = halves(queries.nodes[A, LAST] - queries.nodes[A, FIRST], room.orders[:count], tokens, given[4])
        if aim == HALVE or not goes or not possible:
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
    return mine, goes, raw, top


@part
def _answer(sources, queries, values, itself, given, A, mine, first, last, raw, top, room, mean, log_total):
    """Evaluate the queries from first to last of A, which hears its expansions and the `raw` leaves in the room.

    Say whether no expansion overflowed and the bound of the errors is within the `LIMIT`.
    """
    v = mine.leader
    heard = room.tokens[: sift(sources, queries, given, A, v, room.leaves[:raw], room.tokens)]
    calm = top < given[5]
    if not calm and len(mine.nodes):
        return False
    for e in range(len(mine.nodes)):
        room.tails[e] = tail(sources, queries, given, A, mine, e, room)
    bound = evaluate(sources, queries, values, itself, given, calm, A, first, last, mine, heard, room, mean, log_total)
    return bound <= LIMIT


@maker
def _settle(sources, queries, values, itself, given, A, P, above, mine, first, last, raw, top, room, mean, log_total):
    """Evaluate some queries of A with expansions on smaller cells, or with none, until the bound is kept.

    Return how often it was not.
    """
    g, slack, size, widest, cost, calm = given
    for doubts in range(3):
        if _answer(sources, queries, values, itself, given, A, mine, first, last, raw, top, room, mean, log_total):
            break
        stricter = g, slack, size, 0.5 * widest if doubts == 0 else 0.0, cost, calm
        mine, _, raw, top = _step(sources, queries, values, itself, stricter, A, P, above, doubts >= 0, room)
    return doubts


@compiled
def walk(sources, queries, values, itself, given, aim, A, P, above, first, last, room, mean, log_total):
    """Do one `STEP`, to the box A whose parent P has the expansions `above`; or `DESCEND` to all boxes in A.

    Or `ANSWER` the queries from first to last of A, whose own expansions are `above`. Return the expansions of A and
    whether it is to be halved, after a step, and how many boxes were done again.
    """
    doubts = 0
    mine, goes, lists, waiting = above, False, [above], [(A, P, 0)]
    while len(waiting):
        A, P, depth = waiting.pop()
        while len(lists) > depth + 1:
            lists.pop()
        if aim != ANSWER:
            # False, but not as a literal, for which Numba would compile the callee once more.
            ends = aim == ANSWER
            mine, goes, raw, top = _step(sources, queries, values, itself, given, A, P, lists[depth], ends, room)
            first, last = queries.nodes[A, FIRST], queries.nodes[A, LAST]
        if aim == STEP:
            break
        if goes:
            lists.append(mine)
            waiting.append((queries.nodes[A, RIGHT], A, depth + 1))
            waiting.append((A + 1, A, depth + 1))
            continue
        known = lists[depth]
        for begin in range(first, last, TOGETHER):
            if aim == ANSWER or last - first > TOGETHER:
                _, raw, _, top, _ = visit(
                    sources, queries, given, A, mine.leader, mine.leader[-1], KNOWN, mine.nodes, room
                )
            end = min(begin + TOGETHER, last)
            doubts += _settle(
                sources, queries, values, itself, given, A, P, known, mine, begin, end, raw, top, room, mean, log_total
            )
    return mine, goes, doubts
