"""Bilinear forms <Bx, y>: constant matrices, checked."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from attnflow.core.inputs import Array, InputError, square, varies_in_time

EPS = float(np.finfo(np.float64).eps)
# Entries of a product K^T Q with m rows are known up to m eps sum_k |K_ki| |Q_kj|. Where K^T Q is symmetric in exact
# arithmetic that is about m eps times the largest entry, and 1e-12 is enough for m = 4000 rows.
PRODUCT_ROUNDING = 1e-12


def form(B: ArrayLike | None, d: int) -> Array:
    """Check a constant bilinear form on R^d, the identity if None."""
    if B is None:
        return np.eye(d)
    if varies_in_time(B):
        raise InputError("B is a function of time, but geometry looks at one moment: give its value B(t)")
    matrix = square(B, "B")
    if len(matrix) != d:
        raise InputError(f"B has shape {matrix.shape}, but the points have dimension {d}: give a {d} by {d} matrix")
    return matrix


def asymmetry(B: Array) -> float:
    """Return max |B - B^T| in parts of the largest entry of B.

    >>> asymmetry(np.array([[4.0, 1.0], [0.0, 2.0]]))
    0.25
    """
    return float(np.abs(B - B.T).max() / (np.abs(B).max() or 1.0))


def symmetric(B: Array) -> bool:
    """Say whether a matrix is symmetric up to the rounding of a product such as K^T Q.

    >>> K = np.random.default_rng(0).standard_normal((5, 3))
    >>> B = K.T @ (3 * (K / 3))
    >>> symmetric(B), symmetric(B + 1e-9 * np.triu(np.ones((3, 3)), 1))
    (True, False)
    """
    return asymmetry(B) <= PRODUCT_ROUNDING


def not_symmetric(B: Array) -> str | None:
    """Return in words by how much a matrix is not symmetric, and what to give instead; None if it is symmetric.

    >>> print(not_symmetric(np.array([[1.0, 0.5], [0.0, 1.0]])))
    B is not symmetric: it differs from its transpose by 0.5 of its largest entry, give (B + B.T)/2 if that is rounding
    """
    if symmetric(B):
        return None
    part = f"{asymmetry(B):.1g} of its largest entry"
    return f"B is not symmetric: it differs from its transpose by {part}, give (B + B.T)/2 if that is rounding"


def symmetric_part(B: Array) -> Array:
    """Return (B + B^T) / 2."""
    return (B + B.T) / 2


def positive_definite(B: Array) -> bool:
    """Say whether a matrix is symmetric and positive definite, up to rounding.

    The symmetric part is judged: its least eigenvalue is above rounding and above what the other part can do to it.
    """
    least = np.linalg.eigvalsh(symmetric_part(B)).min()
    return symmetric(B) and bool(least > len(B) * (EPS + asymmetry(B) / 2) * np.abs(B).max())


def positive_semidefinite(B: Array) -> bool:
    """Say whether a matrix is symmetric and positive semidefinite, up to rounding."""
    return symmetric(B) and bool(np.linalg.eigvalsh(symmetric_part(B)).min() >= -PRODUCT_ROUNDING * np.abs(B).max())


def score_rounding(B: Array, x: Array, y: Array) -> Array:
    """Return what differences of computed scores <B x_i, y_j> are known up to: 8 (d + 2) eps | |B| |x_i| | max_j |y_j|.

    >>> score_rounding(np.eye(2), np.array([[3.0, 4.0]]), np.array([[1.0, 0.0]])) == 8 * 4 * 5 * EPS
    array([ True])
    """
    reach = np.linalg.norm(np.abs(x) @ np.abs(B).T, axis=1)
    bound: Array = 8 * (x.shape[1] + 2) * EPS * reach * float(np.linalg.norm(y, axis=1).max())
    return bound


def in_range(B: Array, x: Array) -> None:
    """Refuse scores that leave float64, or whose squares do."""
    largest, size = float(np.abs(B).max()), float(np.abs(x).max())
    if largest == 0 or size == 0:
        return
    exponent = np.log10(largest) + 2 * np.log10(size)
    if abs(exponent) > 280 or abs(np.log10(largest)) > 120:
        raise InputError(
            f"B has entries as large as {largest:.3g} and the points {size:.3g}, where scores leave float64: "
            "divide B by a constant, which changes no argmax"
        )
