"""Functions of time written as text, for configuration files and the command line."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

from attnflow.inputs import InputError

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


class Schedule:
    """A function of time t written as an arithmetic expression.

    Numbers, t, pi, e, + - * / ** and the functions exp, log, sqrt, sin, cos, tan, tanh, floor, min, max, abs; nothing
    else is evaluated.

    >>> Schedule("2 / (t + 2)")(2)
    0.5
    """

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError):
            raise InputError(f"{text!r} is not a formula in t: write for example '2 / (t + 2)'") from None
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
                f"{self.text!r} holds {ast.unparse(node)!r}, which is not arithmetic in t: "
                f"use numbers, t, + - * / ** and {', '.join(_FUNCTIONS)}"
            )
        for part in parts:
            self._check(part)

    def __call__(self, t: float) -> float:
        """Return the value at time t."""
        try:
            return float(self._value(self._tree, t))
        except (ArithmeticError, ValueError, TypeError):
            raise InputError(f"{self.text!r} has no real value at t = {t:g}: change the formula or the run") from None

    def _value(self, node: Any, t: float) -> float:
        if isinstance(node, ast.Constant):
            return float(node.value)  # type: ignore[arg-type]
        if isinstance(node, ast.Name):
            return float(t) if node.id == "t" else _CONSTANTS[node.id]
        if isinstance(node, ast.BinOp):
            return _OPERATORS[type(node.op)](self._value(node.left, t), self._value(node.right, t))
        if isinstance(node, ast.UnaryOp):
            return _OPERATORS[type(node.op)](self._value(node.operand, t))
        return _FUNCTIONS[node.func.id](*(self._value(part, t) for part in node.args))

    def __repr__(self) -> str:
        return f"Schedule({self.text!r})"
