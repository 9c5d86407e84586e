"""The fused softmax in the plane, where one exponential serves two rows, against the dense reference."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attnflow.engines import dense, fused, plane_kernels


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 128, 129, 200, 361, 363, 513, 1025, 1799, 2100])
def test_sizes_around_strips_chunks_panels_and_tasks(n: int) -> None:
    rng = np.random.default_rng(n)
    x, v, log_masses = rng.standard_normal((n, 2)), rng.standard_normal((n, 2)), rng.uniform(-14.0, 14.0, n)
    for masses in (None, log_masses):
        mean, log_total = fused.softmax(x, x, v, masses, 3.0)
        expected = dense.softmax(x, x, v, masses, 3.0)
        np.testing.assert_allclose(mean, expected[0], rtol=0, atol=3e-14)
        np.testing.assert_allclose(log_total, expected[1], rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("n", [300, 600])
@pytest.mark.parametrize("square", [620.0, 630.0, 1e5])
def test_both_sides_of_the_largest_exponent(n: int, square: float) -> None:
    """Whole scores are computed without rounding by both; opposite tokens have the smallest weights there are."""
    x = np.random.default_rng(3).integers(-9, 10, (n, 2)).astype(float)
    x[0], x[n - 1] = (9.0, 9.0), (-9.0, -9.0)
    assert 620.0 * math.log2(math.e) < plane_kernels.UNSHIFTED < 630.0 * math.log2(math.e)
    gain = square / 162
    mean, log_total = fused.softmax(x, x, x, None, gain)
    expected = dense.softmax(x, x, x, None, gain)
    np.testing.assert_allclose(mean, expected[0], rtol=0, atol=2e-12)
    np.testing.assert_allclose(log_total, expected[1], rtol=1e-14)
