"""Caps that hold their tokens for exponentially long, the staircase of the energy, the phase diagram."""

from __future__ import annotations

from math import exp
from typing import Any

import numpy as np

from attnflow.claims.claim import DERIVED, OPEN, Setting
from attnflow.claims.experiment import Experiment
from attnflow.claims.margins import Margins, once, per_token
from attnflow.claims.samplers import Rng, log_uniform, rotation
from attnflow.claims.sphere.paper import METASTABLE, SPHERE
from attnflow.claims.sphere.runs import MERGE, flows_until, normalised, pair_gaps, sphere_model
from attnflow.claims.statistics import at_least
from attnflow.core.inputs import Array, InputError, number, whole
from attnflow.core.inputs import cloud as rows_of
from attnflow.geometry.forms import EPS
from attnflow.measure.merges import merge_times, plateaux
from attnflow.measure.phase_diagram import passing


def _caps(e: Experiment) -> tuple[Array, Array, float]:
    """Return the centres, the cap of each token, and alpha = max <x, y> over x, y in distinct 2 eps-caps."""
    centres = normalised(rows_of(e.centres, "centres"))
    if centres.shape[1] != e.shape[1]:
        raise InputError(f"centres have dimension {centres.shape[1]}, the tokens {e.shape[1]}: give them in the same")
    cap = (e.tokens @ centres.T).argmax(axis=1)
    between = np.arccos(np.clip(centres @ centres.T, -1, 1))[~np.eye(len(centres), dtype=bool)]
    nearest_two = float(between.min()) if between.size else np.pi
    alpha = float(np.cos(max(nearest_two - 2 * np.arccos(1 - 2 * min(e.eps, 1.0)), 0.0)))
    return centres, cap, alpha


def time_of_the_bound(e: Experiment) -> float:
    """Return until when the tokens stay, in the clock of SA or of USA."""
    alpha, n, root = _caps(e)[2], e.shape[0], np.sqrt(e.eps)
    if e.normalized:
        return float(root / (2 * max(n - 1, 1)) * np.exp((1 - alpha) * e.beta))
    # In the clock of the weights e^{beta (<x_i, x_j> - 1)} / n time runs e^beta times as fast.
    return float(root / 2 * np.exp(-alpha * e.beta))


def _small_caps(e: Experiment) -> list[Margins]:
    centres, cap, _ = _caps(e)
    eps = number(e.eps, "eps", above=0.0)
    inside = (e.tokens * centres[cap]).sum(axis=1) - (1 - eps)
    return [
        per_token("|x_i| = 1", -np.abs(np.linalg.norm(e.tokens, axis=1) - 1), 1e-9),
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
    centres = centres @ rotation(rng, d).T
    cap = np.concatenate([np.arange(q), rng.integers(q, size=int(rng.integers(1, 8)))])
    towards, own = centres[(cap + 1) % q] if k % 3 else rng.standard_normal((len(cap), d)), centres[cap]
    across = towards - (towards * own).sum(axis=1, keepdims=True) * own
    across = normalised(across + 1e-3 * rng.standard_normal((len(cap), d)))
    across = normalised(across - (across * own).sum(axis=1, keepdims=True) * own)
    depth = np.where(np.arange(len(cap)) < q, 1.0, rng.uniform(0, 1, len(cap)))[:, None]
    angle = depth * np.arccos(1 - eps) * (1 - 1e-9)
    x = np.cos(angle) * own + np.sin(angle) * across
    return {"tokens": normalised(x), "centres": centres, "eps": eps, "beta": beta, "normalized": k % 3 != 2}


CAPS = Setting(
    {"tokens": ..., "centres": ..., "eps": 0.01, "beta": 9.0, "normalized": True, "factor": 1.0}, sphere_model,
    _in_caps, samples=12, lengths=(),
)  # fmt: skip


@METASTABLE.claim(
    "metastability", "after the theorem on metastable states", DERIVED, CAPS,
    """Let all tokens start in caps S_q(eps) = {<x, w_q> >= 1 - eps}, eps < 1/2, and let alpha be the largest inner
    product between distinct caps S_q(2 eps). A token that starts in S_q(eps) stays in S_q(2 eps) until
    (sqrt(eps) / 2) e^{(1-alpha) beta} under the weights e^{beta (<x_i, x_j> - 1)} / n, which are USA with time divided
    by e^beta, and until sqrt(eps) / (2 (n-1)) e^{(1-alpha) beta} under SA. (`factor` multiplies the time, to see by
    how much the bound can be exceeded.)""",
    plain="Tight clusters stay where they are for a time that grows exponentially with beta.",
    given={"all tokens in caps": _small_caps},
)  # fmt: skip
def metastability(e: Experiment) -> list[Margins]:
    """64 moments up to the bound."""
    eps, until = e.eps, number(e.factor, "factor", above=0.0) * time_of_the_bound(e)
    centres, cap, _ = _caps(e)
    times, noise = np.linspace(0, until, 65), until * (1.0 if e.normalized else exp(e.beta))
    run = e.evolve(normalised(e.tokens), until, record=times)
    inside = ((run.tokens * centres[cap]).sum(axis=2) - (1 - 2 * eps)) / eps
    last = run.times[-1]
    return [
        Margins("<x_i, w_q> >= 1 - 2 eps", inside, run.times, 1e-9 + 64 * EPS * noise / eps),
        once("the run reaches the time of the bound", float(last == until), 0.5, time=last, strict=True),
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


CIRCLE = flows_until(1e8, _on_circle, samples=3, beta=16.0)
# A plateau is a time between merges that lasts at least this factor; its height is known up to this part of 1.
PLATEAU, HEIGHT = 100.0, 0.05
# When the first clusters have formed, in the clock of SA.
RELAXED = 10.0


@METASTABLE.claim(
    "staircase", "the section on the staircase of the energy", OPEN, CIRCLE,
    """On the circle at large beta the energy n^{-2} sum_ij e^{beta (<x_i, x_j> - 1)} climbs a staircase: between
    merges, over many orders of magnitude of time, it rests near sum_q (n_q / n)^2, n_q the sizes of the clusters, so
    that a merge of sizes a and b adds 2 a b / n^2.""",
    plain="On the circle at large beta the energy climbs in steps: long rests, then one merge of two clusters.",
    given={"the circle, beta >= 8": _circle},
)  # fmt: skip
def staircase(e: Experiment) -> Margins:
    """The energy half way, in log time, between merges a factor of 100 apart, against sum_q (n_q/n)^2, to 5 percent."""
    run = e.evolve(normalised(e.tokens), e.until)
    found, relaxed = merge_times(run, MERGE), RELAXED * (1.0 if e.normalized else exp(-e.beta))
    rests = [p for p in plateaux(run, found) if p.end >= PLATEAU * max(p.start, relaxed)]
    heights = np.array([HEIGHT - abs(p.height - p.predicted) for p in rests])
    merges = ", ".join(f"{m.time:.4g} +- {m.error:.1g}" for m in found)
    what = f"the energy between merges (at t = {merges}) is sum_q (n_q / n)^2 to {HEIGHT:g}"
    return Margins(what, heights, np.array([p.end for p in rests]), 1e-9, strict=True)


def _of_random_tokens(e: Experiment) -> list[Margins]:
    n, d = whole(e.n, "n", least=1), whole(e.d, "d", least=1)
    return [once("n >= 2", n - 2), once("d >= 2", d - 2), once("beta >= 0", e.beta)]


def _numbers(rng: Rng, k: int) -> dict[str, Any]:
    return {"n": (2, 6, 4)[k % 3], "d": 2, "beta": log_uniform(rng, 0.1, 5.0), "normalized": k % 2 == 0, "seed": k}


PHASES = Setting(
    {"n": 6, "d": 2, "beta": 1.0, "normalized": True, "runs": 24, "seed": 0}, sphere_model, _numbers, samples=3,
    former=dict.fromkeys(("tokens", "until"), "it is about random tokens in many dimensions; give n, d and beta"),
)  # fmt: skip
# By which factor of time the curve may miss the moment when a pair merges, and how often it may miss by more.
MISSES, RARELY = 1.02, 0.1


def early_by(g: float, n: int, beta: float, normalized: bool) -> float:
    """Return how much earlier than orthogonal tokens those with all <x_i, x_j> = g at the start reach every value.

    It is the integral from 0 to g of dg / g', g' that of `measure.phase_diagram.equiangular`.

    >>> round(early_by(0.1, n=2, beta=1.0, normalized=True), 4)
    0.1799
    """
    nodes = np.linspace(0, g, 65)
    rise = 2 * (1 - nodes) * ((n - 1) * nodes + 1)
    slope = rise / (np.exp(beta * (1 - nodes)) + n - 1) if normalized else rise * np.exp(beta * nodes) / n
    return float(np.trapezoid(1 / slope, nodes))


def many_dimensions(d: int, n: int, beta: float, normalized: bool) -> int:
    """Return the first of d, 2d, 4d.. in which inner products 4 / sqrt(d), far in their tails, hardly change the time.

    Tokens that start with all <x_i, x_j> = +-4 / sqrt(d) reach .999 within a factor of sqrt(1.02) of orthogonal ones.
    """
    due, room = float(passing(np.array([beta]), n, MERGE, normalized)[0]), np.sqrt(MISSES)
    while True:
        g = 4 / np.sqrt(d)
        if g < 0.9 / max(n - 1, 1):
            late, early = (due - early_by(sign * g, n, beta, normalized) for sign in (-1, 1))
            if late < room * due and early > due / room:
                return d
        d *= 2


def _merging_fits(e: Experiment, rng: Rng, d: int, due: float) -> bool:
    """Draw tokens in dimension d, and say whether all pairs pass .999 within the factor of the time that is due.

    Only inner products matter: n tokens move in the space that they span, where each has n coordinates. Those of
    independent normal vectors are a triangle, normal below its diagonal and chi on it (Bartlett's decomposition), where
    d >= n, as `many_dimensions` always is.
    """
    x = np.tril(rng.standard_normal((e.n, e.n)), -1) + np.diag(np.sqrt(rng.chisquare(d - np.arange(e.n))))
    x = normalised(x)
    run = e.evolve(x, MISSES * due, record=[due / MISSES, MISSES * due])
    others = ~np.eye(e.n, dtype=bool)
    before, after = (pair_gaps(state)[others] for state in run.tokens[-2:])
    return bool(before.min() > 1 - MERGE > after.max())


@SPHERE.claim(
    "phase-diagram", "after Section 6, phase diagram", DERIVED, PHASES,
    """Let n tokens be independent and uniform on the sphere of R^d, n >= 2 and beta >= 0 fixed, under SA or USA. For
    every factor c > 1 the probability that each pair passes <x_i, x_j> = .999 between T/c and c T tends to 1 as d
    grows, where g_beta(T) = 1 - 1e-3 and g_beta is the inner product of n tokens that start orthogonal.""",
    plain="In high dimension random tokens come together at the time that is known for tokens at right angles.",
    given={"n >= 2, d >= 2, beta >= 0": _of_random_tokens},
    note="""Of given tokens nothing of the kind can be said, in whatever dimension: two tokens at an angle of 10 degrees
    merge long before T, two that are nearly opposite long after. Nor is d >= n enough: at n = d = 2 and beta = 1
    almost half of all starts miss T by a factor of 1.5. In the limit it holds because the inner products move by a
    smooth equation of their own and start close to those of orthogonal tokens. On the circle at large beta clusters
    persist far beyond T.""",
)  # fmt: skip
def phase_diagram(e: Experiment) -> Margins:
    """Draws in the first of the dimensions d, 2d, 4d.. where starts hardly change the time: nine of ten keep within a
    factor of 1.02, by the confidence interval of Clopper and Pearson."""
    n, runs = whole(e.n, "n", least=2), whole(e.runs, "runs", least=1)
    far = many_dimensions(whole(e.d, "d", least=2), n, e.beta, e.normalized)
    due = float(passing(np.array([e.beta]), n, MERGE, e.normalized)[0])
    rng = np.random.default_rng(e.seed)
    kept = sum(_merging_fits(e, rng, far, due) for _ in range(runs))
    what = f"P(all pairs merge within a factor {MISSES:g} of t = {due:.3g}) >= {1 - RARELY:g} in dimension {far}"
    return at_least(what, kept, runs, 1 - RARELY)
