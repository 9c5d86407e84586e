"""Exact certificates: the comparisons of rational numbers that refute a claim on an instance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from attnflow.claims import exact
from attnflow.claims.exact import Rationals, rational
from attnflow.core.inputs import InputError
from attnflow.core.schedules import Schedule
from attnflow.laws import Hardmax, Localmax
from attnflow.motions import Layers

Comparison = tuple[str, Any, str, Any]
# What is given, what makes the proof short, and what is shown.
Parts = tuple[dict[str, Any], dict[str, Any], list[Comparison]]
Builder = Callable[[dict[str, Any]], Parts]
ZERO, ONE = Fraction(0), Fraction(1)


class NoProof(InputError):
    """No argument that certificates know refutes the claim on this instance."""


def _form(instance: dict[str, Any], d: int, name: str = "B") -> Rationals:
    given = instance.get(name)
    return rational(np.eye(d) if given is None else given)


def _first(found: Iterator[Parts], what: str) -> Parts:
    for one in found:
        return one
    raise NoProof(f"no certificate is made of this instance: {what}")


def _positive(M: Rationals, name: str) -> list[Comparison]:
    """Return what shows that M is positive definite, by Sylvester's criterion."""
    d = len(M)
    same: list[Comparison] = [(f"{name} is symmetric", M[i, j], "=", M[j, i]) for i in range(d) for j in range(i)]
    return [*same, *((f"minor {k} of {name}", _determinant(M[:k, :k]), ">", ZERO) for k in range(1, d + 1))]


def _determinant(M: Rationals) -> Fraction:
    rest = M[1:]
    return ONE if not len(M) else sum(
        ((-1) ** k * M[0, k] * _determinant(np.delete(rest, k, axis=1)) for k in range(len(M))), ZERO
    )  # fmt: skip


def weights(points: Rationals, p: Rationals) -> list[Fraction] | None:
    """Return weights w >= 0 with sum 1 and sum_j w_j x_j = p, on few of the points; None if there are none.

    >>> [str(one) for one in weights(rational([[-1], [1]]), rational([0.5]))]
    ['1/4', '3/4']
    """
    n, d = points.shape
    rows = np.hstack([points, rational(np.ones((n, 1)))])
    for size in range(1, d + 2):
        for chosen in map(list, combinations(range(n), size)):
            A, b = rows[chosen], np.array([*p, ONE], dtype=object)
            if not exact.invertible(A @ A.T):
                continue
            w = exact.solve(A @ A.T, (A @ b)[:, None])[:, 0]
            if (w >= 0).all() and (A.T @ w == b).all():
                found = [ZERO] * n
                for j, one in zip(chosen, w, strict=True):
                    found[j] = one
                return found
    return None


def _scores(x: Rationals, B: Rationals) -> list[Comparison]:
    """Return the scores <B x_i, x_j> of all tokens, each against the largest one."""
    rows = x @ B.T @ x.T
    return [(f"score of {i} with {j}", one, "<=", max(row)) for i, row in enumerate(rows) for j, one in enumerate(row)]


def own_cell(instance: dict[str, Any]) -> Parts:
    """A vertex lies in its own cell although another point scores as high."""
    x = rational(instance["tokens"])
    B = _form(instance, x.shape[1])

    def found() -> Iterator[Parts]:
        for i, row in enumerate(exact.heard(Hardmax(B=instance.get("B")), x, 0)):
            others = np.delete(np.arange(len(x)), i)
            direction, tied = exact.separated(x[others], x[i]), [j for j in row if j != i]
            if i not in row or not tied or direction is None:
                continue
            c, query = -direction, B @ x[i]
            shown = [*_positive(B, "B"), ("v_i is not 0", x[i] @ x[i], ">", ZERO)]
            for j in others.tolist():
                shown += [
                    (f"v_i is a vertex, against {j}", c @ x[i], ">", c @ x[j]),
                    (f"v_i is in its cell, against {j}", query @ (x[j] - x[i]), "<=", ZERO),
                ]
            shown.append(("a vertex scores as high", query @ (x[tied[0]] - x[i]), "=", ZERO))
            yield {"tokens": x, "B": B}, {"token": i, "direction": c, "tied": tied[0]}, shown

    return _first(found(), "no vertex that hears itself has a tie")


def cluster_rate(instance: dict[str, Any]) -> Parts:
    """The energy of a token after some step is above the printed bound, B = -I."""
    x, d = rational(instance["tokens"]), np.shape(instance["tokens"])[1]
    if instance.get("B") is not None and (np.asarray(instance["B"]) != -np.eye(d)).any():
        raise NoProof("certificates of fw/cluster-rate are made for B = -I alone: leave B out")
    w = weights(x, rational(np.zeros(d)))
    states = exact.replay(
        x, Hardmax(B=-np.eye(d), ties="points"), Layers(gamma=Schedule("2 / (t + 2)")), instance["steps"]
    )
    wide = max((a - b) @ (a - b) for a in x for b in x)

    def found() -> Iterator[Parts]:
        for t, state in enumerate(states[1:]):
            for i, one in enumerate(state):
                energy, bound = one @ one / 2, 2 * wide / (t + 1)
                if w is None or energy <= bound:
                    continue
                shown: list[Comparison] = [(f"weight {j}", part, ">=", ZERO) for j, part in enumerate(w)]
                shown.append(("sum of the weights", sum(w), "=", ONE))
                shown += [(f"0 is in the hull, {k}", ZERO, "=", ZERO) for k in range(d)]
                shown.append(("the energy is above the bound", energy, ">", bound))
                yield {"tokens": x}, {"weights": w, "step": t, "token": i}, shown

    return _first(found(), "no token is above the bound, or 0 is outside the hull")


def hull_shrinks(instance: dict[str, Any]) -> Parts:
    """A token leaves the hull of the tokens before the layer."""
    x, V = rational(instance["tokens"]), rational(instance["V"])
    B = _form(instance, x.shape[1])
    states = exact.replay(x, Hardmax(B=instance.get("B"), ties="points"), Layers(V=instance["V"]), instance["steps"])

    def found() -> Iterator[Parts]:
        for t, (before, after) in enumerate(pairwise(states)):
            for i, one in enumerate(after):
                if (direction := exact.separated(before, one)) is None:
                    continue
                shown: list[Comparison] = [(f"V_{k}", V[k, k], ">", ZERO) for k in range(len(V))]
                c = -direction
                shown += _scores(before, B)
                shown += [(f"beyond token {j}", c @ one, ">", c @ other) for j, other in enumerate(before)]
                yield {"tokens": x, "B": B, "V": V}, {"direction": c, "step": t, "token": i}, shown

    return _first(found(), "no token leaves the hull")


def exponential_rate(instance: dict[str, Any]) -> Parts:
    """Tokens run straight to their leaders with steps a / (t + b), whose rate is not exponential."""
    x, n = rational(instance["tokens"]), len(instance["tokens"])
    B, (a, b) = _form(instance, x.shape[1]), _harmonic(instance["gamma"])
    rows = exact.heard(Hardmax(B=instance.get("B")), x, 0)
    if any(len(row) > 1 for row in rows):
        raise NoProof("no certificate is made of this instance: a token has two leaders")
    v = x[[row[0] for row in rows]]
    away, moving = x - v, [i for i, row in enumerate(rows) if row != [i]]
    shown: list[Comparison] = [("0 < gamma", a, ">", ZERO), ("gamma = a / (t + b) < 1", a, "<", b)]
    for i in range(n):
        for j in (j for j in range(n) if [j] != rows[i]):
            ahead = v[i] - v[j]
            c = (B @ v[i]) @ ahead, (B @ away[i]) @ ahead - (B @ v[i]) @ away[j], -((B @ away[i]) @ away[j])
            shown += [
                (f"{i} never prefers {j}, at the end", c[0], ">=", ZERO),
                (f"{i} never prefers {j}, between", 2 * c[0] + c[1], ">=", ZERO),
                (f"{i} never prefers {j}, at the start", sum(c), ">", ZERO),
            ]
    parts, rest = [], [i for i in range(n) if i not in moving]
    for i in moving:
        if (w := weights(x[rest], x[i])) is None:
            raise NoProof(f"no certificate is made of this instance: token {i} is a vertex that hears another one")
        whole = dict(zip(rest, w, strict=True))
        parts.append([whole.get(j, ZERO) for j in range(n)])
        shown += [(f"weights of {i}", min(parts[-1]), ">=", ZERO), (f"sum of the weights of {i}", sum(w), "=", ONE)]
    if not moving:
        raise NoProof("no certificate is made of this instance: all tokens are vertices")
    i = moving[0]
    shown.append(("a token is not at its vertex", away[i] @ away[i], ">", ZERO))
    return {"tokens": x, "B": B, "gamma": [a, b]}, {"weights": parts, "token": i}, shown


def _harmonic(gamma: Any) -> tuple[Fraction, Fraction]:
    """Return (a, b) of a schedule a / (t + b), as its values at twelve times show."""
    if isinstance(gamma, Schedule) and gamma.rational:
        inverse = [1 / gamma.exactly(Fraction(t)) for t in range(12)]
        slope = inverse[1] - inverse[0]
        if slope > 0 and all(q - p == slope for p, q in pairwise(inverse)):
            return 1 / slope, inverse[0] / slope
    raise NoProof("certificates of fw/exponential-rate are made for steps a / (t + b) alone: give gamma='1 / (t + 2)'")


def lyapunov(instance: dict[str, Any]) -> Parts:
    """The energy sum_ij min(|z_i - z_j|_A^2, 2 delta) rises in a layer of localmax."""
    x = rational(instance["tokens"])
    A, delta, gamma = _form(instance, x.shape[1]), Fraction(instance["delta"]), Fraction(instance["gamma"])
    law = Localmax(delta=instance["delta"], B=instance.get("B"))
    states = exact.replay(x, law, Layers(gamma=instance["gamma"]), instance["steps"])

    def energy(z: Rationals) -> Fraction:
        return sum((min((p - q) @ A @ (p - q), 2 * delta) for p in z for q in z), ZERO)

    def found() -> Iterator[Parts]:
        for t, (before, after) in enumerate(pairwise(states)):
            if energy(after) > energy(before):
                steps = [("gamma is positive", gamma, ">", ZERO), ("gamma is at most 1", gamma, "<=", ONE)]
                shown = [*_positive(A, "A"), *steps, *_scores(before, A)]
                shown.append(("the energy rises", energy(after), ">", energy(before)))
                yield {"tokens": x, "B": A, "delta": delta, "gamma": gamma}, {"step": t}, shown

    return _first(found(), "the energy never rises")


def controllability(instance: dict[str, Any]) -> Parts:
    """Targets on the line reverse the order of two points, or join them."""
    x, y = rational(instance["tokens"]), rational(instance["targets"])

    def found() -> Iterator[Parts]:
        for i, j in ((i, j) for i in range(len(x)) for j in range(len(x))):
            if x.shape[1] == 1 and x[i, 0] < x[j, 0] and y[i, 0] >= y[j, 0]:
                shown: list[Comparison] = [
                    ("the points", x[i, 0], "<", x[j, 0]),
                    ("their targets", y[i, 0], ">=", y[j, 0]),
                ]
                yield {"tokens": x, "targets": y}, {"pair": [i, j]}, shown

    return _first(found(), "the points are not on a line, or their targets keep the order")


def every_start(instance: dict[str, Any]) -> Parts:
    """No token moves, whatever beta is: tokens with one score pull on a token along itself alone."""
    x = rational(instance["tokens"])
    square = x[0] @ x[0]
    other = min(range(len(x)), key=lambda j: (x[0] @ x[j], j))
    shown: list[Comparison] = [("a token is not 0", square, ">", ZERO)]
    shown += [(f"the length of {i}", one @ one, "=", square) for i, one in enumerate(x)]
    shown.append(("two tokens differ", x[0] @ x[other], "<", square))
    for i, own in enumerate(x):
        scores = [own @ one for one in x]
        for s in sorted(set(scores)):
            whole = x[[j for j, one in enumerate(scores) if one == s]].sum(axis=0)
            pull = square * whole - (whole @ own) * own
            shown += [(f"pull on {i} from score {s}, {k}", one, "=", ZERO) for k, one in enumerate(pull)]
    if any(relation == "=" and left != right for _, left, relation, right in shown) or x[0] @ x[other] == square:
        raise NoProof("no certificate is made of this instance: fractions do not show that its tokens rest")
    return {"tokens": x}, {"other": other}, shown


EXACT: dict[str, Builder] = {
    "fw/own-cell": own_cell, "fw/cluster-rate": cluster_rate, "fw/hull-shrinks": hull_shrinks,
    "fw/exponential-rate": exponential_rate, "localmax/lyapunov/directed": lyapunov,
    "neuralode/controllability": controllability, "sphere/collapse/every-start": every_start,
}  # fmt: skip
