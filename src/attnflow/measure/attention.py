"""Measurements of attention: who leads, who influences whom, how widely tokens listen, the rank of P."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.core import blocks as block_module
from attnflow.core.indices import not_numbers, rows_of, weight_rows
from attnflow.core.inputs import SAMPLE, Array, InputError, number, rectangular, shares
from attnflow.laws import Law, check_law
from attnflow.measure import in_chunks
from attnflow.measure.by_name import number_of
from attnflow.measure.over_time import OverTime, R, State, each_system, heard_states, measured, stacked
from attnflow.runs.ensemble_results import Ensemble
from attnflow.runs.trajectory import Trajectory


@dataclass(frozen=True)
class Leaders:
    """Leaders of a configuration.

    `index` (n,) is the source each token weighs most, the first one if several; `distinct` lists those sources;
    `heard` (n,) is how much each token is listened to, the column mass sum_i w_i P_ij / sum_i w_i. Of tokens in Dask,
    `index` and `heard` are Dask arrays. Of H heads, `index` and `heard` are (H, n), and `distinct` lists the sources
    that lead in some head. `count` is the number of distinct leaders, of each head if there are several, (H,).
    """

    index: NDArray[np.int64]
    distinct: NDArray[np.int64]
    heard: Array

    @property
    def count(self) -> int | NDArray[np.int64]:
        """How many tokens lead."""
        if self.index.ndim == 1:
            return len(self.distinct)
        return np.array([len(np.unique(index)) for index in self.index])


@overload
def leaders(law: Law | None, x: Trajectory | Ensemble) -> OverTime[Leaders]: ...
@overload
def leaders(law: Law, x: ArrayLike, t: float = 0, masses: ArrayLike | None = None) -> Leaders: ...
@each_system
def leaders(
    law: Law | None, x: ArrayLike | Trajectory | Ensemble, t: float = 0, masses: ArrayLike | None = None
) -> Leaders | OverTime[Leaders]:
    """Return who leads: argmax_j P_ij for each token, the distinct leaders, and how much each token is heard.

    Of a run, `index` and `heard` are (T, n), and item k holds the leaders at time k. Of a law with H heads they are
    (H, n) and (T, H, n); of a run of a `Transformer` with L layers the times are the layers 0 to L - 1, each with the
    tokens as its heads hear them. Leaders of tokens in Dask, in up to 3 dimensions, are found under `Hardmax`, from at
    most 2^20 points near their hull.

    >>> import attnflow as af
    >>> leaders(af.Hardmax(), [[2.0], [1.0], [-1.0]]).index
    array([0, 0, 2])
    >>> leaders(af.Heads([af.Hardmax(), af.Softmax(beta=0.0)]), [[2.0], [1.0], [-1.0]]).count
    array([2, 1])

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *The emergence of clusters in self-attention dynamics*
    (arXiv 2305.05465).
    """
    known = _known(law)
    return measured(
        lambda state: _leaders(known, state),
        x,
        t,
        masses,
        attention=True,
        in_chunks=lambda state: _in_chunks(known, state),
    )


def _in_chunks(law: Law, state: State) -> Leaders:
    if state.masses is not None:
        raise InputError(f"masses count in who leads, but the tokens of this run are in Dask: {SAMPLE}")
    return Leaders(*in_chunks.leaders(law, state.x, state.t))


@number_of(leaders, ends=True)
def _number_of_leaders(run: Trajectory) -> float:
    """Return how many tokens lead at the end, in the mean of the heads; those that have merged count each by itself."""
    return float(np.mean(_leaders(_known(run.law), _last(run)).count))


def _leaders(law: Law, state: State) -> Leaders:
    listeners = shares(state.masses, len(state.x))
    index, heard = [], list[Array]()
    for rows, log_p in _rows(law, state):
        index.append(log_p.argmax(axis=-1))
        heard.append(listeners[rows] @ np.exp(log_p))
    found = np.concatenate(index, axis=-1)
    total: Array = np.sum(heard, axis=0)
    return Leaders(found, np.unique(found), total)


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
    return measured(lambda state: _influence(known, state, least), x, t, masses, attention=True)


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

    Of a law with heads it is (heads, n) and (T, heads, n), the times of a run of a `Transformer` being its layers 0 to
    L - 1. It lies between 0 (token i hears one token) and log n (it hears all alike); e^{H_i} is the number of tokens
    it listens to, in effect. What is counted is tokens: tokens that coincide count each by itself, and a token counts
    once whatever its mass.

    >>> import attnflow as af
    >>> entropy(af.Hardmax(), [[1.0, 1.0], [1.0, -1.0], [0.5, 0.0]])
    array([0.        , 0.        , 0.69314718])

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *The emergence of clusters in self-attention dynamics*
    (arXiv 2305.05465), where rows of P tend to unit vectors.
    """
    known = _known(law)
    return stacked(_alike(measured(lambda state: _entropy(known, state), x, t, masses, attention=True)))


@number_of(entropy, ends=True)
def _mean_entropy(run: Trajectory) -> float:
    """Return the mean over the tokens, and the heads, of the entropy of attention at the end."""
    return float(_entropy(_known(run.law), _last(run)).mean())


def _entropy(law: Law, state: State) -> Array:
    return np.concatenate([_row_entropy(log_p) for _, log_p in _rows(law, state)], axis=-1)


def _row_entropy(log_p: Array) -> Array:
    """Return -sum_j p_j log p_j of each row, to full relative accuracy also where one p_j is nearly 1."""
    top = log_p.argmax(axis=-1)[..., None]
    p = np.exp(log_p)
    np.put_along_axis(p, top, 0.0, axis=-1)
    rest = p.sum(axis=-1)
    # Of the largest weight, 1 - rest, the logarithm is lost to rounding when the others are small.
    log_top = np.where(rest < 0.5, np.log1p(-np.minimum(rest, 0.5)), np.take_along_axis(log_p, top, axis=-1)[..., 0])
    total: Array = -(p * np.where(p > 0, log_p, 0.0)).sum(axis=-1) - np.exp(log_top) * log_top
    return total + 0.0


@dataclass(frozen=True)
class Rank:
    """A numerical rank, with the singular values and the tolerance it was read from; of each head if there are more."""

    value: int | NDArray[np.int64]
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
    at time k. Of a run with H heads they are (T, H) and (T, H, n), the times of a `Transformer` being its layers 0 to
    L - 1. Each time costs the singular values of a matrix (n, n), or of H of them. `stable_rank` and `effective_rank`
    need no tolerance.

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
    law = _known(P.law)
    return measured(lambda state: _rank(law.weights(*state), cut), P, attention=True)


@number_of(rank, ends=True)
def _rank_at_the_end(run: Trajectory, tol: float = 1e-8) -> float:
    """Return the rank of the attention matrix of the last state, in the mean of the heads."""
    return float(np.mean(_rank(_known(run.law).weights(*_last(run)), number(tol, "tol", least=0.0)).value))


def _rank(matrices: Array, tol: float) -> Rank:
    values: Array = np.linalg.svd(matrices, compute_uv=False).astype(np.float64)
    with np.errstate(over="ignore"):
        counts = (values > tol * values[..., :1]).sum(axis=-1)
    return Rank(int(counts) if counts.ndim == 0 else counts, values, tol)


def _last(run: Trajectory) -> State:
    """Return the last state of a run that some layer hears, as its law sees it."""
    k = heard_states(run) - 1
    return State(run.to_numpy().seen(k), run.times.item(k), run.masses)


def _known(law: Any) -> Law:
    """Check that there is a law to measure."""
    if law is None:
        raise InputError("the law is None, as after loading a run whose law was not stored: give the law that was run")
    return check_law(law)


def _one_law(law: Any, what: str) -> Law:
    """Check that there is one attention matrix to measure."""
    known = _known(law)
    if known.head_count:
        raise InputError(f"heads have {what} one by one: ask for the {what} of each law of the heads")
    return known


def _alike(found: R) -> R:
    """Refuse a run whose layers have different numbers of heads, of which no array can be made."""
    if isinstance(found, OverTime) and len(counts := {np.shape(one)[:-1] for one in found}) > 1:
        heads = ", ".join(str(math.prod(shape)) for shape in sorted(counts))
        raise InputError(f"the layers of this run have {heads} heads, expected equally many: measure layer by layer")
    return found


def _rows(law: Law, state: State) -> Iterator[tuple[slice, Array]]:
    """Yield log P_ij in blocks of rows, of all heads at once, refusing rows that do not sum to one."""
    x = state.x
    most = block_module.BLOCK // max(1, law.head_count)
    blocks = weight_rows(law, x, state.t, sources=x, masses=state.masses, most=most)
    while True:
        with np.errstate(over="ignore", invalid="ignore"):
            block = next(blocks, None)
            if block is None:
                return
            rows_of(law, block[1], x[block[0]], x)
        if np.isnan(block[1]).any():
            raise not_numbers(law, x)
        yield block
