"""No gap between scores closes unseen: crossings against dense sampling, and against roots known in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.linalg import expm

from attnflow.motions.solvers.crossings import Race, Rounding, bernstein, first_root, quadratic_times
from attnflow.motions.solvers.leader_graph import SPAN, LeaderGraph, Piece

Array = NDArray[np.float64]

KINDS = ("resting leaders", "chains", "cycles", "averages")
# Straight lines are followed for ever, the others for SPAN.
SOON = np.linspace(0, SPAN, 1001)
LATE = np.linspace(0, 12, 601)


def race(x: Array, following: LeaderGraph, B: Array) -> Race:
    return Race(Piece(0.0, x, following), lambda y: y @ B.T, Rounding(x, B))


def followings(kind: str, rng: np.random.Generator, n: int) -> LeaderGraph:
    """Tokens that follow resting ones; each other in a row; in a circle; or several at once."""
    if kind == "resting leaders":
        rests = rng.uniform(size=n) < 0.5
        rests[0] = True
        return LeaderGraph.of(np.where(rests, np.arange(n), rng.choice(np.flatnonzero(rests), n)))
    if kind == "chains":
        return LeaderGraph.of(np.array([max(0, k - rng.integers(0, 3)) for k in range(n)]))
    if kind == "cycles":
        return LeaderGraph.of(rng.permutation(n))
    rows = {}
    for i in range(n):
        sources = np.sort(rng.choice(n, size=rng.integers(1, min(n, 4) + 1), replace=False))
        shares = rng.uniform(0.1, 1, len(sources))
        rows[i] = sources, shares / shares.sum()
    return LeaderGraph.of(np.arange(n)).replaced(rows)


def positions(rng: np.random.Generator, n: int, d: int) -> Array:
    """Small whole numbers, some of them far out: a token pulled there late bends away from its first direction."""
    x = rng.integers(-3, 4, size=(n, d)) + rng.choice([0.0, 0.1], size=(n, 1)) * rng.standard_normal((n, d))
    return np.asarray(x * 10.0 ** rng.integers(0, 3, size=(n, 1)))


def generator(following: LeaderGraph) -> Array:
    """Return P - I."""
    P = -np.eye(len(following.starts))
    np.add.at(P, (following.owners, following.sources), following.shares)
    return P


def sampled(x: Array, A: Array, times: Array) -> Array:
    """Return e^{tA} x at evenly spaced times that begin with 0."""
    step, states = expm(times[1] * A), x[None]
    while len(states) < len(times):
        states, step = np.concatenate([states, step @ states]), step @ step
    return states[: len(times)]


def gaps(x: Array, leaders: NDArray[np.int64], B: Array) -> Array:
    """Return <B x_i, x_l - x_j> for states x (..., n, d)."""
    scores = x @ B.T @ x.swapaxes(-1, -2)
    own: Array = np.take_along_axis(scores, np.broadcast_to(leaders[:, None], (*scores.shape[:-1], 1)), axis=-1)
    return own - scores


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 10**9))
def test_no_gap_closes_unseen(kind: str, seed: int) -> None:
    """For each pair: reported no later than a sample below zero, and where it is reported the gap is zero."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 13)), int(rng.integers(1, 4))
    x, following = positions(rng, n, d), followings(kind, rng, n)
    B = rng.standard_normal((d, d)) if rng.integers(2) else np.eye(d)
    if not np.abs(x).any():
        return
    watched = race(x, following, B)
    straight, leaders = watched.piece.straight, following.leaders
    when = np.stack([watched.first(np.arange(n), np.array([j]))[0] for j in range(n)], axis=1)
    room = 1e-11 * np.abs(B).sum() * np.abs(x).max() ** 2
    held = following.holds(*np.divmod(np.arange(n * n), n)).reshape(n, n)
    A = generator(following)
    for times, pairs in ((SOON, ~held), (LATE, ~held & straight[:, None] & straight)):
        below = (gaps(sampled(x, A, times), leaders, B) < -room) & pairs
        assert (when <= np.where(below.any(axis=0), times[below.argmax(axis=0)], np.inf)).all()
    assert (gaps(x, leaders, B) <= room)[when == 0].all()
    for i, j in rng.permutation(np.argwhere(np.isfinite(when) & (when > 0)))[:15]:
        assert abs(gaps(expm(when[i, j] * A) @ x, leaders, B)[i, j]) <= room
    # The first of all is the first of the pairs.
    first, whom = watched.first(np.arange(n), np.arange(n))
    np.testing.assert_array_equal(first, when.min(axis=1))
    assert (when[np.arange(n), whom] == first)[np.isfinite(first)].all()


@pytest.mark.parametrize("u", [0.5, 0.9, 0.99, 1 - 1e-9])
def test_products_of_series_are_long_enough(u: float) -> None:
    """Two tokens that chase each other are at (+-e^{-2t}, 1), and the gap to a third is e^{-4t} - e^{-2u}.

    No series decays more slowly: a product cut at order k is wrong by 2^k / k!.
    """
    x = np.array([[1.0, 1.0], [-1.0, 1.0], [0.0, 1 + np.exp(-2 * u)]])
    watched = race(x, LeaderGraph.of(np.array([1, 0, 2])), np.diag([-1.0, 1.0]))
    when, whom = watched.first(np.array([0]), np.arange(3))
    assert whom[0] == 2
    assert when[0] == pytest.approx(u * SPAN, rel=0, abs=1e-14)


def test_a_gap_that_is_negative_only_late() -> None:
    """x_i = 1 + u follows 2, x_j = 3u: the gap (1 + u)(2 - 3u) has no small Bernstein coefficient but the last."""
    x = np.array([[1.0], [2.0], [0.0], [3.0]])
    watched = race(x, LeaderGraph.of(np.array([1, 1, 3, 3])), np.eye(1))
    when, whom = watched.first(np.array([0]), np.array([2]))
    assert whom.tolist() == [2]
    assert when[0] == pytest.approx(np.log(3), abs=1e-15)


@pytest.mark.parametrize("far", [10.0, 1e3, 1e5])
def test_a_token_that_bends_between_two_far_ones(far: float) -> None:
    """Token 0 sits still at e, with its leader, which goes to -1: it turns back with x = (1 + e) (1 + t) e^{-t} - 1.

    At x = 0 it changes from what is near to token 3, far away on the other side: the second order of x times that
    distance closes the gap, whose first two terms are large.
    """
    x = np.array([[0.01], [0.01], [-1.0], [-far]])
    watched = race(x, LeaderGraph.of(np.array([1, 2, 2, 3])), np.eye(1))
    when, whom = watched.first(np.array([0]), np.array([3]))
    t = when[0]
    assert whom.tolist() == [3]
    assert 1.01 * (1 + t) * np.exp(-t) == pytest.approx(1, rel=1e-14)


@pytest.mark.parametrize("u", [0.01, 0.4, 0.5, 0.6, 0.99])
def test_a_gap_that_opens_at_zero_closes_again(u: float) -> None:
    """G = 3 u (r - u): zero at once, then positive up to u = r."""
    from_start = np.array([[0.0], [3 * u], [-3.0]])
    from_end = np.array([[3 * (u - 1)], [3 * (2 - u)], [-3.0]])
    found = quadratic_times(from_start, from_end, np.array([1e-15]))
    assert found[0] == pytest.approx(-np.log1p(-u), rel=1e-13)
    assert quadratic_times(-from_start, -from_end, np.array([1e-15]))[0] == 0
    upward = np.array([[0.0], [3 * u], [3.0]]), np.array([[3 * (1 + u)], [-3 * (2 + u)], [3.0]])
    assert quadratic_times(*upward, np.array([1e-15]))[0] == np.inf


def test_a_polynomial_that_begins_below_0_has_its_root_at_the_start() -> None:
    powers = np.array([-1.0, 2.0])
    assert first_root(powers, powers @ bernstein(1)) == 0.0
