"""The blocked engine against the dense reference, on ordinary and on adversarial clouds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from attnflow.engines import blocked, dense

Array = NDArray[np.float64]


def clouds(kind: str, n: int, d: int) -> Array:
    rng = np.random.default_rng(n + d)
    x = rng.standard_normal((n, d)) / math.sqrt(d)
    if kind == "outlier":
        x[n // 2] = 1e4
    elif kind == "equal":
        x[:] = x[0]
    elif kind == "line":
        x = np.outer(rng.standard_normal(n), x[0])
    return x


def agrees(q: Array, k: Array, v: Array, log_masses: Array | None, gain: float) -> None:
    """Both engines round scores of size g |q| |k|, and nobody can know the weights better than that."""
    mean, log_total = blocked.softmax(q, k, v, log_masses, gain)
    expected, expected_total = dense.softmax(q, k, v, log_masses, gain)
    size = gain * np.linalg.norm(q, axis=1).max() * np.linalg.norm(k, axis=1).max()
    rounding = 1e-14 + 4e-16 * min(size, 1e3)
    np.testing.assert_allclose(mean, expected, rtol=0, atol=rounding * np.abs(v).max())
    np.testing.assert_allclose(log_total, expected_total, rtol=1e-14, atol=1e-14 + 4e-16 * size)


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize(
    ("n", "d"), [(1, 40), (7, 33), (24, 64), (95, 17), (96, 8), (145, 63), (289, 1), (500, 64), (1000, 20)]
)
def test_sizes_around_the_blocks(n: int, d: int, same: bool) -> None:
    x = clouds("normal", n, d)
    agrees(x, x if same else x.copy(), x, None, 3.0)


@pytest.mark.parametrize("gain", [1e-6, 1e-2, 1.0, 30.0, 1e3, 1e6])
@pytest.mark.parametrize("kind", ["normal", "outlier", "equal", "line"])
def test_clouds_at_all_gains(kind: str, gain: float) -> None:
    """Scores near a tie at gains of 1e6 hang on single roundings: there whole coordinates leave none."""
    x = clouds(kind, 205, 40)
    if gain > 30:
        x = np.round(16 * x)
    agrees(x, x, x, None, gain)
    agrees(-x, x, x, None, gain)


def test_any_queries_values_and_masses() -> None:
    rng = np.random.default_rng(1)
    x = clouds("normal", 300, 48)
    form = rng.standard_normal((48, 48)) / 7
    masses = np.log(10.0 ** rng.uniform(-6, 6, 300))
    for width in (1, 3, 7, 8, 15, 16, 23, 24, 40):
        v = rng.standard_normal((300, width))
        agrees(x, x, v, masses, 2.0)
        agrees((x @ form.T)[:131], x, v, masses, 2.0)
    agrees(x @ form.T, x[:17], x[:17], masses[:17], 5.0)


@pytest.mark.parametrize("square", [1000.0, 1e5])
def test_large_exponents_against_integers(square: float) -> None:
    """Whole scores are computed without rounding, whatever the exponents."""
    rng = np.random.default_rng(2)
    x = rng.integers(-8, 9, (400, 20)).astype(float)
    x[:40] = rng.integers(-1, 2, (40, 20))
    x[41] = -x[40]
    agrees(x, x, x, None, square / float((x * x).sum(axis=1).max()))


def test_very_light_sources() -> None:
    x = 4 * clouds("normal", 100, 20)
    agrees(x, x, x, np.linspace(-180.0, 0.0, 100), 2.0)


def test_memory_is_proportional_to_n() -> None:
    """Nothing n by n: 6000 tokens would need 288 MB for that, and these arrays take below 30."""
    import tracemalloc

    x = clouds("normal", 6000, 17)
    blocked.softmax(x[:30], x[:30], x[:30], None, 1.0)
    tracemalloc.start()
    blocked.softmax(x, x, x, None, 1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6
