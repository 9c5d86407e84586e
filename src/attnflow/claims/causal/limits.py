"""Where tokens end that hear themselves and the tokens before them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnflow.claims.causal.attractors import attractor
from attnflow.claims.causal.paper import CAUSAL
from attnflow.claims.claim import FALSE, OPEN, PROVED, Setting
from attnflow.claims.experiment import Experiment
from attnflow.claims.margins import Margins, Undecided, once, per_token, unknown
from attnflow.claims.proved_hypotheses import leads, proved_by
from attnflow.claims.samplers import Rng, log_uniform, pick, rotation
from attnflow.claims.sphere.collapse import attracting_rate
from attnflow.claims.sphere.runs import integration_error, on_sphere
from attnflow.core.inputs import Array, InputError, number
from attnflow.geometry.forms import EPS, form
from attnflow.laws import Law, Masked, Softmax
from attnflow.motions import Motion, SphereFlow

# A token this close to an eigenvector is at it.
AT = 1e-7
# The largest real part is that of one eigenvalue if no other comes within this part of the matrix's size.
GAP = 1e-6
# Longer runs decide nothing more, and cost as much as they are long.
LONGEST = 200.0


def causal_model(given: dict[str, Any]) -> tuple[Law, Motion]:
    """Return causal softmax with scores <B x_k, x_j>, or beta <x_k, x_j>, and the flow on the sphere with V."""
    beta = number(given.get("beta", 1.0), "beta")
    return Masked(Softmax(beta=beta, B=given.get("B")), causal=True), SphereFlow(V=given.get("V"))


# The first token


def _any_scores(rng: Rng, k: int) -> dict[str, Any]:
    d = int(rng.integers(2, 5))
    x = on_sphere(rng, k, n=int(rng.integers(2, 7)), d=d)
    B = None if k % 5 == 4 else log_uniform(rng, 0.2, 2.0) * rng.standard_normal((d, d))
    return {"tokens": x, "B": B, "until": 60.0}


FIRST = Setting({"tokens": ..., "B": None, "until": 60.0}, causal_model, _any_scores, lengths=())


@CAUSAL.claim(
    "first-token", "Theorem 4.1", PROVED, FIRST,
    "On the sphere, d >= 2, V = I, for every Q and K and from almost every start, every x_k tends to x_1(0).",
    plain="If each token hears only earlier ones, almost always all tokens end at the first token, which never moves.",
)  # fmt: skip
def first_token(e: Experiment) -> list[Margins]:
    """The first token rests, and all end in the open hemisphere around it, from where they tend to it.

    Let c = min_k <x_k, x_1> > 0, attained by x_k. Then c' = sum_j a_kj (<x_j, x_1> - <x_k, x_j> c) >= a_k1 c (1 - c),
    as every <x_j, x_1> >= c and <x_k, x_j> <= 1. So log(c / (1 - c)) grows at least at the rate min_k a_k1, and c tends
    to 1. A run that ends elsewhere decides nothing: starts of measure zero stay away for ever, others for long.
    """
    x, first = e.states, e.states[0, 0]
    moved = np.linalg.norm(x[:, 0] - first, axis=1)
    rests = Margins("x_1 rests", -moved, e.times, 64 * EPS + integration_error(e))
    lowest = float((x[-1] @ first).min())
    if lowest > AT:
        return [rests, once("every token ends with <x_k, x_1> > 0", lowest, time=e.times[-1], strict=True)]
    why = Undecided(
        f"token {int((x[-1] @ first).argmin())} is not in the open hemisphere around x_1 at the end", "give more time"
    )
    return [rests, unknown("every token ends with <x_k, x_1> > 0", why, e.times[-1])]


# The leading eigenvector


def _leading(V: Array) -> tuple[Array, float]:
    """Return a unit eigenvector of the largest real part, and by how much that is above the others, over |V|.

    The second number is negative if it belongs to a pair of complex eigenvalues.
    """
    values, vectors = np.linalg.eig(V)
    order = np.argsort(-values.real)
    lead = values[order[0]]
    gap = float(lead.real - values[order[1]].real) if lead.imag == 0 else -1.0
    xi = vectors[:, order[0]].real
    return xi / (np.linalg.norm(xi) or 1.0), gap / (float(np.linalg.norm(V, 2)) or 1.0)


def _value_matrix(e: Experiment) -> Array:
    return np.asarray(form(e.V, e.shape[1]))


@proved_by(lambda e: leads(_value_matrix(e)))
def _simple_and_positive(e: Experiment) -> list[Margins]:
    V = _value_matrix(e)
    gap = _leading(V)[1]
    size = float(np.linalg.norm(V, 2)) or 1.0
    largest = float(np.linalg.eigvals(V).real.max()) / size
    return [
        once("the eigenvalue of largest real part is real and simple", gap - GAP, 64 * EPS, strict=True),
        once("it is positive", largest, 64 * EPS, strict=True),
    ]


def _any_weights(rng: Rng, k: int) -> dict[str, Any]:
    """Return tokens, scores of many sizes, and a value matrix: symmetric, with any real eigenvalues, or any at all."""
    d = pick(rng, (2, 2, 3))
    x = on_sphere(rng, k, n=int(rng.integers(3, 7)), d=d)
    match k % 3:
        case 0:
            P = rotation(rng, d)
        case 1:
            P = np.eye(d) + 0.5 * rng.standard_normal((d, d))
        case _:
            P = np.eye(0)
    values = np.diag(np.concatenate([[1.0], rng.uniform(-3, 0.9, d - 1)]))
    V = P @ values @ np.linalg.inv(P) if P.size else rng.standard_normal((d, d))
    B = log_uniform(rng, 0.5, 10.0) * rng.standard_normal((d, d))
    return {"tokens": x, "V": V, "B": B, "until": 30.0}


TWO_POINTS = Setting({"tokens": ..., "V": ..., "B": None, "until": 30.0}, causal_model, _any_weights, lengths=())


def ends_at_leading_eigenvector(e: Experiment) -> Margins:
    """Return whether the run ends at an attracting state with all tokens at +-xi, or at another one.

    Another one is proved in balls where it can be: it is a state at rest, all eigenvalues of the linearised flow have
    negative real parts, so that it attracts an open set of starts, and some token is no eigenvector of V.
    """
    if e.until > LONGEST:
        raise InputError(
            f"until is {e.until:g}, but tokens reach what attracts them long before {LONGEST:g}: give less"
        )
    what, last = "every token tends to xi or -xi", e.times[-1]
    x, V, xi = e.states[-1], _value_matrix(e), _leading(_value_matrix(e))[0]
    found = attractor(x, V, e.instance.get("beta", 1.0) * form(e.instance.get("B"), x.shape[1]))
    if found is not None and found.turning.max() > 0:
        proof = f"they rest where eigenvalues have real parts below {-found.rate:.3g}, some at no eigenvector of V"
        values = np.where(found.turning > 0, -found.turning / np.linalg.norm(V, 2), 1.0)
        return replace(per_token(f"{what} ({proof})", values, time=last), certified="ball")
    if found is None and attracting_rate(e, x, up_to_rotations=False) == 0:
        return unknown(what, Undecided("the run ends at no attracting state", "give more time"), last)
    limit = x if found is None else found.x
    away = np.minimum(np.linalg.norm(limit - xi, axis=1), np.linalg.norm(limit + xi, axis=1))
    return per_token(what, np.where(away <= AT, 1.0, -away), 64 * EPS, time=last)


@CAUSAL.claim(
    "two-points", "Table 1", FALSE, TWO_POINTS,
    """On the sphere, if the eigenvalue of V with the largest real part is real, simple and positive, with eigenvector
    xi, then for every Q and K and from almost every start every x_k tends to xi or -xi.""",
    plain="With a dominant direction of V, each token ends at one of two opposite points, whatever Q and K are.",
    given={"a simple positive largest eigenvalue": _simple_and_positive},
    repair="two-points/repaired",
)  # fmt: skip
def two_points(e: Experiment) -> Margins:
    """The end of the run: at +-xi, where the state attracts its neighbours, or at another attracting state."""
    return ends_at_leading_eigenvector(e)


def _multiple_of_identity(rng: Rng, k: int) -> dict[str, Any]:
    given = _any_weights(rng, k)
    return {"tokens": given["tokens"], "V": given["V"], "beta": log_uniform(rng, 0.3, 8.0), "until": 30.0}


def _positive(e: Experiment) -> Margins:
    return once("beta > 0", float(e.beta), strict=True)


PLAIN = Setting(
    {"tokens": ..., "V": ..., "beta": 1.0, "until": 30.0}, causal_model, _multiple_of_identity, lengths=()
)  # fmt: skip


@CAUSAL.claim(
    "two-points/repaired", "Table 1, for plain scores", OPEN, PLAIN,
    """On the sphere, if the eigenvalue of V with the largest real part is real, simple and positive, with eigenvector
    xi, and K^T Q is a positive multiple of I, then from almost every start every x_k tends to xi or -xi.""",
    plain="With a dominant direction of V and plain scores, each token ends at one of two opposite points.",
    given={"a simple positive largest eigenvalue": _simple_and_positive, "beta > 0": _positive},
)  # fmt: skip
def two_points_repaired(e: Experiment) -> Margins:
    """The end of the run: at +-xi, where the state attracts its neighbours, or at another attracting state."""
    return ends_at_leading_eigenvector(e)
