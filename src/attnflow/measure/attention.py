"""Measurements of attention: who leads, who influences whom, how widely tokens listen, the rank of P."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.core.indices import not_numbers, rows_of, weight_rows
from attnflow.core.inputs import SAMPLE, Array, InputError, number, rectangular, shares
from attnflow.laws import Law, check_law
from attnflow.measure import in_chunks
from attnflow.measure.by_name import number_of
from attnflow.measure.over_time import OverTime, State, each_system, measured, stacked
from attnflow.runs.ensemble_results import Ensemble
from attnflow.runs.trajectory import Trajectory


@dataclass(frozen=True)
class Leaders:
    """Leaders of a configuration.

    `index` (n,) is the source each token weighs most, the first one if several; `distinct` lists those sources;
    `heard` (n,) is how much each token is listened to, the column mass sum_i w_i P_ij / sum_i w_i. Of tokens in Dask,
    `index` and `heard` are Dask arrays.
    """

    index: NDArray[np.int64]
    distinct: NDArray[np.int64]
    heard: Array


@overload
def leaders(law: Law | None, x: Trajectory | Ensemble) -> OverTime[Leaders]: ...
@overload
def leaders(law: Law, x: ArrayLike, t: float = 0, masses: ArrayLike | None = None) -> Leaders: ...
@each_system
def leaders(
    law: Law | None, x: ArrayLike | Trajectory | Ensemble, t: float = 0, masses: ArrayLike | None = None
) -> Leaders | OverTime[Leaders]:
    """Return who leads: argmax_j P_ij for each token, the distinct leaders, and how much each token is heard.

    Of a run, `index` and `heard` are (T, n), and item k holds the leaders at time k. Those of tokens in Dask, in up to
    3 dimensions, are found under `Hardmax`, from at most 2^20 points near their hull.

    >>> import attnflow as af
    >>> leaders(af.Hardmax(), [[2.0], [1.0], [-1.0]]).index
    array([0, 0, 2])

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *The emergence of clusters in self-attention dynamics*
    (arXiv 2305.05465).
    """
    known = _one_law(law, "leaders")
    return measured(
        lambda state: _leaders(known, state), x, t, masses, seen=True, in_chunks=lambda state: _in_chunks(known, state)
    )


def _in_chunks(law: Law, state: State) -> Leaders:
    if state.masses is not None:
        raise InputError(f"masses count in who leads, but the tokens of this run are in Dask: {SAMPLE}")
    return Leaders(*in_chunks.leaders(law, state.x, state.t))


@number_of(leaders, ends=True)
def _number_of_leaders(run: Trajectory) -> int:
    """Return how many tokens lead at the end; those that have merged count each by itself."""
    return len(_leaders(_one_law(run.law, "leaders"), _last(run)).distinct)


def _leaders(law: Law, state: State) -> Leaders:
    listeners = shares(state.masses, len(state.x))
    index, heard = [], np.zeros(len(state.x))
    for rows, log_p in _rows(law, state):
        index.append(log_p.argmax(axis=1))
        heard += listeners[rows] @ np.exp(log_p)
    found = np.concatenate(index)
    return Leaders(found, np.unique(found), heard)


@overload
def influence(law: Law | None, x: Trajectory | Ensemble, *, threshold: float = 1e-4) -> OverTime[NDArray[np.int64]]: ...
@overload
def influence(
    law: Law, x: ArrayLike, t: float = 0, threshold: float = 1e-4, masses: ArrayLike | None = None
) -> NDArray[np.int64]: ...
@each_system
def influence(
    law: Law | None,
    x: ArrayLike | Trajectory | Ensemble,
    t: float = 0,
    threshold: float = 1e-4,
    masses: ArrayLike | None = None,
) -> NDArray[np.int64] | OverTime[NDArray[np.int64]]:
    """Return the influence graph: the pairs (i, j), i != j, with P_ij > threshold, as rows of an array (m, 2).

    Token i listens to token j. Edges come in the order of i, then j: ``x[edges]`` (m, 2, d) are the segments to draw.
    Of a run, item k holds the edges at time k, whose number varies.

    >>> import attnflow as af
    >>> influence(af.Hardmax(), [[2.0], [1.0], [-1.0]])
    array([[1, 0]])

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *The emergence of clusters in self-attention dynamics*
    (arXiv 2305.05465), whose figures join leaders and followers where P_ij > 1e-4.
    """
    known, least = _one_law(law, "influence graphs"), number(threshold, "threshold", least=0.0, most=1.0)
    return measured(lambda state: _influence(known, state, least), x, t, masses, seen=True)


@number_of(influence, ends=True)
def _number_of_edges(run: Trajectory, threshold: float = 1e-4) -> int:
    """Return how many edges the influence graph of the last state has."""
    state = _last(run)
    return len(influence(_one_law(run.law, "influence graphs"), state.x, state.t, threshold, state.masses))


def _influence(law: Law, state: State, threshold: float) -> NDArray[np.int64]:
    found = []
    for rows, log_p in _rows(law, state):
        edges = np.argwhere(np.exp(log_p) > threshold)
        edges[:, 0] += rows.start
        found.append(edges[edges[:, 0] != edges[:, 1]])
    return np.concatenate(found)


@each_system
def entropy(
    law: Law | None, x: ArrayLike | Trajectory | Ensemble, t: float = 0, masses: ArrayLike | None = None
) -> Array:
    """Return the entropy of attention of each token, H_i = -sum_j P_ij log P_ij: (n,), or (T, n) for a run.

    It lies between 0 (token i hears one token) and log n (it hears all alike); e^{H_i} is the number of tokens it
    listens to, in effect. What is counted is tokens: tokens that coincide count each by itself, and a token counts
    once whatever its mass.

    >>> import attnflow as af
    >>> entropy(af.Hardmax(), [[1.0, 1.0], [1.0, -1.0], [0.5, 0.0]])
    array([0.        , 0.        , 0.69314718])

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *The emergence of clusters in self-attention dynamics*
    (arXiv 2305.05465), where rows of P tend to unit vectors.
    """
    known = _one_law(law, "entropies")
    return stacked(measured(lambda state: _entropy(known, state), x, t, masses, seen=True))


@number_of(entropy, ends=True)
def _mean_entropy(run: Trajectory) -> float:
    """Return the mean over the tokens of the entropy of attention at the end."""
    return float(_entropy(_one_law(run.law, "entropies"), _last(run)).mean())


def _entropy(law: Law, state: State) -> Array:
    return np.concatenate([_row_entropy(log_p) for _, log_p in _rows(law, state)])


def _row_entropy(log_p: Array) -> Array:
    """Return -sum_j p_j log p_j of each row, to full relative accuracy also where one p_j is nearly 1."""
    each, top = np.arange(len(log_p)), log_p.argmax(axis=1)
    p = np.exp(log_p)
    p[each, top] = 0.0
    rest = p.sum(axis=1)
    # Of the largest weight, 1 - rest, the logarithm is lost to rounding when the others are small.
    log_top = np.where(rest < 0.5, np.log1p(-np.minimum(rest, 0.5)), log_p[each, top])
    total: Array = -(p * np.where(p > 0, log_p, 0.0)).sum(axis=1) - np.exp(log_top) * log_top
    return total + 0.0


@dataclass(frozen=True)
class Rank:
    """A numerical rank, with the singular values and the tolerance it was read from."""

    value: int
    singular_values: Array
    tol: float


@overload
def rank(P: Trajectory | Ensemble, tol: float = 1e-8) -> OverTime[Rank]: ...
@overload
def rank(P: ArrayLike, tol: float = 1e-8) -> Rank: ...
@each_system
def rank(P: ArrayLike | Trajectory | Ensemble, tol: float = 1e-8) -> Rank | OverTime[Rank]:
    """Return the number of singular values of P above tol times the largest.

    Of a run, the rank of its attention matrix: `value` is (T,), `singular_values` is (T, n), and item k holds the rank
    at time k. Each time costs the singular values of a matrix (n, n).

    >>> rank([[0.5, 0.5], [0.5, 0.5]]).value
    1

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *The emergence of clusters in self-attention dynamics*
    (arXiv 2305.05465), on the limiting low-rank attention matrix.
    """
    cut = number(tol, "tol", least=0.0)
    if not isinstance(P, Trajectory):
        return _rank(rectangular(P, "P"), cut)
    law = _one_law(P.law, "ranks")
    return measured(lambda state: _rank(law.weights(*state), cut), P, seen=True)


@number_of(rank, ends=True)
def _rank_at_the_end(run: Trajectory, tol: float = 1e-8) -> int:
    """Return the rank of the attention matrix of the last state."""
    return rank(_one_law(run.law, "ranks").weights(*_last(run)), tol).value


def _rank(matrix: Array, tol: float) -> Rank:
    values: Array = np.linalg.svd(matrix, compute_uv=False).astype(np.float64)
    return Rank(int((values > tol * float(values[0])).sum()), values, tol)


def _last(run: Trajectory) -> State:
    """Return the last state of a run as its law sees it."""
    return State(run.to_numpy().seen(), run.times.item(-1), run.masses)


def _one_law(law: Any, what: str) -> Law:
    """Check that there is one attention matrix to measure."""
    if law is None:
        raise InputError("the law is None, as after loading a run whose law was not stored: give the law that was run")
    known = check_law(law)
    if known.heads:
        raise InputError(f"heads have {what} one by one: ask for the {what} of each law of the heads")
    return known


def _rows(law: Law, state: State) -> Iterator[tuple[slice, Array]]:
    """Yield log P_ij in blocks of rows, refusing rows that do not sum to one."""
    x = state.x
    blocks = weight_rows(law, x, state.t, sources=x, masses=state.masses)
    while True:
        with np.errstate(over="ignore", invalid="ignore"):
            block = next(blocks, None)
            if block is None:
                return
            rows_of(law, block[1], x[block[0]], x)
        if np.isnan(block[1]).any():
            raise not_numbers(law, x)
        yield block
