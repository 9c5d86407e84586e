"""Bilinear forms <Bx, y>: constant matrices, checked."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from attnflow.inputs import Array, InputError, square

EPS = float(np.finfo(np.float64).eps)


def form(B: ArrayLike | None, d: int) -> Array:
    """Check a constant bilinear form on R^d, the identity if None."""
    if B is None:
        return np.eye(d)
    if callable(B):
        raise InputError("B is a function of time, but geometry looks at one moment: give its value B(t)")
    matrix = square(B, "B")
    if len(matrix) != d:
        raise InputError(f"B has shape {matrix.shape}, but the points have dimension {d}: give a {d} by {d} matrix")
    return matrix


def symmetric(B: Array) -> bool:
    """Say whether a matrix is symmetric up to rounding of its entries."""
    return bool(np.abs(B - B.T).max() <= 1e-12 * np.abs(B).max())


def positive_definite(B: Array) -> bool:
    """Say whether a matrix is symmetric and positive definite, up to rounding."""
    return symmetric(B) and bool(np.linalg.eigvalsh((B + B.T) / 2).min() > len(B) * EPS * np.abs(B).max())
