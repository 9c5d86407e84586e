"""Ranks that are real numbers and need no tolerance: of tokens, or of attention, head by head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from attnflow.core.inputs import Array, InputError, one_of, reals
from attnflow.measure.by_name import number_of
from attnflow.measure.over_time import State, each_system, heard_states, measured, stacked
from attnflow.runs.ensemble_results import Ensemble
from attnflow.runs.trajectory import Trajectory

OF = ("tokens", "attention")


@overload
def stable_rank(x: Trajectory | Ensemble, *, of: str = "tokens", centred: bool = False) -> Array: ...
@overload
def stable_rank(x: ArrayLike, *, of: str = "tokens", centred: bool = False) -> Any: ...
@each_system
def stable_rank(x: ArrayLike | Trajectory | Ensemble, *, of: str = "tokens", centred: bool = False) -> float | Array:
    """Return |X|_F^2 / |X|_2^2, the sum of the squares of the singular values over the largest of them.

    It lies between 1, where X has rank one, and the rank. Of a run it is that of the tokens (n, d) at each time, (T,);
    with ``of="attention"`` that of the matrices P, (T,) or, of laws with heads, (T, heads), the times of a run of a
    `Transformer` being its layers 0 to L - 1. Of an array (..., m, n) it is that of each matrix in it, such as
    ``law.weights(x)``. With ``centred=True`` the mean of the rows is subtracted from them first: what is left is how
    far tokens are from being all alike, where the matrix itself has rank one. A matrix of zeros has rank 0.

    >>> stable_rank(np.eye(3)), stable_rank([[1.0, 2.0], [2.0, 4.0]])
    (3.0, 1.0)

    References
    ----------
    Dong, Cordonnier, Loukas, *Attention is not all you need: pure attention loses rank doubly exponentially with depth*
    (arXiv 2103.03404), on the convergence of tokens to rank one. Rudelson, Vershynin, *Sampling from large matrices: an
    approach through geometric functional analysis* (2007), for the stable rank.
    """
    return _over_time(_stable, x, of, centred)


@number_of(stable_rank, ends=True)
def _stable_at_the_end(run: Trajectory, of: str = "tokens", centred: bool = False) -> float:
    """Return the stable rank of the last state, or of its attention, in the mean of the heads."""
    return _at_the_end(_stable, run, of, centred)


@overload
def effective_rank(x: Trajectory | Ensemble, *, of: str = "tokens", centred: bool = False) -> Array: ...
@overload
def effective_rank(x: ArrayLike, *, of: str = "tokens", centred: bool = False) -> Any: ...
@each_system
def effective_rank(x: ArrayLike | Trajectory | Ensemble, *, of: str = "tokens", centred: bool = False) -> float | Array:
    """Return e^H with H = -sum_k p_k log p_k, p_k the singular values of X divided by their sum.

    It lies between 1, where X has rank one, and the rank, which it is where all singular values are alike; small
    singular values count for more than in the stable rank. What may be given, and what comes back, is as for
    `stable_rank`.

    >>> round(effective_rank(np.diag([1.0, 1.0, 0.0])), 12)
    2.0

    References
    ----------
    Roy, Vetterli, *The effective rank: a measure of effective dimensionality* (EUSIPCO 2007).
    """
    return _over_time(_effective, x, of, centred)


@number_of(effective_rank, ends=True)
def _effective_at_the_end(run: Trajectory, of: str = "tokens", centred: bool = False) -> float:
    """Return the effective rank of the last state, or of its attention, in the mean of the heads."""
    return _at_the_end(_effective, run, of, centred)


def _stable(values: Array) -> Array:
    """Return the stable rank from singular values (..., k), the largest first."""
    top = values[..., :1]
    ranks: Array = np.square(values / np.where(top > 0, top, 1.0)).sum(axis=-1)
    return ranks


def _effective(values: Array) -> Array:
    """Return the effective rank from singular values (..., k)."""
    top = values[..., :1]
    scaled = values / np.where(top > 0, top, 1.0)
    p = scaled / np.maximum(scaled.sum(axis=-1, keepdims=True), 1.0)
    entropy = -(p * np.log(np.where(p > 0, p, 1.0))).sum(axis=-1)
    ranks: Array = np.where(top[..., 0] > 0, np.exp(entropy), 0.0)
    return ranks


def _over_time(
    rank: Callable[[Array], Array], x: ArrayLike | Trajectory | Ensemble, of: str, centred: bool
) -> float | Array:
    one_of(of, OF, "of")
    if not isinstance(x, Trajectory):
        if of != "tokens":
            raise InputError(f"of={of!r} came with an array, expected a run: give the matrices, as law.weights(x)")
        return _float(rank(_singular_values(_matrices(x), centred)))
    attention = of == "attention"
    return stacked(
        measured(lambda state: rank(_singular_values(_matrix(x, state, attention), centred)), x, attention=attention)
    )


def _at_the_end(rank: Callable[[Array], Array], run: Trajectory, of: str, centred: bool) -> float:
    attention = one_of(of, OF, "of") == "attention"
    k, whole = heard_states(run) - 1 if attention else len(run) - 1, run.to_numpy()
    state = State(whole.seen(k) if attention else whole.tokens[k], run.times.item(k), run.masses)
    return float(rank(_singular_values(_matrix(run, state, attention), centred)).mean())


def _matrix(run: Trajectory, state: State, attention: bool) -> Array:
    """Return the tokens of a state, or the weights of the law of the run, of one layer alone."""
    if not attention:
        return state.x
    if run.law is None:
        raise InputError("this run was loaded without its law, so that its attention is not known: load it with one")
    return run.law.weights(*state)


def _matrices(x: Any) -> Array:
    found = reals(x, "the matrix is", "rows of equally many numbers")
    if found.ndim < 2 or found.size == 0 or not np.isfinite(found).all():
        raise InputError(f"the matrix has shape {found.shape}, expected finite numbers (m, n), or a stack (..., m, n)")
    return found


def _singular_values(matrices: Array, centred: bool) -> Array:
    if centred:
        matrices = matrices - matrices.mean(axis=-2, keepdims=True)
    values: Array = np.linalg.svd(matrices, compute_uv=False).astype(np.float64)
    return values


def _float(found: Array) -> float | Array:
    return float(found) if found.ndim == 0 else found
