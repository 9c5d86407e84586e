"""Causal sums against a masked array of all pairs, in long double where the machine has it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

import attnflow as af
from attnflow.engines import causal, dense, fast, separable
from attnflow.engines.causal import softmax

Array = NDArray[np.float64]

# The error of means, as a fraction of the diameter of the values, and of logarithms: of all engines, and to rounding.
TOLERANCE, ROUNDING = 1e-10, 1e-12


def reference(
    q: Array, k: Array, v: Array, log_masses: Array | None, gain: float, window: int | None = None
) -> tuple[Array, Array]:
    """Means, seen from the first value, and logarithms of totals; -infinity where nobody is heard."""
    i = np.arange(len(k))
    heard = (i <= i[:, None]) & (i > i[:, None] - (window or len(k)))
    if log_masses is not None:
        heard = heard & (log_masses > -np.inf)
    long = np.longdouble
    s = np.where(heard, q.astype(long) @ (k - k[0]).astype(long).T, -np.inf)
    top = s.max(axis=1, keepdims=True)
    top[top == -np.inf] = 0
    with np.errstate(over="ignore", divide="ignore"):
        e = np.exp(
            long(gain) * (np.where(heard, s, 0) - top) + (0 if log_masses is None else np.maximum(log_masses, -1e9))
        )
        e = np.where(heard, e, 0)
        total = e.sum(axis=1, keepdims=True)
        log_total = np.log(total[:, 0]) + long(gain) * (top[:, 0] + q.astype(long) @ k[0].astype(long))
    return (e @ (v - v[0]).astype(long) / np.where(total > 0, total, 1)).astype(float), log_total.astype(float)


def errors(
    q: Array, k: Array, v: Array, log_masses: Array | None, gain: float, window: int | None = None
) -> tuple[float, float]:
    """Errors of means over the diameter of the values, and of logarithms, both beyond the rounding of scores."""
    mean, log_total = softmax(q, k, v, log_masses, gain, window)
    assert mean.shape == (len(k), v.shape[1])
    assert log_total.shape == (len(k),)
    expected, expected_total = reference(q, k, v, log_masses, gain, window)
    none = expected_total == -np.inf
    np.testing.assert_array_equal(log_total == -np.inf, none)
    assert not mean[none].any()
    diameter = max(float(np.linalg.norm(np.ptp(v, axis=0))), 1e-300)
    size = gain * float(np.abs(q).sum(axis=1).max() * np.abs(k).max())
    wrong = np.linalg.norm(mean - v[0] - expected, axis=1)[~none] / diameter - 1e-15 * np.abs(v).max() / diameter
    wrong_total = np.abs(log_total[~none] - expected_total[~none]) - 1e-15 * (size + np.abs(expected_total[~none]))
    return float(wrong.max(initial=0.0)), float(wrong_total.max(initial=0.0))


def sorted_along(rng: np.random.Generator, n: int, d: int) -> Array:
    """Tokens along a line in the order of their indices: prefixes are far from the queries after them."""
    return np.linspace(-3, 3, n)[:, None] * np.linspace(1, 0.5, d) + 0.01 * rng.standard_normal((n, d))


CLOUDS: dict[str, Callable[[np.random.Generator, int, int], Array]] = {
    "normal": lambda rng, n, d: rng.standard_normal((n, d)),
    "heavy tails": lambda rng, n, d: rng.standard_t(3, (n, d)),
    "sorted": sorted_along,
    "from behind": lambda rng, n, d: sorted_along(rng, n, d)[::-1].copy(),
    "growing": lambda rng, n, d: rng.standard_normal((n, d)) * np.linspace(1e-3, 2, n)[:, None],
    "outlier first": lambda rng, n, d: np.concatenate([np.full((1, d), 20.0), rng.standard_normal((n - 1, d))]),
    "outlier last": lambda rng, n, d: np.concatenate([rng.standard_normal((n - 1, d)), np.full((1, d), 20.0)]),
    "equal": lambda rng, n, d: np.tile(rng.standard_normal(d), (n, 1)),
    "zero": lambda rng, n, d: np.zeros((n, d)),
    "far away": lambda rng, n, d: rng.standard_normal((n, d)) + 3e3,
}


@pytest.mark.parametrize("d", [1, 2, 3, 5])
@pytest.mark.parametrize("cloud", CLOUDS)
def test_direct_sums(cloud: str, d: int) -> None:
    """Every gain, with and without windows, to rounding."""
    x = CLOUDS[cloud](np.random.default_rng(d), 83, d)
    for gain in (0.0, 1.0, 30.0, 1e6):
        for window in (None, 7, 40):
            wrong, wrong_total = errors(x, x, x, None, gain, window)
            # Far from the origin scores are rounded before the gain multiplies.
            allowed = ROUNDING + 2e-15 * gain * float(np.abs(x).sum(axis=1).max() * np.abs(x).max())
            assert wrong < allowed, (gain, window)
            assert wrong_total < allowed, (gain, window)


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 63, 64, 65])
def test_numbers_of_tokens_around_whole_vectors(n: int) -> None:
    rng = np.random.default_rng(n)
    for k, v in ((2, 2), (3, 1), (4, 6)):
        q, keys, values = rng.standard_normal((n, k)), rng.standard_normal((n, k)), rng.standard_normal((n, v))
        log_masses = rng.uniform(-20, 20, n)
        for window in (None, 1, 3, n):
            for masses in (None, log_masses):
                assert max(errors(q, keys, values, masses, 2.0, window)) < ROUNDING


def test_masses_of_any_size_and_absent_keys() -> None:
    rng = np.random.default_rng(0)
    q, keys, values = rng.standard_normal((3, 90, 2))
    for spread in (1.0, 300.0, 3000.0):
        log_masses = rng.uniform(-spread, spread, 90)
        assert max(errors(q, keys, values, log_masses, 3.0)) < ROUNDING
        log_masses[rng.random(90) < 0.5] = -np.inf
        log_masses[:5] = -np.inf
        for window in (None, 4, 30):
            assert max(errors(q, keys, values, log_masses, 3.0, window)) < ROUNDING
    mean, log_total = softmax(q, keys, values, np.full(90, -np.inf), 3.0)
    assert not mean.any()
    assert (log_total == -np.inf).all()


def test_a_key_nobody_hears_yet_changes_nothing() -> None:
    """Later tokens do not change the sums of earlier ones, even if they are far away."""
    x = np.random.default_rng(1).standard_normal((96, 2))
    before, _ = softmax(x[:64].copy(), x[:64].copy(), x[:64].copy(), None, 2.0)
    x[70:] *= 5.0
    np.testing.assert_allclose(softmax(x, x, x, None, 2.0)[0][:64], before, rtol=0, atol=ROUNDING)
    assert math.isclose(softmax(x, x, x, None, 2.0)[1][0], 2.0 * float(x[0] @ x[0]), rel_tol=1e-14)


def by_blocks(patch: pytest.MonkeyPatch, name: str, engine: str = "fused", block: int = 60) -> list[str]:
    """Let all sums over prefixes be taken in small blocks in this way, where it applies; return what was done."""
    done = []

    def plan(queries: Array, keys: Array, gain: float, *_: Any) -> Any:
        made = separable.plan(queries, keys, gain) if name == "separable" else None
        applies = made is not None or name == "halves"
        done.append(name if applies else "direct")
        choice = fast.Choice(engine, 0.0) if name == "halves" and engine != "blocked" else None
        return causal._Plan(done[-1], 0.0, block, made, choice)

    patch.setattr(causal, "_plan", plan)
    patch.setattr(causal, "SHORT", 40)
    return done


# Exponents beyond this are summed directly: their rounding would decide about merged sums.
MERGED = 1e3


@pytest.mark.parametrize(
    ("d", "cloud"), [*((d, cloud) for d in (1, 2) for cloud in CLOUDS), (3, "normal"), (3, "sorted"), (3, "far away")]
)
def test_prefixes_on_a_grid(cloud: str, d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(d)
    x, w = CLOUDS[cloud](rng, 203, d), rng.uniform(-8, 8, 203)
    done = by_blocks(monkeypatch, "separable")
    for gain in (1e-6, 1.0) if d == 3 else (1e-6, 2.0, 30.0):
        if gain * np.abs(x - x.mean(axis=0)).max() ** 2 <= (100 if d == 3 else MERGED):
            assert max(errors(x, x, x, None, gain)) < TOLERANCE, gain
            assert max(errors(x, x, x, w, gain, 90)) < TOLERANCE, gain
    assert "separable" in done


@pytest.mark.parametrize(
    ("engine", "cloud"),
    [*(("tree", cloud) for cloud in CLOUDS), ("fused", "sorted"), ("blocked", "growing")],
)
def test_prefixes_by_halves(cloud: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x, w = CLOUDS[cloud](rng, 203, 2), rng.uniform(-8, 8, 203)
    done = by_blocks(monkeypatch, "halves", engine, 40)
    for gain in (0.0, 2.0, 30.0):
        if gain * np.abs(x - x.mean(axis=0)).max() ** 2 <= MERGED:
            assert max(errors(x, x, x, None, gain)) < TOLERANCE, gain
            assert max(errors(x, x, x, w, gain, 90)) < TOLERANCE, gain
    assert set(done) == {"halves"}


@pytest.mark.parametrize("name", ["separable", "halves"])
@pytest.mark.parametrize(("k", "v"), [(1, 2), (2, 4), (3, 2)])
def test_other_queries_keys_and_values_in_every_way(name: str, k: int, v: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with keys without mass, windows that end anywhere, and blocks with no key to hear."""
    rng = np.random.default_rng(k + v)
    q, keys, values = (
        rng.standard_normal((257, k)) + 1,
        2 * rng.standard_normal((257, k)),
        rng.standard_normal((257, v)),
    )
    by_blocks(monkeypatch, name, block=32)
    masses = rng.uniform(-3, 3, 257)
    masses[rng.random(257) < 0.4] = -np.inf
    masses[:70] = masses[100:190] = -np.inf
    for log_masses in (None, masses):
        for window in (None, 41, 128):
            assert max(errors(q, keys, values, log_masses, 0.7, window)) < TOLERANCE, window


def test_light_prefixes_are_as_accurate_as_heavy_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Early keys weigh e^-300 of later ones, and are all that early queries hear."""
    x = np.random.default_rng(0).standard_normal((400, 2))
    masses = np.linspace(-300, 0, 400)
    for name in ("separable", "halves"):
        by_blocks(monkeypatch, name)
        assert max(errors(x, x, x, masses, 1.0)) < TOLERANCE
        assert max(errors(x, x, x, masses[::-1].copy(), 1.0)) < TOLERANCE


@pytest.mark.usefixtures("all_threads")
@pytest.mark.parametrize("name", ["direct", "separable", "halves"])
def test_the_number_of_threads_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).standard_normal((700, 2))
    if name != "direct":
        by_blocks(monkeypatch, name)
    all_of_them = softmax(x, x, x, None, 2.0)
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        one = softmax(x, x, x, None, 2.0)
    finally:
        numba.set_num_threads(threads)
    np.testing.assert_array_equal(all_of_them[0], one[0])
    np.testing.assert_array_equal(all_of_them[1], one[1])


def test_the_way_follows_from_the_inputs() -> None:
    x = np.random.default_rng(0).standard_normal((30_000, 2))
    assert causal.name(x, x, 1.0) == causal.name(x[:8000], x[:8000], 1.0) == "separable"
    assert causal.name(x, x, 300.0) == "halves"
    assert causal.name(x[:2000], x[:2000], 1.0) == causal.name(x, x, 1e5) == "direct"
    wide = np.random.default_rng(0).standard_normal((8000, 16))
    assert causal.name(wide, wide, 0.1) == "halves"
    assert causal.name(wide[:, :5].copy(), wide[:, :5].copy(), 0.1) == "direct"


@pytest.mark.parametrize(("engine", "precise"), [("auto", False), ("fast", False), ("precise", True), ("fused", True)])
def test_a_law_asks_for_exact_sums_where_the_user_does(
    engine: str, precise: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def heard(q: Array, k: Array, v: Array, w: Array | None, gain: float, window: int | None, exactly: bool) -> Any:
        asked.append((gain, window, exactly))
        return np.zeros_like(v), np.zeros(len(q))

    monkeypatch.setattr(causal, "softmax", heard)
    x = np.random.default_rng(0).standard_normal((50, 2))
    af.Masked(af.Softmax(beta=3.0), causal=True, window=7).hear(x, engine=engine)
    assert asked == [(3.0, 7, precise)]


@pytest.mark.parametrize(("d", "gain", "precise"), [(2, 1.0, False), (2, 100.0, False), (2, 1.0, True), (9, 0.2, True)])
def test_many_tokens(d: int, gain: float, precise: bool) -> None:
    """The ways that are chosen, on some rows of many."""
    n, window = 6000, 4500
    x = np.random.default_rng(d).standard_normal((n, d))
    diameter = float(np.linalg.norm(np.ptp(x, axis=0)))
    for width in (None, window):
        mean, log_total = softmax(x, x, x, None, gain, width, precise)
        for i in (0, 1, 777, window - 1, window, n - 1):
            heard = slice(0 if width is None else max(0, i + 1 - window), i + 1)
            expected, total = dense.softmax(x[i : i + 1], x[heard], x[heard], None, gain)
            assert np.abs(mean[i] - expected[0]).max() < (ROUNDING if precise else TOLERANCE) * diameter
            assert abs(log_total[i] - total[0]) < (ROUNDING if precise else TOLERANCE) * max(1.0, abs(total[0]))
