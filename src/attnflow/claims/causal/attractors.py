"""States at rest of causal attention on the sphere that attract an open set of starts: proofs in ball arithmetic.

With A_i = V m_i and m_i what token i hears of itself and the tokens before it, the field

    F_i(x) = A_i - <x_i, A_i> x_i + (1 - |x_i|^2) x_i

is the velocity where all |x_i| = 1. At a zero of F with <x_i, A_i> > -1 all tokens are on the sphere, which is then a
set that the flow of F does not leave: eigenvalues of its Jacobian are those on the tangent space, and
-2 (<x_i, A_i> + 1) for each token. If all real parts are negative, the zero attracts a neighbourhood.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attnflow.claims.balls import Balls, balls, precision
from attnflow.core.inputs import Array

# Steps of Newton's method from the end of a run, and the half-width of the box around what they reach.
NEWTON, WIDTH = 12, 2.0**-60
# Newton's method has not left the end of a run if it stays within this distance.
NEAR = 1e-3


@dataclass(frozen=True)
class Attractor:
    """A state at rest that attracts an open set: an approximation of it, and two rigorous numbers.

    `rate` is a lower bound of minus the real part of every eigenvalue; `turning` (n,) are lower bounds of
    |V x_i - <V x_i, x_i> x_i|, positive for tokens that are no eigenvectors of V.
    """

    x: Array
    rate: float
    turning: Array


def attractor(x: Array, V: Array, B: Array) -> Attractor | None:
    """Return the attracting state near x with scores <B x_i, x_j>, proved in balls; None where that fails.

    That there is exactly one zero of F in the box around the result is shown by the operator of Krawczyk: it maps the
    box into its inside.

    >>> found = attractor(np.array([[1.0, 0.0], [1.0, 1e-4]]), np.diag([1.0, 0.0]), np.eye(2))
    >>> found.x.round(12).tolist(), round(found.rate, 6), found.turning.tolist()
    ([[1.0, 0.0], [1.0, 0.0]], 1.0, [0.0, 0.0])

    References
    ----------
    Krawczyk, *Newton-Algorithmen zur Bestimmung von Nullstellen mit Fehlerschranken* (1969).
    """
    close = _newton(x, V, B)
    if close is None:
        return None
    with precision(), np.errstate(all="ignore"):
        V_, B_ = balls(V), balls(B)
        start = balls(close)
        J = _jacobian(start, V_, B_)
        inverse = balls(np.linalg.pinv(J.astype(float)))
        # The point is refined in balls, where rounding is far below the width of the box.
        for _ in range(4):
            start = _middles(start - (inverse @ _field(start, V_, B_).ravel()).reshape(start.shape))
        box = _widened(start)
        slopes = _jacobian(box, V_, B_)
        offset = (box - start).ravel()
        shrunk = (balls(np.eye(len(J))) - inverse @ slopes) @ offset
        image = start.ravel() - inverse @ _field(start, V_, B_).ravel() + shrunk
        if not all(outer.contains_interior(inner) for outer, inner in zip(box.ravel(), image, strict=True)):
            return None
        # <x_i, F_i> = (1 - |x_i|^2) (<x_i, A_i> + |x_i|^2): a zero is on the sphere if the second factor is not 0.
        if any((token * (A + token)).sum().contains(0) for token, A in zip(box, _pulls(box, V_, B_), strict=True)):
            return None
        rate = _rate(slopes, x.shape[1])
        turned = box @ V_.T
        across = turned - (turned * box).sum(axis=1)[:, None] * box
        turning = np.array([float((row * row).sum().nonnegative_part().sqrt().lower()) for row in across])
    return None if rate is None else Attractor(start.astype(float), rate, np.maximum(turning, 0.0))


def _newton(x: Array, V: Array, B: Array) -> Array | None:
    """Return the zero of F that Newton's method finds from x, in floats; None if it goes elsewhere."""
    y = x
    for _ in range(NEWTON):
        step = np.linalg.lstsq(_jacobian(y, V, B), _field(y, V, B).ravel(), rcond=None)[0]
        y = y - step.reshape(y.shape)
        if not np.abs(y - x).max() < NEAR:
            return None
    return y


def _heard(x: Any, B: Any) -> tuple[list[Any], list[Any], Any]:
    """Return for each token the weights of the tokens up to it, what it hears, and all B x_i."""
    queries, weights, means = x @ B.T, [], []
    for i in range(len(x)):
        scores = x[: i + 1] @ queries[i]
        top = max(float(score) for score in scores)
        shares = _exp(scores - top)
        weights.append(shares / shares.sum())
        means.append(weights[-1] @ x[: i + 1])
    return weights, means, queries


def _field(x: Any, V: Any, B: Any) -> Any:
    """Return F(x), in floats or in balls."""
    A = _pulls(x, V, B)
    return A - ((A + x) * x).sum(axis=1)[:, None] * x + x


def _pulls(x: Any, V: Any, B: Any) -> Any:
    """Return A_i = V m_i."""
    return np.stack(_heard(x, B)[1]) @ V.T


def _jacobian(x: Any, V: Any, B: Any) -> Any:
    """Return the matrix (n d, n d) of derivatives of F, in floats or in balls."""
    n, d = x.shape
    weights, means, queries = _heard(x, B)
    J, one = np.zeros((n, d, n, d), dtype=x.dtype), np.eye(d)
    for i in range(n):
        before, p, m, y = x[: i + 1], weights[i], means[i], x[i]
        A, apart = V @ m, before - m
        across = one - np.outer(y, y)
        for j in range(i + 1):
            J[i, :, j] = across @ V @ (p[j] * (one + np.outer(apart[j], queries[i])))
        # Its own scores depend on the query too, and the projection on the token.
        J[i, :, i] = J[i, :, i] + across @ V @ ((apart.T * p) @ before @ B)
        J[i, :, i] = J[i, :, i] + (1 - ((A + y) * y).sum()) * one - np.outer(y, A + 2 * y)
    return J.reshape(n * d, n * d)


def _rate(slopes: Balls, d: int) -> float | None:
    """Return a lower bound of minus the real parts of all eigenvalues; None if some could be 0 or more.

    Tokens do not hear later ones, so the eigenvalues are those of the blocks (d, d) on the diagonal.
    """
    from flint import acb_mat, arb_mat

    rate = np.inf
    for k in range(0, len(slopes), d):
        block = acb_mat(arb_mat(slopes[k : k + d, k : k + d].tolist()))
        try:
            values = block.eig(multiple=True)
        except ValueError:  # too close to each other to be told apart
            return None
        rate = min(rate, *(float((-value.real).lower()) for value in values))
    return rate if rate > 0 else None


def _exp(scores: Any) -> Any:
    if scores.dtype == object:
        return np.frompyfunc(lambda score: score.exp(), 1, 1)(scores)
    return np.exp(scores)


def _middles(x: Balls) -> Balls:
    return np.frompyfunc(lambda ball: ball.mid(), 1, 1)(x)


def _widened(x: Balls) -> Balls:
    from flint import arb

    return np.frompyfunc(lambda middle: arb(middle, WIDTH), 1, 1)(x)
