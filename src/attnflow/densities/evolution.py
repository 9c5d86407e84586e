"""A density in time: steps of SciPy's solvers, with more modes when it gets sharper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.core import progress
from attnflow.core.inputs import Array, InputError, reals
from attnflow.densities.density import MOST, Density, complex_moments
from attnflow.densities.equation import Field
from attnflow.densities.one_thread import on_one_thread

if TYPE_CHECKING:
    from attnflow.densities.mean_field import MeanField

# The nodes of Gauss's quadrature that integrates the rates of energy and entropy over each step.
GAUSS = 5


class Balance(NamedTuple):
    """By how much energy and entropy at the end differ from what their rates add up to, in parts of their size."""

    energy: float
    entropy: float


@dataclass(frozen=True, eq=False)
class DensityRun:
    """A density in time, from `MeanField.solve`.

    Attributes
    ----------
    model
        The equation.
    times
        When it was recorded, (T,).
    stopped
        A sentence that says why the run ended.
    balance
        Two identities, integrated along the run: what energy and entropy gained, less the integral of their rates, as
        parts of the larger of 1 and that gain. It is an error of the solver that its own tolerance does not see.

    >>> import attnflow as af
    >>> run = af.MeanField(beta=1.0, kappa=10.0).solve(lambda theta: 1 + 0.1 * np.cos(theta), until=5.0, record=[1, 5])
    >>> run.times, run.order.round(6)
    (array([0., 1., 5.]), array([0.05    , 0.070654, 0.273687]))
    >>> max(run.balance) < 1e-8
    True
    """

    model: MeanField
    times: Array
    vectors: Array
    stopped: str
    balance: Balance

    def __repr__(self) -> str:
        return f"<DensityRun: {len(self)} densities of {self.modes} modes, {self.model!r}; {self.stopped}>"

    def __len__(self) -> int:
        return len(self.times)

    def __getitem__(self, k: int) -> Density:
        """Return the density at the k-th recorded time."""
        return self.densities[k]

    @cached_property
    def densities(self) -> list[Density]:
        """The density at each of the times."""
        from attnflow.densities.basis import basis

        grid = basis(self.model.d, self.modes)
        return [Density(grid, vector) for vector in self.vectors]

    @property
    def final(self) -> Density:
        """The last density."""
        return self.densities[-1]

    @property
    def modes(self) -> int:
        """The largest degree that was used in the end."""
        return self.vectors.shape[1] // (2 if self.model.d == 2 else 1)

    @property
    def moments(self) -> NDArray[np.inexact]:
        """The moments of `Density.moments` at each time, (T, K)."""
        return complex_moments(self.vectors, self.model.d)

    @property
    def order(self) -> Array:
        """The order parameter |int x f| at each time, (T,)."""
        return np.abs(self.moments[:, 0])

    @property
    def entropy(self) -> Array:
        """The entropy -int f log f at each time, (T,)."""
        return np.array([f.entropy for f in self.densities])

    @property
    def energy(self) -> Array:
        """The energy of `MeanField.energy` at each time, (T,)."""
        return np.array([self.model.energy(f) for f in self.densities])

    @property
    def free_energy(self) -> Array:
        """The free energy of `MeanField.free_energy` at each time, (T,)."""
        return np.array([self.model.free_energy(f) for f in self.densities])

    def density(self, points: ArrayLike) -> Array:
        """Return the densities at angles or cosines (P,), at each time: (T, P)."""
        return np.array([f.at(points) for f in self.densities])


@on_one_thread
def evolve(
    model: MeanField, start: Density, until: float, record: Sequence[float] | None, rtol: float, *, adaptive: bool
) -> DensityRun:
    """Integrate the equation from a density: see `MeanField.solve`."""
    wanted = None if record is None else _times(record, until)
    f, t = start, 0.0
    times, kept, gained = [0.0], [start], np.zeros(2)
    stopped = f"reached t = {until:g}, as asked"
    equation, solver = _started(model, f, t, until, rtol)
    with progress.task("densities", until) as work:
        while t < until:
            failed = solver.step()
            after = Density(f.basis, solver.y)
            if failed or not np.isfinite(solver.y).all():
                stopped = f"stopped at t = {t:.6g}: the solver cannot take shorter steps ({failed})"
                break
            if adaptive and after.tail > 10 * rtol:
                # The step is lost, not its start, whose tail was short enough.
                if 2 * f.modes > MOST:
                    stopped = f"stopped at t = {t:.6g}: the density has become too sharp for {f.modes} modes"
                    break
                f = f.refined(2 * f.modes)
                equation, solver = _started(model, f, t, until, rtol)
                continue
            between = solver.dense_output()
            gained += _gain(equation, between, t, solver.t)
            due = [solver.t] if wanted is None else wanted[(wanted > t) & (wanted <= solver.t)].tolist()
            times += due
            kept += [Density(f.basis, between(one)) if one < solver.t else after for one in due]
            f, t = after, float(solver.t)
            work.reach(t)
    if times[-1] < t:
        times.append(t)
        kept.append(f)
    whole = np.array([one.refined(f.modes).vector for one in kept])
    run = DensityRun(model, np.array(times), whole, stopped, Balance(0.0, 0.0))
    return DensityRun(model, run.times, whole, stopped, _balance(run, gained))


def _started(model: MeanField, f: Density, t: float, until: float, rtol: float) -> tuple[Field, Any]:
    from scipy.integrate import BDF, DOP853

    equation = Field(model, f.basis)
    # Measured for 32 to 64 modes, rtol 1e-10: with noise BDF takes a third of the time of DOP853 and Radau; without
    # noise, where nothing is stiff, DOP853 takes a fiftieth of the time of BDF.
    if model.kappa is None:
        return equation, DOP853(equation.velocity, t, f.vector, until, rtol=rtol, atol=1e-3 * rtol)
    return equation, BDF(equation.velocity, t, f.vector, until, rtol=rtol, atol=1e-3 * rtol, jac=equation.jacobian)


def _gain(equation: Field, between: Any, start: float, end: float) -> Array:
    """Return what energy and entropy gain in a step, by their rates."""
    nodes, weights = np.polynomial.legendre.leggauss(GAUSS)
    middle, half = (start + end) / 2, (end - start) / 2
    rates = [equation.production(between(middle + half * node)) for node in nodes]
    return np.asarray(half * weights @ np.array(rates))


def _balance(run: DensityRun, gained: Array) -> Balance:
    first, last, model = run[0], run[-1], run.model
    changes = np.array([model.energy(last) - model.energy(first), last.entropy - first.entropy])
    return Balance(*(np.abs(changes - gained) / np.maximum(1.0, np.abs(changes))).tolist())


def _times(record: Sequence[float], until: float) -> Array:
    times = np.atleast_1d(reals(record, "record is", "increasing times"))
    if times.ndim != 1 or not np.isfinite(times).all() or (np.diff(times) <= 0).any() or (times < 0).any():
        raise InputError("record holds times that do not increase from 0 on: give increasing times, such as [1, 2, 5]")
    if times.size and times[-1] > until * (1 + 1e-12):
        raise InputError(f"record ends at {times[-1]:g}, after the end of the run at {until:g}: give a later end")
    return np.minimum(times, until)
