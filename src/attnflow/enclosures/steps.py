r"""One proved step of a flow: a Taylor polynomial, a bound of its defect, and a frame that turns with the flow.

Let x' = f(x, t), and let p be a polynomial in the time s after t. Norms are those of the largest coordinate.

**Theorem.** Let D = f(p) - p' and J = Df(p) be analytic on the disc |s| <= R of complex times, with |D| <= M and
|J| <= Q there. Let the Taylor coefficients D_k of D, k < N, be at most a_k. For 0 < h < R put

    delta = sum_{k<N} a_k h^k + M (h/R)^N / (1 - h/R).

Let the logarithmic norm of J(s) be at most S >= 0 for real s in [0, h]. Let |D^2 f(x)[v, v]| <= L |v|^2 for all x at
most eps away from p([0, h]), and let x = p + e be a solution with

    e^{Sh} (|e(0)| + h (L eps^2 / 2 + delta)) < eps.

Then |e| < eps on [0, h], and e(h) is at most w = h e^{Sh} (L eps^2 / 2 + delta) away from W(h) e(0), where W' = J W and
W(0) = I. The Taylor polynomial sum_{k<=K} W_k s^k of W differs from W at h by at most

    h e^{Sh} (h/R)^K / (1 - h/R) sum_{k<=K} |W_k| R^k (Q + k/R).

**Proof.** |D_k| <= M R^{-k} by Cauchy, so |D| <= delta on [0, h]. The error has e' = f(p + e) - p' = J e + g + D, and
|g| <= L |e|^2 / 2 by Taylor's theorem as long as |e| <= eps. Then |e(s)| <= e^{Ss} (|e(0)| + s (L eps^2 / 2 + delta))
by Gronwall's and Dahlquist's lemma, which is less than eps: so e never reaches eps, and the solution exists on [0, h].
The difference w = e - W e(0) has w' = J w + g + D and w(0) = 0, which has the same bound. The polynomial T of W has a
defect J T - T' without powers below K, and its norm on the circle is at most the last sum. So Cauchy bounds it on
[0, h], and (W - T)' = J (W - T) + J T - T' bounds W - T.

If solutions have a symmetry, f commutes with the projection P on what is symmetric. Then p is chosen symmetric, so that
e = P e, and J may be replaced by P J P, whose norm is no larger: instabilities that break the symmetry do no harm.

Sets of states are c + A q, q in a box. The frame A turns with the flow, so that the box has to hold only what the flow
stretches. The defect is bounded on a circle, where p is known, and not over balls that hold all solutions of a step: so
the width of a step does no harm.

References
----------
G. Dahlquist, *Stability and error bounds in the numerical integration of ordinary differential equations* (1958).
R. Lohner, *Enclosing the solutions of ordinary initial and boundary value problems* (1987): frames.
A. Neumaier, *Global, rigorous and realistic bounds for the solution of dissipative differential equations* (1994).
F. Johansson, *Arb: efficient arbitrary-precision midpoint-radius interval arithmetic* (2017).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from attnflow.enclosures.circles import Circle, NotAnalytic, Polynomials, circle
from attnflow.enclosures.fields import Field
from attnflow.enclosures.mirrors import Mirrors
from attnflow.enclosures.numbers import Numbers, arithmetic, array, ball, largest, middles
from attnflow.enclosures.series import coefficient, derivative_along, fundamental, heard_along, taylor
from attnflow.enclosures.tubes import steepness, tube

# Circles of complex times: at most this part of the estimated radius of convergence, at most this long, and shorter by
# SHRINK until the field is proved to be analytic there.
PART, LONGEST, SHRINK, TRIALS = 0.8, 4.0, 0.75, 24
# A step is at most this part of the radius of its circle.
MOST = 0.5
# S h is at most this: bounds grow by e^{Sh}.
STEEPEST = 8.0
# The polynomial of the derivative W has at least this degree.
DEGREE = 14
# The error of that polynomial, of a matrix whose size is about 1, is at most this.
BLURRED = 1e-4
# Steps are multiples of this time.
SHORTEST = Fraction(1, 2**24)
# Matrices that multiply boxes need few digits.
BITS = 80


class NoStep(ArithmeticError):
    """A step cannot be enclosed: it is too long, or the set is too wide."""


@dataclass(frozen=True)
class Framed:
    """The states {c + A q : q in a box}, for tokens (n, d) written as one vector of n d numbers; c and A are exact.

    Only those are meant that are symmetric, if `mirrors` are given; c is so itself.
    """

    centre: Numbers
    frame: Any
    box: Any
    mirrors: Mirrors | None = None

    @classmethod
    def around(cls, x: Numbers, mirrors: Mirrors | None = None) -> Framed:
        """Return the set of the tokens that are in balls."""
        from flint import arb_mat

        m, centre = x.size, middles(x)
        frame = arb_mat(m, m, [int(i == j) for i in range(m) for j in range(m)])
        return cls(centre, frame, arb_mat(m, 1, list((x - centre).ravel())), mirrors)

    @property
    def directions(self) -> Any:
        """The frame A; if states are symmetric, its projection, as x - c = P (x - c)."""
        return self.frame if self.mirrors is None else self.mirrors.projection * self.frame

    @property
    def aside(self) -> Numbers:
        """Balls (n, d) of A q."""
        return array((self.directions * self.box).entries(), self.centre.shape)

    @property
    def hull(self) -> Numbers:
        """The tokens as balls (n, d) that hold all states of the set."""
        found: Numbers = self.centre + self.aside
        return found


@dataclass(frozen=True)
class Step:
    """What proves one step, in the letters of the theorem: enough to check it again.

    From `begin` on, `time` t lasts h; `circle` has R, M and Q; N is `order`, S is `slope`.
    """

    time: Fraction
    h: Fraction
    begin: Framed
    circle: Circle
    order: int
    slope: Any
    delta: Any
    eps: Any
    L: Any


def step(
    field: Field, states: Framed, t: Fraction, limit: Fraction, tolerance: float, order: int
) -> tuple[Step, Framed, Numbers]:
    """Return a step of at most the time `limit`, the states after it, and balls (n, d) of the tokens during it."""
    from flint import arb_poly

    now = ball(t)
    shape = states.centre.shape
    coefficients, jacobians = taylor(field, states.centre, now, order)
    if len(jacobians) < DEGREE:
        jacobians = derivative_along(field, coefficients, shape, now, DEGREE)
    if states.mirrors is not None:
        powers = [states.mirrors.symmetric(power) for power in zip(*coefficients, strict=True)]
        coefficients = [list(row) for row in zip(*powers, strict=True)]
        P = states.mirrors.projection
        jacobians = [P * one * P for one in jacobians]
    heard = heard_along(field, coefficients, shape, now, order)
    velocities = [one for row in field.velocity(heard) for one in row]
    low = _low_defects(coefficients, velocities, order)
    polynomials = Polynomials.of(coefficients, shape, heard.leaders)
    found = _circle(field, polynomials, now, _convergence(coefficients))
    h = _length(found, tolerance, order, limit)
    start = largest(one.abs_upper() for one in states.aside.ravel())
    while h >= SHORTEST:
        taken = ball(h)
        slope = steepness(field, polynomials, now, taken, states.mirrors)
        growth = (slope * taken).exp()
        delta = _defect(found, low, taken, order)
        proved = slope * taken < STEEPEST and _tube(field, polynomials, now, taken, (growth, delta, start))
        derivative = _derivative(jacobians, taken, found, growth) if proved else None
        if proved and derivative is not None:
            between, eps, bound, beside = proved
            after = _moved(states, [arb_poly(one)(taken) for one in coefficients], derivative, beside)
            return Step(t, h, states, found, order, slope, delta, eps, bound), after, between
        h = _rounded(float(h) / 2)
    raise NoStep


def _low_defects(coefficients: Any, velocities: list[Any], order: int) -> list[Any]:
    """Return a_k: bounds of the coefficients of f(p) - p' below the order."""
    from flint import arb

    found = []
    for k in range(order):
        most = arb(0)
        for row, one in zip(coefficients, velocities, strict=True):
            most = most.max((coefficient(one, k) - (k + 1) * row[k + 1]).abs_upper())
        found.append(most)
    return found


def _convergence(coefficients: Any) -> float:
    """Return an estimate of the radius of convergence from the last coefficients."""
    order = len(coefficients[0]) - 1
    rates = []
    for k in range(order - 3, order + 1):
        size = max((abs(row[k]) for row in coefficients), key=lambda one: one.mid())
        rates.append(float((size.log() / k).mid()) if size > 0 else -np.inf)
    return float(np.exp(-max(rates)))


def _circle(field: Field, polynomials: Polynomials, now: Any, convergence: float) -> Circle:
    radius = min(LONGEST, PART * convergence)
    for _ in range(TRIALS):
        try:
            return circle(field, polynomials, now, radius)
        except (NotAnalytic, ValueError, ZeroDivisionError):
            radius *= SHRINK
    raise NoStep


def _length(found: Circle, tolerance: float, order: int, limit: Fraction) -> Fraction:
    """Return how long a step may be whose remainder is at most the tolerance."""
    part = MOST if found.defect == 0 else min(MOST, float(((ball(tolerance) / found.defect).log() / order).exp().mid()))
    return min(limit, _rounded(float(found.radius) * part))


def _rounded(h: float) -> Fraction:
    return int(h / float(SHORTEST)) * SHORTEST


def _defect(found: Circle, low: list[Any], h: Any, order: int) -> Any:
    """Return delta."""
    from flint import arb

    part = h / found.radius
    total = found.defect * part**order / (1 - part)
    power = arb(1)
    for one in low:
        total, power = total + one * power, power * h
    return total.upper()


def _tube(field: Field, polynomials: Polynomials, now: Any, h: Any, bounds: tuple[Any, Any, Any]) -> Any:
    """Return balls of the tokens during a step, eps, L and w; None if the condition of the theorem is not met."""
    growth, delta, start = bounds
    eps = (2 * growth * (start + h * delta)).upper()
    if not eps.is_finite():
        return None
    pieces, bound = tube(field, polynomials, now, h, eps)
    if not bound.is_finite():
        return None
    beside = (h * growth * (bound * eps**2 / 2 + delta)).upper()
    if eps > 0 and not growth * start + beside < eps:
        return None
    between = array((one for row in pieces[0] for one in row), (len(pieces[0]), len(pieces[0][0])))
    for piece in pieces[1:]:
        between = array(
            (a.union(b) for a, b in zip(between.ravel(), (one for row in piece for one in row), strict=True)),
            between.shape,
        )
    return between, eps, bound, beside


def _moved(states: Framed, ends: list[Any], derivative: Any, beside: Any) -> Framed:
    """Return the states after a step: p(h) + W(h) A q + [-w, w]."""
    from flint import arb, arb_mat

    shape, m = states.centre.shape, states.centre.size
    centre = [one.mid() for one in ends]
    if states.mirrors is not None:
        centre = states.mirrors.symmetric(centre)
    rest = [one - c + arb(0, beside) for one, c in zip(ends, centre, strict=True)]
    with arithmetic(BITS):
        turned = derivative * states.directions
        frame = _frame(turned, states.box)
        inverse = frame.inv()
        box = (inverse * turned) * states.box + inverse * arb_mat(m, 1, rest)
    return Framed(array(centre, shape), frame, box, states.mirrors)


def _derivative(jacobians: list[Any], h: Any, found: Circle, growth: Any) -> Any:
    """Return a matrix of balls that holds W(h); None if these would be wide."""
    from flint import arb, arb_mat

    with arithmetic(BITS):
        terms = fundamental(jacobians, h)
        total, degree = terms[0], len(terms) - 1
        for one in terms[1:]:
            total = total + one
        # The terms are W_k h^k.
        defect, part = arb(0), h / found.radius
        for k, one in enumerate(terms):
            defect = defect + _norm(one) * part ** (degree - k) * (found.slope + k / found.radius)
        error = (h * growth * defect / (1 - part)).upper()
        if not error < BLURRED:
            return None
        m = total.nrows()
        return total + arb_mat(m, m, [arb(0, error)] * (m * m))


def _norm(matrix: Any) -> Any:
    """Return a bound of the largest sum of a row."""
    from flint import arb

    return largest(sum((one.abs_upper() for one in row), arb(0)).upper() for row in matrix.tolist())


def _frame(turned: Any, box: Any) -> Any:
    """Return an orthogonal matrix, up to rounding, whose first columns follow where the box is longest."""
    from flint import arb_mat

    m = turned.nrows()
    widths = [box[k, 0].abs_upper() for k in range(m)]
    most = largest(widths)
    shares = np.array([float(one / most) if most > 0 else 1.0 for one in widths])
    columns = np.array([float(one.mid()) for one in turned.entries()]).reshape(m, m)
    lengths = np.linalg.norm(columns, axis=0) * np.where(shares > 0, shares, 1e-300)
    q = np.linalg.qr(columns[:, np.argsort(-lengths, kind="stable")])[0]
    return arb_mat(q.tolist())
