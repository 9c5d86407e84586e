"""The phase diagram of stationary densities over beta and kappa: where they cluster, continuously or by a jump."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from attnflow.core import progress
from attnflow.core.inputs import Array, InputError, reals, whole
from attnflow.densities.branches import Branch, Curve
from attnflow.densities.mean_field import MeanField
from attnflow.densities.one_thread import on_one_thread

# The number of points at which a branch is interpolated.
FINE = 20_000


@dataclass(frozen=True, eq=False)
class Diagram:
    """What `diagram` found.

    Attributes
    ----------
    betas, ratios
        The axes, (B,) and (R,): kappa is a ratio times the threshold kappa# of its beta.
    thresholds
        kappa# of each beta, where the uniform density becomes unstable, (B,).
    folds
        The least kappa of the branch that begins at kappa#, (B,): kappa# itself where the transition is continuous.
    transitions
        The kappa at which the order parameter leaves 0 as kappa grows slowly and the free energy is least, (B,): under
        USA where clusters and the uniform density have the same free energy. Under SA, which has no free energy that
        decreases, kappa#.
    jumps
        The order parameter just beyond it, (B,): 0 where the transition is continuous.
    first_order
        Whether there is a jump, (B,).
    orders
        The order parameter of the density of least free energy, (B, R); under SA of the one that grows out of the
        uniform one.
    critical
        beta_*, beyond which transitions are of first order; None where it was not looked for, under SA.
    """

    d: int
    normalized: bool
    betas: Array
    ratios: Array
    thresholds: Array
    folds: Array
    transitions: Array
    jumps: Array
    first_order: Array
    orders: Array = field(repr=False)
    critical: float | None


def diagram(betas: ArrayLike, ratios: ArrayLike, *, d: int = 2, normalized: bool = False) -> Diagram:
    """Return the phase diagram of `MeanField` over beta and kappa, by a branch of stationary densities for each beta.

    `ratios` are values of kappa / kappa#, kappa# the threshold of each beta. Draw it by `figures.density_diagram`.

    >>> found = diagram([2.0, 3.0], ratios=[0.98, 1.02])
    >>> found.first_order, found.orders.round(3)
    (array([False,  True]), array([[0.   , 0.362],
           [0.   , 0.652]]))
    """
    b = np.atleast_1d(reals(betas, "betas are", "increasing numbers"))
    r = np.atleast_1d(reals(ratios, "ratios are", "increasing numbers, kappa in parts of its threshold"))
    if not (b > 0).all() or not (r > 0).all() or (np.diff(b) <= 0).any() or (np.diff(r) <= 0).any():
        raise InputError("betas and ratios are not positive and increasing: give such numbers, as in [1.0, 2.0]")
    rows, until = [], max(1.05, float(r[-1]) * 1.01)
    with progress.task("diagram", len(b)) as work:
        for k, beta in enumerate(b.tolist()):
            model = MeanField(beta, None, whole(d, "d", least=2), normalized)
            branch = model.branch(until=until * model.threshold)
            rows.append((branch, *_transition(branch)))
            work.reach(k + 1)
    orders = [_orders(branch, kappa, branch.start * r) for branch, kappa, _ in rows]
    return Diagram(
        d, normalized, b, r,
        thresholds=np.array([branch.start for branch, *_ in rows]),
        folds=np.array([min([branch.start, *(fold.kappa for fold in branch.folds)]) for branch, *_ in rows]),
        transitions=np.array([kappa for _, kappa, _ in rows]),
        jumps=np.array([jump for *_, jump in rows]),
        first_order=np.array([branch.first_order for branch, *_ in rows]),
        orders=np.array(orders),
        critical=None if normalized else critical_beta(d),
    )  # fmt: skip


@on_one_thread
def critical_beta(d: int = 2) -> float:
    """Return beta_* of USA: transitions of `MeanField` are continuous up to it, and of first order beyond.

    It is where the branch of clusters changes the side to which it leaves the uniform density, found from the branch.
    In closed form it solves I_{d/2+1}(beta) / I_{d/2}(beta) = 1/d.

    >>> round(critical_beta(2), 6), round(critical_beta(3), 6)
    (2.446918, 1.816155)
    """
    from scipy.optimize import brentq

    whole(d, "d", least=2)

    return float(brentq(lambda beta: Curve(MeanField(beta, None, d, False), 1).curvature(), 0.1, 4.0, xtol=1e-9))


def _transition(branch: Branch) -> tuple[float, float]:
    """Return the kappa of the transition, and the order parameter just beyond it."""
    if branch.crossings and branch.first_order:
        return branch.crossings[0].kappa, branch.crossings[0].order
    return branch.start, 0.0


def _orders(branch: Branch, transition: float, kappas: Array) -> Array:
    """Return the order parameter at some kappa: 0 up to the transition, and beyond it that of the branch."""
    curve = branch.curve(FINE)
    last = int(curve.kappas.argmin())
    return np.where(kappas > transition, np.interp(kappas, curve.kappas[last:], curve.orders[last:]), 0.0)
