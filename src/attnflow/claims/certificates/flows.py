"""Certificates in balls: steps of flows that end in stated balls, layers of softmax, and states at rest."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from attnflow.claims import balls as layers_in_balls
from attnflow.claims import exact
from attnflow.claims.causal.attractors import attractor
from attnflow.claims.certificates.exact import ZERO, NoProof, weights
from attnflow.claims.claim import get
from attnflow.claims.emergence.flows import threshold
from attnflow.claims.emergence.line import SHOT
from attnflow.claims.emergence.proofs import exact_mirrors
from attnflow.claims.exact import Rationals, rational
from attnflow.claims.experiment import Experiment
from attnflow.enclosures import Enclosure, Locked, Mirrors, enclose, locked
from attnflow.enclosures.numbers import Numbers, arithmetic, array, balls
from attnflow.geometry.forms import form
from attnflow.laws import Softmax
from attnflow.motions import Flow

# What is given, what makes the proof short, and what is shown.
Parts = tuple[dict[str, Any], dict[str, Any], str]
Builder = Callable[[dict[str, Any]], Parts]
# The order of Taylor polynomials, the tolerance by which steps are chosen, and the bits of the checker.
ORDER, TOLERANCE, BITS = 16, 1e-11, 96
# Tokens stay this close to the polynomials of a step; the balls at the end have the second radius.
TUBE, RADIUS = Fraction(1, 2**30), Fraction(17, 2**30)
# Middles of balls, other numbers, and gaps are rounded to multiples of one over these: a ball moved by one multiple
# does not hold the tokens any more.
COARSE, GRID, EIGHTH = 2**25, 2**40, 8
# Flows are enclosed for at most this time, in units of the fastest rate, and in at most this many steps.
LONGEST, STEPS = 5.0, 80


def _middles(x: Numbers) -> Rationals:
    return array((Fraction(round(float(one.mid()) * COARSE), COARSE) for one in x.ravel()), x.shape)


def _stated(middles: Rationals, radius: Fraction = RADIUS) -> list[Any]:
    return [[[one, radius] for one in row] for row in middles]


def _widened(middles: Rationals) -> Numbers:
    from flint import arb

    return array((one + arb(0, float(RADIUS)) for one in balls(middles).ravel()), middles.shape)


def _run(found: Enclosure, order: int, bits: int) -> dict[str, Any]:
    """Return the steps of an enclosure with the balls in which tokens end."""
    return {
        "bits": bits, "order": order, "steps": [[one.h, TUBE] for one in found.steps],
        "end": _stated(_middles(found.final)),
    }  # fmt: skip


def _locked(claim: str, instance: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], Locked]:
    """Return what is given, the steps until tokens are locked to their leaders, and what is then known."""
    x = rational(instance["tokens"])
    _n, d = x.shape
    B = rational(form(instance.get("B"), d))
    V = rational(form(instance.get("V"), d))
    rates = [V[k, k] for k in range(d)]
    if any(V[i, j] != 0 for i in range(d) for j in range(d) if i != j) or min(rates) < 0 or max(rates) <= 0:
        raise NoProof(f"certificates of {claim} are made for a diagonal V >= 0 alone: give such a V")
    own = get(claim)
    mirrors = exact_mirrors(Experiment(instance, *own.setting.modelled(instance)), B.astype(float))
    left = iter(range(STEPS))
    with arithmetic(128):
        G = balls(B)

        def lock(x: Numbers) -> Locked | None:
            return locked(_widened(_middles(x)), G, rates, mirrors)

        law, flow = Softmax(B=B.astype(float)), Flow(V=V.astype(float))
        found = enclose(
            x, law, flow, LONGEST / float(max(rates)), tolerance=TOLERANCE, order=ORDER, mirrors=mirrors,
            enough=lambda x: next(left, None) is None or lock(x) is not None,
        )  # fmt: skip
        proved = lock(found.final)
    if proved is None:
        raise NoProof(f"no certificate is made of this instance: {found.stopped}, and tokens are not locked to leaders")
    gap = Fraction(math.floor(float(proved.gap.mid()) * EIGHTH), EIGHTH)
    run = _run(found, ORDER, BITS)
    return {"tokens": x, "B": B, "V": V}, {**run, "gap": gap, "mirrors": _listed(mirrors)}, proved


def _listed(mirrors: Mirrors) -> list[Any]:
    return [
        [[Fraction(int(sign)) for sign in signs], places.tolist()]
        for signs, places in zip(mirrors.signs, mirrors.places, strict=True)
        if (signs < 0).any() or (places != np.arange(len(places))).any()
    ]


def pair(instance: dict[str, Any]) -> Parts:
    """The limits of the second coordinates of the pair (1, eps), (1, -eps) are not 0."""
    given, proof, found = _locked("emergence/polytope/pair", instance)
    if found.limits[0, 1].contains(0):
        raise NoProof("no certificate is made of this instance: the limit may be 0")
    e, f = given["tokens"][:, 1]
    return given, proof, f"from (1, {e}) and (1, {f}) the second coordinates do not tend to 0"


def rank(instance: dict[str, Any]) -> Parts:
    """A token at 0 hears all alike, which adds one to the rank."""
    given, proof, found = _locked("emergence/polytope/rank", instance)
    led = {j for one in found.leaders if one is not None for j in one}
    if None not in found.leaders or not led:
        raise NoProof("no certificate is made of this instance: no token is at 0 for ever")
    return given, proof, f"the limit of P has a rank above {len(led)}, the number of vertices"


def codimension(instance: dict[str, Any], version: str) -> Parts:
    """More than three limits differ."""
    given, proof, found = _locked(f"emergence/codimension-k/{version}", instance)
    counted = [k for k in range(len(given["V"])) if given["V"][k, k] > 0 or version == "a"]
    chosen: list[Any] = []
    for row in found.limits:
        if all(any(not row[k].overlaps(other[k]) for k in counted) for other in chosen):
            chosen.append(row)
    if len(chosen) < 4:
        raise NoProof("no certificate is made of this instance: at most three limits are proved to differ")
    return given, proof, f"rescaled tokens tend to {len(chosen)} different points"


def projected(instance: dict[str, Any]) -> Parts:
    """A limit is outside the set that scores inside F would have it in."""
    given, proof, _ = _locked("emergence/polytope-times-subspace/projected", instance)
    values, vectors = np.linalg.eigh(given["B"].astype(float))
    root = (vectors * np.sqrt(values)) @ vectors.T
    S = array((Fraction(round(float(one) * GRID), GRID) for one in ((root + root.T) / 2).ravel()), root.shape)
    least = Fraction(round(float(np.sqrt(values.min())) / 2 * GRID), GRID)
    rates = ", ".join(str(given["V"][k, k]) for k in range(len(S)))
    words = f"for rates {rates} a limit w has |pi A w|^2 < max_j <pi A w, pi A v_j>"
    return given, {**proof, "root": S, "least": least}, words


def doubly_exponential(instance: dict[str, Any]) -> Parts:
    """The extreme token escapes to both sides from the ends of a short interval of starts."""
    x, d = rational(instance["tokens"]), 1
    B, V = rational(form(instance.get("B"), d)), rational(form(instance.get("V"), d))
    n, size = len(x), max(abs(one) for one in x.ravel())
    bar = 1.001 * threshold(n) / math.sqrt(float(B[0, 0]))
    token = int(np.argmin(np.abs(x.astype(float))[:, 0]))
    step = Fraction(round(SHOT * float(size) * GRID), GRID)
    starts = [x[token, 0] - step, x[token, 0] + step]
    law, motion, runs = Softmax(B=B.astype(float)), Flow(V=V.astype(float)), []
    order, bits = 20, 128
    others = np.delete(x, token, axis=0)
    if not (np.abs(others.astype(float)) > bar).all():
        raise NoProof("no certificate is made of this instance: another token is not far out at the start")
    for start, side in zip(starts, (-1, 1), strict=True):

        def enough(balls: Numbers, side: int = side) -> bool:
            return bool(side * balls[0, 0] > bar)

        moved = np.vstack([rational([[start]]), others])
        found = enclose(moved, law, motion, 28 / float(V[0, 0]), tolerance=1e-19, order=order, enough=enough)
        if not enough(found.final):
            raise NoProof("no certificate is made of this instance: the extreme token does not escape to both sides")
        runs.append(_run(found, order, bits))
    ends = f"between {starts[0]} and {starts[1]}"
    words = f"from some start {ends} the extreme token stays bounded, and its row is slow"
    return {"others": others, "B": B, "V": V, "starts": starts}, {"runs": runs}, words


def collapse(instance: dict[str, Any]) -> Parts:
    """After some layers 0 is outside the hull."""
    x = rational(instance["tokens"])
    beta, gamma = Fraction(instance["beta"]), Fraction(instance["gamma"])
    with layers_in_balls.precision(128):
        states = layers_in_balls.replay(
            balls(x),
            Softmax(beta=instance["beta"]),
            get("fw/collapse-to-origin").setting.modelled(instance)[1],
            instance["steps"],
        )
        for t, state in enumerate(states):
            direction = exact.separated(_middles(np.asarray(state)), rational(np.zeros(x.shape[1])))
            if direction is None or not t:
                continue
            heights = [sum((one * by for one, by in zip(row, balls(direction), strict=True)), 0) for row in state]
            least = min(Fraction(float(one.lower())) for one in heights)
            if least > 0:
                shown = [
                    [Fraction(round(float(one.mid()) * COARSE), COARSE), min(least / 2, RADIUS)] for one in heights
                ]
                proof = {"direction": direction, "weights": _inside(x), "steps": t, "heights": shown}
                words = f"0 is outside the hull after {t} layers, and hulls shrink"
                return {"tokens": x, "beta": beta, "gamma": gamma}, proof, words
    raise NoProof("no certificate is made of this instance: 0 stays in the hull")


def _inside(x: Rationals) -> list[Fraction]:
    """Return weights, all positive, with sum_j w_j x_j = 0."""
    for size in (2, 16, 1024):
        found = [weights(x, -one / Fraction(size)) for one in x]
        if all(one is not None for one in found):
            return [sum((one[j] for one in found if one is not None), ZERO) + Fraction(1, size) for j in range(len(x))]
    raise NoProof("no certificate is made of this instance: 0 is not far enough inside the hull")


def two_points(instance: dict[str, Any]) -> Parts:
    """A box holds a state at rest that attracts an open set, with a token at no eigenvector of V."""
    own = get("causal/two-points")
    e = Experiment(instance, *own.setting.modelled(instance))
    V, B = np.asarray(instance["V"], dtype=float), np.asarray(form(instance.get("B"), e.shape[1]), dtype=float)
    found = attractor(e.states[-1], V, B)
    if found is None or not found.turning.max() > 0:
        raise NoProof("no certificate is made of this instance: it does not end at another attracting state")
    box = _stated(rational(np.round(found.x * COARSE) / COARSE))
    words = "an open set of starts tends to a state at which some token is at no eigenvector of V"
    return {"V": rational(V), "B": rational(B)}, {"box": box}, words


FLOWS: dict[str, Builder] = {
    "emergence/polytope/pair": pair, "emergence/polytope/rank": rank,
    "emergence/polytope-times-subspace/projected": projected,
    **{f"emergence/codimension-k/{version}": partial(codimension, version=version) for version in "abc"},
    "emergence/boolean/doubly-exponential": doubly_exponential,
    "fw/collapse-to-origin": collapse, "causal/two-points": two_points,
}  # fmt: skip


def plain(value: Any) -> Any:
    """Return numbers as strings of fractions, in lists; whole numbers that count stay whole.

    >>> plain({"x": rational([0.5]), "steps": 3})
    {'x': ['1/2'], 'steps': 3}
    """
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    several = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str)
    return [plain(one) for one in value] if several else value
