"""The nearest point of a polytope: a quadratic program, solved by non-negative least squares."""

from __future__ import annotations

import numpy as np

from attnflow.core.inputs import Array


def nearest(corners: Array, p: Array) -> tuple[Array, Array]:
    """Return the point of conv(corners) nearest to p, and barycentric coordinates lambda of it.

    It minimises |sum_j lambda_j (v_j - p)| over the simplex. With mu = sigma lambda, the non-negative least squares
    problem min |sum_j mu_j (v_j - p)|^2 + (sum_j mu_j - 1)^2 over mu >= 0 has its minimum at the same lambda and
    sigma = 1 / (1 + distance^2): no penalty has to grow, and the answer is exact up to rounding.

    >>> nearest(np.array([[0.0, 0.0], [2.0, 0.0]]), np.array([0.5, 3.0]))
    (array([0.5, 0. ]), array([0.75, 0.25]))

    References
    ----------
    Lawson, Hanson, *Solving Least Squares Problems* (1974).
    """
    arms = corners - p
    size = float(np.abs(arms).max())
    if size == 0 or len(corners) == 1:
        return corners[0].copy(), np.eye(len(corners))[0]
    system = np.vstack([arms.T / size, np.ones(len(corners))])
    target = np.append(np.zeros(corners.shape[1]), 1.0)
    mu = non_negative(system, target)
    weights: Array = mu / mu.sum()
    return weights @ corners, weights


def distance(corners: Array, p: Array) -> float:
    """Return the distance of p from conv(corners).

    >>> distance(np.array([[0.0, 0.0], [2.0, 0.0]]), np.array([3.0, 1.0]))
    1.4142135623730951
    """
    return float(np.linalg.norm(nearest(corners, p)[1] @ (corners - p)))


def non_negative(system: Array, target: Array) -> Array:
    """Return the mu >= 0 that minimises |system mu - target|.

    >>> non_negative(np.eye(2), np.array([1.0, -1.0]))
    array([1., 0.])
    """
    from scipy.optimize import lsq_linear, nnls

    try:
        mu: Array = nnls(system, target, maxiter=100 * sum(system.shape))[0]
    except RuntimeError:  # it can cycle where columns are nearly dependent
        mu = lsq_linear(system, target, bounds=(0, np.inf), method="bvls").x
    return mu
