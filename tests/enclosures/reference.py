"""Flows to fifty digits by another method: extrapolated midpoint steps in decimal arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, localcontext

import numpy as np
from numpy.typing import NDArray

Decimals = NDArray[np.object_]
DIGITS = 64
# Extrapolation of midpoint rules with 2, 4, ..., 2 COLUMNS steps has the order 2 COLUMNS.
COLUMNS = 18
# The last order but one is right to this: the last one then has some fifty digits.
ENOUGH = Decimal("1e-44")


def decimals(values: NDArray[np.float64]) -> Decimals:
    return np.vectorize(lambda v: Decimal(float(v)), otypes=[object])(values)


def velocity(
    kind: str, beta: float, B: NDArray[np.float64], V: NDArray[np.float64], sums: bool
) -> Callable[..., Decimals]:
    """Return the field of tokens as the papers write it, without any care for large scores."""
    form, values, factor = decimals(B), decimals(V), Decimal(beta)

    def field(x: Decimals, t: Decimal) -> Decimals:
        # In the rescaled frame V is a multiple c of the identity here, and e^{tV} is e^{ct}.
        growth = (values[0, 0] * t).exp() if kind == "rescaled" else Decimal(1)
        scores = (x @ form.T) @ x.T * factor * growth * growth
        weights = np.vectorize(lambda s: s.exp(), otypes=[object])(scores)
        rows = np.array([[len(x)]] * len(x), dtype=object) if sums else weights.sum(axis=1, keepdims=True)
        mean = (weights @ x) / np.vectorize(Decimal, otypes=[object])(rows)
        pull = (mean - x if kind == "rescaled" else mean) @ values.T
        return pull - (pull * x).sum(axis=1, keepdims=True) * x if kind == "sphere" else pull

    return field


def solved(field: Callable[..., Decimals], x: Decimals, until: float) -> Decimals:
    """Return the tokens at the end, to about fifty digits."""
    steps, error = 2, Decimal(1)
    while error > ENOUGH:
        end, error = _in_steps(field, x, until, steps)
        steps *= 2
    return end


def _in_steps(field: Callable[..., Decimals], x: Decimals, until: float, steps: int) -> tuple[Decimals, Decimal]:
    """Return the tokens at the end, and how far the last two orders differ, which is more than the error."""
    with localcontext() as context:
        context.prec = DIGITS
        t, whole, worst = Decimal(0), Decimal(until) / steps, Decimal(0)
        for _ in range(steps):
            columns: list[Decimals] = []
            for j in range(1, COLUMNS + 1):
                h = whole / (2 * j)
                before, now = x, x + h * field(x, t)
                for k in range(1, 2 * j):
                    before, now = now, before + 2 * h * field(now, t + k * h)
                # Gragg's last step makes the error even in h.
                columns.append((before + now + h * field(now, t + whole)) / 2)
                for k in range(j - 1, 0, -1):
                    ratio = (Decimal(j) / Decimal(k)) ** 2 - 1
                    columns[k - 1], former = columns[k] + (columns[k] - columns[k - 1]) / ratio, columns[0]
            worst = max(worst, max(abs(v) for v in (columns[0] - former).ravel()))
            x, t = columns[0], t + whole
        return x, worst
