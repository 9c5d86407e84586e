"""Measurements of a configuration of tokens, whatever the law."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.engines.dense import squared_distances
from attnflow.geometry import single_linkage
from attnflow.inputs import Array, cloud, number
from attnflow.laws.law import row_blocks


@dataclass(frozen=True)
class Clusters:
    """Clusters of a configuration: a label per token, and per cluster its size and its centre."""

    labels: NDArray[np.int64]
    sizes: NDArray[np.int64]
    centres: Array

    @property
    def count(self) -> int:
        """The number of clusters."""
        return len(self.sizes)


def clusters(x: ArrayLike, tol: float) -> Clusters:
    """Return the clusters of a configuration: tokens joined by chains of steps of length at most tol.

    Labels count from 0 in the order of first appearance.

    >>> found = clusters([[0.0], [0.1], [5.0]], tol=0.2)
    >>> found.count, found.sizes
    (2, array([2, 1]))
    """
    tokens = cloud(x)
    labels = single_linkage(tokens, number(tol, "tol", least=0.0))
    sizes = np.bincount(labels)
    centres = np.column_stack([np.bincount(labels, weights=column) for column in tokens.T]) / sizes[:, None]
    return Clusters(labels, sizes, centres)


def diameter(x: ArrayLike) -> float:
    """Return max_ij |x_i - x_j|.

    >>> diameter([[0.0, 0.0], [3.0, 4.0], [1.0, 1.0]])
    5.0
    """
    tokens = cloud(x)
    blocks = row_blocks(len(tokens), len(tokens))
    return float(np.sqrt(max(squared_distances(tokens[rows], tokens).max() for rows in blocks)))
