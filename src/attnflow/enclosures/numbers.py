"""Balls of FLINT in arrays: real numbers known up to a radius, with rigorous arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

# An array of Python numbers: balls, or power series of balls.
Numbers: TypeAlias = NDArray[np.object_]


@contextmanager
def arithmetic(bits: int) -> Iterator[None]:
    """Compute with this number of bits inside the block; the length of power series is put back after it."""
    from flint import ctx

    before = ctx.prec, ctx.cap
    ctx.prec = bits
    try:
        yield
    finally:
        ctx.prec, ctx.cap = before


def ball(value: Any) -> Any:
    """Return a ball around a number that is a float, a whole number, a fraction or a ball.

    >>> ball(0.5), ball(Fraction(1, 4))
    (0.500000000000000, 0.250000000000000)
    """
    from flint import arb

    if isinstance(value, Fraction):
        return arb(int(value.numerator)) / arb(int(value.denominator))
    if isinstance(value, arb):
        return value
    return arb(int(value)) if isinstance(value, int | np.integer) else arb(float(value))


def array(numbers: Iterable[Any], shape: int | tuple[int, ...]) -> Numbers:
    """Return numbers, in order, as an array; NumPy itself would take a power series for a row of numbers."""
    found = np.empty(shape, dtype=object)
    for place, one in zip(np.ndindex(found.shape), numbers, strict=True):
        found[place] = one
    return found


def balls(values: Any) -> Numbers:
    """Return an array of balls in the shape of the numbers that are given."""
    given = np.asarray(values, dtype=object)
    return array((ball(one) for one in given.ravel()), given.shape)


def middles(values: Numbers) -> Numbers:
    """Return the middles of balls, as balls without a radius."""
    return array((one.mid() for one in values.ravel()), values.shape)


def largest(bounds: Iterable[Any]) -> Any:
    """Return the largest of some exact numbers that are at least 0, or 0."""
    from flint import arb

    most = arb(0)
    for one in bounds:
        most = most.max(one)
    return most


def largest_radius(values: Numbers) -> float:
    """Return the largest radius of some balls, rounded up to a float."""
    return max((float(one.rad()) for one in values.ravel()), default=0.0)


def digits(bound: float, *, up: bool) -> str:
    """Return a bound in three digits, rounded up or down, so that it is still a bound.

    >>> digits(1.2301e-16, up=True), digits(0.12399, up=False), digits(0.0, up=True)
    ('1.24e-16', '0.123', '0')
    """
    context = Context(prec=3, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    return f"{context.create_decimal(bound):g}".replace("E", "e")


def floats(values: Numbers) -> NDArray[np.float64]:
    """Return the middles of balls as floats."""
    return np.array([float(one.mid()) for one in values.ravel()]).reshape(values.shape)
