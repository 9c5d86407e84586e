"""Taylor polynomials of solutions by Newton's method on power series."""

from __future__ import annotations

from typing import Any

from attnflow.enclosures.fields import Field, Heard, Rows, leaders_of
from attnflow.enclosures.numbers import Numbers


def heard_along(field: Field, polynomials: Rows, shape: tuple[int, int], t: Any, length: int) -> Heard:
    """Return what tokens hear along polynomials in the time after t, as power series of this many terms."""
    from flint import arb_series, ctx

    ctx.cap = length
    n, d = shape
    series = [arb_series(one[:length]) for one in polynomials]
    x = [series[i * d : (i + 1) * d] for i in range(n)]
    form = field.form(arb_series([t, 1]), d)
    first = [[one[0] for one in row] for row in x]
    start = [[value(one) for one in row] for row in form]
    leaders = leaders_of(
        [[sum((g * one for g, one in zip(row, own, strict=True)), first[0][0] * 0) for row in start] for own in first],
        first,
    )
    return Heard.of(field, x, form, leaders)


def value(one: Any) -> Any:
    """Return the first coefficient of a power series, or a number as it is."""
    from flint import arb_series

    return one[0] if isinstance(one, arb_series) else one


def coefficient(one: Any, k: int) -> Any:
    """Return a coefficient of a power series, or of a number that does not depend on the time."""
    from flint import arb_series

    return one[k] if isinstance(one, arb_series) else one if k == 0 else 0


def taylor(field: Field, start: Numbers, t: Any, order: int) -> tuple[list[list[Any]], list[Any]]:
    """Return the Taylor polynomials of the coordinates of a solution, and coefficients of the derivative along it.

    The polynomials have exact coefficients, near those of the solution through the exact tokens `start` (n, d) at time
    t. From a polynomial p that is right up to the power K, Newton's method finds one that is right up to
    2 K + 2: it adds the solution of e' = Df(p) e + f(p) - p', coefficient by coefficient. The matrices are balls of the
    coefficients of Df(p(s)), as many as the last of these steps takes: about half the order.

    >>> from attnflow.enclosures.numbers import balls
    >>> field, x = Field("space", beta=0.0), balls([[1.0], [1.0]])  # both grow like e^t
    >>> [float(one) for one in taylor(field, x, balls(0.0).item(), 4)[0][0]]
    [1.0, 1.0, 0.5, 0.16666666666666666, 0.041666666666666664]
    """
    from flint import arb, arb_mat

    m = start.size
    found = [[one] for one in start.ravel()]
    jacobians: list[Any] = []
    for low, high in _orders(order):
        velocity = field.velocity(heard_along(field, found, start.shape, t, high))
        flat = [one for row in velocity for one in row]
        corrections: dict[int, Any] = {}
        if high > low + 1:
            jacobians = derivative_along(field, found, start.shape, t, high - low - 1)
        for k in range(low, high):
            total = arb_mat(m, 1, [coefficient(one, k) for one in flat])
            for j in range(k - low):
                total = total + jacobians[j] * corrections[k - j]
            corrections[k + 1] = (total * (arb(1) / (k + 1))).mid()
            for row, one in zip(found, corrections[k + 1].entries(), strict=True):
                row.append(one)
    return found, jacobians


def derivative_along(field: Field, polynomials: Rows, shape: tuple[int, int], t: Any, length: int) -> list[Any]:
    """Return the first coefficients of the matrix Df(p(s)), p the polynomials in the time s after t."""
    from flint import arb_mat

    m = shape[0] * shape[1]
    rows = field.derivative(heard_along(field, polynomials, shape, t, length))
    return [arb_mat(m, m, [coefficient(one, k) for row in rows for one in row]) for k in range(length)]


def fundamental(jacobians: list[Any], h: Any) -> list[Any]:
    """Return the terms W_k h^k of the solution of W' = Df(p) W, W = I at the start.

    The coefficients are W_{k+1} = sum_j Df_j W_{k-j} / (k + 1).
    """
    from flint import arb, arb_mat

    m = jacobians[0].nrows()
    terms, power, scaled = [arb_mat(m, m, [int(i == j) for i in range(m) for j in range(m)])], arb(1), []
    for k, jacobian in enumerate(jacobians):
        power = power * h
        scaled.append(jacobian * power)
        total = scaled[0] * terms[k]
        for j in range(1, k + 1):
            total = total + scaled[j] * terms[k - j]
        terms.append(total * (arb(1) / (k + 1)))
    return terms


def _orders(order: int) -> list[tuple[int, int]]:
    """Return from which order to which order each of Newton's steps goes."""
    orders = [order]
    while orders[-1] > 0:
        orders.append(max(0, (orders[-1] - 1) // 2))
    return list(zip(orders[::-1], orders[-2::-1], strict=False))
