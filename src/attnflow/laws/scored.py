"""What laws of scores s_ij = <B x_i + b, x_j> other than softmax and hardmax have in common."""

from __future__ import annotations

import math
from dataclasses import InitVar, dataclass, field
from typing import Any, ClassVar

from attnflow.core import inputs
from attnflow.core.arrays import namespace
from attnflow.core.indices import need_probabilities
from attnflow.core.inputs import Array, InputError, Matrix, Scalar, Vector
from attnflow.core.parameters import about
from attnflow.core.query_key import QueryKey, form_at, queries_and_keys, set_form
from attnflow.engines.centring import centre, size
from attnflow.laws.law import Law
from attnflow.laws.softmax import Softmax
from attnflow.laws.sums import Products

# What the parameters of such laws say of themselves.
BETA = about("function", "inverse temperature", start=4)
FORM = about("matrix", "matrix of the scores <B x_i, x_j>")
BIAS = about("vector", "bias of the scores <B x_i + b, x_j>")
QUERIES = about("rectangular", "queries Q x_i, with K in place of B")
KEYS = about("rectangular", "keys K x_j, with Q in place of B")


@dataclass(frozen=True, eq=False)
class WithBeta:
    """A parameter beta: a law ``class Sigmoid(Scored, ..., WithBeta)`` has it first, since B, b, Q and K stand last."""

    beta: Scalar = field(default=1.0, metadata=BETA)


@dataclass(frozen=True, eq=False)
class Scored(Law):
    """A law that writes `of_scores`, its weights from the scores of each row; all take B, b, Q and K as `Softmax`."""

    batched: ClassVar[bool] = True
    merges_copies: ClassVar[bool] = True
    query_key: ClassVar[QueryKey | None] = None  # each law sets its own

    B: Matrix = field(default=None, metadata=FORM)
    b: Vector = field(default=None, metadata=BIAS)
    Q: InitVar[Matrix] = field(default=None, metadata=QUERIES)
    K: InitVar[Matrix] = field(default=None, metadata=KEYS)

    def __post_init__(self, Q: Matrix, K: Matrix) -> None:
        super().__post_init__()
        set_form(self, Q, K)

    def queries(self, x: Array, t: float, gain: float = 1.0) -> Array:
        """Return B x_i + b, for tokens still to be multiplied by the root of a gain."""
        d = x.shape[-1]
        matrix, b = form_at(self, t, d, like=x), inputs.vector_at(self.b, t, d, "b", like=x)
        turned = x if matrix is None else x @ matrix.T
        return turned if b is None else turned + b / math.sqrt(gain)

    def log_weights(
        self, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None
    ) -> Array:
        """Return log P_ij, -inf where P_ij = 0."""
        need_probabilities(self)
        return self._of_own_scores(x, t, sources, masses)

    def signed_weights(
        self, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None
    ) -> Array:
        """Return the weights, where they are no probabilities."""
        return self._of_own_scores(x, t, sources, masses)

    def _of_own_scores(self, x: Array, t: float, sources: Array | None, masses: Array | None) -> Array:
        keys = x if sources is None else sources
        return self.of_scores(self.scores(self.products(x, t, sources=keys), t), x, t, sources=keys, masses=masses)

    def products(self, x: Array, t: float = 0, *, sources: Array | None = None) -> Products:
        """Return B x_i + b and x_j; where Q and K were given, Q x_i + b_Q and K x_j, with b = K^T b_Q."""
        return Products(*queries_and_keys(self, t, x, x if sources is None else sources, lambda y, A: y @ A.T))

    def scores(self, products: Products, t: float = 0) -> Array:
        """Return the scores, from the centre of the keys for probabilities, which depend on differences alone."""
        queries, keys = products
        return super().scores(Products(queries, keys - centre(keys, size(queries)) if self.stochastic else keys), t)

    def of_scores(
        self, scores: Array, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None
    ) -> Array:
        """Return log P_ij, or signed weights, with these scores (m, n); -inf stands for a source that is not heard."""
        raise InputError(f"{type(self).__name__} does not say its weights: it must write of_scores")

    def softmax(self) -> Softmax:
        """Return softmax with the same scores: its fast sums serve laws whose weights are made of exponentials."""
        law: Any = self
        return Softmax(beta=law.beta, B=self.B, b=self.b)


def heard(scores: Array, masses: Array | None) -> tuple[Array, Array]:
    """Return the scores, 0 where a source is not heard, and the share of each source in the mass that is heard.

    >>> import numpy as np
    >>> heard(np.array([[2.0, 1.0], [3.0, -np.inf]]), None)
    (array([[2., 1.],
           [3., 0.]]), array([[0.5, 0.5],
           [1. , 0. ]]))
    """
    xp = namespace(scores)
    near = scores > -math.inf
    w = inputs.each_mass(masses, scores.shape[-1], like=scores)[..., None, :]
    mass = xp.where(near, w, 0.0)
    return xp.where(near, scores, 0.0), mass / mass.sum(axis=-1, keepdims=True)
