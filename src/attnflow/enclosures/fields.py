"""The vector field of a flow of few tokens, for any kind of number: balls, power series, and such with derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attnflow.enclosures.numbers import Numbers, array, floats

# How tokens move: as they are, in the frame e^{-tV} x, or on the unit sphere.
SPACE, RESCALED, SPHERE = "space", "rescaled", "sphere"


@dataclass(frozen=True)
class Field:
    """The velocity of tokens under softmax weights P_ij ~ e^{beta <B y_i, y_j>}, where y are the tokens as they are heard.

    - kind "space": x_i' = V sum_j P_ij x_j, and y = x;
    - kind "rescaled": z_i' = V sum_j P_ij (z_j - z_i), and y = e^{tV} z;
    - kind "sphere": x_i' = Proj_{x_i} V sum_j P_ij x_j, and y = x; with `sums`, P_ij is e^{beta <B x_i, x_j>} / n.

    Only differences <B y_i, y_j - y_l> of scores are used, l the leader of token i: so weights near 0 and 1 stay narrow
    although scores are large.

    >>> from attnflow.enclosures.numbers import balls
    >>> field, x = Field("space", beta=1.0), balls([[1.0], [-1.0]])
    >>> float(field(x, 0.0, field.leaders(x, 0.0))[0, 0]), np.tanh(1.0)
    (0.7615941559557649, np.float64(0.7615941559557649))
    """

    kind: str
    beta: Any
    B: Numbers | None = None
    V: Numbers | None = None
    sums: bool = False

    def leaders(self, x: Numbers, t: Any) -> list[int]:
        """Return for each token one with a large score: the largest as far as floats can tell. Any choice is valid."""
        y = self._heard(x, t)
        scores = [[_dot(query, key) for key in y] for query in self._queries(y)]
        return [int(row.argmax()) for row in floats(np.array(scores, dtype=object))]

    def __call__(self, x: Numbers, t: Any, leaders: list[int]) -> Numbers:
        """Return the velocities of the tokens x (n, d) at time t."""
        y = self._heard(x, t)
        velocities: list[Any] = []
        for i, (query, l) in enumerate(zip(self._queries(y), leaders, strict=True)):
            others = [j for j in range(len(x)) if j != l]
            weights = [_dot(query, y[j] - y[l]).exp() for j in others]
            total = sum(weights, 1)
            ways = [x[j] - x[l] for j in others]
            mean = [
                place + sum(weight * way[c] for weight, way in zip(weights, ways, strict=True)) / total
                for c, place in enumerate(x[l])
            ]
            if self.sums:
                mass = total * _dot(query, y[l]).exp() / len(x)
                mean = [one * mass for one in mean]
            velocities += self._moved(x[i], mean)
        return array(velocities, x.shape)

    def _heard(self, x: Numbers, t: Any) -> Numbers:
        if self.kind != RESCALED:
            return x
        if self.V is not None:
            return _times(exponential(self.V, t), x)
        growth = t.exp()
        return array((one * growth for one in x.ravel()), x.shape)

    def _queries(self, y: Numbers) -> Numbers:
        """Return beta B y_i."""
        return (y if self.B is None else _times(self.B, y)) * self.beta

    def _moved(self, x: Numbers, mean: list[Any]) -> list[Any]:
        """Return the velocity of a token at x that hears this mean."""
        pull = [m - own for m, own in zip(mean, x, strict=True)] if self.kind == RESCALED else mean
        if self.V is not None:
            pull = [_dot(row, pull) for row in self.V]
        if self.kind != SPHERE:
            return pull
        along = _dot(pull, x)
        return [p - along * own for p, own in zip(pull, x, strict=True)]


def exponential(V: Numbers, t: Any) -> Numbers:
    """Return e^{tV} for a time that is a ball, or a power series t_0 + s; of that the terms that series have now."""
    from flint import arb, arb_mat, arb_series, ctx

    begin = t if isinstance(t, arb) else t[0]
    d, matrix = len(V), arb_mat(V.tolist())
    term = (matrix * begin).exp()
    if isinstance(t, arb):
        return array(term.entries(), (d, d))
    terms = [term]
    for k in range(1, ctx.cap):
        term = term * matrix * (arb(1) / k)
        terms.append(term)
    return array((arb_series([term[i, j] for term in terms]) for i, j in np.ndindex(d, d)), (d, d))


def _dot(a: Any, b: Any) -> Any:
    products = [p * q for p, q in zip(a, b, strict=True)]
    return sum(products[1:], products[0])


def _times(matrix: Numbers, x: Numbers) -> Numbers:
    """Return the matrix applied to each row."""
    return array((_dot(row, token) for token in x for row in matrix), x.shape)
