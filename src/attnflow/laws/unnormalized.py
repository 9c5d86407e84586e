"""Exponentials of scores without normalisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attnflow.core.arrays import foreign, namespace
from attnflow.core.inputs import Array, number_at
from attnflow.laws.scored import Scored, WithBeta, heard
from attnflow.laws.sums import Heard, Sources


@dataclass(frozen=True, eq=False)
class Unnormalized(Scored, WithBeta):
    """Unnormalised softmax: weights e^{beta s_ij} / n, s_ij = <B x_i + b, x_j>.

    With masses, 1/n is w_j / sum_k w_k. On the sphere this is the model USA, which is also
    `SphereFlow(normalized=False)` under `Softmax`. B, b, Q and K are those of `Softmax`, and so are the fast sums.
    Scores beyond 700 / beta leave float64.

    Examples
    --------
    >>> import numpy as np
    >>> import attnflow as af
    >>> af.Unnormalized(beta=np.log(4.0)).weights([[1.0], [-0.5]])
    array([[2.        , 0.25      ],
           [0.25      , 0.70710678]])

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *A mathematical perspective on Transformers* (arXiv 2312.10794), the
    model USA.
    """

    name: ClassVar[str] = "unnormalized"
    title: ClassVar[str] = "Unnormalised softmax"
    formula: ClassVar[str] = "weights e^{beta <B x_i, x_j>} / n"
    stochastic: ClassVar[bool] = False
    array_api: ClassVar[bool] = True

    def of_scores(
        self, scores: Array, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None
    ) -> Array:
        """Return e^{beta s_ij} times the share of source j in the mass that is heard."""
        s, share = heard(scores, masses)
        return namespace(scores).exp(number_at(self.beta, t, "beta", like=x) * s) * share

    def listen(self, x: Array, t: float, sources: Sources) -> Heard:
        """Return the mean of softmax times its total, divided by the mass of the sources."""
        if foreign(x):
            return super().listen(x, t, sources)
        mean, log_total = self.softmax().listen(x, t, sources)
        assert log_total is not None
        mass = len(sources.places) if sources.masses is None else sources.masses.sum()
        return Heard(mean * np.exp(log_total - np.log(mass))[:, None], None)

    def uses(self, engine: str, n: int, d: int) -> str:
        return self.softmax().uses(engine, n, d)

    def served_by(self, x: Array, t: float, engine: str) -> str:
        return self.softmax().served_by(x, t, engine)
