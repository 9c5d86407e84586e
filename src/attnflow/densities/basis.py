"""Functions in which densities are expanded: Fourier's on the circle, Gegenbauer's on spheres.

A density f is against the uniform probability measure, so that f = 1 is uniform. Its moments m_k = int Y_k f determine
it: f = 1 + sum_k N_k m_k Y_k, 1/N_k = int Y_k^2. On the circle the Y are cos(k theta) and sin(k theta), N = 2. On the
unit sphere of R^d, d >= 3, densities are zonal, functions of s = <x, e>, e the first unit vector; Y_k is the Gegenbauer
polynomial P_k of degree k with P_k(1) = 1, and N_k the number of independent harmonics of degree k. In both cases
-Laplacian Y_k = k (k + d - 2) Y_k, and moments of tokens are means of Y_k over them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from attnflow.core.inputs import Array


@dataclass(frozen=True, eq=False)
class Basis:
    """Functions Y of degrees 1 to K at the nodes of a quadrature that is exact for products of three of them.

    Attributes
    ----------
    d, modes
        The dimension of the space around the sphere, and K.
    degrees
        The degree k of each of the m functions, (m,).
    counts
        N_k = 1 / int Y_k^2, (m,).
    nodes, weights
        Angles (d = 2) or cosines <x, e>, and their shares of the uniform measure, (M,).
    """

    d: int
    modes: int
    degrees: Array
    counts: Array
    nodes: Array
    weights: Array

    @cached_property
    def _both(self) -> tuple[Array, Array]:
        values, derivatives = gegenbauer(self.nodes, self.d, self.modes)
        return values, np.sqrt(1 - self.nodes**2)[:, None] * derivatives

    @property
    def values(self) -> Array:
        """Y at the nodes, (M, m)."""
        return self._both[0]

    @property
    def slopes(self) -> Array:
        """The derivatives of Y along the sphere at the nodes, (M, m)."""
        return self._both[1]

    @property
    def laplacian(self) -> Array:
        """The eigenvalues k (k + d - 2) of minus the Laplacian, (m,)."""
        return self.degrees * (self.degrees + self.d - 2)

    def even(self) -> Basis:
        """Return the functions that are symmetric about the first axis: here all of them."""
        return self

    def sum(self, a: Array) -> Array:
        """Return sum_k a_k Y_k at the nodes."""
        return np.asarray(self.values @ a)

    def slope(self, a: Array) -> Array:
        """Return the derivative of sum_k a_k Y_k along the sphere, at the nodes."""
        return np.asarray(self.slopes @ a)

    def against(self, v: Array) -> Array:
        """Return int v Y_k for a function with values v at the nodes: the moments of a density v."""
        return np.asarray(self.values.T @ (self.weights * v))

    def against_slopes(self, v: Array) -> Array:
        """Return int v <e, grad Y_k>, v the component of a vector field along the meridians e."""
        return np.asarray(self.slopes.T @ (self.weights * v))

    def density(self, moments: Array) -> Array:
        """Return f at the nodes."""
        return np.asarray(1 + self.sum(self.counts * moments))

    def tail(self, moments: Array) -> float:
        """Return the part of |f|, the norm of L^2, that is in the upper third of the degrees."""
        squares = self.counts * moments**2
        return float(np.sqrt(squares[self.degrees > 2 * self.modes / 3].sum() / (1 + squares.sum())))


class Circle(Basis):
    """Cosines, then sines, at equidistant angles: sums by fast Fourier transforms."""

    @cached_property
    def _both(self) -> tuple[Array, Array]:
        cos, sin = waves(self.nodes, self.modes)
        k = self.degrees[: self.modes]
        return np.hstack([cos, sin]), np.hstack([-k * sin, k * cos])

    def even(self) -> Basis:
        """Return the cosines."""
        K = self.modes
        return Cosines(self.d, K, self.degrees[:K], self.counts[:K], self.nodes, self.weights)

    def sum(self, a: Array) -> Array:
        K, M = self.modes, len(self.nodes)
        spectrum = np.zeros(M // 2 + 1, dtype=complex)
        spectrum[1 : K + 1] = a[:K] - 1j * a[K:]
        return np.asarray(np.fft.irfft(spectrum, M) * (M / 2))

    def slope(self, a: Array) -> Array:
        # The derivative of a cos(k theta) + b sin(k theta) is k b cos(k theta) - k a sin(k theta).
        K = self.modes
        return self.sum(self.degrees * np.concatenate([a[K:], -a[:K]]))

    def against(self, v: Array) -> Array:
        spectrum = np.fft.rfft(v)[1 : self.modes + 1] / len(v)
        return np.concatenate([spectrum.real, -spectrum.imag])

    def against_slopes(self, v: Array) -> Array:
        spectrum = np.fft.rfft(v)[1 : self.modes + 1] / len(v)
        return np.asarray(self.degrees * np.concatenate([spectrum.imag, spectrum.real]))


class Cosines(Basis):
    """Cosines alone."""

    @cached_property
    def _both(self) -> tuple[Array, Array]:
        cos, sin = waves(self.nodes, self.modes)
        return cos, -self.degrees * sin


@lru_cache(maxsize=16)
def basis(d: int, modes: int) -> Basis:
    """Return the functions of degrees 1 to `modes` on the unit sphere of R^d.

    >>> circle, sphere = basis(2, 4), basis(3, 4)
    >>> circle.values.shape, sphere.values.shape
    ((16, 8), (7, 4))
    >>> sphere.counts  # 2k + 1 harmonics of degree k
    array([3., 5., 7., 9.])
    """
    k = np.arange(1.0, modes + 1)
    if d == 2:
        # More than 3K nodes are enough; transforms of 4K of them are fast.
        M = 4 * modes
        theta = 2 * np.pi * np.arange(M) / M
        return Circle(2, modes, np.tile(k, 2), np.full(2 * modes, 2.0), theta, np.full(M, 1 / M))
    from scipy.special import roots_jacobi

    # Gauss's quadrature with M nodes is exact up to the degree 2M - 1.
    s, weights = roots_jacobi(3 * modes // 2 + 1, (d - 3) / 2, (d - 3) / 2)
    # N_k = (2k + d - 2) (k + d - 3)! / (k! (d - 2)!), by its ratios.
    ratios = np.concatenate([[1.0], (k[1:] + d - 3) / k[1:]])
    return Basis(d, modes, k, (2 * k + d - 2) * np.cumprod(ratios), s, weights / weights.sum())


def waves(theta: Array, modes: int) -> tuple[Array, Array]:
    """Return cos(k theta) and sin(k theta), k = 1 to `modes`."""
    angles = np.outer(theta, np.arange(1, modes + 1))
    return np.cos(angles), np.sin(angles)


def gegenbauer(s: Array, d: int, modes: int) -> tuple[Array, Array]:
    """Return P_k(s), P_k(1) = 1, and its derivative for k = 1 to `modes`, (M, K) each, d >= 3.

    (k + d - 2) P_{k+1} = (2k + d - 2) s P_k - k P_{k-1}: Legendre's polynomials for d = 3.

    >>> gegenbauer(np.array([0.5]), d=3, modes=2)[0]
    array([[ 0.5  , -0.125]])
    """
    P, dP = np.empty((2, len(s), modes + 1))
    P[:, 0], dP[:, 0], P[:, 1], dP[:, 1] = 1, 0, s, 1
    for k in range(1, modes):
        a, b = (2 * k + d - 2) / (k + d - 2), k / (k + d - 2)
        P[:, k + 1] = a * s * P[:, k] - b * P[:, k - 1]
        dP[:, k + 1] = a * (P[:, k] + s * dP[:, k]) - b * dP[:, k - 1]
    return P[:, 1:], dP[:, 1:]


def kernel(beta: float, d: int, modes: int) -> tuple[float, Array]:
    """Return int e^{beta <x, y>} dy, and w_k, k = 1 to `modes`: int e^{beta <x, y>} Y_k(y) dy = beta w_k Y_k(x).

    By the theorem of Funk and Hecke beta w_k = Gamma(d/2) (2/beta)^{d/2-1} I_{k+d/2-1}(beta), I_k(beta) on the circle.

    >>> total, w = kernel(0.0, d=3, modes=3)
    >>> total, w  # e^{beta s} - 1 is beta s for small beta
    (1.0, array([0.33333333, 0.        , 0.        ]))
    """
    from scipy.special import gammaln, hyp0f1, ive

    half, k = d / 2, np.arange(modes + 1.0)
    if abs(beta) <= 1:
        # I_p(beta) = (beta/2)^p 0F1(p + 1; beta^2/4) / Gamma(p + 1), which has a limit as beta tends to 0.
        series = hyp0f1(k + half, beta**2 / 4) * np.exp(gammaln(half) - gammaln(k + half))
        return float(series[0]), 0.5 * (beta / 2) ** (k[1:] - 1) * series[1:]
    size = abs(beta)
    scale = np.exp(gammaln(half) + (half - 1) * np.log(2 / size) + size)
    waves_of = scale * ive(k + half - 1, size) * np.sign(beta) ** k
    return float(waves_of[0]), waves_of[1:] / beta
