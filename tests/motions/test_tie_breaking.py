"""Ties of the hardmax flow against layers in exact arithmetic, where a tie is an equality of fractions."""

from __future__ import annotations

import os
from fractions import Fraction
from math import lcm

import numpy as np
import pytest
from numpy.typing import NDArray

import attnflow as af
from attnflow.motions.solvers.crossings import Rounding
from attnflow.motions.solvers.tie_breaking import Source, points, row_of

Array = NDArray[np.float64]
TIES = ("tokens", "points", "first")


def exact_layers(x: Array, B: Array, ties: str, masses: NDArray[np.int64], halvings: int, steps: int) -> Array:
    """Layers with gamma = 2^-halvings, all numbers whole multiples of one over a common denominator."""
    n, scale = len(x), 1 << 50
    state, form = [[int(Fraction(v) * scale) for v in row] for row in x.tolist()], B.astype(int).tolist()
    weights = masses.tolist()
    for _ in range(steps):
        rows = []
        for i in range(n):
            query = [sum(b * v for b, v in zip(line, state[i], strict=True)) for line in form]
            scores = [sum(q * v for q, v in zip(query, y, strict=True)) for y in state]
            top = max(scores)
            tied = [j for j in range(n) if scores[j] == top]
            if ties == "first":
                tied = tied[:1]
            if ties == "points":
                tied = [j for k, j in enumerate(tied) if all(state[j] != state[m] for m in tied[:k])]
            rows.append([(weights[j] if ties == "tokens" else 1, j) for j in tied])
        whole = lcm(*(sum(w for w, _ in row) for row in rows))
        following = []
        for i, row in enumerate(rows):
            part = whole // sum(w for w, _ in row)
            mean = [part * sum(w * state[j][k] for w, j in row) for k in range(len(form))]
            following.append([((1 << halvings) - 1) * whole * v + m for v, m in zip(state[i], mean, strict=True)])
        state, scale = following, scale * whole << halvings
    return np.array([[float(Fraction(v, scale)) for v in row] for row in state])


HALVINGS, STEPS = 6, 64
# So many layers take the tokens as far as the flow goes in this time.
UNTIL = -STEPS * float(np.log1p(-(2.0**-HALVINGS)))


def instance(rng: np.random.Generator) -> tuple[Array, Array, NDArray[np.int64], str]:
    """A few tokens on a small lattice, with copies and masses; a positive definite form of whole numbers; a rule."""
    n, d = int(rng.integers(3, 9)), int(rng.integers(1, 4))
    x = rng.integers(-2, 3, size=(n, d)).astype(float)
    A = rng.integers(-1, 2, size=(d, d)) * rng.integers(2)
    masses = rng.integers(1, 4, size=n) if rng.integers(2) else np.ones(n, dtype=np.int64)
    return x, (A @ A.T + np.eye(d)), masses, TIES[int(rng.integers(3))]


def flow(x: Array, B: Array, ties: str, masses: NDArray[np.int64]) -> Array:
    law = af.Hardmax(B=B, ties=ties)
    return af.simulate(x, law, af.HardmaxFlow(), UNTIL, masses=masses, record=[UNTIL]).final


def check(x: Array, B: Array, ties: str, masses: NDArray[np.int64]) -> None:
    expected = exact_layers(x, B, ties, masses, HALVINGS, STEPS)
    np.testing.assert_allclose(flow(x, B, ties, masses), expected, rtol=0, atol=6 * 2.0**-HALVINGS)


@pytest.mark.parametrize("block", range(8))
def test_lattices_against_exact_layers(block: int) -> None:
    """Whatever the masses and copies, also for tokens at 0, where all tie."""
    rng = np.random.default_rng(block)
    for _ in range(40 if "ATTNFLOW_EXAMPLES" in os.environ else 20):
        x, B, masses, ties = instance(rng)
        check(x, B, ties, masses)


@pytest.mark.parametrize("ties", ["tokens", "points"])
@pytest.mark.parametrize("side", [1, -1])
def test_sources_told_apart_in_the_first_layer_only(ties: str, side: int) -> None:
    """Tokens 1 and 2 would stay tied for good by symmetry, but the first layer, where 3 ties too, breaks it.

    Their scores for token 0 then differ by gamma^2 <v_0, v_1 - v_2>, so one of the two is followed from then on.
    """
    x = [[0.5, 0, 0], [1, 2, 0], [1, -2, 0], [1, 0, side], [0, 4, 2], [0, -4, -2], [-3, 0, 9 * side]]
    masses = np.ones(7, dtype=np.int64)
    check(np.array(x), np.eye(3), ties, masses)
    assert side * flow(np.array(x), np.eye(3), ties, masses)[0, 1] > 2


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("apart", [2.0**-43, 2.0**-46, 2.0**-48])
@pytest.mark.parametrize("side", [1, -1])
def test_followers_that_have_nearly_arrived_do_not_count(ties: str, apart: float, side: int) -> None:
    """Token 2 ties between two leaders; the follower beside one of them, a little inside, is no copy of it."""
    x = np.array([[2.0, 1.0], [2.0, -1.0], [1.0, 0.0], [2 - 2 * apart, side * 1.0]])
    for order in ([0, 1, 2, 3], [1, 0, 2, 3], [2, 1, 0, 3]):
        check(x[order], np.eye(2), ties, np.ones(4, dtype=np.int64))
        # A copy does count.
        check(np.array([[2.0, 1.0], [2.0, -1.0], [1.0, 0.0], [2.0, side]])[order], np.eye(2), ties, np.array([1] * 4))


def test_masses_of_copies_and_not_of_those_nearby() -> None:
    x = np.array([[2.0, 1.0], [2.0, 1.0], [2 - 2.0**-47, 1.0], [2.0, -1.0], [1.0, 0.0]])
    scores = x @ x[4]
    found = points(x, 4, np.arange(4), scores, np.array([1.0, 2.0, 4.0, 8.0, 16.0]), Rounding(x, None))
    assert found == [Source(0, 0, 3.0), Source(3, 3, 8.0)]
    assert points(x, 4, np.arange(4), scores, None, Rounding(x, None)) == [Source(0, 0, 2.0), Source(3, 3, 1.0)]


def test_a_token_stands_for_the_point_where_it_sits() -> None:
    """Even if another there has a lower index, or a score that is larger by rounding."""
    x = np.array([[1 + 2.0**-49, 0.0], [1.0, 2.0], [1.0, 0.0]])
    found = points(x, 2, np.arange(3), x @ x[2], None, Rounding(x, None))
    assert [(source.token, source.lowest) for source in found] == [(2, 0), (1, 1)]
    assert [source.token for source in points(x, 1, np.array([0, 2]), x @ x[2], None, Rounding(x, None))] == [0]


def test_the_first_source_is_the_one_of_lowest_index() -> None:
    """Whatever the order they are given in, and whoever stands for them."""
    sources = [Source(4, 3, 2.0), Source(7, 1, 1.0), Source(2, 2, 5.0)]
    for order in ([0, 1, 2], [1, 2, 0], [2, 0, 1]):
        tokens, shares = row_of([sources[k] for k in order], "first")
        assert (tokens.tolist(), shares.tolist()) == ([7], [1.0])
    tokens, shares = row_of(sources, "tokens")
    assert (tokens.tolist(), shares.tolist()) == ([4, 7, 2], [0.25, 0.125, 0.625])
    np.testing.assert_allclose(row_of(sources, "points")[1], 1 / 3)
