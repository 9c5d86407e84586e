# mypy: ignore-errors
"""From the box of all queries down to those that are evaluated: one box after the other, each from its parent's lists.

The entrance to compiled code, `walk`, holds no lock: threads may do different boxes at once. Each box is computed in
the same way whichever thread does it, and whenever.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from attnflow.core.inputs import Array
from attnflow.engines.kernels import compiled, internal, internal_with_arrays, whole_lines
from attnflow.engines.simd import WIDTH
from attnflow.engines.tree_evaluation import BLOCK, evaluate, tail
from attnflow.engines.tree_expansions import AT_ONCE, PARTS, bases, expand
from attnflow.engines.tree_lists import CHOOSE, END_HERE, HALVE, KNOWN, LONGEST, MANY, leader, sift, visit
from attnflow.engines.tree_trie import FIRST, LAST, RIGHT

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


class Tasks(NamedTuple):
    """Boxes of queries that are left to walk: a row of `boxes` has A, its parent P, and the place i of P's expansions.

    These are the expansions of `sets` from starts[i, 0] on; their values are in `sets.data` from starts[i, 1] on. The
    row ends with 0 and 0 if all of A is left, which may still be halved. It ends with the first query and the one after
    the last, if only these queries of A are left; then A stands in the place of P too.
    """

    boxes: Array
    starts: Array
    sets: Expansions


def joined(parts: list[Tasks]) -> Tasks:
    """Return the tasks that several threads have left."""
    if len(parts) == 1:
        return parts[0]
    places = np.cumsum([0, *(len(part.starts) - 1 for part in parts)])
    ends = np.cumsum([np.zeros(2, np.int64), *(part.starts[-1] for part in parts)], axis=0)
    boxes = [part.boxes + np.array([0, 0, place, 0, 0]) for part, place in zip(parts, places, strict=False)]
    starts = [part.starts[:-1] + end for part, end in zip(parts, ends, strict=False)]
    sets = Expansions(*map(np.concatenate, zip(*(part.sets for part in parts), strict=True)))
    return Tasks(np.concatenate(boxes), np.concatenate([*starts, ends[-1:]]), sets)


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
        *(whole_lines(count + more) for count in numbers),
        *(np.empty(count + WIDTH, np.int32) for count in counts),
    )


@internal_with_arrays
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
    aim, goes = END_HERE if ends or queries.nodes[A, RIGHT] < 0 else CHOOSE, False
    while True:
        count, raw, top, better, possible = visit(sources, queries, given, A, own, own[2 * d], aim, above.nodes, room)
        goes = goes or better
        if aim == HALVE or not (goes and possible):
            break
        aim = HALVE
    fields = values[:0] if itself else values
    places, total = np.empty(count, np.int64), 0
    for e in range(count):
        places[e] = total
        total += room.orders[e] ** d * (1 + len(fields))
    mine = Expansions(
        room.heard[:count].copy(), room.orders[:count].copy(), np.empty(count), places, whole_lines(total + WIDTH), own
    )
    if count:
        bases(queries.cells, P, A, d, room)
    for e in range(count):
        mine.levels[e] = expand(sources, queries, fields, given, above, A, P, mine, e, room)
    return mine, goes, raw, top


@internal
def _answer(sources, queries, values, itself, given, A, mine, first, last, raw, top, room, results):
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
    bound = evaluate(sources, queries, values, itself, given, calm, A, first, last, mine, heard, room, results)
    return bound <= LIMIT


@internal_with_arrays
def _settle(sources, queries, values, itself, given, A, P, above, mine, first, last, raw, top, room, results):
    """Evaluate some queries of A with expansions on smaller cells, or with none, until the bound is kept.

    Return how often it was not.
    """
    g, slack, size, widest, cost, calm = given
    for doubts in range(3):
        if _answer(sources, queries, values, itself, given, A, mine, first, last, raw, top, room, results):
            break
        stricter = g, slack, size, 0.5 * widest if doubts == 0 else 0.0, cost, calm
        mine, _, raw, top = _step(sources, queries, values, itself, stricter, A, P, above, doubts >= 0, room)
    return doubts


@intrinsic
def _taken(typing, counter):
    """Add one to the first number of an array of whole numbers, and return what it was: no two threads get the same."""

    def generate(context, builder, signature, args):
        array = context.make_array(signature.args[0])(context, builder, args[0])
        return builder.atomic_rmw("add", array.data, ir.Constant(ir.IntType(64), 1), "monotonic")

    return types.int64(counter), generate


@internal_with_arrays
def _kept(boxes, lists):
    """Return these boxes as tasks; the expansions of their parents are put one after the other."""
    place, count = np.full(len(lists), -1), 0
    for _, _, i, _, _ in boxes:
        if place[i] < 0:
            place[i], count = count, count + 1
    starts, across = np.zeros((count + 1, 2), np.int64), len(lists[0].leader)
    for i in range(len(lists)):
        if place[i] >= 0:
            starts[place[i] + 1, 0], starts[place[i] + 1, 1] = len(lists[i].nodes), len(lists[i].data)
    for i in range(count):
        starts[i + 1, 0], starts[i + 1, 1] = starts[i, 0] + starts[i + 1, 0], starts[i, 1] + starts[i + 1, 1]
    listed, numbers = starts[-1, 0], starts[-1, 1]
    nodes, orders, leader = np.empty(listed, np.int32), np.empty(listed, np.int32), np.empty(count * across)
    sets = Expansions(nodes, orders, np.empty(listed), np.empty(listed, np.int64), whole_lines(numbers), leader)
    for i in range(len(lists)):
        at, one = place[i], lists[i]
        if at < 0:
            continue
        first, last = starts[at, 0], starts[at + 1, 0]
        sets.nodes[first:last], sets.orders[first:last] = one.nodes, one.orders
        sets.levels[first:last], sets.places[first:last] = one.levels, one.places
        sets.data[starts[at, 1] : starts[at + 1, 1]] = one.data
        sets.leader[at * across : (at + 1) * across] = one.leader
    rows = np.empty((len(boxes), 5), np.int64)
    for k in range(len(boxes)):
        A, P, i, first, last = boxes[k]
        rows[k, 0], rows[k, 1], rows[k, 2], rows[k, 3], rows[k, 4] = A, P, place[i], first, last
    return Tasks(rows, starts, sets)


@internal_with_arrays
def _above(tasks, i):
    """Return the expansions number i of some tasks."""
    sets, starts, across = tasks.sets, tasks.starts, len(tasks.sets.leader) // (len(tasks.starts) - 1)
    here, numbers = slice(starts[i, 0], starts[i + 1, 0]), slice(starts[i, 1], starts[i + 1, 1])
    leader = sets.leader[i * across : (i + 1) * across]
    return Expansions(
        sets.nodes[here], sets.orders[here], sets.levels[here], sets.places[here], sets.data[numbers], leader
    )


@compiled
def walk(sources, queries, values, itself, given, tasks, next_task, most, room, results):
    """Do the tasks that no other thread has taken, and fill the results; return how many boxes were done again.

    Or, if `most` is positive, only halve the boxes until none has more than `most` queries, and return them as tasks. A
    larger box that is better not halved becomes several tasks, each with a part of its queries.
    """
    doubts, raw, top, together = 0, 0, 0.0, max(TOGETHER, most // TOGETHER * TOGETHER)
    lists, left = [_above(tasks, 0)], [(0, 0, 0, 0, 0)]
    left.pop()
    number = _taken(next_task)
    while number < len(tasks.boxes):
        while most == 0 and len(lists):
            lists.pop()
        lists.append(_above(tasks, tasks.boxes[number, 2]))
        first, last = tasks.boxes[number, 3], tasks.boxes[number, 4]
        # Of a task with some queries of a box, the box has its expansions already.
        answer, mine, goes = last > first, lists[-1], False
        waiting = [(tasks.boxes[number, 0], tasks.boxes[number, 1], len(lists) - 1)]
        while len(waiting):
            A, P, own = waiting.pop()
            if not answer:
                first, last = queries.nodes[A, FIRST], queries.nodes[A, LAST]
            if last - first <= most:
                left.append((A, P, own, first * answer, last * answer))
                continue
            if not answer:
                while most == 0 and len(lists) > own + 1:
                    lists.pop()
                mine, goes, raw, top = _step(sources, queries, values, itself, given, A, P, lists[own], answer, room)
            known = lists[own]
            if goes or most:
                lists.append(mine)
                own = len(lists) - 1
            if goes:
                waiting.append((queries.nodes[A, RIGHT], A, own))
                waiting.append((A + 1, A, own))
                continue
            for i in range(first, last, together):
                end = min(i + together, last)
                if most:
                    left.append((A, A, own, i, end))
                    continue
                if answer or last - first > TOGETHER:
                    # Parts of its queries, which different threads may take, start from what A has itself.
                    P, known = A, mine
                    _, raw, top, _, _ = visit(
                        sources, queries, given, A, mine.leader, mine.leader[-1], KNOWN, mine.nodes, room
                    )
                doubts += _settle(
                    sources, queries, values, itself, given, A, P, known, mine, i, end, raw, top, room, results
                )
        number = _taken(next_task)
    return _kept(left, lists) if most else tasks, doubts
