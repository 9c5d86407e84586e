"""Softmax whose weights are multiplied by the scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attnflow.core.arrays import foreign, namespace
from attnflow.core.inputs import Array, number_at
from attnflow.laws.scored import Scored, WithBeta, heard
from attnflow.laws.sums import Heard, Sources


@dataclass(frozen=True, eq=False)
class SelfAdjusted(Scored, WithBeta):
    """Self-adjusted softmax: weights z_ij P_ij, z_ij = beta s_ij, P the softmax of z, s_ij = <B x_i + b, x_j>.

    The weights have the sign of the scores. B, b, Q and K are those of `Softmax`. Sums are those of softmax, for the
    values x_j v_j^T in place of v_j: d times as many numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import attnflow as af
    >>> af.SelfAdjusted(beta=np.log(3.0) / 2).weights([[1.0], [-1.0]]) / np.log(3.0)
    array([[ 0.375, -0.125],
           [-0.125,  0.375]])

    References
    ----------
    Zheng et al., *Self-Adjust Softmax* (arXiv 2502.18277), the form z softmax(z).
    """

    name: ClassVar[str] = "self-adjusted"
    title: ClassVar[str] = "Self-adjusted softmax"
    formula: ClassVar[str] = "weights beta <B x_i, x_j> P_ij, P_ij ~ w_j e^{beta <B x_i, x_j>}"
    stochastic: ClassVar[bool] = False
    array_api: ClassVar[bool] = True

    def of_scores(
        self, scores: Array, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None
    ) -> Array:
        """Return beta s_ij times the weights of softmax."""
        log_p = self.softmax().of_scores(scores, x, t, sources=sources, masses=masses)
        return number_at(self.beta, t, "beta", like=x) * heard(scores, masses)[0] * namespace(scores).exp(log_p)

    def listen(self, x: Array, t: float, sources: Sources) -> Heard:
        """Return z_i^T sum_j P_ij x_j v_j^T, z_i = beta (B x_i + b), from the sums of softmax."""
        if foreign(x):
            return super().listen(x, t, sources)
        law, (n, k) = self.softmax(), sources.values.shape
        values = (sources.places[:, :, None] * sources.values[:, None, :]).reshape(n, -1)
        mean = law.listen(x, t, sources._replace(values=values)).mean.reshape(len(x), -1, k)
        queries, gain = law.queries(x, t, sources.gain)
        return Heard(gain * sources.gain * np.einsum("ia,iak->ik", queries, mean), None)

    def uses(self, engine: str, n: int, d: int) -> str:
        return self.softmax().uses(engine, n, d)

    def served_by(self, x: Array, t: float, engine: str) -> str:
        return self.softmax().served_by(x, t, engine)
