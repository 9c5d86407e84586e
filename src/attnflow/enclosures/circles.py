"""Cauchy's estimate of a defect: a polynomial is put into the vector field on a circle of complex times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from attnflow.enclosures.fields import Field, Heard, Rows, differences
from attnflow.enclosures.numbers import arithmetic

# The upper half of the circle is covered by this many balls; on the lower half all values are conjugate.
ARCS = 24
# Bounds need few digits; but scores may be large, and their differences count.
BITS = 96


@dataclass(frozen=True)
class Circle:
    """Bounds on the disc |s| <= radius of complex times s, for polynomials p put into a vector field f.

    `defect` bounds |f(p(s)) - p'(s)|, and `slope` the norm of Df(p(s)), both in the norm of the largest coordinate.
    """

    radius: Any
    defect: Any
    slope: Any


class NotAnalytic(ArithmeticError):
    """The field is not proved to be analytic on the disc."""


@dataclass(frozen=True)
class Polynomials:
    """The coordinates (n, d) of tokens as polynomials in time, and their differences from the leaders.

    Differences are polynomials of their own: balls of two tokens that are far out and near each other are wide, and the
    ball of their difference is not.
    """

    tokens: Rows
    slopes: Rows
    apart: Mapping[int, Rows]
    leaders: Sequence[int]

    @classmethod
    def of(cls, coefficients: Rows, shape: tuple[int, int], leaders: Sequence[int]) -> Polynomials:
        """Return the polynomials with these coefficients, one row for each coordinate."""
        from flint import arb_poly

        n, d = shape
        flat = [arb_poly(one) for one in coefficients]
        tokens = [flat[i * d : (i + 1) * d] for i in range(n)]
        slopes = [[one.derivative() for one in row] for row in tokens]
        return cls(tokens, slopes, differences(tokens, leaders), leaders)

    def heard(self, field: Field, s: Any, t: Any, around: Any = 0) -> Heard:
        """Return what tokens hear in a ball s of times after t, each coordinate of them in the ball `around` more."""
        x = [[one(s) + around for one in row] for row in self.tokens]
        apart = {
            leader: [[one(s) + (2 * around if j != leader else 0) for one in row] for j, row in enumerate(ways)]
            for leader, ways in self.apart.items()
        }
        return Heard.of(field, x, field.form(t + s, len(x[0])), self.leaders, apart)


def circle(field: Field, polynomials: Polynomials, t: Any, radius: float) -> Circle:
    """Return bounds on a disc, by the maximum principle from balls that cover its boundary.

    The tokens are polynomials, so the sums Z_i(s) of e^{<G x_i, x_j - x_l>} over j are entire functions of s. If their
    real parts are positive on the circle they are so in the disc, because they are harmonic. So no Z_i vanishes there,
    and f(p) and Df(p) are analytic. Then |f(p) - p'| and sums of |Df(p)| over a row are subharmonic: in the disc they
    are at most what they are on the circle.
    """
    from flint import arb

    with arithmetic(BITS):
        defect = slope = arb(0)
        arcs = []
        for point in _arcs():
            s = point * radius
            heard = polynomials.heard(field, s, t)
            if not field.sums and not all(one.real > 0 for one in heard.totals):
                raise NotAnalytic
            arcs.append(heard)
            for row, velocity in zip(polynomials.slopes, field.velocity(heard), strict=True):
                for one, speed in zip(row, velocity, strict=True):
                    defect = defect.max((speed - one(s)).abs_upper())
        for heard in arcs:
            for row in field.derivative(heard):
                slope = slope.max(sum((one.abs_upper() for one in row), arb(0)).upper())
        if not (defect.is_finite() and slope.is_finite()):
            raise NotAnalytic
        return Circle(arb(radius), defect, slope)


@lru_cache(maxsize=1)
def _arcs() -> list[Any]:
    """Return complex balls that cover the upper half of the unit circle."""
    from flint import acb, arb

    with arithmetic(BITS):
        pi = arb.pi()
        angles = [(pi * k / ARCS).union(pi * (k + 1) / ARCS) for k in range(ARCS)]
        return [acb(one.cos(), one.sin()) for one in angles]
