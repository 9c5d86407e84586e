"""Which sources some tokens can hear at any moment of a step, wherever tokens and sources are on their way.

At time s token i gives source j the weight w_j e^{g <a_i, x_j>}, where g(s) > 0 and a_i(s) is an affine function of
x_i(s). For tokens with |a_i(s) - c| <= R, for sources within r_j of places p_j, and for any source l among them,

    <a_i, x_j - x_l>  <=  <c, p_j - p_l> + R |p_j - p_l| + (|c| + R) (r_j + r_l).

If g times this is at most log(w_l eps / W) for the least g of the step, W the mass of all, then the weight of j is at
most eps w_j / W times that of l. All sources that are left out so weigh at most eps of the total.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array, matrix_at, number_at, vector_at
from attnflow.laws import Hearing

if TYPE_CHECKING:
    from attnflow.motions.flows import ContinuousMotion

Rows = NDArray[np.int64]

# Sources that are left out weigh at most this part of the total: no more than a rounding error.
LEFT_OUT = 1e-16
# Tokens are taken in at most GROUPS groups, each of which is compared with all sources.
GROUPS, FEW_SOURCES = 16, 4096


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


def heard(
    motion: ContinuousMotion,
    hearing: Hearing,
    times: tuple[float, ...],
    tokens: Around,
    sources: Around,
    log_masses: Array | None,
    total: float,
) -> Rows:
    """Return the sources that some of the tokens may hear at these times, the first, a middle and the last of a step.

    `total` is the mass of all sources, also of those that are not given.
    """
    x, reach = tokens
    d = x.shape[1]
    forms = [covectors(motion, hearing, x, t) for t in times]
    gain = min(g for _, g in forms)
    if not gain > 0:
        return np.arange(len(sources.places))
    # How far each a_i goes: with the token, as a linear map takes it along, and with the time.
    ends = np.concatenate([np.eye(d), np.zeros((1, d))])
    stretch = max(
        float(np.linalg.norm(m[:d] - m[d], 2)) for m, _ in (covectors(motion, hearing, ends, t) for t in times)
    )
    a = forms[0][0]
    turn = stretch * reach + np.max([np.linalg.norm(one - a, axis=1) for one, _ in forms], axis=0)
    weights = np.zeros(len(sources.places)) if log_masses is None else log_masses
    depth = math.log(total / LEFT_OUT)
    near = np.zeros(len(sources.places), dtype=bool)
    # Few sources are compared with fewer and larger groups: there a group costs more than it saves.
    for group in groups(a, GROUPS if len(sources.places) > FEW_SOURCES else GROUPS // 4):
        c = (a[group].min(axis=0) + a[group].max(axis=0)) / 2
        R = float((np.linalg.norm(a[group] - c, axis=1) + turn[group]).max())
        scores = sources.places @ c
        slack = (float(np.linalg.norm(c)) + R) * sources.reach
        surest = int((scores - slack + weights / gain).argmax())
        least = scores[surest] - slack[surest] - (depth - weights[surest]) / gain
        apart = np.linalg.norm(sources.places - sources.places[surest], axis=1)
        # What is not a number is kept.
        near |= ~(scores + slack + R * apart < least)
    return np.flatnonzero(near)


def groups(a: Array, most: int) -> list[Rows]:
    """Cut points into at most `most` boxes, each time the widest one into halves.

    >>> groups(np.array([[0.0], [0.0], [1.0]]), 16)
    [array([0, 1]), array([2])]
    """
    parts, widths = [np.arange(len(a))], [np.ptp(a, axis=0)]
    while len(parts) < most:
        k = max(range(len(parts)), key=lambda i: float(widths[i].max()))
        part, axis = parts[k], int(widths[k].argmax())
        if not widths[k][axis] > 0:
            break
        along = a[part, axis]
        low = along <= along.min() + widths[k][axis] / 2
        if low.all():
            break
        halves = [part[low], part[~low]]
        parts[k : k + 1], widths[k : k + 1] = halves, [np.ptp(a[half], axis=0) for half in halves]
    return parts
