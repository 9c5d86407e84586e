"""Self-attention on the sphere: energy, hemispheres, collapse, equiangular starts, metastable caps.

SA is x_i' = Proj_{x_i} sum_j e^{beta <B x_i, x_j>} x_j / Z_i, Proj_x y = y - <x, y> x; USA has n in the place of Z_i.
In words of both, a_ij is the weight of token j in the velocity of token i.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, comb, exp
from typing import Any, ClassVar

import numpy as np

from attnflow.claims.claim import DERIVED, FALSE, OPEN, PROVED, Paper, Setting
from attnflow.claims.experiment import Experiment
from attnflow.claims.margins import Margins, once, per_token
from attnflow.claims.samplers import Rng, any_form, cloud, log_uniform, pick
from attnflow.claims.statistics import at_least, at_most
from attnflow.geometry.forms import EPS
from attnflow.geometry.linkage import Labels, single_linkage
from attnflow.geometry.nearest import distance, nearest
from attnflow.inputs import Array, InputError, number, whole
from attnflow.inputs import cloud as rows_of
from attnflow.laws import Hearing, Law, Softmax
from attnflow.motions import ContinuousMotion, SphereFlow, SphereLayers
from attnflow.simulate import simulate
from attnflow.trajectory import Trajectory
from attnflow.watch import Clustered, When

SPHERE = Paper(
    "sphere", "Geshkovski, Letrouit, Polyanskiy, Rigollet", "A mathematical perspective on Transformers", "2312.10794"
)
METASTABLE = Paper(
    "sphere", "Geshkovski, Koubbi, Polyanskiy, Rigollet", "Dynamic metastability in the self-attention model",
    "2410.06833",
)  # fmt: skip

# Pairs closer than this, in 1 - <x_i, x_j>, are left to rounding.
FLOOR = 1e-12
# Tokens this close move as one: their distance has shrunk by this factor, and goes on shrinking.
MERGED = 1e-8
# A pair counts as merged from this inner product on.
MERGE = 0.999


def _model(given: dict[str, Any]) -> tuple[Softmax, SphereFlow]:
    beta = number(given["beta"], "beta")
    return Softmax(beta=beta, B=given.get("B")), SphereFlow(normalized=given.get("normalized", True))


# Clouds on the sphere


def _unit(x: Array) -> Array:
    """Return the tokens divided by their norms; those at 0 go to the first pole."""
    x = x.copy()
    x[~x.any(axis=1), 0] = 1.0
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _on_sphere(rng: Rng, k: int, n: int | None = None, d: int | None = None) -> Array:
    d = int(rng.integers(2, 5)) if d is None else d
    return _unit(cloud(rng, k, n, d))


def _in_hemisphere(rng: Rng, k: int) -> Array:
    """Return the k-th kind of cloud, reflected and pushed into an open hemisphere."""
    x = _on_sphere(rng, k)
    w = _unit(rng.standard_normal((1, x.shape[1])))[0]
    x = np.where((x @ w < 0)[:, None], -x, x)
    return _unit(x + pick(rng, (0.05, 0.2, 1.0)) * w)


def _rotation(rng: Rng, d: int) -> Array:
    return np.asarray(np.linalg.qr(rng.standard_normal((d, d)))[0])


# Quantities of a run


def _gaps(x: Array) -> Array:
    """Return 1 - <x_i, x_j> for all pairs as |x_i - x_j|^2 / 2, to full relative precision near 0."""
    apart = x[..., :, None, :] - x[..., None, :, :]
    return (apart * apart).sum(axis=-1) / 2


def _size(e: Experiment) -> float:
    """Return beta |B|, the largest score up to its sign."""
    return abs(e.beta) * (1.0 if e.instance.get("B") is None else float(np.linalg.norm(e.form(), 2)))


def _axis(x: Array) -> tuple[Array, float]:
    """Return the direction w with the largest min_i <x_i, w>, and that minimum: 0 if no hemisphere is open enough."""
    foot = nearest(x, np.zeros(x.shape[1]))[1] @ x
    length = float(np.linalg.norm(foot))
    w = foot / length if length > 0 else foot
    return w, float((x @ w).min())


def _pole(e: Experiment) -> Array:
    """Return the w that was given, or the axis of the tokens at the start."""
    if e.w is None:
        return _axis(e.tokens)[0]
    w = rows_of(np.reshape(e.w, (1, -1)), "w")[0]
    if w.shape != (e.shape[1],) or not w.any():
        raise InputError(f"w has {w.size} coordinates, expected a direction of dimension {e.shape[1]}: give w=[...]")
    return np.asarray(w / np.linalg.norm(w))


def _integration(e: Experiment) -> float:
    """Return how far the integrator may be off between two records, beside the difference from a rerun."""
    return 0.0 if e.motion.discrete else 8 * e.rtol


def _lowest_never_falls(e: Experiment) -> Margins:
    """min_i <x_i, w> from each time to the next."""
    lowest = (e.states @ _pole(e)).min(axis=1)
    tol = 16 * e.shape[1] * EPS + _integration(e)
    return Margins("min_i <x_i, w> never decreases", np.diff(lowest), e.times[:-1], tol)


def _open_hemisphere(e: Experiment) -> Margins:
    """<x_i, w> > 0 for all i, w the best direction or the one given."""
    return per_token("<x_i, w> > 0", e.tokens @ _pole(e), 1e-12, strict=True)


def _least_weight(e: Experiment, gap: Array) -> Array:
    """Return a lower bound of all a_ij while 1 - <x_i, x_j> <= gap for all pairs."""
    n = e.shape[0]
    plain = e.instance.get("B") is None
    if e.normalized:
        spread = abs(e.beta) * gap if plain else _size(e) * np.sqrt(2 * gap)
        return 1 / (1 + (n - 1) * np.exp(spread))
    least = np.minimum(e.beta * (1 - gap), e.beta) if plain else np.full(gap.shape, -_size(e))
    return np.asarray(np.exp(least) / n)


def _acute_contracts(e: Experiment) -> Margins:
    """Return by how much c = min <x_i, x_j>, once positive, grows faster than c' >= 2 min a_ij c (1 - c).

    For a pair where the minimum is attained, <x_i, x_j>' = sum_k a_ik (<x_k, x_j> - <x_i, x_k> c) + the same with i
    and j exchanged; each term is at least a_ik c (1 - <x_i, x_k>), and that of k = j is a_ij c (1 - c) or more.
    So log(c / (1 - c)) grows at least at the rate 2 min a_ij, and c tends to 1.
    """
    gap = _gaps(e.states).max(axis=(1, 2))
    before, after = gap[:-1], gap[1:]
    usable = (before < 1 - 1e-9) & (before > FLOOR) & (after > FLOOR)
    u, v = np.where(usable, before, 0.5), np.where(usable, np.minimum(after, 1 - EPS), 0.5)
    gain = np.log((1 - v) / v) - np.log((1 - u) / u)
    margin = np.where(usable, gain - 2 * _least_weight(e, u) * np.diff(e.times), 1.0)
    what = "log(c / (1 - c)), c = min <x_i, x_j> > 0, grows at the rate 2 min a_ij or faster"
    return Margins(what, margin, e.times[:-1], _integration(e) / (np.sqrt(np.minimum(u, v)) * (1 - u)))


def _local_rate(e: Experiment) -> Margins:
    """Return by how much the decay of every 1 - <x_i, x_j> keeps within an explicit distance of the local rate.

    With eta = max (1 - <x_i, x_j>) and s = beta |B|, SA has |(log(1 - <x_i, x_j>))' + 2| <= (2 + 8 s) eta as long as
    2 s eta <= 1. USA has the rate 2 a, a = e^{beta <B x, x>}, up to 2 a (q - 1) + a q (2 eta + 6 s delta), with
    delta^2 = 2 eta and q = e^{2 s delta}, as long as s delta <= 1.
    """
    gaps, s, step = _gaps(e.states), _size(e), np.diff(e.times)
    eta = gaps.max(axis=(1, 2))[:-1]
    if e.normalized:
        rate, error = np.full(eta.shape, 2.0), (2 + 8 * s) * eta
    else:
        first = e.states[:-1, 0]
        a, delta = np.exp(e.beta * ((first @ e.form().T) * first).sum(axis=1)), np.sqrt(2 * eta)
        q = np.exp(np.minimum(2 * s * delta, 50))
        rate, error = 2 * a, 2 * a * (q - 1) + a * q * (2 * eta + 6 * s * delta)
    near = (error <= rate / 4) & (s * np.sqrt(2 * eta) <= 1)
    usable = near[:, None, None] & (gaps[:-1] > FLOOR) & (gaps[1:] > FLOOR)
    u, v = np.where(usable, gaps[:-1], 1.0), np.where(usable, gaps[1:], 1.0)
    off = np.where(usable, np.abs(np.log(v / u) + (rate * step)[:, None, None]), 0.0).max(axis=(1, 2))
    least = np.minimum(u, v).min(axis=(1, 2))
    margin = np.where(usable.any(axis=(1, 2)), (error * step - off) / (rate * step), 1.0)
    what = "near consensus 1 - <x_i, x_j> decays like e^{-2t}, or e^{-2 e^{beta <Bx,x>} t} for USA, up to O(its size)"
    return Margins(what, margin, e.times[:-1], _integration(e) / np.sqrt(least) / (rate * step))


# Energy


def _positive_beta(e: Experiment) -> Margins:
    """Beta > 0."""
    return once("beta > 0", e.beta, strict=True)


def _energetic(rng: Rng, k: int) -> dict[str, Any]:
    normalized, beta = k % 3 != 2, log_uniform(rng, 0.05, 9.0 if k % 3 != 2 else 3.0)
    until = log_uniform(rng, 0.5, 20.0) * (1.0 if normalized else exp(-beta))
    return {"tokens": _on_sphere(rng, k), "beta": beta, "until": until, "normalized": normalized}


ENERGY = Setting({"tokens": ..., "beta": 1.0, "normalized": True, "until": 10.0}, _model, _energetic, samples=12)

# The integral of the dissipation is taken by Gauss's rule on panels this long, in units of the fastest rate.
PANEL, FEWEST_PANELS, MOST_PANELS, NODES = 1.0, 16, 512, 6
IDENTITY = 1e-8


def _dissipation(e: Experiment, x: Array) -> tuple[Array, Array]:
    """Return F = n^{-2} sum_ij e^{beta (<x_i, x_j> - 1)}, which is 2 beta e^{-beta} E, and F' by the formula."""
    n = e.shape[0]
    scores = np.exp(-e.beta * _gaps(x))
    pull = scores @ x / n
    u = pull - (pull * x).sum(axis=-1, keepdims=True) * x
    Z = scores.mean(axis=-1)
    speeds = (u * u).sum(axis=-1)
    dissipated = (speeds / Z).mean(axis=-1) if e.normalized else np.exp(e.beta) * speeds.mean(axis=-1)
    return Z.mean(axis=-1), 2 * e.beta * dissipated


@SPHERE.claim(
    "energy", "Section 3", PROVED, ENERGY,
    """For beta > 0 the energy E = (2 beta n^2)^{-1} sum_ij e^{beta <x_i, x_j>} never decreases, is largest exactly at
    consensus, and E(t) - E(s) is the integral from s to t of n^{-2} sum_i Z_i |x_i'|^2 (SA), of n^{-1} sum_i |x_i'|^2
    (USA), where x_i' is the velocity of the model.""",
    given={"beta > 0": _positive_beta},
)  # fmt: skip
def energy(e: Experiment) -> list[Margins]:
    """The gain of energy along the run against the integral of the formula by Gauss's rule, in units of its maximum."""
    fastest = (1 + e.beta) * (1.0 if e.normalized else exp(e.beta))
    panels = int(np.clip(ceil(fastest * e.horizon / PANEL), FEWEST_PANELS, MOST_PANELS))
    ends = np.linspace(0, e.horizon, panels + 1)
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    inner = ends[:-1, None] + np.diff(ends)[:, None] * (1 + nodes) / 2
    record = np.sort(np.concatenate([ends[1:], inner.ravel()]))
    states = e.evolve(e.tokens, e.horizon, record=record).tokens
    F, rate = _dissipation(e, states)
    per_panel = rate[1:].reshape(panels, NODES + 1)[:, :-1]
    integral = per_panel @ weights * np.diff(ends) / 2
    # A rule on every other node, exact for quadratics only, tells how fine the panels are.
    coarse = per_panel[:, ::2] @ _weights(nodes[::2]) * np.diff(ends) / 2
    at_ends = F[:: NODES + 1]
    gain, when = np.diff(at_ends), ends[:-1]
    rounding = 64 * EPS * (1 + e.beta) + _integration(e)
    # It is of order 3 and the full one of order 12, so that the cube of its relative error is a generous bound.
    off = np.abs(integral - coarse)
    doubt = off * np.minimum(off / np.maximum(np.abs(integral), EPS), 1) ** 2 + rounding
    return [
        Margins("the energy never decreases", np.diff(F), record_times(record), rounding),
        Margins("E <= e^beta / (2 beta), its value at consensus", 1 - at_ends, ends, rounding),
        Margins(
            "E(t) - E(s) is the integral of its rate", IDENTITY - np.abs(gain - integral), when, doubt, strict=True
        ),
    ]


def record_times(record: Array) -> Array:
    """Return the start of each interval between records."""
    return np.concatenate([[0.0], record[:-1]])


def _weights(nodes: Array) -> Array:
    """Return the weights of the rule on [-1, 1] with these nodes."""
    powers = np.arange(len(nodes))
    moments = (1 - (-1.0) ** (powers + 1)) / (powers + 1)
    return np.asarray(np.linalg.solve(np.vander(nodes, increasing=True).T, moments))


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
    found = sum(_axis(_unit(rng.standard_normal((n, d))))[1] > EPS for _ in range(draws))
    what = f"{n} uniform tokens lie in a hemisphere with Wendel's probability"
    return [at_least(what, found, draws, wendel(n, d)), at_most(what, found, draws, wendel(n, d))]


def _hemispherical(rng: Rng, k: int) -> dict[str, Any]:
    x = _in_hemisphere(rng, k)
    B = any_form(rng, k // 3, x.shape[1]) if k % 3 else None
    beta = log_uniform(rng, 0.05, 3.0) / (1.0 if B is None else max(float(np.linalg.norm(B, 2)), 1e-3))
    draws = 200 if k % 8 == 0 else 0
    return {"tokens": x, "B": B, "beta": beta, "normalized": k % 4 != 3, "until": 30.0, "draws": draws}


HEMISPHERE = Setting(
    {"tokens": ..., "B": None, "beta": 1.0, "normalized": True, "until": 40.0, "w": None, "draws": 0, "seed": 0},
    _model,
    _hemispherical,
    samples=8,
)


@SPHERE.claim(
    "hemisphere", "Section 6, cone collapse", PROVED, HEMISPHERE,
    """If all <x_i(0), w> > 0 for some w, then for V = I and every constant Q, K (B = K^T Q) the least <x_i, w> never
    decreases and the tokens converge to one point exponentially; in the end 1 - <x_i, x_j> decays like e^{-2t} (SA),
    e^{-2 e^{beta <Bx,x>} t} (USA). n uniform tokens lie in a hemisphere with probability
    2^{-(n-1)} sum_{k<d} C(n-1, k).""",
    given={"an open hemisphere": _open_hemisphere},
)  # fmt: skip
def hemisphere(e: Experiment) -> list[Margins]:
    """Every recorded step, against the differential inequalities that force the collapse once all <x_i, x_j> > 0."""
    acute = 1 - float(_gaps(e.states[-1]).max())
    return [
        _lowest_never_falls(e),
        _acute_contracts(e),
        _local_rate(e),
        once(
            "all <x_i, x_j> > 0 at the end, so that they tend to 1",
            max(acute, 0.0),
            1e-9,
            time=e.times[-1],
            strict=True,
        ),
        *_frequency_of_hemispheres(e),
    ]


@dataclass(frozen=True, eq=False)
class FixedWeights(Law):
    """Attention with one row-stochastic matrix P, wherever the tokens are."""

    P: Array

    def log_weights(
        self, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None
    ) -> Array:
        """Return log P."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.P))


def _layers(given: dict[str, Any]) -> tuple[Law, SphereLayers]:
    motion = SphereLayers(dt=given["dt"])
    if given["P"] is None:
        return Softmax(beta=given["beta"], B=given["B"]), motion
    P, n = rows_of(given["P"], "P"), len(given["tokens"])
    if P.shape != (n, n) or P.min() < 0 or np.abs(P.sum(axis=1) - 1).max() > 1e-12:
        raise InputError(f"P is no row-stochastic matrix of {n} tokens: give n rows of weights >= 0 that sum to 1")
    return FixedWeights(P), motion


def _hemispherical_layers(rng: Rng, k: int) -> dict[str, Any]:
    x = _in_hemisphere(rng, k)
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
    _layers,
    _hemispherical_layers,
)


@SPHERE.claim(
    "hemisphere-discrete", "after Section 6, cone collapse", DERIVED, HEMISPHERE_LAYERS,
    """If all <x_i^0, w> > 0, then under x_i <- (x_i + dt m_i) / |x_i + dt m_i|, m_i = sum_j P_ij x_j, the least
    <x_i, w> never decreases, for every dt > 0 and every row-stochastic P: softmax of any scores, or any matrix.""",
    given={"an open hemisphere": _open_hemisphere},
)  # fmt: skip
def hemisphere_discrete(e: Experiment) -> Margins:
    """The least <x_i, w> after every step against the step before."""
    return _lowest_never_falls(e)


# Collapse


def _velocity(e: Experiment, x: Array) -> Array | None:
    """Return the velocity of the model at x; None for models in steps."""
    return e.motion.velocity(Hearing(e.law), x, 0.0) if isinstance(e.motion, ContinuousMotion) else None


def _at_rest(e: Experiment) -> tuple[float, float]:
    """Return (value, tol): the largest speed at the start; minus the largest 1 - <x_i, x_j> if all speeds vanish.

    A speed vanishes if it is within rounding of 0 while the pulls a_ij |Proj_{x_i} x_j| that it sums are far above
    rounding, or are all 0. Pulls too small to see, as at large beta, leave the start undecided: value 0.
    """
    x = _unit(e.tokens)
    velocity = _velocity(e, x)
    gaps = _gaps(x)
    if velocity is None or gaps.max() <= 1e-9:
        return 1.0, 0.0
    scores = e.beta * (1 - gaps)
    largest = 1.0 if e.normalized else float(np.exp(scores.max()))
    pulls = np.exp(scores - (scores.max(axis=1, keepdims=True) if e.normalized else 0.0))
    pulls /= pulls.sum(axis=1, keepdims=True) if e.normalized else len(x)
    across = np.sqrt(np.clip(gaps * (2 - gaps), 0, None))
    across[(gaps <= 1e-14) | (gaps >= 2 - 1e-14)] = 0.0
    pulled = (pulls * across).sum(axis=1)
    speed, bound = float(np.linalg.norm(velocity, axis=1).max()), 64 * len(x) * EPS * largest
    if speed > bound:
        return speed / largest, bound / largest
    told = (pulled > 1e-6 * largest) | ~across.any(axis=1)
    return (-float(gaps.max()), 0.0) if told.all() else (0.0, bound / largest)


def _moving(e: Experiment) -> Margins:
    """The start is not stationary, or is consensus already."""
    what = "the start is not at rest: velocities vanish up to rounding, by symmetry, away from consensus; this"
    value, tol = _at_rest(e)
    return once(what, value, max(tol, 1e-300), strict=True)


def _attracting(e: Experiment, x: Array) -> float:
    """Return at which rate x, at rest up to rotations, attracts its neighbours; 0 if it does not.

    All eigenvalues of the linearised flow on the tangent space have negative real parts, save those of rotations.
    """
    velocity = _velocity(e, x)
    n, d = x.shape
    if velocity is None:
        return 0.0
    frames = [np.linalg.svd(np.eye(d) - np.outer(p, p))[0][:, : d - 1] for p in x]
    basis = np.zeros((n * (d - 1), n, d))
    for i, frame in enumerate(frames):
        basis[i * (d - 1) : (i + 1) * (d - 1), i] = frame.T
    h = 1e-5
    slopes = [(_velocity(e, _unit(x + h * b)), _velocity(e, _unit(x - h * b))) for b in basis]
    J = np.array([[((up - down) * c).sum() / (2 * h) for c in basis] for up, down in slopes])  # type: ignore[operator]
    values = np.linalg.eigvals(J)
    scale = float(np.abs(values).max()) or 1.0
    turns = [x @ (np.outer(p, q) - np.outer(q, p)) for k, p in enumerate(np.eye(d)) for q in np.eye(d)[:k]]
    orbit = int(np.linalg.matrix_rank(np.reshape(turns, (len(turns), -1)), tol=1e-6))
    rates = np.sort(-values.real)[orbit:] / scale
    calm = float(np.abs(velocity).max()) <= 1e-8 * scale
    return float(rates.min()) if calm and len(rates) and rates.min() > 1e-4 else 0.0


def _ends_in_hemisphere(e: Experiment) -> Margins:
    """The last state: in an open hemisphere, or at an attracting state that is not in one, or neither."""
    x = e.states[-1]
    away = distance(x, np.zeros(x.shape[1]))
    value = away if away > 1e-9 else -_attracting(e, x)
    what = "the tokens end in an open hemisphere, from where they collapse, and at no other attracting state: this"
    return once(what, value, 1e-9, time=e.times[-1], strict=True)


def _dimension_or_beta(e: Experiment) -> list[Margins]:
    """Beta >= 0, and beta <= 1 on the circle."""
    d = e.shape[1]
    return [
        once("d >= 2", d - 2),
        once("beta >= 0", e.beta),
        once("d >= 3 or beta <= 1", 1.0 if d >= 3 else 1 - e.beta),
    ]


def _generic(rng: Rng, k: int) -> dict[str, Any]:
    d = 2 + (k % 3 > 0) * int(rng.integers(1, 3))
    beta = log_uniform(rng, 0.05, 1.0 if d == 2 else 2.5) if k % 5 else 0.0
    return {"tokens": _on_sphere(rng, k, d=d), "beta": beta, "normalized": k % 4 != 3, "until": 100.0}


_COLLAPSE = {"tokens": ..., "beta": 1.0, "normalized": True, "until": 100.0}
COLLAPSE = Setting(_COLLAPSE, _model, _generic, samples=8)


@SPHERE.claim(
    "collapse", "Theorems 4.1, 4.3 and 5.1", PROVED, COLLAPSE,
    """From almost every start all tokens converge to one point, under SA and USA with V = B = I: in dimension d >= 3
    for every beta >= 0, on the circle for beta <= 1 and for beta large (2507.22857 announces every beta >= -0.16).""",
    given={"d >= 3 and beta >= 0, or d = 2 and 0 <= beta <= 1": _dimension_or_beta, "a start not at rest": _moving},
)  # fmt: skip
def collapse(e: Experiment) -> list[Margins]:
    """The last state lies in an open hemisphere, which decides the limit, and tokens contract as they then must."""
    return [_ends_in_hemisphere(e), _acute_contracts(e)]


def _symmetric(rng: Rng, k: int) -> dict[str, Any]:
    """Return, of four, one generic start and three orbits of finite groups, turned at random, with multiplicities."""
    d = int(rng.integers(2, 5))
    match k % 4:
        case 0:
            x = _on_sphere(rng, k // 4, d=d)
        case 1:  # a regular polygon in some plane
            m = int(rng.integers(2, 8))
            angles = 2 * np.pi * np.arange(m) / m
            x = np.zeros((m, d))
            x[:, 0], x[:, 1] = np.cos(angles), np.sin(angles)
            x = np.repeat(x, int(rng.integers(1, 4)), axis=0)
        case 2:  # antipodes, each with its own multiplicity
            x = np.repeat(np.eye(d)[:1] * [[1.0], [-1.0]], rng.integers(1, 5, 2), axis=0)
        case _:  # a cross-polytope, or a simplex in its hyperplane
            m = int(rng.integers(2, d + 1))
            simplex = np.eye(d)[:m] - np.pad(np.full((m, m), 1 / m), ((0, 0), (0, d - m)))
            x = np.concatenate([np.eye(d)[:m], -np.eye(d)[:m]]) if k % 8 == 3 else _unit(simplex)
    beta = log_uniform(rng, 0.05, 1.0 if d == 2 else 2.5)
    return {"tokens": _unit(x @ _rotation(rng, d).T), "beta": beta, "normalized": bool(rng.integers(2)), "until": 100.0}


EVERY_START = Setting(_COLLAPSE, _model, _symmetric, samples=8)


@SPHERE.claim(
    "collapse/every-start", "Theorems 4.1, 4.3 and 5.1, read without 'almost'", FALSE, EVERY_START,
    """From every start all tokens converge to one point, under SA and USA with V = B = I, in dimension d >= 3 for every
    beta >= 0 and on the circle for 0 <= beta <= 1.""",
    given={"d >= 3 and beta >= 0, or d = 2 and 0 <= beta <= 1": _dimension_or_beta},
    repair="collapse",
)  # fmt: skip
def every_start(e: Experiment) -> list[Margins]:
    """A start at rest that is not consensus refutes it, at every horizon; other starts as for almost every start."""
    start = _moving(e)
    return [start] if start.failed.any() else [start, _ends_in_hemisphere(e), _acute_contracts(e)]


# Orthogonal starts


def equiangular(times: Array, n: int, beta: float, normalized: bool = True) -> Array:
    """Return g = <x_i, x_j>, the same for all pairs, at these times, for n tokens that start orthogonal.

    SA: g' = 2 e^{beta g} (1 - g) ((n-1) g + 1) / (e^beta + (n-1) e^{beta g}); USA: g' = (2/n) e^{beta g} (1 - g)
    ((n-1) g + 1); g(0) = 0.

    >>> equiangular(np.array([0.0, 5.909]), n=128, beta=1.0).round(5)
    array([0.   , 0.999])

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *A mathematical perspective on Transformers* (arXiv 2312.10794).
    """
    from scipy.integrate import solve_ivp

    def slope(t: float, g: Array) -> Array:
        rise = 2 * (1 - g) * ((n - 1) * g + 1)
        return rise / (np.exp(beta * (1 - g)) + n - 1) if normalized else rise * np.exp(beta * g) / n

    span = (0.0, float(times[-1]))
    return np.asarray(solve_ivp(slope, span, [0.0], "LSODA", times, rtol=1e-12, atol=1e-13).y[0])


def _orthogonal(e: Experiment) -> list[Margins]:
    """Dimension d >= n, and <x_i, x_j> = 0 for i != j."""
    n, d = e.shape
    inner = np.abs(e.tokens @ e.tokens.T - np.eye(n)).max(axis=1)
    return [once("d >= n", d - n), per_token("<x_i, x_j> = 0", -inner, 1e-12)]


def _frame(rng: Rng, k: int) -> dict[str, Any]:
    n = int(rng.integers(2, 8))
    d = n + k % 2 * int(rng.integers(4))
    x = np.eye(d)[:n] if k % 4 == 0 else _rotation(rng, d)[:n]
    beta = (0.0, -1.0)[k % 2] if k % 6 > 3 else log_uniform(rng, 0.05, 9.0)
    normalized = k % 3 != 2
    until = 10.0 if normalized else n / (2 + 2 * max(beta, 0.0)) + 10 * exp(-beta)
    return {"tokens": x, "beta": beta, "normalized": normalized, "until": until}


ORTHOGONAL = Setting({"tokens": ..., "beta": 1.0, "normalized": True, "until": 10.0}, _model, _frame, samples=12)


@SPHERE.claim(
    "orthogonal-start", "Section 6, the high-dimensional case", PROVED, ORTHOGONAL,
    """For d >= n, orthogonal tokens stay equiangular: <x_i, x_j> = g for all i != j, g(0) = 0 and
    g' = 2 e^{beta g} (1-g) ((n-1) g + 1) / (e^beta + (n-1) e^{beta g}) (SA),
    g' = (2/n) e^{beta g} (1-g) ((n-1) g + 1) (USA).""",
    given={"d >= n orthogonal tokens": _orthogonal},
)  # fmt: skip
def orthogonal_start(e: Experiment) -> Margins:
    """All inner products along the run against the scalar equation, solved by another method, to 1e-8."""
    n = e.shape[0]
    g = equiangular(e.times, n, e.beta, e.normalized)
    others = ~np.eye(n, dtype=bool)
    inner = e.states @ np.swapaxes(e.states, 1, 2)
    off = np.where(others, np.abs(inner - g[:, None, None]), 0.0).max(axis=2)
    return Margins("<x_i, x_j> = g to 1e-8", 1 - off / 1e-8, e.times, 64 * EPS / 1e-8)


# Metastability


@dataclass(frozen=True)
class Merging:
    """A run in which tokens that have met go on as one mass: runs of masses, when each began, and who is in which mass.

    Explicit steps cannot pass beside the fast decay inside a cluster for times like e^beta; a mass has no inside.
    """

    runs: list[Trajectory]
    starts: list[float]
    labels: list[Labels]

    @property
    def end(self) -> float:
        """The last time."""
        return self.starts[-1] + float(self.runs[-1].times[-1])

    def recorded(self) -> Iterator[tuple[float, Array]]:
        """All recorded times with the state of all tokens."""
        for run, start, labels in zip(self.runs, self.starts, self.labels, strict=True):
            for t, x in zip(run.times.tolist(), run.tokens, strict=True):
                yield start + t, x[labels]

    def at(self, t: float) -> Array:
        """Return the state of all tokens at a time."""
        k = int(np.searchsorted(self.starts, t, side="right")) - 1
        last = float(self.runs[k].times[-1])
        return np.asarray(self.runs[k].at(min(t - self.starts[k], last))[self.labels[k]])


@dataclass(frozen=True, eq=False)
class _Tangential(ContinuousMotion):
    """The same flow with the velocity of the nearest unit token.

    On the sphere nothing changes; off it, tokens no longer decay towards it at a rate that would limit the steps.
    """

    motion: ContinuousMotion
    rtol: float
    retracts: ClassVar[bool] = True

    def velocity(self, hearing: Hearing, x: Array, t: float) -> Array:
        """Return the velocity at x / |x|."""
        return self.motion.velocity(hearing, self.retract(x), t)

    def retract(self, x: Array) -> Array:
        """Return x / |x|."""
        return self.motion.retract(x)


# Long runs are integrated this much less tightly: the noise of velocities, added up over a step, must stay below.
MOST_STEPS, LOOSER = 5_000, 100


def merging(e: Experiment, until: float) -> Merging:
    """Run the tokens of an experiment, uniting those that come within 1e-8 of each other, for at most so many steps."""
    x, labels, t, steps = _unit(e.tokens), np.arange(e.shape[0]), 0.0, 0
    found = Merging([], [], [])
    flow = isinstance(e.motion, ContinuousMotion) and e.motion.retracts
    motion = _Tangential(e.motion, LOOSER * e.rtol) if flow else e.motion  # type: ignore[arg-type]
    while t < until and steps < MOST_STEPS:
        together = single_linkage(x, MERGED)
        x, labels = x[np.unique(together, return_index=True)[1]], together[labels]
        masses = np.bincount(labels).astype(float)
        room = iter(range(MOST_STEPS - steps))
        watch: list[When] = [When(lambda t, x, room=room: next(room, None) is None, "it takes too many steps")]  # type: ignore[misc]
        if len(x) > 1:
            watch.append(Clustered(len(x) - 1, MERGED))
        run = simulate(x, e.law, motion, until - t, masses=masses, watch=watch)
        found.runs.append(run)
        found.starts.append(t)
        found.labels.append(labels)
        x, t, steps = run.final, found.end, steps + len(run.times) - 1
    return found


def _caps(e: Experiment) -> tuple[Array, Array, float]:
    """Return the centres, the cap of each token, and alpha = max <x, y> over x, y in distinct 2 eps-caps."""
    centres = _unit(rows_of(e.centres, "centres"))
    if centres.shape[1] != e.shape[1]:
        raise InputError(f"centres have dimension {centres.shape[1]}, the tokens {e.shape[1]}: give them in the same")
    cap = (e.tokens @ centres.T).argmax(axis=1)
    between = np.arccos(np.clip(centres @ centres.T, -1, 1))[~np.eye(len(centres), dtype=bool)]
    nearest_two = float(between.min()) if between.size else np.pi
    alpha = float(np.cos(max(nearest_two - 2 * np.arccos(1 - 2 * min(e.instance["eps"], 1.0)), 0.0)))
    return centres, cap, alpha


def _horizon(e: Experiment) -> float:
    """Return until when the tokens stay, in the clock of SA or of USA."""
    alpha, n, root = _caps(e)[2], e.shape[0], np.sqrt(e.instance["eps"])
    if e.normalized:
        return float(root / (2 * max(n - 1, 1)) * np.exp((1 - alpha) * e.beta))
    # In the clock of the weights e^{beta (<x_i, x_j> - 1)} / n time runs e^beta times as fast.
    return float(root / 2 * np.exp(-alpha * e.beta))


def _small_caps(e: Experiment) -> list[Margins]:
    """0 < eps < 1/2, beta >= 0, and every token lies in a cap S_q(eps)."""
    centres, cap, _ = _caps(e)
    eps = number(e.instance["eps"], "eps", above=0.0)
    inside = (e.tokens * centres[cap]).sum(axis=1) - (1 - eps)
    return [
        once("eps < 1/2", 0.5 - eps, strict=True),
        once("beta >= 0", e.beta),
        per_token("<x_i, w_q> >= 1 - eps for some q", inside / eps, 16 * EPS / eps),
    ]


def _in_caps(rng: Rng, k: int) -> dict[str, Any]:
    """Return tokens in two or three caps, the first ones on the rims that face another cap."""
    d, q = 2 + k % 2 * int(rng.integers(1, 3)), 2 + k % 2
    eps, beta = log_uniform(rng, 0.003, 0.08), log_uniform(rng, 1.0, 12.0)
    angles = np.cumsum(rng.uniform(1.6, 2.0, q)) if k % 4 else np.pi * np.arange(q)
    centres = np.zeros((q, d))
    centres[:, 0], centres[:, 1] = np.cos(angles), np.sin(angles)
    centres = centres @ _rotation(rng, d).T
    cap = np.concatenate([np.arange(q), rng.integers(q, size=int(rng.integers(1, 8)))])
    towards = centres[(cap + 1) % q] if k % 3 else rng.standard_normal((len(cap), d))
    across = _unit(
        towards
        - (towards * centres[cap]).sum(axis=1, keepdims=True) * centres[cap]
        + 1e-3 * rng.standard_normal((len(cap), d))
    )
    across = _unit(across - (across * centres[cap]).sum(axis=1, keepdims=True) * centres[cap])
    depth = (
        np.where(np.arange(len(cap)) < q, 1.0, rng.uniform(0, 1, len(cap)))[:, None] * np.arccos(1 - eps) * (1 - 1e-9)
    )
    x = np.cos(depth) * centres[cap] + np.sin(depth) * across
    return {"tokens": _unit(x), "centres": centres, "eps": eps, "beta": beta, "normalized": k % 3 != 2}


CAPS = Setting(
    {"tokens": ..., "centres": ..., "eps": 0.01, "beta": 9.0, "normalized": True, "factor": 1.0},
    _model,
    _in_caps,
    samples=12,
)


@METASTABLE.claim(
    "metastability", "after the theorem on metastable states", DERIVED, CAPS,
    """Let all tokens start in caps S_q(eps) = {<x, w_q> >= 1 - eps}, eps < 1/2, and let alpha be the largest inner
    product between distinct caps S_q(2 eps). A token that starts in S_q(eps) stays in S_q(2 eps) until
    (sqrt(eps) / 2) e^{(1-alpha) beta} under the weights e^{beta (<x_i, x_j> - 1)} / n, which are USA with time divided
    by e^beta, and until sqrt(eps) / (2 (n-1)) e^{(1-alpha) beta} under SA. (`factor` multiplies the time, to see by
    how much the bound can be exceeded.)""",
    given={"all tokens in caps": _small_caps},
)  # fmt: skip
def metastability(e: Experiment) -> list[Margins]:
    """64 moments up to the bound, with tokens that have met moving as one mass."""
    eps, until = e.instance["eps"], number(e.factor, "factor", above=0.0) * _horizon(e)
    centres, cap, _ = _caps(e)
    run = merging(e, until)
    times, noise = np.linspace(0, until, 65), until * (1.0 if e.normalized else exp(e.beta))
    reached = times <= run.end * (1 + 1e-12)
    states = np.array([run.at(t) for t in times[reached]])
    inside = ((states * centres[cap]).sum(axis=2) - (1 - 2 * eps)) / eps
    return [
        Margins("<x_i, w_q> >= 1 - 2 eps", inside, times[reached], 1e-9 + 64 * EPS * noise / eps),
        once("the run came to its end", float(reached.all()), 0.5, time=run.end, strict=True),
    ]


# Merges on the circle


def _circle(e: Experiment) -> list[Margins]:
    """Dimension 2, and beta so large that a cluster at a right angle is heard e^{-8} times as loud as oneself."""
    return [once("d = 2", -abs(e.shape[1] - 2)), once("beta >= 8", (e.beta - 8) / 8)]


def _on_circle(rng: Rng, k: int) -> dict[str, Any]:
    """Return a few tight groups of tokens at random angles."""
    q = 2 + k % 3
    sizes = rng.integers(1, 4, q)
    angles = np.repeat(rng.uniform(0, 2 * np.pi, q), sizes) + 0.02 * rng.standard_normal(sizes.sum())
    x = np.column_stack([np.cos(angles), np.sin(angles)])
    beta, normalized = log_uniform(rng, 9.0, 20.0), bool(k % 2)
    return {"tokens": x, "beta": beta, "normalized": normalized, "until": 1e8 * (1.0 if normalized else exp(-beta))}


CIRCLE = Setting({"tokens": ..., "beta": 16.0, "normalized": True, "until": 1e8}, _model, _on_circle, samples=3)
# A plateau is a time between merges that lasts at least this factor, and its height is told to this part of 1.
PLATEAU, HEIGHT = 100.0, 0.05
# When the first clusters have formed, in the clock of SA.
RELAXED = 10.0


def _merges(run: Merging, start: float) -> list[tuple[float, Labels]]:
    """Return the clusters at the start, and each later time when a chain of <x_i, x_j> > .999 joins two of them."""
    reach = float(np.sqrt(2 * (1 - MERGE)))

    def labels(x: Array) -> Labels:
        return single_linkage(x, reach)

    found, low = [(start, labels(run.at(start)))], start
    for high, x in run.recorded():
        while high > start and labels(x).max() < (count := found[-1][1].max()):
            a, b = low, high
            while b - a > 1e-4 * b:
                middle = (a + b) / 2
                a, b = (a, middle) if labels(run.at(middle)).max() < count else (middle, b)
            found.append((b, labels(run.at(b))))
            low = b
        low = max(low, high)
    return found


@METASTABLE.claim(
    "staircase", "the section on the staircase of the energy", OPEN, CIRCLE,
    """On the circle at large beta the energy n^{-2} sum_ij e^{beta (<x_i, x_j> - 1)} climbs a staircase: between
    merges, over many orders of magnitude of time, it rests near sum_q (n_q / n)^2, n_q the sizes of the clusters, so
    that a merge of sizes a and b adds 2 a b / n^2.""",
    given={"the circle, beta >= 8": _circle},
)  # fmt: skip
def staircase(e: Experiment) -> Margins:
    """The energy half way, in log time, between merges a factor of 100 apart, against sum_q (n_q/n)^2, to 5 percent."""
    run = merging(e, e.until)
    found = _merges(run, min(RELAXED * (1.0 if e.normalized else exp(-e.beta)), run.end))
    when = [t for t, _ in found] + [run.end]
    heights, middles = [], []
    for (t, labels), after in zip(found, when[1:], strict=True):
        if after >= PLATEAU * t:
            middle = float(np.sqrt(t * after))
            F = float(np.exp(-e.beta * _gaps(run.at(middle))).mean())
            heights.append(HEIGHT - abs(F - float((np.bincount(labels) ** 2).sum()) / len(labels) ** 2))
            middles.append(middle)
    merges = ", ".join(f"{t:.4g}" for t in when[1:-1])
    what = f"the energy between merges (at t = {merges}) is sum_q (n_q / n)^2 to {HEIGHT:g}"
    return Margins(what, np.array(heights), np.array(middles), 1e-9, strict=True)


# The phase diagram


def _many_dimensions(e: Experiment) -> list[Margins]:
    """Dimension d >= n, at least two tokens, and beta >= 0."""
    n, d = e.shape
    return [once("d >= n", d - n), once("n >= 2", n - 2), once("beta >= 0", e.beta)]


def _uniform(rng: Rng, k: int) -> dict[str, Any]:
    n = (6, 8, 12)[k % 3]
    x = _unit(rng.standard_normal((n, n * pick(rng, (2, 4)))))
    return {"tokens": x, "beta": log_uniform(rng, 0.1, 5.0), "until": 30.0}


PHASES = Setting({"tokens": ..., "beta": 1.0, "normalized": True, "until": 30.0}, _model, _uniform, samples=4)
# By which factor of time the curve may miss the moment when half of the pairs have merged.
MISSES = 1.5


@SPHERE.claim(
    "phase-diagram", "Section 6, phase diagram", OPEN, PHASES,
    """For uniform random tokens the fraction of pairs with <x_i, x_j> > .999 rises from 0 to 1 near the curve
    g_beta(t) = 1 - 1e-3, where g_beta is the inner product of n tokens that start orthogonal: a prediction for d >= n
    only, where random tokens are nearly orthogonal; on the circle at large beta clusters persist far beyond it.""",
    given={"d >= n": _many_dimensions},
)  # fmt: skip
def phase_diagram(e: Experiment) -> Margins:
    """The first recorded time when half of the pairs have merged against the curve, within a factor of 1.5."""
    n = e.shape[0]
    merged = ((_gaps(e.states) < 1 - MERGE).sum(axis=(1, 2)) - n) / (n * (n - 1))
    curve = equiangular(e.times, n, e.beta, e.normalized) > MERGE
    if not curve.any() and not (merged >= 0.5).any():
        return once("the horizon reaches the curve: this", 0.0, 1.0, time=e.times[-1], strict=True)
    predicted = e.times[curve.argmax()] if curve.any() else e.times[-1]
    seen = e.times[(merged >= 0.5).argmax()] if (merged >= 0.5).any() else e.times[-1]
    what = f"half of the pairs merge at t = {seen:.3g}, on the curve t = {predicted:.3g} up to a factor {MISSES:g}"
    coarse = float(e.times[1] - e.times[0]) / max(float(min(seen, predicted)), EPS)
    return once(
        what, np.log(MISSES) - abs(np.log(max(seen, EPS) / max(predicted, EPS))), coarse, time=seen, strict=True
    )
