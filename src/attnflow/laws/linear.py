"""Linear attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from attnflow.core.arrays import foreign
from attnflow.core.inputs import Array, each_mass
from attnflow.laws.scored import Scored, heard
from attnflow.laws.sums import Heard, Sources


@dataclass(frozen=True, eq=False)
class Linear(Scored):
    """Linear attention: weights s_ij / n, s_ij = <B x_i + b, x_j>, of any sign; with masses w_j s_ij / sum_k w_k.

    Sums over all sources are one matrix, sum_j w_j v_j x_j^T, times the queries: their time is proportional to n. B, b,
    Q and K are those of `Softmax`. Weights that are no probabilities do not average: tokens may grow without end.

    Examples
    --------
    >>> import attnflow as af
    >>> af.Linear().weights([[1.0], [-2.0]])
    array([[ 0.5, -1. ],
           [-1. ,  2. ]])
    >>> af.Linear().attend([[1.0], [-2.0]])
    array([[ 2.5],
           [-5. ]])

    References
    ----------
    Katharopoulos, Vyas, Pappas, Fleuret, *Transformers are RNNs* (arXiv 2006.16236), with the identity as feature map
    and without normalisation. Castin, Ablin, Carrillo, Peyre, *A unified perspective on the dynamics of deep
    transformers* (arXiv 2501.18322).
    """

    name: ClassVar[str] = "linear"
    title: ClassVar[str] = "Linear"
    formula: ClassVar[str] = "weights <B x_i, x_j> / n"
    stochastic: ClassVar[bool] = False
    array_api: ClassVar[bool] = True

    def of_scores(
        self, scores: Array, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None
    ) -> Array:
        """Return s_ij times the share of source j in the mass that is heard."""
        s, share = heard(scores, masses)
        return s * share

    def listen(self, x: Array, t: float, sources: Sources) -> Heard:
        """Return the queries times the matrix sum_j w_j x_j v_j^T / sum_j w_j."""
        if foreign(x):
            return super().listen(x, t, sources)
        w = each_mass(sources.masses, len(sources.places))
        moments = sources.places.T @ (w[:, None] / w.sum() * sources.values)
        return Heard(sources.gain * (self.queries(x, t, sources.gain) @ moments), None)

    def uses(self, engine: str, n: int, d: int) -> str:
        return "one matrix"
