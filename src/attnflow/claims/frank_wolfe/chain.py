"""The Markov chain (SA_P) at the vertices: the first cross-pick, and how long tokens stay."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.claims.claim import DERIVED, FALSE, Setting
from attnflow.claims.experiment import Experiment
from attnflow.claims.frank_wolfe.cone import Cone, chain_model, cone_of, is_cone, log_sum, many_chains, random_simplex
from attnflow.claims.frank_wolfe.paper import FW
from attnflow.claims.hypotheses import depths
from attnflow.claims.margins import Margins, once, per_token
from attnflow.claims.samplers import Rng, log_uniform, pick
from attnflow.claims.statistics import at_least, at_most
from attnflow.core.indices import log_weights
from attnflow.core.inputs import Array, cloud, number, whole
from attnflow.geometry.forms import EPS
from attnflow.geometry.hull import Hull
from attnflow.tokens import polygon


def _polygons(rng: Rng, k: int) -> dict[str, Any]:
    vertices, beta = int(rng.integers(2, 7)), log_uniform(rng, 0.1, 60.0)
    return {"k": vertices, "beta": beta, "gamma": pick(rng, (1.0, 0.3, 0.05)), "seed": k}


POLYGON = Setting({"k": 3, "beta": 4.0, "gamma": 0.1, "runs": 1000, "seed": 0}, chain_model, _polygons, samples=8)


def _cross_sum(e: Experiment) -> float:
    """Return S = sum_{j=1}^{k-1} e^{-beta (1 - cos(2 pi j/k))}."""
    k, beta = whole(e.k, "k", least=2), number(e.beta, "beta", least=-300.0)
    return float(np.exp(-beta * (1 - np.cos(2 * np.pi * np.arange(1, k) / k))).sum())


def _visible(e: Experiment) -> list[Margins]:
    """Every pick of another token moves, and S is neither 0 nor denormal, in float64."""
    x, gamma = polygon(whole(e.k, "k", least=2)), number(e.gamma, "gamma", above=0.0, most=1.0)
    stuck = (x[:, None] + gamma * (x[None] - x[:, None]) == x[:, None]).all(axis=2) & ~np.eye(len(x), dtype=bool)
    return [
        once("gamma large enough to move a token", -1.0 if stuck.any() else 1.0),
        once("S > 1e-280", math.log10(max(_cross_sum(e), 1e-300)) + 280, strict=True),
    ]


@FW.claim(
    "exit-time", "Section 5", DERIVED, POLYGON,
    """With one token at each vertex of the regular k-gon in the unit circle the first step at which some token moves is
    geometric with success probability 1 - (1 - p)^k, p = S/(1 + S),
    S = sum_{j=1}^{k-1} e^{-beta (1 - cos(2 pi j/k))}.""",
    plain="With a token at each corner of a regular polygon, the law of the time of the first move is known.",
    given={"picks that float64 can tell": _visible},
)  # fmt: skip
def exit_time(e: Experiment) -> list[Margins]:
    """The weights of the law against p, and three quantiles of simulated first moves against the geometric law."""
    k, beta, S = e.k, e.beta, _cross_sum(e)
    x, p = polygon(k), S / (1 + S)
    P = np.exp(log_weights(e.law, x, 0))
    cross = (P * (1 - np.eye(k))).sum(axis=1)
    weights = per_token("a token picks another with probability p", -np.abs(cross / p - 1), 256 * EPS * (1 + abs(beta)))
    log_stay = -k * math.log1p(S)
    quantiles = [math.ceil(math.log1p(-q) / log_stay) for q in (0.1, 0.5, 0.9)]
    times, _ = many_chains(e, x, 64 * quantiles[-1], lambda state, t: True)
    margins = [weights]
    for m in dict.fromkeys(quantiles):
        early, chance = int((times <= m).sum()), -math.expm1(m * log_stay)
        margins += [
            at_least(f"P(first move by step {m:.6g}) >= 1 - (1 - p)^(k {m:.6g})", early, e.runs, chance),
            at_most(f"P(first move by step {m:.6g}) <= 1 - (1 - p)^(k {m:.6g})", early, e.runs, chance),
        ]
    return margins


def _groups(e: Experiment) -> tuple[Cone, Array, NDArray[np.int64], float]:
    """Return the cone, the tokens (by default the vertices), their groups and the initial radius rho."""
    cone = cone_of(e)
    x = cone.v if e.instance["tokens"] is None else cloud(e.instance["tokens"])
    s = cone.assigned(x)
    return cone, x, s, float(np.linalg.norm(x - cone.v[s], axis=1).max())


def exits(e: Experiment) -> int:
    """Return in how many runs some token has left the open eps-neighbourhood of its group's first hull before t."""
    _, x, s, _ = _groups(e)
    groups = [(np.flatnonzero(s == a), x[s == a], Hull(x[s == a])) for a in np.unique(s)]

    def outside(state: Array, t: int = 0) -> bool:
        for members, start, body in groups:
            near = np.linalg.norm(state[members][:, None] - start[None], axis=2).min(axis=1) < e.eps
            far = state[members][~near]  # only these need the distance to the hull
            if len(far) and (np.asarray(body.distance(far)) >= e.eps).any():
                return True
        return False

    _, ends = many_chains(e, x, max(whole(e.steps, "steps", least=1) - 1, 0), outside)
    return sum(outside(end) for end in ends)


def _tokens_in_hull(e: Experiment) -> Margins:
    cone, x, _, _ = _groups(e)
    return per_token("tokens in K", depths(cone.v, x) / cone.R, 1e-9)


def _wide_enough(e: Experiment) -> Margins:
    return once("eps / gamma >= 2 diam K", e.eps / (e.gamma * cone_of(e).D) - 2, 1e-9)


def _small_radius(e: Experiment) -> Margins:
    cone, _, _, rho = _groups(e)
    return once("4 R (rho + eps) <= c0 / 2", 0.5 - 4 * cone.R * (rho + e.eps) / cone.c0, 1e-12)


def _vertices(rng: Rng, k: int) -> Array:
    """Return the vertices of a cone polytope, now and then two antipodal ones, where the constants are attained."""
    if k % 5 != 4:
        return random_simplex(rng, k)
    u = rng.standard_normal((1, int(rng.integers(1, 3))))
    return np.vstack([u, -u]) / np.linalg.norm(u)


def _any_scale(rng: Rng, k: int) -> dict[str, Any]:
    """Return one token per vertex at any scale, with beta c0 of the order of one."""
    v = _vertices(rng, k) * log_uniform(rng, 1e-2, 1e3)
    cone, gamma = Cone(v), pick(rng, (0.05, 0.1, 0.3))
    eps = 2.01 * gamma * cone.D * pick(rng, (1.0, 1.5))
    beta = log_uniform(rng, 0.01, 20.0) / cone.c0
    return {"vertices": v, "beta": beta, "gamma": gamma, "eps": eps, "steps": int(rng.integers(5, 60)), "seed": k}


Bound = Callable[[Cone, dict[str, Any]], tuple[float, float]]


def _stages(cone: Cone, given: dict[str, Any]) -> tuple[int, int, float]:
    """Return M, the number of tokens n and log binom(t - 1, M), minus infinity where that is 0."""
    M = math.ceil(given["eps"] / (given["gamma"] * cone.D))
    x = given["tokens"]
    ways = math.comb(given["steps"] - 1, M)
    return M, len(cone.v) if x is None else len(x), math.log(ways) if ways else -math.inf


def plain_bound(cone: Cone, given: dict[str, Any]) -> tuple[float, float]:
    """Return (a, b) with binom(t - 1, M) (n^2 e^{-beta c0/2})^M = e^{a - beta b}."""
    M, n, ways = _stages(cone, given)
    return ways + 2 * M * math.log(n), M * cone.c0 / 2


def staged_bound(cone: Cone, given: dict[str, Any]) -> tuple[float, float]:
    """Return (a, b) with binom(t - 1, M) prod_{j<M} n (n - 1) e^{-beta (c0 - 4R(rho + j gamma D))} = e^{a - beta b}."""
    M, n, ways = _stages(cone, given)
    x = given["tokens"]
    rho = 0.0 if x is None else float(np.linalg.norm(x - cone.v[cone.assigned(x)], axis=1).max())
    gaps = [cone.c0 - 4 * cone.R * (rho + j * given["gamma"] * cone.D) for j in range(M)]
    return ways + M * math.log(n * (n - 1)), sum(gaps)


def _close_groups(bound: Bound) -> Callable[[Rng, int], dict[str, Any]]:
    """Return a sampler of tokens at or near the vertices, with the beta that makes a bound small, but not too small."""

    def sample(rng: Rng, k: int) -> dict[str, Any]:
        v = _vertices(rng, k) * log_uniform(rng, 1e-2, 1e2)
        cone = Cone(v)
        room, centre = cone.c0 / (8 * cone.R), v.mean(axis=0) - v
        inward = centre / np.linalg.norm(centre, axis=1, keepdims=True)
        x = None if k % 3 else np.vstack([v, v + 0.2 * room * inward])
        given = {"vertices": v, "tokens": x, "gamma": pick(rng, (0.02, 0.05)), "eps": 0.75 * room}
        # Groups of several tokens move at every step: fewer steps of fewer chains.
        given |= {"steps": int(rng.integers(20, 200)), "runs": 300} if k % 3 else {"steps": 30, "runs": 60}
        a, b = bound(cone, given)
        return {**given, "beta": (a - math.log(log_uniform(rng, 1e-3, 0.3))) / b, "seed": k}

    return sample


META = {"vertices": ..., "tokens": None, "beta": 12.0, "gamma": 0.04, "eps": 0.15, "steps": 100, "runs": 300, "seed": 0}
METASTABLE = Setting(META, chain_model, _any_scale, samples=8, lengths=())
METASTABLE_PLAIN = Setting(META, chain_model, _close_groups(plain_bound), samples=6, lengths=())
METASTABLE_STAGED = Setting(META, chain_model, _close_groups(staged_bound), samples=6, lengths=())


@FW.claim(
    "metastable", "Theorem 5.4", FALSE, METASTABLE,
    """Cone polytope, tokens in K near their vertices, eps/gamma >= 2 diam K, T_2 the first time at which some token
    leaves the eps-neighbourhood of the first hull of its group: P(T_2 >= t) >=
    1 - exp[(1 + eps/gamma) log(gamma t n/eps) - beta c0 eps/(2 gamma)].""",
    plain="Tokens near their vertices stay near them for a time that grows exponentially with beta.",
    given={"cone polytope": is_cone, "tokens in K": _tokens_in_hull, "eps / gamma >= 2 diam K": _wide_enough},
    repair="metastable/repaired",
)  # fmt: skip
def metastable(e: Experiment) -> Margins:
    """Simulated chains at any scale against the printed bound, by the confidence interval of Clopper and Pearson."""
    cone, x, _, _ = _groups(e)
    ratio = e.eps / e.gamma
    exponent = (1 + ratio) * math.log(e.gamma * e.steps * len(x) / e.eps) - e.beta * cone.c0 * ratio / 2
    bound = -math.expm1(min(exponent, 0.0))
    return at_least(f"P(T_2 >= {e.steps}) >= {bound:.6g}", e.runs - exits(e), e.runs, bound)


CLOSE = {"cone polytope": is_cone, "tokens in K": _tokens_in_hull, "4 R (rho + eps) <= c0/2": _small_radius}


def _at_most_exits(e: Experiment, bound: Bound) -> Margins:
    a, b = bound(cone_of(e), e.instance)
    chance = math.exp(min(a - e.beta * b, 0.0))
    return at_most(f"P(T_2 < {e.steps}) <= {chance:.6g}", exits(e), e.runs, chance)


@FW.claim(
    "metastable/repaired", "after Theorem 5.4", DERIVED, METASTABLE_PLAIN,
    """Cone polytope, tokens in K within rho of their vertices, r = rho + eps with 4 R r <= c0/2, R = max |v|,
    D = diam K, M = ceil(eps/(gamma D)): P(T_2 < t) <= binom(t - 1, M) (n^2 e^{-beta c0/2})^M. Tokens within r of their
    vertices give at most n e^{-beta c0/2} of their weight to other groups, whose scores lie at least c0 - 4Rr below
    those of their own.""",
    plain="Tokens near their vertices stay there for a time that grows exponentially with beta: a corrected bound.",
    given=CLOSE,
)  # fmt: skip
def metastable_repaired(e: Experiment) -> list[Margins]:
    """Simulated chains against the bound, and the weights of tokens pushed by r towards other vertices."""
    cone, x, s, rho = _groups(e)
    r = rho + e.eps
    rng = np.random.default_rng([e.seed, 2])
    towards = cone.v[(s + rng.integers(1, len(cone.v), size=len(s))) % len(cone.v)] - cone.v[s]
    pushed = cone.v[s] + r * towards / np.linalg.norm(towards, axis=1, keepdims=True)
    log_P, own = log_weights(e.law, pushed, 0), s[:, None] == s[None, :]
    others = np.where(own, -np.inf, log_P)
    rounding = 64 * EPS * (1 + e.beta * cone.R**2)
    room = math.log(len(x)) - e.beta * cone.c0 / 2 - log_sum(others)
    lead = np.where(own, log_P, np.inf).min(axis=1) - others.max(axis=1)
    ahead = lead - e.beta * (cone.c0 - 4 * cone.R * r)
    return [
        _at_most_exits(e, plain_bound),
        per_token("weight of other groups <= n e^{-beta c0/2}", room, rounding),
        per_token("scores of other groups lie c0 - 4Rr below", ahead / (1 + e.beta * cone.c0), rounding),
    ]


@FW.claim(
    "metastable/staged", "after Theorem 5.4", DERIVED, METASTABLE_STAGED,
    """In the setting of fw/metastable/repaired:
    P(T_2 < t) <= binom(t - 1, M) prod_{j<M} n (n - 1) e^{-beta (c0 - 4R(rho + j gamma D))}.""",
    plain="Leaving a vertex takes many rare moves, one after another, so it is even rarer than one rare move.",
    given=CLOSE,
)  # fmt: skip
def metastable_staged(e: Experiment) -> Margins:
    """Simulated chains against the bound, by the confidence interval of Clopper and Pearson."""
    return _at_most_exits(e, staged_bound)
