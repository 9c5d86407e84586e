"""The phase diagram of self-attention on the sphere: how many pairs have met, over time and beta."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from attnflow.core.inputs import Array, InputError, number, reals, whole
from attnflow.laws import Softmax
from attnflow.measure.confidence import share_interval
from attnflow.motions import SphereFlow, check_motion
from attnflow.runs.ensembles import ensemble, independent
from attnflow.sweeps.grid import Grid
from attnflow.sweeps.outcome import Outcome
from attnflow.sweeps.results import Results
from attnflow.sweeps.study import run_missing

# Random systems, whose number may be large, are drawn and moved DRAWN coordinates at a time.
DRAWN = 1 << 22


@dataclass(frozen=True)
class PhaseDiagram:
    """What `phase_diagram` returns.

    Attributes
    ----------
    times, betas
        The grid, (T,) and (k,).
    fraction
        The fraction of ordered pairs i != j with <x_i, x_j> above the threshold, mean over the systems, (T, k).
    error
        The standard error of that mean, (T, k). Of few systems, and of fractions near 0 or 1, twice it is too little:
        see `interval`.
    curve
        For each beta the time when n tokens that start orthogonal, in dimension d >= n, pass the threshold all at once.
        On the circle it is no more than a guide: clusters persist far beyond it.
    n, d, systems, threshold, normalized
        What was asked for.
    """

    times: Array = field(repr=False)
    betas: Array = field(repr=False)
    fraction: Array = field(repr=False)
    error: Array = field(repr=False)
    curve: Array = field(repr=False)
    n: int
    d: int
    systems: int
    threshold: float
    normalized: bool = True

    @property
    def interval(self) -> tuple[Array, Array]:
        """The ends, (T, k) each, of intervals that hold the expected fraction with 95 per cent confidence.

        They are Korn and Graubard's: Clopper and Pearson's for as many independent pairs as would have this error.

        >>> found = phase_diagram([1.0], times=[0.0, 1.0], n=8, systems=20)
        >>> low, high = found.interval  # at the start the expected fraction is arccos(.999) / pi = .0142
        >>> bool(low[0, 0] < 0.0142 < high[0, 0])
        True
        """
        return share_interval(self.fraction, self.error, self.systems)


def phase_diagram(
    betas: ArrayLike,
    times: ArrayLike,
    *,
    n: int = 32,
    d: int = 2,
    systems: int = 256,
    seed: int = 0,
    threshold: float = 0.999,
    motion: SphereFlow | None = None,
    on: Any = "here",
) -> PhaseDiagram:
    """Measure the fraction of pairs of tokens with <x_i, x_j> > threshold, over time and beta, for uniform starts.

    Each beta moves the same `systems` random starts of n tokens on the sphere in R^d, so differences between betas are
    not those of the draw. The flow is `SphereFlow(rtol=1e-6)` unless given: error-controlled, system by system.

    `on` is where it runs, as in `attnflow.sweep`: this process by default, None for a process on each core, the address
    of a Dask scheduler, or a `dask.distributed.Client`. The result has the same bits anywhere.

    Examples
    --------
    >>> found = phase_diagram([1.0, 9.0], times=[0.0, 10.0, 30.0], n=16, systems=64)
    >>> found.fraction.round(1)
    array([[0. , 0. ],
           [0.9, 0.3],
           [1. , 0.4]])

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *A mathematical perspective on Transformers* (arXiv 2312.10794), whose
    figure has n = 32, d = 2, 90 values of beta up to 9, 200 times up to 30, and 2048 systems.
    """
    b = _increasing(betas, "betas", least=None)
    t = _increasing(times, "times", least=0.0)
    n, d = whole(n, "n", least=2), whole(d, "d", least=2)
    systems, seed = whole(systems, "systems", least=2), whole(seed, "seed", least=0)
    bar = number(threshold, "threshold", least=0.0, most=1 - 1e-9)
    flow = SphereFlow(rtol=1e-6) if motion is None else motion
    check_motion(flow)
    if flow.surface != "sphere" or flow.discrete:
        raise InputError(f"motion is {motion!r}, expected a SphereFlow")
    if flow.V is not None:
        raise InputError("the phase diagram, and its curve, are those of V = I: give SphereFlow without V")
    if flow.scales_speed:
        raise InputError(
            f"motion is {motion!r}, whose tokens do not turn at the speed of what they hear, as those of the phase "
            "diagram's curve do: leave norm out"
        )

    work = _Cells(b, t, systems, (n, d), seed, bar, flow)
    found = run_missing(work, Results(work.grid, {}, None), on, name="phase_diagram")
    refused = next((sentence for sentence in found.failed.ravel() if sentence), None)
    if refused is not None:
        raise InputError(refused)
    sums = np.zeros((2, len(t), len(b)))
    for block in range(len(work.grid.axes["block"]["block"])):
        sums += [found.values[name][block].T for name in ("sum", "squares")]
    fraction = sums[0] / systems
    error = np.sqrt(np.maximum(sums[1] / systems - fraction**2, 0.0) / (systems - 1))
    curve = passing(b, n, bar, flow.normalized)
    return PhaseDiagram(t, b, fraction, error, curve, n, d, systems, bar, flow.normalized)


@dataclass(frozen=True)
class _Cells:
    """The cells of a phase diagram: a block of the random systems for one beta."""

    betas: Array
    times: Array
    systems: int
    shape: tuple[int, int]
    seed: int
    bar: float
    flow: SphereFlow

    @property
    def size(self) -> int:
        """How many systems a block has: the last one has the rest."""
        return max(1, DRAWN // (self.shape[0] * self.shape[1] * len(self.betas)))

    @property
    def grid(self) -> Grid:
        return Grid({"block": range(-(-self.systems // self.size)), "beta": self.betas})

    def __call__(self, cells: Iterable[int]) -> list[Outcome]:
        """Return sums over the systems of the fraction of pairs that have met, (T,), and of its square."""
        outcomes: list[Outcome] = []
        for block, group in groupby(cells, key=lambda cell: cell // len(self.betas)):
            x, betas = self.drawn(block), self.betas[[cell % len(self.betas) for cell in group]]
            together = None
            with suppress(InputError):  # said by the cell whose it is
                together = self.moved(x, betas)
            # Where systems depend on those beside them, a cell must not depend on its batch.
            outcomes += together or [self.alone(x, beta) for beta in betas]
        return outcomes

    def drawn(self, block: int) -> Array:
        """Return the systems of a block: all are drawn one after the other."""
        n, d = self.shape
        rng, first = np.random.default_rng(self.seed), block * self.size
        for _ in range(block):
            rng.standard_normal((self.size, n, d))
        x = rng.standard_normal((min(self.size, self.systems - first), n, d))
        return np.asarray(x / np.linalg.norm(x, axis=2, keepdims=True))

    def moved(self, x: Array, betas: Array, by: Any = independent) -> list[Outcome] | None:
        """Return the outcomes of these systems for each beta, None where some cannot move in the compiled loop."""
        law, starts = Softmax(beta=np.repeat(betas, len(x))), np.tile(x, (len(betas), 1, 1))
        found = by(starts, law, self.flow, float(self.times[-1]), record=self.times, observe=self.met)
        if found is None:
            return None
        kept = slice(0, None) if self.times[0] == 0 else slice(1, None)
        seen = found.values[kept].reshape(len(self.times), len(betas), len(x))
        sums, squares = seen.sum(axis=2), (seen**2).sum(axis=2)
        return [Outcome({"sum": sums[:, k], "squares": squares[:, k]}) for k in range(len(betas))]

    def alone(self, x: Array, beta: float) -> Outcome:
        """Return the outcome of one cell, or why there is none."""
        one = np.array([beta])
        try:
            return (self.moved(x, one) or self.moved(x, one, ensemble) or [])[0]
        except InputError as error:
            return Outcome(failed=str(error))

    def met(self, x: Array) -> Array:
        """Return the fraction of ordered pairs of tokens that have met, for each system."""
        n = self.shape[0]
        above = np.count_nonzero(x @ x.transpose(0, 2, 1) > self.bar, axis=(1, 2))
        return np.asarray((above - n) / (n * (n - 1)))


def _increasing(values: ArrayLike, name: str, least: float | None) -> Array:
    found = reals(values, f"{name} are", "increasing numbers")
    if found.ndim != 1 or len(found) == 0 or not np.isfinite(found).all() or (np.diff(found) <= 0).any():
        raise InputError(f"{name} are {values!r}, expected a list of increasing numbers")
    if least is not None and (found[0] < least or found[-1] <= least):
        raise InputError(f"{name} go from {found[0]:g} to {found[-1]:g}, expected from {least:g} or later to later")
    return found


def equiangular(times: Array, n: int, beta: float, normalized: bool = True) -> Array:
    """Return g = <x_i, x_j>, the same for all pairs, at these times, for n tokens that start orthogonal.

    SA: g' = 2 e^{beta g} (1 - g) ((n-1) g + 1) / (e^beta + (n-1) e^{beta g}); USA: g' = (2/n) e^{beta g} (1 - g)
    ((n-1) g + 1); g(0) = 0.

    >>> equiangular(np.array([0.0, 5.909]), n=128, beta=1.0).round(5)
    array([0.   , 0.999])

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *A mathematical perspective on Transformers* (arXiv 2312.10794).
    """
    from scipy.integrate import solve_ivp

    span = (0.0, float(times[-1]))

    def slope(t: float, g: Array) -> Array:
        return _slope(g, n, beta, normalized)

    return np.asarray(solve_ivp(slope, span, [0.0], "LSODA", times, rtol=1e-12, atol=1e-13).y[0])


def _slope(g: Array, n: int, beta: float | Array, normalized: bool) -> Array:
    rise = 2 * (1 - g) * ((n - 1) * g + 1)
    return rise / (np.exp(beta * (1 - g)) + n - 1) if normalized else rise * np.exp(beta * g) / n


def passing(betas: Array, n: int, threshold: float, normalized: bool = True) -> Array:
    """Return for each beta the time when g passes the threshold, the integral of dg / g'; infinite beyond 1e300.

    >>> passing(np.array([1.0, 3.0]), n=128, threshold=0.999).round(3)
    array([5.909, 6.148])
    """
    # Gauss and Legendre in -log(1 - g), where 1 / g' is smooth.
    nodes, weights = np.polynomial.legendre.leggauss(200)
    depth = -np.log1p(-threshold)
    rest = np.exp(-depth * (nodes + 1) / 2)
    with np.errstate(over="ignore", divide="ignore"):
        slopes = _slope(1 - rest[:, None], n, betas, normalized) / rest[:, None]
        times = depth / 2 * (weights @ (1 / slopes))
    return np.where(times < 1e300, times, np.inf)
