"""The tree engine: ."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from attnflow.core.inputs import Array
from attnflow.engines import LARGEST_GAIN, Memory, fused
from attnflow.engines.centring import about_centre, ends
from attnflow.engines.kernels import LOG2E
from attnflow.engines.tree_lists import COSTS, WIDEST
from attnflow.engines.tree_trie import Trie, trie
from attnflow.engines.tree_expansions import EXPONENTIALS
from attnflow.engines.tree_walk import Expansions, answer, room, step, walk

TOLERANCE = 1e-10
MOST_DIMENSIONS, EXPANDED = 16, 3
# Exponents up to this size round by less than the tolerance.
LARGEST_EXPONENT = 5e5
LARGEST_PRODUCT = 1e300
TASKS, QUERIES = 32, 1024
# Cells of queries are so wide that g h D is at least this.
LEAST_SLOPE = 2e-3


@dataclass(frozen=True)
class Sources:
    """Keys, values and masses, prepared for queries."""

    trie: Trie
    values: Array
    centre: Array
    itself: bool
    gain: float
    middle: Array
    half: float
    widest: float
    size: float
    keys: Array

    def hear(self, queries: Array) -> tuple[Array, Array]:
        asked = self._asked(queries)
        m, d = queries.shape
        g = self.gain * LOG2E
        longest, largest = (np.maximum(-t.boxes[0, :d], t.boxes[0, d : 2 * d]) for t in (asked, self.trie))
        reach = g * float(longest @ largest)
        expands = d <= EXPANDED and reach <= LARGEST_EXPONENT
        given = (g, (8 * d + 32) * 2.0**-53 * reach, self.size, WIDEST if expands else 0.0, COSTS[min(d, 3) - 2])
        walk = _Walk(self.trie, asked, self.values, self.itself, given, np.empty((m, len(self.values))), np.empty(m))
        walk.start()
        return walk.mean + self.centre, walk.log_total

    def _asked(self, queries: Array) -> Trie:
        if queries is self.keys:
            return self.trie
        low, high = ends(queries)
        half = float((high - low).max()) / 2 * (1 + 1e-9)
        return trie(queries, np.empty(0), low + (high - low) / 2, _cube(half, self.half, self.gain, self.widest), self.widest)


def _cube(half: float, other: float, gain: float, widest: float) -> float:
    """The least H >= half with g H other = WIDEST 2^k"""
    half = max(half, widest)
    unit = WIDEST / (gain * other)
    return unit * 2.0 ** max(0, math.ceil(math.log2(half / unit))) if half > unit else half


class _Walk:
    def __init__(self, sources: Trie, queries: Trie, values: Array, itself: bool, given: Any, mean: Array, log_total: Array) -> None:
        self.given = sources, queries, values, itself, given
        self.queries, self.sources, self.values = queries, sources, values
        self.mean, self.log_total = mean, log_total
        self.rooms = []
        self.worst = 0.0

    def start(self) -> None:
        d = len(self.sources.points)
        nothing = np.empty(0, np.int32)
        root = self.sources.boxes[0]
        leaders = np.concatenate([root[2 * d : 3 * d], np.zeros(d), root[3 * d :]])
        above = Expansions(nothing, nothing, np.empty(0), np.empty(0, np.int64), np.empty(0), leaders)
        threads = numba.get_num_threads()
        self.rooms = [room(d, len(self.values), self.sources.points.shape[1], EXPONENTIALS.copy()) for _ in range(threads)]
        with ThreadPoolExecutor(threads) as pool:
            self.level(pool.map if threads > 1 else map, [(0, 0, above)])

    def level(self, apply, boxes) -> None:
        most = max(len(self.log_total) // TASKS, 256)
        tasks = []
        while boxes:
            below = []
            for (A, _, _), (mine, goes) in zip(boxes, apply(self.one_step, boxes)):
                first, last, right, _ = self.queries.nodes[A].tolist()
                if not goes:
                    tasks += [(A, mine, f, min(f + QUERIES, last)) for f in range(first, last, QUERIES)]
                    continue
                for child in (A + 1, right):
                    f, l = self.queries.nodes[child, :2].tolist()
                    (below if l - f > most else tasks).append((child, A, mine))
            boxes = below
        self.worst = sum(apply(self.finish, tasks))
        globals()['WORST'] = self.worst

    def one_step(self, box):
        A, P, above = box
        memory = self.rooms.pop()
        result = step(*self.given, A, P, above, memory)
        self.rooms.append(memory)
        return result

    def finish(self, task):
        memory = self.rooms.pop()
        if len(task) == 3:
            worst = walk(*self.given, *task, memory, self.mean, self.log_total)
        else:
            worst = answer(*self.given, *task, memory, self.mean, self.log_total)
        self.rooms.append(memory)
        return worst


def prepare(keys: Array, values: Array, log_masses: Array | None, gain: float) -> Sources:
    """Prepare sources that are heard many times."""
    low, high = ends(keys)
    size = float((high - low).max())
    half, middle = size / 2 * (1 + 1e-9), low + (high - low) / 2
    widest = LEAST_SLOPE / (gain * size)
    half = max(half, widest)
    if gain * half * half > WIDEST:
        half = math.sqrt(WIDEST * 2.0 ** math.ceil(math.log2(gain * half * half / WIDEST)) / gain)
    logs = np.empty(0) if log_masses is None else log_masses * LOG2E
    made = trie(keys, logs, middle, half, widest)
    itself = values is keys
    d = keys.shape[1]
    if itself:
        v, centre = made.points, np.zeros(d)
    else:
        low, high = ends(values)
        centre = low + (high - low) / 2
        v = np.zeros((values.shape[1], made.points.shape[1]))
        v[:, : len(keys)] = (values - centre)[made.order].T
    return Sources(made, v, centre, itself, gain, middle, half, widest, size, keys)


@about_centre
def softmax(queries: Array, keys: Array, values: Array, log_masses: Array | None, gain: float, memory: Memory | None = None) -> tuple[Array, Array]:
    return prepare(keys, values, log_masses, gain).hear(queries)
