"""Generic polytopes: the hypothesis under which hardmax tokens run along straight lines."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.geometry.cells import Cells, cells
from attnflow.geometry.hull import Hull
from attnflow.inputs import Array, cloud

CONDITIONS = {
    "a": "the vertices are the extreme points of the hull of the tokens, each listed once",
    "b": "every vertex strictly owns its cell",
    "c": "every token lies in exactly one cell",
}


@dataclass(frozen=True)
class Broken:
    """One way in which a polytope fails to be generic.

    `condition` is "a", "b" or "c"; `what` and `index` name the vertex or token; `margin` is by how much. `decided` is
    False where the condition holds or fails by no more than rounding, yet is not an exact tie in rational arithmetic.
    """

    condition: str
    what: str
    index: int
    margin: float
    decided: bool
    because: str


@dataclass(frozen=True)
class Genericity:
    """Whether (B, v, X) is a generic polytope: `assignment` (n,) is sigma(i), the cell of each token."""

    assignment: NDArray[np.int64]
    broken: tuple[Broken, ...]

    @property
    def generic(self) -> bool:
        """Whether all conditions hold clearly."""
        return not self.broken

    @property
    def undecided(self) -> bool:
        """Whether only rounding stands against it."""
        return bool(self.broken) and not any(failure.decided for failure in self.broken)


def genericity(tokens: ArrayLike, vertices: ArrayLike | None = None, B: ArrayLike | None = None) -> Genericity:
    """Say whether (B, v, X) is a generic polytope, and if not which vertex or token breaks which condition.

    (a) v lists the extreme points of conv X; (b) every vertex strictly owns its cell, <B v_j, v_i> < <B v_j, v_j> for
    all i != j; (c) every token lies in exactly one cell. By default v lists
    the extreme points in the order of the tokens.

    >>> report = genericity([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [0.5, 0.0]])
    >>> report.generic, [failure.because for failure in report.broken]
    (False, ['token 4 ties between vertices 0 and 3'])

    References
    ----------
    Alcalde, Geshkovski, Ruiz-Balet, *Attention's forward pass and Frank-Wolfe* (arXiv 2508.09628).
    """
    x = cloud(tokens)
    outer = Hull(x)
    v = x[np.sort(outer.indices)] if vertices is None else cloud(vertices, "vertices")
    parts = cells(v, B)
    broken = (*_unlisted(x, outer, v), *_lost(parts), *_tied(parts, x))
    return Genericity(parts.label(x), broken)


def _unlisted(x: Array, outer: Hull, v: Array) -> list[Broken]:
    """Condition (a)."""
    away = np.linalg.norm(v[:, None] - outer.vertices[None], axis=2)
    failures = []
    for i, row in enumerate(away):
        if row.min() > outer.tol:
            because = f"vertex {i} is not an extreme point of the hull of the tokens"
            failures.append(Broken("a", "vertex", i, -float(row.min()), True, because))
        twins = np.flatnonzero((v[:i] == v[i]).all(axis=1))
        if len(twins):
            failures.append(Broken("a", "vertex", i, 0.0, True, f"vertex {i} repeats vertex {twins[0]}"))
    for i, column in zip(outer.indices.tolist(), away.T, strict=True):
        if column.min() > outer.tol:
            because = f"token {i} is an extreme point, but not listed among the vertices"
            failures.append(Broken("a", "token", i, -float(column.min()), True, because))
    return failures


def _lost(parts: Cells) -> list[Broken]:
    """Condition (b)."""
    failures, v = [], parts.vertices
    for j, (margin, room) in enumerate(zip(parts.own_margins(), parts.own_rounding(), strict=True)):
        if margin <= room:
            rival = _best_other(parts, v[j], j)
            clear = margin < -room
            because = f"vertex {j} {'loses its cell to' if clear else 'ties with'} vertex {rival}"
            decided = bool(clear or _tie(parts.B, v[j], v[j], v[rival]))
            failures.append(Broken("b", "vertex", j, float(margin), decided, because))
    return failures


def _tied(parts: Cells, x: Array) -> list[Broken]:
    """Condition (c)."""
    failures, v = [], parts.vertices
    labels, gaps = parts.label(x), parts.gap(x)
    for i in np.flatnonzero(parts.ambiguous(x)).tolist():
        first = int(labels[i])
        second = _best_other(parts, x[i], first)
        because = f"token {i} ties between vertices {min(first, second)} and {max(first, second)}"
        decided = _tie(parts.B, x[i], v[first], v[second])
        failures.append(Broken("c", "token", i, -float(gaps[i]), decided, because))
    return failures


def _best_other(parts: Cells, x: Array, i: int) -> int:
    """Return the vertex with the highest score for x among those at other points than v_i."""
    others = np.flatnonzero((parts.vertices != parts.vertices[i]).any(axis=1))
    return int(others[(parts.vertices[others] @ (parts.B @ x)).argmax()])


def _tie(B: Array, x: Array, v: Array, w: Array) -> bool:
    """Say whether <Bx, v> = <Bx, w> exactly, in rational arithmetic."""
    query = [sum(Fraction(b) * Fraction(c) for b, c in zip(row, x.tolist(), strict=True)) for row in B.tolist()]
    arm = [Fraction(a) - Fraction(b) for a, b in zip(v.tolist(), w.tolist(), strict=True)]
    return sum(q * a for q, a in zip(query, arm, strict=True)) == 0
