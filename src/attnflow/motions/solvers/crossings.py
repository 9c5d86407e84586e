"""First times at which another token's score overtakes that of a leader: roots of gaps, none of them missed.

Token i follows l as long as all gaps <B x_i, x_l - x_j> are positive. On straight lines a gap is a quadratic polynomial
in e^{-tau}, and its root a formula. Elsewhere it is a Taylor series: its Bernstein coefficients bound it from below on
a whole interval, which is halved until a single change of sign is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from attnflow.core.blocks import row_blocks
from attnflow.core.inputs import Array
from attnflow.core.progress import tick
from attnflow.engines import dense
from attnflow.geometry.forms import EPS, score_rounding
from attnflow.motions.solvers.leader_graph import DEGREE, SPAN, Flags, Indices, Piece

# Products of two series are cut here: 2^k / k! bounds their terms.
PRODUCT = 25
# An interval is halved at most this often: in a shorter one a gap falls below zero only by rounding.
HALVINGS = 40
# PAIRS pairs of tokens are expanded at a time, first to FIRST_TERMS terms.
PAIRS, FIRST_TERMS = 4096, 5

# How the rounding errors of the coefficients of a gap grow with their order, in units of that of the gap.
GROWTH = np.array([2.0**k / math.factorial(k) for k in range(PRODUCT + 1)])


class Rounding:
    """What scores of these tokens are known up to.

    Scores of token i closer than `tie[i]` count as equal, tokens closer than `same` as one point. The first is
    8 (d + 2) eps |  |B| |x_i|  | max_j |x_j|, the error of computing a score; tokens that have `moved` are known
    themselves only up to the rounding of the scale they started from. Derivatives of scores closer than `slope` (times
    `GROWTH`) count as equal: velocities are as large as the cloud, however near 0 token i is.
    """

    def __init__(self, x: Array, B: Array | None, moved: float = 0.0) -> None:
        form = np.eye(x.shape[1]) if B is None else B
        size, norm = float(np.linalg.norm(x, axis=1).max()), float(np.linalg.norm(form, 2))
        self.tie = score_rounding(form, x, x) + 8 * EPS * norm * moved * size
        self.slope = 8 * (x.shape[1] + 2) * EPS * norm * max(size, moved) * size
        self.same = max(1e-12 * size, 8 * EPS * moved)
        self.copy = 8 * EPS * max(size, moved)


class Race:
    """The gaps of one piece of the motion, and when they close."""

    def __init__(self, piece: Piece, queries: Callable[[Array], Array], rounding: Rounding) -> None:
        self.piece, self.queries, self.rounding = piece, queries, rounding
        self.leaders = piece.following.leaders

    def first(self, rows: Indices, columns: Indices) -> tuple[Array, Indices]:
        """Return for each row i the first time one of the columns overtakes its leader, and which; else infinity.

        Gaps between tokens that all move on straight lines are followed for ever, all others for a time SPAN.
        """
        when, whom = np.full(len(rows), np.inf), np.full(len(rows), -1)
        straight = self.piece.straight
        lines, bends = columns[straight[columns]], columns[~straight[columns]]
        for block in row_blocks(len(rows), 8 * max(1, len(columns))):
            some = rows[block]
            plain, bent = np.flatnonzero(straight[some]), np.flatnonzero(~straight[some])
            for part, others, times in (
                (plain, lines, self._on_lines),
                (plain, bends, self._in_general),
                (bent, columns, self._in_general),
            ):
                if len(part) and len(others):
                    i, j, tau = times(some[part], others)
                    _earliest(when[block], whom[block], part[i], others[j], self.piece.t + tau)
        return when, whom

    def _on_lines(self, rows: Indices, columns: Indices) -> tuple[Indices, Indices, Array]:
        """Return pairs (i, j) of positions and the time after which their gap closes, on straight lines.

        With u = 1 - e^{-tau}, a token is at x + u v and the gap is G0 + G1 u + G2 u^2; by s = 1 - u it is
        c0 + c1 s + c2 s^2, c0 the gap at infinity. Each form is exact at its own end.
        """
        piece, leaders = self.piece, self.leaders[rows]
        x, m, v = piece.x, piece.mean, piece.mean - piece.x
        start, end, bend = (
            dense.scores(self.queries(query[rows]), key[columns]) for query, key in ((x, x), (m, m), (v, v))
        )
        start = _own(self.queries(x[rows]), x[leaders])[:, None] - start
        end = _own(self.queries(m[rows]), x[leaders])[:, None] - end
        # Bernstein coefficients of the gap in u: it stays positive if they are; the last belongs to infinity.
        noise = self.rounding.tie[rows]
        start = np.minimum(start, 0.5 * (start + end + bend))
        a, b = np.nonzero((start <= noise[:, None]) | (end < -noise[:, None]))
        i, j, leader = rows[a], columns[b], leaders[a]
        apart = ~self._held(i, leader, j)
        w, w_end = x[leader] - x[j], x[leader] - m[j]
        apart &= np.maximum(*(np.linalg.norm(way, axis=1) for way in (w, w_end))) > self.rounding.same
        a, b, i, j, w, w_end = a[apart], b[apart], i[apart], j[apart], w[apart], w_end[apart]
        qx, qv, qm = (self.queries(y[i]) for y in (x, v, m))
        from_start = np.stack([_own(qx, w), _own(qv, w) - _own(qx, v[j]), -_own(qv, v[j])])
        from_end = np.stack([_own(qm, w_end), _own(qm, v[j]) - _own(qv, w_end), -_own(qv, v[j])])
        return a, b, quadratic_times(from_start, from_end, noise[a])

    def _in_general(self, rows: Indices, columns: Indices) -> tuple[Indices, Indices, Array]:
        """Return pairs (i, j) of positions and the time after which their gap closes, from Taylor series.

        Most pairs are excluded by their first two terms and a bound on the others, most of the rest by a few more.
        """
        leaders, noise = self.leaders[rows], self.rounding.tie[rows]
        x, v = self.piece.x, self.piece.series[:, 1]
        qx, qv = self.queries(x[rows]), self.queries(v[rows])
        start = _own(qx, x[leaders])[:, None] - dense.scores(qx, x[columns])
        slope = (_own(qv, x[leaders]) + _own(qx, v[leaders]))[:, None]
        slope = slope - dense.scores(qv, x[columns]) - dense.scores(qx, v[columns])
        factors, bounds = self._factors(rows, 1), self._bounds(1)
        rest = _own(factors, bounds[leaders])[:, None] + factors @ bounds[columns].T
        a, b = np.nonzero(np.minimum(start, start + slope) - rest <= noise[:, None])
        apart = ~self._held(rows[a], leaders[a], columns[b])
        a, b = a[apart], b[apart]
        times = np.full(len(a), np.inf)
        for k in range(0, len(a), PAIRS):
            tick()
            chunk = slice(k, k + PAIRS)
            times[chunk] = self._series_times(rows[a[chunk]], leaders[a[chunk]], columns[b[chunk]])
        return a, b, times

    def _held(self, i: Indices, leader: Indices, j: Indices) -> Flags:
        """Whether i follows j, among other sources perhaps."""
        held = j == leader
        several = ~self.piece.following.single[i]
        held[several] = self.piece.following.holds(i[several], j[several])
        return held

    def _query_series(self, rows: Indices, order: int) -> Array:
        terms = self.piece.series[rows, : order + 1]
        return self.queries(terms.reshape(-1, terms.shape[2])).reshape(terms.shape)

    def _factors(self, rows: Indices, order: int) -> Array:
        """With `_bounds`: the terms of a gap beyond an order are at most factors_i . (bounds_l + bounds_j)."""
        sizes = np.linalg.norm(self._query_series(rows, DEGREE), axis=2)
        return np.concatenate([sizes[:, : order + 1], sizes[:, order + 1 :].sum(axis=1, keepdims=True)], axis=1)

    def _bounds(self, order: int) -> Array:
        return self.piece.tails[:, order + 1 :: -1]

    def _series_times(self, i: Indices, leader: Indices, j: Indices) -> Array:
        terms, times = self.piece.series, np.full(len(i), np.inf)
        difference = terms[leader, : FIRST_TERMS + 1] - terms[j, : FIRST_TERMS + 1]
        query = self._query_series(i, FIRST_TERMS)
        low = (products(query, difference, FIRST_TERMS) @ bernstein(FIRST_TERMS)).min(axis=1)
        which, back = np.unique(i, return_inverse=True)
        bounds = self._bounds(FIRST_TERMS)
        low -= _own(self._factors(which, FIRST_TERMS)[back], bounds[leader] + bounds[j])
        left = np.flatnonzero(low <= self.rounding.tie[i])
        i, leader, j = i[left], leader[left], j[left]
        difference = terms[leader] - terms[j]
        # Where l and j stay within rounding of each other, which of the two is ahead is noise.
        apart = np.linalg.norm(difference, axis=2).sum(axis=1) > self.rounding.same
        left, i, difference = left[apart], i[apart], difference[apart]
        gaps = products(self._query_series(i, DEGREE), difference, PRODUCT)
        times[left] = SPAN * series_times(gaps, self.rounding.tie[i])
        return times


def _own(a: Array, b: Array) -> Array:
    """Inner products of corresponding rows, summed in the order of `dense.scores`."""
    total = a[:, 0] * b[:, 0]
    for k in range(1, a.shape[1]):
        total = total + a[:, k] * b[:, k]
    return total


def _earliest(when: Array, whom: Indices, rows: Indices, others: Indices, times: Array) -> None:
    """Lower the times of the rows in place, and note the column that did so; ties go to the lowest index."""
    order = np.lexsort((-others, -times))
    order = order[times[order] < when[rows[order]]]
    # Of assignments to the same row the last one stays.
    when[rows[order]], whom[rows[order]] = times[order], others[order]


def quadratic_times(from_start: Array, from_end: Array, noise: Array) -> Array:
    """Return the first tau > 0 where G0 + G1 u + G2 u^2 turns negative, u = 1 - e^{-tau}; infinity if it never does.

    `from_end` holds the same polynomial c0 + c1 s + c2 s^2 in s = 1 - u, and finds late roots. Leading coefficients
    within rounding are zero: a gap that opens at tau = 0 is positive if the next one is, and closes at once if it is
    negative.

    >>> start, end = np.array([[1.0], [-2.0], [0.0]]), np.array([[-1.0], [2.0], [0.0]])
    >>> quadratic_times(start, end, np.array([1e-14])) - np.log(2)
    array([0.])
    """
    g0, g1, g2 = from_start
    c0, c1, c2 = from_end
    zero0 = np.abs(g0) <= noise
    zero1 = zero0 & (np.abs(g1) <= 4 * noise)
    known = ~(zero1 & (np.abs(g2) <= 8 * noise))
    now = known & (np.where(zero0, np.where(zero1, g2, g1), g0) < 0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        root = np.sqrt(np.maximum(g1 * g1 - 4 * g0 * g2, 0))
        real = (g1 * g1 >= 4 * g0 * g2) & ~zero0
        u = np.where(g1 < 0, 2 * g0 / (root - g1), np.where(g2 < 0, (g1 + root) / (-2 * g2), np.inf))
        u = np.where(real, u, np.inf)
        u = np.where(zero0 & ~zero1 & (g2 < 0), -g1 / g2, u)
        # A gap that vanishes at infinity has its other root where c1 + c2 s = 0.
        ends = np.abs(c0) <= noise
        s = np.where(ends, np.where(np.sign(c1) != np.sign(c2), -c1 / c2, -1.0), 1 - u)
        early = u <= 0.5
        for _ in range(3):
            u = _newton(u, np.where(zero0, 0.0, g0), g1, g2)
            s = _newton(s, np.where(ends, 0.0, c0), c1, c2)
        tau = np.where(early, -np.log1p(-u), -np.log(s))
        found = known & ~(zero0 & ends) & np.where(early, u > 0, (s > 0) & (s < 1))
        # A gap that touches zero, up to rounding, and opens again is not closed.
        found &= ~((g2 > 0) & (g1 < 0) & (g0 - g1 * g1 / (4 * g2) > -noise))
    return np.where(now, 0.0, np.where(found, tau, np.inf))


def _newton(u: Array, p0: Array, p1: Array, p2: Array) -> Array:
    """One step towards a simple root; none where it would not be small."""
    step = (p0 + u * (p1 + u * p2)) / (p1 + 2 * u * p2)
    return np.where(np.abs(step) <= 1e-3 * np.abs(u), u - step, u)


def products(a: Array, b: Array, order: int) -> Array:
    """Return the coefficients (pairs, order + 1) of sum_d a_d b_d, for series of shape (pairs, terms, d).

    >>> one_plus_t = np.array([[[1.0], [1.0]]])
    >>> products(one_plus_t, one_plus_t, 3)
    array([[1., 2., 1., 0.]])
    """
    top = a.shape[1] - 1
    grid = a @ b.swapaxes(1, 2)
    result = np.zeros((len(a), order + 1))
    for k in range(min(order, 2 * top) + 1):
        m = np.arange(max(0, k - top), min(k, top) + 1)
        result[:, k] = grid[:, m, k - m].sum(axis=1)
    return result


def series_times(gaps: Array, noise: Array) -> Array:
    """Return the first u in [0, 1] where each polynomial turns negative; infinity if it does not.

    Leading coefficients within rounding are zero, as in `quadratic_times`.

    >>> series_times(np.array([[0.5, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, -4.0]]), np.full(3, 1e-15))
    array([0.5 ,  inf, 0.25])
    """
    N = gaps.shape[1] - 1
    clear = np.abs(gaps) > noise[:, None] * GROWTH[: N + 1]
    order = np.where(clear.any(axis=1), clear.argmax(axis=1), -1)
    times = np.full(len(gaps), np.inf)
    leading = gaps[np.arange(len(gaps)), order]
    times[(order >= 0) & (leading < 0)] = 0.0
    for p in np.unique(order[(order >= 0) & (leading > 0)]):
        these = np.flatnonzero((order == p) & (leading > 0))
        opened = np.pad(gaps[these, p:], ((0, 0), (0, p)))
        low = opened @ bernstein(N)
        for k in np.flatnonzero((low < 0).any(axis=1)):
            # A gap that touches zero, up to rounding, and opens again is not closed.
            room = np.eye(1, N + 1)[0] * noise[these[k]]
            if p > 0 or first_root(opened[k] + room, low[k] + noise[these[k]]) < math.inf:
                times[these[k]] = first_root(opened[k], low[k])
    return times


def first_root(powers: Array, low: Array) -> float:
    """Return the first u in [0, 1] where sum_k powers_k u^k > 0 at u = 0 turns negative, or infinity.

    `low` holds its Bernstein coefficients. Intervals are searched from the left; one without a negative coefficient
    has no root, one with a single change of sign exactly one.

    >>> powers = np.poly([0.6, 0.6 + 1e-6])[::-1]
    >>> round(first_root(powers, powers @ bernstein(2)), 8)
    0.6
    """
    from scipy.optimize import brentq

    left, right = halves(len(low) - 1)
    reverse = powers[::-1].tolist()

    def value(u: float) -> float:
        total = 0.0
        for coefficient in reverse:
            total = total * u + coefficient
        return total

    waiting = [(0.0, 1.0, low, HALVINGS)]
    while waiting:
        a, b, c, depth = waiting.pop()
        if (c >= 0).all():
            continue
        if value(a) < 0:
            return a
        signs = np.sign(c[c != 0])
        if np.count_nonzero(np.diff(signs)) == 1 and value(b) < 0:
            return float(brentq(value, a, b, xtol=1e-17, rtol=4 * np.finfo(np.float64).eps))
        if depth:
            middle = 0.5 * (a + b)
            waiting += [(middle, b, c @ right, depth - 1), (a, middle, c @ left, depth - 1)]
    return math.inf


@cache
def bernstein(N: int) -> Array:
    """Return the matrix that takes power coefficients, as rows, to Bernstein coefficients of degree N on [0, 1].

    >>> np.array([1.0, -2.0, 1.0]) @ bernstein(2)
    array([1., 0., 0.])
    """
    return np.array([[math.comb(j, k) / math.comb(N, k) for j in range(N + 1)] for k in range(N + 1)])


@cache
def halves(N: int) -> tuple[Array, Array]:
    """Return the matrices that take Bernstein coefficients on [0, 1] to those on its two halves.

    >>> left, right = halves(1)
    >>> np.array([0.0, 1.0]) @ left, np.array([0.0, 1.0]) @ right
    (array([0. , 0.5]), array([0.5, 1. ]))
    """
    left = np.array([[math.comb(k, j) / 2**k for k in range(N + 1)] for j in range(N + 1)])
    return left, left[::-1, ::-1].copy()
