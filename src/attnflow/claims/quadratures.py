"""Tokens with masses that stand for a smooth density: sums over them are integrals, to rounding if there are enough.

They move as the density does, since smooth functions of their labels stay smooth: so a model of tokens can be compared
with an equation for densities without any sampling error.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnflow.core.inputs import Array


def on_circle(n: int, density: Callable[[Array], Array]) -> tuple[Array, Array]:
    """Return n equidistant tokens on the circle, with masses from a function of their angles."""
    theta = 2 * np.pi * np.arange(n) / n
    return np.column_stack([np.cos(theta), np.sin(theta)]), density(theta) / n


def on_sphere(n: int, density: Callable[[Array], Array]) -> tuple[Array, Array]:
    """Return n^2 tokens on the sphere of R^3, with masses from a function of their first coordinate.

    >>> x, masses = on_sphere(8, lambda s: 1 + s)
    >>> x.shape, round(float(masses.sum()), 12), round(float(masses @ x[:, 0]), 12)
    ((64, 3), 1.0, 0.333333333333)
    """
    s, weights = np.polynomial.legendre.leggauss(n)
    turns, r = 2 * np.pi * np.arange(n) / n, np.sqrt(1 - s**2)
    x = np.stack([np.repeat(s, n), np.outer(r, np.cos(turns)).ravel(), np.outer(r, np.sin(turns)).ravel()], axis=1)
    return x, np.repeat(density(s) * weights / 2, n) / n


def gaussian(n: int, mean: Array, covariance: Array) -> tuple[Array, Array]:
    """Return n^d tokens with masses that stand for a Gaussian, by the quadrature of Gauss and Hermite.

    >>> x, masses = gaussian(8, np.zeros(1), np.array([[4.0]]))
    >>> round(float(masses @ x[:, 0] ** 2), 12)
    4.0
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    grids = np.meshgrid(*[nodes] * len(mean), indexing="ij")
    masses = np.ones(1)
    for _ in mean:
        masses = np.outer(masses, weights / weights.sum()).ravel()
    z = np.stack([grid.ravel() for grid in grids], axis=1)
    return mean + z @ np.linalg.cholesky(covariance).T, masses
