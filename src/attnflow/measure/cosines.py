"""Cosines of the angles between tokens: their mean over all pairs, and their histogram."""

from __future__ import annotations

from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from attnflow.core.blocks import row_blocks
from attnflow.core.inputs import Array, InputError, each_mass, whole
from attnflow.measure.by_name import number_of
from attnflow.measure.over_time import OverTime, State, each_system, measured, stacked
from attnflow.runs.ensemble_results import Ensemble
from attnflow.runs.trajectory import Trajectory


@overload
def mean_cosine(x: Trajectory | Ensemble, *, diagonal: bool = False) -> Array: ...
@overload
def mean_cosine(x: ArrayLike, *, diagonal: bool = False, masses: ArrayLike | None = None) -> float: ...
@each_system
def mean_cosine(
    x: ArrayLike | Trajectory | Ensemble, *, diagonal: bool = False, masses: ArrayLike | None = None
) -> float | Array:
    """Return the mean of cos(x_i, x_j) = <x_i, x_j> / (|x_i| |x_j|) over all pairs; of a run at each time, (T,).

    The pairs are those with i != j. With ``diagonal=True`` they are all n^2, as in published histograms, and the n
    cosines of a token with itself, which are 1, raise the mean: say which one is reported. Pairs have the weight
    w_i w_j where tokens have masses. Tokens are taken as they are recorded: those of a `Transformer` are its residual
    stream, before any norm.

    It is found from the sum of the unit vectors, without looking at pairs.

    >>> x = [[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]]
    >>> round(mean_cosine(x), 12), round(mean_cosine(x, diagonal=True), 12)
    (0.333333333333, 0.555555555556)

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *A mathematical perspective on Transformers* (arXiv 2312.10794).
    """
    return stacked(measured(lambda state: _mean_cosine(state, diagonal), x, masses=masses))


@number_of(mean_cosine, ends=True)
def _mean_at_the_end(run: Trajectory, diagonal: bool = False) -> float:
    """Return the mean cosine of the last state."""
    return _mean_cosine(State(run.to_numpy().final, run.times.item(-1), run.masses), diagonal)


def _mean_cosine(state: State, diagonal: bool) -> float:
    units, w = _directions(state, diagonal), each_mass(state.masses, len(state.x))
    w = w / w.sum()
    total = w @ units
    alone = 0.0 if diagonal else float(w @ w)
    return float((total @ total - alone) / (1 - alone))


@dataclass(frozen=True)
class CosineHistogram:
    """Cosines of pairs of tokens, counted.

    `share` (bins,) is the part of all pairs whose cosine lies between two neighbours of `edges` (bins + 1,), from -1 to
    1; `diagonal` says whether the pairs i = j are among them, and `mean` is the mean cosine of the same pairs.
    """

    share: Array
    edges: Array
    diagonal: bool
    mean: float


@overload
def cosine_histogram(
    x: Trajectory | Ensemble, bins: int = 50, *, diagonal: bool = False
) -> OverTime[CosineHistogram]: ...
@overload
def cosine_histogram(
    x: ArrayLike, bins: int = 50, *, diagonal: bool = False, masses: ArrayLike | None = None
) -> CosineHistogram: ...
@each_system
def cosine_histogram(
    x: ArrayLike | Trajectory | Ensemble, bins: int = 50, *, diagonal: bool = False, masses: ArrayLike | None = None
) -> CosineHistogram | OverTime[CosineHistogram]:
    """Return the histogram of cos(x_i, x_j) over all pairs, in equal bins from -1 to 1; of a run `share` is (T, bins).

    The pairs are those with i != j, or all n^2 with ``diagonal=True``, as in the published histograms; their weights
    are those of `mean_cosine`. Pairs are looked at in blocks of rows.

    >>> found = cosine_histogram([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]], bins=4)
    >>> found.share.round(3), found.edges
    (array([0.   , 0.   , 0.667, 0.333]), array([-1. , -0.5,  0. ,  0.5,  1. ]))

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *A mathematical perspective on Transformers* (arXiv 2312.10794),
    histograms of an ALBERT by layer.
    """
    edges = np.linspace(-1.0, 1.0, whole(bins, "bins", least=1, most=1_000_000) + 1)
    return measured(lambda state: _histogram(state, edges, diagonal), x, masses=masses)


def _histogram(state: State, edges: Array, diagonal: bool) -> CosineHistogram:
    units, w = _directions(state, diagonal), each_mass(state.masses, len(state.x))
    n = len(units)
    counts = np.zeros(len(edges) - 1)
    for rows in row_blocks(n, n):
        cosines = np.clip(units[rows] @ units.T, -1.0, 1.0)
        pairs = np.outer(w[rows], w)
        if not diagonal:
            own = np.arange(n)[rows]
            pairs[own - own[0], own] = 0.0
        counts += np.histogram(cosines, edges, weights=pairs)[0]
    return CosineHistogram(counts / counts.sum(), edges, diagonal, _mean_cosine(state, diagonal))


def _directions(state: State, diagonal: bool) -> Array:
    """Return x_i / |x_i|, refusing tokens without a direction, and one token without pairs."""
    x = state.x
    if len(x) < 2 and not diagonal:
        raise InputError("there is one token, which makes no pair: give several, or diagonal=True")
    # The largest entry first: squares of very small or large tokens leave the range of floats.
    largest = np.abs(x).max(axis=1, keepdims=True)
    if not largest.all():
        raise InputError(
            f"token {int((largest[:, 0] == 0).argmax())} is 0 at time {state.t:g} and has no direction: leave it out"
        )
    scaled = x / largest
    units: Array = scaled / np.linalg.norm(scaled, axis=1, keepdims=True)
    return units
