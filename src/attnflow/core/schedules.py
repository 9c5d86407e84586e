"""Functions of time written as text, for configuration files and the command line."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

from numpy.polynomial import polynomial

from attnflow.core.inputs import InputError

_OPERATORS: dict[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_FUNCTIONS: dict[str, Callable[..., float]] = {
    name: getattr(math, name) for name in ("exp", "log", "sqrt", "sin", "cos", "tan", "tanh", "floor")
} | {"min": min, "max": max, "abs": abs}
_CONSTANTS = {"pi": math.pi, "e": math.e}
# `always_between` looks at no more steps than this.
MOST_STEPS = 20_000
# Polynomials in t are multiplied out up to this degree.
MOST_DEGREE = 64


class Geometric(NamedTuple):
    """The sequence first * ratio^t."""

    first: Fraction
    ratio: Fraction


class Schedule:
    """A function of time t written as an arithmetic expression.

    Numbers, t, pi, e, + - * / ** and the functions exp, log, sqrt, sin, cos, tan, tanh, floor, min, max, abs; nothing
    else is evaluated.

    Refusals begin with the `name` of the parameter that the formula is for.

    >>> Schedule("2 / (t + 2)")(2)
    0.5
    """

    def __init__(self, text: str, name: str = "the formula") -> None:
        if not isinstance(text, str):
            raise InputError(f"{name} is {text!r}, expected text such as '2 / (t + 2)'")
        self.text, self._subject = text, f"{name} is {text!r}"
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError):
            raise InputError(f"{self._subject}, which is not a formula in t: write for example '2 / (t + 2)'") from None
        self._check(self._tree)

    def _check(self, node: ast.AST) -> None:
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return
        if isinstance(node, ast.Name) and (node.id == "t" or node.id in _CONSTANTS):
            return
        parts: list[ast.AST]
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            parts = [node.left, node.right]
        elif isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
            parts = [node.operand]
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in _FUNCTIONS
            and not node.keywords
        ):
            parts = list(node.args)
        else:
            raise InputError(
                f"{self._subject}, where {ast.unparse(node)!r} is not arithmetic in t: "
                f"use numbers, t, + - * / ** and {', '.join(_FUNCTIONS)}"
            )
        for part in parts:
            self._check(part)

    def __call__(self, t: float) -> float:
        """Return the value at time t."""
        try:
            return float(self._value(self._tree, float(t)))
        except (ArithmeticError, ValueError, TypeError):
            raise InputError(self._no_value(f"{t:g}")) from None

    def exactly(self, t: Fraction) -> Fraction:
        """Return the value at a rational time; it is rational arithmetic as far as the formula is.

        >>> Schedule("2 / (t + 2)").exactly(Fraction(1))
        Fraction(2, 3)
        """
        try:
            return Fraction(self._value(self._tree, t))
        except (ArithmeticError, ValueError, TypeError):
            raise InputError(self._no_value(str(t))) from None

    def _no_value(self, t: str) -> str:
        return f"{self._subject}, which has no real value at t = {t}: change the formula or the run"

    @property
    def constant(self) -> bool:
        """Whether the formula does not mention t.

        >>> Schedule("1 / 2").constant, Schedule("t").constant
        (True, False)
        """
        return not any(isinstance(node, ast.Name) and node.id == "t" for node in ast.walk(self._tree))

    @property
    def rational(self) -> bool:
        """Whether the formula is a quotient of polynomials, so that `exactly` rounds nothing.

        >>> Schedule("1 / (t + 2)").rational, Schedule("1 / sqrt(t + 2)").rational
        (True, False)
        """
        try:
            _quotient(self._tree)
        except (TypeError, ZeroDivisionError):
            return False
        return True

    @property
    def rational_at_steps(self) -> bool:
        """Whether `exactly` rounds nothing at whole times t.

        >>> Schedule("1 / (t + 2)").rational_at_steps, Schedule("0.5 ** t").rational_at_steps
        (True, True)
        """
        return self.rational or self.geometric() is not None

    def geometric(self) -> Geometric | None:
        """Return first term c and ratio r of a formula for the sequence c r^t, t = 0, 1, 2...; None for any other.

        >>> Schedule("3 / 4 ** t").geometric(), Schedule("1 / (t + 2)").geometric()
        (Geometric(first=Fraction(3, 1), ratio=Fraction(1, 4)), None)
        """
        try:
            return _geometric(self._tree)
        except (TypeError, ZeroDivisionError):
            return None

    def always_between(self, low: Fraction, high: Fraction) -> bool | None:
        """Say whether low < f(t) < high for all t = 0, 1, 2...; None where a quotient of polynomials does not tell.

        Beyond Cauchy's bound of its roots a polynomial has the sign of its leading coefficient.

        >>> Schedule("1 / (t + 2)").always_between(Fraction(0), Fraction(1))
        True
        >>> Schedule("1 / (t + 2) - 1 / 1000").always_between(Fraction(0), Fraction(1))
        False
        """
        if not self.rational:
            return None
        above, below = _quotient(self._tree)
        room = _plus(above, [-low * c for c in below]), _plus([high * c for c in below], [-c for c in above]), below
        bound = max(1 + max((abs(c / p[-1]) for c in p[:-1]), default=Fraction(0)) for p in room if p != [0])
        if bound > MOST_STEPS:
            return None
        times = range(int(bound) + 2)
        return all(polynomial.polyval(t, p) * polynomial.polyval(t, below) > 0 for t in times for p in room[:2])

    def limit(self) -> Fraction | None:
        """Return the limit at infinity of a quotient of polynomials; None where it is infinite or the formula another.

        >>> Schedule("(t + 1) / (2 * t + 5)").limit(), Schedule("2 / (t + 2)").limit(), Schedule("exp(-t)").limit()
        (Fraction(1, 2), Fraction(0, 1), None)
        """
        try:
            above, below = _quotient(self._tree)
        except (TypeError, ZeroDivisionError):
            return None
        if len(above) > len(below):
            return None
        return above[-1] / below[-1] if len(above) == len(below) else Fraction(0)

    def _value(self, node: Any, t: Any) -> Any:
        if isinstance(node, ast.Constant):
            return type(t)(node.value)
        if isinstance(node, ast.Name):
            return t if node.id == "t" else _CONSTANTS[node.id]
        if isinstance(node, ast.BinOp):
            return _OPERATORS[type(node.op)](self._value(node.left, t), self._value(node.right, t))
        if isinstance(node, ast.UnaryOp):
            return _OPERATORS[type(node.op)](self._value(node.operand, t))
        value = _FUNCTIONS[node.func.id](*(self._value(part, t) for part in node.args))
        # The integers of floor would be raised to powers without bound.
        return type(t)(value) if isinstance(value, int) else value

    def __repr__(self) -> str:
        return f"Schedule({self.text!r})"


_Polynomial = list[Fraction]  # coefficients, the constant first and the last not 0; 0 is [0]


def _quotient(node: Any) -> tuple[_Polynomial, _Polynomial]:
    """Return numerator and denominator of a formula that is a quotient of polynomials; others are a TypeError."""
    if isinstance(node, ast.Constant):
        return [Fraction(node.value)], [Fraction(1)]  # type: ignore[arg-type]
    if isinstance(node, ast.Name) and node.id == "t":
        return [Fraction(0), Fraction(1)], [Fraction(1)]
    if isinstance(node, ast.UnaryOp):
        above, below = _quotient(node.operand)
        return ([-c for c in above] if isinstance(node.op, ast.USub) else above), below
    if not isinstance(node, ast.BinOp):
        raise TypeError("not a quotient of polynomials")
    (a, b), (c, d) = _quotient(node.left), _quotient(node.right)
    if isinstance(node.op, ast.Pow):
        return _power((a, b), (c, d))
    if isinstance(node.op, ast.Mult):
        return _times(a, c), _times(b, d)
    if isinstance(node.op, ast.Div):
        if c == [0]:
            raise ZeroDivisionError
        return _times(a, d), _times(b, c)
    sign = -1 if isinstance(node.op, ast.Sub) else 1
    return _plus(_times(a, d), [sign * v for v in _times(b, c)]), _times(b, d)


def _geometric(node: Any) -> Geometric:
    """Return first and ratio of a formula for first ratio^t; others are a TypeError."""
    if isinstance(node, ast.UnaryOp):
        terms = _geometric(node.operand)
        return Geometric(-terms.first, terms.ratio) if isinstance(node.op, ast.USub) else terms
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        one, other = _geometric(node.left), _geometric(node.right)
        if isinstance(node.op, ast.Mult):
            return Geometric(one.first * other.first, one.ratio * other.ratio)
        return Geometric(one.first / other.first, one.ratio / other.ratio)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        base, exponent = _constant(node.left), _polynomial(node.right)
        if base <= 0 or len(exponent) > 2 or any(c.denominator != 1 or abs(c) > MOST_DEGREE for c in exponent):
            raise TypeError("not a whole power of a positive number")
        first, growth = (int(c) for c in (*exponent, Fraction(0))[:2])
        return Geometric(base**first, base**growth)
    return Geometric(_constant(node), Fraction(1))


def _polynomial(node: Any) -> _Polynomial:
    above, below = _quotient(node)
    if len(below) > 1:
        raise TypeError("not a polynomial")
    return [c / below[0] for c in above]


def _constant(node: Any) -> Fraction:
    value = _polynomial(node)
    if len(value) > 1:
        raise TypeError("not a constant")
    return value[0]


def _power(base: tuple[_Polynomial, _Polynomial], by: tuple[_Polynomial, _Polynomial]) -> Any:
    exponent = by[0][0] / by[1][0]
    if len(by[0]) > 1 or len(by[1]) > 1 or exponent.denominator != 1 or not 0 <= exponent <= MOST_DEGREE:
        raise TypeError("not a whole power")
    above, below = [Fraction(1)], [Fraction(1)]
    for _ in range(int(exponent)):
        above, below = _times(above, base[0]), _times(below, base[1])
    return above, below


def _times(p: _Polynomial, q: _Polynomial) -> _Polynomial:
    if len(p) + len(q) > MOST_DEGREE + 2:
        raise TypeError("a polynomial of too high a degree")
    product: _Polynomial = polynomial.polymul(p, q).tolist()
    return product


def _plus(p: _Polynomial, q: _Polynomial) -> _Polynomial:
    total: _Polynomial = polynomial.polyadd(p, q).tolist()
    return total
