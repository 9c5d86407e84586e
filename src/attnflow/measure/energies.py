"""Energies of a configuration: that of attention on the sphere, and that of bounded confidence."""

from __future__ import annotations

from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from attnflow.core.blocks import row_blocks
from attnflow.core.inputs import Array, InputError, Matrix, each_mass, number, number_at, shares
from attnflow.engines.dense import squared_distances
from attnflow.laws import Law, Softmax
from attnflow.measure.by_name import number_of
from attnflow.measure.over_time import State, each_system, measured, stacked
from attnflow.runs.ensemble_results import Ensemble
from attnflow.runs.trajectory import Trajectory


@overload
def energy(x: Trajectory | Ensemble, beta: float = 1.0, B: Matrix = None) -> Array: ...
@overload
def energy(x: ArrayLike, beta: float = 1.0, B: Matrix = None, masses: ArrayLike | None = None) -> float: ...
@each_system
def energy(
    x: ArrayLike | Trajectory | Ensemble, beta: float = 1.0, B: Matrix = None, masses: ArrayLike | None = None
) -> float | Array:
    """Return the interaction energy E = (2 beta n^2)^{-1} sum_ij e^{beta <B x_i, x_j>}, n the total mass.

    Of a run, at each recorded time, (T,), with its masses and of the tokens as its law sees them; B may be a function
    of time.

    >>> import math
    >>> math.isclose(energy([[1.0, 0.0], [1.0, 0.0]], beta=1.0), math.e / 2)
    True

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *A mathematical perspective on Transformers* (arXiv 2312.10794).
    """
    law = Softmax(beta=number(beta, "beta"), B=B)
    if beta == 0:
        raise InputError("beta is 0, where the energy has no finite value: give beta different from 0")
    return stacked(measured(lambda state: energy_of(state, law, float(beta), x), x, masses=masses, seen=True))


@number_of(energy, ends=True)
def _of_own_law(run: Trajectory) -> float:
    """Return the energy of the last state for the beta and B of the run's own law, at the time of that state."""
    known = None if run.law is None else run.law.exponents
    if known is None or known.b is not None:
        raise InputError(
            f"the law of the run is {run.law!r}, and the energy of a run is that of its own Softmax without a bias: "
            "measure by a function that says beta, such as lambda run: energy(run.final, beta=4.0)"
        )
    assert run.law is not None
    state = State(run.seen(), run.times.item(-1), run.masses)
    beta = number_at(known.beta, state.t, "beta")
    if beta == 0:
        raise InputError("beta is 0, where the energy has no finite value: give beta different from 0")
    return energy_of(state, run.law, beta, run)


def energy_of(state: State, law: Law, beta: float, of: ArrayLike | Trajectory) -> float:
    """Return the energy of a state as the law sees it: of tokens that a user gave, or of a run."""
    share = shares(state.masses, len(state.x))
    with np.errstate(over="ignore", invalid="ignore"):
        log_total = law.hear(state.x, state.t, masses=share).log_total
        assert log_total is not None
        total = float(share @ np.exp(log_total)) / beta / 2
    if not np.isfinite(total):
        raise InputError(_too_large(state, beta, of))
    return total


def _too_large(state: State, beta: float, of: ArrayLike | Trajectory) -> str:
    """Return the sentence about tokens whose energy leaves the range of float64."""
    at, remedy = "", "divide them by a number, or lower beta"
    if isinstance(of, Trajectory):
        at = f" at t = {state.t:g}"
    # No run ends before its start.
    if isinstance(of, Trajectory) and state.t > of.times[0]:
        remedy = "end the run earlier, or lower beta"
        if of.motion is not None and of.motion.moving_frame:
            remedy = "the law of a rescaled run sees e^{tV} z; end the run earlier, or measure z, as energy(run.final)"
    size = f"tokens are as large as {np.abs(state.x).max():.2g}{at}"
    return f"{size}, where the energy at beta = {beta:g} leaves the range of float64: {remedy}"


@overload
def pair_energy(x: Trajectory | Ensemble, eps: float) -> Array: ...
@overload
def pair_energy(x: ArrayLike, eps: float, masses: ArrayLike | None = None) -> float: ...
@each_system
def pair_energy(x: ArrayLike | Trajectory | Ensemble, eps: float, masses: ArrayLike | None = None) -> float | Array:
    """Return the energy of bounded confidence, sum_ij w_i w_j min(|x_i - x_j|^2, eps^2) over ordered pairs.

    Under `HegselmannKrause(eps)` and `Layers(gamma=1)` it drops by at least 4 sum_i |x_i^{t+1} - x_i^t|^2 per step. Of
    a run, at each recorded time, (T,), with its masses and of the tokens as its law sees them.

    >>> pair_energy([[0.0], [1.0], [9.0]], eps=2.0)
    18.0

    References
    ----------
    Hegselmann, Krause, *Opinion dynamics and bounded confidence* (2002). Cimetiere, Chiri, Gharesifard, *Localmax
    dynamics for attention in transformers and its asymptotic behavior* (arXiv 2509.15958).
    """
    cut = number(eps, "eps", least=0.0)
    return stacked(measured(lambda state: _pair_energy(state, cut), x, masses=masses, seen=True))


@number_of(pair_energy, ends=True)
def _pairs_at_the_end(run: Trajectory, eps: float) -> float:
    """Return the energy of bounded confidence of the last state."""
    return pair_energy(run.seen(), eps, run.masses)


def _pair_energy(state: State, eps: float) -> float:
    x, w = state.x, each_mass(state.masses, len(state.x))
    blocks = row_blocks(len(x), len(x))
    with np.errstate(over="ignore"):
        total = sum(float(w[rows] @ np.minimum(squared_distances(x[rows], x), eps * eps) @ w) for rows in blocks)
    if not np.isfinite(total):
        raise InputError(f"the energy at eps = {eps:g} leaves the range of float64: rescale the tokens or the masses")
    return total
