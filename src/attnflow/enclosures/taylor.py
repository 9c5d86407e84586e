"""Taylor coefficients of a solution, and of its derivative by the start, in balls."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnflow.enclosures.dual import NONE, variables
from attnflow.enclosures.fields import Field
from attnflow.enclosures.numbers import Numbers, array


def coefficients(field: Field, x: Numbers, t: Any, order: int) -> Numbers:
    """Return the coefficients x_0, ..., x_order of the solutions through the tokens x (n, d) at time t.

    If x and t are balls, the coefficients of all solutions through points of them are in those returned: each is found
    from those before it, x_{k+1} = [f(x, t)]_k / (k + 1), in ball arithmetic.

    >>> from attnflow.enclosures.numbers import balls
    >>> field, x = Field("space", beta=0.0), balls([[1.0], [1.0]])  # both grow like e^t
    >>> [float(one) for one in coefficients(field, x, balls(0.0).item(), 4)[:, 0, 0]]
    [1.0, 1.0, 0.5, 0.16666666666666666, 0.041666666666666664]
    """
    from flint import arb_series, ctx

    leaders = field.leaders(x, t)
    known = [x]
    for k in range(order):
        ctx.cap = k + 1
        velocity = field(_series(known), arb_series([t, 1]), leaders)
        known.append(array((one[k] / (k + 1) for one in velocity.ravel()), x.shape))
    return np.array(known, dtype=object)


def derivative(field: Field, known: Numbers, t: Any, h: Any) -> Any:
    """Return the matrix of the derivative of sum_k x_k h^k by the start, for the coefficients of `coefficients`.

    The derivative W of the solution solves W' = Df(x(t), t) W, W = I at the start; its Taylor coefficients are found
    from those of Df along the solution, W_{k+1} = sum_j Df_j W_{k-j} / (k + 1).
    """
    from flint import arb, arb_mat, arb_series, ctx

    order, n, d = len(known) - 1, *known.shape[1:]
    m = n * d
    ctx.cap = order
    leaders = field.leaders(known[0], t)
    slopes = [one.slope for one in field(variables(_series(known[:order])), arb_series([t, 1]), leaders).ravel()]
    jacobians = [arb_mat([[one[k] if one is not NONE else 0 for one in row] for row in slopes]) for k in range(order)]
    one = arb_mat([[int(i == j) for j in range(m)] for i in range(m)])
    terms, sum_, power = [one], one, arb(1)
    for k in range(order):
        product = jacobians[0] * terms[k]
        for j in range(1, k + 1):
            product = product + jacobians[j] * terms[k - j]
        terms.append(product * (arb(1) / (k + 1)))
        power = power * h
        sum_ = sum_ + terms[-1] * power
    return sum_


def _series(known: Any) -> Numbers:
    """Return for each coordinate the power series with these coefficients."""
    from flint import arb_series

    first = known[0]
    return array((arb_series([each[place] for each in known]) for place in np.ndindex(first.shape)), first.shape)
