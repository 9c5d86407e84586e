"""The codimension conjecture: at most three parallel subspaces, in three printed versions and repaired."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

import numpy as np

from attnflow.claims.claim import FALSE, OPEN, Statement
from attnflow.claims.emergence.limits import GIVEN, asymmetric, look_back, settled
from attnflow.claims.emergence.paper import EMERGENCE
from attnflow.claims.emergence.projections import DOMINANT, HYPERPLANES, LONG, dominant, simple, spectral_radius
from attnflow.claims.emergence.proofs import proved_limits
from attnflow.claims.emergence.settling import Frame, remaining
from attnflow.claims.emergence.symmetry import commuting, group_matrices, group_of, symmetric_cloud
from attnflow.claims.experiment import Experiment
from attnflow.claims.hypotheses import quadratic
from attnflow.claims.margins import Margins, Undecided, once, unknown
from attnflow.claims.proved_hypotheses import all_simple, dominates, grows, proved_by
from attnflow.claims.samplers import Rng, cloud, log_uniform, pick, rotation, square_of_normals
from attnflow.core.inputs import Array
from attnflow.geometry.forms import symmetric_part

# Limits closer than the first, in parts of the initial spread, are one subspace; farther than the second, two.
ONE, TWO = 1e-3, 1e-2
# Eigenvalues this close, in parts of the largest, count as equal.
CLOSE = 1e-8
# A part this small of an eigenvalue is rounding.
ROUNDING = 1e-10


# Samples


def _horizon(values: Array) -> float:
    """Return a time by which the slowest of some growing coordinates has settled, but scores are still known."""
    slowest = float(values[values > 0].min())
    return float(np.ceil(10 * max(13.0 / float(values.max()), 13.0 / slowest)) / 10)


def _forms(rng: Rng, k: int, values: Array) -> tuple[Array, Array]:
    """Return V with these eigenvalues, its eigenvectors orthogonal or oblique, and a positive definite form."""
    d = len(values)
    frame = rotation(rng, d)
    if k % 2:
        frame = frame @ (np.eye(d) + 0.3 * np.triu(rng.standard_normal((d, d)), 1))
    return frame @ np.diag(values) @ np.linalg.inv(frame), square_of_normals(rng, d) / d + 0.3 * np.eye(d)


def _sized(rng: Rng, k: int, d: int) -> Array:
    x = cloud(rng, k, int(rng.integers(5, 10)), d)
    return x * (log_uniform(rng, 1.0, 4.0) / (float(np.abs(x).max()) or 1.0))


def _any_spectrum(rng: Rng, k: int, neutral: bool) -> dict[str, Any]:
    """Return a start whose V has repeated, equal, or neutral eigenvalues as well as different ones."""
    d = int(rng.integers(2, 4))
    growing = rng.uniform(0.8, 1.0, d)
    growing[: int(rng.integers(1, d + 1))] = 1.0
    if k % 3 == 0:
        growing[:] = 1.0
    if neutral and k % 2:
        growing[-1] = 0.0
    elif k % 4 == 2:
        growing[-1] = -rng.uniform(0.1, 0.6)
    values = log_uniform(rng, 0.5, 2.0) * growing
    V, B = _forms(rng, k, values)
    x = _sized(rng, k, d)
    if k % 3 == 0 and (growing == 1.0).all():
        V = values[0] * np.eye(d)
        if k % 2:  # all on one level of B, so that many are vertices and stay
            x = rng.standard_normal(x.shape)
            x *= (log_uniform(rng, 1.5, 4.0) / np.sqrt(quadratic(B, x)))[:, None]
    return {"tokens": x, "V": V, "B": B, "until": _horizon(values)}


def _ladder(rng: Rng, d: int, decaying: bool) -> Array:
    """Return simple eigenvalues, the first clearly dominant; perhaps one that decays."""
    values = np.array([1.0, 0.88, 0.8][:d]) * rng.uniform(0.98, 1.02, d)
    if decaying:
        values[-1] = -rng.uniform(0.1, 0.5)
    return log_uniform(rng, 0.5, 2.0) * values


def _generic_start(rng: Rng, k: int) -> dict[str, Any]:
    d = int(rng.integers(2, 4))
    values = _ladder(rng, d, d > 2 and bool(rng.integers(2)))
    V, B = _forms(rng, k, values)
    return {"tokens": _sized(rng, k, d), "V": V, "B": B, "until": _horizon(values)}


def _mirrored_start(rng: Rng, k: int) -> dict[str, Any]:
    """Return tokens with mirrors that B and V share, some of the tokens on them; every third start has none."""
    if k % 3 == 2:
        return _generic_start(rng, k)
    d = pick(rng, (2, 2, 3))
    matrices = group_matrices(rng, 1 + k % 2, d)
    # A mirror of a coordinate that decays leaves ties that only rounding decides.
    values = _ladder(rng, d, decaying=False)
    # The mirrors commute with this matrix, whose eigenvectors are those of V.
    directions = np.linalg.eigh(commuting(matrices, symmetric_part(rng.standard_normal((d, d)))))[1]
    V = directions @ np.diag(rng.permutation(values)) @ directions.T
    x, symmetry = symmetric_cloud(rng, matrices, seeds=2 + (len(matrices) < 3), scale=log_uniform(rng, 1.0, 2.5))
    B = commuting(matrices, square_of_normals(rng, d) / d + 0.3 * np.eye(d))
    V, B = symmetric_part(V), symmetric_part(B)
    return {"tokens": x, "V": V, "B": B, "until": _horizon(values), "symmetry": symmetry}


NEUTRAL = replace(HYPERPLANES, sample=partial(_any_spectrum, neutral=True))
GROWING = replace(HYPERPLANES, sample=partial(_any_spectrum, neutral=False))
MIRRORED = replace(HYPERPLANES, sample=_mirrored_start)
GENERIC = replace(HYPERPLANES, sample=_generic_start)


# Coordinates


def _least(V: Array, neutral: bool) -> float:
    """Return what the real part of an eigenvalue that counts exceeds: 0, less or more a rounding error."""
    return (-ROUNDING if neutral else ROUNDING) * (spectral_radius(V) or 1.0)


def growing(neutral: bool) -> Callable[[Experiment], Margins]:
    """Return the hypothesis that V has such an eigenvalue, and all its eigenvectors."""

    @proved_by(lambda e: grows(e.V, neutral))
    def hypothesis(e: Experiment) -> Margins:
        """V has eigenvalues with real part above 0 (or at least 0)."""
        count = int((np.linalg.eigvals(e.V).real > _least(e.V, neutral)).sum())
        return once("k >= 1", count - 0.5)

    return hypothesis


@proved_by(lambda e: all_simple(e.V) and dominates(e.V, alone=True))
def _simple(e: Experiment) -> Iterator[Margins]:
    values = np.linalg.eigvals(e.V)
    size = float(np.abs(values).max()) or 1.0
    apart = np.abs(values[:, None] - values[None]) + 2 * size * np.eye(len(values))
    yield once("simple eigenvalues", float(apart.min()) / size - CLOSE)
    yield from dominant(e)
    yield simple(e)


def left_space(V: Array, neutral: bool) -> tuple[Array, Array]:
    """Return (L, C), real, with L V = C L: rows span the left eigenvectors that count, k of them."""
    from scipy.linalg import schur

    least = _least(V, neutral)
    T, Z, k = schur(V.T, output="real", sort=lambda re, im: re > least)
    # V^T Z = Z T, so the first k columns Z_1 of Z give Z_1^T V = T_11^T Z_1^T.
    return Z[:, :k].T, T[:k, :k].T


def coordinates(e: Experiment, neutral: bool, moments: Sequence[int]) -> tuple[Array, Array]:
    """Return L z at some of the recorded times, z = e^{-tV} x, and the rates of its k coordinates."""
    from scipy.linalg import expm

    V = np.asarray(e.V, dtype=np.float64)
    L, C = left_space(V, neutral)
    shift = C - spectral_radius(V) * np.eye(len(C))
    z = np.array([(e.states[j] @ L.T) @ expm(-float(e.times[j]) * shift).T for j in moments])
    return z, np.asarray(np.linalg.eigvals(C).real, dtype=np.float64)


NO_GROWTH = Undecided(
    "limits are known only where the eigenvalue of largest modulus is real and positive", "give another V"
)


def _subspaces(e: Experiment, neutral: bool) -> Margins:
    """Return 3 minus the number of different limits of L z, undecided if tokens may still move or come together."""
    what, T = "at most three parallel subspaces", float(e.times[-1])
    V = np.asarray(e.V, dtype=np.float64)
    lam = float(np.linalg.eigvals(V).real.max())
    if lam <= 0 or lam < (1 - 1e-9) * spectral_radius(V):
        return unknown(what, NO_GROWTH, T)
    found, j = settled(e, Frame(e.form(), V, lam, group_of(e))), max(look_back(e, lam), 0)
    (first, before, now), rates = coordinates(e, neutral, (0, j, -1))
    slowest = float(rates[rates > ROUNDING * lam].min(initial=inf))
    if isinstance(found, Undecided):
        return unknown(what, found, T)
    if not np.isfinite(slowest):
        return unknown(what, NO_GROWTH, T)
    if slowest * T < LONG:
        needed = Undecided("the slowest coordinate has not settled", f"give an until of at least {LONG / slowest:.4g}")
        return unknown(what, needed, T)
    unit = float(np.ptp(first, axis=0).max()) or 1.0
    left = remaining(now, before, slowest * (T - float(e.times[j]))) / unit
    apart = np.linalg.norm(now[:, None] - now[None], axis=2) / unit
    doubt = left[:, None] + left[None] + 1e-6
    least, most = _count(apart - doubt > TWO), _count(apart + doubt > ONE)
    if least <= 3 < most:
        return unknown(what, Undecided("some limits may still come together", "give a longer until"), T)
    if least > 3 and (proof := proved_limits(e)) is not None:
        counted = [k for k, rate in enumerate(proof.rates) if rate > 0 or neutral]
        if (different := proof.distinct(counted)) > 3:
            return replace(once(f"{what} ({proof.how})", (3 - different) / e.shape[0], time=T), certified="ball")
    return once(what, (3 - (least if least > 3 else most)) / e.shape[0], time=T)


def _count(apart: Any) -> int:
    """Return how many tokens a greedy choice of mutually distinct ones finds."""
    chosen: list[int] = []
    for i in range(len(apart)):
        if all(apart[i, j] for j in chosen):
            chosen.append(i)
    return len(chosen)


# Claims

CONCLUSION = """there are three parallel affine subspaces of codimension k, level sets of the left eigenvectors of those
k eigenvalues, such that the distance of every rescaled token z_i = e^{-tV} x_i from one of them tends to 0."""


@EMERGENCE.claim(
    "codimension-k/a", "the talk", FALSE, NEUTRAL,
    f"If Q^T K = B > 0 and V has k >= 1 eigenvalues with real part >= 0, then {CONCLUSION}",
    plain="Rescaled tokens gather on three parallel flats, one constraint for each eigenvalue that does not decay.",
    given={**GIVEN, "eigenvalues with real part >= 0": growing(neutral=True)}, repair="codimension-k/repaired",
)  # fmt: skip
def codimension_neutral(e: Experiment) -> Margins:
    """The number of different limits of the left eigenvectors, once the leaders are final and every coordinate has had
    lambda_k t = 12 to settle; symmetric configurations in reduced coordinates."""
    return _subspaces(e, neutral=True)


SOME_GROW = {**GIVEN, "eigenvalues with real part > 0": growing(neutral=False)}
STRICT: dict[str, Statement] = {**SOME_GROW, f"the eigenvalues are simple, {DOMINANT}": _simple}


# One function for three claims: decorators are applied from the last to the first.
@EMERGENCE.claim(
    "codimension-k/repaired", "after the codimension conjecture", OPEN, GENERIC,
    f"""For almost every start: if Q^T K = B > 0, V has k >= 1 eigenvalues with real part > 0, all eigenvalues are
    simple and the largest modulus is that of a positive one alone, then {CONCLUSION}""",
    plain="For almost every start, and simple eigenvalues, rescaled tokens gather on three parallel flats.",
    given={**STRICT, "no symmetry is imposed": asymmetric},
)  # fmt: skip
@EMERGENCE.claim(
    "codimension-k/c", "the codimension conjecture", FALSE, MIRRORED,
    f"""If Q^T K = B > 0, V has k >= 1 eigenvalues with real part > 0, all eigenvalues are simple and the largest
    modulus is that of a positive one alone, then {CONCLUSION}""",
    plain="With simple eigenvalues and one that dominates, rescaled tokens gather on three parallel flats.",
    given=STRICT, repair="codimension-k/repaired",
)  # fmt: skip
@EMERGENCE.claim(
    "codimension-k/b", "the codimension conjecture", FALSE, GROWING,
    f"If Q^T K = B > 0 and V has k >= 1 eigenvalues with real part > 0, then {CONCLUSION}",
    plain="Rescaled tokens gather on three parallel flats, with one constraint for each eigenvalue that grows.",
    given=SOME_GROW, repair="codimension-k/repaired",
)  # fmt: skip
def codimension(e: Experiment) -> Margins:
    """The number of different limits of the left eigenvectors, once the leaders are final and every coordinate has had
    lambda_k t = 12 to settle; symmetric configurations in reduced coordinates."""
    return _subspaces(e, neutral=False)
