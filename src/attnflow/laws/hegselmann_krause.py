"""Bounded confidence, the opinion dynamics that localmax is compared with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from attnflow import engines
from attnflow.core.arrays import foreign
from attnflow.core.inputs import Array, Scalar, each_mass, number_at
from attnflow.core.parameters import about
from attnflow.engines import dense
from attnflow.laws.descriptions import Neighbourhood
from attnflow.laws.law import Law, weighs_like
from attnflow.laws.sums import Heard, Sources


@dataclass(frozen=True, eq=False)
class HegselmannKrause(Law):
    """Bounded confidence: uniform weights on the tokens within a distance eps, {j : |x_i - x_j| <= eps}.

    The influence graph is symmetric, unlike that of localmax.

    Examples
    --------
    >>> import attnflow as af
    >>> af.HegselmannKrause(eps=1.0).attend([[0.0], [1.0], [2.5]])
    array([[0.5],
           [0.5],
           [2.5]])

    References
    ----------
    Hegselmann, Krause, *Opinion dynamics and bounded confidence* (2002).
    """

    name: ClassVar[str] = "hegselmann-krause"
    title: ClassVar[str] = "Hegselmann–Krause"
    formula: ClassVar[str] = "|x_i - x_j| <= eps"
    continuous: ClassVar[bool] = False
    array_api: ClassVar[bool] = True
    replays: ClassVar[str] = "fractions"

    eps: Scalar = field(default=1.0, metadata=about("function", "confidence radius", least=0.0))

    @property
    def neighbourhood(self) -> Neighbourhood:
        """The sources within the distance eps."""
        return Neighbourhood(self.eps, "distance")

    def uses(self, engine: str, n: int, d: int) -> str:
        return engines.choose(engine, "ball", n, n, d)

    def log_weights(
        self, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None
    ) -> Array:
        """Return log P_ij: the logarithm of w_j over the mass of the ball, -inf outside it."""
        keys = x if sources is None else sources
        radius = number_at(self.eps, t, "eps", least=0.0)
        near = dense.squared_distances(x, keys) <= radius * radius
        return dense.log_shares(near, each_mass(masses, len(keys), like=keys))

    def separates(self, x: Array, groups: NDArray[np.int64], t: float = 0) -> bool:
        """Say whether all points of the hulls of different groups are farther apart than eps.

        They are if tokens are, after the widths of both groups are taken off.
        """
        if not weighs_like(self, HegselmannKrause):
            return False
        widths = np.array([np.linalg.norm(np.ptp(x[groups == k], axis=0)) for k in range(int(groups.max()) + 1)])
        far = np.sqrt(dense.squared_distances(x, x)) - widths[groups][:, None] - widths[groups]
        radius = number_at(self.eps, t, "eps", least=0.0)
        least = far[groups[:, None] != groups].min(initial=np.inf)
        return bool(least > radius + 1e-12 * np.abs(x).max())

    def listen(self, x: Array, t: float, sources: Sources) -> Heard:
        """Average the values of the sources within the distance eps."""
        if foreign(x):
            return super().listen(x, t, sources)
        radius = number_at(self.eps, t, "eps", least=0.0) / np.sqrt(sources.gain)
        chosen = engines.engine(sources.engine, "ball", len(x), len(sources.places), x.shape[1])
        return Heard(
            chosen.ball(x, sources.places, sources.values, each_mass(sources.masses, len(sources.places)), radius), None
        )
