"""Hardmax in a generic polytope: single leaders, straight lines and their rates, in layers and in the flow."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from attnflow.claims import exact
from attnflow.claims.claim import FALSE, PROVED, Setting
from attnflow.claims.experiment import Experiment, near_ties
from attnflow.claims.frank_wolfe.descent import LAYERS
from attnflow.claims.frank_wolfe.paper import FW, hardmax_layers
from attnflow.claims.hypotheses import nearly_singular, step_in_unit_interval
from attnflow.claims.margins import Margins, Numbers, Undecided, once, unknown
from attnflow.claims.proved_hypotheses import proved_by
from attnflow.claims.samplers import Rng, any_form, cloud, level_set, log_uniform, pick, positive_form, step_sizes
from attnflow.core.inputs import Array, varies_in_time
from attnflow.core.schedules import Schedule
from attnflow.geometry.forms import EPS
from attnflow.geometry.generic import genericity
from attnflow.geometry.hull import Hull
from attnflow.motions import HardmaxFlow, Layers

MOVED = 2.0**-20


def _invertible(e: Experiment) -> Margins:
    """B^t is invertible at the start, or at every step where it varies."""
    steps = range(int(e.horizon)) if varies_in_time(e.B) else range(1)
    forms = [e.form(t).astype(float) for t in steps]
    values = np.array([np.linalg.svd(B, compute_uv=False).min() / (np.abs(B).max() or 1.0) for B in forms])
    if e.exact:
        values = np.where([exact.invertible(e.form(t)) for t in steps], np.maximum(values, EPS), 0.0)
    margins = Margins("B^t invertible", values, np.arange(len(values)), 8 * e.shape[1] * e.rounding, strict=True)
    return replace(margins, undecided=nearly_singular(forms[0]))


def _any_start(rng: Rng, k: int) -> dict[str, Any]:
    x = cloud(rng, k)
    B = any_form(rng, k // 2, x.shape[1])
    if B is not None and np.linalg.matrix_rank(B) < len(B):
        B = None
    gamma = pick(rng, (1.0, step_sizes(rng, k)))
    return {"tokens": x, "B": B, "gamma": gamma, "steps": int(rng.integers(5, 15)), "seed": k}


ALMOST_EVERY = Setting(
    {"tokens": ..., "B": None, "gamma": 0.5, "steps": 20, "seed": 0}, hardmax_layers, _any_start,
    arithmetics=("exact",), varying=("B",),
)  # fmt: skip


@FW.claim(
    "single-leader", "Section 2", PROVED, ALMOST_EVERY,
    """If the steps gamma^t are fixed in advance and every B^t is invertible, then for almost every start each token has
    exactly one maximising point at every step.""",
    plain="For almost every start each token has exactly one token with the largest score, at every step.",
    given={"B^t invertible": _invertible},
)  # fmt: skip
def single_leader(e: Experiment) -> Margins:
    """The tokens, moved by a random 2^-20 of their size, replayed in fractions: one maximising point for each.

    One start proves nothing of almost every start: the random move is what makes a tie an event of probability zero.
    """
    x = np.asarray(e.instance["tokens"], dtype=float)
    rng = np.random.default_rng(e.seed)
    moved = e.given(tokens=x + MOVED * (np.abs(x).max() or 1.0) * rng.standard_normal(x.shape))
    if e.exact:
        points = [exact.heard(replace(e.law, ties="points"), state, t) for t, state in enumerate(moved.states[:-1])]  # type: ignore[type-var]
        values = np.array([[2.0 - len(row) if len(row) < 2 else -1.0 for row in rows] for rows in points])
        return Margins("one maximising point", values, np.arange(len(values)), strict=True)
    near = e.law.neighbourhood
    assert near is not None
    calls = [near_ties(near, state, t) for t, state in enumerate(moved.states[:-1])]
    return Margins("one maximising point", np.where(calls, 0.0, 1.0), e.times[:-1], 0.5, strict=True)


def polytope(rng: Rng, k: int) -> tuple[Array, Array | None]:
    """Return a generic polytope: vertices with equal <Bv, v>, which strictly own their cells, and tokens inside."""
    d = int(rng.integers(1, 4))
    B = positive_form(rng, k // 2, d)
    if k % 4 == 3:  # a lattice, with a token that ties nowhere
        v = np.array(np.meshgrid(*[[-1.0, 1.0]] * d)).reshape(d, -1).T
        return np.vstack([v, np.arange(1, d + 1) / 8]), None
    u = rng.standard_normal((int(rng.integers(d + 1, d + 5)) if d > 1 else 2, d))
    if d == 1:
        u = np.array([[1.0], [-1.0]])
    v = level_set(B, u) * (log_uniform(rng, 1e-3, 1e3) if k % 4 == 2 else 1.0)
    weights = rng.dirichlet(np.ones(len(v)), size=int(rng.integers(1, 5)))
    return np.vstack([v, weights @ v]), B


def _polytopes(rng: Rng, k: int) -> dict[str, Any]:
    x, B = polytope(rng, k)
    return {"tokens": x, "B": B, "gamma": step_sizes(rng, k), "steps": int(rng.integers(5, 30))}


POLYTOPE = replace(LAYERS, sample=_polytopes)


def _generic_in_fractions(e: Experiment) -> bool:
    """Say whether the vertices are extreme and strictly own their cells, and each token is in one cell alone."""
    x = exact.rational(e.instance["tokens"])
    order = Hull(x.astype(float)).indices
    v, rest = x[order], [x[i] for i in range(len(x)) if i not in order]
    heard = exact.heard(e.law, np.vstack([v, *rest]), 0, v)
    extreme = all(exact.separated(np.delete(v, i, axis=0), one) is not None for i, one in enumerate(v) if len(v) > 1)
    inside = all(exact.separated(v, one) is None for one in rest)
    return extreme and inside and heard[: len(v)] == [[i] for i in range(len(v))] and {len(row) for row in heard} == {1}


@proved_by(_generic_in_fractions)
def _generic(e: Experiment) -> Margins:
    """Return the margin of a generic polytope: undecided where it fails by rounding only."""
    x = np.asarray(e.instance["tokens"], dtype=float)
    report = genericity(x, B=e.instance["B"])
    if report.generic:
        return once("generic polytope", 1.0, strict=True)
    worst = min(report.broken, key=lambda b: (not b.decided, b.margin))
    if worst.decided:
        return once(worst.because, -1.0, strict=True)
    tie = "this holds or fails by no more than the rounding of the tokens"
    return unknown(worst.because, Undecided(tie, "move that token or vertex away from the tie"))


def _targets(e: Experiment) -> Numbers:
    """Return the vertex v_sigma(i) of each token."""
    x = np.asarray(e.instance["tokens"], dtype=float)
    order = np.sort(Hull(x).indices)
    return e.tokens[order[genericity(x, B=e.instance["B"]).assignment]]


GENERIC = {"0 < gamma^t < 1": step_in_unit_interval, "generic polytope": _generic}


@FW.claim(
    "straight-lines", "Theorem 4.2", PROVED, POLYTOPE,
    """In a generic polytope, with constant B and gamma^t in (0, 1), vertices never move and every token runs straight
    to the vertex v of its cell: x_i^t = v + Pi_t (x_i^0 - v), Pi_t = prod_{s<t} (1 - gamma^s).""",
    plain="Vertices never move, and every other token runs straight to the vertex of its cell.",
    given=GENERIC,
)  # fmt: skip
def straight_lines(e: Experiment) -> Margins:
    """The literal run against the formula, an identity in fractions."""
    v = _targets(e)
    shrunk = np.concatenate([e.array([1]), np.cumprod(1 - e.gammas)])
    expected = v + shrunk[:, None, None] * (e.tokens - v)
    errors = np.abs(e.states - expected).max(axis=2) / e.scale
    return Margins("x_i^t = v + Pi_t (x_i^0 - v)", -errors, e.times, 4 * (e.times + 2) * e.rounding)


NO_LIMIT = Undecided(
    "finitely many values of a function, or of such a formula, say nothing of its later values",
    "give gamma as a number or as a quotient of polynomials such as '1 / (t + 2)'",
)


def _always_in_unit_interval(e: Experiment) -> Margins:
    """Return the margin of 0 < gamma^t < 1 for every t, also beyond the run: known for numbers and some formulas."""
    what = "0 < gamma^t < 1 for ever"
    if not varies_in_time(e.gamma):
        return once(what, min(e.gamma, 1 - e.gamma), strict=True)
    always = e.gamma.always_between(Fraction(0), Fraction(1)) if isinstance(e.gamma, Schedule) else None
    return unknown(what, NO_LIMIT, e.times[-1]) if always is None else once(what, 1.0 if always else -1.0)


@FW.claim(
    "exponential-rate", "Theorem 4.2 of the first version", FALSE, POLYTOPE,
    """In a generic polytope, for arbitrary steps gamma^t in (0, 1), every token converges to the vertex of its cell at
    least exponentially fast.""",
    plain="For any steps, tokens approach the vertices of their cells exponentially fast.",
    given={**GENERIC, "0 < gamma^t < 1 for ever": _always_in_unit_interval},
    repair="exponential-rate/repaired",
    note="""The first version (August 2025) says "at least exponentially fast" for arbitrary steps, and "(super-)
    exponential convergence" in its abstract. The abstract of the conference version (ICML 2026) says "with exponential
    convergence under a step-size bounded away from zero", which is right: it is fw/exponential-rate/repaired. Only the
    first wording is refuted here.""",
)  # fmt: skip
def exponential_rate(e: Experiment) -> Margins:
    """The schedule: exponential if and only if liminf (1/t) sum_{s<t} -log(1 - gamma^s) > 0, by its limit at infinity.

    A limit is found for constants and for quotients of polynomials; other schedules are undecided. Averages of a
    convergent sequence converge to its limit, so the rate is -log(1 - lim gamma).
    """
    what = "liminf (1/t) sum_{s<t} -log(1 - gamma^s) > 0"
    end = e.times[-1]
    if (np.asarray(e.tokens == _targets(e))).all():
        return once("all tokens are vertices", 1.0, time=end)
    gamma = getattr(e.motion, "gamma", None)
    limit = gamma.limit() if isinstance(gamma, Schedule) else None if gamma is None or varies_in_time(gamma) else gamma
    if limit is None:
        return unknown(what, NO_LIMIT, end)
    return once(what, Fraction(limit) if e.exact else float(limit), 1e-12 * (e.rounding > 0), time=end, strict=True)


def _bounded_below(rng: Rng, k: int) -> dict[str, Any]:
    given = _polytopes(rng, k)
    gamma = pick(rng, (0.5, 0.125, "(t + 1) / (2 * t + 3)", "0.25 + 1 / (t + 2)"))
    return {**given, "gamma": gamma, "c": 0.125 if gamma == 0.125 else 0.25}


BOUNDED_STEPS = replace(POLYTOPE, parameters={**POLYTOPE.parameters, "c": 0.25}, sample=_bounded_below)


def _at_least_c(e: Experiment) -> Margins:
    low = np.minimum(e.gammas - e.array(e.c), 1 - e.gammas)
    return Margins("c <= gamma^t < 1", low, np.arange(len(low)), 4 * e.rounding)


@FW.claim(
    "exponential-rate/repaired", "after Theorem 4.2", PROVED, BOUNDED_STEPS,
    """In a generic polytope with gamma^t >= c > 0 every token approaches the vertex of its cell at least like
    (1 - c)^t: each coordinate of x_i^t - v is at most (1 - c)^t times that of x_i^0 - v.""",
    plain="If the steps stay above some number, tokens approach the vertices of their cells exponentially fast.",
    given={**GENERIC, "gamma^t >= c": _at_least_c},
)  # fmt: skip
def exponential_rate_repaired(e: Experiment) -> Margins:
    """The literal run against (1 - c)^t, in fractions."""
    v = _targets(e)
    powers = np.concatenate([e.array([1]), np.cumprod(np.broadcast_to(1 - e.array(e.c), (len(e.states) - 1,)))])
    room = powers[:, None, None] * np.abs(e.tokens - v) - np.abs(e.states - v)
    what = "|x_i^t - v| <= (1 - c)^t |x_i^0 - v|"
    return Margins(what, room.min(axis=2) / e.scale, e.times, 4 * (e.times + 2) * e.rounding)


def _flows(rng: Rng, k: int) -> dict[str, Any]:
    x, B = polytope(rng, k)
    return {"tokens": x, "B": B, "until": pick(rng, (0.5, 3.0, 20.0))}


FLOW = Setting(
    {"tokens": ..., "B": None, "until": 5.0}, lambda given: (hardmax_layers(given)[0], HardmaxFlow()), _flows
)


@FW.claim(
    "ode", "Section 4", PROVED, FLOW,
    """In a generic polytope the hardmax equation x_i' = argmax_{y in {x_j}} <B x_i, y> - x_i has exactly one solution,
    x_i(t) = e^{-t} x_i^0 + (1 - e^{-t}) v, v the vertex of the cell of x_i^0; the Euler scheme with gamma = h/(1+h)
    converges to it at order one.""",
    plain="In continuous time each token moves straight to the vertex of its cell; small steps do nearly the same.",
    given={"generic polytope": _generic},
)  # fmt: skip
def ode(e: Experiment) -> list[Margins]:
    """The exact hardmax flow against the formula, and two Euler runs of the same law whose errors must halve."""
    v, shrunk = _targets(e), np.exp(-e.times)[:, None, None]
    errors = np.abs(e.states - (v + shrunk * (e.tokens - v))).max(axis=2) / e.scale
    solution = Margins("x_i(t) = v + e^{-t} (x_i^0 - v)", -errors, e.times, 64 * EPS)
    return [solution, _euler_order(e, v)]


def _euler_order(e: Experiment, v: Numbers) -> Margins:
    """Return by how much the errors at time 1 of 64 and of 128 Euler steps are in a ratio between 1.8 and 2.2."""
    from attnflow.runs.simulate import simulate

    expected = v + np.exp(-1.0) * (e.tokens - v)
    ends = [simulate(e.tokens, e.law, Layers(gamma=(1 / m) / (1 + 1 / m)), m).final for m in (64, 128)]
    coarse, fine = (float(np.abs(end - expected).max()) for end in ends)
    if coarse <= 64 * EPS * float(e.scale):
        return once("Euler errors vanish", 0.0, time=e.horizon)
    ratio = coarse / max(fine, 1e-300)
    return once("Euler errors halve with the step", min(ratio - 1.8, 2.2 - ratio), time=e.horizon)
