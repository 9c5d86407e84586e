"""Sets of states that do not wrap: boxes in frames that turn with the flow, and one validated step of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attnflow.enclosures.fields import Field
from attnflow.enclosures.numbers import Numbers, array, largest_radius, middles
from attnflow.enclosures.taylor import coefficients, derivative

# How often an enclosure of a whole step is made larger before the step is made shorter.
TRIALS = 3


@dataclass(frozen=True)
class Framed:
    """The states {c + A r : r in a box}, for tokens (n, d) written as one vector of n d numbers.

    A box around a set that the flow turns grows in every step, although the set does not: it wraps. The frame A turns
    with the flow, so that only the box r has to hold what the flow really stretches (R. Lohner, *Enclosing the
    solutions of ordinary initial and boundary value problems*, 1987).
    """

    centre: Numbers
    frame: Any
    box: Any
    shape: tuple[int, int]

    @classmethod
    def around(cls, x: Numbers) -> Framed:
        """Return the set of the tokens that are in balls."""
        from flint import arb_mat

        m = x.size
        centre = middles(x.ravel())
        frame = arb_mat([[int(i == j) for j in range(m)] for i in range(m)])
        return cls(centre, frame, arb_mat([[one] for one in x.ravel() - centre]), x.shape)

    @property
    def hull(self) -> Numbers:
        """The tokens as balls (n, d) that hold all states of the set."""
        return (self.centre + _entries(self.frame * self.box)).reshape(self.shape)


class NoStep(ArithmeticError):
    """A step cannot be enclosed: it is too long, or the set is too wide."""


def step(field: Field, states: Framed, t: Any, h: Any, known: Numbers) -> tuple[Framed, Numbers, Numbers]:
    """Return states at time t + h, balls that hold the tokens all the time between, and the balls of the remainder.

    `known` are the coefficients at the centre, whose number says the order N. For a start c + A r the solution is

        x(t + h) = T(c) + DT(s) A r + x_{N+1}(tau) h^{N+1},

    T the Taylor polynomial of order N, s some start between c and c + A r (one for each coordinate), x_{N+1}(tau) a
    coefficient at some time tau of the step (one for each coordinate): by the mean value theorem and Taylor's theorem. DT
    is enclosed over the hull of the states, and x_{N+1} over balls Y that hold all tokens for all the time of the step.

    Y is right if P + x_{N+1}(Y) [0, h]^{N+1} is inside Y, P the values that Taylor polynomials of all states take for
    times in [0, h]. For a solution that leaves Y would be on its boundary a first time s; until then it was in Y, so by
    Taylor's theorem it is at P + x_{N+1}(Y) s^{N+1} then, which is inside. (N. Nedialkov, K. Jackson, J. Pryce, *An
    effective high-order interval method for validating existence and uniqueness of the solution of an IVP for an ODE*, 2001.)
    """
    from flint import arb, arb_mat

    order = len(known) - 1
    hull = states.hull
    ahead = coefficients(field, hull, t, order)
    between, last = _enclosed(field, ahead, t, h)
    remainder = (last * h ** (order + 1)).ravel()
    middle, power = known[0].ravel(), arb(1)
    for each in known[1:]:
        power = power * h
        middle = middle + each.ravel() * power
    turned = derivative(field, ahead, t, h) * states.frame
    moved = middle + remainder
    if not all(one.is_finite() for one in moved) or not all(one.is_finite() for one in _entries(turned)):
        raise NoStep
    frame = _frame(turned, states.box)
    inverse = frame.inv()
    centre = middles(moved)
    box = (inverse * turned) * states.box + inverse * arb_mat([[one] for one in moved - centre])
    return Framed(centre, frame, box, states.shape), between, remainder


def _enclosed(field: Field, ahead: Numbers, t: Any, h: Any) -> tuple[Numbers, Numbers]:
    """Return balls Y that hold all solutions for the time h, given their coefficients now, and x_{N+1} over Y."""
    from flint import arb

    order, time = len(ahead) - 1, _from_zero_to(h)
    whole = ahead[order]
    for each in ahead[order - 1 :: -1]:
        whole = each + whole * time
    # Radii have few digits: what is added to them must be seen.
    least = 1e-6 * largest_radius(whole)
    room = least
    for _ in range(TRIALS):
        wider = array((one + arb(0, room) for one in whole.ravel()), whole.shape)
        try:
            last = coefficients(field, wider, t + time, order + 1)[order + 1]
        except ValueError:  # a sum of weights that may be 0, in balls as wide as these
            break
        beyond = last * time ** (order + 1)
        image = whole + beyond
        if not all(one.is_finite() for one in image.ravel()):
            break
        if all(outer.contains_interior(inner) for outer, inner in zip(wider.ravel(), image.ravel(), strict=True)):
            return image, last
        room = least + 2 * max(float(one.abs_upper()) for one in beyond.ravel())
    raise NoStep


def _from_zero_to(h: Any) -> Any:
    """Return a ball that holds all times from 0 to h."""
    return (h / 2).union(h * 0).union(h)


def _frame(turned: Any, box: Any) -> Any:
    """Return an orthogonal matrix, up to rounding, whose first columns follow where the box is longest."""
    from flint import arb_mat

    m = turned.nrows()
    widths = np.array([float(box[k, 0].rad()) + abs(float(box[k, 0].mid())) for k in range(m)])
    columns = np.array([[float(turned[i, k].mid()) for k in range(m)] for i in range(m)])
    lengths = np.linalg.norm(columns, axis=0) * np.where(widths > 0, widths, 1e-300)
    q = np.linalg.qr(columns[:, np.argsort(-lengths, kind="stable")])[0]
    return arb_mat(q.tolist())


def _entries(matrix: Any) -> Numbers:
    found = np.empty(matrix.nrows() * matrix.ncols(), dtype=object)
    found[:] = matrix.entries()
    return found


def widest(states: Framed) -> float:
    """Return the largest radius of the tokens of a set."""
    return largest_radius(states.hull)
