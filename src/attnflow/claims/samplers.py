"""Clouds, forms and step sizes that samplers draw from: every kind that has once hidden a counterexample.

Ties have measure zero except on lattices; symmetric clouds verify what asymmetric ones refute; a bound that is not
invariant under scaling fails at some scale only. The k-th draw is of the k-th kind, so that a few draws see them all;
every other draw is at any scale, so that two rounds through the kinds see each of them once as it is and once rescaled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from attnflow.core.inputs import Array
from attnflow.geometry.forms import form, symmetric_part

Rng = np.random.Generator
T = TypeVar("T")

KINDS = (
    "generic", "lattice", "symmetric", "nearly degenerate", "far from the origin", "any scale", "heavy tails", "copies",
)  # fmt: skip


def pick(rng: Rng, choices: Sequence[T]) -> T:
    """Return one of the choices."""
    return choices[int(rng.integers(len(choices)))]


def log_uniform(rng: Rng, low: float, high: float) -> float:
    """Return a number whose logarithm is uniform, rounded to two digits."""
    return float(f"{np.exp(rng.uniform(np.log(low), np.log(high))):.2g}")


def cloud(rng: Rng, k: int, n: int | None = None, d: int | None = None) -> Array:
    """Return the k-th kind of cloud, of at least two tokens.

    >>> [cloud(np.random.default_rng(0), k, n=4, d=2).shape for k in range(len(KINDS))] == [(4, 2)] * len(KINDS)
    True
    """
    d = int(rng.integers(1, 4)) if d is None else d
    n = int(rng.integers(max(2, d), d + 6)) if n is None else n
    x = rng.standard_normal((n, d))
    match KINDS[k % len(KINDS)]:
        case "lattice":
            return rng.integers(-3, 4, (n, d)).astype(float)
        case "symmetric":
            half = rng.integers(-4, 5, (n, d)) / 2
            half[n - n // 2 :] = -half[: n // 2]
            return half
        case "nearly degenerate":
            x[:, -1] *= 2.0**-20
            return x
        case "far from the origin":
            return x + rng.uniform(1, 4) * rng.standard_normal(d)
        case "any scale":
            return x * log_uniform(rng, 1e-4, 1e4)
        case "heavy tails":
            return rng.standard_t(2, (n, d))
        case "copies":
            return x[rng.integers(n, size=n)]
    return x


# Exponents of the scales: powers of two keep ties and symmetries.
SCALES = (-10, 10)


def at_any_scale(k: int) -> bool:
    """Say whether the k-th draw is at any scale: every other one, and of two rounds each kind once.

    >>> [k for k in range(2 * len(KINDS)) if at_any_scale(k)]
    [1, 3, 5, 7, 8, 10, 12, 14]
    """
    return (k + k // len(KINDS)) % 2 == 1


def rescaled(instance: dict[str, Any], lengths: Sequence[str], exponent: int) -> dict[str, Any]:
    """Return an instance whose lengths, arrays or numbers, are multiplied by a power of two.

    >>> rescaled({"tokens": np.array([[3.0]]), "eps": 0.5, "steps": 9}, ("tokens", "eps"), -1)
    {'tokens': array([[1.5]]), 'eps': 0.25, 'steps': 9}
    """
    return instance | {
        name: np.asarray(instance[name], dtype=np.float64) * 2.0**exponent
        if np.ndim(instance[name])
        else instance[name] * 2.0**exponent
        for name in lengths
        if instance.get(name) is not None
    }


def around_origin(rng: Rng, k: int, n: int | None = None, d: int | None = None) -> Array:
    """Return the k-th kind of cloud, moved so that 0 lies in its hull, clearly inside or at a token."""
    x = cloud(rng, k, n, d)
    if KINDS[k % len(KINDS)] == "lattice":
        return x - x[0]
    weights = rng.dirichlet(np.full(len(x), pick(rng, (0.3, 1.0, 5.0))))
    return x - weights @ x


def square_of_normals(rng: Rng, d: int) -> Array:
    """Return M M^T for a matrix M of independent normal numbers."""
    M = rng.standard_normal((d, d))
    return M @ M.T


def rotation(rng: Rng, d: int) -> Array:
    """Return a random orthogonal matrix."""
    return np.asarray(np.linalg.qr(rng.standard_normal((d, d)))[0])


def distinct(x: Array) -> Array:
    """Return the cloud without copies, in the order of first appearance."""
    order = np.sort(np.unique(x, axis=0, return_index=True)[1])
    return x[order]


def positive_form(rng: Rng, k: int, d: int) -> Array | None:
    """Return the k-th kind of positive definite matrix: the identity, small integers, any, ill conditioned."""
    match k % 4:
        case 0:
            return None
        case 1:
            A = rng.integers(-2, 3, (d, d))
            return (A @ A.T + np.eye(d)).astype(float)
        case 2:
            return symmetric_part(square_of_normals(rng, d) + 0.1 * np.eye(d))
    Q = rotation(rng, d)
    return symmetric_part(Q @ np.diag(np.logspace(0, -3, d)) @ Q.T)


def level_set(B: Array | None, u: Array) -> Array:
    """Return points with <B x, x> = 1: the directions of u, mapped from the sphere by the inverse of a root of B."""
    root = np.linalg.cholesky(form(B, u.shape[1]))
    return np.linalg.solve(root.T, (u / np.linalg.norm(u, axis=1, keepdims=True)).T).T


def any_form(rng: Rng, k: int, d: int) -> Array | None:
    """Return the k-th kind of matrix: positive definite, minus one, indefinite, not symmetric."""
    match k % 4:
        case 0:
            return positive_form(rng, k // 4, d)
        case 1:
            return -form(positive_form(rng, k // 4, d), d)
        case 2:
            M = rng.integers(-3, 4, (d, d)).astype(float)
            return M + M.T
    return rng.standard_normal((d, d))


STEPS: tuple[Any, ...] = (0.5, 0.125, "1 / (t + 2)", 0.3, "2 / (t + 3)", "1 / (t + 2) ** 2", 0.9, "1 / sqrt(t + 2)")


def step_sizes(rng: Rng, k: int) -> Any:
    """Return the k-th kind of step size in (0, 1): constant, or a schedule that tends to 0 slowly or fast."""
    return STEPS[k % len(STEPS)]
