"""Cells of a polytope under hardmax: convexity, Voronoi cells, vertices that own the cell around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attnflow.claims import exact
from attnflow.claims.claim import DERIVED, FALSE, PROVED, Setting, Statement
from attnflow.claims.experiment import Experiment
from attnflow.claims.frank_wolfe.paper import FW, hardmax_layers
from attnflow.claims.hypotheses import positive_definite, quadratic, score_unit, semidefinite_margin, symmetric
from attnflow.claims.margins import Margins, Numbers, once, per_token, stacked
from attnflow.claims.samplers import KINDS, Rng, any_form, cloud, distinct, level_set, log_uniform, pick, positive_form
from attnflow.claims.statistics import at_least, at_most
from attnflow.core.indices import log_weights
from attnflow.core.inputs import number, whole
from attnflow.geometry.forms import EPS, score_rounding
from attnflow.geometry.hull import Hull

POINTS = 48


def _any_cloud(rng: Rng, k: int) -> dict[str, Any]:
    x = distinct(cloud(rng, k))
    return {"tokens": x, "B": any_form(rng, k // 2, x.shape[1]), "seed": k}


CELLS = Setting({"tokens": ..., "B": None, "seed": 0}, hardmax_layers, _any_cloud, arithmetics=("exact",))


def _vertices(e: Experiment) -> tuple[Numbers, Hull]:
    body = Hull(np.asarray(e.instance["tokens"], dtype=float))
    return e.tokens[body.indices], body


def _heard(e: Experiment, points: Numbers, vertices: Numbers) -> list[list[int]]:
    """Return the vertices that the law of the experiment lets each point listen to."""
    if e.exact:
        return exact.heard(e.law, points, 0, vertices)
    reached = np.isfinite(log_weights(e.law, points, 0, sources=vertices))
    return [np.flatnonzero(row).tolist() for row in reached]


def _inner_points(e: Experiment, vertices: Numbers) -> Numbers:
    """Return random points of the hull and the midpoints of consecutive ones."""
    weights = e.array(np.random.default_rng(e.seed).dirichlet(np.ones(len(vertices)), POINTS))
    ends = (weights / weights.sum(axis=1, keepdims=True)) @ vertices
    return np.vstack([ends, (ends[1:] + ends[:-1]) / 2])


@FW.claim(
    "cells", "Section 4", PROVED, CELLS,
    """The cells C_i(v) = {x in K : <Bx, v_j> <= <Bx, v_i> for all j} of the vertices are convex and cover K; their
    interiors are disjoint when B > 0.""",
    plain="The cells of the vertices are convex and together cover the polytope.",
)  # fmt: skip
def cells(e: Experiment) -> list[Margins]:
    """The vertex that hardmax chooses at random points of K against the definition, at midpoints, and alone.

    A vertex chosen at two points must be a maximiser at their midpoint; for B > 0 a random point has one maximiser.
    """
    v, _ = _vertices(e)
    points = _inner_points(e, v)
    B = e.form()
    scores = points @ B.T @ v.T
    chosen = _heard(e, points, v)
    short = (scores - scores.max(axis=1, keepdims=True)) / score_unit(e)
    tol = 64 * e.shape[1] * e.rounding
    covered = [min(short[p, row], default=e.array(-1)[()]) for p, row in enumerate(chosen)]
    shared = [(POINTS + p, i) for p in range(POINTS - 1) for i in set(chosen[p]) & set(chosen[p + 1])]
    margins = [per_token("the chosen vertex is a maximiser", stacked(covered), tol)]
    if shared:
        convex = [0.0 if i in chosen[m] or abs(short[m, i]) <= tol else -1.0 for m, i in shared]
        margins.append(per_token("a vertex chosen at two points is chosen between them", np.array(convex)))
    value, room = semidefinite_margin(e, B)
    if value > max(room, 1e-9) and len(v) > 1:
        alone = [2.0 - len(row) for row in chosen[:POINTS]]
        margins.append(per_token("a random point of K lies in one cell only", np.array(alone), strict=True))
    return margins


def _level_set(rng: Rng, k: int) -> dict[str, Any]:
    """Return vertices with equal energies: on a circle or an ellipsoid, on a quadric, or at integer points."""
    d = int(rng.integers(2, 4))
    u = rng.standard_normal((int(rng.integers(3, 9)), d))
    if k % 4 == 1:  # x^2 - y^2 = 1, an indefinite form
        s = rng.uniform(-1.5, 1.5, 5)
        x = np.column_stack([pick(rng, (1.0, -1.0)) * np.cosh(s), np.sinh(s)])
        return {"tokens": x, "B": np.diag([1.0, -1.0]), "seed": k}
    if k % 4 == 2:
        x = np.array(list(np.ndindex(11, 11))) - 5.0
        return {"tokens": x[(x**2).sum(axis=1) == 25], "B": None, "seed": k}
    B = positive_form(rng, k // 2, d)
    return {"tokens": level_set(B, u) * log_uniform(rng, 1e-3, 1e3), "B": B, "seed": k}


LEVEL_SET = Setting(CELLS.parameters, hardmax_layers, _level_set)


def _equal_energies(e: Experiment) -> Margins:
    v, _ = _vertices(e)
    J = quadratic(e.form(), v) / 2
    # Where the form is indefinite J may be small beside the products it is made of.
    size = float((np.abs(v) @ np.abs(e.form()).T * np.abs(v)).sum(axis=1).max()) or 1.0
    return once("all J(v_i) are equal", -float(J.max() - J.min()) / size, 64 * EPS)


@FW.claim(
    "voronoi", "Proposition 4.5", PROVED, LEVEL_SET,
    """If B is symmetric and all vertices have the same energy J(v_i) = 1/2 <B v_i, v_i>, then C_i(v) is the part in K
    of the B-Voronoi cell {x : <B(x - v_i), x - v_i> <= <B(x - v_j), x - v_j> for all j}.""",
    plain="If all vertices have the same energy, each cell holds the points nearest to its vertex, as B measures.",
    given={"B = B^T": symmetric, "all J(v_i) are equal": _equal_energies},
)  # fmt: skip
def voronoi(e: Experiment) -> Margins:
    """The vertex that hardmax chooses at the tokens and at random points of K, where the choice is beyond rounding."""
    v, _ = _vertices(e)
    points, B = np.vstack([e.tokens, _inner_points(e, v)]), e.form()
    scores = points @ B.T @ v.T
    second = np.sort(scores, axis=1)[:, -2] if len(v) > 1 else np.full(len(points), -np.inf)
    clear = scores.max(axis=1) - second > 8 * score_rounding(B, points, v)
    apart = points[:, None, :] - v[None]
    distances = quadratic(B, apart)
    size = float((np.abs(apart) @ np.abs(B).T * np.abs(apart)).sum(axis=2).max()) or 1.0
    nearest = distances.min(axis=1)
    values = [
        min((nearest[p] - distances[p, i] for i in row), default=-size) for p, row in enumerate(_heard(e, points, v))
    ]
    return per_token("the chosen vertex is the nearest", np.where(clear, np.array(values) / size, 0.0), 256 * EPS)


def _polytope_without_origin(rng: Rng, k: int) -> dict[str, Any]:
    """Return a cloud whose vertices are not 0; every other one a lattice, where scores tie."""
    kind = KINDS.index("lattice") if k % 2 else k // 2
    x = distinct(cloud(rng, kind))
    x = x[(x != 0).any(axis=1)]
    if len(x) < 2:
        x = np.array([[1.0] * x.shape[1], [-1.0] * x.shape[1]])
    return {"tokens": x, "B": positive_form(rng, k // 4, x.shape[1])}


OWNERS = Setting({"tokens": ..., "B": None}, hardmax_layers, _polytope_without_origin, arithmetics=("exact",))


def _no_vertex_at_zero(e: Experiment) -> Margins:
    v, _ = _vertices(e)
    return once("v_i != 0", (v * v).sum(axis=1).min() / e.scale**2, strict=True)


OWNING: dict[str, Statement] = {"B > 0": positive_definite, "v_i != 0": _no_vertex_at_zero}


def _owns_iff(e: Experiment, owns: Callable[[list[int], int], bool], signs: Callable[[Numbers], Any]) -> Numbers:
    """Return, for each vertex, how far its signs are from changing, negative where the law does not agree with them.

    The signs are those of <B v_i, w - v_i> for w among the neighbours of v_i and w = 0.
    """
    v, body = _vertices(e)
    B, zero = e.form(), e.array(np.zeros((1, e.shape[1])))
    found = []
    for i, row in enumerate(_heard(e, v, v)):
        inner = (np.vstack([v[body.neighbours(i)], zero]) - v[i]) @ (B @ v[i]) / score_unit(e)
        size = np.abs(inner).max() if e.exact else np.abs(inner).min()
        found.append(size if owns(row, i) == bool(signs(inner)) else -size)
    return stacked(found)


@FW.claim(
    "own-cell", "Section 4", FALSE, OWNERS,
    """For B > 0 and v_i != 0: v_i lies in its own cell C_i(v) if and only if <B v_i, w - v_i> has one strict sign for
    all neighbours w of v_i and w = 0, all negative or all positive.""",
    plain="A vertex lies in its own cell exactly if its scores with its neighbours all differ in the same way.",
    given=OWNING,
    repair="own-cell/repaired",
)  # fmt: skip
def own_cell(e: Experiment) -> Margins:
    """Whether hardmax lets a vertex hear itself, against the signs towards its neighbours and 0, in fractions."""
    values = _owns_iff(e, lambda row, i: i in row, lambda s: (s < 0).all() or (s > 0).all())
    return per_token("v_i in C_i(v) iff one strict sign", values, 64 * e.rounding)


@FW.claim(
    "own-cell/repaired", "Section 4", PROVED, OWNERS,
    """For B > 0 and v_i != 0: v_i strictly owns its cell, <B v_i, v_j> < <B v_i, v_i> for all other vertices, if and
    only if <B v_i, w - v_i> < 0 for all neighbours w of v_i and for w = 0.""",
    plain="A vertex strictly owns its cell exactly if it outscores each of its neighbours and the origin.",
    given=OWNING,
)  # fmt: skip
def own_cell_repaired(e: Experiment) -> Margins:
    """Whether hardmax lets a vertex hear itself alone, against the signs towards its neighbours and 0, in fractions."""
    values = _owns_iff(e, lambda row, i: row == [i], lambda s: (s < 0).all())
    return per_token("v_i strictly owns its cell iff all signs are negative", values, 64 * e.rounding)


def _dimensions(rng: Rng, k: int) -> dict[str, Any]:
    low = pick(rng, (1.0, 0.5, 0.2)) if k % 2 else 1.0
    return {"k": int(rng.integers(2, 6)), "d": int(rng.integers(1, 12)), "low": low, "seed": k}


# In the coordinates A v, A = B^{1/2}, the form is the identity: one law serves every dimension.
GAUSSIAN = Setting(
    {"k": 3, "d": 4, "low": 1.0, "high": 1.0, "runs": 1000, "seed": 0}, hardmax_layers, _dimensions, samples=8
)


def _bounds(e: Experiment) -> Margins:
    low, high = number(e.low, "low"), number(e.high, "high")
    return once("0 < low <= high", low if 0 < low <= high else -1.0, strict=True)


def owners(e: Experiment, d: int) -> int:
    """Return in how many of the runs all k Gaussian vertices strictly own their cells, B_d of spectrum low .. high."""
    rng = np.random.default_rng([e.seed, d])
    root = np.sqrt(np.linspace(e.low, e.high, d))
    alone = np.eye(whole(e.k, "k", least=2), dtype=bool)
    draws = rng.standard_normal((whole(e.runs, "runs", least=1), e.k, d)) * root
    return sum(bool((np.isfinite(log_weights(e.law, v, 0)) == alone).all()) for v in draws)


def failure_bound(k: int, d: int, low: float, high: float) -> float:
    """Return k (k - 1) / 2 I_{1/(1 + kappa^2)}(d/2, 1/2), kappa = 2 sqrt(low high) / (low + high).

    >>> round(failure_bound(2, 2, 1.0, 1.0) / 2, 6)
    0.146447
    """
    from scipy.special import betainc

    kappa = 2 * np.sqrt(low * high) / (low + high)
    return float(k * (k - 1) / 2 * betainc(d / 2, 0.5, 1 / (1 + kappa**2)))


@FW.claim(
    "gaussian-own-cell", "Section 4", PROVED, GAUSSIAN,
    """If v_1 .. v_k are independent standard Gaussian points, k fixed, and the spectra of the symmetric B_d stay
    between two positive bounds, then the probability that all of them strictly own their cells tends to 1 with d.""",
    plain="In high dimension a few Gaussian points all own their cells, with a probability close to one.",
    given={"0 < low <= high": _bounds},
)  # fmt: skip
def gaussian_own_cell(e: Experiment) -> Margins:
    """Draws in the first of the dimensions d, 2d, 4d.. where at most one in a hundred should fail: one in twenty may.

    The rate at which the probability tends to 1 is what fw/gaussian-own-cell/explicit is about.
    """
    runs, far = min(whole(e.runs, "runs", least=1), 400), whole(e.d, "d", least=1)
    while failure_bound(whole(e.k, "k", least=2), far, e.low, e.high) > 0.01:
        far *= 2
    few = e.given(runs=runs)
    return at_least(f"P(all own their cells) >= .95 in dimension {far}", owners(few, far), runs, 0.95)


@FW.claim(
    "gaussian-own-cell/explicit", "after Section 4", DERIVED, GAUSSIAN,
    """If v_1 .. v_k are independent standard Gaussian points of R^d and the spectrum of the symmetric B lies in
    [low, high], low > 0, then all of them strictly own their cells with probability at least
    1 - k(k-1)/2 I_{1/(1+kappa^2)}(d/2, 1/2), kappa = 2 sqrt(low high)/(low + high); for k = 2 and B = I with
    equality.""",
    plain="Gaussian points all own their cells with at least a probability that can be written down.",
    given={"0 < low <= high": _bounds},
)  # fmt: skip
def gaussian_own_cell_explicit(e: Experiment) -> list[Margins]:
    """Draws against the bound, by the confidence interval of Clopper and Pearson."""
    count, bound = owners(e, whole(e.d, "d", least=1)), 1 - failure_bound(e.k, e.d, e.low, e.high)
    margins = [at_least("P(all own their cells) >= bound", count, e.runs, bound)]
    if e.k == 2 and e.low == e.high:
        margins.append(at_most("P(both own their cells) <= 1 - 2 p_d", count, e.runs, bound))
    return margins
