"""Bounds of the second derivative of a vector field near a polynomial."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attnflow.enclosures.circles import Polynomials
from attnflow.enclosures.fields import SPHERE, Field, Heard
from attnflow.enclosures.mirrors import Mirrors
from attnflow.enclosures.numbers import largest

# The time of a step is covered by this many balls.
PIECES = 4


def tube(field: Field, polynomials: Polynomials, t: Any, h: Any, around: Any) -> tuple[list[Any], Any]:
    """Return balls of the tokens for each piece of the time [0, h], and a bound of the second derivative of the field.

    Both hold at all points that are at most `around` away from the polynomials, in each coordinate. The second bounds
    |D^2 f(x)[v, v]| for all v with coordinates at most 1.
    """
    from flint import arb

    aside, most, tokens = arb(0, around), arb(0), []
    for s in _pieces(h):
        heard = polynomials.heard(field, s, t, aside)
        tokens.append(heard.tokens)
        most = most.max(second_derivative(field, heard))
    return tokens, most


def steepness(field: Field, polynomials: Polynomials, t: Any, h: Any, mirrors: Mirrors | None = None) -> Any:
    """Return a bound S >= 0 of the logarithmic norm max_i (Df_ii + sum_{j != i} |Df_ij|) along the polynomials."""
    from flint import arb, arb_mat

    most = arb(0)
    for s in _pieces(h):
        rows = field.derivative(polynomials.heard(field, s, t))
        if mirrors is not None:
            rows = (mirrors.projection * arb_mat(rows) * mirrors.projection).tolist()
        for i, row in enumerate(rows):
            most = most.max(sum((one.abs_upper() for j, one in enumerate(row) if j != i), row[i]).upper())
    return most


def _pieces(h: Any) -> list[Any]:
    """Return balls that cover the times from 0 to h."""
    return [(h * k / PIECES).union(h * (k + 1) / PIECES) for k in range(PIECES)]


def second_derivative(field: Field, heard: Heard) -> Any:
    """Return a bound of |D^2 f(x)[v, v]| for all v with coordinates at most 1.

    Along x + v the scores s_j of token i have s_j' = <G v_i, x_j> + <G x_i, v_j> and s_j'' = 2 <G v_i, v_j>. Its mean m
    under the weights P has, with the covariance C and the third joint cumulant T under P,

        m' = sum_j P_j v_j + C(s', x),    m'' = 2 C(s', v) + C(s'', x) + T(s', s', x).

    All are unchanged when the values of the leader are subtracted: so they are small where its weight is near 1.
    """
    from flint import arb

    size = sum((g.abs_upper() for row in heard.form for g in row), arb(0))
    most = arb(0)
    for i, own in enumerate(heard.tokens):
        values = heard.tokens if heard.sums else heard.apart[heard.leaders[i]]
        first, second = (_of_a_sum if heard.sums else _of_a_mean)(heard, i, values, size)
        factor = (
            arb(1) if field.V is None else largest(sum((one.abs_upper() for one in row), arb(0)) for row in field.V)
        )
        first, second = first * factor, second * factor
        if field.kind == SPHERE:
            # F'' = u'' - (<u'', x> + 2 <u', v>) x - 2 (<u', x> + <u, v>) v for F = u - <u, x> x.
            length, reach = sum((one.abs_upper() for one in own), arb(0)), largest(one.abs_upper() for one in own)
            pull = factor * sum((one.abs_upper() for one in heard.means[i]), arb(0)) * len(own)
            second = second + (second * length + 2 * len(own) * first) * reach + 2 * (first * length + pull)
        most = most.max(second.upper())
    return most


def _of_a_mean(heard: Heard, i: int, values: Any, size: Any) -> tuple[Any, Any]:
    """Return bounds of m' and m'' for weights that sum to 1, from values relative to the leader."""
    from flint import arb

    zero, query = arb(0), sum((one.abs_upper() for one in heard.queries[i]), arb(0))
    mass = slopes = reach = sx = ss = ssx = zero
    for j, way in enumerate(values):
        if j == heard.leaders[i]:
            continue
        weight = heard.weights[i][j].abs_upper()
        far = largest(one.abs_upper() for one in way)
        slope = 2 * query + _turned(heard, way)
        mass, slopes, reach = mass + weight, slopes + weight * slope, reach + weight * far
        sx, ss, ssx = sx + weight * slope * far, ss + weight * slope**2, ssx + weight * slope**2 * far
    first = 1 + 2 * mass + sx + slopes * reach
    third = ssx + 2 * slopes * sx + ss * reach + 2 * slopes**2 * reach
    return first, 4 * slopes * (1 + mass) + 4 * size * reach * (1 + mass) + third


def _of_a_sum(heard: Heard, i: int, values: Any, size: Any) -> tuple[Any, Any]:
    """Return bounds of m' and m'' for m = sum_j e^{s_j} x_j / n.

    Here m'' = sum_j e^{s_j} ((s_j'^2 + s_j'') x_j + 2 s_j' v_j) / n.
    """
    from flint import arb

    query, first, second = sum((one.abs_upper() for one in heard.queries[i]), arb(0)), arb(0), arb(0)
    for weight, way in zip(heard.weights[i], values, strict=True):
        far, slope = largest(one.abs_upper() for one in way), query + _turned(heard, way)
        first = first + weight.abs_upper() * (1 + slope * far)
        second = second + weight.abs_upper() * ((slope**2 + 2 * size) * far + 2 * slope)
    return first, second


def _turned(heard: Heard, way: Sequence[Any]) -> Any:
    """Return a bound of <G v, way> for all v with coordinates at most 1."""
    from flint import arb

    columns = zip(*heard.form, strict=True)
    return sum(
        (sum((g * one for g, one in zip(column, way, strict=True)), arb(0)).abs_upper() for column in columns), arb(0)
    )
