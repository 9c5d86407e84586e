"""Generic polytopes in exact arithmetic: determinants, ties, zeros of both signs."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from refusals import refused

from attnflow.geometry import cells, chunk_linkage, genericity
from attnflow.geometry.generic import _determinant

Array = NDArray[np.float64]


def leibniz(m: Array) -> int:
    """The sum over all permutations."""
    total = 0
    for order in permutations(range(len(m))):
        inversions = sum(order[a] > order[b] for a in range(len(m)) for b in range(a + 1, len(m)))
        total += (-1) ** inversions * int(np.prod([m[i, j] for i, j in enumerate(order)]))
    return total


def test_determinants_are_those_of_leibniz() -> None:
    """Small integers: many pivots are 0, and many matrices singular."""
    singular = 0
    for seed in range(120):
        rng = np.random.default_rng(seed)
        d = 1 + seed % 4
        m, origin = rng.integers(-1, 2, (d, d)).astype(float), rng.integers(-3, 4, d).astype(float)
        expected = leibniz(m)
        singular += expected == 0
        assert _determinant(m + origin, origin) == Fraction(expected), seed
    assert 20 < singular < 100


@pytest.mark.parametrize("d", [2, 3, 4])
def test_a_token_beyond_a_facet_by_one_rounding(d: int) -> None:
    """The simplex of 0 and the unit vectors: a token on the facet x_1 = 0 is no vertex, at x_1 = -2^-54 it is one."""
    corners = np.vstack([np.zeros(d), np.eye(d)])
    on = np.full(d, 1 / (2 * d))
    on[0] = 0.0
    for height, extreme in ((0.0, False), (2.0**-54, False), (-(2.0**-54), True)):
        token = on + height * np.eye(d)[0]
        found = [b for b in genericity(np.vstack([corners, token]), vertices=corners).broken if b.condition == "a"]
        assert [(b.what, b.index, b.decided) for b in found] == ([("token", d + 1, False)] if extreme else [])


def test_zeros_of_both_signs_are_one_point() -> None:
    square = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    negative = np.where(square == 0, -0.0, square)
    twice = np.vstack([square, negative])
    assert genericity(square, vertices=negative).generic
    assert genericity(negative, vertices=square).generic
    assert genericity(twice).generic
    assert cells(twice).gap([[0.5, 0.1]]) == pytest.approx([0.4])
    assert [b.because for b in genericity(square, vertices=twice[:5]).broken if b.condition == "a"] == [
        "vertex 4 repeats vertex 0"
    ]


def test_a_vertex_that_ties_and_a_vertex_that_loses_are_decided() -> None:
    """<v_1, v_0 - v_1> is 0 for the first triangle and 2 for the second: both are certain, in rational arithmetic."""
    tie = genericity([[1.0, 1.0], [1.0, 0.0], [-1.0, 0.0], [0.3, 0.6]])
    lost = genericity([[3.0, 1.0], [1.0, 0.0], [3.0, -1.0], [2.5, 0.1]])
    assert [(b.index, b.margin, b.decided) for b in tie.broken if b.condition == "b"] == [(1, 0.0, True)]
    assert [(b.index, b.margin, b.decided) for b in lost.broken if b.condition == "b"] == [(1, -2.0, True)]


def test_too_many_tokens_between_clusters_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_linkage, "MOST_POINTS", 1)
    doubt: Any = None
    with refused("2 tokens decide which clusters belong together, too many to be compared"):
        chunk_linkage.settled(np.zeros(1, dtype=np.int64), doubt, [(np.array([0, 0]), np.zeros((2, 1)))])
