"""What a law says of itself: the exponents of its weights, or whom its tokens listen to alike."""

from __future__ import annotations

import math
from typing import NamedTuple

from attnflow.core import inputs
from attnflow.core.arrays import namespace
from attnflow.core.inputs import Array, Matrix, Scalar, Vector


class Exponents(NamedTuple):
    """The parameters of weights w_j e^{beta s_ij} / sum_k w_k e^{beta s_ik}, s_ij = <B x_i + b, x_j>.

    They are as the user gave them: numbers, matrices, functions of time; None stands for B = I and for b = 0.
    """

    beta: Scalar
    B: Matrix = None
    b: Vector = None


class Slack(NamedTuple):
    """How far below its top score M_i a query q_i still listens: additive + normalized |q_i| + relative |M_i|."""

    additive: float = 0.0
    normalized: float = 0.0
    relative: float = 0.0

    def at(self, queries: Array, gain: float = 1.0) -> tuple[Array, float]:
        """Return the part that does not depend on M_i, for scores still to be multiplied by a gain."""
        xp = namespace(queries)
        room = xp.zeros_like(queries[..., 0]) + self.additive / gain
        if self.normalized:
            room += self.normalized / math.sqrt(gain) * xp.sqrt(xp.einsum("...ik,...ik->...i", queries, queries))
        return room, self.relative


class Neighbourhood(NamedTuple):
    """Whom a token listens to, where it listens to all of them alike.

    With the `threshold` "additive", "relative" or "normalized" these are the sources whose score <B x_i + b, x_j> is
    within the `size` of the top score, as in `Localmax`; with "distance", those within this distance. `ties` says how
    sources of equal score count, as in `Hardmax`.
    """

    size: Scalar
    threshold: str
    B: Matrix = None
    b: Vector = None
    ties: str = "tokens"

    @property
    def by_scores(self) -> bool:
        """Whether scores decide, not distances."""
        return self.threshold != "distance"

    def slack(self, t: float) -> Slack:
        """Return the size at time t in the place that the threshold gives it."""
        return Slack(**{self.threshold: inputs.number_at(self.size, t, "delta", least=0.0)})
