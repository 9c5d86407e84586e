"""Clouds as measures: how far apart two of them drift under attention, and the aggregation they are compared with."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attnflow.claims.claim import DERIVED, Instance, Setting
from attnflow.claims.emergence.flows import pairwise_distinct, two_or_more, value_matrix
from attnflow.claims.emergence.paper import EMERGENCE
from attnflow.claims.experiment import Experiment
from attnflow.claims.margins import Margins, once
from attnflow.claims.samplers import Rng, any_form, cloud, distinct, log_uniform, pick
from attnflow.core.inputs import Array, InputError
from attnflow.core.inputs import cloud as checked_cloud
from attnflow.laws import Hearing, Softmax
from attnflow.motions import ContinuousMotion, Flow

# Mean field.


def _pair(given: dict[str, Any]) -> tuple[Softmax, Flow]:
    given["others"] = others = checked_cloud(given["others"], "others")
    if others.shape != given["tokens"].shape:
        raise InputError(
            f"others have shape {others.shape} and tokens {given['tokens'].shape}, expected as many atoms of the same "
            "dimension: repeat atoms to give them more mass"
        )
    return Softmax(B=given["B"]), Flow(V=given["V"])


def _two_clouds(rng: Rng, k: int) -> Instance:
    """Return two measures with the same number of atoms: near, far, and two points, where the constants are sharp."""
    n, d = int(rng.integers(2, 7)), int(rng.integers(1, 4))
    if k % 4 == 3:
        x = np.zeros((2, d))
        x[:, 0] = np.array([1.0, -1.0]) * log_uniform(rng, 0.05, 1.0)
        return {"tokens": x, "others": 0.9 * x, "until": 0.1}
    x = cloud(rng, k, n, d)
    x *= log_uniform(rng, 0.02, 1.0) / max(float(np.linalg.norm(x, axis=1).max()), 1e-6)
    near = log_uniform(rng, 1e-4, 0.3) * float(np.abs(x).max() or 1.0)
    V = pick(rng, (None, -np.eye(d), rng.standard_normal((d, d)) / d))
    B = any_form(rng, k, d)
    B = None if B is None else B / max(1.0, float(np.linalg.norm(B, 2)))
    return {"tokens": x, "others": x + near * rng.standard_normal((n, d)), "B": B, "V": V, "until": 0.1}


PAIR = Setting(
    {"tokens": ..., "others": ..., "B": None, "V": None, "until": 0.1}, _pair, _two_clouds,
    lengths=("tokens", "others"), scales=(-10, 1),
)  # fmt: skip


def transport(x: Array, y: Array, power: int) -> float:
    """Return the Wasserstein distance W_1 or W_2 of two measures of n atoms of mass 1/n: the best permutation.

    >>> x, y = np.array([[0.0], [1.0]]), np.array([[1.0], [2.0]])
    >>> transport(x, y, 1), transport(x, y, 2)
    (1.0, 1.0)
    """
    from scipy.optimize import linear_sum_assignment

    cost = np.linalg.norm(x[:, None] - y[None], axis=2) ** power
    chosen = linear_sum_assignment(cost)
    return math.pow(float(cost[chosen].mean()), 1 / power)


def _field(e: Experiment, points: Array, atoms: Array) -> Array:
    """Return X[mu] at some points: what they hear of the atoms, times V."""
    return e.law.hear(points, sources=atoms).mean @ value_matrix(e).T


def _probes(R: float, d: int) -> tuple[Array, Array]:
    """Return pairs of points in the ball of radius R: around 0 and elsewhere, near each other and far."""
    rng = np.random.default_rng(0)
    directions = np.concatenate([np.eye(d), rng.standard_normal((16, d))])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    centres = R * directions * np.linspace(0, 1, len(directions))[:, None]
    centres[:d] = 0.0
    radii = R * 10.0 ** -rng.uniform(0, 4, len(directions))
    radii[:d] = 1e-3 * R
    pairs = centres + radii[:, None] * directions, centres - radii[:, None] * directions
    inside = (np.maximum(*(np.linalg.norm(p, axis=1) for p in pairs)) <= R)[:, None]
    return np.where(inside, pairs[0], 0.0), np.where(inside, pairs[1], R * directions)


@EMERGENCE.claim(
    "mean-field", "after the mean-field limit", DERIVED, PAIR,
    """For measures mu and nu in the ball of radius R and X[mu](x) = V int e^{<Bx,y>} y dmu / int e^{<Bx,y>} dmu, with
    q = |B| R^2: X[mu] is Lipschitz with constant |B| |V| R^2, which two atoms attain at 0; and in that ball
    |X[mu] - X[nu]| <= |V| (1+2q) e^{2q} W_1(mu, nu). Hence W_2(mu(t), nu(t)) <= e^{int_0^t C} W_2(mu(0), nu(0)) along
    the flow, C = |V| (q + (1+2q) e^{2q}) with R(s) = R e^{|V| s}.""",
    plain="Two clouds that start close drift apart at most at a known rate, whatever their number of tokens.",
)  # fmt: skip
def mean_field(e: Experiment) -> Iterator[Margins]:
    """Differences of the field at pairs of points, of two fields at the atoms, and of two runs, against the bounds."""
    x, y = e.tokens, np.asarray(e.others, dtype=float)
    R = max(float(np.linalg.norm(np.concatenate([x, y]), axis=1).max()), 1e-100)
    B, V = (float(np.linalg.norm(M, 2)) for M in (e.form(), value_matrix(e)))
    q, speed = B * R**2, max(V, 1e-300)
    one, other = _probes(R, e.shape[1])
    apart = np.linalg.norm(one - other, axis=1)
    differ = np.linalg.norm(_field(e, one, x) - _field(e, other, x), axis=1)
    rounding = 64 * e.rounding * R / apart + 1e-12 * q
    slack = q - differ / (speed * apart)
    worst = int((slack + rounding).argmin())
    yield once("|X(x) - X(x')| <= |B||V|R^2 |x - x'|", slack[worst], rounding[worst])
    points = np.concatenate([x, y, one])
    apart_fields = np.linalg.norm(_field(e, points, x) - _field(e, points, y), axis=1)
    with np.errstate(over="ignore"):
        bound = (1 + 2 * q) * np.exp(2 * q) * transport(x, y, 1) / R
    yield once("|X[mu] - X[nu]| <= |V|(1+2q)e^{2q} W_1", bound - apart_fields.max() / (speed * R), 64 * e.rounding)
    yield _drift(e, (x, y), (q, V, R))


def _drift(e: Experiment, clouds: tuple[Array, Array], constants: tuple[float, float, float]) -> Margins:
    """Return the margins of W_2 along two runs, relative to the radius."""
    q, V, R = constants
    record = np.linspace(0, e.until, 9)[1:]
    runs = [e.evolve(tokens, e.until, record=record) for tokens in clouds]
    W = np.array([transport(a, b, 2) for a, b in zip(runs[0].tokens, runs[1].tokens, strict=True)])
    times = runs[0].times
    Q = q * np.exp(2 * V * times)
    with np.errstate(over="ignore"):
        # C increases, so its value at the end of each interval bounds the integral from above, if loosely.
        C = V * np.minimum(Q + (1 + 2 * Q) * np.exp(2 * Q), 1e300)
        grown = np.exp(np.append(0.0, np.cumsum(C[1:] * np.diff(times))))
        slack = (W[0] * np.minimum(grown, 1e300) - W) / (R * np.exp(V * times))
    return Margins("W_2(t) <= e^{int C} W_2(0)", slack, times, 1e-9)


# The comparison.


@dataclass(frozen=True, eq=False)
class Aggregation(ContinuousMotion):
    """Aggregation of Keller-Segel type, in which tokens collide: x_i' = -(1/n) sum_{j != i} (x_i - x_j)/|x_i - x_j|^2.

    There is no attention in it: the law is not used.
    """

    strength: float = 1.0
    rtol: float = 1e-9
    hint: ClassVar[str] = "tokens have collided"

    def velocity(self, hearing: Hearing, x: Array, t: float) -> Array:
        """Return the sum of the attractions of the other tokens."""
        apart = x[:, None] - x[None]
        square = (apart**2).sum(axis=2) + np.diag(np.full(len(x), np.inf))
        pull: Array = -self.strength * (apart / square[:, :, None]).mean(axis=1)
        return pull


def _separate(rng: Rng, k: int) -> Instance:
    x = distinct(cloud(rng, k, d=pick(rng, (1, 2, 3))))
    return {"tokens": x if len(x) > 1 else np.concatenate([x, x + 1])}


AGGREGATION = Setting({"tokens": ...}, lambda given: (Softmax(), Aggregation()), _separate, samples=8)


@EMERGENCE.claim(
    "keller-segel", "talk", DERIVED, AGGREGATION,
    """Distinct tokens that move by x_i' = -(1/n) sum_{j != i} (x_i - x_j)/|x_i - x_j|^2 have a variance
    M = mean |x_i - xbar|^2 with M' = -(n-1)/n exactly, so two of them collide no later than n M(0)/(n-1): a collapse
    in finite time, which self-attention never shows.""",
    plain="Tokens that attract each other with this singular force collide in finite time, unlike those of attention.",
    given={"n >= 2": two_or_more, "distinct tokens": pairwise_distinct},
)  # fmt: skip
def keller_segel(e: Experiment) -> list[Margins]:
    """The variance along a run that ends where two tokens meet, against the line, and its end against the bound."""
    n = e.shape[0]
    if n < 2 or not pairwise_distinct(e).held.all():
        return []
    # In units of the standard deviation, so that no scale is too large or too small for the integrator.
    y = e.tokens - e.tokens.mean(axis=0)
    y = y / np.abs(y).max()
    y = y / math.sqrt(float((y**2).sum(axis=1).mean()))
    latest = n / (n - 1)
    run = e.evolve(y, 1.01 * latest)
    x, times = run.tokens, run.times
    M = ((x - x.mean(axis=1, keepdims=True)) ** 2).sum(axis=2).mean(axis=1)
    error = np.abs(M - 1 + times / latest)
    apart = np.linalg.norm(x[-1, :, None] - x[-1, None], axis=2) + np.diag(np.full(n, np.inf))
    end = float(times[-1])
    return [
        once("M(t) = M(0) - (n-1)t/n", -float(error.max()), 1e-8, time=float(times[error.argmax()])),
        once("two tokens meet by n M(0)/(n-1)", 1 - end / latest, 1e-6, time=end),
        once("the run ends where two tokens meet", 1e-3 - float(apart.min()), 1e-12, time=end),
    ]
