"""Matrices Q and K of queries and keys, in place of the one matrix B = K^T Q of their scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from attnflow.core import inputs
from attnflow.core.arrays import foreign, holds, is_real, namespace
from attnflow.core.inputs import Array, InputError, Matrix

# A bias b is taken for K^T b_Q if it is up to this part of its size: also in single precision.
CLOSE = 1e-5


class QueryKey(NamedTuple):
    """Q and K, each a matrix, a sequence over layers, or a function of time."""

    Q: Any
    K: Any


def set_form(law: Any, Q: Matrix, K: Matrix) -> None:
    """Check the matrix B of a law and put it in its place; from Q and K, if they were given, which are remembered."""
    form, query_key = constant_form(law.B, Q, K)
    object.__setattr__(law, "B", form)
    object.__setattr__(law, "query_key", query_key)


def form_at(law: Any, t: float, d: int, like: Any = None) -> Array | None:
    """Value at time t of the matrix B of a law, for tokens (like these) in dimension d; None for the identity."""
    if law.query_key is None:
        return inputs.matrix_at(law.B, t, d, "B", like)
    form = inputs.matrix_at(law.B, t, None, "B = K.T @ Q", like)
    assert form is not None
    if form.shape[0] != d:
        Q, K = (tuple(np.shape(part(t) if inputs.varies_in_time(part) else part)) for part in law.query_key)
        raise InputError(f"Q has shape {Q} and K {K}, but the tokens have dimension {d}: give both {d} columns")
    return form


def forms_at(law: Any, times: range, d: int) -> Array:
    """Values at several times, stacked: one matrix per time, one for all if it is constant, none for the identity."""
    values = [form_at(law, t, d) for t in (times if inputs.varies_in_time(law.B) else times[:1])]
    return np.array([value for value in values if value is not None]).reshape(-1, d, d)


def queries_and_keys(
    law: Any, t: float, x: Array, sources: Array, times: Callable[[Array, Array], Array]
) -> tuple[Array, Array]:
    """Return the queries and keys of the scores <B x_i + b, x_j> of a law: B x_i + b and x_j.

    Where Q and K were given these are Q x_i + b_Q and K x_j, with K^T b_Q = b: what positions turn in a transformer.
    `times(x, A)` is x A^T.
    """
    d = x.shape[-1]
    form, b = form_at(law, t, d, like=x), inputs.vector_at(law.b, t, d, "b", like=x)
    if law.query_key is None:
        queries = x if form is None else times(x, form)
        return queries if b is None else queries + b, sources
    Q, K = (inputs.follow(_at(part, t, name), x, name) for part, name in zip(law.query_key, "QK", strict=True))
    queries, keys = times(x, Q), times(sources, K)
    return queries if b is None else queries + _bias_of_queries(K, b), keys


def _bias_of_queries(K: Any, b: Any) -> Any:
    """Return b_Q with K^T b_Q = b."""
    found = namespace(b).linalg.pinv(K.T) @ b
    if not holds(abs(K.T @ found - b) <= CLOSE * abs(b).max()):
        raise InputError(
            "b is not K.T @ b_Q for any bias b_Q of the queries, which is needed where Q and K are given: give such a "
            "b, or B = K.T @ Q in place of Q and K"
        )
    return found


def constant_form(B: Matrix, Q: Matrix, K: Matrix) -> tuple[Any, QueryKey | None]:
    """Check the matrix B of the scores <B x_i, x_j>, or return K^T Q for matrices Q and K with scores <Q x_i, K x_j>.

    Q and K come with it, checked, if they were given.

    >>> constant_form(None, [[1.0, 2.0]], [[3.0, 0.0]])[0]
    array([[3., 6.],
           [0., 0.]])
    """
    if Q is None and K is None:
        return inputs.constant_matrix(B, "B"), None
    if B is not None:
        raise InputError("B came with Q or K, which stand for B = K.T @ Q: give B, or Q and K")
    if Q is None or K is None:
        given, lacking = ("Q", "K") if K is None else ("K", "Q")
        raise InputError(f"{given} came without {lacking}: give both, for B = K.T @ Q, or B")
    parts: Any = [inputs.constant(part, name, 2, _any_rectangle) for part, name in ((Q, "Q"), (K, "K"))]
    lengths = {len(part) for part in parts if isinstance(part, inputs.OverLayers)}
    if len(lengths) > 1:
        raise InputError(
            f"Q has {len(parts[0])} entries, one for each layer, and K {len(parts[1])}: give both the same number"
        )

    def form(t: float) -> Any:
        return _form(*(_at(part, t, name) for part, name in zip(parts, "QK", strict=True)))

    if lengths:
        return inputs.OverLayers([form(t) for t in range(lengths.pop())], "B = K.T @ Q"), QueryKey(*parts)
    return (form if any(map(inputs.varies_in_time, parts)) else _form(*parts)), QueryKey(*parts)


def _form(Q: Any, K: Any) -> Any:
    if tuple(Q.shape) != tuple(K.shape):
        raise InputError(
            f"Q has shape {tuple(Q.shape)} and K {tuple(K.shape)}, expected the same: k rows of d numbers each"
        )
    return K.T @ Q


def _at(part: Any, t: float, name: str) -> Any:
    """Return the value of Q or K at time t."""
    if not inputs.varies_in_time(part):
        return part
    return _any_rectangle(inputs.called(part, t, name), f"{name}({t:g})")


def _any_rectangle(matrix: Any, name: str) -> Any:
    """Check a matrix; one of another library stays as it is, so that it can be differentiated."""
    if not (foreign(matrix) and is_real(matrix) and len(matrix.shape) == 2):
        return inputs.rectangular(matrix, name)
    return inputs.known_to_be_finite(matrix, name)
