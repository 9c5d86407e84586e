"""The flow x_i' = V sum_j P_ij x_j: how fast tokens grow, why they never meet, and how V = -I brings them to rest."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from attnflow.claims.balance import Balance, balanced, doubling
from attnflow.claims.claim import PROVED, Setting
from attnflow.claims.emergence.paper import EMERGENCE
from attnflow.claims.experiment import Experiment
from attnflow.claims.hypotheses import positive_definite, quadratic
from attnflow.claims.margins import Margins, once, per_token
from attnflow.claims.samplers import Rng, any_form, cloud, distinct, log_uniform, pick, positive_form
from attnflow.core.inputs import Array, constant_number, matrix_at
from attnflow.geometry.forms import EPS, form
from attnflow.laws import Softmax
from attnflow.motions import Flow, Motion, Residual

# A quantity that never decreases along a flow may seem to by this part of the current size of the tokens.
MONOTONE = 1e-9


def value_matrix(e: Experiment) -> Array:
    """Return V, the identity if none was given."""
    d = e.shape[1]
    return form(matrix_at(e.V, 0, d, "V"), d)


def pairwise_distinct(e: Experiment) -> Margins:
    """No two tokens start at the same point."""
    x = e.tokens
    apart = np.abs(x[:, None] - x[None]).max(axis=2) + np.diag(np.full(len(x), np.inf))
    return per_token("x_i != x_j", np.minimum(apart.min(axis=1) / e.scale, 1.0), strict=True)


def two_or_more(e: Experiment) -> Margins:
    """There are two tokens or more."""
    return once("n >= 2", e.shape[0] - 1.5, strict=True)


def sizes(states: Array) -> Array:
    """Return max_i |x_i| at each time."""
    unit = np.maximum(np.abs(states).max(axis=(1, 2)), 1e-300)  # squares of grown tokens could overflow
    return np.asarray(unit * np.sqrt(((states / unit[:, None, None]) ** 2).sum(axis=2)).max(axis=1))


# Growth.


def _value(rng: Rng, k: int, d: int) -> Array:
    """Return the k-th kind of V: any, symmetric, a rotation with growth, a Jordan block, minus a positive form."""
    M = rng.standard_normal((d, d))
    match k % 5:
        case 1:
            return (M + M.T) / 2
        case 2:
            return (M - M.T) / 2 + 0.3 * np.eye(d)
        case 3:
            return np.eye(d) + np.diag(np.ones(d - 1), 1)
        case 4:
            return -(M @ M.T) / d
    return M


def _any_flow(rng: Rng, k: int) -> dict[str, Any]:
    x = cloud(rng, k)
    x *= min(1.0, 30.0 / (float(np.abs(x).max()) or 1.0))  # larger ones may slide between leaders, in tiny steps
    V = _value(rng, k, x.shape[1])
    until = log_uniform(rng, 0.2, 2.0) / max(float(np.linalg.norm(V, 2)), 0.1)
    return {"tokens": x, "B": any_form(rng, k // 2, x.shape[1]), "V": V, "until": until}


FLOW = Setting(
    {"tokens": ..., "B": None, "V": None, "until": 2.0},
    lambda given: (Softmax(B=given["B"]), Flow(V=given["V"])), _any_flow, samples=10, varying=("B",), scales=(-10, 0),
)  # fmt: skip


@EMERGENCE.claim(
    "growth", "a priori bound", PROVED, FLOW,
    """Along x_i' = V sum_j P_ij x_j every left eigenvector phi of V, of eigenvalue lambda (both possibly complex),
    satisfies max_i |phi(x_i(t))| <= e^{|lambda| t} max_j |phi(x_j(0))|.""",
    plain="Along an eigenvector of V, no token grows faster than the eigenvalue allows.",
)  # fmt: skip
def growth(e: Experiment) -> Iterator[Margins]:
    """Each left eigenvector's largest modulus over the tokens, along the run, against its exponential bound."""
    V = value_matrix(e)
    values, vectors = np.linalg.eig(V.T)
    size = sizes(e.states)
    start = max(float(size[0]), 1e-300)
    for value, phi in zip(values, vectors.T, strict=True):
        decay = np.exp(-abs(value) * e.times)
        modulus = decay * np.abs(e.states @ phi).max(axis=1) / start
        # An eigenvector with residual r adds at most |r| int e^{-|lambda| s} max|x(s)| ds to the left-hand side.
        residual = float(np.linalg.norm(V.T @ phi - value * phi)) + 1e-15 * float(np.linalg.norm(V, 2))
        tol = (residual * e.times + MONOTONE) * np.maximum.accumulate(decay * size) / start
        yield Margins(f"|phi(x)| <= e^{{{abs(value):.3g} t}} max |phi(x(0))|", modulus[0] - modulus, e.times, tol)


# Distances.


def _identity_flow(given: dict[str, Any]) -> tuple[Softmax, Motion]:
    """Return V = I: the flow, or forward Euler with the step size dt."""
    law, dt = Softmax(B=given["B"]), given["dt"]
    return law, Flow() if dt is None else Residual(dt=constant_number(dt, "dt", above=0.0))


def _any_positive(rng: Rng, k: int) -> dict[str, Any]:
    x = cloud(rng, k)
    given: dict[str, Any] = {"tokens": x, "B": positive_form(rng, k // 2, x.shape[1])}
    if k % 3 == 2:
        dt = log_uniform(rng, 0.01, 10.0)
        most = math.ceil(12 / math.log1p(dt))  # beyond, the growth hides the distances
        return {**given, "dt": dt, "steps": min(int(rng.integers(5, 30)), most)}
    return {**given, "until": log_uniform(rng, 0.3, 3.0)}


def _any_positive_distinct(rng: Rng, k: int) -> dict[str, Any]:
    given = _any_positive(rng, k)
    return given | {"tokens": distinct(given["tokens"])}


IDENTITY = Setting(
    {"tokens": ..., "B": None, "dt": None, "until": 2.0, "steps": 20}, _identity_flow, _any_positive, samples=10,
    former={"alpha": "the step size of forward Euler is called dt, as in Residual; give dt"},
)  # fmt: skip
DISTINCT = replace(IDENTITY, sample=_any_positive_distinct)


def _separations(e: Experiment) -> tuple[Array, Array]:
    """Return |x_i - x_j|_A (T, n, n) and the size of the tokens in that norm (T,), A^2 = B."""
    B, size = e.form(), np.maximum(sizes(e.states), 1e-300)
    x = e.states / size[:, None, None]
    apart = np.sqrt(np.maximum(quadratic(B, x[:, :, None, :] - x[:, None, :, :]), 0.0))
    return apart * size[:, None, None], math.sqrt(np.linalg.norm(B, 2)) * size


def _monotone(e: Experiment) -> float:
    """Return the relative error that a distance may carry: that of the integrator, or rounding under Euler."""
    return 256 * e.shape[0] * e.rounding if e.motion.discrete else MONOTONE


@EMERGENCE.claim(
    "distances", "remark", PROVED, IDENTITY,
    """With V = I and B = A^2 > 0 no distance |x_i - x_j|_A ever decreases, neither along the flow nor under forward
    Euler x_i + dt sum_j P_ij x_j with any step size dt > 0; without dt it is the flow.""",
    plain="With V the identity, no two tokens ever come closer to each other, in the norm of the scores.",
    given={"B > 0": positive_definite},
)  # fmt: skip
def distances(e: Experiment) -> Margins:
    """Every distance between two tokens at each recorded time against the time before, in the norm of A."""
    apart, size = _separations(e)
    gain = (apart[1:] - apart[:-1]).min(axis=2) / size[1:, None]
    return Margins("|x_i - x_j|_A never decreases", gain, e.times[1:], _monotone(e))


@EMERGENCE.claim(
    "no-consensus", "remark", PROVED, DISTINCT,
    """With V = I and B = A^2 > 0, distinct tokens never come together, at no time and not in the limit: each pair
    stays at least as far apart, in the norm of A, as it started.""",
    plain="With V the identity, distinct tokens never come together, not even in the limit.",
    given={"B > 0": positive_definite, "distinct tokens": pairwise_distinct},
)  # fmt: skip
def no_consensus(e: Experiment) -> list[Margins]:
    """Every distance between two tokens, along the run, relative to what it was at the start."""
    apart, size = _separations(e)
    away = ~np.eye(e.shape[0], dtype=bool)
    start = np.where(away, apart[0], np.inf)
    ratio = np.where(away, apart / np.maximum(start, 1e-300), np.inf).min(axis=2)
    error = _monotone(e) * size[:, None] / np.maximum(start.min(axis=1), 1e-300)
    return [
        Margins("|x_i - x_j|_A >= |x_i(0) - x_j(0)|_A", np.minimum(ratio, 1e300) - 1, e.times, error),
        Margins("distances are beyond the error", np.clip(0.5 - error, 0.0, 0.5), e.times, 1e-12, strict=True),
    ]


# V = -I.


def _any_cloud(rng: Rng, k: int) -> dict[str, Any]:
    x = cloud(rng, k, d=pick(rng, (1, 2, 3)))
    size = float(np.abs(x).max()) or 1.0
    # Larger ones slide between leaders, in tiny steps, before they come near 0.
    most = log_uniform(rng, 0.01, 30.0) / size if k % 2 else min(1.0, 3.0 / size)
    return {"tokens": x * most, "until": pick(rng, (100.0, 200.0, 400.0))}


NEGATIVE = Setting(
    {"tokens": ..., "until": 1000.0}, lambda given: (Softmax(), Flow(V=-np.eye(given["tokens"].shape[1]))), _any_cloud,
    samples=8, scales=(-10, 1),
)  # fmt: skip


def threshold(n: int) -> float:
    """Return sqrt(W((n-1)/e)), W of Lambert: <x_i, sum_j P_ij x_j> is positive for every |x_i| beyond it.

    >>> [round(threshold(n), 4) for n in (2, 3, 5)]
    [0.5277, 0.6805, 0.8472]
    """
    from scipy.special import lambertw

    return math.sqrt(float(lambertw((n - 1) / math.e).real))


@EMERGENCE.claim(
    "negative-identity", "the case V = -I", PROVED, NEGATIVE,
    """With V = -I and B = I every x_i tends to 0 and P to 1/n: L = sum_ij e^{<x_i,x_j>} satisfies
    L' = -2 sum_i Z_i |x_i'|^2, |x_i(t)| <= max(|x_i(0)|, sqrt(W((n-1)/e))), and the mean square a of the tokens
    a(t) <= a(0)/(1 + k a(0) t) with k = min(1/R^2, (1 - e^{-2R^2})/(2R^2 d)), R the bound of all norms.
    The rate is algebraic: x_i' = -C x_i to leading order, C the covariance of the tokens, so
    C^{-1} = C_0^{-1} + 2t + O(log t) on their affine hull, of dimension r, and t sum_i |x_i|^2/n -> r/2.""",
    plain="With V minus the identity, all tokens go to the origin, slowly, and attention becomes uniform.",
)  # fmt: skip
def negative_identity(e: Experiment) -> list[Margins]:
    """The gain of log L against the integral of its rate, both bounds along the run, and the growth of C^{-1}."""
    size = float(sizes(e.tokens[None])[0])
    ends = doubling(e.until, 0.05 / (1 + size**2))
    balance = Balance(log_energy, ends, local=8 * e.rtol * size)
    x = balanced(e, balance)
    what = "(log L)' = -2 sum_i Z_i |x_i'|^2 / L, integrated"
    rounding = 64 * EPS * (1 + sizes(x[:-1]) ** 2)
    identity = balance.margins(what, rounding, unit=1 + np.abs(balance.gain))
    return [*identity, *_bounds(e, x, ends), *inverse_covariance_margins(x, ends)]


def log_energy(x: Array) -> tuple[Array, Array, Array]:
    """Return log L, its rate by the formula, and its slope 2 sum_i Z_i |m_i| / L, for states (k, n, d).

    L itself falls by a factor e^{900} while a token comes from 30 to 0; its logarithm can be integrated.
    """
    scores = x @ x.transpose(0, 2, 1)
    top = scores.max(axis=(1, 2))
    kernel = np.exp(scores - top[:, None, None])
    Z = kernel.sum(axis=2)
    L = Z.sum(axis=1)
    own = kernel.max(axis=2)
    # Rows whose scores are all far below the largest vanish: their means are of no terms, and their weight is 0.
    m = np.divide(kernel @ x, Z[:, :, None], out=np.zeros_like(x), where=own[:, :, None] > 0)
    weights, speeds = Z / L[:, None], np.sqrt((m**2).sum(axis=2))
    return top + np.log(L), -2 * (weights * speeds**2).sum(axis=1), 2 * (weights * speeds).sum(axis=1)


def _bounds(e: Experiment, x: Array, times: Array) -> list[Margins]:
    """Return the margins of the bounds of norms and of the mean square, and of P -> 1/n."""
    n, d = e.shape
    norms = np.sqrt((x**2).sum(axis=2))
    allowed = np.maximum(norms[0], threshold(n))
    R = max(float(allowed.max()), 1e-150)
    k = min(1 / R**2, -math.expm1(-2 * R**2) / (2 * R**2 * d))
    a = (norms**2).mean(axis=1)
    P = e.law.weights(x[-1])
    spread = float(np.expm1(2 * norms[-1].max() ** 2))
    return [
        Margins("|x_i(t)| <= max(|x_i(0)|, sqrt(W((n-1)/e)))", (allowed - norms) / R, times, MONOTONE),
        Margins("a(t) <= a(0) / (1 + k a(0) t)", (a[0] / (1 + k * a[0] * times) - a) / (a[0] or 1.0), times, MONOTONE),
        once("|P_ij - 1/n| <= (e^{2 max|x|^2} - 1)/n", spread - float(np.abs(n * P - 1).max()), 1e-12, time=times[-1]),
    ]


def inverse_covariance_margins(x: Array, times: Array) -> list[Margins]:
    """Return the margin of C^{-1}(T) - C^{-1}(T/2) = T I, up to the next order of the expansion at 0."""
    what, n = "C^{-1} grows like 2t", x.shape[1]
    _, values, axes = np.linalg.svd(x[0] - x[0].mean(axis=0), full_matrices=False)
    directions = axes[values > 1e-12 * max(float(np.abs(x[0]).max()), 1e-300)]
    if not len(directions):  # all tokens at one point, which falls like e^{-t}
        return []
    w, late_w = (state @ directions.T - (state @ directions.T).mean(axis=0) for state in x[-2:])
    C, D = w.T @ w / n, late_w.T @ late_w / n
    inverse, eigenvalues = np.linalg.inv(C), np.linalg.eigvalsh(C)
    third = np.einsum("ia,ib,ic->abc", w, w, w) / n  # the third cumulant, of the next order
    skew = float(np.linalg.norm(inverse @ np.einsum("akl,bkl->ab", third, third) @ inverse, 2)) / 2
    allowed = 1e-6 + 4 * skew + 10 * n**2 * float(eigenvalues[-1] ** 3 / max(eigenvalues[0], 1e-300))
    late = float(times[-1] - times[-2])
    growth_rate = (np.linalg.inv(D) - inverse) / (2 * late)
    noise = 1e-8 * float(np.linalg.norm(inverse, 2)) / late
    if allowed > 0.25 or noise > 0.25:  # the rate cannot be seen yet, or the cloud is too flat
        return [once(what, 0.0, 1e-12, time=times[-1], strict=True)]
    away = float(np.linalg.norm(growth_rate - np.eye(len(directions)), 2))
    return [once(what, allowed - away, noise, time=times[-1])]
