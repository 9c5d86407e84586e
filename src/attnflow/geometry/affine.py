"""The affine hull of a cloud, and what is rounding in it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnflow.core.inputs import Array


def rounding(x: Array) -> float:
    """Return the distance below which positions of points this large are rounding: 32 eps max |x|.

    >>> rounding(np.array([[1.0, 0.0]])) == 2.0**-47
    True
    """
    return 32 * float(np.finfo(np.float64).eps) * float(np.sqrt((x * x).sum(axis=1).max())) if x.any() else 0.0


class Frame(NamedTuple):
    """Coordinates y = (x - origin) axes^T / widths of the affine hull of a cloud, in which |y_k| <= 1.

    `axes` (r, d) is an orthonormal basis of its directions and `normals` (d - r, d) one of their complement.
    """

    origin: Array
    axes: Array
    widths: Array
    normals: Array

    @classmethod
    def of(cls, x: Array, tol: float) -> Frame:
        """Find the affine hull: from one point to the farthest, to the farthest from their line, and so on.

        It ends when all points are within tol. Unlike a singular value decomposition, each step errs by rounding only,
        however many points there are.
        """
        d = x.shape[1]
        rest, axes = x - x[0], np.empty((0, d))
        while len(axes) < d:
            lengths = np.sqrt((rest * rest).sum(axis=1))
            far = int(lengths.argmax())
            if lengths[far] <= tol:
                break
            axis = rest[far] / lengths[far]
            axis -= (axes @ axis) @ axes
            axes = np.vstack([axes, axis / np.linalg.norm(axis)])
            rest = rest - np.outer(rest @ axes[-1], axes[-1])
        if len(axes) == d == 2 and np.linalg.det(axes) < 0:
            axes[1] = -axes[1]  # counter-clockwise then means the same in both coordinates
        complement = np.linalg.qr(axes.T, mode="complete")[0].T[len(axes) :]
        return cls(x[0], axes, np.abs((x - x[0]) @ axes.T).max(axis=0), complement)

    def coordinates(self, x: Array) -> Array:
        """Return the coordinates of points, or of their projections."""
        return (x - self.origin) @ self.axes.T / self.widths
