"""Branches of stationary densities, followed by their arclength through folds, and the transitions on them.

A branch is a curve of solutions (m, q) of G(m, q kappa0) = 0, m the even moments and kappa0 the kappa at which it
leaves the uniform density. From a point of it a step along the tangent predicts the next one, and Newton's method
corrects it in the hyperplane across the tangent: so the curve may turn back in q, at a fold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from attnflow.core import progress
from attnflow.core.inputs import Array, InputError, number, whole
from attnflow.densities.basis import basis
from attnflow.densities.density import FEWEST, MOST, Density
from attnflow.densities.one_thread import on_one_thread
from attnflow.densities.stationary import CLOSE, TAIL, Balanced, Stationary, decaying, newton, rates_of

if TYPE_CHECKING:
    from attnflow.densities.mean_field import MeanField

# The first step, the longest and the shortest one along a branch, in the norm of (m, q), and how many there may be.
FIRST, LONGEST, SHORTEST, STEPS = 0.02, 0.08, 1e-6, 2000
# The moment from which the curvature of a branch at its start is extrapolated.
SMALL = 0.01
# How far in parts of kappa a fold or a transition must be from the threshold to be told apart from it.
APART = 1e-9


@dataclass(frozen=True, eq=False)
class _Point:
    """A point of a branch: even moments, q, and the unit tangent, (K + 1,)."""

    m: Array
    q: float
    tangent: Array

    def with_modes(self, modes: int) -> _Point:
        room = (0, modes - len(self.m))
        return replace(
            self, m=np.pad(self.m, room), tangent=np.append(np.pad(self.tangent[:-1], room), self.tangent[-1])
        )

    def distance(self, other: _Point) -> float:
        modes = max(len(self.m), len(other.m))
        return float(np.hypot(np.linalg.norm(self.with_modes(modes).m - other.with_modes(modes).m), self.q - other.q))


@dataclass(frozen=True)
class Transition:
    """A kappa that matters on a branch, with the order parameter there."""

    kappa: float
    order: float


class BranchCurve(NamedTuple):
    """Many points along a branch: kappa, the order parameter, and whether the density is stable."""

    kappas: Array
    orders: Array
    stable: Array


@dataclass(frozen=True, eq=False)
class Branch:
    """Stationary densities along a branch, from `MeanField.branch`.

    Attributes
    ----------
    model, mode
        The equation, and the degree of the wave with which the branch leaves the uniform density.
    start
        The kappa at which it does: the threshold of the uniform density, if `mode` is 1.
    kappas, orders, free_energies
        Along the branch, (P,): kappa, the moment of degree `mode` (the order parameter |int x f| if `mode` is 1), and
        F(f) - F(1), the free energy less that of the uniform density at the same kappa (`MeanField.free_energy`).
    curvature
        The number c in kappa = start (1 + c r^2 + O(r^4)), r that moment: the branch begins continuously, towards
        larger kappa, if c > 0. On the circle, under USA, c = (1 - 2 w) / (2 - 2 w) with w = I_{2k}(beta) / I_k(beta)
        for mode k.
    folds
        Where the branch turns back in kappa.
    crossings
        Where F(f) = F(1), beyond the start: there a phase transition of first order takes place, under USA. Under SA
        there is no free energy that decreases, and there are none.

    >>> import attnflow as af
    >>> branch = af.MeanField(beta=3.0, normalized=False).branch()
    >>> round(branch.folds[0].kappa / branch.start, 4), round(branch.crossings[0].kappa / branch.start, 4)
    (0.9887, 0.9912)
    >>> branch.first_order, af.MeanField(beta=2.0, normalized=False).branch().first_order
    (True, False)
    """

    model: MeanField
    mode: int
    start: float
    kappas: Array = field(repr=False)
    orders: Array = field(repr=False)
    free_energies: Array = field(repr=False)
    curvature: float
    folds: tuple[Transition, ...]
    crossings: tuple[Transition, ...]
    points: tuple[_Point, ...] = field(repr=False)

    @property
    def first_order(self) -> bool:
        """Whether there are densities of the branch below its start: the order parameter jumps, not grows from 0 on."""
        return self.curvature < 0 or bool(self.kappas.min() < self.start * (1 - APART))

    @cached_property
    def stable(self) -> Array:
        """Whether each density of the branch is stable, (P,): see `Stationary.rates`."""
        found = zip(self.kappas.tolist(), self.points, strict=True)
        return np.array([decaying(rates_of(replace(self.model, kappa=k), self._density(p))) for k, p in found])

    def at(self, kappa: float) -> list[Stationary]:
        """Return the stationary densities of the branch at this kappa, in the order of the branch."""
        k = number(kappa, "kappa", above=0)
        model, found = replace(self.model, kappa=k), []
        for i in np.flatnonzero((self.kappas[:-1] - k) * (self.kappas[1:] - k) <= 0).tolist():
            a, b = self.points[i], self.points[i + 1]
            share = (k - self.kappas[i]) / ((self.kappas[i + 1] - self.kappas[i]) or 1.0)
            found.append(newton(model, self._density(_between(a, b, share))))
        return found

    def curve(self, count: int = 500) -> BranchCurve:
        """Return `count` points of the branch, with their stability: cubic polynomials of its length between its own.

        Their slopes are those of the tangents; they are off by 1e-4 of the order parameter at most.
        """
        from scipy.interpolate import CubicHermiteSpline

        k, points = self.mode - 1, self.points
        lengths = np.cumsum([0.0, *(one.distance(other) for one, other in pairwise(points))])
        known = np.array([[point.q * self.start, point.m[k]] for point in points])
        slopes = np.array([[point.tangent[-1] * self.start, point.tangent[k]] for point in points])
        at = np.linspace(0, lengths[-1], whole(count, "count", least=2))
        kappas, orders = CubicHermiteSpline(lengths, known, slopes)(at).T
        part = np.clip(np.searchsorted(lengths, at, side="right") - 1, 0, len(points) - 2)
        # Between two points of which one is stable there is a fold, or the start.
        turns = np.array([0.0, *(fold.order for fold in self.folds)])
        turn = np.array([turns[turns <= high].max() for high in known[1:, 1]])[part]
        return BranchCurve(kappas, orders, np.where(orders > turn, self.stable[part + 1], self.stable[part]))

    def _density(self, point: _Point) -> Density:
        return _density(self.model, point)


def _between(a: _Point, b: _Point, share: float) -> _Point:
    modes = max(len(a.m), len(b.m))
    a, b = a.with_modes(modes), b.with_modes(modes)
    return replace(a, m=(1 - share) * a.m + share * b.m, q=(1 - share) * a.q + share * b.q)


def _density(model: MeanField, point: _Point) -> Density:
    grid = basis(model.d, len(point.m))
    return Density(grid, np.pad(point.m, (0, len(grid.degrees) - len(point.m))))


class Curve:
    """The curve G(m, q kappa0) = 0 with as many modes as it needs."""

    def __init__(self, model: MeanField, mode: int) -> None:
        self.model, self.mode = replace(model, kappa=None), mode
        self.kappa0 = 1 / float(model.multipliers(mode)[-1])

    def along(self, point: _Point, step: float) -> _Point | None:
        """Return the point of the curve a step along the tangent of a point, None where Newton's method fails."""
        balanced, K = Balanced(self.model, len(point.m)), len(point.m)
        y = np.append(point.m, point.q) + step * point.tangent
        goal = point.tangent @ y
        for _ in range(12):
            try:
                G, dG, dk = balanced(y[:-1], y[-1] * self.kappa0)
                across = np.vstack([np.column_stack([dG, self.kappa0 * dk]), point.tangent])
                change = np.linalg.solve(across, np.append(G, point.tangent @ y - goal))
            except np.linalg.LinAlgError:
                return None
            y = y - change
            if float(np.abs(change).max()) < CLOSE:
                tangent = np.linalg.solve(across, np.append(np.zeros(K), 1.0))
                return _Point(y[:-1], float(y[-1]), tangent / np.linalg.norm(tangent))
            if not np.isfinite(change).all() or float(np.abs(change).max()) > 1:
                return None
        return None

    def gained(self, point: _Point) -> float:
        """Return F(f) - F(1) at the kappa of a point."""
        model = replace(self.model, kappa=point.q * self.kappa0)
        uniform = Density(basis(model.d, FEWEST), np.zeros_like(basis(model.d, FEWEST).degrees))
        return model.free_energy(_density(model, point)) - model.free_energy(uniform)

    def where(self, point: _Point, step: float, value: Callable[[_Point], float]) -> _Point:
        """Return the point within a step from a point where a value vanishes."""
        from scipy.optimize import brentq

        def at(s: float) -> _Point:
            found = self.along(point, s) if s else point
            assert found is not None
            return found

        return at(float(brentq(lambda s: value(at(s)), 0.0, step, xtol=1e-13, rtol=1e-14)))

    def named(self, point: _Point) -> Transition:
        """Return kappa and the order parameter of a point."""
        return Transition(point.q * self.kappa0, float(point.m[self.mode - 1]))

    def start(self) -> _Point:
        """Return the uniform density at kappa0, with the tangent along the wave that becomes unstable there."""
        modes = max(FEWEST, 4 * self.mode)
        tangent = np.zeros(modes + 1)
        tangent[self.mode - 1] = 1.0
        return _Point(np.zeros(modes), 1.0, tangent)

    def expansion(self) -> tuple[float, float]:
        """Return (c, c4) of q = 1 + c r^2 + c4 r^4 + O(r^6) at the start, r the moment of a degree, from two r."""
        found = [self.along(self.start(), s) for s in (SMALL, 2 * SMALL)]
        (r, near), (s, far) = (
            (float(point.m[self.mode - 1]), (point.q - 1) / float(point.m[self.mode - 1]) ** 2)
            for point in found
            if point is not None
        )
        c4 = (far - near) / (s**2 - r**2)
        return near - c4 * r**2, c4

    def curvature(self) -> float:
        """Return c of `expansion`."""
        return self.expansion()[0]

    def transition(self, r: float, c: float, c4: float) -> Transition:
        """Return a place near the start, by its expansion."""
        return Transition(self.kappa0 * (1 + c * r**2 + c4 * r**4), r)


@on_one_thread
def follow(model: MeanField, mode: int, until: float | None) -> Branch:
    """Follow the branch of waves of a degree: see `MeanField.branch`."""
    if model.multipliers(mode)[-1] <= 0:
        raise InputError(
            f"waves of degree {mode} decay on the uniform density for every kappa at beta = {model.beta:g}: no branch "
            "begins there; give another mode"
        )
    if model.d > 2 and mode % 2 == 0:
        raise InputError(f"mode is {mode}: on spheres branches of odd degrees are followed; give mode 1 or 3")
    curve = Curve(model, mode)
    kappa0, points, (c, c4) = curve.kappa0, [curve.start()], curve.expansion()
    end = 1.5 if until is None else number(until, "until", above=kappa0) / kappa0
    folds: list[Transition] = []
    crossings: list[Transition] = []
    step, seen = FIRST, 0.0
    if c < 0 < c4:
        # q is least at r^2 = -c / (2 c4). The free energies are equal at 3/2 of that, since along the branch
        # d(F(f) - F(1)) = (int f log f) d(1/kappa), and int f log f grows like r^2. The first step ends before both.
        fold = float(np.sqrt(-c / (2 * c4)))
        step = min(FIRST, max(0.9 * fold, SMALL / 10))
        if fold < SMALL:  # differences of free energies are hardly above rounding
            seen = 2 * fold
            folds.append(curve.transition(fold, c, c4))
            if not model.normalized:
                crossings.append(curve.transition(float(np.sqrt(1.5)) * fold, c, c4))
    with progress.task("branch", end) as work:
        while points[-1].q < end and len(points) < STEPS:
            here = points[-1]
            there = curve.along(here, step)
            if there is None or there.tangent[:-1] @ here.tangent[:-1] + there.tangent[-1] * here.tangent[-1] < 0.9:
                step /= 2
                if step < SHORTEST:
                    raise InputError(
                        f"the branch cannot be followed beyond kappa = {here.q * kappa0:g}: give an earlier end"
                    )
                continue
            if _density(model, there).tail > TAIL and 2 * len(there.m) <= MOST:
                points[-1] = here.with_modes(2 * len(here.m))
                continue
            if here.m[mode - 1] > seen and here.tangent[-1] * there.tangent[-1] < 0:
                turn = curve.where(here, step, lambda point: float(point.tangent[-1]))
                folds.append(curve.named(turn))
                points.append(turn)  # between it and others `Branch.at` finds all densities
            if here.m[mode - 1] > seen and not model.normalized and curve.gained(here) * curve.gained(there) < 0:
                crossings.append(curve.named(curve.where(here, step, curve.gained)))
            points.append(there)
            step = min(LONGEST, 1.5 * step)
            work.reach(min(end, there.q))
    kappas = np.array([point.q * kappa0 for point in points])
    orders = np.array([point.m[mode - 1] for point in points])
    gains = np.array([curve.gained(point) for point in points])
    return Branch(model, mode, kappa0, kappas, orders, gains, c, tuple(folds), tuple(crossings), tuple(points))
