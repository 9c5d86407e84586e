"""Proofs in rational arithmetic: layers replayed without rounding, hulls decided by certificates.

Hardmax, localmax and Hegselmann-Krause layers are closed over the rationals: with rational tokens, forms and steps
every state is rational, and every float is a rational number. A failure that survives this replay is a proof.
"""

from __future__ import annotations

from fractions import Fraction
from math import gcd, lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.claims.margins import objects
from attnflow.core.inputs import InputError, called, varies_in_time
from attnflow.core.progress import tick
from attnflow.core.schedules import Schedule
from attnflow.laws import Law
from attnflow.motions import Layers, Motion

Rationals = NDArray[Any]


def rational(value: Any) -> Rationals:
    """Return an array of fractions, each exactly the number given.

    >>> rational([[0.5], [2]])
    array([[Fraction(1, 2)],
           [Fraction(2, 1)]], dtype=object)
    """
    given = np.asarray(value, dtype=object)
    return objects((Fraction(v.item() if isinstance(v, np.generic) else v) for v in given.ravel()), given.shape)


def value_at(parameter: Any, t: int) -> Any:
    """Return a parameter at step t as a fraction or an array of them; functions are asked at a rational time.

    >>> value_at(lambda t: 2 / (t + 2), 1), value_at(Schedule("1 / (t + 2)"), 1), value_at(0.25, 9)
    (Fraction(2, 3), Fraction(1, 3), Fraction(1, 4))
    """
    value = parameter
    if isinstance(parameter, Schedule):
        value = parameter.exactly(Fraction(t))
    elif varies_in_time(parameter):
        try:
            value = parameter(Fraction(t))
        except (TypeError, AttributeError):  # np.exp and the like know no fractions
            value = called(parameter, float(t), "a parameter")
    try:
        return rational(value)[()]
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"a parameter, a function of time, is {value!r} at t = {t}: give finite numbers") from None


def replayable(law: Law, motion: Motion) -> bool:
    """Say whether the layers of a law are rational functions of rational data."""
    near, layers = law.neighbourhood, motion.as_layers
    if law.replays != "fractions" or near is None or layers is None:
        return False
    schedules = [value for value in (*vars(law).values(), *vars(layers).values()) if isinstance(value, Schedule)]
    # Roots and exponentials have values that are no fractions.
    return near.b is None and near.threshold != "normalized" and all(one.rational_at_steps for one in schedules)


def replay(tokens: Rationals, law: Law, motion: Motion, steps: int) -> Rationals:
    """Return the states x^0 .. x^steps of layers, shape (steps + 1, n, d), without rounding.

    >>> import attnflow as af
    >>> law, motion = af.Hardmax(B=[[-1.0]]), af.Layers(gamma=lambda t: 2 / (t + 2))
    >>> [[str(v) for v in x.ravel()] for x in replay(rational([[3.0], [-1.0]]), law, motion, 2)]
    [['3', '-1'], ['-1', '3'], ['5/3', '1/3']]
    """
    layers = motion.as_layers
    assert layers is not None
    n, d = tokens.shape
    # All numbers of a state are integers over one denominator: no fraction is reduced inside the loops.
    whole = lcm(*(v.denominator for v in tokens.ravel()))
    state = _integers(tokens, whole)
    states = np.empty((steps + 1, n, d), dtype=object)
    states[0] = tokens
    for t in range(steps):
        tick()
        rows = neighbours(law, state, whole, t)
        # The means are integers over whole times common.
        common = lcm(*(len(row) for row in rows))
        mean = np.array([(common // len(row)) * state[row].sum(axis=0) for row in rows], dtype=object)
        state, whole = _moved(state, mean, common, whole, layers, t)
        states[t + 1] = objects((Fraction(v, whole) for v in state.ravel()), state.shape)
    return states


def heard(law: Law, x: Rationals, t: int, sources: Rationals | None = None) -> list[list[int]]:
    """Return whom each token at x averages over at step t, among the sources (by default the tokens themselves).

    >>> import attnflow as af
    >>> heard(af.Hardmax(), rational([[1, 0], [1, 1], [0, 1]]), 0)
    [[0, 1], [1], [1, 2]]
    """
    places = x if sources is None else sources
    both = np.vstack([x, places])
    whole = lcm(*(v.denominator for v in both.ravel()))
    integers = _integers(both, whole)
    return neighbours(law, integers[: len(x)], whole, t, integers[len(x) :])


def neighbours(law: Law, state: Rationals, whole: int, t: int, sources: Rationals | None = None) -> list[list[int]]:
    """Return whom each token averages over, for tokens state / whole and sources of the same denominator."""
    places = state if sources is None else sources
    near = law.neighbourhood
    assert near is not None
    if not near.by_scores:
        radius = value_at(near.size, t) ** 2 * whole * whole
        apart = state[:, None, :] - places[None, :, :]
        return [np.flatnonzero(row).tolist() for row in (apart * apart).sum(axis=2) <= radius]
    scores, scale = _scores(near.B, state, places, t)
    top = scores.max(axis=1)
    floor = top
    if varies_in_time(near.size) or near.size:
        delta = value_at(near.size, t)
        slack = delta * whole * whole * scale if near.threshold == "additive" else delta * np.abs(top)
        floor = top - slack
    rows = [np.flatnonzero(row).tolist() for row in scores >= floor[:, None]]
    return rows if near.ties == "tokens" else [_told(row, places, near.ties) for row in rows]


def _told(row: list[int], places: Rationals, ties: str) -> list[int]:
    if ties == "first":
        return row[:1]
    points = {tuple(places[j]): j for j in reversed(row)}
    return sorted(points.values())


def _scores(B: Any, state: Rationals, places: Rationals, t: int) -> tuple[Rationals, int]:
    """Return integers s_ij and a scale with <B x_i, x_j> = s_ij / (scale whole^2)."""
    if B is None:
        return state @ places.T, 1
    form = value_at(B, t)
    scale = lcm(*(v.denominator for v in form.ravel()))
    return (state @ _integers(form, scale).T) @ places.T, scale


def _moved(state: Rationals, mean: Rationals, common: int, whole: int, motion: Layers, t: int) -> tuple[Rationals, int]:
    """Return x + gamma (m - x), or x + P (m - x), over a new denominator, reduced."""
    apart = mean - common * state
    if motion.V is not None:
        V = value_at(motion.V, t)
        step = solve(rational(np.eye(len(V))) + V, V)
        scale = lcm(*(v.denominator for v in step.ravel()))
        moved = scale * common * state + apart @ _integers(step, scale).T
    else:
        gamma = step_size(motion, t)
        scale = gamma.denominator
        moved = scale * common * state + gamma.numerator * apart
    whole *= scale * common
    shared = gcd(whole, *moved.ravel())
    return moved // shared, whole // shared


def step_size(motion: Layers, t: int) -> Fraction:
    """Return gamma at step t."""
    if motion.gamma is not None:
        return Fraction(value_at(motion.gamma, t))
    alpha = Fraction(value_at(motion.alpha, t))
    return alpha / (1 + alpha)


def solve(matrix: Rationals, right: Rationals) -> Rationals:
    """Solve a linear system by elimination; the matrix must be invertible.

    >>> solve(rational([[2, 1], [1, 1]]), rational([[1], [0]])).ravel().tolist()
    [Fraction(1, 1), Fraction(-1, 1)]
    """
    m, k = np.hstack([matrix, right]), len(matrix)
    for c in range(k):
        tick()
        pivot = next(r for r in range(c, k) if m[r, c] != 0)
        m[[c, pivot]] = m[[pivot, c]]
        _eliminate(m, c, c)
    return m[:, k:]


def _eliminate(table: Rationals, row: int, column: int) -> None:
    """Make a column of a table that of the identity, by multiples of a row."""
    table[row] = table[row] / table[row, column]
    for r in range(len(table)):
        if r != row and table[r, column] != 0:
            table[r] = table[r] - table[r, column] * table[row]


def _integers(fractions: Rationals, whole: int) -> Rationals:
    return objects((v.numerator * (whole // v.denominator) for v in fractions.ravel()), fractions.shape)


def separated(points: Rationals, p: Rationals) -> Rationals | None:
    """Return u with <u, x - p> > 0 for every one of the points, or None if p lies in their hull: a proof either way.

    Phase one of the simplex method for weights w >= 0 with sum w = 1 and sum w (x - p) = 0, with Bland's rule.

    >>> separated(rational([[1, 0], [0, 1]]), rational([0, 0]))
    array([Fraction(1, 1), Fraction(1, 1)], dtype=object)
    >>> separated(rational([[1, 0], [-1, 0]]), rational([0, 0])) is None
    True
    """
    n, d = points.shape
    rows = np.vstack([(points - p).T, rational(np.ones((1, n)))])
    table = np.hstack([rows, rational(np.eye(d + 1)), rational(np.eye(d + 1)[:, -1:])])
    cost = np.concatenate([-rows.sum(axis=0), rational(np.zeros(d + 1)), rational([-1])])
    basis = list(range(n, n + d + 1))
    while (entering := next((j for j in range(n) if cost[j] < 0), None)) is not None:
        tick()
        ratios = [(table[r, -1] / table[r, entering], basis[r], r) for r in range(d + 1) if table[r, entering] > 0]
        pivot = min(ratios)[2]
        _eliminate(table, pivot, entering)
        cost = cost - cost[entering] * table[pivot]
        basis[pivot] = entering
    if cost[-1] == 0:
        return None
    # The reduced costs of the artificial variables are 1 - y, y the dual solution: y (x - p, 1) <= 0 for all x.
    dual = cost[n : n + d + 1] - 1
    return rational(dual[:d])


def positive_semidefinite(matrix: Rationals, strictly: bool = False) -> bool:
    """Say whether a symmetric matrix is positive semidefinite, or strictly definite, by its LDL^T pivots.

    >>> positive_semidefinite(rational([[1, 1], [1, 1]])), positive_semidefinite(rational([[1, 2], [2, 1]]))
    (True, False)
    >>> positive_semidefinite(rational([[1, 1], [1, 1]]), strictly=True)
    False
    """
    m = matrix.copy()
    if (m != m.T).any():
        return False
    for k in range(len(m)):
        tick()
        if m[k, k] < 0 or (m[k, k] == 0 and (strictly or any(m[k, j] != 0 for j in range(k, len(m))))):
            return False
        if m[k, k] > 0:
            rest = m[k + 1 :, k]
            m[k + 1 :, k + 1 :] = m[k + 1 :, k + 1 :] - np.outer(rest, rest) / m[k, k]
    return True


def invertible(matrix: Rationals) -> bool:
    """Say whether a square matrix has an inverse.

    >>> invertible(rational([[0, 1], [1, 0]])), invertible(rational([[1, 2], [2, 4]]))
    (True, False)
    """
    try:
        solve(matrix, rational(np.eye(len(matrix))))
    except StopIteration:
        return False
    return True


def largest_eigenvalue(matrix: Rationals) -> Fraction:
    """Return an upper bound of the largest eigenvalue of a symmetric matrix, sharp to about 1e-14, proved by LDL^T.

    >>> float(largest_eigenvalue(rational([[2, 0], [0, 1]])))
    2.0
    """
    found = float(np.linalg.eigvalsh(matrix.astype(float)).max())
    identity = rational(np.eye(len(matrix)))
    for room in (0.0, 1e-15, 1e-14, 1e-13, 1e-12, 1e-9, 1e-6):
        bound = Fraction(found) + Fraction(room * abs(found))
        if positive_semidefinite(bound * identity - matrix):
            return bound
    return Fraction(np.abs(matrix).sum(axis=1).max())  # Gershgorin's, always right
