"""What layers do for all time to come: limits and periodic orbits of hardmax and localmax, proved in fractions.

A finite run says nothing about a limit unless the motion that remains is known. Here it is known exactly: as long as
every token listens to the same tokens the layers are linear, and it is proved that no token ever listens to others.

- Straight lines, for hardmax and for a delta that vanishes: every token hears only tokens that rest, so it moves
  straight to their mean; no other token ever scores as high.
- Unchanging neighbours, for a constant delta > 0: z <- W z with W row-stochastic, so that the distances of all tokens
  from their limits never exceed those of today; scores within these distances leave every neighbourhood as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.claims import exact
from attnflow.claims.exact import Rationals
from attnflow.claims.experiment import Experiment
from attnflow.claims.margins import Numbers, Undecided
from attnflow.claims.reasons import ASK_FOR_EXACT
from attnflow.core.inputs import varies_in_time
from attnflow.core.schedules import Geometric, Schedule
from attnflow.laws import Law, Neighbourhood
from attnflow.motions import Motion

Neighbours = list[list[int]]


@dataclass(frozen=True)
class Settled:
    """The limits (n, d) of the tokens, and which of them certainly `never` arrive there."""

    limits: Rationals
    never: NDArray[np.bool_]


def geometric(delta: Any) -> Geometric | None:
    """Return a delta(t) as first ratio^t, None where it is no such formula."""
    return delta.geometric() if isinstance(delta, Schedule) else None


def heard(e: Experiment, x: Numbers, t: int) -> Neighbours:
    """Return whom each token listens to at step t under the law of the experiment."""
    if e.exact:
        return exact.neighbours(e.law, x, 1, t)
    return [np.flatnonzero(row).tolist() for row in e.law.weights(x, t) > 0]


def settled(e: Experiment) -> Settled | None:
    """Return the limits of all tokens, proved from the last state of an exact run; None where no argument closes."""
    gamma, near = constant_step(e.motion), e.law.neighbourhood
    if not e.exact or gamma is None or gamma == 1 or near is None or varies_in_time(near.B):
        return None
    x, t = e.states[-1], len(e.states) - 1
    form = exact.rational(np.eye(x.shape[1]) if near.B is None else near.B)
    rows = heard(e, x, t)
    if (known := tail(e.law, t)) is not None:
        delta, ratio = known
        # How far below its top score a token listens from now on: no later score exceeds the largest one now.
        room = delta * np.abs(x @ form.T @ x.T).max() if near.threshold == "relative" else delta
        return _straight(x, rows, form, room) if ratio <= 1 - gamma else None
    if near.by_scores and not varies_in_time(near.size):
        return _unchanging(near, x, rows, form, gamma)
    return None


def constant_step(motion: Motion) -> Fraction | None:
    """Return the step size gamma of layers with a constant one, else None."""
    layers = motion.as_layers
    return None if layers is None or layers.constant_step is None else exact.step_size(layers, 0)


def tail(law: Law, t: int) -> tuple[Fraction, Fraction] | None:
    """Return (delta, ratio) with delta(t + s) <= delta ratio^s, where such a bound is known."""
    near = law.neighbourhood
    if near is None or not near.by_scores:
        return None
    if not varies_in_time(near.size) and near.size == 0:
        return Fraction(0), Fraction(0)
    if (terms := geometric(near.size)) is not None:
        # A formula with the factor 0 is hardmax, whatever its ratio.
        return (terms.first * terms.ratio**t, terms.ratio) if terms.first else (Fraction(0), Fraction(0))
    return None


def _straight(x: Rationals, rows: Neighbours, form: Rationals, delta: Fraction) -> Settled | None:
    """Prove that z_i = m_i + u (x_i - m_i), u = (1 - gamma)^s for ever, m_i the mean of today's neighbours."""
    m = np.array([x[row].sum(axis=0) / Fraction(len(row)) for row in rows], dtype=object)
    arm = x - m
    moving = (arm != 0).any(axis=1)
    if any(moving[j] for row in rows for j in row):
        return None
    for i, row in enumerate(rows):
        now, last, turn = form @ x[i], form @ m[i], form @ arm[i]
        p = x[row[0]]
        if any(now @ (x[j] - p) != 0 or last @ (x[j] - p) != 0 for j in row):
            return None  # a tie that will not last
        for k in set(range(len(x))) - set(row):
            gap = (last @ (p - m[k]), turn @ (p - m[k]) - last @ arm[k], -(turn @ arm[k]))
            if not stays_above(gap, delta):
                return None
    return Settled(m, moving)


def stays_above(c: tuple[Any, Any, Any], delta: Fraction) -> bool:
    """Say whether c_0 + c_1 u + c_2 u^2 > delta u for 0 < u <= 1, by its Bernstein coefficients."""
    return bool(c[0] >= 0 and 2 * c[0] + c[1] >= delta and c[0] + c[1] + c[2] > delta)


def _unchanging(
    near: Neighbourhood, x: Rationals, rows: Neighbours, form: Rationals, gamma: Fraction
) -> Settled | None:
    """Prove that all neighbourhoods stay as they are while z <- W z takes every token to its limit."""
    limits = limit(step_matrix(rows, gamma), x)
    away = np.abs(x - limits).max(axis=0)  # in each coordinate; never larger later, since W is row-stochastic
    scores, delta = limits @ form.T @ limits.T, exact.value_at(near.size, 0)
    top = scores.max(axis=1)
    relative = near.threshold == "relative"
    above = scores - (top - (delta * np.abs(top) if relative else delta))[:, None]
    change = (
        (np.abs(limits @ form.T) @ away)[:, None] + np.abs(limits @ form) @ away + away @ np.abs(form) @ away
    ).max() * (2 + delta * relative)
    listens = np.array([[j in row for j in range(len(x))] for row in rows])
    sure = np.where(listens, above > change, above < -change)
    if not sure.astype(bool).all() and away.any():
        return None
    shrinking = [all(rows[j] == row for j in row) for row in rows]
    return Settled(limits, (x != limits).any(axis=1) & np.array(shrinking))


def step_matrix(rows: Neighbours, gamma: Fraction) -> Rationals:
    """Return W = (1 - gamma) I + gamma P, P the uniform weights on the neighbours."""
    W = (1 - gamma) * exact.rational(np.eye(len(rows)))
    for i, row in enumerate(rows):
        W[i, row] = W[i, row] + gamma / len(row)
    return W


def closed_groups(rows: Neighbours) -> list[list[int]]:
    """Return the smallest sets of tokens that listen to no token outside, in the order of their first members.

    >>> closed_groups([[0], [0, 1], [2, 3], [2, 3]])
    [[0], [2, 3]]
    """
    reach = [{i, *row} for i, row in enumerate(rows)]
    for _ in range(len(rows).bit_length()):  # each time, ways twice as long
        reach = [set().union(*(reach[j] for j in reached)) for reached in reach]
    last = [i for i, reached in enumerate(reach) if all(i in reach[j] for j in reached)]
    return sorted({tuple(sorted(reach[i])): sorted(reach[i]) for i in last}.values())


def limit(W: Rationals, x: Rationals) -> Rationals:
    """Return lim W^k x for a row-stochastic W with a positive diagonal.

    Closed groups go to their stationary mean; the others to the mean of what they are absorbed by.

    >>> from attnflow.claims.exact import rational
    >>> W = rational([[1, 0, 0], [0, 1, 0], [0.25, 0.25, 0.5]])
    >>> limit(W, rational([[1], [-3], [7]])).ravel().tolist()
    [Fraction(1, 1), Fraction(-3, 1), Fraction(-1, 1)]
    """
    n = len(W)
    found, one = np.empty(x.shape, dtype=object), exact.rational(np.eye(n))
    groups = closed_groups([np.flatnonzero(row != 0).tolist() for row in W])
    for group in groups:
        # pi (W - I) = 0 with sum pi = 1 in the place of one of the equations
        system = (W - one)[np.ix_(group, group)].T
        system[-1] = Fraction(1)
        pi = exact.solve(system, one[np.ix_(group, group)][:, -1:])
        found[group] = (pi.T @ x[group])[0]
    kept = sorted(i for group in groups for i in group)
    rest = [i for i in range(n) if i not in kept]
    if rest:
        found[rest] = exact.solve((one - W)[np.ix_(rest, rest)], W[np.ix_(rest, kept)] @ found[kept])
    return found


def orbit(e: Experiment, period: int) -> Rationals | None:
    """Return a periodic orbit (period + 1, n, d) of a law that has this period in time, found from an exact run.

    It is the fixed point of the last whole period, solved over the rationals from its neighbourhoods, and verified by
    a replay from the solution; None if the replay does not come back.
    """
    turns, gamma = (len(e.states) - 1) // period, constant_step(e.motion)
    if not e.exact or turns == 0 or gamma is None or gamma == 1:
        return None
    start = (turns - 1) * period
    W = exact.rational(np.eye(e.shape[0]))
    for t in range(start, start + period):
        W = step_matrix(heard(e, e.states[t], t), gamma) @ W
    states = exact.replay(limit(W, e.states[start]), e.law, e.motion, period)
    return states if (states[0] == states[-1]).all() else None


def unsettled(e: Experiment) -> Undecided:
    """Return why limits of layers, which are proved in fractions, are not known."""
    steps = len(e.states) - 1
    if e.law.replays != "fractions":
        return Undecided(
            f"limits are proved in fractions, and the layers of {type(e.law).__name__} are not computed in fractions",
            "give one of the laws whose layers are: Hardmax, Localmax, HegselmannKrause",
        )
    if not exact.replayable(e.law, e.motion):
        return Undecided(
            "limits are proved in fractions, and these layers are not computed in fractions",
            "give numbers or quotients of polynomials for the parameters, and another threshold than 'normalized'",
        )
    if not e.exact:
        return Undecided(
            f"limits are proved in fractions, and an exact replay of {steps} steps of {e.shape[0]} tokens takes so "
            "long that it is done only if asked for",
            f"give fewer steps, fewer tokens, or {ASK_FOR_EXACT}",
        )
    gamma = constant_step(e.motion)
    if gamma is None or gamma == 1:
        return Undecided("limits are proved for a constant step below 1 only", "give one number below 1 for the step")
    delta = getattr(e.law, "delta", 0)
    found = tail(e.law, steps)
    if varies_in_time(delta) and found is None:
        return Undecided(
            "nothing is known of delta beyond the run",
            "give delta as a number, or as a formula such as '0.1 * 0.25 ** t'",
        )
    if found is not None and found[1] > 1 - gamma:
        return Undecided(
            f"delta vanishes like {float(found[1]):g}^t, which is slower than followers arrive, {float(1 - gamma):g}^t",
            "give a delta that vanishes faster, or a smaller step",
        )
    return Undecided(
        f"after {steps} steps it is not proved that every token listens to the same tokens for ever",
        "give more steps",
    )
