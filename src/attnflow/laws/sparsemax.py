"""Sparsemax attention: the projection of scores to the simplex."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from attnflow.core.inputs import Array, number_at
from attnflow.laws.entmax import log_entmax
from attnflow.laws.scored import Scored, WithBeta


@dataclass(frozen=True, eq=False)
class Sparsemax(Scored, WithBeta):
    """Sparsemax attention: P_ij = [z_ij - tau_i]_+, z_ij = beta <B x_i + b, x_j>, tau_i such that rows sum to one.

    Row i is the probability vector nearest to z_i. This is `Entmax` with alpha = 2, where masses are explained. Only
    sources within 1 / beta of the top score can be heard. B, b, Q and K are those of `Softmax`.

    Examples
    --------
    >>> import attnflow as af
    >>> af.Sparsemax().weights([[1.0], [0.5], [-1.0]])
    array([[0.75 , 0.25 , 0.   ],
           [0.625, 0.375, 0.   ],
           [0.   , 0.   , 1.   ]])

    References
    ----------
    Martins, Astudillo, *From softmax to sparsemax* (arXiv 1602.02068).
    """

    name: ClassVar[str] = "sparsemax"
    title: ClassVar[str] = "Sparsemax"
    formula: ClassVar[str] = "P_ij = [beta <B x_i, x_j> - tau_i]_+"

    def of_scores(
        self, scores: Array, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None
    ) -> Array:
        """Return log P_ij from the thresholds of the rows; -inf where P_ij = 0."""
        return log_entmax(scores, 2.0, number_at(self.beta, t, "beta"), masses)
