"""Claims of *Clustering in pure-attention hardmax transformers* (arXiv 2407.01602).

z_i <- (z_i + alpha mean_{C_i} z_j) / (1 + alpha), C_i = {j : <A z_i, z_j> = max_l <A z_i, z_l>}, A symmetric positive
definite (the parameter B). A token is a leader once C_i = {i}. All of it is rational: verdicts are proofs.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.claims import exact
from attnflow.claims.claim import DERIVED, PROVED, Paper, Setting, Statement
from attnflow.claims.experiment import Experiment
from attnflow.claims.hypotheses import constant, hull_rounding, inclusion, positive_definite, quadratic, shrinking_hull
from attnflow.claims.margins import Margins, Numbers, Undecided, largest, once, per_token, smallest, unknown
from attnflow.claims.samplers import Rng, cloud, distinct, log_uniform, pick, positive_form
from attnflow.claims.settled import Settled, settled, unsettled
from attnflow.geometry.forms import score_rounding
from attnflow.laws import Hardmax
from attnflow.motions import Layers

HARDMAX = Paper(
    "hardmax",
    "Alcalde, Fantuzzi, Zuazua",
    "Clustering in pure-attention hardmax transformers and its role in sentiment analysis",
    "2407.01602",
    heading="Clustering in hardmax transformers",
    notation="""Tokens z_1 .. z_n in R^d, A symmetric positive definite (the parameter is called B), alpha > 0, <x,
    y>_A = <A x, y>, |x|_A^2 = <x, x>_A. C_i is the set of tokens j with the largest score <z_i, z_j>_A, every tied
    token counted, and layers are z_i <- (z_i + alpha mean_{j in C_i} z_j) / (1 + alpha). Delta_i is the step of token
    i, K^k the convex hull at layer k. A token is a leader from the first layer on at which C_i = {i}; a follower has
    C_i = {j}, j a leader. S(K) = {x in K : max_{y in K} <x, y>_A = |x|_A^2}.""",
)
POSITIVE = "A > 0"


def _transformer(given: dict[str, Any]) -> tuple[Hardmax, Layers]:
    return Hardmax(B=given["B"]), Layers(alpha=given["alpha"])


def _sample(rng: Rng, k: int, steps: int = 12) -> dict[str, Any]:
    x = distinct(cloud(rng, k))
    x = x[x.any(axis=1)] if x.any() else x + 1
    alpha = pick(rng, (0.5, 1.0, 0.25, 2.0, 10.0, log_uniform(rng, 0.1, 10)))
    return {"tokens": x, "B": positive_form(rng, k // 2, x.shape[1]), "alpha": alpha, "steps": steps}


LAYERS = Setting({"tokens": ..., "B": None, "alpha": 0.5, "steps": 30}, _transformer, _sample, arithmetics=("exact",))
LONG = replace(LAYERS, parameters={**LAYERS.parameters, "steps": 60}, sample=partial(_sample, steps=30))


def largest_norm(e: Experiment) -> Any:
    """Return R^2, the largest <A z_i, z_i> at the start; 1 if all tokens are 0."""
    return quadratic(e.form(), e.tokens).max() or 1


def rounding(e: Experiment) -> float:
    """Return the rounding bound of differences of scores, over R^2."""
    if e.exact:
        return 0.0
    return float(score_rounding(e.form(), e.tokens, e.tokens).max()) / float(largest_norm(e))


def scores(e: Experiment, x: Numbers) -> Numbers:
    """Return s_ij = <A z_i, z_j> with the A of the instance."""
    return x @ e.form().T @ x.T


def leads(e: Experiment, x: Numbers) -> Numbers:
    """Return s_ii - max_{j != i} s_ij over R^2: positive for a leader, C_i = {i}."""
    s, n = scores(e, x), len(x)
    if n == 1:
        return np.ones(1)
    rivals = s[~np.eye(n, dtype=bool)].reshape(n, n - 1)
    return (np.diagonal(s) - largest(rivals, axis=1)) / largest_norm(e)


def _distinct(e: Experiment) -> list[Margins]:
    x, n = e.tokens / e.scale, len(e.tokens)
    apart = np.abs(x[:, None] - x[None]).max(axis=2)[~np.eye(n, dtype=bool)].reshape(n, n - 1)
    found = [per_token("z_i != 0", np.abs(x).max(axis=1), strict=True)]
    return [*found, per_token("z_i != z_j", smallest(apart, axis=1), strict=True)] if n > 1 else found


APART: dict[str, Statement] = {POSITIVE: positive_definite, "tokens distinct and not 0": _distinct}


# Where the step does not vary, what remains of the run is known.
STEADY = {POSITIVE: positive_definite, "alpha is constant": constant("alpha", "alpha is a number")}


hull = HARDMAX.claim(
    "hull", "on the way to the main theorem", PROVED, LAYERS,
    """The convex hull K^k of the tokens shrinks, K^{k+1} inside K^k; so it converges to a polytope with at most n
    vertices.""",
    plain="The convex hull of the tokens never grows, so it settles to a polytope.",
)(shrinking_hull)  # fmt: skip


def gains(e: Experiment) -> tuple[Numbers, Numbers]:
    """Return (gain, step): the growth of |z_i|_A^2 in every layer, and |Delta_i|_A^2, both over R^2."""
    A, unit = e.form(), largest_norm(e)
    norms = quadratic(A, e.states)
    return (norms[1:] - norms[:-1]) / unit, quadratic(A, e.states[1:] - e.states[:-1]) / unit


@HARDMAX.claim(
    "norms", "on the way to the main theorem", PROVED, LAYERS,
    """No token loses norm: |z_i^{k+1}|_A^2 >= |z_i^k|_A^2 + |Delta_i^k|_A^2 for the step Delta_i^k of every token and
    layer, so the sum of |Delta_i^k|_A^2 over k is at most the total gain of |z_i|_A^2.""",
    plain="No token ever comes closer to the origin, in the norm of the scores.",
    given={POSITIVE: positive_definite},
)  # fmt: skip
def norms(e: Experiment) -> list[Margins]:
    """The gain of every token in every layer against its step, and the sums over the run, in fractions."""
    gain, step = gains(e)
    total = quadratic(e.form(), e.states[-1]) - quadratic(e.form(), e.states[0])
    slack = total / largest_norm(e) - step.sum(axis=0)
    last, tol = len(gain), 8 * rounding(e)
    return [
        Margins("|z_i^{k+1}|^2 >= |z_i^k|^2 + |Delta_i|^2", gain - step, np.arange(last), tol),
        per_token("sum |Delta_i|^2 <= |z_i^k|^2 - |z_i^0|^2", slack, tol * last, time=last - 1),
    ]


@HARDMAX.claim(
    "first-leaders", "on the way to the main theorem", PROVED, LAYERS,
    """If the tokens are distinct and not 0, every token of largest A-norm is a leader at layer 0: C_i = {i}, and it
    rests.""",
    plain="The tokens farthest from the origin, in the norm of the scores, are leaders from the start: they rest.",
    given=APART,
)  # fmt: skip
def first_leaders(e: Experiment) -> list[Margins]:
    """The tokens of largest norm: their score with themselves against all others, and their first step."""
    norms = quadratic(e.form(), e.tokens)
    first = norms == norms.max()
    step = quadratic(e.form(), e.states[1] - e.states[0]) / largest_norm(e)
    return [
        per_token("s_ii > s_ij", _only(first, leads(e, e.tokens)), rounding(e), strict=True),
        per_token("a leader rests", -_only(first, step, 0), rounding(e) ** 2),
    ]


def _only(mask: NDArray[np.bool_], values: Numbers, otherwise: float = 1) -> Numbers:
    """Return the values where the mask is true, and `otherwise` where the statement says nothing."""
    return np.where(mask, values, np.full(1, otherwise, dtype=values.dtype))


@HARDMAX.claim(
    "leaders-persist", "on the way to the main theorem", PROVED, LAYERS,
    """A leader, C_i = {i}, is one in all later layers and never moves (tokens distinct and not 0); others may become
    leaders later.""",
    plain="Once a leader, always a leader: it never moves again.",
    given=APART,
)  # fmt: skip
def leaders_persist(e: Experiment) -> list[Margins]:
    """Every leader of every layer: its step, and whether it leads in the next layer."""
    lead = np.array([leads(e, x) for x in e.states])
    leader = (lead[:-1] > rounding(e)).astype(bool)
    times = np.arange(len(leader))
    step = quadratic(e.form(), e.states[1:] - e.states[:-1]) / largest_norm(e)
    return [
        Margins("a leader rests", -_only(leader, step, 0), times, rounding(e) ** 2),
        Margins("a leader stays one", _only(leader, lead[1:]), times, rounding(e), strict=True),
    ]


def ends_in_S(e: Experiment) -> Margins:
    """The limits, proved exactly once every token moves straight to tokens that rest, against the definition of S(K).

    Margins are |x|_A^2 - max_{y in K} <x, y>_A over R^2, never positive; until the limits are proved the claim is
    undecided.
    """
    end = settled(e)
    if end is None:
        return unknown("every token converges to a point of S(K)", unsettled(e), len(e.states) - 1)
    s = scores(e, end.limits)
    values = (np.diagonal(s) - largest(s, axis=1)) / largest_norm(e)
    return per_token("|x|_A^2 = max_K <x, y>_A at the limit x", values, time=len(e.states) - 1)


limits = HARDMAX.claim(
    "limits", "main theorem", PROVED, LONG,
    """Every token converges, to a point of the finite set S(K) = {x in K : max_{y in K} <x, y>_A = |x|_A^2} of the
    limit polytope K.""",
    plain="Every token settles at one of finitely many points of the limit polytope.",
    given=STEADY,
)(ends_in_S)  # fmt: skip


def _corners(end: Settled) -> list[int]:
    """Return for each vertex of the limit polytope the first token that tends to it."""
    first = sorted({tuple(v): i for i, v in reversed(list(enumerate(end.limits)))}.values())
    others = {i: end.limits[[j for j in first if j != i]] for i in first}
    return [i for i in first if len(first) == 1 or exact.separated(others[i], end.limits[i]) is not None]


@HARDMAX.claim(
    "vertices-in-finite-time", "on the limit polytope", PROVED, LONG,
    "Every vertex of the limit polytope is occupied by a token, exactly, after finitely many layers.",
    plain="After finitely many layers a token sits exactly at every vertex of the limit polytope.",
    given=STEADY,
)  # fmt: skip
def vertices_in_finite_time(e: Experiment) -> list[Margins]:
    """The vertices of the hull of the limits, proved exactly, against the tokens of the last layer."""
    end, last = settled(e), len(e.states) - 1
    if end is None:
        return [unknown("every vertex of the limit is occupied", unsettled(e), last)]
    return [_occupied(e, end, i, last) for i in _corners(end)]


def _occupied(e: Experiment, end: Settled, i: int, last: int) -> Margins:
    """Return minus the distance of the nearest token from the limit of token i; undecided if one may arrive later."""
    there = (end.limits == end.limits[i]).all(axis=1)
    away = quadratic(e.form(), e.states[-1] - end.limits[i])[there].min() / largest_norm(e)
    if away > 0 and not end.never[there].all():
        later = Undecided(f"no token is there after {last} steps, but one may arrive later", "give more steps")
        return unknown("a vertex of the limit is occupied", later, last)
    return once("a vertex of the limit is occupied", -away, time=last)


@HARDMAX.claim(
    "leaders-are-vertices", "after the main theorem", DERIVED, LONG,
    """A leader is a vertex of the hull of its layer and of all later ones; every vertex v of the limit polytope K is
    occupied after finitely many layers and strictly owns its cell, <v, v>_A > <v, y>_A for all other y in K.""",
    plain="Leaders are vertices of the hull; in the end a token sits at each vertex, which owns its cell.",
    given={**APART, **STEADY},
)  # fmt: skip
def leaders_are_vertices(e: Experiment) -> list[Margins]:
    """Leaders against the hull of the others, separated by A z_i or another vector; the limit once it is proved."""
    lead = np.array([leads(e, x) for x in e.states])
    leader = np.logical_or.accumulate((lead > rounding(e)).astype(bool), axis=0)
    found = np.array([_outside(e, *rows) for rows in zip(e.states, lead, leader, strict=True)])
    first = Margins("a leader is a vertex", found, np.arange(len(found)), hull_rounding(e), strict=True)
    end, last = settled(e), len(e.states) - 1
    if end is None:
        return [first, unknown("every vertex of the limit owns its cell", unsettled(e), last)]
    corners = _corners(end)
    owns = leads(e, end.limits[corners])
    strict = Margins("a vertex of the limit owns its cell", owns[None], np.array([last]), strict=True)
    return [first, strict, *(_occupied(e, end, i, last) for i in corners)]


def _outside(e: Experiment, x: Numbers, lead: Numbers, leader: NDArray[np.bool_]) -> Numbers:
    """Return for each leader how far it is from the hull of the others; 1 for the other tokens."""
    values = _only(leader, lead)
    for i in np.flatnonzero(leader & ~(lead > rounding(e)).astype(bool)):  # A z_i separates it no longer: others might
        values[i] = -inclusion(e, np.delete(x, i, axis=0), x[i : i + 1])[0]
    return values


@HARDMAX.claim(
    "follower-rate", "on the way to the main theorem", PROVED, LAYERS,
    """While C_i = {j} and token j is a leader at v, the distance shrinks by exactly 1/(1 + alpha) per layer,
    z_i^{k+1} - v = (z_i^k - v)/(1 + alpha); so followers never arrive.""",
    plain="A token that follows a leader comes closer by the same factor in each layer, and never arrives.",
    given=APART,
)  # fmt: skip
def follower_rate(e: Experiment) -> list[Margins]:
    """Every follower of a leader in every layer: its distance from the leader before and after, in fractions."""
    shape = (len(e.states) - 1, len(e.tokens))
    off, left = np.zeros(shape, dtype=e.tokens.dtype), np.ones(shape, dtype=e.tokens.dtype)
    any_follower = False
    for k, (x, y) in enumerate(zip(e.states[:-1], e.states[1:], strict=True)):
        s = scores(e, x)
        alone = (s == s.max(axis=1)[:, None]).sum(axis=1) == 1
        j = s.argmax(axis=1)
        follows = alone & alone[j] & (j[j] == j) & (j != np.arange(len(x)))
        any_follower |= bool(follows.any())
        before, after = (x - x[j]) / e.scale, (y - x[j]) / e.scale
        off[k] = _only(follows, np.abs(after - (1 - e.gammas[k]) * before).max(axis=1), 0)
        left[k] = _only(follows, np.abs(after).max(axis=1))
    if not any_follower:
        none = Undecided(f"no token follows a leader within {shape[0]} steps", "give more steps, or other tokens")
        return [unknown("some token follows a leader", none)]
    times = np.arange(shape[0])
    return [
        Margins("z_i^{k+1} - v = (z_i^k - v)/(1 + alpha)", -off, times, 8 * e.rounding),
        Margins("a follower has not arrived", left, times, 8 * e.rounding, strict=True),
    ]
