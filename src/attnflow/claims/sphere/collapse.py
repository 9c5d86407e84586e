"""Collapse from almost every start, and the equiangular motion of orthogonal starts."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import exp
from typing import Any

import numpy as np

from attnflow.claims.claim import DERIVED, FALSE, OPEN, PROVED, Statement
from attnflow.claims.exact import rational
from attnflow.claims.experiment import Experiment
from attnflow.claims.margins import Margins, once, per_token
from attnflow.claims.samplers import Rng, log_uniform, rotation
from attnflow.claims.sphere.paper import SPHERE
from attnflow.claims.sphere.runs import acute_contracts, flows_until, normalised, on_sphere, pair_gaps
from attnflow.core.inputs import Array, InputError
from attnflow.enclosures import field_of
from attnflow.enclosures.fields import SPHERE as ON_SPHERE
from attnflow.geometry.forms import EPS
from attnflow.geometry.nearest import distance
from attnflow.laws import Hearing
from attnflow.measure.phase_diagram import equiangular


def _velocity(e: Experiment, x: Array) -> Array | None:
    """Return the velocity of the model at x; None for models in steps."""
    velocity = getattr(e.motion, "velocity", None)
    return None if velocity is None else velocity(Hearing(e.law), x, 0.0)


def _at_rest(e: Experiment) -> tuple[float, float]:
    """Return (value, tol): the largest speed at the start; minus the largest 1 - <x_i, x_j> if all speeds vanish.

    A speed vanishes if it is within rounding of 0 while the pulls a_ij |Proj_{x_i} x_j| that it sums are far above
    rounding, or are all 0. Pulls too small to see, as at large beta, leave the start undecided: value 0.
    """
    x = normalised(e.tokens)
    velocity = _velocity(e, x)
    gaps = pair_gaps(x)
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


def moving(e: Experiment) -> Margins:
    """Some token moves at the start, or all are at one point already."""
    value, tol = _at_rest(e)
    return once(
        "some velocity is not 0 up to rounding, or all tokens are at one point", value, max(tol, 1e-300), strict=True
    )


def attracting_rate(e: Experiment, x: Array, up_to_rotations: bool = True) -> float:
    """Return at which rate x, at rest, attracts its neighbours; 0 if it does not.

    All eigenvalues of the linearised flow on the tangent space have negative real parts, save those of rotations in a
    model that has this symmetry.
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
    slopes = [(_velocity(e, normalised(x + h * b)), _velocity(e, normalised(x - h * b))) for b in basis]
    J = np.array([[((up - down) * c).sum() / (2 * h) for c in basis] for up, down in slopes])  # type: ignore[operator]
    values = np.linalg.eigvals(J)
    scale = float(np.abs(values).max()) or 1.0
    turns = [x @ (np.outer(p, q) - np.outer(q, p)) for k, p in enumerate(np.eye(d)) for q in np.eye(d)[:k]]
    orbit = int(np.linalg.matrix_rank(np.reshape(turns, (len(turns), -1)), tol=1e-6)) if up_to_rotations else 0
    rates = np.sort(-values.real)[orbit:] / scale
    calm = float(np.abs(velocity).max()) <= 1e-8 * scale
    return float(rates.min()) if calm and len(rates) and rates.min() > 1e-4 else 0.0


def _ends_in_hemisphere(e: Experiment) -> Margins:
    """The last state: in an open hemisphere, or at an attracting state that is not in one, or neither."""
    x = e.states[-1]
    away = distance(x, np.zeros(x.shape[1]))
    value = away if away > 1e-9 else -attracting_rate(e, x)
    what = "the tokens end in an open hemisphere, from where they collapse, and at no other attracting state,"
    return once(what, value, 1e-9, time=e.times[-1], strict=True)


def _dimension_or_beta(e: Experiment) -> list[Margins]:
    d = e.shape[1]
    return [
        once("d >= 2", d - 2),
        once("beta >= 0", e.beta),
        once("d >= 3 or beta <= 1", 1.0 if d >= 3 else 1 - e.beta),
    ]


RANGE: dict[str, Statement] = {"d >= 3 and beta >= 0, or d = 2 and 0 <= beta <= 1": _dimension_or_beta}


def _generic(rng: Rng, k: int) -> dict[str, Any]:
    d = 2 + (k % 3 > 0) * int(rng.integers(1, 3))
    beta = log_uniform(rng, 0.05, 1.0 if d == 2 else 2.5) if k % 5 else 0.0
    return {"tokens": on_sphere(rng, k, d=d), "beta": beta, "normalized": k % 4 != 3, "until": 100.0}


COLLAPSE = flows_until(100.0, _generic, samples=8)


@SPHERE.claim(
    "collapse", "Theorems 4.1, 4.3 and 5.1", PROVED, COLLAPSE,
    """From almost every start all tokens converge to one point, under SA and USA with V = B = I: in dimension d >= 3
    for every beta >= 0, on the circle for 0 <= beta <= 1.""",
    plain="From almost every start, all tokens on the sphere come together at one point.",
    given={**RANGE, "a start not at rest": moving},
    note="""On the circle the paper proves it for beta large too, beyond a bound that it does not give as a number, so
    that this part is not checked here. What is announced of the circle is sphere/collapse/announced. Below -2/3 it
    fails, since the equilateral triangle attracts: the eigenvalues of its linearised flow that are not that of
    rotations have the sign of 1/2 + 3 beta/4. What is between is sphere/collapse/gap.""",
)  # fmt: skip
def collapse(e: Experiment) -> list[Margins]:
    """The last state lies in an open hemisphere, which decides the limit, and tokens contract as they then must."""
    return [_ends_in_hemisphere(e), acute_contracts(e)]


# On the circle, beta >= -ANNOUNCED suffices as is announced, and below -TRIANGLE a triangle attracts.
ANNOUNCED, TRIANGLE = 0.16, 2 / 3


def _announced(e: Experiment) -> list[Margins]:
    return [
        once("d = 2", -abs(e.shape[1] - 2)),
        once("beta >= -.16", e.beta + ANNOUNCED),
        once("beta < 0 or beta > 1", max(-e.beta, e.beta - 1), strict=True),
    ]


def _on_circle(rng: Rng, k: int) -> dict[str, Any]:
    beta = (-ANNOUNCED, log_uniform(rng, 1.01, 5.0), -float(rng.uniform(0.01, ANNOUNCED)))[k % 3]
    return {"tokens": on_sphere(rng, k, d=2), "beta": beta, "normalized": k % 2 == 0, "until": 200.0}


WIDER = flows_until(200.0, _on_circle, samples=6, beta=2.0)


@SPHERE.claim(
    "collapse/announced", "the circle as announced in arXiv 2507.22857", OPEN, WIDER,
    """On the circle, for -0.16 <= beta < 0 and for every beta > 1, all tokens converge to one point from almost every
    start, under SA and USA with V = B = I.""",
    plain="Also for larger beta, and slightly negative beta, tokens on the circle come together at one point.",
    given={"d = 2, and -.16 <= beta < 0 or beta > 1": _announced, "a start not at rest": moving},
    note="""It is announced, with 0 <= beta <= 1, as every beta >= -0.16. We know no more than the announcement, so that
    it is open here for beta > 1; for beta large it is proved in arXiv 2312.10794, beyond a bound that is not given as a
    number. For -0.16 <= beta < 0 the proof of sphere/collapse/gap shows it.""",
)  # fmt: skip
def announced(e: Experiment) -> list[Margins]:
    """As for sphere/collapse: a state that attracts an open set, other than consensus, would refute it."""
    return [_ends_in_hemisphere(e), acute_contracts(e)]


def _between(e: Experiment) -> list[Margins]:
    return [
        once("d = 2", -abs(e.shape[1] - 2)),
        once("-2/3 < beta", e.beta + TRIANGLE, EPS, strict=True),
        once("beta < -.16", -ANNOUNCED - e.beta, strict=True),
    ]


def _near_polygons(rng: Rng, k: int) -> dict[str, Any]:
    """Return tokens near the corners of a regular polygon, some corners with more tokens than others, or any tokens."""
    corners, copies = int(rng.integers(3, 8)), int(rng.integers(1, 3))
    angles = 2 * np.pi * np.repeat(np.arange(corners), copies) / corners
    angles = np.append(angles, angles[: k % 3]) + rng.normal(0, (1e-3, 0.1, 1.0)[k % 3], corners * copies + k % 3)
    beta = -(TRIANGLE - (TRIANGLE - ANNOUNCED) * (0.002, 0.02, 0.2, 0.5, 0.9)[k % 5])
    x = np.column_stack([np.cos(angles), np.sin(angles)])
    return {"tokens": x, "beta": beta, "normalized": k % 2 == 0, "until": 200.0}


GAP = flows_until(200.0, _near_polygons, samples=6, beta=-0.5)


@SPHERE.claim(
    "collapse/gap", "the circle between the two ranges of arXiv 2507.22857", DERIVED, GAP,
    """On the circle, for -2/3 < beta < -0.16, all tokens converge to one point from almost every start, under SA and
    USA with V = B = I.""",
    plain="Tokens on the circle come together at one point even where weights mildly prefer what is far away.",
    given={"d = 2 and -2/3 < beta < -.16": _between, "a start not at rest": moving},
    note="""It was open here until it was proved by computation: attnflow.enclosures.triples has the proof, which holds
    for -2/3 < beta < 0 and every number of tokens. A sum over all triples of tokens shows that at each stationary state
    but consensus the energy grows in some direction; its sign is proved in balls. At -2/3 the sum vanishes at triangles
    of clusters, of which the equilateral one with equal masses attracts below.""",
)  # fmt: skip
def gap(e: Experiment) -> list[Margins]:
    """As for sphere/collapse: another state that attracts an open set would refute it."""
    return [_ends_in_hemisphere(e), acute_contracts(e)]


def _symmetric(rng: Rng, k: int) -> dict[str, Any]:
    """Return, of four, one generic start and three orbits of finite groups, turned half of the time."""
    d = int(rng.integers(2, 5))
    match k % 4:
        case 0:
            x = on_sphere(rng, k // 4, d=d)
        case 1:  # antipodes, each with its own multiplicity
            x = np.repeat(np.eye(d)[:1] * [[1.0], [-1.0]], rng.integers(1, 5, 2), axis=0)
        case 2:  # a regular polygon in some plane
            m = int(rng.integers(2, 8))
            angles = 2 * np.pi * np.arange(m) / m
            x = np.zeros((m, d))
            x[:, 0], x[:, 1] = np.cos(angles), np.sin(angles)
            x = np.repeat(x, int(rng.integers(1, 4)), axis=0)
        case _:  # a cross-polytope, or a simplex in its hyperplane
            m = int(rng.integers(2, d + 1))
            simplex = np.eye(d)[:m] - np.pad(np.full((m, m), 1 / m), ((0, 0), (0, d - m)))
            x = np.concatenate([np.eye(d)[:m], -np.eye(d)[:m]]) if k % 8 == 3 else normalised(simplex)
    beta = log_uniform(rng, 0.05, 1.0 if d == 2 else 2.5)
    x = normalised(x if k % 8 < 4 else x @ rotation(rng, d).T)
    return {"tokens": x, "beta": beta, "normalized": bool(rng.integers(2)), "until": 50.0}


EVERY_START = flows_until(100.0, _symmetric, samples=8)


@SPHERE.claim(
    "collapse/every-start", "Theorems 4.1, 4.3 and 5.1, read without 'almost'", FALSE, EVERY_START,
    """From every start all tokens converge to one point, under SA and USA with V = B = I, in dimension d >= 3 for every
    beta >= 0 and on the circle for 0 <= beta <= 1.""",
    plain="From every start, without exception, all tokens on the sphere come together at one point.",
    given=RANGE,
    repair="collapse",
)  # fmt: skip
def every_start(e: Experiment) -> list[Margins]:
    """A start at rest that is not consensus refutes it, at every horizon, and exactly where fractions show the rest;
    other starts as for almost every start."""
    start = moving(e)
    if start.failed.any():
        return [replace(start, certified="exact") if _plain(e) and _rests_exactly(e.tokens) else start]
    return [start, _ends_in_hemisphere(e), acute_contracts(e)]


def _plain(e: Experiment) -> bool:
    """Say whether the model is softmax with V = B = I on the sphere."""
    try:
        field = field_of(e.law, e.motion, e.shape[1])
    except InputError:
        return False
    return field.kind == ON_SPHERE and field.V is None and field.B is None


def _rests_exactly(x: Array) -> bool:
    """Say whether no token moves for any beta, in fractions: all tokens are equally long, and not all at one point.

    Tokens with one inner product with token i get one weight from it. If the parts of each such set across x_i add up
    to 0, so does the velocity of token i.

    >>> _rests_exactly(np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
    True
    >>> _rests_exactly(np.array([[1.0, 0.0], [0.0, 1.0]]))
    False
    """
    tokens = rational(x)
    square = tokens[0] @ tokens[0]
    if any(one @ one != square for one in tokens) or all((one == tokens[0]).all() for one in tokens):
        return False
    for own in tokens:
        across: dict[Fraction, Any] = {}
        for one in tokens:
            product = own @ one
            across[product] = across.get(product, 0) + square * one - product * own
        if any((total != 0).any() for total in across.values()):
            return False
    return True


def _orthogonal(e: Experiment) -> list[Margins]:
    n, d = e.shape
    inner = np.abs(e.tokens @ e.tokens.T - np.eye(n)).max(axis=1)
    return [once("d >= n", d - n), per_token("<x_i, x_j> = 0", -inner, 1e-12)]


def _frame(rng: Rng, k: int) -> dict[str, Any]:
    n = int(rng.integers(2, 8))
    d = n + k % 2 * int(rng.integers(4))
    x = np.eye(d)[:n] if k % 4 == 0 else rotation(rng, d)[:n]
    beta = (0.0, -1.0)[k % 2] if k % 6 > 3 else log_uniform(rng, 0.05, 9.0)
    normalized = k % 3 != 2
    until = 10.0 if normalized else n / (2 + 2 * max(beta, 0.0)) + 10 * exp(-beta)
    return {"tokens": x, "beta": beta, "normalized": normalized, "until": until}


ORTHOGONAL = flows_until(10.0, _frame, samples=12)


@SPHERE.claim(
    "orthogonal-start", "Section 6, the high-dimensional case", PROVED, ORTHOGONAL,
    """For d >= n, orthogonal tokens stay equiangular: <x_i, x_j> = g for all i != j, g(0) = 0 and
    g' = 2 e^{beta g} (1-g) ((n-1) g + 1) / (e^beta + (n-1) e^{beta g}) (SA),
    g' = (2/n) e^{beta g} (1-g) ((n-1) g + 1) (USA).""",
    plain="Tokens that start at right angles keep equal angles to each other while they come together.",
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
