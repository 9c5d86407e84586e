"""The tree engine: softmax sums in a few dimensions, for every beta, in a time of order n log n.

Sources and queries are in tries of boxes (`tree_trie`). Each box A of queries has a list of the boxes B of sources that
it hears (`tree_lists`); the others weigh at most 3e-11 of the total, by a bound that is proved there. Eight queries at
a time leave out what is faint for each of them (`tree_evaluation`). With centres a and b of cells, q = a + t and
s = b + u,

    e^{g <q, s>} = e^{g <t, b>} e^{g <a, s>} e^{g <t, u>}:

the first two factors are exact, and the last one is smooth if z = g h_A h_B is small on each axis, h the half-widths.
No distance between the boxes is needed. So sum_B w e^{g <q, s>} = e^{g <t, b>} P(t), with P interpolated at p = 8 or
16 Chebyshev nodes on each axis (`tree_expansions`). On the halves of A wider boxes B are admitted, whose P are made
from those on A: a butterfly (O'Neil, Woolfe and Rokhlin 2010) with lists in place of levels. In the end each query
evaluates P and, if the values are the keys, its gradient: sum_B w s e^{g <q, s>} = e^{g <t, b>} (b P + grad P / g);
sources in small boxes are summed directly (`tree_evaluation`, `tree_walk`).

**Error.** A term of P is w' e^{z x y}, |x| <= 1 the place of t and |y| <= 1 that of u, on each axis. Its Chebyshev
coefficients are 2 w' I_k(z y), and interpolation at p nodes errs by those with k >= p, each counted twice: by
4 w' I_p(z y) up to a factor close to 1, and its derivative by 2 p^2 w' I_p(z y). Errors of the expansions from which P
was made are polynomials on cells twice as wide, four times, and so on: their derivatives count 1/2, 1/4, ..., so that
the gradient divided by g errs by at most 4 p^2 / z h_B sum w' I_p, and the values by 4 LEVELS sum w' I_p. As
I_p(y) <= I_{p-2}(y) y^2 / (4 p (p - 1)), and I_{p-2} is even and nonnegative, sum w' I_p(z y) is at most
z^2 / (8 p (p - 1)) times the coefficient of degree p - 2 of P itself: this is computed for each expansion of each box
that is evaluated (`tree_evaluation.tail`). Times the weights of the expansions at a query, divided by its total, it
bounds the error of the mean. Where that exceeds 5e-11 of the size of the keys, the box is done again with half the z
(an error some 10^4 times smaller), then without expansions. Eight queries leave out at most 1e-11 of their totals
beside expansions, which is 3e-11 + 5e-11 + 1e-11 in all, and 5e-11 where there are none.

Exponents g <a, b - v> round by 2^-53 of their size: boxes beyond `LARGEST_EXPONENT` are summed directly, from scores
whose difference is taken before the gain multiplies. A gradient loses digits where g h_A D is small, D the size of the
keys: cells of queries are at least so wide that it is not.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numba
import numpy as np

from attnflow.core.inputs import Array
from attnflow.engines import LARGEST_GAIN, fused
from attnflow.engines.centring import about_centre, ends
from attnflow.engines.kernels import LOG2E
from attnflow.engines.separable import in_plane
from attnflow.engines.tree_expansions import EXPONENTIALS
from attnflow.engines.tree_lists import COSTS, WIDEST
from attnflow.engines.tree_trie import Trie, trie
from attnflow.engines.tree_walk import TOGETHER, Expansions, Room, Tasks, joined, room, walk

TOLERANCE = 1e-10
# In more dimensions cells do not tell tokens apart; in more than EXPANDED, expansions have too many nodes.
MOST_DIMENSIONS, EXPANDED = 16, 3
# Products |q| |k| up to this size do not overflow; nor do sums of values of this binary exponent, weights included.
LARGEST_PRODUCT, CALM = 1e300, 900.0
# The largest g D D' for the sizes D of keys and D' of queries: cells of larger ones would have infinite g h_A h_B.
LARGEST_Z = 1e306
# Cells of queries have g h D of at least this, in sums whose gain times the square of D is at least LEAST_GAIN.
LEAST_SLOPE, LEAST_GAIN = 0.1, 1e-100
# Clouds that are smaller, or larger than the inverse, are left to all pairs.
LEAST_SIZE = 1e-100
# Boxes of queries for each thread, about, where there are enough queries; the number of queries worth a thread.
TASKS, PER_THREAD = 8, 2048


def name(queries: Array, keys: Array, gain: float) -> str:
    """Return which engine does the work: this one, or fused."""
    return "tree" if _applies(queries, keys, gain) else "fused"


@about_centre
def softmax(
    queries: Array, keys: Array, values: Array, log_masses: Array | None, gain: float, memory: Any = None
) -> tuple[Array, Array]:
    """Return sum_j P_ij v_j and log sum_j w_j e^{g s_ij}, as the dense engine does, up to `TOLERANCE`."""
    light = log_masses is not None and np.ptp(log_masses) > fused.LIGHTEST
    if light or not _applies(queries, keys, gain):
        return fused.softmax(queries, keys, values, log_masses, gain)
    return prepare(keys, values, log_masses, gain).hear(queries)


def _applies(queries: Array, keys: Array, gain: float) -> bool:
    if not len(queries) or not 1 <= keys.shape[1] <= MOST_DIMENSIONS:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = ends(keys)
        least, most = (low, high) if queries is keys else ends(queries)
        longest, largest = np.maximum(most, -least), np.maximum(high, -low)
        size = _size(low, high)
        raised = _raised(gain, size)
        # A gain that is raised changes no weight: scores times the gain stay below the unit of rounding.
        if raised > gain and not raised * (longest @ largest) <= 2.0**-53:
            return False
        # Of larger or smaller clouds, the raised gain or the cells are no normal numbers.
        if not LEAST_SIZE <= size <= 1 / LEAST_SIZE or not raised * size * max(size, _size(least, most)) <= LARGEST_Z:
            return False
        return bool(longest @ largest <= LARGEST_PRODUCT) and bool((largest @ largest) <= LARGEST_PRODUCT)


def _size(low: Array, high: Array) -> float:
    """Return the size D of keys between these corners."""
    return float((high - low).max()) or float(np.abs(high).max()) or 1.0


def _raised(gain: float, size: float) -> float:
    """Return the gain, or the least one for which gradients are accurate, if that is larger."""
    return max(gain, LEAST_GAIN / size / size)


@dataclass(frozen=True, repr=False)
class Sources:
    """Keys, values and masses in their trie: prepared once, heard by any queries, any number of times."""

    keys: Array
    trie: Trie
    values: Array
    centre: Array
    ends: tuple[Array, Array]
    gain: float
    size: float
    low: Array
    half: float
    heaviest: float

    def hear(self, queries: Array) -> tuple[Array, Array]:
        """Return the means and the logarithms of the totals of some queries."""
        if not len(queries):
            return np.empty((0, queries.shape[1] if self.values is self.trie.points else len(self.values))), np.empty(0)
        asked, d = self._asked(queries), len(self.trie.points)
        gain2 = min(self.gain * LOG2E, LARGEST_GAIN)
        longest, largest = (np.maximum(-t.boxes[0, :d], t.boxes[0, d : 2 * d]) for t in (asked, self.trie))
        reach = gain2 * float(longest @ largest)
        slack = (8 * d + 32) * 2.0**-53 * reach
        widest = WIDEST if d <= EXPANDED else 0.0
        mean, log_total = np.empty((len(queries), len(self.values))), np.empty(len(queries))
        itself = self.values is self.trie.points
        heaviest = max(float(np.abs(self.values).max(initial=0.0)), float(largest.max()), 1.0)
        calm = CALM - math.log2(heaviest)
        rules = gain2, slack, self.size, widest, COSTS[min(d, EXPANDED + 1) - 2], calm
        # Means are within the box of the values; those of equal values are equal to them.
        box = np.array(np.broadcast_arrays(self.centre, *self.ends))
        _Walk((self.trie, asked, self.values, itself, rules), (mean, log_total, box)).go()
        log_total += self.heaviest
        return mean[:, : queries.shape[1] if itself else None], log_total

    def _asked(self, queries: Array) -> Trie:
        """Return the trie of the queries; their cells fit those of the keys: g h_A h_B is WIDEST times a power of 2."""
        least = LEAST_SLOPE / (self.gain * self.size)
        if queries is self.keys:
            return _widened(self.trie, self.low, least)
        rows = in_plane(queries)
        low, high = ends(rows)
        half = max(float((high - low).max()) / 2 * (1 + 1e-9), LEAST_GAIN * self.size)
        unit = WIDEST / (self.gain * self.half)
        if unit < half:
            half = unit * 2.0 ** math.ceil(math.log2(half / unit))
        low = low + (high - low) / 2 - half
        return _widened(trie(rows, np.empty(0), low, half), low, least)


def _widened(made: Trie, low: Array, least: float) -> Trie:
    """Return the trie with cells of at least this half-width: dyadic ones, which hold the others."""
    d = len(made.points)
    centres, halves = made.cells[:, :d], made.cells[:, d:]
    # Column by column: rows of d numbers are reduced slowly.
    narrow = np.flatnonzero(reduce(np.logical_or, (halves < least).T))
    if not len(narrow):
        return made
    wide = halves[narrow] * 2.0 ** np.maximum(0, np.ceil(np.log2(least / halves[narrow])))
    cells = made.cells.copy()
    cells[narrow] = np.hstack([low + (np.floor((centres[narrow] - low) / (2 * wide)) * 2 + 1) * wide, wide])
    return made._replace(cells=cells)


def prepare(keys: Array, values: Array, log_masses: Array | None, gain: float) -> Sources:
    """Return the sources as `hear` needs them; values that are the keys themselves take the least time.

    >>> x = np.random.default_rng(0).standard_normal((3000, 2))
    >>> sources = prepare(x, x, None, 30.0)
    >>> bool(np.abs(sources.hear(x[:5])[0] - sources.hear(x)[0][:5]).max() < 1e-10)
    True
    """
    rows = in_plane(keys)
    low, high = ends(rows)
    size = _size(low, high)
    gain = min(_raised(gain, size), LARGEST_GAIN)
    half = size / 2 * (1 + 1e-9)
    if (z := gain * half * half) > WIDEST:
        half *= math.sqrt(WIDEST / z * 2.0 ** math.ceil(math.log2(z / WIDEST)))
    corner = low + (high - low) / 2 - half
    # A factor that all masses share could be so large that exponents beside it lose their digits.
    heaviest = 0.0 if log_masses is None else float(log_masses.max())
    made = trie(rows, np.empty(0) if log_masses is None else (log_masses - heaviest) * LOG2E, corner, half)
    if values is keys:
        return Sources(keys, made, made.points, np.zeros(1), (low, high), gain, size, corner, half, heaviest)
    low, high = ends(values)
    centre = low + (high - low) / 2
    columns = np.zeros((values.shape[1], made.points.shape[1]))
    columns[:, : len(keys)] = (values - centre)[made.order].T
    return Sources(keys, made, columns, centre, (low, high), gain, size, corner, half, heaviest)


class _Walk:
    """The sums of all queries: boxes are halved until there are enough for all threads, then walked to their ends."""

    def __init__(self, given: tuple[Any, ...], results: tuple[Array, Array, Array]) -> None:
        self.given, self.results = given, results
        sources, _, values = given[:3]
        self.threads = min(numba.get_num_threads(), len(results[0]) // PER_THREAD + 1)
        size = len(sources.points), len(values), sources.points.shape[1]
        self.rooms = [room(*size, EXPONENTIALS) for _ in range(self.threads)]

    def go(self) -> int:
        """Return how many boxes were done again."""
        sources, d, n = self.given[0], len(self.given[0].points), len(self.results[0])
        leader = np.concatenate([sources.boxes[0, 2 * d : 3 * d], np.zeros(d), sources.boxes[0, 3 * d :]])
        none: Any = np.empty(0, np.int32)
        root = Expansions(none, none, np.empty(0), np.empty(0, np.int64), np.empty(0), leader)
        tasks = Tasks(np.zeros((1, 5), np.int64), np.zeros((2, 2), np.int64), root)
        with ThreadPoolExecutor(max(1, self.threads - 1)) as pool:
            # One thread alone makes the first boxes, as many as there are threads; then all of them make smaller ones.
            for boxes in (self.threads, TASKS * self.threads) if self.threads > 1 else ():
                tasks = joined([left for left, _ in self._walk(pool, tasks, max(n // boxes, TOGETHER))])
            return sum(doubts for _, doubts in self._walk(pool, tasks, 0))

    def _walk(self, pool: ThreadPoolExecutor, tasks: Tasks, most: int) -> list[tuple[Tasks, int]]:
        """Let all threads, each with a room of its own, take tasks until none is left."""
        next_task = np.zeros(1, np.int64)

        def work(memory: Room) -> tuple[Tasks, int]:
            done: tuple[Tasks, int] = walk(*self.given, tasks, next_task, most, memory, self.results)
            return done

        others = [pool.submit(work, memory) for memory in self.rooms[1 : len(tasks.boxes)]]
        return [work(self.rooms[0]), *(other.result() for other in others)]
