"""Matrices Q and K of queries and keys, in place of the one matrix B = K^T Q of their scores."""

from __future__ import annotations

from typing import Any

from attnflow.arrays import foreign, is_real
from attnflow.inputs import (
    InputError,
    Matrix,
    OverLayers,
    called,
    constant,
    constant_matrix,
    known_to_be_finite,
    rectangular,
)


def constant_form(B: Matrix, Q: Matrix, K: Matrix) -> Any:
    """Check the matrix B of the scores <B x_i, x_j>, or return K^T Q for matrices Q and K with scores <Q x_i, K x_j>.

    >>> constant_form(None, [[1.0, 2.0]], [[3.0, 0.0]])
    array([[3., 6.],
           [0., 0.]])
    """
    if Q is None and K is None:
        return constant_matrix(B, "B")
    if B is not None:
        raise InputError("B came with Q or K, which stand for B = K.T @ Q: give B, or Q and K")
    if Q is None or K is None:
        given, lacking = ("Q", "K") if K is None else ("K", "Q")
        raise InputError(f"{given} came without {lacking}: give both, for B = K.T @ Q, or B")
    parts: Any = [constant(part, name, 2, _any_rectangle) for part, name in ((Q, "Q"), (K, "K"))]
    lengths = {len(part) for part in parts if isinstance(part, OverLayers)}
    if len(lengths) > 1:
        raise InputError(f"Q is given for {len(parts[0])} layers and K for {len(parts[1])}: give both for as many")

    def form(t: float) -> Any:
        at = [
            _any_rectangle(called(part, t, name), f"{name}({t:g})") if callable(part) else part
            for part, name in zip(parts, "QK", strict=True)
        ]
        return _form(*at)

    if lengths:
        return OverLayers([form(t) for t in range(lengths.pop())], "B = K.T @ Q")
    return form if any(map(callable, parts)) else _form(*parts)


def _form(Q: Any, K: Any) -> Any:
    if tuple(Q.shape) != tuple(K.shape):
        raise InputError(
            f"Q has shape {tuple(Q.shape)} and K {tuple(K.shape)}, expected the same: k rows of d numbers each"
        )
    return K.T @ Q


def _any_rectangle(matrix: Any, name: str) -> Any:
    """Check a matrix; one of another library stays as it is, so that it can be differentiated."""
    if not (foreign(matrix) and is_real(matrix) and len(matrix.shape) == 2):
        return rectangular(matrix, name)
    return known_to_be_finite(matrix, name)
