"""One suite for every engine: sums against plain Python, and against what must not change them."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attnflow.engines import ENGINES, choose
from attnflow.engines.dense import softmax as reference

pytestmark = pytest.mark.usefixtures("all_threads")

Array = NDArray[np.float64]


@pytest.fixture
def sums(engine: str) -> Any:
    """Each engine that computes every sum."""
    return importlib.import_module(f"attnflow.engines.{engine}")


@pytest.fixture(params=[*ENGINES, "vertices", "neighbours"])
def tops(request: pytest.FixtureRequest) -> Any:
    """Each engine that averages over top scores: all of them."""
    return importlib.import_module(f"attnflow.engines.{request.param}")


def plain_softmax(q: Array, k: Array, v: Array, w: Array, gain: float) -> tuple[list[list[float]], list[float]]:
    """Softmax averages by compensated sums in plain Python."""
    means, totals = [], []
    for query in q.tolist():
        s = [math.fsum(a * b for a, b in zip(query, key, strict=True)) for key in k.tolist()]
        top = max(s)
        e = [mass * math.exp(gain * (score - top)) for mass, score in zip(w.tolist(), s, strict=True)]
        z = math.fsum(e)
        means.append([math.fsum(p * x for p, x in zip(e, column, strict=True)) / z for column in v.T.tolist()])
        totals.append(gain * top + math.log(z))
    return means, totals


@pytest.mark.parametrize(
    ("m", "n", "d", "k"), [(1, 1, 1, 1), (3, 5, 2, 2), (9, 65, 2, 3), (17, 130, 5, 4), (8, 8, 40, 1)]
)
@pytest.mark.parametrize("gain", [0.0, 0.7, 30.0])
def test_softmax_against_plain_python(sums: Any, m: int, n: int, d: int, k: int, gain: float) -> None:
    rng = np.random.default_rng(m + n)
    q, keys, v = rng.standard_normal((m, d)), rng.standard_normal((n, d)), rng.standard_normal((n, k))
    w = rng.uniform(0.1, 9.0, n)
    mean, log_total = sums.softmax(q, keys, v, np.log(w), gain)
    expected_mean, expected_total = plain_softmax(q, keys, v, w, gain)
    np.testing.assert_allclose(mean, expected_mean, rtol=0, atol=2e-13)
    np.testing.assert_allclose(log_total, expected_total, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_softmax_of_many_rows_uses_the_parallel_path_and_agrees(sums: Any, d: int) -> None:
    x = np.random.default_rng(0).standard_normal((700, d))
    mean, log_total = sums.softmax(x, x, x, None, 4.0)
    expected = reference(x, x, x, None, 4.0)
    np.testing.assert_allclose(mean, expected[0], rtol=0, atol=1e-13)
    np.testing.assert_allclose(log_total, expected[1], rtol=1e-13)


def test_masses_over_twelve_orders_of_magnitude(sums: Any) -> None:
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((40, 2)), 10.0 ** rng.uniform(-6, 6, 40)
    mean, log_total = sums.softmax(x, x, x, np.log(w), 2.0)
    expected_mean, expected_total = plain_softmax(x, x, x, w, 2.0)
    np.testing.assert_allclose(mean, expected_mean, rtol=0, atol=1e-13)
    np.testing.assert_allclose(log_total, expected_total, rtol=1e-13)


def test_far_outlier_is_felt_by_itself_alone(sums: Any) -> None:
    x = np.array([[1e8, 0.0], [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    mean, _ = sums.softmax(x, x, x, None, 1.0)
    np.testing.assert_array_equal(mean[0], x[0])
    np.testing.assert_array_equal(mean[1], x[0])
    assert np.isfinite(mean).all()


def plain_top(q: Array, k: Array, v: Array, w: Array, slack: Array, relative: float) -> list[list[float]]:
    means = []
    for query, room in zip(q.tolist(), slack.tolist(), strict=True):
        s = [sum(a * b for a, b in zip(query, key, strict=True)) if mass > 0 else -math.inf
             for key, mass in zip(k.tolist(), w.tolist(), strict=True)]  # fmt: skip
        bound = max(s) - room - relative * abs(max(s))
        near = [j for j, score in enumerate(s) if score >= bound]
        z = math.fsum(w[j] for j in near)
        means.append([math.fsum(w[j] * v[j, c] for j in near) / z for c in range(v.shape[1])])
    return means


@pytest.mark.parametrize("d", [1, 2, 3, 7])
@pytest.mark.parametrize(("slack", "relative"), [(0.0, 0.0), (0.5, 0.0), (0.0, 0.4), (100.0, 0.0)])
def test_neighbours_against_plain_python(tops: Any, d: int, slack: float, relative: float) -> None:
    rng = np.random.default_rng(d)
    q, keys = rng.integers(-2, 3, (30, d)).astype(float), rng.integers(-2, 3, (45, d)).astype(float)
    v, w = rng.standard_normal((45, 2)), rng.uniform(0.0, 2.0, 45) * (rng.uniform(size=45) < 0.8)
    room = np.full(30, slack)
    mean, best, leader = tops.top(q, keys, v, w, room, relative)
    np.testing.assert_allclose(mean, plain_top(q, keys, v, w, room, relative), rtol=0, atol=1e-14)
    s = np.where(w > 0, q @ keys.T, -np.inf)
    np.testing.assert_array_equal(best, s.max(axis=1))
    np.testing.assert_array_equal(leader, s.argmax(axis=1))


def test_ties_of_permuted_products_are_exact(tops: Any) -> None:
    """(a, a) scores (p, q) and (q, p) alike: fused operations would break this tie on about half the draws."""
    rng = np.random.default_rng(1)
    for a, p, q in rng.uniform(0.1, 1.0, (200, 3)):
        keys = np.array([[p, q], [q, p]])
        mean, _, _ = tops.top(np.array([[a, a]]), keys, keys, np.ones(2), np.zeros(1), 0.0)
        np.testing.assert_allclose(mean[0], [(p + q) / 2] * 2, rtol=1e-15)


@pytest.fixture(params=[*ENGINES, "neighbours"])
def balls(request: pytest.FixtureRequest) -> Any:
    """Each engine that averages over balls."""
    return importlib.import_module(f"attnflow.engines.{request.param}")


def test_ball_against_plain_python(balls: Any) -> None:
    rng = np.random.default_rng(5)
    q, keys = rng.integers(0, 5, (25, 2)).astype(float), rng.integers(0, 5, (40, 2)).astype(float)
    keys[:25] = q
    v, w = rng.standard_normal((40, 3)), rng.uniform(0.5, 2.0, 40)
    mean = balls.ball(q, keys, v, w, math.sqrt(5.0))
    for i, row in enumerate(mean):
        near = [j for j in range(40) if math.dist(q[i], keys[j]) ** 2 <= 5.0 + 1e-9]
        np.testing.assert_allclose(row, np.average(v[near], axis=0, weights=w[near]), rtol=0, atol=1e-14)


def test_fused_exponential_is_accurate_to_rounding() -> None:
    """One key at 0 and one at 1: the weight of the second is e^s / (1 + e^s), for s over the whole range."""
    from attnflow.engines import fused

    s = np.concatenate([-np.logspace(-8, 2.8, 400), np.logspace(-8, 2.8, 400)])
    keys = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    q = np.column_stack([s, 0 * s, 0 * s])
    mean, _ = fused.softmax(q, keys, np.array([[1.0], [0.0]]), None, 1.0)
    exact = np.array([1 / (1 + math.exp(v)) if v < 700 else math.exp(-v) for v in s])
    np.testing.assert_allclose(mean[:, 0], exact, rtol=2e-13)


def test_choice_of_engine_is_a_function_of_the_inputs() -> None:
    assert choose("auto", "softmax", 50, 50, 2) == "fused"
    assert choose("auto", "softmax", 50, 50, 128) == "dense"
    assert choose("auto", "softmax", 10**5, 10**5, 128) == "blocked"
    assert choose("auto", "softmax", 300, 300, 8) == choose("precise", "softmax", 300, 300, 8) == "blocked"
    assert choose("auto", "softmax", 300, 300, 3) == choose("auto", "softmax", 200, 200, 4) == "fused"
    assert choose("auto", "softmax", 300, 300, 4) == choose("auto", "softmax", 10_000, 10_000, 4) == "blocked"
    assert choose("auto", "softmax", 20_000, 20_000, 10) == "fast"
    assert choose("auto", "softmax", 20_000, 20_000, 11) == choose("precise", "softmax", 20_000, 20_000, 5) == "blocked"
    assert choose("auto", "top", 50, 50, 128) == "fused"
    assert choose("auto", "top", 256, 256, 2) == "fused"
    assert choose("auto", "top", 10**4, 10**4, 3) == "vertices"
    assert choose("auto", "top", 10**4, 10**4, 4) == choose("auto", "near", 10**4, 10**4, 4) == "fused"
    assert choose("auto", "near", 10**4, 10**4, 2) == choose("precise", "ball", 10**4, 10**4, 3) == "neighbours"
    assert choose("vertices", "top", 2, 2, 2) == "vertices"
    for name in ENGINES:
        assert choose(name, "softmax", 50, 50, 2) == name


def test_a_score_that_overflows_makes_its_row_nan(tops: Any) -> None:
    """Finite but wrong would be worse: whoever calls looks for NaN."""
    q = np.array([[1e200, 1e200, 0.0], [1.0, 1.0, 0.0]])
    keys = np.array([[1.0, 1.0, 0.0], [1e200, -1e200, 5.0]])
    with np.errstate(over="ignore", invalid="ignore"):
        mean, _, _ = tops.top(q, keys, keys, np.ones(2), np.zeros(2), 0.0)
    assert np.isnan(mean[0]).all()
    np.testing.assert_array_equal(mean[1], keys[0])
