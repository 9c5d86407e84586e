"""Claims about how the norm is kept: which schemes cluster, and how fast (arXiv 2510.22026).

With x_i = r_i theta_i and A_i = sum_j e^{beta <theta_i, theta_j>} theta_j / Z_i, every scheme is theta_i' = s_i^{-1}
Proj A_i: s = 1 (Post), r (Pre), r |A| (Peri), |A| (nGPT), sqrt(t + 1) (CoD), where r' = <theta, A> (Pre), <theta, A> /
|A| (Peri).

Tokens that all have the same inner product rho and the same radius keep both. With p =
1 / (e^{beta (1 - rho)} + n - 1) and a = 1 - (n - 1) p, then rho' = (2 / s) p (1 - rho) (1 + (n - 1) rho),
<theta, A> = a + (n - 1) p rho, and |A|^2 = a^2 + 2 (n - 1) a p rho + (n - 1) p^2 (1 + (n - 2) rho).
"""

from __future__ import annotations

from dataclasses import replace
from math import exp, log
from typing import Any

import numpy as np

from attnflow.claims.claim import PROVED, Paper, Setting
from attnflow.claims.experiment import Experiment
from attnflow.claims.margins import Margins, Undecided, once, per_token, unknown
from attnflow.claims.samplers import Rng, log_uniform, rotation
from attnflow.claims.sphere.collapse import attracting_rate, moving
from attnflow.claims.sphere.runs import FLOOR, acute_contracts, integration_error, normalised, on_sphere, pair_gaps
from attnflow.core.inputs import Array, number, one_of
from attnflow.geometry.forms import EPS
from attnflow.laws import Softmax
from attnflow.motions import SphereFlow
from attnflow.motions.normalisation import RADIAL, SCHEMES

NORM = Paper(
    "norm",
    "Karagodin, Ge, Polyanskiy, Rigollet",
    "Normalization in attention dynamics",
    "2510.22026",
    notation="""Tokens x_i = r_i theta_i, theta_i on the unit sphere of R^d, r_i(0) = 1, Proj y = y - <theta, y> theta,
    A_i = sum_j e^{beta <theta_i, theta_j>} theta_j / Z_i. theta_i' = s_i^{-1} Proj A_i with s = 1 (Post-LN), s = r and
    r' = <theta, A> (Pre-LN), s = r |A| and r' = <theta, A> / |A| (Peri-LN), s = |A| (nGPT), s = sqrt(t + 1) (CoD).""",
)

FAST, SLOW = ("post", "ngpt"), ("pre", "peri")


def _model(given: dict[str, Any]) -> tuple[Softmax, SphereFlow]:
    return Softmax(beta=number(given["beta"], "beta")), SphereFlow(norm=one_of(given["norm"], SCHEMES, "norm"))


def _flows_until(until: float, sample: Any, samples: int) -> Setting:
    return Setting(
        {"tokens": ..., "beta": 1.0, "norm": "post", "until": until}, _model, sample, samples=samples, lengths=()
    )


def _one_of_four(e: Experiment) -> Margins:
    return once("norm is post, ngpt, pre or peri", 1.0 if e.norm in FAST + SLOW else -1.0)


def _not_negative(e: Experiment) -> Margins:
    return once("beta >= 0", e.beta)


# Rates


def _gaps(x: Array) -> Array:
    """Return all 1 - <x_i, x_j>, i != j, as (..., n, n - 1), to full relative precision near 0."""
    n = x.shape[-2]
    return pair_gaps(x)[..., ~np.eye(n, dtype=bool)].reshape(*x.shape[:-2], n, n - 1)


def _equiangular(e: Experiment) -> list[Margins]:
    n, d = e.shape
    if n < 2:
        return [once("n >= 2", n - 2)]
    inner = 1 - _gaps(normalised(e.tokens))
    rho = float(inner.mean())
    return [
        once("d >= n", d - n),
        per_token("all <x_i, x_j> are the same", -np.abs(inner - rho).max(axis=1), 1e-12),
        once("-1/(n-1) < <x_i, x_j>", rho + 1 / (n - 1), 1e-9, strict=True),
        once("<x_i, x_j> < 1", 1 - rho, 1e-9, strict=True),
    ]


def closed(times: Array, n: int, beta: float, norm: str, rho: float = 0.0) -> tuple[Array, Array]:
    """Return <theta_i, theta_j> and r at these times, of n tokens that all start with the inner product rho.

    >>> values, radii = closed(np.array([0.0, 1e-6]), 16, 1.0, "peri")
    >>> round(float(values[1]) * 1e6, 5)
    0.42268
    """
    from scipy.integrate import solve_ivp

    def slope(t: float, y: Array) -> list[float]:
        rho, r = y
        p = 1 / (exp(beta * (1 - rho)) + n - 1)
        a = 1 - (n - 1) * p
        along = a + (n - 1) * p * rho
        size = (a * a + 2 * (n - 1) * a * p * rho + (n - 1) * p * p * (1 + (n - 2) * rho)) ** 0.5
        s = {"pre": r, "peri": r * size, "ngpt": size, "cod": (t + 1) ** 0.5}.get(norm, 1.0)
        growth = {"pre": along, "peri": along / size}.get(norm, 0.0)
        return [2 * p * (1 - rho) * (1 + (n - 1) * rho) / s, growth]

    span = (0.0, float(times[-1]))
    found = solve_ivp(slope, span, [rho, 1.0], "LSODA", times, rtol=1e-12, atol=1e-13).y
    return np.asarray(found[0]), np.asarray(found[1])


def _as_derived(e: Experiment) -> list[Margins]:
    """All inner products, and all radii, against the two numbers that they must be."""
    n, times = e.shape[0], np.asarray(e.times, dtype=np.float64)
    inner, radii = 1 - _gaps(e.states), e.run.radii
    rho, r = closed(times, n, e.beta, e.norm, float(inner[0].mean()))
    off, apart = np.abs(inner - rho[:, None, None]).max(axis=2), np.abs(radii / r[:, None] - 1)
    return [
        Margins("<theta_i, theta_j> = rho to 1e-8", 1 - off / 1e-8, e.times, 64 * EPS / 1e-8),
        Margins("r_i = r to 1e-8", 1 - apart / 1e-8, e.times, 64 * EPS / 1e-8),
    ]


def off_rate(gap: Array, beta: float, radial: bool) -> Array:
    """Return by which part of 2 the rate of decay of g = 1 - rho may differ from 2 on its own clock, beta >= 0.

    (log g)' = -(2 / s) h, h = (n - (n-1) g) / (n - 1 + e^{beta g}), so |h - 1| <= g (1 + beta e^{beta g}); 1 - g <=
    <theta, A> <= |A| <= 1. The clock is t, or log r, whose slope is 1/r up to the factor <theta, A>.
    """
    g = np.minimum(gap, 0.9)
    bound = g * (2 + beta * np.exp(np.minimum(beta * g, 50))) / (1 - g)
    return (1 + bound) / (1 - g) - 1 if radial else bound


def _rates(e: Experiment) -> list[Margins]:
    """The decay between records against the rate; near consensus the bound of its error decides the limit."""
    radial, gaps = e.norm in SLOW, _gaps(e.states)
    largest, radii = gaps.max(axis=(1, 2)), e.run.radii
    clock = np.diff(np.log(radii.mean(axis=1)) if radial else np.asarray(e.times, dtype=np.float64))
    bound = off_rate(largest, e.beta, radial)
    usable = (bound[:-1] <= 0.5) & (gaps[1:].min(axis=(1, 2)) > FLOOR) & (clock > 0)
    u, v, step = gaps[:-1][usable], gaps[1:][usable], 2 * clock[usable]
    off = np.abs(np.log(v / u) + step[:, None, None]).max(axis=(1, 2))
    rate = "1 - <theta_i, theta_j> decays like " + ("r^{-2}, r growing like t" if radial else "e^{-2t}")
    found = []
    if usable.any():
        blur = 4 * integration_error(e) / np.sqrt(v.min(axis=(1, 2))) / step
        found.append(Margins(f"{rate}, up to O(its size)", bound[:-1][usable] - off / step, e.times[:-1][usable], blur))
    if bound[-1] <= 0.5:
        return found
    why = Undecided(
        f"at the end 1 - <theta_i, theta_j> is {largest[-1]:.2g}, too large for a bound of the rate that remains",
        "give a later until",
    )
    return [*found, unknown(rate, why, e.times[-1])]


def _frames(rng: Rng, k: int) -> dict[str, Any]:
    n = int(rng.integers(2, 7))
    d, rho = n + k % 2 * int(rng.integers(3)), (0.0, 0.5, -0.5 / (n - 1))[k % 3]
    root = np.linalg.cholesky((1 - rho) * np.eye(n) + rho)
    norm = (*FAST, *SLOW)[k % 4]
    beta = log_uniform(rng, 0.05, 2.0) if k % 5 else 0.0
    return {"tokens": root @ rotation(rng, d)[:n], "beta": beta, "norm": norm, "until": 15.0 if norm in FAST else 300.0}


@NORM.claim(
    "rates", "the equiangular case, as we read it", PROVED, _flows_until(15.0, _frames, samples=8),
    """From n <= d tokens with the same inner product for all pairs, linearly independent, and beta >= 0, all pairs keep
    a common inner product, and 1 - <theta_i, theta_j> is like e^{-2t} for Post-LN and nGPT, like t^{-2} for Pre-LN and
    Peri-LN: it is asymptotic to a positive constant times that.""",
    plain="Where the normalisation stands decides how fast tokens meet: exponentially, or only polynomially.",
    given={"Post, nGPT, Pre or Peri": _one_of_four, "beta >= 0": _not_negative, "equiangular": _equiangular},
    note="""Inner products and radii follow two equations, which are derived in the module of this claim and solved by
    another method. From orthogonal tokens, n = 16 and beta = 1, the inner product starts at the speed .11288 (Post,
    Pre) and .42268 (Peri, nGPT).""",
)  # fmt: skip
def rates(e: Experiment) -> list[Margins]:
    """Inner products and radii against the equations of both to 1e-8, and the decay between records against its rate;
    the limit is decided by a bound of how far the rate can be off from the last state on."""
    return [*_as_derived(e), *_rates(e)]


# Clusters


def _in_post(e: Experiment) -> Experiment:
    """Return the model with s = 1: the same states rest, and the same attract, as under any s > 0."""
    given: Any = e.motion
    motion = replace(given, norm="post") if hasattr(given, "norm") else given
    return Experiment({**e.instance, "normalized": True}, e.law, motion, rtol=e.rtol)


def _scheme(e: Experiment) -> list[Margins]:
    (n, d), what = e.shape, "norm is post, ngpt or cod, or n <= e^beta and norm is pre or peri"
    always = {"post": 1.0, "ngpt": 1.0, "cod": 1.0}
    slow = e.beta - log(n) if e.norm in SLOW else -1.0
    return [once("d >= 2", d - 2), once("beta >= 0", e.beta), once(what, always.get(e.norm, slow), EPS)]


def own_clock(e: Experiment) -> Array:
    """Return, for each interval between records, a lower bound of the integral of 1/s while all angles are acute.

    Then |A| <= 1, and radii grow.
    """
    t = np.asarray(e.times, dtype=np.float64)
    if e.norm == "cod":
        return np.diff(2 * np.sqrt(t + 1))
    return np.diff(t) / (e.run.radii[1:].max(axis=1) if e.norm in RADIAL else 1.0)


def _ends_acute(e: Experiment) -> Margins:
    """The last state: all angles acute, or an attracting state that is not in a hemisphere, or neither."""
    x, what = e.states[-1], "the tokens end with all <theta_i, theta_j> > 0, from where they collapse,"
    least = float(1 - pair_gaps(x).max())
    if least > 0:
        return once(what, least, 1e-9, time=e.times[-1], strict=True)
    rate = attracting_rate(_in_post(e), x)
    if rate > 0:
        return once(what, -rate, 1e-9, time=e.times[-1], strict=True)
    why = Undecided(
        f"at the end the least <theta_i, theta_j> is {least:.2g}, and only where all are positive it is known that "
        "tokens collapse",
        "give a later until",
    )
    return unknown(what, why, e.times[-1])


def _any_scheme(rng: Rng, k: int) -> dict[str, Any]:
    norm = ("post", "pre", "ngpt", "peri", "cod")[k % 5]
    x = on_sphere(rng, k, n=int(rng.integers(2, 6)), d=2 + k % 3)
    beta = log(len(x)) + log_uniform(rng, 0.01, 0.5) if norm in SLOW else log_uniform(rng, 0.05, 2.0)
    return {"tokens": x, "beta": beta, "norm": norm, "until": 50.0 if norm in FAST else 2000.0}


@NORM.claim(
    "clusters", "the theorems on clustering, as we read them", PROVED, _flows_until(200.0, _any_scheme, samples=10),
    """From almost every start, with Q = K = V = I, beta >= 0 and d >= 2, all directions converge to one point: under
    Post-LN, nGPT and CoD always, under Pre-LN and Peri-LN if n <= e^beta.""",
    plain="From almost every start all tokens point in one direction in the end, wherever the normalisation stands.",
    given={"d >= 2, and n <= e^beta for Pre and Peri": _scheme, "a start not at rest": lambda e: moving(_in_post(e))},
    note="""Where n > e^beta a token of Pre-LN or Peri-LN may be pulled through 0, where it has no direction.""",
)  # fmt: skip
def clusters(e: Experiment) -> list[Margins]:
    """The last state has acute angles only, which decides the limit, and tokens contract as they then must: the least
    inner product c has (log(c / (1 - c)))' >= 2 min a_ij / max s, and 1/s has an infinite integral."""
    return [_ends_acute(e), acute_contracts(e, own_clock(e))]
