r"""States at rest of flows, proved: a box that holds exactly one.

**Theorem** (Krawczyk). Let X be a box around p, DF(X) a matrix of intervals that holds DF(x) for all x in X, and C any
matrix. If

    K(X) = p - C F(p) + (I - C DF(X)) (X - p)

lies inside X, then F has exactly one zero in X, it lies in K(X), and C and all DF(x) are invertible.

**Proof.** The map x - C F(x) has the values p - C F(p) + (I - C M)(x - p) on X, with M in the convex set DF(X). So it
maps X into K(X), which lies inside X, and has a fixed point there (Brouwer). The sets (I - C M)(X - p) are symmetric
around 0, so they lie inside X - p without the shift by C F(p) too: in the norm of which X - p is the unit ball, I - C M
has a norm below 1. So C M and C are invertible, fixed points are zeros, and two zeros x and y, which have
F(x) - F(y) = M (x - y) with such an M, are the same.

`attnflow.enclosures.pinned` has the F whose zeros are the states at rest, and what holds their rotation.

References
----------
R. Krawczyk, *Newton-Algorithmen zur Bestimmung von Nullstellen mit Fehlerschranken* (1969).
S. Rump, *Verification methods: rigorous results using floating-point arithmetic* (2010).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from attnflow.core.cards import card
from attnflow.core.inputs import Array, InputError, cloud
from attnflow.enclosures.fields import RESCALED, SPHERE
from attnflow.enclosures.flows import MOST, field_of
from attnflow.enclosures.numbers import Numbers, arithmetic, array, balls, digits, floats, largest_radius, middles
from attnflow.enclosures.pinned import Pinned, differentiated, heard
from attnflow.laws import Law
from attnflow.motions import Motion

BITS = 128
# Steps of Newton's method; it has not left the guess if it stays within NEAR of it, in parts of its size.
NEWTON, NEAR = 40, 0.05
# It is done when a step is shorter than this.
CLOSE = 2.0**-90
# Boxes are tried from this radius on, each LARGER times as wide as the one before, up to the last.
NARROW, LARGER, WIDEST = 2.0**-80, 2.0, 1.0


@dataclass(frozen=True)
class FixedPoint:
    """Exactly one state at rest, proved: tokens that do not move.

    It lies in the balls `box` (n, d), and is the only one in the box of radius `alone` around their middles. Where
    `turns`, the dimension of the set of its rotations, is not 0, they rest as well: then it is the only one with the
    rotation of the guess, g(x) = 0. `pinned` is the field of which it is the only zero.
    """

    box: Numbers
    alone: float
    pinned: Pinned
    certified: ClassVar[str] = "ball"

    @property
    def turns(self) -> int:
        """The dimension of the set of its rotations, which rest as well."""
        return len(self.pinned.turns)

    @property
    def radius(self) -> float:
        """The largest radius of the balls."""
        return largest_radius(self.box)

    @property
    def middle(self) -> Array:
        """The middles of the balls as floats."""
        return floats(self.box)

    def _repr_html_(self) -> str:
        n, d = self.box.shape
        rows = {
            "tokens": f"{n} in dimension {d}", "largest radius": digits(self.radius, up=True),
            "alone within": digits(self.alone, up=False), "turns": self.turns, "certified": self.certified,
        }  # fmt: skip
        return card("State at rest", rows)


def fixed_point(tokens: ArrayLike, law: Law, motion: Motion) -> FixedPoint:
    """Return the state at rest near some tokens, x' = f(x) = 0, proved to be there and to be the only one nearby.

    Newton's method refines the guess; Krawczyk's operator then proves it: see `attnflow.enclosures.fixed_points`. On
    the sphere tokens are divided by their lengths first.

    Parameters
    ----------
    tokens
        A guess, such as the end of a run, `run.final`. Another state may be nearer than the one that you mean: look at
        `middle`. One that is hardly isolated, as tokens that hardly hear each other, is not found.
    law, motion
        As in `enclose`: `Softmax` under `Flow` or `SphereFlow`, with few tokens.

    Examples
    --------
    Three tokens at equal angles on the circle rest:

    >>> import attnflow as af
    >>> guess = [[1.0, 0.0], [-0.5, 0.866], [-0.5, -0.866]]
    >>> found = fixed_point(guess, af.Softmax(beta=2.0), af.SphereFlow())
    >>> found.turns, found.radius < 1e-30, found.alone > 1e-3
    (1, True, True)

    References
    ----------
    R. Krawczyk, *Newton-Algorithmen zur Bestimmung von Nullstellen mit Fehlerschranken* (1969).
    """
    from flint import arb_mat

    start = cloud(tokens, "tokens")
    if start.size > MOST:
        raise InputError(
            f"there are {start.size} coordinates, expected at most {MOST}: take fewer tokens or dimensions"
        )
    field = field_of(law, motion, start.shape[1])
    if field.kind == RESCALED:
        raise InputError("RescaledFlow depends on the time, so that nothing rests for ever: use Flow or SphereFlow")
    if field.kind == SPHERE:
        lengths = np.linalg.norm(start, axis=1, keepdims=True)
        if not (lengths > 0).all():
            raise InputError(f"token {int(lengths.argmin())} has norm 0, expected a direction: move it")
        start = start / lengths
    with arithmetic(BITS):
        pinned = Pinned.at(field, balls(start))
        p = _refined(pinned, balls(start))
        # The operator sees no mistake in a derivative, as it starts from a point where F is nearly 0.
        if not differentiated(field, p).overlaps(arb_mat(field.derivative(heard(field, p)))):
            raise ArithmeticError("the formula of the derivative disagrees with power series: this is a mistake in it")
        return _proved(pinned, p)


def _refined(pinned: Pinned, start: Numbers) -> Numbers:
    """Return the zero that Newton's method finds, as exact numbers."""
    p, far = start, NEAR * max(float(np.abs(floats(start)).max()), 1e-300)
    for _ in range(NEWTON):
        step = _newton_step(pinned, p)
        if step is None:
            break
        p = middles(p - step)
        if np.abs(floats(p) - floats(start)).max() > far:
            break
        if all(abs(one) < CLOSE for one in step.ravel()):
            return p
    raise InputError(
        "no isolated state at rest is found near these tokens: give a better guess, such as run.final of a longer run; "
        "if they rest already, others that rest may be at any distance, and other parameters may tell them apart"
    )


def _newton_step(pinned: Pinned, p: Numbers) -> Numbers | None:
    from flint import arb_mat

    try:
        found = pinned.derivative(p).mid().solve(arb_mat(p.size, 1, pinned.value(p)).mid(), nonstop=False)
    except ZeroDivisionError:
        return None
    return array(found.mid().entries(), p.shape)


def _proved(pinned: Pinned, p: Numbers) -> FixedPoint:
    """Return the zero near p, in the image of the narrowest box, with the widest box that holds no other."""
    inverse = pinned.derivative(p).mid().inv().mid()
    box = inside(pinned, p, inverse, NARROW)
    if box is None:
        raise InputError(
            "a state at rest near these tokens is not proved to be isolated: others may be at any distance, as where "
            "B, V or masses have a symmetry that is not a rotation of all; change them a little"
        )
    alone = NARROW
    while alone * LARGER <= WIDEST and inside(pinned, p, inverse, alone * LARGER) is not None:
        alone *= LARGER
    # The boxes are around p, which is at most NARROW away from the middles of the image.
    return FixedPoint(box, alone - NARROW, pinned)


def inside(pinned: Pinned, p: Numbers, inverse: Any, radius: float) -> Numbers | None:
    """Return K(X) for the box X of this radius around p; None if it is not inside X, or the lemma does not hold."""
    from flint import arb, arb_mat

    m = p.size
    X = array((one + arb(0, radius) for one in p.ravel()), p.shape)
    one = arb_mat(m, m, [int(i == j) for i in range(m) for j in range(m)])
    shift = inverse * arb_mat(m, 1, pinned.value(p))
    image = (one - inverse * pinned.derivative(X)) * arb_mat(m, 1, [arb(0, radius)] * m) - shift
    if not all(entry.abs_upper() < radius for entry in image.entries()) or not pinned.tells(X):
        return None
    return array((a + b for a, b in zip(p.ravel(), image.entries(), strict=True)), p.shape)
