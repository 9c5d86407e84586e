"""Softmax layers (SA_beta): collapse to one point, which need not be the origin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnflow.claims.claim import FALSE, PROVED, Setting
from attnflow.claims.experiment import Experiment
from attnflow.claims.frank_wolfe.paper import FW
from attnflow.claims.hypotheses import constant, depths
from attnflow.claims.margins import Margins, Undecided, once, smallest, stacked, unknown
from attnflow.claims.proved_hypotheses import origin_inside, proved_by
from attnflow.claims.samplers import Rng, around_origin, cloud, log_uniform, pick
from attnflow.geometry.forms import EPS
from attnflow.geometry.hull import Hull
from attnflow.laws import Softmax
from attnflow.motions import Layers


def _softmax_clouds(rng: Rng, k: int) -> dict[str, Any]:
    x = cloud(rng, k)
    sign = -1.0 if k % 5 == 4 else 1.0
    beta = sign * log_uniform(rng, 0.01, 3.0 if k % 2 else 1e4) / (float((x**2).sum(axis=1).max()) or 1.0)
    return {"tokens": x, "beta": beta, "gamma": pick(rng, (1.0, 0.5, 0.1)), "steps": 60}


SOFTMAX = Setting(
    {"tokens": ..., "beta": 1.0, "gamma": 0.1, "steps": 200},
    lambda given: (Softmax(beta=given["beta"]), Layers(gamma=given["gamma"])), _softmax_clouds,
)  # fmt: skip


STEP, BETA = "gamma a number in (0, 1]", "beta a number"
# Steps that sum to a finite length need not bring tokens together, and a beta that grows may stop them from meeting.
CONSTANT = {
    STEP: constant("gamma", STEP, lambda gamma: gamma if gamma <= 1 else 1 - gamma),
    BETA: constant("beta", BETA),
}


@FW.claim(
    "collapse", "Section 5", PROVED, SOFTMAX,
    """Softmax layers with gamma in (0, 1] and any real beta converge to one point of the first hull:
    diam(X^{t+1}) <= (1 - gamma sum_k min_i a_ik) diam(X^t), where the sum is at least e^{-2 |beta| R^2}.""",
    plain="Softmax layers bring all tokens together at one point of their first hull, perhaps very slowly.",
    given=CONSTANT,
)  # fmt: skip
def collapse(e: Experiment) -> list[Margins]:
    """The diameter after every step against the contraction that the weights promise, and tokens against the hull."""
    softmax = Softmax(beta=e.beta)
    shared = np.array([softmax.weights(x, t).min(axis=0).sum() for t, x in enumerate(e.states[:-1])])
    heard = np.array([e.law.weights(x, t).min(axis=0).sum() for t, x in enumerate(e.states[:-1])])
    apart = e.states[:, :, None, :] - e.states[:, None, :, :]
    diameters = np.sqrt((apart**2).sum(axis=-1)).max(axis=(1, 2))
    unit = float(e.scale)
    room = (1 - e.gammas * shared) * diameters[:-1] - diameters[1:]
    # A score is known up to a few roundings of its size, and a weight up to e to the power of that.
    reach = abs(e.beta)
    blur = 32 * EPS * e.shape[0] * (1 + reach * unit**2 * e.shape[1])
    least = np.exp(-2 * reach * (e.states[:-1] ** 2).sum(axis=2).max(axis=1))
    inside = np.array([depths(e.states[0], x) for x in (e.states[1], e.states[-1])]) / unit
    return [
        Margins("diam shrinks by the factor 1 - gamma sum_k min_i a_ik", room / unit, e.times[:-1], blur),
        Margins("sum_k min_i a_ik >= e^{-2 |beta| R^2}", heard - least, e.times[:-1], blur),
        Margins("x_i^t in K^0", inside, e.times[[1, -1]], 1e-12),
    ]


def _around_origin(rng: Rng, k: int) -> dict[str, Any]:
    x = around_origin(rng, k)
    if np.linalg.matrix_rank(x - x[0]) < x.shape[1] or depths(x, np.zeros((1, x.shape[1])))[0] <= 0:
        d = x.shape[1]
        x = np.vstack([np.eye(d), -np.ones((1, d))]) + rng.uniform(-0.1, 0.1, (d + 1, d))
    beta = log_uniform(rng, 0.01, 3.0) / float((x**2).sum(axis=1).max())
    return {"tokens": x, "beta": beta, "gamma": pick(rng, (1.0, 0.5, 0.1)), "steps": 60}


ORIGIN = replace(SOFTMAX, sample=_around_origin, arithmetics=("ball",))


@proved_by(origin_inside)
def _origin_inside(e: Experiment) -> Margins:
    x = np.asarray(e.instance["tokens"], dtype=float)
    depth = float(depths(x, np.zeros((1, x.shape[1])))[0]) / (float(np.abs(x).max()) or 1.0)
    return once("0 in the interior of K^0", depth, 1e-12, strict=True)


@FW.claim(
    "collapse-to-origin", "abstract of the first version", FALSE, ORIGIN,
    "If 0 is an interior point of K^0, softmax layers with gamma in (0, 1] converge to the origin.",
    plain="If the origin is inside the first hull, softmax layers bring all tokens to the origin.",
    given={**CONSTANT, "0 in the interior of K^0": _origin_inside},
    repair="collapse",
    note="""The abstract of the first version (August 2025) says of the chain (SA_P): "before ultimately collapsing to
    the origin". That of the conference version (ICML 2026) says "before eventual collapse to some point within the
    initial convex hull", which is right, and for softmax layers is fw/collapse. Only the first wording is refuted
    here, read for softmax layers, the chain in the mean.""",
)  # fmt: skip
def collapse_to_origin(e: Experiment) -> list[Margins]:
    """Whether 0 leaves the hull: hulls shrink, so the limit cannot be 0 from then on, by balls around the states.

    The direction that separates the tokens from 0 comes from floats, its scores from balls. Where 0 stays in the hull
    as far as the run goes, only symmetry tells where the limit is.
    """
    values = [_origin_margin(e, x) for x in e.states]
    end = "tokens tend to 0, by symmetry,"
    still = Undecided("0 is in all hulls of the run, and only symmetry would tell where it ends", "give more steps")
    limit = once(end, 1.0, time=e.times[-1]) if _symmetric(e) else unknown(end, still, e.times[-1])
    return [Margins("0 in K^t", stacked(values), e.times, 1e-12 * (e.rounding > 0)), limit]


def _symmetric(e: Experiment) -> bool:
    """Say whether the start is its own mirror image in 0, token by token: then all tokens meet at 0."""
    x = np.asarray(e.instance["tokens"], dtype=float) + 0.0
    return sorted(map(tuple, x.tolist())) == sorted(map(tuple, (0.0 - x).tolist()))


def _origin_margin(e: Experiment, x: Any) -> Any:
    """Return the depth of 0 in the hull of a state, or minus the rigorous least score in a separating direction.

    Over the size of the start, which rounding goes by: the tokens themselves may be close to 0.
    """
    plain, size = x.astype(float), float(np.abs(e.instance["tokens"]).max())
    if not np.isfinite(plain).all():  # balls without a finite radius
        return e.array(np.nan)[()]
    depth = float(depths(plain, np.zeros((1, plain.shape[1])))[0]) / size
    if depth >= 0:
        return e.array(depth)[()]
    u = np.asarray(Hull(plain).nearest(np.zeros(plain.shape[1])))
    return -smallest(x @ e.array(u / np.linalg.norm(u) / size), axis=0)[()]
