r"""Limits of flows that are proved: tokens that are locked to their leaders for ever.

Let x_i' = V sum_j P_ij x_j, V diagonal with rates r_k >= 0, and scores <G x_i, x_j>. At a time T each token i has a set
of leaders L(i), whose scores are the same for ever by a symmetry: mostly a single one. A leader leads itself alone. If
all weights were on leaders, x_i(T + s) would be e^{sV} a_i + c_i, a_i the mean of the leaders' places at T and
c_i = x_i(T) - a_i. The leaders of token i would be ahead of token j, in its scores, by

    E_ij(s) = <G (e^{sV} a_i + c_i), e^{sV} (a_i - a_j) - c_j>,

a sum of exponentials. Some tokens may be at 0 for ever by a symmetry: these have a = c = 0, and rows of equal weights.

**Theorem.** Let D_k be the spread of the coordinate k at T, r = max_k r_k, g m > r, and

    I = (n - 1) e^{-g} / (g m - r),    slack_k = 2 r_k D_k I.

Let E_ij(s) > g e^{ms} for all s >= 0, all i not at 0 and all j not in L(i), and for all a and c whose coordinates k
are at most slack_k away from those at T. Then for all s >= 0:

1. in each row, that of a token at 0 apart, the weights not on leaders sum to at most (n - 1) exp(-g e^{ms});
2. for each leader l, e^{-sV} x_l(T + s) is within slack of x_l(T);
3. for each token i, x_i minus the mean y_i of its leaders is within slack of what it is at T.

**Proof.** As long as 1 holds, 2 and 3 do. For r_k >= 0 the spread of the coordinate k of e^{-sV} x never grows, so that
of x is at most e^{r_k s} D_k. A leader has (e^{-sV} x_l)' = V sum_j P_lj e^{-sV} (x_j - x_l), and other tokens have
(x_i - y_i)' = V sum_j P_ij (x_j - y_i) minus the mean of V sum_j P_lj (x_j - x_l) over the leaders l, where the weights
of token i on its leaders, which are equal, add nothing to the first sum. The coordinate k of both is at most
2 r_k D_k e^{rs} (n - 1) exp(-g e^{ms}), whose integral is at most slack_k, as e^{ms} >= 1 + ms. As long as 2 and 3
hold, E_ij > g e^{ms} and P_ij <= exp(-E_ij): so 1 holds with room to spare, and all three hold for ever.

**Sums of exponentials.** Order C_1 e^{k_1 s} + C_2 e^{k_2 s} + ... by k_1 > k_2 > ... If all partial sums C_1,
C_1 + C_2, ... are at least g > 0, then the sum is at least g e^{k_1 s} for all s >= 0, by Abel's summation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from attnflow.core.cards import card
from attnflow.enclosures.fields import dot
from attnflow.enclosures.mirrors import Mirrors
from attnflow.enclosures.numbers import Numbers, array, ball, digits, largest, largest_radius

# The gap must be at least this before a proof is tried: I is then small.
LEAST = 10.0
# The theorem is tried with this part of the gap that there is without slack.
PART = 0.8


Leaders = tuple[frozenset[int] | None, ...]


@dataclass(frozen=True)
class Locked:
    """Tokens that keep their leaders for ever, proved.

    `leaders[i]` are those of token i, None for a token at 0; `limits` (n, d) are balls of lim e^{-sV} x(T + s); `gap`
    is the g of the theorem.
    """

    leaders: Leaders
    limits: Numbers
    gap: Any

    def _repr_html_(self) -> str:
        n, d = self.limits.shape
        kept = {one for one in self.leaders if one is not None}
        rows = {
            "tokens": f"{n} in dimension {d}", "sets of leaders": len(kept),
            "gap": digits(float(self.gap.lower()), up=False),
            "largest radius of a limit": digits(largest_radius(self.limits), up=True),
        }  # fmt: skip
        return card("Locked", rows)


def locked(x: Numbers, form: Numbers, rates: Sequence[Fraction], mirrors: Mirrors | None = None) -> Locked | None:
    """Return what the theorem proves of tokens in the balls x (n, d) with scores <form x_i, x_j>, or None.

    >>> import numpy as np
    >>> from attnflow.enclosures.numbers import balls, floats
    >>> flip = Mirrors(np.array([[1.0], [-1.0]]), np.array([[0, 1, 2], [1, 0, 2]]))
    >>> found = locked(balls([[6.0], [-6.0], [0.0]]), balls([[1.0]]), [Fraction(1)], flip)
    >>> [one and set(one) for one in found.leaders], floats(found.limits).ravel().round(2).tolist()
    ([{0}, {1}, None], [6.0, -6.0, 0.0])
    """
    mirrors = mirrors or Mirrors.none(*x.shape)
    leaders = _leaders(x, form, mirrors)
    if leaders is None:
        return None
    system = _System(x, form, rates, mirrors, leaders)
    first = system.least([ball(0)] * x.shape[1])
    if first is None or not first[0] * PART > LEAST:
        return None
    gap, growth, fastest = first[0] * PART, first[1], ball(max(rates))
    if not gap * ball(growth) > 2 * fastest:
        return None
    integral = (len(x) - 1) * (-gap).exp() / (gap * ball(growth) - fastest)
    slack = [(2 * ball(rate) * _spread(x[:, k]) * integral).upper() for k, rate in enumerate(rates)]
    again = system.least(slack)
    if again is None or not (again[0] > gap and again[1] >= growth):
        return None
    return Locked(leaders, system.limits(slack), gap)


def _leaders(x: Numbers, form: Numbers, mirrors: Mirrors) -> Leaders | None:
    """Return the tokens with the largest score for each token; None if a leader does not lead itself alone."""
    found: list[frozenset[int] | None] = []
    for i, (own, zero) in enumerate(zip(x, mirrors.at_zero, strict=True)):
        query = [dot(row, own) for row in form]
        scores = [dot(query, one).mid() for one in x]
        found.append(None if zero.all() else mirrors.tied(i, max(range(len(x)), key=scores.__getitem__)))
    lead = all(found[j] == frozenset({j}) for one in found if one is not None for j in one)
    return tuple(found) if lead else None


def _spread(column: Numbers) -> Any:
    """Return a bound of the differences of some balls."""
    return largest((a - b).abs_upper() for a in column for b in column)


@dataclass(frozen=True)
class _System:
    """Tokens at the time T, with what is known of them for ever."""

    x: Numbers
    form: Numbers
    rates: Sequence[Fraction]
    mirrors: Mirrors
    leaders: Leaders

    def start(self, i: int, k: int) -> dict[int, Fraction]:
        """Return the coordinate k of a_i, as multiples of those of some tokens: equal ones cancel in differences."""
        found: dict[int, Fraction] = {}
        led = self.leaders[i] or ()
        for j in led:
            image, sign = self.mirrors.image(j, k)
            found[image] = found.get(image, Fraction(0)) + Fraction(sign, len(led))
        return {j: part for j, part in found.items() if part}

    def value(self, multiples: dict[int, Fraction], k: int, slack: Any) -> Any:
        """Return the ball of a sum of multiples of the coordinate k of leaders, with the slack; 0 if it is empty."""
        from flint import arb

        return sum((ball(part) * (self.x[j, k] + arb(0, slack)) for j, part in multiples.items()), ball(0))

    def aside(self, i: int, slack: Sequence[Any]) -> list[Any]:
        """Return balls of c_i, with the slack."""
        from flint import arb

        found = []
        for k, more in enumerate(slack):
            rests = self.leaders[i] in (None, frozenset({i})) or (self.mirrors.at_zero[i, k] and not self.start(i, k))
            away = ball(0) if rests else self.x[i, k] - self.value(self.start(i, k), k, 0) + arb(0, more)
            found.append(away)
        return found

    def least(self, slack: Sequence[Any]) -> tuple[Any, Fraction] | None:
        """Return (g, m) with E_ij(s) >= g e^{ms} for all i, j and s, or None."""
        aside = [self.aside(i, slack) for i in range(len(self.x))]
        gap, growth = None, None
        for i, led in enumerate(self.leaders):
            for j in range(len(self.x)):
                if led is None or j in led:
                    continue
                place = [self.value(self.start(i, k), k, more) for k, more in enumerate(slack)]
                ahead = [self.value(self.between(i, j, k), k, more) for k, more in enumerate(slack)]
                found = _from_below(self.terms((place, aside[i]), (ahead, [-one for one in aside[j]])))
                if found is None:
                    return None
                gap = found[0] if gap is None else gap.min(found[0])
                growth = found[1] if growth is None else min(growth, found[1])
        return None if gap is None or growth is None else (gap, growth)

    def between(self, i: int, j: int, k: int) -> dict[int, Fraction]:
        """Return the coordinate k of a_i - a_j, as multiples of those of some tokens."""
        found = dict(self.start(i, k))
        for image, part in self.start(j, k).items():
            found[image] = found.get(image, Fraction(0)) - part
        return {image: part for image, part in found.items() if part}

    def terms(self, left: Any, right: Any) -> dict[Fraction, Any]:
        """Return the coefficients, by exponent, of <G (e^{sV} a + c), e^{sV} b + d> for (a, c) and (b, d)."""
        found: dict[Fraction, Any] = {}
        for k, rate in enumerate(self.rates):
            for j, other in enumerate(self.rates):
                for p, up in ((left[0][j], other), (left[1][j], Fraction(0))):
                    for q, more in ((right[0][k], rate), (right[1][k], Fraction(0))):
                        product = self.form[k, j] * p * q
                        if not product.is_zero():
                            found[up + more] = found.get(up + more, 0) + product
        return found

    def limits(self, slack: Sequence[Any]) -> Numbers:
        """Return balls of lim e^{-sV} x(T + s): a_i where the rate is positive, a_i + c_i where it is 0."""
        found = []
        for i in range(len(self.x)):
            aside = self.aside(i, slack)
            for k, (rate, more) in enumerate(zip(self.rates, slack, strict=True)):
                start = self.value(self.start(i, k), k, more)
                found.append(start if rate > 0 else start + aside[k])
        return array(found, self.x.shape)


def _from_below(terms: dict[Fraction, Any]) -> tuple[Any, Fraction] | None:
    """Return (g, m) with sum_k C_k e^{ks} >= g e^{ms} for all s >= 0 by Abel's summation, or None."""
    if not terms or max(terms) <= 0:
        return None
    total, least = ball(0), None
    for exponent in sorted(terms, reverse=True):
        total = total + terms[exponent]
        least = total.lower() if least is None else least.min(total.lower())
    return (least, max(terms)) if least is not None and least > 0 else None
