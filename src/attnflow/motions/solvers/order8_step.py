"""One step of Dormand and Prince's method of order 8, with the error and the path of each token by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array
from attnflow.motions.solvers.scipy_solver import coefficients

Velocity = Callable[[float, Array], Array]
# Which of the tokens: their indices, or a slice.
Some = NDArray[np.int64] | slice
ALL = slice(None)

A, B, D, E3, E5, A_EXTRA = (coefficients(name) for name in ("A", "B", "D", "E3", "E5", "A_EXTRA"))
STAGES = len(B)
# The velocity at the end of the step is one more stage; the path between its ends needs three more.
ALL_STAGES = STAGES + 1 + len(A_EXTRA)
C, C_EXTRA = A.sum(axis=1), A_EXTRA.sum(axis=1)


def _second_estimate() -> Array:
    """Return the weights of a fifth divided difference of the velocity, as large as E5 where the velocity is smooth.

    The stages 0 and 5 to 11 are of order 5, and E5 is a combination of them that vanishes for polynomials of degree 4.
    That of a token which turns within the step may vanish by accident, most easily if it turns late, where E5 has small
    weights. The two seldom do so together.
    """
    weights, nodes = np.zeros(STAGES), [0, 6, 5, 9, 10, 11]
    for k in nodes:
        weights[k] = 1 / np.prod([C[k] - C[j] for j in nodes if j != k])
    return weights * (E5[:STAGES] @ C**5)


E5_TOO = _second_estimate()


class Path(NamedTuple):
    """Where tokens are during a step from t to t + h: a polynomial of degree 7, with an error like that of the step."""

    t: float
    h: float
    x: Array
    terms: Array

    def at(self, t: float) -> Array:
        """Return x + F_0 s + F_1 s (1 - s) + F_2 s^2 (1 - s) + ..., where s goes from 0 to 1."""
        s = (t - self.t) / self.h
        y = np.zeros_like(self.x)
        for k, term in enumerate(self.terms[::-1]):
            y += term
            y *= 1 - s if k % 2 else s
        y += self.x
        return y

    def of(self, some: Some) -> Path:
        """Return the path of some of the tokens."""
        return self._replace(x=self.x[some], terms=self.terms[:, some])


class Step:
    """A step of tokens x, (k, d), from t to t + h, which begins with a known velocity and ends at y."""

    def __init__(
        self, velocity: Velocity, t: float, x: Array, first: Array, h: float, stages: Array | None = None
    ) -> None:
        self.velocity, self.t, self.x, self.h = velocity, t, x, h
        K = self.K = np.empty((ALL_STAGES, *x.shape)) if stages is None else stages
        K[0] = first
        for s in range(1, STAGES):
            K[s] = velocity(t + C[s] * h, x + h * _combined(A[s, :s], K))
        self.y = x + h * _combined(B, K)
        self.interpolates = False

    def errors(self, rtol: float, atol: float) -> Array:
        """Return the error of each token, relative to what is allowed: SciPy's estimate, of this token alone.

        Allowed is atol + rtol times the largest coordinate of the token. The estimate of order 5 is the larger one of
        two. So the root of the mean square is at least SciPy's estimate for all tokens together with this scale.
        """
        square = self.allowed(rtol, atol) ** 2
        fifth, too, third = ((_combined(E[:STAGES], self.K) ** 2).sum(axis=1) / square for E in (E5, E5_TOO, E3))
        fifth = np.maximum(fifth, too)
        mixed = np.sqrt((fifth + 0.01 * third) * self.x.shape[1])
        errors = abs(self.h) * fifth / np.where(mixed == 0, 1.0, mixed)
        return np.where(np.isfinite(errors), errors, np.inf)

    def allowed(self, rtol: float, atol: float) -> Array:
        """Return the error that each token may have."""
        allowed: Array = atol + rtol * np.maximum(np.abs(self.x), np.abs(self.y)).max(axis=1)
        return allowed

    def speeds(self) -> Array:
        """Return the largest speed of each token at the stages."""
        squares: Any = 0.0
        for k in self.K[:STAGES]:
            squares = np.maximum(squares, np.einsum("ik,ik->i", k, k))
        return np.sqrt(squares)

    def interpolate(self) -> None:
        """Compute the velocity at the end, and the three stages more that the path needs."""
        if self.interpolates:
            return
        t, h, K = self.t, self.h, self.K
        K[STAGES] = self.velocity(t + h, self.y)
        for s, (a, c) in enumerate(zip(A_EXTRA, C_EXTRA, strict=True), start=STAGES + 1):
            K[s] = self.velocity(t + c * h, self.x + h * _combined(a[:s], K))
        self.interpolates = True

    def path(self, some: Some = ALL) -> Path:
        """Return the path of some of the tokens."""
        self.interpolate()
        h, x, K = self.h, self.x[some], self.K[:, some]
        way = self.y[some] - x
        terms = np.empty((3 + len(D), *x.shape))
        terms[0], terms[1], terms[2] = way, h * K[0] - way, 2 * way - h * (K[STAGES] + K[0])
        for k, weights in enumerate(D):
            terms[3 + k] = h * _combined(weights, K)
        return Path(self.t, h, x, terms)


def _combined(weights: Array, K: Array) -> Array:
    """Return the sum of the first stages with these weights."""
    some = K[: len(weights)]
    combined: Array = (weights @ some.reshape(len(some), -1)).reshape(some.shape[1:])
    return combined
