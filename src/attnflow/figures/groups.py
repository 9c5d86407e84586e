"""Who ends with whom: the clusters and leaders of a state, as figures colour and count them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnflow import measure
from attnflow.core.inputs import Array, InputError
from attnflow.measure.clusters import CLOSE, Clusters, extent

if TYPE_CHECKING:
    from attnflow.runs.trajectory import Trajectory

# Tokens closer than this part of the cloud's extent are drawn as one dot, whose size tells how many they are.
TOGETHER = 1e-3
# With more clusters than this the tokens have not gathered yet, and are coloured by leader instead.
GATHERED = 24
# Beyond these numbers of tokens leaders are not looked for, and clusters are not counted: both would take too long.
LED = 3000
COUNTED = 2_000_000
# More than COUNTED_ONE_BY_ONE tokens are put into groups first; these are counted only if no token is farther than
# WIDEST tolerances from the centre of its group. A cell of that grouping is FINE tolerances wide.
COUNTED_ONE_BY_ONE, WIDEST, FINE = 20_000, 1, 0.25


@dataclass(frozen=True)
class Groups:
    """Tokens of one state by colour: `labels` (n,), 0 for the largest group.

    `clusters` is their number, None where they were not counted, and `met` (n,) how many tokens are where a token is.
    `leaders` holds one token for each place that leads; it is None where no law says who leads.
    """

    labels: NDArray[np.int64]
    met: NDArray[np.int64]
    clusters: int | None = None
    leaders: NDArray[np.int64] | None = None

    def matched(self, other: Groups) -> Groups:
        """Return these groups, renumbered so that they share as many tokens as can be with those of another state.

        >>> old, new = np.array([0, 0, 0, 1, 1]), np.array([1, 1, 0, 0, 0])
        >>> Groups(new, met=old).matched(Groups(old, met=old)).labels
        array([0, 0, 1, 1, 1])
        """
        from scipy.optimize import linear_sum_assignment

        shared = np.zeros((self.labels.max() + 1, other.labels.max() + 1), dtype=np.int64)
        np.add.at(shared, (self.labels, other.labels), 1)
        new = np.full(len(shared), -1)
        rows, columns = linear_sum_assignment(shared, maximize=True)
        met = shared[rows, columns] > 0
        new[rows[met]] = columns[met]
        free = np.setdiff1d(np.arange(len(new) + shared.shape[1]), new)
        new[new < 0] = free[: (new < 0).sum()]
        return replace(self, labels=new[self.labels])

    def starred(self) -> Groups:
        """Return these groups, a leader counted as two tokens at least: so its dot is seen around its star.

        >>> Groups(np.array([0, 0, 1]), met=np.array([1, 1, 1]), leaders=np.array([2])).starred().met
        array([1, 1, 2])
        """
        met = self.met.copy()
        if self.leaders is not None:
            met[self.leaders] = np.maximum(met[self.leaders], 2)
        return replace(self, met=met)

    @property
    def gathered(self) -> bool:
        """Whether the tokens have gathered in few clusters."""
        return self.clusters is not None and self.clusters <= GATHERED

    def __str__(self) -> str:
        """Say what happened, as "4 clusters, 3 leaders", or "60 tokens, 3 leaders" while they have not gathered."""
        said = []
        if self.clusters is not None and (self.gathered or len(self.labels) <= LED):
            apart = not self.gathered and 2 * self.clusters > len(self.labels)
            said.append(counted(len(self.labels), "token") if apart else counted(self.clusters, "cluster"))
        if self.leaders is not None:
            said.append(counted(len(self.leaders), "leader"))
        return ", ".join(said) or counted(len(self.labels), "token")


def counted(k: int, name: str) -> str:
    """Return a number of things.

    >>> counted(1, "leader"), counted(3, "leader"), counted(1_000_000, "token")
    ('1 leader', '3 leaders', '1,000,000 tokens')
    """
    return f"{k:,} {name}{'' if k == 1 else 's'}"


def together(run: Trajectory, x: Array) -> float:
    """Return the distance below which tokens are drawn as one dot: a thousandth of the extent of the start and of x."""
    return TOGETHER * extent(run.tokens[0], x)


def close(start: Array, x: Array) -> float:
    """Return the distance below which tokens are one cluster: a hundredth of the extent of two clouds taken together.

    >>> close(np.array([[0.0], [1.0]]), np.array([[5.0]]))
    0.05
    """
    return CLOSE * extent(start, x)


def heard(run: Trajectory, x: Array, t: float) -> Array:
    """Return the tokens whose scores the law compares; without the motion, x itself."""
    return x if run.motion is None else run.motion.seen(x, t)


def groups(run: Trajectory, x: Array, t: float) -> Groups:
    """Return the clusters and leaders of a state of a run, the largest first."""
    tol, alike = close(run.tokens[0], x), np.zeros(len(x), dtype=np.int64)
    index = _leaders(run, x, t)
    led = alike if index is None else measure.clusters(x[index], tol).labels
    first = None if index is None else index[np.unique(led, return_index=True)[1]]
    one_by_one = len(x) <= COUNTED_ONE_BY_ONE
    clusters = measure.clusters(x, tol) if one_by_one else _of_many(x, tol) if len(x) <= COUNTED else None
    if clusters is None:
        return Groups(alike, alike + 1, None, first)
    labels = clusters.labels if clusters.count <= GATHERED else led
    # Dots grow with the tokens that cannot be told apart; a chain of near ones is many dots.
    dots = measure.clusters(x, together(run, x)) if one_by_one else clusters
    return Groups(ranked(labels), dots.sizes[dots.labels], clusters.count, first)


def _of_many(x: Array, tol: float) -> Clusters | None:
    """Return the clusters of very many tokens if each is at few places: tokens in one small cell are taken for one.

    Where tokens fill the picture everybody has a near neighbour, and one cluster would say nothing.
    """
    cells = np.floor((x - x.min(axis=0)) / (FINE * tol or 1.0)).astype(np.int64)
    sides = cells.max(axis=0) + 1
    if np.prod(sides.astype(np.float64)) > 2**62:
        return None
    codes = np.ravel_multi_index(tuple(cells.T), tuple(sides))
    _, some, which = np.unique(codes, return_index=True, return_inverse=True)
    if len(some) > COUNTED_ONE_BY_ONE:
        return None
    coarse = measure.clusters(x[some], tol)
    labels = coarse.labels[which]
    sizes = np.bincount(labels)
    centres = np.stack([np.bincount(labels, column) for column in x.T], axis=1) / sizes[:, None]
    wide = np.linalg.norm(x[some] - centres[coarse.labels], axis=1).max() > WIDEST * tol
    return None if wide or len(sizes) > GATHERED else Clusters(labels, sizes, centres)


def _leaders(run: Trajectory, x: Array, t: float) -> NDArray[np.int64] | None:
    """Return whom each token follows, or None where that is not known."""
    if run.law is None or run.law.head_count or len(x) > LED:
        return None
    try:
        return measure.leaders(run.law, heard(run, x, t), t, run.masses).index
    except InputError:
        # A law may refuse: ties="error" does so at a tie.
        return None


def ranked(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Renumber labels by decreasing size, in order of first appearance among equals."""
    rank = np.argsort(np.argsort(-np.bincount(labels), kind="stable"))
    return rank[labels]
