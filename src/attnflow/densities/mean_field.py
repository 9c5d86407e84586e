"""The mean-field limit of self-attention on a sphere, as an equation for the density of tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from attnflow.core.inputs import Array, InputError, number, whole
from attnflow.densities.basis import kernel
from attnflow.densities.density import Density, given_density
from attnflow.densities.equation import multipliers

if TYPE_CHECKING:
    from attnflow.densities.branches import Branch
    from attnflow.densities.evolution import DensityRun
    from attnflow.densities.stationary import Stationary

# Beyond it e^beta, the fastest rate of USA, leaves the range of float64 too soon.
LARGEST_BETA = 500.0

Start = Density | Callable[[Array], ArrayLike] | float


@dataclass(frozen=True)
class MeanField:
    """The density f of infinitely many tokens on the circle (d = 2), or a zonal one on the unit sphere of R^d.

    d_t f = -div(f X[f]) + (1/kappa) Laplacian f, where X[f](x) = Proj_x int e^{beta <x, y>} y f(y) dy / Z(x) is the
    velocity of self-attention: SA with Z(x) = int e^{beta <x, y>} f(y) dy, USA (`normalized=False`) with Z = 1, as in
    `SphereFlow`. Each token has independent noise sqrt(2/kappa) dW, none if `kappa` is None or inf. Integrals are
    against the uniform probability measure, so that f = 1 is the uniform density. X is a gradient: X[f] = grad phi,
    phi = int e^{beta <x, y>} f(y) dy / beta for USA and phi = log(int e^{beta <x, y>} f(y) dy) / beta for SA.

    Densities are expanded in Fourier's functions on the circle and in Gegenbauer's polynomials on spheres: errors fall
    faster than any power of the number of modes, which is doubled when the density gets too sharp for it.

    >>> model = MeanField(beta=3.0, kappa=1.0, normalized=False)
    >>> model.threshold  # the uniform density is stable up to this kappa, beta / I_1(beta)
    0.758...
    >>> run = model.solve(lambda theta: 1 + 0.1 * np.cos(theta), until=40.0)
    >>> run.stopped, round(run.final.order, 6)
    ('reached t = 40, as asked', 0.911615)
    >>> round(model.stationary(run.final).density.order, 6)
    0.911615

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *A mathematical perspective on Transformers* (arXiv 2312.10794), for
    the equation. Mun, Rosenzweig, *Phase transitions for the noisy transformer model in arbitrary dimension* (arXiv
    2606.05140), for its transitions. Atkinson, Han, *Spherical Harmonics and Approximations on the Unit Sphere* (2012),
    for the theorem of Funk and Hecke, by which Bessel functions are the multipliers of e^{beta <x, y>}.
    """

    beta: float
    kappa: float | None = None
    d: int = 2
    normalized: bool = True

    def __post_init__(self) -> None:
        number(self.beta, "beta", least=-LARGEST_BETA, most=LARGEST_BETA)
        if self.kappa is not None and number(self.kappa, "kappa", above=0, infinite=True) == np.inf:
            object.__setattr__(self, "kappa", None)
        whole(self.d, "d", least=2)
        if not isinstance(self.normalized, bool | np.bool_):
            raise InputError(f"normalized is {self.normalized!r}, expected True (SA) or False (USA)")

    @property
    def noise(self) -> float:
        """1/kappa, 0 without noise."""
        return 0.0 if self.kappa is None else 1 / self.kappa

    @property
    def threshold(self) -> float:
        """The kappa# above which the uniform density is unstable; infinite if it is stable without noise.

        1/kappa# = max_k w_k, beta w_k the multipliers of e^{beta <x, y>}, divided by that of constants for SA: for USA
        on the circle kappa# = beta / I_1(beta).
        """
        top = float(self.multipliers(64).max())
        return 1 / top if top > 0 else np.inf

    def multipliers(self, modes: int) -> Array:
        """Return w_k, k = 1 to `modes`: near the uniform density phi is the sum of w_k times the waves of f."""
        total, w = kernel(float(self.beta), self.d, modes)
        return w / total if self.normalized else w

    def rates(self, modes: int = 8) -> Array:
        """Return the rates k (k + d - 2) (w_k - 1/kappa) at which waves of degree k = 1 to `modes` grow on f = 1.

        >>> int(MeanField(beta=2.0).rates().argmax()) + 1  # two clusters appear first
        2
        """
        k = np.arange(1.0, whole(modes, "modes", least=1) + 1)
        return np.asarray(k * (k + self.d - 2) * (self.multipliers(len(k)) - self.noise))

    @property
    def fastest(self) -> int:
        """The degree k of the wave that grows fastest on the uniform density: how many clusters appear on a circle.

        >>> MeanField(beta=1.0).fastest, MeanField(beta=3.0).fastest, MeanField(beta=50.0).fastest
        (1, 2, 10)
        """
        # It is about sqrt(2 beta) for large beta on the circle.
        return int(self.rates(16 + int(4 * np.sqrt(abs(self.beta)))).argmax()) + 1

    def energy(self, density: Density) -> float:
        """Return E = int int (e^{beta <x, y>} - 1) / (2 beta) f f, which grows without noise.

        That of tokens, `measure.energy`, is E + 1/(2 beta).
        """
        total, w = multipliers(self, density.basis)
        constant = (total - 1) / self.beta if self.beta else 0.0
        return float(0.5 * (constant + (density.basis.counts * w) @ density.vector**2))

    def free_energy(self, density: Density) -> float:
        """Return F = (1/kappa) int f log f - E: under USA it never grows."""
        return -self.noise * density.entropy - self.energy(density)

    def solve(
        self,
        density: Start,
        until: float,
        *,
        record: Sequence[float] | None = None,
        rtol: float = 1e-10,
        modes: int | None = None,
    ) -> DensityRun:
        """Return the density from t = 0 to `until`: at every step of the solver, or at 0 and the times `record`.

        `density` is a function of angles (d = 2) or of cosines <x, e> (d >= 3), up to a factor, or a `Density` such as
        ``run.final``. The error in time is controlled by SciPy's DOP853, with noise by its BDF, which takes long steps
        although waves of high degree decay fast. The error in space is controlled by the tail of the expansion: where
        its upper third exceeds 10 `rtol` of the norm, the step is taken again with twice as many modes. A density that
        gets sharper than 512 modes can show, as clusters do without noise, ends the run, which says so. If `modes` is
        given, it is kept, whatever the tail: to see how errors fall with it.
        """
        from attnflow.densities.evolution import evolve

        end = number(until, "until", above=0)
        accuracy = number(rtol, "rtol", least=1e-12, most=1e-3)
        start = given_density(density, self.d, 10 * accuracy)
        if modes is not None:
            start = start.refined(whole(modes, "modes", least=1))
        return evolve(self, start, end, record, accuracy, adaptive=modes is None)

    def stationary(self, density: Start) -> Stationary:
        """Return the stationary density near a given one, found by Newton's method, with its stability.

        The flux of a stationary density vanishes, since the free energy does not change there: it solves
        f = e^{kappa phi} / Z, with phi its own potential. Densities that are symmetric about e, the first axis, are
        looked for. On the circle the one given is turned so that its largest wave is symmetric about e, and what is
        then left that is not is left out; if that is not small, the density is refused.
        """
        from attnflow.densities.stationary import newton

        return newton(self, given_density(density, self.d))

    def branch(self, mode: int = 1, *, until: float | None = None) -> Branch:
        """Return the stationary densities that leave the uniform one where waves of degree `mode` become unstable.

        They are followed by their arclength, through folds, until kappa is `until` (by default 1.5 times where they
        began): with their stability, their folds, and the kappa of the phase transition. The model's own kappa is not
        used.
        """
        from attnflow.densities.branches import follow

        return follow(self, whole(mode, "mode", least=1), until)
