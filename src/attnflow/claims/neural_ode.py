"""Neural ODEs as movers of points: what x' = W(t) sigma(A(t) x + b(t)) can do to finitely many of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from attnflow.claims.claim import FALSE, PROVED, Paper, Setting
from attnflow.claims.experiment import Experiment
from attnflow.claims.margins import Margins, Undecided, once, per_token, unknown
from attnflow.claims.samplers import Rng, cloud, pick, rotation
from attnflow.core.inputs import Array, InputError
from attnflow.core.inputs import cloud as rows_of
from attnflow.geometry.forms import EPS
from attnflow.laws import Hearing, Softmax
from attnflow.motions import DiscreteMotion

CONTROL = Paper(
    "neuralode", "Ruiz-Balet, Zuazua", "Neural ODE control for classification, approximation and transport",
    "2104.05278", heading="Neural ODE control",
)  # fmt: skip


class Shear(NamedTuple):
    """The field x' = w max(<a, x> - b, 0) with w orthogonal to a, for a unit of time.

    Along it <a, x> is constant, so that after a unit of time x has moved to x + w max(<a, x> - b, 0) exactly.
    """

    w: Array
    a: Array
    b: float


@dataclass(frozen=True, eq=False)
class Steering(DiscreteMotion):
    """A neural ODE with piecewise constant controls, one shear in each unit of time; tokens do not see each other."""

    shears: tuple[Shear, ...]

    def step(self, hearing: Hearing, x: Array, t: int) -> Array:
        """Return the points after the t-th unit of time."""
        if t >= len(self.shears):
            return x
        w, a, b = self.shears[t]
        return x + np.maximum(x @ a - b, 0.0)[:, None] * w


def steering(x: Array, y: Array) -> tuple[Shear, ...]:
    """Return 2n shears that carry the points x to the targets y, d >= 2, x distinct and y distinct.

    In coordinates where the x_i have distinct first coordinates and the y_i distinct second ones, n shears that only
    look at the first coordinate give every x_i all other coordinates of y_i: a piecewise linear function with n kinks
    takes any n values at n distinct points. Then n shears that look at the second coordinate correct the first.

    >>> shears = steering(np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 0.0]]))
    >>> len(shears)
    4
    """
    frame = _frame(x, y)
    p, q = x @ frame, y @ frame
    middle = np.column_stack([p[:, :1], q[:, 1:]])
    return (
        *_interpolating(p[:, 0], middle - p, frame[:, 0], frame),
        *_interpolating(middle[:, 1], q - middle, frame[:, 1], frame),
    )


def _frame(x: Array, y: Array) -> Array:
    """Return, of several rotations, the one whose first axis separates the x_i best and whose second the y_i."""
    rng, d = np.random.default_rng(0), x.shape[1]
    frames = [rotation(rng, d) for _ in range(64)]
    return max(frames, key=lambda f: min(_least_gap(x @ f[:, 0]) / _width(x), _least_gap(y @ f[:, 1]) / _width(y)))


def _least_gap(s: Array) -> float:
    return float(np.diff(np.sort(s)).min(initial=np.inf))


def _width(x: Array) -> float:
    return float(np.ptp(x, axis=0).max()) or 1.0


def _interpolating(s: Array, moves: Array, a: Array, frame: Array) -> list[Shear]:
    """Return shears along <a, x> = s_i that move the i-th point by moves_i, given in the frame."""
    order = np.argsort(s)
    kinks = np.concatenate([[s[order[0]] - max(float(np.ptp(s)), 1.0)], s[order[:-1]]])
    shears: list[Shear] = []
    for i, b in zip(order, kinks, strict=True):
        done = sum((max(s[i] - shear.b, 0.0) * shear.w for shear in shears), np.zeros(len(a)))
        w = (frame @ moves[i] - done) / (s[i] - b)
        shears.append(Shear(w - (w @ a) * a, a, float(b)))
    return shears


def _targets(given: Any) -> Array:
    y = rows_of(given["targets"], "targets")
    if y.shape != np.shape(given["tokens"]):
        raise InputError(
            f"targets have shape {y.shape}, the tokens {np.shape(given['tokens'])}: give one for each token"
        )
    return y


def _distinct(x: Array) -> bool:
    return len(np.unique(x, axis=0)) == len(x)


def _steered(given: dict[str, Any]) -> tuple[Softmax, Steering]:
    x, y = given["tokens"], _targets(given)
    possible = x.shape[1] >= 2 and _distinct(x) and _distinct(y)
    return Softmax(), Steering(steering(x, y) if possible else ())


NO_CONSTRUCTION = Undecided(
    "the construction needs distinct points, distinct targets and dimension 2 or more", "give such points and targets"
)


def reached(e: Experiment) -> Margins:
    """By construction: 2n shears, each the exact flow of such a field for a unit of time, take each point to its
    target, up to the rounding that their slopes may amplify."""
    y = _targets(e.instance)
    if not _steered(e.instance)[1].shears:
        return unknown("some neural ODE takes every point to its target", NO_CONSTRUCTION)
    run = e.evolve(e.tokens, 2 * len(y))
    size = max(float(np.abs(run.tokens).max()), 1e-300)
    slopes = [float(np.abs(s.w).max()) for s in steering(e.tokens, y)]
    off = np.abs(run.final - y).max(axis=1) / size
    tol = 64 * EPS * len(y) * (1 + max(slopes)) ** 2
    return per_token("the point is at its target", 1e-6 - off, tol, time=0, strict=True)


def _free(rng: Rng, k: int) -> dict[str, Any]:
    """Return points and targets of any kind: on the line or not, with copies, on a lattice."""
    x = cloud(rng, k, n=int(rng.integers(2, 6)))
    y = cloud(rng, pick(rng, (0, 1, 2, 7)), *x.shape)
    return {"tokens": x, "targets": y}


def _separate(rng: Rng, k: int) -> dict[str, Any]:
    """Return points and targets that are distinct: generic, a permutation of the points, small integers."""
    n, d = int(rng.integers(1, 7)), int(rng.integers(2, 5))
    x = rng.standard_normal((n, d)) * 10.0 ** rng.integers(-2, 3)
    if k % 3 < 2:
        return {"tokens": x, "targets": x[rng.permutation(n)] if k % 3 else rng.standard_normal((n, d))}
    places = np.array(list(np.ndindex(*(3,) * d)), dtype=float)
    return {"tokens": rng.permutation(places)[:n], "targets": rng.permutation(places)[:n]}


FREE = Setting({"tokens": ..., "targets": ...}, _steered, _free, lengths=("tokens", "targets"))
SEPARATE = replace(FREE, sample=_separate)


@CONTROL.claim(
    "controllability", "as quoted in talks", FALSE, FREE,
    """For any n points and any n targets of R^d there are controls W(t), A(t), b(t) for which the flow of
    x' = W sigma(A x + b) takes each point to its target.""",
    plain="A neural network of continuous depth can take any points to any targets.",
    repair="controllability/repaired",
)  # fmt: skip
def controllability(e: Experiment) -> list[Margins]:
    """Exact comparisons of the data: a flow is injective, and keeps the order on the line; else the construction."""
    x, y = e.tokens, _targets(e.instance)
    width = max(_width(x), _width(y))
    one, other = np.triu_indices(len(x), 1)
    from_one = (x[one] == x[other]).all(axis=1)
    to_one = (y[one] == y[other]).all(axis=1)
    torn = np.where(from_one & ~to_one, np.abs(y[one] - y[other]).max(axis=1), 0.0).max(initial=0.0)
    glued = np.where(to_one & ~from_one, np.abs(x[one] - x[other]).max(axis=1), 0.0).max(initial=0.0)
    found = [
        once("the targets of equal points are equal, as under every flow,", -torn / width),
        once("the targets of distinct points are distinct, as under every flow,", -glued / width),
    ]
    if x.shape[1] == 1:
        turned = [-(y[j, 0] - y[i, 0]) for i, j in pairwise(np.argsort(x[:, 0], kind="stable")) if x[i, 0] < x[j, 0]]
        what = "targets on the line have the order of the points, as under every flow,"
        found.append(once(what, -max([0.0, *turned]) / width))
    return [*(replace(margins, certified="exact") for margins in found), reached(e)]


def _apart(e: Experiment) -> list[Margins]:
    return [
        once(f"distinct {name}", 1.0 if _distinct(x) else -1.0)
        for name, x in (("points", e.tokens), ("targets", _targets(e.instance)))
    ]


controllability_repaired = CONTROL.claim(
    "controllability/repaired", "Theorem on simultaneous control", PROVED, SEPARATE,
    """In R^d, d >= 2, for any n distinct points and any n distinct targets there are controls, piecewise constant in
    time with 2n pieces, for which the flow of x' = W sigma(A x + b), sigma = max(., 0), takes each point to its
    target.""",
    plain="In two or more dimensions, a network of continuous depth can take distinct points to distinct targets.",
    given={"d >= 2": lambda e: once("d >= 2", e.shape[1] - 2), "distinct points, distinct targets": _apart},
)(reached)  # fmt: skip
