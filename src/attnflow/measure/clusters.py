"""Measurements of a configuration of tokens, whatever the law: clusters, distances to limits."""

from __future__ import annotations

from dataclasses import dataclass
from sys import float_info
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.core.dask_arrays import chunked
from attnflow.core.inputs import Array, InputError, cloud, number
from attnflow.geometry.linkage import single_linkage
from attnflow.measure import in_chunks
from attnflow.measure.by_name import number_of
from attnflow.measure.over_time import OverTime, State, each_system, measured, stacked
from attnflow.motions.solvers.clumps import centres
from attnflow.runs.ensemble_results import Ensemble
from attnflow.runs.trajectory import Trajectory

# Tokens closer than this part of the cloud's extent are one dot in a picture, and one cluster unless told otherwise.
CLOSE = 1e-2


@dataclass(frozen=True)
class Clusters:
    """Clusters of a configuration: a label per token, and per cluster its size and its centre.

    Of tokens in Dask, `labels` is a Dask array.
    """

    labels: NDArray[np.int64]
    sizes: NDArray[np.int64]
    centres: Array

    @property
    def count(self) -> int:
        """The number of clusters."""
        return len(self.sizes)


@overload
def clusters(x: Trajectory | Ensemble, tol: float) -> OverTime[Clusters]: ...
@overload
def clusters(x: ArrayLike, tol: float) -> Clusters: ...
@each_system
def clusters(x: ArrayLike | Trajectory | Ensemble, tol: float) -> Clusters | OverTime[Clusters]:
    """Return the clusters of a configuration: tokens joined by chains of steps |x_i - x_j| <= tol.

    Labels count from 0 in the order of first appearance. Of a run, `labels` is (T, n), `count` is (T,), and item k
    holds the clusters at time k; tokens are compared as they were recorded. Those of tokens in Dask are the same, with
    centres up to rounding; there may be 2^20 cells of diameter tol that hold tokens, of which each worker keeps 300
    bytes.

    >>> found = clusters([[0.0], [0.1], [5.0]], tol=0.2)
    >>> found.count, found.sizes
    (2, array([2, 1]))

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *The emergence of clusters in self-attention dynamics*
    (arXiv 2305.05465).
    """
    reach = number(tol, "tol", least=0.0)

    def found(state: State) -> Clusters:
        labels = single_linkage(state.x, reach)
        return Clusters(labels, np.bincount(labels), centres(state.x, np.ones(len(labels)), labels))

    return measured(found, x, in_chunks=lambda state: Clusters(*in_chunks.clusters(state.x, reach)))


@number_of(clusters, ends=True)
def _number(run: Trajectory, tol: float | None = None) -> int:
    """Return the number of clusters at the end; without `tol` at a hundredth of the extent, as `summary` has it."""
    return clusters(run.final, part_of_extent(run, CLOSE) if tol is None else tol).count


def part_of_extent(run: Trajectory, part: float) -> float:
    """Return this part of the extent of the first and the last state of a run taken together."""
    return min(part * extent(run.tokens[0], run.final), float_info.max)


def extent(start: Array, x: Array) -> float:
    """Return the extent of two clouds taken together: the diagonal of the smallest box that holds both.

    >>> extent(np.array([[0.0], [1.0]]), np.array([[5.0]]))
    5.0
    """
    both = np.concatenate([in_chunks.box(state) if chunked(state) else state for state in (start, x)])
    return float(np.linalg.norm(np.ptp(both, axis=0)))


@each_system
def distance_to_limits(x: ArrayLike | Trajectory | Ensemble, limits: Any) -> Array:
    """Return how far each token is from a finite set of limits y_m, min_m |x_i - y_m|: (n,), or (T, n) for a run.

    `limits` is an array (m, d), or an object that has one as `points`, such as `geometry.stationary_points(...)`.

    >>> distance_to_limits([[0.0, 0.0], [3.0, 5.0]], limits=[[0.0, 1.0], [3.0, 1.0]])
    array([1., 4.])

    References
    ----------
    Alcalde, Geshkovski, Ruiz-Balet, *Attention's forward pass and Frank-Wolfe* (arXiv 2508.09628), where tokens
    converge to vertices and other stationary points of the hull.
    """
    from scipy.spatial import cKDTree

    tree = cKDTree(limit_points(limits, "limits"))

    def distance(state: State) -> Array:
        same_dimension(state.x, tree.data, "limits")
        nearest: Array = tree.query(state.x)[0]
        return nearest

    return stacked(measured(distance, x))


@number_of(distance_to_limits, ends=True)
def _farthest(run: Trajectory, limits: Any) -> float:
    """Return how far from the limits the farthest token is at the end."""
    return float(distance_to_limits(run.final, limits).max())


def limit_points(limits: Any, name: str) -> Array:
    """Return the points (m, d) that an array, or an object with an attribute `points`, holds."""
    return cloud(getattr(limits, "points", limits), name)


def same_dimension(tokens: Array, points: Array, name: str) -> None:
    """Check that tokens and points live in one space."""
    d, given = tokens.shape[-1], points.shape[1]
    if d != given:
        raise InputError(
            f"{name} have dimension {given}, but the tokens have dimension {d}: give points of {d} numbers"
        )
