"""Every orbit of localmax layers from a small lattice, in whole numbers: an attack on localmax/constant-converges.

python -m tools.lattice_orbits 4 1 5

All multisets of n tokens with whole coordinates of at most the given size, up to mirrors and exchanges of coordinates,
with delta = 1/2, 3/2, .. up to the largest difference of scores. Each orbit is followed exactly until it is proved that
no token ever listens to others, so that all tokens converge; or until a state comes back exactly: a cycle.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product
from math import gcd, lcm

import numpy as np
from numpy.typing import NDArray

from attnflow.claims.exact import Rationals
from attnflow.claims.settled import Neighbours, limit, stays_above, step_matrix

CONVERGES, CYCLE, LEFT = "converges", "cycle", "undecided"
LOOKS = (4, 8, 16, 32, 64, 128, 256)  # the steps at which a proof is tried

Token = tuple[int, ...]
Tokens = tuple[Token, ...]


def starts(n: int, d: int, size: int) -> Iterator[Tokens]:
    """Yield multisets of n tokens of the lattice, one for each class of mirrors and exchanges of coordinates.

    >>> list(starts(2, 1, 1))
    [((-1,), (-1,)), ((-1,), (0,)), ((-1,), (1,)), ((0,), (0,))]
    """
    turns = [(signs, order) for signs in product((1, -1), repeat=d) for order in permutations(range(d))]
    lattice = list(product(range(-size, size + 1), repeat=d))
    for tokens in combinations_with_replacement(lattice, n):
        images = (sorted(tuple(s * x[k] for s, k in zip(*turn, strict=True)) for x in tokens) for turn in turns)
        if all(list(tokens) <= image for image in images):
            yield tokens


def neighbours(x: Tokens, unit: int, delta: Fraction) -> Neighbours:
    """Return N_i = {j : <x_i, x_j> >= max_k <x_i, x_k> - delta} for tokens x / unit."""
    room, rows = delta.numerator * unit * unit, []
    for own in x:
        scores = [sum(p * q for p, q in zip(own, one, strict=True)) for one in x]
        top = max(scores)
        rows.append([j for j, score in enumerate(scores) if (top - score) * delta.denominator <= room])
    return rows


def step(x: Tokens, unit: int, rows: Neighbours, gamma: Fraction) -> tuple[Tokens, int]:
    """Return x + gamma (mean over N_i - x), over a new unit."""
    g, h, common = gamma.numerator, gamma.denominator, lcm(*(len(row) for row in rows))
    moved = [
        [(h - g) * common * own + g * (common // len(row)) * sum(x[j][k] for j in row) for k, own in enumerate(x[i])]
        for i, row in enumerate(rows)
    ]
    part = gcd(unit * h * common, *(value for row in moved for value in row))
    return tuple(tuple(value // part for value in row) for row in moved), unit * h * common // part


def stays(x: Tokens, unit: int, rows: Neighbours, delta: Fraction, gamma: Fraction) -> bool:
    """Say whether neighbourhoods are proved never to change: distances from the limits of x <- W x never grow."""
    now = np.array([[Fraction(value, unit) for value in one] for one in x], dtype=object)
    W = step_matrix(rows, gamma)
    end = limit(W, now)
    away = np.abs(now - end).max(axis=0)
    scores = end @ end.T
    above = scores - scores.max(axis=1, keepdims=True) + delta
    change = 2 * (2 * np.abs(end) @ away + away @ away).max()
    heard = np.array([[j in row for j in range(len(x))] for row in rows])
    sure = np.where(heard, above > change, above < -change)
    return not away.any() or bool(sure.all()) or straight(end, now - end, W, heard, delta)


def straight(end: Rationals, arm: Rationals, W: Rationals, heard: NDArray[np.bool_], delta: Fraction) -> bool:
    """Say whether tokens go to their limits as end + u arm with one factor u for all, and hear the same on the way.

    It decides orbits that tend to a tie: then u goes from 1 to 0 and does not arrive.
    """
    moved = W @ arm
    place = np.unravel_index(int(np.argmax(np.abs(arm))), arm.shape)
    if (moved != moved[place] / arm[place] * arm).any():
        return False
    terms = [end @ end.T, end @ arm.T + arm @ end.T, arm @ arm.T]  # scores are quadratic in u
    for i, row in enumerate(heard):
        best = max(np.flatnonzero(row), key=lambda j: (terms[0][i, j], terms[1][i, j], terms[2][i, j]))
        for j, hears in enumerate(row):
            c = [term[i, best] - term[i, j] for term in terms]
            if not at_least(c, Fraction(0)) or (hears and not at_least([-one for one in c], -delta)):
                return False
            if not hears and not stays_above((c[0] - delta, c[1], c[2]), Fraction(0)):
                return False
    return True


def at_least(c: list[Fraction], bound: Fraction) -> bool:
    """Say whether c_0 + c_1 u + c_2 u^2 >= bound for 0 <= u <= 1, by its Bernstein coefficients."""
    return c[0] >= bound and c[0] + c[1] / 2 >= bound and sum(c) >= bound


def follow(start: Tokens, delta: Fraction, gamma: Fraction) -> tuple[str, int]:
    """Return how an orbit ends, and after how many steps that is known.

    >>> follow(((10,), (-10,), (1,), (-1,)), Fraction(5), Fraction(1, 2))
    ('converges', 8)
    """
    x, unit, seen = start, 1, set()
    for t in range(LOOKS[-1] + 1):
        rows = neighbours(x, unit, delta)
        if t in LOOKS and stays(x, unit, rows, delta, gamma):
            return CONVERGES, t
        after = step(x, unit, rows, gamma)
        if after == (x, unit):
            return CONVERGES, t
        if after in seen:
            return CYCLE, t
        if t < LOOKS[2]:
            seen.add((x, unit))
        x, unit = after
    return LEFT, LOOKS[-1]


def deltas(start: Tokens) -> Iterator[Fraction]:
    """Yield 1/2, 3/2, .. up to the largest difference of scores: for a larger delta all hear all."""
    scores = [[sum(p * q for p, q in zip(one, other, strict=True)) for other in start] for one in start]
    for k in range(max(max(row) - min(row) for row in scores)):
        yield Fraction(2 * k + 1, 2)


def exhaust(n: int, d: int, size: int, gamma: Fraction) -> tuple[Counter[str], list[tuple[Tokens, Fraction]]]:
    """Return how many orbits end in which way, and those that do not converge or are undecided.

    >>> exhaust(3, 1, 2, Fraction(1, 2))
    (Counter({'converges': 70}), [])
    """
    ends: Counter[str] = Counter()
    others = []
    for start in starts(n, d, size):
        for delta in deltas(start):
            end, _ = follow(start, delta, gamma)
            ends[end] += 1
            if end != CONVERGES:
                others.append((start, delta))
    return ends, others


if __name__ == "__main__":
    parser = ArgumentParser(description="follow every orbit of localmax layers from a small lattice, exactly")
    parser.add_argument("n", type=int)
    parser.add_argument("d", type=int)
    parser.add_argument("size", type=int, help="the largest coordinate")
    parser.add_argument("--gamma", type=Fraction, default=Fraction(1, 2))
    given = parser.parse_args()
    ends, others = exhaust(given.n, given.d, given.size, given.gamma)
    print(dict(ends))
    for start, delta in others[:20]:
        print(f"not settled: tokens {start}, delta {delta}")
