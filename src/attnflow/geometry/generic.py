"""Generic polytopes: the hypothesis under which hardmax tokens run along straight lines."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.core.inputs import Array, InputError, cloud
from attnflow.geometry.cells import Cells, cells
from attnflow.geometry.hull import Hull
from attnflow.geometry.nearest import distance


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
        """Whether a condition fails, but none by more than rounding."""
        return bool(self.broken) and not any(failure.decided for failure in self.broken)


def genericity(tokens: ArrayLike, vertices: ArrayLike | None = None, B: ArrayLike | None = None) -> Genericity:
    """Say whether (B, v, X) is a generic polytope, and if not which vertex or token breaks which condition.

    There are three conditions:

    - "a": the points v are the extreme points of conv X, by default in the order of the tokens;
    - "b": every vertex strictly owns its cell, <B v_j, v_i> < <B v_j, v_j> for all i != j;
    - "c": every token lies in exactly one cell.

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
    if v.shape[1] != x.shape[1]:
        raise InputError(f"vertices have dimension {v.shape[1]}, but the tokens have dimension {x.shape[1]}")
    parts = cells(v, B)
    broken = (*_unlisted(x, outer, v), *_lost(parts), *_tied(parts, x))
    return Genericity(parts.label(x), broken)


def _unlisted(x: Array, outer: Hull, v: Array) -> list[Broken]:
    """Condition (a): the points that are listed but not extreme, listed twice, or extreme but not listed."""
    failures, extreme, room = [], {tuple(p) for p in outer.vertices.tolist()}, 8 * outer.tol
    listed = [tuple(p) for p in v.tolist()]
    depths = (outer.offsets - v @ outer.normals.T).min(axis=1, initial=np.inf)
    for i, p in enumerate(listed):
        if p in listed[:i]:
            failures.append(Broken("a", "vertex", i, 0.0, True, f"vertex {i} repeats vertex {listed.index(p)}"))
        elif p not in extreme:
            because = f"vertex {i} is not an extreme point of the hull of the tokens"
            failures.append(Broken("a", "vertex", i, -float(depths[i]), bool(abs(depths[i]) > room), because))
    missing = {int(i) for i, p in zip(outer.indices, outer.vertices, strict=True) if tuple(p.tolist()) not in listed}
    missing |= {i for i in _left_out(x, outer, room) if tuple(x[i].tolist()) not in listed}
    for i in sorted(missing):
        others = x[(x != x[i]).any(axis=1)]
        away = distance(others, x[i]) if len(others) else np.inf
        because = f"token {i} is an extreme point, but not listed among the vertices"
        failures.append(Broken("a", "token", i, -away, bool(away > room), because))
    return failures


def _left_out(x: Array, outer: Hull, room: float) -> list[int]:
    """Return tokens that stand out of a facet by rounding, in rational arithmetic: the hull has left them out."""
    if outer.dimension < x.shape[1]:
        return []
    found = []
    slack = outer.offsets - x @ outer.normals.T
    for i in np.flatnonzero((slack <= room).any(axis=1)).tolist():
        facets = [outer.facets[f] for f in np.flatnonzero(slack[i] <= room)]
        on = {j for facet in facets for j in facet}
        if not any((outer.vertices[j] == x[i]).all() for j in on) and any(_beyond(outer, f, x[i]) for f in facets):
            found.append(i)
    return found


def _beyond(outer: Hull, facet: tuple[int, ...], p: Array) -> bool:
    """Say whether p lies strictly beyond the hyperplane of the first d vertices of a facet, in rational arithmetic."""
    corners = outer.vertices[list(facet)[: len(p)]]
    inner = outer.vertices[next(j for j in range(len(outer.vertices)) if j not in facet)]
    here, there = (_determinant(np.vstack([corners[1:], q]), corners[0]) for q in (p, inner))
    return here * there < 0


def _determinant(rows: Array, origin: Array) -> Fraction:
    """Return det(rows - origin), in rational arithmetic."""
    m = [[Fraction(a) - Fraction(b) for a, b in zip(row, origin.tolist(), strict=True)] for row in rows.tolist()]
    total = Fraction(1)
    for k in range(len(m)):
        pivot = next((r for r in range(k, len(m)) if m[r][k] != 0), None)
        if pivot is None:
            return Fraction(0)
        if pivot != k:
            m[k], m[pivot], total = m[pivot], m[k], -total
        total *= m[k][k]
        for r in range(k + 1, len(m)):
            ratio = m[r][k] / m[k][k]
            m[r] = [a - ratio * b for a, b in zip(m[r], m[k], strict=True)]
    return total


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
