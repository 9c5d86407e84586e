r"""The velocity of tokens with what holds their lengths and their rotation: its zeros are isolated.

States at rest on the sphere are never isolated in space, and where B and V are multiples of the identity each rotation
of one is another. Let f be the velocity, u_i = V m_i, p a fixed configuration, T_1 .. T_r skew matrices, and

    F_i(x) = f_i(x) + k (1 - |x_i|^2) x_i - k sum_a g_a(x) T_a x_i,    g_a(x) = sum_j <T_a p_j, x_j>.

The first term is there on the sphere alone, and there are T_a only if B = b I and V = v I.

**Lemma.** Let F(x) = 0. On the sphere let <u_i, x_i> + k |x_i|^2 > 0 for all i. Let the vectors T_a x, a = 1 .. r, be
linearly independent. Then f(x) = 0, g(x) = 0, and |x_i| = 1 on the sphere.

**Proof.** On the sphere <f_i, x_i> = <u_i, x_i> (1 - |x_i|^2), and <T_a x_i, x_i> = 0. So 0 = <F_i, x_i> is
(1 - |x_i|^2) (<u_i, x_i> + k |x_i|^2). Let Z_i be the sum of K_ij = e^{beta b <x_i, x_j>} over j (with sums: n). Then
Z_i u_i = v sum_j K_ij x_j, so sum_i Z_i <f_i, S x_i> = v sum_ij K_ij <x_j, S x_i> = 0 for each skew S, because K is
symmetric. With S = sum_a g_a T_a and f_i = k S x_i this is k sum_i Z_i |S x_i|^2 = 0. So S x = 0, and g = 0.

**Flows.** On the sphere the flow of F is that of f up to rotations: if x' = f(x), R' = -k sum_a g_a(y) T_a R and
y = R x, then y' = F(y), as f(R x) = R f(x). So where y tends to a zero exponentially fast, g tends to 0 exponentially
fast, R converges, and x tends to a rotation of this zero.

The same extension across the sphere is in `attnflow.claims.causal.attractors`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from attnflow.enclosures.fields import SPHERE, Field, Heard, dot
from attnflow.enclosures.numbers import Numbers, array, ball, balls, floats

# Rotations that move tokens by less than this part of what others do leave them where they are.
UNMOVED = 1e-6


@dataclass(frozen=True)
class Pinned:
    """The field F of the theorem: `p` (n, d) and the matrices `turns` are exact, `k` is the strength."""

    field: Field
    p: Numbers
    turns: Sequence[Numbers]
    k: Any

    @classmethod
    def at(cls, field: Field, p: Numbers) -> Pinned:
        """Return the field for states near p, with the rotations that move p."""
        strength = 1.0
        if field.kind == SPHERE:
            strength += max(abs(float(dot(u, x).mid())) for u, x in zip(pulls(field, heard(field, p)), p, strict=True))
        return cls(field, p, _turns(field, floats(p)), ball(strength))

    def value(self, x: Numbers) -> list[Any]:
        """Return F(x) as one vector."""
        found = np.array(self.field.velocity(heard(self.field, x)), dtype=object)
        if self.field.kind == SPHERE:
            found = found + self.k * np.array([[(1 - dot(row, row)) * one for one in row] for row in x], dtype=object)
        for T in self.turns:
            found = found - self.k * self.phase(T, x) * (x @ T.T)
        return list(found.ravel())

    def derivative(self, x: Numbers) -> Any:
        """Return the matrix DF(x)."""
        from flint import arb_mat

        n, d = x.shape
        rows = self.field.derivative(heard(self.field, x))
        if self.field.kind == SPHERE:
            for i, own in enumerate(x):
                room = 1 - dot(own, own)
                for a in range(d):
                    for c in range(d):
                        more = (room if a == c else 0) - 2 * own[a] * own[c]
                        rows[i * d + a][i * d + c] = rows[i * d + a][i * d + c] + self.k * more
        found = arb_mat(rows)
        for T in self.turns:
            moved, slope = arb_mat(n * d, 1, list((x @ T.T).ravel())), arb_mat(1, n * d, list((self.p @ T.T).ravel()))
            own = arb_mat([[T[a % d, c % d] if a // d == c // d else 0 for c in range(n * d)] for a in range(n * d)])
            found = found - (moved * slope + own * self.phase(T, x)) * self.k
        return found

    def phase(self, T: Numbers, x: Numbers) -> Any:
        """Return sum_j <T p_j, x_j>."""
        return dot((self.p @ T.T).ravel(), x.ravel())

    def tells(self, x: Numbers) -> bool:
        """Say whether the lemma holds for all zeros in the balls x: then they are states at rest."""
        if self.field.kind == SPHERE:
            pulled = zip(pulls(self.field, heard(self.field, x)), x, strict=True)
            if not all(dot(u, own) + self.k * dot(own, own) > 0 for u, own in pulled):
                return False
        moved = [(x @ T.T).ravel() for T in self.turns]
        return dominant([[dot(a, b) for b in moved] for a in moved])


def dominant(rows: Sequence[Sequence[Any]]) -> bool:
    """Say whether all symmetric matrices in the balls `rows` are positive definite, by Gershgorin's circles.

    >>> dominant([[ball(2), ball(1)], [ball(1), ball(2)]]), dominant([[ball(1), ball(1)], [ball(1), ball(1)]])
    (True, False)
    """
    return all(
        row[i] > sum((one.abs_upper() for j, one in enumerate(row) if j != i), ball(0)) for i, row in enumerate(rows)
    )


def heard(field: Field, x: Numbers) -> Heard:
    """Return what tokens hear under a field that does not depend on the time."""
    return Heard.of(field, x, field.form(ball(0), x.shape[1]))


def pulls(field: Field, found: Heard) -> list[list[Any]]:
    """Return u_i = V m_i."""
    return [list(m) if field.V is None else [dot(row, m) for row in field.V] for m in found.means]


def differentiated(field: Field, x: Numbers) -> Any:
    """Return the matrix of the derivative of the velocity by power series: another way than its formula."""
    from flint import arb_mat, arb_series, ctx

    n, d = x.shape
    before, ctx.cap = ctx.cap, 2
    columns = []
    try:
        for i, k in np.ndindex(n, d):
            moved = [[arb_series([one, int((i, k) == (j, c))]) for c, one in enumerate(row)] for j, row in enumerate(x)]
            leaders = heard(field, x).leaders
            velocity = field.velocity(Heard.of(field, moved, field.form(ball(0), d), leaders))
            columns.append([one[1] for row in velocity for one in row])
    finally:
        ctx.cap = before
    return arb_mat([list(row) for row in zip(*columns, strict=True)])


def _turns(field: Field, p: Any) -> list[Numbers]:
    """Return skew matrices that move p in orthogonal directions, by about 1; none if the field has no such symmetry."""
    d = p.shape[1]
    if not all(_scalar(one) for one in (field.B, field.V)) or d < 2:
        return []
    planes = []
    for a, b in combinations(range(d), 2):
        T = np.zeros((d, d))
        T[a, b], T[b, a] = -1.0, 1.0
        planes.append(T)
    _, sizes, ways = np.linalg.svd(np.array([(p @ T.T).ravel() for T in planes]).T, full_matrices=False)
    kept = sizes > UNMOVED * max(float(np.abs(p).max()), 1e-300)
    return [
        balls(sum(part * T for part, T in zip(way / size, planes, strict=True)))
        for way, size, keep in zip(ways, sizes, kept, strict=True)
        if keep
    ]


def _scalar(matrix: Numbers | None) -> bool:
    """Say whether a matrix is a multiple of the identity, without any rounding."""
    if matrix is None:
        return True
    d = len(matrix)
    same = array((matrix[0, 0] if i == j else ball(0) for i in range(d) for j in range(d)), (d, d))
    return all(bool(a == b) for a, b in zip(matrix.ravel(), same.ravel(), strict=True))
