"""Which sources some tokens can hear during a step, wherever tokens and sources are on their way.

At time s token i gives source j the weight w_j e^{g <a_i, x_j>}, where g(s) > 0 and a_i(s) is an affine function of
x_i(s). For tokens with a_i(s) = r (u + e), |u| = 1, |e| <= R, r >= q > 0, for sources within r_j of places p_j, and for
any source l among them,

    <a_i, x_j - x_l> / r  <=  <u, p_j - p_l> + R |p_j - p_l| + (1 + R) (r_j + r_l).

If this is negative, and g q times it is at most log(w_l eps / W) for the least g of the step, W the mass of all, then
the weight of j is at most eps w_j / W times that of l. All sources that are left out so weigh at most eps of the total.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array, matrix_at, number_at, vector_at
from attnflow.engines import Lists
from attnflow.laws import Hearing

if TYPE_CHECKING:
    from attnflow.motions.flows import ContinuousMotion

Rows = NDArray[np.int64]

# Sources that are left out weigh at most this part of the total: no more than a rounding error.
LEFT_OUT = 1e-16
# The tokens of a group have nearly one direction and lengths within a factor of 2; the shortest tokens are together.
# Directions are the cells of a grid. Groups on a grid with COARSE cells on each axis are compared with all sources.
# Then groups on a grid with FINE cells, and SHELLS lengths, are compared with the sources that are left.
COARSE, FINE, SHELLS, FEW_SOURCES = 8, 128, 6, 4096
# More pairs of a group and a source are not compared: all tokens are one group then.
MOST_COMPARED = 1 << 23


class Around(NamedTuple):
    """Tokens or sources during a step: each is within its own reach of its place."""

    places: Array
    reach: Array


def covectors(motion: ContinuousMotion, hearing: Hearing, x: Array, t: float) -> tuple[Array, float]:
    """Return (a, g), g >= 0, with which token i gives source j the weight w_j e^{g <a_i, x_j>}."""
    d, exponents = x.shape[1], hearing.law.exponents
    assert exponents is not None
    beta, B, b = number_at(exponents.beta, t, "beta"), matrix_at(exponents.B, t, d, "B"), exponents.b
    y, gain = motion.frame(x, t)
    queries = y if B is None else y @ B.T
    if (bias := vector_at(b, t, d, "b")) is not None:
        queries = queries + bias / math.sqrt(gain)
    # The law sees sources at x_j F, where F is the frame of the unit vectors.
    return math.copysign(1.0, beta) * queries @ motion.frame(np.eye(d), t)[0].T, abs(beta) * gain


class Groups(NamedTuple):
    """Points in the `order` of their groups, of which each begins at one of `begins` and ends at the next."""

    order: Rows
    begins: Rows


class Nearby(NamedTuple):
    """The sources that tokens may hear, in order, and of these the lists of groups of tokens."""

    sources: Rows
    lists: Lists


def heard(
    motion: ContinuousMotion,
    hearing: Hearing,
    times: tuple[float, ...],
    tokens: Around,
    sources: Around,
    log_masses: Array | None,
    total: float,
) -> Nearby:
    """Return the sources that some of the tokens may hear at these times of a step.

    Between them the law, and the frame of the motion, are taken to be as they are at one of them. `total` is the mass
    of all sources, also of those that are not given.
    """
    x, reach = tokens
    d = x.shape[1]
    forms = [covectors(motion, hearing, x, t) for t in times]
    # How far each a_i goes: with the token, as a linear map takes it along, and with the time.
    ends = np.concatenate([np.eye(d), np.zeros((1, d))])
    stretch = max(
        float(np.linalg.norm(m[:d] - m[d], 2)) for m, _ in (covectors(motion, hearing, ends, t) for t in times)
    )
    a = forms[0][0]
    turn = stretch * reach + np.max([np.linalg.norm(one - a, axis=1) for one, _ in forms], axis=0)
    gain, depth = min(g for _, g in forms), math.log(total / LEFT_OUT)
    weights = np.zeros(len(sources.places)) if log_masses is None else log_masses
    some = np.arange(len(sources.places))
    if len(some) > FEW_SOURCES:
        audible = _audible(Around(a, turn), sources, weights, (gain, depth), groups(a, COARSE, 2))
        some = np.flatnonzero(audible.any(axis=0))
        sources, weights = Around(sources.places[some], sources.reach[some]), weights[some]
    cut = groups(a, FINE, SHELLS)
    if len(cut.begins) * len(some) > MOST_COMPARED:
        cut = Groups(np.arange(len(a)), np.array([0, len(a)]))
    audible = _audible(Around(a, turn), sources, weights, (gain, depth), cut)
    near = np.flatnonzero(audible.any(axis=0))
    audible = audible[:, near]
    first = np.append(0, np.cumsum(np.count_nonzero(audible, axis=1)))
    return Nearby(some[near], Lists(*cut, np.nonzero(audible)[1].astype(np.int32), first))


def _audible(
    covectors: Around, sources: Around, weights: Array, bound: tuple[float, float], cut: Groups
) -> NDArray[np.bool_]:
    """Say of each group of tokens and each source whether it may be heard; the bound is the gain, and log(W / eps)."""
    audible = np.ones((len(cut.begins) - 1, len(weights)), dtype=np.bool_)
    if bound[0] > 0:
        from attnflow.motions.solvers.heard_kernels import compare

        compare(*covectors, *sources, weights, *bound, *cut, audible)
    return audible


def groups(a: Array, cells: int, shells: int) -> Groups:
    """Put vectors into groups of nearly one direction and one length.

    >>> groups(np.array([[1.0], [-1.0], [0.9], [0.1]]), 4, 3)
    Groups(order=array([1, 3, 0, 2]), begins=array([0, 1, 2, 4]))
    """
    d = a.shape[1]
    length = np.linalg.norm(a, axis=1)
    longest = max(float(length.max()), 1e-300)
    shell = np.minimum(shells - 1, -np.log2(np.maximum(length / longest, 2.0**-shells)))
    direction = a / np.maximum(length, 1e-300)[:, None]
    places = np.clip((direction + 1) / 2 * cells, 0, cells - 1).astype(np.int64)
    # In many dimensions codes wrap around, and several cells may be one group, which is no harm.
    code = places @ cells ** np.arange(d) * shells + (shells - 1 - shell.astype(np.int64))
    order = np.argsort(code, kind="stable")
    return Groups(order, np.concatenate([[0], 1 + np.flatnonzero(np.diff(code[order])), [len(a)]]))
