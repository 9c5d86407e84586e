"""The functions in which densities are expanded, against sums over points and against SciPy's Bessel functions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from attnflow.densities.basis import basis, kernel


@pytest.mark.parametrize("d", [2, 3, 4, 7])
def test_functions_are_orthogonal_and_slopes_give_the_laplacian(d: int) -> None:
    b = basis(d, 8)
    products = (b.values * b.weights[:, None]).T @ b.values
    np.testing.assert_allclose(products, np.diag(1 / b.counts), atol=1e-14)
    slopes = (b.slopes * b.weights[:, None]).T @ b.slopes
    np.testing.assert_allclose(slopes, np.diag(b.laplacian / b.counts), atol=1e-12)


def test_transforms_on_the_circle_are_sums() -> None:
    b, rng = basis(2, 5), np.random.default_rng(0)
    a, v = rng.standard_normal(10), rng.standard_normal(len(b.nodes))
    np.testing.assert_allclose(b.sum(a), b.values @ a, atol=1e-13)
    np.testing.assert_allclose(b.slope(a), b.slopes @ a, atol=1e-13)
    np.testing.assert_allclose(b.against(v), b.values.T @ (b.weights * v), atol=1e-14)
    np.testing.assert_allclose(b.against_slopes(v), b.slopes.T @ (b.weights * v), atol=1e-13)


@pytest.mark.parametrize("d", [2, 3, 6])
@pytest.mark.parametrize("beta", [-3.0, 1e-3, 0.999, 1.001, 20.0])
def test_multipliers_are_integrals(d: int, beta: float) -> None:
    """With x at the pole Y_k(x) = 1, and the integral of e^{beta <x, y>} Y_k(y) is a sum over the nodes."""
    b = basis(d, 64)
    cosines = np.cos(b.nodes) if d == 2 else b.nodes
    expected = b.values[:, :10].T @ (b.weights * np.exp(beta * cosines)) / beta
    total, w = kernel(beta, d, 10)
    np.testing.assert_allclose(w, expected, rtol=1e-10, atol=1e-13 * np.exp(abs(beta)) / abs(beta))
    assert total == pytest.approx(b.weights @ np.exp(beta * cosines), rel=1e-13)


def test_multipliers_on_the_circle_are_bessel_functions() -> None:
    total, w = kernel(3.0, 2, 6)
    np.testing.assert_allclose(w, special.iv(np.arange(1, 7), 3.0) / 3, rtol=1e-14)
    assert total == pytest.approx(special.i0(3.0), rel=1e-15)
    np.testing.assert_allclose(kernel(0.0, 2, 3)[1], [0.5, 0, 0])
