"""The first phase of the Markov chain (SA_P): tokens run straight to the vertices of a cone polytope."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.claims.claim import DERIVED, FALSE, Setting
from attnflow.claims.experiment import Experiment
from attnflow.claims.frank_wolfe.cone import Cone, chain_model, cone_of, is_cone, log_sum, many_chains, random_simplex
from attnflow.claims.frank_wolfe.paper import FW
from attnflow.claims.hypotheses import depths
from attnflow.claims.margins import Margins, Undecided, once, per_token, unknown
from attnflow.claims.samplers import Rng, log_uniform, pick
from attnflow.claims.statistics import at_least
from attnflow.core.indices import log_weights
from attnflow.core.inputs import Array, number
from attnflow.geometry.forms import EPS
from attnflow.laws import Softmax


def _starts(rng: Rng, k: int) -> dict[str, Any]:
    """Return tokens between the vertices and 0, as near to their vertex and as far from it as the start set allows."""
    v = random_simplex(rng, k) * pick(rng, (1.0, 2.0, 5.0))
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


STARTS = {"vertices": ..., "tokens": ..., "beta": 1e6, "gamma": 0.1}
PHASE = Setting({**STARTS, "C": 10.0}, chain_model, _starts, samples=12, lengths=())
PHASE_DRAWN = Setting(
    {**STARTS, "runs": 60, "seed": 0}, chain_model, lambda rng, k: {**_starts(rng, k), "seed": k}, samples=6, lengths=()
)


def _in_start_set(e: Experiment) -> Margins:
    """Every token lies in the strict dominance cone of its vertex for beta^{-1/8}, eroded by beta^{-1/4}."""
    cone, x = cone_of(e), e.tokens
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

    @property
    def own(self) -> NDArray[np.int64]:
        """The vertex token that each token, the vertices first, should pick."""
        return np.concatenate([np.arange(len(self.cone.v)), self.cone.assigned(self.x)])

    def log_cross(self, law: Any, t: int) -> Array:
        """Return the logarithm of the weight that each token gives to all but its vertex, after t straight steps."""
        log_P = log_weights(law, self.line(t, self.gamma), 0).copy()
        log_P[np.arange(len(self.own)), self.own] = -np.inf
        return log_sum(log_P)

    def log_straight(self, law: Any, steps: int, gamma: float) -> float:
        """Return the logarithm of prod_t prod_i a_{i, sigma(i)} along the straight lines."""
        own, rows = self.own, np.arange(len(self.own))
        return float(sum(log_weights(law, self.line(t, gamma), 0)[rows, own].sum() for t in range(steps)))


def _phase(e: Experiment) -> _Phase:
    return _Phase(cone_of(e), e.tokens, number(e.gamma, "gamma", above=0.0, most=math.nextafter(1, 0)))


def _off_vertices(e: Experiment) -> Margins:
    distances = _phase(e).distances
    return per_token("tokens beyond the vertices are not vertices", distances / cone_of(e).R, strict=True)


STARTING = {
    "cone polytope": is_cone, "tokens away from the vertices": _off_vertices, "tokens in the start set": _in_start_set,
}  # fmt: skip


@FW.claim(
    "first-phase", "Theorem 5.2", FALSE, PHASE,
    """Cone polytope, one token at each vertex, the others in the dominance cone of their vertex for beta^{-1/8} eroded
    by beta^{-1/4}; m the least distance of these to their vertices, tau = min(min c0/(2|v_i - v_j|), sqrt(2 c0)/2,
    (1 - gamma) m), T_1 = floor(log(tau/m)/log(1 - gamma)). With a universal constant C, for beta large, with
    probability at least 1 - beta^{-1/8}: at time T_1 the vertices are within beta^{-1/4} of where they were and all
    others within C tau of their vertices.""",
    plain="With high probability tokens first gather at the vertices of their cells, in a known number of steps.",
    given={**STARTING, "C > 1": lambda e: once("C > 1", e.C - 1, strict=True)},
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
    if abs(needed - e.C) <= 1e-9 * needed:
        return unknown(what, Undecided("the constant that tokens need is C up to rounding", "give another C"))
    if needed > e.C:
        decided, value = straight > allowed, allowed - straight
    else:
        decided, value = straight >= 1 - allowed, straight - (1 - allowed)
    if not decided:
        rare = Undecided(f"straight lines have probability {straight:.3g}, too little to tell", "give a larger beta")
        return unknown(what, rare)
    return once(what, value, 1e-9, strict=True)


@FW.claim(
    "first-phase/repaired", "after Theorem 5.2", DERIVED, PHASE_DRAWN,
    """In the setting of fw/first-phase let T = ceil(log(tau/m_max)/log(1 - gamma)), m_max the largest distance of a
    token to its vertex. At time T all vertices are unmoved and all other tokens within tau of their vertices with
    probability at least prod_{t<T} prod_i a_{i, sigma(i)}, the weights taken along the straight lines.""",
    plain="With at least a known probability all tokens come close to their vertices while the vertices rest.",
    given=STARTING,
)  # fmt: skip
def first_phase_repaired(e: Experiment) -> list[Margins]:
    """The weights of the law along the straight lines, which make the product, and simulated chains against it."""
    phase = _phase(e)
    T = phase.steps(float(phase.distances.max()), math.ceil)
    softmax = Softmax(beta=e.beta)
    chance = math.exp(phase.log_straight(softmax, T, phase.gamma))
    cross = np.array([phase.log_cross(softmax, t) - phase.log_cross(e.law, t) for t in range(T)])
    rounding = 64 * EPS * (1 + e.beta * phase.cone.R**2)
    what = f"other tokens have the weight along the lines that softmax gives them, or less (by step {T})"
    straight = Margins(what, cross, np.arange(T), rounding)
    start, v, k = phase.line(0, phase.gamma), phase.targets, len(phase.cone.v)
    _, ends = many_chains(e, start, T, lambda state, t: False)
    still = (ends[:, :k] == phase.cone.v).all(axis=(1, 2))
    close = (np.linalg.norm(ends[:, k:] - v, axis=2) <= phase.tau * (1 + 1e-12)).all(axis=1)
    drawn = at_least(f"P(arrived by step {T}) >= {chance:.6g}", int((still & close).sum()), e.runs, chance)
    return [straight, drawn]
