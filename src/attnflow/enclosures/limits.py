r"""Limits of flows that are proved: tokens that are locked to their leaders for ever.

Let x_i' = V sum_j P_ij x_j, V diagonal with rates r_k >= 0, and scores <G x_i, x_j>. At a time T each token i has a
leader l(i), and a leader leads itself. If all weights were on leaders, x_i(T + s) would be e^{sV} a_i + c_i, a_i the
leader's place at T and c_i = x_i(T) - a_i. The score of the leader of token i would be ahead of that of token j by

    E_ij(s) = <G (e^{sV} a_i + c_i), e^{sV} (a_i - a_j) - c_j>,

a sum of exponentials. Some tokens may be at 0 for ever by a symmetry: these have a = c = 0, and rows of equal weights.

**Theorem.** Let D_k be the spread of the coordinate k at T, r = max_k r_k, g m > r, and

    I = (n - 1) e^{-g} / (g m - r),    slack_k = 2 r_k D_k I.

Let E_ij(s) > g e^{ms} for all s >= 0, all i not at 0 and all j other than l(i), and for all a and c whose coordinates k
are at most slack_k away from those at T. Then for all s >= 0:

1. in each row, that of a token at 0 apart, the weights not on the leader sum to at most (n - 1) exp(-g e^{ms});
2. for each leader l, e^{-sV} x_l(T + s) is within slack of x_l(T);
3. for each token i with the leader l, x_i - x_l is within slack of what it is at T.

**Proof.** As long as 1 holds, 2 and 3 do. For r_k >= 0 the spread of the coordinate k of e^{-sV} x never grows, so that
of x is at most e^{r_k s} D_k. A leader has (e^{-sV} x_l)' = V sum_j P_lj e^{-sV} (x_j - x_l), and other tokens have
(x_i - x_l)' = V sum_j (P_ij - P_lj) (x_j - x_l). The coordinate k of both is at most
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

import numpy as np
from numpy.typing import NDArray

from attnflow.enclosures.fields import dot
from attnflow.enclosures.numbers import Numbers, array, ball, largest

# The gap must be at least this before a proof is tried: I is then small.
LEAST = 6.0
# The theorem is tried with this part of the gap that there is without slack.
PART = 0.5


@dataclass(frozen=True)
class Locked:
    """Tokens that keep their leaders for ever, proved.

    `leaders[i]` is that of token i, None for a token at 0; `limits` (n, d) are balls of lim e^{-sV} x(T + s); `gap` is
    the g of the theorem.
    """

    leaders: Sequence[int | None]
    limits: Numbers
    gap: Any


def locked(x: Numbers, form: Numbers, rates: Sequence[Fraction], at_zero: NDArray[np.bool_]) -> Locked | None:
    """Return what the theorem proves of tokens in the balls x (n, d) with scores <form x_i, x_j>, or None.

    `at_zero` (n, d) says which coordinates are exactly 0 for ever, by a symmetry.

    >>> from attnflow.enclosures.numbers import balls, floats
    >>> x = balls([[4.0], [-4.0], [0.0]])
    >>> found = locked(x, balls([[1.0]]), [Fraction(1)], np.array([[False], [False], [True]]))
    >>> found.leaders, floats(found.limits).ravel().round(2).tolist()
    ((0, 1, None), [4.0, -4.0, 0.0])
    """
    leaders = _leaders(x, form, at_zero)
    if leaders is None:
        return None
    d = x.shape[1]
    first = _least(x, form, rates, at_zero, leaders, [ball(0)] * d)
    if first is None or not first[0] * PART > LEAST:
        return None
    gap, growth = ball(first[0] * PART), first[1]
    fastest = max(rates)
    if not gap * ball(growth) > 2 * ball(fastest):
        return None
    integral = (len(x) - 1) * (-gap).exp() / (gap * ball(growth) - ball(fastest))
    slack = [(2 * ball(rate) * _spread(x[:, k]) * integral).upper() for k, rate in enumerate(rates)]
    again = _least(x, form, rates, at_zero, leaders, slack)
    if again is None or not (again[0] > gap and again[1] >= growth):
        return None
    return Locked(leaders, _limits(x, rates, at_zero, leaders, slack), gap)


def _leaders(x: Numbers, form: Numbers, at_zero: NDArray[np.bool_]) -> tuple[int | None, ...] | None:
    found: list[int | None] = []
    for own, zero in zip(x, at_zero, strict=True):
        query = [dot(row, own) for row in form]
        scores = [dot(query, one).mid() for one in x]
        found.append(None if zero.all() else max(range(len(x)), key=scores.__getitem__))
    return tuple(found) if all(one is None or found[one] == one for one in found) else None


def _spread(column: Numbers) -> Any:
    """Return a bound of the differences of some balls."""
    return largest((a - b).abs_upper() for a in column for b in column)


def _places(
    x: Numbers, at_zero: NDArray[np.bool_], leaders: Sequence[int | None], slack: Sequence[Any]
) -> tuple[list[list[Any]], list[list[Any]]]:
    """Return balls of a_i and c_i, with the slack."""
    from flint import arb

    starts, aside = [], []
    for i, leader in enumerate(leaders):
        a, c = [ball(0)] * len(slack), [ball(0)] * len(slack)
        for k, more in enumerate(slack):
            if leader is not None:
                a[k] = ball(0) if at_zero[leader, k] else x[leader, k] + arb(0, more)
            if leader is not None and leader != i and not (at_zero[i, k] and at_zero[leader, k]):
                c[k] = x[i, k] - x[leader, k] + arb(0, more)
        starts.append(a)
        aside.append(c)
    return starts, aside


def _least(
    x: Numbers,
    form: Numbers,
    rates: Sequence[Fraction],
    at_zero: NDArray[np.bool_],
    leaders: Sequence[int | None],
    slack: Sequence[Any],
) -> tuple[Any, Fraction] | None:
    """Return (g, m) with E_im(s) >= g e^{ms} for all i, m and s, or None."""
    starts, aside = _places(x, at_zero, leaders, slack)
    gap, growth = None, None
    for i, leader in enumerate(leaders):
        for m in range(len(x)):
            if leader is None or m == leader:
                continue
            same = leaders[m] == leader
            ahead = [ball(0) if same else p - q for p, q in zip(starts[i], starts[m], strict=True)]
            behind = [-one for one in aside[m]]
            found = _from_below(_terms(form, rates, (starts[i], aside[i]), (ahead, behind)))
            if found is None:
                return None
            gap = found[0] if gap is None else gap.min(found[0])
            growth = found[1] if growth is None else min(growth, found[1])
    return None if gap is None or growth is None else (gap, growth)


def _terms(form: Numbers, rates: Sequence[Fraction], left: Any, right: Any) -> dict[Fraction, Any]:
    """Return the coefficients, by exponent, of <G (e^{sV} a + c), e^{sV} b + d> for (a, c) and (b, d)."""
    found: dict[Fraction, Any] = {}
    for k, rate in enumerate(rates):  # the coordinate of the right
        for j, other in enumerate(rates):  # that of the left
            for p, up in ((left[0][j], other), (left[1][j], Fraction(0))):
                for q, more in ((right[0][k], rate), (right[1][k], Fraction(0))):
                    product = form[k, j] * p * q
                    if not product.is_zero():
                        found[up + more] = found.get(up + more, 0) + product
    return found


def _from_below(terms: dict[Fraction, Any]) -> tuple[Any, Fraction] | None:
    """Return (g, m) with sum_k C_k e^{ks} >= g e^{ms} for all s >= 0 by Abel's summation, or None."""
    if not terms or max(terms) <= 0:
        return None
    total, least = ball(0), None
    for exponent in sorted(terms, reverse=True):
        total = total + terms[exponent]
        least = total.lower() if least is None else least.min(total.lower())
    return (least, max(terms)) if least is not None and least > 0 else None


def _limits(
    x: Numbers,
    rates: Sequence[Fraction],
    at_zero: NDArray[np.bool_],
    leaders: Sequence[int | None],
    slack: Sequence[Any],
) -> Numbers:
    """Return balls of lim e^{-sV} x(T + s): a_i where the rate is positive, a_i + c_i where it is 0."""
    starts, aside = _places(x, at_zero, leaders, slack)
    return array(
        (
            a if rate > 0 else a + c
            for row, others in zip(starts, aside, strict=True)
            for rate, a, c in zip(rates, row, others, strict=True)
        ),
        x.shape,
    )
