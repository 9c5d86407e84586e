"""Numbers with their derivatives: what is computed with them is differentiated on the way."""

from __future__ import annotations

from typing import Any

from attnflow.enclosures.numbers import Numbers, array

# The derivative of what does not depend on a variable. It is known by identity, and never multiplied.
NONE = 0


class Dual:
    """A number and its derivatives in some directions; the number may be a ball or a power series of balls.

    >>> import numpy as np
    >>> x, y = variables(np.array([3.0, 2.0], dtype=object))
    >>> product = x * y + 1
    >>> product.value, product.slope
    (7.0, [2.0, 3.0])
    """

    __slots__ = ("slope", "value")

    def __init__(self, value: Any, slope: list[Any]) -> None:
        self.value, self.slope = value, slope

    def __add__(self, other: Any) -> Dual:
        if not isinstance(other, Dual):
            return Dual(self.value + other, self.slope)
        return Dual(self.value + other.value, _sum(self.slope, other.slope))

    __radd__ = __add__

    def __neg__(self) -> Dual:
        return Dual(-self.value, [-each if each is not NONE else NONE for each in self.slope])

    def __sub__(self, other: Any) -> Dual:
        return self + (-other)

    def __rsub__(self, other: Any) -> Dual:
        return other + (-self)

    def __mul__(self, other: Any) -> Dual:
        if not isinstance(other, Dual):
            return Dual(self.value * other, _scaled(self.slope, other))
        slope = _sum(_scaled(self.slope, other.value), _scaled(other.slope, self.value))
        return Dual(self.value * other.value, slope)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Dual:
        inverse = 1 / (other.value if isinstance(other, Dual) else other)
        value = self.value * inverse
        slope = _sum(self.slope, _scaled(other.slope, -value)) if isinstance(other, Dual) else self.slope
        return Dual(value, _scaled(slope, inverse))

    def exp(self) -> Dual:
        """Return e to this number."""
        value = self.value.exp()
        return Dual(value, _scaled(self.slope, value))


def _sum(a: list[Any], b: list[Any]) -> list[Any]:
    return [q if p is NONE else p if q is NONE else p + q for p, q in zip(a, b, strict=True)]


def _scaled(slope: list[Any], factor: Any) -> list[Any]:
    return [each * factor if each is not NONE else NONE for each in slope]


def variables(values: Numbers) -> Numbers:
    """Return numbers whose derivatives are those of independent variables, in the shape that was given."""
    m = values.size
    # A number to the power 0 is the one of its kind.
    slopes = ([one**0 if j == k else NONE for j in range(m)] for k, one in enumerate(values.ravel()))
    return array((Dual(one, slope) for one, slope in zip(values.ravel(), slopes, strict=True)), values.shape)
