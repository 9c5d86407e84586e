"""Stationary densities f = e^{kappa phi[f]} / Z, by Newton's method, and their stability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from attnflow.core.inputs import Array, InputError
from attnflow.densities.basis import Basis, basis
from attnflow.densities.density import FEWEST, MOST, Density
from attnflow.densities.density import TAIL as LONGEST_TAIL
from attnflow.densities.equation import Field
from attnflow.densities.one_thread import on_one_thread

if TYPE_CHECKING:
    from attnflow.densities.mean_field import MeanField

# Newton's method has converged when a step is shorter than CLOSE; it takes at most STEPS.
CLOSE, STEPS = 1e-12, 40
# Where branches meet, steps do not get short: there moments that are off by this are those of a stationary density.
ROUNDING = 1e-14
# Rates are computed up to this for each of them, in parts of the fastest: that of rotations, 0, is off by less.
BLUR = 1e-15
# A tail of stationary densities that is longer than this has them computed with more modes.
TAIL = 1e-12
# Densities are the uniform one if no moment is larger than this.
UNIFORM = 1e-9
# The part of a density that is not even may be as large as this, in parts of what is not uniform: it is left out.
ODD = 0.1


@dataclass(frozen=True, eq=False)
class Stationary:
    """A stationary density.

    Attributes
    ----------
    model, density
        The equation with its kappa, and the density.
    residual
        The largest derivative of a moment in time, which should vanish.
    rates
        The rates at which small changes of the density grow, largest first: stable if all are negative. On the circle
        these are all changes but rotations, whose rate is 0; on spheres they are zonal, too.

    >>> import attnflow as af
    >>> model = af.MeanField(beta=3.0, kappa=0.752, normalized=False)  # between the fold and the threshold
    >>> uniform, clusters = model.stationary(1), model.stationary(lambda theta: np.exp(2 * np.cos(theta)))
    >>> uniform.stable, clusters.stable, round(clusters.density.order, 3)
    (True, True, 0.477)
    """

    model: MeanField
    density: Density
    residual: float
    rates: Array

    def __repr__(self) -> str:
        stable = "stable" if self.stable else "unstable"
        return f"<Stationary: {stable}, largest rate {self.rates[0]:.6g}; {self.density!r}; {self.model!r}>"

    @property
    def stable(self) -> bool:
        """Whether all small changes decay: False where the largest rate is 0 up to rounding, as at thresholds."""
        return decaying(self.rates)

    @property
    def free_energy(self) -> float:
        """The free energy of `MeanField.free_energy`."""
        return self.model.free_energy(self.density)


class Balanced:
    """The map G(m, kappa) = m - moments(e^{kappa phi[m]} / Z) of even moments: 0 at stationary densities."""

    def __init__(self, model: MeanField, modes: int) -> None:
        self.model, self.basis = model, basis(model.d, modes).even()
        self.equation = Field(model, self.basis)

    def density(self, m: Array, kappa: float) -> tuple[Array, Array]:
        """Return the masses of e^{kappa phi} / Z at the nodes, and phi."""
        if self.model.normalized:
            beta, heard = self.model.beta, self.equation.heard(m)
            if not (heard > 0).all():
                raise np.linalg.LinAlgError("these moments are of no density")
            phi = np.log(heard / self.equation.total) / beta if beta else self.equation.potential(m)
        else:
            phi = self.equation.potential(m)
        scores = kappa * phi
        masses = self.basis.weights * np.exp(scores - scores.max())
        return masses / masses.sum(), phi

    def __call__(self, m: Array, kappa: float) -> tuple[Array, Array, Array]:
        """Return G, its derivatives in the moments (K, K), and that in kappa."""
        masses, phi = self.density(m, kappa)
        Y = self.basis.values
        mean = masses @ Y
        slopes = Y * self.equation.waves
        if self.model.normalized:
            slopes = slopes / self.equation.heard(m)[:, None]
        away = masses[:, None] * (Y - mean)
        return m - mean, np.eye(len(m)) - kappa * (away.T @ slopes), -(away.T @ phi)


@on_one_thread
def newton(model: MeanField, near: Density) -> Stationary:
    """Return the stationary density near a given one: see `MeanField.stationary`."""
    if model.kappa is None:
        raise InputError("kappa is None, but without noise the limits have no densities: give a kappa")
    modes = max(near.modes, FEWEST)
    m = _turned(near.refined(modes))
    while True:
        found = _solve(Balanced(model, modes), m, float(model.kappa))
        if found is None:
            raise InputError("Newton's method found no stationary density near the one given: start from one of a run")
        grid: Basis = basis(model.d, modes)
        density = Density(grid, np.pad(found, (0, len(grid.degrees) - modes)))
        if density.tail <= TAIL or (2 * modes > MOST and density.tail <= LONGEST_TAIL):
            return described(model, density)
        if 2 * modes > MOST:
            raise InputError(
                f"the stationary density at beta = {model.beta:g}, kappa = {model.kappa:g} is too sharp for {MOST} "
                "modes: give a smaller kappa"
            )
        modes *= 2
        m = np.pad(found, (0, modes - len(found)))


def described(model: MeanField, density: Density) -> Stationary:
    """Return a stationary density with its residual and its stability."""
    residual = float(np.abs(Field(model, density.basis).velocity(0.0, density.vector)).max())
    return Stationary(model, density, residual, rates_of(model, density))


@on_one_thread
def rates_of(model: MeanField, density: Density) -> Array:
    """Return the growth rates of small changes of a stationary density that is even, without that of rotations."""
    K = density.modes
    J = Field(model, density.basis).jacobian(0.0, density.vector)
    rates = np.linalg.eigvals(J[:K, :K]).real
    if model.d == 2:
        odd = np.linalg.eigvals(J[K:, K:]).real
        turning = np.abs(density.vector).max() > UNIFORM
        rates = np.concatenate([rates, np.delete(odd, np.abs(odd).argmin()) if turning else odd])
    return np.sort(rates)[::-1]


def decaying(rates: Array) -> bool:
    """Whether all rates, largest first, are negative beyond rounding."""
    return bool(rates[0] < -BLUR * len(rates) * np.abs(rates).max())


def _solve(balanced: Balanced, m: Array, kappa: float) -> Array | None:
    for _ in range(STEPS):
        try:
            G, dG, _ = balanced(m, kappa)
            if float(np.abs(G).max()) < ROUNDING:
                return m
            step = np.linalg.solve(dG, G)
        except np.linalg.LinAlgError:
            return None
        # Moments are at most 1: no longer step is meant.
        step /= max(1.0, 2 * float(np.abs(step).max()))
        m = m - step
        if float(np.abs(step).max()) < CLOSE:
            return m
    return None


def _turned(f: Density) -> Array:
    """Return the even moments of a density on the circle, turned to where it is symmetric about angle 0.

    There its largest wave is real, and positive if it can be: of the angles at which that is so, the one at which the
    least is left that is not even.
    """
    if f.d > 2:
        return f.vector
    k = 1 + int(np.abs(f.moments).argmax())
    if abs(f.moments[k - 1]) <= UNIFORM:
        return np.asarray(f.moments.real)
    angles = (np.angle(f.moments[k - 1]) + np.pi * np.arange(2 * k)) / k
    turned = f.moments * np.exp(-1j * np.outer(angles, np.arange(1, f.modes + 1)))
    size, odd = float(np.linalg.norm(f.moments)), np.linalg.norm(turned.imag, axis=1)
    even = turned[odd <= odd.min() + UNIFORM * size].real
    best = even[np.lexsort((even[:, 0], even[:, k - 1] > 0))[-1]]
    if odd.min() > ODD * max(size, ODD):
        raise InputError(
            f"the density is symmetric about no axis (by {odd.min() / size:.0%} of its waves), expected one that "
            "nearly is: give a symmetric one, or the end of a longer run"
        )
    return np.asarray(best)
