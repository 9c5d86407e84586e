"""Sigmoid attention."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from attnflow.core.arrays import namespace
from attnflow.core.inputs import Array, Scalar, number_at
from attnflow.core.parameters import about
from attnflow.laws.scored import Scored, WithBeta, heard


@dataclass(frozen=True, eq=False)
class WithOffset:
    """The parameter c of sigmoid attention, which stands after beta."""

    offset: Scalar = field(default=0.0, metadata=about("function", "number added to beta times the score", symbol="c"))


@dataclass(frozen=True, eq=False)
class Sigmoid(Scored, WithOffset, WithBeta):
    """Sigmoid attention: weights 1/n / (1 + e^{-beta s_ij - c}), s_ij = <B x_i + b, x_j>, c the offset.

    With masses, 1/n is w_j / sum_k w_k. B, b, Q and K are those of `Softmax`. Each weight depends on its own score
    alone, so rows do not sum to one. For a very negative offset the weights are e^c times those of `Unnormalized`. The
    sigmoid attention of the reference, sum_j of 1 / (1 + e^{-s_ij + log n}) times values, has offset c = -log n, and
    values that are multiplied by n.

    Examples
    --------
    >>> import numpy as np
    >>> import attnflow as af
    >>> af.Sigmoid(beta=np.log(3.0)).weights([[1.0], [-1.0]])
    array([[0.375, 0.125],
           [0.125, 0.375]])

    References
    ----------
    Ramapuram et al., *Theory, analysis, and best practices for sigmoid self-attention* (arXiv 2409.04431). Castin,
    Ablin, Carrillo, Peyre, *A unified perspective on the dynamics of deep transformers* (arXiv 2501.18322).
    """

    name: ClassVar[str] = "sigmoid"
    title: ClassVar[str] = "Sigmoid"
    formula: ClassVar[str] = "weights 1/n / (1 + e^{-beta <B x_i, x_j> - c})"
    stochastic: ClassVar[bool] = False
    array_api: ClassVar[bool] = True

    def of_scores(
        self, scores: Array, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None
    ) -> Array:
        """Return 1 / (1 + e^{-beta s_ij - c}) times the share of source j in the mass that is heard."""
        xp, (s, share) = namespace(scores), heard(scores, masses)
        z = number_at(self.beta, t, "beta", like=x) * s + number_at(self.offset, t, "offset", like=x)
        small = xp.exp(-xp.abs(z))  # this form is accurate for weights of any size
        return xp.where(z >= 0, 1.0, small) / (1 + small) * share
