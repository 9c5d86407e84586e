"""The neighbours engine against the dense reference: the same neighbours, whatever rounding does at their boundary."""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from larger import larger
from numpy.typing import NDArray

import attnflow as af
from attnflow.core.inputs import InputError
from attnflow.engines import choose, dense, fused, neighbours

Array = NDArray[np.float64]


def lattice(rng: np.random.Generator, n: int, d: int) -> Array:
    """Many copies, and many tokens at exactly the same distances and scores."""
    return rng.integers(-4, 5, (n, d)) / 7.0


def clusters(rng: np.random.Generator, n: int, d: int) -> Array:
    """Tight clusters of different widths, and copies of a few of their tokens."""
    centres = rng.standard_normal((5, d))
    x = centres[rng.integers(5, size=n)] + 10.0 ** rng.uniform(-14, -1, (n, 1)) * rng.standard_normal((n, d))
    x[n // 2 :] = x[rng.integers(n // 2, size=n - n // 2)]
    return x


def line(rng: np.random.Generator, n: int, d: int) -> Array:
    """Tokens on a line through 0, one of them there."""
    x = np.outer(rng.standard_normal(n), np.arange(1.0, d + 1))
    x[n // 3] = 0.0
    return x


CLOUDS: dict[str, Callable[[np.random.Generator, int, int], Array]] = {
    "normal": lambda rng, n, d: rng.standard_normal((n, d)),
    "sphere": lambda rng, n, d: (lambda y: y / np.linalg.norm(y, axis=1, keepdims=True))(rng.standard_normal((n, d))),
    "lattice": lattice,
    "clusters": clusters,
    "line": line,
    "far away": lambda rng, n, d: 1e6 + rng.standard_normal((n, d)),
    "one point": lambda rng, n, d: np.full((n, d), 0.3),
}


def numbers(n: int) -> tuple[Array, Array]:
    """Return values and weights so different that a mean tells of each neighbour whether it is one."""
    rng = np.random.default_rng(n)
    return rng.standard_normal((n, 2)), rng.uniform(0.2, 5.0, n)


def assert_same_ball(q: Array, x: Array, radius: float) -> None:
    v, w = numbers(len(x))
    with np.errstate(over="ignore", invalid="ignore"):
        expected = dense.ball(q, x, v, w, radius)
    np.testing.assert_allclose(neighbours.ball(q, x, v, w, radius), expected, rtol=0, atol=1e-12)


def assert_same_top(q: Array, x: Array, slack: Array, relative: float) -> None:
    v, w = numbers(len(x))
    w[::7] = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        expected = dense.top(q, x, v, w, slack, relative)
    found = neighbours.top(q, x, v, w, slack, relative)
    np.testing.assert_allclose(found[0], expected[0], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_array_equal(found[2], expected[2])


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("name", CLOUDS)
def test_sets_of_neighbours_are_exact(name: str, d: int) -> None:
    """Radii and thresholds are distances and scores of tokens, so that rounding decides on some of them."""
    rng = np.random.default_rng(d)
    n = 60
    x = CLOUDS[name](rng, n, d)
    q = np.concatenate([x[::3], x[:9] + rng.standard_normal((9, d))])
    distances, scores = np.sqrt(dense.squared_distances(x, x)), dense.scores(q, x)
    for i in range(0, n, 13):
        for radius in (distances[i, i // 2], np.nextafter(distances[i, -1], 9.0), distances[i, -1] * 3):
            assert_same_ball(x, x, float(radius))
            assert_same_ball(x.copy(), x, float(radius))
        room = scores.max(axis=1) - scores[:, i]
        assert_same_top(q, x, room, 0.0)
        assert_same_top(q, x, np.full(len(q), float(np.abs(room).max()) / 3), 0.0)
    assert_same_top(q, x, np.zeros(len(q)), 0.4)


@given(
    st.sampled_from(sorted(CLOUDS)),
    st.integers(1, 3),
    st.sampled_from([1e-160, 1e-100, 1.0, 1e100, 1e150]),
    st.floats(0, 1),
    st.integers(0, 10**6),
)
def test_random_clouds(name: str, d: int, scale: float, share: float, seed: int) -> None:
    """Many tokens in groups and nodes of all sizes, at scales where products leave float64."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 260))
    x = scale * CLOUDS[name](rng, n, d)
    widest = float(np.linalg.norm(np.ptp(x, axis=0)))
    assert_same_ball(x, x, share * widest)
    with np.errstate(over="ignore"):
        assert_same_top(x, x, np.full(n, share**3 * scale * widest), 0.0)
        assert_same_top(x * rng.choice([0.0, 1e-200, 1.0, 7.0], (n, 1)), x, np.zeros(n), share)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_one_token_alone_hears_itself(d: int) -> None:
    x, v, w = np.full((1, d), 0.3), np.array([[5.0, -2.0]]), np.array([0.7])
    assert neighbours.ball(x, x, v, w, 0.0).tolist() == [[5.0, -2.0]]
    for slack, relative in ((0.0, 0.0), (1.0, 0.0), (0.0, 0.5)):
        mean, best, leader = neighbours.top(x, x, v, w, np.array([slack]), relative)
        assert mean.tolist() == [[5.0, -2.0]]
        assert leader.tolist() == [0]
        assert best[0] == pytest.approx(0.09 * d)


@pytest.mark.parametrize("large", [False, pytest.param(True, marks=larger)])
@pytest.mark.parametrize("name", ["normal", "clusters", "line", "one point"])
def test_many_tokens_hear_the_same_as_a_few_of_them_one_by_one(name: str, large: bool) -> None:
    """More than one task, nodes of all sizes, and queries that decide for themselves; some rows against all pairs."""
    n = 300_000 if large else 6_000
    x = CLOUDS[name](np.random.default_rng(0), n, 2)
    w = np.random.default_rng(1).uniform(0.5, 2.0, n)
    some, width = slice(0, n, n // 50), float(np.ptp(x))
    q = x[some].copy()
    for part in (1e-3, 0.05, 0.5):
        room = np.full(n, part * width)
        ball = neighbours.ball(x, x, x, w, part * width)
        top, best, leader = neighbours.top(x, x, x, w, room, 0.0)
        np.testing.assert_allclose(ball[some], dense.ball(q, x, x, w, part * width), rtol=0, atol=1e-12)
        expected = dense.top(q, x, x, w, room[some], 0.0)
        np.testing.assert_allclose(top[some], expected[0], rtol=0, atol=1e-12)
        np.testing.assert_array_equal(best[some], expected[1])
        np.testing.assert_array_equal(leader[some], expected[2])


def test_the_margin_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of tokens on the boundaries of half-spaces: without room for rounding, whole nodes are decided wrongly."""

    def agrees(seed: int) -> bool:
        rng = np.random.default_rng(seed)
        normal = rng.standard_normal(2)
        x = np.outer(rng.standard_normal(12), normal[::-1] * [1, -1]) + rng.integers(0, 3, (12, 1)) * normal
        x, q = np.repeat(x, 24, axis=0), np.repeat(np.outer(rng.uniform(0.1, 3.0, 8), normal), 24, axis=0)
        scores, w = dense.scores(q, x), np.ones(len(x))
        room = scores.max(axis=1) - scores[:, 0]
        expected = dense.top(q, x, x, w, room, 0.0)[0]
        return bool(np.abs(neighbours.top(q, x, x, w, room, 0.0)[0] - expected).max() <= 1e-12)

    assert all(agrees(seed) for seed in range(30))
    monkeypatch.setattr(neighbours, "MARGIN", 0.0)
    assert not all(agrees(seed) for seed in range(30))


def test_means_of_copies_are_their_point() -> None:
    """Tokens that have met stay together to the last bit, and one that hears itself alone does not move."""
    rng = np.random.default_rng(3)
    x = np.repeat(rng.standard_normal((40, 2)), 75, axis=0)
    x = np.concatenate([x, 50 + rng.standard_normal((50, 2))])
    w = rng.uniform(0.1, 3.0, len(x))
    np.testing.assert_array_equal(neighbours.ball(x, x, x, w, 1e-6), x)
    hard = dense.top(x, x, x, w, np.zeros(len(x)), 0.0)[2]
    np.testing.assert_array_equal(neighbours.top(x, x, x, w, np.full(len(x), 1e-9), 0.0)[0], x[hard])


def test_weights_of_any_size() -> None:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((500, 2))
    for lightest, heaviest in ((-290, -280), (-150, 150), (280, 290)):
        w = 10.0 ** rng.uniform(lightest, heaviest, 500)
        np.testing.assert_allclose(neighbours.ball(x, x, x, w, 0.7), dense.ball(x, x, x, w, 0.7), rtol=0, atol=1e-12)


def test_nobody_near_is_no_number() -> None:
    x = np.random.default_rng(5).standard_normal((50, 2))
    mean = neighbours.ball(np.array([[99.0, 0.0], [0.0, 0.0]]), x, x, np.ones(50), 1.0)
    assert np.isnan(mean[0]).all()
    assert np.isfinite(mean[1]).all()


def test_no_bit_depends_on_the_number_of_threads() -> None:
    x = np.random.default_rng(6).standard_normal((9000, 2))
    room, w, most = np.full(9000, 0.5), np.ones(9000), numba.get_num_threads()
    ball, top = neighbours.ball(x, x, x, w, 0.2), neighbours.top(x, x, x, w, room, 0.0)[0]
    numba.set_num_threads(1)
    try:
        assert neighbours.ball(x, x, x, w, 0.2).tobytes() == ball.tobytes()
        assert neighbours.top(x, x, x, w, room, 0.0)[0].tobytes() == top.tobytes()
    finally:
        numba.set_num_threads(most)


@pytest.mark.parametrize("threshold", ["additive", "relative", "normalized"])
def test_laws_are_served(threshold: str) -> None:
    x = af.tokens.gaussian(n=2100, d=2, seed=0)
    for law in (af.Localmax(delta=0.3, threshold=threshold, B=[[1.0, 0.5], [-0.2, 2.0]]), af.HegselmannKrause(eps=0.3)):
        assert law.uses("auto", 2100, 2) == law.uses("precise", 2100, 2) == "neighbours"
        np.testing.assert_allclose(law.attend(x), law.weights(x) @ x, rtol=0, atol=1e-12)
    run = af.simulate(x, af.HegselmannKrause(eps=0.4), af.Layers(gamma=1.0), until=3)
    assert run.report["engine"] == "neighbours"
    other = af.simulate(x, af.HegselmannKrause(eps=0.4), af.Layers(gamma=1.0), until=3, engine="fused")
    np.testing.assert_allclose(run.final, other.final, rtol=0, atol=1e-12)


def test_other_laws_are_refused() -> None:
    assert choose("neighbours", "ball", 5, 5, 3) == "neighbours"
    assert choose("auto", "ball", 10**5, 10**5, 4) == "fused"
    for kind, d in (("softmax", 2), ("top", 2), ("near", 4)):
        with pytest.raises(InputError, match="engine 'neighbours' serves Localmax and HegselmannKrause in up to 3"):
            choose("neighbours", kind, 5, 5, d)


def test_balls_beyond_space_are_those_of_the_fused_engine() -> None:
    x = np.random.default_rng(0).standard_normal((30, 4))
    w = np.ones(30)
    np.testing.assert_array_equal(neighbours.ball(x, x, x, w, 1.5), fused.ball(x, x, x, w, 1.5))
