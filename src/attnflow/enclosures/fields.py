"""The velocity of few tokens and its derivative, for any kind of number: balls, complex balls, power series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnflow.enclosures.numbers import Numbers, array

# How tokens move: as they are, in the frame e^{-tV} x, or on the unit sphere.
SPACE, RESCALED, SPHERE = "space", "rescaled", "sphere"
# Rows of numbers. Lists, because NumPy takes a power series for a row of its coefficients.
Rows = Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Field:
    """The velocity of tokens under softmax weights P_ij ~ e^{<G x_i, x_j>}.

    - kind "space": x_i' = V sum_j P_ij x_j, and G = beta B;
    - kind "rescaled": z_i' = V sum_j P_ij (z_j - z_i), and G = beta e^{tV}^T B e^{tV};
    - kind "sphere": x_i' = Proj_{x_i} V sum_j P_ij x_j, and G = beta B; with `sums`, P_ij is e^{<G x_i, x_j>} / n.

    Only differences <G x_i, x_j - x_l> of scores are used, l the leader of token i: so weights near 0 and 1 stay narrow
    although scores are large.

    >>> import numpy as np
    >>> from attnflow.enclosures.numbers import balls
    >>> field, x = Field("space", beta=1.0), balls([[1.0], [-1.0]])
    >>> float(field.velocity(Heard.of(field, x, field.form(0.0, 1)))[0][0]), np.tanh(1.0)
    (0.7615941559557649, np.float64(0.7615941559557649))
    """

    kind: str
    beta: Any
    B: Numbers | None = None
    V: Numbers | None = None
    sums: bool = False

    def form(self, t: Any, d: int) -> Rows:
        """Return G at time t, which is a ball, a complex ball, or a power series t_0 + s."""
        form = [[self.beta * one for one in row] for row in (_identity(d) if self.B is None else self.B)]
        if self.kind != RESCALED:
            return form
        if self.V is None:
            growth = (t + t).exp()
            return [[one * growth for one in row] for row in form]
        growth = exponential(self.V, t)
        turned = [list(column) for column in zip(*growth, strict=True)]
        return _product(_product(turned, form), growth)

    def velocity(self, heard: Heard) -> list[list[Any]]:
        """Return the velocities of the tokens."""
        found: list[list[Any]] = []
        for own, mean in zip(heard.tokens, heard.means, strict=True):
            pull = [m - x for m, x in zip(mean, own, strict=True)] if self.kind == RESCALED else mean
            pull = list(pull) if self.V is None else [dot(row, pull) for row in self.V]
            along = dot(pull, own) if self.kind == SPHERE else None
            found.append(pull if along is None else [p - along * x for p, x in zip(pull, own, strict=True)])
        return found

    def derivative(self, heard: Heard) -> list[list[Any]]:
        """Return the matrix of the derivative of all velocities by all coordinates, token after token.

        The mean m_i of token i has, W_ij the weights and a_i = m_i (with `sums`: a_i = 0), the derivative

            dm_i = sum_j W_ij (dx_j + (x_j - a_i) (<G dx_i, x_j - a_i> + <G x_i, dx_j>)).
        """
        n, d = len(heard.tokens), len(heard.tokens[0])
        rows: list[list[Any]] = []
        for i, own in enumerate(heard.tokens):
            query, weights, spread = heard.queries[i], heard.weights[i], heard.spread(i)
            weighted = [[weight * one for one in way] for weight, way in zip(weights, spread, strict=True)]
            blocks = [
                [[far * q + weight if a == c else far * q for c, q in enumerate(query)] for a, far in enumerate(fars)]
                for weight, fars in zip(weights, weighted, strict=True)
            ]
            around = [
                [dot(column, other) for other in zip(*spread, strict=True)] for column in zip(*weighted, strict=True)
            ]
            own_block = _product(around, heard.form)
            blocks[i] = [[a + b for a, b in zip(*two, strict=True)] for two in zip(blocks[i], own_block, strict=True)]
            if self.kind == RESCALED:
                blocks[i] = [
                    [one - 1 if a == c else one for c, one in enumerate(row)] for a, row in enumerate(blocks[i])
                ]
            if self.V is not None:
                blocks = [_product(self.V, block) for block in blocks]
            if self.kind == SPHERE:
                blocks = self._tangent(heard, i, own, blocks)
            rows += [[blocks[j][a][c] for j in range(n) for c in range(d)] for a in range(d)]
        return rows

    def _tangent(self, heard: Heard, i: int, own: Sequence[Any], blocks: list[Any]) -> list[Any]:
        """Return the derivative of u - <u, x_i> x_i from that of u, the pull on token i."""
        pull = heard.means[i] if self.V is None else [dot(row, heard.means[i]) for row in self.V]
        along, found = dot(pull, own), []
        for j, block in enumerate(blocks):
            slope = [dot(own, column) for column in zip(*block, strict=True)]
            if j == i:
                slope = [s + u for s, u in zip(slope, pull, strict=True)]
            rows = [[one - s * x for one, s in zip(row, slope, strict=True)] for row, x in zip(block, own, strict=True)]
            if j == i:
                rows = [[one - along if a == c else one for c, one in enumerate(row)] for a, row in enumerate(rows)]
            found.append(rows)
        return found


@dataclass(frozen=True)
class Heard:
    """What tokens hear: weights W_ij, means sum_j W_ij x_j, queries G x_i, and what they were computed from.

    `apart[l][j]` is x_j - x_l for each leader l. With l the leader of token i, `totals[i]` is the sum of
    e^{<G x_i, x_j - x_l>} over j, and `away[i]` is its mean minus x_l.
    """

    tokens: Rows
    form: Rows
    leaders: Sequence[int]
    apart: Mapping[int, Rows]
    queries: Rows
    totals: Sequence[Any]
    weights: Rows
    means: Rows
    away: Rows
    sums: bool

    @classmethod
    def of(
        cls, field: Field, x: Any, form: Rows, leaders: Sequence[int] = (), apart: Mapping[int, Rows] | None = None
    ) -> Heard:
        """Return what the tokens x (n, d) hear; differences of tokens are computed unless they are given."""
        tokens = [list(row) for row in x]
        n = len(tokens)
        queries = [[dot(row, one) for row in form] for one in tokens]
        leaders = leaders or leaders_of(queries, tokens)
        apart = apart or differences(tokens, leaders)
        totals, weights, means, away = [], [], [], []
        for query, leader in zip(queries, leaders, strict=True):
            ways, place = apart[leader], tokens[leader]
            row = [dot(query, one).exp() if j != leader else 1 for j, one in enumerate(ways)]
            total = sum((one for j, one in enumerate(row) if j != leader), place[0] * 0 + 1)
            if field.sums:
                share = dot(query, place).exp() * (place[0] * 0 + 1) / n
                weight = [one * share for one in row]
                mean, way = [dot(weight, column) for column in zip(*tokens, strict=True)], []
            else:
                inverse = 1 / total
                weight = [one * inverse if j != leader else inverse for j, one in enumerate(row)]
                others = [j for j in range(n) if j != leader]
                way = [sum((weight[j] * ways[j][c] for j in others), own * 0) for c, own in enumerate(place)]
                mean = [a + b for a, b in zip(place, way, strict=True)]
            totals.append(total)
            weights.append(weight)
            means.append(mean)
            away.append(way)
        return cls(tokens, form, leaders, apart, queries, totals, weights, means, away, field.sums)

    def spread(self, i: int) -> Rows:
        """Return x_j - a_i for all j: differences from the mean of token i, or with `sums` the tokens."""
        if self.sums:
            return self.tokens
        return [[way - a for way, a in zip(ways, self.away[i], strict=True)] for ways in self.apart[self.leaders[i]]]


def leaders_of(queries: Rows, tokens: Rows) -> list[int]:
    """Return for each query the token with the largest score, by the middles of balls. Any choice is valid."""
    found = []
    for query in queries:
        scores = [dot(query, one).mid() for one in tokens]
        found.append(max(range(len(scores)), key=scores.__getitem__))
    return found


def differences(tokens: Rows, leaders: Sequence[int]) -> Mapping[int, Rows]:
    """Return x_j - x_l for each leader l."""
    return {k: [[a - b for a, b in zip(one, tokens[k], strict=True)] for one in tokens] for k in set(leaders)}


def exponential(V: Numbers, t: Any) -> Rows:
    """Return e^{tV} for a time that is a ball, a complex ball, or a power series t_0 + s cut like all now."""
    from flint import acb, acb_mat, arb, arb_mat, arb_series, ctx

    if isinstance(t, acb):
        return (acb_mat(arb_mat(V.tolist())) * t).exp().tolist()
    matrix = arb_mat(V.tolist())
    if isinstance(t, arb):
        return (matrix * t).exp().tolist()
    terms = [(matrix * t[0]).exp()]
    for k in range(1, ctx.cap):
        terms.append(terms[-1] * matrix * (arb(1) / k))
    d = len(V)
    return [[arb_series([term[i, j] for term in terms]) for j in range(d)] for i in range(d)]


def dot(a: Any, b: Any) -> Any:
    """Return the sum of products of two rows."""
    products = [p * q for p, q in zip(a, b, strict=True)]
    return sum(products[1:], products[0])


def _product(a: Any, b: Any) -> list[list[Any]]:
    columns = list(zip(*b, strict=True))
    return [[dot(row, column) for column in columns] for row in a]


def _identity(d: int) -> Numbers:
    return array((int(i == j) for i in range(d) for j in range(d)), (d, d))
