"""The clouds of tokens on which attention sums are compared."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RADIUS = 3.0


def clipped_normal(n: int, d: int, seed: int = 0) -> Array:
    """Normal tokens, those beyond the radius 3 moved onto it."""
    x = np.random.default_rng(seed).standard_normal((n, d))
    clipped: Array = x * np.minimum(1.0, RADIUS / np.linalg.norm(x, axis=1, keepdims=True))
    return clipped


def heavy_tails(n: int, seed: int = 0) -> Array:
    """Student's t with three degrees of freedom in each coordinate."""
    return np.random.default_rng(seed).standard_t(3, (n, 2))


def disc(n: int, seed: int = 0) -> Array:
    """Uniform in a disc of radius 3."""
    rng = np.random.default_rng(seed)
    angle, radius = rng.uniform(0, 2 * np.pi, n), RADIUS * np.sqrt(rng.random(n))
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


def two_clusters(n: int, seed: int = 0) -> Array:
    """Two clusters of width .01 at distance 5.7."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n, 1)) < 0.5, 2.0, -2.0) + 0.01 * rng.standard_normal((n, 2))


def stragglers(n: int, seed: int = 0) -> Array:
    """Eight clusters of width .01, and five tokens in a hundred anywhere between."""
    rng = np.random.default_rng(seed)
    x = 2 * rng.standard_normal((8, 2))[rng.integers(8, size=n)] + 0.01 * rng.standard_normal((n, 2))
    away = rng.random(n) < 0.05
    x[away] = rng.uniform(-RADIUS, RADIUS, (int(away.sum()), 2))
    return x


def line(n: int, seed: int = 0) -> Array:
    """Normal on a line that is no axis."""
    return np.outer(np.random.default_rng(seed).standard_normal(n), [0.6, 0.8])


SHAPES = {
    "heavy tails": heavy_tails, "disc": disc, "two clusters": two_clusters, "stragglers": stragglers, "line": line,
}  # fmt: skip
