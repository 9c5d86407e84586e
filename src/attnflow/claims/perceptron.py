"""Attention with a perceptron on the circle (arXiv 2601.21366): how much mass a small window can hold."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from attnflow.claims.claim import DERIVED, Paper, Setting
from attnflow.claims.experiment import Experiment
from attnflow.claims.margins import Margins, Undecided, once, unknown
from attnflow.claims.samplers import Rng
from attnflow.core.inputs import Array, InputError, number, reals
from attnflow.geometry.forms import EPS
from attnflow.laws import Hearing, Softmax
from attnflow.motions import SphereFlow

PERCEPTRON = Paper(
    "mlp",
    "Álvarez-López, Geshkovski, Ruiz-Balet",
    "Perceptrons and localization of attention's mean-field landscape",
    "2601.21366",
    heading="Attention with a perceptron",
    notation="""n tokens of mass 1/n at angles theta_i of the unit circle descend the energy F = sum_ij e^{beta <x_i,
    x_j>} / (2 beta n^2) + sum_i v(theta_i) / n: attention drives them apart, as USA with V = -I does, and a perceptron
    adds its force. Its potential is v(x) = sum_k a_k f(<w_k, x>), f(s) the logarithm of cosh s, with the rows w_k
    of the parameter `inner` and the numbers a_k of `outer`.""",
)
# A state rests where no token moves faster than this part of the largest force of one token on another.
AT_REST = 1e-11
# Steps of Newton's method after the descent, and the longest descent, in units of its fastest rate.
NEWTON, LONGEST = 20, 1e16


class Window(NamedTuple):
    """The bounds of the force between two tokens at the angle t, h(t) = (beta sin^2 t - cos t) e^{beta (cos t - 1)}.

    `pull` is the maximum of h, `push` the minimum of -h over |t| <= 1 / (2 sqrt(beta)).
    """

    pull: float
    push: float

    def most(self, beta: float) -> float:
        """Return the bound of the mass: (pull + e^{-beta}) / (pull + push / 2)."""
        return (self.pull + math.exp(-beta)) / (self.pull + self.push / 2)


def window(beta: float) -> Window:
    """Return these bounds; for large beta they tend to 2 e^{-3/2} and (3/4) e^{-1/8}.

    With c = cos t, the derivative of h in c is e^{beta (c - 1)} (beta^2 (1 - c^2) - 3 beta c - 1): h has one maximum.

    >>> print(window(1e8), round(window(1e8).most(1e8), 4))
    Window(pull=0.4462603..., push=0.661872...) 0.5742
    """
    c = (-3 + math.sqrt(9 + 4 * (beta**2 - 1))) / (2 * beta) if beta > 0 else 0.0
    pull = max(_curvature(beta, math.acos(c)), _curvature(beta, math.pi)) if -1 <= c <= 1 else _curvature(beta, math.pi)
    return Window(pull, -_curvature(beta, 1 / (2 * math.sqrt(beta))))


def _curvature(beta: float, t: float) -> float:
    """Return h(t); 1 - cos t is computed without cancellation."""
    return (beta * math.sin(t) ** 2 - math.cos(t)) * math.exp(-2 * beta * math.sin(t / 2) ** 2)


def _model(given: dict[str, Any]) -> tuple[Softmax, SphereFlow]:
    return Softmax(beta=number(given["beta"], "beta")), SphereFlow(V=-np.eye(2), normalized=False)


def _sample(rng: Rng, k: int) -> dict[str, Any]:
    n, m = int(rng.integers(2, 9)), int(rng.integers(1, 4))
    # Every second cloud starts inside one window.
    beta = float(rng.uniform(1.5, 6.0))
    spread = math.pi if k % 2 else 0.2 / math.sqrt(beta)
    angles = rng.uniform(-spread, spread, n)
    inner, outer = rng.standard_normal((m, 2)), rng.standard_normal(m)
    size = float(np.abs(outer) @ (inner**2).sum(axis=1))
    tokens = np.column_stack([np.cos(angles), np.sin(angles)])
    return {"tokens": tokens, "beta": beta, "inner": inner, "outer": outer / size * float(rng.uniform(0.1, 1))}


ON_CIRCLE = Setting(
    {"tokens": ..., "beta": 4.0, "inner": [[1.0, 0.0]], "outer": [0.0]}, _model, _sample, samples=4, lengths=()
)


def _weights(e: Experiment) -> tuple[Array, Array]:
    inner, outer = reals(e.inner, "inner is", "numbers (m, 2)"), reals(e.outer, "outer is", "m numbers")
    if inner.ndim != 2 or inner.shape[1] != 2 or outer.shape != inner.shape[:1]:
        raise InputError(f"inner has shape {inner.shape} and outer {outer.shape}, expected (m, 2) and (m,)")
    return inner, outer


def _unit_circle(e: Experiment) -> list[Margins]:
    n, d = e.shape
    inner, outer = _weights(e)
    size = float(np.abs(outer) @ (inner**2).sum(axis=1))
    return [
        once("d = 2", -abs(d - 2)),
        once("n >= 2", n - 1.5, strict=True),
        once("beta >= 1", e.beta - 1),
        once("sum_k |a_k| |w_k|^2 <= 1", 1 - size, 8 * EPS),
    ]


def _speeds(e: Experiment, angles: Array) -> Array:
    """Return how fast tokens descend, in units of e^beta: attention as the model has it, and the perceptron."""
    x = np.column_stack([np.cos(angles), np.sin(angles)])
    along = np.column_stack([-x[:, 1], x[:, 0]])
    inner, outer = _weights(e)
    force = (np.tanh(x @ inner.T) * outer) @ inner
    attention: Array = e.motion.velocity(Hearing(e.law), x, 0.0)  # type: ignore[attr-defined]
    speeds: Array = ((attention - force) * along).sum(axis=1) * math.exp(-e.beta)
    return speeds


def _slopes(e: Experiment, angles: Array) -> Array:
    """Return the matrix of derivatives of the speeds, by central differences."""
    h, n = 1e-5, len(angles)
    columns = [(_speeds(e, angles + h * one) - _speeds(e, angles - h * one)) / (2 * h) for one in np.eye(n)]
    return np.column_stack(columns)


def _descended(e: Experiment) -> Array | None:
    """Return the angles where the tokens come to rest, or None if they do not."""
    from scipy.integrate import solve_ivp

    start = np.arctan2(e.tokens[:, 1], e.tokens[:, 0])
    found = solve_ivp(
        lambda _, angles: _speeds(e, angles), (0, LONGEST), start, method="Radau", rtol=1e-6, atol=1e-9,
        jac=lambda _, angles: _slopes(e, angles), events=_at_rest(e),
    )  # fmt: skip
    angles: Array = found.y[:, -1]
    for _ in range(NEWTON):
        speeds = _speeds(e, angles)
        if np.abs(speeds).max() <= AT_REST / e.shape[0]:
            return angles
        step = np.linalg.lstsq(_slopes(e, angles), speeds, rcond=1e-10)[0]
        angles = angles - step * min(1.0, 0.1 / float(np.abs(step).max()))
    return None


def _at_rest(e: Experiment) -> Any:
    def rest(_: float, angles: Array) -> float:
        return float(np.abs(_speeds(e, angles)).max()) - 1e-8 / e.shape[0]

    rest.terminal = True  # type: ignore[attr-defined]
    return rest


def most_in_an_arc(angles: Array, width: float) -> int:
    """Return the largest number of angles in an arc of this width.

    >>> most_in_an_arc(np.array([0.0, 0.1, 3.0, 6.2]), 0.2)
    3
    """
    turned = np.sort(angles % (2 * np.pi))
    twice = np.concatenate([turned, turned + 2 * np.pi])
    return max(int(np.searchsorted(twice, first + width, side="right")) - i for i, first in enumerate(turned))


@PERCEPTRON.claim(
    "cluster-mass", "the mass of a cluster, as we read it", DERIVED, ON_CIRCLE,
    """Let tokens of equal masses on the circle be second-order stationary for F, beta >= 1, with a perceptron of
    Lipschitz constant at most 1: no token moves, and the second derivatives of F in the angles are positive
    semidefinite. Then an arc of width 1 / (2 sqrt(beta)) holds at most (A + e^{-beta}) / (A + B/2) of the mass, where A
    and B are the largest pull of a token and its least push inside the arc, in units of e^beta: at most
    .5742 + 1.7 e^{-beta}.""",
    plain="With a perceptron beside attention, no narrow arc can hold more than a certain part of the tokens at rest.",
    given={"n >= 2 tokens on the circle, beta >= 1, Lipschitz constant at most 1": _unit_circle},
    note="""The paper, as we read it, has .5742 + O(e^{-beta}) for large beta. With h = (beta (1 - c^2) - c)
    e^{beta (c - 1)}, c = cos t, A is the maximum of h and B the least value of -h for |t| <= 1 / (2 sqrt(beta)); they
    tend to 2 e^{-3/2} and (3/4) e^{-1/8}. Derived: if an arc has the mass M in two or more tokens, one of them has at
    most half of it, and the second derivative of F in its angle alone is at most e^beta / n times A (1 - M) - B M / 2
    + e^{-beta}. One heavy token may hold any mass: masses must be equal.""",
)  # fmt: skip
def cluster_mass(e: Experiment) -> list[Margins]:
    """From the given tokens the model descends until they rest, by an implicit integrator and Newton's method; second
    derivatives of the energy are differences of speeds. Then tokens are counted in all arcs."""
    n, bound = e.shape[0], window(e.beta)
    what = "an arc of width 1 / (2 sqrt(beta)) holds at most (A + e^{-beta}) / (A + B/2)"
    angles = _descended(e)
    if angles is None:
        return [unknown(what, Undecided("the tokens did not come to rest", "give other tokens, or a smaller beta"))]
    slopes = _slopes(e, angles)
    curvature = -float(np.linalg.eigvalsh((slopes + slopes.T) / 2)[-1]) * n
    if curvature < -1e-7:
        why = Undecided("the tokens came to rest at a saddle of the energy", "give tokens that are less symmetric")
        return [unknown(what, why)]
    width, most = 1 / (2 * math.sqrt(e.beta)), bound.most(e.beta)
    least, largest = (most_in_an_arc(angles, width * factor) / n for factor in (1 - 1e-6, 1 + 1e-6))
    if least <= most < largest:
        return [unknown(what, Undecided("two tokens are as far apart as the arc is wide", "change beta a little"))]
    return [once(what, most - largest, 1e-9, strict=True)]
