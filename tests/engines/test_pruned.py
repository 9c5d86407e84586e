"""The pruned engine against the dense reference: what it leaves out stays below the tolerance, on every input."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attnflow.engines import Memory, dense, fast, fused, pruned, pruned_kernels

Array = NDArray[np.float64]
Generator = np.random.Generator


def disc(rng: Generator, n: int, d: int) -> Array:
    x = rng.standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True) * rng.uniform(0, 1, (n, 1)) ** (1 / d)


def clusters(rng: Generator, n: int, d: int) -> Array:
    centres = 5 * rng.standard_normal((2, d))
    return centres[rng.integers(0, 2, n)] + 1e-3 * rng.standard_normal((n, d))


def stragglers(rng: Generator, n: int, d: int) -> Array:
    x = clusters(rng, n, d)
    x[: n // 20] = 3 * rng.standard_normal((n // 20, d))
    return x


def outlier(rng: Generator, n: int, d: int) -> Array:
    x = rng.standard_normal((n, d))
    x[n // 2] = 1e3
    return x


CLOUDS: dict[str, Callable[[Generator, int, int], Array]] = {
    "normal": lambda rng, n, d: rng.standard_normal((n, d)),
    "disc": disc,
    "heavy tails": lambda rng, n, d: rng.standard_t(3, (n, d)),
    "two clusters": clusters,
    "stragglers": stragglers,
    "line": lambda rng, n, d: rng.standard_normal((n, 1)) * rng.standard_normal(d) + rng.standard_normal(d),
    "outlier": outlier,
    "equal": lambda rng, n, d: np.tile(rng.standard_normal(d), (n, 1)),
    "copies": lambda rng, n, d: rng.standard_normal((5, d))[rng.integers(0, 5, n)],
    "lattice": lambda rng, n, d: rng.integers(-4, 5, (n, d)).astype(float),
    "far away": lambda rng, n, d: rng.standard_normal((n, d)) + 1e3,
}
FORMS: dict[str, Callable[[int], Array]] = {
    "identity": np.eye,
    "minus identity": lambda d: -np.eye(d),
    "any": lambda d: np.random.default_rng(d).standard_normal((d, d)),
}


def diameter(values: Array) -> float:
    return float(np.linalg.norm(values.max(axis=0) - values.min(axis=0)))


def rounding(q: Array, k: Array, gain: float) -> float:
    """What rounding does to exponents, here or in the reference."""
    return 8 * 2.0**-53 * gain * float((np.abs(q).max(axis=0) * np.abs(k).max(axis=0)).sum())


def assert_close(q: Array, k: Array, v: Array, log_masses: Array | None, gain: float, rows: Any = slice(None)) -> float:
    """Compare some rows with the reference; return the error of the mean in units of the diameter."""
    mean, log_total = pruned.softmax(q, k, v, log_masses, gain)
    expected, expected_total = dense.softmax(q[rows], k, v, log_masses, gain)
    assert mean.shape == (len(q), v.shape[1])
    error = np.linalg.norm(mean[rows] - expected, axis=1).max()
    fuzz = rounding(q, k, gain)
    size = max(diameter(v), 1e-300)
    # Ties that rounding breaks are broken anew by every order of additions.
    assert error <= size * (pruned.TOLERANCE + min(fuzz, 1.0)) + 1e-13 * np.abs(v).max()
    assert (
        np.abs(log_total[rows] - expected_total).max() <= pruned.TOLERANCE + fuzz + 1e-13 * np.abs(expected_total).max()
    )
    return float(error / size)


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of pairs that were summed, call by call."""
    counts: list[int] = []
    summed = pruned_kernels.softmax_parallel

    def noted(*arguments: Any) -> None:
        counts.append(summed(*arguments))

    monkeypatch.setattr(pruned_kernels, "softmax_parallel", noted)
    return counts


@pytest.mark.parametrize("d", [1, 2, 3, 6])
@pytest.mark.parametrize("cloud", CLOUDS)
def test_against_the_reference(cloud: str, d: int) -> None:
    rng = np.random.default_rng(d)
    x = CLOUDS[cloud](rng, 603, d)
    for gain in (1e-6, 1.0, 30.0, 1e3, 1e6):
        assert_close(x, x, x, None, gain, slice(1, None, 3))  # the outlier among them


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cloud", CLOUDS)
def test_queries_masses_and_values_of_their_own(cloud: str, form: str) -> None:
    rng = np.random.default_rng(7)
    x = CLOUDS[cloud](rng, 501, 2)
    q = np.concatenate([x, 0.1 * x[:50]]) @ FORMS[form](2).T
    log_masses = np.log(10.0) * rng.uniform(-6, 6, len(x))
    for gain, c in ((1.0, 2), (40.0, 1), (40.0, 3), (40.0, 2), (1e4, 2)):
        assert_close(q, x, rng.standard_normal((len(x), c)), log_masses, gain, slice(1, None, 3))
        assert_close(q[:77], x, x, log_masses, gain)


@pytest.mark.parametrize("n", [1, 2, 15, 64, 65, 127, 128, 129, 1023, 1024, 1025, 8193])
def test_any_number_of_tokens(n: int) -> None:
    x = np.random.default_rng(n).standard_normal((n, 2))
    rows = np.arange(0, n, 1 + n // 300)
    assert_close(x, x, x, None, 200.0, rows)
    assert_close(x[:1], x, x, None, 200.0)
    assert_close(x[: n // 2 + 1], x, x, None, 200.0, slice(100))


@pytest.mark.parametrize("cloud", ["normal", "disc", "heavy tails", "stragglers", "line", "far away"])
def test_many_tokens_are_summed_by_looking_at_few_pairs(cloud: str, looked_at: list[int]) -> None:
    rng = np.random.default_rng(1)
    x = CLOUDS[cloud](rng, 40_007, 2)
    spread = float(np.quantile(np.linalg.norm(x - x.mean(axis=0), axis=1), 0.95))
    q = x[np.linalg.norm(x, axis=1) > 0.2 * spread]
    for gain in (300.0, 3e4):
        assert_close(q, x, x, None, gain / spread**2, np.arange(0, len(q), 2003))
        assert looked_at.pop() < 0.15 * len(q) * len(x)


def crowd(exponent: float, n: int) -> tuple[Array, Array, Array]:
    """One source ahead of n - 1 that are that much fainter, and one that nobody hears, for 40 equal queries."""
    k, v = np.tile([-exponent, 0.0], (n + 1, 1)), np.zeros((n + 1, 2))
    k[0], k[n], v[0] = 0.0, -100.0, 1.0
    return np.tile([1.0, 0.0], (40, 1)), k, v


def test_a_crowd_at_the_threshold_costs_less_than_the_tolerance(looked_at: list[int]) -> None:
    """Together they count, and whether they are heard or left out is decided by their sum."""
    n = 2000
    edge = math.log(n / pruned.TOLERANCE)
    heard = []
    for exponent in np.arange(edge - 4, edge + 4, 0.25):
        q, k, v = crowd(exponent, n)
        error = assert_close(q, k, v, None, 1.0)
        assert error <= pruned.TOLERANCE
        heard.append(looked_at.pop() > 1000 * len(q))
    assert heard[0]
    assert not heard[-1]


def test_on_a_circle_few_more_pairs_are_summed_than_are_heard(looked_at: list[int]) -> None:
    """As flows end: a thin ring of tokens, of whom each hears some on the rim in front of it."""
    rng, n, gain = np.random.default_rng(0), 20_000, 1e5
    angle, radius = rng.uniform(0, 2 * np.pi, n), 2.7 + 0.02 * rng.uniform(0, 1, n)
    x = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    assert_close(x, x, x, None, gain, slice(None, None, 40))
    scores = x[::40] @ x.T
    heard = (gain * (scores.max(axis=1, keepdims=True) - scores) < math.log(2 * n / pruned.TOLERANCE)).sum(axis=1)
    assert looked_at[0] < 3 * n * heard.mean()


@pytest.mark.parametrize("engine", [pruned, fast])
@pytest.mark.parametrize("own_queries", [False, True])
def test_a_memory_changes_nothing_but_the_order(engine: Any, own_queries: bool) -> None:
    rng, n, gain = np.random.default_rng(0), 3000, 2e3
    x = rng.standard_normal((n, 2))
    q = rng.standard_normal((n - 7, 2)) if own_queries else x
    memory = Memory()
    first = engine.softmax(q, x, x, None, gain, memory)
    assert memory.keys is not None
    assert memory.queries is not None
    for here, there in zip(first, engine.softmax(q, x, x, None, gain), strict=True):
        np.testing.assert_array_equal(here, there)
    order = memory.keys
    # Tokens that moved a little, others entirely, and others of another number: still within the tolerance.
    for k in (x + 1e-3 * rng.standard_normal(x.shape), rng.permutation(x), rng.standard_normal((n - 1000, 2))):
        q = q + 1e-3 if own_queries else k
        mean, _ = engine.softmax(q, k, k, None, gain, memory)
        np.testing.assert_allclose(mean[::7], dense.softmax(q[::7], k, k, None, gain)[0], atol=1e-9)
        assert (memory.keys is order) == (len(k) == n)
    memory.forget()
    assert memory.keys is None


def test_the_tolerance_is_used(monkeypatch: pytest.MonkeyPatch, looked_at: list[int]) -> None:
    """With a looser one, more is left out, and the error is felt."""
    x = np.random.default_rng(0).standard_normal((2000, 2))
    expected = dense.softmax(x, x, x, None, 30.0)[0]
    errors = []
    for tolerance in (1e-10, 1e-6, 1e-3):
        monkeypatch.setattr(pruned, "TOLERANCE", tolerance)
        errors.append(np.abs(pruned.softmax(x, x, x, None, 30.0)[0] - expected).max() / diameter(x))
        assert errors[-1] <= tolerance
    assert looked_at == sorted(looked_at, reverse=True)
    assert errors[0] < 1e-10 < errors[1] < errors[2]


def test_faint_sources_are_heard_if_they_are_heavy() -> None:
    """A mass of 1e12 far behind the top score takes over."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3000, 2))
    log_masses = np.where(np.arange(3000) == 17, 12 * math.log(10.0), 0.0)
    assert_close(x, x, x, log_masses, 5.0)
    x = disc(rng, 3000, 2)
    assert_close(x, x, x, np.log(10.0) * rng.uniform(-12, 0, 3000), 80.0)


def test_scores_that_overflow_are_handed_over() -> None:
    x = 1e180 * np.random.default_rng(0).standard_normal((200, 2))
    with np.errstate(over="ignore", invalid="ignore"):
        ours, theirs = pruned.softmax(x, x, x, None, 1.0), fused.softmax(x, x, x, None, 1.0)
    np.testing.assert_array_equal(ours[0], theirs[0])
    assert pruned.cost(x, x, 1.0) == math.inf
    assert pruned.inner_radius(x, x, 1.0) is None


def test_blocks_are_nested_neighbours() -> None:
    x = np.random.default_rng(0).uniform(0, 1, (4096, 2))
    ordered, order = x.copy(), np.arange(4096)
    pruned_kernels.tile(ordered, order)
    np.testing.assert_array_equal(ordered, x[order])
    np.testing.assert_array_equal(np.sort(order), np.arange(4096))
    for size in (16, 128, 1024):
        blocks = ordered.reshape(-1, size, 2)
        # Squares that hold this number of points, or rectangles twice as long as wide.
        assert np.ptp(blocks, axis=1).mean() < 1.5 * math.sqrt(size / 4096)


def test_boxes_hold_their_points_and_masses() -> None:
    rng = np.random.default_rng(0)
    columns, masses = rng.standard_normal((3, 1504)), rng.uniform(-40, 0, 1504)
    leaves, blocks, groups = (np.empty((8, count)) for count in (96, 16, 8))
    pruned_kernels.enclose(columns, masses, 1500, leaves)
    pruned_kernels.enclose_boxes(leaves, blocks)
    pruned_kernels.enclose_boxes(blocks, groups)
    for level, boxes in enumerate((leaves, blocks, groups)):
        size = 16 * 8**level
        for block in range(boxes.shape[1]):
            inside = columns[:, block * size : min(1500, (block + 1) * size)]
            if inside.size:
                own = masses[block * size : min(1500, (block + 1) * size)]
                gap = np.abs(inside - boxes[:3, block, None]) - boxes[3:6, block, None]
                assert gap.max() <= 1e-15
                assert gap.max(axis=1).min() >= -1e-15
                assert boxes[6, block] == own.max()
                assert boxes[7, block] == own.min()
            else:
                assert boxes[6, block] == -np.inf


@pytest.mark.parametrize(("cloud", "d"), [("normal", 2), ("disc", 2), ("normal", 3), ("stragglers", 2), ("normal", 1)])
@pytest.mark.parametrize("gain", [30.0, 300.0, 3e4])
def test_cost_counts_the_pairs_that_are_looked_at(cloud: str, d: int, gain: float, looked_at: list[int]) -> None:
    n = 20_000
    x = CLOUDS[cloud](np.random.default_rng(0), n, d)
    pruned.softmax(x, x, x, None, gain)
    known = pruned.BEGIN + n * (pruned.SEARCH + pruned.ORDER * math.log2(n / 16 + 1))
    actual, predicted = known + pruned.PAIR * looked_at.pop(), pruned.cost(x, x, gain)
    assert actual / 2 < predicted < 2 * actual


def test_cost_is_infinite_where_nothing_can_be_left_out() -> None:
    x = disc(np.random.default_rng(0), 5000, 2)
    assert pruned.cost(x, x, 0.0) == pruned.cost(x, x, 1.0) == math.inf
    assert pruned.cost(x[:2], x[:2], 1e3) == math.inf
    assert pruned.cost(x, x, 1e4) < len(x) ** 2
    assert pruned.cost(x[:10], x, 1e4) < pruned.cost(x, x, 1e4)


def test_inner_queries_are_left_to_another_engine_where_that_pays() -> None:
    x = np.random.default_rng(0).standard_normal((100_000, 2))
    x = x[np.linalg.norm(x, axis=1) < 3]
    radii = [pruned.inner_radius(x, x, gain) or 0.0 for gain in (20.0, 30.0, 100.0)]
    assert pruned.inner_radius(x, x, 10.0) is None  # the separable engine does everything best
    assert 3 > radii[0] > radii[1] > radii[2] > 0
    inner = np.linalg.norm(x, axis=1) <= radii[1]
    assert pruned.cost(x[~inner], x, 30.0) < 0.3 * pruned.cost(x, x, 30.0)
    assert pruned.inner_radius(x, x, 1e-3) is None
    assert pruned.inner_radius(x + 100.0, x, 30.0) is None
    assert pruned.inner_radius(np.tile(x[:2000], 2), np.tile(x[:2000], 2), 30.0) is None


def test_those_who_hear_a_faint_crowd_are_counted_with_it() -> None:
    """A crowd of n sources counts together until each is fainter than the tolerance divided by n."""
    n = 20_000
    for exponent, crowd in ((30.0, True), (40.0, False)):
        k = np.concatenate([[[exponent, 0.0]], np.tile([0.0, 1.0], (n, 1))])
        q = np.tile([1.0, 0.0], (200, 1))
        assert (pruned.listeners(q, k, 1.0).pairs > n / 2).all() == crowd
