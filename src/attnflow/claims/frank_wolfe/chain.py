"""The Markov chain (SA_P): first phase, metastability and exit times around the vertices of a cone polytope."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.claims.claim import DERIVED, FALSE, Setting
from attnflow.claims.experiment import Experiment
from attnflow.claims.frank_wolfe.paper import FW
from attnflow.claims.hypotheses import depths
from attnflow.claims.margins import Margins, once, per_token
from attnflow.claims.samplers import Rng, log_uniform, pick
from attnflow.claims.statistics import at_least, at_most
from attnflow.geometry.forms import EPS
from attnflow.geometry.hull import Hull
from attnflow.inputs import Array, InputError, cloud, number, whole
from attnflow.laws import Softmax
from attnflow.motions import Jumps
from attnflow.tokens import polygon


def _chain(given: dict[str, Any]) -> tuple[Softmax, Jumps]:
    return Softmax(beta=given["beta"]), Jumps(gamma=given["gamma"])


def _many(e: Experiment, x: Array, until: int, stop: Any) -> tuple[NDArray[Any], Array]:
    """Run the chains of the experiment from x; return when each stopped and where."""
    from attnflow.motions.jumps import chains

    if not isinstance(e.motion, Jumps):
        raise InputError(f"motion is {e.motion!r}, but this claim is about the chain: give Jumps(gamma=...)")
    gamma = number(e.motion.gamma, "gamma", above=0.0, most=1.0)
    rng = np.random.default_rng([e.seed, 1])
    return chains(x, e.law, gamma, until, whole(e.runs, "runs", least=1), rng, stop)


# ------------------------------------------------------------------------------------------------- the first cross-pick


def _polygons(rng: Rng, k: int) -> dict[str, Any]:
    return {
        "k": int(rng.integers(2, 7)),
        "beta": log_uniform(rng, 0.1, 60.0),
        "gamma": pick(rng, (1.0, 0.3, 0.05)),
        "seed": k,
    }


POLYGON = Setting({"k": 3, "beta": 4.0, "gamma": 0.1, "runs": 1000, "seed": 0}, _chain, _polygons, samples=8)


@FW.claim(
    "exit-time", "Section 5", DERIVED, POLYGON,
    """With one token at each vertex of the regular k-gon in the unit circle the first step at which some token moves is
    geometric with success probability 1 - (1 - p)^k, p = S/(1 + S),
    S = sum_{j=1}^{k-1} e^{-beta (1 - cos(2 pi j/k))}.""",
)  # fmt: skip
def exit_time(e: Experiment) -> list[Margins]:
    """The weights of the law against p, and three quantiles of simulated first moves against the geometric law."""
    k, beta = whole(e.k, "k", least=2), number(e.beta, "beta")
    x = polygon(k)
    S = float(np.exp(-beta * (1 - np.cos(2 * np.pi * np.arange(1, k) / k))).sum())
    p = S / (1 + S)
    P = np.exp(e.law.log_weights(x, 0))
    cross = (P * (1 - np.eye(k))).sum(axis=1)
    weights = per_token("a token picks another with probability p", -np.abs(cross / p - 1), 256 * EPS * (1 + abs(beta)))
    log_stay = k * math.log1p(-p)
    quantiles = [math.ceil(math.log1p(-q) / log_stay) for q in (0.1, 0.5, 0.9)]
    times, _ = _many(e, x, 64 * quantiles[-1], lambda state, t: True)
    margins = [weights]
    for m in dict.fromkeys(quantiles):
        early, chance = int((times <= m).sum()), -math.expm1(m * log_stay)
        margins += [
            at_least(f"P(first move by step {m:.6g}) >= 1 - (1 - p)^(k {m:.6g})", early, e.runs, chance),
            at_most(f"P(first move by step {m:.6g}) <= 1 - (1 - p)^(k {m:.6g})", early, e.runs, chance),
        ]
    return margins


# ------------------------------------------------------------------------------------------------------ cone polytopes


@dataclass(frozen=True)
class Cone:
    """A cone polytope: vertices with equal norms R, gap c0 = min_i (<v_i, v_i> - <v_i, v_j>), diameter D."""

    v: Array

    @property
    def c0(self) -> float:
        """The gap between a vertex' own score and the others'."""
        G = self.v @ self.v.T
        return float((np.diag(G)[:, None] - G)[~np.eye(len(G), dtype=bool)].min())

    @property
    def R(self) -> float:
        """The largest norm of a vertex."""
        return float(np.linalg.norm(self.v, axis=1).max())

    @property
    def sides(self) -> Array:
        """Distances between distinct vertices."""
        apart = np.linalg.norm(self.v[:, None] - self.v[None], axis=2)
        return apart[~np.eye(len(apart), dtype=bool)]

    @property
    def D(self) -> float:
        """The diameter."""
        return float(self.sides.max())

    def assigned(self, x: Array) -> NDArray[np.int64]:
        """Return sigma: the vertex whose cell each token lies in."""
        return (x @ self.v.T).argmax(axis=1)

    def margin(self) -> float:
        """Return by how much vertex cones are acute and norms equal, over the squared size."""
        v, norms = self.v, (self.v**2).sum(axis=1)
        acute = min(
            float((edges @ edges.T).min())
            for edges in (np.delete(v, i, axis=0) - v[i] for i in range(len(v)))
        )  # fmt: skip
        unequal = float(norms.max() - norms.min())
        return -unequal / self.R**2 if unequal > 1e-12 * self.R**2 else min(acute, self.c0) / self.R**2


def _cone(e: Experiment) -> Cone:
    v, x = cloud(e.vertices, "vertices"), e.instance["tokens"]
    if len(v) < 2:
        raise InputError(f"vertices holds {len(v)} point, expected the two or more vertices of a cone polytope")
    if x is not None and x.shape[1] != v.shape[1]:
        raise InputError(f"tokens have {x.shape[1]} coordinates and vertices {v.shape[1]}: give both in one space")
    return Cone(v)


def _is_cone(e: Experiment) -> Margins:
    return once("vertex cones acute, norms equal", _cone(e).margin(), 1e-12, strict=True)


def _simplex(rng: Rng, k: int) -> Array:
    """Return a random acute triangle around its circumcentre, or a regular simplex, turned."""
    d = int(rng.integers(2, 4))
    if d == 2 and k % 2:
        while True:
            angles = np.sort(rng.uniform(0, 2 * np.pi, 3))
            v = np.column_stack([np.cos(angles), np.sin(angles)])
            if Cone(v).margin() > 0.05:
                return v
    corners = np.eye(d + 1) - 1 / (d + 1)
    basis = np.linalg.svd(corners)[2][:d]
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    v = corners @ basis.T @ turn
    return v / np.linalg.norm(v, axis=1, keepdims=True)


# --------------------------------------------------------------------------------------------------------- first phase


def _starts(rng: Rng, k: int) -> dict[str, Any]:
    """Return tokens between the vertices and 0, as near to their vertex and as far from it as the start set allows."""
    v = _simplex(rng, k) * pick(rng, (1.0, 2.0, 5.0))
    cone, beta = Cone(v), log_uniform(rng, 1e4, 1e9)
    inner = float(depths(v, np.zeros((1, v.shape[1])))[0])

    def ends(beta: float) -> tuple[float, float]:
        # On the segment from v to 0 both constraints are linear in the fraction s of the way.
        eta, delta = beta**-0.125, beta**-0.25
        return 1.01 * delta / inner, 0.99 * (1 - (eta + delta * cone.D) / cone.c0)

    while np.subtract(*ends(beta)) >= 0:  # the start set is empty
        beta *= 100
    near, far = ends(beta)
    s = np.concatenate([[near, far], np.exp(rng.uniform(np.log(near), np.log(far), int(rng.integers(1, 4))))])
    tokens = v[rng.integers(len(v), size=len(s))] * (1 - s[:, None])
    return {"vertices": v, "tokens": tokens, "beta": beta, "gamma": pick(rng, (0.1, 0.3, 0.5))}


def _drawn_starts(rng: Rng, k: int) -> dict[str, Any]:
    return {**_starts(rng, k), "seed": k}


STARTS = {"vertices": ..., "tokens": ..., "beta": 1e6, "gamma": 0.1}
PHASE = Setting({**STARTS, "C": 10.0}, _chain, _starts, samples=12)
PHASE_DRAWN = Setting({**STARTS, "runs": 60, "seed": 0}, _chain, _drawn_starts, samples=6)


def _in_start_set(e: Experiment) -> Margins:
    """Every token lies in the strict dominance cone of its vertex for beta^{-1/8}, eroded by beta^{-1/4}."""
    cone, x = _cone(e), e.tokens
    eta, delta = number(e.beta, "beta", above=0.0) ** -0.125, e.beta**-0.25
    scores, s = x @ cone.v.T, cone.assigned(x)
    own = np.arange(len(x))
    apart = np.linalg.norm(cone.v[s][:, None] - cone.v[None], axis=2)
    ahead = scores[own, s][:, None] - scores - eta - delta * apart
    ahead[own, s] = np.inf
    room = np.minimum(ahead.min(axis=1) / cone.R**2, (depths(cone.v, x) - delta) / cone.R)
    return per_token("token in the eroded dominance cone", room, 1e-12)


@dataclass(frozen=True)
class _Phase:
    """The printed quantities: distances to the vertices, tau, and the configuration along the straight lines."""

    cone: Cone
    x: Array
    gamma: float

    @property
    def targets(self) -> Array:
        return self.cone.v[self.cone.assigned(self.x)]

    @property
    def distances(self) -> Array:
        return np.asarray(np.linalg.norm(self.x - self.targets, axis=1))

    @property
    def tau(self) -> float:
        fixed = min(self.cone.c0 / (2 * self.cone.D), math.sqrt(2 * self.cone.c0) / 2)
        return min(fixed, (1 - self.gamma) * float(self.distances.min()))

    def steps(self, distance: float, rounding: Any) -> int:
        """Return log(tau / distance) / log(1 - gamma), rounded; it is 1 where tau = (1 - gamma) distance."""
        if self.tau == (1 - self.gamma) * distance:
            return 1
        return int(rounding(math.log(self.tau / distance) / math.log1p(-self.gamma)))

    def line(self, t: int, gamma: float) -> Array:
        """Return all tokens, the vertices first, after t steps straight to their vertices."""
        v = self.targets
        return np.vstack([self.cone.v, v + (1 - gamma) ** t * (self.x - v)])

    def log_straight(self, law: Any, steps: int, gamma: float) -> float:
        """Return the logarithm of prod_t prod_i a_{i, sigma(i)} along the straight lines."""
        own = np.concatenate([np.arange(len(self.cone.v)), self.cone.assigned(self.x)])
        rows = np.arange(len(own))
        return float(sum(law.log_weights(self.line(t, gamma), 0)[rows, own].sum() for t in range(steps)))


def _phase(e: Experiment) -> _Phase:
    return _Phase(_cone(e), e.tokens, number(e.gamma, "gamma", above=0.0, most=math.nextafter(1, 0)))


def _off_vertices(e: Experiment) -> Margins:
    distances = _phase(e).distances
    return per_token("tokens beyond the vertices are not vertices", distances / _cone(e).R, strict=True)


STARTING = {
    "cone polytope": _is_cone, "tokens away from the vertices": _off_vertices, "tokens in the start set": _in_start_set,
}  # fmt: skip


@FW.claim(
    "first-phase", "Theorem 5.2", FALSE, PHASE,
    """Cone polytope, one token at each vertex, the others in the dominance cone of their vertex for beta^{-1/8} eroded
    by beta^{-1/4}; m the least distance of these to their vertices, tau = min(min c0/(2|v_i - v_j|), sqrt(2 c0)/2,
    (1 - gamma) m), T_1 = floor(log(tau/m)/log(1 - gamma)). With a universal constant C, for beta large, with
    probability at least 1 - beta^{-1/8}: at time T_1 all others are within C tau of their vertices.""",
    given=STARTING,
    repair="first-phase/repaired",
)  # fmt: skip
def first_phase(e: Experiment) -> Margins:
    """The probability that all tokens run straight, a product of weights, and where that leads by time T_1.

    On the straight lines the farthest token needs the constant (1 - gamma)^{T_1} max |x - v| / tau. If that is more
    than C the claim fails with at least the probability of the straight lines.
    """
    phase = _phase(e)
    T = phase.steps(float(phase.distances.min()), math.floor)
    gamma = number(e.motion.gamma, "gamma")  # type: ignore[attr-defined]
    needed = (1 - gamma) ** T * float(phase.distances.max()) / phase.tau
    straight, allowed = math.exp(phase.log_straight(e.law, T, gamma)), e.beta**-0.125
    what = f"at T_1 = {T} tokens are within C tau (they need C = {needed:.3g}) with probability 1 - beta^(-1/8)"
    if needed > e.C:
        decided, value = straight > allowed, allowed - straight
    else:
        decided, value = straight >= 1 - allowed, straight - (1 - allowed)
    return once(what, value if decided else 0.0, 1e-9 if decided else 1.0, strict=True)


@FW.claim(
    "first-phase/repaired", "after Theorem 5.2", DERIVED, PHASE_DRAWN,
    """In the setting of fw/first-phase let T = ceil(log(tau/m_max)/log(1 - gamma)), m_max the largest distance of a
    token to its vertex. At time T all vertices are unmoved and all other tokens within tau of their vertices with
    probability at least prod_{t<T} prod_i a_{i, sigma(i)}, the weights taken along the straight lines.""",
    given=STARTING,
)  # fmt: skip
def first_phase_repaired(e: Experiment) -> Margins:
    """Simulated chains against the product of weights, by the confidence interval of Clopper and Pearson."""
    phase = _phase(e)
    T = phase.steps(float(phase.distances.max()), math.ceil)
    chance = math.exp(phase.log_straight(Softmax(beta=e.beta), T, phase.gamma))
    start, v, k = phase.line(0, phase.gamma), phase.targets, len(phase.cone.v)
    _, ends = _many(e, start, T, lambda state, t: False)
    still = (ends[:, :k] == phase.cone.v).all(axis=(1, 2))
    close = (np.linalg.norm(ends[:, k:] - v, axis=2) <= phase.tau * (1 + 1e-12)).all(axis=1)
    return at_least(f"P(arrived by step {T}) >= {chance:.6g}", int((still & close).sum()), e.runs, chance)


# ------------------------------------------------------------------------------------------------------- metastability


def _groups(e: Experiment) -> tuple[Cone, Array, NDArray[np.int64], float]:
    """Return the cone, the tokens (by default the vertices), their groups and the initial radius rho."""
    cone = _cone(e)
    x = cone.v if e.instance["tokens"] is None else cloud(e.instance["tokens"])
    s = cone.assigned(x)
    return cone, x, s, float(np.linalg.norm(x - cone.v[s], axis=1).max())


def _exits(e: Experiment) -> int:
    """Return in how many runs some token has left the open eps-neighbourhood of its group's first hull before t."""
    _, x, s, _ = _groups(e)
    groups = [(np.flatnonzero(s == a), x[s == a], Hull(x[s == a])) for a in np.unique(s)]

    def outside(state: Array, t: int = 0) -> bool:
        for members, start, body in groups:
            near = np.linalg.norm(state[members][:, None] - start[None], axis=2).min(axis=1) < e.instance["eps"]
            far = state[members][~near]  # only these need the distance to the hull
            if len(far) and (np.asarray(body.distance(far)) >= e.instance["eps"]).any():
                return True
        return False

    _, ends = _many(e, x, max(whole(e.steps, "steps", least=1) - 1, 0), outside)
    return sum(outside(end) for end in ends)


def _tokens_in_hull(e: Experiment) -> Margins:
    cone, x, _, _ = _groups(e)
    return per_token("tokens in K", depths(cone.v, x) / cone.R, 1e-9)


def _wide_enough(e: Experiment) -> Margins:
    cone, *_ = _groups(e)
    return once("eps / gamma >= 2 diam K", e.instance["eps"] / (e.gamma * cone.D) - 2, 1e-9)


def _small_radius(e: Experiment) -> Margins:
    cone, _, _, rho = _groups(e)
    return once("4 R (rho + eps) <= c0 / 2", 0.5 - 4 * cone.R * (rho + e.instance["eps"]) / cone.c0, 1e-12)


def _any_scale(rng: Rng, k: int) -> dict[str, Any]:
    """Return one token per vertex at any scale, with beta c0 of the order of one."""
    v = _simplex(rng, k) * log_uniform(rng, 1e-2, 1e3)
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


def _plain_bound(cone: Cone, given: dict[str, Any]) -> tuple[float, float]:
    """Return (a, b) with binom(t - 1, M) (n^2 e^{-beta c0/2})^M = e^{a - beta b}."""
    M, n, ways = _stages(cone, given)
    return ways + 2 * M * math.log(n), M * cone.c0 / 2


def _staged_bound(cone: Cone, given: dict[str, Any]) -> tuple[float, float]:
    """Return (a, b) with binom(t - 1, M) prod_{j<M} n (n - 1) e^{-beta (c0 - 4R(rho + j gamma D))} = e^{a - beta b}."""
    M, n, ways = _stages(cone, given)
    x = given["tokens"]
    rho = 0.0 if x is None else float(np.linalg.norm(x - cone.v[cone.assigned(x)], axis=1).max())
    gaps = [cone.c0 - 4 * cone.R * (rho + j * given["gamma"] * cone.D) for j in range(M)]
    return ways + M * math.log(n * (n - 1)), sum(gaps)


def _close_groups(bound: Bound) -> Callable[[Rng, int], dict[str, Any]]:
    """Return a sampler of tokens at or near the vertices, with the beta that makes a bound small, but not too small."""

    def sample(rng: Rng, k: int) -> dict[str, Any]:
        v = _simplex(rng, k) * log_uniform(rng, 1e-2, 1e2)
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
METASTABLE = Setting(META, _chain, _any_scale, samples=8)
METASTABLE_PLAIN = Setting(META, _chain, _close_groups(_plain_bound), samples=6)
METASTABLE_STAGED = Setting(META, _chain, _close_groups(_staged_bound), samples=6)


@FW.claim(
    "metastable", "Theorem 5.4", FALSE, METASTABLE,
    """Cone polytope, tokens in K near their vertices, eps/gamma >= 2 diam K, T_2 the first time at which some token
    leaves the eps-neighbourhood of the first hull of its group: P(T_2 >= t) >=
    1 - exp[(1 + eps/gamma) log(gamma t n/eps) - beta c0 eps/(2 gamma)].""",
    given={"cone polytope": _is_cone, "tokens in K": _tokens_in_hull, "eps / gamma >= 2 diam K": _wide_enough},
    repair="metastable/repaired",
)  # fmt: skip
def metastable(e: Experiment) -> Margins:
    """Simulated chains at any scale against the printed bound, by the confidence interval of Clopper and Pearson."""
    cone, x, _, _ = _groups(e)
    ratio = e.instance["eps"] / e.gamma
    exponent = (1 + ratio) * math.log(e.gamma * e.steps * len(x) / e.instance["eps"]) - e.beta * cone.c0 * ratio / 2
    bound = -math.expm1(min(exponent, 0.0))
    return at_least(f"P(T_2 >= {e.steps}) >= {bound:.6g}", e.runs - _exits(e), e.runs, bound)


CLOSE = {"cone polytope": _is_cone, "tokens in K": _tokens_in_hull, "4 R (rho + eps) <= c0/2": _small_radius}


def _at_most_exits(e: Experiment, bound: Bound) -> Margins:
    a, b = bound(_cone(e), e.instance)
    chance = math.exp(min(a - e.beta * b, 0.0))
    return at_most(f"P(T_2 < {e.steps}) <= {chance:.6g}", _exits(e), e.runs, chance)


@FW.claim(
    "metastable/repaired", "after Theorem 5.4", DERIVED, METASTABLE_PLAIN,
    """Cone polytope, tokens in K within rho of their vertices, r = rho + eps with 4 R r <= c0/2, R = max |v|,
    D = diam K, M = ceil(eps/(gamma D)): P(T_2 < t) <= binom(t - 1, M) (n^2 e^{-beta c0/2})^M. Tokens within r of their
    vertices give at most n e^{-beta c0/2} of their weight to other groups.""",
    given=CLOSE,
)  # fmt: skip
def metastable_repaired(e: Experiment) -> list[Margins]:
    """Simulated chains against the bound, and the weights of tokens pushed by r towards other vertices."""
    cone, x, s, rho = _groups(e)
    log_cross = _log_cross(e, _pushed(e, cone, s, rho + e.instance["eps"]), s)
    room = math.log(len(x)) - e.beta * cone.c0 / 2 - log_cross
    facts = per_token("weight of other groups <= n e^{-beta c0/2}", room, 64 * EPS * (1 + e.beta * cone.R**2))
    return [_at_most_exits(e, _plain_bound), facts]


def _pushed(e: Experiment, cone: Cone, s: NDArray[np.int64], r: float) -> Array:
    """Return tokens at distance r from their vertices, each towards another vertex."""
    rng = np.random.default_rng([e.seed, 2])
    other = (s + rng.integers(1, len(cone.v), size=len(s))) % len(cone.v)
    towards = cone.v[other] - cone.v[s]
    return cone.v[s] + r * towards / np.linalg.norm(towards, axis=1, keepdims=True)


def _log_cross(e: Experiment, x: Array, s: NDArray[np.int64]) -> Array:
    """Return the logarithm of the weight that each token gives to other groups."""
    log_P = np.where(s[:, None] == s[None, :], -np.inf, e.law.log_weights(x, 0))
    top = np.maximum(log_P.max(axis=1), -1e300)
    return np.asarray(top + np.log(np.exp(log_P - top[:, None]).sum(axis=1)))


@FW.claim(
    "metastable/staged", "after Theorem 5.4", DERIVED, METASTABLE_STAGED,
    """In the setting of fw/metastable/repaired:
    P(T_2 < t) <= binom(t - 1, M) prod_{j<M} n (n - 1) e^{-beta (c0 - 4R(rho + j gamma D))}.""",
    given=CLOSE,
)  # fmt: skip
def metastable_staged(e: Experiment) -> Margins:
    """Simulated chains against the bound, by the confidence interval of Clopper and Pearson."""
    return _at_most_exits(e, _staged_bound)
