"""Proved claims about the limits of x_i' = V sum_j P_ij x_j, on random starts whose tokens provably lock to leaders.

V is diagonal, and `attnflow.enclosures.limits` has the theorem that tokens keep their leaders for ever. As in
`tools.checks_in_balls`, each function returns numbers that are at least 0 if the claim holds on its instance.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from attnflow.claims.samplers import cloud, positive_form
from attnflow.core.inputs import Array
from attnflow.enclosures.fields import dot
from attnflow.enclosures.numbers import Numbers, balls
from tools.certified_draws import NotDecided, few, form_of
from tools.locked_starts import locks

Rng = np.random.Generator


def _rates(rng: Rng, first: int, d: int) -> list[float]:
    """Return `first` equal rates, then smaller ones."""
    top = int(rng.integers(4, 9))
    return [top / 8] * first + [int(rng.integers(0, top)) / 8 for _ in range(d - first)]


def _locked(rng: Rng, k: int, first: int, d: int) -> tuple[Array, list[int], Array, Numbers]:
    """Return a start, the leader of each token, B on the fastest coordinates, and the limits along them."""
    x = few(cloud(rng, k, d=d)) + 0.1 * rng.standard_normal(d)
    B = form_of(positive_form(rng, k // 2, d), d)
    found = locks(x, _rates(rng, first, d), B)
    if found is None or any(one is None or len(one) > 1 for one in found.leaders):
        raise NotDecided("tokens are not proved to keep single leaders")
    return x, [min(one) for one in found.leaders if one], B[:first, :first], found.limits[:, :first]


def _in_stationary_set(rng: Rng, k: int, first: int, d: int) -> Iterator[Any]:
    """<B w, w - v> for the limits w of tokens and v of leaders: w has the largest score with itself."""
    _, leaders, B, limits = _locked(rng, k, first, d)
    G, places = balls(B), {one: limits[one] for one in leaders}
    if len(places) == 1:
        raise NotDecided("all tokens have one leader")
    for own, w in places.items():
        query = [dot(row, w) for row in G]
        yield from (dot(query, w - v) for other, v in places.items() if other != own)


def polytope(rng: Rng, k: int) -> Iterator[Any]:
    """V = I: limits of rescaled tokens are in S."""
    d = 1 + k % 3
    return _in_stationary_set(rng, k, d, d)


def polytope_times_subspace(rng: Rng, k: int) -> Iterator[Any]:
    """Limits along the fastest coordinates have the largest score with themselves."""
    return _in_stationary_set(rng, k, 1 + k % 2, 2 + k % 2)


def hyperplanes(rng: Rng, k: int) -> Iterator[Any]:
    """At most two leaders, with first coordinates of different signs; one leader if all start with one sign."""
    x, leaders, _, limits = _locked(rng, k, 1, 1 + k % 3)
    led = sorted(set(leaders), key=lambda one: float(limits[one, 0]))
    sides = 1 if (x[:, 0] > 0).all() or (x[:, 0] < 0).all() else 2
    yield Fraction(sides - len(led))
    if len(led) == 2:
        yield from (-limits[led[0], 0], limits[led[1], 0])


def boolean(rng: Rng, k: int) -> Iterator[Any]:
    """Every leader on the line is the first or the last token, so rows tend to e_1 or e_n."""
    x, leaders, _, _ = _locked(rng, k, 1, 1)
    ends = {int(x[:, 0].argmin()), int(x[:, 0].argmax())}
    yield from (Fraction(0 if one in ends else -1) for one in leaders)
