"""Tokens that have met move on as one mass, under deterministic motions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attnflow.core.inputs import Array, each_mass
from attnflow.engines.dense import squared_distances
from attnflow.geometry.linkage import Labels, single_linkage
from attnflow.laws import Hearing

# Tokens count as met when their distance is at most this many relative tolerances.
MEETING = 10.0
# For at most MOST_COMPARED bodies, computing all distances is faster than any other way.
MOST_COMPARED = 64


@dataclass(frozen=True)
class Clumps:
    """The tokens of a run as fewer bodies: token i is in body labels[i], and body k has masses[k] (None: all one).

    Tokens at one point stay together for ever, so one body with their mass moves as they do, and has no inside whose
    fast decay would limit the steps.
    """

    labels: Labels
    masses: Array | None

    @classmethod
    def coinciding(cls, x: Array, masses: Array | None) -> Clumps:
        """Tokens that coincide, bit for bit, are one body.

        >>> Clumps.coinciding(np.array([[1.0], [2.0], [1.0]]), None)
        Clumps(labels=array([0, 1, 0]), masses=array([2., 1.]))
        """
        labels = single_linkage(x, 0.0)
        return cls(labels, masses if labels.max() + 1 == len(x) else added(each_mass(masses, len(x)), labels))

    @classmethod
    def at_the_start(cls, x: Array, hearing: Hearing) -> Clumps:
        """Tokens that coincide are one body, unless their law tells them apart by their indices."""
        return cls(np.arange(len(x)), hearing.masses) if hearing.law.positional else cls.coinciding(x, hearing.masses)

    def bodies(self, x: Array) -> Array:
        """Return where the bodies are, given where the tokens are."""
        return x if self.count == len(x) else x[np.unique(self.labels, return_index=True)[1]]

    def tokens(self, bodies: Array) -> Array:
        """Return where the tokens are, given where the bodies are."""
        return bodies if self.count == len(self.labels) else bodies[self.labels]

    @cached_property
    def count(self) -> int:
        """The number of bodies."""
        return int(self.labels.max()) + 1

    def united(self, y: Array, v: Array, reach: float) -> tuple[Clumps, Array] | None:
        """Unite bodies at y with velocities v that are within reach of each other and approaching; None if none are.

        A chain of steps of length at most `reach` is one body at its centre of mass c if sum_k m_k <y_k - c, v_k> < 0.
        To first order all others hear only that centre, and the centre hears the others as its members do: what changes
        is of the order of the square of the reach.
        """
        if _far_apart(y, reach):
            return None
        chains = single_linkage(y, reach)
        if chains.max() + 1 == len(y):
            return None
        m = each_mass(self.masses, len(y))
        inside = y - centres(y, m, chains)[chains]
        growth = added(m * (inside * v).sum(axis=1), chains)
        spread = added(m * (inside * inside).sum(axis=1), chains)
        apart = ((growth >= 0) & (spread > 0))[chains]
        # Bodies that do not approach each other stay as they are.
        keys = np.where(apart, len(y) + np.arange(len(y)), chains)
        together = np.unique(keys, return_index=True, return_inverse=True)
        labels = np.argsort(np.argsort(together[1]))[together[2].ravel()]
        if labels.max() + 1 == len(y):
            return None
        return Clumps(labels[self.labels], added(m, labels)), centres(y, m, labels)


def _far_apart(y: Array, reach: float) -> bool:
    """Return True if, by a cheap test, no two bodies are near each other or a coordinate is not finite."""
    if len(y) > MOST_COMPARED:
        return not np.diff(np.sort(y[:, 0])).min() <= reach
    with np.errstate(over="ignore", invalid="ignore"):
        squares = squared_distances(y, y)
    np.fill_diagonal(squares, np.inf)
    return not squares.min() <= (1 + 1e-9) * reach**2


def added(values: Array, labels: Labels) -> Array:
    """Return the sum of the values in each body."""
    total: Array = np.bincount(labels, weights=values).astype(np.float64)
    return total


def centres(y: Array, m: Array, labels: Labels) -> Array:
    """Return the centre of mass of each body."""
    total = added(m, labels)
    return np.column_stack([added(m * column, labels) for column in y.T]) / total[:, None]
