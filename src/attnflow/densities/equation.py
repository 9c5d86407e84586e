"""The continuity equation in the moments of a density: their derivatives in time, and those of energy and entropy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attnflow.core.inputs import Array
from attnflow.densities.basis import Basis, kernel

if TYPE_CHECKING:
    from attnflow.densities.mean_field import MeanField


def multipliers(model: MeanField, basis: Basis) -> tuple[float, Array]:
    """Return int e^{beta <x, y>} dy, and w of each function of a basis, as `kernel` does of each degree."""
    total, w = kernel(float(model.beta), model.d, basis.modes)
    return total, w[basis.degrees.astype(int) - 1]


class Field:
    """The equation in the moments of a basis: m_k' = int f <grad phi, grad Y_k> - k (k + d - 2) m_k / kappa."""

    def __init__(self, model: MeanField, basis: Basis) -> None:
        self.model, self.basis = model, basis
        self.total, w = multipliers(model, basis)
        self.waves = basis.counts * w
        self.decay = model.noise * basis.laplacian

    def drift(self, m: Array) -> Array:
        """Return grad phi at the nodes."""
        slope = self.basis.slope(self.waves * m)
        return np.asarray(slope / self.heard(m) if self.model.normalized else slope)

    def potential(self, m: Array) -> Array:
        """Return int e^{beta <x, y>} f(y) dy / beta at the nodes, without the part of its mean."""
        return self.basis.sum(self.waves * m)

    def heard(self, m: Array) -> Array:
        """Return int e^{beta <x, y>} f(y) dy at the nodes."""
        return np.asarray(self.total + self.model.beta * self.potential(m))

    def velocity(self, t: float, m: Array) -> Array:
        """Return the derivatives of the moments in time."""
        return self.basis.against_slopes(self.basis.density(m) * self.drift(m)) - self.decay * m

    def jacobian(self, t: float, m: Array) -> Array:
        """Return the derivatives of the velocity in the moments, (m, m)."""
        b = self.basis
        f, drift, turned = b.density(m)[:, None], self.drift(m)[:, None], b.slopes * self.waves
        if self.model.normalized:
            turned = (turned - self.model.beta * drift * (b.values * self.waves)) / self.heard(m)[:, None]
        inner = drift * (b.values * b.counts) + f * turned
        return np.asarray(b.slopes.T @ (b.weights[:, None] * inner) - np.diag(self.decay))

    def production(self, m: Array) -> tuple[float, float]:
        """Return the rates at which the energy E and the entropy -int f log f grow.

        E' = int f <grad phi, grad psi> - int <grad f, grad psi> / kappa, psi = int e^{beta <x, y>} f / beta, and
        the entropy grows at the rate int |grad f|^2 / (kappa f) - int <grad f, grad phi>.
        """
        b, noise = self.basis, self.model.noise
        f, drift, slope = b.density(m), self.drift(m), b.slope(self.waves * m)
        rise = b.slope(b.counts * m)
        # Where hardly a token is, f is known up to rounding, and its part in the integral is negligible.
        shown = f > 1e-9 * f.max()
        spread = np.divide(rise**2, f, out=np.zeros_like(f), where=shown)
        energy = b.weights @ (slope * (f * drift - noise * rise))
        return float(energy), float(b.weights @ (noise * spread - rise * drift))
