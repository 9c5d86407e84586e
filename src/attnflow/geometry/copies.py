"""Points that coincide, where most do."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnflow.core.inputs import Array
from attnflow.geometry.linkage import Labels, single_linkage

# Where looking at all points would take too long, SAMPLE of them are looked at.
SAMPLE = 1 << 10


class Copies(NamedTuple):
    """The first index of each distinct point, and for each point the number of the distinct one it is a copy of."""

    first: Labels
    label: Labels

    def added(self, masses: Array | None) -> Array:
        """Return the mass at each distinct point.

        >>> Copies(np.array([0, 1]), np.array([0, 1, 0])).added(None)
        array([2., 1.])
        """
        return np.bincount(self.label, weights=masses).astype(np.float64)


def copies(x: Array, *, at_a_glance: bool = False) -> Copies | None:
    """Say which points coincide, bit for bit; None if more than half of them are distinct.

    In a sample of a thousand points copies are found only if there are at most some hundred places.

    >>> copies(np.array([[1.0, 2.0], [0.0, 0.0], [1.0, 2.0], [1.0, 2.0]]))
    Copies(first=array([0, 1]), label=array([0, 1, 0, 0]))
    >>> copies(np.array([[1.0, 2.0], [0.0, 0.0], [1.0, 3.0]])) is None
    True
    """
    seen = x[:: max(1, len(x) // SAMPLE)] if at_a_glance else x
    # Distinct points almost always have distinct projections; if not, the next comparison finds out. A matrix product
    # would start the threads of BLAS, which then compete with those of the sums.
    projections = np.einsum("ik,k->i", seen, np.cos(np.arange(1.0, x.shape[1] + 1)))
    if 2 * len(np.unique(projections)) > len(seen) or not np.isfinite(x).all():
        return None
    label = single_linkage(x, 0.0)
    first = np.unique(label, return_index=True)[1]
    return Copies(first, label) if 2 * len(first) <= len(x) else None
