r"""Sums over triples of tokens on the circle: a proof that no state but consensus attracts, for -2/3 < beta < 0.

Tokens have angles t_1 .. t_n, and b = -beta. SA and USA go up the energy sum_ij e^{beta cos(t_i - t_j)} / (2 beta), up
to positive factors for each token. A state is stationary if sum_j g(t_i - t_j) = 0 for all i, and the second derivative
of the energy in a direction v is -(1/2) sum_ij h(t_i - t_j) (v_i - v_j)^2, with

    g(x) = e^{beta cos x} sin x,    h(x) = g'(x) = e^{beta cos x} (cos x - beta sin^2 x).

**Theorem.** Let -2/3 < beta < 0. At every stationary state that is not consensus the energy has a positive second
derivative in some direction. So tokens come together at one point from almost every start, for every n.

**Proof.** Take, for each token k, the directions v_i = cos(t_i - t_k) and v_i = sin(t_i - t_k), with weights w = 1/6
and 1, and add -2 c p(t_i - t_k), p(x) = sin x + sin 2x and c = 5/4, times the equation of token i. At a stationary
state

    sum_ijk h(t_i - t_j) (w (cos(t_i - t_k) - cos(t_j - t_k))^2 + (sin(t_i - t_k) - sin(t_j - t_k))^2)
      = sum_ijk [the same] - c g(t_i - t_j) (p(t_i - t_k) - p(t_j - t_k)),

as the part with c is 0. The right side is a sixth of the sum over all triples of S, where S(x, y, z) is the sum over
the six ways to choose an ordered pair of three angles. With d the difference of a pair, m its middle minus the third
angle, k = cos(d/2) and y = cos m,

    S = 8 sum over the three pairs of (1 - k^2) e^{beta cos d} r(k, y),
    r = (2 k^2 - 1 + 4 b k^2 (1 - k^2)) (w (1 - y^2) + y^2) - c (k y + 2 k^2 (2 y^2 - 1)).

If S < 0 for all triples that are not at one point, the left side is negative: some direction has a positive second
derivative. That S < 0 is proved by balls on boxes of (d_1/2, d_2/2, b), d_1 <= d_2 <= d_3 the three arcs:

1. S < 0 on all boxes but those near three equal angles, where all three r < 0, and those of 2 and 3.
2. At b = 2/3, S and its gradient vanish at the arcs (0, 1/3, 2/3) and (1/3, 1/3, 1/3) of a turn, in fractions. Around
   these two its second derivative is negative definite, so that S <= 0 there.
3. Around these two S increases with b from 3/5 on, so that it is negative for b < 2/3.

**From directions to almost every start.** Both flows are analytic gradient flows of the energy, for a metric that
multiplies the square of each token by a positive function. So each run converges to a stationary state (Lojasiewicz).
The linearised flow has an unstable direction where the second derivative of the energy has a positive one, whatever the
metric (Sylvester), and the starts that tend to such states are a null set (by centre-stable manifolds).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from attnflow.enclosures.numbers import arithmetic, ball

BITS = 53
# A proof that needs more boxes than this is given up.
MOST_BOXES = 1_000_000
TIGHT = Fraction(2, 3)
# The arcs of 2 as (d_1/2, d_2/2), in units of pi.
TIGHT_ARCS = ((Fraction(0), Fraction(1, 3)), (Fraction(1, 3), Fraction(1, 3)))
# Multiples j of pi/3: cosines, and sines over the root of 3/4.
COSINES = (Fraction(1), Fraction(1, 2), Fraction(-1, 2), Fraction(-1), Fraction(-1, 2), Fraction(1, 2))
SINES = (0, 1, 1, 0, -1, -1)
# d/2 and m of the three pairs as multiples of the first two halves of arcs.
PAIRS = (((1, 0), (1, 2)), ((0, 1), (2, 1)), ((1, 1), (-1, 1)))

# The sides of a box: the lower and the upper end of each.
Box = tuple[tuple[Fraction, Fraction], ...]


class Unproved(ArithmeticError):
    """The boxes do not prove it."""


@dataclass(frozen=True)
class Triples:
    """The weights w of `cosines` and c of the `pull`, and where the sum S over triples is to be negative.

    The box around each of the two arcs where S vanishes at b = 2/3 has the half-width `near`, in units of pi, and is
    used for b from `near_from` on.

    >>> Triples(Fraction(1, 6), Fraction(5, 4)).negative(Fraction(1, 5), Fraction(1, 4))
    3229
    """

    cosines: Fraction
    pull: Fraction
    near_from: Fraction = Fraction(3, 5)
    near: Fraction = Fraction(1, 50)

    @classmethod
    def read(cls, proof: Mapping[str, str]) -> Triples:
        """Return what the proof of a certificate has as text."""
        return cls(*(Fraction(proof[name]) for name in ("cosines", "pull", "near_from", "near")))

    def prove(self, low: Fraction, high: Fraction) -> int:
        """Prove S < 0 for low <= b <= high < 2/3, or low <= b < 2/3 if high is 2/3; return the number of boxes."""
        boxes = 0
        for arcs in TIGHT_ARCS if high > self.near_from else ():
            if not self.vanishes(*arcs):
                raise Unproved(f"S or its gradient is not 0 at the arcs {arcs} for b = 2/3")
            boxes += self.bends_down(*arcs) + self.rises(*arcs)
        return boxes + self.negative(low, high)

    def negative(self, low: Fraction, high: Fraction) -> int:
        """Prove part 1 for b from low to high; return the number of boxes."""
        start = ((Fraction(0), Fraction(1, 3)), (Fraction(0), Fraction(1, 2)), (low, high))
        return _cover(start, self._settled, (6, 6, 2))

    def _settled(self, box: Box) -> bool:
        """Say whether a box lies outside of d_1 <= d_2 <= d_3, in the boxes of 2 and 3, or has S < 0."""
        (s, _), (t, end), (b, _) = box
        if s > end or s + 2 * t > 1:
            return True
        if b >= self.near_from and any(self._inside(box, arcs) for arcs in TIGHT_ARCS):
            return True
        terms = self._terms(*_balls(box))
        if s == t == 0 and all(r < 0 for _, r in terms):
            return True
        return bool(sum(weight * r for weight, r in terms) < 0)

    def _inside(self, box: Box, arcs: tuple[Fraction, Fraction]) -> bool:
        """Say whether a box lies in that around two arcs."""
        return all(
            at - self.near <= low and high <= at + self.near for (low, high), at in zip(box[:2], arcs, strict=True)
        )

    def vanishes(self, s: Fraction, t: Fraction) -> bool:
        """Say whether S and its gradient are 0 at b = 2/3, in fractions, for arcs that are multiples of pi/3.

        There r = 0 for each pair at a distance, and all of these have the same factor (1 - k^2) e^{beta cos d}: it is
        enough that the gradients of their r have the sum 0.
        """
        from flint import fmpq, fmpq_series

        def series(angle: int, slope: int) -> Any:
            value, sine = COSINES[angle % 6], SINES[angle % 6]
            return fmpq_series([fmpq(value.numerator, value.denominator), -sine * slope])

        numbers = [fmpq(one.numerator, one.denominator) for one in (TIGHT, self.cosines, self.pull)]
        halves = (int(3 * s), int(3 * t))
        for direction in ((1, 0), (0, 1)):
            slope = fmpq(0)
            for pair in PAIRS:
                angles = [sum(p * q for p, q in zip(one, halves, strict=True)) for one in pair]
                slopes = [sum(p * q for p, q in zip(one, direction, strict=True)) for one in pair]
                if COSINES[angles[0] % 6] in (1, -1):
                    continue
                found = ratio(*map(series, angles, slopes), *numbers)
                if found[0] != 0:
                    return False
                slope += found[1]
            if slope != 0:
                return False
        return True

    def bends_down(self, s: Fraction, t: Fraction) -> int:
        """Prove part 2 around two arcs: the second derivative is negative definite; return the number of boxes."""
        from flint import arb_series

        def negative_definite(box: Box) -> bool:
            A, G = _balls(box)
            turns = ((1, 0), (0, 1), (1, 1))
            first, second, both = (
                2 * self._sum(arb_series([A, v]), arb_series([G, w]), ball(TIGHT))[2] for v, w in turns
            )
            mixed = (both - first - second) / 2
            return bool(first < 0 and first * second - mixed * mixed > 0)

        return _cover(self._around(s, t), negative_definite, (1, 1))

    def rises(self, s: Fraction, t: Fraction) -> int:
        """Prove part 3 around two arcs: S increases with b; return the number of boxes."""
        from flint import arb_series

        def increasing(box: Box) -> bool:
            A, G, b = _balls(box)
            return bool(self._sum(arb_series([A]), arb_series([G]), arb_series([b, 1]))[1] > 0)

        return _cover((*self._around(s, t), (self.near_from, TIGHT)), increasing, (6, 6, 2))

    def _around(self, s: Fraction, t: Fraction) -> Box:
        return (s - self.near, s + self.near), (t - self.near, t + self.near)

    def _terms(self, A: Any, G: Any, b: Any) -> list[tuple[Any, Any]]:
        """Return (1 - k^2) e^{beta cos d} and r for each pair, of balls or series."""
        found = []
        for (p, q), (u, v) in PAIRS:
            k, y = (p * A + q * G).cos(), (u * A + v * G).cos()
            found.append(
                ((1 - k * k) * (b * (1 - 2 * k * k)).exp(), ratio(k, y, b, ball(self.cosines), ball(self.pull)))
            )
        return found

    def _sum(self, A: Any, G: Any, b: Any) -> Any:
        """Return S / 8."""
        return sum(weight * r for weight, r in self._terms(A, G, b))


def ratio(k: Any, y: Any, b: Any, w: Any, c: Any) -> Any:
    """Return r = (2 k^2 - 1 + 4 b k^2 (1 - k^2)) (w (1 - y^2) + y^2) - c (k y + 2 k^2 (2 y^2 - 1)), in any arithmetic.

    >>> ratio(Fraction(1, 2), -1, Fraction(2, 3), Fraction(1, 6), Fraction(5, 4))
    Fraction(0, 1)
    """
    kk, yy = k * k, y * y
    return (2 * kk - 1 + 4 * b * kk * (1 - kk)) * (w * (1 - yy) + yy) - c * (k * y + 2 * kk * (2 * yy - 1))


def _balls(box: Box) -> list[Any]:
    """Return balls that hold the sides of a box: angles, which are in units of pi, then b if there is a third side."""
    from flint import arb

    sides = [ball(low).union(ball(high)) for low, high in box]
    return [arb.pi() * side for side in sides[:2]] + sides[2:]


def _cover(start: Box, holds: Callable[[Box], bool], units: Iterable[int]) -> int:
    """Halve a box, at its longest side in some units, until it holds on every part; return how often it was asked."""
    from flint import ctx

    boxes, asked, units = [start], 0, tuple(units)
    with arithmetic(BITS):
        ctx.cap = 3
        while boxes:
            box = boxes.pop()
            asked += 1
            if asked > MOST_BOXES:
                raise Unproved(f"{MOST_BOXES} boxes are not enough; the last was {box}")
            if holds(box):
                continue
            lengths = [unit * (high - low) for unit, (low, high) in zip(units, box, strict=True)]
            place = lengths.index(max(lengths))
            low, high = box[place]
            middle = (low + high) / 2
            boxes += [(*box[:place], side, *box[place + 1 :]) for side in ((low, middle), (middle, high))]
    return asked
