"""Where a crowd has gathered: places that hold a good part of all tokens."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array

# A place holds the part SHARE of all tokens or more, and no larger place is less than two spots wide; a picture is
# SPOTS spots wide.
SHARE, SPOTS = 0.01, 100
# Nearly nobody is around a place: of the tokens in twice its width it holds this part or more.
ALONE = 2 / 3


class Places(NamedTuple):
    """Places (m, k) of the picture, the fullest first, and how many points are there (m,)."""

    points: Array
    counts: NDArray[np.int64]


def places(points: Array, low: Array, high: Array) -> Places:
    """Return where points (n, k) have gathered in a picture that goes from low (k,) to high (k,).

    The picture is cut into small cells. A place is a block of two cells along each axis with a hundredth of all points
    in it, and two thirds of those in the block of four around it: a wide hill has no places, its density shows it.

    >>> x = np.concatenate([np.full((60, 2), 0.5), np.full((39, 2), -0.5), [[0.0, 0.0]]])
    >>> found = places(x, np.array([-1.0, -1.0]), np.array([1.0, 1.0]))
    >>> found.points, found.counts
    (array([[ 0.5,  0.5],
           [-0.5, -0.5],
           [ 0. ,  0. ]]), array([60, 39,  1]))
    """
    side = float((high - low).max()) / SPOTS or 1.0
    cell = np.clip(np.floor((points - low) / side).astype(np.int64), 0, SPOTS)
    full = np.bincount(cell @ (SPOTS + 1) ** np.arange(cell.shape[1]), minlength=(SPOTS + 1) ** cell.shape[1])
    # The first coordinate varies fastest in the code of a cell.
    counts = np.pad(full.reshape((SPOTS + 1,) * cell.shape[1]).T, 2)
    # Block j begins at the cell j - 1; around it, at the cell j - 2.
    block = _blocks(counts, 2)[(slice(1, -1),) * cell.shape[1]]
    left = np.where((block >= SHARE * len(points)) & (block >= ALONE * _blocks(counts, 4)), block, 0)
    centres, sizes = [], []
    while left.max() > 0:
        first = np.array(np.unravel_index(left.argmax(), left.shape)) - 1
        here = ((cell >= first) & (cell <= first + 1)).all(axis=1)
        centres.append(points[here].mean(axis=0))
        sizes.append(int(here.sum()))
        # Blocks that share a cell with this one tell of the same tokens.
        left[tuple(slice(max(0, j), j + 3) for j in first)] = 0
    return Places(np.array(centres).reshape(-1, points.shape[1]), np.array(sizes, dtype=np.int64))


def _blocks(counts: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Return the sums over all blocks of `width` cells along each axis."""
    for axis in range(counts.ndim):
        along = np.moveaxis(counts, axis, 0)
        last = len(along) - width + 1
        counts = np.moveaxis(np.sum([along[k : k + last] for k in range(width)], axis=0), 0, axis)
    return counts
