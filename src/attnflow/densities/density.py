"""A density on the circle, or a zonal one on a sphere: its values, moments and samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.core.blocks import row_blocks
from attnflow.core.inputs import Array, InputError, cloud, number, reals, whole
from attnflow.densities.basis import Basis, basis, gegenbauer, waves

# Expansions begin with FEWEST functions and take at most MOST, whose upper third holds at most TAIL of the norm.
FEWEST, MOST = 16, 512
TAIL = 1e-9


@dataclass(frozen=True, eq=False)
class Density:
    """A density f against the uniform probability measure of the circle (d = 2) or of the unit sphere of R^d.

    On the circle it is a function of the angle. On the sphere it is zonal, a function of s = <x, e>, e the first unit
    vector. `Density.of` makes one from a function.

    >>> f = Density.of(lambda theta: np.exp(np.cos(theta)))
    >>> f.modes, round(float(f.at(0.0)), 6), round(f.order, 6)  # e / I_0(1) and I_1(1) / I_0(1)
    (16, 2.14703, 0.44639)
    """

    basis: Basis
    vector: Array

    @classmethod
    def of(cls, function: Callable[[Array], ArrayLike], d: int = 2, *, tail: float = TAIL) -> Density:
        """Return the density proportional to a function of angles (d = 2) or of cosines <x, e> (d >= 3).

        The number of its modes grows until the upper third of them holds at most `tail` of the norm. A function with
        jumps or corners is refused: it has no such expansion.
        """
        d, modes = whole(d, "d", least=2), FEWEST
        if not callable(function):
            raise InputError(
                f"the density is {function!r}, expected a function of angles or cosines, such as numpy.exp"
            )
        while True:
            grid = basis(d, modes)
            values = reals(_values(function, grid.nodes), "values of the density are", "one for each point")
            values = np.broadcast_to(values, grid.nodes.shape) if values.ndim == 0 else values
            if values.shape != grid.nodes.shape or not np.isfinite(values).all():
                wanted = f"{len(grid.nodes)} finite numbers for as many points"
                raise InputError(f"the density returned an array of shape {values.shape}, expected {wanted}")
            if values.min() < 0 or not (mass := float(grid.weights @ values)) > 0:
                raise InputError(
                    f"the density has the value {values.min():g}, expected numbers >= 0 that are not all 0"
                )
            found = cls(grid, grid.against(values / mass))
            if found.tail <= tail:
                return found
            if modes >= MOST:
                raise InputError(
                    f"the density needs more than {MOST} modes ({found.tail:.1g} of it is in the upper third of them): "
                    "give a smoother one"
                )
            modes *= 2

    @property
    def d(self) -> int:
        """The dimension of the space around the sphere."""
        return self.basis.d

    @property
    def modes(self) -> int:
        """The largest degree of its expansion."""
        return self.basis.modes

    @property
    def moments(self) -> NDArray[np.inexact]:
        """The moments, (K,): int e^{ik theta} f on the circle (complex), int P_k(<x, e>) f on the sphere, k = 1 to K.

        Those of tokens are `densities.moments`.
        """
        return complex_moments(self.vector, self.d)

    @property
    def order(self) -> float:
        """|int x f|, the order parameter: 0 for the uniform density, 1 for a point."""
        return float(abs(self.moments[0]))

    @property
    def entropy(self) -> float:
        """-int f log f: 0 for the uniform density, negative for all others."""
        from scipy.special import xlogy

        f = np.maximum(self.basis.density(self.vector), 0.0)
        return float(-self.basis.weights @ xlogy(f, f))

    @property
    def tail(self) -> float:
        """The part of the norm of L^2 that is in the upper third of the modes: an estimate of the error in space."""
        return self.basis.tail(self.vector)

    def at(self, points: ArrayLike) -> Array:
        """Return f at angles (d = 2) or at cosines <x, e> (d >= 3)."""
        x = reals(points, "points are", "angles, or cosines if d >= 3")
        if self.d > 2 and np.abs(x).max(initial=0.0) > 1 + 1e-12:
            raise InputError(f"a point is {x.flat[np.abs(x).argmax()]:g}, expected cosines <x, e> between -1 and 1")
        found, a = np.empty(x.size), self.basis.counts * self.vector
        for rows in row_blocks(x.size, len(a)):
            part = x.ravel()[rows]
            values = np.hstack(waves(part, self.modes)) if self.d == 2 else gegenbauer(part, self.d, self.modes)[0]
            found[rows] = 1 + values @ a
        return found.reshape(x.shape)

    def refined(self, modes: int) -> Density:
        """Return the same density with another number of modes: new ones are 0, others are left out."""
        parts = self.vector.reshape(-1, self.modes)[:, :modes]
        larger = np.pad(parts, [(0, 0), (0, modes - parts.shape[1])])
        return Density(basis(self.d, modes), larger.ravel())

    def sample(self, n: int, *, seed: int = 0) -> Array:
        """Return n independent tokens (n, d) of this density, to start `simulate` from.

        >>> x = Density.of(lambda theta: 1 + 0.5 * np.cos(theta)).sample(4000, seed=0)
        >>> x.shape, round(float(x[:, 0].mean()), 2)  # 1/4 up to sampling
        ((4000, 2), 0.26)
        """
        wanted, rng = whole(n, "n", least=1), np.random.default_rng(whole(seed, "seed", least=0))
        angles = np.linspace(-np.pi, np.pi, 16 * self.modes)
        # Between the points of such a grid a function of so few modes rises by a few per cent of its range at most.
        top = 1.1 * float(self.at(angles if self.d == 2 else np.cos(angles)).max())
        kept = [np.empty((0, self.d))]
        while sum(map(len, kept)) < wanted:
            x = rng.standard_normal((max(wanted, 1024), self.d))
            x /= np.linalg.norm(x, axis=1, keepdims=True)
            place = np.arctan2(x[:, 1], x[:, 0]) if self.d == 2 else x[:, 0]
            kept.append(x[rng.uniform(0, top, len(x)) < self.at(place)])
        return np.concatenate(kept)[:wanted]

    def __repr__(self) -> str:
        where = "the circle" if self.d == 2 else f"the unit sphere of R^{self.d}, zonal"
        return f"Density on {where}: {self.modes} modes, order parameter {self.order:.6g}"


def _values(function: Callable[[Array], ArrayLike], points: Array) -> ArrayLike:
    """Return what a function returns for points; say so if it fails."""
    try:
        return function(points)
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"the density, a function of an array of {len(points)} points, failed ({error}): give one that returns a "
            "number for each of them, such as numpy.exp"
        ) from error


def complex_moments(vectors: Array, d: int) -> NDArray[np.inexact]:
    """Return moments from coordinates (..., m): complex ones from cosines and sines on the circle."""
    if d > 2:
        return vectors
    K = vectors.shape[-1] // 2
    return np.asarray(vectors[..., :K] + 1j * vectors[..., K:])


def moments(tokens: ArrayLike, modes: int = 8, *, masses: ArrayLike | None = None) -> NDArray[np.inexact]:
    """Return the moments of tokens (n, d) on the unit sphere, (modes,): what `Density.moments` are of a density.

    On the circle they are means of e^{ik theta}, on the sphere means of P_k(<x, e>), e the first unit vector: there
    they describe the tokens up to rotations that leave e where it is.

    >>> import attnflow as af
    >>> np.abs(moments(af.tokens.polygon(3), modes=4)).round(12)
    array([0., 0., 1., 0.])
    """
    from attnflow.core.inputs import mass_vector, shares

    x, K = cloud(tokens), whole(modes, "modes", least=1)
    if x.shape[1] < 2 or abs(np.linalg.norm(x, axis=1) - 1).max() > 1e-6:
        raise InputError("the tokens are not on a unit sphere of dimension 1 or more: divide each by its norm")
    share = shares(mass_vector(masses, len(x)), len(x))
    if x.shape[1] == 2:
        theta = np.arctan2(x[:, 1], x[:, 0])
        return np.array([share @ np.exp(1j * k * theta) for k in range(1, K + 1)])
    return np.asarray(share @ gegenbauer(np.clip(x[:, 0], -1, 1), x.shape[1], K)[0])


def given_density(density: Density | Callable[[Array], ArrayLike] | float, d: int, tail: float = TAIL) -> Density:
    """Return a density of this dimension: the one given, or that of a function; a number is the uniform density."""
    if isinstance(density, Density):
        if density.d != d:
            raise InputError(f"the density is one of d = {density.d}, the model has d = {d}: give the same d to both")
        return density
    if isinstance(density, int | float):
        number(density, "the density", above=0)
        return Density.of(np.ones_like, d)
    return Density.of(density, d, tail=tail)
