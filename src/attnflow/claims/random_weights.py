"""Value matrices drawn anew in each layer: two tokens end together, or opposite to each other."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from attnflow.claims.claim import DERIVED, Paper, Setting
from attnflow.claims.experiment import Experiment
from attnflow.claims.margins import Margins, once
from attnflow.claims.samplers import Rng, pick
from attnflow.claims.statistics import LEVEL, empirical_bernstein
from attnflow.core.inputs import Array, InputError, number, whole
from attnflow.core.progress import tick
from attnflow.laws import Softmax
from attnflow.motions import RandomHeads
from attnflow.runs.ensembles import ManyHearing

RANDOM = Paper(
    "random", "Fedorov et al.", "Clustering in deep stochastic transformers", "2601.21942",
    heading="Random weights in each layer",
    notation="""Tokens on the unit sphere of R^d, x_i <- y_i / |y_i|, y_i = x_i + sqrt(dt) W m_i, where
    m_i = sum_j e^{beta <x_i, x_j>} x_j / Z_i and W is a square matrix of independent standard normal numbers, new in
    each layer and the same for all tokens. As dt -> 0, with time t = dt times the number of layers, the overlap
    of two tokens is rho = <x_1, x_2> = tanh u, where u has the drift
    q (d - 2) + (1 - q) rho and noise of variance 2 (1 - q) in each unit of time, and
    q = 1 / (1 + cosh(beta (1 - rho))). This is derived here, not quoted.""",
)  # fmt: skip

# Where u = artanh rho goes beyond this, tokens are together or opposite to 1e-13; more layers would only round.
FARTHEST = 16.0
MOST_LAYERS, MOST_PAIRS = 20_000, 20_000
# A pair has met where u is above the first; beside -1 it is below the second: 1 - rho = 0.005, 1 + rho = 1e-5.
MET, BESIDE = 3.0, -6.1
# What layers of length dt are allowed to err by, in units of (d - 1) dt: where -1 attracts, and where not. Measured by
# the mean of p after a layer, given the tokens before, over both signs of its matrix.
LAYERS_ERR, LAYERS_ERR_BESIDE = 0.1, 0.25


def antipodal(d: int, beta: float, rho: Any, low: float | None = None) -> Array:
    """Return the probability that two tokens with overlap rho end antipodal: by the scale function of u = artanh rho.

    With s'(u) = e^{-(d - 2) G(u)} / cosh u, G' = 1 / cosh(beta (1 - tanh u)), it is the integral of s' beyond u over
    that of all s', and 0 where the latter is infinite. With `low`, it is the probability that u ever comes down to low:
    the integral of s' beyond u over that beyond low.

    >>> round(float(antipodal(3, 1.0, 0.0)), 4), round(float(antipodal(2, 5.0, 0.0)), 4)
    (0.2224, 0.5)
    """
    if low is not None:
        left = -low
    elif attracts(d, beta) > 0:
        # s' decays like e^{-rate |u|} on the left, so that beyond this only 1e-15 of it is left.
        left = max(FARTHEST, 36.0 / attracts(d, beta))
    else:
        return np.zeros(np.shape(rho))
    from scipy.interpolate import CubicHermiteSpline

    nodes, weights = np.polynomial.legendre.leggauss(16)
    ends = np.linspace(-left, 3 * FARTHEST, int(8 * (left + 3 * FARTHEST)) + 1)
    half = np.diff(ends)[:, None] / 2
    u = ends[:-1, None] + half * (1 + nodes)
    slope = (d - 2) / np.cosh(beta * (1 - np.tanh(u)))
    # The exponent inside each interval: a sum over nodes of its part up to there, from the polynomial through them.
    inner = half * (slope @ _up_to(nodes).T)
    whole_ones = np.concatenate([[0.0], np.cumsum((half * slope) @ weights)])
    log_s = -(whole_ones[:-1, None] + inner) - _log_cosh(u)
    top = log_s.max()
    parts = (half * np.exp(log_s - top)) @ weights
    beyond = np.concatenate([np.cumsum(parts[::-1])[::-1], [0.0]])
    slopes = -np.exp(-whole_ones - _log_cosh(ends) - top)
    at = np.clip(np.arctanh(np.clip(rho, -1 + 1e-15, 1 - 1e-15)), -left, 3 * FARTHEST)
    found: Array = CubicHermiteSpline(ends, beyond, slopes)(at) / beyond[0]
    return found


def _log_cosh(u: Array) -> Array:
    """Return log cosh u, also where cosh u would overflow, as it does where -1 hardly attracts."""
    found: Array = np.logaddexp(u, -u) - math.log(2)
    return found


def _up_to(nodes: Array) -> Array:
    """Return the matrix that takes values at nodes of [-1, 1] to integrals from -1 to each node."""
    degrees = np.arange(len(nodes))
    to_coefficients = np.linalg.inv(np.polynomial.legendre.legvander(nodes, len(nodes) - 1))
    columns = [
        np.polynomial.legendre.legval(nodes, np.polynomial.legendre.legint(np.eye(len(nodes))[k], lbnd=-1))
        for k in degrees
    ]
    matrix: Array = np.stack(columns, axis=1) @ to_coefficients
    return matrix


def attracts(d: int, beta: float) -> float:
    """Return how fast s' decays towards rho = -1, positive where -1 attracts: where d - 1 < 2 cosh^2 beta.

    >>> attracts(3, 0.0), attracts(3, 1.0) > 0
    (0.0, True)
    """
    return 1 - (d - 2) / math.cosh(2 * beta)


def _model(given: Any) -> tuple[Softmax, RandomHeads]:
    return Softmax(beta=given["beta"]), RandomHeads(dt=given["dt"])


def _pairs(rng: Rng, k: int) -> dict[str, Any]:
    d = 2 + k % 4
    beta = pick(rng, (0.7, 1.0, 2.0) if d <= 3 else (1.5, 2.0, 3.0))
    return {"d": d, "beta": beta, "rho": float(rng.uniform(-0.9, 0.9)), "seed": int(rng.integers(2**31))}


def _meeting_pairs(rng: Rng, k: int) -> dict[str, Any]:
    d, beta = ((6, 1.0), (7, 0.5), (4, 0.65), (3, 0.0))[k % 4]
    return {"d": d, "beta": beta, "rho": float(rng.uniform(-0.9, 0.5)), "seed": int(rng.integers(2**31))}


PAIR = Setting(
    {"d": 3, "beta": 1.0, "rho": 0.0, "dt": 0.03, "time": 12.0, "runs": 16_000, "seed": 0},
    _model, _pairs, samples=4, lengths=(),
)  # fmt: skip
MEETING_PAIR = Setting(
    {"d": 6, "beta": 1.0, "rho": -0.5, "dt": 0.02, "time": 12.0, "runs": 4_000, "seed": 0},
    _model, _meeting_pairs, samples=4, lengths=(),
)  # fmt: skip


def ended(e: Experiment, low: float, high: float = MET) -> Array:
    """Return the overlaps tanh u of many pairs at the end, or when u first was not between low and high.

    Each pair has matrices of its own.
    """
    d, runs = whole(e.d, "d", least=2), whole(e.runs, "runs", least=2)
    rho, dt = number(e.rho, "rho", above=-1.0), number(e.dt, "dt", above=0.0)
    layers = math.ceil(number(e.time, "time", above=0.0) / dt)
    if layers > MOST_LAYERS or runs > MOST_PAIRS:
        raise InputError(
            f"{runs} pairs in {layers} layers are too many: give at most {MOST_PAIRS} runs and {MOST_LAYERS} dt as time"
        )
    rng, hearing = np.random.default_rng([int(e.seed), 2601, 21942]), ManyHearing(e.law)
    motion: Any = e.motion
    x = np.zeros((runs, 2, d))
    x[:, 0, 0], x[:, 1, 0], x[:, 1, 1] = 1.0, rho, math.sqrt(1 - rho**2)
    overlaps, going = np.full(runs, rho), np.arange(runs)
    for k in range(layers):
        tick()
        left = len(going)
        x = motion.random_step(hearing, x, k, 1.0, lambda *shape, left=left: rng.standard_normal((left, *shape)))
        overlaps[going] = now = (x[:, 0] * x[:, 1]).sum(axis=1)
        between = (now > math.tanh(low)) & (now < math.tanh(high))
        x, going = x[between], going[between]
        if not len(going):
            break
    return overlaps


def _short_steps(e: Experiment) -> list[Margins]:
    return [
        once("-1 < rho < 1", 1 - abs(e.rho), strict=True),
        once("(d - 1) dt <= 0.2", 0.2 - (whole(e.d, "d", least=2) - 1) * e.dt, 1e-12),
    ]


def _attracting(e: Experiment) -> Margins:
    return once("d - 2 < cosh(2 beta)", attracts(whole(e.d, "d", least=2), e.beta), 0.01, strict=True)


def _repelling(e: Experiment) -> Margins:
    return once("d - 2 >= cosh(2 beta)", -attracts(whole(e.d, "d", least=2), e.beta), 1e-12)


def _mean_stays(e: Experiment, what: str, room: float, end: float | None) -> Margins:
    """Return by how much the mean of p over many stopped pairs is p(rho_0), within the bounds and the room for dt."""
    d = int(e.d)
    p = float(antipodal(d, e.beta, e.rho, end))
    overlaps = ended(e, -MET if end is None else end)
    lowest, highest = empirical_bernstein(antipodal(d, e.beta, overlaps, end), 1.0)
    room *= (d - 1) * e.dt
    what = f"{what} {p:.4f}, with room {room:.4f} for the error of dt,"
    return replace(once(what, min(highest - p, p - lowest) + room), level=LEVEL)


@RANDOM.claim(
    "antipodal", "derived", DERIVED, PAIR,
    """Two tokens, dt -> 0, d - 2 < cosh(2 beta), which is d - 1 < 2 cosh(beta)^2: the overlap tends to 1 or to -1, and
    both attract. From the overlap rho = tanh u the tokens end antipodal with the probability p(rho) that is the
    integral from u to infinity, over the integral from minus infinity to infinity, of e^{-(d - 2) G(v)} / cosh(v),
    where G'(v) = 1 / cosh(beta (1 - tanh v)). So p(0) = 0.2224 for d = 3, beta = 1, and p(0) = 1/2 for d = 2 and every
    beta.""",
    plain="With random weights, two tokens end at one point or opposite each other, with known probabilities.",
    given={"-1 attracts": _attracting, "short steps": _short_steps},
    note="""The probability p(rho) is a martingale along the run: E p(rho_t) = p(rho_0) at every time t, also if pairs
    are stopped, here where |u| > 3. Layers of length dt err: in 12 instances with d <= 9 the mean of p was off by
    at most 0.07 (d - 1) dt, with an uncertainty of 0.02, and 0.1 (d - 1) dt is allowed. With it the bounds of 16,000
    pairs are, for d <= 5, less than 0.04 wide on each side, so that a probability that is wrong by 0.05 is noticed.""",
)  # fmt: skip
def ends_antipodal(e: Experiment) -> Margins:
    """The mean of p(rho) over many stopped pairs of tokens against p(rho_0), within bounds that hold at any sample size
    and 0.1 (d - 1) dt for the error of layers."""
    return _mean_stays(e, "the mean of p(rho_t) is p(rho_0) =", LAYERS_ERR, None)


@RANDOM.claim(
    "meet", "derived", DERIVED, MEETING_PAIR,
    """Two tokens, dt -> 0, d - 2 >= cosh(2 beta), which is d - 1 >= 2 cosh(beta)^2: an overlap of -1 does not attract,
    and from every other one it tends to 1 with probability 1. It ever comes down from rho = tanh u to tanh l with the
    probability p(rho) that is the integral from u to infinity, over the integral from l to infinity, of the function
    in random/antipodal, and p tends to 0 as l tends to minus infinity.""",
    plain="With random weights in a high enough dimension, two tokens always end at one point.",
    given={"-1 does not attract": _repelling, "short steps": _short_steps},
    note="""It is checked with l = -6.1, where 1 + rho = 1e-5; that p then tends to 0 follows from the integral. As for
    random/antipodal p is a martingale, and pairs are stopped where u < l or u > 3. Beside -1 layers err more: in 5
    instances the mean of p was off by at most 0.18 (d - 1) dt, with an uncertainty of 0.02, and 0.25 (d - 1) dt is
    allowed.""",
)  # fmt: skip
def meets(e: Experiment) -> Margins:
    """The mean of p(rho) over many stopped pairs of tokens against p(rho_0), within bounds that hold at any sample size
    and 0.25 (d - 1) dt for the error of layers."""
    return _mean_stays(e, "the mean probability to come beside -1 stays", LAYERS_ERR_BESIDE, BESIDE)
