"""Limits seen along the dominant eigenspace of V: at most three hyperplanes, or a polytope times a subspace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from attnflow.claims.claim import FALSE, PROVED, Setting, Statement
from attnflow.claims.emergence import limits
from attnflow.claims.emergence.flows import MONOTONE
from attnflow.claims.emergence.paper import EMERGENCE
from attnflow.claims.emergence.proofs import proved_limits
from attnflow.claims.emergence.settling import AHEAD, GAP, STEPS, Discounted, remaining
from attnflow.claims.emergence.symmetry import (
    Group,
    commuting,
    group_matrices,
    group_of,
    invariant,
    reduced,
    representatives,
    symmetric_cloud,
)
from attnflow.claims.experiment import Experiment
from attnflow.claims.hypotheses import positive_definite, quadratic
from attnflow.claims.margins import Margins, Numbers, Undecided, once, per_token, unknown
from attnflow.claims.proved_hypotheses import dominates, proved_by
from attnflow.claims.samplers import Rng, cloud, log_uniform, pick, positive_form, rotation, square_of_normals
from attnflow.core.inputs import Array
from attnflow.geometry.forms import score_rounding, symmetric_part
from attnflow.geometry.spectra import Dominant, classify
from attnflow.geometry.stationary import stationary_points
from attnflow.laws import Softmax
from attnflow.motions.flows import ContinuousMotion
from attnflow.motions.motion import gain_of

# The theorems speak of t -> infinity: at the horizon lambda t, and the gap of the spectrum times t, are at least this.
LONG = 12.0


def spectral_radius(V: Array) -> float:
    """Return the largest modulus of an eigenvalue of V."""
    return float(np.abs(np.linalg.eigvals(V)).max())


def discounted(given: dict[str, Any]) -> tuple[Softmax, ContinuousMotion]:
    """Return the flow in the variables y = e^{-lambda_1 t} x, in reduced coordinates where there is a symmetry."""
    V = given["V"]
    return Softmax(B=given["B"]), reduced(Discounted(V=V, growth=spectral_radius(V)), given["symmetry"])


# Samples


def spectrum(rng: Rng, k: int, d: int, m: int, rho: float) -> Array:
    """Return a matrix with m eigenvalues 1, in a space of that dimension, and others of modulus at most rho."""
    blocks = np.zeros((d, d))
    blocks[range(m), range(m)] = 1.0
    rest = rng.uniform(-rho, rho, d - m)
    blocks[range(m, d), range(m, d)] = rest if k % 3 else np.abs(rest)
    if k % 3 == 2 and d - m >= 2:
        a, b = rho * rng.uniform(0.2, 0.7, 2)
        blocks[m : m + 2, m : m + 2] = [[a, -b], [b, a]]
    frame = rotation(rng, d)
    if k % 4:  # oblique: eigenvectors are not orthogonal
        frame = frame @ (np.eye(d) + pick(rng, (0.3, 0.8)) * np.triu(rng.standard_normal((d, d)), 1))
    return frame @ blocks @ np.linalg.inv(frame)


def _timed(rng: Rng, V: Array, rho: float) -> dict[str, Any]:
    """Return V at some speed, and a horizon long enough for it."""
    speed = log_uniform(rng, 0.3, 3.0)
    return {"V": speed * V, "until": float(np.ceil(100 * max(16.0, 14.0 / (1 - rho)) / speed) / 100)}


def _around(rng: Rng, k: int, d: int, n: int) -> Array:
    """Return the k-th kind of cloud, with the origin inside more often than not."""
    x = cloud(rng, k, n, d)
    x *= log_uniform(rng, 0.7, 4.0) / (float(np.abs(x).max()) or 1.0)
    return x if k % 3 == 0 else x - x.mean(axis=0)


def _with_mirror(rng: Rng, k: int) -> dict[str, Any]:
    """Return tokens, B and V with a symmetry that changes the sign of the dominant coordinate."""
    d, rho = int(rng.integers(2, 4)), float(rng.uniform(0.1, 0.5))
    matrices = group_matrices(rng, (0, 1, 2)[k % 3], d)
    vectors = np.linalg.eigh(commuting(matrices, np.diag(np.arange(d, 0.0, -1.0))))[1]
    V = commuting(matrices, vectors @ np.diag(np.where(np.arange(d) == k % d, 1.0, rho)) @ vectors.T)
    square = square_of_normals(rng, d)
    x, symmetry = symmetric_cloud(rng, matrices, seeds=3)
    B = commuting(matrices, square + 0.3 * np.eye(d))
    return {"tokens": x, "B": B, "symmetry": symmetry, **_timed(rng, V, rho)}


def _hyperplane_start(rng: Rng, k: int) -> dict[str, Any]:
    if k % 4 == 3:
        return _with_mirror(rng, k // 4)
    d, rho = int(rng.integers(1, 5)), float(rng.uniform(0.0, 0.5))
    V = spectrum(rng, k, d, 1, rho)
    phi = classify(V).dominant.right
    B = positive_form(rng, k, d) if k % 2 else rng.standard_normal((d, d))
    if B is not None and phi is not None:
        B = B / np.abs(B).max()
        height = float(phi[:, 0] @ B @ phi[:, 0])
        B = B + (max(0.5 - height, 0.0)) * np.outer(phi, phi)
    return {"tokens": _around(rng, k, d, int(rng.integers(2, 9))), "B": B, **_timed(rng, V, rho)}


def _product_start(rng: Rng, k: int) -> dict[str, Any]:
    d = int(rng.integers(2, 5))
    m, rho = int(rng.integers(1, d)), float(rng.uniform(0.0, 0.5))
    B = positive_form(rng, k, d)
    if B is not None:
        B = B / float(np.linalg.eigvalsh(B).max()) + 0.05 * np.eye(d)
    V = spectrum(rng, k, d, m, rho)
    return {"tokens": _around(rng, k, d, int(rng.integers(m + 2, 10))), "B": B, **_timed(rng, V, rho)}


def _oblique_start(rng: Rng, k: int) -> dict[str, Any]:
    """Return oblique spaces F + G, dim F = 2, and a form that mixes them; tokens of one height along F, or any."""
    d, rho = pick(rng, (3, 3, 4)), float(rng.uniform(0.0, 0.4))
    frame = rotation(rng, d)
    frame[:, 2:] += rng.uniform(0.5, 3.0) * rng.standard_normal((d, d - 2))
    V = frame @ np.diag([1.0, 1.0, *rng.uniform(-rho, rho, d - 2)]) @ np.linalg.inv(frame)
    Q = rotation(rng, d)
    B = Q @ np.diag(np.logspace(0, -rng.uniform(0.5, 2.0), d)) @ Q.T
    w = rng.standard_normal((int(rng.integers(4, 9)), d))
    if k % 3:  # all on one level of B along F, so that many are vertices and stay
        form = frame[:, :2].T @ B @ frame[:, :2]
        w[:, :2] *= (log_uniform(rng, 1.0, 5.0) / np.sqrt(quadratic(form, w[:, :2])))[:, None]
    else:
        w = 2 * (w - rng.dirichlet(np.ones(len(w))) @ w)
    return {"tokens": w @ frame.T, "B": symmetric_part(B), **_timed(rng, V, rho)}


HYPERPLANES = Setting(
    {"tokens": ..., "V": ..., "B": None, "until": 40.0, "symmetry": None}, discounted, _hyperplane_start, samples=12
)
PRODUCT = replace(HYPERPLANES, sample=_product_start)
OBLIQUE = replace(HYPERPLANES, sample=_oblique_start)


# Hypotheses


def dominant_of(e: Experiment) -> Dominant:
    """Return lambda_1 with its spaces."""
    return classify(e.V, e.form()).dominant


@proved_by(lambda e: dominates(e.V))
def dominant(e: Experiment) -> Iterator[Margins]:
    """The eigenvalue of largest modulus is real, positive, semisimple and strictly larger than the other moduli."""
    found = dominant_of(e)
    size = abs(found.value) or 1.0
    yield once("lambda_1 is real, with all its eigenvectors", -1.0 if found.right is None else 1.0)
    yield once("lambda_1 > |lambda_2|", (abs(found.value) - found.second) / size, found.blur / size, strict=True)
    yield once("lambda_1 > 0", found.value.real / size, found.blur / size, strict=True)


@proved_by(lambda e: dominates(e.V, alone=True))
def simple(e: Experiment) -> Margins:
    """lambda_1 is simple."""
    return once("lambda_1 is simple", float(2 - dominant_of(e).multiplicity) - 0.5)


def _positive_along(e: Experiment) -> Margins:
    right, B = dominant_of(e).right, e.form()
    height = -1.0 if right is None else float(right[:, 0] @ B @ right[:, 0]) / (float(np.abs(B).max()) or 1.0)
    return once("<B phi_1, phi_1> > 0", height, 1e-13, strict=True)


# Where the coordinates along F are going


@dataclass(frozen=True)
class Along:
    """Coordinates w = `left` y along F, the form B on F, lambda_1, the modulus of the rest, and the group."""

    left: Array
    right: Array
    form: Array
    growth: float
    rho: float
    group: Group


def along(e: Experiment) -> Along | None:
    """Return the coordinates along the dominant eigenspace, None if it has not all its eigenvectors."""
    found = dominant_of(e)
    if found.right is None or found.left is None or found.value.real <= 0:
        return None
    B = found.right.T @ e.form() @ found.right
    return Along(found.left, found.right, B, float(found.value.real), found.second, group_of(e))


def _limit(e: Experiment, F: Along, k: int, unit: float) -> tuple[Array, Array] | None:
    """Return Q, which token listens to which, and lim w, if the leaders along F are final at the k-th time, else None.

    Tokens within `ON` of each other along F count as one. The scores along F grow like e^{2 lambda t}, what is left of
    the scores like e^{(lambda + rho) t}: where the first lead, and stay so along w' = lambda (Q w - w), they decide.
    """
    from scipy.linalg import expm

    y, t = e.states[k], float(e.times[k])
    w, gain = y @ F.left.T, gain_of(2 * F.growth * t)
    along_F = (w @ F.form.T) @ w.T
    whole = (y @ e.form().T) @ y.T
    top, n = along_F.argmax(axis=1), len(y)
    chosen = [np.unique(F.group.places[F.group.stabiliser(i), top[i]]) for i in range(n)]
    free = np.array([not F.group.centred(i, F.left, F.right) for i in range(n)])
    Q = np.zeros((n, n))
    for i, tied in enumerate(chosen):
        Q[i, tied] = 1 / len(tied)
    rest = whole - along_F
    other = gain * (np.abs(rest - rest[np.arange(n), top][:, None]).max(axis=1) + score_rounding(e.form(), y, y))
    h = AHEAD / F.growth / STEPS
    step = expm(F.growth * h * (Q - np.eye(n)))
    state = w
    for j in range(STEPS + 1):
        target = Q @ state
        ahead = np.einsum("nd,nmd->nm", state @ F.form.T, target[:, None] - state[None]) * gain
        ahead *= np.exp(2 * F.growth * j * h)
        away = np.array([np.linalg.norm(state[:, None] - state[tied][None], axis=2).min(axis=1) for tied in chosen])
        least = np.where(away > limits.ON * unit, ahead, np.inf).min(axis=1)
        needed = np.maximum(2 * GAP, 3 * other * np.exp((F.growth + F.rho) * j * h))
        if (least < needed)[free].any():
            return None
        state = step @ state
    return Q, expm(60.0 * (Q - np.eye(n))) @ w


NO_SPACE = Undecided("the eigenvalue of largest modulus is not real with all its eigenvectors", "give another V")


class Ends(NamedTuple):
    """Where the coordinates w along F end: F, lim w, and a bound, per token, of what is left of the motion."""

    F: Along
    limit: Array
    left: Array


def ends_along(e: Experiment) -> Ends | Undecided:
    """Return where tokens end along F, or why that is not yet decided."""
    if (F := along(e)) is None:
        return NO_SPACE
    T, w = float(e.times[-1]), e.states @ F.left.T
    if (late := limits.out_of_time(e, F.growth)) is not None:
        return late
    if (slowest := min(F.growth, F.growth - F.rho)) * T < LONG:
        longer = f"give an until of at least {LONG / slowest:.4g}"
        return Undecided("the run is too short for the gap of the spectrum", longer)
    unit = limits.diameter(w[0]) or 1.0
    if limits.diameter(w[-1]) <= limits.ON * unit:  # the hull along F never grows: one point, up to this
        return Ends(F, np.broadcast_to(w[-1].mean(axis=0), w[-1].shape), np.full(len(w[-1]), limits.diameter(w[-1])))
    k = max(limits.look_back(e, F.growth), 0)
    now, before = _limit(e, F, -1, unit), _limit(e, F, k, unit)
    if now is None or before is None:
        return limits.NOT_FINAL
    # Leaders within one cluster may change: what counts is that both looks give the same limit.
    if np.abs(now[1] - before[1]).max() > 2 * limits.ON * unit:
        return limits.NOT_FINAL
    if any(np.abs(y @ F.left.T - w[-1]).max() > limits.ON * unit for y in limits.nudged(e)):
        return limits.BORDER
    return Ends(F, now[1], remaining(w[-1], w[k], F.growth * (T - float(e.times[k]))))


def _in_set(e: Experiment, what: str) -> Margins:
    """Return how clearly every token is, along F, at one of the possible limits of the polytope K in F."""
    found = ends_along(e)
    if isinstance(found, Undecided):
        return unknown(what, found, float(e.times[-1]))
    F, limit, left = found
    w = e.states[-1] @ F.left.T
    unit = limits.diameter(e.tokens @ F.left.T) or 1.0
    form = F.form if len(F.form) > 1 else np.eye(1)
    S = stationary_points(representatives_of(limit, unit), symmetric_part(form)).points
    return per_token(
        what, limits.NEAR - limits.nearest_of(S, w) / unit, left / unit + 1e-9, time=float(e.times[-1]), strict=True
    )


def representatives_of(limit: Array, unit: float) -> Array:
    """Return the vertices of the hull of limits, those within `ON` of each other taken as one."""
    return limits.corners(representatives(limit, limits.ON * unit))


# Claims

DOMINANT, SIMPLE = "lambda_1 is positive and strictly dominant", "lambda_1 is simple"


def coordinates(V: Numbers) -> list[tuple[float, Array]]:
    """Return the real eigenvalues lambda_k >= 0 of V with left eigenvectors of norm 1."""
    values, vectors = np.linalg.eig(np.asarray(V).T)
    size = float(np.abs(values).max()) or 1.0
    real = (np.abs(values.imag) <= 1e-12 * size) & (values.real >= 0)
    return [(float(values[k].real), np.asarray(vectors[:, k].real)) for k in np.flatnonzero(real)]


def _contracting(e: Experiment) -> Iterator[Margins]:
    """Yield by how much max and -min of each left eigenvector on z decrease from state to state."""
    growth = spectral_radius(e.V)
    for value, phi in coordinates(e.V):
        grown = np.exp(np.minimum((growth - value) * e.times, 600.0))
        u = (e.states @ phi) * grown[:, None]
        unit = float(np.abs(u[0]).max()) or float(np.abs(e.tokens).max()) or 1.0
        steps = np.maximum(np.diff(u.max(axis=1)), -np.diff(u.min(axis=1)))
        # phi(z) is read from y, whose error it multiplies by e^{(lambda_1 - lambda_k) t}.
        tol = MONOTONE + 10 * e.rtol * grown[1:] * float(np.abs(e.tokens).max()) / unit
        yield Margins(f"phi(z) contracts, lambda = {value:.3g}", -steps / unit, e.times[1:], tol)


@EMERGENCE.claim(
    "hyperplanes", "Theorem 3", PROVED, HYPERPLANES,
    """The eigenvalue lambda_1 of largest modulus of V is real, positive and simple, and <Q phi_1, K phi_1> > 0 for its
    right eigenvector: then phi_1*(z_i), phi_1* the left one and z = e^{-tV} x, tends to one of a, 0, b, where a and b
    are the limits of the minimum and the maximum: at most three parallel hyperplanes, and one if all phi_1*(z_i(0))
    have one sign. For each real lambda_k >= 0 the interval of the values phi_k*(z_i) never grows.""",
    plain="With one dominant eigenvalue of V, rescaled tokens gather on at most three parallel hyperplanes.",
    given={
        DOMINANT: dominant, SIMPLE: simple, "<B phi_1, phi_1> > 0": _positive_along, limits.SYMMETRY: invariant,
    },
)  # fmt: skip
def hyperplanes(e: Experiment) -> Iterator[Margins]:
    """The extremes of phi_k* from state to state; once the leaders along phi_1 are final, every phi_1* against a, 0, b,
    and the spread of starts of one sign. Undecided before lambda_1 t = 12 and (lambda_1 - |lambda_2|) t = 12."""
    yield from _contracting(e)
    yield _in_set(e, "phi_1*(z_i) tends to a, 0 or b")
    if (F := along(e)) is None:
        return
    start = e.tokens @ F.left[0]
    if start.min() > 0 or start.max() < 0:
        unit, found = float(np.ptp(start)) or 1.0, ends_along(e)
        width = float(np.ptp(e.states[-1] @ F.left[0])) / unit
        what, T = "one hyperplane", float(e.times[-1])
        if isinstance(found, Undecided):
            yield unknown(what, found, T)
        else:
            yield once(what, limits.NEAR - width, 2 * float(found.left.max()) / unit, time=T, strict=True)


PRODUCT_GIVEN: dict[str, Statement] = {"B > 0": positive_definite, DOMINANT: dominant, limits.SYMMETRY: invariant}


@EMERGENCE.claim(
    "polytope-times-subspace", "Theorem 4", PROVED, PRODUCT,
    """Q^T K = B > 0, R^d = F + G invariant under V, V = lambda I on F with lambda > 0 above the spectral radius of V on
    G: for a polytope K in F the component along F of z_i = e^{-tV} x_i, taken along G, tends to the boundary of K or
    to 0. The projection of the hull on F never grows; the limits lie in {w in K : w^T B w = max_j w^T B v_j}.""",
    plain="In the directions that grow fastest, rescaled tokens go to the boundary of a polytope, or to the origin.",
    given=PRODUCT_GIVEN,
)  # fmt: skip
def polytope_times_subspace(e: Experiment) -> Iterator[Margins]:
    """The projection of the hull from state to state; once the leaders along F are final, the distance of every
    projected token from the stationary points of K for B on F. Undecided before (lambda - rho) t = 12."""
    if (F := along(e)) is not None:
        yield limits.shrinking(e, e.states @ F.left.T, "the projection of the hull never grows")
    yield _in_set(e, "the tokens end on the boundary of K or at 0")


@EMERGENCE.claim(
    "polytope-times-subspace/projected", "proof of Theorem 4", FALSE, OBLIQUE,
    """Under the hypotheses of Theorem 4, with pi the projection on F along G and A = B^{1/2}: the components along F of
    the rescaled tokens tend to points w of K with |pi A w|^2 = max_j <pi A w, pi A v_j>, v_j the vertices of K.""",
    plain="The places where tokens end in the fastest directions are found from scores inside these directions alone.",
    given=PRODUCT_GIVEN, repair="polytope-times-subspace",
)  # fmt: skip
def projected(e: Experiment) -> Margins:
    """Once the leaders along F are final, |pi A w|^2 of every token against its products with the vertices."""
    what, found = "|pi A w|^2 = max_j <pi A w, pi A v_j>", ends_along(e)
    if isinstance(found, Undecided):
        return unknown(what, found, float(e.times[-1]))
    F, limit, left = found
    unit = limits.diameter(e.tokens @ F.left.T) or 1.0
    values, vectors = np.linalg.eigh(symmetric_part(e.form()))
    A = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    # F.right is orthonormal: norms of coordinates are norms in R^d.
    image = F.left @ A @ F.right
    form = image.T @ image
    w, v = e.states[-1] @ F.left.T, representatives_of(limit, unit)
    size = float(quadratic(form, v).max()) or 1.0
    rise = (w @ form @ v.T).max(axis=1) - quadratic(form, w)
    # Near a point w the difference changes by at most this per unit of length.
    slope = 3 * float(np.linalg.norm(form, 2)) * max(float(np.linalg.norm(w, axis=1).max()), unit)
    room, T = slope * (left + limits.ON * unit) / size, float(e.times[-1])
    found_so = per_token(what, limits.ON - rise / size, room, time=T)
    proof = proved_limits(e) if found_so.failed.any() else None
    rises = np.zeros(len(w)) if proof is None else proof.rises(e.form())
    if proof is None or rises.max() <= limits.ON:
        return found_so
    return replace(per_token(f"{what} ({proof.how})", limits.ON - rises, time=T), certified="ball")
