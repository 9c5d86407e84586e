r"""The stability of states at rest, proved: eigenvalues in balls, and a ball of starts that come to rest there.

Let F be the field of `attnflow.enclosures.pinned` and x* its zero.

**Theorem.** Let P be a positive definite matrix with eigenvalues between a and b, and let

    -(P DF(x) + DF(x)^T P) - 2 c P

be positive definite for all x whose coordinates are at most r away from those of x*, c > 0. Let rho = r sqrt(a / b).
Then every start y (on the sphere: with all |y_i| = 1) with |y - x*| <= rho tends to x*, up to a rotation where there
are `turns`: the distance is at most sqrt(b / a) e^{-ct} rho, after a rotation that depends on the time and converges.

**Proof.** Let y' = F(y) and e = y - x*. The squares of lengths <P e, e> are at most b rho^2 = a r^2 at the start. As
long as this holds, |e| <= r, so that y is in the box, which is convex: F(y) = F(y) - F(x*) = M e with M a mean of
DF along the segment. So <P e, e>' = <(P M + M^T P) e, e> <= -2 c <P e, e>, and it holds for ever. The flow of F is that
of f up to rotations on the sphere, where all tokens stay.

**Eigenvalues** are those of Df on the tangent space, x_i + E_i v_i, with E_i the columns but the first of Householder's
reflection that maps the first axis to x_i or -x_i. As many as there are `turns` are 0. That one has a positive real
part shows that x* is unstable; FLINT encloses multiple eigenvalues by balls that hold as many as there are.

References
----------
A. Lyapunov, *The general problem of the stability of motion* (1892).
F. Johansson, *Arb: efficient arbitrary-precision midpoint-radius interval arithmetic* (2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attnflow.core.cards import card
from attnflow.core.inputs import Array, InputError
from attnflow.enclosures.fields import SPHERE, dot
from attnflow.enclosures.fixed_points import BITS, FixedPoint
from attnflow.enclosures.numbers import Numbers, arithmetic, array, ball, digits, middles
from attnflow.enclosures.pinned import Pinned, dominant, heard

# The rate that is proved is at least this part of the one of floats.
PART = 0.5
# Boxes are tried from this radius on, each LARGER times as wide as the one before, up to the last.
NARROW, LARGER, WIDEST = 2.0**-40, 2.0, 2.0


@dataclass(frozen=True)
class Stability:
    """What is proved of the flow near a state at rest.

    `eigenvalues` are complex balls of the linearised flow. `stable` is True if tokens that start within `basin` of it,
    in the Euclidean norm of all coordinates, tend to it like e^{-rate t}, up to a rotation; False if some eigenvalue
    has a positive real part; None if neither is proved.
    """

    eigenvalues: Sequence[Any]
    stable: bool | None
    basin: float
    rate: float
    certified: ClassVar[str] = "ball"

    def _repr_html_(self) -> str:
        words = {True: "proved", False: "refuted", None: "neither proved nor refuted"}
        rows = {
            "stable": words[self.stable], "eigenvalues": len(self.eigenvalues),
            "largest real part": f"about {max(float(one.real.mid()) for one in self.eigenvalues):.3g}",
            "basin": digits(self.basin, up=False) if self.stable else None,
            "rate": digits(self.rate, up=False) if self.stable else None, "certified": self.certified,
        }  # fmt: skip
        return card("Stability", rows)


def stability(found: FixedPoint) -> Stability:
    """Return whether a state at rest attracts, with a ball around it that provably does.

    The theorem is in `attnflow.enclosures.basins`. Tokens at one point of the sphere attract, and their eigenvalues
    are 0, for rotations, and -1:

    >>> import attnflow as af
    >>> from attnflow.enclosures import fixed_point
    >>> near = stability(fixed_point([[1.0, 0.0], [1.0, 0.0]], af.Softmax(beta=2.0), af.SphereFlow()))
    >>> near.stable, near.basin > 1e-3, sorted(round(float(one.real), 9) for one in near.eigenvalues)
    (True, True, [-1.0, 0.0])

    References
    ----------
    A. Lyapunov, *The general problem of the stability of motion* (1892).
    """
    if not isinstance(found, FixedPoint):
        raise InputError(f"found is {found!r}, expected a state at rest: give what fixed_point returns")
    with arithmetic(BITS):
        values = _eigenvalues(found)
        proved = _attracts(found)
        if proved is not None:
            return Stability(values, True, *proved)
        unstable = any(one.real > 0 for one in values)
        return Stability(values, False if unstable else None, 0.0, 0.0)


def _eigenvalues(found: FixedPoint) -> list[Any]:
    """Return balls of the eigenvalues of Df, on the sphere those on the tangent space."""
    from flint import acb_mat, arb_mat

    field, x = found.pinned.field, found.box
    slopes = arb_mat(field.derivative(heard(field, x)))
    if field.kind == SPHERE:
        E = _tangents(x)
        slopes = E.transpose() * slopes * E
    try:
        values: list[Any] = acb_mat(slopes).eig(multiple=True)
    except ValueError:
        raise InputError("the eigenvalues of this state are not told apart: take fewer tokens") from None
    return values


def _tangents(x: Numbers) -> Any:
    """Return the matrix (n d, n (d - 1)) whose columns are orthonormal and tangent to the spheres of the tokens."""
    from flint import arb_mat

    n, d = x.shape
    rows = [[ball(0)] * (n * (d - 1)) for _ in range(n * d)]
    for i, own in enumerate(x):
        side = 1 if own[0].mid() >= 0 else -1
        way = [one + (side if a == 0 else 0) for a, one in enumerate(own)]
        twice = 2 / dot(way, way)
        for a in range(d):
            for c in range(1, d):
                rows[i * d + a][i * (d - 1) + c - 1] = int(a == c) - twice * way[a] * way[c]
    return arb_mat(rows)


def _attracts(found: FixedPoint) -> tuple[float, float] | None:
    """Return (rho, c) of the theorem, for the largest rho that is found; None if none is."""
    from scipy.linalg import solve_continuous_lyapunov

    plain = _floats(found.pinned.derivative(middles(found.box)))
    one, slowest = np.eye(len(plain)), float(np.linalg.eigvals(plain).real.max())
    if not slowest < 0:
        return None
    rate = -PART * slowest
    # The second makes all directions fall alike, which the first, the Euclidean norm, may not.
    forms = (one, solve_continuous_lyapunov((plain + rate * one).T, -one))
    radius = max(_radius(found, (P + P.T) / 2, rate) for P in forms)
    return (radius, rate) if radius > 0 else None


def _radius(found: FixedPoint, P: Array, rate: float) -> float:
    """Return rho for a matrix P, from the widest box that is tried; 0 if the narrowest is too wide."""
    bounds, width, radius = _between(P), 0.0, NARROW
    if bounds is None:
        return 0.0
    while radius <= WIDEST and _falls(found.pinned, found.box, P, rate, radius):
        width, radius = radius, radius * LARGER
    return max(float((ball(width) * (bounds[0] / bounds[1]).sqrt()).lower()), 0.0)


def _falls(pinned: Pinned, box: Numbers, P: Array, rate: float, radius: float) -> bool:
    """Say whether -(P DF + DF^T P) - 2 c P is positive definite on the box of this radius."""
    from flint import arb, arb_mat

    X = array((one + arb(0, radius) for one in box.ravel()), box.shape)
    form = arb_mat(P.tolist())
    slopes = form * pinned.derivative(X)
    return positive((slopes + slopes.transpose() + form * (2 * ball(rate))) * ball(-1))


def _between(P: Array) -> tuple[Any, Any] | None:
    """Return numbers a > 0 and b such that all eigenvalues of a symmetric matrix are proved to lie between them."""
    from flint import arb_mat

    values = np.linalg.eigvalsh(P)
    low, high = float(values.min()) * 0.99, float(values.max()) * 1.01
    form, one = arb_mat(P.tolist()), arb_mat(np.eye(len(P)).tolist())
    sure = low > 0 and positive(form - one * ball(low)) and positive(one * ball(high) - form)
    return (ball(low), ball(high)) if sure else None


def positive(matrix: Any) -> bool:
    """Say whether all symmetric matrices in a matrix of balls are positive definite.

    With C any matrix, C M C^T is so by Gershgorin's circles only if M is; C is the inverse of a Cholesky factor.

    >>> from flint import arb_mat
    >>> positive(arb_mat([[2, 3], [3, 5]])), positive(arb_mat([[2, 3], [3, 4]]))
    (True, False)
    """
    from flint import arb_mat

    try:
        factor = np.linalg.inv(np.linalg.cholesky(_floats(matrix)))
    except np.linalg.LinAlgError:
        return False
    C = arb_mat(factor.tolist())
    return dominant((C * matrix * C.transpose()).tolist())


def _floats(matrix: Any) -> Array:
    return np.array([[float(one.mid()) for one in row] for row in matrix.tolist()])
