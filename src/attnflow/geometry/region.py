"""Convex regions in half-space form, cut out of a polytope."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.core.inputs import Array, InputError, number, points_of
from attnflow.geometry.affine import rounding
from attnflow.geometry.hull import Hull

# At most MOST_PAIRS pairs of corners are looked at for one cut.
MOST_PAIRS = 50_000


@dataclass(frozen=True)
class Region:
    """The bounded region {x in K : <a_k, x> <= b_k for all k}, K a polytope: cells, dominance cones, their erosions.

    `normals` (m, d) are the unit vectors a_k and `offsets` (m,) the numbers b_k, those of the facets of K (`within`)
    among them; where K is flat, its affine hull is given by pairs of opposite half-spaces.

    >>> from attnflow.geometry import cells
    >>> square = [[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]]
    >>> quarter = cells(square).region(0)
    >>> quarter.contains([0.5, 0.2]), quarter.erode(0.25).vertices
    (True, array([[0.75, 0.75],
           [0.25, 0.75],
           [0.25, 0.25],
           [0.75, 0.25]]))
    """

    within: Hull
    normals: Array
    offsets: Array

    @classmethod
    def cut(cls, within: Hull, normals: Array, offsets: Array) -> Region:
        """Cut half-spaces out of a polytope; their normals may have any length, and those of length 0 say 0 <= b."""
        lengths = np.linalg.norm(normals, axis=1)
        blind = lengths <= np.finfo(np.float64).tiny
        units = np.where(blind[:, None], 0.0, normals / np.where(blind, 1.0, lengths)[:, None])
        levels = np.where(blind, offsets, offsets / np.where(blind, 1.0, lengths))
        flat, origin = within.frame.normals, within.frame.origin
        return cls(
            within,
            np.concatenate([within.normals, flat, -flat, units]),
            np.concatenate([within.offsets, flat @ origin, -flat @ origin, levels]),
        )

    def contains(self, points: ArrayLike) -> bool | NDArray[np.bool_]:
        """Say whether a point, or each of several, satisfies all inequalities up to rounding.

        >>> from attnflow.geometry import cells
        >>> cells([[1.0], [-1.0]]).region(1).contains([[-0.5], [0.5], [-1.5]])
        array([ True, False, False])
        """
        rows, one = points_of(points, self.within.vertices.shape[1])
        room = max(self.within.tol, rounding(rows))
        inside = np.all(rows @ self.normals.T <= self.offsets + room, axis=1)
        return bool(inside[0]) if one else inside

    def erode(self, delta: float) -> Region:
        """Return {x : the closed ball of radius delta around x is inside}: b_k becomes b_k - delta |a_k|.

        >>> from attnflow.geometry import cells
        >>> cells([[1.0], [-1.0]]).region(0).erode(0.25).vertices.ravel()
        array([0.75, 0.25])

        References
        ----------
        Alcalde, Geshkovski, Ruiz-Balet, *Attention's forward pass and Frank-Wolfe* (arXiv 2508.09628).
        """
        lengths = np.linalg.norm(self.normals, axis=1)
        return replace(self, offsets=self.offsets - number(delta, "delta", least=0.0) * lengths)

    @cached_property
    def vertices(self) -> Array:
        """The extreme points (m, d), none if the region is empty; counter-clockwise where it is a polygon."""
        corners = clip(self.within, self.normals, self.offsets)
        return Hull(corners, self.within.tol).vertices if len(corners) else corners

    @property
    def empty(self) -> bool:
        """Whether nothing is left.

        >>> from attnflow.geometry import cells
        >>> cells([[1.0], [-1.0]]).dominance(0, eta=3.0).empty
        True
        """
        return len(self.vertices) == 0

    @cached_property
    def hull(self) -> Hull | None:
        """The region as a polytope with its faces, None if it is empty."""
        return None if self.empty else Hull(self.vertices, self.within.tol)


def clip(polytope: Hull, normals: Array, offsets: Array) -> Array:
    """Return the vertices of the polytope that is left after cutting with half-spaces <a_k, x> <= b_k.

    The double description method: vertices are kept with the set of facets they lie on. A cut keeps those on its right
    side and adds one on each edge that crosses it; two vertices span an edge if no third lies on all the facets they
    share. It needs no inner point, so regions that are flat, a point or empty are no exception.

    >>> from attnflow.geometry import hull
    >>> clip(hull([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]]), np.array([[1.0, 0.0]]), np.array([1.0]))
    array([[0., 0.],
           [1., 0.],
           [1., 1.],
           [0., 2.]])

    References
    ----------
    Motzkin, Raiffa, Thompson, Thrall, *The double description method* (1953).
    """
    x, tol = polytope.vertices, polytope.tol
    cutting = (x @ normals.T - offsets > tol).any(axis=0)
    if polytope.dimension == 2:
        for a, b in zip(normals[cutting], offsets[cutting], strict=True):
            x = _clip_polygon(x, a, b, tol)
        return x
    on = np.zeros((len(x), len(polytope.facets)), dtype=bool)
    for f, facet in enumerate(polytope.facets):
        on[list(facet), f] = True
    for a, b in zip(normals[cutting], offsets[cutting], strict=True):
        height = x @ a - b
        height[np.abs(height) <= tol] = 0.0
        ends = np.array(_crossing_edges(on, height, polytope.dimension), dtype=np.int64).reshape(-1, 2)
        p, q = ends.T
        share = (height[p] / (height[p] - height[q]))[:, None]
        kept = height <= 0
        x = np.concatenate([x[kept], x[p] + share * (x[q] - x[p])])
        flags = np.concatenate([height[kept] == 0, np.ones(len(ends), dtype=bool)])
        on = np.column_stack([np.concatenate([on[kept], on[p] & on[q]]), flags])
    return x


def _clip_polygon(ring: Array, a: Array, b: float, tol: float) -> Array:
    """Cut a half-plane out of a polygon whose corners come in order: sides that cross its line gain a corner there."""
    height = ring @ a - b
    height[np.abs(height) <= tol] = 0.0
    after, beyond = np.roll(height, -1), np.roll(ring, -1, axis=0)
    crossing = np.flatnonzero(height * after < 0) if len(ring) > 1 else np.empty(0, dtype=np.int64)
    share = (height[crossing] / (height[crossing] - after[crossing]))[:, None]
    kept = np.flatnonzero(height <= 0)
    corners = np.concatenate([ring[kept], ring[crossing] + share * (beyond[crossing] - ring[crossing])])
    # The new corner of a side comes after the corner where the side begins, since the sort is stable.
    return corners[np.argsort(np.concatenate([kept, crossing]), kind="stable")]


def _crossing_edges(on: NDArray[np.bool_], height: Array, dimension: int) -> list[tuple[int, int]]:
    """Return the edges (p, q) with p above and q below: no third vertex lies on all facets that p and q share."""
    above, below = np.flatnonzero(height > 0), np.flatnonzero(height < 0)
    # An edge lies on at least dimension - 1 facets, which rules out most pairs at once.
    shared = on[above].astype(np.float64) @ on[below].T.astype(np.float64) >= dimension - 1
    pairs = np.column_stack([above[np.nonzero(shared)[0]], below[np.nonzero(shared)[1]]])
    if len(pairs) > MOST_PAIRS:
        raise InputError(
            f"a region in dimension {dimension} has more than {len(height)} corners, too many to list: "
            "ask contains, or look at fewer vertices"
        )
    return [(p, q) for p, q in pairs.tolist() if on[:, on[p] & on[q]].all(axis=1).sum() == 2]
