"""Which tokens follow which, and their motion: X' = (P - I) X while the sparse stochastic matrix P stays the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array

Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]
# What a token follows: its sources and the share of each.
Row = tuple[Indices, Array]

# Where a leader moves, Taylor series serve for this long: (2 SPAN)^k / k! bounds their terms, so DEGREE reaches
# rounding.
SPAN = 0.5
DEGREE = 20


@dataclass(frozen=True)
class LeaderGraph:
    """A row-stochastic matrix P with few entries: row i holds the shares of the sources that token i follows.

    >>> chain = LeaderGraph.of(np.array([0, 0, 1]))
    >>> chain.mean(np.array([[1.0], [2.0], [4.0]])).ravel()
    array([1., 1., 2.])
    >>> chain.dependents(np.array([False, True, False]))
    array([False,  True,  True])
    """

    owners: Indices
    sources: Indices
    shares: Array

    @classmethod
    def of(cls, leaders: Indices) -> LeaderGraph:
        """Return the matrix of tokens that follow one source each."""
        return cls(np.arange(len(leaders)), leaders, np.ones(len(leaders)))

    @cached_property
    def starts(self) -> Indices:
        """Where each row begins."""
        return np.flatnonzero(np.diff(self.owners, prepend=-1))

    @cached_property
    def single(self) -> Flags:
        """Which tokens follow one source only."""
        return np.bincount(self.owners) == 1

    @property
    def leaders(self) -> Indices:
        """The first source of each token; its other sources have the same score."""
        return self.sources[self.starts]

    def mean(self, x: Array) -> Array:
        """Return P x."""
        if len(self.sources) == len(x):
            return x[self.sources]
        return np.add.reduceat(self.shares[:, None] * x[self.sources], self.starts, axis=0)

    def replaced(self, rows: Mapping[int, Row]) -> LeaderGraph:
        """Return the matrix with some rows replaced."""
        kept = ~np.isin(self.owners, list(rows))
        owners = np.concatenate([self.owners[kept], *(np.full(len(s), i) for i, (s, _) in rows.items())])
        sources = np.concatenate([self.sources[kept], *(s for s, _ in rows.values())])
        shares = np.concatenate([self.shares[kept], *(w for _, w in rows.values())])
        order = np.argsort(owners, kind="stable")
        return LeaderGraph(owners[order], sources[order], shares[order])

    def dependents(self, changed: Flags) -> Flags:
        """Return the changed tokens and all tokens that follow one of them, directly or through others."""
        while True:
            reached = changed | np.logical_or.reduceat(changed[self.sources], self.starts)
            if (reached == changed).all():
                return reached
            changed = reached

    def holds(self, i: Indices, j: Indices) -> Flags:
        """Whether i follows j, for many pairs."""
        n = len(self.starts)
        return np.isin(i * n + j, self.owners * n + self.sources)


@dataclass(frozen=True)
class Piece:
    """The motion from (t, x) on while P stays: X(t + tau) = e^{-tau} e^{tau P} x.

    A token whose sources rest moves on a straight line, x + (1 - e^{-tau}) (m - x), for ever. The others are given by
    their Taylor series, up to time t + SPAN.

    >>> piece = Piece(0.0, np.array([[1.0], [2.0], [4.0]]), LeaderGraph.of(np.array([0, 0, 1])))
    >>> piece.straight
    array([ True,  True, False])
    >>> piece.at(0.5).ravel() - [1, 1 + np.exp(-0.5), 1 + 3.5 * np.exp(-0.5)]
    array([0., 0., 0.])
    """

    t: float
    x: Array
    following: LeaderGraph

    @cached_property
    def mean(self) -> Array:
        """What each token moves towards."""
        return self.following.mean(self.x)

    @cached_property
    def resting(self) -> Flags:
        """Which tokens are exactly at the point that they move to, and so are their sources."""
        still = (self.mean == self.x).all(axis=1)
        while True:
            both = still & np.logical_and.reduceat(still[self.following.sources], self.following.starts)
            if (both == still).all():
                return both
            still = both

    @cached_property
    def straight(self) -> Flags:
        """Which tokens follow resting tokens only."""
        return np.logical_and.reduceat(self.resting[self.following.sources], self.following.starts)

    @cached_property
    def series(self) -> Array:
        """Taylor coefficients (n, DEGREE + 1, d) of X in (time - t) / SPAN."""
        terms = [self.x]
        for k in range(DEGREE):
            terms.append(SPAN / (k + 1) * (self.following.mean(terms[-1]) - terms[-1]))
        return np.stack(terms, axis=1)

    @cached_property
    def tails(self) -> Array:
        """Bounds (n, DEGREE + 1) on the terms of order k and more; of order 0, on distances from the barycentre."""
        sizes = np.linalg.norm(self.series, axis=2)
        sizes[:, 0] = np.linalg.norm(self.x - self.x.mean(axis=0), axis=1)
        return np.cumsum(sizes[:, ::-1], axis=1)[:, ::-1]

    def at(self, t: float) -> Array:
        """Return the tokens at a later time."""
        x = self.mean + np.exp(self.t - t) * (self.x - self.mean)
        if not self.straight.all():
            bent = ~self.straight
            x[bent] = np.polynomial.polynomial.polyval((t - self.t) / SPAN, self.series[bent].swapaxes(0, 1))
        return x
