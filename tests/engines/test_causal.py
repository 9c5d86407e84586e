"""Causal sums against a masked array of all pairs, in long double where the machine has it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

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
