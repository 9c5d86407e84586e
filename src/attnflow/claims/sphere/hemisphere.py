"""Energy, and tokens in a hemisphere: what grows and what collapses."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, exp
from typing import Any

import numpy as np

from attnflow.claims.balance import Balance, balanced, doubling
from attnflow.claims.claim import DERIVED, PROVED, Setting
from attnflow.claims.experiment import Experiment
from attnflow.claims.margins import Margins, once
from attnflow.claims.samplers import Rng, any_form, log_uniform, pick
from attnflow.claims.sphere import runs
from attnflow.claims.sphere.paper import SPHERE
from attnflow.claims.statistics import at_least, at_most
from attnflow.core.inputs import Array, InputError, whole
from attnflow.core.inputs import cloud as rows_of
from attnflow.geometry.forms import EPS
from attnflow.laws import Law, Softmax
from attnflow.motions import SphereLayers


def _energetic(rng: Rng, k: int) -> dict[str, Any]:
    normalized, beta = k % 3 != 2, log_uniform(rng, 0.05, 9.0 if k % 3 != 2 else 3.0)
    until = log_uniform(rng, 0.5, 20.0) * (1.0 if normalized else exp(-beta))
    return {"tokens": runs.on_sphere(rng, k), "beta": beta, "until": until, "normalized": normalized}


ENERGY = runs.flows_until(10.0, _energetic, samples=12)


def _energy(e: Experiment, x: Array) -> tuple[Array, Array, Array]:
    """Return F = n^{-2} sum_ij e^{beta (<x_i, x_j> - 1)}, which is 2 beta e^{-beta} E, F' by the formula, its slope."""
    n = e.shape[0]
    scores = np.exp(-e.beta * runs.pair_gaps(x))
    pull = scores @ x / n
    u = pull - (pull * x).sum(axis=-1, keepdims=True) * x
    Z = scores.mean(axis=-1)
    squares = (u * u).sum(axis=-1)
    dissipated = (squares / Z).mean(axis=-1) if e.normalized else np.exp(e.beta) * squares.mean(axis=-1)
    return Z.mean(axis=-1), 2 * e.beta * dissipated, 2 * e.beta * np.sqrt(squares).mean(axis=-1)


@SPHERE.claim(
    "energy", "Section 3", PROVED, ENERGY,
    """For beta > 0 the energy E = (2 beta n^2)^{-1} sum_ij e^{beta <x_i, x_j>} never decreases, is largest exactly at
    consensus, and E(t) - E(s) is the integral from s to t of n^{-2} sum_i Z_i |x_i'|^2 (SA), of n^{-1} sum_i |x_i'|^2
    (USA), where x_i' is the velocity of the model.""",
    plain="The energy never falls while tokens move, and it is largest when all are at one point.",
    given={"beta > 0": lambda e: once("beta > 0", e.beta, strict=True)},
)  # fmt: skip
def energy(e: Experiment) -> list[Margins]:
    """The gain of energy on intervals of time, each twice as long as the one before, against the integral of the
    formula along the run, in units of the largest energy."""
    fastest = (1 + abs(e.beta)) * (1.0 if e.normalized else exp(e.beta))
    ends = doubling(e.horizon, 1 / fastest)
    balance = Balance(lambda x: _energy(e, x), ends, local=runs.integration_error(e))
    states = balanced(e, balance)
    rounding = 64 * EPS * (1 + e.beta)
    return [
        Margins("the energy never decreases", balance.lowest, ends[:-1], rounding + runs.integration_error(e)),
        Margins("E <= e^beta / (2 beta), its value at consensus", 1 - _energy(e, states)[0], ends, rounding),
        *balance.margins("E(t) - E(s) is the integral of its rate", rounding),
    ]


# Hemispheres


def wendel(n: int, d: int) -> float:
    """Return the probability 2^{-(n-1)} sum_{k<d} C(n-1, k) that n uniform tokens lie in an open hemisphere of R^d.

    >>> wendel(3, 2), wendel(3, 3)
    (0.75, 1.0)

    References
    ----------
    Wendel, *A problem in geometric probability* (1962).
    """
    return sum(comb(n - 1, k) for k in range(d)) / 2 ** (n - 1)


def _frequency_of_hemispheres(e: Experiment) -> list[Margins]:
    """Return the margins of Wendel's probability against as many draws of n uniform tokens as asked for."""
    (n, d), draws = e.shape, whole(e.draws, "draws", least=0)
    if not draws:
        return []
    rng = np.random.default_rng(e.seed)
    found = sum(runs.best_axis(runs.normalised(rng.standard_normal((n, d))))[1] > EPS for _ in range(draws))
    what = f"{n} uniform tokens lie in a hemisphere with Wendel's probability"
    return [at_least(what, found, draws, wendel(n, d)), at_most(what, found, draws, wendel(n, d))]


def _hemispherical(rng: Rng, k: int) -> dict[str, Any]:
    x = runs.in_hemisphere(rng, k)
    B = any_form(rng, k // 3, x.shape[1]) if k % 3 else None
    beta = log_uniform(rng, 0.05, 3.0) / (1.0 if B is None else max(float(np.linalg.norm(B, 2)), 1e-3))
    draws = 200 if k % 8 == 0 else 0
    return {"tokens": x, "B": B, "beta": beta, "normalized": k % 4 != 3, "until": 30.0, "draws": draws}


HEMISPHERE = Setting(
    {"tokens": ..., "B": None, "beta": 1.0, "normalized": True, "until": 40.0, "w": None, "draws": 0, "seed": 0},
    runs.sphere_model, _hemispherical, samples=8, lengths=(),
)  # fmt: skip


@SPHERE.claim(
    "hemisphere", "Section 6, cone collapse", PROVED, HEMISPHERE,
    """If all <x_i(0), w> > 0 for some w, then for V = I and every constant B = K^T Q the least <x_i, w> never
    decreases and the tokens converge to one point exponentially; in the end 1 - <x_i, x_j> decays like e^{-2t} (SA),
    e^{-2 e^{beta <Bx,x>} t} (USA). n uniform tokens lie in a hemisphere with probability
    2^{-(n-1)} sum_{k<d} C(n-1, k).""",
    plain="Tokens that start in one half of the sphere come together at one point, exponentially fast.",
    given={"an open hemisphere": runs.open_hemisphere},
)  # fmt: skip
def hemisphere(e: Experiment) -> list[Margins]:
    """Every recorded step, against the differential inequalities that force the collapse once all <x_i, x_j> > 0."""
    what, acute = "all <x_i, x_j> > 0 at the end, so that they tend to 1", 1 - float(runs.pair_gaps(e.states[-1]).max())
    end = once(what, max(acute, 0.0), 1e-9, time=e.times[-1], strict=True)
    return [runs.lowest_never_falls(e), runs.acute_contracts(e), runs.local_rate(e), end, *_frequency_of_hemispheres(e)]


@dataclass(frozen=True, eq=False)
class FixedWeights(Law):
    """Attention with one row-stochastic matrix P, wherever the tokens are."""

    P: Array

    def log_weights(
        self, x: Array, t: float = 0, *, sources: Any = None, masses: Any = None, rows: Any = None, columns: Any = None
    ) -> Array:
        """Return log P for the tokens of these indices."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.P[np.ix_(rows, columns)]))


def _layers(given: dict[str, Any]) -> tuple[Law, SphereLayers]:
    motion = SphereLayers(dt=given["dt"])
    if given["P"] is None:
        return Softmax(beta=given["beta"], B=given["B"]), motion
    P, n = rows_of(given["P"], "P"), len(given["tokens"])
    if P.shape != (n, n) or P.min() < 0 or np.abs(P.sum(axis=1) - 1).max() > 1e-12:
        raise InputError(f"P is no row-stochastic matrix of {n} tokens: give n rows of weights >= 0 that sum to 1")
    return FixedWeights(P), motion


def _hemispherical_layers(rng: Rng, k: int) -> dict[str, Any]:
    x = runs.in_hemisphere(rng, k)
    n, d = x.shape
    given: dict[str, Any] = {"tokens": x, "dt": log_uniform(rng, 1e-2, 1e2), "steps": int(rng.integers(5, 60))}
    match k % 3:
        case 0:
            return {**given, "beta": log_uniform(rng, 1e-2, 1e8), "B": any_form(rng, k // 3, d)}
        case 1:
            return {**given, "P": rng.dirichlet(np.full(n, pick(rng, (0.1, 1.0))), n)}
    return {**given, "P": np.eye(n)[rng.integers(n, size=n)]}


HEMISPHERE_LAYERS = Setting(
    {"tokens": ..., "B": None, "beta": 1.0, "P": None, "dt": 1.0, "steps": 50, "w": None},
    _layers, _hemispherical_layers, lengths=(),
)  # fmt: skip

hemisphere_discrete = SPHERE.claim(
    "hemisphere-discrete", "after Section 6, cone collapse", DERIVED, HEMISPHERE_LAYERS,
    """If all <x_i^0, w> > 0, then under x_i <- (x_i + dt m_i) / |x_i + dt m_i|, m_i = sum_j P_ij x_j, the least
    <x_i, w> never decreases, for every dt > 0 and every row-stochastic P: softmax of any scores, or any matrix.""",
    plain="Layers of any step keep tokens in the half of the sphere where they start, and away from its rim.",
    given={"an open hemisphere": runs.open_hemisphere},
)(runs.lowest_never_falls)  # fmt: skip
